"""Compare a result with its reference, element by element."""

import torch

from .guarded_memory import is_poison
from .tolerances import Tolerance


def value_problem(
    out: torch.Tensor, expected: torch.Tensor, allowed: Tolerance
) -> tuple[str, tuple[int, ...]]:
    """The first wrong element in words, and its index; an empty text where there is none."""
    poison = is_poison(out)
    bad = ~_close(out, expected, allowed)
    if out.is_floating_point():
        bad |= poison  # a NaN where a NaN is expected, but nobody wrote it
    count = int(bad.sum())
    if not count:
        return "", ()
    first = tuple(int(i) for i in bad.nonzero()[0])
    got = "nothing: it was never written" if poison[first] else _show(out[first])
    where = "[" + ", ".join(f"{i:,}" for i in first) + "]" if first else "the only element"
    return (
        f"At {where}: expected {_show(expected[first])}, got {got}. Wrong: {count:,} of {out.numel():,}.",
        first,
    )


def _close(out: torch.Tensor, expected: torch.Tensor, allowed: Tolerance) -> torch.Tensor:
    if not out.is_floating_point():
        return out == expected
    rounded = expected.to(out.dtype)  # overflows to inf where the result must
    same = (out == rounded) | (out.isnan() & rounded.isnan())
    near = (out.double() - expected).abs() <= allowed.absolute + allowed.relative * expected.abs()
    return same | (near & out.isfinite() & expected.isfinite())


def largest_error(out: torch.Tensor, expected: torch.Tensor, allowed: Tolerance) -> float:
    """The largest error over the finite elements, as a fraction of what is allowed there."""
    if not out.is_floating_point() or not out.numel():
        return 0.0
    error = (out.double() - expected).abs() / (allowed.absolute + allowed.relative * expected.abs())
    error = error[out.isfinite() & expected.isfinite() & (error > 0)]
    return float(error.max()) if error.numel() else 0.0


def _show(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.7g}" if isinstance(number, float) else str(number)
