# %% [markdown]
# # 08 · When it is slow
#
# So far every kernel of this course came with its answer: somebody had already found out what
# slows it down. The next kernel will be your own. It will be slow, and nobody will tell you why. Or
# it will be wrong only on the GPU, or it will never come back. What do you do first, and what
# after that?
#
# The usual attempt is to change something and time it again: another block size, more warps, one
# more stage. There are more combinations than afternoons, and a faster setting hides the cause
# instead of removing it. This lesson is about the other way: count first, let the count name the
# cause, mend that one, and count again. For kernels that are wrong or hang it is the same: there
# are tools that name the line, and you need to have seen their reports once.
#
# **By the end you can**
#
# - go through a slow kernel in an order that finds the cause early, by hand and with `diagnose`,
# - mend the six usual causes, and show by a count that the cause is gone,
# - read what Proton and Nsight Compute say, and know which five numbers to look at first,
# - find an access outside a tensor, a failed assertion and a loop without end on a GPU, and know
#   what your session can still do after each.
#
# **You need** lessons 01 to 05. You need no GPU: what only a GPU can show was recorded on one.
#
# | section | about minutes |
# |---|---|
# | What to ask first | 2 |
# | One slow kernel | 10 |
# | Mend one yourself | 20 |
# | **All, an estimate** | 32 |

# %% [markdown]
# **Two questions from lessons 03 and 05.** Answer them before you unfold the answers.
#
# 1. A kernel reads a float32 matrix of 64 MiB and writes one of the same size, and the copy roof is
#    4.2 TB/s. It takes 35 us. Is it worth looking for what slows it down?
#
# <details>
# <summary>Answer</summary>
#
# Hardly. 134 MB over 4.2 TB/s are 32 us, so it is within a tenth of the least time. Only moving
# fewer bytes would help.
#
# </details>
#
# 2. The lanes of a warp load 32 float32 that lie 4 KB apart from each other. How many sectors does
#    that take, and how many would do if they were neighbors?
#
# <details>
# <summary>Answer</summary>
#
# 32, one for each lane, since no two of them share a sector of 32 bytes. Neighbors would take 4
# sectors: 128 bytes.
#
# </details>

# %%
from course import DEVICE, check, cost, diagnose, hint, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## What to ask first
#
# *Routes: all*
#
# Before anything else come two questions that have nothing to do with speed. Is the kernel right?
# `verify` says so, and a fast kernel that is wrong is worth nothing. And is it slow at all? Only the
# least possible time can tell: the bytes it must move over the copy roof, or its operations over
# the roof for these, whichever takes longer. `cost` counts both. A kernel at nine tenths of its
# roof is done.
#
# If it is slow, ask these, in this order. You know the first four from lesson 03, and they keep
# their letters.
#
# | | what may be wrong | where you see it | a usual cure |
# |---|---|---|---|
# | **a** | too few programs, or a last round of a few | the grid, against 132 multiprocessors | cut the work into more programs |
# | **c** | wasted sectors: lanes load elements that lie apart | `cost`: "times the least" | the last index of the block goes along memory |
# | **b** | narrow loads of neighbors | `lower(…).counts["ptx"]` | divisibility, a promise, another mask |
# | **d** | spills: the blocks do not fit in registers | `lower(…).resources` | smaller blocks, more warps |
# | **e** | a loop that waits for its loads in each iteration | `ttg.async_copy…` in TTGIR, or none | a `for` loop, `num_stages`, addresses that depend on no other load |
# | **f** | a `tl.dot` without tensor cores, or with an old instruction | `wgmma` or `mma` in PTX, or none | 16-bit operands, 64 rows, 4 warps |
#
# Why this order? The first question is about the whole GPU: if 100 of 132 multiprocessors have
# nothing to do, it does not matter how the others load. The next two are about bytes, since most
# kernels wait for memory, and **c** stands before **b** because lanes that lie apart make narrow
# loads as well. The last three are about what happens inside one program. Only when all six are
# answered is it time to try settings, because now you know that they do not hide anything.
#
# `diagnose` asks all six at once. It compiles the kernel, follows some of its programs in the
# interpreter, counts, and then *sorts*: for each cause it estimates how long the launch would take
# without it, and the one that gains most comes first. That order is worth having, because the parts
# of a GPU work side by side. The part that takes longest sets the time, and mending anything else
# changes nothing that you could measure.

# %% [markdown]
# ## One slow kernel
#
# *Routes: all*
#
# Here is a softmax down the *columns* of a matrix. Somebody had the softmax of lesson 04, one
# program per row, and turned rows into columns: one program per column.


# %%
@triton.jit
def columns_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK_ROWS: tl.constexpr):
    col = tl.program_id(axis=0)
    rows = tl.arange(0, BLOCK_ROWS)
    mask = rows < n_rows
    x = tl.load(x_ptr + rows * n_cols + col, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    share = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + rows * n_cols + col, share, mask=mask)


# %% [markdown]
# First: is it right?

# %% tags=["nbval-check-output"]
x = torch.randn(300, 96, device=DEVICE)
out = torch.empty_like(x)
columns_kernel[(96,)](x, out, 300, 96, BLOCK_ROWS=512)
print(torch.allclose(out, torch.softmax(x, dim=0), atol=1e-6))

# %% [markdown]
# It is. Now the size that matters: 1,024 rows and 16,384 columns in float32. `diagnose` is called
# like a launch, with the grid behind the kernel, and it needs no data: tensors on "meta" have a
# shape and take no memory. It estimates for this machine's GPU, so here we name one, for everybody
# to see the same.
#
# **Predict:** which of the six does it name first?
#
# <details>
# <summary>Answer</summary>
#
# **c**. Neighboring lanes are a row apart, which is 64 KB. Each of them pays for a sector of 32
# bytes and uses 4 of them, in the load and again in the store. There are two findings, since each
# line is counted by itself.
#
# </details>

