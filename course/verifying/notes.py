"""What is said beside a verdict of an error that rounding alone explains."""

import torch
from torch import Tensor

from .compare import Tolerance, close, comparable, tolerance_of

ONCE, OFTEN = 0.55, 4
"""Roundings to 16 bits: one, and a few."""


def note_of(out: Tensor, expected: Tensor, held: Tolerance, allowed: Tolerance) -> str:
    """What lies farther off than `held` and is right all the same; empty if nothing does.

    allowed: `held`, and what rounding alone explains.
    """
    beyond = ~close(out, expected, held)
    if allowed.rounding is None or not bool(beyond.any()):
        return ""
    count = int(beyond.sum())
    elements = f"{count:,} of {out.numel():,} elements"
    are = "is" if count == 1 else "are"
    if not out.is_floating_point():
        return f"{elements} {are} off as PyTorch's own are, by rounding on the way."
    errors = (comparable(out).double() - expected).abs()[beyond]
    errors = errors[errors.isfinite()]
    if not errors.numel():
        return f"{elements} {are} infinite or no number: terms overflow as they are added."
    off = f"{elements} {are} off by up to {float(errors.max()):.1g}"
    both = out, allowed.rounding.results[0]
    if all(_rounds_again(each, expected, held.absolute) for each in both):
        return f"{off}, rounded to {_name(out)} more than once: so are PyTorch's own."
    return f"{off}, since large terms cancel there: any order of adding them may be as far off."


def _rounds_again(out: Tensor, expected: Tensor, absolute: float | Tensor = 0.0) -> bool:
    """Whether a result of 16 bits is farther off than one rounding takes it, and a few do.

    absolute: an error allowed besides. Where terms cancel, PyTorch's own error depends on the
        processor.
    """
    if out.dtype not in (torch.float16, torch.bfloat16):
        return False
    once, often = (tolerance_of(out.dtype, count).plus(absolute) for count in (ONCE, OFTEN))
    return not close(out, expected, once).all() and bool(close(out, expected, often).all())


def advice(out: Tensor, expected: Tensor) -> str:
    """What to change in a wrong result that a few roundings to 16 bits take as far off; empty where
    they do not."""
    if not _rounds_again(out, expected) and not _by_the_largest(out, expected):
        return ""
    return (
        f"A few roundings to {_name(out)} take it as far off: where it rounds on the way, compute "
        "in float32 and round once, at the end."
    )


def _by_the_largest(out: Tensor, expected: Tensor) -> bool:
    """Whether a result of 16 bits is off by a few roundings of its largest element: so are sums."""
    if out.dtype not in (torch.float16, torch.bfloat16):
        return False
    error = (out.double() - expected).abs().max()
    return bool(error <= OFTEN * torch.finfo(out.dtype).eps / 2 * expected.abs().max())


def _name(out: Tensor) -> str:
    return str(out.dtype).removeprefix("torch.")
