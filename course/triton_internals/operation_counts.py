"""The interpreter's arithmetic, counted, and what it takes to interpret a launch: the same on every
machine, however busy it is.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import ReduceOps, ScanOps, TensorHandle

from course.type_names import AnyValue, Function

from .interpreter_gaps import gaps_filled
from .patching import patched

Block: TypeAlias = tl.tensor | tuple[tl.tensor, ...]

SIMPLE = {
    **dict.fromkeys(("fadd", "fsub", "fmul", "fdiv", "precise_divf", "frem", "fabs"), 1),
    **dict.fromkeys(("minimumf", "minnumf", "maximumf", "maxnumf"), 1),
    "fma": 2,
    "clampf": 2,
}
"""The builder's simple operations, by how many each counts for."""
SPECIAL = (
    *("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "precise_sqrt", "rsqrt", "erf"),
    "extern_elementwise",
)


KEPT, HIDDEN = "kept", "hidden"
"""A tile of which tl.where keeps something, and one that a single number replaces as a whole."""


@dataclass
class Operations:
    """Floating-point results, counted by the type that they are computed in, as Triton names it."""

    simple: Counter[str] = field(default_factory=Counter)
    """Additions, multiplications, divisions, minima and maxima, one per element; a fused
    multiply-add counts for two, an atomic addition for one per lane."""
    special: Counter[str] = field(default_factory=Counter)
    """Exponentials, logarithms, roots and the like."""
    dot: Counter[str] = field(default_factory=Counter)
    """Multiplications and additions of tl.dot and tl.dot_scaled, by the wider operand's type (fp32:
    by its precision)."""
    tiles: Counter[str] = field(default_factory=Counter)
    """Tiles that tl.where has taken from blocks of the shape of the last tl.dot: KEPT or HIDDEN."""
    shape: tuple[int, ...] = ()
    """That of the result of the last tl.dot."""


@contextlib.contextmanager
def operations_counted() -> Iterator[Operations]:
    """While active, count the floating-point results of interpreted kernels."""
    operations = Operations()
    simple, special = operations.simple, operations.special
    builders = {f"create_{name}": _results(simple, weight) for name, weight in SIMPLE.items()}
    builders |= {f"create_{name}": _results(special, 1) for name in SPECIAL}
    builders |= {"create_dot": _dots(operations), "create_atomic_rmw": _atomics(simple)}
    builders |= {"create_select": _selects(operations)}
    builders |= {"create_dot_scaled": _scaled_dots(operations.dot)}
    reductions = dict.fromkeys(("sum", "min_max"), _reductions(simple))
    scans = dict.fromkeys(("cumsum", "cumprod"), _scans(simple))
    with (
        gaps_filled(),  # which gives the builder some of what is counted
        _told(interpreter.interpreter_builder, builders),
        _told(interpreter.ReduceOps, reductions),
        _told(interpreter.ScanOps, scans),
    ):
        yield operations


Count = Callable[..., None]
"""Counts what a function of the interpreter has returned. It takes that, and its arguments."""


def _told(owner: Any, counts: dict[str, Count]) -> contextlib.AbstractContextManager[None]:
    """While active, each of these functions of `owner` has its results counted."""

    def counted(own: Function, count: Count) -> Function:
        def call(*args: AnyValue, **kwargs: AnyValue) -> Any:
            result = own(*args, **kwargs)
            count(result, *args)
            return result

        return call

    functions = {name: counted(getattr(owner, name), count) for name, count in counts.items()}
    return patched(owner, **functions)


def _results(counter: Counter[str], weight: int) -> Count:
    def count(result: TensorHandle, *_: AnyValue) -> None:
        if result.dtype.scalar.is_floating():
            counter[str(result.dtype.scalar)] += weight * result.data.size

    return count


def _dots(operations: Operations) -> Count:
    def count(
        result: TensorHandle, a: TensorHandle, b: TensorHandle, d: TensorHandle, *options: Any
    ) -> None:
        kind = str(a.dtype.scalar)
        if kind == "fp32":  # by the precision: tf32, tf32x3 or ieee
            kind = str(options[0]).rpartition(".")[2].lower()
        operations.dot[kind] += 2 * result.data.size * a.data.shape[-1]
        operations.shape = result.data.shape

    return count


def _selects(operations: Operations) -> Count:
    def count(
        result: TensorHandle, condition: TensorHandle, one: TensorHandle, other: TensorHandle
    ) -> None:
        if result.data.shape != operations.shape or not result.dtype.scalar.is_floating():
            return
        if _is_number(other):
            operations.tiles[KEPT if condition.data.any() else HIDDEN] += 1
        elif _is_number(one):
            operations.tiles[HIDDEN if condition.data.all() else KEPT] += 1

    return count


def _is_number(block: TensorHandle) -> bool:
    """Whether all elements of a block are the same."""
    return bool((block.data == block.data.flat[0]).all())


FORMATS = {"BF16": "bf16", "FP16": "fp16", "E2M1": "fp4"}
"""Types of tl.dot_scaled by the builder's names; all others have 8 bits, or take as many."""
SLOWEST_FIRST = ("bf16", "fp16", "fp8", "fp4")


def _scaled_dots(counter: Counter[str]) -> Count:
    def count(
        result: TensorHandle, a: TensorHandle, _: AnyValue, a_format: Any, b: TensorHandle,
        __: AnyValue, b_format: Any, ___: bool, a_is_packed: bool, *rest: Any,
    ) -> None:  # fmt: skip
        kinds = {FORMATS.get(each.name, "fp8") for each in (a_format, b_format)}
        # Two numbers of 4 bits lie in one byte, along K or along the rows.
        length = a.data.shape[-1] * (2 if a_format.name == "E2M1" and a_is_packed else 1)
        counter[min(kinds, key=SLOWEST_FIRST.index)] += 2 * result.data.size * length

    return count


def _atomics(counter: Counter[str]) -> Count:
    def count(
        result: TensorHandle, operation: Any, pointers: TensorHandle, value: TensorHandle,
        mask: TensorHandle, *_: AnyValue,
    ) -> None:  # fmt: skip
        if value.dtype.scalar.is_floating():
            lanes = np.broadcast_to(mask.data, pointers.data.shape).astype(bool)
            counter[str(value.dtype.scalar)] += int(lanes.sum())

    return count


def _reductions(counter: Counter[str]) -> Count:
    def count(result: Block, reduction: ReduceOps, block: Block, *rest: AnyValue) -> None:
        (first, *_) = block if isinstance(block, tuple) else (block,)
        (reduced, *_) = result if isinstance(result, tuple) else (result,)
        if first.dtype.is_floating():
            fewer = first.handle.data.size - reduced.handle.data.size
            counter[str(first.dtype)] += fewer

    return count


def _scans(counter: Counter[str]) -> Count:
    def count(result: tl.tensor, scanned: ScanOps, block: tl.tensor) -> None:
        data = block.handle.data
        if block.dtype.is_floating() and data.size:
            rows = data.size // data.shape[scanned.axis]
            counter[str(block.dtype)] += data.size - rows

    return count


ELEMENTS = 4096
"""Elements that NumPy computes in about the time that the interpreter takes for an operation."""


@dataclass
class Effort:
    """The interpreter's operations; one on a block counts for more, by the block's elements."""

    operations: float = 0


@contextlib.contextmanager
def effort_counted(most: float, stop: Callable[[], None]) -> Iterator[Effort]:
    """While active, count what kernels take, and call `stop` once that is more than `most`."""
    effort, own = Effort(), TensorHandle.__init__

    def made(handle: TensorHandle, data: AnyValue, *rest: AnyValue, **named: AnyValue) -> None:
        own(handle, data, *rest, **named)
        effort.operations += 1 + data.size / ELEMENTS
        if effort.operations > most:
            stop()

    with patched(TensorHandle, __init__=made):
        yield effort
