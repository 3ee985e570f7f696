# %% [markdown]
# # 31 · What the six questions leave out
#
# You have asked all six questions, and none of them fits. Or one fits, you fixed it, and the kernel
# is as slow as before. What now?
#
# Three causes are rarer than the six and cost as much: places that everybody updates, float64 that
# nobody wanted, and programs that have far more to do than the others. You fix one of each. And then
# comes what to do where counting names nothing at all.
#
# **By the end you can** find and fix contended atomics, float64 by accident and uneven programs; say
# what to look at when no rule fires; and tune settings without fooling yourself.
#
# **You need** notebook {four-slow-kernels}.
#
# | section | about minutes |
# |---|---|
# | Three more letters | 1 |
# | Gray levels | 20 |
# | A norm that keeps all digits | 15 |
# | Documents of any length | 25 |
# | When no rule names a cause | 6 |
# | Settings last | 1 |
# | Beginning and end | 4 |
# | **Together, an estimate** | 72 |
# | Stretch exercises, for those with time left | 10 |

# %%
from course import check, diagnose, hint
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Three more letters
#
# | | what may be wrong | where you see it | a usual cure |
# |---|---|---|---|
# | g | many programs update one place by atomics | "warps ask … times for each line", or fences | add up in the program, update once |
# | h | float64 by accident | `diagnose`, or `f64` in PTX | one `.to(tl.float32)`, where it begins |
# | i | uneven programs: one runs its loop far more often than the rest | how often programs run it | pieces of one length, a program for each |
#
# They are apart from the six because the six hold for every kernel, and these need something in it:
# an atomic, a number of 64 bits, a loop whose length depends on the program. So look for that
# something first. Where it is not there, you need not ask.
#
# ## Gray levels
#
# A histogram: how many of the four million pixels of an image have each of 16 gray levels? Every pixel
# adds 1 to one of 16 counters, so programs must not overwrite what others have added: an atomic.


# %%
@triton.jit
def slow_histogram_kernel(x_ptr, counts_ptr, n_elements, BINS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    tl.atomic_add(counts_ptr + x, 1, mask=mask)


levels = (torch.arange(2**22) * 7919 // 5 % 16).to(torch.int32)
counts = torch.zeros(16, dtype=torch.int32)

# %% [markdown]
# **Predict:** all levels are about equally frequent. How often is each of the 16 counters updated?
# All updates of one line go through one place of the L2 cache, one after the other.
#
# <details>
# <summary>Answer</summary>
#
# About 2^22 / 16 = 262,144 times. They queue there, however many programs there are. (The 32 updates of
# a warp travel as one request for a line, so the queue is shorter than it looks.)
#
# </details>

# %%
sizes = {"BINS": 16, "BLOCK_SIZE": 4096}
diagnose(slow_histogram_kernel, (1024,), levels, counts, 2**22, **sizes, target="H200")

# %% [markdown]
# The 16 counters lie in one line of 128 bytes, so each atomic of a warp is one request for that line:
# 2^22 / 32 = 131,072 of them. They queue, and each takes about 10 ns, as was measured with four other
# kernels on an H200. That makes 1.31 ms. Memory could read the image in 4 us, but the estimate leaves
# 35 us to a kernel without the queue, since an atomic also waits for what its thread has stored before:
# that wait is a *fence*, and counters do not need it, so `sem="relaxed"` leaves it out. A histogram of
# 256 levels, whose counters fill 8 lines and not one, took 695 us on that GPU (the estimate says 608),
# and was 31 times as fast once its programs had added up first.

# %% [markdown]
# ### Exercise {crowded-counters} · Crowded counters (core)
#
# Which letter is it? Then write the end of `histogram_kernel`, which computes the same and updates
# each counter once per program. `tl.histogram(x, BINS, mask=mask)` counts a block: it gives a block of
# `BINS` numbers, and leaves out what the mask leaves out.

# %%
# exercise crowded-counters
cause = None
# about 1 line from here
cause = "g"
# to here


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n_elements, BINS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    # about 2 lines from here
    counts = tl.histogram(x, BINS, mask=mask)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), counts, sem="relaxed")
    # to here


answer = cause, histogram_kernel

# %%
check("crowded-counters", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# A program has 4,096 pixels and 16 counters. How many updates are needed at least?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# One block of counts, one atomic for the whole block: its addresses are `counts_ptr` and 0 to
# `BINS` - 1.
#
# </details>

# %% [markdown]
# ## A norm that keeps all digits
#
# Who would write float64 by accident? NumPy does it for you: `torch.from_numpy(np.linspace(0, 1,
# n))` has that type, and so has a table of frequencies or weights that was made in NumPy. The
# kernel loads it beside a block of float32, and by Triton's rules of types the product of both is
# float64. From there on so is the whole formula, and nothing looks wrong.
#
# Here it is one word. LayerNorm: of each row, subtract the mean and divide by the standard
# deviation. Its author had read that sums need care.


# %%
@triton.jit
def slow_norm_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float64)
    mean = tl.sum(x, axis=0) / n_cols
    apart = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(apart * apart, axis=0) / n_cols
    tl.store(out_ptr + row * n_cols + cols, apart / tl.sqrt(variance + 1e-5), mask=mask)


