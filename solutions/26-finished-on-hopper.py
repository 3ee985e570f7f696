# %% [markdown]
# # 26 · The finished kernel on Hopper
#
# The kernel for Hopper has the same arithmetic and another frame: descriptors, programs that stay, and
# warps with different jobs. At the end you see how near it comes to the best.
#
# **By the end you can** explain a kernel at the limit of what Triton's `tl` can say today.
#
# **You need** notebook {finished-kernel}.
#
# | section | about minutes |
# |---|---|
# | Read the kernel for Hopper | 35 |
# | The launcher | 7 |
# | Against the best | 10 |
# | Beginning and end | 2 |
# | **Together, an estimate** | 54 |

# %%
from course import draw, recorded

# %% [markdown]
# ## Read the kernel for Hopper
#
# Now v5, from the same file. v4's descriptors had four axes, came from the launcher, and ended where
# a head ends. v5 gives that up: it makes its descriptors itself, and reads all heads of a tensor as
# one matrix. Why? It is to have warps with different jobs, and the compiler gives each of two
# consumer groups half of q's tile, 64 of its 128 rows. Each half is copied by itself. So the
# compiler must cut the descriptor's tile in half, and it can do that only for a descriptor of two
# axes that is made in the kernel. With four axes for q, or with a descriptor from the launcher, v5
# does not compile. (k and v are not cut, and v5 would compile with v4's descriptors for these two.)
#
# The price is that such a descriptor does not end where a head ends. `q_rows` is the number of rows
# of q as one matrix, and they are `stride_qm` apart. (`128 if HEADDIM == 256` is the subject of
# question 18.)
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
# **12.** What is a row of q's matrix? What would go wrong where tiles do not divide the length?
#
# <details>
# <summary>Answer</summary>
#
# In `[batch, heads, length, D]` a row is one query of one head; in `[batch, length, heads, D]` it
# is one query of all heads, side by side. At the end of a head a tile would not run into zeros but
# into the rows that come next. So v5 is only taken where BLOCK_M divides both lengths.
#
# </details>
#
# The signature, which is not shown, has no `do_not_specialize`. `nheads` and the number of tiles
# are only divided by or compared with, and the second changes with every batch. Notebook
# {rows-of-any-width} would name them, and so should you: as it stands, a batch whose tiles 16 divides
# and one whose tiles it does not divide are two compiled kernels.
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
# **13.** Where does head h begin in `[batch, heads, length, D]`, and where in
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
# The programs are persistent, as in notebook {persistent-programs}: no more than the GPU holds at a
# time, and each takes one tile of queries after another. A head has `n_blocks` of these tiles, and
# all heads together have `n_tiles`.
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
# **14.** 4 programs, 7 tiles, and a causal mask. Which tiles do programs 0 and 3 get? Why is every
# other round turned around, and what is `tl.minimum` for?
#
# <details>
# <summary>Answer</summary>
#
# In round 0 they get 0 and 3. Round 1 has the tiles 4 to 6 only: program 0 gets min(8, 7) - 1 - 0
# = 6, and for program 3 the loop has ended, since 7 is no tile. Without the minimum program 0 would
# be given tile 7. Within a head the tiles come longest first, so whoever had a long one in one
# round gets a short one in the next.
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
# **15.** `SPECIALIZE` is True here, and above it was False. Which loop is divided among the warps
# in each case, and what does that gain at a head dimension of 128?
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
# `q_row` is where the head begins in the matrix of all heads, and `first_row` is where the tile
# begins in its head. Below 0 there is no key, so `end` is kept from there; the loop would be empty
# all the same.
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
# **16.** v2 to v4 have a loop of their own for masked tiles, and this kernel masks every tile of
# a causal head. Why? And why is `last_visible` computed in the loop, though only `start` changes?
#
# <details>
# <summary>Answer</summary>
#
# With two loops over keys it does not compile: the compiler divides one loop among the warps. So
# the mask is computed on every tile, a comparison and a selection per score. As for
# `last_visible`: a mask made of a tensor from before a loop that is divided itself gave wrong
# results, says [settings.py](../kernels/attention/settings.py). That was Triton 3.7.1 on an H200.
# The pinned Triton compiles such a mask too; nobody has tried its results.
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
# **17.** Which of the lines of this loop does the producer run, and which do the consumers? And
# why is there no `finite` here, although rows are masked?
#
# <details>
# <summary>Answer</summary>
#
# The producer runs the `.load`s of k and v, and that of q where the loop over tiles is divided. All
# else is the consumers', for 64 rows each.
#
# `finite` is for a row whose maximum is still -inf: it has seen no key so far. BLOCK_M divides both
# lengths, so `first_row + seqlen_k - seqlen_q`, the last key that the tile's first row sees, is a
# multiple of BLOCK_M. If it is negative, it is at most -BLOCK_M: the last row then sees keys up to
# -1, which are none, and the loop does not run. Otherwise the first row sees key 0, and so does
# every row below it. BLOCK_N would not do: with tiles of 32 x 16, 32 queries and 16 keys, 16 rows
# see no key of a tile that others see.
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
# **18.** A store by descriptor goes through shared memory. What does the branch for 256 do?
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
# v5 runs with `num_stages=2`. With Triton 3.7.1, three stages compiled and gave wrong results on an
# H200, and only `verify` noticed. A faster variant is first verified and then timed: the course's
# bench refuses to time what it has not verified.
#
# ## The launcher
#
# What stands around such a kernel is short, and every version goes the same way. `prepare` checks
# the inputs, says in one sentence what is wrong, and allocates `out` and `lse`. It also refuses a
# scale that is not positive: `tl.max(S) * scale_log2` is the maximum of the scaled scores only
# then. (And a single key gets a depth of 1, because an assembler crashes at 2.) Next comes the
# question whether v5 takes these inputs at all. All heads of a tensor must be parts of one matrix:
#
# ```python
# (_, heads, _, head_dim), (step_b, step_h, row, _) = x.shape, x.stride()
# return (
#     step_b % row == 0
#     and (heads - 1) * (step_h % row) + head_dim <= row
#     and max(_rows(x), row) < 2**31
# )
# ```
#
# **19.** What does each of the three conditions rule out?
#
# <details>
# <summary>Answer</summary>
#
# A batch that begins in the middle of a row, since `first_element` has a column for heads alone.
# Heads that stand side by side in a row and stick out of it. And more rows or columns than a
# descriptor counts in 32 bits. `_rows` is the row of the last element, plus one: each axis adds its
# last number times its stride, in rows.
#
# </details>
#
# Then the programs are counted, so that all take as many rounds, give or take one.
#
# ```python
# blocks = seqlen_q // settings.block_m
# tiles = batch * heads * blocks
# persistent = head_dim in PERSISTENT
# rounds = triton.cdiv(tiles, gpu_of(launch.q).multiprocessors) if persistent else 1
# programs = triton.cdiv(tiles, rounds)
# ```
#
# ```python
# with torch.cuda.device_of(launch.q):
#     contextvars.copy_context().run(run)  # the caller's own allocator stays
# ```
#
# **20.** A tensor lies on the second GPU of a machine, and the first one is current. What does
# `device_of` do? And what would `triton.set_allocator` in `run` change, if it were called without a
# context of its own?
#
# <details>
# <summary>Answer</summary>
#
# A launch goes to the current GPU, and that is not the one with the tensor: `device_of` makes the
# tensor's GPU the current one for this block. A descriptor that is made in a kernel lies in memory
# that Triton asks an allocator for. It is set for the current context, so without a copy of it the
# caller's own allocator would be replaced for good.
#
# </details>

