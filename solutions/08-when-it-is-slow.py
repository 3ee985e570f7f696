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
# cause, fix that one, and count again. For kernels that are wrong or hang it is the same: there
# are tools that name the line, and you need to have seen their reports once.
#
# **By the end you can**
#
# - go through a slow kernel in an order that finds the cause early, by hand and with `diagnose`,
# - fix the six usual causes, and show by a count that the cause is gone,
# - read what Proton and Nsight Compute say, and know which five numbers to look at first,
# - find an access outside a tensor, a failed assertion and a loop without end on a GPU, and know
#   what your session can still do after each,
# - take an operation of your own from a specification to an operator with a gradient, and say
#   whether it was worth it.
#
# **You need** lessons 01 to 05. You need no GPU: what only a GPU can show was recorded on one. The
# lesson takes three sittings: kernels of others, and twice an operation of your own.
#
# | section | about minutes |
# |---|---|
# | What to ask first | 2 |
# | One slow kernel | 10 |
# | Fix one yourself | 25 |
# | What a profiler adds | 10 |
# | Settings last | 1 |
# | Wrong on the GPU | 20 |
# | It never comes back | 3 |
# | More slow kernels | 4 |
# | The specification | 5 |
# | The forward pass | 20 |
# | Count and diagnose | 7 |
# | The gradient on paper | 20 |
# | The gradient of the weight | 20 |
# | The operator | 25 |
# | Against torch.compile | 4 |
# | Your report | 1 |
# | Cross-entropy | 1 |
# | Stretch exercises | 95 |
# | **All, an estimate** | 273 |

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
from course import DEVICE, CourseError, apart, check, cost, diagnose, draw, gpu_report, hint
from course import kernel_metrics, lower, step_profile
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## What to ask first
#
# *Routes: all*
#
# Before anything else come two questions. Is the kernel right? `verify` says so, and a fast kernel
# that is wrong is worth nothing. And is it slow at all? Only the least possible time can tell: the
# bytes it must move over the copy roof, or its operations over the roof for these, whichever takes
# longer. `cost` counts both. A kernel at nine tenths of its roof is done.
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
# loads as well. Look at the address to tell them apart: narrow loads of neighbors ask for the same
# sectors again, so `cost` counts more than the least there too. The last three are about what
# happens inside one program. Only when all six are answered is it time to try settings.
#
# `diagnose` asks all six at once, and rarer ones: programs that are too small, too many registers
# or instructions, bytes that many programs load. It compiles the kernel, follows some of its
# programs in the interpreter, counts, and then *sorts*: for each cause it estimates how long the
# launch would take without it, and the one that gains most comes first. The parts of a GPU work
# side by side, so the one that takes longest sets the time, and fixing anything else changes
# nothing that you could measure.

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
small = torch.randn(300, 96, device=DEVICE)
shares = torch.empty_like(small)
columns_kernel[(96,)](small, shares, 300, 96, BLOCK_ROWS=512)
print(torch.allclose(shares, torch.softmax(small, dim=0), atol=1e-6))

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
# each is what *this* change alone would gain. Fixing the store helps most, and the load seems to
# matter little, but only because the L2 cache takes several times as long for a scattered store as
# for a scattered load, and the store would still hold up everything. You would fix both, and here
# one change does: let the program take 32 columns side by side, with the last index of the block
# along the row.


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
tiles_kernel[(3,)](small, shares.zero_(), 300, 96, BLOCK_ROWS=512, BLOCK_COLS=32)
print(torch.allclose(shares, torch.softmax(small, dim=0), atol=1e-6))
sizes = {"BLOCK_ROWS": 1024, "BLOCK_COLS": 32}
diagnose(tiles_kernel, (n_cols // 32,), big, big, n_rows, n_cols, **sizes, target="H200")

# %% [markdown]
# The wasted sectors are gone, and what came up behind them is a cause of another kind: **d**. A
# program has 32 times as many elements as before and still 4 warps, so a thread would have to hold
# 256 of them, and it has 255 registers at most. (The report says 32: as in lesson 03, the assembler
# gave up and keeps them in memory.) Fixing one cause lets the next one show, and so the last step
# of the method is to count again. `diagnose` has tried the cure that it offers: it compiled the
# kernel with 8 warps, and nothing spilled.

# %%
diagnose(tiles_kernel, (n_cols // 32,), big, big, n_rows, n_cols, **sizes, num_warps=8, target="H200")

# %% [markdown]
# "No rule found a cause" and an estimate in which memory takes longest: by the estimate, the kernel
# now waits for nothing but its own bytes. That is no promise that the kernel is fast. If the GPU
# still takes much longer than estimated, `diagnose` says so where it can measure, and then the
# profilers further down have to help.

# %% [markdown]
# ## Fix one yourself
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
    # about 2 lines from here
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + lanes
    mask = offsets < n_elements
    # to here
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * tl.sigmoid(x) * y, mask=mask)


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
# The second kernel is a product of float16 matrices. Its author knew that float16 has few digits,
# so the operands become float32 before they are multiplied, and `input_precision="ieee"` keeps all
# of their digits.


# %%
@triton.jit
def slow_product_kernel(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        a = tl.load(a_ptr + rows[:, None] * K + (start + ks)[None, :]).to(tl.float32)
        b = tl.load(b_ptr + (start + ks)[:, None] * N + cols[None, :]).to(tl.float32)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


# %%
a = torch.empty(1024, 256, device="meta", dtype=torch.float16)
b, c = a.view(256, 1024), torch.empty(1024, 1024, device="meta")
diagnose(slow_product_kernel, (16, 16), a, b, c, 1024, 256, BLOCK=64, target="H200")

# %% [markdown]
# ### Exercise 08.2 · A product (core)
#
# Which letter is it? There are two findings, and you want the one that gains. Then write
# `product_kernel`, just as precise and without it. `M`, `N` and `K` are multiples of `BLOCK`, which
# is 64, and `c` is float32.


# %%
# exercise 08.2
cause = None
# about 1 line from here
cause = "f"
# to here


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        a_ptrs = a_ptr + rows[:, None] * K + (start + ks)[None, :]
        b_ptrs = b_ptr + (start + ks)[:, None] * N + cols[None, :]
        # about 1 line from here
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        # to here
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


answer = cause, product_kernel

# %%
check("08.2", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Lesson 05: how many binary digits does a product of two float16 have, and how many does a float32
# hold?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Each product is exact already. What must be in float32 is the sum, and `acc` is.
#
# </details>

# %% [markdown]
# ## What a profiler adds
#
# *Routes: all*
#
# All of this was counted and estimated. A profiler measures, and answers two questions that no
# count does. Which kernel of a whole program takes the time? And what is a GPU busy with while one
# kernel runs?
#
# **Proton** answers the first. It is the profiler that Triton brings along. You mark parts of a
# program with scopes, and it makes a tree of them, with the kernels as leaves:
#
# ```python
# import triton.profiler as proton
#
# proton.start("step")  # writes step.hatchet
# with proton.scope("backward"):
#     ...
# proton.finalize()
# ```
#
# In a shell, `proton-viewer -m time/us step.hatchet` prints the tree. (If Proton cannot find
# `libcupti.so`, set `TRITON_CUPTI_LIB_PATH` to a folder with one. PyTorch's packages bring it,
# under a name that ends in a version, so make a link to it.) Here is the tree of a training step
# that was recorded on an H200: attention, matrix products and softmax are the course's kernels, the
# rest is PyTorch's. It trains the last layer of a language model. The gradient of its loss by the
# logits is the softmax of the logits, minus 1 at each token's target. Each line has its time, its
# share of the step and its number of kernels.

# %% tags=["nbval-check-output"]
profile = step_profile()
print(profile.tree("one_hot"))

# %% [markdown]
# The attention kernel, which took a whole lesson, is 6 % of the step. If it took no time at all,
# you would hardly notice. Nearly half of the step goes into "minus the targets", which changes one
# number in each row of 32,000. Its kernels are not to blame, since they move what they were asked
# to move. `one_hot` makes a matrix of 64-bit integers of 4,096 x 32,000, which is 1 GB to fill and
# to read again, and the bfloat16 matrix made from it is another quarter of a GB to write and to
# subtract. `shares[tokens, targets] -= 1`, with `tokens = torch.arange(4096)`, subtracts 1 at the
# right places alone:

# %% tags=["nbval-check-output"]
print(profile.tree("in place"))

# %% [markdown]
# One line of Python, and the step takes 1,039 us in place of 1,845. So look at the tree before you
# look at a kernel, and work out what there is to gain.

# %% [markdown]
# ### Exercise 08.9 · Twice as fast (stretch)
#
# Somebody makes `attention_kernel` twice as fast. By how many percent does the step `in place` get
# shorter?

# %%
# exercise 08.9
percent = None
# about 1 line from here
percent = 100 * (102 / 2) / 1039
# to here

# %%
check("08.9", percent)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many microseconds does the kernel lose, and how many does the step have?
#
# </details>

# %% [markdown]
# The second question is for **Nsight Compute**, NVIDIA's profiler for single kernels. It reads the
# GPU's own counters. Five of them are enough to begin with:
#
# ```sh
# ncu --clock-control none --metrics gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,… python script.py
# ```
#
# This is what it said of the softmax down the columns, recorded with the three kernels from above:
# a column per program, then tiles of 32 columns with 4 warps and with 8. The names of the metrics
# are in `kernel_metrics().launches`. The first five rows are the five to look at. The sectors are
# there so that you can compare them with what `diagnose` counted without a GPU. The last two rows
# are a time without the profiler, which is never quite the same, and the least bytes divided by
# that time.
#
# **Predict:** in which row will you find out what the first kernel was waiting for, the one with a
# column per program?
#
# <details>
# <summary>Answer</summary>
#
# In that of the L2 cache, at 81 %. Device memory is nearly idle: it delivers each sector once, and
# the eight programs that need a piece of it find it in the L2 cache. `diagnose` had said "of which
# L2". The counted sectors are exactly those of the counters.
#
# </details>

# %%
metrics = kernel_metrics()
metrics

# %% [markdown]
# Look at memory, L2 cache and multiprocessors: near 80 % or more, that part of the GPU is what the
# kernel waits for. ("Warps there" is no such part.) In the second column memory and L2 are busy,
# but look at what with: more sectors go to spills than to the matrix. `diagnose` had counted these
# 18,776,064 too: it expected 174 us, and the kernel took 203. From the third kernel it expected 32
# us, and that took 51. On a GPU `diagnose` measures, and says so where the estimate explains less
# than 70 % of the time.
#
# The third column is the interesting one. It is seven times as fast as the first, no rule finds a
# cause, and still no part of the GPU is above 66 %. Then look at the last of the five: 12 % of the
# warps that could be there are there. With 214 registers per thread (`lower` counts them) and 256
# threads, a multiprocessor holds a single program, and while that one waits for its column sums
# nothing else is done. Low percentages everywhere and few warps: that is what *waiting* looks like.
# The change to try is a narrower tile, so that two or three programs share a multiprocessor. There
# is room: a copy moves 4.2 TB/s, and the last row says 2.6.
#
# The roofline shows the first and the third kernel. It says "bound by memory" of the first, because
# it counts the bytes that were asked for. Only `diagnose` and the counters see the sectors around
# them. Both do the same operations for the same bytes, so one stands straight above the other. (The
# cell takes a while.)

# %%
whole = (big, big, n_rows, n_cols)
slow = cost(columns_kernel, (n_cols,), *whole, BLOCK_ROWS=1024, target="H200")
fast = cost(tiles_kernel, (n_cols // 32,), *whole, **sizes, num_warps=8, target="H200")
draw.roofline(metrics.timed({"a column": slow, "32, 8 warps": fast}))

# %% [markdown]
# ## Settings last
#
# *Routes: all*
#
# When no cause is left, settings are what remains: block sizes, `num_warps`, `num_stages`. Lesson
# 04 showed how `@triton.autotune` tries them. Five things decide whether it helps.
#
# - *Few configurations.* Each costs a compilation once, and an eighth of a second of launches for
#   every new value of the key. Start from the one that you would choose by counting, and vary one
#   thing at a time around it: half and twice the block, 4 and 8 warps, 2 to 4 stages.
# - *Nothing that cannot run.* Throw out what spills or does not fit into shared memory with
#   `prune_configs_by`. `lower` tells you both without a GPU.
# - *The whole key.* The tuner measures at the first call with a new key, and uses the result for
#   every later call with the same one. The key must name all that decides which setting is best:
#   the sizes that make the loop longer, and those that make the grid larger. Rounding a size up to
#   a power of two before it goes into the key keeps the number of trials small.
# - *Honest input.* It measures with the tensors of that first call. Lengths that are all zero,
#   or a mask that lets nothing through, tune the kernel for doing nothing.
# - *One winner, by chance.* Two settings within a few percent change places from run to run. A
#   process that tunes at each start may then run at another speed each time. Write the winner into
#   the launcher, as the course's kernels do, or keep the choice on disk with `cache_results=True`.

# %% [markdown]
# ### Exercise 08.3 · Well tuned and slow (stretch)
#
# A kernel takes one row per program and is tuned with `key=["n_cols"]`. A server warms up with a
# request of 8 rows, and then it gets requests of 65,536 rows of the same width. They
# take longer than in the author's benchmark, which starts with 65,536 rows. Why?
#
# - **a** It tunes again for each request.
# - **b** It uses what was best for 8 rows.
# - **c** It uses a choice from disk, which was made on another machine.
# - **d** It has compiled a kernel for 8 rows, which is not as good for more.

# %%
# exercise 08.3
reason = None
# about 1 line from here
reason = "b"
# to here

# %%
check("08.3", reason)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# When does the tuner measure? Of rows and columns, which is in its key?
#
# </details>

# %% [markdown]
# ## Wrong on the GPU
#
# *Routes: all*
#
# Now for kernels that are wrong. You have met the course's own tools: `verify` and `check` watch
# every address, `replay` steps through a program. In your own code base, on a real GPU, a kernel
# has three ways to speak for itself.
#
# `tl.static_assert` is checked while the kernel is compiled, so it costs nothing at run time. It can
# hold anything that is a constant: block sizes, types, options. Use it for what your kernel takes
# for granted.


# %%
@triton.jit
def halves_kernel(x_ptr, BLOCK_SIZE: tl.constexpr):
    tl.static_assert(BLOCK_SIZE % 2 == 0, "the block is cut into halves")
    tl.store(x_ptr + tl.arange(0, BLOCK_SIZE), 1.0)


try:
    lower(halves_kernel, torch.empty(1, device="meta"), BLOCK_SIZE=1, target="sm_90")
except CourseError as error:
    print(error)

# %% [markdown]
# `tl.device_print` prints values while the kernel runs. The interpreter prints a block as a whole,
# once for each program.


# %%
@triton.jit
def print_kernel(x_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=-1.0)
    tl.device_print("x", x)


def print_a_block():
    print_kernel[(2,)](torch.arange(6.0), 6, BLOCK_SIZE=4)


apart(print_a_block, interpret=True)

# %% [markdown]
# On a GPU each *thread* prints a line of its own, with the numbers of its program and the place in
# the block. Here is what the same kernel printed on an H200, with one warp.
#
# **Predict:** the two programs have blocks of 4 elements. How many lines are there?
#
# <details>
# <summary>Answer</summary>
#
# There are 64. A warp has 32 threads whatever the block is, so each of the 4 elements is in 8
# threads, which all print it. Two programs print twice as many.
#
# </details>

# %% tags=["nbval-check-output"]
gpu_report("printed")

# %% [markdown]
# So print little: one program, one value. (Put `if tl.program_id(axis=0) == 0:` before it.) And
# look in the right place: the lines go to the standard output of the process, which for a notebook
# is the terminal where Jupyter was started, and not the cell.
#
# `tl.device_assert(condition, message)` is for what depends on data. It is compiled only if the
# environment has `TRITON_DEBUG=1` when the kernel is compiled, or if the launch says `debug=True`;
# otherwise it is not there, and costs nothing. The interpreter does not look at it either. On a GPU
# a failed assertion names its line, the program (CUDA's *block*) and the thread. After that the GPU
# is lost to this process, as after the illegal access below.

# %% tags=["nbval-check-output"]
gpu_report("assertion")

# %% [markdown]
# Here is a kernel that needs one. It copies a row of a table for each token: `out[i] =
# table[index[i]]`. The tokens are padded to equal lengths, and padding has the index -100, as in
# PyTorch's losses.


# %%
@triton.jit
def wrong_embed_kernel(table_ptr, index_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    token = tl.program_id(axis=0)
    row = tl.load(index_ptr + token)
    tl.device_assert(row >= 0, "a negative row")
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(table_ptr + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + token * n_cols + cols, x, mask=cols < n_cols)


# %% [markdown]
# The mask looks at the columns, and nobody looks at the row: row -100 lies before the table. What
# you would see on a GPU depends on what is there. If it is memory of another tensor, the kernel
# copies it and says nothing. The course's tools look at the address itself:

# %%
table, index = torch.ones(50, 20, device=DEVICE), torch.tensor([4, 17, -100], device=DEVICE)
args = (table, index, torch.empty(3, 20, device=DEVICE), 20)
try:
    cost(wrong_embed_kernel, (3,), *args, BLOCK_SIZE=32, target="H200")
except CourseError as error:
    print(error)

# %% [markdown]
# ### Exercise 08.4 · Rows that are not there (core)
#
# Write `embed_kernel`: it copies row `index[i]` of a float32 table of `n_cols` columns to row `i`
# of the output, and writes zeros where the index is -100. The launch has one program per token.


# %%
# exercise 08.4
@triton.jit
def embed_kernel(table_ptr, index_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    token = tl.program_id(axis=0)
    row = tl.load(index_ptr + token)
    cols = tl.arange(0, BLOCK_SIZE)
    # about 2 lines from here
    mask = (cols < n_cols) & (row >= 0)
    copied = tl.load(table_ptr + row * n_cols + cols, mask=mask, other=0.0)
    # to here
    tl.store(out_ptr + token * n_cols + cols, copied, mask=cols < n_cols)


# %%
check("08.4", embed_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# A mask may hold anything that is true or false for each lane. A condition on the row is the same
# for all of them.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# What does a lane hold that the mask leaves out? And which lanes must be stored?
#
# </details>

# %% [markdown]
# What if you have neither an assertion nor the course's tools? Then there is **compute-sanitizer**,
# which comes with CUDA: it runs any program and checks each access of each kernel on the GPU itself.
# Its tool `memcheck` looks for accesses outside of what was allocated. Here is a script whose kernel
# doubles 1,000 numbers in blocks of 128 and has no mask, without the checker and with it. Its lines
# 44 and 45 are `x = tl.load(x_ptr + offsets)` and `tl.store(out_ptr + offsets, 2 * x)`.

# %% tags=["nbval-check-output"]
print(gpu_report("out of bounds"))
print(gpu_report("out of bounds, checked"))

# %% [markdown]
# By itself the script finishes, and its result is right. PyTorch rounds the memory of a tensor up
# to a multiple of 512 bytes, here from 4,000 to 4,096, and the kernel touches just these 96 bytes
# more. At another size they would be another tensor's. The checker names the access (a read of 4
# bytes), the thread and the block, and how far outside the address is. Program 7 begins at element
# 896, so lane 104 is element 1,000, the first that is not there. The line is where the tool saw it,
# and it can be one too late, as here: the read stands in line 44.
#
# Why the variable in front of the command? PyTorch cuts its tensors out of large allocations, and a
# checker that knows only those sees nothing wrong where one tensor ends and the next begins. With
# `PYTORCH_NO_CUDA_MEMORY_CACHING=1` each tensor is an allocation of its own.

# %% [markdown]
# ### Exercise 08.10 · How many errors? (stretch)
#
# The checker counted 24 errors, one for each thread that read outside. (It stopped the program
# there, before the stores.) The same kernel is launched on 900 elements in place of 1,000, again in
# blocks of 128 with one element per thread. How many errors does it count?

# %%
# exercise 08.10
errors = None
# about 1 line from here
errors = 8 * 128 - 900
# to here

# %%
check("08.10", errors)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many programs are there, and how many lanes do they have together?
#
# </details>

# %% [markdown]
# And if an address is so far out that the GPU itself notices? Then you get an error without any
# checker, and it costs you the session:

# %% tags=["nbval-check-output"]
gpu_report("illegal access")

# %% [markdown]
# The launch itself raised nothing, because a launch only puts work into a queue. The error came at
# the next call that waited. From then on *every* call that needs the GPU raises the same error,
# also those that have nothing to do with it, and no tensor on the GPU can be read any more. What is
# on the CPU is untouched: save it, restart the notebook's kernel, and run the launch under
# compute-sanitizer. (`check` and `apart` launch in a process of their own, so that this happens
# there. `verify` launches in yours.)

# %% [markdown]
# ## It never comes back
#
# *Routes: all*
#
# The last kind of trouble is a launch that does not end. There are two ways to write one: a loop
# whose condition never becomes false, and a program that waits for another program. The second
# you know from lesson 00: programs have no order, and the one that is waited for may not have
# started. So here is the first. For each number, the kernel counts the edges that are at most that
# number. The edges are sorted, so it halves the range in which the answer lies, again and again.


# %%
@triton.jit
def endless_count_kernel(edges_ptr, x_ptr, out_ptr, n_edges):
    x = tl.load(x_ptr + tl.program_id(axis=0))
    low, high = 0, n_edges  # the answer is low, or high, or between them
    while low < high:
        middle = (low + high) // 2
        is_counted = tl.load(edges_ptr + middle) <= x
        low = tl.where(is_counted, middle, low)
        high = tl.where(is_counted, high, middle)
    tl.store(out_ptr + tl.program_id(axis=0), low)


# %% [markdown]
# Do not launch it here. If a launch hangs on a GPU, the notebook's stop button does not help: it
# interrupts Python, and Python is not what hangs. The GPU goes on until the process that launched
# it has ended, so you would have to restart the kernel of the notebook and lose your variables.
# `apart` runs a function in a process of its own and ends that process when its time is over. Below
# that you see two programs that were recorded on an H200, one after the other. The first waits for a
# flag that nobody sets, and was ended in the same way; the second found the GPU as usable as before.


# %%
def count():
    edges, out = torch.arange(11.0, device=DEVICE), torch.empty(1, device=DEVICE)
    endless_count_kernel[(1,)](edges, torch.tensor([5.5], device=DEVICE), out, 11)
    print(out)


apart(count, timeout_s=2)
print(gpu_report("hang"), gpu_report("after the hang"), sep="\n\n")

# %% [markdown]
# How do you find out *why*? Take a small case and print what should change in the loop: with
# `tl.device_print("low", low)` you see within a few lines that it stops changing.

# %% [markdown]
# ### Exercise 08.5 · A range that does not shrink (stretch)
#
# Write the two lines so that the loop ends: `out[i]` is the number of edges that are at most
# `x[i]`. The edges are sorted float32 numbers, and the launch has one program per number. In
# PyTorch: `torch.searchsorted(edges, x, right=True)`.


# %%
# exercise 08.5
@triton.jit
def count_kernel(edges_ptr, x_ptr, out_ptr, n_edges):
    x = tl.load(x_ptr + tl.program_id(axis=0))
    low, high = 0, n_edges
    while low < high:
        middle = (low + high) // 2
        is_counted = tl.load(edges_ptr + middle) <= x
        # about 2 lines from here
        low = tl.where(is_counted, middle + 1, low)
        high = tl.where(is_counted, high, middle)
        # to here
    tl.store(out_ptr + tl.program_id(axis=0), low)


# %%
check("08.5", count_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Take `low = 5` and `high = 6`. What is the middle, and what are `low` and `high` after the
# iteration?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# If the edge in the middle is at most x, it is counted. So the answer is at least one more than
# the middle.
#
# </details>

# %% [markdown]
# ## More slow kernels
#
# *Routes: all*
#
# Three more, for practice. Call `diagnose` yourself; the shapes stand in each exercise.
#
# The first takes the mean of each row of a float16 matrix in which the rows have different lengths.
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
# ### Exercise 08.6 · Rows of different lengths (stretch)
#
# The launch is `slow_means_kernel[(4096,)](padded, lengths, means, 4096, BLOCK_SIZE=4096)`. Which
# letter is it? Then write `means_kernel` without it. Every row of `stride` numbers may be read.


# %%
# exercise 08.6
cause = None
# about 1 line from here
cause = "b"
# to here


@triton.jit
def means_kernel(x_ptr, lengths_ptr, out_ptr, stride, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    length = tl.load(lengths_ptr + row)
    cols = tl.arange(0, BLOCK_SIZE)
    # about 3 lines from here
    x = tl.load(x_ptr + row * stride + cols, mask=cols < stride, other=0.0).to(tl.float32)
    x = tl.where(cols < length, x, 0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0) / length)
    # to here


answer = cause, means_kernel

# %%
check("08.6", answer)

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
# The next one is a product again, with tensor cores this time.


# %%
@triton.jit
def slow_walk_kernel(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    while tl.min(ks, axis=0) < K:
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc)
        ks += BLOCK
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


# %% [markdown]
# ### Exercise 08.7 · A walk along K (stretch)
#
# The launch is `slow_walk_kernel[(16, 16)](a, b, c, 1024, 256, BLOCK=64)`, with `a`, `b` and `c`
# from above. Which letter is it? Then write `walk_kernel` without it, for `M`, `N` and `K` that are
# multiples of 64.


# %%
# exercise 08.7
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
    # about 4 lines from here
    for start in range(0, K, BLOCK):
        a = tl.load(a_ptr + rows[:, None] * K + (start + ks)[None, :])
        b = tl.load(b_ptr + (start + ks)[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc)
    # to here
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


answer = cause, walk_kernel

# %%
check("08.7", answer)

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
# And a dot product of two long vectors.


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


# %% [markdown]
# ### Exercise 08.8 · A long sum (stretch)
#
# The launch is `slow_dot_kernel[(1,)](flat, flat, flat, n, BLOCK_SIZE=1024)`, with `n` = 2^20. Which
# letter is it, of the two that `diagnose` finds? Then write the kernel and the launcher `dot(x, y)`
# without it, for contiguous float32 vectors of any length. It returns a vector of one element.


# %%
# exercise 08.8
cause = None
# about 1 line from here
cause = "a"
# to here


@triton.jit
def dot_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    # about 4 lines from here
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
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
check("08.8", answer)

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
# Cut the vectors into blocks, one for each program. Lesson 04 added parts of many programs to one
# number.
#
# </details>

# %% [markdown]
# ## Sitting 2: an operation of your own
#
# A good place to stop, or to start again. The first sitting was about kernels of others: count,
# name the cause, fix it, count again, and what to do where a kernel is wrong or hangs.
#
# Now you take one operation all the way, as you would one of your own: from a few lines of PyTorch
# to an operator that a model trains with. It is RMSNorm, which large language models apply twice in
# each layer. This sitting goes as far as a forward kernel that is right, counted and diagnosed. The
# third one adds the gradient, the operator and the measurement. In a new session, begin here.
#
# The exercises ask for the parts. Between them the lesson runs the course's own parts, which the
# import below calls `finished`, so that you can read on when one of yours does not work yet. Put
# yours in their place as soon as `check` has found them right.

# %%
from course import DEVICE, MODE, bench, check, cost, diagnose, draw, hint, matrices
from course import gpu_report, recorded, verify
from kernels import rms_norm as finished
from kernels.rms_norm_backward import rms_norm_backward_v1
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## The specification
#
# *Routes: all*
#
# RMSNorm divides each row by the root of the mean of its squares, and multiplies each column by a
# weight that the model learns:
#
# ```
# rstd[m]   = 1 / sqrt(mean(x[m] * x[m]) + eps)
# out[m, n] = x[m, n] * rstd[m] * weight[n]
# ```
#
# (`rstd` is short for "reciprocal of the standard deviation", a name that other norms have used for
# longer. `eps` is tiny. It keeps a row of zeros from being divided by zero.)
#
# In a model it is often spelled out, one step per line. That is your specification: it says
# what must come out, for which dtypes, and where a result is rounded.


# %%
def rms_norm_in_steps(x, weight, eps=1e-6):
    wide = x.float()
    squares = wide.square()
    rstd = torch.rsqrt(squares.mean(dim=-1, keepdim=True) + eps)
    normed = wide * rstd
    weighted = normed * weight
    return weighted.to(x.dtype)


# %% [markdown]
# Is it worth a kernel? Count before you write anything. Each line that handles a whole matrix is a
# kernel of its own: it reads its inputs from memory, and writes its result there. (`rstd` is one
# number per row, and the weight stays in the cache, so leave both out.)
#
# **Predict:** how many bytes per element do these lines move for an `x` in bfloat16, and how many
# would do?
#
# <details>
# <summary>Answer</summary>
#
# 40, and 4 would do: read `x` once and write the result once, with 2 bytes each. From the first
# line's result on everything has 4 bytes per element, until the last line writes 2, and the mean
# reads a matrix and writes next to nothing.
#
# </details>

# %% tags=["nbval-check-output"]
read = {"float": 2, "square": 4, "mean": 4, "normed": 4, "weighted": 4, "to": 4}
written = {"float": 4, "square": 4, "mean": 0, "normed": 4, "weighted": 4, "to": 2}
print(sum(read.values()) + sum(written.values()), "bytes per element, where", 2 + 2, "would do")

# %% [markdown]
# So a single kernel can be ten times as fast as the lines one by one. That is a bound and no
# promise: `torch.compile` fuses them too, and you will have to compare with that, not with the
# lines.
#
# The second thing to write before the kernel is the reference, which says what is right.
# `verify` gives it float64. Why not take the specification? Its first line turns float64 into
# float32, so the reference would be rounded like the kernel, and an error of the kernel's size
# would no longer show.


# %%
def rms_norm_reference(x, weight):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight


# %% [markdown]
# ## The forward pass
#
# *Routes: all*
#
# The kernel is close to the softmax of lesson 04: one program per row, the row in registers, one
# reduction. Three questions decide whether it is right:
#
# - Which number must a lane without an element hold, so that the sum of the squares stays the same?
# - The mean divides by a number of elements. Is that `n_cols` or `BLOCK_N`?
# - In which dtype are the squares added up, if `x` has 16 bits?
#
# It also stores `rstd`. Nobody asked for it, so why? The gradient needs it, as you will see. Four
# bytes per row save the backward pass a reduction over all of `x`.

# %% [markdown]
# ### Exercise 08.11 · RMSNorm forward (core)
#
# Write the kernel, for `x` in float32 or float16. Rows are `stride_xm` elements apart, and those of
# `out` lie side by side. Compute in float32; a store rounds. `rstd_ptr` points to one float32 per
# row. The exercise launches one program per row, and `BLOCK_N` is a power of two that is not below
# `n_cols`. `check` looks at `out` and at `rstd`, which it puts beside `out` as one more column.


# %%
# exercise 08.11
@triton.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, stride_xm, eps, BLOCK_N: tl.constexpr
):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    # about 5 lines from here
    x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask).to(tl.float32)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask)
    # to here


# %%
check("08.11", rms_norm_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Begin with the two loads, each with `.to(tl.float32)`. A masked lane of `x` adds its square to the
# sum.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `tl.sum(x * x, axis=0)` is one number per program. `eps` is added to the mean, under the root.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# Two stores: `rstd` is one number and needs no mask, and the result has the mask of the loads.
#
# </details>

# %% [markdown]
# Now the launcher. It has types, since it is to become an operator: PyTorch reads there what the
# operator takes and returns. `wrap` is from lesson 04: on a GPU it marks the launch for
# `torch.compile`. Is your kernel right? Then write `kernel = rms_norm_kernel`.

# %%
kernel = finished.rms_norm_kernel_v2
wrap = torch.library.wrap_triton if MODE.gpu else lambda kernel: kernel


def forward(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    x, n_cols, out = x.contiguous(), x.shape[1], torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rstd = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if x.numel():
        sizes = {"n_cols": n_cols, "stride_xm": n_cols, "BLOCK_N": triton.next_power_of_2(n_cols)}
        wrap(kernel)[(x.shape[0],)](x, weight.contiguous(), out, rstd, eps=eps, **sizes)
    return out, rstd


# %% [markdown]
# Right or wrong comes first, before anything about speed. `matrices(with_row=True)` makes a matrix
# and a row for each of its cases: odd sizes, empty ones, strides, other dtypes, and NaN and
# infinities among the elements.

# %%
result = verify(
    lambda x, weight: forward(x, weight, 1e-6)[0], rms_norm_reference, matrices(with_row=True)
)
print(result)
assert result.right

# %% [markdown]
# ## Count and diagnose
#
# *Routes: all*
#
# A batch of 8,192 tokens of a model with 4,096 columns, in bfloat16. Tensors on the device `meta`
# have sizes and no memory, so you can count a launch that you could never interpret.
#
# **Predict:** how many bytes does the launch load, and how many of them are distinct? Remember that
# each program loads the weight.
#
# <details>
# <summary>Answer</summary>
#
# `x` has 8,192 x 4,096 x 2 = 67,108,864 bytes. Each of 8,192 programs loads 8,192 bytes of weight,
# which are as many again: 134,217,728 in all. But the weights are always the same 8,192 bytes, so
# only 67,117,056 are distinct, and the rest comes from the cache.
#
# </details>

# %%
x = torch.empty(8192, 4096, dtype=torch.bfloat16, device="meta")
weight, rstd = x[0], torch.empty(8192, device="meta")
sizes = {"n_cols": 4096, "stride_xm": 4096, "eps": 1e-6, "BLOCK_N": 4096}
cost(kernel, (8192,), x, weight, x, rstd, **sizes, target="H200")

# %% [markdown]
# Memory binds, no sector is wasted, and nothing spills. Does `diagnose` see anything that you do
# not?

# %%
diagnose(kernel, (8192,), x, weight, x, rstd, **sizes, target="H200")

# %% [markdown]
# At this size there is nothing left that counting could find. Whether the kernel is done, only a
# measurement can say. That is worth finding out early, since otherwise you spend an afternoon on
# warps and stages. But your users will have other sizes. Take the widest rows that somebody may ask
# for: 32,768 float32.

# %%
x = torch.empty(4096, 32768, device="meta")
weight, rstd = x[0], torch.empty(4096, device="meta")
wide = {"n_cols": 32768, "stride_xm": 32768, "eps": 1e-6, "BLOCK_N": 32768}
diagnose(kernel, (4096,), x, weight, x, rstd, **wide, target="H200")

# %% [markdown]
# Four warps are 128 threads, and 32,768 columns are 256 numbers for each of them. That is more than
# the 255 registers that a thread can have, and the weight wants as many again. More warps share the
# row among more threads, so take 16.

# %%
diagnose(kernel, (4096,), x, weight, x, rstd, **wide, num_warps=16, target="H200")

# %% [markdown]
# Nearly. With 512 threads a multiprocessor of 65,536 registers has 128 for each. `x` takes 64 of
# them, and something else takes as many. Even 32 warps would spill, with half the registers for
# each thread.
#
# **Predict:** read your kernel again. What is kept in registers while the program waits for the sum,
# besides `x`? Does it have to be there by then?
#
# <details>
# <summary>Answer</summary>
#
# The weight: 64 numbers per thread, loaded before the sum and used after it. The advice says it in
# general: "compute one after another what is kept at the same time". Nothing needs the weight
# before `rstd` is known, so load it afterwards. It comes from a cache, and other programs work
# meanwhile.
#
# </details>

# %% [markdown]
# The last version of the finished kernel differs from its version 2 in that line. (And in hints for
# the cache, and in `ALIGN`, which promises the compiler that the width is a multiple of so many
# elements.)

# %%
late = finished.rms_norm_kernel_v5
diagnose(late, (4096,), x, weight, x, rstd, **wide, ALIGN=4, num_warps=16, target="H200")

# %% [markdown]
# One line moved down, and nothing spills. Such a change is hard to find by trying settings: no block
# size and no number of warps would have done it.

# %% [markdown]
# ## Sitting 3: train with it
#
# Another good place to stop. You have a specification, a reference, and a forward kernel that is
# right, counted and diagnosed. (In a new session, run the import cell of sitting 2 and the cells of
# `rms_norm_reference` and `forward` first.) What is left is what a model needs to train with it:
# two gradients, an operator, and a fair comparison.

# %% [markdown]
# ## The gradient on paper
#
# *Routes: all*
#
# `d_out[n]` says how much the loss grows if `out[n]` does. We need the same for each `x[i]` of the
# row. Take one row, write `r` for its `rstd` and `N` for its columns, and call `g = d_out * weight`:
# that is what arrives at `x * r`.
#
# Now `x[i]` reaches the loss in two ways. It stands in its own product `x[i] * r`. And it stands in
# the mean, so it moves `r`, and `r` is a factor of *every* element of the row. How much does it
# move `r`? With `r = (mean + eps)^(-1/2)`, and `2 * x[i] / N` as the derivative of the mean:
#
# ```
# derivative of r by x[i] = -1/2 * (mean + eps)^(-3/2) * 2 * x[i] / N  =  -r^3 * x[i] / N
# ```
#
# Add up both ways, and write `x_hat` for `x * r`:
#
# ```
# dx[i] = g[i] * r  +  (sum over j of g[j] * x[j]) * (-r^3 * x[i] / N)
#       = r * (g[i] - x_hat[i] * (sum over j of g[j] * x_hat[j]) / N)
# ```
#
# One reduction over the row, as in the forward pass. The weight is easier: `weight[n]` is a factor
# of column `n` in every row, so
#
# ```
# d_weight[n] = sum over all rows m of d_out[m, n] * x_hat[m, n]
# ```
#
# Both need `x_hat`, and so `rstd`: that is why the forward kernel stored it.

# %% [markdown]
# ### Exercise 08.12 · The gradient of x (core)
#
# Write the kernel for float32, with all rows side by side. The exercise launches one program per
# row.


# %%
# exercise 08.12
@triton.jit
def rms_norm_dx_kernel(d_out_ptr, x_ptr, weight_ptr, rstd_ptr, dx_ptr, n_cols, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    offsets = row * n_cols + cols
    # about 6 lines from here
    rstd = tl.load(rstd_ptr + row)
    x_hat = tl.load(x_ptr + offsets, mask=mask, other=0.0) * rstd
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    g = tl.load(d_out_ptr + offsets, mask=mask, other=0.0) * weight
    mean = tl.sum(g * x_hat, axis=0) / n_cols
    tl.store(dx_ptr + offsets, rstd * (g - x_hat * mean), mask=mask)
    # to here


# %%
check("08.12", rms_norm_dx_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Four loads: `rstd` is one number, `d_out` and `x` are rows, and the weight has no row in its
# offset.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Compute `x_hat` and `g` first. Then it is the last line of the derivation, with `tl.sum`.
#
# </details>

# %% [markdown]
# ## The gradient of the weight
#
# *Routes: all*
#
# `d_weight` is a sum over all rows, and the rows belong to many programs. Lesson 04 met that with
# `tl.atomic_add`, and paid for it: programs end in another order each time, float additions in
# another order give other bits, and so the same training run gives another model. Somebody who
# looks for a bug in it will not thank you.
#
# Here is another way. A program takes many rows and adds them up in registers. Then it stores its
# sum in a place of its own, `partials[part]`. A second kernel adds up these **partial sums**, from
# the first to the last, always in the same order. It costs a second launch, and few bytes: with
# `P` programs and `N` columns, 4 * P * N are written and read again.

# %% [markdown]
# ### Exercise 08.13 · The gradient of the weight (core)
#
# Complete both kernels, and the launcher. `d_out` and `x` are contiguous, and everything is
# float32. Of the blocks of `BLOCK_M` rows, program `part` of `n_parts` takes every `n_parts`-th
# one. Blocks of 16 rows and 64 columns will do, and atomics will not. In PyTorch: `(d_out * x *
# rstd[:, None]).sum(dim=0)`.


# %%
# exercise 08.13
@triton.jit
def partial_sums_kernel(
    d_out_ptr,
    x_ptr,
    rstd_ptr,
    partials_ptr,
    n_rows,
    n_cols,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    part, n_parts = tl.program_id(axis=0), tl.num_programs(axis=0)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(part * BLOCK_M, n_rows, n_parts * BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        offsets = rows[:, None] * n_cols + cols[None, :]
        # about 3 lines from here
        rstd = tl.load(rstd_ptr + rows, mask=rows < n_rows, other=0.0)
        x_hat = tl.load(x_ptr + offsets, mask=mask, other=0.0) * rstd[:, None]
        total += tl.load(d_out_ptr + offsets, mask=mask, other=0.0) * x_hat
        # to here
    tl.store(partials_ptr + part * n_cols + cols, tl.sum(total, axis=0), mask=cols < n_cols)


@triton.jit
def add_partials_kernel(partials_ptr, out_ptr, n_parts, n_cols, BLOCK_N: tl.constexpr):
    cols = tl.program_id(axis=0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros([BLOCK_N], tl.float32)
    # about 2 lines from here
    for part in range(n_parts):
        total += tl.load(partials_ptr + part * n_cols + cols, mask=cols < n_cols, other=0.0)
    # to here
    tl.store(out_ptr + cols, total, mask=cols < n_cols)


def weight_gradient(d_out, x, rstd):
    n_rows, n_cols = x.shape
    n_parts, columns = min(64, triton.cdiv(n_rows, 16)), triton.cdiv(n_cols, 64)
    partials = torch.empty(n_parts, n_cols, dtype=torch.float32, device=x.device)
    out = torch.empty(n_cols, dtype=x.dtype, device=x.device)
    # about 2 lines from here
    partial_sums_kernel[(n_parts, columns)](d_out, x, rstd, partials, *x.shape, BLOCK_M=16, BLOCK_N=64)
    add_partials_kernel[(columns,)](partials, out, n_parts, n_cols, BLOCK_N=64)
    # to here
    return out


# %%
check("08.13", weight_gradient)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# In the first kernel `rstd` is a block of `BLOCK_M` numbers, one per row: `rstd[:, None]` stands
# beside a tile.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The second kernel has one program for each 64 columns, and goes through the partial sums in a
# loop. Part `p` of column `n` lies at `p * n_cols + n`.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# The grids: `(n_parts, columns)`, and `(columns,)`.
#
# </details>

# %% [markdown]
# Does the same input give the same bits? `torch.equal` allows no difference at all, where
# `allclose` would be content with digits. The finished `rms_norm_backward_v1` gives both gradients,
# by kernels like yours. (With yours: `weight_gradient(d_out, x, rstd)` in place of it.)

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
x, weight, d_out = (torch.randn(shape, device=DEVICE) for shape in ((500, 100), (100,), (500, 100)))
rstd = torch.rsqrt(x.square().mean(dim=1) + 1e-6)
first, again = (rms_norm_backward_v1(d_out, x, weight, rstd)[1] for _ in range(2))
print(torch.equal(first, again))
print(torch.allclose(first, (d_out * x * rstd[:, None]).sum(dim=0), atol=1e-3))

# %% [markdown]
# ## The operator
#
# *Routes: all*
#
# One more launcher joins the two gradients. With your parts, its body launches
# `rms_norm_dx_kernel`, one program per row, and returns `dx` with
# `weight_gradient(d_out, x, rstd)`. Here it is with the finished ones:


# %%
def backward(
    d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return rms_norm_backward_v1(d_out, x, weight, rstd)


# %% [markdown]
# Lesson 04 registered an operator with one input and one output. Yours has three inputs and two
# outputs, and that raises two questions.
#
# What does `backward` return for `eps`? PyTorch wants a gradient for *every* input, in their order,
# and `None` where there is none.
#
# And what about the second output? `rstd` is computed from `x`, so PyTorch would take it for
# something that has a gradient, and hand yours a `d_rstd`. Your `backward` ignores it. If somebody
# used `rstd` in a loss, their gradient would be wrong, and nobody would notice.
# `ctx.mark_non_differentiable(rstd)` says that it has none.

# %% [markdown]
# ### Exercise 08.14 · Register it (core)
#
# `make_operator` is given a name and two launchers of the kind above. It registers `forward` as an
# operator, with a gradient that calls `backward(d_out, x, weight, rstd)`, and returns the operator.
# `check` gives it launchers of its own, compares values and gradients with PyTorch's, and runs
# `opcheck` and `gradcheck`.


# %%
# exercise 08.14
def make_operator(name, forward, backward):
    operator = None
    # about 7 lines from here
    operator = torch.library.triton_op(name, forward, mutates_args=())

    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], inputs[1], output[1])

    def gradient(ctx, d_out, d_rstd):
        return (*backward(d_out, *ctx.saved_tensors), None)

    operator.register_autograd(gradient, setup_context=setup_context)
    # to here
    return operator


# %%
check("08.14", make_operator)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `torch.library.triton_op(name, forward, mutates_args=())` returns the operator, and
# `operator.register_autograd(gradient, setup_context=…)` gives it a gradient.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `setup_context(ctx, inputs, output)`: `inputs` are `x`, `weight` and `eps`, and `output` is the
# pair that `forward` returns. Save what `backward` needs.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# The gradient is given `ctx` and one gradient for each output, so `(ctx, d_out, d_rstd)`. It
# returns three things.
#
# </details>

# %% [markdown]
# The finished operator is registered in the same way. Here are its two gradients beside PyTorch's,
# and what `opcheck` finds. For yours, begin with
# `operator = make_operator("lesson08::rms_norm", forward, backward)`.

# %% tags=["nbval-check-output"]
operator = finished.rms_norm_operator
x, weight, d_out = (torch.randn(shape, device=DEVICE) for shape in ((8, 100), (100,), (8, 100)))
x, weight = x.requires_grad_(), weight.requires_grad_()
ours = torch.autograd.grad(operator(x, weight, 1e-6)[0], (x, weight), d_out)
theirs = torch.autograd.grad(rms_norm_reference(x, weight), (x, weight), d_out)
for one, other in zip(ours, theirs, strict=True):
    print(torch.allclose(one, other, atol=1e-4))
tests = ("test_schema", "test_autograd_registration")
print(torch.library.opcheck(operator, (x, weight, 1e-6), test_utils=tests))

# %% [markdown]
# `torch.autograd.gradcheck` goes further. It needs no reference: it moves each input by a
# millionth, looks how much the result changes, and compares that with your gradient. It wants
# float64, and the finished operator computes in float64 where it is given float64. Your kernels
# convert to float32, like most. The next cell runs `gradcheck` on the finished operator, and once
# more with its inputs converted to float32 and its result back.
#
# **Predict:** a float32 has a relative rounding error of about 6e-8. What does that leave of a
# change by a millionth?
#
# <details>
# <summary>Answer</summary>
#
# An error of up to 0.06 of the change itself, and `gradcheck` allows 0.001 by default. So it
# refuses the second, although nothing is wrong with the formula. Where your operation need not
# take float64, let `gradcheck` look at the formula in PyTorch, and compare the kernel with that.
#
# </details>

# %% tags=["nbval-check-output"]
x, weight = (torch.randn(shape, dtype=torch.float64, device=DEVICE) for shape in ((3, 5), (5,)))
inputs = (x.requires_grad_(), weight.requires_grad_())


def in_float32(x, weight):
    return operator(x.float(), weight.float(), 1e-6)[0].double()


for function in (finished.rms_norm, in_float32):
    print(function.__name__, torch.autograd.gradcheck(function, inputs, raise_exception=False))

# %% [markdown]
# ## Against torch.compile
#
# *Routes: all*
#
# Last comes the question that decides whether anybody should use it: is it faster than what you
# have without it? That is not the lines one by one, which you counted at the start. It is the same
# lines under `torch.compile`, and PyTorch's own fused `torch.nn.functional.rms_norm`. A copy of as
# many bytes says what can be had at all. All of them run in the same process, in turns, since a GPU
# changes its clock from minute to minute. Each matrix has 1 GiB, whatever its width.
#
# In GPU mode the next cell times the `rms_norm` that it defines; put yours there. In CPU mode it
# shows what was recorded for the finished one.


# %%
def rms_norm(x, weight):
    return finished.rms_norm_operator(x, weight, 1e-6)[0]


widths = [1024, 4096, 16384]
speeds = bench(rms_norm, like="rms_norm", sizes=widths) if MODE.gpu else recorded("rms_norm")
compared = ["rms_norm", "torch.compile", "torch", "torch, in steps", "copy"]
draw.speeds(speeds, series=compared, relative_to="copy")

# %% [markdown]
# On the H200 the finished kernel reaches the copy at every width, and so does `torch.compile`. They
# are within about 2 % of each other. PyTorch's own comes to less than three quarters of the copy
# at most widths, and the lines one by one to little more than a fifth.
#
# Was it worth it? For the forward pass in float32 alone, no: here you would write `torch.compile`
# above the lines and go home. You know now, because you measured it beside the right peer. What the
# kernel adds is what a compiler does not promise: the same bits each time, in the gradient too, and
# code that stays as it is when you change the model around it. And where a compiler does badly, as
# in lesson 04 for wide softmaxes, you know how to find out, and what to do.
#
# Was the spill of 80 bytes worth a line? `diagnose` estimated no gain by itself. Version 2 is the
# kernel that spilled, and version 5 loads the weight later. Both ran with 16 warps here. (They also
# differ in hints for the cache. At 16,384 columns, where neither spills, both reach 98 % of a copy.)

# %%
last = recorded("rms_norm")
for name in ("rms_norm_v2", "rms_norm_v5"):
    share = last.at("copy", 32768).ms / last.at(name, 32768).ms
    print(f"{name}, 32,768 float32 per row: {share:.2f} of a copy")

# %% [markdown]
# The estimate was wrong about that: something that it does not count costs the spilling version
# about a tenth. An estimate orders what to try. Only the measurement says what it was worth.

# %% [markdown]
# ## Your report
#
# *Routes: all*
#
# A kernel that only you can judge is not finished. A page that somebody else can check should say:
#
# | | a good report holds |
# |---|---|
# | What | the specification, with shapes, strides and dtypes that it takes and what it refuses |
# | Right | the reference in float64, the cases, the largest error, and what was left to a GPU |
# | Least | the bytes and operations that any kernel must spend, and the time that follows |
# | Counted | what this one spends: bytes, sectors over the least, registers, spills |
# | Diagnosed | the first cause at the sizes that matter, what you changed, and the count after it |
# | Gradient | the formula, what is saved for it, whether the bits are the same each time |
# | Measured | GPU, versions and date, beside `torch.compile` and a copy, in the same run |
# | Not done | sizes that are slow, dtypes that are missing, what you would try next |
#
# Write it for your RMSNorm: eight short paragraphs, with numbers that your cells have printed. Then
# compare it with [the worked report](../docs/pages/your-own-operation.md#a-worked-report). You
# should miss none of its eight rows, and yours may well be better in the last.
#
# The same page says how to take [the method](../docs/pages/your-own-operation.md) to an operation of
# your own model.

# %% [markdown]
# ## Cross-entropy
#
# *Routes: all*
#
# For those who want more: the loss of a language model. For each row of logits it is `log(sum of
# exp(x)) - x[target]`. PyTorch's lines write a softmax as large as the logits: with 50,257 columns
# of float32 that is 200 KB per token. Fused into one kernel, a row gives one number, and nothing
# else is written. A row does not fit in registers, so the two running numbers of lesson 04 go
# through it tile by tile.

# %% [markdown]
# ### Exercise 08.15 · Fused cross-entropy (stretch)
#
# Write the forward kernel, for float32 logits whose rows are `stride_xm` elements apart. `target_ptr`
# points to one int64 per row, the column of the right class. Read each logit once, and the target's
# a second time. In PyTorch: `torch.nn.functional.cross_entropy(x, target, reduction="none")`.


# %%
# exercise 08.15
@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, loss_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    m, total = -float("inf"), 0.0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        # about 4 lines from here
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf"))
        new_m = tl.maximum(m, tl.max(x, axis=0))
        total = total * tl.exp(m - new_m) + tl.sum(tl.exp(x - new_m), axis=0)
        m = new_m
        # to here
    # about 2 lines from here
    x_target = tl.load(x_ptr + row * stride_xm + tl.load(target_ptr + row))
    tl.store(loss_ptr + row, m + tl.log(total) - x_target)
    # to here


# %%
check("08.15", cross_entropy_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# After the loop, the sum of `exp(x)` is `total * exp(m)`. What is its logarithm?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# A new maximum makes the total smaller: it must be multiplied by `exp(m - new_m)`.
#
# </details>

# %% [markdown]
# [kernels/cross_entropy.py](../kernels/cross_entropy.py) has it with its gradient and with targets
# that do not count.

# %% [markdown]
# ## In practice
#
# compute-sanitizer has another tool, `racecheck`. It looks for threads of one program that touch the
# same place in shared memory with nothing between them that makes one wait for the other. In
# Triton's own language the compiler places those waits, so you will seldom need it. In Gluon, in
# lesson 09, you place them. Here is a script in Gluon that copies a block to shared memory and
# reads it before the copy is done, without the checker and with it.

# %% tags=["nbval-check-output"]
print(gpu_report("race"), gpu_report("race, checked"), sep="\n\n")

# %% [markdown]
# By itself the script got 1 of 128 elements right. Under the checker, which slows everything down,
# all 128 came out right: the copy had the time that nobody had given it. The race is reported all the
# same, because the checker looks for what is missing and not at the values. A wrong result that
# goes away when you look at it is a race until shown otherwise.
#
# ## On your own
#
# - Call `diagnose` for `tiles_kernel` with tiles of 16 and of 8 columns. Which part takes longest
#   now? With a GPU, time both: does a narrower tile beat the 8 warps above?
# - Take `TRITON_DEBUG=1` and a kernel of yours with a `tl.device_assert`. Compare
#   `lower(…).resources` with `debug=True` and without: what does an assertion cost?
# - Write a `proton.scope` around each part of a program of your own. Which part did you expect to be
#   the longest?
#
# ## What you can do now
#
# You have an order in which to ask why a kernel is slow, and a tool that asks for you. You know which
# numbers of a profiler to read first, and what a GPU says of kernels that are wrong or never end. And
# you have taken one operation the whole way, from its specification to a gradient and a measurement.
# Ask yourself:
#
# 1. `diagnose` lists two causes, with gains of about 5.5 and 1.2 times. You fix the second one
#    first. What will you measure?
#
# <details>
# <summary>Answer</summary>
#
# Little or nothing. The first cause still sets the time, whatever else gets faster. And the other
# way round: once the first is fixed, the second may gain far more than 1.2 times.
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
# That none of the causes that it knows explains the time. Something it has no rule for takes it:
# profile the kernel before you change anything.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/08-when-it-is-slow.py](../solutions/08-when-it-is-slow.py) has all answers.
#
# **Next:** [lesson 09](09-hopper.ipynb). You write kernels a level below `tl`, in Gluon, where layouts,
# copies and waits are yours. Before that, take the slowest kernel of your own, and ask it the six
# questions. For one that you have yet to write, [an operation of your
# own](../docs/pages/your-own-operation.md) has the way.
#
# ## Further reading
#
# - [Proton](https://github.com/triton-lang/triton/tree/main/third_party/proton), with its tutorials
# - NVIDIA's manuals of [Nsight Compute](https://docs.nvidia.com/nsight-compute/) and of
#   [compute-sanitizer](https://docs.nvidia.com/compute-sanitizer/)
