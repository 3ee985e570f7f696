"""What is likely to be wrong and shows in a kernel's text alone: neither the compiler nor the
interpreter names it."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from course.isolate.function_source import Definition

PROMISES = ("multiple_of", "max_contiguous", "max_constancy")
OF_TWO = {"tl.max": "tl.maximum", "tl.min": "tl.minimum"}
"""Reductions, and the function that takes the same of two blocks, lane by lane."""

CHAINED = (
    "{} binds before <, so this compares {} with ({}), and that with {}: "
    "put each comparison in parentheses."
)
OF_A_PARAMETER = (
    "A promise of the parameter {name} is lost: the compiler keeps a promise with the operation "
    "that computes a value, and none computes a parameter. Promise it of what you compute from "
    "{name}."
)
NOT_KEPT = (
    "What {call} returns is thrown away, and the promise with it: give it a name, and compute with "
    "that."
)
TWO_BLOCKS = (
    "{reduction} reduces one block, along the axis that comes second: for two blocks, lane by "
    "lane, take {of_two}."
)
CONDITION_FIRST = "tl.where takes the condition first: write {call}."
STORED_TWICE = (
    "{atomic} has stored already, and gives back what was there before, which tl.store puts back: "
    "leave out tl.store."
)

Slip = tuple[ast.expr, str, str]
"""Where a slip stands, its kind, and a sentence about it."""


class Advice(NamedTuple):
    """What to look at in an answer that is not right."""

    kind: str
    notes: tuple[str, str]
    """The slip's line, and a sentence."""


def advice_on(definitions: tuple[Definition, ...]) -> Iterator[Advice]:
    """What to look at in an answer that is not right, slip by slip."""
    for definition in definitions:
        if not definition.text.startswith("@"):
            continue  # slips of kernels alone
        (function,) = ast.parse(definition.text).body
        assert isinstance(function, ast.FunctionDef)
        lines = definition.text.split("\n")
        for node, kind, sentence in (
            *_chained(function), *_lost_promises(function), *_reductions_of_two(function),
            *_stored_twice(function), *_condition_last(function),
        ):  # fmt: skip
            number, text = definition.line + node.lineno - 1, lines[node.lineno - 1].strip()
            yield Advice(kind, (f"Line {number} of {definition.place}:  {text}", sentence))


def _chained(function: ast.FunctionDef) -> Iterator[Slip]:
    """Comparisons such as `rows < m & cols < n`."""
    for node in ast.walk(function):
        match node:
            case ast.Compare(
                left=first,
                comparators=[ast.BinOp(op=ast.BitAnd() | ast.BitOr() as op) as between, *_, last],
            ):
                sign = "&" if isinstance(op, ast.BitAnd) else "|"
                parts = [ast.unparse(part) for part in (first, between, last)]
                yield node, "chained", CHAINED.format(sign, *parts)


def _lost_promises(function: ast.FunctionDef) -> Iterator[Slip]:
    """Promises that reach no operation: made of a parameter, or of a value that is not kept."""
    parameters = {argument.arg for argument in function.args.args}
    thrown_away = {node.value for node in ast.walk(function) if isinstance(node, ast.Expr)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") not in PROMISES:
            continue
        of = node.args[0] if node.args else None
        if isinstance(of, ast.Name) and of.id in parameters:
            yield node, "promise of a parameter", OF_A_PARAMETER.format(name=of.id)
        elif node in thrown_away and of is not None and not isinstance(of, ast.Name):
            yield node, "promise not kept", NOT_KEPT.format(call=ast.unparse(node.func))


def _reductions_of_two(function: ast.FunctionDef) -> Iterator[Slip]:
    """Calls such as `tl.max(m, new)`, whose second argument is a value that is computed."""
    computed = {
        name.id
        for node in ast.walk(function)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign))
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        called, second = ast.unparse(node.func), node.args[1]
        is_value = isinstance(second, ast.Call) or ast.unparse(second) in computed
        if called in OF_TWO and is_value:
            text = TWO_BLOCKS.format(reduction=called, of_two=OF_TWO[called])
            yield node, "reduction of two", text


def _stored_twice(function: ast.FunctionDef) -> Iterator[Slip]:
    """Stores such as `tl.store(total_ptr, tl.atomic_add(total_ptr, part))`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.store":
            for value in (each for each in node.args[1:] if isinstance(each, ast.Call)):
                if (called := ast.unparse(value.func)).startswith("tl.atomic_"):
                    yield node, "stored twice", STORED_TWICE.format(atomic=called)


def _condition_last(function: ast.FunctionDef) -> Iterator[Slip]:
    """Choices such as `tl.where(1.0, 0.0, x > limit)`."""
    for node in ast.walk(function):
        match node:
            case ast.Call(args=[this, that, ast.Compare() as last]) if ast.unparse(
                node.func
            ) == "tl.where" and not isinstance(this, ast.Compare):
                turned = ast.unparse(ast.Call(node.func, [last, this, that], []))
                yield node, "condition last", CONDITION_FIRST.format(call=turned)
