# %% [markdown]
# # 02 · Two dimensions
#
# **What you will build.** A transpose over three times as fast as PyTorch's for large matrices,
# and one kernel that does the work of two.
#
# **What you will learn.** You address a tile of a matrix by its two strides, and mask its edges.
# You count the sectors that a warp touches. You say in bytes what fusing two kernels saves.
#
# **What you need.** Lesson 01.
#
# | section | minutes |
# |---|---|
# | A tile of offsets | 14 |
# | Strides | 16 |
# | Neighbours in memory | 22 |
# | Three kinds of pointer | 7 |
# | One kernel for two | 15 |

# %%
from course import DEVICE, MODE, bench, check, cost, draw, hint, matrices, recorded, replay, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## A tile of offsets
#
# A matrix lies in memory as one long row. With 6 columns, the element in row `r` and column `c`
# has offset `r * 6 + c`. Look at the tiles of 4 x 4 that cut this 5 x 6 matrix, and at the lanes
# that lie past its edges.

# %%
draw.tiles(5, 6, block_m=4, block_n=4)

# %% [markdown]
# A program makes its tile of offsets from a block of rows and a block of columns. `rows[:, None]`
# stands the rows up as a column, `cols[None, :]` lays the columns down as a row, and adding the
# two gives every pair: the shape `[4, 1]` and the shape `[1, 4]` *broadcast* to `[4, 4]`, as in
# PyTorch.
#
# **Predict:** which program of the grid `(2, 2)` writes a 12 here, and where?


# %%
@triton.jit
def who_kernel(out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]  # [BLOCK_M, BLOCK_N]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    who = 10 * tl.program_id(axis=0) + tl.program_id(axis=1) + 1
    tl.store(out_ptr + offsets, who, mask=mask)


# %% tags=["nbval-check-output"]
out = torch.zeros(5, 6, dtype=torch.int32, device=DEVICE)
who_kernel[(2, 2)](out, 5, 6, BLOCK_M=4, BLOCK_N=4)
print(out.cpu().numpy())

# %% [markdown]
# Program (1, 1) is 12: the second along both axes, and only two of its sixteen lanes are inside.
# The mask needs both conditions, with `&` and with the parentheses: in Python `a < b & c < d`
# means `a < (b & c) < d`.
#
# **Predict:** what becomes of element [1, 0] when the mask forgets the columns?


# %%
@triton.jit
def rows_only_kernel(out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]
    who = 10 * tl.program_id(axis=0) + tl.program_id(axis=1) + 1
    tl.store(out_ptr + offsets, who, mask=rows[:, None] < n_rows)


# %%
memory = torch.zeros(8, 6, dtype=torch.int32, device=DEVICE)  # room for what goes astray
rows_only_kernel[(2, 2)](memory, 5, 6, BLOCK_M=4, BLOCK_N=4)
print(memory.cpu().numpy())

# %% [markdown]
# Past the last column comes no emptiness: there comes the next row. Columns 6 and 7 of row 0 are
# columns 0 and 1 of row 1, and two programs wrote there. (In the interpreter the later one won;
# on a GPU either may.) Behind the last row, one wrote outside. A missing mask along the columns
# spoils the matrix itself.
#
# Ask who wrote element [1, 0]. Elements with a red mark were written by several programs.

# %%
replay(rows_only_kernel, (2, 2), memory, 5, 6, element=("out_ptr", (1, 0)), BLOCK_M=4, BLOCK_N=4)

# %% [markdown]
# ### Exercise 02.1 · Every pair (core)
#
# `out[r, c] = x[r] + y[c]`, for a float32 `x` of `m` and `y` of `n` elements, and a contiguous
# `out` of m x n. The exercise launches a grid of `(cdiv(m, BLOCK_M), cdiv(n, BLOCK_N))` programs.
# In PyTorch: `x[:, None] + y[None, :]`.


