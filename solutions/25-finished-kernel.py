# %% [markdown]
# # 25 · The finished kernel
#
# Your kernel of notebook {causal-mask} is right. But it takes one layout and no batch, and masks
# where no mask is needed. The kernel that the course ships takes what a model brings. You make the
# two edits that lead to it, see what they buy, and then read the whole file.
#
# **By the end you can** turn an attention kernel for one layout into one for any, say what each of
# its flags buys, and explain every line of a finished kernel and its launcher.
#
# **You need** notebook {heads-and-tiles}.
#
# | section | about minutes |
# |---|---|
# | Your kernel in the papers' names | 15 |
# | Any strides, and the log-sum-exp | 25 |
# | Masks that are not there | 25 |
# | The launcher | 7 |
# | The whole file | 1 |
# | Beginning and end | 2 |
# | **Together, an estimate** | 75 |

# %%
from course import DEVICE, check, draw, heads, hint, lower, recorded, verify
from kernels.attention.inputs import prepare
from kernels.attention.settings import settings_on
from kernels.attention.tl import flash_attention_kernel
from kernels.device import LN2, LOG2E, finite
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Your kernel in the papers' names
#
# [kernels/attention/tl.py](../kernels/attention/tl.py) calls things as the papers do, and from here
# on you do too: S for `scores`, P for `power`, m, l for `total`, O for `acc`, alpha for `rescale`.
# `scale2` is `scale_log2`, and `whole` is `masked`: the key at which masked tiles begin. Where is
# the border of the two loops? You found `end` in exercise {causal-attention}, and `split_kernel`
# had `whole`; here are both.


