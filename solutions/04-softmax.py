# %% [markdown]
# # 04 · Softmax
#
# **What you will build.** A softmax for rows of any width, in bfloat16 up to four times as fast as
# PyTorch's, and an operator of it that a model can train with.
#
# **What you will learn.** You reduce rows with the right neutral element. You derive how a maximum
# and a sum are carried along in one sweep, and merge two halves. You bound rows a program and
# `num_warps` by registers, let measurement choose, and say when not to write a kernel.
#
# **What you need.** Lessons 01 to 03.
#
# | section | minutes |
# |---|---|
# | What softmax costs | 7 |
# | Fold a row | 12 |
# | A row a program | 10 |
# | What a reduction becomes | 8 |
# | Two running numbers | 18 |
# | Every width | 16 |
# | Sums over programs | 8 |
# | In a model | 11 |

# %%
from course import DEVICE, MODE, check, cost, draw, explore, hint, lower, matrices
from course import observed, recorded, replay, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## What softmax costs
#
# Softmax turns each row into shares: `exp(x)` over the sum of the row's `exp(x)`. First it
# subtracts the row's maximum, which changes nothing: numerator and denominator both shrink by
# `exp(-maximum)`. **Predict** what happens without.

# %% tags=["nbval-check-output"]
x = torch.tensor([1000.0, 1001.0])
print("plain:", (torch.exp(x) / torch.exp(x).sum()).tolist())
shifted = torch.exp(x - x.max())
print("safe: ", [round(share, 4) for share in (shifted / shifted.sum()).tolist()])

# %% [markdown]
# `exp(1000)` is more than a float32 holds: infinity over infinity is NaN. After the subtraction
# the largest exponent is 0.
#
# Written with PyTorch, each line is a kernel that reads and writes memory. **Predict** how many
# times the whole matrix travels, where twice would do.


# %%
def softmax_in_steps(x):
    largest = x.max(dim=1, keepdim=True).values  # reads x
    shifted = x - largest  # reads x, writes as much
    power = torch.exp(shifted)  # reads, writes
    total = power.sum(dim=1, keepdim=True)  # reads
    return power / total  # reads, writes


# %% [markdown]
# Five times it is read and three times written: eight trips, four times the least. The arithmetic
# is the same in one kernel, and the trips are two. (The maxima and sums are small beside it.) Try
# it later against your own: the results agree, and so does the count.

# %% [markdown]
# ## Fold a row
#
# `tl.sum(x, axis=0)` folds a block into one number, as do `tl.max` and `tl.min`; `axis=1` folds
# the rows of a tile. A masked lane must not matter to the result, so it gets the *neutral
# element*: 0 for a sum. **Predict** what these three maxima are; all five numbers are below zero.


# %%
@triton.jit
def max_kernel(x_ptr, out_ptr, n, OTHER: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=OTHER)
    tl.store(out_ptr, tl.max(x, axis=0))


# %% tags=["nbval-check-output"]
x, out = -torch.arange(1.0, 6.0, device=DEVICE), torch.empty(1, device=DEVICE)
for other in (0.0, float("-inf"), -3.0):
    max_kernel[(1,)](x, out, 5, OTHER=other, BLOCK=8)
    print(f"other={other}: {out.item()}")

# %% [markdown]
# The maximum is -1. Three lanes of eight are masked, and with 0 they win. For a maximum the
# neutral element is -inf. (-3 came out right here by luck.)

# %% [markdown]
# ### Exercise 04.1 · Row sums (core)
#
# `out[m]` is the sum of row `m` of a float32 matrix, whose rows are `stride_xm` elements apart.
# The exercise launches a program for each row, and `BLOCK_N` is a power of two, not below
# `n_cols`. In PyTorch: `x.sum(dim=1)`.


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
# Say what a masked lane adds.
#
# </details>

# %% [markdown]
# ### Exercise 04.2 · Row maxima (core)
#
# The same for the largest element of each row. In PyTorch: `x.max(dim=1).values`.


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
# What does a lane that has no element count as, when all the others are below zero?
#
# </details>

# %% [markdown]
# ## A row a program
#
# The whole kernel: a row is loaded once, stays in registers through maximum, `exp` and sum, and is
# stored once. It computes in float32 whatever the input is, and the store rounds. The masked
# lanes need no mask of their own after the load: `exp(-inf)` is 0.


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
result = verify(softmax, lambda x: torch.softmax(x, dim=-1), cases=matrices(), absolute=1e-10)
print(result)
assert result.right

