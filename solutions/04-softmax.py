# %% [markdown]
# # 04 · Softmax
#
# Every attention layer contains a softmax, and so does the loss of every classifier. It is also
# the first operation of this course in which each element of the result depends on a whole row.
# The row has to stay on the chip while the program works on it, and sooner or later a row comes
# that is too wide for that. How you deal with it is half of flash attention, which you build in
# lesson 06.
#
# There is something to gain, too: on rows of 8,192 bfloat16, PyTorch's softmax was recorded at a
# quarter of the copy roof of an H200. The first softmax kernel of this lesson, with 8 warps per
# program, reaches 97 % there.
#
# **By the end you can**
#
# - reduce rows with the right neutral element, and say what a reduction costs a program's threads,
# - derive how a maximum and a sum are carried through a row tile by tile, and merge two halves,
# - keep offsets right beyond 2^31 elements, and stop Triton from compiling the same kernel twice,
# - bound a block by registers, and let measuring choose among what fits,
# - derive softmax's gradient, and make an operator that a model can train with,
# - say when not to write a kernel.
#
# **You need** lessons 01 to 03. The lesson takes three sittings.
#
# | section | about minutes |
# |---|---|
# | What softmax costs | 3 |
# | Reduce a row | 25 |
# | One row per program | 20 |
# | What a reduction becomes | 7 |
# | Two running numbers | 35 |
# | Narrow rows, wide rows | 30 |
# | Let measuring choose | 15 |
# | Sums over programs | 20 |
# | In a model | 10 |
# | When not to write one | 4 |
# | Stretch exercises | 15 |
# | **All, an estimate** | 184 |

# %% [markdown]
# **Two questions from lessons 02 and 03.** Answer them before you unfold the answers.
#
# 1. Lesson 03: four warps add up a row. After the shuffles each warp has a sum of its own. How do
#    the four come together, and what is the barrier for?
#
# <details>
# <summary>Answer</summary>
#
# Each warp writes its sum to shared memory, and the sums are read from there and added up. The
# barrier makes every warp wait until all four have written: without it, one could read a place
# that is not written yet.
#
# </details>
#
# 2. Lesson 02: `x` has 1,000 columns and is contiguous. At which offset does row 3 of
#    `x[:, :100]` begin, and how many columns does it have?
#
# <details>
# <summary>Answer</summary>
#
# At 3 x 1,000 = 3,000: cutting columns off moves no row. It has 100 columns, and the next 900
# elements in memory belong to somebody else.
#
# </details>

# %%
from course import DEVICE, MODE, check, cost, diagnose, draw, explore, hint, lower
from course import matrices, observed, recorded, replay, specialize, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## What softmax costs
#
# *Routes: all*
#
# Softmax turns the numbers of a row into shares that are above 0 and add up to 1:
#
# `softmax(x)[i] = exp(x[i]) / (exp(x[0]) + exp(x[1]) + …)`
#
# Written down like that, it fails for quite ordinary numbers.
#
# **Predict:** what does the formula give in float32 for the row `[1000, 1001]`?
#
# <details>
# <summary>Answer</summary>
#
# NaN. `exp(1000)` is far more than the largest float32, about 3.4e38, so it becomes infinity, and
# infinity over infinity is NaN.
#
# </details>

# %% tags=["nbval-check-output"]
x = torch.tensor([1000.0, 1001.0])
print("plain:", (torch.exp(x) / torch.exp(x).sum()).tolist())
shifted = torch.exp(x - x.max())
print("safe: ", [round(share, 4) for share in (shifted / shifted.sum()).tolist()])

# %% [markdown]
# The second line shows the way out: subtract the row's maximum `m` first. That changes nothing,
# because `exp(x - m)` is `exp(x) * exp(-m)`. The factor `exp(-m)` stands in the numerator and in
# each term of the sum, so it cancels. And now the largest exponent is 0: nothing can overflow.
#
# Here it is in PyTorch, one step per line. Each line is a kernel of its own, which reads its
# inputs from memory and writes its result there.
#
# **Predict:** how often is a whole matrix read, and how often is one written? How few would be
# enough? (The maxima and the sums are one number per row, so leave them out.)
#
# <details>
# <summary>Answer</summary>
#
# Five are read: by the maximum, the subtraction, the exponential, the sum and the division. Three
# are written. That makes eight trips through memory where two would do: read `x` once, and write
# the result once. For 2^26 float32, a trip is 268 MB, which takes 63 microseconds at 4.25 TB/s.
# Eight take about 505, two about 126.
#
# </details>


# %% tags=["nbval-check-output"]
def softmax_in_steps(x):
    largest = x.max(dim=1, keepdim=True).values
    shifted = x - largest
    power = torch.exp(shifted)
    total = power.sum(dim=1, keepdim=True)
    return power / total


x = torch.randn(64, 1000, device=DEVICE)
print(torch.allclose(softmax_in_steps(x), torch.softmax(x, dim=1)))

# %% [markdown]
# So fusing the five lines into one kernel can be four times as fast. All it takes is that a
# program keeps its row while it computes.

