# %% [markdown]
# # 23 · Heads, lengths, and how large a tile
#
# Real models have many heads, heads that share keys, and lengths of their own. And a real GPU has so
# many registers and no more. Here the kernel meets both.
#
# **By the end you can** share keys among heads, pack a group's queries into one tile, bound tile sizes
# by registers, shared memory and the L2 cache, and say what producer and consumer warps do.
#
# **You need** notebooks {copies-in-flight} and {causal-mask}.
#
# | section | about minutes |
# |---|---|
# | Heads and lengths | 30 |
# | Choosing tiles | 20 |
# | Warps with different jobs | 10 |
# | Beginning and end | 15 |
# | **Together, an estimate** | 75 |

# %%
from course import DEVICE, check, cost, diagnose, draw, hint, lower
from kernels.attention import flash_attention
from kernels.attention.tl import flash_attention_kernel_v1
from kernels.attention.tl_hopper import flash_attention_kernel_v5
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.


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


# %% [markdown]
# ## Heads and lengths
#
# Models keep heads in two ways: `[batch, heads, length, D]`, or `[batch, length, heads, D]`, as
# the layer before gives them. Must one be copied into the other? No. A kernel that takes three
# strides per tensor, from batch to batch, from head to head and from row to row, reads both as
# they lie.
#
# **Predict:** `x` has the shape [2, 100, 6, 32], in the second way. Which three strides does the
# kernel get for it?
#
# <details>
# <summary>Answer</summary>
#
# From row to row it is all heads' numbers, 6 * 32 = 192. From head to head it is 32, and from
# batch to batch 100 * 192 = 19,200.
#
# </details>

# %% tags=["nbval-check-output"]
x = torch.randn(2, 100, 6, 32, dtype=torch.float16, device=DEVICE)  # [batch, length, heads, D]
print("from batch, head and row to the next:", x.transpose(1, 2).stride()[:3])
same = flash_attention(x, x, x, causal=True, layout="bmhd").transpose(1, 2)
moved = flash_attention(*[x.transpose(1, 2).contiguous()] * 3, causal=True)
print("equal:", torch.equal(same, moved))

# %% [markdown]
# Models also save on keys: of 32 heads of queries, say, 4 in a row use one head of keys and
# values. These are **grouped heads**. The keys and values of a long text, which a model must keep
# in memory while it writes, are then a quarter as large.

# %% [markdown]
# ### Exercise {grouped-heads} · Grouped heads (core)
#
# `q` is `[n_heads, M, D]`, `k` and `v` are `[n_key_heads, N, D]`, all float16, and each key head
# serves `n_heads / n_key_heads` query heads in a row. The rows of a head lie one after the other;
# heads are `stride_qh`, `stride_kh` and `stride_vh` elements apart, which may differ. The exercise
# launches one program per query head; M and N fit a tile. In PyTorch: first repeat k and v by
# `repeat_interleave` along the heads.


