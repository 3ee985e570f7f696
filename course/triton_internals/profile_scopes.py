"""Proton's scopes around calls in a Gluon kernel, put there while it is compiled."""

import ast
import contextlib
from collections.abc import Mapping
from typing import Any

from triton.compiler.code_generator import CodeGenerator

from course.type_names import AnyValue

from .patching import patched


def scoped_calls(scopes: Mapping[str, str]) -> contextlib.AbstractContextManager[None]:
    """While active, kernels are compiled with a scope of Proton's around some of their calls.

    scopes: name of the called function or method -> name of the scope. What a call computes for its
        arguments stands before its scope, and a call inside another one's scope has none.
    Where Proton does not record, the scopes come to nothing.
    """
    from triton.profiler import language as proton

    plain = CodeGenerator.call_Function
    inside = False

    def call(generator: Any, node: ast.AST, *rest: AnyValue) -> AnyValue:
        nonlocal inside
        called = getattr(node, "func", None)  # x[0] is a call as well, of x.__getitem__
        scope = scopes.get(getattr(called, "attr", getattr(called, "id", "")))
        if scope is None or inside:
            return plain(generator, node, *rest)
        proton.enter_scope(scope, _semantic=generator.semantic)
        inside = True
        try:
            return plain(generator, node, *rest)
        finally:
            inside = False
            proton.exit_scope(scope, _semantic=generator.semantic)

    return patched(CodeGenerator, call_Function=call)
