"""The interpreter's arithmetic, counted."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .interpreter_gaps import gaps_filled

SIMPLE = (
    "fadd",
    "fsub",
    "fmul",
    "fdiv",
    "precise_divf",
    "frem",
    "minimumf",
    "minnumf",
    "maximumf",
    "maxnumf",
    "fabs",
)
SIMPLE_OF_TWO = {"fma": 2, "clampf": 2}
SPECIAL = (
    "exp",
    "exp2",
    "log",
    "log2",
    "sin",
    "cos",
    "sqrt",
    "precise_sqrt",
    "rsqrt",
    "erf",
    "extern_elementwise",
)


@dataclass
class Operations:
    """Of floating point: how many results, by the type that they are computed in, as Triton names it."""

    simple: Counter[str] = field(default_factory=Counter)
    """Additions, multiplications, divisions, minima and maxima, one for each element; a fused multiply-add is two, an atomic
    addition one for each lane."""
    special: Counter[str] = field(default_factory=Counter)
    """Exponentials, logarithms, roots and the like."""
    dot: Counter[str] = field(default_factory=Counter)
    """Multiplications and additions of tl.dot, by the type of what it multiplies (with its input precision for fp32)."""


@contextlib.contextmanager
def operations_counted() -> Iterator[Operations]:
    """While active, count what interpreted kernels compute. Comparisons, conversions and integers are not counted."""
    from triton.runtime import interpreter

    gaps = contextlib.ExitStack()
    gaps.enter_context(gaps_filled())  # which gives the builder what is counted too
    builder, reductions, scans = (
        interpreter.interpreter_builder,
        interpreter.ReduceOps,
        interpreter.ScanOps,
    )
    found = Operations()
    plain_sum, plain_min_max, plain_cumsum, plain_cumprod = (
        reductions.sum,
        reductions.min_max,
        scans.cumsum,
        scans.cumprod,
    )
    before = {name: value for name, value in vars(builder).items() if name.startswith("create_")}

    def counted(name: str, into: Counter[str], weight: int) -> Any:
        plain = getattr(builder, name)

        def create(*args: Any, **kwargs: Any) -> Any:
            made = plain(*args, **kwargs)
            if made.dtype.scalar.is_floating():
                into[str(made.dtype.scalar)] += weight * made.data.size
            return made

        return create

    def dot(a: Any, b: Any, d: Any, precision: Any, *rest: Any, **named: Any) -> Any:
        made = plain_dot(a, b, d, precision, *rest, **named)
        kind = str(a.dtype.scalar)
        if kind == "fp32":
            kind = str(precision).rpartition(".")[2].lower()  # tf32, tf32x3 or ieee
        found.dot[kind] += 2 * made.data.size * a.data.shape[-1]
        return made

    def reduced(plain: Any) -> Any:
        def reduce(self: Any, block: Any, *rest: Any, **named: Any) -> Any:
            made = plain(self, block, *rest, **named)
            first = block[0] if isinstance(block, tuple) else block
            results = made[0] if isinstance(made, tuple) else made
            if first.dtype.is_floating():
                found.simple[str(first.dtype)] += first.handle.data.size - results.handle.data.size
            return made

        return reduce

    def scanned(plain: Any) -> Any:
        def scan(self: Any, block: Any) -> Any:
            shape = block.handle.data.shape
            if block.dtype.is_floating() and block.handle.data.size:
                found.simple[str(block.dtype)] += (
                    block.handle.data.size - block.handle.data.size // shape[self.axis]
                )
            return plain(self, block)

        return scan

    def atomic(
        operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any
    ) -> Any:
        if value.dtype.scalar.is_floating():
            found.simple[str(value.dtype.scalar)] += int(
                np.broadcast_to(mask.data, pointers.data.shape).astype(bool).sum()
            )
        return plain_atomic(operation, pointers, value, mask, *rest, **named)

    plain_dot, plain_atomic = builder.create_dot, builder.create_atomic_rmw
    watched = {f"create_{name}": counted(f"create_{name}", found.simple, 1) for name in SIMPLE}
    watched |= {
        f"create_{name}": counted(f"create_{name}", found.simple, n)
        for name, n in SIMPLE_OF_TWO.items()
    }
    watched |= {f"create_{name}": counted(f"create_{name}", found.special, 1) for name in SPECIAL}
    watched |= {"create_dot": dot, "create_atomic_rmw": atomic}
    try:
        for name, function in watched.items():
            setattr(builder, name, function)
        reductions.sum, reductions.min_max = reduced(plain_sum), reduced(plain_min_max)
        scans.cumsum, scans.cumprod = scanned(plain_cumsum), scanned(plain_cumprod)
        yield found
    finally:
        gaps.close()
        reductions.sum, reductions.min_max = plain_sum, plain_min_max
        scans.cumsum, scans.cumprod = plain_cumsum, plain_cumprod
        for name in watched:
            if name in before:
                setattr(builder, name, before[name])
            else:
                delattr(builder, name)
