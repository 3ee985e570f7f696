"""Small kernels whose sectors are counted by `cost` and by a GPU."""

import triton
import triton.language as tl


@triton.jit
def copy_strided_kernel(x_ptr, out_ptr, n_elements, stride, BLOCK_SIZE: tl.constexpr):
    """out[i] = x[i * stride]."""
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets * stride, mask=mask), mask=mask)


@triton.jit
def add_row_kernel(x_ptr, row_ptr, out_ptr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """out = x + row, for every row of x [BLOCK_M, BLOCK_N]: one load is the same for all rows."""
    cols = tl.arange(0, BLOCK_N)[None, :]
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    row = tl.load(row_ptr + cols + 0 * rows)
    tl.store(out_ptr + rows * BLOCK_N + cols, tl.load(x_ptr + rows * BLOCK_N + cols) + row)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    """out[i] = x[index[i]]."""
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, tl.load(x_ptr + tl.load(index_ptr + offsets)))


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    """c = a @ b, of [n, n]: program (i, j) owns a tile of [BLOCK, BLOCK]."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * n + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * n + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc)
