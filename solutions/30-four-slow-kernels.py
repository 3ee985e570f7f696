# %% [markdown]
# # 30 · Four slow kernels
#
# Somebody hands you a kernel: it is right, and too slow. In notebook {when-it-is-slow} you fixed two
# such kernels, with **c** and **f** as their causes. Here are four more, one for each of the others.
# What is hard about it is not the cure, which is a line or two. It is to look at a kernel that you
# did not write, and not to begin with the cure that you used last.
#
# **By the end you can** tell apart six causes in kernels of other people, and fix each of them.
#
# **You need** notebook {when-it-is-slow}.
#
# | section | about minutes |
# |---|---|
# | Rows of different lengths | 15 |
# | Pairs of long rows | 20 |
# | A walk along K | 15 |
# | A long sum | 20 |
# | Beginning and end | 5 |
# | **Together, an estimate** | 75 |

# %%
from course import DEVICE, check, diagnose, hint
import torch
import triton
import triton.language as tl

# %% [markdown]
# Each section has a slow kernel and a launch. Answer before you measure: go through the six letters
# in their order, with the kernel in front of you, and write down the first that fits. Then call
# `diagnose(kernel, grid, …, target="H200")` yourself, as notebook {when-it-is-slow} did.
#
# | | what may be wrong |
# |---|---|
# | **a** | too few programs, or a last round of a few |
# | **b** | narrow loads of neighbors |
# | **c** | wasted sectors: lanes load elements that lie apart |
# | **d** | spills: the blocks do not fit in registers |
# | **e** | a loop that waits for its loads in each iteration |
# | **f** | a `tl.dot` without tensor cores, or with an old instruction |
#
# ## Rows of different lengths
#
# Here is the mean of each row of a float16 matrix in which the rows have different lengths.
# In memory they all have the same `stride`, a multiple of 16, and what lies behind a row's end is
# padding: numbers that mean nothing.


# %%
@triton.jit
def slow_means_kernel(x_ptr, lengths_ptr, out_ptr, stride, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    length = tl.load(lengths_ptr + row)
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < length, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, axis=0) / length)


padded = torch.empty(4096, 4096, device="meta", dtype=torch.float16)
lengths = torch.full((4096,), 4000, dtype=torch.int32, device=DEVICE)
means = torch.empty(4096, device="meta")

# %% [markdown]
# ### Exercise {uneven-rows} · Rows of different lengths (core)
#
# The launch is `slow_means_kernel[(4096,)](padded, lengths, means, 4096, BLOCK_SIZE=4096)`. Which
# letter is it? Then write `means_kernel` without it. Every row of `stride` numbers may be read.

# %%
# exercise uneven-rows
cause = None
# about 1 line from here
cause = "b"
# to here


