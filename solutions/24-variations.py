# %% [markdown]
# # 24 · Variations, and where attention stands
#
# Models keep asking for attention that is slightly different: a window, a bias by distance, keys
# split among programs. If you can change the kernel, you do not have to wait for a library.
#
# **By the end you can** change an attention kernel without breaking it, and say which attention to
# take when.
#
# **You need** notebooks {causal-mask} and {heads-and-tiles}.
#
# | section | about minutes |
# |---|---|
# | Where attention stands in 2026 | 10 |
# | Three variations | 55 |
# | Beginning and end | 2 |
# | **Together, an estimate** | 67 |

# %%
from course import check, draw, hint, lower
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Where attention stands in 2026
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
#   warps. It goes further in two ways. Barriers make the two consumer groups take turns, which is
#   called *ping-pong*: one is at its softmax while the other has the tensor cores. Nothing in v5
#   does that, as its sketch showed. And within a group, the first dot of the next tile already runs
#   under the softmax of this one.
# - FA4 is *FlashAttention-4*, for Blackwell. On these GPUs tensor cores became faster and the
#   special functions did not, so powers bind. FA4 computes a part of them with a polynomial on
#   the ordinary arithmetic units, and skips a rescaling where the maximum has hardly grown.
# - FA3 and FA4 are packages of their own. Once one is installed,
#   `torch.nn.attention.activate_flash_attention_impl("FA4")` makes it PyTorch's `flash`.
#
# Could Triton do what FA3 does? `tl` has no words for two groups that wait for one another, or for
# a dot that is left running. *Gluon* has: it is a language one level below, in the same package,
# in which you choose the layouts, the buffers and the barriers yourself. Notebook
# {gluon-copies} begins with that.

# %% [markdown]
# Which jobs does FA4 give its warps? Triton finds them by itself. On a B200 (sm_100) a single warp
# can start a dot, and its result lies in tensor memory, so Triton splits a loop with
# `warp_specialize=True` finer there than on an H200. Here is such a loop, with descriptors made in
# the kernel. It is only compiled: a launch would need memory for the descriptors, which
# `triton.set_allocator` provides. On sm_90 it does not compile, since its `q` comes by pointers.


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
# Four jobs: softmax, rescaling, starting dots, and loading. FA4 makes this division by hand.

# %% [markdown]
# ## Three variations
#
# Here are three exercises. Each changes your loop in a way that real models do.
#
# The first is a sliding window. Where texts are long, some layers let each query see only the last
# few keys up to its own, a **window**. The work then grows with N and no longer with N x N, if the
# tiles outside the window are skipped on both sides. Look at program 5.

# %%
draw.attention(64, 64, block_m=8, block_n=8, causal=True, window=20, program=5)

# %% [markdown]
# ### Exercise {sliding-window} · A sliding window (core)
#
# Query m sees the keys n with m + N - M - `window` < n <= m + N - M. Find the loop's two ends and
# the mask. Tiles that no query of the program sees must not be read: bytes are counted. In PyTorch:
# `seen = ones.tril(N - M) - ones.tril(N - M - window)`, with `ones = torch.ones(M, N)`.


# %%
# exercise sliding-window
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
check("sliding-window", window_kernel)

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
# The first key may lie below 0, where there is none. The loop need not begin at a multiple of
# `BLOCK_N`.
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
# ### Exercise {bias-by-distance} · A bias by distance (core)
#
# The score of query m and key n is the dot product times `scale`, minus `slope` times the distance
# between n and m + N - M. The loop counts in powers of two. In PyTorch, with
# `distance = (torch.arange(M)[:, None] + N - M - torch.arange(N)).abs()`:
# `torch.softmax(q @ k.mT * scale - slope * distance, dim=-1) @ v`.


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
# The third is one query with very many keys. A model that writes has one query per head and step,
# and thousands of keys. Splitting the keys over programs is split-KV. Each program attends to its
# part and leaves a result and a log-sum-exp; a second kernel merges them. With one query there is
# no need for `tl.dot`: a multiplication and a sum over the tile do it, and memory is what binds.

# %% [markdown]
# ### Exercise {split-the-keys} · Split the keys (core)
#
# `q` is `[D]`, `k` and `v` are `[N, D]`, all float16. `part_kernel` takes 64 keys per program:
# store its log-sum-exp. Then let `merge_kernel` make the result of all parts, `[D]`. In PyTorch:
# `torch.softmax(k @ q * D**-0.5, dim=0) @ v`.


# %%
# exercise split-the-keys
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
check("split-the-keys", split_keys)

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
# ## What you can do now
#
# You can change the kernel of the course, and know what else there is. Which of the variations does
# your own model need?

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/24-variations.py](../solutions/24-variations.py) has all answers.
#
# **Next:** [25, the finished kernel](25-finished-kernel.ipynb).
