# %% [markdown]
# # 06 · Neighbors in memory: a transpose
#
# In which order should the elements of a matrix be read? You will meet two transposes that give the
# same result, and one of them takes 12 times as long as the other. Nothing in the Python says which.
#
# **By the end you can**
#
# - count the sectors that a warp touches, and so tell a good access pattern from a bad one before
#   anything runs,
# - name the three kinds of pointer that you will see in Triton code, and say when a descriptor works.
#
# **You need** notebooks {three-in-one} and {two-dimensions}.
#
# | section | about minutes |
# |---|---|
# | Neighbors in memory | 30 |
# | Three kinds of pointer | 10 |
# | Beginning and end | 4 |
# | **Together, an estimate** | 44 |
# | Stretch exercises, for those with time left | 40 |

# %%
from course import DEVICE, MODE, bench, check, cost, draw, hint, matrices, recorded, verify
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# %% [markdown]
# ## Neighbors in memory
#
# You can now reach any element. Does it matter in which order? For the result it does not. For
# the time it matters more than anything else in this notebook.
#
# Remember from notebook {three-in-one} that memory comes in sectors of 32 bytes: when a warp loads,
# the hardware fetches each sector that holds at least one of its 32 addresses, whole. Suppose each
# of the 32 threads loads one float32, which is 128 bytes together.
#
# **Predict:** how many sectors are fetched when the threads' elements lie side by side? When they
# are 2 elements apart? 8 apart? One row of 4,096 apart? Then run the cell, and move the slider
# `stride` to see whether you were right.
#
# <details>
# <summary>Answer</summary>
#
# A sector holds 8 float32. Side by side, 32 elements fill 4 sectors. At 2 apart they span twice
# as much: 8 sectors. From 8 apart on, each element lies in a sector of its own: 32 sectors, and
# it gets no worse than that.
#
# </details>

# %%
draw.ruler(1, 2, 8)

# %% [markdown]
# Each cell of the ruler is an element, in the color of the thread that asks for it. The gray ones
# are moved along with it, and nobody wanted them. Move `start` as well: while several threads share
# a sector, it can add one; from stride 8 on each thread has its own, and it changes nothing.
#
# To count sectors without a picture, divide the number of each byte by 32.


