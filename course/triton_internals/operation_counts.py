"""The interpreter's arithmetic, counted."""

import contextlib
from collections import Counter
from collections.abc import Iterator
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


@dataclass
class Operations:
    """Floating-point results, counted by the type that they are computed in, as Triton names it."""

    simple: Counter[str] = field(default_factory=Counter)
    """Additions, multiplications, divisions, minima and maxima, one per element; a fused
    multiply-add counts for two, an atomic addition for one per lane."""
    special: Counter[str] = field(default_factory=Counter)
    """Exponentials, logarithms, roots and the like."""
    dot: Counter[str] = field(default_factory=Counter)
    """Multiplications and additions of tl.dot, by its operands' type (fp32: by its precision)."""


@contextlib.contextmanager
def operations_counted() -> Iterator[Operations]:
    """While active, count the floating-point results of interpreted kernels."""
    with gaps_filled():  # which gives the builder some of what is counted
        counter = _CountedArithmetic()
        with (
            patched(interpreter.interpreter_builder, **counter.builder_functions()),
            patched(interpreter.ReduceOps, **counter.reductions()),
            patched(interpreter.ScanOps, **counter.scans()),
        ):
            yield counter.operations


class _CountedArithmetic:
    """What takes the place of the interpreter's arithmetic: it calls that, and counts."""

    def __init__(self) -> None:
        self.operations = Operations()
        builder = interpreter.interpreter_builder
        self._dot, self._atomic = builder.create_dot, builder.create_atomic_rmw

    def builder_functions(self) -> dict[str, Function]:
        simple, special = self.operations.simple, self.operations.special
        return {
            **{f"create_{name}": _counted(name, simple, weight) for name, weight in SIMPLE.items()},
            **{f"create_{name}": _counted(name, special, 1) for name in SPECIAL},
            "create_dot": self.dot,
            "create_atomic_rmw": self.atomic,
        }

    def reductions(self) -> dict[str, Function]:
        return {name: self._reduction(name) for name in ("sum", "min_max")}

    def scans(self) -> dict[str, Function]:
        return {name: self._scan(name) for name in ("cumsum", "cumprod")}

    def dot(
        self,
        a: TensorHandle,
        b: TensorHandle,
        d: TensorHandle,
        precision: Any,
        *rest: AnyValue,
        **named: AnyValue,
    ) -> TensorHandle:
        result = self._dot(a, b, d, precision, *rest, **named)
        kind = str(a.dtype.scalar)
        if kind == "fp32":
            kind = str(precision).rpartition(".")[2].lower()  # tf32, tf32x3 or ieee
        self.operations.dot[kind] += 2 * result.data.size * a.data.shape[-1]
        return result

    def atomic(
        self,
        operation: Any,
        pointers: TensorHandle,
        value: TensorHandle,
        mask: TensorHandle,
        *rest: AnyValue,
        **named: AnyValue,
    ) -> TensorHandle:
        if value.dtype.scalar.is_floating():
            lanes = np.broadcast_to(mask.data, pointers.data.shape).astype(bool)
            self.operations.simple[str(value.dtype.scalar)] += int(lanes.sum())
        return self._atomic(operation, pointers, value, mask, *rest, **named)

    def _reduction(self, name: str) -> Function:
        own = getattr(interpreter.ReduceOps, name)

        def reduce(reduction: ReduceOps, block: Block, *rest: AnyValue, **named: AnyValue) -> Block:
            result = own(reduction, block, *rest, **named)
            (first, *_) = block if isinstance(block, tuple) else (block,)
            (reduced, *_) = result if isinstance(result, tuple) else (result,)
            if first.dtype.is_floating():
                fewer = first.handle.data.size - reduced.handle.data.size
                self.operations.simple[str(first.dtype)] += fewer
            return result

        return reduce

    def _scan(self, name: str) -> Function:
        own = getattr(interpreter.ScanOps, name)

        def scan(scanned: ScanOps, block: tl.tensor) -> tl.tensor:
            data = block.handle.data
            if block.dtype.is_floating() and data.size:
                rows = data.size // data.shape[scanned.axis]
                self.operations.simple[str(block.dtype)] += data.size - rows
            return own(scanned, block)

        return scan


def _counted(name: str, counter: Counter[str], weight: int) -> Function:
    """The builder's function of this name, with its results counted."""
    own = getattr(interpreter.interpreter_builder, f"create_{name}")

    def create(*args: AnyValue, **kwargs: AnyValue) -> TensorHandle:
        result = own(*args, **kwargs)
        if result.dtype.scalar.is_floating():
            counter[str(result.dtype.scalar)] += weight * result.data.size
        return result

    return create