# %% [markdown]
# (`absolute` lets results far below 1 be off by that much: their exponents are rounded.)
#
# **Predict** the bytes for 512 rows of 1,000 float32, then let them be counted. Look also for the
# special functions: `exp` is computed by a unit of its own, at an eighth of the speed of an
# addition.

# %%
x = torch.randn(512, 1000, device=DEVICE)
args = (x, torch.empty_like(x), 1000, 1000)
cost(softmax_kernel, (512,), *args, BLOCK_N=1024, target="H200")

# %% [markdown]
# Read once and written once, 2 x 2,048,000 bytes. The 524,288 exponentials would take 125 ns, the
# rest of the arithmetic less: memory is what binds.

# %% [markdown]
# ### Exercise 04.3 · Log-softmax (core)
#
# The logarithm of softmax, for float32 rows whose numbers may lie ten thousand apart. The exercise
# launches a program for each row. In PyTorch: `torch.log_softmax(x, dim=1)`.


# %%
# exercise 04.3
@triton.jit
def log_softmax_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0)
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
# `exp(-10000)` is 0 in float32, and its logarithm is -inf. The result is -10000.
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
# A sum needs every element of the row, and they lie in the registers of 128 threads. Look in the
# TTGIR for the two `tt.reduce`, and in the PTX for `shfl` and for shared memory.

# %%
explore(softmax_kernel, *args, BLOCK_N=1024, target="sm_90", stages=["ttgir", "ptx"])

# %% [markdown]
# As in lesson 03: a thread folds its own 8 elements, five shuffles fold those of a warp, and one
# number a warp goes through shared memory, with barriers; here all of it twice, for the maximum
# and for the sum. **Predict** how many registers a thread needs with 1, 4 and 16 warps.

# %%
for num_warps in (1, 4, 16):
    s = lower(softmax_kernel, *args, BLOCK_N=1024, target="sm_90", num_warps=num_warps)
    ptx, used = s.counts["ptx"], s.resources
    print(
        f"{num_warps:2} warps: {ptx['shuffles']:2} shuffles, {ptx['barriers']} barriers, "
        f"{used.shared_bytes:3} bytes shared, {used.registers} registers a thread"
    )

# %% [markdown]
# One warp needs no shared memory and no barrier, but each of its threads holds 32 elements. More
# warps hold fewer each, and wait for one another at every reduction. For short rows few warps are
# better, for long ones many: a row must fit the registers. **Predict** the width at which 32
# warps, the most a program has, no longer hold it.

# %%
for n in (4096, 16384, 32768, 65536):
    wide = torch.empty(4, n, device="meta")
    s = lower(softmax_kernel, wide, wide, n, n, BLOCK_N=n, target="sm_90", num_warps=32)
    print(
        f"{n:6} columns: {s.resources.registers:3} registers, {s.resources.spill_bytes:4} bytes spilled"
    )

# %% [markdown]
# At 65,536 columns each of 1,024 threads would hold 64 elements, and may have 64 registers, which
# also hold addresses and sums: the rest *spills* to memory, and is read again. A wider row needs
# another plan.

# %% [markdown]
# ## Two running numbers
#
# A row in tiles: one sweep for the maximum, one for the sum, one to write. That is three readings.
# The first two can be one. Keep the maximum `m` so far and the total of `exp(x - m)` so far; when a
# tile brings a larger maximum, the old total is too large by a known factor:
#
# `exp(x - old) = exp(x - new) * exp(new - old)`, so the total is multiplied by `exp(old - new)`.
#
# Follow the two numbers over three tiles. **Predict** by what the first tile's sum is multiplied
# when 5 arrives.

# %%
draw.online([2, 1, 0, 3, 5, 1, -2, 4.5, 4], block=3)

# %% [markdown]
# By exp(2 - 5), 0.050. The same factor joins any two parts of a row.

# %% [markdown]
# ### Exercise 04.4 · Merge two halves (core)
#
# Of `n` rows each was cut in two, and for each half there are the maximum `m` and the sum of
# `exp(x - m)`: float32, `m_ptr` and `sum_ptr` each `[2, n]`, contiguous. Give `[2, n]`: the maxima
# of the whole rows, and their sums. A half may be empty: its `m` is -inf and its sum 0. In PyTorch,
# where none is: `M = m.max(0).values; torch.stack([M, (sums * torch.exp(m - M)).sum(0)])`.


