# %% [markdown]
# # 29 · When it is slow
#
# So far every kernel of this course came with its answer: somebody had already found out what slows
# it down. The next kernel will be your own. It will be slow, and nobody will tell you why. What do you
# do first?
#
# The usual attempt is to change something and time it again. There are more combinations than
# afternoons, and a faster setting hides the cause instead of removing it. Here you learn the other
# way: count first, let the count name the cause, fix that one, and count again.
#
# **By the end you can**
#
# - go through a slow kernel in an order that finds the cause early, by hand and with `diagnose`,
# - fix the usual causes, and show by a count that the cause is gone,
# - read what Proton and Nsight Compute say, and know which five numbers to look at first.
#
# **You need** notebooks {why-is-it-slow} and {what-a-dot-becomes}. You need no GPU: what only a GPU can
# show was recorded on one.
#
# | section | about minutes |
# |---|---|
# | Which kernel at all | 10 |
# | What to ask first | 3 |
# | One slow kernel | 10 |
# | Fix one yourself | 30 |
# | What a profiler adds | 10 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 73 |
# | Stretch exercises, for those with time left | 10 |

# %% [markdown]
# **Two questions from earlier notebooks.** Answer them before you unfold the answers.
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
from course import DEVICE, check, diagnose, hint, kernel_metrics, profile, step_profile
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Which kernel at all
#
# People come with a training step, not with a kernel. Which of its kernels do you look at? The
# obvious choice is the one that moves most bytes. Here is a small step: a softmax over the words,
# and an update of the weights. (What the labels add to the gradient is left out.)


# %%
@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_cols + cols, x / tl.sum(x, axis=0), mask=mask)