# %%
# exercise grouped-heads
@triton.jit
def grouped_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_heads, n_key_heads, n_queries, n_keys, scale,
    stride_qh, stride_kh, stride_vh,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(axis=0)
    rows, cols, dims = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, D)
    q_offsets = rows[:, None] * D + dims[None, :]
    k_offsets = cols[:, None] * D + dims[None, :]
    # about 4 lines from here
    key_head = head // (n_heads // n_key_heads)
    q_ptr += head * stride_qh
    k_ptr += key_head * stride_kh
    v_ptr += key_head * stride_vh
    # to here
    q = tl.load(q_ptr + q_offsets, mask=rows[:, None] < n_queries, other=0.0)
    k = tl.load(k_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
    v = tl.load(v_ptr + k_offsets, mask=cols[:, None] < n_keys, other=0.0)
    scores = tl.where(cols[None, :] < n_keys, tl.dot(q, tl.trans(k)) * scale, -float("inf"))
    power = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    out = tl.dot(power.to(tl.float16), v) / tl.sum(power, axis=1)[:, None]
    out_ptrs = out_ptr + head * n_queries * D + q_offsets
    tl.store(out_ptrs, out, mask=rows[:, None] < n_queries)


# %%
check("grouped-heads", grouped_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# With 6 heads and 2 key heads, heads 0, 1 and 2 use key head 0, and 3, 4 and 5 use key head 1.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `k_ptr += …` moves the start of a tensor; k and v need not have the same stride.
#
# </details>

# %% [markdown]
# Does sharing make the kernel faster too? There is one program per query head, and each still reads
# all keys of its key head. So as many bytes are asked for as before; only the L2 cache can serve
# more of them. And when a model writes word by word, M is 1, but a tensor core multiplies 16 rows
# at once: 15 of 16 are padding.
#
# Both are cured at once. Let the four heads of a group be four rows of one tile: they see the
# same keys. Nothing is moved for it. With M = 1, `q` of 32 heads of one query is, in memory, also
# 8 heads of four queries. This is called *packing* the group, and it needs only a view. The
# course's v1 takes grouped heads, so count it both ways.


# %%
def ask(tool, q, k):
    lse = torch.empty(q.shape[:3], device="meta")
    strides = [x.stride()[:3] for x in (q, k, k, q)]
    sizes = (q.shape[2], k.shape[2]), q.shape[3]
    args = (q, k, k, q, lse, 0.125, q.shape[1], q.shape[1] // k.shape[1], *strides, *sizes)
    tile = {"IS_CAUSAL": False, "BLOCK_HEADDIM": 64, "BLOCK_M": 16, "BLOCK_N": 64}
    return tool(flash_attention_kernel_v1, (1, q.shape[1], 1), *args, **tile, target="H200")


# %% tags=["nbval-check-output"]
q = torch.empty(1, 32, 1, 64, dtype=torch.float16, device="meta")  # 32 heads, one query each
k = torch.empty(1, 8, 1024, 64, dtype=torch.float16, device="meta")  # 8 key heads
for name, queries in (("one program per head", q), ("packed", q.view(1, 8, 4, 64))):
    c = ask(cost, queries, k)
    print(f"{name:20}: {c.bytes_loaded:9,} bytes asked for, {c.dot['fp16']:11,} operations of dots")

# %% [markdown]
# A quarter of both. If M is larger than 1 and a causal mask is needed, packing takes more care: row
# r is at position r % M if the rows lie head after head, and at r // group if the heads of one
# position lie side by side.
#
# Is the packed launch fast now? Bytes and operations do not say all. `diagnose`, which you met in
# notebook {rows-of-any-width}, takes the same arguments as `cost` and says what else limits a
# launch.
#
# **Predict:** what will it name first? Think of how many programs there are.
#
# <details>
# <summary>Answer</summary>
#
# Packing left one program per key head, and an H200 has 132 multiprocessors: nearly all of them
# have nothing to do.
#
# </details>

# %%
ask(diagnose, q.view(1, 8, 4, 64), k)

# %% [markdown]
# The change that it names first, splitting the loop of a program over several programs, is
# split-KV. You can write it in exercise {split-the-keys}.

# %% [markdown]
# ## Choosing tiles
#
# How many queries should a tile have? Larger tiles read k and v less often, as you saw. Put a
# number on it. For one tile of keys and values, a program reads 2 * BLOCK_N * D float16, which
# are 4 * BLOCK_N * D bytes, and computes two products of 2 * BLOCK_M * BLOCK_N * D operations.
# Divide:
#
# ```
# 4 * BLOCK_M * BLOCK_N * D operations  /  4 * BLOCK_N * D bytes  =  BLOCK_M operations per byte
# ```
#
# Nearly all of these bytes come from the L2 cache, so they run against its roof, which you met in
# notebook {what-a-dot-becomes}.
#
# **Predict:** how many queries must a tile have, so that the L2 cache is not slower than the
# tensor cores with their 989 TFLOP/s? The L2 cache of an H200 gives about 9.7 TB/s.
#
# <details>
# <summary>Answer</summary>
#
# 989 / 9.7 is about 102 operations per byte, so about 102 queries: 128 is the next power of two.
#
# </details>

# %%
q, k, v, out = (torch.empty(4, 512, 64, dtype=torch.float16, device="meta") for _ in range(4))
args, tile, counts = (q, k, v, out, 512, 512, 0.125), {"D": 64, "BLOCK_N": 64, "CAUSAL": False}, {}
for m in (16, 64, 128):
    c = cost(split_kernel, (512 // m, 4), *args, **tile, BLOCK_M=m, target="H200")
    counts[f"{m} queries"] = c
    print(f"{m:3} queries: {c.l2_intensity:5.1f} operations per byte, at least {c.least_us:.2f} us")

# %%
draw.roofline(counts)

# %% [markdown]
# Counted, it is a little less than the formula says, since q and the result move as well. All three
# tiles do the same arithmetic, and device memory must move the same bytes. Only what they ask of
# the L2 cache differs: for the smallest tile that takes more than six times as long as the tensor
# cores need. With 128 queries the two roofs meet.
#
# So 128 queries. What bounds a tile from above is room. The accumulator and the scores are
# float32 in registers, of which a thread has at most 255. `q` and the tiles of k and v that are
# on their way lie in shared memory, at most 227 KB per program on an H200.
#
# **Predict:** with D = 128, a tile of 128 x 64 and 4 warps, how many registers per thread do the
# accumulator and the scores take?
#
# <details>
# <summary>Answer</summary>
#
# The accumulator is 128 x 128 numbers over 128 threads: 128 registers. The scores are 128 x 64:
# 64 more. Together 192 of at most 255, before anything else has found a place.
#
# </details>


# %%
def try_tile(target, m, n, warps, stages):
    tile = {"D": 128, "BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": stages}
    args = ["*fp16:16"] * 4 + [4096, 4096, 128**-0.5]
    s = lower(split_kernel, *args, **tile, CAUSAL=False, target=target)
    used, what = s.resources, f"{m:3} x {n:3}, {warps} warps, depth {stages}"
    kb = used.shared_bytes // 1024
    print(f"{what}: {used.registers} registers, {used.spill_bytes:3} bytes spilled, {kb:3} KB shared")
    return s


# %%
for tile in [(64, 64, 4, 2), (128, 64, 4, 2), (128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 3)]:
    try_tile("sm_90", *tile)

# %% [markdown]
# 128 x 64 spills with 4 warps, and 8 warps halve what each thread must hold. In shared memory 128
# queries take 32 KB, and each step of pipeline depth takes the k and v of one more iteration: 32
# KB with 64 keys, 64 KB with 128. The last tile is as large as an H200 allows, in registers and
# in shared memory.

# %% [markdown]
# ### Exercise {attention-registers} · Registers (core)
#
# In tiles of 128 x 128 with D = 128 and 8 warps: how many registers of a thread do the accumulator
# and one tile of scores take together, in float32?

# %%
# exercise attention-registers
registers = None
# about 1 line from here
registers = (128 * 128 + 128 * 128) / (8 * 32)
# to here

# %%
check("attention-registers", registers)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many numbers has each of the two, and how many threads has a program with 8 warps?
#
# </details>

# %% [markdown]
# Here is that tile to scale: the registers of a thread, and the shared memory of a program. The
# kernel has two loops, one over whole tiles and one over masked ones. Their buffers take the same
# place, one loop after the other, so k and v are drawn in two rows.

# %%
draw.room(try_tile("sm_90", 128, 128, 8, 3), "acc", "scores")

# %% [markdown]
# Another GPU has another answer. An RTX 4090 (sm_89) gives a program 99 KB, and needs one buffer
# less for the same depth, as in notebook {copies-in-flight}. Its tensor cores take operands from
# registers alone, so q is read from shared memory again in each iteration, and a thread needs more
# registers.

# %%
for tile in [(128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2)]:
    try_tile("sm_89", *tile)

# %% [markdown]
# The third one spills. A bound like this prunes the choices, and measuring picks among the rest. In
# practice that is `@triton.autotune`, with block sizes in its configurations: give it the few tiles
# that fit, or a function `prune_configs_by={"early_config_prune": ...}` that throws out those that
# do not, and `cache_results=True`, which keeps the winner on disk. The course wrote its choices
# down instead: [kernels/attention/settings.py](../kernels/attention/settings.py) has an entry for
# each amount of shared memory and each head dimension. Those for 227 KB won on an H200; those for
# smaller GPUs fit and spill nothing, but were not timed.

# %% [markdown]
# ## Warps with different jobs
#
# Here is the loop of a tile of 128 x 64 at depth 3, as the compiler has laid it out. When do the
# tensor cores work?

# %%
draw.pipeline(try_tile("sm_90", 128, 64, 8, 3))

# %% [markdown]
# Loads of later iterations are on their way while one is computed: memory is hidden. But look at
# the tensor cores. The second dot needs the exponentials, and they need the first dot. So the
# tensor cores idle during each softmax, unless other warps have a dot ready just then.
#
# **Warp specialization** makes sure that they have. Warps of one program get different jobs. A
# **producer warp** only loads tiles into shared memory. Two groups of **consumer warps** own half
# of the tile's rows each, and compute. While one group is at its softmax, the other has the
# tensor cores. This is a sketch of it; its durations are made up.

# %%
draw.specialized(consumers=2, tiles=5)

# %% [markdown]
# In Triton you ask for it with a word at the loop, `warp_specialize=True`, and the compiler divides
# the work. On an H200 such a loop compiles only where q, k and v all come by descriptors. The
# course's v5 is written so. Compile it, and look for three things in its PTX: how many warps are
# launched, what each group does, and how many registers it asks for.

# %%
tile = {"IS_CAUSAL": False, "HEADDIM": 128, "BLOCK_M": 128, "BLOCK_N": 128}
tile |= {"HEADS_PER_KEY_HEAD": 1, "PERSISTENT": True, "num_warps": 4, "num_stages": 2}
args = ["*fp16:16"] * 4 + ["*fp32:16", "fp32"] + ["i32:16"] * 3
args += [("i32:16",) * count for count in (3, 3, 3, 3, 4, 2)]  # strides, rows and lengths, as tuples
s = lower(flash_attention_kernel_v5, *args, **tile, target="sm_90")
print(s.resources)
jobs = {"cp.async.bulk.tensor": "tile copies", "wgmma.mma": "dot steps", "ex2.approx": "powers"}
for part in s.ptx.split("setmaxnreg.")[1:]:  # the instruction that changes a group's registers
    done = [f"{name}: {part.count(mark)}" for mark, name in jobs.items() if mark in part]
    print(" ".join(part.split(";")[0].split()), "|", ", ".join(done))

# %% [markdown]
# 12 warps are launched, though `num_warps` says 4: it counts one group, and there are three. A
# program is given 168 registers for each thread at its launch, the same number for all.
#
# Then comes `setmaxnreg`, an instruction that Hopper brought. With it a group of four warps gives
# registers back (`dec`) or takes more (`inc`). Read the lines from the top. The producer takes 256
# to set things up, and then goes down to 40: it computes nothing but addresses, and its line has
# copies and no dots. (There are four: q in two halves, k, and v.) The consumers wait with 120 each,
# and go up to 232 when their work begins; their one copy stores the result. The last line is the
# producer's again, at the very end.
#
# Does this add up? A group has 128 threads, and the launch reserved 3 * 128 * 168 registers.
#
# <details>
# <summary>Answer</summary>
#
# 128 * (40 + 232 + 232) = 64,512, and 3 * 128 * 168 = 64,512. The registers that the producer
# does not need are exactly those that the consumers got. A multiprocessor has 65,536.
#
# </details>

# %% [markdown]
# Why is 232 enough? Each consumer has 64 of the 128 rows: an accumulator of 64 x 128 and scores of
# 64 x 128 over 128 threads are 64 + 64 registers. With 168 it would be tight beside all else, and
# as a single group of 4 warps the tile would not fit at all.
#
# Other GPUs divide the work in other ways. On a B200 (sm_100) a single warp can start a dot, and
# its result lies in tensor memory, so Triton splits the loop finer there. Here is the loop with
# descriptors made in the kernel. It is only compiled: a launch would need memory for the
# descriptors, which `triton.set_allocator` provides, as in v5's launcher. On sm_90 it does not
# compile, since its `q` comes by pointers.


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
# Four jobs: softmax, rescaling, starting dots, and loading. This is the division that
# *FlashAttention-4* makes by hand, as you will read below.

# %% [markdown]
# ## What you can do now
#
# You can bound a tile by the L2 cache from below, and by registers and shared memory from above.
# Ask yourself:
#
# 1. Why does each thread of v5's consumer warps get 232 registers, and of its producer warps 40?
#
# <details>
# <summary>Answer</summary>
#
# A consumer holds half of the accumulator and of the scores, 64 + 64 registers per thread, and
# what the softmax needs. The producer holds addresses. `setmaxnreg` moves registers from one to
# the other.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/23-heads-and-tiles.py](../solutions/23-heads-and-tiles.py) has all answers.
#
# **Next:** [24, variations, and where attention stands](24-variations.ipynb).
