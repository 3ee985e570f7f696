"""Compare a result with its reference, element by element: how far it may lie from it, by dtype.

A kernel that computes in float32 and rounds once at the end is off by at most half a unit in the
last place of its output dtype, eps / 2. The 16-bit dtypes are held to little more than that, so
that computing in them is found out. float32 and float64 are computed in themselves and get room for
a short chain of operations.

Where rounding alone takes the reference farther off, so it may a result: see `rounding`.
"""

import math
from dataclasses import dataclass, replace

import torch

from course.tracing.address_map import indexed

from .guarded_memory import is_poison


@dataclass(frozen=True)
class Rounding:
    """What rounding alone makes of a reference, elementwise."""

    results: tuple[torch.Tensor, ...]
    """Results of the reference that were rounded, whose finite numbers are right. The first is
    PyTorch's own in the dtypes of the inputs."""
    spread: torch.Tensor
    """How far off results are that round elsewhere, or add in another order."""
    infinite: torch.Tensor
    """Where results may be no finite numbers: what they add up on the way is too large."""

    def own_error(self, expected: torch.Tensor) -> torch.Tensor:
        """PyTorch's own error; 0 where its result is no finite number."""
        return (comparable(self.results[0]).double() - expected).abs().nan_to_num(0, 0)


@dataclass(frozen=True)
class Tolerance:
    """|result - reference| may be at most absolute + relative * |reference|."""

    relative: float
    absolute: float | torch.Tensor = 0.0
    """One number for all elements, or one for each."""
    rounding: Rounding | None = None
    """If given, results may lie farther off: by the spread, or by twice PyTorch's own error."""

    def plus(self, absolute: float | torch.Tensor) -> "Tolerance":
        """More absolute error, for results that cancel, as 1 + erf(x) does for x below zero."""
        return replace(self, absolute=self.absolute + absolute)

    def at(self, expected: torch.Tensor) -> torch.Tensor:
        """The error that is allowed, elementwise."""
        allowed = self.absolute + self.relative * expected.abs()
        if self.rounding is None:
            return allowed
        own = 2 * self.rounding.own_error(expected)
        return allowed + torch.maximum(self.rounding.spread, own)


def tolerance_of(dtype: torch.dtype, roundings: float) -> Tolerance:
    """The error of so many roundings to a dtype, each by one unit in the last place."""
    info = torch.finfo(dtype)
    # Below smallest_normal the spacing no longer shrinks with the value, so a rounding is an
    # absolute error there.
    return Tolerance(roundings * info.eps, absolute=roundings * info.eps * info.smallest_normal)


TOLERANCES = {
    torch.float8_e4m3fn: tolerance_of(torch.float8_e4m3fn, roundings=0.55),
    torch.float8_e5m2: tolerance_of(torch.float8_e5m2, roundings=0.55),
    torch.float16: tolerance_of(torch.float16, roundings=0.55),
    torch.bfloat16: tolerance_of(torch.bfloat16, roundings=0.55),
    torch.float32: tolerance_of(torch.float32, roundings=16),
    torch.float64: tolerance_of(torch.float64, roundings=16),
}

EXACT = Tolerance(0.0)


def tolerance_for(dtype: torch.dtype) -> Tolerance:
    """The tolerance for results of `dtype`; integers and booleans must be equal."""
    return TOLERANCES.get(dtype, EXACT)


def value_problem(
    out: torch.Tensor, expected: torch.Tensor, allowed: Tolerance
) -> tuple[str, tuple[int, ...]]:
    """The first wrong element in words, and its index; an empty text where all are right."""
    poison = is_poison(out)
    bad = ~close(out, expected, allowed)
    # In 8 bits and in integers it is a number as any other.
    if out.dtype == torch.bool or (out.is_floating_point() and out.itemsize > 1):
        bad |= poison  # a NaN where a NaN is expected, but nobody wrote it
    count = int(bad.sum())
    if not count:
        return "", ()
    first = tuple(int(i) for i in bad.nonzero()[0])
    wanted, got = _show(expected[first]), _show(out[first])
    if wanted == got:  # they differ in later digits
        wanted, got = str(expected[first].item()), str(out[first].item())
    if poison[first]:
        got = "nothing: it was never written"
    where = indexed(first) or "the only element"
    wrong = f"Wrong: {count:,} of {out.numel():,}."
    return f"At {where}: expected {wanted}, got {got}. {wrong}", first


def close(out: torch.Tensor, expected: torch.Tensor, allowed: Tolerance) -> torch.Tensor:
    """Which elements of a result are as expected, within what is allowed."""
    rounding = allowed.rounding
    number, rounded = comparable(out), comparable(expected.to(out.dtype))
    # An overflow becomes inf where the result must be so.
    right = (number == rounded) | ((number != number) & (rounded != rounded))
    for result in rounding.results if rounding else ():
        rounded = comparable(result)
        right |= (number == rounded) & rounded.isfinite()
    if not out.is_floating_point():
        return right
    near = (_finite(number) - expected).abs() <= allowed.at(expected)
    right |= near & ~number.isnan() & expected.isfinite()
    if rounding:
        right |= ~number.isfinite() & rounding.infinite & expected.isfinite()
    return right


def comparable(out: torch.Tensor) -> torch.Tensor:
    """The same numbers, which PyTorch does not compare in 8 bits."""
    return out.float() if out.is_floating_point() and out.itemsize == 1 else out


def _finite(out: torch.Tensor) -> torch.Tensor:
    """A result in float64, each infinity as the number that would follow the largest: a sum that is
    rounded up once more on its way becomes infinite just below it."""
    info = torch.finfo(out.dtype)
    after = info.max * (1 + info.eps / 2)
    return out.double().nan_to_num(nan=math.nan, posinf=after, neginf=-after)


def largest_error(out: torch.Tensor, expected: torch.Tensor, allowed: Tolerance) -> float:
    """The largest error over the finite elements, as a fraction of what is allowed there."""
    if not out.is_floating_point() or not out.numel():
        return 0.0
    out = comparable(out)
    error = (out.double() - expected).abs() / allowed.at(expected)
    error = error[out.isfinite() & expected.isfinite() & (error > 0)]
    return float(error.max()) if error.numel() else 0.0


def _show(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.7g}" if isinstance(number, float) else str(number)
