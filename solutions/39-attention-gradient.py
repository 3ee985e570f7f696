# %% [markdown]
# # 39 · The gradient of attention
#
# A model that uses your attention has to learn through it. PyTorch could go back through the lines
# of the formula by itself, but then it keeps the matrix of all probabilities, and that is what flash
# attention was made to avoid. Here you write the way back yourself, tile by tile, without it.
#
# **By the end you can** derive the five products of attention's gradient, get the probabilities back
# from one number per query, and write kernels for dV and dK that need no atomics.
#
# **You need** notebooks {an-operator} and {powers-of-two}.
#
# | section | about minutes |
# |---|---|
# | Five products | 6 |
# | What to keep | 5 |
# | A program that owns keys | 35 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 56 |

# %%
from course import check, hint
import torch
import triton
import triton.language as tl

# %% [markdown]
# <details>
# <summary>From earlier: what is softmax's gradient?</summary>
#
# For a row of shares `p` and the gradient `d_p` that arrives for them, it is
# `p * (d_p - sum of p * d_p)`. The sum is one number per row. (Notebook {an-operator})
#
# </details>
#
# <details>
# <summary>From earlier: what is the log-sum-exp of a query good for?</summary>
#
# It is the logarithm of what its powers add up to, so each of its probabilities is
# `exp(score - lse)`, in one step. (Exercise {log-sum-exp})
#
# </details>

# %% [markdown]
# ## Five products
#
# Attention is three steps, each a line. With M queries and N keys, S and P are M x N matrices:
#
# ```
# S = scale * q @ k.T       S[m, n] = scale * (sum over d of q[m, d] * k[n, d])
# P = softmax of S's rows
# O = P @ v                 O[m, d] = sum over n of P[m, n] * v[n, d]
# ```
#
# `dO` arrives from the layers that come after. It says of each element of O how much the loss grows
# with it. We want the same for v, q and k, so we go back line by line.
#
# Begin with the last line. Where does `v[n, d]` stand in it? In `O[m, d]` of every query m, with the
# factor `P[m, n]`. So its gradient adds up over the queries. `P[m, n]` stands in all `O[m, d]` of
# its own query, with the factor `v[n, d]`:
#
# ```
# dV[n, d] = sum over m of P[m, n] * dO[m, d]         dV = P.T @ dO
# dP[m, n] = sum over d of dO[m, d] * v[n, d]         dP = dO @ v.T
# ```
#
# The middle line is a softmax per query, whose gradient you know. Its sum over the row is called
# **delta**, one number per query:
#
# ```
# delta[m] = sum over n of P[m, n] * dP[m, n]
# dS[m, n] = P[m, n] * (dP[m, n] - delta[m])
# ```
#
# And in the first line `q[m, d]` stands in the scores of its own query, with the factor
# `scale * k[n, d]`, and `k[n, d]` in the scores of its own key:
#
# ```
# dQ[m, d] = scale * (sum over n of dS[m, n] * k[n, d])      dQ = scale * dS @ k
# dK[n, d] = scale * (sum over m of dS[m, n] * q[m, d])      dK = scale * dS.T @ q
# ```
#
# Two steps of the derivation are easy to get wrong: the sums of dV and dK run over the *queries*, and
# the scale comes once, at the end. PyTorch can tell whether we got it right. The next cell computes
# each step as it stands above, and asks autograd for the same.

# %%
torch.manual_seed(0)
scale = 32**-0.5
q, k, v, d_out = (torch.randn(rows, 32, dtype=torch.float64) for rows in (40, 70, 70, 40))


def attention(q, k, v):
    return torch.softmax(scale * q @ k.T, dim=1) @ v


# %%
P = torch.softmax(scale * q @ k.T, dim=1)
d_v = P.T @ d_out
d_p = d_out @ v.T
delta = (P * d_p).sum(dim=1)
d_s = P * (d_p - delta[:, None])
d_q, d_k = scale * d_s @ k, scale * d_s.T @ q

# %% tags=["nbval-check-output"]
inputs = [x.clone().requires_grad_() for x in (q, k, v)]
by_autograd = torch.autograd.grad(attention(*inputs), inputs, d_out)
for name, ours, theirs in zip(("dQ", "dK", "dV"), (d_q, d_k, d_v), by_autograd, strict=True):
    print(name, tuple(ours.shape), torch.allclose(ours, theirs))