# %% [markdown]
# ## Reduce a row
#
# *Routes: all*
#
# Softmax needs the maximum of a row and a sum over it. An operation that makes one number of many
# is a **reduction**. `tl.sum(x, axis=0)` reduces a block to one number, and so do `tl.max` and
# `tl.min`. For a tile, `axis=1` reduces each of its rows.
#
# The number of lanes of a block is a power of two, and a row can have any length, so some lanes
# have no element. Where each lane computes for itself, a mask on the store takes care of that. A
# reduction takes *every* lane, masked or not. So a lane without an element must hold a number that
# does not change the result: the **neutral element** of the operation. For a sum it is 0.
#
# What is it for a maximum? Zero seems natural. The next cell tries three candidates on the row
# -1, -2, -3, -4, -5, in a block of 8 lanes.
#
# **Predict:** what are the three maxima?
#
# <details>
# <summary>Answer</summary>
#
# 0, -1 and -1. The right one is -1, and with `other=0.0` the three masked lanes win. -3 comes out
# right here only because the row has an element above it. The neutral element of the maximum is
# -inf, since nothing is below it. A number such as -1e30 will not do: attention masks whole rows
# with -inf, and their maximum is below it.
#
# </details>


# %%
@triton.jit
def max_kernel(x_ptr, out_ptr, n, OTHER: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=OTHER)
    tl.store(out_ptr, tl.max(x, axis=0))


# %% tags=["nbval-check-output"]
x, out = -torch.arange(1.0, 6.0, device=DEVICE), torch.empty(1, device=DEVICE)
for other in (0.0, -3.0, float("-inf")):
    max_kernel[(1,)](x, out, 5, OTHER=other, BLOCK=8)
    print(f"other={other}: {out.item()}")

# %% [markdown]
# ### Exercise 04.1 · Row sums (core)
#
# `out[m]` is the sum of row `m` of a float32 matrix whose rows are `stride_xm` elements apart, and
# whose columns lie side by side. The exercise launches one program per row, and `BLOCK_N` is a
# power of two that is not below `n_cols`. In PyTorch: `x.sum(dim=1)`.


# %%
# exercise 04.1
@triton.jit
def row_sum_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0)
    # about 3 lines from here
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))
    # to here


# %%
check("04.1", row_sum_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Row `m` begins at `m * stride_xm`, which need not be `m * n_cols`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# What must a lane without an element hold, so that the sum stays the same?
#
# </details>

# %% [markdown]
# ### Exercise 04.2 · Row maxima (core)
#
# The same for the largest element of each row. A row may hold -inf, and the most negative numbers
# that float32 has, about -3.4e38. In PyTorch: `x.max(dim=1).values`.


# %%
# exercise 04.2
@triton.jit
def row_max_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0)
    # about 3 lines from here
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=float("-inf"))
    tl.store(out_ptr + row, tl.max(x, axis=0))
    # to here


