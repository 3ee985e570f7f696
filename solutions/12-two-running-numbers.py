# %% [markdown]
# # 12 · Two running numbers
#
# A row has to stay on the chip while a program works on it. Sooner or later a row comes that is too
# wide for that. How you deal with it is half of flash attention. It is the most important idea of the
# course, and the one that takes the most thought.
#
# **By the end you can** say what a reduction costs a program's threads, derive how a maximum and a
# sum are carried through a row tile by tile, and merge two halves.
#
# **You need** notebook {softmax-of-a-row}.
#
# | section | about minutes |
# |---|---|
# | What a reduction becomes | 10 |
# | Two running numbers | 50 |
# | Beginning and end | 7 |
# | **Together, an estimate** | 67 |

# %%
from course import DEVICE, check, cost, draw, explore, hint, lower, replay
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.


# %%
@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=float("-inf")).to(tl.float32)
    shifted = x - tl.max(x, axis=0)
    power = tl.exp(shifted)
    tl.store(out_ptr + row * n_cols + cols, power / tl.sum(power, axis=0), mask=mask)


def softmax(x):
    x = x if x.stride(1) == 1 else x.contiguous()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(x.shape[1])
    if x.numel():
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK_N=block_n)
    return out


# %%
x = torch.randn(512, 1000, device=DEVICE)
args = (x, torch.empty_like(x), 1000, 1000)
cost(softmax_kernel, (512,), *args, BLOCK_N=1024, target="H200")

# %% [markdown]
# ## What a reduction becomes
#
# The row lies in the registers of 128 threads, and softmax needs its maximum and its sum. Notebook
# {every-stage} showed what a sum becomes: a thread reduces its own elements, five shuffles reduce those of a
# warp, and one number per warp goes through shared memory, with barriers around it. Here all of
# that happens twice. Look in the TTGIR for the two `tt.reduce`, and in the PTX for `shfl` and for
# `st.shared`.

# %%
explore(softmax_kernel, *args, BLOCK_N=1024, target="sm_90", stages=["ttgir", "ptx"])

# %% [markdown]
# How many warps should a program have? One warp alone needs no shared memory and no barrier. But
# then its 32 threads hold the whole row.
#
# **Predict:** how many elements of a block of 1,024 does a thread hold with 1, 4 and 16 warps? And
# how many shuffles are there with one warp?
#
# <details>
# <summary>Answer</summary>
#
# 32, 8 and 2 elements, each in a register; a thread needs some more for addresses and masks. One
# warp takes five shuffles for the maximum and five for the sum.
#
# </details>

# %% tags=["nbval-check-output"]
for num_warps in (1, 4, 16):
    s = lower(softmax_kernel, *args, BLOCK_N=1024, target="sm_90", num_warps=num_warps)
    ptx, used = s.counts["ptx"], s.resources
    counted = f"{ptx['shuffles']:2} shuffles, {ptx['barriers']} barriers"
    memory = f"{used.shared_bytes:2} bytes of shared memory, {used.registers} registers per thread"
    print(f"{num_warps:2} warps: {counted}, {memory}")

# %% [markdown]
# Why 14 and 18 shuffles? After five shuffles each warp has one number, which it writes to shared
# memory. Then every warp reads the numbers of all warps back, one per thread, and joins them by
# shuffles of its own: two more per reduction for 4 warps, four more for 16. In each reduction a
# barrier makes sure that no warp reads before all have written. The third barrier stands between
# the two reductions: the sums go to the same place as the maxima, which all warps must have read by
# then.
#
# With more warps, each thread holds fewer elements, but the warps wait for one another at every
# reduction. So short rows want few warps, and long rows want many, because the row must fit the
# registers.
#
# That has an end. A multiprocessor has 65,536 registers, and a program has at most 32 warps.
#
# **Predict:** at which width do 32 warps no longer hold a row?
#
# <details>
# <summary>Answer</summary>
#
# 32 warps are 1,024 threads, so each can have 65,536 / 1,024 = 64 registers. At 65,536 columns a
# thread would hold 64 elements, and nothing would be left for addresses and sums. So the rest
# spills: it goes out to memory and is read again.
#
# </details>

# %%
for n in (4096, 16384, 32768, 65536):
    wide = torch.empty(4, n, device="meta")
    s = lower(softmax_kernel, wide, wide, n, n, BLOCK_N=n, target="sm_90", num_warps=32)
    used = s.resources
    print(f"{n:6} columns: {used.registers:3} registers, {used.spill_bytes:4} bytes spilled")

