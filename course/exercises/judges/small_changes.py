"""Small changes of a function's text, each of one place: what may have been meant there.

They undo a slip in one operator, argument, name, number or order. Making such changes is known from
mutation analysis, which finds out whether tests notice them (DeMillo, Lipton and Sayward, "Hints on
Test Data Selection", 1978). Here one is looked for that makes a wrong text right.
"""

import ast
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

OTHER_OPERATORS = {
    "+": ("-", "*"), "-": ("+",), "*": ("/", "+", "//"), "/": ("*", "//", "-"),
    "//": ("%", "*", "/"), "%": ("//",), "&": ("|",), "|": ("&",),
    "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="),
    "==": ("!=",), "!=": ("==",),
    "+=": ("=", "-="), "-=": ("+=", "="), "*=": ("+=",),
}  # fmt: skip
"""operator -> those that may have been meant"""
OPERATOR = re.compile(r"(\*\*|//|<<|>>|[-+*/%&|^@<>=!])=?|is not|is|not in|in")
ONE_WAY = ("-", "/", "//", "%")
"""Operators whose operands cannot change places."""
OTHER_NAMES = {
    "max": ("min", "sum"), "min": ("max",), "maximum": ("minimum",), "minimum": ("maximum",),
    "exp": ("exp2",), "exp2": ("exp",), "log": ("log2",), "log2": ("log",), "sum": ("max",),
    "sqrt": ("rsqrt",), "rsqrt": ("sqrt",), "argmax": ("argmin",), "argmin": ("argmax",),
    "num_programs": ("program_id",), "program_id": ("num_programs",),
    "float16": ("float32",), "bfloat16": ("float32",), "int32": ("float32", "int64"),
}  # fmt: skip
"""a name of triton.language -> those that may have been meant"""
ALONG_AN_AXIS = ("program_id", "num_programs", "sum", "max", "min", "argmax", "argmin", "cumsum")
TO_AND_FRO = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "trans", "abs", "to")
"""Calls that may be one too many."""
OTHER_TURN = {"[:, None]": "[None, :]", "[None, :]": "[:, None]"}
POINTERS = ("_ptr", "_ptrs", "_desc")
MOST_APART = 2
"""How far apart arguments are that are exchanged, where there are many."""

LINES = (ast.Assign, ast.AugAssign, ast.Expr)
"""Statements that may have been meant in another order."""
Place = ast.AST | tuple[int, int]
"""A node, or the first and the next byte of a text."""


class Change(NamedTuple):
    """A function's text with one small change. Sorted, the likeliest come first."""

    rank: int
    """How far-fetched it is, from 0."""
    line: int
    """Where it is: a line of the text, from 1."""
    look_at: str
    """What it changes, as it stood."""
    text: str
    """The whole text, changed."""
    lacks: str = ""
    """What it adds, a "mask"."""


class _Edit(NamedTuple):
    rank: int
    at: ast.expr | ast.stmt
    replaced: tuple[tuple[Place, str], ...]
    lacks: str = ""
    """What is added to it."""


def small_changes(text: str) -> list[Change]:
    """The small changes of a function's text, the likeliest first. All of them can be parsed."""
    return sorted(set(_Changes(text).all()))