# %% [markdown]
# What does it cost? That depends on the GPU. An H200 has a unit for float64 with half the rate of
# float32. A GPU for games or graphics has next to none: 1 result for every 64 of float32.

# %%
rows = torch.empty(8192, 4096, device="meta")
for gpu in ("H200", "RTX 4090"):
    print(diagnose(slow_norm_kernel, (8192,), rows, rows, 4096, BLOCK_SIZE=4096, target=gpu))

# %% [markdown]
# On the H200 the estimate says "none by itself": memory takes longer, and hides the arithmetic. That
# holds only as long as the parts of a GPU overlap perfectly. An Adam step in the trial, slowed down by
# one float64, got 1.68 times as fast on an H200 without it. It is one word, so take it out.

# %% [markdown]
# ### Exercise {digits-nobody-asked-for} · Digits that nobody asked for (core)
#
# Which letter is it? Then write `norm_kernel` without it, as precise as float32 is when the mean is
# subtracted before anything is squared.

# %%
# exercise digits-nobody-asked-for
cause = None
# about 1 line from here
cause = "h"
# to here


@triton.jit
def norm_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    # about 2 lines from here
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n_cols
    # to here
    apart = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(apart * apart, axis=0) / n_cols
    tl.store(out_ptr + row * n_cols + cols, apart / tl.sqrt(variance + 1e-5), mask=mask)


answer = cause, norm_kernel

