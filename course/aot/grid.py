"""The text of a grid, as "cdiv(n, BLOCK), batch * heads": read into a tree, and written as C. Nothing of it is pasted.

grid     = sum {"," sum}            at most three
sum      = product {("+" | "-") product}
product  = atom {("*" | "/" | "%") atom}
atom     = number | name | "(" sum ")" | "cdiv" "(" sum "," sum ")"
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from course.errors import CourseError

from .signature import Argument

MOST_DEEP = 50
"""Brackets within brackets."""
MOST_CHARACTERS = 400
"""So that neither this reader nor a C compiler meets more brackets than it can."""
LARGEST = 2**63 - 1
MOST_PROGRAMS = (2**31 - 1, 2**16 - 1, 2**16 - 1)
"""Along x, y and z."""
TOKEN = re.compile(r"\s*(?:(?P<number>[0-9]+)|(?P<name>[^\W\d]\w*)|(?P<sign>[-+*/%(),]))")
FUNCTIONS = {
    "+": "grid_add", "-": "grid_subtract", "*": "grid_multiply", "/": "grid_divide", "%": "grid_modulo", "cdiv": "grid_cdiv"
}  # fmt: skip
UNSIGNED = "grid_unsigned"
"""What 64 bits without a sign go through."""


@dataclass(frozen=True)
class Number:
    value: int
    name: str = ""
    """Of the constant that it comes from."""


@dataclass(frozen=True)
class Name:
    name: str
    """Of an argument that is given at run time."""
    type: str


@dataclass(frozen=True)
class Operation:
    sign: str
    """Or "cdiv": divided, and rounded up."""
    left: "Tree"
    right: "Tree"


Tree = Number | Name | Operation
Rule = Callable[[int], Tree]


@dataclass(frozen=True)
class Grid:
    """The number of programs along x, y and z. Prints as its text."""

    sizes: tuple[Tree, Tree, Tree]

    def c(self, names: Mapping[str, str]) -> tuple[str, str, str]:
        """Three C expressions; a step that has no result sets `bad`. names: an argument's name in C, by its own."""
        x, y, z = (_c(each, names) for each in self.sizes)
        return x, y, z

    @property
    def functions(self) -> frozenset[str]:
        """The C functions that the expressions call."""
        return frozenset().union(*(_functions(each) for each in self.sizes))

    def __str__(self) -> str:
        return ", ".join(_text(each) for each in self.sizes)


def parse_grid(text: str, arguments: Sequence[Argument]) -> Grid:
    """The grid over a kernel's arguments. Raises CourseError naming what is wrong and where it stands."""
    reader = _Reader(text, {each.name: each for each in arguments})
    sizes = [reader.sum(0)]
    while reader.sign == ",":
        reader.advance()
        sizes.append(reader.sum(0))
    if reader.token:
        raise reader.error("a comma or an operator was expected")
    if len(sizes) > 3:
        raise CourseError(
            f"The grid has {len(sizes)} parts, and a grid has at most three: x, y, z."
        )
    x, y, z = (*sizes, Number(1), Number(1))[:3]
    return Grid((x, y, z))


def check_launchable(grid: Grid) -> None:
    """Raise CourseError where no arguments make it a grid that launches something."""
    for axis, most, size in zip("xyz", MOST_PROGRAMS, grid.sizes, strict=True):
        known = _known(size)
        if known is not None and not 1 <= known <= most:
            raise CourseError(
                f"The grid has {known:,} programs along {axis}, whatever it is called with, and must have 1 to {most:,}."
            )


def _known(tree: Tree) -> int | None:
    """Its value, where no run-time argument takes part. Raises CourseError for a step of it that the C refuses each time."""
    match tree:
        case Number(value):
            return value
        case Operation(sign, left, right):
            a, b = _known(left), _known(right)
            if sign in ("/", "%", "cdiv") and b == 0:
                raise CourseError(
                    f"The grid divides by 0 in {_text(tree)}, whatever it is called with."
                )
            if sign == "cdiv" and min(a or 0, b or 0) < 0:
                raise CourseError(
                    f"The grid rounds up a negative number in {_text(tree)}, whatever it is called with."
                )
            if a is not None and b is not None:
                value = KNOWN[sign](a, b)
                if abs(value) > LARGEST:
                    raise CourseError(
                        f"The grid goes beyond 64 bits in {_text(tree)}, whatever it is called with."
                    )
                return value
    return None


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