# %%
check("04.2", row_max_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# What does a lane without an element count as, when all the others are below zero?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `float("-inf")` may be written in a kernel.
#
# </details>

# %% [markdown]
# ## One row per program
#
# *Routes: all*
#
# Now you have all the parts. A program loads its row once, keeps it in registers through the
# maximum, the exponential and the sum, and stores it once.
#
# Two things to look at. The kernel converts to float32 right after the load, whatever the input
# is, and the store rounds once. And after the load there is no mask until the store: a lane
# without an element holds -inf, and `exp(-inf)` is 0, which is neutral for the sum that follows.


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


# %% [markdown]
# Is it right? One thing about the comparison: `x - m` is rounded before `exp` sees it, and an error
# of 1e-6 there is a relative error of 1e-6 in the result. The further `x` lies below `m`, the
# larger the difference is, and the larger its rounding error. So tiny shares have more than
# float32's own rounding error, and `absolute` allows an error of 1e-10 on top.

# %%
result = verify(softmax, lambda x: torch.softmax(x, dim=-1), cases=matrices(), absolute=1e-10)
print(result)
assert result.right

# %% [markdown]
# ### Why `.to(tl.int64)`?
#
# The first line of the kernel converts the program's number to 64 bits. No earlier kernel did
# that, so is it needed? Take the output of a language model for 65,536 positions, with one column
# for each of 50,257 tokens. That is a matrix of 3.3 billion elements, 6.6 GB in bfloat16, which is
# not unusual. The program's number and the stride both fit 32 bits easily. What about their
# product?
#
# An integer of 32 bits ends at 2^31 - 1 = 2,147,483,647, and 2^31 / 50,257 is 42,730.04.
#
# **Predict:** what are the offsets of rows 42,730 and 42,731 in 32 bits?
#
# <details>
# <summary>Answer</summary>
#
# Row 42,730 still fits. Row 42,731 does not: the product wraps around and comes out negative. The
# kernel would read two billion elements *before* the tensor, which on a GPU ends in an illegal
# memory access, or, if that memory is somebody's, in wrong numbers.
#
# </details>

# %% tags=["nbval-check-output"]
rows = torch.tensor([42_730, 42_731], dtype=torch.int32)
print("in 32 bits:", (rows * 50_257).tolist())
print("in 64 bits:", (rows.long() * 50_257).tolist())

# %% [markdown]
# Why doesn't the compiler take care of it? It goes by types. A stride of 50,257 fits 32 bits, so
# it arrives as an int32 (lesson 01), the program's number is an int32 as well, and the product of
# two int32 is an int32. Once one of the two is an int64, the other is extended, and so is the
# product. You can see it in TTIR: `arith.extsi` extends a number, and `arith.muli … : i64`
# multiplies in 64 bits.

# %% tags=["nbval-check-output"]
x = torch.randn(512, 1024, device=DEVICE)
s = lower(softmax_kernel, x, torch.empty_like(x), 1024, 1024, BLOCK_N=1024, target="sm_90")
print(s.follow("x = tl.load", "ttir"))

# %% [markdown]
# Convert *before* you multiply: afterwards the upper bits are lost. And convert the program's
# number, not the offsets of the columns. Then each tensor costs a program one wider multiplication,
# and `cols` stays a block of 32-bit numbers. Tests on small matrices never find a product that is
# too narrow, so make it a habit wherever a row or a matrix is multiplied by a stride.

# %% [markdown]
# ### What it costs
#
# **Predict:** how many bytes do 512 rows of 1,000 float32 move? And how many exponentials are
# computed, if the masked lanes count too?
#
# <details>
# <summary>Answer</summary>
#
# Each element is read once and written once: 2 x 512 x 1,000 x 4 = 4,096,000 bytes. The block has
# 1,024 lanes, so there are 512 x 1,024 = 524,288 exponentials.
#
# </details>

# %%
x = torch.randn(512, 1000, device=DEVICE)
args = (x, torch.empty_like(x), 1000, 1000)
cost(softmax_kernel, (512,), *args, BLOCK_N=1024, target="H200")

# %% [markdown]
# Exponentials have a line of their own, "special functions". A unit of its own computes them: each
# multiprocessor delivers 16 results per cycle, beside 256 plain operations (128 multiplications and
# as many additions). The exponentials would take 125 ns here, and the bytes take 853: memory is
# what binds.
#
# No sector is wasted, so is all well? Remember the other question of lesson 03: are the loads
# wide?
#
# **Predict:** the block of 1,024 is shared by 128 threads. How many loads does a thread make for
# rows of 1,000 columns, and how many for rows of 1,024?
#
# <details>
# <summary>Answer</summary>
#
# 8 and 2. A thread holds 8 elements, and a wide load fetches four float32. Two things must hold for
# that: every row begins at a multiple of 16 bytes, and the mask does not end within a group of
# four. The compiler concludes the first from the stride and the second from the width, where 16
# divides them. 16 divides 1,024, and does not divide 1,000.
#
# </details>

# %% tags=["nbval-check-output"]
for n in (1000, 1008, 1024):
    rows = torch.empty(512, n, device="meta")
    s = lower(softmax_kernel, rows, rows, n, n, BLOCK_N=1024, target="sm_90")
    loads, wide = (s.counts["ptx"][name] for name in ("global loads", "vectorized global loads"))
    print(f"{n} columns: {loads} loads per thread, {wide} of them wide")
    print("   ", s.layouts["x"].attribute)

# %% [markdown]
# For 1,000 columns the layout has `sizePerThread = [1]`, and every load is narrow. The bytes and
# sectors are the same, so `cost` does not see it, but a program issues four times as many load
# instructions. 8 does divide 1,000, but nobody told the compiler. The finished kernel tells it, and
# in one of the tasks at the end you do the same.

# %% [markdown]
# ### Exercise 04.3 · Log-softmax (core)
#
# Store the natural logarithm (`tl.log`) of softmax, for float32 rows whose numbers may lie ten
# thousand apart. Rows of `x` are `stride_xm` elements apart, and `out` is contiguous. The exercise
# launches one program per row. In PyTorch: `torch.log_softmax(x, dim=1)`.


# %%
# exercise 04.3
@triton.jit
def log_softmax_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=float("-inf"))
    # about 3 lines from here
    shifted = x - tl.max(x, axis=0)
    out = shifted - tl.log(tl.sum(tl.exp(shifted), axis=0))
    tl.store(out_ptr + row * n_cols + cols, out, mask=cols < n_cols)
    # to here


