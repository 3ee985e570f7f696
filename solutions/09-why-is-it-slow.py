# %% [markdown]
# # 09 · Why is it slow?
#
# Here are four kernels. They are right, and they are slow, and nobody tells you why. You find out,
# with four questions that you ask in the same order each time.
#
# **By the end you can** tell whether loads are wide, whether registers spill, and whether sectors are
# wasted; find out why a kernel is slow, and fix it.
#
# **You need** notebook {who-holds-what}.
#
# | section | about minutes |
# |---|---|
# | Registers and spills | 5 |
# | When a kernel is slow | 60 |
# | Beginning and end | 6 |
# | **Together, an estimate** | 71 |
# | Stretch exercises, for those with time left | 20 |

# %%
from course import check, cost, hint, lower
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.


# %%
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


x = torch.empty(98432)
s = lower(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, target="sm_90")
s

# %% [markdown]
# ## Registers and spills
#
# A bigger block means fewer programs and more elements per thread. Why not take a block of
# 32,768, then?
#
# Everything that a thread holds needs a register, and registers are few. A multiprocessor has
# 65,536 of them for all the programs that it runs at a time, and one thread can have 255 at most.
# Remember from notebook {which-block-size} what follows. The more registers each program needs, the
# fewer programs fit at a time: the occupancy goes down. And when even 255 do not suffice, values
# spill: they are kept in memory.
#
# **Predict:** with 4 warps, how many registers does a thread need for its elements of `x` and `y`
# alone, in a block of 16,384? And of 32,768?
#
# <details>
# <summary>Answer</summary>
#
# 16,384 elements over 128 threads are 128 of each vector: 256 registers if all of `x` and `y`
# were held at once. The compiler gets by with 235, by adding some elements before it has loaded
# all. In a block of 32,768 a thread has 256 elements of each vector, and that does not fit.
#
# </details>

# %% tags=["nbval-check-output"]
for block_size in (1024, 4096, 16384, 32768):
    each = lower(add_kernel, x, x, x, 98432, BLOCK_SIZE=block_size, target="sm_90").resources
    spills = "spills" if each.spill_bytes else "no spill"
    print(f"{block_size:6}: {each.registers:3} registers, {spills}, occupancy {each.occupancy:.0%}")

# %% [markdown]
# At 32,768 the assembler gave up on registers and keeps the blocks in memory. So a thread needs
# only 32 of them, and the occupancy is back at 100 %. But notebook {which-block-size} has its
# speed, and it was the slowest of all. High occupancy is not speed. It says how
# many warps there are to choose from while others wait, and no more than that.
#
# The assembler, which turns PTX into machine code, does not always give up like that. Usually it
# keeps what fits in registers, 255 per thread, and spills only the rest. A few spilled bytes cost
# next to nothing, as with 16 warps in notebook {which-block-size}. Hundreds or thousands cost time.

# %% [markdown]
# ## When a kernel is slow
#
# Now you have what it takes to find out why a kernel is slow. Go through four questions, in this
# order, because the first ones are the cheapest to answer:
#
# | | what may be wrong | where you see it | a usual cure |
# |---|---|---|---|
# | **a** | too few programs: some multiprocessors have nothing to do | the grid; an H200 has 132 multiprocessors | cut the work into more programs |
# | **b** | narrow loads of neighbors | `lower(…).counts["ptx"]`: loads, and how many of them are wide | divisibility, a promise |
# | **c** | wasted sectors: the lanes of a warp load elements that lie far apart | `cost(…)`: "times the least" behind each access | let the last axis go along memory |
# | **d** | spills: a thread needs more than 255 registers | `lower(…).resources`: bytes spilled | smaller blocks, or more warps |
#
# How do you tell **b** from **c**? Not by the numbers: where the lanes' elements lie far apart, the
# loads are narrow as well, and narrow loads of neighbors may ask for the same sectors again, as you
# saw with 98,433 elements. So look at the address in your kernel. Where `tl.arange` is added as it
# is, neighboring lanes load neighboring elements, and narrow loads are **b**. Where the `tl.arange`
# of the last axis has been multiplied by a stride, or divided (`//`, `%`), the lanes may lie apart,
# and that is **c**. (A division by which neighboring lanes get the same element, such as a row's
# factor, is fine.)
#
# Narrow loads cost less than their count says: three of four find their sectors in a cache. So before
# all this, compare the measured time with the bytes over the copy roof. If the two agree, only
# moving fewer bytes helps.
#
# Each of the four kernels that follow has one of these problems. Name its letter, and write the
# kernel without it. Nothing is timed: the counts tell, also without a GPU.
#
# The first multiplies each row of a matrix by a factor of its own. It numbers the elements of the
# matrix and gives each program 1,024 of them. The cell shows you how to ask both tools. (On the
# device "meta" a tensor has a shape and takes no memory.)


