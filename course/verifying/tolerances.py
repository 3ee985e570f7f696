"""How far a result may lie from the reference in float64, by dtype: the one place that says.

A kernel that computes in float32 and rounds once at the end is off by at most half a unit in the last place of its
output dtype, eps / 2. The 16-bit dtypes are held to little more than that, so that computing in them is found out.
float32 and float64 are computed in themselves and get room for a short chain of operations.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Tolerance:
    """|result - reference| may be at most absolute + relative * |reference|."""

    relative: float
    absolute: float = 0.0

    def plus(self, absolute: float) -> "Tolerance":
        """With more absolute error allowed: for results that cancel, as 1 + erf(x) does for x below zero."""
        return Tolerance(self.relative, self.absolute + absolute)


def _of(dtype: torch.dtype, roundings: float) -> Tolerance:
    info = torch.finfo(dtype)
    # Below smallest_normal the spacing no longer shrinks with the value, so a rounding is an absolute error there.
    return Tolerance(roundings * info.eps, absolute=roundings * info.eps * info.smallest_normal)


TOLERANCES = {
    torch.float16: _of(torch.float16, roundings=0.55),
    torch.bfloat16: _of(torch.bfloat16, roundings=0.55),
    torch.float32: _of(torch.float32, roundings=16),
    torch.float64: _of(torch.float64, roundings=16),
}

EXACT = Tolerance(0.0)


def tolerance_for(dtype: torch.dtype) -> Tolerance:
    """The tolerance for results of `dtype`; integers and booleans must be equal."""
    return TOLERANCES.get(dtype, EXACT)