# %%
@triton.jit
def borders(
    first_row, lengths,
    EVEN_N: tl.constexpr, IS_CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    seqlen_q, seqlen_k = lengths
    if IS_CAUSAL:  # row i sees keys up to i + seqlen_k - seqlen_q: the last row sees all
        first_row_sees = first_row + (seqlen_k - seqlen_q) + 1
        masked = tl.maximum(tl.minimum(first_row_sees, seqlen_k), 0) // BLOCK_N * BLOCK_N
        end = tl.maximum(tl.minimum(first_row_sees + BLOCK_M - 1, seqlen_k), 0)
    else:
        masked = seqlen_k // BLOCK_N * BLOCK_N
        end = masked if EVEN_N else seqlen_k
    return masked, end


# %% [markdown]
# **Predict:** both lengths are 256, tiles are 64 x 64, and this is the block with `first_row` = 128.
# What are `masked` and `end`? And what if there are only 100 keys for the 256 queries?
#
# <details>
# <summary>Answer</summary>
#
# The last query sees the last key, so query i sees the keys up to i + N - M, which are one more in
# number. The first of this block sees 129. `masked` is 128, and `end` is min(129 + 63, 256) = 192:
# two whole tiles, and one with a mask. With 100 keys it sees 128 + 100 - 256 + 1, which is below 0:
# no key. Then `masked` is 0, and `end` is max(min(-27 + 63, 100), 0) = 36: one masked tile, for the
# later rows. How so? Each query sees one key more than the one before it, so the last of a tile
# sees BLOCK_M - 1 more than the first. What the first one sees, all see, and `// BLOCK_N * BLOCK_N`
# leaves the whole tiles of it. The outer maximum matters for `masked`. In the block with
# `first_row` = 0 the first query "sees" -155 keys, and `masked` would be -128 (in Triton `//`
# rounds toward 0): the second loop would begin before the first key, where no mask looks. In `end`
# it only turns a negative number into 0: the loop is empty either way, and a count of keys is never
# negative. The inner minimum spares iterations in `end`: where the last tile sticks out past the
# last query, its last row would count keys past the last one. In `masked` it guards against
# programs that have no query at all. The course's launchers start none, but a caller in C may round
# the grid up: such a program would take keys past the end for whole tiles, and whole tiles are read
# without a mask.
#
# </details>

# %% [markdown]
# The loop is your `attend`. Four things in it are new, and the place where `v` is loaded needs a reason.
#
# - `k_ptrs` and `v_ptrs` are computed once, before the loop, and then move on by `BLOCK_N` rows, so
#   `cols` stays the same small numbers. Your `attend` computed the offsets anew for each tile. In a
#   tile of 128 x 128 that takes 33 more registers, and a thirteenth more instructions. An index is
#   widened to 64 bits before it meets a stride. `tl.cast` does what `.to` does, and also takes a
#   number that Triton knows as a constant.
# - `k` has the shape `[BLOCK_HEADDIM, BLOCK_N]`: it is addressed transposed as it is read, where
#   you wrote `tl.trans(k)`. Neither is faster. Compiled for an H200, both take the same registers
#   and the same instructions, and all loads are wide. It is a matter of taste. The second dot takes
#   v as it lies, so v's `dims` go along the other axis.
# - `O = O * alpha[:, None]` is a statement of its own, where you gave it to the dot as its third
#   argument. That compiles to the same.
# - `v` is loaded after the softmax, where it is needed. At a depth of 1 the tile of v then takes the
#   place of k's in shared memory, and a tile of 128 x 64 needs 48 KB and not 64. At a depth of 2 or
#   more both are loaded iterations ahead, and it makes no difference where the line stands.
# - `last_col` depends on nothing in the loop and is computed in it, beside the comparison that it is
#   for. The compiler moves such values out by itself. Moved by hand, it saves no register and ten of
#   3,900 lines of machine code.
#
# `finite(m_new)` is the `base` that you wrote: 0 where the maximum is -inf. Only a mask can hide all keys
# so far from a row, so whole tiles go without.


# %%
@triton.jit
def attend_keys(
    q, O, m, l, k_start, v_start, stride_kn, stride_vn, first_col, end_col, first_row, lengths,
    dim_mask, scale_log2, MASKED: tl.constexpr, IS_CAUSAL: tl.constexpr,
    BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    seqlen_q, seqlen_k = lengths
    rows, cols, dims = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_HEADDIM)
    k_ptrs = k_start + (first_col + cols[None, :]).to(tl.int64) * stride_kn
    v_ptrs = v_start + (first_col + cols[:, None]).to(tl.int64) * stride_vn
    k_ptrs += dims[:, None]  # [BLOCK_HEADDIM, BLOCK_N]: transposed as it is read
    v_ptrs += dims[None, :]  # [BLOCK_N, BLOCK_HEADDIM]
    for start in range(first_col, end_col, BLOCK_N):
        col_mask = (not MASKED) | (cols < seqlen_k - start)
        k = tl.load(k_ptrs, mask=dim_mask[:, None] & col_mask[None, :], other=0.0)
        S = tl.dot(q, k)  # [BLOCK_M, BLOCK_N], not yet scaled
        if MASKED:
            visible = col_mask[None, :]
            if IS_CAUSAL:
                last_col = (first_row + rows)[:, None] + (seqlen_k - seqlen_q)
                visible = visible & (start + cols[None, :] <= last_col)
            S = tl.where(visible, S, -float("inf"))
        m_new = tl.maximum(m, tl.max(S, axis=1) * scale_log2)  # [BLOCK_M]
        base = finite(m_new) if MASKED else m_new  # only a mask makes a row of -inf
        P = tl.exp2(S * scale_log2 - base[:, None])  # a multiply-add, an exp2
        alpha = tl.exp2(m - base)  # [BLOCK_M]
        l = l * alpha + tl.sum(P, axis=1)
        O = O * alpha[:, None]
        v = tl.load(v_ptrs, mask=col_mask[:, None] & dim_mask[None, :], other=0.0)
        O = tl.dot(P.to(v.dtype), v, O)  # [BLOCK_M, BLOCK_HEADDIM]
        m = m_new
        k_ptrs += tl.cast(BLOCK_N, tl.int64) * stride_kn
        v_ptrs += tl.cast(BLOCK_N, tl.int64) * stride_vn
    return O, m, l


# %% [markdown]
# P is rounded to the dtype of v, as the dot asks; S, m, l and O stay in float32. In a masked tile a
# key past the end is read as 0, and 0 is a score like any other. Only -inf counts for nothing, so
# `col_mask` is needed twice, for the load and for S. A whole tile has no such key, and `not MASKED`
# makes all of `col_mask` true there. `IS_CAUSAL` is a constant too: compiled without it, a kernel
# compares no row with a key.
#
# And the end. `LN2` and `LOG2E` are globals of a file. A kernel may use a global only if it is made
# with `tl.constexpr(...)`, so that its value cannot change between compilation and launch.


# %%
@triton.jit
def finish(O, m, l, lse_ptrs, out_ptr, out_ptrs, row_mask, q_mask):
    l = tl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
    tl.store(lse_ptrs, m * LN2 + tl.log(l), mask=row_mask)
    out = (O * (1.0 / l)[:, None]).to(out_ptr.dtype.element_ty)  # one division per row
    tl.store(out_ptrs, out, mask=q_mask)


# %% [markdown]
# Why `O * (1.0 / l)[:, None]`, and not `O / l[:, None]`? A division takes several instructions.
# Written so, there is one per row, and one multiplication per element. The log-sum-exp is what you
# derived in notebook {powers-of-two}: m counts in powers of two, and `m * LN2` in natural
# logarithms, as a caller expects. For a row that sees no key it is -inf: m is -inf, and the
# logarithm of 1 is 0. Both stores take masks, since what lies past the last query or `head_dim` has
# no place in the outputs. `element_ty` is what a pointer points to. Without `.to(...)` nothing
# would change, since a store converts to the type of its pointer; it says in the code where the
# result is rounded.

# %% [markdown]
# ## Any strides, and the log-sum-exp
#
# A model gives q, k and v as they lie: batches, heads and rows in any order, with grouped heads. You
# could copy each to the layout that your kernel wants. What would that cost? A copy reads and writes
# all three. Take 4 batches of 16 heads, 4,096 queries and D = 128, in float16:

# %% tags=["nbval-check-output"]
speeds = recorded("flash_attention_128")
copied = 2 * 3 * (4 * 16 * 4096 * 128) * 2  # bytes
copies, kernel = copied / speeds.copy_tb_s / 1e9, speeds.at("flash_attention_v3", 4096).ms
print(f"copies {copies:.3f} ms, beside v3's {kernel:.2f} ms: {copies / kernel:.0%} more")

# %% [markdown]
# Strides cost a few multiplications per program, and they are not in the loop. The kernel gets
# three for each tensor, from batch to batch, from head to head and from row to row, as a tuple. So
# there are four arguments and not twelve, and the first lines take them apart. The two lengths are
# a tuple as well, since they are needed together: what a row sees under a causal mask depends on
# both.
#
# The head dimension need not be a power of two, but `tl.arange` counts to powers of two alone. So
# `BLOCK_HEADDIM` is the next one, and the lanes past `head_dim` are read as 0 in q, k and v, where
# they add nothing to a product. Past the last row there is nothing to read either: a lane of q, k
# or v is loaded where both its row and its dimension exist.
#
# The grid is (blocks, heads, batch), so `tl.program_id(2)` is the batch. Blocks come first, since
# no other axis takes more than 65,535 programs, and since neighbors along it start together and
# read the same keys. The finished kernel counts heads over all batches instead, and calls that
# number `pair`; divided by `nheads`, it gives the batch, and the remainder is the head. A caller
# may then launch (blocks, batch * heads, 1) as well, and gets the same pairs. A pair is also where
# a head's log-sum-exps begin: `lse` has a row of `seqlen_q` numbers for each, `stride_lse` apart,
# since a caller in C leaves room between them. `batch * stride_qb` may pass 2^31, so batch and head
# are made 64 bits wide first. `first_row.to(tl.int64) * stride_qm` is one number and computed once;
# only the small `rows` are multiplied for each lane.

# %% [markdown]
# ### Exercise {any-strides} · Any strides (core)
#
# Find this program's head in q, k and v, and where its row of `lse` begins. k and v have fewer heads:
# `HEADS_PER_KEY_HEAD` heads of q in a row share one. Each tensor has strides of its own, and each
# index that meets one is 64 bits wide. The exercise launches (blocks, heads, batch), for lengths and
# head dimensions that do not fill their tiles, and compares the output and the log-sum-exp.


# %%
# exercise any-strides
@triton.jit
def strided_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads, stride_q, stride_k, stride_v, stride_out,
    lengths, stride_lse, head_dim, IS_CAUSAL: tl.constexpr, BLOCK_HEADDIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEADS_PER_KEY_HEAD: tl.constexpr,
):  # fmt: skip
    (stride_qb, stride_qh, stride_qm), (stride_kb, stride_kh, stride_kn) = stride_q, stride_k
    (stride_vb, stride_vh, stride_vn), (stride_ob, stride_oh, stride_om) = stride_v, stride_out
    seqlen_q, seqlen_k = lengths
    first_row = tl.program_id(axis=0) * BLOCK_M
    rows, dims = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_HEADDIM)  # rows: from first_row on
    row_mask, dim_mask = rows < seqlen_q - first_row, dims < head_dim
    q_mask = row_mask[:, None] & dim_mask[None, :]  # [BLOCK_M, BLOCK_HEADDIM]
    pair = tl.program_id(axis=2) * tl.num_programs(axis=1) + tl.program_id(axis=1)
    batch, head = (pair // nheads).to(tl.int64), (pair % nheads).to(tl.int64)
    # about 6 lines from here
    key_head = head // HEADS_PER_KEY_HEAD
    q_start = q_ptr + batch * stride_qb + head * stride_qh + first_row.to(tl.int64) * stride_qm
    q_ptrs = q_start + rows[:, None].to(tl.int64) * stride_qm + dims[None, :]
    k_start = k_ptr + batch * stride_kb + key_head * stride_kh
    v_start = v_ptr + batch * stride_vb + key_head * stride_vh
    lse_ptrs = lse_ptr + pair.to(tl.int64) * stride_lse + first_row + rows
    # to here
    q = tl.load(q_ptrs, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_HEADDIM]
    masked, end = borders(first_row, lengths, False, IS_CAUSAL, BLOCK_M, BLOCK_N)
    scale_log2 = scale * LOG2E  # exp(scale * t) = exp2(scale_log2 * t)
    O = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of S * scale_log2
    l = tl.zeros([BLOCK_M], tl.float32)
    for MASKED in tl.static_range(2):  # the loop is compiled twice: without a mask, and with one
        first_col, end_col = (masked, end) if MASKED else (0, masked)
        O, m, l = attend_keys(
            q, O, m, l, k_start, v_start, stride_kn, stride_vn, first_col, end_col, first_row,
            lengths, dim_mask, scale_log2, MASKED, IS_CAUSAL, BLOCK_HEADDIM, BLOCK_M, BLOCK_N,
        )  # fmt: skip
    out_start = out_ptr + batch * stride_ob + head * stride_oh + first_row.to(tl.int64) * stride_om
    out_ptrs = out_start + rows[:, None].to(tl.int64) * stride_om + dims[None, :]
    finish(O, m, l, lse_ptrs, out_ptr, out_ptrs, row_mask, q_mask)


# %%
check("any-strides", strided_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Heads 0 to `HEADS_PER_KEY_HEAD - 1` share key head 0, and as many more share the next one.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The output's lines, below, show the pattern: where the head begins, then the tile's first row, then
# a row and a column for each lane. For k and v only where the head begins is asked for; `attend_keys` does
# the rest.
#
# </details>

# %% [markdown]
# Every address is found in two steps. The strides of batch, head and row lead to where the tile
# begins, which is one number per program. From there a row and a dimension lead to each lane;
# neighbors along the dimension are 1 apart, so it needs no stride. In k and v the loop moves along
# the rows, so `k_start` and `v_start` end at the head. k and v take the head that several heads of
# q share: these lie in a row, so `head // HEADS_PER_KEY_HEAD` is its number.
#
# You called `attend` twice in notebook {causal-mask}, and here a loop does it, so that the call is
# written once. `tl.static_range` goes through its numbers while the kernel is compiled, so `MASKED`
# is a constant, and what stands in the loop is compiled once for 0 and once for 1. The first copy
# goes over the whole tiles, from key 0 to `masked`, and the second from there to `end`.

# %% [markdown]
# ## Masks that are not there
#
# Your kernel compares rows, keys and dimensions with their ends even where the tiles fill them. A
# flag that is known at compile time can say so: `EVEN_M | (...)` with `EVEN_M` true is true for all
# lanes, whatever stands on the right, so the mask is gone. What does that buy? The most expensive
# thing a mask can cause is a narrow load, as you know from notebook {softmax-of-a-row}. A wide load
# takes eight float16 that lie side by side.
#
# **Predict:** the tiles of q, k and v are read along the head dimension. Which of the three masks,
# of rows, of keys and of `head_dim`, can make these loads narrow?
#
# <details>
# <summary>Answer</summary>
#
# The last one alone. Eight neighbors belong to the same row and the same key, so the masks of rows
# and of keys are the same for all of them. `head_dim` can end within the eight, unless the compiler
# knows that 16 divides it.
#
# </details>

# %% [markdown]
# So lower the course's kernel with and without each flag, and see what else they change. The last two
# lines are for a `head_dim` of which nothing is known.


# %%
def lowered(head_dim, *true):
    flags = {name: name in true for name in ("EVEN_M", "EVEN_N", "EVEN_HEADDIM")}
    tile = {"BLOCK_HEADDIM": 64, "BLOCK_M": 64, "BLOCK_N": 64, "HEADS_PER_KEY_HEAD": 1}
    args = ["*fp16:16"] * 4 + ["*fp32:16", "fp32", "i32"] + [("i32:16",) * 3] * 4
    args += [("i32", "i32"), "i32", head_dim]  # lengths, stride_lse
    tile |= {"IS_CAUSAL": False, "num_stages": 2, "target": "sm_90"}
    return lower(flash_attention_kernel, *args, **flags, **tile)


# %% tags=["nbval-check-output"]
tries = [("i32:16",), ("i32:16", "EVEN_M"), ("i32:16", "EVEN_N"), ("i32",), ("i32", "EVEN_HEADDIM")]
for head_dim, *true in tries:
    ptx = lowered(head_dim, *true).counts["ptx"]
    loads, wide = ptx["global loads"], ptx["vectorized global loads"]
    counted = f"{loads:3} loads, {wide} of them wide; {ptx['asynchronous copies']:2} copies"
    print(f"{head_dim:6} {' '.join(true) or 'no flag':12}: {counted}; {ptx['wgmma']:2} dot steps")

# %% [markdown]
# `EVEN_M` changes none of these numbers. It removes one comparison per row, outside the loop: next
# to nothing. `EVEN_N` halves the copies and the dot steps, and not because loads become wider: a
# whole loop is gone. Without a causal mask all whole tiles come before `masked`, and only a last
# one that sticks out comes after it. With keys that fill their tiles there is none: `end` is
# `masked`, and a loop from `masked` to `masked` has no iteration. The compiler sees that and leaves
# it out. And `EVEN_HEADDIM` matters where nothing is known of `head_dim`. Without it all loads are
# narrow there, and no copy is left: an asynchronous copy takes 4 bytes at least, so the pipeline is
# lost as well.
#
# Why is the flag a constant, and the length is not? With a constant length, every new length would be
# compiled anew. The code depends only on whether the tiles divide it. `nheads` is only divided by, so
# the finished kernel names it in `do_not_specialize`: otherwise Triton would compile one kernel for
# `nheads` = 1, one for multiples of 16 and one for the rest, for no gain. By the same rule `lengths`
# could be named there too, and a tuple can be. It is not, and costs little: lengths that fill their
# tiles are told apart from others by the flags anyway, and what is left are a length of 1, and one
# that 16 divides and the tile does not. `HEADS_PER_KEY_HEAD` could be
# a number as well, and is one in v1. A model has one value of it, so a constant compiles nothing
# twice, and a division by 1 or 4 becomes nothing or a shift.

# %% [markdown]
# ### Exercise {even-flags} · Masks that are not there (core)
#
# Give your kernel the three flags: each true where the tiles fill that axis. `borders` takes
# `EVEN_N` and does the rest. The blocks are turned around under a causal mask already: the longest
# programs of a head start first, and short ones fill the gaps at the end. The exercise runs lengths
# that do and do not fill their tiles, and compiles a launch with all flags: no comparison and no
# second loop may be left.


# %%
# exercise even-flags
@triton.jit(do_not_specialize=["nheads"])
def even_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads, stride_q, stride_k, stride_v, stride_out,
    lengths, stride_lse, head_dim, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr,
    EVEN_HEADDIM: tl.constexpr, IS_CAUSAL: tl.constexpr, BLOCK_HEADDIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEADS_PER_KEY_HEAD: tl.constexpr,
):  # fmt: skip
    (stride_qb, stride_qh, stride_qm), (stride_kb, stride_kh, stride_kn) = stride_q, stride_k
    (stride_vb, stride_vh, stride_vn), (stride_ob, stride_oh, stride_om) = stride_v, stride_out
    seqlen_q, seqlen_k = lengths
    block = tl.program_id(axis=0)
    pair = tl.program_id(axis=2) * tl.num_programs(axis=1) + tl.program_id(axis=1)
    batch, head = (pair // nheads).to(tl.int64), (pair % nheads).to(tl.int64)
    key_head = head // HEADS_PER_KEY_HEAD
    rows, dims = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_HEADDIM)
    if IS_CAUSAL:  # the last queries see most keys: they begin first, short programs fill the end
        block = tl.num_programs(axis=0) - 1 - block
    first_row = block * BLOCK_M
    # about 3 lines from here
    row_mask = EVEN_M | (rows < seqlen_q - first_row)
    dim_mask = EVEN_HEADDIM | (dims < head_dim)
    masked, end = borders(first_row, lengths, EVEN_N, IS_CAUSAL, BLOCK_M, BLOCK_N)
    # to here
    q_mask = row_mask[:, None] & dim_mask[None, :]  # [BLOCK_M, BLOCK_HEADDIM]
    q_start = q_ptr + batch * stride_qb + head * stride_qh + first_row.to(tl.int64) * stride_qm
    q_ptrs = q_start + rows[:, None].to(tl.int64) * stride_qm + dims[None, :]
    k_start = k_ptr + batch * stride_kb + key_head * stride_kh
    v_start = v_ptr + batch * stride_vb + key_head * stride_vh
    lse_ptrs = lse_ptr + pair.to(tl.int64) * stride_lse + first_row + rows
    q = tl.load(q_ptrs, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_HEADDIM]
    O = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of S * scale_log2
    l = tl.zeros([BLOCK_M], tl.float32)
    for MASKED in tl.static_range(2):  # the loop is compiled twice: without a mask, and with one
        first_col, end_col = (masked, end) if MASKED else (0, masked)
        O, m, l = attend_keys(
            q, O, m, l, k_start, v_start, stride_kn, stride_vn, first_col, end_col, first_row, lengths,
            dim_mask, scale * LOG2E, MASKED, IS_CAUSAL, BLOCK_HEADDIM, BLOCK_M, BLOCK_N,
        )  # fmt: skip
    out_start = out_ptr + batch * stride_ob + head * stride_oh + first_row.to(tl.int64) * stride_om
    out_ptrs = out_start + rows[:, None].to(tl.int64) * stride_om + dims[None, :]
    finish(O, m, l, lse_ptrs, out_ptr, out_ptrs, row_mask, q_mask)


# %%
check("even-flags", even_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# A comparison that need not be made stands behind an `|`: `EVEN_M | (...)`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The rows of the tile are `first_row + rows`, so `rows` ends at `seqlen_q - first_row`.
#
# </details>

# %% [markdown]
# What does all of it buy in time? v1, in the same file, is your `attention_kernel` of notebook
# {loop-over-keys} with strides and grouped heads, to be read first, and for the others to be
# measured against. It has one loop, with a mask and `tl.exp` on every tile, computes even the tiles
# that a causal mask hides, and starts its short programs first. Its row and key numbers are made 64
# bits wide at once, so no product with a stride overflows. It computes a head's number from batch
# and head, which its grid has on two axes, and its rows of `lse` follow one another without a gap.
# (It could take `nheads` from `tl.num_programs(axis=1)`. Since v1 is there to be read, the number has
# a name, and there is no `do_not_specialize`.) At the end it divides each element by l, as you did.
#
# v2 has what you have now, and the same tiles. v3 is v2 with larger ones. Their recorded TFLOP/s,
# at 4,096 queries and keys:

# %% tags=["nbval-check-output"]
for name in ("flash_attention_128", "flash_attention_128_causal"):
    versions = {f"v{version}": f"flash_attention_v{version}" for version in (1, 2, 3)}
    each = [f"{key} {recorded(name).at(run, 4096).speed:.0f}" for key, run in versions.items()]
    print(f"{name:26}: {', '.join(each)}")

# %% [markdown]
# ## The launcher
#
# What stands around the kernel? A kernel believes what it is given: with wrong addresses or sizes
# it reads other memory, and says nothing. So `prepare` first checks the inputs, and names in one
# sentence the tensor that does not fit, and why. It refuses
#
# - anything but dense tensors, and tensors on the CPU where the kernel is compiled, since a GPU
#   cannot read there,
# - an unknown `layout`, or other than four axes: the strides would mean something else,
# - dtypes other than float16 and bfloat16, which tensor cores multiply exactly, and bfloat16 on an
#   NVIDIA GPU before compute capability 8.0, which does not compute in it,
# - k and v that differ, since one length and one mask serve both, and a q that differs from k in
#   device or dtype, since one GPU reads both and a dot takes operands of one dtype,
# - another batch or head dimension in k than in q, and heads that the key heads cannot share
#   evenly: some query would have no key of its own,
# - a head dimension below 16, the least that a dot takes, or above 256, the most that registers
#   hold,
# - more batches or heads than an axis of the grid takes, and more than 2^30 rows, since the kernel
#   adds two row numbers in 32 bits,
# - a last stride that is not 1, since the kernel is given none,
# - a scale that is not positive, since `tl.max(S) * scale_log2` is the maximum of the scaled scores
#   only then, or not finite.
#
# Then it allocates the outputs, since a kernel only fills memory that it is given: `out`, contiguous,
# and `lse`, one number per query, in float32, since it goes into an exponent later.


# %%
def launched(q, k, v, causal=False, kernel=flash_attention_kernel):
    launch = prepare(kernel, q, k, v, causal, None, "bhmd")  # checks, out and lse
    settings = settings_on(launch.q)  # tiles, warps and depth for this GPU
    with torch.cuda.device_of(launch.q):
        kernel[launch.grid(settings)](
            launch.q, launch.k, launch.v, launch.out, launch.lse, launch.scale, q.shape[1],
            *launch.strides, launch.lengths, q.shape[2], q.shape[3], **launch.constants(settings),
        )  # fmt: skip
    return launch.out


# %% tags=["nbval-check-output"]
q, k = (torch.zeros(2, *shape, device=DEVICE) for shape in ((6, 45, 80), (4, 100, 80)))
for wrong in [(q, k, k), (q.half(), k.half(), k.half()), (k.half().mT, k.half().mT, k.half().mT)]:
    try:
        prepare(flash_attention_kernel, *wrong, False, None, "bhmd")
    except (TypeError, ValueError) as error:
        print(error)

# %% [markdown]
# `launch` has the inputs, the outputs and what a kernel wants to know of them. With the other
# layout, "bmhd", head and length change places by a transposed view: nothing is moved, since a
# kernel takes any strides. A tensor whose numbers carry a sign that is not in memory, as a
# conjugate has it, is copied first.
#
# - `strides` are the first three of each tensor, since the last is 1, and `lengths` the queries and
#   the keys of a head.
# - `block_headdim` is `head_dim` rounded up to a power of two, for `tl.arange`: 79 has seven binary
#   digits, so 80 becomes 2^7.
# - `grid` is a program for each tile of queries, also for a last one that sticks out, in each head
#   and batch.
# - `constants` asks whether the tiles fill each axis, which gives the three flags, and adds the
#   tiles, warps and depth. A single key, whose length is compiled as a constant, gets a depth of 1:
#   an older assembler crashes at 2 there.
#
# The launch passes all that in the order of the signature, with three numbers of q's shape: the
# heads, which a pair is divided by, the length, which is `stride_lse` here, since the rows of `lse`
# have no gaps between them, and the head dimension. In the file it is a function, `launch_plain`, since
# several versions end in it. `lse` has a number for each query. Where it has none there is nothing
# to compute, so nothing is launched or compiled.
#
# And `device_of`? A launch goes to the current GPU, and the tensors may lie on another one. So
# `device_of` makes the tensor's GPU the current one for this block.
#
# Each version is such a function: v1 and v2 take tiles of 64 x 64 for every head dimension, which
# nobody chose for speed, and v3 asks `settings_on`. All of them take the same arguments and give
# back the same, so one can stand in for another: `out` or, with `return_lse`, also the log-sum-exp,
# for whoever merges or trains. Now verify it, and put your `even_kernel` in the kernel's place.


# %%
def of_heads(q, k, v):
    return launched(q[None], k[None], v[None])[0]


def reference(q, k, v):
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1) @ v


result = verify(of_heads, reference, cases=heads(), absolute=5e-3)
print(result)
assert result.right

# %% [markdown]
# ## The whole file
#
# Here is the kernel as it stands in the file, in one piece. What stands word for word in the functions
# that you wrote or were given above is gray.

# %%
draw.reading(flash_attention_kernel, even_kernel, borders, attend_keys, finish)

# %% [markdown]
# Few lines are left: the signature, and the two masks of exercise {even-flags}, which stand on lines of
# their own. Three parts are cut differently and do what yours do: `rows`, `cols` and `dims`, the borders,
# and the loop, which stands in place. `scale_log2` is computed once, before both loops.
#
# C cannot pass a tuple. So what notebook {inside-a-c-program} exports is a small kernel around this
# one, in [kernels/attention/export.py](../kernels/attention/export.py), which makes the tuples. It is
# also why the flags are written with `|` and `if ... else`: a caller in C may give them as numbers
# at run time, and then the masks are there and cost their time.
#
# ## What you can do now
#
# You have written a kernel for any lengths, heads and strides. Which lines would you have written
# otherwise?

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/25-finished-kernel.py](../solutions/25-finished-kernel.py) has all answers.
#
# **Next:** [26, the finished kernel on Hopper](26-finished-on-hopper.ipynb).
