# %% [markdown]
# # 02 · Two dimensions
#
# Most of what a model computes on is a matrix: one row for each token, one column for each
# feature. A kernel for matrices has to settle two questions that vector add never asked. Where in
# memory is the element in row 7 and column 3? And in which order should the elements be read? The
# second question decides how fast the kernel is: you will meet two transposes that give the same
# result, one of which takes 12 times as long as the other.
#
# **By the end you can**
#
# - address a tile of any matrix by its two strides, and mask its edges,
# - count the sectors that a warp touches, and so tell a good access pattern from a bad one before
#   anything runs,
# - say in bytes what fusing two kernels saves, and write a fused kernel of your own,
# - find a race between two programs, and fix it.
#
# **You need** lesson 01: blocks, offsets, masks, and counting bytes.
#
# | section | about minutes |
# |---|---|
# | A tile of offsets | 25 |
# | Strides | 20 |
# | Neighbors in memory | 20 |
# | Three kinds of pointer | 10 |
# | One kernel for two | 25 |
# | When programs get in each other's way | 20 |
# | Stretch exercises | 35 |
# | **All, an estimate** | 155 |

# %% [markdown]
# **Two questions from lesson 01**, to warm up. Answer them before you unfold the answers.
#
# 1. A vector has 1,000 elements and `BLOCK_SIZE` is 256. How many programs does the launch need,
#    and how many lanes of the last one are masked?
#
# <details>
# <summary>Answer</summary>
#
# Four programs, since `triton.cdiv(1000, 256)` is 4. They have 1,024 lanes together, so 24 lanes
# of the last one are masked.
#
# </details>
#
# 2. How many bytes must `z = x + y` move for 2^26 float32 elements, and how long does that take
#    at the copy roof of 4.25 TB/s?
#
# <details>
# <summary>Answer</summary>
#
# Two reads and one write of 4 bytes for each element: 12 x 2^26 bytes are 805 MB. At 4.25 TB/s
# that takes 190 microseconds.
#
# </details>

# %%
from course import DEVICE, MODE, bench, check, cost, draw, hint, matrices, recorded, replay, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## A tile of offsets
#
# *Routes: one day, all*
#
# Memory has one dimension, so a matrix is stored row after row. In a matrix with 6 columns, row
# `r` begins at offset `6 * r`, and the element in row `r` and column `c` has the offset
# `r * 6 + c`.
#
# In lesson 01 each program owned a block of neighboring elements. With a matrix, a program
# usually owns a **tile**: a rectangle of a few rows and a few columns. (A whole row would do as
# well here. The third section shows why a rectangle is worth the trouble.) The grid then has two
# axes, and `tl.program_id(axis=0)` and `tl.program_id(axis=1)` say which tile is meant.
#
# The picture cuts a 5 x 6 matrix into tiles of 4 x 4. As with vectors, the tiles at the edges
# have more lanes than there are elements.

# %%
draw.tiles(5, 6, block_m=4, block_n=4)

# %% [markdown]
# How does a program get the 16 offsets of its tile? It knows its 4 row numbers and its 4 column
# numbers, and needs every combination of the two. That works as it does in PyTorch:
# `rows[:, None]` has the shape `[4, 1]` and stands the rows up as a column, `cols[None, :]` has
# the shape `[1, 4]` and lays the columns down as a row. Row `r` begins at `6 * r`, so the row
# numbers are multiplied by 6 first: `rows[:, None] * 6 + cols[None, :]`. In this addition each
# side is repeated along the axis where its size is 1, and the sum has the shape `[4, 4]`. This is
# called **broadcasting**.

# %%
draw.broadcast([0, 1, 2, 3], [0, 1, 2, 3], stride=6)

# %% [markdown]
# These are the offsets of the first tile of the matrix above. The next kernel computes its offsets
# like that. So that you can see the tiles, every program writes a number into its own: 10 times its
# first coordinate, plus the second, plus 1.
#
# **Predict:** which program of the grid `(2, 2)` writes a 12, and into which elements of the
# 5 x 6 matrix?
#
# <details>
# <summary>Answer</summary>
#
# Program (1, 1), as `10 * 1 + 1 + 1` is 12. It owns rows 4 to 7 and columns 4 to 7. Only row 4
# and columns 4 and 5 exist, so just two of its sixteen lanes have an element: the last two of the
# last row.
#
# </details>