# %%
check("digits-nobody-asked-for", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Which line of the slow kernel makes a block of float64? All that is computed from it is float64 too.
#
# </details>

# %% [markdown]
# ## Documents of any length
#
# A batch of documents lies end to end in one long vector; document `d` goes from `begins[d]` to
# `begins[d + 1]`. The kernel sums each of them up, one program per document. Most have 2,000 numbers,
# and two have half a million.


# %%
@triton.jit
def slow_documents_kernel(x_ptr, begins_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    document = tl.program_id(axis=0)
    begin, end = tl.load(begins_ptr + document), tl.load(begins_ptr + document + 1)
    total = tl.zeros([BLOCK_SIZE], tl.float32)
    for start in range(begin, end, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        total += tl.load(x_ptr + offsets, mask=offsets < end, other=0.0)
    tl.store(out_ptr + document, tl.sum(total, axis=0))


lengths = torch.full((1025,), 2000)
lengths[0], lengths[77], lengths[600] = 0, 500_000, 500_000
begins = lengths.cumsum(0).to(torch.int32)
text = torch.empty(int(begins[-1]), device="meta")

# %% [markdown]
# There are 1,024 programs, far more than multiprocessors. So **a** does not fit, by the grid. And yet:
#
# **Predict:** for most of the launch, how many multiprocessors have anything to do?
#
# <details>
# <summary>Answer</summary>
#
# Two. The short documents take 2 iterations each and are done within microseconds. The two long ones
# take 489, on a multiprocessor each, while 130 others stand idle.
#
# </details>

# %%
sums = torch.empty(1024, device="meta")
diagnose(slow_documents_kernel, (1024,), text, begins, sums, BLOCK_SIZE=1024, target="H200")

# %% [markdown]
# ### Exercise {documents-in-pieces} · Documents in pieces (core)
#
# Which letter is the cause that gains? Then cut the documents into pieces of `PIECE` numbers. The
# exercise launches a grid of documents along axis 0 and pieces along axis 1, as many as the longest
# document needs, and `out` is full of zeros. A program whose piece lies behind the end of its
# document must add nothing.

# %%
# exercise documents-in-pieces
cause = None
# about 1 line from here
cause = "i"
# to here


@triton.jit
def documents_kernel(x_ptr, begins_ptr, out_ptr, PIECE: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    document = tl.program_id(axis=0)
    begin, end = tl.load(begins_ptr + document), tl.load(begins_ptr + document + 1)
    # about 2 lines from here
    begin += tl.program_id(axis=1) * PIECE
    end = tl.minimum(end, begin + PIECE)
    # to here
    total = tl.zeros([BLOCK_SIZE], tl.float32)
    for start in range(begin, end, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        total += tl.load(x_ptr + offsets, mask=offsets < end, other=0.0)
    # about 1 line from here
    tl.atomic_add(out_ptr + document, tl.sum(total, axis=0), sem="relaxed")
    # to here


answer = cause, documents_kernel

# %%
check("documents-in-pieces", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Where does piece number `tl.program_id(axis=1)` of a document begin, and where does it end?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Several programs have a part of one sum now. A store would let the last of them win.
#
# </details>

# %% [markdown]
# ## When no rule names a cause
#
# Here is a product of a matrix that is mostly zeros: in each strip of 64 rows only 16 blocks of 64
# x 64 are not zero, and `idx` says which. (`a` itself is stored in full; the kernel skips its
# zeros.) The loads of `a` and `b` are wide, the loop is pipelined, tensor cores multiply.


# %%
@triton.jit
def blocks_kernel(a_ptr, b_ptr, idx_ptr, c_ptr, N, K, NNZ, BLOCK: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for j in range(NNZ):
        first = tl.load(idx_ptr + tl.program_id(axis=0) * NNZ + j) * BLOCK
        a = tl.load(a_ptr + rows[:, None] * K + (first + ks)[None, :])
        b = tl.load(b_ptr + (first + ks)[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


def blocks(side, **options):
    a = torch.empty(4096, 4096, device="meta", dtype=torch.float16)
    strips, number = 4096 // side, 1024 // side
    idx = torch.arange(number).repeat(strips).to(torch.int32) * 4
    args = (a, a, idx, torch.empty(4096, 4096, device="meta"), 4096, 4096, number)
    return diagnose(blocks_kernel, (strips, strips), *args, BLOCK=side, **options, target="H200")


# %%
blocks(64)

# %% [markdown]
# "No rule found a cause." That is not "nothing can be gained". Read the line that begins with
# "estimated": which part takes longest, and does it have to?
#
# | takes longest | ask | try |
# |---|---|---|
# | memory | is the measured time near the estimate? | then it is done; only fewer bytes help: a smaller dtype, two kernels in one |
# | L2 | how often is each sector asked for? | larger tiles, or an order in which neighbors run at the same time |
# | waiting for loads | how many warps are there to wait side by side? | more programs, fewer registers, more stages |
# | instructions | which line has most of them? | compute less per element, once per row or block |
# | starting programs | how much does each move? | more work per program |
#
# Here it is L2, and each sector is asked for more than eight times. A tile of 128 x 128 reads half
# as many bytes for each element of the result, if the blocks that are not zero are as large.

# %%
blocks(128, num_warps=8)

# %% [markdown]
# That was an estimate again. What if a GPU takes far longer than any estimate says? Then something
# takes the time that is not counted: barriers, a queue at one address, one instruction that waits for
# the last, a clock that has gone down. Three ways are left, in this order:
#
# 1. *Take something away, and time what is left.* Store one number in place of the block; load from
#    a place that is always the same; leave the `exp` out. What the time drops by is what that part
#    costs on top of the others. The results are wrong meanwhile, and that is all right. (The compiler
#    throws away what nobody uses, so look at the PTX: is the rest still there?) On a GPU `diagnose`
#    makes such experiments itself.
# 2. *Profile.* Notebook {when-it-is-slow} says which five numbers of Nsight Compute to read first.
#    Its page "Warp State" then says what warps wait for.
# 3. *Make it small.* Halve the size, then halve it again. A time that does not drop is spent on
#    something that does not depend on the size: the launch, a single slow program, a first load.
#
# And write down the time before each change. Two changes at once tell you nothing about either.

# %% [markdown]
# ## Settings last
#
# When no cause is left, settings are what remains: block sizes, `num_warps`, `num_stages`. Notebook
# {rows-of-any-width} showed how `@triton.autotune` tries them. Five things decide whether it helps.
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
# ### Exercise {well-tuned-and-slow} · Well tuned and slow (stretch)
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
# exercise well-tuned-and-slow
reason = None
# about 1 line from here
reason = "b"
# to here

# %%
check("well-tuned-and-slow", reason)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# When does the tuner measure? Of rows and columns, which is in its key?
#
# </details>

# %% [markdown]
# ## On your own
#
# - Call `diagnose` for `slow_histogram_kernel` with `sem="relaxed"` in its atomic. What does it find
#   now, and what does it still say?
# - Put the long documents first in the batch, and last. What would you expect of the time?
#
# ## What you can do now
#
# You know three more causes, and where to look when counting is not enough. Ask yourself:
#
# 1. `diagnose` finds no cause, and the kernel takes three times as long as estimated. What do you
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
# [solutions/31-what-is-left-out.py](../solutions/31-what-is-left-out.py) has all answers.
#
# **Next:** [32, when it is wrong, or never ends](32-wrong-or-endless.ipynb).
