# %% [markdown]
# # 19 · Attention on one tile of keys
#
# Attention is the operation that modern models spend much of their time in, and the four lines of
# PyTorch that define it are slow. They write a matrix to memory that is many times as large as
# everything else, read it back, and do so three times. The way out is an algorithm that never writes
# that matrix: flash attention. It needs almost all that you have learned.
#
# **By the end you can** count what attention costs, say which roof binds it, and write attention for
# as many keys as fit into one tile.
#
# **You need** notebooks {two-running-numbers} and {matrix-product}.
#
# | section | about minutes |
# |---|---|
# | What attention costs | 10 |
# | One tile of keys | 25 |
# | Beginning and end | 7 |
# | **Together, an estimate** | 42 |

# %% [markdown]
# **Two questions from earlier notebooks.** Answer them before you unfold the answers.
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
from course import check, hint
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## What attention costs
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
# Where do we begin? With what fits into one program: one tile of queries, `[BLOCK_M, D]`, and one
# tile of keys and values, `[BLOCK_N, D]`. Then `tl.dot(q, tl.trans(k))`, where `tl.trans` exchanges
# the two axes, gives all their dot products at once, `[BLOCK_M, BLOCK_N]`, and times the scale they
# are the scores, which then do not grow with D. Softmax goes along `axis=1`, so its maximum and its
# sum are one number per query, and a second `tl.dot` weighs the values.
#
# There is one trap. The number of keys need not fill the tile, so keys past the last one are masked
# and loaded as 0. In notebook {matrix-product} zeros were harmless: they add nothing to a product.
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
# ### Exercise {one-tile} · One tile (core)
#
# One program has `BLOCK_M` queries, all of them there, and `n_keys` keys and values, at most
# `BLOCK_N`. Compute its result and store it to `out_ptr`. All tensors are float16 and contiguous.
# In PyTorch: `attention_in_steps(q, k, v, scale)`.
#
# Give both dots operands in float16. For the exponentials that does no harm: after the maximum is
# subtracted they lie between 0 and 1, and each is rounded once. Their sum must stay in float32.


# %%
# exercise one-tile
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
check("one-tile", tile_kernel)

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
# ## What you can do now
#
# You can say why attention in steps is bound by memory, and give a missing key the score -inf. Next
# come more keys than fit into a tile.

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/19-one-tile-of-keys.py](../solutions/19-one-tile-of-keys.py) has all answers.
#
# **Next:** [20, attention in a loop over keys](20-loop-over-keys.ipynb).
#
# ## Further reading
#
# - T. Dao and others: *FlashAttention*, arXiv:2205.14135; *FlashAttention-2*, arXiv:2307.08691
# - J. Shah and others: *FlashAttention-3*, arXiv:2407.08608: warp specialization on an H100
# - M. Milakov and N. Gimelshein: *Online normalizer calculation for softmax*, arXiv:1805.02867
# - M. Rabe and C. Staats: *Self-attention Does Not Need O(n^2) Memory*, arXiv:2112.05682
# - O. Press and others: *Train Short, Test Long: Attention with Linear Biases*, arXiv:2108.12409