# %%
# exercise 04.4
@triton.jit
def merge_kernel(m_ptr, sum_ptr, out_ptr, n, BLOCK: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = rows < n
    m1, m2 = tl.load(m_ptr + rows, mask=mask), tl.load(m_ptr + n + rows, mask=mask)
    sum1, sum2 = tl.load(sum_ptr + rows, mask=mask), tl.load(sum_ptr + n + rows, mask=mask)
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
# `sum1` counts in units of `exp(m1)`, `sum2` in units of `exp(m2)`. Bring both to those of the
# larger maximum before you add.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Where both halves are empty, -inf - -inf is NaN. Subtract something else there: `tl.where`.
#
# </details>

# %% [markdown]
# In a loop over tiles the tiles so far are one half, and the new tile is the other. This is the
# *online normaliser*, and lesson 06 builds flash attention on it.


# %%
@triton.jit
def online_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    m = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=float("-inf")).to(
            tl.float32
        )
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
# Step through it: with the arrows beside "iteration 1 of the loop" you go from tile to tile and see `m`
# and `total` change.

# %%
short = torch.tensor([[2.0, 1, 0, -1, 3, 5, 1, 2, -2, 4.5, 4, 0]], device=DEVICE)
replay(online_kernel, (1,), short, torch.empty_like(short), 12, 12, BLOCK_N=4)

# %% [markdown]
# One slip remains: in a row that begins with a whole tile of -inf, `m` is -inf, and -inf - -inf
# gives NaN. Of -inf alone PyTorch makes NaN only where the *whole* row is -inf. Attention masks
# whole tiles, so [kernels/softmax.py](../kernels/softmax.py) subtracts 0 there.
#
# **Predict** how often `online_kernel` asks for each element.

# %%
wide = torch.empty(64, 2**16, device="meta")
found = cost(online_kernel, (64,), wide, wide, 2**16, 2**16, BLOCK_N=4096, target="H200")
print(
    f"{found.bytes_loaded / wide.nbytes:.0f} readings, {found.bytes_stored / wide.nbytes:.0f} writing"
)
print(f"of which distinct: {found.distinct_loaded / wide.nbytes:.0f} reading")

# %% [markdown]
# Two readings of the same bytes need not both go to memory: what was read a moment ago may still be
# in the L2 cache, 60 MB on an H200. A row of 65,536 float32 is 262 KB, and 132 multiprocessors
# with a row each have 35 MB on the way. So the second sweep can be nearly free, as long as not
# too many rows are in flight. Here nine programs fit a multiprocessor, with 311 MB together: too
# many. How many fit, `cost` tells.

# %% [markdown]
# ### Exercise 04.5 · Three sweeps (core)
#
# `online_kernel` runs over 2^26 float32, in rows of 2^20. How many megabytes does it load and
# store, caches aside? (1 MB is 10^6 bytes.)

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
# How often is each element loaded, how often stored?
#
# </details>

# %% [markdown]
# ## Every width
#
# What was recorded on an H200, for 1 GB of bfloat16 cut into rows of each width. `softmax_v2` is
# your `softmax_kernel` with 8 warps, and more for wide rows; it goes up to 2^15 columns, the widest
# that does not spill. `softmax_v3` is the online version, `softmax` what the course's own picks by
# the width. **Predict** where the row a program falls off, on the left and on the right.

# %%
speeds = recorded("softmax_bfloat16")
draw.speeds(speeds, series=["softmax", "softmax_v2", "softmax_v3", "torch", "copy"])

# %% [markdown]
# Between 4,096 and 16,384 columns a row a program is all one can wish. At 32,768 one program fills a
# multiprocessor's registers, and nothing runs while it waits; the online version pays for its
# second reading. `softmax` is above PyTorch's own at every width, four times at 8,192. On the left
# a program has too little to do: 64 columns of bfloat16 are 128 bytes. There a program takes
# several rows, a tile of `[BLOCK_M, BLOCK_N]`, and folds along `axis=1`. (Rows past the end become
# NaN in it, and are not stored.)


# %%
@triton.jit
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


# %%
x = torch.randn(1024, 100, device=DEVICE)
out = torch.empty_like(x)
rows_kernel[(triton.cdiv(1024, 16),)](x, out, 1024, 100, 100, BLOCK_M=16, BLOCK_N=128, num_warps=2)
print(torch.allclose(out, torch.softmax(x, dim=1)))