# %% [markdown]
# ## Against the best
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
# instructions per score. Between v4 and v5 they are the same too: in v5 no warp that computes has to
# start copies, either group may go on without the other, and programs go on to the next tile
# without a pause.
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
# Where does the rest go? v5 reaches 578 of the tensor cores' 989 TFLOP/s, 58 percent. Within one
# consumer group the dot, the powers and the next dot wait for one another. Only the other group can
# fill the gap, and nothing makes the two take turns. v5 itself was not watched, but a kernel with
# the same division was, in notebook {attention-in-gluon}: for 46 percent of the time it had no
# product under way.
#
# One more cost is not in these plots, which show the GPU's time. To launch v5, Python takes the CPU
# 0.12 to 0.16 ms, and cuDNN's call 0.04 to 0.06. In the causal run at 512 keys v5's launch takes
# longer than the GPU's work. A CUDA graph, in notebook {inside-a-c-program}, launches without
# Python. Export is no way out here: v4 takes descriptors and v5 makes them, and notebook
# {inside-a-c-program} shows why neither can be exported.

# %% [markdown]
# ## On your own
#
# - Compile v5 with `HEADDIM=256, BLOCK_N=64, PERSISTENT=False`. Which registers does each group
#   ask for, and how many copies has the producer?
#
# ## In practice
#
# [kernels/attention](../kernels/attention/__init__.py) is the finished operation: any
# lengths, head dimensions from 16 to 256, batches, grouped heads, causal or not, in five versions.
# v4 and v5 need a GPU that reads descriptors in hardware, and lengths or strides that suit them. On
# an H100 or H200, `flash_attention` takes the kernels of notebook {fastest-kernel} where they suit;
# these five alone are `flash_attention_tl`.
#
# To train, a model needs the backward pass as well. It reads the log-sum-exp, computes each score
# a second time, and writes no M x N matrix either. There are five matrix products per tile: S once
# more, and those for the gradients of P, V, Q and K. Storing P would save the first, and it would
# cost the traffic that flash attention avoids.
#
# ## What you can do now
#
# You have read a kernel at the limit of what Triton can say today, and you know what keeps it from
# the best. Could you say it in one sentence?

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/26-finished-on-hopper.py](../solutions/26-finished-on-hopper.py) has all answers.
#
# **Next:** [27, ahead of time](27-ahead-of-time.ipynb).
