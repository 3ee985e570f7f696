# %% [markdown]
# # 25 · The finished kernel
#
# Now you read the course's finished kernel, line by line, as it stands, with a question at each step.
# It is demanding. Come to it with a fresh head.
#
# **By the end you can** explain every line of a finished attention kernel in `tl`.
#
# **You need** notebook {heads-and-tiles}.
#
# | section | about minutes |
# |---|---|
# | Read the finished kernel | 50 |
# | Beginning and end | 1 |
# | **Together, an estimate** | 51 |

# %%
from course import lower
from kernels.attention.tl import flash_attention_kernel

# %% [markdown]
# ## Read the finished kernel
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
# `nheads` = 1, one for multiples of 16 and one for the rest, for no gain. You met this in
# notebook {rows-of-any-width}. `HEADS_PER_KEY_HEAD` could be a number as well, and is one in v1. A
# model has one value of it, so a constant compiles nothing twice, and a division by 1 or 4 becomes
# nothing or a shift.
#
# </details>

# %% [markdown]
# What does such a flag buy? `EVEN | (...)` with `EVEN` true at compile time is true for all lanes,
# whatever stands on the right, so the mask is gone. A narrow load is what a mask costs most, as you
# know from notebook {softmax-of-a-row}. A wide load takes eight float16 that lie side by side.
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
#
# So lower this very kernel with and without each flag, and see what else they change. The last two
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
# `EVEN_M` changes none of these numbers. `EVEN_N` halves the copies and the dot steps, and not
# because loads become wider: a whole loop is gone, as question 5 asks. And `EVEN_HEADDIM` matters
# where nothing is known of `head_dim`. Without it all loads are narrow there, and no copy is left:
# an asynchronous copy takes 4 bytes at least, so the pipeline is lost as well.

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
# Nothing: it is true for every lane, and no comparison is left. The load of q was wide before, as
# you counted. `first_row.to(tl.int64) * stride_qm` is one number, computed once; only the small
# `rows` are multiplied for each lane.
#
# </details>

# %% [markdown]
# Next come the borders of the two loops. You wrote the second one in {causal-attention}; in
# `split_kernel` they are called `whole` and `end`.
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
# rows. The outer maximum matters for `masked`. In the block with `first_row` = 0 the first query
# "sees" -155 keys, and `masked` would be -128: the second loop would begin before the first key,
# where no mask looks. The inner minimum spares iterations where the last tile sticks out over the
# last query and would count keys past the last one.
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
# `k_ptrs` has the shape `[BLOCK_HEADDIM, BLOCK_N]`, so a key's numbers run down its columns. You
# wrote `tl.trans(k)` instead. Which is faster? Neither: compiled for an H200, both forms take the
# same registers and the same instructions, and the loads are wide in both. It is a matter of taste.
#
# Here `first_col` and the small `cols` are multiplied together, in 64 bits and for every lane,
# which q's pointers avoid. It happens once before each loop. Inside, the pointers only move on.
#
# ```python
# for start in range(first_col, end_col, BLOCK_N):
#     col_mask = (not MASKED) | (cols < seqlen_k - start)
#     k = tl.load(k_ptrs, mask=dim_mask[:, None] & col_mask[None, :], other=0.0)
#     S = tl.dot(q, k)  # [BLOCK_M, BLOCK_N], not yet scaled
# ```
#
# **6.** What is left of the mask of this load in whole tiles? And why is `col_mask` needed for the
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
# `base` of {causal-attention}: it gives 0 where the maximum is -inf.
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
# **7.** How often is a score multiplied? And why is `finite` called only under `MASKED`?
#
# <details>
# <summary>Answer</summary>
#
# Once, in the exponent, as in {scale-in-the-exponent}: `S * scale_log2 - base` is one multiply-add
# per score. A row's maximum can only be -inf if all keys so far were hidden from it. In whole tiles
# every row sees every key.
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
# **8.** What is rounded here, and what is not? Why does the last step widen `BLOCK_N`?
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
#
# You scaled `acc` within the second dot, `O * alpha[:, None]` being its third argument. Here that
# is a statement of its own, and it compiles to the same. And why is v loaded only after the
# softmax? That is where it is needed. At a depth of 1 the tile of v then takes the place of k's in
# shared memory, and a tile of 128 x 64 needs 48 KB and not 64. At a depth of 2 or more both are
# loaded iterations ahead anyway, and it makes no difference where the line stands.

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
# **9.** Why `O * (1.0 / l)[:, None]`, and not `O / l[:, None]`? `element_ty` is what a pointer
# points to. What would happen without `.to(...)`?
#
# <details>
# <summary>Answer</summary>
#
# A division takes several instructions. Written so, there is one per row, and one multiplication
# per element. Without `.to(...)` nothing would change: a store converts to the type of its pointer,
# as in your own kernels. It only says in the code where the result is rounded.
#
# </details>

# %% [markdown]
# That was v2 and v3. What is exported in notebook {inside-a-c-program} is this small kernel around
# it, in [kernels/attention/export.py](../kernels/attention/export.py), since C cannot pass a tuple.
# Callers in C round the rows of lse up to `seqlen_q_rounded`, which is therefore `stride_lse`.
# (`TMP` and `batch` are not used; callers pass them all the same.)
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
# **10.** Which parameter does it fix? `EVEN_M` is declared `tl.constexpr`. How can a caller in C
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
# v4, in [kernels/attention/tl_hopper.py](../kernels/attention/tl_hopper.py), is the same kernel
# with k and v by descriptors, so that it computes no pointers for them. The descriptors have four
# axes, as the tensors do, and tiles of `[1, 1, BLOCK_N, BLOCK_HEADDIM]`: `reshape` drops the two
# axes of length 1, and `.T` is `tl.trans`. Places in a descriptor's load are 32 bits wide, so
# `key_batch` and `key_head` are narrow. This is where its loop begins:
#
# ```python
# for start in range(first_col, end_col, BLOCK_N):
#     k = k_tiles.load([key_batch, key_head, start, 0]).reshape([BLOCK_N, BLOCK_HEADDIM])
#     S = tl.dot(q, k.T)  # [BLOCK_M, BLOCK_N], not yet scaled
#     if MASKED:
#         visible = (cols < seqlen_k - start)[None, :]
# ```
#
# **11.** A descriptor's load has no mask. Why can it do without, and why are the scores masked
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
# ## What you can do now
#
# You have read a kernel that serves any lengths, heads and strides. Which of its lines would you
# have written otherwise?

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/25-finished-kernel.py](../solutions/25-finished-kernel.py) has all answers.
#
# **Next:** [26, the finished kernel on Hopper](26-finished-on-hopper.ipynb).