# %% [markdown]
# ### Exercise 04.6 · Narrow rows (core)
#
# `softmax_kernel` on rows of 64 bfloat16, a row a program with 4 warps, is far from the copy roof.
# What is the main reason? Answer with a letter.
#
# - **a** It moves more bytes than several rows a program would.
# - **b** Most of a program is start, waiting and end, and half of its threads only repeat the others.
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
# How many threads has a program with 4 warps, and how many elements has a row?
#
# </details>

# %% [markdown]
# The exponential can be had for less. The hardware computes powers of two; for `exp(x)` the
# compiler multiplies `x` by log2(e) first. Where your kernel multiplies by a scale anyway, as
# attention does, the constant goes into the scale, and `tl.exp2` needs no multiplication of its
# own. It is the same softmax. Look for `ex2` and for the `mul` before it.

# %%
s = lower(softmax_kernel, *args, BLOCK_N=1024, target="sm_90", num_warps=16)  # two elements per thread
print(s.follow("power = tl.exp(", "ptx"))

# %% [markdown]
# Two ideas that sound good: fewer programs that each take row after row, *persistent* ones, pay
# their start once; and while one row is computed, the next can be loaded, as many ahead as the
# *pipeline depth* says. `softmax_v8` does both. **Predict** which depth is best at 8,192 columns.

# %%
draw.speeds(recorded("softmax_depths"))

# %% [markdown]
# None: all are slower than a row a program, and depth changes nothing. A multiprocessor holds
# several programs at once, and while one waits for memory another computes: that is a pipeline
# already, with no shared memory and no barriers for it. Depth pays where few programs fit, as in
# lesson 05. So much for what sounds good.
#
# How many rows, which block, how many warps? Nobody computes that; one measures. `@triton.autotune`
# does it at the first call: it times each configuration, and again for each new value of the
# arguments in `key`. A key that changes with every call, such as `n_rows`, measures all the time.


# %%
@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (1, 4, 16)], key=["n_cols"])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=float("-inf"))
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_cols + cols, power / tl.sum(power, axis=0), mask=cols < n_cols)


# %%
tuned_kernel[(1024,)](x, out, 100, 100, BLOCK_N=128)
print(torch.allclose(out, torch.softmax(x, dim=1)))
print("chosen:", tuned_kernel.best_config if MODE.gpu else "nothing is timed in CPU mode")

# %% [markdown]
# The trap: each trial *runs* the kernel, many times, on your tensors. A kernel that writes into its
# own input then sees its own results. `restore_value=["x_ptr"]` has the tuner put the tensor back
# after each trial, and `reset_to_zero` clears one that is added to. The course's kernels do not
# tune at call time: their choices stand in a table, with its measurement.

# %% [markdown]
# ### Exercise 04.7 · Tuned in place (core)
#
# `tuned_in_place` writes the softmax of contiguous float32 rows over the rows themselves, on a copy.
# At its first call for a width the result is wrong. Mend the decorator. In PyTorch: `torch.softmax(x,
# dim=1)`.


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
# `triton.autotune` takes the names of the arguments to put back after each trial.
#
# </details>

# %% [markdown]
# ## Sums over programs
#
# Along the rows a program owns all it adds. A sum over *columns* adds what many programs hold, and
# they run at the same time. Loading the total, adding and storing it loses what others stored in
# between, as lesson 00 showed. `tl.atomic_add` does the three as one, in no order: so float32 sums
# may differ in the last digits from run to run. The output must be zero before.

# %% [markdown]
# ### Exercise 04.8 · Column sums (core)
#
# `out[n]` is the sum of column `n` of a float32 matrix, contiguous or not; write kernel and
# launcher, with tiles of 16 rows or more a program. In PyTorch: `x.sum(dim=0)`.


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
# Fold the tile's rows first, `axis=0`: one atomic for each column and program.
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
# To train, PyTorch needs the gradient too. With `out` the softmax and `d_out` what arrives from
# behind, it is `dx = out * (d_out - sum(out * d_out))`, the sum over the row: each share's growth
# is paid for by the others.

# %% [markdown]
# ### Exercise 04.9 · Softmax backwards (stretch)
#
# Write that for contiguous float32 rows; the exercise launches a program for each row.


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
# What must a masked lane add to the sum?
#
# </details>