# %% [markdown]
# Up to 32,768 columns this kernel works without spilling. (How fast it is there, notebook
# {rows-of-any-width} shows.) A wider row needs another plan, and that is the next section.
#
# ### A cheaper exponential
#
# What does `tl.exp` become? The hardware has no instruction for it. It has one for powers of two,
# `ex2`, and `exp(x)` is `2^(x * log2(e))`. So the compiler multiplies first.

# %% tags=["nbval-check-output"]
s = lower(softmax_kernel, *args, BLOCK_N=1024, target="sm_90", num_warps=16)
print(s.follow("power = tl.exp(", "ptx"))

# %% [markdown]
# Here you see it for the two elements of a thread: `0f3FB8AA3B` is log2(e) = 1.442695 as a float32.
# If your kernel multiplies `x` by some scale anyway, as attention does, put log2(e) into the scale
# and call `tl.exp2`: the result is the same, with one multiplication less per element. Notebook
# {powers-of-two} counts machine instructions, of which it saves more.

# %% [markdown]
# ## Two running numbers
#
# A row that is too wide for the registers has to be read tile by tile, in a loop. The obvious plan
# takes three loops: one finds the maximum, one adds up `exp(x - m)`, and one writes the results.
# Each of them goes through the whole row, which we call a **sweep**. So the row is read three
# times, where a row in registers was read once.
#
# Can the first two sweeps be one? The sum needs the maximum, and the maximum is known only at the
# end. But suppose you go ahead with the largest number so far. Keep two numbers about the elements
# that you have seen so far:
#
# - `m`, the maximum so far,
# - `total`, the sum of `exp(x - m)` so far.
#
# Then a tile arrives with a larger maximum, `new_m`. Each term of `total` was computed with the
# old `m`, so it is wrong now. By how much?
#
# ```
# what a term should be      exp(x - new_m)
# insert m - m = 0           = exp(x - m + m - new_m)
# take it apart              = exp(x - m) * exp(m - new_m)
# ```
#
# The second factor has no `x` in it: it is the same for every term. So you do not need the old
# elements again. Multiply the sum by that factor, and add the terms of the new tile:
#
# ```
# new_total = total * exp(m - new_m) + sum over the tile of exp(x - new_m)
# ```
#
# That is all. The factor is 1 where the maximum stays, and below 1 where it grows. The picture
# follows both numbers through three tiles of three numbers; an arrow carries them to the next tile.
#
# **Predict:** the first tile is 2, 1, 0 and the second one 3, 5, 1. By what is the first tile's sum
# multiplied?
#
# <details>
# <summary>Answer</summary>
#
# The maximum goes from 2 to 5, so the factor is exp(2 - 5), about 0.050.
#
# </details>

# %%
draw.online([2, 1, 0, 3, 5, 1, -2, 4.5, 4], block=3)

# %% [markdown]
# Softmax computed like this is called the **online normalizer**. You will find the same two numbers
# in papers under other names:
#
# | here | Milakov and Gimelshein | FlashAttention | what it is |
# |---|---|---|---|
# | `m` | m | m | the maximum so far |
# | `total` | d | ℓ | the sum of exp(x - m) so far |
# | `tl.exp(m - new_m)` | e^(m_old - m_new) | the same | the factor for what came before |
# | `power` | | P̃ | exp(x - m), not yet divided |
# | `power / total` | y | P | a share |
#
# (In [kernels/softmax.py](../kernels/softmax.py) they are `row_max` and `row_sum`, and in
# [kernels/attention](../kernels/attention/__init__.py) `m` and `l`.)

# %% [markdown]
# Nothing in the derivation says that the second part must be a tile, or that it comes later. Any
# two parts of a row can be merged like this: bring both sums to the larger maximum, and add them.
# You need that whenever several programs share a row, and you write it now.
#
# One case needs care. A part may be empty, or hold nothing but -inf, and then its maximum is -inf.
# Where both are like that, the difference is -inf - -inf, which is NaN and not 0. Two functions
# help, both lane by lane: `tl.maximum(a, b)` takes the larger one (`tl.max` reduces), and
# `tl.where(condition, a, b)` takes `a` where the condition is true, and `b` elsewhere.

