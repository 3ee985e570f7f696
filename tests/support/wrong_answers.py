"""Wrong answers to exercises on vectors and softmax, for tests of what is shown of them."""

import torch
import triton
import triton.language as tl


@triton.jit
def off_by_one_program(out_ptr, value, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, value + (pid == 1), mask=offsets < n_elements)


@triton.jit
def past_the_end(out_ptr, value, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, value)


@triton.jit
def affine_kernel(x_ptr, out_ptr, a, b, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    tl.store(out_ptr + offsets, a * tl.load(x_ptr + offsets, mask=mask) + b, mask=mask)


def short_grid(x, a, b):
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel() >= 1024:
        affine_kernel[(x.numel() // 1024,)](x, out, a, b, x.numel(), BLOCK_SIZE=1024)
    return out


def strides_forgotten(x, a, b):
    out = torch.empty_like(x)
    affine_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, a, b, x.numel(), BLOCK_SIZE=1024)
    return out


@triton.autotune(
    configs=[triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)],
    key=["n_cols"],
    restore_value=[],
)
@triton.jit
def in_place_kernel(x_ptr, n_cols, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + tl.program_id(axis=0) * n_cols + cols
    x = tl.load(x_ptrs, mask=cols < n_cols, other=float("-inf"))
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(x_ptrs, power / tl.sum(power, axis=0), mask=cols < n_cols)


def tuned_in_place(x):
    x = x.clone()
    in_place_kernel[(x.shape[0],)](x, x.shape[1], BLOCK_N=triton.next_power_of_2(x.shape[1]))
    return x
