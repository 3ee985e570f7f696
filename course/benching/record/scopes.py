"""Copies of the attention kernels in which Proton's scopes stand around what a warp does.

A scope begins and ends with a read of the multiprocessor's clock by each warp. It stands around
one operation and no other scope, so a warp is in one state at a time. What lies between two scopes
has no name: the arithmetic of a loop, for example, and the rounding of P, which the compiler moves
out of any scope, next to the product that needs it.
"""

import ast
from pathlib import Path

from course import places

KERNELS = "kernels.attention.gluon"
COPIES = "scoped_kernels"
"""The package of the copies."""
FILES = ("kernel", "consumer", "small")
"""The modules of KERNELS that are copied. The copies import the others from there."""

STATES = {
    "wait_full": "wait for a tile",
    "wait_empty": "wait for a slot",
    "wait_turn": "wait for its turn",
    "copy": "start a copy",
    "warpgroup_mma": "start a product",
    "warpgroup_mma_wait": "wait for a product",
    "softmax": "softmax",
    "rescale": "rescale",
    "row_sums": "store the output",
    "store": "store the output",
    "async_store": "store the output",
    "store_wait": "store the output",
}
"""Function or method -> what a warp does in a call of it. None of them calls another one."""
CONTAINERS = {
    "scores",
    "output",
    "take",
    "take_overlapped",
    "take_and_copy",
    "copy_keys",
    "copy_first_keys",
    "start_output",
}
"""Functions that call these."""


def write_scoped_kernels(folder: Path) -> None:
    """Write the package COPIES into a folder: the attention kernels with scopes."""
    package = folder / COPIES
    package.mkdir()
    (package / "__init__.py").touch()
    for name in FILES:
        source = file_of(name).read_text()
        (package / f"{name}.py").write_text(scoped(source))


def file_of(name: str) -> Path:
    """The file of a module of KERNELS."""
    return places.content().joinpath(*KERNELS.split("."), f"{name}.py")


def scoped(source: str) -> str:
    """The source of a module with a scope around each call of STATES, importing its like.

    A call within a statement becomes a statement of its own before it, in the order in which
    Python evaluates them. Comments are lost.
    """
    tree = _Scopes().visit(ast.parse(source))
    imports = ast.parse("import triton.profiler.language as proton").body
    tree.body[1:1] = imports  # behind the docstring
    return ast.unparse(ast.fix_missing_locations(tree))


class _Scopes(ast.NodeTransformer):
    """Puts scopes into the functions that the compiler sees."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.module in [f"{KERNELS}.{name}" for name in FILES]:
            node.module = node.module.replace(KERNELS, COPIES, 1)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = _scoped_block(node.body, _Lift())
        return node


class _Lift(ast.NodeTransformer):
    """Takes the calls that have a state, or contain one, out of the statements of a function."""

    def __init__(self) -> None:
        self.names = 0
        self.statements: list[ast.stmt] = []

    def apart(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statement, with the calls inside it before it, the innermost first."""
        self.statements = []
        if isinstance(statement, ast.Assign | ast.Expr) and isinstance(statement.value, ast.Call):
            self.generic_visit(statement.value)
        else:
            self.generic_visit(statement)
        return [*self.statements, statement]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if _name(node) not in {*STATES, *CONTAINERS}:
            return node
        name = f"lifted_{self.names}"
        self.names += 1
        self.statements.append(ast.Assign([ast.Name(name, ast.Store())], node))
        return ast.Name(name, ast.Load())


def _scoped_block(statements: list[ast.stmt], lift: _Lift) -> list[ast.stmt]:
    """The statements with scopes. Where only nameless ones stand between two scopes of one state,
    it is one scope."""
    block: list[ast.stmt] = []
    state, end = "", 0  # the last scope, and where in `block` it ends
    for statement in statements:
        if isinstance(statement, ast.If | ast.For):
            statement.body = _scoped_block(statement.body, lift)
            statement.orelse = _scoped_block(statement.orelse, lift)
            block.append(statement)
            state = ""
            continue
        for part in lift.apart(statement):
            call = part.value if isinstance(part, ast.Assign | ast.Expr) else None
            name = _name(call)
            if name in CONTAINERS:  # it has scopes of its own
                state = ""
            if name not in STATES:
                block.append(part)
                continue
            if STATES[name] == state:
                del block[end]
            else:
                block.append(_mark("enter_scope", STATES[name]))
            state, end = STATES[name], len(block) + 1
            block += [part, _mark("exit_scope", state)]
    return block


def _name(node: ast.expr | None) -> str:
    """The name of the function or method that is called; "" where it is no call."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _mark(function: str, state: str) -> ast.stmt:
    return ast.parse(f"proton.{function}({state!r})").body[0]