# %% [markdown]
# ### Exercise {merge-two-halves} · Merge two halves (core)
#
# Each of `n` rows was cut in two. For each half you have its maximum `m` and its sum of `exp(x -
# m)`: two float32 matrices `[2, n]`, contiguous. Store `[2, n]`: first the maxima of the whole
# rows, then their sums. A half may be empty: then its `m` is -inf and its sum is 0. If both are
# empty, store -inf and 0. In PyTorch, where none is empty: `M = m.max(0).values; torch.stack([M,
# (sums * torch.exp(m - M)).sum(0)])`.


# %%
# exercise merge-two-halves
@triton.jit
def merge_kernel(m_ptr, sum_ptr, out_ptr, n, BLOCK: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = rows < n
    m1 = tl.load(m_ptr + rows, mask=mask, other=float("-inf"))
    m2 = tl.load(m_ptr + n + rows, mask=mask, other=float("-inf"))
    sum1 = tl.load(sum_ptr + rows, mask=mask, other=0.0)
    sum2 = tl.load(sum_ptr + n + rows, mask=mask, other=0.0)
    # about 5 lines from here
    m = tl.maximum(m1, m2)
    safe = tl.where(m == float("-inf"), 0.0, m)
    total = sum1 * tl.exp(m1 - safe) + sum2 * tl.exp(m2 - safe)
    tl.store(out_ptr + rows, m, mask=mask)
    tl.store(out_ptr + n + rows, total, mask=mask)
    # to here


# %%
check("merge-two-halves", merge_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Each of the two sums was computed with a maximum of its own. By which factor do you get from `m1`
# to the maximum of the whole row?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `tl.where(condition, a, b)` chooses lane by lane. Where the maximum is -inf, subtract 0 in its
# place: `exp(-inf)` is 0, as it should be.
#
# </details>

# %% [markdown]
# Now the kernel. In the first loop, the tiles so far are one part of the row and the new tile is
# the other. At the start there is nothing yet: `m` is -inf and `total` is 0, and the first factor,
# `exp(-inf)`, is 0. The second loop reads the row once more and writes the shares.


# %%
@triton.jit
def online_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    m = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=float("-inf"))
        x = x.to(tl.float32)
        new_m = tl.maximum(m, tl.max(x, axis=0))
        total = total * tl.exp(m - new_m) + tl.sum(tl.exp(x - new_m), axis=0)
        m = new_m
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols).to(tl.float32)
        tl.store(out_ptr + row * n_cols + cols, tl.exp(x - m) / total, mask=cols < n_cols)


def online_softmax(x):
    x = x if x.stride(1) == 1 else x.contiguous()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        online_kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK_N=1024)
    return out


# %%
rows = torch.randn(3, 5000, device=DEVICE)
print((online_softmax(rows) - torch.softmax(rows, dim=1)).abs().max().item() < 1e-7)

# %% [markdown]
# Step through it. With the arrows beside "iteration 1 of the loop" you go from tile to tile, and
# see `m` and `total` change.

# %%
short = torch.tensor([[2.0, 1, 0, -1, 3, 5, 1, 2, -2, 4.5, 4, 0]], device=DEVICE)
replay(online_kernel, (1,), short, torch.empty_like(short), 12, 12, BLOCK_N=4)

# %% [markdown]
# One bug is left in it. Think of a row that begins with -inf in the whole first tile. Attention
# makes such rows, by masking. The next cell follows one with `replay`: look at the lines of
# `total`.
#
# **Predict:** what are `m` and `total` after that tile, and what comes out at the end?
#
# <details>
# <summary>Answer</summary>
#
# `new_m` is -inf, so `x - new_m` and `m - new_m` are both -inf - -inf, which is NaN. `total`
# becomes NaN, and no factor makes it a number again: the whole row is NaN. PyTorch gives NaN only
# where the *whole* row is -inf. The remedy is the one of exercise {merge-two-halves}: where `new_m`
# is -inf, subtract 0 in its place, in both differences. [kernels/softmax.py](../kernels/softmax.py)
# does that.
#
# </details>

# %%
masked = torch.tensor([[float("-inf")] * 4 + [1.0, 2.0, 3.0, 4.0]], device=DEVICE)
print("PyTorch:", [round(share, 3) for share in torch.softmax(masked, dim=1)[0].tolist()])
replay(online_kernel, (1,), masked, torch.empty_like(masked), 8, 8, BLOCK_N=4)

