"""Kernels whose addresses lie apart, each with a twin whose addresses do not."""

import triton
import triton.language as tl


@triton.jit
def copy_column_kernel(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    """Copy one column of a matrix with rows of `stride` elements."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + rows, tl.load(x_ptr + rows * stride))


@triton.jit
def copy_row_kernel(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    """Copy one row of a matrix."""
    columns = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + columns, tl.load(x_ptr + columns))