# %%
# exercise 02.1
@triton.jit
def outer_sum_kernel(x_ptr, y_ptr, out_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    # about 4 lines from here
    x = tl.load(x_ptr + rows, mask=rows < m)  # [BLOCK_M]
    y = tl.load(y_ptr + cols, mask=cols < n)  # [BLOCK_N]
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], x[:, None] + y[None, :], mask=mask)
    # to here


# %%
check("02.1", outer_sum_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Each program loads `BLOCK_M` numbers of `x` and `BLOCK_N` of `y`: two blocks of one dimension,
# each with a mask of its own.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `x[:, None] + y[None, :]` works on blocks as it does on tensors.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# The mask of the store needs parentheses: `(… < m) & (… < n)`.
#
# </details>

# %% [markdown]
# ## Strides
#
# So far a row was `n_cols` elements after the one before. That holds for a contiguous matrix
# alone. A tensor says for itself how far apart its rows and columns are: its *strides*, counted
# in elements. **Predict** the strides of these three views.

# %% tags=["nbval-check-output"]
x = torch.arange(24.0, device=DEVICE).reshape(4, 6)
print("x      ", tuple(x.shape), x.stride())
print("x[:, :3]", tuple(x[:, :3].shape), x[:, :3].stride())
print("x[:, ::2]", tuple(x[:, ::2].shape), x[:, ::2].stride())
print("x.T    ", tuple(x.T.shape), x.T.stride())

# %% [markdown]
# All four share the same memory; only shape and strides differ. A kernel that is given both
# strides reads any of them, with no copy. Strides that a launch finds equal to 1 become constants
# in the compiled kernel, so the usual case costs nothing.


# %%
@triton.jit
def copy_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_xm, stride_xn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * stride_xm + cols[None, :] * stride_xn, mask=mask)
    tl.store(out_ptr + rows[:, None] * n_cols + cols[None, :], x, mask=mask)


def copy(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))
    copy_kernel[grid](x, out, *x.shape, *x.stride(), BLOCK_M=32, BLOCK_N=32)
    return out


# %%
result = verify(copy, torch.clone, cases=matrices())
print(result)
assert result.right

# %% [markdown]
# The cases hold contiguous, sliced and transposed matrices. Two slips are common. One is to
# multiply strides by the size of an element, as for pointers in C; Triton does that itself. The
# other is the number of columns in place of the row stride. **Predict** what that gives for the
# left half of `x`, whose rows begin with 0, 6, 12 and 18.


# %%
def copy_by_columns(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    copy_kernel[(1, 1)](x, out, *x.shape, x.shape[1], 1, BLOCK_M=32, BLOCK_N=32)
    return out


print(copy_by_columns(x[:, :3]).cpu().numpy())

# %% [markdown]
# Each row begins 3 elements after the one before, in the middle of the row of `x`. For a
# contiguous matrix the same code is right, so a test on contiguous matrices never finds it.
#
# For a stack of matrices the grid takes a third axis: one more `tl.program_id(axis=2)`, one more
# stride. A grid has three axes and no more; beyond the first, each holds up to 65,535 programs.

# %% [markdown]
# ### Exercise 02.2 · Any view (core)
#
# Write a launcher `half(x)` that returns `x / 2` as a contiguous matrix, for a float32 matrix
# with any strides: sliced, transposed, every second column. Do not copy `x` first: each element
# is read once, where it lies. In PyTorch: `x / 2`.


# %%
# exercise 02.2
@triton.jit
def half_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_xm, stride_xn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    # about 3 lines from here
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * stride_xm + cols[None, :] * stride_xn, mask=mask)
    tl.store(out_ptr + rows[:, None] * n_cols + cols[None, :], x / 2, mask=mask)
    # to here


def half(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    # about 2 lines from here
    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))
    half_kernel[grid](x, out, *x.shape, *x.stride(), BLOCK_M=32, BLOCK_N=32)
    # to here
    return out


# %%
check("02.2", half)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The load goes by the strides of `x`, the store by those of `out`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `out` is contiguous: its rows are `n_cols` elements apart.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# Strides count elements. Multiply them by nothing.
#
# </details>