# %% [markdown]
# `torch.library.triton_op` makes an operator of a launcher, which `torch.compile` can look into and
# `register_autograd` gives a gradient. `wrap_triton` marks the launch; it knows compiled kernels
# alone, so in CPU mode the kernel goes without it, and `doubled` runs as it is.

# %%
wrap = torch.library.wrap_triton if MODE.gpu else lambda kernel: kernel


@torch.library.triton_op("lesson04::softmax", mutates_args=())
def softmax_op(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    block_n = triton.next_power_of_2(x.shape[1])
    wrap(softmax_kernel)[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK_N=block_n)
    return out


# %%
def keep(ctx, inputs, output):
    ctx.save_for_backward(output)


def backward(ctx, d_out):
    (out,) = ctx.saved_tensors
    return out * (d_out - (out * d_out).sum(dim=1, keepdim=True))


softmax_op.register_autograd(backward, setup_context=keep)


# %%
def doubled(x):
    return 2 * softmax_op(x)


x = torch.randn(8, 100, device=DEVICE)
run = torch.compile(doubled, fullgraph=True) if MODE.gpu else doubled
print(torch.allclose(run(x), 2 * torch.softmax(x, dim=1)))

# %%
x = torch.randn(8, 100, device=DEVICE, requires_grad=True)
weights = torch.randn(8, 100, device=DEVICE)
(softmax_op(x) * weights).sum().backward()
expected = torch.autograd.grad((torch.softmax(x, dim=1) * weights).sum(), x)[0]
print(torch.allclose(x.grad, expected, atol=1e-6))

# %% [markdown]
# The gradient here is PyTorch's arithmetic; your kernel of 04.9 would do the same in one launch.
#
# ### When not to write one
#
# `torch.compile` writes Triton too. This is its kernel for the softmax of 8,192 rows of 8,192
# bfloat16, from a recorded run or, in GPU mode, from your own. Look for the two loops: what does
# the first one carry along?

# %%
print(observed().softmax_by_compile)

# %% [markdown]
# It is your online normaliser: maximum and sum in one sweep, one of each for every lane of the block,
# and a second sweep that reads the row again. For narrow rows it keeps the row in registers.
# **Predict** at which widths that is as good as the course's kernel.

# %%
draw.speeds(speeds, series=["softmax", "torch.compile", "torch", "copy"])

# %% [markdown]
# Up to 1,024 columns it is nearly as fast, within 12 % (not at 781, an odd width), and it joins the
# softmax with whatever stands before and after, which yours does not. There, write no kernel. Beyond, the
# course's is two to two and a half times as fast. The second reading is not the main reason:
# `softmax_v3` reads twice too, and is far above it at 8,192. A maximum and a sum for every lane take more
# exponentials than one for the row, and up to 16,384 columns it does as many elements a second in
# float32 as in bfloat16: arithmetic binds it, not memory. In float32 it is therefore nearer, and
# PyTorch's own is good from 128 to 2,048 columns. So measure what you would replace, in the same run, at
# your own sizes and dtype, first.
#
# ## On your own
#
# - Step through `rows_kernel` with `replay`, and look at the shapes of `tl.max(x, axis=1)` and of
#   what is subtracted.
# - Give `online_kernel` a block of 512 and one of 8,192. What does `cost` say, on 8 rows, of bytes
#   and of registers, and which would you take?
# - Make `online_kernel` right for a row that begins with a whole tile of -inf.
# - Write `softmax(scale * x)` with the scale and log2(e) in one constant and `tl.exp2`. Verify it.
#   Which lanes go wrong for a scale below zero?
#
# ## In practice
#
# [kernels/softmax.py](../kernels/softmax.py) is the finished operation, for any strides and widths:
# eight versions, and a table that picks one. Beyond 8,192 columns it reads a row twice, the second time
# from a cache, and lets several programs share a very wide row: they tell one another their maxima
# and sums, and merge them as in exercise 04.4. So it stays above nine tenths of the copy roof at every
# width that was recorded, up to 262,144 columns and at the odd width of 50,257.
#
# ## Further reading
#
# - M. Milakov and N. Gimelshein: *Online normalizer calculation for softmax*, arXiv:1805.02867
# - *Custom Triton kernels* in PyTorch's documentation: `triton_op`, `wrap_triton` and
#   `register_autograd`