# %%
@triton.jit
def who_kernel(out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    offsets = rows[:, None] * n_cols + cols[None, :]  # [BLOCK_M, BLOCK_N]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    who = 10 * tl.program_id(axis=0) + tl.program_id(axis=1) + 1
    tl.store(out_ptr + offsets, who, mask=mask)


# %% tags=["nbval-check-output"]
out = torch.zeros(5, 6, dtype=torch.int32, device=DEVICE)
who_kernel[(2, 2)](out, 5, 6, BLOCK_M=4, BLOCK_N=4)
print(out.cpu().numpy())

# %% [markdown]
# Each tile is where the picture has it. The mask has two conditions, one for each axis, and
# both are needed. Write `&` between them and put each comparison in parentheses, because Python
# reads `a < b & c < d` as `a < (b & c) < d`.
#
# What if the mask forgets the columns? Every row that passes exists, so this looks harmless.
#
# **Predict:** the next kernel checks the rows only. What does element [1, 0] of the matrix hold
# at the end?
#
# <details>
# <summary>Answer</summary>
#
# There is no empty space after the last column: the next row starts there. Column 6 of row 0 has
# the offset 6, and that is element [1, 0]. So program (0, 1) stores its 2 there, and program (0,
# 0) stores a 1. In the interpreter program (0, 1) runs later and its 2 stays. On a GPU either may
# be the last one.
#
# </details>


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
# A missing mask along the columns damages the matrix itself: there are 2s at the start of rows 1,
# 2 and 3. (Row 4 got two of them as well, but program (1, 0) ran later and wrote its 11 over
# them.) And row 5 was written as well, though a matrix of 5 rows has none. It hurt nobody, but
# only because we gave the kernel a larger tensor.
#
# When a result is wrong like this, you want to know who wrote the element. `replay` opens at the
# program that wrote a given element last, here element [1, 0]. There is a red mark on each element
# that several programs wrote.

# %%
replay(rows_only_kernel, (2, 2), memory, 5, 6, element=("out_ptr", (1, 0)), BLOCK_M=4, BLOCK_N=4)

# %% [markdown]
# ### Exercise 02.1 · Every pair (core)
#
# Store `out[r, c] = x[r] + y[c]`, for a float32 `x` of `m` elements, a `y` of `n` elements, and a
# contiguous `out` of m x n. The exercise launches a grid of
# `(cdiv(m, BLOCK_M), cdiv(n, BLOCK_N))` programs. In PyTorch: `x[:, None] + y[None, :]`.


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
# *Routes: one day, all*
#
# So far each row began `n_cols` elements after the one before. Is that always so? In PyTorch
# `x[:, :3]` and `x.T` are matrices too, and neither of them copies anything: they are views of
# the same memory.
#
# PyTorch finds their elements by two numbers. The **stride** along an axis says how many elements
# further on in memory the next index of that axis is. A contiguous 4 x 6 matrix has the strides
# `(6, 1)`: 6 elements to the next row, 1 to the next column.
#
# **Predict:** what are the strides of `x[:, :3]`, of `x[:, ::2]` and of `x.T`?
#
# <details>
# <summary>Answer</summary>
#
# `(6, 1)`: cutting columns off moves no row. `(6, 2)`: the next column of the view is two
# elements further on. `(1, 6)`: rows and columns have changed places, and so have the strides.
#
# </details>

# %% tags=["nbval-check-output"]
x = torch.arange(24.0, device=DEVICE).reshape(4, 6)
print("x        ", tuple(x.shape), x.stride())
print("x[:, :3] ", tuple(x[:, :3].shape), x[:, :3].stride())
print("x[:, ::2]", tuple(x[:, ::2].shape), x[:, ::2].stride())
print("x.T      ", tuple(x.T.shape), x.T.stride())

# %% [markdown]
# So a kernel that is given both strides can read any of these views where it lies, with no copy.
# The offset of an element is then `row * stride_xm + col * stride_xn`; the names say the tensor,
# then the axis, M for rows and N for columns.
#
# Does that cost anything in the usual case? No: a stride that a launch finds equal to 1 becomes a
# constant in the compiled kernel, as you saw with `specialize` in lesson 01.


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


# %% [markdown]
# `verify` tries the launcher on matrices of many shapes: contiguous, sliced and transposed ones.

# %%
result = verify(copy, torch.clone, cases=matrices())
print(result)
assert result.right

# %% [markdown]
# Two slips are common with strides. One is to multiply them by the size of an element in bytes.
# NumPy counts its strides in bytes, but PyTorch and Triton count elements. The other is to pass
# the number of columns where the kernel expects the stride from row to row.
#
# **Predict:** the next launcher makes the second slip. What does it read of the left half of `x`,
# `x[:, :3]`? The rows of that view begin with 0, 6, 12 and 18.
#
# <details>
# <summary>Answer</summary>
#
# It takes each row to begin 3 elements after the one before, in the middle of a row of `x`, so it
# reads 0, 1, 2, then 3, 4, 5, and so on.
#
# </details>


# %%
def copy_by_columns(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    copy_kernel[(1, 1)](x, out, *x.shape, x.shape[1], 1, BLOCK_M=32, BLOCK_N=32)
    return out


print(copy_by_columns(x[:, :3]).cpu().numpy())

# %% [markdown]
# For a contiguous matrix the number of columns is the row stride, and the same code is right. So
# a test on contiguous matrices never finds this one. Test on views.
#
# And a stack of matrices? The grid takes a third axis: one more `tl.program_id(axis=2)`, and one
# more stride, from matrix to matrix. A grid has three axes at most. The first can hold about two
# billion programs, each of the others 65,535.

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
# ## Neighbors in memory
#
# *Routes: one day, all*
#
# You can now reach any element. Does it matter in which order? For the result it does not. For
# the time it matters more than anything else in this lesson.
#
# Remember from lesson 01 that memory comes in sectors of 32 bytes: when a warp loads, the
# hardware fetches each sector that holds at least one of its 32 addresses, whole. Suppose each of
# the 32 threads loads one float32, which is 128 bytes together.
#
# **Predict:** how many sectors are fetched when the threads' elements lie side by side? When they
# are 2 elements apart? 8 apart? One row of 4,096 apart?
#
# <details>
# <summary>Answer</summary>
#
# A sector holds 8 float32. Side by side, 32 elements fill 4 sectors. At 2 apart they span twice
# as much: 8 sectors. From 8 apart on, each element lies in a sector of its own: 32 sectors, and
# it gets no worse than that.
#
# </details>


# %% tags=["nbval-check-output"]
def sectors(stride):
    return len({4 * thread * stride // 32 for thread in range(32)})


for stride in (1, 2, 8, 4096):
    print(f"{stride:5} elements apart: {sectors(stride):3} sectors for 128 bytes wanted")

# %% [markdown]
# The same as a picture. An arrow leads from each thread of the warp to the sector that it reads.

# %%
draw.sectors(1, 2, 8)

# %% [markdown]
# Side by side, the four sectors hold exactly the 128 bytes that were asked for. An access that
# wastes no part of its sectors is called **coalesced**. From 8 elements on, seven eighths of what
# is moved is thrown away.
#
# So read and write neighbors. Usually that is easy: let the last axis of your tile go along the
# axis whose stride is 1. The hard case is a *transpose*, `out[c, r] = x[r, c]`: if you read along
# the rows of `x`, you write along the columns of `out`.
#
# This kernel can do it both ways. With `BLOCK_M=1` each program moves a piece of one row, which
# is how most people would write it first. With `BLOCK_M=64` it moves a tile.


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


# %% [markdown]
# `draw.access` draws the same for a real kernel: which program touches which elements, and which
# thread of the first warp asks for which sector in its first *request*, one load or store that a
# warp makes. It compiles the kernel for the GPU you name, because the compiler decides which thread
# gets which element; `sm_90` is an H100 or H200. First one row per program.
#
# **Predict:** a warp stores 32 elements of a row of `x`, here 128 x 128. How many sectors of
# `out` does it touch?
#
# <details>
# <summary>Answer</summary>
#
# It touches 32. The elements go to 32 different rows of `out`, which are 128 elements apart, so
# each lies in a sector of its own. The least would be 4.
#
# </details>

# %%
x, out = torch.rand(128, 128, device=DEVICE), torch.empty(128, 128, device=DEVICE)
args = (x, out, 128, 128, 128, 1)
draw.access(transpose_kernel, (128, 1), *args, BLOCK_M=1, BLOCK_N=128, target="sm_90")

# %% [markdown]
# The loads are coalesced, and the stores move eight times as many sectors as they need to. Give
# each program a column instead, and it is the loads that waste sectors.
#
# A tile is the way out. It is 64 elements wide and 64 high, so there are long runs of neighbors
# in both directions: along its rows in `x`, and along its columns in `out`.

# %%
draw.access(transpose_kernel, (2, 2), *args, BLOCK_M=64, BLOCK_N=64, target="sm_90")

# %% [markdown]
# Now both sides are coalesced. There are a quarter as many requests as before, since each thread
# fetches four neighbors at once: 32 x 16 bytes, which fill 16 sectors. They lie in two rows of the
# tile, 8 in each, hence the gaps. A gap does no harm: what counts is that every byte of the
# fetched sectors is used.
#
# But how can both sides be coalesced? A thread that loaded four neighbors in a row of `x` has
# elements that belong in four different rows of `out`. The answer is that the thread which loads
# an element need not be the one that stores it: in between, the threads of a program exchange
# elements through shared memory. You wrote nothing for that. The compiler arranges it. (In the
# compiler's own text, which lesson 03 teaches you to read, it is one line: `ttg.convert_layout`.)
#
# `cost` gives the same as numbers, for a whole launch on a larger matrix. Its 2^20 float32
# elements fill 131,072 sectors, so that is the least on either side.

# %%
x, out = torch.rand(1024, 1024, device=DEVICE), torch.empty(1024, 1024, device=DEVICE)
args = (x, out, 1024, 1024, 1024, 1)
by_row = cost(transpose_kernel, (1024, 1), *args, BLOCK_M=1, BLOCK_N=1024, target="H200")
by_tile = cost(transpose_kernel, (16, 16), *args, BLOCK_M=64, BLOCK_N=64, target="H200")
for name, each in (("one row per program", by_row), ("one tile per program", by_tile)):
    print(f"{name:20} loads {each.sectors_loaded:,} sectors, stores {each.sectors_stored:,}")

# %% [markdown]
# (We compared these counts with the counters of a real H200: they are equal.)
#
# Before we look at the speed, is it right?


# %%
def transpose(x):
    out = torch.empty(x.shape[1], x.shape[0], dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.shape[0], 64), triton.cdiv(x.shape[1], 64))
    transpose_kernel[grid](x, out, *x.shape, *x.stride(), BLOCK_M=64, BLOCK_N=64)
    return out


# %%
result = verify(transpose, lambda x: x.T.contiguous(), cases=matrices())
print(result)
assert result.right

# %% [markdown]
# Now the speed. The transpose by rows moves 9 sectors where the one by tiles moves 2: one in, and
# eight out instead of one.
#
# **Predict:** if sectors were all that counts, what share of the copy roof would the transpose by
# rows reach? In the plot it is called `transpose_v1`.
#
# <details>
# <summary>Answer</summary>
#
# 2 of 9, so 22 %. What was measured on an H200 is less, about 11 % at best and 8 % at the largest
# size: the count of sectors is a limit, and there are other costs on top of it. The transpose by
# tiles reaches 97 % at the largest size. There it takes 0.52 ms and the one by rows 6.24 ms, 12
# times as long. PyTorch's own, one kernel for tensors with any strides, reaches 27 %.
#
# </details>

# %% [markdown]
# (The copy roof is measured anew for each recording, by a copy of 2 GiB. Here it is 4.28 TB/s. The
# curve `copy` copies matrices of the sizes in the plot, 1 GiB at most, and stays a little below.)

# %%
speeds = bench(transpose, like="transpose") if MODE.gpu else recorded("transpose")
draw.speeds(speeds)

# %% [markdown]
# ### Exercise 02.3 · A stack of transposes (stretch)
#
# Transpose each matrix of a contiguous float32 stack `x` of shape `[batch, rows, columns]` into a
# contiguous one of shape `[batch, columns, rows]`, with one launch on a grid of three axes. In
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
# ## Sitting 2
#
# A good place to stop, or to start again (in a new session, run the import cell first). So far
# you can
#
# - make a tile of offsets by broadcasting, `rows[:, None] * stride_m + cols[None, :] * stride_n`,
#   and mask both of its axes,
# - read any view where it lies, by its two strides,
# - count sectors: 32 bytes each, and a coalesced access of a warp wastes none.
#
# What follows uses these three. It goes from one kernel to several: how to save the trips to
# memory between two kernels, and what happens when programs get in each other's way.

# %% [markdown]
# ## Three kinds of pointer
#
# *Routes: one day, all*
#
# Every kernel so far computed its addresses by hand. Is there no shorter way to say "the tile at
# row 64, column 128"? There is, and it is the third of three kinds of pointer that you will see
# in Triton code.
#
# A **scalar pointer** is `x_ptr + i` with a number `i`: the address of one element. A **block of
# pointers** is `x_ptr + offsets` with a block of offsets: one address for each lane, as in all of
# this lesson. A **tensor descriptor** describes the whole matrix once, with its shape and strides
# and the size of a tile. A kernel then asks it for a tile by the tile's first row and column.
# Notice what is missing in this kernel: strides and masks.


# %%
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def copy_tile_kernel(x_desc, out_desc, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0) * BLOCK_M
    col = tl.program_id(axis=1) * BLOCK_N
    tile = x_desc.load([row, col])  # [BLOCK_M, BLOCK_N]
    out_desc.store([row, col], tile)


# %% tags=["nbval-check-output"]
x = torch.arange(40.0, device=DEVICE).reshape(5, 8)
out = torch.zeros_like(x)
x_desc, out_desc = (TensorDescriptor.from_tensor(each, [4, 8]) for each in (x, out))
copy_tile_kernel[(2, 1)](x_desc, out_desc, BLOCK_M=4, BLOCK_N=8)
print(torch.equal(x, out))

# %% [markdown]
# The second program's tile sticks out of the matrix by three rows, and nothing went wrong: the
# descriptor knows the shape, so lanes outside load 0 and store nothing.
#
# On Hopper GPUs (H100, H200) and later, a unit of its own moves such tiles, the **tensor memory
# accelerator** or TMA. One thread asks it for a whole tile, and no thread computes addresses. In
# return the hardware makes demands: the last stride must be 1, and the address and all other
# strides must be multiples of 16 bytes. In lessons 05 and 06 it pays off. Here it is enough to
# know it when you see it.

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
# ### Exercise 02.8 · A transpose by descriptors (stretch)
#
# Transpose a contiguous float32 matrix once more, `turn(x)`, with a descriptor for `x` and one
# for the output, and not a single stride or mask in the kernel. Rows and columns are multiples of
# 4. `tile.T` is the transpose of a tile. In PyTorch: `x.T.contiguous()`.
#
# (The numbers are out of order here: 02.6 and 02.7 come after this one.)


# %%
# exercise 02.8
@triton.jit
def turn_kernel(x_desc, out_desc, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0) * BLOCK
    col = tl.program_id(axis=1) * BLOCK
    # about 2 lines from here
    tile = x_desc.load([row, col])
    out_desc.store([col, row], tile.T)
    # to here


def turn(x):
    out = torch.empty(x.shape[1], x.shape[0], dtype=x.dtype, device=x.device)
    # about 4 lines from here
    x_desc = TensorDescriptor.from_tensor(x, [32, 32])
    out_desc = TensorDescriptor.from_tensor(out, [32, 32])
    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))
    turn_kernel[grid](x_desc, out_desc, BLOCK=32)
    # to here
    return out


# %%
check("02.8", turn)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Two things are mirrored: the elements inside the tile, and the place of the tile in the matrix.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The launcher makes both descriptors with `TensorDescriptor.from_tensor(tensor, [32, 32])` and
# gives them to the kernel in place of the tensors.
#
# </details>

# %% [markdown]
# ## One kernel for two
#
# *Routes: one day, all*
#
# A layer of a network often ends in `gelu(x + bias)`, with one bias for each column. (GELU is a
# smooth function that leaves large positive numbers as they are and takes large negative ones to
# zero; exercise 02.6 has the formula.) PyTorch runs that as two kernels: the first adds, the
# second applies GELU. The sum goes out to memory in between and comes back at once. You know what
# that costs: count the bytes.
#
# **Predict:** `x` is 65,536 x 4,096 float32. How many bytes do the two kernels move, and how many
# would one kernel move that does both?
#
# <details>
# <summary>Answer</summary>
#
# `x` has 268 million elements, so going through it once is 1.07 GB. Two kernels go through four
# times: read `x`, write the sum, read the sum, write the result. One kernel does it twice. The
# bias is 16 KB; it stays in the cache and does not count.
#
# </details>

# %% tags=["nbval-check-output"]
elements = 65536 * 4096
two_kernels = 4 * 4 * elements  # read x, write the sum; read the sum, write the result
one_kernel = 2 * 4 * elements  # read x, write the result
print(f"{two_kernels / 1e9:.1f} GB against {one_kernel / 1e9:.1f} GB")

# %% [markdown]
# Half the bytes should take half the time: that is what fusing gains, as you saw for the gate in
# lesson 01. Here it is on a larger scale: one fused kernel (`bias_gelu`), the same as two kernels
# (`bias_gelu_v1`), and PyTorch's two, as recorded. For every version the plot divides the bytes
# that one kernel moves by the time. Two kernels move twice as many, so even at full speed they
# come out at half.

# %%
speeds = recorded("bias_gelu")
draw.speeds(speeds)

# %% [markdown]
# For the largest matrix the fused kernel reaches 94 % of the copy roof and our two kernels 48 %,
# about half of that, as counted. PyTorch's two come to 40 %. No arithmetic was saved. The same
# holds for every chain of element-wise operations: fusing it saves the trips to memory in between.
#
# Is memory always the limit, then? In bfloat16 there are half as many bytes.
#
# **Predict:** the float32 kernel takes 536 microseconds. If bytes were all that counts, how long
# would the bfloat16 kernel take?
#
# <details>
# <summary>Answer</summary>
#
# Half as long, 268 microseconds. It takes 382, and is far from the copy roof. GELU needs the error
# function, `erf`, and with it the kernel takes some forty instructions per element, which are
# computed in float32 either way. With half the bytes, the arithmetic takes longer than the
# memory. Every kernel needs a time for its bytes and a time for its arithmetic, and the longer of
# the two decides.
#
# </details>

# %%
halves = recorded("bias_gelu_bfloat16")
for each in (speeds, halves):
    timing = each.at("bias_gelu", 65536)
    share = timing.tb_s / each.copy_tb_s
    print(f"{each.x_name}: {timing.ms * 1e3:.0f} us, {share:.0%} of the copy roof")

# %% [markdown]
# ### Exercise 02.6 · Bias and GELU in half precision (core)
#
# Now your own. Compute `gelu(x + bias)` for a contiguous float16 or bfloat16 matrix `x` and a
# `bias` of its width, in one kernel. Compute in float32, and round once, when the result is
# stored. GELU is `t / 2 * (1 + erf(t / sqrt(2)))`, with `tl.erf`. In PyTorch:
# `torch.nn.functional.gelu(x + bias)`.


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
# One number of the bias for each column: load a block of `BLOCK_N`, and give it the shape of a
# row.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# `1 / sqrt(2)` is 0.7071067811865476. Write the number, and no root has to be computed.
#
# </details>

# %% [markdown]
# You have written a fused kernel. Two things are left to do with any kernel of your own: verify
# it on more cases than the exercise has, and time it. Your kernel counts on contiguous matrices,
# so others are copied first. (As long as 02.6 is open, `verify` says that nothing was written.)


# %%
def mine(x, bias):
    return bias_gelu(x.contiguous(), bias)


def by_torch(x, bias):
    return torch.nn.functional.gelu(x + bias)


cases = matrices(with_row=True, dtypes=(torch.float16, torch.bfloat16))
result = verify(mine, by_torch, cases=cases, absolute=1e-6)
print(result)

# %% [markdown]
# With a GPU, the next cell times your kernel beside PyTorch's two and a copy. Without one, or
# until yours is right, it shows what the course's own reached.

# %%
timed = MODE.gpu and result.right
speeds = bench(mine, like="bias_gelu_bfloat16") if timed else recorded("bias_gelu_bfloat16")
draw.speeds(speeds)

# %% [markdown]
# ## When programs get in each other's way
#
# *Routes: one day, all*
#
# Apart from the mistake in `rows_only_kernel`, every program of this lesson has stored to a tile
# of its own and loaded only what no program stores to. That is why the order of the programs did
# not matter. The next kernel breaks this rule, and it is an easy rule to break.
#
# It smooths a matrix: each element becomes the mean of itself and the element above it. (Above
# row 0 there is nothing, which counts as 0.) To save memory, it stores the result over the input.


# %%
@triton.jit
def smooth_in_place_kernel(x_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + offsets, mask=mask)
    above = tl.load(x_ptr + offsets - n_cols, mask=mask & (rows[:, None] > 0), other=0.0)
    tl.store(x_ptr + offsets, (x + above) / 2, mask=mask)


# %% [markdown]
# To see what happens, let row `r` hold the number `r` everywhere. Then row `r` should become
# `r - 0.5`, and row 0 stays 0.
#
# **Predict:** with two tiles of 4 rows, one below the other, which row can come out wrong? In the
# interpreter, where program 0 runs to its end first, what does it become?
#
# <details>
# <summary>Answer</summary>
#
# Row 4. It is the first row of the second tile and needs row 3, which belongs to the first
# program. That one has already stored 2.5 there, so row 4 becomes (4 + 2.5) / 2 = 3.25 where it
# should be 3.5.
#
# </details>

# %%
x = torch.arange(8.0, device=DEVICE)[:, None].repeat(1, 4)  # row r holds r
smooth_in_place_kernel[(2, 1)](x, 8, 4, BLOCK_M=4, BLOCK_N=4)
print(x[:, 0].tolist())

# %% [markdown]
# You know this from lesson 00: it is a race. Two programs touch the same element, at least one of
# them stores to it, and nothing says who comes first.
#
# What makes races so hard to find is that they need not show. On a GPU both programs may well
# start at the same moment and load before either has stored. Then the result is right, a thousand
# times in a row, and wrong on another GPU. So testing results is not enough. What helps is to ask
# of each load: could another program of this launch have stored there? In CPU mode `verify` asks
# that for you. It notes who stores and who loads what, and reports a race even if the values are
# right.


# %%
def smooth_in_place(x):
    out = x.clone(memory_format=torch.contiguous_format)
    grid = (triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 32))
    smooth_in_place_kernel[grid](out, *x.shape, BLOCK_M=16, BLOCK_N=32)
    return out


