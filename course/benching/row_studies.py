"""What the studies of operations on the rows of a matrix share."""

from collections.abc import Callable, Sequence

import torch

from course.gpus.timing import copy_of

from .benchmarks import Function, Series, Study

X_BYTES = 2**30
"""The matrix that is timed, whatever its width: many times what the L2 cache holds."""


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


def text_of(dtype: torch.dtype) -> str:
    """The name of a dtype, as "float32"."""
    return str(dtype).removeprefix("torch.")
