"""Results that are off because large terms cancel: so PyTorch's own are, computed in float32."""

import math

from torch import Tensor

from .compare import Tolerance, close, comparable

TIMES = 4
"""How much farther off than PyTorch's a result may be, as it adds in another order."""


def advice(out: Tensor, in_float32: Tensor, expected: Tensor, allowed: Tolerance) -> str:
    """What to do where a wrong result is about as far off as the reference in float32 is.

    in_float32: what the reference gives in float32. Empty where that is right, or far closer.
    """
    rounded = in_float32.to(out.dtype)
    if bool(close(rounded, expected, allowed).all()):
        return ""
    own, theirs = (_largest_error(each, expected) for each in (out, rounded))
    if not 0 < own <= TIMES * theirs:
        return ""
    digit = 10.0 ** math.floor(math.log10(own))
    enough = math.ceil(own / digit) * digit
    return (
        f"PyTorch's own result in float32 is off by up to {theirs:.1g}, and this one by "
        f"{own:.1g}: large terms cancel. Allow for that with absolute={enough:.0g}."
    )


def _largest_error(out: Tensor, expected: Tensor) -> float:
    """The largest error over finite elements; infinite where one is no number, or should be one."""
    out = comparable(out).double()
    both = out.isfinite() & expected.isfinite()
    if bool((out.isfinite() != expected.isfinite()).any()):
        return math.inf
    return float((out - expected)[both].abs().max()) if bool(both.any()) else 0.0