# %%
check("04.3", log_softmax_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The logarithm of a finished softmax will not do: `exp(-10000)` is 0 in float32, and its logarithm
# is -inf. The result must be -10000.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `log(a / b)` is `log(a) - log(b)`, and `log(exp(a))` is `a`.
#
# </details>

# %% [markdown]
# ## What a reduction becomes
#
# *Routes: all*
#
# The row lies in the registers of 128 threads, and softmax needs its maximum and its sum. Lesson
# 03 showed what a sum becomes: a thread reduces its own elements, five shuffles reduce those of a
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
# memory. Then every warp reads the numbers of all warps back, one per lane, and joins them by
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
# Up to 32,768 columns this kernel works without spilling. (How fast it is there, you see later in
# this lesson.) A wider row needs another plan, and that is the next section.
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
# and call `tl.exp2`: the result is the same, with one multiplication less per element. Lesson 06
# counts machine instructions, of which it saves more.

# %% [markdown]
# ## Sitting 2
#
# A good place to stop, or to start again (in a new session, run the import cell first). So far you
# can
#
# - reduce a row, with lanes that hold the neutral element where there is no element: 0 for a sum,
#   -inf for a maximum,
# - write softmax with one row per program, which moves each element twice,
# - say how wide a row may be: 32 warps hold 32,768 elements in registers, and spill beyond.
#
# What follows is for rows that do not fit. It is the most important idea of the lesson, and the
# one that takes the most thought.

# %% [markdown]
# ## Two running numbers
#
# *Routes: all*
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
# [kernels/attention/__init__.py](../kernels/attention/__init__.py) `m` and `l`.)

# %% [markdown]
# Nothing in the derivation says that the second part must be a tile, or that it comes later. Any
# two parts of a row can be merged so: bring both sums to the larger maximum, and add them. You need
# that whenever several programs share a row, and you write it now.
#
# One case needs care. A part may be empty, or hold nothing but -inf, and then its maximum is -inf.
# Where both are like that, the difference is -inf - -inf, which is NaN and not 0. Two functions
# help, both lane by lane: `tl.maximum(a, b)` takes the larger one (`tl.max` reduces), and
# `tl.where(condition, a, b)` takes `a` where the condition is true, and `b` elsewhere.

# %% [markdown]
# ### Exercise 04.4 · Merge two halves (core)
#
# Each of `n` rows was cut in two. For each half you have its maximum `m` and its sum of `exp(x -
# m)`: two float32 matrices `[2, n]`, contiguous. Store `[2, n]`: first the maxima of the whole
# rows, then their sums. A half may be empty: then its `m` is -inf and its sum is 0. If both are
# empty, store -inf and 0. In PyTorch, where none is empty: `M = m.max(0).values; torch.stack([M,
# (sums * torch.exp(m - M)).sum(0)])`.


# %%
# exercise 04.4
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
check("04.4", merge_kernel)

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
# where the *whole* row is -inf. The remedy is the one of exercise 04.4: where `new_m` is -inf,
# subtract 0 in its place, in both differences. [kernels/softmax.py](../kernels/softmax.py) does
# that.
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
# through device memory (how one waits for another is in
# [kernels/softmax_tuned.py](../kernels/softmax_tuned.py), and not needed here). So the same number
# of programs works on far fewer rows. At this width it was recorded at more than 98 % of the copy
# roof, and the online version at 63 %. And how do the programs put their parts together? By your
# merge of exercise 04.4.

# %% [markdown]
# ### Exercise 04.5 · What the online version moves (core)
#
# `online_kernel` runs over 2^26 float32, in rows of 2^20. How many megabytes does it load and
# store together, caches aside? (1 MB is 10^6 bytes.)

# %%
# exercise 04.5
megabytes = None
# about 1 line from here
megabytes = 3 * 4 * 2**26 / 1e6
# to here

# %%
check("04.5", megabytes)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How often is each element loaded, and how often stored?
#
# </details>

# %% [markdown]
# ## Narrow rows, wide rows
#
# *Routes: all*
#
# You have two kernels. How fast are they, and where? This was recorded on an H200, for 1 GB of
# bfloat16 cut into rows of each width. `softmax_v2` is your `softmax_kernel` with 8 warps, and more
# for wide rows. `softmax_v3` is the online version. `softmax` is the finished operation, which
# picks a version by the width.
#
# **Predict:** where does one row per program fall off on the right, and why?
#
# <details>
# <summary>Answer</summary>
#
# At 32,768 columns, the widest row that does not spill. One program takes so many registers there
# that nothing else runs on the multiprocessor while it waits for memory.
#
# </details>

# %%
speeds = recorded("softmax_bfloat16")
draw.speeds(speeds, series=["softmax", "softmax_v2", "softmax_v3", "torch", "copy"])

# %% [markdown]
# From 4,096 to 16,384 columns, one row per program is within 5 % of the best version. Beyond, the
# online version goes on, but pays for its second sweep. `softmax` is faster than PyTorch at every
# width, and four times as fast at 8,192 columns.
#
# Up to 16,384 columns, `softmax` lies about 1 % *above* the dashed line. How can it be faster than
# a copy? The copy roof is the speed of one large plain copy in the same run. (The curve `copy`
# copies the same rows as the kernels work on, and stays a little below.) It is no limit of the
# hardware: that is the 4.8 TB/s that `cost` goes by. Another kernel that reads and writes as much
# may come out a percent higher or lower.
#
# One row per program falls off on the left as well, at rows that are not even very narrow. Why?

# %% [markdown]
# ### Exercise 04.6 · Narrow rows (core)
#
# `softmax_kernel` on rows of 64 bfloat16, one row per program with 4 warps, is far from the copy
# roof. What is the main reason? Answer with a letter in quotes.
#
# - **a** It moves more bytes than several rows per program would.
# - **b** Most of a program is start, waiting and end, and half of its threads only repeat the
#   others.
# - **c** The row does not fit the registers, and spills.
# - **d** `exp` takes longer than the memory.

# %%
# exercise 04.6
answer = None
# about 1 line from here
answer = "b"
# to here

# %%
check("04.6", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many threads does a program with 4 warps have, and how many elements does a row have?
#
# </details>

# %% [markdown]
# You reasoned your way to the cause. For a kernel of your own you can also ask: `diagnose` takes a
# launch as `cost` does, looks at what is counted and compiled, and says what limits it. Each cause
# comes with its number, the reason and a change to try. Here are 131,072 rows of 64 bfloat16.

# %%
x = torch.empty(2**17, 64, dtype=torch.bfloat16, device="meta")
diagnose(softmax_kernel, (2**17,), x, torch.empty_like(x), 64, 64, BLOCK_N=64, target="H200")

# %% [markdown]
# Both halves of the cause are there, with numbers. The gain is an estimate: the time of the launch
# in a simple model of the GPU, over its time in the same model once the cause is gone. So it says
# what to try first, and measuring says what it brought.
#
# The change is to give a program more to do: several rows at once, a tile `[BLOCK_M, BLOCK_N]`,
# which is reduced along `axis=1`.


# %%
@triton.jit(do_not_specialize=["n_rows"])
def rows_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_xm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
    x_ptrs = x_ptr + rows[:, None] * stride_xm + cols[None, :]
    x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
    power = tl.exp(x - tl.max(x, axis=1)[:, None])
    shares = power / tl.sum(power, axis=1)[:, None]
    tl.store(out_ptr + rows[:, None] * n_cols + cols[None, :], shares, mask=mask)


# %% tags=["nbval-check-output"]
x = torch.randn(1024, 100, device=DEVICE)
out = torch.empty_like(x)
rows_kernel[(triton.cdiv(1024, 16),)](x, out, 1024, 100, 100, BLOCK_M=16, BLOCK_N=128, num_warps=2)
print(torch.allclose(out, torch.softmax(x, dim=1)))

# %% [markdown]
# (A row past the end holds nothing but -inf, so its shares are NaN. They do no harm: the mask keeps
# them from being stored.)
#
# ### What the compiler need not know
#
# What is `do_not_specialize` for? Remember that Triton compiles a kernel for what it sees in the
# arguments: whether 16 divides them, and whether they are 1. For `n_cols` and `stride_xm` that pays
# off in wide loads. `n_rows` is only compared with row numbers. And of all sizes it is the one that
# changes, with every batch.
#
# **Predict:** suppose that nothing is said of `n_rows`. How many kernels do calls with 1,024, 1,025
# and 1 rows compile?
#
# <details>
# <summary>Answer</summary>
#
# Three: one that knows that 16 divides `n_rows`, one that knows nothing of it, and one in which
# `n_rows` is the constant 1. The first call of each waits for the compiler, perhaps in the middle
# of a training step.
#
# </details>

# %% tags=["nbval-check-output"]
plain_kernel = triton.jit(rows_kernel.fn)  # the same function, with nothing said of n_rows
sizes = {"BLOCK_M": 16, "BLOCK_N": 128}
for kernel in (plain_kernel, rows_kernel):
    told = [specialize(kernel, x, out, n_rows, 112, 112, **sizes) for n_rows in (1024, 1025, 1)]
    print(f"kernels: {len(set(told))}, for", ", ".join(f"'{t.parameters[2]}'" for t in told))

# %% [markdown]
# With `do_not_specialize`, all three calls share one kernel. Use it for numbers that change from
# call to call and that no address depends on: a number of rows, a batch size, a step, a seed. Do
# not use it for strides and widths.

# %% [markdown]
# ### Exercise 04.10 · Any number of rows (core)
#
# Once more the largest element of each row of a float32 matrix, now with several rows per program.
# It must be right for matrices of more than 2^31 elements, and it must not be compiled anew for
# another number of rows. The exercise launches `cdiv(n_rows, BLOCK_M)` programs, and `BLOCK_N` is
# not below `n_cols`. In PyTorch: `x.max(dim=1).values`.
#
# (No test has memory for such a matrix: `check` looks into the TTIR to see whether the products
# have 64 bits. The numbers are out of order here: 04.7 comes after this one.)


# %%
# exercise 04.10
@triton.jit(
    # about 1 line from here
    do_not_specialize=["n_rows"]
    # to here
)
def tile_max_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_xm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    cols = tl.arange(0, BLOCK_N)
    # about 4 lines from here
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * stride_xm + cols[None, :], mask=mask, other=float("-inf"))
    tl.store(out_ptr + rows, tl.max(x, axis=1), mask=rows < n_rows)
    # to here


# %%
check("04.10", tile_max_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Which multiplication may pass 2^31? One of its two factors must have 64 bits before.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The reduction along `axis=1` gives one number per row: a block of `BLOCK_M`, and the mask of its
# store has one axis as well.
#
# </details>

# %% [markdown]
# ## Sitting 3
#
# Another good place to stop. (In a new session, run the import cell and the cells of
# `softmax_kernel` and `rows_kernel` first.) So far you can
#
# - keep a row in registers, several per program where they are narrow,
# - carry `m` and `total` through a row that is too wide, and merge the numbers of two parts,
# - keep offsets right in matrices of any size, with one kernel for any number of rows.
#
# The rest is about use: how to choose the settings, how to add up what many programs hold, and how
# to give the result to a model.

# %% [markdown]
# ## Let measuring choose
#
# *Routes: all*
#
# How many rows per program, how many warps? Registers give a bound, and the bound prunes what is
# hopeless. Among the rest, measuring picks. Before you see how, here are two ideas that sound as if
# they had to help.
#
# The first is to start fewer programs. A **persistent** kernel starts as many programs as the GPU
# holds at once, and each of them takes row after row in a loop. So it pays for its start once. The
# second builds on that loop: while one row is computed, the next one can already be on its way from
# memory. The **pipeline depth** (`num_stages`) says how many iterations are in flight. `softmax_v8`
# does both, and lesson 05 shows how it is written.
#
# Whether that helps can only be measured. This was recorded at 8,192 columns of bfloat16.

# %% tags=["nbval-check-output"]
depths = recorded("softmax_depths")
for timing in depths.of("persistent"):
    relative = timing.tb_s / depths.at("a row a program", timing.x).tb_s
    print(f"depth {timing.x}: {timing.tb_s:.2f} TB/s, {relative:.0%} of one row per program")

# %% [markdown]
# Every depth is slower than one row per program, and the depth changes almost nothing. Why is
# nothing gained? A multiprocessor holds several programs at once. While one of them waits for
# memory, another computes, so the loads of one overlap the arithmetic of the other already. That
# needs no loop, no shared memory and no barrier. Pipelines pay off where few programs fit, as in
# lesson 05.
#
# So measure. `@triton.autotune` does it at the first call: it times each of the configurations that
# you give, and keeps the fastest. `key` names arguments: for each new combination of their values
# it measures again. A configuration can set constants of the kernel, such as `BLOCK_M`, besides
# `num_warps` and `num_stages`.
#
# Timing takes a while, so throw out first what cannot be good: `prune_configs_by` names a function
# for that. Here registers give the bound, at most 64 elements per thread. (With 32 warps that was
# too much, because a thread can have only 64 registers there. With four warps or fewer it can have
# up to 255.)
#
# The function, here `fitting`, is handed the configurations, the launch's arguments by name, and
# the constants that the launch names, such as `BLOCK_N`. A configuration's own constants are in its
# `kwargs`. It returns the configurations to be timed, and at least one of them.


# %%
def fitting(configs, arguments, **constants):
    elements = constants["BLOCK_N"]
    fit = [each for each in configs if each.kwargs["BLOCK_M"] * elements <= 2048 * each.num_warps]
    return fit or configs[:1]


tuned_kernel = triton.autotune(
    configs=[triton.Config({"BLOCK_M": m}, num_warps=w) for m in (1, 4, 16) for w in (1, 2, 4)],
    key=["n_cols"],
    prune_configs_by={"early_config_prune": fitting},
)(rows_kernel)

# %% tags=["nbval-check-output"]
for width in (128, 2048, 4096):
    fit = fitting(tuned_kernel.configs, {}, BLOCK_N=width)
    print(f"{width:5} columns: {len(fit)} of {len(tuned_kernel.configs)} configurations are timed")

# %% [markdown]
# The grid depends on `BLOCK_M` now, so it is a function of the constants. In CPU mode nothing can
# be timed: the first configuration is taken.


# %%
x = torch.randn(1024, 100, device=DEVICE)
out = torch.empty_like(x)


def grid(constants):
    return (triton.cdiv(1024, constants["BLOCK_M"]),)


tuned_kernel[grid](x, out, 1024, 100, 100, BLOCK_N=128)
print(torch.allclose(out, torch.softmax(x, dim=1)))
print("chosen:", tuned_kernel.best_config if MODE.gpu else "nothing is timed in CPU mode")

# %% [markdown]
# In practice you will want to know four more things.
#
# - If the key changes with every call, as `n_rows` would, every call measures again.
# - With `cache_results=True` the choice is kept on disk, and the next process need not measure.
# - With `TRITON_PRINT_AUTOTUNING=1` in the environment, Triton prints which one was chosen and how
#   long that took.
# - Each trial *runs* the kernel, many times, on your tensors. A kernel that writes into its own
#   input then works on its own results. `restore_value=["x_ptr"]` puts a tensor back after each
#   trial, and `reset_to_zero` clears one that is added to.
#
# The course's kernels do not tune at the first call. Their choices stand in a table, with the date
# of its measurement: so nobody waits, and the same input gives the same result, bit for bit.

# %% [markdown]
# ### Exercise 04.7 · Tuned in place (core)
#
# `tuned_in_place` copies a contiguous float32 matrix and writes the softmax of each row over the
# row itself. On a GPU, its first call for a width gives a wrong result. Fix the decorator. In
# PyTorch: `torch.softmax(x, dim=1)`.
#
# (Without a GPU nothing is timed, so if you call it yourself in CPU mode, the result is right.
# `check` simulates the trials: it runs the kernel once with each configuration, and then for the
# result.)


# %%
# exercise 04.7
@triton.autotune(
    configs=[triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)],
    key=["n_cols"],
    # about 1 line from here
    restore_value=["x_ptr"],
    # to here
)
@triton.jit
def in_place_kernel(x_ptr, n_cols, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + tl.program_id(axis=0) * n_cols + cols
    x = tl.load(x_ptrs, mask=cols < n_cols, other=float("-inf"))
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(x_ptrs, power / tl.sum(power, axis=0), mask=cols < n_cols)


def tuned_in_place(x):
    x = x.clone()
    in_place_kernel[(x.shape[0],)](x, x.shape[1], BLOCK_N=triton.next_power_of_2(x.shape[1]))
    return x


# %%
check("04.7", tuned_in_place)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# After two trials and the launch itself, a row is the softmax of the softmax of its softmax. (On a
# GPU each trial runs many times.)
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `triton.autotune` takes a list with the names of the arguments to put back after each trial.
#
# </details>

# %% [markdown]
# ## Sums over programs
#
# *Routes: all*
#
# Along its row, a program owns everything that it adds up. What about the sum of each *column*? It
# takes one number from every row, and the rows belong to many programs, which run at the same time.
#
# The obvious attempt is that each program loads the total so far, adds its part and stores it.
# Lesson 00 showed what happens: two programs load the same old total, and one of the two parts is
# lost. `tl.atomic_add` does the three steps as one, which no other program can interrupt.
#
# Two things to remember. The output must be zero before the first program adds to it. And the
# programs add in no particular order, so a float32 sum, where each addition rounds, may differ in
# its last digits from run to run.

# %% [markdown]
# ### Exercise 04.8 · Column sums (core)
#
# `out[n]` is the sum of column `n` of a float32 matrix, contiguous or not. Write the kernel and the
# launcher, with tiles of 16 rows or more per program. In PyTorch: `x.sum(dim=0)`.


# %%
# exercise 04.8
@triton.jit
def column_sum_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    # about 3 lines from here
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0)
    tl.atomic_add(out_ptr + cols, tl.sum(x, axis=0), mask=cols < n_cols)
    # to here


def column_sum(x):
    x = x.contiguous()
    out = None
    # about 3 lines from here
    out = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 64))
    column_sum_kernel[grid](x, out, *x.shape, BLOCK_M=32, BLOCK_N=64)
    # to here
    return out


