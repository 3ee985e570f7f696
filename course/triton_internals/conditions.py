"""`and`, `or`, `not` and `assert` of a kernel that is interpreted, as the compiler takes them.

The compiler joins values of the kernel lane by lane, and constants as Python does: what follows a
constant that decides is left out. Python by itself asks a block whether it is true.
"""

import ast
from typing import Any, Literal

from triton import language
from triton.language import tensor
from triton.runtime import interpreter

from course.type_names import AnyValue, Function


class Conditions(ast.NodeTransformer):
    """Changes the text of a kernel, which then finds the functions of `NAMES` by their names."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`a and b` becomes a choice: a condition is joined with b, and a constant as Python does.

        So b is evaluated where Python would, or the compiler.
        """
        self.generic_visit(node)
        word = "and" if isinstance(node.op, ast.And) else "or"
        joined, *others = node.values
        for number, other in enumerate(others):
            # The replay shows no name that begins so.
            name = f"__course_{node.lineno}_{node.col_offset}_{number}"
            first = ast.Name(name, ast.Load())
            kept = ast.NamedExpr(ast.Name(name, ast.Store()), joined)
            joined = ast.IfExp(
                _call(_course_is_condition, kept),
                _call(_course_joined, ast.Constant(word), first, other),
                ast.BoolOp(node.op, [first, other]),
            )
        return ast.copy_location(joined, node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        """Leaves alone what is gone through, where Python allows no name to be set."""
        node.ifs = [self.visit(condition) for condition in node.ifs]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.copy_location(_call(_course_negated, node.operand), node)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        says = node.msg or ast.Constant("")
        return ast.copy_location(ast.Expr(_call(_course_asserted, node.test, says)), node)


def _call(function: Function, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(function.__name__, ast.Load()), [*arguments], [])


def _course_is_condition(value: AnyValue) -> bool:
    """Whether a value is no constant for the compiler.

    It refuses most single numbers, as `not n`, but may know one as a constant: so they count as
    constants here, and only the compiler refuses.
    """
    return isinstance(value, tensor) and (value.type.is_block() or value.type.is_int1())


def _course_joined(word: Literal["and", "or"], first: tensor, other: AnyValue) -> Any:
    """`first and other`, or `first or other`, where first is a condition."""
    if not _course_is_condition(other):  # it decides, or it says nothing
        return other if bool(other) == (word == "or") else first
    semantic = interpreter.interpreter_semantic
    return (semantic.logical_and if word == "and" else semantic.logical_or)(first, other)


def _course_negated(value: AnyValue) -> Any:
    if _course_is_condition(value):
        return interpreter.interpreter_semantic.not_(value)
    return not value


def _course_asserted(condition: AnyValue, says: str) -> None:
    if isinstance(condition, tensor):
        language.device_assert(condition, says)
    else:
        assert condition, says


NAMES = {
    each.__name__: each
    for each in (_course_is_condition, _course_joined, _course_negated, _course_asserted)
}