# %% tags=["nbval-check-output"]
def sectors(stride):
    return len({4 * thread * stride // 32 for thread in range(32)})


for stride in (1, 2, 8, 4096):
    print(f"{stride:5} elements apart: {sectors(stride):3} sectors for 128 bytes wanted")

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
# elements that belong in four different rows of `out`. The answer is that the thread which loads an
# element need not be the one that stores it: in between, the threads of a program exchange elements
# through shared memory. Here one warp does so with a tile of 8 x 8. An element keeps the color of
# the thread that loaded it, and its number says which thread handles it in this place.

# %%
draw.exchange(thread=5)

# %% [markdown]
# Thread 5 loads two neighbors and puts them into shared memory. Then it takes two others from
# there, one below the other, which threads 8 and 12 have loaded, and these are neighbors in `out`.
# Every bold row is a sector, and all threads together read and write it whole. You wrote nothing
# for that. The compiler arranges it. (In the compiler's own text, which notebook {who-holds-what}
# teaches you to read, it is one line: `ttg.convert_layout`.)
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
# times as long. PyTorch's own, one kernel for tensors with any strides, reaches 27 %. (The dashed
# line, the copy roof, is a copy of 2 GiB and so lies a little above the curve `copy`, whose largest
# matrix has 1 GiB.)
#
# </details>

# %%
speeds = bench(transpose, like="transpose") if MODE.gpu else recorded("transpose")
draw.speeds(speeds)

# %% [markdown]
# ### Exercise {stack-of-transposes} · A stack of transposes (stretch)
#
# Transpose each matrix of a contiguous float32 stack `x` of shape `[batch, rows, columns]` into a
# contiguous one of shape `[batch, columns, rows]`, with one launch on a grid of three axes. In
# PyTorch: `x.transpose(1, 2).contiguous()`.


# %%
# exercise stack-of-transposes
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
check("stack-of-transposes", transpose_stack)

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
# ### Exercise {count-sectors} · Sectors (core)
#
# The 32 threads of a warp each load one float16, 8 elements apart. How many sectors of 32 bytes
# are fetched?

# %%
# exercise count-sectors
answer = None
# about 1 line from here
answer = 32 * 8 * 2 / 32
# to here

# %%
check("count-sectors", answer)

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
# Every kernel so far computed its addresses by hand. Is there no shorter way to say "the tile at
# row 64, column 128"? There is. You hand the kernel a description of the whole matrix, a **tensor
# descriptor**: its shape, its strides, and the size of a tile. The kernel then asks it for a tile by
# the tile's first row and column. Notice what is missing in this kernel: strides and masks.

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
# So there are three kinds of pointer in Triton code. A **scalar pointer** is `x_ptr + i` with a
# number `i`: the address of one element. A **block of pointers** is `x_ptr + offsets` with a block
# of offsets: one address for each lane. And a tensor descriptor stands for a whole matrix.
#
# On Hopper GPUs (H100, H200) and later, a unit of its own moves such tiles, the **tensor memory
# accelerator** or TMA. One thread asks it for a whole tile, and no thread computes addresses. In
# return the hardware makes demands: the last stride must be 1, and the address and all other
# strides must be multiples of 16 bytes. In notebooks {copies-in-flight} and {finished-on-hopper} it
# pays off. Here it is enough to know it when you see it.

# %% [markdown]
# ### Exercise {descriptor-limits} · What a descriptor can describe (core)
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
# exercise descriptor-limits
answer = None
# about 1 line from here
answer = "c"
# to here

# %%
check("descriptor-limits", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write down for each: the strides, and how many bytes after `x` it begins.
#
# </details>

# %% [markdown]
# ### Exercise {transpose-by-descriptors} · A transpose by descriptors (stretch)
#
# Transpose a contiguous float32 matrix once more, `turn(x)`, with a descriptor for `x` and one
# for the output, and not a single stride or mask in the kernel. Rows and columns are multiples of
# 4. `tile.T` is the transpose of a tile. In PyTorch: `x.T.contiguous()`.


# %%
# exercise transpose-by-descriptors
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
check("transpose-by-descriptors", turn)

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
# ## On your own
#
# - How flat may a tile be? Call `cost` on `transpose_kernel` as above with `BLOCK_M=8` and
#   `BLOCK_N=128`, on a grid of `(128, 8)`, then with `BLOCK_M=4` on `(256, 8)`. Does either of
#   them waste sectors? How many rows must a tile have at least to waste none, and why? Work out
#   the limit for float16, and check it.
#
# ## What you can do now
#
# You can say before running a kernel how many sectors its loads and stores touch. Ask yourself:
#
# 1. Each thread of a warp loads one bfloat16, and the threads' elements are 4 apart. Which share
#    of the fetched bytes is used?
#
# <details>
# <summary>Answer</summary>
#
# A quarter. The elements are 8 bytes apart, so a sector of 32 bytes holds four of them, which are
# 8 bytes.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/06-neighbors-in-memory.py](../solutions/06-neighbors-in-memory.py) has all answers.
#
# **Next:** [07, programs that share: two kernels fused, races](07-programs-that-share.ipynb).
#
# ## Further reading
#
# - [Tensor
#   descriptors](https://triton-lang.org/main/python-api/generated/triton.language.make_tensor_descriptor.html)
#   in Triton's reference. (Older code has `tl.make_block_ptr` in their place, which Triton 3.9 no
#   longer has.)
# - M. Harris: *An Efficient Matrix Transpose in CUDA C/C++*, NVIDIA developer blog, 2013: the
#   same transpose with the shared memory written by hand
