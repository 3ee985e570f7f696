# %% [markdown]
# # 26 · The finished kernel on Hopper
#
# On an H200 your kernel of notebook {finished-kernel} reaches half of what the tensor cores can do. Its
# arithmetic is right as it is. What is left to change is who moves the tiles, and when. Four edits
# lead to the course's fastest kernel in `tl`: k and v by descriptors, all heads as one matrix, programs
# that stay, and warps with different jobs. Three of them are yours.
#
# **By the end you can** write a kernel at the limit of what Triton's `tl` can say today, explain its
# launcher, and say what keeps it from the best.
#
# **You need** notebook {finished-kernel}.
#
# | section | about minutes |
# |---|---|
# | k and v by descriptors | 4 |
# | One matrix of all heads | 30 |
# | Programs that stay | 7 |
# | Warps with different jobs | 20 |
# | The whole file | 2 |
# | The launcher | 4 |
# | Against the best | 5 |
# | Beginning and end | 3 |
# | **Together, an estimate** | 75 |

# %%
from course import check, draw, hint, lower, recorded
from kernels.attention import tl_hopper
from kernels.attention.tl import flash_attention_kernel
from kernels.attention.tl_hopper import attend_specialized, first_element
from kernels.device import LN2, LOG2E
import triton
import triton.language as tl

# %% [markdown]
# ## k and v by descriptors
#
# v4, in [kernels/attention/tl_hopper.py](../kernels/attention/tl_hopper.py), is the kernel that you
# have, with other words for two loads. It is given descriptors of k and v in place of their
# addresses, so of the strides it gets those of q and out alone:
#
# ```python
# k = k_tiles.load([key_batch, key_head, start, 0]).reshape([BLOCK_N, BLOCK_HEADDIM])
# S = tl.dot(q, k.T)  # [BLOCK_M, BLOCK_N], not yet scaled
# ```
#
# The descriptors have four axes, as the tensors do, and tiles of `[1, 1, BLOCK_N, BLOCK_HEADDIM]`;
# `reshape` drops the two axes of length 1, and `.T` is `tl.trans`, since the dot wants the
# dimensions first. Places in a descriptor's load are 32 bits wide, so `key_batch` and `key_head`
# are narrow. What lies outside the tensor is read as 0, past the last key as well as past
# `head_dim`, so the loads need no mask. The scores do: a key of zeros has the score 0, and only
# -inf counts for nothing. The launcher, `launch_described`, makes both by `TensorDescriptor(x,
# shape, strides, tile)`, which `from_tensor` is short for. It counts on rows that begin at
# multiples of 16 bytes, since the hardware that copies a tile asks for that; v4 checks it first,
# and refuses others. The tile must be known there, so the settings are looked up first, in a table
# of their own that was measured with these loads. lse lies in rows of exactly `seqlen_q`, as
# `prepare` makes it: no caller in C launches v4.
#
# q and out still go by pointers and masks. They move once per program and not in the loop, so there
# is little to gain, and this way q may have any strides. The rest is v2, also what only v2 needs: it
# takes `pair` apart as if C could launch it, and does without `lengths` in `do_not_specialize`.
#
# Compile the two with the same tile and depth, and look at what each thread has to do.


# %%
def compiled(kernel, k_and_v, strides):
    of_head, lengths = ("i32:16",) * 3, ("i32", "i32")
    tile = {"BLOCK_HEADDIM": 128, "BLOCK_M": 128, "BLOCK_N": 128, "HEADS_PER_KEY_HEAD": 1}
    flags = {"EVEN_M": True, "EVEN_N": True, "EVEN_HEADDIM": True, "IS_CAUSAL": False}
    args = ["*fp16:16", k_and_v, k_and_v, "*fp16:16", "*fp32:16", "fp32", "i32", *[of_head] * strides]
    args += [lengths, "i32", "i32:16"] if strides == 4 else [lengths, "i32:16"]
    s = lower(kernel, *args, **tile, **flags, num_warps=8, num_stages=3, target="sm_90")
    copies = s.counts["ptx"]["asynchronous copies"]
    print(f"{s.resources.registers} registers, {copies} starts of a copy")