class _Reader:
    """Takes a text token by token."""

    def __init__(self, text: str, arguments: Mapping[str, Argument]) -> None:
        if len(text) > MOST_CHARACTERS:
            raise CourseError(
                f"The grid has {len(text)} characters, and may have {MOST_CHARACTERS}: compute it in the caller."
            )
        self.text, self.arguments = text, arguments
        self.start = self.end = 0
        self.advance()

    def advance(self) -> None:
        """Go to the next token; "" at the end."""
        match = TOKEN.match(self.text, self.end)
        if match is None:
            self.start = self.end + len(self.text[self.end :]) - len(self.text[self.end :].lstrip())
            if self.start < len(self.text):
                self.token = self.text[self.start]
                raise self.error("it is no number, no name and none of + - * / % ( ) ,")
            self.token, self.kind = "", ""
            return
        self.kind = str(match.lastgroup)
        self.token = match[self.kind]
        self.start, self.end = match.start(self.kind), match.end()

    @property
    def sign(self) -> str:
        return self.token if self.kind == "sign" else ""

    def error(self, why: str) -> CourseError:
        what = f"{self.token[:40]!r} at character {self.start + 1}" if self.token else "the end"
        return CourseError(f"The grid is not understood at {what}: {why}.")

    def sum(self, depth: int) -> Tree:
        tree = self.product(depth)
        while self.sign in ("+", "-"):
            tree = self.operation(tree, self.product, depth)
        return tree

    def product(self, depth: int) -> Tree:
        tree = self.atom(depth)
        while self.sign in ("*", "/", "%"):
            tree = self.operation(tree, self.atom, depth)
        return tree

    def operation(self, left: Tree, right: Rule, depth: int) -> Tree:
        sign = self.sign
        self.advance()
        return Operation(sign, left, right(depth))

    def atom(self, depth: int) -> Tree:
        if depth > MOST_DEEP:
            raise self.error(f"there are more than {MOST_DEEP} brackets within one another")
        if self.kind == "number":
            if len(self.token) > len(str(LARGEST)) or int(self.token) > LARGEST:
                raise self.error("the number is larger than 64 bits hold")
            return self.taken(Number(int(self.token)))
        if self.sign == "(":
            self.advance()
            return self.closed(self.sum(depth + 1))
        if self.sign == "/" and self.text[: self.start].endswith("/"):
            raise self.error("write / alone, which rounds down here")
        if self.sign == "-":
            raise self.error("no sign stands before a number: write 0 - n")
        if self.kind != "name":
            raise self.error("a number, a name or a bracket was expected")
        if self.token == "cdiv" and (
            self.text[self.end :].lstrip().startswith("(") or "cdiv" not in self.arguments
        ):
            return self.cdiv(depth)
        return self.taken(self.named())

    def cdiv(self, depth: int) -> Tree:
        self.advance()
        self.expect("(")
        left = self.sum(depth + 1)
        self.expect(",")
        return self.closed(Operation("cdiv", left, self.sum(depth + 1)))

    def named(self) -> Tree:
        argument = self.arguments.get(self.token)
        if argument is None and re.match(r"\s*[(.]", self.text[self.end :]):
            raise self.error("cdiv, as in cdiv(n, 128), is the only function")
        if argument is None:
            integers = [name for name, each in self.arguments.items() if _integer(each)]
            raise self.error(
                f"the kernel has no argument of that name; its integers are {', '.join(integers) or 'none'}"
            )
        if not _integer(argument):
            raise self.error("a grid is computed from integers, and this argument is none")
        if argument.passed:
            assert argument.type is not None
            return Name(argument.name, argument.type.name)
        return Number(int(argument.value or 0), argument.name)

    def taken(self, tree: Tree) -> Tree:
        self.advance()
        return tree

    def closed(self, tree: Tree) -> Tree:
        self.expect(")")
        return tree

    def expect(self, sign: str) -> None:
        if self.sign != sign:
            raise self.error(f"{sign!r} was expected")
        self.advance()


def _integer(argument: Argument) -> bool:
    if argument.type is not None:
        return argument.type.integer
    return isinstance(argument.value, int)


def _c(tree: Tree, names: Mapping[str, str]) -> str:
    match tree:
        case Number(value, name):
            number = (
                str(value)
                if abs(value) < 2**31
                else "INT64_MIN"
                if value < -LARGEST
                else f"INT64_C({value})"
            )
            return f"{number} /* {names[name]} */" if name else number
        case Name(name, "u64"):
            return f"{UNSIGNED}({names[name]}, &bad)"
        case Name(
            name, "i1" | "u1"
        ):  # C has any number there, of which the kernel reads whether it is 0
            return f"({names[name]} != 0)"
        case Name(name):
            return names[name]
        case Operation(sign, left, right):
            return f"{FUNCTIONS[sign]}({_c(left, names)}, {_c(right, names)}, &bad)"


def _functions(tree: Tree) -> frozenset[str]:
    match tree:
        case Name(_, "u64"):
            return frozenset({UNSIGNED})
        case Operation(sign, left, right):
            return frozenset({FUNCTIONS[sign]}) | _functions(left) | _functions(right)
    return frozenset()


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
