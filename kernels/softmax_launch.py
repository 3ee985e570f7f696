"""What every version of softmax does first: check the input, make a matrix of it, find the settings
that follow from its width, and launch."""

import math

import torch
import triton

from kernels.checks import check_runs_on, check_same, check_tensors
from kernels.device import as_stored

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MOST_COLUMNS = 2**30


def check(kernel: object, x: torch.Tensor) -> None:
    check_tensors("softmax", x=x)
    check_runs_on("softmax", kernel, x)
    if x.ndim < 1:
        raise ValueError("softmax: x is a scalar; it must have one dimension or more.")
    if x.dtype not in DTYPES:
        raise ValueError(
            f"softmax: x is {x.dtype}; this kernel takes float16, bfloat16 and float32."
        )
    if x.shape[-1] > MOST_COLUMNS:
        raise ValueError(
            f"softmax: {x.shape[-1]:,} columns are more than the {MOST_COLUMNS:,} that 32 bits are "
            "sure to count."
        )


def prepare(
    kernel: object, x: torch.Tensor, out: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Check the inputs; return x as a matrix whose rows are contiguous, and the output."""
    check(kernel, x)
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    else:
        check_tensors("softmax", out=out)
        check_same("softmax", x=x, out=out)
        if not out.is_contiguous() or out.is_neg():
            raise ValueError(
                f"softmax: out has strides {out.stride()}, and must be contiguous, without a "
                "negative bit."
            )
    x = as_stored(x)
    matrix = x.reshape(-1, x.shape[-1]) if x.numel() else x.new_empty((0, x.shape[-1]))
    return matrix if matrix.stride(1) == 1 else matrix.contiguous(), out


def vectors_of(x: torch.Tensor, out: torch.Tensor) -> dict[str, int]:
    """ALIGN, VECTOR and RAGGED for the matrix x and its output."""
    vector = 16 // x.itemsize
    align = math.gcd(x.shape[1], x.stride(0), vector)
    same_start = (
        x.stride(0) % vector == x.shape[1] % vector
        and x.data_ptr() % 16 == out.data_ptr() % 16 == 0
    )
    return {"ALIGN": align, "VECTOR": vector, "RAGGED": align < vector and same_start}


def block_n_of(x: torch.Tensor) -> int:
    """The power of two that holds a row. (triton.next_power_of_2 takes the CPU longer.)"""
    return 1 << (x.shape[1] - 1).bit_length()


def warps_for(num_warps: int, block_n: int) -> int:
    """At least one warp per 2,048 columns, which keeps 64 columns in each thread's registers."""
    return min(32, max(num_warps, block_n // 2048))


def launch(
    kernel: triton.JITFunction, programs: int, x: torch.Tensor, out: torch.Tensor,
    **arguments: object,
) -> torch.Tensor:
    """Launch so many programs, unless there is nothing to write; return out."""
    if out.numel():
        with torch.cuda.device_of(x):
            kernel[(programs,)](
                x, out, n_cols=x.shape[1], stride_xm=x.stride(0), **arguments
            )
    return out