# %% [markdown]
# ## Neighbours in memory
#
# Memory comes in *sectors* of 32 bytes. When a warp loads, the hardware fetches every sector that
# holds one of its 32 addresses. Let each thread load one float32. **Predict** how many sectors
# that is when neighbours lie side by side, and when each is a row of 4,096 further on.


# %% tags=["nbval-check-output"]
def sectors(stride):
    return len({4 * thread * stride // 32 for thread in range(32)})


for stride in (1, 2, 8, 4096):
    print(f"{stride:5} elements apart: {sectors(stride):3} sectors for 128 bytes wanted")

# %% [markdown]
# Side by side, four sectors hold exactly the 128 bytes: the load is *coalesced*. From 8 elements
# on, each thread pays a sector of its own, and seven eighths of what is moved is thrown away. The
# hardest case is a transpose: whoever reads along rows writes along columns.
#
# **Predict** which share of the copy roof a transpose reaches that gives each program a row, and
# which one that gives it a tile.


# %%
@triton.jit
def transpose_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_xm, stride_xn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * stride_xm + cols[None, :] * stride_xn, mask=mask)
    tl.store(out_ptr + cols[None, :] * n_rows + rows[:, None], x, mask=mask)


def transpose(x):
    out = torch.empty(x.shape[1], x.shape[0], dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.shape[0], 64), triton.cdiv(x.shape[1], 64))
    transpose_kernel[grid](x, out, *x.shape, *x.stride(), BLOCK_M=64, BLOCK_N=64)
    return out


# %%
result = verify(transpose, lambda x: x.T.contiguous(), cases=matrices())
print(result)
assert result.right

# %%
speeds = bench(transpose, like="transpose") if MODE.gpu else recorded("transpose")
draw.speeds(speeds)

# %% [markdown]
# A row a program (`transpose_v1`) reads well and writes a sector for every element. A tile reads
# rows of 64 and writes columns of 64: both long runs. You wrote nothing for that: the compiler
# deals a tile out to the threads one way for the load and another for the store, and turns it
# around in shared memory in between. Lesson 03 shows where. PyTorch's own, one kernel for any
# strides, lies between the two.
#
# `draw.access` shows which program touches what, and the sectors of a warp's first requests, as
# the kernel compiles for an H100 or H200. A tile of 1 x 128 is a row a program. **Predict** what
# its store looks like.

# %%
x, out = torch.rand(128, 128, device=DEVICE), torch.empty(128, 128, device=DEVICE)
args = (x, out, 128, 128, 128, 1)
draw.access(transpose_kernel, (128, 1), *args, BLOCK_M=1, BLOCK_N=128, target="sm_90")

# %%
draw.access(transpose_kernel, (2, 2), *args, BLOCK_M=64, BLOCK_N=64, target="sm_90")

# %% [markdown]
# A warp that stores a piece of a row writes into 32 rows of the output, a sector in each: eight
# times the least. With tiles, pieces of whole rows are asked for on both sides. `cost` gives the
# same in numbers, for the whole launch. Counted for an H200, both transposes agree with that GPU's
# own counters to the last sector.

# %%
x, out = torch.rand(1024, 1024, device=DEVICE), torch.empty(1024, 1024, device=DEVICE)
args = (x, out, 1024, 1024, 1024, 1)
by_row = cost(transpose_kernel, (1024, 1), *args, BLOCK_M=1, BLOCK_N=1024, target="H200")
by_tile = cost(transpose_kernel, (16, 16), *args, BLOCK_M=64, BLOCK_N=64, target="H200")
for name, each in (("a row a program", by_row), ("a tile a program", by_tile)):
    print(f"{name:16} loads {each.sectors_loaded:,} sectors, stores {each.sectors_stored:,}")

# %% [markdown]
# ### Exercise 02.3 · A stack of transposes (stretch)
#
# Transpose each matrix of a contiguous float32 stack `x` of shape `[batch, rows, columns]` into
# a contiguous one of shape `[batch, columns, rows]`, with one launch on a grid of three axes. In
# PyTorch: `x.transpose(1, 2).contiguous()`.


