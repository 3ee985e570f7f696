# %% [markdown]
# # 05 · Two dimensions: tiles and strides
#
# Most of what a model computes on is a matrix: one row for each token, one column for each feature.
# A kernel for matrices has to settle a question that vector add never asked: where in memory is the
# element in row 7 and column 3?
#
# **By the end you can** address a tile of any matrix by its two strides, mask its edges, and read any
# view where it lies.
#
# **You need** notebooks {vector-add} and {three-in-one}: blocks, offsets, masks, the copy roof.
#
# | section | about minutes |
# |---|---|
# | A tile of offsets | 30 |
# | Strides | 30 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 70 |

# %% [markdown]
# **Two questions from earlier notebooks**, to warm up. Answer them before you unfold the answers.
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

# %% tags=["runs-here"]
from course import DEVICE, check, draw, hint, matrices, replay, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## A tile of offsets
#
# Memory has one dimension, so a matrix is stored row after row. In a matrix with 6 columns, row
# `r` begins at offset `6 * r`, and the element in row `r` and column `c` has the offset
# `r * 6 + c`.
#
# In notebook {vector-add} each program owned a block of neighboring elements. With a matrix, a
# program usually owns a **tile**: a rectangle of a few rows and a few columns. (A whole row would
# do as well here. Notebook {neighbors-in-memory} shows why a rectangle is worth the trouble.) The
# grid then has two axes, and two numbers say which tile is meant. In this course
# `tl.program_id(axis=0)` counts the tiles downwards, and `tl.program_id(axis=1)` counts them to the
# right.
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


# %% tags=["runs-here"]
@triton.jit
def who_kernel(out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    offsets = rows[:, None] * n_cols + cols[None, :]  # [BLOCK_M, BLOCK_N]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    who = 10 * tl.program_id(axis=0) + tl.program_id(axis=1) + 1
    tl.store(out_ptr + offsets, who, mask=mask)


# %% tags=["nbval-check-output", "runs-here"]
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


# %% tags=["runs-here"]
@triton.jit
def rows_only_kernel(out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]
    who = 10 * tl.program_id(axis=0) + tl.program_id(axis=1) + 1
    tl.store(out_ptr + offsets, who, mask=rows[:, None] < n_rows)


# %% tags=["runs-here"]
memory = torch.zeros(8, 6, dtype=torch.int32, device=DEVICE)  # room for what lands outside
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

# %% tags=["runs-here"]
replay(rows_only_kernel, (2, 2), memory, 5, 6, element=("out_ptr", (1, 0)), BLOCK_M=4, BLOCK_N=4)

# %% [markdown]
# ### Exercise {every-pair} · Every pair (core)
#
# Store `out[r, c] = x[r] + y[c]`, for a float32 `x` of `m` elements, a `y` of `n` elements, and a
# contiguous `out` of m x n. The exercise launches a grid of
# `(cdiv(m, BLOCK_M), cdiv(n, BLOCK_N))` programs. In PyTorch: `x[:, None] + y[None, :]`.


# %% tags=["runs-here"]
# exercise every-pair
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


# %% tags=["runs-here"]
check("every-pair", outer_sum_kernel)

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

# %% tags=["nbval-check-output", "runs-here"]
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
# constant in the compiled kernel, as notebook {which-block-size} shows.


# %% tags=["runs-here"]
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

# %% tags=["runs-here"]
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


# %% tags=["runs-here"]
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
# ### Exercise {any-view} · Any view (core)
#
# Write a launcher `half(x)` that returns `x / 2` as a contiguous matrix, for a float32 matrix
# with any strides: sliced, transposed, every second column. Do not copy `x` first: each element
# is read once, where it lies. In PyTorch: `x / 2`.


# %% tags=["runs-here"]
# exercise any-view
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


# %% tags=["runs-here"]
check("any-view", half)

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
# ## On your own
#
# - Give `copy_kernel` a third axis, and copy `[batch, rows, columns]`. Try it on
#   `torch.randn(3, 33, 100, device=DEVICE).transpose(0, 2)`, with `torch.equal`.
#
# ## What you can do now
#
# You can write a kernel for a matrix of any strides. Ask yourself:
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

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/05-two-dimensions.py](../solutions/05-two-dimensions.py) has all answers.
#
# **Next:** [06, neighbors in memory: a transpose](06-neighbors-in-memory.ipynb).