# %%
check("04.8", column_sum)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Reduce the rows of the tile first, with `axis=0`. Then there is one atomic per column and program.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `torch.empty` holds whatever was there before.
#
# </details>

# %% [markdown]
# ## In a model
#
# *Routes: all*
#
# A model that trains needs softmax's gradient as well. Call a row's softmax `p`, and let `d_out` be
# the upstream gradient, which arrives from the layers that come after it: `d_out[i]` says how much
# the loss grows if `p[i]` does. We need `dx[j]`, how much the loss grows if `x[j]` does.
#
# Each share depends on every `x[j]`, since all of them stand in the sum. Write `S` for that sum, so
# `p[i] = exp(x[i]) / S`, and take the derivative of the quotient:
#
# ```
# for i = j     (exp(x[i]) * S - exp(x[i]) * exp(x[i])) / S^2  =  p[i] - p[i] * p[i]
# for i ≠ j     (0 * S         - exp(x[i]) * exp(x[j])) / S^2  =       - p[i] * p[j]
# ```
#
# If `x[j]` grows, its own share grows, and every other one shrinks to make room. Now add up over
# all shares what that does to the loss:
#
# ```
# dx[j] = sum over i of d_out[i] * (derivative of p[i] by x[j])
#       = d_out[j] * p[j]  -  sum over i of d_out[i] * p[i] * p[j]
#       = p[j] * (d_out[j] - sum over i of d_out[i] * p[i])
# ```
#
# The last sum is one number per row. So the gradient takes two inputs, a reduction and some
# arithmetic: a kernel like those that you have written.