@triton.jit
def means_kernel(x_ptr, lengths_ptr, out_ptr, stride, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    length = tl.load(lengths_ptr + row)
    cols = tl.arange(0, BLOCK_SIZE)
    # about 2 lines from here
    x = tl.load(x_ptr + row * stride + cols, mask=cols < stride, other=0.0).to(tl.float32)
    x = tl.where(cols < length, x, 0.0)
    # to here
    tl.store(out_ptr + row, tl.sum(x, axis=0) / length)


answer = cause, means_kernel

# %%
check("uneven-rows", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# A wide load takes all of its elements or none. What does the compiler know of a length that comes
# from memory, and what of `stride`?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The padding may be read, as long as it does not end up in the sum. `tl.where` chooses between
# values that are loaded already.
#
# </details>

# %% [markdown]
# ## Pairs of long rows
#
# How alike are two vectors? Their cosine says it: the sum of the products, divided by the root of
# the product of the two sums of squares. Here is one program per pair, for the rows of two float32
# matrices. Its author took the softmax of notebook {softmax-of-a-row} as a model: load the row
# once, keep it, compute.


# %%
@triton.jit
def slow_cosine_kernel(x_ptr, y_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    y = tl.load(y_ptr + row * n_cols + cols, mask=mask, other=0.0)
    x = x / tl.sqrt(tl.sum(x * x, axis=0))
    y = y / tl.sqrt(tl.sum(y * y, axis=0))
    tl.store(out_ptr + row, tl.sum(x * y, axis=0))


wide = torch.empty(2048, 32768, device="meta")
cosines = torch.empty(2048, device="meta")

# %% [markdown]
# ### Exercise {long-cosines} · Cosines of long rows (core)
#
# The launch is `slow_cosine_kernel[(2048,)](wide, wide, cosines, 32768, BLOCK_SIZE=32768)`. Which
# letter is it? Then write `cosine_kernel` without it, with the 4 warps that a launch has by itself.
# Must a whole row be there at any time? `BLOCK_SIZE` is 1,024 now, and there may be any number of
# columns.

# %%
# exercise long-cosines
cause = None
# about 1 line from here
cause = "d"
# to here


@triton.jit
def cosine_kernel(x_ptr, y_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    xx = tl.zeros([BLOCK_SIZE], tl.float32)
    xy, yy = xx, xx
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        y = tl.load(y_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        # about 3 lines from here
        xx += x * x
        xy += x * y
        yy += y * y
        # to here
    tl.store(out_ptr + row, tl.sum(xy, axis=0) / tl.sqrt(tl.sum(xx, axis=0) * tl.sum(yy, axis=0)))


answer = cause, cosine_kernel

# %%
check("long-cosines", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many numbers does a thread have to hold, with 32,768 columns, two rows and 128 threads?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Three sums make a cosine, and each of them can be added up tile by tile: of x * x, of x * y, and of
# y * y.
#
# </details>

# %% [markdown]
# ## A walk along K
#
# This is a product of float16 matrices, with tensor cores. It looks before each step along K whether
# there is another one to take.


# %%
@triton.jit
def add_step(acc, a_ptr, b_ptr, rows, cols, ks, N, K):
    a = tl.load(a_ptr + rows[:, None] * K + ks[None, :])
    b = tl.load(b_ptr + ks[:, None] * N + cols[None, :])
    return tl.dot(a, b, acc)


@triton.jit
def slow_walk_kernel(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    while tl.min(ks, axis=0) < K:
        acc = add_step(acc, a_ptr, b_ptr, rows, cols, ks, N, K)
        ks += BLOCK
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


a = torch.empty(1024, 256, device="meta", dtype=torch.float16)
b, c = a.view(256, 1024), torch.empty(1024, 1024, device="meta")

# %% [markdown]
# ### Exercise {walk-along-k} · A walk along K (core)
#
# The launch is `slow_walk_kernel[(16, 16)](a, b, c, 1024, 256, BLOCK=64)`, with
# the three matrices of the cell above. Which letter is it? Then write `walk_kernel` without it, for `M`, `N` and `K` that are
# multiples of 64.

# %%
# exercise walk-along-k
cause = None
# about 1 line from here
cause = "e"
# to here


@triton.jit
def walk_kernel(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    # about 2 lines from here
    for start in range(0, K, BLOCK):
        acc = add_step(acc, a_ptr, b_ptr, rows, cols, start + ks, N, K)
    # to here
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


answer = cause, walk_kernel

# %%
check("walk-along-k", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# To load the tiles of the next iterations ahead, the compiler must know that there will be any.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# How many iterations are there? Write it as a `for` loop over a range.
#
# </details>

# %% [markdown]
# ## A long sum
#
# The last one is a dot product of two long vectors.


# %%
@triton.jit
def slow_dot_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    total = tl.zeros([BLOCK_SIZE], tl.float32)
    for start in range(0, n_elements, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
        total += x * y
    tl.store(out_ptr, tl.sum(total, axis=0))


n = 2**20
flat = torch.empty(n, device="meta")

# %% [markdown]
# ### Exercise {long-sum} · A long sum (core)
#
# The launch is `slow_dot_kernel[(1,)](flat, flat, flat, n, BLOCK_SIZE=1024)`, with `n` = 2^20.
# Which letter is it, of the two that `diagnose` finds? Then write the kernel and the launcher
# `dot(x, y)` without it, for contiguous float32 vectors of any length. It returns a vector of one
# element. Kernels do all of the adding up.

# %%
# exercise long-sum
cause = None
# about 1 line from here
cause = "a"
# to here


@triton.jit
def dot_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    # about 1 line from here
    tl.atomic_add(out_ptr, tl.sum(x * y, axis=0))
    # to here


def dot(x, y):
    # about 2 lines from here
    out = torch.zeros(1, device=x.device)
    dot_kernel[(triton.cdiv(len(x), 4096),)](x, y, out, len(x), BLOCK_SIZE=4096)
    # to here
    return out


answer = cause, dot

# %%
check("long-sum", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many multiprocessors can take part in this launch?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Cut the vectors into blocks, one for each program. Notebook {an-operator} added parts of many
# programs to one number.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Take the fixed kernel of each exercise and put its fault back in another way, so that `diagnose`
#   still finds it. Which of the six can you plant without making the kernel longer?
#
# ## What you can do now
#
# You have fixed each of the six causes once. Ask yourself:
#
# 1. `cost` says of a kernel "8.00 times the least". When is that **c**, and when **b**?
#
# <details>
# <summary>Answer</summary>
#
# Look at the addresses. Where neighboring lanes lie apart, each pays for a sector of its own: **c**.
# Where they are neighbors, and each thread loads its elements one by one, several narrow loads ask
# for the same sectors again: **b**.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/30-four-slow-kernels.py](../solutions/30-four-slow-kernels.py) has all answers.
#
# **Next:** [31, what the six questions leave out](31-what-is-left-out.ipynb).
