# %% [markdown]
# # 06 · Flash attention
#
# Attention is the operation that modern models spend much of their time in, and the four lines of
# PyTorch that define it are slow. They write a matrix to memory that is many times as large as
# everything else, read it back, and do so three times. The way out is an algorithm that never
# writes that matrix: flash attention. It is also the best exercise there is, since it needs almost
# all that you have learned: dot products on tensor cores, the online normalizer, masks, registers,
# pipelines.
#
# It is a long lesson, in four sittings, and "Read the finished kernel" is the hardest section of
# the course: there you read the course's finished kernels, line by line, as they stand.
#
# **By the end you can**
#
# - count what attention costs, and say which roof binds it,
# - write attention that stores no scores: any lengths, with a causal mask or without,
# - fold the scale into exp2, return the log-sum-exp, and merge results over parts of the keys,
# - bound tile sizes by registers, shared memory and the L2 cache,
# - explain every line of a finished attention kernel, with warps that have different jobs.
#
# **You need** lessons 04 and 05.
#
# | section | about minutes |
# |---|---|
# | What attention costs | 4 |
# | One tile of keys | 20 |
# | The loop | 30 |
# | Powers of two, and dividing once | 30 |
# | Causal | 40 |
# | Heads and lengths | 20 |
# | Choosing tiles | 15 |
# | Warps with different jobs | 10 |
# | Read the finished kernel | 25 |
# | Against the best | 7 |
# | Where attention stands in 2026 | 3 |
# | Three variations | 2 |
# | Stretch exercises | 40 |
# | **All, an estimate** | 246 |

# %% [markdown]
# **Two questions from lessons 04 and 05.** Answer them before you unfold the answers.
#
# 1. You have gone through the first half of a row: its maximum is 2, and its sum of `exp(x - 2)`
#    is 7. The second half begins with an element 5. By what do you multiply the 7, and why?
#
# <details>
# <summary>Answer</summary>
#
# By exp(2 - 5), about 0.05. Each term of the sum is exp(x - 2), and it must become exp(x - 5),
# which is exp(x - 2) * exp(2 - 5). The factor is the same for all terms, so one multiplication
# does it.
#
# </details>
#
# 2. What does `tl.dot` ask of its two operands, and in what does it add up?
#
# <details>
# <summary>Answer</summary>
#
# They are blocks of the same dtype, `[M, K]` and `[K, N]`, with at least 16 along K. Float16
# operands are multiplied and added up in float32, in the accumulator.
#
# </details>

# %%
from course import DEVICE, check, cost, diagnose, draw, heads, hint, lower, recorded, replay, verify
from kernels.attention import flash_attention
from kernels.attention.tl import flash_attention_kernel_v1
from kernels.attention.tl_hopper import flash_attention_kernel_v5
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## What attention costs
#
# *Routes: all*
#
# Attention compares each of M **queries** with each of N **keys**. All of them are rows of D
# numbers. The dot product of a query and a key, times a number called the **scale**, is a
# **score**. The scale is usually 1 / sqrt(D), which keeps the scores from growing with D. Softmax
# turns the scores of one query into shares that sum to 1, and the query's result is the sum of N
# further rows, the **values**, weighted by those shares. In PyTorch it is four lines.
#
# **Predict:** how often is a matrix as large as the M x N scores written or read here?
#
# <details>
# <summary>Answer</summary>
#
# Six times. The product, the scaling and softmax each write one, and the scaling, softmax and the
# second product each read one.
#
# </details>


# %%
def attention_in_steps(q, k, v, scale):
    scores = q @ k.mT  # reads q and k, writes M x N
    scores = scores * scale  # reads them, writes as much
    shares = torch.softmax(scores, dim=-1)  # reads, writes
    return shares @ v  # reads


# %% [markdown]
# Is that much? A **head** is one such attention, and a model runs many of them side by side; D is
# called the **head dimension**. Take 32 heads of 4,096 queries and 4,096 keys with D = 64, in
# float16, on a GPU with the published peaks of an H200: 4.8 TB/s of memory and 989 TFLOP/s of
# tensor cores. Divide the bytes by the one and the operations by the other.
#
# **Predict:** which of the two takes longer, memory or tensor cores?
#
# <details>
# <summary>Answer</summary>
#
# Memory, by far. Per score, six times two bytes move: 12. The two products take 4 * 64 = 256
# operations per score. At the peaks that is 2.5 ps of memory and 0.26 ps of tensor cores.
#
# </details>

# %% tags=["nbval-check-output"]
n_heads, n, d = 32, 4096, 64
score_bytes = 2 * n_heads * n * n
other_bytes = 4 * 2 * n_heads * n * d  # q, k, v and the result
operations = 2 * 2 * n_heads * n * n * d  # two products, a multiplication and an addition each
print(f"tensor cores: {operations / 1e9:.0f} * 10^9 operations, {operations / 989e6:.0f} us")
for name, moved in (("in steps", 6 * score_bytes + other_bytes), ("without scores", other_bytes)):
    took = f"{moved / 1e6:5,.0f} MB, {moved / 4.8e6:5,.0f} us"
    print(f"{name:14}: {took}, {operations / moved:5,.0f} operations per byte")

# %% [markdown]
# Done in steps, moving the bytes takes ten times as long as the arithmetic. Now suppose that only
# q, k, v and the result moved. Then there would be 2,048 operations for each byte, ten times what
# the two peaks balance at, and the tensor cores would bind. The arithmetic is the same either way.
# **Flash attention** is attention whose scores never leave the multiprocessor.

# %% [markdown]
# ## One tile of keys
#
# *Routes: all*
#
# Where do we begin? With what fits into one program: one tile of queries, `[BLOCK_M, D]`, and one
# tile of keys and values, `[BLOCK_N, D]`. Then `tl.dot(q, tl.trans(k))`, where `tl.trans` exchanges
# the two axes, gives all their scores at once, `[BLOCK_M, BLOCK_N]`. Softmax goes along `axis=1`,
# so its maximum and its sum are one number per query, and a second `tl.dot` weighs the values.
#
# There is one trap. The number of keys need not fill the tile, so keys past the last one are
# masked and loaded as 0. In lesson 05 zeros were harmless: they add nothing to a product.
#
# **Predict:** three keys have the score 1. A fourth place holds a key of zeros. What share does
# softmax give it?
#
# <details>
# <summary>Answer</summary>
#
# Its score is 0, and exp(0) is 1. The others have exp(1), about 2.72. So it gets
# 1 / (3 * 2.72 + 1), about 0.11.
#
# </details>

# %% tags=["nbval-check-output"]
scores = torch.tensor([1.0, 1.0, 1.0, 0.0])  # a key of zeros has the score 0
print([round(share, 3) for share in torch.softmax(scores, dim=0).tolist()])

# %% [markdown]
# A key that is not there takes 11 percent. What is neutral for a sum of products is not neutral
# for a softmax: the score of a missing key must be -inf, because exp(-inf) is 0. A large negative
# number such as -10,000 looks as if it would do, and it fails as soon as the real scores lie
# below it. Then the missing key has the largest score of all.

# %% [markdown]
# ### Exercise 06.1 · One tile (core)
#
# One program has `BLOCK_M` queries, all of them there, and `n_keys` keys and values, at most
# `BLOCK_N`. Compute its result and store it to `out_ptr`. All tensors are float16 and contiguous.
# In PyTorch: `attention_in_steps(q, k, v, scale)`.
#
# Give both dots operands in float16. For the exponentials that does no harm: after the maximum is
# subtracted they lie between 0 and 1, and each is rounded once. Their sum must stay in float32.


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
# `tl.dot` wants both sides in one dtype: `power.to(tl.float16)`.
#
# </details>

# %% [markdown]
# ## The loop
#
# *Routes: all*
#
# With more keys than a tile holds, a program keeps its tile of queries, and the tiles of keys and
# values pass by in a loop. Look at program 2 in the picture: its row of score tiles exists one
# tile at a time, in the order of the numbers, and is never stored.

# %%
draw.attention(64, 128, block_m=16, block_n=16, program=2)

# %% [markdown]
# But softmax needs the maximum of the whole row before it can begin. You solved this in lesson
# 04: keep the maximum `m` so far and the `total` of exp(score - m), and correct the total when a
# larger maximum comes. Attention adds a third thing to carry along, the accumulator `acc`: the
# sum of exp(score - m) * v over the keys so far, D numbers per query.
#
# What must happen to `acc` when the maximum changes? Write the sum out. Over the keys n that we
# have seen,
#
# ```
# acc(old m)  =  sum of exp(score_n - old m) * v_n
#
# exp(score_n - new m)  =  exp(score_n - old m) * exp(old m - new m)
#
# acc(new m)  =  sum of exp(score_n - new m) * v_n
#             =  exp(old m - new m) * sum of exp(score_n - old m) * v_n
#             =  exp(old m - new m) * acc(old m)
# ```
#
# The factor does not depend on n, so it can be taken out of the sum. `total` is the same sum with 1
# in place of v_n, so it gets the same factor. Call it `rescale`. The division comes after the loop:
# softmax divides each exponential by the total, and it makes no difference whether one divides the
# terms or their sum.
#
# Here is one query with two tiles of two keys, whose values are single numbers.

# %%
draw.rescale([2, 1, 5, 3], [[10], [20], [30], [40]], block=2, alpha="rescale")

# %% [markdown]
# The classic mistake is to rescale the total and forget the accumulator.
#
# **Predict:** how would you notice, from the result alone?
#
# <details>
# <summary>Answer</summary>
#
# The first tile would count exp(3), about twenty times as much as it should, while the total is
# right. A weighted mean of values between 10 and 40 would come out above 40.
#
# </details>

# %% tags=["nbval-check-output"]
scores, v = torch.tensor([2.0, 1.0, 5.0, 3.0]), torch.tensor([10.0, 20.0, 30.0, 40.0])
first, second = torch.exp(scores[:2] - 2), torch.exp(scores[2:] - 5)  # m is 2, and then 5
factor = torch.exp(torch.tensor(2.0 - 5.0))
total = first.sum() * factor + second.sum()
before, added = (first * v[:2]).sum(), (second * v[2:]).sum()
print(f"softmax at once:       {torch.softmax(scores, dim=0) @ v:.2f}")
print(f"acc left as it was:    {(before + added) / total:.2f}")
print(f"acc rescaled as total: {(before * factor + added) / total:.2f}")

