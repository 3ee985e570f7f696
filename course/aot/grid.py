"""The text of a grid, as "cdiv(n, BLOCK), batch * heads": read into a tree, and written as C.

Up to three sums, with commas between them, of whole numbers, of the kernel's integers and of what
+ - * / % ( ) and cdiv(a, b) make of these. Nothing of the text itself goes into the C.
"""

import ast
import itertools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from course.errors import CourseError
from course.gpus.limits import MOST_GRID

from .signature import Argument

MOST_DEEP = 50
"""Brackets within brackets."""
MOST_CHARACTERS = 400
"""So that neither Python nor a C compiler meets more brackets than it can read."""
LARGEST = 2**63 - 1
SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%"
}  # fmt: skip
FUNCTIONS = {
    "+": "grid_add", "-": "grid_subtract", "*": "grid_multiply",
    "/": "grid_divide", "%": "grid_modulo", "cdiv": "grid_cdiv",
}  # fmt: skip
"""Sign -> the C function that computes it."""
UNSIGNED = "grid_unsigned"
"""The C function that 64 bits without a sign go through."""


class Number(msgspec.Struct, frozen=True, tag=True):
    value: int
    name: str = ""
    """The constant that it comes from."""


class Name(msgspec.Struct, frozen=True, tag=True):
    """An argument of run time."""

    name: str
    scalar: str
    """Triton's name of its type."""


class Operation(msgspec.Struct, frozen=True, tag=True):
    sign: str
    """+ - * / % or cdiv, which divides and rounds up."""
    left: "Tree"
    right: "Tree"


Tree = Number | Name | Operation


@dataclass(frozen=True)
class Grid:
    """The number of programs along x, y and z. Prints as its text."""

    sizes: tuple[Tree, Tree, Tree]

    def c(self, names: Mapping[str, str]) -> tuple[str, str, str]:
        """Three C expressions; a step that has no result sets `bad`.

        names: argument -> its name in C.
        """
        x, y, z = (_c(size, names) for size in self.sizes)
        return x, y, z

    def __str__(self) -> str:
        return ", ".join(_text(size) for size in self.sizes)


def parse_grid(text: str, arguments: Sequence[Argument]) -> Grid:
    """The grid over a kernel's arguments. Raises CourseError naming what is wrong, and where."""
    if len(text) > MOST_CHARACTERS:
        raise CourseError(
            f"The grid has {len(text)} characters, and may have {MOST_CHARACTERS}: "
            "compute it in the caller."
        )
    sizes = _Reader(text, {argument.name: argument for argument in arguments}).sizes()
    if len(sizes) > 3:
        raise CourseError(
            f"The grid has {len(sizes)} parts, and a grid has at most three: x, y, z."
        )
    x, y, z = (*sizes, Number(1), Number(1))[:3]
    return Grid((x, y, z))


FOREIGN = re.compile(
    r"(?P<module>[^\W\d]\w*)(?=\s*\.)|(?<=/)(?P<floor>/)|(?<=[*/])(?P<power>[*/])"
    r"|\b[0-9]+(?P<letters>[^\W0-9]\w*)|(?P<sign>[^\w\s+\-*/%(),])"
)
"""What a grid does not have, though Python may read it."""
ONLY_CDIV = "cdiv, as in cdiv(n, 128), is the only function"
ONLY_SIGNS = "only + - * / % ( ) and commas stand between numbers and names"
EXPECTED = "a number, a name or a bracket was expected"
REASONS = {"module": ONLY_CDIV, "floor": "write / alone, which rounds down here"}


