"""What a kernel promises the compiler, held against the values that the interpreter has there.

The compiler believes `tl.multiple_of` and the like. Where one is false, a GPU may end with a
misaligned access, or give a lane another element than its own. The interpreter ignores them.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from course.type_names import AnyValue, Function

from .interpreter import Program
from .patching import patched

Rule = Callable[[np.ndarray, int, int], str]
"""Says how values break a promise; an empty text where they keep it. It takes the values, of which
neighbors lie along the last axis; by how much neighbors differ; and the promised size."""


Told = Callable[[Program, str], None]
"""Is told of a false promise: the program, and what it promises, to be read after "program 3
promises"."""


@contextlib.contextmanager
def promises_held(refuse: Told, doubt: Told | None = None) -> Iterator[None]:
    """While active, call `refuse` for each promise that does not hold where it is made.

    doubt: called in its place where the promise is about the neighbors in a block, or what divides
        it: then only accesses can go wrong. What tl.assume promises may change any value.
    """
    doubt = doubt or refuse
    builder, own_patch_lang_core = interpreter.interpreter_builder, interpreter._patch_lang_core

    def patch_core(lang: Any, scope: Any) -> None:
        own_patch_lang_core(lang, scope)
        for name, rule in RULES.items():
            scope.set_attr(lang, name, held(name, getattr(lang, name), rule))

    def held(name: str, own: Function, rule: Rule) -> Function:
        def promise(input: Any, values: Any) -> Any:
            promised = own(input, values)
            if text := _broken(rule, input, values):
                doubt(builder.grid_idx, f"by tl.{name} that {text}")
            return promised

        return promise

    def assume(condition: Any) -> None:
        if not condition.data.all():
            refuse(builder.grid_idx, "by tl.assume what is false")

    with patched(interpreter, _patch_lang_core=patch_core), patched(builder, create_assume=assume):
        yield


def _broken(rule: Rule, value: AnyValue, sizes: Any) -> str:
    """How a value breaks a promise of these sizes, one for each axis; empty where it keeps it."""
    sizes = sizes if isinstance(sizes, (list, tuple)) else [sizes]
    data, step = np.array(value), 1  # a number of Python's own, such as a loop's
    if isinstance(value, tl.tensor):
        data = value.handle.data if value.type.is_block() else value.handle.data.reshape(())
        step = _bytes_between_neighbors(value.dtype)
    if data.dtype.kind not in "iu":
        return ""
    data = data.astype(np.int64)  # an address is below 2^63
    axes = [np.moveaxis(data, axis, -1) for axis in range(data.ndim)] or [data[None]]
    for lines, size in zip(axes, sizes, strict=True):
        if text := rule(lines, step, getattr(size, "value", size)):
            return text
    return ""


def _bytes_between_neighbors(dtype: Any) -> int:
    """How much larger the next element's address is; 1 where the values are no addresses."""
    return max(1, getattr(dtype.element_ty, "primitive_bitwidth", 64) // 8) if dtype.is_ptr() else 1


def _not_a_multiple(lines: np.ndarray, step: int, size: int) -> str:
    """How `size` fails to divide the first of a run of neighbors; for addresses, in bytes."""
    first = np.ones(lines.shape, dtype=bool)
    first[..., 1:] = np.diff(lines) != step
    wrong = lines[first & (lines % size != 0)]
    if not wrong.size:
        return ""
    if step == 1:
        return f"{wrong[0]:,} is a multiple of {size:,}"
    past = wrong[0] % size
    return f"an address is a multiple of {size:,} bytes, and it lies {past:,} past one"


def _not_contiguous(lines: np.ndarray, step: int, size: int) -> str:
    lane, values = _first_break(np.diff(lines) != step, size, lines)
    return f"lane {lane} holds the neighbor of what lane {lane - 1} holds, {values}" if lane else ""


def _not_constant(lines: np.ndarray, step: int, size: int) -> str:
    lane, values = _first_break(np.diff(lines) != 0, size, lines)
    return f"lane {lane} holds the same as lane {lane - 1}, {values}" if lane else ""


def _first_break(differs: np.ndarray, size: int, lines: np.ndarray) -> tuple[int, str]:
    """The first lane that `differs` from the one before in its group of `size`, with what the two
    hold; 0 if none does."""
    lanes = np.arange(1, differs.shape[-1] + 1)
    breaks = np.argwhere(np.moveaxis(differs & (lanes % size != 0), -1, 0))
    if not breaks.size:
        return 0, ""
    before, *rest = breaks[0]
    line = lines[tuple(rest)]
    return before + 1, f"and they hold {line[before + 1]:,} and {line[before]:,}"


RULES: dict[str, Rule] = {
    "multiple_of": _not_a_multiple,
    "max_contiguous": _not_contiguous,
    "max_constancy": _not_constant,
}