# %% [markdown]
# Count the products: S again or kept, then dV, dP, dQ and dK. Each takes 2 * M * N * D operations, as
# each of the forward pass's two does. So the way back takes two and a half times as many operations
# as the way there, if S must be computed again, and it must, as you will see now.

# %% [markdown]
# ## What to keep
#
# **Predict:** autograd went back through `attention` and kept P for that. How many bytes is P for 32
# heads of 16,384 queries and keys, in float16?
#
# <details>
# <summary>Answer</summary>
#
# 32 * 16,384 * 16,384 * 2 bytes are 16 GiB, for one layer and one text. q, k, v and O with D = 128
# take 128 MiB each.
#
# </details>

# %% [markdown]
# So P must go, and come back tile by tile. For that one number per query is enough: with the
# log-sum-exp of a row, `P[m, n] = exp(S[m, n] - lse[m])`. No maximum has to be found again, and
# nothing has to be rescaled: the forward pass has done all that. It costs one more product, S, and
# saves the 16 GiB.
#
# Then there is delta. It adds up over all keys of a query, so it looks as if a kernel had to go
# through all tiles once before it can compute a single dS. Put dP into the sum and change the order:
#
# ```
# delta[m] = sum over n of P[m, n] * (sum over d of dO[m, d] * v[n, d])
#          = sum over d of dO[m, d] * (sum over n of P[m, n] * v[n, d])
#          = sum over d of dO[m, d] * O[m, d]
# ```
#
# The inner sum is the output itself, which the forward pass has stored. So delta takes neither P nor
# a key: it is a row of `dO * O`, added up.

# %% tags=["nbval-check-output"]
S, out = scale * q @ k.T, attention(q, k, v)
lse = torch.logsumexp(S, dim=1)
print("P again:", torch.allclose(torch.exp(S - lse[:, None]), P))
print("delta without P:", torch.allclose((d_out * out).sum(dim=1), delta))

# %% [markdown]
# What does the forward pass have to keep, then? q, k, v and O, which are there anyway, and lse: 4 bytes
# per query.

# %% [markdown]
# ## A program that owns keys
#
# The forward pass had one program per tile of queries, with a loop over the keys. Which loop should
# be outside on the way back? Look at the sums: dV and dK add up over queries, dQ over keys. Whoever
# owns what is added up needs no atomics. So a program that owns a tile of *keys* goes through the
# queries, and keeps dV and dK of its keys in registers. What it needs of each query besides q and dO
# are two numbers, `lse` and `delta`.
#
# First dV alone. One tile of keys meets one tile of queries:
#
# ```
# S  = q @ k.T * scale         [BLOCK_M, BLOCK_N]
# P  = exp(S - lse)            [BLOCK_M, BLOCK_N]
# dV += P.T @ dO               [BLOCK_N, D]
# ```
#
# Which padding could do harm? Queries that are not there are a tile's last rows. Loaded as 0, their
# scores are 0 and so is their lse: their P is 1. It is multiplied by their dO, and if that is 0 as
# well, nothing is added. Keys that are not there have rows of dV of their own, and those are not
# stored. So here masks at the loads and at the store do.

# %% [markdown]
# ### Exercise {gradient-of-values} · The gradient of the values (core)
#
# q, k and dO are float16, with contiguous rows of D numbers; `lse` is float32, one number per query, in
# powers of e. Program i owns the keys from `i * BLOCK_N` on. Complete the loop over the queries. Round
# P to float16 for the product, and nothing else. In PyTorch: `torch.exp(q @ k.T * scale -
# lse[:, None]).T @ d_out`.


