# %% [markdown]
# # 23 · Heads, lengths, and how large a tile
#
# Real models have many heads, heads that share keys, and lengths of their own. And a real GPU has only so
# many registers. Here the kernel meets both.
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
    head = tl.program_id(axis=0).to(tl.int64)
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
# 8 heads of four queries. This is called *packing* the group, and it needs only a view. In the
# picture a tile has 16 rows, of which the colored ones are used; each color is one group.

# %%
draw.packing(key_heads=2, group=4)

# %% [markdown]
# The course's v1 takes grouped heads, so count it both ways.


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

# %% [markdown]
# Now the same three under the roofs. Each kernel stands there twice, at one height: as a circle over
# its operations per byte that memory must move, and as a diamond over those per byte that it asks
# of the L2 cache. The roof that one of the two touches is its limit. (The line at 67 TFLOP/s, of
# arithmetic outside the tensor cores, plays no part here.)

# %%
draw.roofline(counts)

# %% [markdown]
# Counted, it is a little less than the formula says, since q and the result move as well. All three
# tiles do the same arithmetic, and device memory must move the same bytes. Only what they ask of
# the L2 cache differs: for the smallest tile that takes more than six times as long as the tensor
# cores need. With 128 queries the two roofs meet.
#
# So 128 queries. What bounds a tile from above is room. `q` and the tiles of k and v lie in shared
# memory, at most 227 KB per program on an H200, and `wgmma` reads them there. The accumulator and
# the scores are float32 in registers, of which a thread has at most 255. And `power`? It is made
# from the scores, rounded to 16 bits, and stays in registers: the first operand of a `wgmma` may
# come from there, so what the first dot leaves behind goes into the second one without a detour.

# %%
draw.residence(block_m=128, block_n=64, d=128, warps=4)

# %% [markdown]
# Take D = 128, a tile of 128 x 64 and 4 warps. The accumulator is 128 x 128 numbers over 128
# threads, and the scores are half as many: 128 + 64 = 192 of at most 255 registers, before anything
# else has found a place.


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
# So the two tiles are half of what is used. Of "all else", 32 are `power`: 128 x 128 numbers of 16
# bits over 256 threads. The rest are addresses, maxima, sums, and what the masked loop compares. The
# finished kernel of notebook {finished-kernel} can do without that loop, and takes 203 registers
# with this tile. So a sum like yours says what cannot fit. What does fit, the compiler says.

# %% [markdown]
# Another GPU has another answer. An RTX 4090 (sm_89) gives a program 99 KB, and needs one buffer
# less for the same depth. Its tensor cores take operands from registers alone, so q is read from
# shared memory again in each iteration, and a thread needs more registers.

# %%
for tile in [(128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2)]:
    try_tile("sm_89", *tile)

# %% [markdown]
# The third one spills. A bound like this prunes the choices, and measuring picks among the rest, as
# `@triton.autotune` did in notebook {rows-of-any-width}. The course wrote its choices down instead:
# [kernels/attention/settings.py](../kernels/attention/settings.py) has an entry for each amount of
# shared memory and each head dimension. Those for 227 KB won on an H200, with Triton 3.7.1. Those
# for smaller GPUs fit and spill nothing, but were not timed.
#
# `settings_on` looks them up. It asks the GPU how much shared memory a program may have, and takes
# the largest amount in the table that fits, since larger tiles read k and v less often. There,
# `up_to` takes the first row that is not below the head dimension: heads of 80 take the row of 128,
# the power of two that their tiles are padded to. A GPU with less than the smallest amount is
# refused, since its launch could only fail. The interpreter has no shared memory, and gets the
# smallest tiles, of which even a short example has several.

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
# Until now all eight warps did everything together. **Warp specialization** splits the crew. A
# **producer warp** only fetches: it asks for tiles and computes nothing. Two groups of four
# **consumer warps** own half of the tile's rows each, and compute. This gives the hardware
# a choice: if one group is at its softmax, the other may have a dot ready.
#
# How does a tile pass from one to the other? Each buffer in shared memory has *barriers*: counters,
# also in shared memory, on which warps can wait. One says *full*: it is told how many bytes to
# expect, and flips when the last of them has landed. One for each consumer says *empty*, and flips when
# all 128 threads of that group have said that they have read the tile.
#
# - The producer waits until both groups' `empty` has flipped, tells `full` how many bytes will come,
#   and starts the copy. Then it goes on to the next buffer.
# - A consumer waits for `full`, multiplies, and says `empty` as soon as the dot is done. Its softmax
#   needs the buffer no more.
#
# No group waits for the other. In the sketch, k2 goes where k0 was, so the producer waits for both.
# Its durations are made up.

# %%
draw.specialized(consumers=2, tiles=5)

# %% [markdown]
# Look at the tensor cores. Both groups wait for the same tile, so they begin together, and nothing
# parts them again. That is no quirk of the sketch. The same division of work was watched on an H200,
# in notebook {attention-in-gluon}: four fifths of the softmax ran while nobody multiplied.
#
# In Triton you ask for it with a word at the loop, `warp_specialize=True`, and the compiler divides
# the work. On an H200 such a loop compiles only where q, k and v all come by descriptors. The
# course's v5 is written so. Compile it, and look for four things in its PTX: how many warps are
# launched, what each group does and how often it waits, and how many registers it asks for.

# %%
tile = {"IS_CAUSAL": False, "HEADDIM": 128, "BLOCK_M": 128, "BLOCK_N": 128}
tile |= {"HEADS_PER_KEY_HEAD": 1, "PERSISTENT": True, "num_warps": 4, "num_stages": 2}
args = ["*fp16:16"] * 4 + ["*fp32:16", "fp32"] + ["i32:16"] * 3
args += [("i32:16",) * count for count in (3, 3, 3, 3, 4, 2)]  # strides, rows and lengths, as tuples
s = lower(flash_attention_kernel_v5, *args, **tile, target="sm_90")
print(s.resources)

# %%
jobs = {"cp.async.bulk.tensor": "tile copies", "wgmma.mma": "dot steps", "ex2.approx": "powers"}
jobs |= {"mbarrier.init": "barriers made", "try_wait": "waits", "mbarrier.arrive.shared": "empty"}
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
# copies and no dots. There are four: q in two halves, k, and v. It waits six times, for both groups
# before k and before v, and for one before each half of q. The consumers hold 120 each, and go up
# to 232 when their work begins. Each waits for q, k and v, and says `empty` for each. Their one copy
# stores the result. The last line is the producer's again, at the very end.
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
# 64 x 128 over 128 threads are 64 + 64 registers, and `power` takes 32 more. With 168 that would be
# tight beside all else, and as a single group of 4 warps the tile would not fit at all. You write
# such a loop yourself in notebook {finished-on-hopper}.

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