# %% [markdown]
# ### Exercise 06.2 · The loop (core)
#
# One head: `q` is `[n_queries, D]`, `k` and `v` are `[n_keys, D]`, all float16 and contiguous.
# The exercise launches one program for each `BLOCK_M` queries. In PyTorch:
# `attention_in_steps(q, k, v, scale)`.


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
# You have written the core of flash attention. The papers, and the course's own finished kernels,
# call the same things by shorter names. Keep this table at hand for the rest of the lesson; its
# last row comes in the next sitting.
#
# | in this lesson | in `kernels/` and the papers | what it is |
# |---|---|---|
# | `scores` | S | queries times keys; scaled so far and in the papers; in `kernels/` the scale waits for the exponent (next section) |
# | `power` | P; in the papers P with a tilde | exp(S - m), not yet divided |
# | shares | no name; in the papers P | softmax(S), also called attention probabilities |
# | `m` | m | the largest score of each row so far |
# | `total` | l | the sum of each row's exponentials so far |
# | `acc` | O | the output so far, not yet divided |
# | `rescale` | alpha; in the papers exp(m_old - m_new) | what makes `total` and `acc` smaller |
# | log-sum-exp | lse; in the papers L | m + ln(l), one number per query |
#
# The whole kernel adds the heads: one for each program along the second axis of the grid. Their
# number times the length times D may pass 2^31, so `head` is made 64 bits wide, as the row was in
# lesson 04. The accumulator goes into the second dot as its third argument, as in lesson 05.


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
def attention(q, k, v):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (n_heads, n_queries, d), out = q.shape, torch.empty_like(q)
    grid = (triton.cdiv(n_queries, 64), n_heads)
    args = (q, k, v, out, n_queries, k.shape[1], d**-0.5)
    attention_kernel[grid](*args, D=d, BLOCK_M=64, BLOCK_N=64)
    return out


# %% [markdown]
# Is it right? `heads()` makes cases with odd and unequal lengths. The exponentials are rounded to
# 16 bits before the second dot, and values of both signs cancel in it, so an absolute error is
# allowed.


# %%
def reference(q, k, v):
    return attention_in_steps(q, k, v, q.shape[-1] ** -0.5)


result = verify(attention, reference, cases=heads(), absolute=5e-3)
print(result)
assert result.right

# %% [markdown]
# Step through a small launch: a tile of 16 queries and two tiles of keys. The arrows beside the
# loop let you go from one iteration to the next and watch `m`, `total` and `acc` change. Look at
# `rescale` in the second iteration: for some rows it is exactly 1. Which ones are they?
#
# <details>
# <summary>Answer</summary>
#
# Those whose largest score was in the first tile. Their maximum stays, and exp(0) is 1.
#
# </details>

# %%
torch.manual_seed(0)
q, k, v = (torch.randn(1, size, 16, dtype=torch.float16, device=DEVICE) for size in (16, 30, 30))
small = (q, k, v, torch.empty_like(q), 16, 30, 0.25)
replay(attention_kernel, (1, 1), *small, D=16, BLOCK_M=16, BLOCK_N=16)

# %% [markdown]
# What does a launch cost now? `cost` counts one with 4 heads of 512 queries and 512 keys.
#
# **Predict:** in tiles of 64 queries, how often is each key asked for? How large would the scores
# be in memory, and where do they appear in what is stored?
#
# <details>
# <summary>Answer</summary>
#
# A head has 512 / 64 = 8 programs, and each reads all its keys: eight times. The scores would be
# 4 * 512 * 512 float16, 2 MB. They are not stored at all: 262,144 bytes are, which is the result.
#
# </details>

# %%
q, k, v, out = (torch.empty(4, 512, 64, dtype=torch.float16, device="meta") for _ in range(4))
args = (q, k, v, out, 512, 512, 0.125)
cost(attention_kernel, (8, 4), *args, D=64, BLOCK_M=64, BLOCK_N=64, target="H200")

# %% [markdown]
# Eight readings of k and v sound like a lot, but only the first must come from device memory. A
# head's keys and values are 131 KB here and stay in the L2 cache for the other seven. So memory no
# longer binds. The last line says what does: the L2 cache itself has a roof. You will move it out
# of the way with larger tiles, in sitting 3.
#
# Look also at the special functions in that line: one exponential per score. At D = 64 they take
# nearly as long as the tensor cores, and at D = 128 half as long. So what happens to a score
# between the two dots is not a detail, and it is the subject of the next section.

# %% [markdown]
# ## Sitting 2
#
# A good place to stop, or to start again (in a new session, run the cells with `import`,
# `attention_in_steps`, `attention_kernel`, `attention` and `reference` first). So far you can
#
# - say why attention in steps is bound by memory, and flash attention is not,
# - give a missing key the score -inf,
# - carry `m`, `total` and `acc` through a loop over tiles of keys, and rescale both when the
#   maximum changes.
#
# What follows makes this faster: fewer instructions per score, and fewer tiles.

# %% [markdown]
# ## Powers of two, and dividing once
#
# *Routes: all*
#
# What does `tl.exp` cost? The hardware has no instruction for it. It has one for 2^x, and
# exp(x) = 2^(x * log2(e)), so `tl.exp` multiplies first. But the kernel multiplies every score by
# the scale in any case, just before. Two multiplications by constants can be one: let `scale2` be
# scale * log2(e), and take `tl.exp2`.
#
# One more multiplication can go. The maximum may be taken of the scores as they come from the dot
# and scaled afterwards, one multiplication per row in place of one per score: as long as the
# scale is positive, the largest score is still the largest after scaling. What is left for each
# score is `scores * scale2 - m`, a multiplication and a subtraction that the GPU does in one
# instruction, and the power.


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
    lines = s.follow(line, "sass").stages["sass"]
    names = sorted({next(word for word in text.split() if word[0] != "@") for text in lines})
    print(f"8 scores per thread, {len(lines)} instructions: {', '.join(names)}")

# %% [markdown]
# Six instructions per score against two: a multiply-add, `FFMA`, and the power, `MUFU.EX2`. (A
# multiply-add computes a * b + c at once.) `tl.exp` also tests each exponent. Where the result
# would lie below 2^-126, it takes two more multiplications, so that the result keeps its digits. We
# do not need that: the largest power of a row is 1, and beside it one so small is nothing.

# %% [markdown]
# ### Exercise 06.9 · The scale in the exponent (core)
#
# Your loop from 06.2 once more, in powers of two. `scores` comes unscaled from the dot, and
# `scale2` is the scale times log2(e). Let `m` count in powers of two: it is the maximum of the
# scores times `scale2`. Multiply each score only once, and only after the maximum has been taken.
# (The number is out of order; the place is right.) In PyTorch: `attention_in_steps(q, k, v,
# scale)`.