# %%
# exercise gradient-of-values
@triton.jit
def dv_kernel(
    q_ptr, k_ptr, lse_ptr, d_out_ptr, dv_ptr, n_queries, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    dims = tl.arange(0, D)
    keys = tl.program_id(axis=0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    k_offsets = keys[:, None] * D + dims[None, :]  # [BLOCK_N, D]
    k = tl.load(k_ptr + k_offsets, mask=keys[:, None] < n_keys, other=0.0)
    dv = tl.zeros([BLOCK_N, D], tl.float32)
    for start in range(0, n_queries, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        there = rows < n_queries
        q_offsets = rows[:, None] * D + dims[None, :]  # [BLOCK_M, D]
        q = tl.load(q_ptr + q_offsets, mask=there[:, None], other=0.0)
        d_out = tl.load(d_out_ptr + q_offsets, mask=there[:, None], other=0.0)
        lse = tl.load(lse_ptr + rows, mask=there, other=0.0)  # [BLOCK_M]
        # about 3 lines from here
        scores = tl.dot(q, tl.trans(k)) * scale  # [BLOCK_M, BLOCK_N]
        power = tl.exp(scores - lse[:, None])
        dv = tl.dot(tl.trans(power.to(tl.float16)), d_out, dv)
        # to here
    tl.store(dv_ptr + k_offsets, dv, mask=keys[:, None] < n_keys)


# %%
check("gradient-of-values", dv_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `exp(scores - lse)` is P already: its rows belong to queries, and nothing is left to be divided.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `tl.trans` turns a tile, and `tl.dot(a, b, dv)` adds to what `dv` holds.
#
# </details>

# %% [markdown]
# For dK two more products follow, in the same loop: dP from dO and v, and then dS.T @ q. Be careful
# with two things.
#
# Only the operands of a product are rounded: P for dO, and dS for q. dP is float32 and stays so until
# delta has been subtracted. The two may be nearly equal, and then the digits that rounding takes are
# all that would be left.
#
# And the scale. S has it, because P must be right. Then dK gets it once more at the end, since q was
# multiplied by it on the way there.

# %% [markdown]
# ### Exercise {gradient-of-keys} · The gradient of the keys (core)
#
# As before, with v beside k and `delta` beside `lse`, both float32. dS is rounded to float16 for its
# product, and nothing before it. In PyTorch, with P as above:
# `scale * (P * (d_out @ v.T - delta[:, None])).T @ q`.


# %%
# exercise gradient-of-keys
@triton.jit
def dk_kernel(
    q_ptr, k_ptr, v_ptr, lse_ptr, delta_ptr, d_out_ptr, dk_ptr, n_queries, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    dims = tl.arange(0, D)
    keys = tl.program_id(axis=0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    k_offsets = keys[:, None] * D + dims[None, :]  # [BLOCK_N, D]
    k = tl.load(k_ptr + k_offsets, mask=keys[:, None] < n_keys, other=0.0)
    v = tl.load(v_ptr + k_offsets, mask=keys[:, None] < n_keys, other=0.0)
    dk = tl.zeros([BLOCK_N, D], tl.float32)
    for start in range(0, n_queries, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        there = rows < n_queries
        q_offsets = rows[:, None] * D + dims[None, :]  # [BLOCK_M, D]
        q = tl.load(q_ptr + q_offsets, mask=there[:, None], other=0.0)
        d_out = tl.load(d_out_ptr + q_offsets, mask=there[:, None], other=0.0)
        lse = tl.load(lse_ptr + rows, mask=there, other=0.0)  # [BLOCK_M]
        delta = tl.load(delta_ptr + rows, mask=there, other=0.0)  # [BLOCK_M]
        power = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])  # [BLOCK_M, BLOCK_N]
        # about 3 lines from here
        d_power = tl.dot(d_out, tl.trans(v))
        d_scores = power * (d_power - delta[:, None])
        dk = tl.dot(tl.trans(d_scores.to(tl.float16)), q, dk)
        # to here
    # about 1 line from here
    tl.store(dk_ptr + k_offsets, dk * scale, mask=keys[:, None] < n_keys)
    # to here


# %%
check("gradient-of-keys", dk_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `d_power` is [BLOCK_M, BLOCK_N], like `power`; delta has one number for each of its rows.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The scale is the same for all terms of the sum, so it can wait until after the loop.
#
# </details>

# %% [markdown]
# ## What you can do now
#
# You can go back through attention without its matrix, and you have written two of its three
# gradients. Two questions to ask yourself:
#
# <details>
# <summary>Why does the backward pass need no maximum?</summary>
#
# The log-sum-exp holds it already: `exp(S - lse)` is at most 1, whatever the scores.
#
# </details>
#
# <details>
# <summary>What would be wrong if delta were forgotten?</summary>
#
# The gradient would push up each score whose value helps. But a softmax's shares add up to 1: one
# can only grow if others shrink.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/39-attention-gradient.py](../solutions/39-attention-gradient.py) has all answers.
#
# **Next:** [40, training with your attention](40-train-with-attention.ipynb).
