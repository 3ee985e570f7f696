# %% [markdown]
# # 24 · Variations, and where attention stands
#
# Models keep asking for attention that is slightly different: a window, texts of any length, one token
# more. If you can change the kernel, you do not have to wait for a library.
#
# **By the end you can** change an attention kernel without breaking it, and say which attention to
# take when.
#
# **You need** notebooks {causal-mask} and {heads-and-tiles}.
#
# | section | about minutes |
# |---|---|
# | Where attention stands in 2026 | 3 |
# | Three variations | 65 |
# | Beginning and end | 2 |
# | **Together, an estimate** | 70 |

# %%
from course import check, draw, hint
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
# | you have | take |
# |---|---|
# | attention as it is, causal or not, heads in groups | `scaled_dot_product_attention`, with cuDNN or `flash` |
# | a score that is changed or hidden by its place | FlexAttention |
# | texts of different lengths | `varlen`, or a kernel as below |
# | one more token, and a long cache | a library with split-KV, or a kernel as below |
# | anything that these do not say, on any GPU | the kernel of notebook {finished-kernel}, with your lines in it |
# | all that an H100 or H200 has | cuDNN or FA3 and, to change it, notebook {fastest-kernel} |
#
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
# - FA3 in the list is *FlashAttention-3*, for Hopper. Like v5 it has producer and consumer warps.
#   It goes further in two ways. Barriers make the two consumer groups take turns, which is called
#   *ping-pong*: one is at its softmax while the other has the tensor cores. Nothing in v5 does
#   that, as notebook {heads-and-tiles} said. And within a group, the first dot of the next tile
#   already runs under the softmax of this one.
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
# The second is texts of different lengths. Padded to the longest text of its batch, each computes with
# padding. So put them one after another, `[all tokens, heads, D]`, and give the kernel a tensor that says
# where each begins. Libraries call it `cu_seqlens`, cumulative lengths: lengths of 3, 5 and 2 are 0, 3, 8, 10.
# The kernel loads its own two numbers from there, and the rest is the loop that you know.

# %% [markdown]
# ### Exercise {texts-of-any-length} · Texts of any length (core)
#
# `q`, `k`, `v` and the result are `[all tokens, heads, D]`, contiguous float16, and `starts` has an int32 for
# each text and one more. Program (i, t, h) takes the queries from i * BLOCK_M on, of head h of text t. A
# query sees the keys of its own text, up to its own. The grid is made for the longest text. What is the
# `length` of this one, and where does its head `begin`, in 64 bits? In PyTorch: causal attention for each text
# alone.


# %%
# exercise texts-of-any-length
@triton.jit
def texts_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, starts_ptr, n_heads, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    text, head, dims = tl.program_id(axis=1), tl.program_id(axis=2), tl.arange(0, D)
    first_row = tl.program_id(axis=0) * BLOCK_M
    rows, stride = first_row + tl.arange(0, BLOCK_M), n_heads * D  # stride: from token to token
    # about 3 lines from here
    first = tl.load(starts_ptr + text)
    length = tl.load(starts_ptr + text + 1) - first
    begin = first.to(tl.int64) * stride + head * D
    # to here
    q_ptr, k_ptr, v_ptr, out_ptr = q_ptr + begin, k_ptr + begin, v_ptr + begin, out_ptr + begin
    offsets = rows[:, None] * stride + dims[None, :]
    q = tl.load(q_ptr + offsets, mask=rows[:, None] < length, other=0.0)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    end = tl.where(first_row < length, tl.minimum(first_row + BLOCK_M, length), 0)
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k_offsets = cols[:, None] * stride + dims[None, :]
        k = tl.load(k_ptr + k_offsets, mask=cols[:, None] < length, other=0.0)
        v = tl.load(v_ptr + k_offsets, mask=cols[:, None] < length, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(cols[None, :] <= rows[:, None], scores, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, axis=1))
        power, rescale = tl.exp(scores - new_m[:, None]), tl.exp(m - new_m)
        total = total * rescale + tl.sum(power, axis=1)
        acc = acc * rescale[:, None] + tl.dot(power.to(tl.float16), v)
        m = new_m
    tl.store(out_ptr + offsets, acc / total[:, None], mask=rows[:, None] < length)


