"""What studies share: the versions of a ladder, sizes at which they run, matrices of rows."""

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch

from course.gpus.timing import copy_of

from .benchmarks import Function, Series, Study
from .outdated import TIMED

X_BYTES = 2**30
"""The matrix that is timed, whatever its width: many times what the L2 cache holds."""


def versions_of(name: str) -> dict[str, Function]:
    """The versions of an operation's ladder, by their functions' names."""
    places = (path.rpartition(".") for path in TIMED[name])
    return {version: getattr(importlib.import_module(home), version) for home, _, version in places}


def at_every_size(function: Function, most: float = math.inf) -> Callable[[int], Function | None]:
    """A function that is the same at every size, left out where x is larger than `most`."""
    return lambda x: function if x <= most else None


def series_of(versions: Mapping[str, Function], most: Mapping[str, int] | None = None) -> Series:
    """Series of the versions of a ladder, the public one first. most: as in `at_every_size`."""
    *ladder, public = versions
    widest = most or {}
    return {
        name: at_every_size(versions[name], widest.get(name, math.inf))
        for name in (public, *ladder)
    }


def row_study(
    name: str,
    dtype: torch.dtype,
    widths: Sequence[int],
    inputs: Callable[[torch.Tensor], tuple[torch.Tensor, ...]],
    bytes: Callable[..., int],
    series: Series,
) -> Study:
    """A study of matrices of X_BYTES, by their columns.

    inputs: a matrix of random numbers -> the inputs of a call. The rest is as in `Study`.
    """

    def make(columns: int) -> tuple[torch.Tensor, ...]:
        return inputs(torch.randn(_rows(columns, dtype), columns, dtype=dtype, device="cuda"))

    return Study(name, f"columns of {text_of(dtype)}", widths, make, bytes, series)


def _rows(columns: int, dtype: torch.dtype) -> int:
    return X_BYTES // (columns * dtype.itemsize)


def matrices_copied(times: int, dtype: torch.dtype) -> Callable[[int], Function]:
    """The copy as a peer: it moves the bytes of the matrix so many times."""
    return lambda columns: copy_of(times * _rows(columns, dtype) * columns * dtype.itemsize)


def compiled(function: Function) -> Function:
    """torch.compile's, for the next shape alone: it would give up compiling after a few shapes."""
    torch._dynamo.reset()
    faster: Function = torch.compile(function, dynamic=False)
    return faster


def backward_of(forward: Function, inputs: int) -> Function:
    """The backward pass of a function alone: its forward pass is run once, before the timing.

    inputs: how many tensors `forward` takes, of those that follow d_out in a call.
    """
    from torch._functorch import config  # which torch alone has not loaded

    kept: list[torch.Tensor] = []

    def backward(d_out: torch.Tensor, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if not kept:
            leaves = [each.detach().requires_grad_() for each in tensors[:inputs]]
            # Otherwise a compiled backward pass may overwrite what the next call needs.
            with config.patch(donated_buffer=False):
                kept.extend([forward(*leaves), *leaves])
        out, *leaves = kept
        return torch.autograd.grad(out, leaves, d_out, retain_graph=True)

    return cast(Function, backward)


def peers(torchs: Function, steps: Function, copies: int, dtype: torch.dtype) -> Series:
    """PyTorch's own function, what torch.compile makes of its steps, and a copy of the matrix."""
    return {
        "torch": at_every_size(torchs),
        "torch.compile": lambda columns: compiled(steps),
        "copy": matrices_copied(copies, dtype),
    }


def text_of(dtype: torch.dtype) -> str:
    """The name of a dtype, as "float32"."""
    return str(dtype).removeprefix("torch.")