# %% tags=["nbval-check-output"]
compiled(flash_attention_kernel, "*fp16:16", strides=4)
compiled(tl_hopper.flash_attention_kernel_v4, "tensordesc<fp16[1, 1, 128, 128]>", strides=2)

# %% [markdown]
# Six starts of a copy are left of 48, and each thread needs 13 registers fewer. Was that what the
# loop waited for? Recorded at D = 128 and 4,096 keys, v3 makes 502 TFLOP/s and v4 497: no. But it
# opens a way: now that a single thread starts a copy, one producer can start them all and need
# hardly any registers. That comes next.
#
# ## One matrix of all heads
#
# v5 goes on from here to give its warps different jobs, and for that it gives up the four axes. It
# makes its descriptors itself, and reads all heads of a tensor as one matrix. Why? The compiler
# gives each of two consumer groups half of q's tile, 64 of its 128 rows, and each half is copied by
# itself. So it must cut the descriptor's tile in half, and it can do that only for a descriptor of
# two axes that is made in the kernel. With four axes for q, or with a descriptor from the launcher,
# v5 does not compile.
#
# The price is that such a descriptor does not end where a head ends: a tile would not run into
# zeros there but into the rows that come next. So v5 is only taken where BLOCK_M divides both
# lengths. A descriptor is told its shape: `matrix_rows` has the number of rows of each tensor as
# one matrix. Those of q are `stride_qm` apart.


# %%
@triton.jit
def matrices(
    q_ptr, k_ptr, v_ptr, out_ptr, matrix_rows, strides,
    HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    q_rows, k_rows, v_rows, out_rows = matrix_rows
    stride_q, stride_k, stride_v, stride_out = strides
    stride_qm, stride_kn = stride_q[2], stride_k[2]
    stride_vn, stride_om = stride_v[2], stride_out[2]
    q_tiles = tl.make_tensor_descriptor(
        q_ptr, [q_rows, stride_qm], [stride_qm, 1], [BLOCK_M, HEADDIM]
    )  # fmt: skip
    k_tiles = tl.make_tensor_descriptor(
        k_ptr, [k_rows, stride_kn], [stride_kn, 1], [BLOCK_N, HEADDIM]
    )  # fmt: skip
    v_tiles = tl.make_tensor_descriptor(
        v_ptr, [v_rows, stride_vn], [stride_vn, 1], [BLOCK_N, HEADDIM]
    )  # fmt: skip
    out_tiles = tl.make_tensor_descriptor(
        out_ptr, [out_rows, stride_om], [stride_om, 1], [BLOCK_M, HEADDIM]
    )  # fmt: skip
    return q_tiles, k_tiles, v_tiles, out_tiles


# %% [markdown]
# Where in its matrix does a head begin? `first_element`, from the same file, says it as a row and a
# column, in 32 bits, as a descriptor counts. A stride over `stride_m` is in whole rows, and what
# remains is columns:
#
# ```python
# stride_b, stride_h, stride_m = stride
# row = batch * (stride_b // stride_m) + head * (stride_h // stride_m)
# return tl.cast(row, tl.int32), tl.cast(head * (stride_h % stride_m), tl.int32)
# ```
#
# **Predict:** where does head h begin in `[batch, heads, length, D]`, and where in
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
# And this kernel gives each program one tile, for a function `attend_tile` that you write next.


# %%
@triton.jit
def tile_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads, n_blocks, n_tiles,
    stride_q, stride_k, stride_v, stride_out, matrix_rows, lengths, IS_CAUSAL: tl.constexpr,
    HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr,
):  # fmt: skip
    strides = (stride_q, stride_k, stride_v, stride_out)
    descriptors = matrices(
        q_ptr, k_ptr, v_ptr, out_ptr, matrix_rows, strides, HEADDIM, BLOCK_M, BLOCK_N
    )
    attend_tile(
        tl.program_id(axis=0), descriptors, strides, lengths, lse_ptr, scale * LOG2E, nheads, n_blocks,
        IS_CAUSAL, HEADDIM, BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, SPECIALIZE=False,
    )  # fmt: skip


