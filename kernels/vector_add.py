"""Vector add: out = x + y, for two tensors of the same shape.

    for each block of BLOCK_SIZE elements, in parallel:
        out[block] = x[block] + y[block]

The ladder. Every version reads x and y once and writes out once: 3 * n * itemsize bytes for n
elements.

    v1  add_v1   one element per program         n programs, each of them a whole program for one
                                                 element
    v2  add_v2   one block per program           n / 1,024 programs; offsets in 32 bits, so n must
                                                 stay below 2**31
    v3  add      offsets in 64 bits              any n; block size and warps as measured: see
                                                 `course recorded vector_add_blocks`
"""

import torch
import triton
import triton.language as tl

from kernels.checks import check_runs_on, check_same, check_tensors
from kernels.device import as_stored

DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
)


@triton.jit
def add_kernel_v1(x_ptr, y_ptr, out_ptr):
    """out = x + y. Program i owns element i."""
    i = tl.program_id(axis=0)
    tl.store(out_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))


@triton.jit
def add_kernel_v2(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """out = x + y. Program i owns elements [i * BLOCK_SIZE, (i + 1) * BLOCK_SIZE)."""
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)  # [BLOCK_SIZE]
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """out = x + y. Program i owns elements [i * BLOCK_SIZE, (i + 1) * BLOCK_SIZE)."""
    # pid * BLOCK_SIZE passes 2**31 for large tensors, and 32 bits would wrap to a negative offset.
    pid = tl.program_id(axis=0).to(tl.int64)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)  # [BLOCK_SIZE]
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def _prepare(
    kernel: object, x: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Check the inputs; return both as contiguous tensors, and an output of their shape with
    nothing written."""
    check_tensors("add", x=x, y=y)
    check_same("add", x=x, y=y)
    check_runs_on("add", kernel, x)
    if x.dtype not in DTYPES:
        raise ValueError(
            f"add: the inputs are {x.dtype}, which this kernel does not take; convert them first."
        )
    if kernel is not add_kernel and x.numel() >= 2**31:
        raise ValueError(
            f"add: {x.numel():,} elements are more than v1 and v2 can count in 32 bits; use add, "
            "the v3."
        )
    x, y = as_stored(x).contiguous(), as_stored(y).contiguous()
    return x, y, torch.empty_like(x)


def add_v1(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """v1 of the ladder: one element per program, for fewer than 2**31 elements (the limit of a
    grid)."""
    x, y, out = _prepare(add_kernel_v1, x, y)
    if out.numel():
        with torch.cuda.device_of(x):
            add_kernel_v1[(out.numel(),)](x, y, out)
    return out


def add_v2(
    x: torch.Tensor, y: torch.Tensor, block_size: int = 1024, num_warps: int = 4
) -> torch.Tensor:
    """v2 of the ladder: a block of elements per program, for fewer than 2**31 elements."""
    return _launch_blocks(add_kernel_v2, x, y, block_size, num_warps)


def add(
    x: torch.Tensor, y: torch.Tensor, block_size: int = 1024, num_warps: int = 4
) -> torch.Tensor:
    """x + y, element by element, in one launch. Forward only: no gradient flows through it.

    x, y: tensors of one shape, dtype and device. Contiguous ones are read as they lie; others are
    copied first.
    block_size: elements per program, a power of two. num_warps: warps per program, a power of two
    up to 32.

    Raises TypeError for a non-tensor; ValueError where the inputs differ in device, dtype or
    shape, where their dtype is none of DTYPES, or where they lie on the CPU and the kernel is
    compiled for a GPU.
    """
    return _launch_blocks(add_kernel, x, y, block_size, num_warps)


def _launch_blocks(
    kernel, x: torch.Tensor, y: torch.Tensor, block_size: int, num_warps: int
) -> torch.Tensor:
    x, y, out = _prepare(kernel, x, y)
    n_elements = out.numel()
    if n_elements:  # else there is nothing to launch, nor to compile
        with torch.cuda.device_of(x):
            grid = (triton.cdiv(n_elements, block_size),)
            kernel[grid](x, y, out, n_elements, BLOCK_SIZE=block_size, num_warps=num_warps)
    return out


if __name__ == "__main__":
    from kernels.program import main

    main(
        __doc__, [add_v1, add_v2, add], torch.add, lambda n: (torch.randn(n), torch.randn(n)),
        small=(3001,), large=(2**26,),
    )