# %%
# exercise 02.3
@triton.jit
def transpose_stack_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    # about 5 lines from here
    start = tl.program_id(axis=2) * n_rows * n_cols
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + start + rows[:, None] * n_cols + cols[None, :], mask=mask)
    tl.store(out_ptr + start + cols[None, :] * n_rows + rows[:, None], x, mask=mask)
    # to here


def transpose_stack(x):
    batch, n_rows, n_cols = x.shape
    out = torch.empty(batch, n_cols, n_rows, dtype=x.dtype, device=x.device)
    # about 2 lines from here
    grid = (triton.cdiv(n_rows, 32), triton.cdiv(n_cols, 32), batch)
    transpose_stack_kernel[grid](x, out, n_rows, n_cols, BLOCK=32)
    # to here
    return out


# %%
check("02.3", transpose_stack)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Matrix number `b` starts at `b * n_rows * n_cols`, in `x` and in `out`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# In `out` a step along the columns of `x` is `n_rows` elements long.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# The tile keeps its shape, and so does its mask: only the addresses of the store differ.
#
# </details>

# %% [markdown]
# ### Exercise 02.4 · Sectors (core)
#
# The 32 threads of a warp each load one float16, 8 elements apart. How many sectors of 32 bytes
# are fetched?

# %%
# exercise 02.4
answer = None
# about 1 line from here
answer = 32 * 8 * 2 / 32
# to here

# %%
check("02.4", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many bytes lie between the first element of one thread and of the next?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `sectors` above is written for 4-byte elements.
#
# </details>

# %% [markdown]
# ## Three kinds of pointer
#
# `x_ptr + i` with a number is a *scalar pointer*: one element. With a block it is a *block of
# pointers*: one for each lane, as in all of this lesson. The third kind describes the matrix once
# and is then asked for tiles: a *tensor descriptor*. Look for the strides and masks that are
# gone.


# %%
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def copy_tile_kernel(x_desc, out_desc, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0) * BLOCK_M
    col = tl.program_id(axis=1) * BLOCK_N
    out_desc.store([row, col], x_desc.load([row, col]))


# %% tags=["nbval-check-output"]
x = torch.arange(40.0, device=DEVICE).reshape(5, 8)
out = torch.zeros_like(x)
x_desc, out_desc = (TensorDescriptor.from_tensor(each, [4, 8]) for each in (x, out))
copy_tile_kernel[(2, 1)](x_desc, out_desc, BLOCK_M=4, BLOCK_N=8)
print(torch.equal(x, out))

# %% [markdown]
# The descriptor knows shape, strides and tile, so nothing goes past the edges. On Hopper and
# later its loads are done by a unit of their own, the tensor memory accelerator; in return it
# asks for a last stride of 1 and for addresses and other strides that are multiples of 16 bytes.
# Older code has `tl.make_block_ptr` for this: it warns from Triton 3.7 on and is gone in 3.9.

# %% [markdown]
# ### Exercise 02.5 · What a descriptor can describe (core)
#
# `x` is a contiguous float32 matrix of 64 x 64. For which of these does
# `TensorDescriptor.from_tensor` work, on a GPU with a tensor memory accelerator? Answer with a
# letter.
#
# - **a** `x.T`
# - **b** `x[:, 1:]`
# - **c** `x[1:, :32]`
# - **d** `x[:, ::2]`

# %%
# exercise 02.5
answer = None
# about 1 line from here
answer = "c"
# to here

# %%
check("02.5", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write down for each: the strides, and how many bytes after `x` it begins.
#
# </details>

# %% [markdown]
# ## One kernel for two
#
# A layer of a network ends in `gelu(x + bias)`, with one bias for each column: `bias[None, :]`
# broadcasts over the rows. As two kernels the sum goes to memory and comes back. **Predict** how
# much faster one kernel is.

# %% tags=["nbval-check-output"]
elements = 65536 * 4096
two_kernels = 4 * 4 * elements  # read x, write the sum; read the sum, write the result
one_kernel = 2 * 4 * elements  # read x, write the result
print(f"{two_kernels / 1e9:.1f} GB against {one_kernel / 1e9:.1f} GB")

# %%
speeds = recorded("bias_gelu")
draw.speeds(speeds)

# %% [markdown]
# The bytes counted are those of one kernel, so two kernels that both run at the roof come to half
# of it. That is what *fusing* buys, for every chain of element-wise operations: the kernels'
# arithmetic is the same, the trips to memory are fewer. PyTorch's two do not even run at the
# roof. The bias costs nothing: its 16 KB stay in the cache.
#
# **Predict:** in bfloat16 there are half as many bytes. Is the fused kernel still at the roof?

# %%
halves = recorded("bias_gelu_bfloat16")
for each in (speeds, halves):
    timing = each.at("bias_gelu", 65536)
    share = timing.tb_s / each.copy_tb_s
    print(f"{each.x_name}: {timing.ms * 1e3:.0f} us, {share:.0%} of the copy roof")

# %% [markdown]
# It is faster, but by less than two, and no longer at the roof. `erf` makes this kernel some
# forty instructions an element, computed in float32 either way, and with half the bytes they take
# longer than the memory. Both limits exist for every kernel; the larger one is the time.

# %% [markdown]
# ### Exercise 02.6 · Bias and GELU in half precision (core)
#
# `gelu(x + bias)` for a contiguous float16 or bfloat16 matrix `x` and a `bias` of its width, in
# one kernel. Compute in float32, and round once, when the result is stored. GELU is `t / 2 * (1 +
# erf(t / sqrt(2)))`, with `tl.erf`. In PyTorch: `torch.nn.functional.gelu(x + bias)`.


# %%
# exercise 02.6
@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]
    # about 5 lines from here
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    bias = tl.load(bias_ptr + cols, mask=cols < n_cols).to(tl.float32)
    t = tl.load(x_ptr + offsets, mask=mask).to(tl.float32) + bias[None, :]
    gelu = t / 2 * (1 + tl.erf(t * 0.7071067811865476))
    tl.store(out_ptr + offsets, gelu, mask=mask)
    # to here


def bias_gelu(x, bias):
    out = torch.empty_like(x)
    # about 2 lines from here
    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))
    bias_gelu_kernel[grid](x, bias, out, *x.shape, BLOCK_M=32, BLOCK_N=32)
    # to here
    return out