class _Changes:
    def __init__(self, text: str) -> None:
        self.data = text.encode()
        lengths = (len(line) + 1 for line in self.data.split(b"\n"))
        self.line_starts = [0, *itertools.accumulate(lengths)]
        function = ast.parse(text).body[0]
        assert isinstance(function, ast.FunctionDef)
        self.body = function.body
        self.nodes = [each for statement in function.body for each in ast.walk(statement)]
        self.around = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self.known_from = {
            each.arg: 0 for each in ast.walk(function.args) if isinstance(each, ast.arg)
        }
        self.parameters = set(self.known_from)
        keywords = (each for each in self.nodes if isinstance(each, ast.keyword))
        masks = (self._text(each.value) for each in keywords if each.arg == "mask")
        self.masks = list(dict.fromkeys(masks))
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.known_from.setdefault(node.id, node.lineno)

    def all(self) -> Iterator[Change]:
        for edits in (self._stored(), self._order(), *map(self._edits, self.nodes)):
            for edit in edits:
                if (changed := self._changed(edit)) is not None:
                    look_at = " ".join(self._text(edit.at).split())
                    look_at += f", which has no {edit.lacks}," if edit.lacks else ""
                    yield Change(edit.rank, edit.at.lineno, look_at, changed, edit.lacks)

    def _edits(self, node: ast.AST) -> Iterator[_Edit]:
        if isinstance(node, ast.BinOp):
            yield from self._operator(node, node.left, node.right)
            yield from self._operands(node)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._operator(node, node.left, node.comparators[0])
        elif isinstance(node, ast.AugAssign):
            yield from self._operator(node, node.target, node.value)
        elif isinstance(node, ast.Subscript):
            yield from self._turned(node)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
            yield from self._masked(node)
            yield from self._moved_through(node)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node)
        elif isinstance(node, ast.Name):
            yield from self._name(node)
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)
        elif isinstance(node, ast.List) and len(node.elts) == 2:
            yield from self._summand_moved(node)
        elif isinstance(node, ast.UnaryOp):
            yield _Edit(0, node, ((node, f"({self._text(node.operand)})"),))
            if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
                yield _Edit(1, node, ((node, '-float("inf")'),))
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
            yield from self._statement(node)

    def _changed(self, edit: _Edit) -> str | None:
        data = self.data
        for place, new in sorted(edit.replaced, key=lambda each: self._span(each[0]), reverse=True):
            first, end = self._span(place)
            data = data[:first] + new.encode() + data[end:]
        try:
            ast.parse(data)
        except SyntaxError:
            return None
        return data.decode()

    def _span(self, place: Place) -> tuple[int, int]:
        if isinstance(place, tuple):
            return place
        assert isinstance(place, ast.expr | ast.stmt | ast.keyword)
        assert place.end_lineno is not None and place.end_col_offset is not None
        first = self.line_starts[place.lineno - 1] + place.col_offset
        return first, self.line_starts[place.end_lineno - 1] + place.end_col_offset

    def _text(self, place: Place) -> str:
        first, end = self._span(place)
        return self.data[first:end].decode()

    def _sign(self, left: ast.AST, right: ast.AST) -> tuple[int, int]:
        """Where the operator between two operands is."""
        first, end = self._span(left)[1], self._span(right)[0]
        found = OPERATOR.search(self.data[first:end].decode())
        assert found is not None
        return first + found.start(), first + found.end()

    def _sides(self, node: ast.BinOp) -> tuple[Place, Place]:
        """Both operands, with the parentheses around them."""
        first, end = self._sign(node.left, node.right)
        whole = self._span(node)
        left, right = self.data[whole[0] : first], self.data[end : whole[1]]
        return (
            (whole[0], whole[0] + len(left.rstrip())),
            (whole[1] - len(right.lstrip()), whole[1]),
        )

    def _operator(
        self, node: ast.expr | ast.stmt, left: ast.AST, right: ast.AST
    ) -> Iterator[_Edit]:
        sign = self._sign(left, right)
        for other in OTHER_OPERATORS.get(self._text(sign), ()):
            yield _Edit(0, node, ((sign, other),))

    def _operands(self, node: ast.BinOp) -> Iterator[_Edit]:
        """Exchanged, or one of them alone, or grouped otherwise."""
        (left, right), sign = self._sides(node), self._text(self._sign(node.left, node.right))
        if sign in ONE_WAY:
            yield _Edit(0, node, ((left, self._text(right)), (right, self._text(left))))
        for side in (left, right):
            yield _Edit(1, node, ((node, f"({self._text(side)})"),))
        if isinstance(node.left, ast.BinOp):
            (first, second), inner = self._sides(node.left), self._sign_of(node.left)
            yield from self._grouped(node, (first, inner, second, sign, right), right)
        if isinstance(node.right, ast.BinOp):
            (first, second), inner = self._sides(node.right), self._sign_of(node.right)
            yield from self._grouped(node, (left, sign, first, inner, second), left)
        if isinstance(node.left, ast.Call) and node.left.args:  # f(a) - b becomes f(a - b)
            first = node.left.args[0]
            inside = f"{self._text(first)} {sign} {self._text(right)}"
            behind = self._span(node.left)[1], self._span(node)[1]
            yield _Edit(1, node, ((first, inside), (behind, "")))

    def _grouped(
        self, node: ast.BinOp, parts: tuple[Place, str, Place, str, Place], alone: Place
    ) -> Iterator[_Edit]:
        """Three operands with other parentheses, or the lone one exchanged with another."""
        a, b, c = map(self._text, parts[::2])
        one, other = parts[1], parts[3]
        for new in (
            f"({a} {one} {b}) {other} {c}",
            f"{a} {one} ({b} {other} {c})",
            f"({a} {other} {c}) {one} {b}",
        ):
            yield _Edit(1, node, ((node, f"({new})"),))
        for place in parts[::2]:
            if place != alone:
                yield _Edit(1, node, ((alone, self._text(place)), (place, self._text(alone))))

    def _sign_of(self, node: ast.BinOp) -> str:
        return self._text(self._sign(node.left, node.right))

    def _index(self, node: ast.Subscript) -> tuple[int, int]:
        return self._span(node.value)[1], self._span(node)[1]

    def _turned(self, node: ast.Subscript) -> Iterator[_Edit]:
        index = self._index(node)
        if other := OTHER_TURN.get(self._text(index)):
            yield _Edit(0, node, ((index, other),))
            yield _Edit(1, node, ((index, ""),))

    def _call(self, node: ast.Call) -> Iterator[_Edit]:
        """Arguments exchanged or left out, or the call itself left out."""
        pairs = list(itertools.combinations(range(len(node.args)), 2))
        for first, second in pairs:
            if second - first > MOST_APART and len(node.args) > 4:
                continue
            one, other = node.args[first], node.args[second]
            if self._text(one) != self._text(other):
                rank = 0 if len(pairs) < 4 else second - first
                yield _Edit(rank, node, ((one, self._text(other)), (other, self._text(one))))
        for keyword in node.keywords:
            before = self.data[: self._span(keyword)[0]].rstrip()
            if before.endswith(b",") and keyword.arg:
                yield _Edit(1, node, (((len(before) - 1, self._span(keyword)[1]), ""),))
        if isinstance(node.func, ast.Attribute) and node.func.attr in TO_AND_FRO:
            inside = node.func.value if node.func.attr == "to" else (*node.args, node.func.value)[0]
            yield _Edit(1, node, ((node, f"({self._text(inside)})"),))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "load":
            yield _Edit(1, node, ((node, f"{self._text(node)}.T"),))

    def _masked(self, node: ast.Call) -> Iterator[_Edit]:
        """With a mask that another call has."""
        is_access = getattr(node.func, "attr", "") in ("load", "store", "atomic_add")
        if is_access and node.args and all(each.arg != "mask" for each in node.keywords):
            end = self._span((*node.args, *node.keywords)[-1])[1]
            for mask in self.masks:
                yield _Edit(0, node, (((end, end), f", mask={mask}"),), lacks="mask")

    def _moved_through(self, node: ast.Call) -> Iterator[_Edit]:
        """f(a - b) becomes f(a) - b and a - f(b), and f(g(a)) becomes g(f(a))."""
        if not node.args:
            return
        called, inside = self._text(node.func), node.args[0]
        rest = self._text((self._span(inside)[1], self._span(node)[1]))
        if isinstance(inside, ast.BinOp):
            (one, other), sign = map(self._text, self._sides(inside)), self._sign_of(inside)
            yield _Edit(1, node, ((node, f"({called}({one}{rest} {sign} {other})"),))
            yield _Edit(1, node, ((node, f"({one} {sign} {called}({other}{rest})"),))
        if isinstance(inside, ast.Call) and inside.args:
            innermost = inside.args[0]
            inner_rest = self._text((self._span(innermost)[1], self._span(inside)[1]))
            new = f"{self._text(inside.func)}({called}({self._text(innermost)}{rest}{inner_rest}"
            yield _Edit(1, node, ((node, new),))

    def _attribute(self, node: ast.Attribute) -> Iterator[_Edit]:
        name = self._span(node.value)[1] + 1, self._span(node)[1]
        for other in OTHER_NAMES.get(node.attr, ()):
            yield _Edit(0, node, ((name, other),))
        if node.attr == "T":
            yield _Edit(0, node, ((node, self._text(node.value)),))

    def _name(self, node: ast.Name) -> Iterator[_Edit]:
        around = self.around.get(node)
        is_called = isinstance(around, ast.Call) and around.func is node
        if isinstance(node.ctx, ast.Load) and not is_called and node.id in self.known_from:
            for other, line in self.known_from.items():
                if line < node.lineno and self._alike(node.id, other):
                    rank = 2 if self._kind(other) == "computed" else 1  # there are many of these
                    yield _Edit(rank, self._shown_with(node), ((node, other),))

    def _constant(self, node: ast.Constant) -> Iterator[_Edit]:
        around, value = self.around.get(node), node.value
        others: list[str] = []
        rank = 1
        if isinstance(value, bool):
            others = [str(not value), *(name for name in self.parameters if name.isupper())]
        elif isinstance(value, int):
            call = self.around.get(around) if isinstance(around, ast.keyword) else around
            function = getattr(call, "func", None)
            along = getattr(function, "attr", "") in ALONG_AN_AXIS
            numbers = {0, 1, 2} if along else {value + 1, value - 1, value * 2, value // 2}
            others = [str(number) for number in sorted(numbers - {value}) if number >= 0]
            if value > 1:
                others += [name for name in self.parameters if self._kind(name) == "given"]
            rank = 0 if along else 1
        elif isinstance(value, float):
            others = [f"-{self._text(node)}", repr(1 / value)] if value else ['-float("inf")']
        elif value == "inf" and isinstance(around, ast.Call):
            yield _Edit(0, around, ((around, f"-{self._text(around)}"),))
        for other in others:
            yield _Edit(rank, self._shown_with(node), ((node, other),))

    def _summand_moved(self, at: ast.List) -> Iterator[_Edit]:
        """[a + b, c] becomes [a, c + b], and the other way round."""
        one, other = at.elts
        for fuller, barer in ((one, other), (other, one)):
            if isinstance(fuller, ast.BinOp) and isinstance(fuller.op, ast.Add):
                (kept, moved), bare = map(self._text, self._sides(fuller)), self._text(barer)
                yield _Edit(1, at, ((fuller, kept), (barer, f"{bare} + {moved}")))

    def _stored(self) -> Iterator[_Edit]:
        """What two stores store, exchanged."""
        calls = (each for each in self.nodes if isinstance(each, ast.Call) and len(each.args) > 1)
        stores = [each for each in calls if getattr(each.func, "attr", "") == "store"]
        for first, second in itertools.combinations(stores, 2):
            one, other = first.args[1], second.args[1]
            yield _Edit(1, first, ((one, self._text(other)), (other, self._text(one))))

    def _order(self) -> Iterator[_Edit]:
        """Two lines that follow one another, exchanged."""
        for body in (self.body, *(getattr(each, "body", None) for each in self.nodes)):
            for first, second in itertools.pairwise(body if isinstance(body, list) else ()):
                lines = isinstance(first, LINES) and isinstance(second, LINES)
                if lines and first.lineno < second.lineno:
                    one, other = self._text(first), self._text(second)
                    yield _Edit(2, first, ((first, other), (second, one)))

    def _statement(self, node: ast.Assign | ast.AugAssign | ast.Expr) -> Iterator[_Edit]:
        """Two of its names or turns exchanged, or its result added up or compared with another."""
        indexed = [each for each in ast.walk(node.value) if isinstance(each, ast.Subscript)]
        for before, after in itertools.combinations(map(self._index, indexed), 2):
            if OTHER_TURN.get(self._text(before)) == self._text(after):
                turns = (before, self._text(after)), (after, self._text(before))
                yield _Edit(1, node, turns)
        names = [each for each in ast.walk(node.value) if isinstance(each, ast.Name)]
        for one, other in itertools.combinations(names, 2):
            if {one.id, other.id} <= set(self.known_from) and self._alike(one.id, other.id):
                yield _Edit(1, node, ((one, other.id), (other, one.id)))
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and self.known_from[target.id] < node.lineno:
            first, end = self._span(target)[1], self._span(node.value)[0]
            equals = first + self.data[first:end].index(b"=")
            yield _Edit(0, node, (((equals, equals + 1), "+="),))
        called = getattr(getattr(node.value, "func", None), "attr", "")
        if called in ("max", "min"):
            for name, line in self.known_from.items():
                if line < node.lineno and self._kind(name) == "computed":
                    text = f"tl.{called}imum({name}, {self._text(node.value)})"
                    yield _Edit(1, node, ((node.value, text),))

    def _shown_with(self, node: ast.expr) -> ast.expr | ast.stmt:
        """The smallest expression that shows where a name or number stands."""
        around = self.around.get(node)
        while isinstance(around, ast.Starred | ast.keyword | ast.Tuple | ast.List):
            around = self.around.get(around)
        return around if isinstance(around, ast.expr | ast.stmt) else node

    def _alike(self, one: str, other: str) -> bool:
        """Whether names may be mistaken for each other: both of pointers, of numbers that are
        given, or of what is computed from them."""
        return one != other and self._kind(one) == self._kind(other)

    def _kind(self, name: str) -> str:
        if name.endswith(POINTERS):
            return "pointer"
        is_given = name in self.parameters or name.isupper() or name.startswith("n_")
        return "given" if is_given else "computed"