def smooth_by_torch(x):
    above = torch.nn.functional.pad(x, (0, 0, 1, 0))[:-1]
    return (x + above) / 2


print(verify(smooth_in_place, smooth_by_torch, cases=matrices(dtypes=(torch.float32,))))

# %% [markdown]
# ### Exercise 02.7 · Find the race, and fix it (core)
#
# First name the cause, with a letter:
#
# - **a** Two programs store to the same element, and the last one wins.
# - **b** A program loads elements that another program may have stored to already.
# - **c** The mask lets lanes through that lie below the last row.
# - **d** Row 0 has no row above it.
#
# Then write a kernel and a launcher `smooth(x)` that cannot race, for a contiguous float32
# matrix. `x` stays as it is.


# %%
# exercise 02.7
cause = None
# about 1 line from here
cause = "b"
# to here


@triton.jit
def smooth_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    # about 3 lines from here
    x = tl.load(x_ptr + offsets, mask=mask)
    above = tl.load(x_ptr + offsets - n_cols, mask=mask & (rows[:, None] > 0), other=0.0)
    tl.store(out_ptr + offsets, (x + above) / 2, mask=mask)
    # to here


def smooth(x):
    out = torch.empty_like(x)
    # about 2 lines from here
    grid = (triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 32))
    smooth_kernel[grid](x, out, *x.shape, BLOCK_M=16, BLOCK_N=32)
    # to here
    return out