# %%
check("texts-of-any-length", texts_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `starts_ptr + text` is where this text begins, and the next number where it ends.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Token `first` begins at `first * stride`, and head h of it `head * D` further on. Their product may pass
# 2^31.
#
# </details>

# %% [markdown]
# The third is what a model does while it writes: one query per head, and thousands of keys. You know both
# halves of it. Packing makes the heads of a group the rows of one tile, and split-KV gives the keys of a
# head to several programs. Put together, program (part, key head) lets a group attend to 64 keys, and
# leaves a result and a log-sum-exp for each head; a second kernel merges them.

# %% [markdown]
# ### Exercise {split-the-keys} · One more token (core)
#
# `q` is `[heads, D]`, `k` and `v` are `[key heads, N, D]`, all contiguous float16. `part_kernel`
# runs on (parts, key heads): find its heads and keys, and store each head's result and log-sum-exp,
# in `[heads, parts, D]` and `[heads, parts]`. Then let `merge_kernel`, one program per head, make
# the result, `[heads, D]`. In PyTorch: repeat k and v by `repeat_interleave`, then `softmax(k @ q *
# D**-0.5) @ v` for each head.


# %%
# exercise split-the-keys
@triton.jit
def part_kernel(q_ptr, k_ptr, v_ptr, parts_ptr, lse_ptr, n_keys, group, scale, D: tl.constexpr):
    part, key_head = tl.program_id(axis=0), tl.program_id(axis=1).to(tl.int64)
    rows, dims, cols = tl.arange(0, 16), tl.arange(0, D), part * 64 + tl.arange(0, 64)
    own, there = (rows < group)[:, None], (cols < n_keys)[:, None]
    # about 2 lines from here
    heads = key_head * group + rows  # [16], of which `group` are there
    k_offsets = (key_head * n_keys + cols)[:, None] * D + dims[None, :]  # [64, D]
    # to here
    q = tl.load(q_ptr + heads[:, None] * D + dims[None, :], mask=own, other=0.0)
    k = tl.load(k_ptr + k_offsets, mask=there, other=0.0)
    scores = tl.dot(q, tl.trans(k)) * scale
    scores = tl.where((cols < n_keys)[None, :], scores, -float("inf"))  # [16, 64]
    m = tl.max(scores, axis=1)
    power = tl.exp(scores - m[:, None])
    total = tl.sum(power, axis=1)
    v = tl.load(v_ptr + k_offsets, mask=there, other=0.0)
    out = tl.dot(power.to(tl.float16), v) / total[:, None]
    # about 3 lines from here
    places = heads * tl.num_programs(axis=0) + part
    tl.store(parts_ptr + places[:, None] * D + dims[None, :], out, mask=own)
    tl.store(lse_ptr + places, m + tl.log(total), mask=rows < group)
    # to here


@triton.jit
def merge_kernel(parts_ptr, lse_ptr, out_ptr, n_parts, D: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    head, numbers, dims = tl.program_id(axis=0), tl.arange(0, BLOCK_SIZE), tl.arange(0, D)
    places, there = head * n_parts + numbers, numbers < n_parts
    lse = tl.load(lse_ptr + places, mask=there, other=-float("inf"))  # [BLOCK_SIZE]
    parts = tl.load(parts_ptr + places[:, None] * D + dims[None, :], mask=there[:, None], other=0.0)
    # about 3 lines from here
    weight = tl.exp(lse - tl.max(lse, axis=0))
    out = tl.sum(weight[:, None] * parts, axis=0) / tl.sum(weight, axis=0)
    tl.store(out_ptr + head * D + dims, out)
    # to here


def split_keys(q, k, v):
    (heads, d), (key_heads, n, _), n_parts = q.shape, k.shape, triton.cdiv(k.shape[1], 64)
    parts = torch.empty(heads, n_parts, d, dtype=torch.float32, device=q.device)
    lse, out = torch.empty_like(parts[:, :, 0]), torch.empty_like(q)
    grid, block = (n_parts, key_heads), triton.next_power_of_2(n_parts)
    part_kernel[grid](q, k, v, parts, lse, n, heads // key_heads, d**-0.5, D=d)
    merge_kernel[(heads,)](parts, lse, out, n_parts, D=d, BLOCK_SIZE=block)
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
# In the merge each part of a head counts exp(lse). Subtract the largest lse first, as in every softmax.
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