# %% [markdown]
# ### What the second sweep costs
#
# The online version reads the row twice and writes it once. Is that 1.5 times the traffic of a row
# in registers? `cost` counts both: what is asked for, and how much of it is distinct.

# %%
wide = torch.empty(64, 2**16, device="meta")
counted = cost(online_kernel, (64,), wide, wide, 2**16, 2**16, BLOCK_N=4096, target="H200")
print(f"asked for: {counted.bytes_loaded / wide.nbytes:.0f} readings of x")
print(f"distinct:  {counted.distinct_loaded / wide.nbytes:.0f} reading of x")

# %% [markdown]
# The second sweep asks for the same bytes again. It need not go to device memory: what was read a
# moment ago may still be in the L2 cache, which holds 63 MB on an H200. "May" depends on how much
# is read in between, and that depends on how many rows are being worked on at the same time. A row
# of 65,536 float32 is 262 KB, and there are 132 multiprocessors.
#
# **Predict:** how many programs per multiprocessor can there be, so that all their rows fit the L2
# cache?
#
# <details>
# <summary>Answer</summary>
#
# One program per multiprocessor makes 132 rows of 262 KB, which are 35 MB: they fit. Two make 69
# MB, which is already too much.
#
# </details>

# %% tags=["nbval-check-output"]
for num_warps in (4, 8, 16, 32):
    s = lower(
        online_kernel, wide, wide, 2**16, 2**16, BLOCK_N=4096, num_warps=num_warps, target="sm_90"
    )
    held = s.resources.programs_per_sm
    in_flight = 132 * held * wide.nbytes / 64 / 1e6
    print(f"{num_warps:2} warps: {held:2} programs per multiprocessor, {in_flight:.0f} MB")

# %% [markdown]
# No number of warps brings it below 63 MB. The finished kernel takes another way for very wide
# rows: several programs share one row, and each takes a part. They exchange their maxima and sums
# through device memory, and each waits for those of the others. Does notebook {your-first-kernel}
# not forbid that? It does, because a wait never ends if the other program cannot start. This kernel
# relies on two things: in practice GPUs start programs in the order of their numbers (although they
# run and end in any order), and all parts of a row fit on the GPU at once. CUDA does not promise
# that order, so do not copy this lightly ([kernels/softmax_tuned.py](../kernels/softmax_tuned.py)
# has the details). With several programs per row, as many programs work on far fewer rows at a
# time, and those rows fit the L2 cache. At this width it was recorded at more than 98 % of the copy
# roof, and the online version at 63 %. And how do the programs put their parts together? By your
# merge of exercise {merge-two-halves}.

# %% [markdown]
# ### Exercise {online-bytes} · What the online version moves (core)
#
# `online_kernel` runs over 2^26 float32, in rows of 2^20. How many megabytes does it load and
# store together, caches aside? (1 MB is 10^6 bytes.)

# %%
# exercise online-bytes
megabytes = None
# about 1 line from here
megabytes = 3 * 4 * 2**26 / 1e6
# to here

# %%
check("online-bytes", megabytes)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How often is each element loaded, and how often stored?
#
# </details>

# %% [markdown]
# ## On your own
#
# - Make `online_kernel` right for a row that begins with a whole tile of -inf.
# - Give `online_kernel` a block of 512 and one of 8,192. What does `cost` say, on 8 rows, of bytes
#   and of registers, and which would you take?
# - Write `softmax(scale * x)` with the scale and log2(e) in one constant and `tl.exp2`. Verify it.
#   Which lanes go wrong for a scale below zero?
#
# ## What you can do now
#
# You can carry two numbers through a row of any width, and derive the update on a sheet of paper.
# Ask yourself:
#
# 1. A part of a row has `m = 3` and `total = 2`, another one has `m = 1` and `total = 4`. What are
#    the two numbers of both together?
#
# <details>
# <summary>Answer</summary>
#
# The maximum is 3, and the sum is 2 + 4 * exp(1 - 3), about 2.54.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/12-two-running-numbers.py](../solutions/12-two-running-numbers.py) has all answers.
#
# **Next:** [13, rows of any width](13-rows-of-any-width.ipynb).
#
# ## Further reading
#
# - M. Milakov and N. Gimelshein: *Online normalizer calculation for softmax*, arXiv:1805.02867