# %%
check("02.6", bias_gelu)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `.to(tl.float32)` right after each load. The store converts back by itself.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# One number of the bias for each column: load a block of `BLOCK_N`, and give it a row's shape.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# `1 / sqrt(2)` is 0.7071067811865476.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Give `copy_kernel` a third axis, and copy `[batch, rows, columns]`. Try it on `torch.randn(3,
#   33, 100, device=DEVICE).transpose(0, 2)`, with `torch.equal`.
# - Swap the axes of the grid in `transpose`: `(columns, rows)`, with the two `program_id`s
#   swapped as well. Does `verify` mind?
# - Write `x + y` for a column `x` of shape `[m, 1]` and a row `y` of shape `[1, n]`. Each program
#   loads `BLOCK_M` numbers of `x` and `BLOCK_N` of `y`, and no tile. Compare it with PyTorch's by
#   `torch.equal`.
#
# ## In practice
#
# `torch.compile` fuses chains such as bias and GELU by itself, into Triton kernels like this one.
# Write your own where it does not: where a reduction, a strange layout or a matrix product stands
# in between. The finished operations, for any strides and batches, are
# [kernels/transpose.py](../kernels/transpose.py) and
# [kernels/bias_gelu.py](../kernels/bias_gelu.py).
#
# ## Further reading
#
# - [Tensor
#   descriptors](https://triton-lang.org/main/python-api/generated/triton.language.make_tensor_descriptor.html)
#   in Triton's reference
# - M. Harris: *An Efficient Matrix Transpose in CUDA C/C++*, NVIDIA developer blog, 2013: the
#   same transpose with the shared memory written by hand
