# %% [markdown]
# # 20 · Attention in a loop over keys
#
# One tile of keys fits on the chip. A hundred thousand keys do not. With the two running numbers of
# softmax, and one more thing that is carried along, they need not.
#
# **By the end you can** write attention that stores no scores, for any lengths.
#
# **You need** notebook {one-tile-of-keys}.
#
# | section | about minutes |
# |---|---|
# | The loop | 45 |
# | Beginning and end | 5 |
# | **Together, an estimate** | 50 |

# %% tags=["runs-here"]
from course import DEVICE, check, cost, draw, heads, hint, replay, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.


# %% tags=["runs-here"]
def attention_in_steps(q, k, v, scale):
    scores = q @ k.mT  # reads q and k, writes M x N
    scores = scores * scale  # reads them, writes as much
    shares = torch.softmax(scores, dim=-1)  # reads, writes
    return shares @ v  # reads


# %% [markdown]
# ## The loop
#
# With more keys than a tile holds, a program keeps its tile of queries, and the tiles of keys and
# values pass by in a loop. Look at program 2 in the picture: its row of score tiles exists one
# tile at a time, in the order of the numbers, and is never stored.

# %%
draw.attention(64, 128, block_m=16, block_n=16, program=2)

# %% [markdown]
# But softmax needs the maximum of the whole row before it can begin. You solved this in notebook
# {two-running-numbers}: keep the maximum `m` so far and the `total` of exp(score - m), and correct
# the total when a larger maximum comes. The new maximum is the larger of the old one and the tile's
# own. Attention adds a third thing to carry along, the accumulator `acc`: each key's v times its
# exp(score - m), added up over the keys so far, D numbers per query.
#
# All three begin as if no key had been seen. -inf is below every score, so the first tile's maximum
# replaces it, and the sums begin at 0. Each adds up many terms, so they are float32, as a dot's
# accumulator is.
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

# %% tags=["nbval-check-output", "runs-here"]
scores, v = torch.tensor([2.0, 1.0, 5.0, 3.0]), torch.tensor([10.0, 20.0, 30.0, 40.0])
first, second = torch.exp(scores[:2] - 2), torch.exp(scores[2:] - 5)  # m is 2, and then 5
factor = torch.exp(torch.tensor(2.0 - 5.0))
total = first.sum() * factor + second.sum()
before, added = (first * v[:2]).sum(), (second * v[2:]).sum()
print(f"softmax at once:       {torch.softmax(scores, dim=0) @ v:.2f}")
print(f"acc left as it was:    {(before + added) / total:.2f}")
print(f"acc rescaled as total: {(before * factor + added) / total:.2f}")

# %% [markdown]
# ### Exercise {attention-loop} · The loop (core)
#
# One head: `q` is `[n_queries, D]`, `k` and `v` are `[n_keys, D]`, all float16 and contiguous.
# The exercise launches one program for each `BLOCK_M` queries. In PyTorch:
# `attention_in_steps(q, k, v, scale)`.


# %% tags=["runs-here"]
# exercise attention-loop
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


# %% tags=["runs-here"]
check("attention-loop", loop_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# It is `online_kernel` of notebook {two-running-numbers} with a maximum and a total for every row.
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
# call the same things by shorter names. Keep this table at hand for the notebooks on attention; its
# last row comes in the next one.
#
# | in these notebooks | in `kernels/` and the papers | what it is |
# |---|---|---|
# | `scores` | S | queries times keys; scaled so far and in the papers; in `kernels/`, from v2 on, the scale waits for the exponent (notebook {powers-of-two}) |
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
# notebook {softmax-of-a-row}. The accumulator goes into the second dot as its third argument, as
# in notebook {matrix-product}.


# %% tags=["runs-here"]
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


# %% tags=["runs-here"]
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


# %% tags=["runs-here"]
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

# %% tags=["runs-here"]
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
# of the way with larger tiles, in notebook {heads-and-tiles}.
#
# Look also at the special functions in that line: one exponential per score. At D = 64 they take
# nearly as long as the tensor cores, and at D = 128 half as long. So what happens to a score
# between the two dots is not a detail, and it is the subject of the next notebook.

# %% [markdown]
# ## On your own
#
# - Give `attention_kernel` tiles of 16 x 64 and of 128 x 64. What does `cost` say of the bytes
#   loaded, and of the registers?
#
# ## What you can do now
#
# You can carry a maximum, a sum and an accumulator through a loop over tiles of keys, and rescale
# both when the maximum changes. Ask yourself:
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

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/20-loop-over-keys.py](../solutions/20-loop-over-keys.py) has all answers.
#
# **Next:** [21, powers of two, and dividing once](21-powers-of-two.ipynb).
