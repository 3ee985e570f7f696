# %% [markdown]
# # 21 · Powers of two, and dividing once
#
# Your attention is right. Between its two products it computes a scale and an exponential for each
# score. Here you make those cheaper, and you return one more number per row that later makes
# decoding and training possible.
#
# **By the end you can** fold the scale into exp2, divide once, return the log-sum-exp, and merge
# results over parts of the keys.
#
# **You need** notebook {loop-over-keys}.
#
# | section | about minutes |
# |---|---|
# | Powers of two, and dividing once | 40 |
# | A bias in the same units | 15 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 65 |

# %%
from course import DEVICE, check, draw, heads, hint, lower, verify
from kernels.attention import flash_attention
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.


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


# %%
def attention_in_steps(q, k, v, scale):
    scores = q @ k.mT  # reads q and k, writes M x N
    scores = scores * scale  # reads them, writes as much
    shares = torch.softmax(scores, dim=-1)  # reads, writes
    return shares @ v  # reads


# %%
def reference(q, k, v):
    return attention_in_steps(q, k, v, q.shape[-1] ** -0.5)


result = verify(attention, reference, cases=heads(), absolute=5e-3)
print(result)
assert result.right

# %% [markdown]
# ## Powers of two, and dividing once
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
# ### Exercise {scale-in-the-exponent} · The scale in the exponent (core)
#
# Your loop from {attention-loop} once more, in powers of two. `scores` comes unscaled from the dot,
# and `scale2` is the scale times log2(e). Let `m` count in powers of two: it is the maximum of the
# scores times `scale2`. Multiply each score only once, and only after the maximum has been taken.
# In PyTorch: `attention_in_steps(q, k, v, scale)`.


# %%
# exercise scale-in-the-exponent
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
check("scale-in-the-exponent", twos_kernel)

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
# ### Exercise {log-sum-exp} · Log-sum-exp (core)
#
# Store the log-sum-exp of each query's scores, in natural logarithms, as float32 `[n_queries]`;
# compute with `tl.exp2`. To keep this loop short, the scores are scaled right after the dot.
# `scale2` is the scale times log2(e), so `scores` count in powers of two, and so does `m`. In
# PyTorch: `torch.logsumexp(q.float() @ k.float().mT * scale, dim=-1)`.


# %%
# exercise log-sum-exp
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
check("log-sum-exp", lse_kernel)

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
# softmax of the two log-sum-exps. Here is a query with two keys in each half, whose values are 10, 20, 30
# and 40.

# %%
draw.merge([[2, 1], [5, 3]], [[10, 20], [30, 40]])

# %% [markdown]
# The course's finished kernel returns log-sum-exps; its tensors are `[batch, heads, length, D]`.

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
# **split-KV**, or flash-decoding, and exercise {split-the-keys} is about it.

# %% [markdown]
# ## A bias in the same units
#
# How does a model know which words are near? Dot products do
# not say. One way, which models with *ALiBi* take, is to subtract from each score a number that
# grows with the distance between query and key. Such a bias comes after the scale. In a kernel that
# computes in powers of two, it must be brought into the same units as the scores.

# %% [markdown]
# ### Exercise {bias-by-distance} · A bias by distance (core)
#
# The score of query m and key n is the dot product times `scale`, minus `slope` times the distance
# between n and m + N - M (the last query belongs to the last key, so query m stands at key m + N -
# M). The loop counts in powers of two. In PyTorch, with `distance = (torch.arange(M)[:, None] + N -
# M - torch.arange(N)).abs()`: `torch.softmax(q @ k.mT * scale - slope * distance, dim=-1) @ v`.


# %%
# exercise bias-by-distance
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
check("bias-by-distance", bias_kernel)

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
# ## What you can do now
#
# You can fold the scale into exp2, divide once, and merge what two programs have found. Ask
# yourself:
#
# 1. Two programs have each attended to half of the keys, and gave you their results and
#    log-sum-exps. How do you merge them, and what if one half was hidden altogether?
#
# <details>
# <summary>Answer</summary>
#
# Weigh them by the softmax of the two log-sum-exps. A hidden half has -inf there, and so the
# weight 0.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/21-powers-of-two.py](../solutions/21-powers-of-two.py) has all answers.
#
# **Next:** [22, causal attention](22-causal-mask.ipynb).