# %% [markdown]
# ### Exercise {one-matrix} · One matrix of all heads (core)
#
# A tile is `BLOCK_M` queries of a head, and `tile` is its number: head after head, within a head the last
# queries first, since they see most keys. Load this tile of q, load k and v in the loop, and store the
# output, all by descriptor. The exercise launches `tile_kernel`
# with heads side by side in a row and with heads one after the other, for lengths that 64 divides.


# %%
# exercise one-matrix
@triton.jit
def attend_tile(
    tile, descriptors, strides, lengths, lse_ptr, scale_log2, nheads, n_blocks, IS_CAUSAL: tl.constexpr,
    HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    q_tiles, k_tiles, v_tiles, out_tiles = descriptors
    (stride_q, stride_k, stride_v, stride_out), (seqlen_q, seqlen_k) = strides, lengths
    pair = tile // n_blocks
    batch, head = pair // nheads, pair % nheads
    key_head = head // HEADS_PER_KEY_HEAD
    first_row = (n_blocks - 1 - tile % n_blocks) * BLOCK_M
    q_row, q_col = first_element(batch, head, stride_q)
    k_row, k_col = first_element(batch, key_head, stride_k)
    v_row, v_col = first_element(batch, key_head, stride_v)
    # about 1 line from here
    q = q_tiles.load([q_row + first_row, q_col])  # [BLOCK_M, HEADDIM]
    # to here
    end = seqlen_k
    if IS_CAUSAL:
        end = tl.maximum(tl.minimum(first_row + BLOCK_M + (seqlen_k - seqlen_q), seqlen_k), 0)
    rows, cols, l = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.zeros([BLOCK_M], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of S * scale_log2
    O = tl.zeros([BLOCK_M, HEADDIM], tl.float32)
    for start in tl.range(0, end, BLOCK_N, warp_specialize=SPECIALIZE):
        # about 2 lines from here
        k = k_tiles.load([k_row + start, k_col]).T  # [HEADDIM, BLOCK_N]
        v = v_tiles.load([v_row + start, v_col])  # [BLOCK_N, HEADDIM]
        # to here
        S = tl.dot(q, k)  # [BLOCK_M, BLOCK_N], not yet scaled
        if IS_CAUSAL:
            last_visible = first_row + rows + (seqlen_k - seqlen_q) - start  # [BLOCK_M]
            S = tl.where(cols[None, :] <= last_visible[:, None], S, -float("inf"))
        m_new = tl.maximum(m, tl.max(S, axis=1) * scale_log2)  # [BLOCK_M]
        P = tl.exp2(S * scale_log2 - m_new[:, None])  # [BLOCK_M, BLOCK_N]
        alpha = tl.exp2(m - m_new)  # [BLOCK_M]
        l = l * alpha + tl.sum(P, axis=1)
        O = tl.dot(P.to(v.dtype), v, O * alpha[:, None])  # [BLOCK_M, HEADDIM]
        m = m_new
    l = tl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
    tl.store(lse_ptr + pair.to(tl.int64) * seqlen_q + first_row + rows, m * LN2 + tl.log(l))
    out = O * (1.0 / l)[:, None]  # one division for a row
    out_row, out_col = first_element(batch, head, stride_out)
    # about 1 line from here
    out_tiles.store([out_row + first_row, out_col], out.to(out_tiles.dtype))
    # to here


# %%
check("one-matrix", tile_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `q_row` is where the head begins in the matrix of all heads, and `first_row` is where the tile begins
# in its head. A descriptor's load takes the sum of both, and a column.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The dot takes k as `[HEADDIM, BLOCK_N]`, and the descriptor gives `[BLOCK_N, HEADDIM]`.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# A store by descriptor wants the dtype of the tensor: `.to(out_tiles.dtype)`.
#
# </details>

# %% [markdown]
# v2 to v4 have a loop of their own for masked tiles, and this kernel masks every tile of a causal
# head. Why? With two loops over keys it does not compile: the compiler divides one loop among the
# warps. So the mask is computed on every tile, a comparison and a selection per score. And why is
# `last_visible` computed in the loop, though only `start` changes? Computed before a loop over keys
# that was itself divided, it gave wrong results with Triton 3.7.1 on an H200. (The pinned one compiles
# it too; nobody has tried the results.) `rows` and `cols` are made before the loop as well, and do no
# harm: the compiler makes a `tl.arange` anew in each group, 0 to 63 in one and 64 to 127 in the other.
#
# And why is there no `finite` in P and alpha, although rows are masked? `finite` is for a row whose
# maximum is still -inf: it has seen no key so far. BLOCK_M divides both lengths, so `first_row +
# seqlen_k - seqlen_q`, the last key that the tile's first row sees, is a multiple of BLOCK_M. If it
# is negative, it is at most -BLOCK_M: the last row then sees keys up to -1, which are none, and the
# loop does not run. (`end` is `seqlen_k` where all rows see all keys. Minimum and maximum are for
# tidiness: no tile sticks out, and a loop to a negative number is empty.) Otherwise the first row
# sees key 0, and so does every row below it. BLOCK_N would not do: with tiles of 32 x 16, 32
# queries and 16 keys, 16 rows see no key of a tile that others see.

# %% [markdown]
# ## Programs that stay
#
# The programs are persistent, as in notebook {persistent-programs}: no more than the GPU holds at a
# time, and each takes one tile of queries after another. A head has `n_blocks` of these tiles, and
# all heads together have `n_tiles`. Program p of P, which is `tl.num_programs(0)`, takes number p,
# p + P, p + 2P and so on, so the tiles that two programs get differ by one at most. Under a causal
# mask the tiles of a head come longest first, so program 0 would get long ones in each round. In
# which order would you give them out, without asking who is free?
#
# Turn every other round around: whoever had a long one in one round gets a short one in the next.
# Without a mask all tiles are equally long, and `tile` is `nth`. (`tl.where` chooses between two
# numbers here; an `if` compiles to the same.)


# %%
@triton.jit
def turned(nth, n_programs, n_tiles):
    rounds = nth // n_programs
    backwards = tl.minimum((rounds + 1) * n_programs, n_tiles) - 1 - nth % n_programs
    tile = tl.where(rounds % 2 == 0, nth, backwards)
    return tile


# %% [markdown]
# **Predict:** 4 programs and 7 tiles. Which tiles do programs 0 and 3 get? What is `tl.minimum` for?
#
# <details>
# <summary>Answer</summary>
#
# In round 0 they get 0 and 3. Round 1 has the tiles 4 to 6 only: program 0 gets min(8, 7) - 1 - 0
# = 6, and for program 3 the loop has ended, since 7 is no tile. Without the minimum program 0 would
# be given tile 7.
#
# </details>

# %% [markdown]
# In notebook {causal-mask} you counted three orders, which ended at 85, 82 and 65. This is the fourth.
# v5's launcher starts 128 programs for these 16 * 32 = 512 tiles of queries, since 128 share them evenly in
# four rounds. With 128 programs no order can end before 66.


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
# ## Warps with different jobs
#
# One word is left, and you know from notebook {heads-and-tiles} what it does: `warp_specialize=True` at a
# loop gives the loads to a producer and each half of q's rows to four consumer warps. v5 has two loops
# that could be divided: the one over tiles, and within it the one over keys.
#
# Which one? The loop over tiles, as a whole. Then the producer runs on into the next tile and loads
# its q and first keys while the consumers finish this one. That takes shared memory for a second q,
# which there is at 128 dimensions, and not at 256: there v5 gives a program one tile (`PERSISTENT`
# is false) and divides the loop over keys (`SPECIALIZE` is true). (At 128 you could put the word at
# either loop: where one loop stands inside another, the compiler divides the outer one.)

# %% [markdown]
# ### Exercise {divided-loop} · One loop, divided (core)
#
# Write the loop over the tiles of this program, in turned rounds under a causal mask, and have it divided
# among the warps. `attend_specialized`, from the file, stands in for your `attend_tile`, with the same
# arguments. The exercise launches fewer programs than there are tiles, and looks for the groups in the
# compiled kernel.


# %%
# exercise divided-loop
@triton.jit
def persistent_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads, n_blocks, n_tiles,
    stride_q, stride_k, stride_v, stride_out, matrix_rows, lengths, IS_CAUSAL: tl.constexpr,
    HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr,
):  # fmt: skip
    strides = (stride_q, stride_k, stride_v, stride_out)
    descriptors = matrices(
        q_ptr, k_ptr, v_ptr, out_ptr, matrix_rows, strides, HEADDIM, BLOCK_M, BLOCK_N
    )
    scale_log2 = scale * LOG2E
    n_programs = tl.num_programs(axis=0)
    # about 6 lines from here
    for nth in tl.range(tl.program_id(axis=0), n_tiles, n_programs, warp_specialize=True):
        tile = turned(nth, n_programs, n_tiles) if IS_CAUSAL else nth
        attend_specialized(
            tile, descriptors, strides, lengths, lse_ptr, scale_log2, nheads, n_blocks,
            IS_CAUSAL, HEADDIM, BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, SPECIALIZE=False,
        )  # fmt: skip
    # to here


# %%
check("divided-loop", persistent_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `tl.range(first, end, step, warp_specialize=True)`: the first number is this program's own, and the step
# is how many programs there are.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The body is the call in `tile_kernel`, with another function and for another tile.
#
# </details>

# %% [markdown]
# What does the division buy? Without it, `tile_kernel` with tiles of 128 x 128, D = 128 and 4 warps takes 255
# registers per thread and spills. Your `persistent_kernel` has the same tile and the same `num_warps`. It
# is launched with 12 warps of 168 registers each, the producer goes down to 40 and the consumers up to
# 232, and nothing spills. These are the recorded TFLOP/s of v4 and v5, full and causal:

# %% tags=["nbval-check-output"]
for name in ("flash_attention_128", "flash_attention_128_causal"):
    for length in (1024, 4096, 16_384):
        v4, v5 = (recorded(name).at(f"flash_attention{end}", length).speed for end in ("_v4", ""))
        print(f"{name:26} {length:6,}: v4 {v4:.0f}, v5 {v5:.0f}")

# %% [markdown]
# v5 runs with `num_stages=2`. With Triton 3.7.1, three stages compiled and gave wrong results on an
# H200, and only `verify` noticed. A faster variant is first verified and then timed: the course's
# bench refuses to time what it has not verified.
#
# ## The whole file
#
# Here are v5's two kernels from the file, and in gray what stands word for word in yours.

# %%
own = (attend_tile, matrices, turned, persistent_kernel, tile_kernel)
draw.reading(attend_specialized, *own)

# %%
draw.reading(tl_hopper.flash_attention_kernel_v5, *own)

# %% [markdown]
# What is left? The first lines take tuples apart. The descriptors and the strides travel in one tuple
# each, in the order q, k, v, out, and the two lengths in a third, which keeps the two calls of
# `attend_specialized` short: one stands in the loop over tiles, one is for a single tile. `rows`
# and `cols` are there for the mask and for lse, since what goes by descriptor needs no addresses.
# lse is in natural logarithms, as v2's, and no tile sticks out, so its store needs no mask.
#
# v is loaded after the softmax. That makes no difference here, since the producer runs the `.load`s of
# q, k and v. All else is the consumers', for 64 rows each. The branch
# for 256 dimensions stores the left 128 columns and then the right ones. A store by descriptor goes
# through shared memory, and half of the tile fits beside two stages of k and v. `reshape` makes
# `[BLOCK_M, 2, 128]` of a tile, `permute` moves the 2 to the end, and `split` takes a last axis of
# length 2 apart.
#
# The signature has no `do_not_specialize`. `nheads`, `n_blocks` and `n_tiles` are only divided by or
# compared with, and the last changes with every batch. Notebook {rows-of-any-width} would name them, and
# so should you: as it stands, and as it was measured, a number of tiles that 16 divides and one that it
# does not divide get a compiled kernel each, and a single tile a third.
#
# ## The launcher
#
# Every version goes the way that you know: `prepare`, settings, `device_of`, launch. What is new in
# v5's is the question whether it takes these inputs at all (else v4 or v3 does), and how many
# programs there are. `specializable` asks four things. Are there settings for this very head
# dimension? There are for 128 and 256. Do its tiles divide the lengths, as they must? Is each
# tensor `describable`: are its address and its strides multiples of 16 bytes, as for v4? None of
# them may be empty or expanded, since a descriptor has no way to say that a length or a stride is
# 0. And are all heads of a tensor parts of one matrix?
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
# The first condition rules out a batch that begins in the middle of a row, since `first_element` has a
# column for heads alone. The second rules out heads that stand side by side in a row and stick out of it,
# and the third more rows or columns than a descriptor counts in 32 bits. `_rows` is the row of the last
# element, plus one: each axis adds its last number times its stride, in rows.
#
# v4 and v5 raise an error that says what they take if you call them for something else;
# `flash_attention_tl`, below, asks before.
#
# Then the programs are counted, so that all programs take the same number of tiles, give or take
# one. The tiles are those of all heads and batches, and none sticks out. `rounds` is how many
# rounds a GPU needs with a program on each multiprocessor, and `programs` how many share the tiles
# evenly in as many: 512 tiles take 132 programs four rounds, and 128 take no longer. Programs are
# persistent only at head dimensions that leave room for a second q; at others each tile has its own
# program.
#
# ```python
# rounds = triton.cdiv(tiles, gpu_of(launch.q).multiprocessors) if persistent else 1
# programs = triton.cdiv(tiles, rounds)
# ```
#
# The kernel is given the numbers of heads and of blocks, by which it takes a tile's number apart,
# the number of tiles, where its loop ends, and the rows of each tensor as a matrix. out is in the
# caller's layout, and `as_bhmd` turns it as the kernel sees it. `num_warps` is 4, for one group:
# the compiler adds the others.
#
# A descriptor that is made in a kernel lies in memory that Triton asks an allocator for. It is set
# for the current context, so `contextvars.copy_context().run(run)` launches in a copy of it:
# otherwise the caller's own allocator would be replaced for good. `_scratch` is that allocator: so
# many bytes, as a tensor of `int8`, on the current GPU. It needs neither the alignment nor the
# stream that Triton names, since PyTorch's memory begins at multiples of 512 bytes and is for the
# current stream.
#
# Which version does a call get? `flash_attention_tl` asks the GPU's **compute capability**, the
# number that an architecture's name has: 9.0 is sm_90. There v5, the fastest, is taken where it
# takes the inputs, with Triton 3.7 or later, the first that compiles it at every head dimension.
# (`triton_version` gives numbers to compare: as texts, 3.10 would come before 3.7. It is asked at each
# call, and so it is cached.) Where v5 does not fit, and on 10, v4 is taken if k and v have
# descriptors, which both architectures read in hardware. v3 takes everything else. v5 was written
# for 9.0: on 10 the tensor cores have other instructions, and compiled for it v5 spills 112 bytes at
# 128 dimensions and 1,424 at 256.

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
# v1 leaves out no tile. It makes 310 TFLOP/s without a mask at 16,384, and with one about half of that,
# since it does all of the work and half of it counts. It was recorded at 150: the mask itself costs it
# little.

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
# v5 is made for 128 and 256 dimensions. At 64 v4 is the best in `tl`, and on average it is nearer to
# cuDNN's speed there than v5 is at the other two.
#
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
