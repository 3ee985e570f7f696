"""What every version of rms_norm and of its gradient does first: check the inputs, make a matrix of
them, and find the settings for its width."""

import math
from collections.abc import Callable
from typing import Any

import torch

from kernels.checks import check_runs_on, check_tensors
from kernels.device import as_stored

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MOST_COLUMNS = 2**30

Plans = dict[int, tuple[tuple[float, Callable[..., Any], dict[str, int]], ...]]
"""Element size in bytes -> (the widest rows, version, settings)."""
Wrap = Callable[[Any], Any]
"""What makes of a kernel one to launch: torch.library.wrap_triton within an operator."""


def check_inputs(kernel: object, x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    check_tensors("rms_norm", x=x, weight=weight)
    check_runs_on("rms_norm", kernel, x)
    if x.ndim < 1 or weight.shape != x.shape[-1:]:
        raise ValueError(
            f"rms_norm: x has shape {tuple(x.shape)} and weight {tuple(weight.shape)}; the weight "
            "must have one dimension, as long as the last one of x."
        )
    if weight.device != x.device or weight.dtype != x.dtype:
        raise ValueError(
            f"rms_norm: x is {x.dtype} on {x.device} and weight {weight.dtype} on {weight.device}; "
            "both must be the same."
        )
    if x.dtype not in DTYPES:
        raise ValueError(
            f"rms_norm: x is {x.dtype}; this kernel takes float16, bfloat16, float32 and float64."
        )
    if x.shape[-1] > MOST_COLUMNS:
        raise ValueError(
            f"rms_norm: {x.shape[-1]:,} columns are more than the {MOST_COLUMNS:,} that 32 bits "
            "are sure to count."
        )
    if isinstance(eps, bool) or not isinstance(eps, int | float):
        raise TypeError(f"rms_norm: eps is of type {type(eps).__name__}, and must be a number.")
    if not 0 <= eps < math.inf:
        raise ValueError(f"rms_norm: eps is {eps}, and must be finite and 0 or more.")


def as_matrix(x: torch.Tensor) -> torch.Tensor:
    """x as a matrix whose rows are contiguous and lie any stride apart; copied where it must be."""
    x = as_stored(x)
    matrix = x.reshape(-1, x.shape[-1]) if x.numel() else x.new_empty((0, x.shape[-1]))
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


def sum_dtype(x: torch.Tensor) -> torch.dtype:
    """The dtype of rstd and of partial sums."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def block_n_of(x: torch.Tensor) -> int:
    """The power of two that holds a row of the matrix x."""
    return 1 << (int(x.shape[1]) - 1).bit_length()


def planned(plans: Plans, x: torch.Tensor) -> tuple[Callable[..., Any], dict[str, int]]:
    """The version and its settings for rows of x."""
    return next(plan[1:] for plan in plans[x.itemsize] if x.shape[-1] <= plan[0])


def as_it_is(kernel: Any) -> Any:
    """The kernel: what a launch outside an operator makes of it."""
    return kernel