class _Reader:
    """Takes Python's tree of a text, node by node, for a grid's: other nodes are refused."""

    def __init__(self, text: str, arguments: Mapping[str, Argument]) -> None:
        # Python takes no space first, and a line's end only within brackets. Places stay.
        self.text, self.arguments = re.sub(r"\s", " ", text), arguments
        self.indent = len(self.text) - len(self.text.lstrip())

    def sizes(self) -> list[Tree]:
        if foreign := FOREIGN.search(self.text):
            kind = str(foreign.lastgroup)
            self.refuse(foreign.start(kind), REASONS.get(kind, ONLY_SIGNS), kind)
        depths = itertools.accumulate({"(": 1, ")": -1}.get(sign, 0) for sign in self.text)
        if (place := next((i for i, depth in enumerate(depths) if depth > MOST_DEEP), -1)) >= 0:
            self.refuse(place, f"there are more than {MOST_DEEP} brackets within one another")
        try:
            root = ast.parse(self.text.lstrip(), mode="eval").body
        except SyntaxError as error:
            self.refuse_syntax(error)
        except (MemoryError, RecursionError, ValueError):
            self.refuse(self.indent, "Python cannot read it: compute it in the caller")
        nodes = root.elts if isinstance(root, ast.Tuple) else [root]
        if not nodes or self.text.rstrip().endswith(","):
            self.refuse(len(self.text), EXPECTED)
        return [self.tree(node) for node in nodes]

    def tree(self, node: ast.expr) -> Tree:
        match node:
            case ast.Constant(int(value)) if not isinstance(value, bool):
                if value > LARGEST:
                    self.refuse_node(node, "the number is larger than 64 bits hold")
                return Number(value)
            case ast.Name(name):
                return self.named(node, name)
            case ast.BinOp(left, sign, right) if type(sign) in SIGNS:
                return Operation(SIGNS[type(sign)], self.tree(left), self.tree(right))
            case ast.Call(ast.Name("cdiv"), [left, right], []):
                return Operation("cdiv", self.tree(left), self.tree(right))
            case ast.Call(ast.Name("cdiv"), _, []):
                self.refuse_node(node, "cdiv takes two numbers, as in cdiv(n, 128)")
            case ast.Call():
                self.refuse_node(node, ONLY_CDIV, "module")
            case ast.UnaryOp(ast.USub() | ast.UAdd()):
                self.refuse_node(node, "no sign stands before a number: write 0 - n", "negative")
        self.refuse_node(node, ONLY_SIGNS)

    def named(self, node: ast.expr, name: str) -> Tree:
        argument = self.arguments.get(name)
        if argument is None and name == "cdiv":
            self.refuse_node(node, "'(' was expected, as in cdiv(n, 128)")
        if argument is None:
            integers = [each.name for each in self.arguments.values() if _integer(each)]
            integers.sort(key=lambda integer: "stride" in integer)  # a grid rarely needs those
            known = f"its integers are {', '.join(integers) or 'none'}"
            why = f"the kernel has no argument of that name; {known}"
            self.refuse_node(node, why, "unknown name")
        if not _integer(argument):
            self.refuse_node(node, "a grid is computed from integers, and this argument is none")
        if argument.type and argument.passed:
            return Name(name, argument.type)
        return Number(int(argument.value or 0), name)

    def refuse_syntax(self, error: SyntaxError) -> NoReturn:
        if "was never closed" in error.msg:
            self.refuse(len(self.text), "')' was expected")
        if not error.offset:  # Python's own for the end
            self.refuse(len(self.text), EXPECTED)
        self.refuse(self.indent + error.offset - 1, ONLY_SIGNS)

    def refuse_node(self, node: ast.expr, why: str, kind: str = "") -> NoReturn:
        before = self.text.lstrip().encode()[: node.col_offset]  # Python counts in UTF-8
        self.refuse(self.indent + len(before.decode()), why, kind)

    def refuse(self, place: int, why: str, kind: str = "") -> NoReturn:
        token = re.compile(r"\w+|.").match(self.text, place)
        what = f"{token[0][:40]!r} at character {place + 1}" if token else "the end"
        raise CourseError(f"The grid is not understood at {what}: {why}.", kind=kind)


def _integer(argument: Argument) -> bool:
    if argument.constant:
        return isinstance(argument.value, int)
    return argument.scalar.integer


def check_launchable(grid: Grid) -> None:
    """Raise CourseError if the grid launches nothing, whatever it is called with."""
    for axis, most, size in zip("xyz", MOST_GRID, grid.sizes, strict=True):
        known = _known(size)
        if known is not None and not 1 <= known <= most:
            raise CourseError(
                f"The grid has {known:,} programs along {axis}, whatever it is called with, "
                f"and must have 1 to {most:,}."
            )


def _known(tree: Tree) -> int | None:
    """Its value, if it depends on no run-time argument.

    Raises CourseError for a step that the C refuses each time.
    """
    if isinstance(tree, Number):
        return tree.value
    if isinstance(tree, Name):
        return None
    a, b = _known(tree.left), _known(tree.right)
    value = None
    if tree.sign in ("/", "%", "cdiv") and b == 0:
        problem = "divides by 0"
    elif tree.sign == "cdiv" and min(a or 0, b or 0) < 0:
        problem = "rounds up a negative number"
    elif a is None or b is None or abs(value := KNOWN[tree.sign](a, b)) <= LARGEST:
        return value
    else:
        problem = "goes beyond 64 bits"
    raise CourseError(f"The grid {problem} in {_text(tree)}, whatever it is called with.")


def _towards_zero(a: int, b: int) -> int:
    """a / b as C has it."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


KNOWN: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _towards_zero,
    "%": lambda a, b: a - b * _towards_zero(a, b),
    "cdiv": lambda a, b: -(-a // b),
}


def _c(tree: Tree, names: Mapping[str, str]) -> str:
    match tree:
        case Number(value, name):
            number = str(value) if abs(value) < 2**31 else f"INT64_C({value})"
            if value < -LARGEST:
                number = "INT64_MIN"
            return f"{number} /* {names[name]} */" if name else number
        case Name(name, "u64"):
            return f"{UNSIGNED}({names[name]}, &bad)"
        case Name(name, "i1" | "u1"):  # the kernel reads whether C's number, whichever, is 0
            return f"({names[name]} != 0)"
        case Name(name):
            return names[name]
        case Operation(sign, left, right):
            return f"{FUNCTIONS[sign]}({_c(left, names)}, {_c(right, names)}, &bad)"


def _text(tree: Tree) -> str:
    match tree:
        case Number(value, name):
            return name or str(value)
        case Name(name):
            return name
        case Operation("cdiv", left, right):
            return f"cdiv({_text(left)}, {_text(right)})"
        case Operation(sign, left, right):
            return f"({_text(left)} {sign} {_text(right)})"