# %%
n_rows, n_cols = 1024, 16384
big = torch.empty(n_rows, n_cols, device="meta")
diagnose(columns_kernel, (n_cols,), big, big, n_rows, n_cols, BLOCK_ROWS=1024, target="H200")

# %% [markdown]
# Each finding has its number, its line, the reason, and a change to try. Read the gains with care:
# each is what *this* change alone would gain. Mending the store helps most, and the load seems to
# matter little, but only because the store would still hold up everything. You would mend both,
# and here one change does: let the program take 32 columns side by side, with the last index of
# the block along the row.


# %%
@triton.jit
def tiles_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr):
    rows = tl.arange(0, BLOCK_ROWS)[:, None]
    cols = tl.program_id(axis=0) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    x = tl.load(x_ptr + rows * n_cols + cols, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0)[None, :])
    share = numerator / tl.sum(numerator, axis=0)[None, :]
    tl.store(out_ptr + rows * n_cols + cols, share, mask=mask)


# %%
tiles_kernel[(3,)](x, out.zero_(), 300, 96, BLOCK_ROWS=512, BLOCK_COLS=32)
print(torch.allclose(out, torch.softmax(x, dim=0), atol=1e-6))
sizes = {"BLOCK_ROWS": 1024, "BLOCK_COLS": 32}
diagnose(tiles_kernel, (n_cols // 32,), big, big, n_rows, n_cols, **sizes, target="H200")

# %% [markdown]
# The wasted sectors are gone, and what came up behind them is a cause of another kind: **d**. A
# program has 32 times as many elements as before and still 4 warps, so a thread would have to hold
# 256 of them. That is normal. Mending one cause lets the next one show, and so the last step of the
# method is to count again. `diagnose` has tried the cure that it offers: it compiled the kernel
# with 8 warps, and nothing spilled.

# %%
diagnose(tiles_kernel, (n_cols // 32,), big, big, n_rows, n_cols, **sizes, num_warps=8, target="H200")

# %% [markdown]
# "No rule found a cause" and an estimate in which memory takes longest: the kernel now waits for
# nothing but its own bytes. It does not promise that the kernel is fast. It says that none of the
# six causes is there. If the GPU still takes much longer than estimated, `diagnose` says so where
# it can measure, and then the profilers further down have to help.

# %% [markdown]
# ## Mend one yourself
#
# *Routes: all*
#
# In each exercise of this kind you get a slow kernel, name the cause by its letter, and write the
# kernel without it. `check` runs your kernel on its cases, and then holds `diagnose` against it: if
# the cause is still found, you read where.
#
# The first comes from somebody who has written CUDA. There, neighboring *threads* should load
# neighboring elements. So they gave neighboring *programs* neighboring elements.


# %%
@triton.jit
def slow_gate_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE) * tl.num_programs(axis=0) + tl.program_id(axis=0)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * tl.sigmoid(x) * y, mask=mask)


# %%
n = 2**20
flat = torch.empty(n, device="meta")
diagnose(slow_gate_kernel, (n // 1024,), flat, flat, flat, n, BLOCK_SIZE=1024, target="H200")

# %% [markdown]
# ### Exercise 08.1 · A gate (core)
#
# Which letter is it? Then write `gate_kernel`, which computes the same without it: `x * sigmoid(x) *
# y` for float32 vectors of `n_elements`. The exercise launches one program for every `BLOCK_SIZE`
# elements.


# %%
# exercise 08.1
cause = None
# about 1 line from here
cause = "c"
# to here


@triton.jit
def gate_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    lanes = tl.arange(0, BLOCK_SIZE)
    # about 5 lines from here
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + lanes
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * tl.sigmoid(x) * y, mask=mask)
    # to here


answer = cause, gate_kernel

# %%
check("08.1", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write down the offsets of lanes 0 and 1 of program 0, with a grid of 1,024 programs. How far apart
# are they in memory?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# A program is not a thread. The lanes of one block should be neighbors, and then the threads of
# each warp are.
#
# </details>

# %% [markdown]
# ## Sitting 2: an operation of your own
#
# The first sitting was about kernels of others: count, name the cause, mend it, count again, and
# what to do where a kernel is wrong or hangs. Now take an operation of your own model through all
# of it.

# %% [markdown]
# ## What you can do now
#
# You have an order in which to ask why a kernel is slow, and a tool that asks for you. Ask
# yourself:
#
# 1. `diagnose` lists two causes, with gains of about 5.5 and 1.2 times. You mend the second one
#    first. What will you measure?
#
# <details>
# <summary>Answer</summary>
#
# Little or nothing. The first cause still sets the time, whatever else gets faster. And the other
# way round: once the first is mended, the second may gain far more than 1.2 times.
#
# </details>
#
# 2. Why does "too few programs" stand before everything about memory?
#
# <details>
# <summary>Answer</summary>
#
# It is about the whole GPU, and the others about what one program does. Where most multiprocessors
# stand idle, better loads in the few that work change little. It is also the cheapest to see: the
# grid says it.
#
# </details>
#
# 3. `diagnose` finds no cause, and the kernel takes three times as long as estimated. What do you
#    know?
#
# <details>
# <summary>Answer</summary>
#
# That none of its six causes explains the time. Something it has no rule for takes it: profile the
# kernel before you change anything.
#
# </details>
#
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/08-when-it-is-slow.py](../solutions/08-when-it-is-slow.py) has all answers.
#
# **Next:** take the slowest kernel of your own, and ask it the six questions.
