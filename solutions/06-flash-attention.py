# %% [markdown]
# # 06 · Flash attention
#
# **What you will build.** Attention, forward, that never writes down its scores: for any lengths,
# with a causal mask or without, and far faster than PyTorch's plain one.
#
# **What you will learn.** You count what attention costs, and say which roof binds. You carry an
# accumulator along with the online normaliser, in powers of two, and divide once. You leave out
# the tiles that a mask hides, and bound block sizes by registers and shared memory.
#
# **What you need.** Lessons 04 and 05.
#
# | section | minutes |
# |---|---|
# | What attention costs | 7 |
# | One tile of keys | 9 |
# | The loop | 16 |
# | Powers of two, and dividing once | 12 |
# | Causal | 18 |
# | Heads and lengths | 8 |
# | Choosing tiles | 11 |
# | Against the best | 4 |
# | A sliding window | 5 |

# %%
from course import DEVICE, check, cost, draw, heads, hint, lower, recorded, replay, verify
from kernels.flash_attention import flash_attention
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## What attention costs
#
# Attention compares each of M *queries* with each of N *keys*. A *score* is their dot product,
# times a *scale*, usually 1 / sqrt(D) for D numbers in each. Softmax turns a query's scores into
# shares, and the result is the sum of N *values*, weighted by them. In PyTorch it is four lines.
# **Predict** how often something as large as the M x N scores is written or read.


# %%
def attention_in_steps(q, k, v, scale):
    scores = q @ k.mT  # reads q and k, writes M x N
    scores = scores * scale  # reads them, writes as much
    shares = torch.softmax(scores, dim=-1)  # reads, writes
    return shares @ v  # reads


# %% [markdown]
# Written three times and read three times. A *head* is one such attention; a model runs many side
# by side. Take 32 heads of 4,096 queries, 4,096 keys and D = 64, in float16, and a GPU with the
# published peaks of an H200: 4.8 TB/s of memory, 989 TFLOP/s of tensor cores. **Predict** which
# of the two takes longer.

# %% tags=["nbval-check-output"]
n_heads, n, d = 32, 4096, 64
score_bytes = 2 * n_heads * n * n
other_bytes = 4 * 2 * n_heads * n * d  # q, k, v and the result
operations = 2 * 2 * n_heads * n * n * d  # two products, a multiplication and an addition each
print(f"tensor cores: {operations / 1e9:.0f} * 10^9 operations, {operations / 989e6:.0f} us")
for name, moved in (("in steps", 6 * score_bytes + other_bytes), ("without scores", other_bytes)):
    took = f"{moved / 1e6:5,.0f} MB, {moved / 4.8e6:5,.0f} us"
    print(f"{name:14}: {took}, {operations / moved:5,.0f} operations a byte")

# %% [markdown]
# In steps it is memory, ten times as long. If only q, k, v and the result moved, there would be
# 2,048 operations for each byte, ten times what the two peaks balance at, and the tensor cores
# would bind. The operations are the same. *Flash attention* is attention whose scores never leave
# the multiprocessor.

# %% [markdown]
# ## One tile of keys
#
# Begin with one tile of queries, `[BLOCK_M, D]`, and one of keys and values, `[BLOCK_N, D]`.
# `tl.dot(q, tl.trans(k))` gives all their scores at once. Softmax folds them along `axis=1`, and
# a second `tl.dot` weighs the values.
#
# Keys past the last one are loaded as 0. **Predict** what share such a key gets, beside three
# keys whose scores are 1.

# %% tags=["nbval-check-output"]
scores = torch.tensor([1.0, 1.0, 1.0, 0.0])  # a key of zeros has the score 0
print([round(share, 3) for share in torch.softmax(scores, dim=0).tolist()])

# %% [markdown]
# It takes 11 percent: `exp(0)` is 1. Zeros were neutral for the dot products of lesson 05, and
# for a softmax they are not: the score of a missing key must be -inf.

# %% [markdown]
# ### Exercise 06.1 · One tile (core)
#
# One program: `BLOCK_M` queries, all of them there, and `n_keys` keys and values, at most
# `BLOCK_N`. All tensors are float16 and contiguous. In PyTorch: `attention_in_steps(q, k, v,
# scale)`. The powers lie between 0 and 1: they may go to the second dot as float16, the sums may not.


