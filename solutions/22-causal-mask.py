# %% [markdown]
# # 22 · Causal attention
#
# In a language model no token may look at those that come after it. Half of all scores are hidden, so half of
# the time should be saved. What does it take to save it?
#
# **By the end you can** skip the tiles that a causal mask hides, mask only those on the staircase, and
# keep NaN out of rows that see no key.
#
# **You need** notebook {powers-of-two}.
#
# | section | about minutes |
# |---|---|
# | Causal | 60 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 70 |

# %%
from course import check, cost, draw, heads, hint, verify
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
# ## Causal
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
# ### Exercise {tiles-left} · Tiles left (core)
#
# One head has 4,096 queries and 4,096 keys, under a causal mask, in tiles of 128 queries x 64
# keys. How many score tiles must be computed, whole or masked? (Without the mask it would be
# 2,048.)

# %%
# exercise tiles-left
tiles = None
# about 1 line from here
tiles = sum(2 * (program + 1) for program in range(32))
# to here

# %%
check("tiles-left", tiles)

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
# - Their `m` stays -inf, and -inf - -inf is NaN. As in notebook {two-running-numbers}, subtract 0
#   where the maximum is -inf.
# - Their `total` stays 0, and 0 / 0 is NaN. Divide by 1 where the total is 0.
# - Their log-sum-exp is m + ln(1), which is -inf, as m is. So it should be: merged with other
#   parts, they count for nothing.

# %% [markdown]
# ### Exercise {causal-attention} · Causal (core)
#
# Give `loop_kernel` a causal mask, bottom right, for any two lengths; a query that sees no key
# gives zeros. Tiles that no query of a program sees must not be read: bytes are counted. In
# PyTorch: `scores.masked_fill(torch.ones(M, N).tril(N - M) == 0, -math.inf)` before the softmax.


# %%
# exercise causal-attention
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
check("causal-attention", causal_loop_kernel)

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
# An `if` around the mask would do, and a branch per tile costs little. Two loops do more: one over
# the whole tiles, and one over the masked ones, among them a last tile that the keys do not fill.
# Then nothing of the mask is left in the first loop, neither code nor registers, and where no tile
# is masked the second loop can be left out. So that the body is written once, it becomes a function
# with a constexpr `MASKED`. The compiler makes a copy for each value, and what stands under `if
# MASKED` is not in the other copy at all.


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
# and programs that run at the same time then read the keys of all heads at once. In notebook
# {finished-on-hopper} you meet a fourth order, that of the course's fastest kernel in `tl`.

# %% [markdown]
# ## On your own
#
# - Step through `split_kernel` with `CAUSAL=True`, 40 queries and 30 keys, in tiles of 16 x 16. For
#   which rows does `m` stay -inf, and what keeps NaN out of their results?
#
# ## What you can do now
#
# You can write causal attention that computes hardly more than half of the scores. Could you say
# which tiles need the mask, and why the others do not?

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/22-causal-mask.py](../solutions/22-causal-mask.py) has all answers.
#
# **Next:** [23, heads, lengths, and how large a tile](23-heads-and-tiles.ipynb).