# %% [markdown]
# ### Exercise 04.9 · Softmax backwards (stretch)
#
# Write it for contiguous float32 rows, where `out` is the softmax: `dx = out * (d_out - s)`, with
# `s` the row's sum of `out * d_out`. The exercise launches one program per row.


# %%
# exercise 04.9
@triton.jit
def softmax_backward_kernel(out_ptr, d_out_ptr, dx_ptr, n_cols, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    offsets = tl.program_id(axis=0) * n_cols + cols
    # about 4 lines from here
    out = tl.load(out_ptr + offsets, mask=mask, other=0.0)
    d_out = tl.load(d_out_ptr + offsets, mask=mask, other=0.0)
    dx = out * (d_out - tl.sum(out * d_out, axis=0))
    tl.store(dx_ptr + offsets, dx, mask=mask)
    # to here


# %%
check("04.9", softmax_backward_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# It is `softmax_kernel` with two loads, and a sum in place of the maximum.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# What must a lane without an element add to the sum?
#
# </details>

# %% [markdown]
# How does a kernel get into a model? You could simply call the launcher. But PyTorch sees no
# operation there, so no gradient comes back. An **operator** is a function that PyTorch knows by
# name, with types for what it takes and returns, and you can register yours as one.
#
# Read the next cell with this in mind. `torch.library.triton_op` registers a launcher.
# `mutates_args=()` promises that it changes none of its arguments. `wrap_triton` marks the launch,
# so that `torch.compile` can look into the operator and keep the Triton kernel as it is. (It takes
# compiled kernels only, so in CPU mode the launch goes without it.)
#
# Where PyTorch cannot or should not look into a launcher, `torch.library.custom_op` takes it as a
# closed box. Then you also write a function that says what shape and dtype come out, under
# `register_fake`.

# %%
wrap = torch.library.wrap_triton if MODE.gpu else lambda kernel: kernel


@torch.library.triton_op("lesson04::softmax", mutates_args=())
def softmax_op(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    block_n = triton.next_power_of_2(x.shape[1])
    wrap(softmax_kernel)[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK_N=block_n)
    return out


# %% [markdown]
# The gradient takes two functions. PyTorch calls the first after the forward pass, with an object
# `ctx` that it keeps until the backward pass: there you save what the gradient needs, here only
# the output. It calls the second with that `ctx` and with `d_out`. (What stands in `backward` is
# PyTorch's arithmetic. Your kernel of 04.9 does the same in one launch.)


# %%
def setup_context(ctx, inputs, output):
    ctx.save_for_backward(output)


def backward(ctx, d_out):
    (out,) = ctx.saved_tensors
    return out * (d_out - (out * d_out).sum(dim=1, keepdim=True))


softmax_op.register_autograd(backward, setup_context=setup_context)

# %% [markdown]
# Does the gradient agree with PyTorch's own? The weights below make a loss in which every share
# counts differently.

# %% tags=["nbval-check-output"]
x = torch.randn(8, 100, device=DEVICE, requires_grad=True)
weights = torch.randn(8, 100, device=DEVICE)
(softmax_op(x) * weights).sum().backward()
expected = torch.autograd.grad((torch.softmax(x, dim=1) * weights).sum(), x)[0]
print(torch.allclose(x.grad, expected, atol=1e-6))

# %% [markdown]
# One agreement proves little about the registration itself. `torch.library.opcheck` looks at that:
# whether the operator changes what it promised not to change, and whether the gradient is
# registered so that PyTorch finds it. (Called without `test_utils` it also traces the operator,
# with tensors that have no data, which takes a compiled kernel.)

# %% tags=["nbval-check-output"]
tests = ("test_schema", "test_autograd_registration")
print(torch.library.opcheck(softmax_op, (x,), test_utils=tests))

# %% [markdown]
# On a GPU, `torch.compile` now takes the operator into a larger function without stopping at it,
# which `fullgraph=True` insists on. In CPU mode the function runs as it is.


# %%
def doubled(x):
    return 2 * softmax_op(x)


x = torch.randn(8, 100, device=DEVICE)
run = torch.compile(doubled, fullgraph=True) if MODE.gpu else doubled
print(torch.allclose(run(x), 2 * torch.softmax(x, dim=1)))

# %% [markdown]
# ## When not to write one
#
# *Routes: all*
#
# `torch.compile` writes Triton too. This is its kernel for the softmax of 8,192 rows of 8,192
# bfloat16, as it was recorded, or in GPU mode as your own PyTorch writes it. Look for the two
# loops. Which two variables does the first one carry along?

# %%
print(observed().softmax_by_compile)

# %% [markdown]
# They are `_tmp3_max` and `_tmp3_sum`: your online normalizer, with maximum and sum in one sweep,
# and a second sweep that reads the row again and writes. One thing is different. It keeps a maximum
# and a sum for *every lane* of the block, and merges them after the loop, as you merged two halves.
# Its masked lanes hold 0, which is not neutral for a maximum; that does no harm, because after each
# tile `tl.where(r0_mask, …)` leaves the two numbers of such lanes as they were. (For narrow rows it
# writes another kernel, with the row in registers.)
#
# Here is its speed, relative to that of the finished kernel.

# %%
compared = ["softmax", "torch.compile", "torch", "copy"]
draw.speeds(recorded("softmax_bfloat16"), series=compared, relative_to="softmax")

# %% [markdown]
# Up to 1,024 columns it is nearly as fast, within about 12 % (except at 781, an odd width), and it
# joins the softmax with whatever stands before and after, which yours does not. There, write no
# kernel.
#
# Beyond that the finished kernel is about 2 to 2.8 times as fast. Is the second sweep to blame? Not
# mainly: `softmax_v3` makes two sweeps as well, and is more than twice as fast as `torch.compile`
# at 8,192 columns. Count the exponentials. Where every lane has a maximum of its own, every lane
# corrects its own sum as well, at every element. So this kernel takes three per element:
# `online_softmax_combine` takes one for the new term and one for the correction, and the second
# sweep takes another. `online_kernel` takes two, one in each sweep. And `libdevice.exp`, which is
# more exact, becomes nine instructions, where `tl.exp` becomes five.
#
# The speeds say the same. From 2,048 to 16,384 columns `torch.compile` gets through about as many
# elements per second in float32 as in bfloat16, although float32 has twice the bytes. So arithmetic
# is its limit, and not the bytes. The finished kernel is limited by bytes and handles half as many
# float32, so in float32 `torch.compile` comes closer to it. PyTorch's own softmax does well in
# float32, too, from 128 to 2,048 columns. Measure what you want to replace first: in the same run,
# at your own sizes and in your own dtype.
#
# ## On your own
#
# - Step through `rows_kernel` with `replay`, and look at the shapes of `tl.max(x, axis=1)` and of
#   what is subtracted.
# - Make the loads of `softmax_kernel` wide for 1,000 columns. A promise about a parameter is lost,
#   as you know from lesson 03. But if `n_cols` is a multiple of 8, `n_cols // 8 * 8` is the same
#   number, and the compiler sees that 8 divides it. Do the same with `stride_xm`. `lower` tells
#   whether it worked.
# - Make `online_kernel` right for a row that begins with a whole tile of -inf.
# - Give `online_kernel` a block of 512 and one of 8,192. What does `cost` say, on 8 rows, of bytes
#   and of registers, and which would you take?
# - Write `softmax(scale * x)` with the scale and log2(e) in one constant and `tl.exp2`. Verify it.
#   Which lanes go wrong for a scale below zero?
#
# ## In practice
#
# [kernels/softmax.py](../kernels/softmax.py) is the finished operation, for any strides and widths.
# Its first four versions stand there, and four tuned ones, with a table that picks one, in
# [kernels/softmax_tuned.py](../kernels/softmax_tuned.py). Up to 8,192 columns it keeps rows in
# registers, several per program where they are narrow. Beyond, it reads a row twice, the second
# time from a cache, and lets several programs share a very wide row, with your merge. It reaches at
# least 90 % of the copy roof at every width that was recorded, up to 262,144 columns and at the odd
# width of 50,257.

# %% [markdown]
# ## What you can do now
#
# You can write kernels that reduce rows of any width, count what a second sweep costs, derive the
# online update on a sheet of paper, keep a kernel right beyond 2^31 elements, tune it, and turn it
# into an operator with a gradient. Ask yourself:
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
#
# 2. A kernel is right for `[1000, 1000]` and gives an illegal memory access for `[100000, 50000]`.
#    What do you look at first?
#
# <details>
# <summary>Answer</summary>
#
# At products of a row and a stride: 100,000 x 50,000 is 5 billion, and 32 bits end at 2.1 billion.
# Is one of the factors converted to int64 *before* the multiplication?
#
# </details>
#
# 3. A kernel waits for the compiler every now and then in the middle of training. The batch size
#    changes from step to step. What is going on, and what do you do?
#
# <details>
# <summary>Answer</summary>
#
# Triton compiles one kernel for sizes that 16 divides, one for other sizes, and one for 1. If no
# address depends on the number, name it in `do_not_specialize`. If an autotuner's key holds it,
# take it out there as well.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/04-softmax.py](../solutions/04-softmax.py) has all answers.
#
# **Next:** [lesson 05](05-tensor-cores.ipynb). You multiply matrices on tensor cores, where a
# program reads its tiles in a loop, and a pipeline finally pays off.
#
# ## Further reading
#
# - M. Milakov and N. Gimelshein: *Online normalizer calculation for softmax*, arXiv:1805.02867
# - *Custom Triton kernels* in PyTorch's documentation: `triton_op`, `wrap_triton` and
#   `register_autograd`