# %%
# exercise 06.9
@triton.jit
def twos_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_queries, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q_offsets = rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < n_queries, other=0.0)
    scale2 = scale * 1.4426950408889634
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, n_keys, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k_offsets = cols[:, None] * D + dims[None, :]
        k = tl.load(k_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        v = tl.load(v_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        scores = tl.dot(q, tl.trans(k))
        scores = tl.where(cols[None, :] < n_keys, scores, -float("inf"))
        # about 3 lines from here
        new_m = tl.maximum(m, tl.max(scores, axis=1) * scale2)
        power = tl.exp2(scores * scale2 - new_m[:, None])
        rescale = tl.exp2(m - new_m)
        # to here
        total = total * rescale + tl.sum(power, axis=1)
        acc = tl.dot(power.to(tl.float16), v, acc * rescale[:, None])
        m = new_m
    tl.store(out_ptr + q_offsets, acc / total[:, None], mask=rows[:, None] < n_queries)


# %%
check("06.9", twos_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `tl.max(scores, axis=1)` is one number per row. Multiply that, and not the tile.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `m` and `new_m` are in powers of two already, so `rescale` needs no factor.
#
# </details>

# %% [markdown]
# The other saving you have made already: the division waits until after the loop. For 4,096 keys
# in tiles of 64 it is done once and not 64 times. With 64 queries and D = 64 those are 4,096
# divisions per program in place of 262,144.
#
# What else should leave the kernel? One number per query: the **log-sum-exp**, the logarithm of
# the sum of exp(score) over all keys. With it anybody can say what each share was:
#
# ```
# share_n  =  exp(score_n) / (sum of exp(score))  =  exp(score_n - log-sum-exp)
# ```
#
# The backward pass of training needs that, and you will use it to merge results over parts of the
# keys. From what the loop carries, the sum of exp(score) is exp(m) * total, so the log-sum-exp is
# m + ln(total), if `m` is the maximum of the scores themselves.

# %% [markdown]
# ### Exercise 06.3 · Log-sum-exp (core)
#
# Store the log-sum-exp of each query's scores, in natural logarithms, as float32 `[n_queries]`;
# compute with `tl.exp2`. To keep this loop short, the scores are scaled right after the dot.
# `scale2` is the scale times log2(e), so `scores` count in powers of two, and so does `m`. In
# PyTorch: `torch.logsumexp(q.float() @ k.float().mT * scale, dim=-1)`.


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
# Now attend to two parts of the keys, each by itself, and merge. `exp(lse)` is the sum of one
# half's exponentials, so a half's part of the whole is its exp(lse) over the sum of both: the
# softmax of the two log-sum-exps. The course's finished kernel returns them; its tensors are
# `[batch, heads, length, D]`.

# %% tags=["nbval-check-output"]
q, k, v = (torch.randn(1, 2, size, 32, dtype=torch.float16, device=DEVICE) for size in (40, 100, 100))
halves = [(k[:, :, :64], v[:, :, :64]), (k[:, :, 64:], v[:, :, 64:])]
outs, lses = zip(*(flash_attention(q, *half, return_lse=True) for half in halves), strict=True)
parts = torch.softmax(torch.stack(lses), dim=0)  # [2, batch, heads, length]
merged = parts[0, ..., None] * outs[0] + parts[1, ..., None] * outs[1]
print(torch.allclose(merged, reference(q.float(), k.float(), v.float()), atol=2e-3))

# %% [markdown]
# The merged result is that of all keys. What is this good for? When a model writes text word by
# word, there is one query and very many keys. One program per head would leave most of the GPU
# idle. Split over many programs, the keys are read by all multiprocessors at once. That is called
# **split-KV**, or flash-decoding, and exercise 06.11 is about it.

# %% [markdown]
# ## Causal
#
# *Routes: all*
#
# A model that writes text must not look ahead: each query sees the keys up to its own. That is a
# **causal** mask. Drawn over the scores it is a staircase. Of course you could compute all scores
# and mask half of them, but then half of the work would be thrown away. Look at the three kinds
# of tile in the picture, and at the loop of program 2.

# %%
draw.attention(64, 64, block_m=16, block_n=8, causal=True, program=2)

# %% [markdown]
# Tiles above the staircase are *skipped*: nobody sees their keys, and they are not even read.
# Tiles below it are *whole*: every query sees every key, and they need no mask. Only the tiles
# that the staircase crosses are *masked*.

# %% [markdown]
# ### Exercise 06.4 · Tiles left (core)
#
# One head has 4,096 queries and 4,096 keys, under a causal mask, in tiles of 128 queries x 64
# keys. How many score tiles must be computed, whole or masked? (Without the mask it would be
# 2,048.)

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
# What if there are fewer queries than keys? There are two ways to lay the staircase: from the top
# left corner, or so that it ends in the bottom right one.
#
# **Predict:** four words were there before, and two new ones are added. Two queries, six keys:
# which staircase is the right one?

# %% tags=["nbval-check-output"]
print("top left:", torch.ones(2, 6).tril().int().tolist())
print("bottom right:", torch.ones(2, 6).tril(6 - 2).int().tolist())

# %% [markdown]
# The last word must see all that came before it, so it is the bottom right one: query m sees the
# keys n <= m + N - M. This course always lays it that way. Beware: PyTorch's `is_causal=True` means
# top left. The other one is `causal_lower_right` in `torch.nn.attention.bias`.
#
# With more queries than keys, the first queries see no key at all. Then three things need care:
#
# - Their `m` stays -inf, and -inf - -inf is NaN. As in lesson 04, subtract 0 where the maximum is
#   -inf.
# - Their `total` stays 0, and 0 / 0 is NaN. Divide by 1 where the total is 0.
# - Their log-sum-exp is ln(0), which is -inf, as it should be: merged with other parts, they count
#   for nothing.

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
# Your kernel masks every tile, though few need it. A mask costs a comparison and a selection for
# each score, and guards against -inf cost more. Can whole tiles go without?
#
# An `if` in the loop would be decided again in each iteration. Two loops are better: one over the
# whole tiles, and one over the masked ones, among them a last tile that the keys do not fill. So
# that the body is written once, it becomes a function with a constexpr `MASKED`. The compiler makes
# a copy for each value, and what stands under `if MASKED` is not in the other copy at all.


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
# The kernel around it finds where the whole tiles end, and where the masked ones do. `diagonal`
# is the last key that each query sees; without a causal mask that is the last key there is.


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
        first_sees = first_row + n_keys - n_queries + 1  # keys that the first query sees
        whole = tl.maximum(first_sees, 0) // BLOCK_N * BLOCK_N
        end = tl.minimum(first_sees + BLOCK_M - 1, n_keys)  # the last query sees BLOCK_M - 1 more
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
# Now count what the staircase saves: the same kernel with and without the mask, for 4 heads of
# 512 queries and 512 keys, in tiles of 64 x 64.
#
# **Predict:** what share of the operations is left, to the percent?
#
# <details>
# <summary>Answer</summary>
#
# Of 8 x 8 tiles, 1 + 2 + ... + 8 = 36 are left: 56 percent. With more tiles it comes nearer to a
# half.
#
# </details>

# %% tags=["nbval-check-output"]
q, k, v, out = (torch.empty(4, 512, 64, dtype=torch.float16, device="meta") for _ in range(4))
args, tile = (q, k, v, out, 512, 512, 0.125), {"D": 64, "BLOCK_M": 64, "BLOCK_N": 64}
full, causal = (
    cost(split_kernel, (8, 4), *args, **tile, CAUSAL=flag, target="H200") for flag in (False, True)
)
for name, each in (("full", full), ("causal", causal)):
    print(f"{name:6} {each.dot['fp16']:11,} operations, {each.bytes_loaded:9,} bytes loaded")
print(f"{causal.dot['fp16'] / full.dot['fp16']:.2%} of the operations")

# %% [markdown]
# The masked tiles, 8 of the 36, do the work of whole ones for half of the result. Larger tiles
# waste more at the staircase, and read k and v less often.
#
# A causal launch is also uneven: a head's first program has one tile of keys, and its last one has
# all. In which order should programs start? Take 16 heads of 32 programs each, which have 1, 2, …
# 32 score tiles: 528 for a head. Let 132 multiprocessors run one program each, and take the next
# when they are done; time is counted in score tiles. 16 * 528 / 132 is 64, so no order can end
# before 64.
#
# **Predict:** which is better, to start the short programs first or the long ones?
#
# <details>
# <summary>Answer</summary>
#
# The long ones. If a long program starts last, nearly everybody is done when it has just begun.
# Short ones fill the gaps at the end.
#
# </details>


# %% tags=["nbval-check-output"]
def done_at(programs, multiprocessors=132):
    busy_until = [0] * multiprocessors
    for tiles in programs:  # the next one goes to whoever is free first
        busy_until[busy_until.index(min(busy_until))] += tiles
    return max(busy_until)


up, down = range(1, 33), range(32, 0, -1)  # the tiles of a head's 32 programs
print("short ones first, head by head:", done_at([tiles for _ in range(16) for tiles in up]))
print("long ones first, head by head: ", done_at([tiles for _ in range(16) for tiles in down]))
print("long ones first, of all heads: ", done_at([tiles for tiles in down for _ in range(16)]))

# %% [markdown]
# Head by head it does not help much, because the last head's long programs begin late in either
# order. Over all heads at once the end comes at 65. But this count knows nothing of the L2 cache,
# and programs that run at the same time then read the keys of all heads at once. In "Read the
# finished kernel" you meet a fourth order, that of the course's fastest kernel.

# %% [markdown]
# ## Sitting 3
#
# A good place to stop, or to start again (in a new session, run the cells with `import`, `attend`
# and `split_kernel` first). So far you can
#
# - fold the scale into exp2, divide once, and return a log-sum-exp,
# - skip the tiles that a causal mask hides, and mask only those on the staircase, with a loop of
#   their own,
# - keep NaN out of rows that see no key.
#
# What follows is about real shapes and real hardware: heads that share keys, how large a tile may
# be, and warps with different jobs.

# %% [markdown]
# ## Heads and lengths
#
# *Routes: all*
#
# Models keep heads in two ways: `[batch, heads, length, D]`, or `[batch, length, heads, D]`, as
# the layer before gives them. Must one be copied into the other? No. A kernel that takes three
# strides per tensor, from batch to batch, from head to head and from row to row, reads both as
# they lie.
#
# **Predict:** `x` has the shape [2, 100, 6, 32], in the second way. Which three strides does the
# kernel get for it?
#
# <details>
# <summary>Answer</summary>
#
# From row to row it is all heads' numbers, 6 * 32 = 192. From head to head it is 32, and from
# batch to batch 100 * 192 = 19,200.
#
# </details>

# %% tags=["nbval-check-output"]
x = torch.randn(2, 100, 6, 32, dtype=torch.float16, device=DEVICE)  # [batch, length, heads, D]
print("from batch, head and row to the next:", x.transpose(1, 2).stride()[:3])
same = flash_attention(x, x, x, causal=True, layout="bmhd").transpose(1, 2)
moved = flash_attention(*[x.transpose(1, 2).contiguous()] * 3, causal=True)
print("equal:", torch.equal(same, moved))

# %% [markdown]
# Models also save on keys: of 32 heads of queries, say, 4 in a row use one head of keys and
# values. These are **grouped heads**. The keys and values of a long text, which a model must keep
# in memory while it writes, are then a quarter as large.

# %% [markdown]
# ### Exercise 06.6 · Grouped heads (core)
#
# `q` is `[n_heads, M, D]`, `k` and `v` are `[n_key_heads, N, D]`, all float16, and each key head
# serves `n_heads / n_key_heads` query heads in a row. The rows of a head lie one after the other;
# heads are `stride_qh`, `stride_kh` and `stride_vh` elements apart, which may differ. The exercise
# launches one program per query head; M and N fit a tile. In PyTorch: first repeat k and v by
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
# Does sharing make the kernel faster too? There is one program per query head, and each still reads
# all keys of its key head. So as many bytes are asked for as before; only the L2 cache can serve
# more of them. And when a model writes word by word, M is 1, but a tensor core multiplies 16 rows
# at once: 15 of 16 are padding.
#
# Both are cured at once. Let the four heads of a group be four rows of one tile: they see the
# same keys. Nothing is moved for it. With M = 1, `q` of 32 heads of one query is, in memory, also
# 8 heads of four queries. This is called *packing* the group, and it needs only a view. The
# course's v1 takes grouped heads, so count it both ways.


# %%
def ask(tool, q, k):
    lse = torch.empty(q.shape[:3], device="meta")
    strides = [x.stride()[:3] for x in (q, k, k, q)]
    sizes = (q.shape[2], k.shape[2]), q.shape[3]
    args = (q, k, k, q, lse, 0.125, q.shape[1], q.shape[1] // k.shape[1], *strides, *sizes)
    tile = {"IS_CAUSAL": False, "BLOCK_HEADDIM": 64, "BLOCK_M": 16, "BLOCK_N": 64}
    return tool(flash_attention_kernel_v1, (1, q.shape[1], 1), *args, **tile, target="H200")


# %% tags=["nbval-check-output"]
q = torch.empty(1, 32, 1, 64, dtype=torch.float16, device="meta")  # 32 heads, one query each
k = torch.empty(1, 8, 1024, 64, dtype=torch.float16, device="meta")  # 8 key heads
for name, queries in (("one program per head", q), ("packed", q.view(1, 8, 4, 64))):
    c = ask(cost, queries, k)
    print(f"{name:20}: {c.bytes_loaded:9,} bytes asked for, {c.dot['fp16']:11,} operations of dots")

# %% [markdown]
# A quarter of both. If M is larger than 1 and a causal mask is needed, packing takes more care: row
# r is at position r % M if the rows lie head after head, and at r // group if the heads of one
# position lie side by side.
#
# Is the packed launch fast now? Bytes and operations do not say all. `diagnose`, which you met in
# lesson 04, takes the same arguments as `cost` and says what else limits a launch.
#
# **Predict:** what will it name first? Think of how many programs there are.
#
# <details>
# <summary>Answer</summary>
#
# Packing left one program per key head, and an H200 has 132 multiprocessors: nearly all of them
# have nothing to do.
#
# </details>

# %%
ask(diagnose, q.view(1, 8, 4, 64), k)

# %% [markdown]
# The change that it names first, splitting the loop of a program over several programs, is
# split-KV. You can write it in exercise 06.11.

# %% [markdown]
# ## Choosing tiles
#
# *Routes: all*
#
# How many queries should a tile have? Larger tiles read k and v less often, as you saw. Put a
# number on it. For one tile of keys and values, a program reads 2 * BLOCK_N * D float16, which
# are 4 * BLOCK_N * D bytes, and computes two products of 2 * BLOCK_M * BLOCK_N * D operations.
# Divide:
#
# ```
# 4 * BLOCK_M * BLOCK_N * D operations  /  4 * BLOCK_N * D bytes  =  BLOCK_M operations per byte
# ```
#
# Nearly all of these bytes come from the L2 cache, so they run against its roof, which you met in
# lesson 05.
#
# **Predict:** how many queries must a tile have, so that the L2 cache is not slower than the
# tensor cores with their 989 TFLOP/s? The L2 cache of an H200 gives about 9.7 TB/s.
#
# <details>
# <summary>Answer</summary>
#
# 989 / 9.7 is about 102 operations per byte, so about 102 queries: 128 is the next power of two.
#
# </details>

# %%
q, k, v, out = (torch.empty(4, 512, 64, dtype=torch.float16, device="meta") for _ in range(4))
args, tile, counts = (q, k, v, out, 512, 512, 0.125), {"D": 64, "BLOCK_N": 64, "CAUSAL": False}, {}
for m in (16, 64, 128):
    c = cost(split_kernel, (512 // m, 4), *args, **tile, BLOCK_M=m, target="H200")
    counts[f"{m} queries"] = c
    print(f"{m:3} queries: {c.l2_intensity:5.1f} operations per byte, at least {c.least_us:.2f} us")

# %%
draw.roofline(counts)

# %% [markdown]
# Counted, it is a little less than the formula says, since q and the result move as well. All three
# tiles do the same arithmetic, and device memory must move the same bytes. Only what they ask of
# the L2 cache differs: for the smallest tile that takes more than six times as long as the tensor
# cores need. With 128 queries the two roofs meet.
#
# So 128 queries. What bounds a tile from above is room. The accumulator and the scores are
# float32 in registers, of which a thread has at most 255. `q` and the tiles of k and v that are
# on their way lie in shared memory, at most 227 KB per program on an H200.
#
# **Predict:** with D = 128, a tile of 128 x 64 and 4 warps, how many registers per thread do the
# accumulator and the scores take?
#
# <details>
# <summary>Answer</summary>
#
# The accumulator is 128 x 128 numbers over 128 threads: 128 registers. The scores are 128 x 64:
# 64 more. Together 192 of at most 255, before anything else has found a place.
#
# </details>


# %%
def try_tile(target, m, n, warps, stages):
    tile = {"D": 128, "BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": stages}
    args = ["*fp16:16"] * 4 + [4096, 4096, 128**-0.5]
    s = lower(split_kernel, *args, **tile, CAUSAL=False, target=target)
    used, what = s.resources, f"{m:3} x {n:3}, {warps} warps, depth {stages}"
    kb = used.shared_bytes // 1024
    print(f"{what}: {used.registers} registers, {used.spill_bytes:3} bytes spilled, {kb:3} KB shared")
    return s


# %%
for tile in [(64, 64, 4, 2), (128, 64, 4, 2), (128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 3)]:
    try_tile("sm_90", *tile)

# %% [markdown]
# 128 x 64 spills with 4 warps, and 8 warps halve what each thread must hold. In shared memory 128
# queries take 32 KB, and each step of pipeline depth takes the k and v of one more iteration: 32
# KB with 64 keys, 64 KB with 128. The last tile is as large as an H200 allows, in registers and
# in shared memory.

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
# Here is that tile to scale: the registers of a thread, and the shared memory of a program. The
# kernel has two loops, one over whole tiles and one over masked ones. Their buffers take the same
# place, one loop after the other, so k and v are drawn in two rows.

# %%
draw.room(try_tile("sm_90", 128, 128, 8, 3), "acc", "scores")

# %% [markdown]
# Another GPU has another answer. An RTX 4090 (sm_89) gives a program 99 KB, and needs one buffer
# less for the same depth, as in lesson 05. Its tensor cores take operands from registers alone, so
# q is read from shared memory again in each iteration, and a thread needs more registers.

# %%
for tile in [(128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2)]:
    try_tile("sm_89", *tile)

# %% [markdown]
# The third one spills. A bound like this prunes the choices, and measuring picks among the rest. In
# practice that is `@triton.autotune`, with block sizes in its configurations: give it the few tiles
# that fit, or a function `prune_configs_by={"early_config_prune": ...}` that throws out those that
# do not, and `cache_results=True`, which keeps the winner on disk. The course wrote its choices
# down instead: [kernels/attention/settings.py](../kernels/attention/settings.py) has an entry for
# each amount of shared memory and each head dimension. Those for 227 KB won on an H200; those for
# smaller GPUs fit and spill nothing, but were not timed.

# %% [markdown]
# ## Warps with different jobs
#
# *Routes: all*
#
# Here is the loop of a tile of 128 x 64 at depth 3, as the compiler has laid it out. When do the
# tensor cores work?

# %%
draw.pipeline(try_tile("sm_90", 128, 64, 8, 3))

# %% [markdown]
# Loads of later iterations are on their way while one is computed: memory is hidden. But look at
# the tensor cores. The second dot needs the exponentials, and they need the first dot. So the
# tensor cores idle during each softmax, unless other warps have a dot ready just then.
#
# **Warp specialization** makes sure that they have. Warps of one program get different jobs. A
# **producer warp** only loads tiles into shared memory. Two groups of **consumer warps** own half
# of the tile's rows each, and compute. While one group is at its softmax, the other has the
# tensor cores. This is a sketch of it; its durations are made up.

# %%
draw.specialized(consumers=2, tiles=5)

# %% [markdown]
# In Triton you ask for it with a word at the loop, `warp_specialize=True`, and the compiler divides
# the work. On an H200 such a loop compiles only where q, k and v all come by descriptors. The
# course's v5 is written so. Compile it, and look for three things in its PTX: how many warps are
# launched, what each group does, and how many registers it asks for.


# %%
tile = {"IS_CAUSAL": False, "HEADDIM": 128, "BLOCK_M": 128, "BLOCK_N": 128}
tile |= {"HEADS_PER_KEY_HEAD": 1, "PERSISTENT": True, "num_warps": 4, "num_stages": 2}
args = ["*fp16:16"] * 4 + ["*fp32:16", "fp32"] + ["i32:16"] * 3
args += [("i32:16",) * count for count in (3, 3, 3, 3, 4, 2)]  # strides, rows and lengths, as tuples
s = lower(flash_attention_kernel_v5, *args, **tile, target="sm_90")
print(s.resources)
jobs = {"cp.async.bulk.tensor": "tile copies", "wgmma.mma": "dot steps", "ex2.approx": "powers"}
for part in s.ptx.split("setmaxnreg.")[1:]:  # the instruction that changes a group's registers
    done = [f"{name}: {part.count(mark)}" for mark, name in jobs.items() if mark in part]
    print(" ".join(part.split(";")[0].split()), "|", ", ".join(done))

# %% [markdown]
# 12 warps are launched, though `num_warps` says 4: it counts one group, and there are three. A
# program is given 168 registers for each thread at its launch, the same number for all.
#
# Then comes `setmaxnreg`, an instruction that Hopper brought. With it a group of four warps gives
# registers back (`dec`) or takes more (`inc`). Read the lines from the top. The producer takes 256
# to set things up, and then goes down to 40: it computes nothing but addresses, and its line has
# copies and no dots. (There are four: q in two halves, k, and v.) The consumers wait with 120 each,
# and go up to 232 when their work begins; their one copy stores the result. The last line is the
# producer's again, at the very end.
#
# Does this add up? A group has 128 threads, and the launch reserved 3 * 128 * 168 registers.
#
# <details>
# <summary>Answer</summary>
#
# 128 * (40 + 232 + 232) = 64,512, and 3 * 128 * 168 = 64,512. The registers that the producer
# does not need are exactly those that the consumers got. A multiprocessor has 65,536.
#
# </details>

# %% [markdown]
# Why is 232 enough? Each consumer has 64 of the 128 rows: an accumulator of 64 x 128 and scores of
# 64 x 128 over 128 threads are 64 + 64 registers. With 168 it would be tight beside all else, and
# as a single group of 4 warps the tile would not fit at all.
#
# Other GPUs divide the work in other ways. On a B200 (sm_100) a single warp can start a dot, and
# its result lies in tensor memory, so Triton splits the loop finer there. Here is the loop with
# descriptors made in the kernel. It is only compiled: a launch would need memory for the
# descriptors, which `triton.set_allocator` provides, as in v5's launcher. On sm_90 it does not
# compile, since its `q` comes by pointers.


# %%
@triton.jit
def specialized_kernel(
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
s = lower(specialized_kernel, *args, **tile, num_warps=4, target="sm_100")
work = {"tma_copy": "load", "gen5_mma ": "start dots", "reduce": "maxima and sums of rows"}
work |= {"exp2 %power": "take powers", "mulf %acc": "rescale the accumulator"}
first, *others = s.ttgir.split("num_warps(")  # one text per group of warps
for group in ("4" + first, *others):
    print(group[0], "warps:", ", ".join(name for mark, name in work.items() if mark in group))

# %% [markdown]
# Four jobs: softmax, rescaling, starting dots, and loading. This is the division that
# *FlashAttention-4* makes by hand, as you will read below.

# %% [markdown]
# ## Sitting 4
#
# A good place to stop, or to start again (in a new session, run the import cell first). The
# hardest part of the course comes now, so come to it with a fresh head. So far you can
#
# - share keys among heads, and pack a group's queries into one tile,
# - bound a tile by the L2 cache from below, and by registers and shared memory from above,
# - say what producer and consumer warps do, and how registers go from one to the other.
#
# What follows puts it all together: the finished kernels, how fast they are, and what others do.

# %% [markdown]
# ## Read the finished kernel
#
# *Routes: all*
#
# Now you read what the course ships, as it stands in
# [kernels/attention/tl.py](../kernels/attention/tl.py): first `flash_attention_kernel`, which is v2
# and v3 with other settings, then `_fwd_kernel`, the form that C calls, what v4 changes, and at
# last v5. A few lines at a time, and under each piece a question. Try to answer before you unfold.
# The names are those of the table above: S, P, m, l, O, alpha.
#
# If you cannot answer one, that is no failure: this is the hardest reading in the course, and
# each answer says what the line is for.
#
# | version | what is new in it |
# |---|---|
# | v1 | `attention_kernel` with strides and grouped heads; a mask on every tile |
# | v2 | exp2 with the scale folded in; whole tiles without a mask; long programs first |
# | v3 | as v2, with larger tiles and more depth |
# | v4 | as v3, with k and v by descriptors |
# | v5 | specialized warps and persistent programs |

# %% [markdown]
# The first piece is the head of the kernel. `head_dim` need not be a power of two, so
# `BLOCK_HEADDIM` is the next one. `stride_lse` leads from one head's log-sum-exps to the next's.
# New are also `EVEN_M` and its like.
#
# ```python
# @triton.jit(do_not_specialize=["nheads"])
# def flash_attention_kernel(
#     q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads,
#     stride_q, stride_k, stride_v, stride_out, lengths, stride_lse, head_dim,
#     EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_HEADDIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
#     BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
#     HEADS_PER_KEY_HEAD: tl.constexpr,
# ):
# ```
#
# **1.** Why are `EVEN_M` and `EVEN_N` constants, and the lengths `seqlen_q` and `seqlen_k` not?
# And what does `do_not_specialize` do for `nheads`?
#
# <details>
# <summary>Answer</summary>
#
# With a constant length, every new length would be compiled anew. The code depends only on whether
# the tiles divide the length, since then it needs no mask. A flag says just that, and has two
# values. `nheads` is only divided by. Without the note, Triton would compile one kernel for
# `nheads` = 1, one for multiples of 16 and one for the rest, for no gain. You met this in lesson
# 04.
#
# </details>

# %% [markdown]
# What does such a flag buy? A mask does not only cost comparisons. If the compiler does not know
# that neighboring lanes have the same mask, it must load them one by one. `EVEN | (...)` with
# `EVEN` true at compile time is true for all lanes, whatever stands on the right, so the mask is
# gone. Here is the smallest kernel that shows it. Its length is not known to be divisible by 16.


# %%
@triton.jit
def even_kernel(x_ptr, out_ptr, n, EVEN: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    mask = EVEN | (offsets < n)
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, x)


# %% tags=["nbval-check-output"]
for even in (False, True):
    s = lower(even_kernel, *["*fp16:16"] * 2, "i32", EVEN=even, BLOCK_SIZE=1024, target="sm_90")
    loads, wide = s.counts["ptx"]["global loads"], s.counts["ptx"]["vectorized global loads"]
    print(f"EVEN={even!s:5}: {loads} loads per thread, {wide} of them wide")

# %% [markdown]
# Strides and lengths came as tuples, and are given their names. Then, which program is this, and
# which queries are its own?
#
# ```python
# (stride_qb, stride_qh, stride_qm), (stride_kb, stride_kh, stride_kn) = stride_q, stride_k
# (stride_vb, stride_vh, stride_vn), (stride_ob, stride_oh, stride_om) = stride_v, stride_out
# seqlen_q, seqlen_k = lengths
# block = tl.program_id(axis=0)
# if IS_CAUSAL:  # the last queries see most keys: they begin first, short programs fill the end
#     block = tl.num_programs(axis=0) - 1 - block
# pair = tl.program_id(axis=2) * tl.num_programs(axis=1) + tl.program_id(axis=1)
# batch, head = (pair // nheads).to(tl.int64), (pair % nheads).to(tl.int64)
# key_head = head // HEADS_PER_KEY_HEAD
# first_row = block * BLOCK_M
# rows = tl.arange(0, BLOCK_M)  # [BLOCK_M], from first_row on
# cols = tl.arange(0, BLOCK_N)  # [BLOCK_N], from `start` on
# dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
# ```
#
# **2.** The grid is (blocks, heads, batch). Why is the head not simply `tl.program_id(1)`? Why
# are the blocks turned around under a causal mask? Why 64 bits?
#
# <details>
# <summary>Answer</summary>
#
# `pair` counts heads over all batches: program_id(2) * heads + program_id(1). A caller may as well
# launch (blocks, batch * heads, 1), and gets the same pairs. Then `pair // nheads` is the batch and
# the remainder the head. Turned around, each head's longest blocks start first. Head by head that
# gains little, 82 in place of 85 in the count above, but it costs one subtraction. `batch *
# stride_qb` may pass 2^31, so both are made 64 bits wide first.
#
# </details>
#
# ```python
# row_mask = EVEN_M | (rows < seqlen_q - first_row)
# dim_mask = EVEN_HEADDIM | (dims < head_dim)
# q_mask = row_mask[:, None] & dim_mask[None, :]  # [BLOCK_M, BLOCK_HEADDIM]
# q_start = q_ptr + batch * stride_qb + head * stride_qh + first_row.to(tl.int64) * stride_qm
# q_ptrs = q_start + rows[:, None].to(tl.int64) * stride_qm + dims[None, :]
# q = tl.load(q_ptrs, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_HEADDIM]
# ```
#
# **3.** What is left of `q_mask` if both flags are true? And why is `first_row` multiplied by the
# stride apart from `rows`?
#
# <details>
# <summary>Answer</summary>
#
# Nothing: it is true for every lane, and the load of q becomes wide, as in the small kernel above.
# `first_row.to(tl.int64) * stride_qm` is one number, computed once; only the small `rows` are
# multiplied for each lane.
#
# </details>

# %% [markdown]
# Next come the borders of the two loops. You wrote the second one in 06.5; in `split_kernel` they
# are called `whole` and `end`. (Here both are kept between 0 and `seqlen_k`, which changes no
# result.)
#
# ```python
# # Every row of this tile sees all keys before `masked`, a multiple of BLOCK_N. From there up to
# # `end` some keys are hidden from some rows.
# if IS_CAUSAL:  # row i sees keys up to i + seqlen_k - seqlen_q: the last row sees all
#     first_row_sees = first_row + (seqlen_k - seqlen_q) + 1
#     masked = tl.maximum(tl.minimum(first_row_sees, seqlen_k), 0) // BLOCK_N * BLOCK_N
#     end = tl.maximum(tl.minimum(first_row_sees + BLOCK_M - 1, seqlen_k), 0)
# else:
#     masked = seqlen_k // BLOCK_N * BLOCK_N
#     end = masked if EVEN_N else seqlen_k
# scale_log2 = scale * LOG2E  # exp(scale * t) = exp2(scale_log2 * t)
# O = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
# m = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of S * scale_log2
# l = tl.zeros([BLOCK_M], tl.float32)
# ```
#
# **4.** Both lengths are 256, tiles are 64 x 64, and this is the block with `first_row` = 128. What
# are `masked` and `end`? And what if there are only 100 keys for the 256 queries?
#
# <details>
# <summary>Answer</summary>
#
# The first query sees 129 keys. `masked` is 128, and `end` is min(129 + 63, 256) = 192: two whole
# tiles, and one with a mask. With 100 keys it sees 128 + 100 - 256 + 1, which is below 0: no key.
# Then `masked` is 0, and `end` is max(min(-27 + 63, 100), 0) = 36: one masked tile, for the later
# rows.
#
# </details>
#
# ```python
# for MASKED in tl.static_range(2):  # the loop is compiled twice: without a mask, and with one
#     first_col, end_col = (masked, end) if MASKED else (0, masked)
# ```
#
# **5.** `tl.static_range` goes through its numbers while the kernel is compiled, so `MASKED` is a
# constant, and what stands below is compiled once for 0 and once for 1. Your `split_kernel` called
# `attend` twice, to the same end. When is the second loop not in the compiled kernel at all?
#
# <details>
# <summary>Answer</summary>
#
# Without a causal mask, and with keys that fill their tiles: then `EVEN_N` is true at compile time,
# and `end` is `masked`. A loop from `masked` to `masked` has no iteration, which the compiler sees,
# and it leaves the loop out.
#
# </details>

# %% [markdown]
# Now the loop itself. It has the same job as the one in your `attend`. First, the pointers.
#
# ```python
# k_start = k_ptr + batch * stride_kb + key_head * stride_kh
# k_ptrs = k_start + (first_col + cols[None, :]).to(tl.int64) * stride_kn
# v_start = v_ptr + batch * stride_vb + key_head * stride_vh
# v_ptrs = v_start + (first_col + cols[:, None]).to(tl.int64) * stride_vn
# k_ptrs += dims[:, None]  # [BLOCK_HEADDIM, BLOCK_N]: transposed as it is read
# v_ptrs += dims[None, :]  # [BLOCK_N, BLOCK_HEADDIM]
# ```
#
# **6.** `k_ptrs` has the shape `[BLOCK_HEADDIM, BLOCK_N]`, and a key's numbers run down its
# columns. What does that spare? Does it make the loads of k slow?
#
# <details>
# <summary>Answer</summary>
#
# `tl.trans(k)`: the tile is transposed as it is addressed. The loads stay wide, since the
# compiler chooses a layout in which a thread's elements are neighbors in memory, and here these
# run along axis 0.
#
# </details>
#
# ```python
# for start in range(first_col, end_col, BLOCK_N):
#     col_mask = (not MASKED) | (cols < seqlen_k - start)
#     k = tl.load(k_ptrs, mask=dim_mask[:, None] & col_mask[None, :], other=0.0)
#     S = tl.dot(q, k)  # [BLOCK_M, BLOCK_N], not yet scaled
# ```
#
# **7.** What is left of the mask of this load in whole tiles? And why is `col_mask` needed for the
# scores nevertheless, in the other ones?
#
# <details>
# <summary>Answer</summary>
#
# In whole tiles all keys are there, and `not MASKED` makes `col_mask` true for every lane. The mask
# that is left is for a head dimension such as 80, for which `BLOCK_HEADDIM` is 128, and it vanishes
# with `EVEN_HEADDIM`. In the other tiles, a key past the end comes as 0. But a key of zeros has the
# score 0, and only -inf counts for nothing.
#
# </details>

# %% [markdown]
# The heart of it: the update of the maximum, the sum and the accumulator. `finite(m_new)` is the
# `base` of 06.5: it gives 0 where the maximum is -inf.
#
# ```python
# if MASKED:
#     visible = col_mask[None, :]
#     if IS_CAUSAL:
#         last_col = (first_row + rows)[:, None] + (seqlen_k - seqlen_q)
#         visible = visible & (start + cols[None, :] <= last_col)
#     S = tl.where(visible, S, -float("inf"))
# m_new = tl.maximum(m, tl.max(S, axis=1) * scale_log2)  # [BLOCK_M]
# base = finite(m_new) if MASKED else m_new  # only a mask makes a row of -inf
# P = tl.exp2(S * scale_log2 - base[:, None])  # a multiply-add, an exp2
# alpha = tl.exp2(m - base)  # [BLOCK_M]
# l = l * alpha + tl.sum(P, axis=1)
# ```
#
# **8.** How often is a score multiplied? And why is `finite` called only under `MASKED`?
#
# <details>
# <summary>Answer</summary>
#
# Once, in the exponent, as in 06.9: `S * scale_log2 - base` is one multiply-add per score. A row's
# maximum can only be -inf if all keys so far were hidden from it. In whole tiles every row sees
# every key.
#
# </details>
#
# ```python
#     O = O * alpha[:, None]
#     v = tl.load(v_ptrs, mask=col_mask[:, None] & dim_mask[None, :], other=0.0)
#     O = tl.dot(P.to(v.dtype), v, O)  # [BLOCK_M, BLOCK_HEADDIM]
#     m = m_new
#     k_ptrs += tl.cast(BLOCK_N, tl.int64) * stride_kn
#     v_ptrs += tl.cast(BLOCK_N, tl.int64) * stride_vn
# ```
#
# **9.** What is rounded here, and what is not? Why does the last step widen `BLOCK_N`?
#
# <details>
# <summary>Answer</summary>
#
# P is rounded to the dtype of v, as the dot asks. S, m, l and O stay in float32. The pointers move
# on by BLOCK_N rows; with 64 bits the step stays right where rows are very far apart. It is the
# same habit everywhere: an index is widened before it meets a stride. `tl.cast` does
# what `.to` does, and also takes a number that Triton knows as a constant, as `BLOCK_N` is here.
#
# </details>

# %% [markdown]
# The end of the kernel, after the loops. `LN2` and `LOG2E` are globals of the file. A kernel may
# use a global only if it is made with `tl.constexpr(...)`, so that its value cannot change
# between compilation and launch.
#
# ```python
# l = tl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
# lse_ptrs = lse_ptr + pair.to(tl.int64) * stride_lse + first_row + rows
# tl.store(lse_ptrs, m * LN2 + tl.log(l), mask=row_mask)
# out = (O * (1.0 / l)[:, None]).to(out_ptr.dtype.element_ty)  # one division per row
# out_start = out_ptr + batch * stride_ob + head * stride_oh + first_row.to(tl.int64) * stride_om
# out_ptrs = out_start + rows[:, None].to(tl.int64) * stride_om + dims[None, :]
# tl.store(out_ptrs, out, mask=q_mask)
# ```
#
# **10.** Why `O * (1.0 / l)[:, None]`, and not `O / l[:, None]`? And what is
# `out_ptr.dtype.element_ty`?
#
# <details>
# <summary>Answer</summary>
#
# A division takes several instructions. Written so, there is one per row, and one multiplication
# per element. `out_ptr.dtype` is "pointer to float16" or "pointer to bfloat16", and `element_ty`
# is what it points to. So one kernel serves both.
#
# </details>

# %% [markdown]
# That was v2 and v3. What is exported in lesson 07 is this small kernel around it, in
# [kernels/attention/export.py](../kernels/attention/export.py), since C cannot pass a tuple. Callers
# in C round the rows of lse up to `seqlen_q_rounded`, which is therefore `stride_lse`. (`TMP` and
# `batch` are not used; callers pass them all the same.)
#
# ```python
# @triton.jit(do_not_specialize=["batch", "nheads"])
# def _fwd_kernel(
#     Q, K, V, Out, Lse, TMP, softmax_scale, batch, nheads,
#     stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
#     stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
#     seqlen_q, seqlen_k, seqlen_q_rounded, head_dim,
#     EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_HEADDIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
#     BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
# ):
# ```
#
# ```python
# flash_attention_kernel(
#     Q, K, V, Out, Lse, softmax_scale, nheads,
#     (stride_qb, stride_qh, stride_qm), (stride_kb, stride_kh, stride_kn),
#     (stride_vb, stride_vh, stride_vn), (stride_ob, stride_oh, stride_om),
#     (seqlen_q, seqlen_k), seqlen_q_rounded, head_dim,
#     EVEN_M, EVEN_N, EVEN_HEADDIM, IS_CAUSAL, BLOCK_HEADDIM, BLOCK_M, BLOCK_N, 1,
# )
# ```
#
# **11.** Which parameter does it fix? `EVEN_M` is declared `tl.constexpr`. How can a caller in C
# give it at run time?
#
# <details>
# <summary>Answer</summary>
#
# The last one: one head of queries per key head. A signature for export says for each parameter
# whether it is a constant or a type, and may say `i1` for `EVEN_M`. The code is written so that
# both work: `EVEN_M | (rows < ...)` is an OR of values then, and `masked if EVEN_N else seqlen_k`
# a choice at run time. Masks cost their time then, since the compiler cannot leave them out.
#
# </details>

# %% [markdown]
# v4, in [kernels/attention/tl_hopper.py](../kernels/attention/tl_hopper.py), is the same kernel with
# k and v by descriptors, so that it computes no pointers for them. The descriptors have four axes,
# as the tensors do, and tiles of `[1, 1, BLOCK_N, BLOCK_HEADDIM]`: `reshape` drops the two axes of
# length 1, and `.T` is `tl.trans`. Places in a descriptor's load are 32 bits wide, so `key_batch`
# and `key_head` are narrow. This is where its loop begins:
#
# ```python
# for start in range(first_col, end_col, BLOCK_N):
#     k = k_tiles.load([key_batch, key_head, start, 0]).reshape([BLOCK_N, BLOCK_HEADDIM])
#     S = tl.dot(q, k.T)  # [BLOCK_M, BLOCK_N], not yet scaled
#     if MASKED:
#         visible = (cols < seqlen_k - start)[None, :]
# ```
#
# **12.** A descriptor's load has no mask. Why can it do without, and why are the scores masked
# nevertheless?
#
# <details>
# <summary>Answer</summary>
#
# What lies outside the tensor comes as 0 from a descriptor, past the last key as well as past
# `head_dim`. But a key of zeros has the score 0, and only -inf counts for nothing.
#
# </details>

# %% [markdown]
# Now v5, from the same file. It starts with its descriptors, for which it takes the last stride of
# each tensor. `q_rows` is the number of rows of q, if all of it is read as one matrix whose rows are
# `stride_qm` apart. (`128 if HEADDIM == 256` is the subject of question 20.)
#
# ```python
# q_rows, k_rows, v_rows, out_rows = matrix_rows
# stride_qm, stride_kn = stride_q[2], stride_k[2]
# stride_vn, stride_om = stride_v[2], stride_out[2]
# q_tiles = tl.make_tensor_descriptor(
#     q_ptr, [q_rows, stride_qm], [stride_qm, 1], [BLOCK_M, HEADDIM]
# )
# k_tiles = tl.make_tensor_descriptor(
#     k_ptr, [k_rows, stride_kn], [stride_kn, 1], [BLOCK_N, HEADDIM]
# )
# v_tiles = tl.make_tensor_descriptor(
#     v_ptr, [v_rows, stride_vn], [stride_vn, 1], [BLOCK_N, HEADDIM]
# )
# out_tiles = tl.make_tensor_descriptor(
#     out_ptr, [out_rows, stride_om], [stride_om, 1],
#     [BLOCK_M, 128 if HEADDIM == 256 else HEADDIM],
# )
# descriptors = (q_tiles, k_tiles, v_tiles, out_tiles)
# strides = (stride_q, stride_k, stride_v, stride_out)
# scale_log2 = scale * LOG2E
# ```
#
# **13.** q has four axes, and its descriptor two. What is a row of it? What would go wrong where
# tiles do not divide the length?
#
# <details>
# <summary>Answer</summary>
#
# All of q is read as one matrix whose rows are `stride_qm` wide. In `[batch, heads, length, D]` a
# row is one query of one head; in `[batch, length, heads, D]` it is one query of all heads, side by
# side. At the end of a head a tile would not run into zeros but into the rows that come next. So v5
# is only taken where BLOCK_M divides both lengths.
#
# </details>
#
# ```python
# def first_element(batch, head, stride):
#     """The row and column where a head begins, in its tensor read as one matrix whose rows are
#     `stride`'s last apart. A descriptor counts both in 32 bits."""
#     stride_b, stride_h, stride_m = stride
#     row = batch * (stride_b // stride_m) + head * (stride_h // stride_m)
#     return tl.cast(row, tl.int32), tl.cast(head * (stride_h % stride_m), tl.int32)
# ```
#
# **14.** Where does head h begin in `[batch, heads, length, D]`, and where in
# `[batch, length, heads, D]`, both contiguous?
#
# <details>
# <summary>Answer</summary>
#
# In the first, `stride_h` is length * D and `stride_m` is D: row h * length, column 0. In the
# second, `stride_h` is D and `stride_m` is heads * D: row 0 of its batch, column h * D. One
# function serves both.
#
# </details>

# %% [markdown]
# The programs are persistent, as in lesson 05: no more than the GPU holds at a time, and each takes
# one tile of queries after another. A head has `n_blocks` of these tiles, and all heads together
# have `n_tiles`.
#
# ```python
# if PERSISTENT:
#     n_programs = tl.num_programs(axis=0)
#     for nth in tl.range(tl.program_id(axis=0), n_tiles, n_programs, warp_specialize=True):
#         tile = nth
#         if IS_CAUSAL:  # every other round runs backwards: who had many keys gets few
#             rounds = nth // n_programs
#             backwards = tl.minimum((rounds + 1) * n_programs, n_tiles) - 1 - nth % n_programs
#             tile = tl.where(rounds % 2 == 0, nth, backwards)
#         attend_specialized(
#             tile, descriptors, strides, lengths, lse_ptr, scale_log2, nheads, n_blocks,
#             IS_CAUSAL, HEADDIM, BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, SPECIALIZE=False,
#         )
# ```
#
# **15.** 4 programs, 8 tiles, and a causal mask. Which tiles does program 0 get, and which does
# program 3? Why is every other round turned around?
#
# <details>
# <summary>Answer</summary>
#
# In round 0 they get 0 and 3, and in round 1 min(8, 8) - 1 - 0 = 7 and 7 - 3 = 4. Within a head
# the tiles come longest first, so whoever had a long one in one round gets a short one in the
# next.
#
# </details>

# %% [markdown]
# You counted three orders, which ended at 85, 82 and 65. This is the fourth. `launch_specialized`,
# v5's launcher, starts 128 programs for these 16 * 32 = 512 tiles of queries, since 128 share them
# evenly in four rounds. With 128 programs no order can end before 66.


# %% tags=["nbval-check-output"]
def tile_of(nth, n_programs, n_tiles):
    rounds = nth // n_programs
    backwards = min((rounds + 1) * n_programs, n_tiles) - 1 - nth % n_programs
    return nth if rounds % 2 == 0 else backwards


lengths = 16 * list(range(32, 0, -1))  # 16 heads, the longest tile of queries first
each = [sum(lengths[tile_of(nth, 128, 512)] for nth in range(p, 512, 128)) for p in range(128)]
print("the first program is done at", min(each), "and the last at", max(each))

# %% [markdown]
# All end together, and no program had to ask who is free. That is one later than the best order
# before, but a round takes the tiles of four heads only, so the L2 cache is asked for the keys of
# four heads at a time and not of sixteen.
#
# ```python
# else:
#     attend_specialized(
#         tl.program_id(axis=0), descriptors, strides, lengths, lse_ptr, scale_log2, nheads,
#         n_blocks, IS_CAUSAL, HEADDIM, BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, SPECIALIZE=True,
#     )
# ```
#
# **16.** `SPECIALIZE` is True here, and above it was False. Which loop is divided among the warps in
# each case, and what does that gain at a head dimension of 128?
#
# <details>
# <summary>Answer</summary>
#
# Above, the loop over tiles is specialized as a whole, and here the loop over keys within one
# tile. In the first case the producer runs on into the next tile and loads its q and first keys
# while the consumers finish this one. That takes shared memory for a second q, which there is at
# 128, and not at 256.
#
# </details>

# %% [markdown]
# What is done for one tile of queries:
#
# ```python
# q_tiles, k_tiles, v_tiles, out_tiles = descriptors
# stride_q, stride_k, stride_v, stride_out = strides
# seqlen_q, seqlen_k = lengths
# pair = tile // n_blocks
# batch, head = pair // nheads, pair % nheads
# key_head = head // HEADS_PER_KEY_HEAD
# # Under a causal mask the last queries see most keys: they come first.
# first_row = (n_blocks - 1 - tile % n_blocks) * BLOCK_M
# q_row, q_col = first_element(batch, head, stride_q)
# k_row, k_col = first_element(batch, key_head, stride_k)
# v_row, v_col = first_element(batch, key_head, stride_v)
# rows = tl.arange(0, BLOCK_M)  # [BLOCK_M]
# cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
# q = q_tiles.load([q_row + first_row, q_col])  # [BLOCK_M, HEADDIM]
# end = seqlen_k
# if IS_CAUSAL:
#     end = tl.maximum(tl.minimum(first_row + BLOCK_M + (seqlen_k - seqlen_q), seqlen_k), 0)
# ```
#
# **17.** `q_row` and `first_row` are added in the load of q. What is each of them?
#
# <details>
# <summary>Answer</summary>
#
# `q_row` is where the head begins in the matrix of all heads. `first_row` is where the tile begins
# in its head. Tiles are numbered from the end of the head, so that the longest comes first.
#
# </details>
#
# ```python
# m = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of S * scale_log2
# l = tl.zeros([BLOCK_M], tl.float32)
# O = tl.zeros([BLOCK_M, HEADDIM], tl.float32)
# for start in tl.range(0, end, BLOCK_N, warp_specialize=SPECIALIZE):
#     k = k_tiles.load([k_row + start, k_col]).T  # [HEADDIM, BLOCK_N]
#     S = tl.dot(q, k)  # [BLOCK_M, BLOCK_N], not yet scaled
#     if IS_CAUSAL:
#         last_visible = first_row + rows + (seqlen_k - seqlen_q) - start  # [BLOCK_M]
#         S = tl.where(cols[None, :] <= last_visible[:, None], S, -float("inf"))
# ```
#
# **18.** v2 to v4 have a loop of their own for masked tiles, and this kernel masks every tile of
# a causal head. Why?
#
# <details>
# <summary>Answer</summary>
#
# The compiler divides one loop among the warps, and a second loop would have to be divided once
# more. So the mask is computed on every tile. It costs a comparison and a selection per score,
# and what the specialized warps gain is more than that.
#
# </details>
#
# ```python
# m_new = tl.maximum(m, tl.max(S, axis=1) * scale_log2)  # [BLOCK_M]
# P = tl.exp2(S * scale_log2 - m_new[:, None])  # [BLOCK_M, BLOCK_N]
# alpha = tl.exp2(m - m_new)  # [BLOCK_M]
# l = l * alpha + tl.sum(P, axis=1)
# v = v_tiles.load([v_row + start, v_col])  # [BLOCK_N, HEADDIM]
# O = tl.dot(P.to(v.dtype), v, O * alpha[:, None])  # [BLOCK_M, HEADDIM]
# m = m_new
# ```
#
# **19.** Which of the lines of this loop does the producer run, and which do the consumers? And
# why is there no `finite` here, although rows are masked?
#
# <details>
# <summary>Answer</summary>
#
# The producer runs the `.load`s of k and v, and that of q where the loop over tiles is divided. All
# else is the consumers', for 64 rows each. v5 is only taken where both lengths are multiples of
# BLOCK_M. So the staircase begins at the edge of a tile: either the whole tile sees no key, and the
# loop does not run, or each of its rows sees the first key. So its maximum is a number from the
# first iteration on.
#
# </details>

# %% [markdown]
# And the result is stored, by a descriptor as well.
#
# ```python
# l = tl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
# tl.store(lse_ptr + pair.to(tl.int64) * seqlen_q + first_row + rows, m * LN2 + tl.log(l))
# out_row, out_col = first_element(batch, head, stride_out)
# out = O * (1.0 / l)[:, None]  # one division for a row
# if HEADDIM == 256:  # by halves, whose place in shared memory fits beside two stages
#     left, right = out.reshape(BLOCK_M, 2, HEADDIM // 2).permute(0, 2, 1).split()
#     out_tiles.store([out_row + first_row, out_col], left.to(out_tiles.dtype))
#     out_tiles.store([out_row + first_row, out_col + HEADDIM // 2], right.to(out_tiles.dtype))
# else:
#     out_tiles.store([out_row + first_row, out_col], out.to(out_tiles.dtype))
# ```
#
# **20.** A store by descriptor goes through shared memory. What does the branch for 256 do?
#
# <details>
# <summary>Answer</summary>
#
# It stores the left 128 columns and then the right ones, so that half as much shared memory is
# needed beside the tiles of k and v. `reshape` makes `[BLOCK_M, 2, 128]` of a tile, `permute`
# moves the 2 to the end, and `split` takes a last axis of length 2 apart.
#
# </details>

# %% [markdown]
# **21.** v5 runs with `num_stages=2`. The settings file says that three stages "compile and give
# wrong results". What do you learn from that?
#
# <details>
# <summary>Answer</summary>
#
# That a compiler has bugs too, and that a faster variant is first verified and then timed. The
# course's own bench refuses to time what it has not verified.
#
# </details>

# %% [markdown]
# ## Against the best
#
# *Routes: all*
#
# How good is all this? PyTorch's own attention can be told which kernel to take. `math` writes
# the scores to memory and computes in float32. `efficient` and `flash` are flash attention in
# CUDA, where `flash` is FlashAttention-2, written for the A100. `cuDNN` is NVIDIA's own, made for
# each GPU. This was recorded on an H200 with PyTorch 2.11: 16,384 queries in all, 16 heads,
# D = 128, float16. The operations are counted as 4 * M * N * D per head for everybody.

# %%
speeds = recorded("flash_attention_128")
peers = {name: name for name in ("torch, cuDNN", "torch, flash", "torch, efficient", "torch, math")}
draw.speeds(speeds, series={"flash_attention": "the course's v5", **peers})

# %% [markdown]
# `math` is more than twenty times slower than v5, and not ten times, as our count in steps says:
# in float32 its scores are twice as large, and its products use no tensor cores. v5 is 1.5 to 1.6
# times as fast as `flash`, and reaches 0.87 to 0.92 of cuDNN's speed.
#
# Where do the versions stand under the two roofs? v1 and v2 have tiles of 64 queries, the others of
# 128; `flash_attention` is v5.

# %%
per_byte = {f"flash_attention_v{version}": 64 if version < 3 else 128 for version in (1, 2, 3, 4)}
draw.ladder(speeds, {**per_byte, "flash_attention": 128})

# %% [markdown]
# None touches the roof of the L2 cache, but v2 is at seven tenths of it, and larger tiles
# moved that roof out of the way. Between v1 and v2 the roofs are the same: what v2 saves is
# instructions per score. Between v4 and v5 they are the same too: in v5 one group's softmax runs
# under the other group's dots, and programs go on to the next tile without a pause.
#
# Now the same versions under a causal mask, where the operations counted are half as many.
#
# **Predict:** v1 leaves out no tile. It makes 310 TFLOP/s without a mask at 16,384. Where does it
# end up with one?
#
# <details>
# <summary>Answer</summary>
#
# At about half, 155, since it does all of the work and half of it counts. It was recorded at 150:
# the mask itself costs it little.
#
# </details>

# %%
versions = {f"flash_attention_v{version}": f"v{version}" for version in (1, 2, 3, 4)}
draw.speeds(recorded("flash_attention_128_causal"), series={"flash_attention": "v5", **versions})

# %% [markdown]
# `v2` skips what is hidden, folds the scale into exp2 and starts long programs first: 1.9 to 2.7
# times as fast as v1. `v3` has larger tiles and more depth; at 512 and 1,024 keys its tiles waste
# more at the staircase than they gain. `v4` reads k and v by descriptors. `v5` has specialized
# warps and persistent programs. That gains most where loops are short: a third over v4 at 1,024,
# four percent at 16,384.
#
# And the other head dimensions? v5 is made for 128 and 256; at 64 the course's best is v4. Here is
# the best one's share of cuDNN's speed.

# %%
for head_dim in (64, 128, 256):
    runs = [recorded(f"flash_attention_{head_dim}{suffix}") for suffix in ("", "_causal")]
    pairs = [(run.at("torch, cuDNN", n), run.at("flash_attention", n)) for run in runs for n in
             (1024, 2048, 4096, 8192, 16384)]  # fmt: skip
    ratios = [theirs.ms / ours.ms for theirs, ours in pairs]
    extremes = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"D = {head_dim:3}: {extremes}, {sum(ratios) / 10:.2f} on average")

# %% [markdown]
# Where does the rest go? It is lost in the loop. Within one consumer group the dot, the powers and
# the next dot still wait for one another. Only the other group can fill the gap, and nothing makes
# the two take turns.
#
# One more cost is not in these plots, which show the GPU's time. To launch v5, Python takes the CPU
# 0.12 to 0.16 ms, and cuDNN's call 0.04 to 0.06. In the causal run at 512 keys v5's launch takes
# longer than the GPU's work.
# A CUDA graph, in lesson 07, launches without Python. Export is no way out here: v4 takes
# descriptors and v5 makes them, and lesson 07 shows why neither can be exported.

# %% [markdown]
# ## Where attention stands in 2026
#
# *Routes: all*
#
# You will rarely write attention from scratch at work. What is there already? PyTorch tells you
# what your version knows.

# %%
members = torch.nn.attention.SDPBackend.__members__
kinds = [name for name in members if name.endswith(("MATH", "ATTENTION"))]
print("kinds of scaled_dot_product_attention:", *kinds)
print("kernels for FLASH_ATTENTION:", *torch.nn.attention.list_flash_attention_impls())

# %% [markdown]
# - If you need no kernel of your own, try *FlexAttention* (`torch.nn.attention.flex_attention`)
#   first. You give it a Python function that changes a score or hides it, and `torch.compile` puts
#   that into a flash attention kernel for you. The kernel is a Triton template: you could read it
#   now.
#
#   ```python
#   def bias(score, batch, head, q_index, kv_index):
#       return score - slope * (q_index - kv_index)
#
#   torch.compile(flex_attention)(q, k, v, score_mod=bias)
#   ```
#
# - For texts of different lengths in one batch, `torch.nn.attention.varlen` takes them one after
#   the other without padding, and is told where each begins.
# - FA3 in the list is *FlashAttention-3*, for Hopper. Like v5 it has producer and consumer
#   warps. It goes further in two ways. Named barriers order the two consumer groups, so that one
#   is at its softmax exactly when the other has the tensor cores. And within a group, the first dot
#   of the next tile already runs under the softmax of this one.
# - FA4 is *FlashAttention-4*, for Blackwell. On these GPUs tensor cores became faster and the
#   special functions did not, so powers bind. FA4 computes a part of them with a polynomial on
#   the ordinary arithmetic units, and skips a rescaling where the maximum has hardly grown. Its
#   warps have the jobs that you saw Triton find for the B200.
# - FA3 and FA4 are packages of their own. Once one is installed,
#   `torch.nn.attention.activate_flash_attention_impl("FA4")` makes it PyTorch's `flash`.
#
# Could Triton do what FA3 does? `tl` has no words for two groups that wait for one another, or for
# a dot that is left running. *Gluon* has: it is a language one level below, in the same package,
# in which you choose the layouts, the buffers and the barriers yourself. [Lesson
# 09](09-hopper.ipynb) does that.

# %% [markdown]
# ## Three variations
#
# *Routes: all*
#
# The rest of the lesson is for those who want more: three stretch exercises, each of which changes
# your loop in a way that real models do.
#
# The first is a sliding window. Where texts are long, some layers let each query see only the last
# few keys up to its own, a **window**. The work then grows with N and no longer with N x N, if the
# tiles outside the window are skipped on both sides. Look at program 5.

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
# The second is a bias on the scores. How does a model know which words are near? Dot products do
# not say. One way, which models with *ALiBi* take, is to subtract from each score a number that
# grows with the distance between query and key. Such a bias comes after the scale. In a kernel that
# computes in powers of two, it must be brought into the same units as the scores.

# %% [markdown]
# ### Exercise 06.10 · A bias by distance (stretch)
#
# The score of query m and key n is the dot product times `scale`, minus `slope` times the distance
# between n and m + N - M. The loop counts in powers of two. In PyTorch, with
# `distance = (torch.arange(M)[:, None] + N - M - torch.arange(N)).abs()`:
# `torch.softmax(q @ k.mT * scale - slope * distance, dim=-1) @ v`.


# %%
# exercise 06.10
@triton.jit
def bias_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_queries, n_keys, slope, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows, dims = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q_offsets = rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < n_queries, other=0.0)
    log2e = 1.4426950408889634
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, n_keys, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k_offsets = cols[:, None] * D + dims[None, :]
        k = tl.load(k_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        v = tl.load(v_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
        scores = tl.dot(q, tl.trans(k))
        # about 2 lines from here
        distance = tl.abs(rows[:, None] + n_keys - n_queries - cols[None, :])
        scores = scores * (scale * log2e) - distance * (slope * log2e)
        # to here
        scores = tl.where(cols[None, :] < n_keys, scores, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, axis=1))
        power, rescale = tl.exp2(scores - new_m[:, None]), tl.exp2(m - new_m)
        total = total * rescale + tl.sum(power, axis=1)
        acc = tl.dot(power.to(tl.float16), v, acc * rescale[:, None])
        m = new_m
    tl.store(out_ptr + q_offsets, acc / total[:, None], mask=rows[:, None] < n_queries)


# %%
check("06.10", bias_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The row's own place among the keys is `rows[:, None] + n_keys - n_queries`, and `tl.abs` makes a
# difference a distance.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# exp(s - b) is exp2((s - b) * log2e). So both the scaled score and the bias are multiplied by it.
#
# </details>

# %% [markdown]
# The third is one query with very many keys. A model that writes has one query per head and step,
# and thousands of keys. Splitting the keys over programs is split-KV. Each program attends to its
# part and leaves a result and a log-sum-exp; a second kernel merges them. With one query there is
# no need for `tl.dot`: a multiplication and a sum over the tile do it, and memory is what binds.

# %% [markdown]
# ### Exercise 06.11 · Split the keys (stretch)
#
# `q` is `[D]`, `k` and `v` are `[N, D]`, all float16. `part_kernel` takes 64 keys per program:
# store its log-sum-exp. Then let `merge_kernel` make the result of all parts, `[D]`. In PyTorch:
# `torch.softmax(k @ q * D**-0.5, dim=0) @ v`.


# %%
# exercise 06.11
@triton.jit
def part_kernel(q_ptr, k_ptr, v_ptr, parts_ptr, lse_ptr, n_keys, scale, D: tl.constexpr):
    part, dims = tl.program_id(axis=0), tl.arange(0, D)
    cols = part * 64 + tl.arange(0, 64)
    offsets, there = cols[:, None] * D + dims[None, :], cols < n_keys
    q = tl.load(q_ptr + dims).to(tl.float32)
    k = tl.load(k_ptr + offsets, mask=there[:, None], other=0.0).to(tl.float32)
    v = tl.load(v_ptr + offsets, mask=there[:, None], other=0.0).to(tl.float32)
    scores = tl.where(there, tl.sum(q[None, :] * k, axis=1) * scale, -float("inf"))  # [64]
    m = tl.max(scores, axis=0)
    power = tl.exp(scores - m)
    total = tl.sum(power, axis=0)
    tl.store(parts_ptr + part * D + dims, tl.sum(power[:, None] * v, axis=0) / total)
    # about 1 line from here
    tl.store(lse_ptr + part, m + tl.log(total))
    # to here


@triton.jit
def merge_kernel(parts_ptr, lse_ptr, out_ptr, n_parts, D: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    numbers, dims = tl.arange(0, BLOCK_SIZE), tl.arange(0, D)
    lse = tl.load(lse_ptr + numbers, mask=numbers < n_parts, other=-float("inf"))  # [BLOCK_SIZE]
    offsets = numbers[:, None] * D + dims[None, :]
    parts = tl.load(parts_ptr + offsets, mask=numbers[:, None] < n_parts, other=0.0)
    # about 3 lines from here
    weight = tl.exp(lse - tl.max(lse, axis=0))
    out = tl.sum(weight[:, None] * parts, axis=0) / tl.sum(weight, axis=0)
    tl.store(out_ptr + dims, out)
    # to here


def split_keys(q, k, v):
    (n, d), n_parts, out = k.shape, triton.cdiv(len(k), 64), torch.empty_like(q)
    parts = torch.empty(n_parts, d, dtype=torch.float32, device=q.device)
    lse = torch.empty(n_parts, dtype=torch.float32, device=q.device)
    part_kernel[(n_parts,)](q, k, v, parts, lse, n, d**-0.5, D=d)
    merge_kernel[(1,)](parts, lse, out, n_parts, D=d, BLOCK_SIZE=triton.next_power_of_2(n_parts))
    return out


# %%
check("06.11", split_keys)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The sum of a part's exponentials is exp(m) * total. Its logarithm is what the merge needs.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# In the merge each part counts exp(lse). Subtract the largest lse first, as in every softmax.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# Each part is divided already. The merged result is a weighted mean: divide by the sum of the
# weights.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Step through `split_kernel` with `CAUSAL=True`, 40 queries and 30 keys, in tiles of 16 x 16. For
#   which rows does `m` stay -inf, and what keeps NaN out of their results?
# - Give `attention_kernel` tiles of 16 x 64 and of 128 x 64. What does `cost` say of the bytes
#   loaded, and of the registers?
# - Compile v5 with `HEADDIM=256, BLOCK_N=64, PERSISTENT=False`. Which registers does each group
#   ask for, and how many copies has the producer?
#
# ## In practice
#
# [kernels/attention/__init__.py](../kernels/attention/__init__.py) is the finished operation: any
# lengths, head dimensions from 16 to 256, batches, grouped heads, causal or not, in five versions.
# v4 and v5 need a GPU that reads descriptors in hardware, and lengths or strides that suit them. On
# an H100 or H200, `flash_attention` takes the kernels of lesson 09 where they suit; these five alone
# are `flash_attention_tl`.
#
# To train, a model needs the backward pass as well. It reads the log-sum-exp, computes each score
# a second time, and writes no M x N matrix either. There are five matrix products per tile: S once
# more, and those for the gradients of P, V, Q and K. Storing P would save the first, and it would
# cost the traffic that this whole lesson avoids.

# %% [markdown]
# ## What you can do now
#
# You can write attention that stores no scores, for any lengths and masks, say which roof binds
# it, and choose its tiles. You have read a kernel at the limit of what Triton can say today. Ask
# yourself:
#
# 1. Your attention is right for 4,096 keys, and wrong by a few percent for 4,100. Where do you
#    look?
#
# <details>
# <summary>Answer</summary>
#
# At the last tile: 4,100 is no multiple of the tile. Keys past the end were loaded as 0, and
# their scores must become -inf before the maximum is taken.
#
# </details>
#
# 2. Two programs have each attended to half of the keys, and gave you their results and
#    log-sum-exps. How do you merge them, and what if one half was hidden altogether?
#
# <details>
# <summary>Answer</summary>
#
# Weigh them by the softmax of the two log-sum-exps. A hidden half has -inf there, and so the
# weight 0.
#
# </details>
#
# 3. Why does each thread of v5's consumer warps get 232 registers, and of its producer warps 40?
#
# <details>
# <summary>Answer</summary>
#
# A consumer holds half of the accumulator and of the scores, 64 + 64 registers per thread, and
# what the softmax needs. The producer holds addresses. `setmaxnreg` moves registers from one to
# the other.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/06-flash-attention.py](../solutions/06-flash-attention.py) has all answers.
#
# **Next:** [lesson 07](07-ahead-of-time.ipynb). You compile kernels before the program runs, and
# call this attention from C++.
#
# ## Further reading
#
# - T. Dao and others: *FlashAttention*, arXiv:2205.14135; *FlashAttention-2*, arXiv:2307.08691
# - J. Shah and others: *FlashAttention-3*, arXiv:2407.08608: warp specialization on an H100
# - M. Milakov and N. Gimelshein: *Online normalizer calculation for softmax*, arXiv:1805.02867
# - M. Rabe and C. Staats: *Self-attention Does Not Need O(n^2) Memory*, arXiv:2112.05682
# - O. Press and others: *Train Short, Test Long: Attention with Linear Biases*, arXiv:2108.12409