answer = cause, smooth

# %%
check("02.7", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Read the message of `verify` again: which program read, which one wrote, and what?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# No barrier and no atomic helps here: a barrier makes the warps of one program wait for one
# another, but never one program for another. If nobody stores to what is loaded, nobody needs to
# wait.
#
# </details>

# %% [markdown]
# ## On your own
#
# - How flat may a tile be? Call `cost` on `transpose_kernel` as above with `BLOCK_M=8` and
#   `BLOCK_N=128`, on a grid of `(128, 8)`, then with `BLOCK_M=4` on `(256, 8)`. Does either of
#   them waste sectors? How many rows must a tile have at least to waste none, and why? Work out
#   the limit for float16, and check it.
# - Give `copy_kernel` a third axis, and copy `[batch, rows, columns]`. Try it on
#   `torch.randn(3, 33, 100, device=DEVICE).transpose(0, 2)`, with `torch.equal`.
# - Fuse another chain: `torch.relu(x * scale + bias)` for a float32 matrix and two vectors of its
#   width. How many kernels is it in PyTorch, and how many bytes do they move for each element of
#   `x`? How many does yours? (Give `verify` a tolerance, `absolute=1e-6`: where the sum cancels,
#   its rounding errors stay.)
#
# ## In practice
#
# `torch.compile` fuses chains such as bias and GELU by itself, into Triton kernels like yours.
# Write your own where it does not: where a reduction, an unusual memory layout or a matrix
# product stands in between. The finished operations, for any strides and batches, are
# [kernels/transpose.py](../kernels/transpose.py) and
# [kernels/bias_gelu.py](../kernels/bias_gelu.py).

# %% [markdown]
# ## What you can do now
#
# You can write a kernel for a matrix of any strides, say before running it how many sectors its
# loads and stores touch, fuse two kernels and predict the gain from the bytes, and recognize a
# program that reads what another one writes.
#
# Three questions to ask yourself:
#
# 1. A kernel is right for every contiguous matrix and wrong for `x[:, :100]`. What do you look at
#    first?
#
# <details>
# <summary>Answer</summary>
#
# At what is passed as the stride from row to row. A contiguous matrix forgives the number of
# columns in its place.
#
# </details>
#
# 2. Each thread of a warp loads one bfloat16, and the threads' elements are 4 apart. Which share
#    of the fetched bytes is used?
#
# <details>
# <summary>Answer</summary>
#
# A quarter. The elements are 8 bytes apart, so a sector of 32 bytes holds four of them, which are
# 8 bytes.
#
# </details>
#
# 3. Three element-wise kernels in a row, each of which reads one tensor and writes one. How much
#    faster can one fused kernel be, and when will it be less?
#
# <details>
# <summary>Answer</summary>
#
# Three times at most: 2 trips through memory in place of 6. It is less once the arithmetic takes
# longer than the two trips, or where the tensors are so small that starting a kernel is what
# takes the time (then saving two launches helps on its own).
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/02-two-dimensions.py](../solutions/02-two-dimensions.py) has all answers.
#
# **Next:** [lesson 03](03-compilation-stages.ipynb). You read what the compiler makes of your
# kernels, and find out there why one is slow.
#
# ## Further reading
#
# - [Tensor
#   descriptors](https://triton-lang.org/main/python-api/generated/triton.language.make_tensor_descriptor.html)
#   in Triton's reference. (Older code has `tl.make_block_ptr` in their place, which Triton 3.9 no
#   longer has.)
# - M. Harris: *An Efficient Matrix Transpose in CUDA C/C++*, NVIDIA developer blog, 2013: the
#   same transpose with the shared memory written by hand