# %%
# exercise 06.1
@triton.jit
def tile_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows, cols, dims = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :])
    k_offsets = cols[:, None] * D + dims[None, :]
    k = tl.load(k_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
    v = tl.load(v_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
    # about 5 lines from here
    scores = tl.dot(q, tl.trans(k)) * scale  # [BLOCK_M, BLOCK_N]
    scores = tl.where(cols[None, :] < n_keys, scores, -float("inf"))
    power = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    out = tl.dot(power.to(tl.float16), v) / tl.sum(power, axis=1)[:, None]  # [BLOCK_M, D]
    tl.store(out_ptr + rows[:, None] * D + dims[None, :], out)
    # to here


# %%
check("06.1", tile_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The maximum and the sum of a row are `[BLOCK_M]`; beside a tile they need `[:, None]`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `tl.where(condition, scores, -float("inf"))`, with a condition of the shape `[1, BLOCK_N]`.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# `tl.dot` wants both sides in one dtype: `power.to(tl.float16)`. (`tl.softmax` of a tile does not
# compile in this Triton.)
#
# </details>

# %% [markdown]
# ## The loop
#
# With more keys than a tile holds, a program keeps its tile of queries, and the keys and values
# go past it, tile by tile. Look at program 2: its row of score tiles exists one tile at a time,
# in the order of the numbers, and is never stored.

# %%
draw.attention(64, 128, block_m=16, block_n=16, program=2)

# %% [markdown]
# Each row of queries carries lesson 04's two numbers: the maximum `m` so far, and the `total` of
# `exp(score - m)`. New is the accumulator `acc`, the sum of `exp(score - m) * v` so far. It counts
# in the same unit, `exp(m)`. Take one query, two tiles of two keys, and one number for a value.
# **Predict** what comes out where the second tile brings a larger maximum, and only the total is
# rescaled.

# %% tags=["nbval-check-output"]
scores, v = torch.tensor([2.0, 1.0, 5.0, 3.0]), torch.tensor([10.0, 20.0, 30.0, 40.0])
first, second = torch.exp(scores[:2] - 2), torch.exp(scores[2:] - 5)  # m is 2, and then 5
rescale = torch.exp(torch.tensor(2.0 - 5.0))
total = first.sum() * rescale + second.sum()
before, added = (first * v[:2]).sum(), (second * v[2:]).sum()
print(f"softmax at once:       {torch.softmax(scores, dim=0) @ v:.2f}")
print(f"acc left as it was:    {(before + added) / total:.2f}")
print(f"acc rescaled as total: {(before * rescale + added) / total:.2f}")

# %% [markdown]
# A mean of values of 10 to 40 cannot be 44: the first tile counts twenty times as much as it should.
# Both numbers are multiplied by `exp(old m - new m)`. After each tile `acc / total` is the result for
# the keys so far, so nobody need divide before the end.

# %% [markdown]
# ### Exercise 06.2 · The loop (core)
#
# One head: `q` is `[n_queries, D]`, `k` and `v` are `[n_keys, D]`, all float16 and contiguous.
# The exercise launches a program for each `BLOCK_M` queries. In PyTorch: `attention_in_steps(q, k,
# v, scale)`.


# %%
# exercise 06.2
@triton.jit
def loop_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_queries, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q_offsets = rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < n_queries, other=0.0)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, n_keys, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k_offsets = cols[:, None] * D + dims[None, :]
        k = tl.load(k_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        v = tl.load(v_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(cols[None, :] < n_keys, scores, -float("inf"))
        # about 6 lines from here
        new_m = tl.maximum(m, tl.max(scores, axis=1))
        power = tl.exp(scores - new_m[:, None])
        rescale = tl.exp(m - new_m)
        total = total * rescale + tl.sum(power, axis=1)
        acc = acc * rescale[:, None] + tl.dot(power.to(tl.float16), v)
        m = new_m
        # to here
    out = acc / total[:, None]
    tl.store(out_ptr + q_offsets, out, mask=rows[:, None] < n_queries)


# %%
check("06.2", loop_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# It is `online_kernel` of lesson 04 with a maximum and a total for every row.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `total` and `acc` are multiplied by the same number, before the tile's own terms are added.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# Keep the old maximum until both are rescaled.
#
# </details>

# %% [markdown]
# The whole kernel adds the heads: one for each program along the second axis of the grid. The
# accumulator goes into the dot as its third argument, where lesson 05 had it. The launcher says in
# a sentence what dtypes and shapes it takes.


# %%
@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_queries, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(axis=1).to(tl.int64)
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q_offsets = (head * n_queries + rows)[:, None] * D + dims[None, :]  # [BLOCK_M, D]
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < n_queries, other=0.0)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, n_keys, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k_offsets = (head * n_keys + cols)[:, None] * D + dims[None, :]  # [BLOCK_N, D]
        k = tl.load(k_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale  # [BLOCK_M, BLOCK_N]
        scores = tl.where(cols[None, :] < n_keys, scores, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, axis=1))
        power = tl.exp(scores - new_m[:, None])
        rescale = tl.exp(m - new_m)
        total = total * rescale + tl.sum(power, axis=1)
        v = tl.load(v_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        acc = tl.dot(power.to(v.dtype), v, acc * rescale[:, None])
        m = new_m
    tl.store(out_ptr + q_offsets, acc / total[:, None], mask=rows[:, None] < n_queries)


# %%
def check_inputs(q, k, v):
    if {x.dtype for x in (q, k, v)} not in ({torch.float16}, {torch.bfloat16}):
        raise ValueError("attention: q, k and v must all be float16, or all bfloat16.")
    if q.ndim != 3 or k.shape != v.shape or (len(q), q.shape[-1]) != (len(k), k.shape[-1]):
        raise ValueError("attention: q must be [heads, M, D], and k and v both [heads, N, D].")
    if q.shape[2] not in (16, 32, 64, 128) or k.shape[1] == 0:
        raise ValueError("attention: D must be 16, 32, 64 or 128, and N at least 1.")


# %%
def attention(q, k, v):
    check_inputs(q, k, v)
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (n_heads, n_queries, d), out = q.shape, torch.empty_like(q)
    grid = (triton.cdiv(n_queries, 64), n_heads)
    args = (q, k, v, out, n_queries, k.shape[1], d**-0.5)
    attention_kernel[grid](*args, D=d, BLOCK_M=64, BLOCK_N=64)
    return out


# %% [markdown]
# `heads()` makes queries, keys and values of odd and unequal lengths. The shares are rounded to
# 16 bits before the second dot, so an absolute error is allowed, where values cancel.


# %%
def reference(q, k, v):
    return attention_in_steps(q, k, v, q.shape[-1] ** -0.5)


result = verify(attention, reference, cases=heads(), absolute=5e-3)
print(result)
assert result.right

# %% [markdown]
# Where it says that cases are left to the GPU: `tl.dot` of bfloat16 is wrong in Triton's
# interpreter, whatever the kernel. So in CPU mode this lesson looks at float16. Bad input gets its
# sentence:

# %% tags=["nbval-check-output"]
try:
    attention(torch.ones(2, 8, 16), torch.ones(2, 8, 16), torch.ones(2, 8, 16))
except ValueError as error:
    print(error)

# %% [markdown]
# Step through a small one: a tile of 16 queries, two tiles of keys. With the arrows beside "turn 1
# of the loop" you see `m`, `total` and `acc` change. Look at `rescale` in turn 1: **predict** for
# which rows it is exactly 1.

# %%
torch.manual_seed(0)
q, k, v = (torch.randn(1, size, 16, dtype=torch.float16, device=DEVICE) for size in (16, 30, 30))
small = (q, k, v, torch.empty_like(q), 16, 30, 0.25)
replay(attention_kernel, (1, 1), *small, D=16, BLOCK_M=16, BLOCK_N=16)

# %% [markdown]
# For those whose largest score was in the first tile. Now count a launch of 4 heads of 512.
# **Predict** how often k and v are asked for, and look at the times of the roofs at the end.

# %%
q, k, v, out = (torch.empty(4, 512, 64, dtype=torch.float16, device="meta") for _ in range(4))
args = (q, k, v, out, 512, 512, 0.125)
cost(attention_kernel, (8, 4), *args, D=64, BLOCK_M=64, BLOCK_N=64, target="H200")

# %% [markdown]
# Eight times: each of a head's eight programs reads all its keys and values. All but the first
# reading can come from the L2 cache, where a head's keys and values stay: 131 KB here. A tile of
# twice as many queries halves the readings.
#
# Nothing as large as the scores is stored. And there is a third roof: one exponential for each
# score takes nearly as long as the tensor cores at D = 64, and half as long at D = 128. So the
# arithmetic on scores counts, every instruction of it.

# %% [markdown]
# ## Powers of two, and dividing once
#
# The hardware has `exp2` alone, so `exp(x)` is `exp2(x * log2(e))`. The kernel multiplies every
# score by a scale in any case: fold `log2(e)` into it. The maximum is taken before the scaling;
# a row's maximum times the scale is the maximum of the scaled row, where the scale is positive.
# **Predict** how many instructions each way needs for 8 scores a thread.


# %%
@triton.jit
def powers_kernel(scores_ptr, out_ptr, scale, IN_TWOS: tl.constexpr):
    cols = tl.arange(0, 1024)
    scores = tl.load(scores_ptr + cols)
    if IN_TWOS:
        scale *= 1.4426950408889634  # log2(e)
        m = tl.max(scores, axis=0) * scale
        power = tl.exp2(scores * scale - m)
    else:
        m = tl.max(scores * scale, axis=0)
        power = tl.exp(scores * scale - m)
    tl.store(out_ptr + cols, power)


# %%
for in_twos, line in ((False, "power = tl.exp("), (True, "power = tl.exp2(")):
    s = lower(powers_kernel, "*fp32:16", "*fp32:16", 0.125, IN_TWOS=in_twos, target="sm_90")
    found = s.follow(line, "sass").stages["sass"]
    names = sorted({next(word for word in text.split() if word[0] != "@") for text in found})
    print(f"{len(found)} instructions: {', '.join(names)}")

# %% [markdown]
# Six for a score against two: a multiply-add, `FFMA`, and the power, `MUFU.EX2`. `tl.exp` also
# multiplies by log2(e), and tests and scales results below 2^-126 so that they keep their digits;
# a share that small is nothing beside one of 1. Everything else stays: `m` counts in powers of
# two now, and `rescale` is `exp2(old m - new m)`.
#
# The division waits for the end of the loop. For 4,096 keys in tiles of 64 it is done once and not
# 64 times: 4,096 divisions a program of 64 queries and D = 64, in place of 262,144.
#
# What else leaves the kernel is one number a query: the *log-sum-exp*, `ln(sum of exp(score))`, or
# `m + ln(total)` where `m` is the maximum of the scores themselves. The gradient needs it, and so
# does whoever merges results over parts of the keys.

# %% [markdown]
# ### Exercise 06.3 · Log-sum-exp (core)
#
# The log-sum-exp of each query's scores, in natural logarithms, as float32 `[n_queries]`; compute
# with `tl.exp2`. `scale2` is the scale times log2(e), so `scores` are in powers of two. In PyTorch:
# `torch.logsumexp(q.float() @ k.float().mT * scale, dim=-1)`.


# %%
# exercise 06.3
@triton.jit
def lse_kernel(
    q_ptr, k_ptr, lse_ptr, n_queries, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q_ptrs = q_ptr + rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptrs, mask=rows[:, None] < n_queries, other=0.0)
    scale2 = scale * 1.4426950408889634
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, n_keys, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k_ptrs = k_ptr + cols[:, None] * D + dims[None, :]
        k = tl.load(k_ptrs, mask=cols[:, None] < n_keys, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale2
        scores = tl.where(cols[None, :] < n_keys, scores, -float("inf"))
        # about 3 lines from here
        new_m = tl.maximum(m, tl.max(scores, axis=1))
        total = total * tl.exp2(m - new_m) + tl.sum(tl.exp2(scores - new_m[:, None]), axis=1)
        m = new_m
        # to here
    # about 2 lines from here
    lse = m * 0.6931471805599453 + tl.log(total)
    tl.store(lse_ptr + rows, lse, mask=rows < n_queries)
    # to here


# %%
check("06.3", lse_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `total` is the sum of `2 ** (score - m)`, so the sum of all powers is `2 ** m * total`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# What is `ln(2 ** m * total)`? And ln(2) is 0.6931471805599453.
#
# </details>

# %% [markdown]
# Attend to two halves of the keys, each by itself, and merge the results. This is lesson 04's merge
# once more: `exp(lse)` is the total of a half, and the softmax of the two log-sum-exps is the share
# of each. The course's own kernel gives them; its tensors are `[batch, heads, length, D]`.
# **Predict** whether the merged result is that of all keys.

# %%
q, k, v = (torch.randn(1, 2, size, 32, dtype=torch.float16, device=DEVICE) for size in (40, 100, 100))
halves = [(k[:, :, :64], v[:, :, :64]), (k[:, :, 64:], v[:, :, 64:])]
outs, lses = zip(*(flash_attention(q, *half, return_lse=True) for half in halves), strict=True)
shares = torch.softmax(torch.stack(lses), dim=0)  # [2, batch, heads, length]
merged = shares[0, ..., None] * outs[0] + shares[1, ..., None] * outs[1]
print(torch.allclose(merged, reference(q.float(), k.float(), v.float()), atol=2e-3))

# %% [markdown]
# So one query against very many keys, which has but one program a head, can be split over many
# programs. And the backward pass can have each share back from its score alone, as `exp(score -
# lse)`, with no second look for maximum and sum.

# %% [markdown]
# ## Causal
#
# A model that writes text must not look ahead: each query sees the keys up to its own. That is a
# *causal* mask, a staircase over the scores. Look at the three kinds of tile, and at the loop of
# program 2.

# %%
draw.attention(64, 64, block_m=16, block_n=8, causal=True, program=2)

# %% [markdown]
# Tiles above the staircase are *skipped*: their keys and values are not even read. Tiles below it
# are *whole*: every query sees every key, and they need no mask. Only the tiles that the staircase
# crosses are *masked*.

# %% [markdown]
# ### Exercise 06.4 · Tiles left (core)
#
# One head has 4,096 queries and 4,096 keys, under a causal mask, in tiles of 128 x 64. How many
# score tiles must be computed, whole or masked? (Without the mask it would be 2,048.)

# %%
# exercise 06.4
tiles = None
# about 1 line from here
tiles = sum(2 * (program + 1) for program in range(32))
# to here

# %%
check("06.4", tiles)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The last query of program 0 is number 127: which keys does it see, and how many tiles is that?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Each program has two tiles more than the one before.
#
# </details>

# %% [markdown]
# Where the lengths differ there are two ways to lay the staircase: from the top left corner, or so
# that it ends in the bottom right one. **Predict** which of them suits two new words after four
# that were there before.

# %% tags=["nbval-check-output"]
print("top left:", torch.ones(2, 6).tril().int().tolist())
print("bottom right:", torch.ones(2, 6).tril(6 - 2).int().tolist())

# %% [markdown]
# Bottom right: the last query sees all keys, so query m sees the keys n <= m + N - M. This course
# takes it so, always. PyTorch's `is_causal=True` means top left; `causal_lower_right` in
# `torch.nn.attention.bias` is the other.
#
# With more queries than keys, the first queries see none. Their `m` stays -inf, and -inf - -inf is
# NaN. As in lesson 04, subtract 0 where the maximum is -inf. Their result is then 0 / 0: divide by
# 1 where the total is 0. Their log-sum-exp is -inf, as it should be.

# %% [markdown]
# ### Exercise 06.5 · Causal (core)
#
# Give `loop_kernel` a causal mask, bottom right, for any two lengths; a query that sees no key
# gives zeros. Tiles that no query of a program sees must not be read: bytes are counted. In
# PyTorch: `scores.masked_fill(torch.ones(M, N).tril(N - M) == 0, -math.inf)` before the softmax.


# %%
# exercise 06.5
@triton.jit
def causal_loop_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_queries, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first_row = tl.program_id(axis=0) * BLOCK_M
    rows, dims = first_row + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q_offsets = rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < n_queries, other=0.0)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total, acc = tl.zeros([BLOCK_M], tl.float32), tl.zeros([BLOCK_M, D], tl.float32)
    end = n_keys
    # about 2 lines from here
    last_row = first_row + BLOCK_M - 1
    end = tl.minimum(last_row + n_keys - n_queries + 1, n_keys)
    # to here
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k_offsets = cols[:, None] * D + dims[None, :]
        k = tl.load(k_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        v = tl.load(v_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        # about 3 lines from here
        seen = cols[None, :] <= rows[:, None] + n_keys - n_queries
        scores = tl.where(seen, scores, -float("inf"))
        # to here
        new_m = tl.maximum(m, tl.max(scores, axis=1))
        base = new_m
        # about 1 line from here
        base = tl.where(new_m == -float("inf"), 0.0, new_m)
        # to here
        power, rescale = tl.exp(scores - base[:, None]), tl.exp(m - base)
        total = total * rescale + tl.sum(power, axis=1)
        acc = acc * rescale[:, None] + tl.dot(power.to(tl.float16), v)
        m = new_m
    # about 1 line from here
    total = tl.where(total == 0.0, 1.0, total)
    # to here
    tl.store(out_ptr + q_offsets, acc / total[:, None], mask=rows[:, None] < n_queries)


# %%
check("06.5", causal_loop_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The last query of the program sees most. `end` is one more than its last key, and no more than
# `n_keys`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Each row has a staircase step of its own: `cols[None, :]` against something of the shape
# `[BLOCK_M, 1]`.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# `total` is 0 for a row that saw no key: 0 / 1 is what it should give.
#
# </details>

# %% [markdown]
# Masking costs a comparison and a selection for each score, and few tiles need it. So make two
# loops: one over the whole tiles, and one over the masked ones, to which a tile past the end of the
# keys belongs too. Their body is a function of its own; `MASKED` is a constant, so each loop is
# compiled without what it does not need. It counts in powers of two.


# %%
@triton.jit
def attend(
    q, acc, m, total, k_ptr, v_ptr, first, end, n_keys, diagonal, scale2,
    D: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    for start in range(first, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        there = (cols < n_keys)[:, None] if MASKED else None
        other = 0.0 if MASKED else None
        k_offsets = cols[:, None] * D + tl.arange(0, D)[None, :]  # [BLOCK_N, D]
        k = tl.load(k_ptr + k_offsets, mask=there, other=other)
        scores = tl.dot(q, tl.trans(k))  # [BLOCK_M, BLOCK_N]
        if MASKED:
            scores = tl.where(cols[None, :] <= diagonal[:, None], scores, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, axis=1) * scale2)
        base = tl.where(new_m == -float("inf"), 0.0, new_m) if MASKED else new_m
        power = tl.exp2(scores * scale2 - base[:, None])
        rescale = tl.exp2(m - base)
        total = total * rescale + tl.sum(power, axis=1)
        v = tl.load(v_ptr + k_offsets, mask=there, other=other)
        acc = tl.dot(power.to(v.dtype), v, acc * rescale[:, None])
        m = new_m
    return acc, m, total


# %% [markdown]
# The kernel around it finds the two borders. `diagonal` is the last key that each query sees,
# without a causal mask the last there is.


# %%
@triton.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_queries, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    head, first_row = tl.program_id(axis=1).to(tl.int64), tl.program_id(axis=0) * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)
    q_offsets = (head * n_queries + rows)[:, None] * D + tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < n_queries, other=0.0)
    k_ptr += head * n_keys * D
    v_ptr += head * n_keys * D
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    whole, end = n_keys // BLOCK_N * BLOCK_N, n_keys
    diagonal = tl.full([BLOCK_M], n_keys - 1, tl.int32)
    if CAUSAL:
        diagonal = tl.minimum(rows + n_keys - n_queries, n_keys - 1)
        seen = first_row + n_keys - n_queries + 1  # by the first query; by the last BLOCK_M - 1 more
        whole = tl.maximum(seen, 0) // BLOCK_N * BLOCK_N
        end = tl.minimum(seen + BLOCK_M - 1, n_keys)
    scale2 = scale * 1.4426950408889634
    acc, m, total = attend(
        q, acc, m, total, k_ptr, v_ptr, 0, whole, n_keys, diagonal, scale2, D, BLOCK_N, MASKED=False
    )
    acc, m, total = attend(
        q, acc, m, total, k_ptr, v_ptr, whole, end, n_keys, diagonal, scale2, D, BLOCK_N, MASKED=True
    )
    total = tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + q_offsets, acc / total[:, None], mask=rows[:, None] < n_queries)


# %%
def split_attention(q, k, v, causal=True):
    check_inputs(q, k, v)
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (n_heads, n_queries, d), out = q.shape, torch.empty_like(q)
    args = (q, k, v, out, n_queries, k.shape[1], d**-0.5)
    grid = (triton.cdiv(n_queries, 64), n_heads)
    split_kernel[grid](*args, D=d, BLOCK_M=64, BLOCK_N=64, CAUSAL=causal)
    return out


# %%
def causal_reference(q, k, v):
    seen = torch.ones(q.shape[1], k.shape[1], device=q.device).tril(k.shape[1] - q.shape[1]) > 0
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, -float("inf"))
    return torch.softmax(scores, dim=-1).nan_to_num() @ v  # no key: NaN to 0


result = verify(split_attention, causal_reference, cases=heads(), absolute=5e-3)
print(result)
assert result.right


# %%
def full_attention(q, k, v):
    return split_attention(q, k, v, causal=False)


result = verify(full_attention, reference, cases=heads(), absolute=5e-3)
print(result)
assert result.right

# %% [markdown]
# The same kernel with and without the mask, on the 4 heads of 512 queries and keys from before, in
# tiles of 64 x 64. **Predict** the share of the operations that is left, to the percent.

# %%
tile = {"D": 64, "BLOCK_M": 64, "BLOCK_N": 64}
full, causal = (
    cost(split_kernel, (8, 4), *args, **tile, CAUSAL=flag, target="H200") for flag in (False, True)
)
for name, each in (("full", full), ("causal", causal)):
    print(f"{name:6} {each.dot['fp16']:11,} operations, {each.bytes_loaded:9,} bytes loaded")
print(f"{causal.dot['fp16'] / full.dot['fp16']:.2%} of the operations")

# %% [markdown]
# Of 8 x 8 tiles 36 are left, 56 percent; with more tiles it comes nearer to a half. The masked
# ones, 8 of the 36, do the work of whole tiles for half of the result. So larger tiles waste more
# here, and read less.
#
# A causal launch is uneven: its first programs have one tile of keys, the last all. In which order
# should they start? Let 132 multiprocessors run one program each, and take the next when done. No order
# can be done before turn 64: 16 heads of 528 turns over 132 multiprocessors. **Predict** how near to it
# one comes with the long programs first, head by head, and of all heads at once.


# %% tags=["nbval-check-output"]
def turns_until_done(programs, multiprocessors=132):
    busy = [0] * multiprocessors
    for turns in programs:  # the next one goes to whoever is free first
        busy[busy.index(min(busy))] += turns
    return max(busy)


up, down = range(1, 33), range(32, 0, -1)  # the turns of a head's 32 programs
print("short ones first, head by head:", turns_until_done([turns for _ in range(16) for turns in up]))
print("long ones first, head by head: ", turns_until_done([turns for _ in range(16) for turns in down]))
print("long ones first, of all heads: ", turns_until_done([turns for turns in down for _ in range(16)]))

# %% [markdown]
# Head by head, the last head's long programs begin late in either order, so little is gained. With all
# heads at once it is 65. The course's kernels go head by head, so that few heads' keys are in use at a
# time, and the L2 cache holds them; which is faster was not measured.

# %% [markdown]
# ## Heads and lengths
#
# Models keep heads in two ways: `[batch, heads, length, D]`, and `[batch, length, heads, D]`, as
# the layer before gives them. A kernel that takes three strides a tensor, from batch to batch,
# head to head and row to row, reads both as they lie. **Predict** the strides of `x` as the kernel
# gets them in the second way.

# %% tags=["nbval-check-output"]
x = torch.randn(2, 100, 6, 32, dtype=torch.float16, device=DEVICE)  # [batch, length, heads, D]
print("from batch, head and row to the next:", x.transpose(1, 2).stride()[:3])
same = flash_attention(x, x, x, causal=True, layout="bmhd").transpose(1, 2)
moved = flash_attention(*[x.transpose(1, 2).contiguous()] * 3, causal=True)
print("equal:", torch.equal(same, moved))

# %% [markdown]
# The rows of a head are 192 elements apart, and no copy is made.
#
# Models also share keys: of 32 heads of queries, 4 in a row may use one head of keys and values.
# Then k and v are a quarter as large. A model that writes word by word has one query at a time, and
# then reads a quarter as much. These are *grouped heads*.

# %% [markdown]
# ### Exercise 06.6 · Grouped heads (core)
#
# `q` is `[n_heads, M, D]`, `k` and `v` are `[n_key_heads, N, D]`, all float16, and each key head
# serves `n_heads / n_key_heads` query heads in a row. The rows of a head lie one after the other;
# heads are `stride_qh`, `stride_kh` and `stride_vh` elements apart, which may differ. The exercise
# launches a program a query head; M and N fit a tile. In PyTorch: first repeat k and v by
# `repeat_interleave` along the heads.


# %%
# exercise 06.6
@triton.jit
def grouped_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_heads, n_key_heads, n_queries, n_keys, scale,
    stride_qh, stride_kh, stride_vh,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(axis=0)
    rows, cols, dims = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, D)
    q_offsets = rows[:, None] * D + dims[None, :]
    k_offsets = cols[:, None] * D + dims[None, :]
    # about 4 lines from here
    key_head = head // (n_heads // n_key_heads)
    q_ptr += head * stride_qh
    k_ptr += key_head * stride_kh
    v_ptr += key_head * stride_vh
    # to here
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < n_queries, other=0.0)
    k = tl.load(k_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
    v = tl.load(v_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
    scores = tl.where(cols[None, :] < n_keys, tl.dot(q, tl.trans(k)) * scale, -float("inf"))
    power = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    out = tl.dot(power.to(tl.float16), v) / tl.sum(power, axis=1)[:, None]
    out_ptrs = out_ptr + head * n_queries * D + q_offsets
    tl.store(out_ptrs, out, mask=rows[:, None] < n_queries)


# %%
check("06.6", grouped_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# With 6 heads and 2 key heads, heads 0, 1 and 2 use key head 0, and 3, 4 and 5 use key head 1.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `k_ptr += …` moves the start of a tensor; k and v need not have the same stride.
#
# </details>

# %% [markdown]
# ## Choosing tiles
#
# Large tiles of queries read the keys seldom. What bounds them is room: the accumulator and the
# scores are float32 in registers, of which a thread has at most 255; q and the tiles of k and v
# under way lie in shared memory, at most 227 KB a program on an H200. **Predict** which of these
# five spills, at D = 128, and what a step of pipeline depth costs.


# %%
def try_tile(target, m, n, warps, stages):
    tile = {"D": 128, "BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": stages}
    args = ["*fp16:16"] * 4 + [4096, 4096, 128**-0.5]
    made = lower(split_kernel, *args, **tile, CAUSAL=False, target=target)
    used, what = made.resources, f"{m:3} x {n:3}, {warps} warps, depth {stages}"
    kb = used.shared_bytes // 1024
    print(f"{what}: {used.registers} registers, {used.spill_bytes:3} bytes spilled, {kb:3} KB shared")
    return made


# %%
for tile in [(64, 64, 4, 2), (128, 64, 4, 2), (128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 3)]:
    try_tile("sm_90", *tile)

# %% [markdown]
# 128 x 64 spills with 4 warps: the accumulator takes 128 registers of each thread and the scores 64,
# and everything else has to live in what is left. 8 warps halve both. In shared memory 128 queries
# take 32 KB, and each step of depth the k and v of one more turn: 32 KB with 64 keys, 64 KB with
# 128. The last one is as large as an H200 allows, in registers and in shared memory.

# %% [markdown]
# ### Exercise 06.7 · Registers (core)
#
# In tiles of 128 x 128 with D = 128 and 8 warps: how many registers of a thread do the accumulator
# and one tile of scores take together, in float32?

# %%
# exercise 06.7
registers = None
# about 1 line from here
registers = (128 * 128 + 128 * 128) / (8 * 32)
# to here

# %%
check("06.7", registers)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many numbers has each of the two, and how many threads has a program with 8 warps?
#
# </details>

# %% [markdown]
# An RTX 4090 (sm_89) gives a program 99 KB. A depth there takes a buffer less, as in lesson 05. Its
# tensor cores take operands from registers alone: q is read from shared memory again in each turn,
# and a thread needs more registers. **Predict** which of the three fits and does not spill.

# %%
for tile in [(128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2)]:
    try_tile("sm_89", *tile)

# %% [markdown]
# The first two. Which of those that fit is fastest nobody computes: one measures, as in lesson 04.
# The table in [kernels/flash_attention_settings.py](../kernels/flash_attention_settings.py) has a line for each amount
# of shared memory, with an entry for each head dimension.
#
# Depth 3, as the compiler has laid it out. Look at what happens within one step.

# %%
draw.pipeline(try_tile("sm_90", 128, 64, 8, 3))

# %% [markdown]
# Two turns of k and v are on their way while the dots work on a third. But both dots of a turn stand
# in the same step, with the softmax between them: the second dot waits for the exponentials, and
# those wait for the first. A warp's tensor core idles meanwhile, unless other warps have a dot
# ready.
#
# *Warp specialisation* parts the work by kind: some warps only fetch tiles, others only start dots,
# others only compute on scores, and they hand tiles to one another. Here is the loop with
# descriptors, made in the kernel this time, compiled for a B200 with `warp_specialize=True`.
# **Predict** how many warps it takes to fetch.


# %%
@triton.jit
def specialised_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_keys, scale2,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    q_offsets = rows[:, None] * D + tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + q_offsets)
    keys = tl.make_tensor_descriptor(k_ptr, [n_keys, D], [D, 1], [BLOCK_N, D])
    values = tl.make_tensor_descriptor(v_ptr, [n_keys, D], [D, 1], [BLOCK_N, D])
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in tl.range(0, n_keys, BLOCK_N, warp_specialize=True):
        scores = tl.dot(q, keys.load([start, 0]).T)
        new_m = tl.maximum(m, tl.max(scores, axis=1) * scale2)
        power = tl.exp2(scores * scale2 - new_m[:, None])
        rescale = tl.exp2(m - new_m)
        total = total * rescale + tl.sum(power, axis=1)
        acc = tl.dot(power.to(tl.float16), values.load([start, 0]), acc * rescale[:, None])
        m = new_m
    tl.store(out_ptr + q_offsets, acc / total[:, None])


# %%
args, tile = ["*fp16:16"] * 4 + [4096, 0.18], {"D": 64, "BLOCK_M": 128, "BLOCK_N": 64}
s = lower(specialised_kernel, *args, **tile, num_warps=4, target="sm_100")
work = {"tma_copy": "fetch", "gen5_mma ": "start dots", "reduce": "fold rows"}
work |= {"exp2 %power": "take powers", "mulf %acc": "rescale the accumulator"}
first, *others = s.ttgir.split("num_warps(")  # a group of warps each
for group in ("4" + first, *others):
    print(group[0], "warps", ", ".join(name for mark, name in work.items() if mark in group))

# %% [markdown]
# Four warps fold and take powers, four rescale the accumulator, one starts the dots, and two fetch.
# While the powers of one turn are computed, the dots of another run.
#
# An H200 starts a dot with four warps, so Triton splits the loop there in another way, and does so
# only where q, k and v all come by descriptors (with q as above it does not compile): one group of
# warps fetches, and two more own half of the tile's rows each. One can be at its powers while the
# other has the tensor cores. That is `flash_attention_v5`. (*FlashAttention-3* does the same by
# hand, in CUDA.)

# %% [markdown]
# ## Against the best
#
# PyTorch has four kinds of attention. `math` writes the scores to memory, and computes in float32;
# `efficient` and `flash` are flash attention in CUDA, `flash` its second generation, written for the
# A100; cuDNN's is NVIDIA's own, for each GPU. This was recorded on an H200 with PyTorch 2.11 and its
# cuDNN, older than the ones you have installed: 16,384 queries in all, 16 heads, D = 128, float16. The
# operations are counted as 4 * M * N * D per head for all of them.
# **Predict** how far `math` is behind, and which of the others the course's kernel passes.

# %%
speeds = recorded("flash_attention_128")
peers = ["torch, cuDNN", "torch, flash", "torch, efficient", "torch, math"]
draw.speeds(speeds, series=["flash_attention", *peers])

# %% [markdown]
# `math` is more than twenty times slower, and not ten: in float32 its scores are twice as large,
# and its products use no tensor cores. Its speed hardly changes with the length, since all that it
# does grows with N x N. The course's kernel is 1.5 to 1.6 times as fast as `flash`, and has between
# 0.86 and 0.91 of cuDNN's speed. Now its own versions, under a causal mask; the operations counted are half as
# many. `flash_attention` is `v5` here. **Predict** where `v1`, which leaves out no tile, ends up.

# %%
versions = [f"flash_attention_v{version}" for version in (1, 2, 3, 4)]
draw.speeds(recorded("flash_attention_128_causal"), series=["flash_attention", *versions])

# %% [markdown]
# `v1` is your `attention_kernel` with a mask: 150 TFLOP/s at 16,384, where it makes 310 without one. `v2` has
# powers of two, skips what is hidden, and starts long programs first: 1.9 to 2.7 times as fast.
# `v3` has larger tiles and more depth; at 512 its tiles cost more than they gain. `v4` reads k and
# v by descriptors. In `v5` one group of warps fetches, two have half the rows each, and programs
# are persistent, so that the next tile's first keys come while this one ends. That counts most
# where loops are short: a third at 1,024, next to nothing at 16,384.
#
# And the other head dimensions? At D = 64 `flash_attention` is `v4`. Here is its share of cuDNN's
# speed.

# %%
for head_dim in (64, 128, 256):
    found = recorded(f"flash_attention_{head_dim}")
    times = [
        (found.at("torch, cuDNN", n).ms, found.at("flash_attention", n).ms) for n in (1024, 4096, 16384)
    ]
    print(f"D = {head_dim:3}:", ", ".join(f"{theirs / ours:.2f}" for theirs, ours in times))

# %% [markdown]
# Over all lengths from 1,024 on, with and without the mask, it is 0.96, 0.89 and 0.87 on average.
# What is left is in the loop. Within a group of warps a dot, the powers, and the next dot wait for
# one another: Triton waits for both dots before the powers, and only the other group fills the gap.
# FlashAttention-3 leaves the dot of one turn running under the powers of the next, in the same
# warps. `tl` has no words for that; Gluon, Triton's language one level below, has.
#
# One more cost is not in these plots, which show the GPU's time: to launch `v5`, Python takes the
# CPU 0.1 to 0.2 ms, cuDNN's call less than 0.1. For short lengths that is more than the GPU needs. A
# CUDA graph or an exported kernel spares it.

# %% [markdown]
# ## A sliding window
#
# Where texts are long, some layers let each query see only the last few keys up to its own, a
# *window*. The work then grows with N and no longer with N x N, if the tiles outside the window are
# skipped on both sides. Look at program 5.

# %%
draw.attention(64, 64, block_m=8, block_n=8, causal=True, window=20, program=5)

# %% [markdown]
# ### Exercise 06.8 · A sliding window (stretch)
#
# Query m sees the keys n with m + N - M - `window` < n <= m + N - M. Find the loop's two ends and
# the mask. Tiles that no query of the program sees must not be read: bytes are counted. In PyTorch:
# `seen = ones.tril(N - M) - ones.tril(N - M - window)`, with `ones = torch.ones(M, N)`.


# %%
# exercise 06.8
@triton.jit
def window_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_queries, n_keys, window, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first_row = tl.program_id(axis=0) * BLOCK_M
    rows, dims = first_row + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q_offsets = rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < n_queries, other=0.0)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    first, end = 0, n_keys
    # about 3 lines from here
    sees = first_row + n_keys - n_queries  # the last key that the first query sees
    first = tl.maximum(sees - window + 1, 0) // BLOCK_N * BLOCK_N
    end = tl.minimum(sees + BLOCK_M, n_keys)
    # to here
    for start in range(first, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k_offsets = cols[:, None] * D + dims[None, :]
        k = tl.load(k_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        v = tl.load(v_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        # about 3 lines from here
        last = rows[:, None] + n_keys - n_queries
        seen = (cols[None, :] <= last) & (cols[None, :] > last - window)
        scores = tl.where(seen, scores, -float("inf"))
        # to here
        new_m = tl.maximum(m, tl.max(scores, axis=1))
        base = tl.where(new_m == -float("inf"), 0.0, new_m)
        power, rescale = tl.exp(scores - base[:, None]), tl.exp(m - base)
        total = total * rescale + tl.sum(power, axis=1)
        acc = acc * rescale[:, None] + tl.dot(power.to(tl.float16), v)
        m = new_m
    total = tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + q_offsets, acc / total[:, None], mask=rows[:, None] < n_queries)


# %%
check("06.8", window_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The first query of the program sees the earliest key, the last query the latest.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Begin at a multiple of `BLOCK_N`, and not below 0.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# In a masked tile, a row may see no key at all: what is given handles that.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Step through `split_kernel` with 40 queries and 30 keys, in tiles of 16 x 16. For which rows does
#   `m` stay -inf, and what keeps NaN out of their results?
# - Give `attention_kernel` tiles of 16 x 64 and of 128 x 64. What does `cost` say of the bytes
#   loaded, and of the registers?
# - Add a bias to the scores that falls with the distance between query and key, and verify it.
#   Where must it be added, before the scale or after, and in which units?
# - One query, 65,536 keys: split the keys over 16 programs, store each one's log-sum-exp, and merge
#   them in a second kernel.
#
# ## In practice
#
# [kernels/flash_attention.py](../kernels/flash_attention.py) is the finished operation: any lengths,
# head dimensions from 16 to 256, batches, grouped heads, causal or not, in five versions. The last two
# need a GPU that reads descriptors in hardware, and lengths or strides that suit them.
#
# To train, a model needs the backward pass as well. It reads the log-sum-exp, computes each score a
# second time and writes no N x N matrix either: five products a tile, where four would do.
#
# ## Further reading
#
# - T. Dao and others: *FlashAttention*, arXiv:2205.14135; *FlashAttention-2*, arXiv:2307.08691
# - J. Shah and others: *FlashAttention-3*, arXiv:2407.08608: warp specialisation on an H100
# - M. Milakov and N. Gimelshein: *Online normalizer calculation for softmax*, arXiv:1805.02867
# - M. Rabe and C. Staats: *Self-attention Does Not Need O(n^2) Memory*, arXiv:2112.05682
