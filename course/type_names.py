"""Names for what types cannot say: what a function takes or returns where anything may stand."""

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

Kernel = Any
"""A function under @triton.jit, to be compiled or interpreted, tuned, or with heuristics."""

AnyValue = Any
"""What a launch is given or a kernel computes: a tensor, a number, a text, a tuple, a constant."""

AnyValues = dict[str, AnyValue]
"""AnyValues by the names of parameters, options or variables."""


def kind_of(value: AnyValue) -> str:
    """A value's type with its article, as a sentence names it: "an int"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
