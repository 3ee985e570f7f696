"""The text of a grid, as "cdiv(n, BLOCK), batch * heads": read, and written as C.

Up to three sums, with commas between them, of whole numbers, of the kernel's integers and of what
+ - * / % ( ) and cdiv(a, b) make of these. Nothing of the text itself goes into the C.
"""

import ast
import itertools
import operator
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from course.errors import CourseError
from course.gpus.limits import MOST_GRID

from .identifiers import parameter_names
from .signature import Argument

MOST_DEEP = 50
"""Brackets within brackets."""
MOST_CHARACTERS = 400
"""So that neither Python nor a C compiler meets more brackets than it can read."""
LARGEST = 2**63 - 1


def _towards_zero(a: int, b: int) -> int:
    """a / b as C has it."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%"
}  # fmt: skip
OPERATIONS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "+": ("grid_add", operator.add),
    "-": ("grid_subtract", operator.sub),
    "*": ("grid_multiply", operator.mul),
    "/": ("grid_divide", _towards_zero),
    "%": ("grid_modulo", lambda a, b: a - b * _towards_zero(a, b)),
    "cdiv": ("grid_cdiv", lambda a, b: -(-a // b)),
}
"""Sign -> the C function that computes it, and what it computes."""


class Size(NamedTuple):
    """The number of programs along an axis, or a part of its formula."""

    text: str
    c: str
    """A C expression; a step that has no result sets `bad`."""
    value: int | None = None
    """The number, if it depends on no argument of run time."""
    problem: str = ""
    """Why the C refuses it, whatever it is called with."""

    def __str__(self) -> str:
        return self.text


class Grid(NamedTuple):
    """The number of programs along x, y and z. Prints as its text."""

    x: Size
    y: Size
    z: Size

    def __str__(self) -> str:
        return ", ".join(map(str, self))


ONE = Size("1", "1", 1)


def parse_grid(text: str, arguments: Sequence[Argument]) -> Grid:
    """The grid over a kernel's arguments. Raises CourseError naming what is wrong, and where."""
    if len(text) > MOST_CHARACTERS:
        raise CourseError(
            f"The grid has {len(text)} characters, and may have {MOST_CHARACTERS}: "
            "compute it in the caller."
        )
    sizes = _Reader(text, arguments).sizes()
    if len(sizes) > 3:
        raise CourseError(
            f"The grid has {len(sizes)} parts, and a grid has at most three: x, y, z."
        )
    return Grid(*[*sizes, ONE, ONE][:3])


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
    """Takes Python's tree of a text, node by node, for a size: other nodes are refused."""

    def __init__(self, text: str, arguments: Sequence[Argument]) -> None:
        # Python takes no space first, and a line's end only within brackets. Places stay.
        self.text = re.sub(r"\s", " ", text)
        self.indent = len(self.text) - len(self.text.lstrip())
        self.arguments = {argument.name: argument for argument in arguments}
        self.c_names = parameter_names([*self.arguments])

    def sizes(self) -> list[Size]:
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
        return [self.size(node) for node in nodes]

    def size(self, node: ast.expr) -> Size:
        match node:
            case ast.Constant(int(value)) if not isinstance(value, bool):
                if value > LARGEST:
                    self.refuse_node(node, "the number is larger than 64 bits hold")
                return _number(value)
            case ast.Name(name):
                return self.named(node, name)
            case ast.BinOp(left, sign, right) if type(sign) in SIGNS:
                return _operation(SIGNS[type(sign)], self.size(left), self.size(right))
            case ast.Call(ast.Name("cdiv"), [left, right], []):
                return _operation("cdiv", self.size(left), self.size(right))
            case ast.Call(ast.Name("cdiv"), _, []):
                self.refuse_node(node, "cdiv takes two numbers, as in cdiv(n, 128)")
            case ast.Call():
                self.refuse_node(node, ONLY_CDIV, "module")
            case ast.UnaryOp(ast.USub() | ast.UAdd()):
                self.refuse_node(node, "no sign stands before a number: write 0 - n", "negative")
        self.refuse_node(node, ONLY_SIGNS)

    def named(self, node: ast.expr, name: str) -> Size:
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
            self.refuse_node(node, "a grid is computed from integers, and this is no integer")
        c_name = self.c_names[name]
        if not (argument.type and argument.passed):
            number = _number(int(argument.value or 0))
            return number._replace(text=name, c=f"{number.c} /* {c_name} */")
        # The kernel reads whether a bool of C's, whichever number it is, is 0.
        by_type = {"u64": f"grid_unsigned({c_name}, &bad)"} | dict.fromkeys(
            ("i1", "u1"), f"({c_name} != 0)"
        )
        return Size(name, by_type.get(argument.type, c_name))

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


def _number(value: int) -> Size:
    c = str(value) if abs(value) < 2**31 else f"INT64_C({value})"
    return Size(str(value), "INT64_MIN" if value < -LARGEST else c, value)


def _operation(sign: str, left: Size, right: Size) -> Size:
    c_function, compute = OPERATIONS[sign]
    operands = f"{left}, {right}" if sign == "cdiv" else f"{left} {sign} {right}"
    text = f"cdiv({operands})" if sign == "cdiv" else f"({operands})"
    c = f"{c_function}({left.c}, {right.c}, &bad)"
    a, b, problem = left.value, right.value, ""
    if left.problem or right.problem:
        return Size(text, c, problem=left.problem or right.problem)
    if sign in ("/", "%", "cdiv") and b == 0:
        problem = "divides by 0"
    elif sign == "cdiv" and min(a or 0, b or 0) < 0:
        problem = "rounds up a negative number"
    elif a is None or b is None:
        return Size(text, c)
    elif abs(value := compute(a, b)) <= LARGEST:
        return Size(text, c, value)
    else:
        problem = "goes beyond 64 bits"
    return Size(text, c, problem=f"{problem} in {text}")


def check_launchable(grid: Grid) -> None:
    """Raise CourseError if the grid launches nothing, whatever it is called with."""
    for axis, most, size in zip("xyz", MOST_GRID, grid, strict=True):
        if size.problem:
            raise CourseError(f"The grid {size.problem}, whatever it is called with.")
        if size.value is not None and not 1 <= size.value <= most:
            raise CourseError(
                f"The grid has {size.value:,} programs along {axis}, whatever it is called with, "
                f"and must have 1 to {most:,}."
            )