@triton.jit
def update_kernel(weight_ptr, grad_ptr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    grad = tl.load(grad_ptr + cols * n_rows + row, mask=mask)
    weight = tl.load(weight_ptr + row * n_cols + cols, mask=mask)
    tl.store(weight_ptr + row * n_cols + cols, weight - 0.1 * grad, mask=mask)


# %%
def train_step(x, weight):
    logits = x @ weight.T
    out = torch.empty_like(logits)
    softmax_kernel[(len(x),)](logits, out, logits.shape[1], BLOCK_SIZE=32768, num_warps=16)
    grad = x.T @ out
    update_kernel[(len(weight),)](weight, grad, *weight.shape, BLOCK_SIZE=1024)


# %% [markdown]
# `profile` watches what runs inside its `with`. On the device "meta" and with `run=False` nothing is
# computed, so the sizes may be real ones: 4,096 tokens, 32,000 words, a width of 1,024, in float16.
#
# **Predict:** how many bytes does each kernel move at least, and which takes longer at best?
#
# <details>
# <summary>Answer</summary>
#
# The softmax reads and writes 4,096 * 32,000 numbers of 2 bytes: 524 MB. The update reads two
# matrices of 32,000 * 1,024 and writes one: 197 MB. So at best the softmax takes 2.7 times as long.
#
# </details>

# %%
tokens = torch.empty(4096, 1024, device="meta", dtype=torch.float16)
weight = torch.empty(32_000, 1024, device="meta", dtype=torch.float16)
with profile(run=False) as p:
    for _ in range(3):
        train_step(tokens, weight)
p

# %% [markdown]
# "At best" is what no kernel can beat. It does not say how slow a kernel is. With a GPU the table
# has the measured time too, and is sorted by what lies between the two. Without one, ask a row why:
# `p[0].diagnose()`, or the second one.

# %%
p[1].diagnose()

# %% [markdown]
# The second row is the one to fix: its gradient is read along the wrong axis, 16 sectors for each one
# needed, and fixing that gains about 2.4 times, by estimate. `p[1].reproduce("slow.py")` writes a
# file that repeats this launch by itself. In a terminal, `course profile train.py` does the same for
# a script.

# %% [markdown]
# ## What to ask first
#
# Before anything else come two questions. Is the kernel right? `verify` says so, and a fast kernel
# that is wrong is worth nothing. And is it slow at all? Only the least possible time can tell: the
# bytes it must move over the copy roof, or its operations over the roof for these, whichever takes
# longer. `cost` counts both. A kernel at nine tenths of its roof is done.
#
# If it is slow, ask these, in this order. You know the first four from notebook {why-is-it-slow}.
#
# | | what may be wrong | where you see it | a usual cure |
# |---|---|---|---|
# | **a** | too few programs, or a last round of a few | the grid, against 132 multiprocessors | cut the work into more programs |
# | **b** | narrow loads of neighbors | `lower(…).counts["ptx"]` | divisibility, a promise, another mask |
# | **c** | wasted sectors: lanes load elements that lie apart | `cost`: "times the least" | the last index of the block goes along memory |
# | **d** | spills: the blocks do not fit in registers | `lower(…).resources` | smaller blocks, more warps |
# | **e** | a loop that waits for its loads in each iteration | `ttg.async_copy…` in TTGIR, or none | a `for` loop, `num_stages`, addresses that depend on no other load |
# | **f** | a `tl.dot` without tensor cores, or with an old instruction | `wgmma` or `mma` in PTX, or none | 16-bit operands, 64 rows, 4 warps |
#
# Why this order? The first question is about the whole GPU: if 100 of 132 multiprocessors have
# nothing to do, it does not matter how the others load. The next two are about bytes, since most
# kernels wait for memory. You tell them apart by the address: lanes that lie apart make narrow loads
# as well, and narrow loads of neighbors ask for the same sectors again. The last three are about
# what happens inside one program. Only when all six are answered is it time to try settings.
#
# `diagnose` asks all six at once, and rarer ones: programs that are too small, too many registers
# or instructions, bytes that many programs load. It compiles the kernel, follows some of its
# programs in the interpreter, counts, and then *sorts*: for each cause it estimates how long the
# launch would take without it, and the one that gains most comes first. The parts of a GPU work
# side by side, so the one that takes longest sets the time, and fixing anything else changes
# nothing that you could measure.
#
# How often is it right? It was asked four times about slow kernels that it had not seen, 70 in all,
# without a GPU. For 41 of them the cause that it named first was the one whose mending gained most: for
# 10 of 15, 6 of 15, 13 of 20 and 12 of 20 ([the trials](../docs/diagnose-trial.md)). On a GPU it tries
# its causes out as well: of the last forty it was then right for 27, and without one for 25. So take its
# first cause for a place to look, and hold its estimate against a measured time.

# %% [markdown]
# ## One slow kernel
#
# Here is a softmax down the *columns* of a matrix. Somebody had the softmax of notebook
# {softmax-of-a-row}, one program per row, and turned rows into columns: one program per column.


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
# Each finding has its number, its line, the reason, and a change to try. Read the gains with care. A
# gain is what *this* change alone would bring, and the part of the GPU that takes longest sets
# the time. Fix the load alone, and the scattered store still takes its time, since the L2 cache is
# several times slower at scattered stores than at scattered loads: hence 1.2. Fix the store alone,
# and the load is what is left: hence 5.5. So gains do not multiply, and the second one grows once
# the first is had. Here one change does both: let the program take 32 columns side by side, with
# the last index of the block along the row.


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
# 256 of them, and it has 255 registers at most. (The report says 32: as in notebook
# {why-is-it-slow}, the assembler gave up and keeps them in memory.) Fixing one cause lets the next
# one show, and so the last step of the method is to count again. `diagnose` has tried the cure that
# it offers: it compiled the kernel with 8 warps, and nothing spilled.

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
# ### Exercise {slow-gate} · A gate (core)
#
# Which letter is it? Then write `gate_kernel`, which computes the same without it, for float32
# vectors of `n_elements`: `x * sigmoid(x) * y`. The exercise launches one program for every `BLOCK_SIZE`
# elements.

# %%
# exercise slow-gate
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
check("slow-gate", answer)

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
# ### Exercise {slow-product} · A product (core)
#
# Which letter is it? There are two findings, and you want the one that gains. Then write
# `product_kernel`, just as precise and without it. `M`, `N` and `K` are multiples of `BLOCK`, which
# is 64, and `c` is float32.

# %%
# exercise slow-product
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
check("slow-product", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Notebook {what-a-dot-becomes}: how many binary digits does a product of two float16 have, and how
# many does a float32 hold?
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
recorded_step = step_profile()
print(recorded_step.tree("one_hot"))

# %% [markdown]
# The attention kernel, which took a whole part of this course, is 6 % of the step. If it took no time at all,
# you would hardly notice. Nearly half of the step goes into "minus the targets", which changes one
# number in each row of 32,000. Its kernels are not to blame, since they move what they were asked
# to move. `one_hot` makes a matrix of 64-bit integers of 4,096 x 32,000, which is 1 GB to fill and
# to read again, and the bfloat16 matrix made from it is another quarter of a GB to write and to
# subtract. `shares[tokens, targets] -= 1`, with `tokens = torch.arange(4096)`, subtracts 1 at the
# right places alone:

# %% tags=["nbval-check-output"]
print(recorded_step.tree("in place"))

# %% [markdown]
# One line of Python, and the step takes 1,039 us in place of 1,845. So look at the tree before you
# look at a kernel, and work out what there is to gain.

# %% [markdown]
# ### Exercise {twice-as-fast} · Twice as fast (stretch)
#
# Somebody makes `attention_kernel` twice as fast. By how many percent does the step `in place` get
# shorter?

# %%
# exercise twice-as-fast
percent = None
# about 1 line from here
percent = 100 * (102 / 2) / 1039
# to here

# %%
check("twice-as-fast", percent)

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
# ncu --clock-control none \
#     --metrics gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,… \
#     python script.py
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
# Look at memory, L2 cache and multiprocessors first. Where one of them is near 80 % or more, that
# part of the GPU is what the kernel waits for. The row below them is no such part. It is the
# occupancy, the warps that a multiprocessor has at work, of those that it has room for.
#
# In the first column it is the L2 cache: see the answer above.
#
# In the second column memory and L2 are busy, but look at what with: more sectors go to spills
# than to the matrix. There are 18,776,064 of them, and `diagnose` had counted just as many. It
# expected 174 us, and the kernel took 203. From the third kernel it expected 32 us, and that took
# 51. On a GPU `diagnose` measures, and says so where the estimate explains less than 70 % of the time.
#
# The third column is the interesting one. It is seven times as fast as the first, no rule finds a
# cause, and still no part of the GPU is above 66 %. Then look at the occupancy, the last of the
# five: 12 %. With 214 registers per thread (`lower` counts them) and 256 threads, a multiprocessor
# holds a single program, and while that one waits for its column sums nothing else is done. Low
# percentages everywhere and a low occupancy: that is what *waiting* looks like. The change to try
# is a narrower tile, so that two or three programs share a multiprocessor. There is room: a copy
# moves 4.2 TB/s, and the last row says 2.6. (The least times of `cost` and `profile` go by the data
# sheet's 4.8 TB/s, which no kernel reaches; `diagnose` goes by the copy's 4.2. So a kernel at the
# copy's speed takes a seventh longer than `cost` says.)

# %% [markdown]
# ## On your own
#
# - Call `diagnose` for `tiles_kernel` with tiles of 16 and of 8 columns. Which part takes longest
#   now? With a GPU, time both: does a narrower tile beat the 8 warps above?
# - Write a `proton.scope` around each part of a program of your own. Which part did you expect to
#   be the longest?
#
# ## What you can do now
#
# You have an order in which to ask why a kernel is slow, and a tool that asks the same questions. You know
# which numbers of a profiler to read first. Ask yourself:
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

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/29-when-it-is-slow.py](../solutions/29-when-it-is-slow.py) has all answers.
#
# **Next:** [30, four slow kernels](30-four-slow-kernels.ipynb).
#
# ## Further reading
#
# - [Proton](https://github.com/triton-lang/triton/tree/main/third_party/proton), with its tutorials
# - NVIDIA's manuals of [Nsight Compute](https://docs.nvidia.com/nsight-compute/) and of
#   [compute-sanitizer](https://docs.nvidia.com/compute-sanitizer/)