# %%
@triton.jit
def slow_scale_kernel(x_ptr, scale_ptr, out_ptr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    number = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = number < n_rows * n_cols
    row = number % n_rows
    col = number // n_rows
    scale = tl.load(scale_ptr + row, mask=mask)
    x = tl.load(x_ptr + row * n_cols + col, mask=mask)
    tl.store(out_ptr + row * n_cols + col, x * scale, mask=mask)


# %%
matrix, factors = torch.empty(256, 1024, device="meta"), torch.empty(256, device="meta")
args = (matrix, factors, matrix, 256, 1024)
lowered = lower(slow_scale_kernel, *args, BLOCK_SIZE=1024, target="sm_90")
print({name: count for name, count in lowered.counts["ptx"].items() if "global" in name})
print(lowered.resources)
print(cost(slow_scale_kernel, (256,), *args, BLOCK_SIZE=1024, target="H200"))

# %% [markdown]
# Three lines need a word. Of the 10 loads in the PTX 2 are wide: those of `scale`. The 8 elements
# of `x` are loaded one by one. In the counts of `cost`, the load of `scale` says 4.00: a block
# needs its 256 factors once, and its 1,024 lanes ask for each of them four times. That is little
# beside the other two lines. And the times in the last line count no waste: they say what the task
# needs, not what this kernel takes.

# %% [markdown]
# ### Exercise {slow-rows-and-factors} · Why is it slow? Rows and factors (core)
#
# What slows `slow_scale_kernel` down: **a**, **b**, **c** or **d** of the table? Then write
# `scale_kernel`, which does the same without it, for a contiguous float32 `x` and `out` of
# `n_rows` x `n_cols` and a `scale` of `n_rows`. The exercise launches one program for every
# `BLOCK_SIZE` elements.

# %%
# exercise slow-rows-and-factors
cause = None
# about 1 line from here
cause = "c"
# to here


@triton.jit
def scale_kernel(x_ptr, scale_ptr, out_ptr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    number = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = number < n_rows * n_cols
    # about 4 lines from here
    row = number // n_cols
    scale = tl.load(scale_ptr + row, mask=mask)
    x = tl.load(x_ptr + number, mask=mask)
    tl.store(out_ptr + number, x * scale, mask=mask)
    # to here


answer = cause, scale_kernel

# %%
check("slow-rows-and-factors", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Take the first two lanes of program 0. Which elements do they load, and how far apart are these
# in memory?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The kernel numbers the elements down the columns. Memory numbers them along the rows.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# If elements are numbered along the rows, the number of an element is its offset. Only the row is
# still needed, for the factor.
#
# </details>

# %% [markdown]
# The second kernel collects pages. A server of language models keeps what it remembers of each
# conversation in pages of one long vector, the *pool*, and a table says where the pages of one
# conversation begin. One program copies one page of 2,048 elements, and there are 4,096 of them.


# %%
@triton.jit
def slow_pages_kernel(pool_ptr, starts_ptr, out_ptr, PAGE_SIZE: tl.constexpr):
    page = tl.program_id(axis=0)
    offsets = tl.arange(0, PAGE_SIZE)
    start = tl.load(starts_ptr + page)
    x = tl.load(pool_ptr + start + offsets)
    tl.store(out_ptr + page * PAGE_SIZE + offsets, x)


# %%
pool, pages = torch.empty(2**24, device="meta"), torch.empty(2**23, device="meta")
starts = torch.empty(4096, dtype=torch.int32, device="meta")
lowered = lower(slow_pages_kernel, pool, starts, pages, PAGE_SIZE=2048, target="sm_90")
print({name: count for name, count in lowered.counts["ptx"].items() if "global" in name})
print(lowered.resources)

# %% [markdown]
# ### Exercise {slow-pages} · Why is it slow? Pages of a cache (core)
#
# What slows `slow_pages_kernel` down: **a**, **b**, **c** or **d**? (`cost` says 4.00 times the
# least for the pool, so read the address.) Then write `pages_kernel`, which does the same without
# it. Every page begins at a multiple of `PAGE_SIZE`, a power of two of at least 512.


# %%
# exercise slow-pages
cause = None
# about 1 line from here
cause = "b"
# to here


@triton.jit
def pages_kernel(pool_ptr, starts_ptr, out_ptr, PAGE_SIZE: tl.constexpr):
    page = tl.program_id(axis=0)
    offsets = tl.arange(0, PAGE_SIZE)
    # about 3 lines from here
    start = tl.multiple_of(tl.load(starts_ptr + page), 16)
    x = tl.load(pool_ptr + start + offsets)
    tl.store(out_ptr + page * PAGE_SIZE + offsets, x)
    # to here


answer = cause, pages_kernel

# %%
check("slow-pages", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# No load in the PTX is wide. Are they loads of neighbors?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The compiler does not know what a table holds. You do: say by which number each `start` can be
# divided, as in exercise {wide-loads}.
#
# </details>

# %% [markdown]
# The third kernel divides each row by its sum. It is launched on a matrix of 4,096 rows and
# 32,768 columns: one program per row, `BLOCK_SIZE=32768`, and 4 warps as usual. Ask the tools
# yourself. (For `cost`, a grid of `(8,)` is enough, since all rows are alike.)


# %%
@triton.jit
def slow_shares_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    tl.store(out_ptr + row * n_cols + cols, x / tl.sum(x, axis=0), mask=mask)


# %%
wide = torch.empty(4096, 32768, device="meta")
lower(slow_shares_kernel, wide, wide, 32768, BLOCK_SIZE=32768, target="sm_90")

# %% [markdown]
# ### Exercise {slow-shares-of-a-sum} · Why is it slow? Shares of a sum (core)
#
# What slows `slow_shares_kernel` down: **a**, **b**, **c** or **d**? Then write a launcher
# `shares(x)` that does the same without it, for a contiguous float32 matrix of up to 32,768
# columns. A launch takes its number of warps by name, `kernel[grid](…, num_warps=4)`, and
# `triton.next_power_of_2(n)` gives the block for n columns.

# %%
# exercise slow-shares-of-a-sum
cause = None
# about 1 line from here
cause = "d"
# to here


@triton.jit
def shares_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    # about 2 lines from here
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row * n_cols + cols, x / tl.sum(x, axis=0), mask=cols < n_cols)
    # to here


def shares(x):
    out = torch.empty_like(x)
    n_rows, n_cols = x.shape
    # about 2 lines from here
    block_size = triton.next_power_of_2(n_cols)
    shares_kernel[(n_rows,)](x, out, n_cols, BLOCK_SIZE=block_size, num_warps=16)
    # to here
    return out


answer = cause, shares

# %%
check("slow-shares-of-a-sum", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many elements of `x` does one thread hold, and why must it hold all of them until the sum is
# known?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# There are two ways out. More warps share the row among more threads. Or the kernel goes through
# the row in pieces, twice: once for the sum, and once to divide.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# `num_warps` is an argument of the launch, as in `kernel[grid](…, num_warps=8)`.
#
# </details>

# %% [markdown]
# The fourth kernel limits each row of a matrix to a largest value of its own. The matrix is short
# and very wide: 4 rows of 2^20 elements. Each program goes through its row in a `for` loop, as in
# Python.


# %%
@triton.jit
def slow_limit_kernel(x_ptr, limit_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    limit = tl.load(limit_ptr + row)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
        tl.store(out_ptr + row * n_cols + cols, tl.minimum(x, limit), mask=cols < n_cols)


# %% [markdown]
# ### Exercise {slow-long-rows} · Why is it slow? Four long rows (stretch)
#
# What slows `slow_limit_kernel` down, launched on a grid of `(4,)` with `BLOCK_SIZE=1024`: **a**,
# **b**, **c** or **d**? Then write a launcher `limit_rows(x, limit)` that does the same without
# it, for any contiguous float32 matrix. In PyTorch: `torch.minimum(x, limit[:, None])`.

# %%
# exercise slow-long-rows
cause = None
# about 1 line from here
cause = "a"
# to here


@triton.jit
def limit_kernel(x_ptr, limit_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    limit = tl.load(limit_ptr + row)
    # about 3 lines from here
    cols = tl.program_id(axis=1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + row * n_cols + cols, tl.minimum(x, limit), mask=cols < n_cols)
    # to here


def limit_rows(x, limit):
    out = torch.empty_like(x)
    # about 2 lines from here
    grid = (x.shape[0], triton.cdiv(x.shape[1], 1024))
    limit_kernel[grid](x, limit, out, x.shape[1], BLOCK_SIZE=1024)
    # to here
    return out


answer = cause, limit_rows

# %%
check("slow-long-rows", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many multiprocessors can work on this launch at a time?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Nothing in one part of a row depends on another part. A second axis of the grid can take the
# place of the loop.
#
# </details>

# %% [markdown]
# ## In practice
#
# Keep the order: first the bytes, then the grid, then loads and sectors, then registers. Look at
# the stages only when you have a question for them. In a terminal this writes them all to files
# (`:16` says "divisible by 16"):
#
# ```
# .venv/bin/course lower my_kernel.py:add_kernel \
#     --signature "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024" --out build
# ```
#
# ## What you can do now
#
# Given a slow kernel, you know which four questions to ask and where to find the answers. Ask
# yourself:
#
# 1. A kernel has an occupancy of 25 % and reaches 95 % of the copy roof. Should you worry?
#
# <details>
# <summary>Answer</summary>
#
# No. Enough warps were there to keep memory busy, and more would not make it faster.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/09-why-is-it-slow.py](../solutions/09-why-is-it-slow.py) has all answers.
#
# **Next:** [10, every stage, line by line](10-every-stage.ipynb).
