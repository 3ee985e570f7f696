# %% [markdown]
# # 37 · Attention in Gluon
#
# You have copies, barriers, partitions and products. Here they become attention, step by step, and each
# step lets something run that had to wait before.
#
# **By the end you can** let the softmax of one tile run under the products of another, and say which
# wait allows it.
#
# **You need** notebooks {finished-on-hopper} and {gluon-partitions}.
#
# | section | about minutes |
# |---|---|
# | What attention leaves idle | 5 |
# | One consumer, and two | 15 |
# | The next scores before this output | 20 |
# | Watch the warps | 10 |
# | Which tile next | 20 |
# | Beginning and end | 3 |
# | **Together, an estimate** | 73 |

# %%
from course import DEVICE, attention_timeline, check, draw, hint, lower, on_hopper, recorded
from course import simulate
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.


# %%
def tiled(matrix):
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    return TensorDescriptor.from_tensor(matrix, [64, 64], layout)


# %% [markdown]
# ## What attention leaves idle
#
# Per score, attention does two products of D numbers each, 4 * D operations on the tensor cores,
# and one power. Tensor cores are fast, and powers come from a small unit beside them: 16 per cycle
# and multiprocessor, says the CUDA programming guide for compute capability 9.0. With 132
# multiprocessors at 1.83 GHz that is 3.9 * 10^12 per second, against 989 * 10^12 operations.
#
# **Predict:** which takes longer at D = 128, the products or the powers, and by how much?
#
# <details>
# <summary>Answer</summary>
#
# The products, by a factor of two: 512 operations at 989 * 10^12 per second take 0.52 ps, one power
# at 3.9 * 10^12 takes 0.26 ps. At D = 64 both take the same time.
#
# </details>

# %% tags=["nbval-check-output"]
for head_dim in (64, 128, 256):
    products_ps, power_ps = 4 * head_dim / 989, 1e12 / (16 * 132 * 1.83e9)
    lost = power_ps / (products_ps + power_ps)
    print(f"D = {head_dim:3}: {products_ps:.2f} ps of products, {power_ps:.2f} of powers: {lost:.0%}")

# %% [markdown]
# The last number is what the tensor cores lose where powers and products take turns: half of the
# time at D = 64, a third at 128. So the one has to run while the other does. There are two ways,
# and the best kernels take both. With two consumers, one can compute powers while the other
# multiplies. And within one consumer, the next product can be under way during the powers.
#
# **On other GPUs.** The ratio is Hopper's. On sm_80, sm_89 and sm_120 the product is `mma.sync`, an
# instruction of a single warp, which waits where it needs the result. There the overlap comes from
# the other warps. On sm_100 products became faster and powers did not, so powers bind even more.

# %% [markdown]
# ## One consumer, and two
#
# We write attention for one head with D = 64, without a mask, and for lengths that tiles of 64
# divide. K and V share a ring of four buffers: tile number `2 * i` is that of the keys, `2 * i + 1`
# that of the values, so that each of the two has two buffers of its own. Here are the ring's three
# actions, and the step of the online softmax from notebook {powers-of-two}, in powers of two.


# %%
@gluon.jit
def fetch_tile(desc, row, ring, full, empty, number):
    slot, phase = number % 4, (number // 4) & 1
    mbarrier.wait(empty.index(slot), phase ^ 1)
    mbarrier.expect(full.index(slot), desc.nbytes_per_cta)
    tma.async_load(desc, [row, 0], full.index(slot), ring.index(slot))


@gluon.jit
def wait_for(ring, full, number):
    mbarrier.wait(full.index(number % 4), (number // 4) & 1)
    return ring.index(number % 4)


@gluon.jit
def give_back(empty, number):
    mbarrier.arrive(empty.index(number % 4), count=1)


@gluon.jit
def online(s, m, total, scale):
    new_m = gl.maximum(m, gl.max(s, 1) * scale)  # scale: with log2(e)
    p = gl.exp2(s * scale - new_m[:, None])
    alpha = gl.exp2(m - new_m)
    return p, new_m, total * alpha + gl.sum(p, 1), alpha


# %% [markdown]
# The producer loads the queries once, and then K and V tile by tile, the keys one tile ahead of the
# values. (The next section says why.) The consumer is the loop of notebook {powers-of-two}, one step
# after the other.
#
# - The scores need K transposed. `permute` says so without moving a byte: that is how `wgmma` takes
#   a second operand anyway. (V would have to be transposed; for types of 16 bits `wgmma` does that
#   itself.)
# - With `use_acc=False` the result is the product alone. `zeros` is passed all the same, since it says
#   which shape, type and layout the result has.
# - P never goes to shared memory. The accumulator's layout is nearly the one that a left operand
#   needs, which is `DotOperandLayout(0, layout, 2)`: operand 0, with 2 numbers of 16 bits in each
#   register. So `convert_layout` has little to do.


# %%
@gluon.jit
def load_head(q_desc, k_desc, v_desc, q, q_full, ring, full, empty, tiles):
    mbarrier.expect(q_full, q_desc.nbytes_per_cta)
    tma.async_load(q_desc, [gl.program_id(0) * q.shape[0], 0], q_full, q)
    fetch_tile(k_desc, 0, ring, full, empty, 0)
    for i in range(1, tiles):
        fetch_tile(k_desc, 64 * i, ring, full, empty, 2 * i)
        fetch_tile(v_desc, 64 * (i - 1), ring, full, empty, 2 * i - 1)
    fetch_tile(v_desc, 64 * (tiles - 1), ring, full, empty, 2 * tiles - 1)


@gluon.jit
def attend(q, ring, full, empty, tiles, scale):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    zeros = gl.zeros([64, 64], gl.float32, layout)
    m = gl.full([64], -float("inf"), gl.float32, gl.SliceLayout(1, layout))
    total = gl.full([64], 0.0, gl.float32, gl.SliceLayout(1, layout))
    acc = zeros
    for i in range(tiles):
        k = wait_for(ring, full, 2 * i)
        s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(0, deps=[s])
        give_back(empty, 2 * i)
        p, m, total, alpha = online(s, m, total, scale)
        v = wait_for(ring, full, 2 * i + 1)
        p = gl.convert_layout(p.to(v.dtype), operand)
        acc = warpgroup_mma(p, v, acc * alpha[:, None], is_async=True)
        acc = warpgroup_mma_wait(0, deps=[acc])
        give_back(empty, 2 * i + 1)
    return acc / total[:, None]


# %% [markdown]
# With two consumers each takes 64 of the program's 128 queries. Both read the same K and V, so each
# byte that comes from memory is used by twice as many queries. `AHEAD` chooses between `attend` and
# a better loop that you write in the next section.


# %%
@gluon.jit
def consume(out_ptr, q, q_full, ring, full, empty, tiles, scale, NUMBER: gl.constexpr,
            CONSUMERS: gl.constexpr, AHEAD: gl.constexpr):  # fmt: skip
    mbarrier.wait(q_full, 0)
    own = q.slice(64 * NUMBER, 64)
    if AHEAD:
        result = attend_ahead(own, ring, full, empty, tiles, scale)
    else:
        result = attend(own, ring, full, empty, tiles, scale)
    rows = gl.arange(0, 64, gl.SliceLayout(1, result.type.layout))
    rows += (gl.program_id(0) * CONSUMERS + NUMBER) * 64
    cols = gl.arange(0, 64, gl.SliceLayout(0, result.type.layout))
    gl.store(out_ptr + rows[:, None] * 64 + cols[None, :], result)


@gluon.jit
def attention_kernel(q_desc, k_desc, v_desc, out_ptr, tiles, scale,
                     CONSUMERS: gl.constexpr, AHEAD: gl.constexpr):  # fmt: skip
    q = gl.allocate_shared_memory(q_desc.dtype, [64 * CONSUMERS, 64], q_desc.layout)
    ring = gl.allocate_shared_memory(k_desc.dtype, [4, 64, 64], k_desc.layout)
    q_full = mbarrier.allocate_mbarrier()
    full = mbarrier.allocate_mbarrier(batch=4)
    empty = mbarrier.allocate_mbarrier(batch=4)
    mbarrier.init(q_full, count=1)
    for each in gl.static_range(4):
        mbarrier.init(full.index(each), count=1)
        mbarrier.init(empty.index(each), count=CONSUMERS)
    fence_async_shared()
    load = (q_desc, k_desc, v_desc, q, q_full, ring, full, empty, tiles)
    if CONSUMERS == 1:
        gl.warp_specialize([
            (consume, (out_ptr, q, q_full, ring, full, empty, tiles, scale, 0, 1, AHEAD)),
            (load_head, load),
        ], [1], [24])  # fmt: skip
    else:
        gl.warp_specialize([
            (consume, (out_ptr, q, q_full, ring, full, empty, tiles, scale, 0, 2, AHEAD)),
            (consume, (out_ptr, q, q_full, ring, full, empty, tiles, scale, 1, 2, AHEAD)),
            (load_head, load),
        ], [4, 1], [240, 24])  # fmt: skip


# %% tags=["nbval-check-output"]
q, k, v = torch.randn(3, 256, 64, device=DEVICE).half()
reference = torch.softmax(q.float() @ k.float().mT / 8, dim=-1) @ v.float()
out = torch.empty(256, 64, device=DEVICE)
scale = 1.4426950408889634 / 8  # log2(e) / sqrt(64)
for consumers in (1, 2):
    q_tiles = TensorDescriptor.from_tensor(q, [64 * consumers, 64], tiled(q).layout)
    arguments = (q_tiles, tiled(k), tiled(v), out, 4, scale, consumers, False)
    simulate(attention_kernel, (4 // consumers,), *arguments)
    print(consumers, torch.allclose(out, reference, atol=1e-3))

# %%
on_hopper(attention_kernel, (2,), *arguments)

# %% [markdown]
# Count what the second consumer saves. Per tile of keys a program reads 16,384 bytes of K and V.
# They serve 64 queries with one consumer, and 128 with two: 256 or 128 bytes for each.
#
# The division has to fit into the registers. The producer is one warp, and Gluon fills its group up
# to four: 12 warps in all, with 168 registers per thread when the program starts. `setmaxnreg` then
# gives the consumers 240, and leaves the producer 24.

# %% tags=["nbval-check-output"]
lower(attention_kernel, *arguments, target="sm_90").resources

# %% [markdown]
# **On other GPUs.** It is `wgmma` that needs sm_90. On sm_80 the warps of a program share K and V
# as well, all in step.

# %% [markdown]
# ## The next scores before this output
#
# What is each step worth? The course's kernel was recorded on an H200 after each, here at D = 128
# with 2,048 queries and keys.

# %% tags=["nbval-check-output"]
speeds = recorded("flash_attention_hopper_128")
cudnn = speeds.at("torch, cuDNN", 2048).ms
for step in ("one consumer", "two consumers"):
    print(f"{step}: {cudnn / speeds.at(step, 2048).ms:.2f} of cuDNN's speed")

# %% [markdown]
# Two consumers are two chances: while one is at its powers the other may multiply. Nobody sees to
# it, though, and within each of them everything still waits for the step before. Look at the loop:
# which two products do not need each other? The scores of tile i, and the output of tile i - 1. So
# start both, one right after the other. The scores end first; while the tensor cores are busy
# with the output, the softmax of the new scores is computed.
#
# | | tensor cores | the other units |
# |---|---|---|
# | before the loop | scores 0 | |
# | | | softmax 0 |
# | iteration i | scores i, then output i - 1 | |
# | | output i - 1, still | softmax i |
# | after the loop | output of the last tile | |
#
# Which wait says what? Products end in the order in which they were started. So
# `warpgroup_mma_wait(1, deps=[s])` returns the scores and leaves the newest product, the output,
# under way. Only then may K's buffer be given back. V's is still being read.
#
# Keys come first in this loop, and `load_head` loads them in the same order. So the producer
# already waits for K's buffer when you give it back, and overwrites it at once: too early if the
# scores are still under way.

# %% [markdown]
# ### Exercise {scores-ahead} · Scores ahead (core)
#
# Complete the loop: after the two products are started, wait for the scores alone and give back the
# buffer of K; after the softmax, wait for the output and give back the buffer of V. The loop is
# `attention_kernel`'s with `AHEAD=True`.


# %%
# exercise scores-ahead
@gluon.jit
def attend_ahead(q, ring, full, empty, tiles, scale):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    zeros = gl.zeros([64, 64], gl.float32, layout)
    m = gl.full([64], -float("inf"), gl.float32, gl.SliceLayout(1, layout))
    total = gl.full([64], 0.0, gl.float32, gl.SliceLayout(1, layout))
    acc = zeros
    k = wait_for(ring, full, 0)
    s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False)
    give_back(empty, 0)
    p, m, total, alpha = online(s, m, total, scale)
    for i in range(1, tiles):
        k = wait_for(ring, full, 2 * i)
        s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)
        v = wait_for(ring, full, 2 * i - 1)
        operand_p = gl.convert_layout(p.to(v.dtype), operand)
        acc = warpgroup_mma(operand_p, v, acc, is_async=True)
        # about 2 lines from here
        s = warpgroup_mma_wait(1, deps=[s])
        give_back(empty, 2 * i)
        # to here
        p, m, total, alpha = online(s, m, total, scale)
        # about 2 lines from here
        acc = warpgroup_mma_wait(0, deps=[acc])
        give_back(empty, 2 * i - 1)
        # to here
        acc = acc * alpha[:, None]
    v = wait_for(ring, full, 2 * tiles - 1)
    acc = warpgroup_mma(gl.convert_layout(p.to(v.dtype), operand), v, acc)
    give_back(empty, 2 * tiles - 1)
    return acc / total[:, None]


# %%
check("scores-ahead", attention_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `warpgroup_mma_wait(n, …)` waits until at most n products are under way. The scores were started
# first.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The keys of this iteration are tile number `2 * i`. The values are those of the iteration before.
#
# </details>

# %% [markdown]
# Why is `acc` rescaled after its product and not before? Because `alpha` belongs to the new scores,
# and the product under way belongs to the old ones. The terms that it adds are rescaled with all
# that were there before.

# %% tags=["nbval-check-output"]
print(f"{cudnn / speeds.at('scores a tile ahead', 2048).ms:.2f} of cuDNN's speed")

# %% [markdown]
# **On other GPUs.** A product that is left running needs `wgmma`, or `tcgen05` on sm_100. On sm_80,
# sm_89 and sm_120 the compiler can only mix the instructions of the two products with those of the
# softmax.

# %% [markdown]
# ## Watch the warps
#
# Does it come out like that on a GPU? `simulate` knows who waits for whom, and nothing of how long.
# The warps themselves can tell. Proton, the profiler of notebook {when-it-is-slow}, has two
# functions that a Gluon kernel may call: at `enter_scope("softmax")` and at `exit_scope("softmax")`
# each warp reads the clock of its multiprocessor and writes down what it read. The course has put
# such scopes around all that the warps of its fastest kernel do or wait for, ran the steps of this
# notebook on an H200 at D = 128, and kept what the warps of one multiprocessor wrote. The results
# were the same to the bit. With 33 heads, all 132 multiprocessors get the same number of tiles of
# queries.
#
# Here is the first step, one consumer. Time runs to the right, in cycles. A pale color is a wait
# for what has the full one, and white is what has no name, such as the arithmetic of the loop. The
# last row shows when a product is under way: from its start until the consumer has waited for it.
# Outside of that the tensor cores have nothing to do.

# %%
timeline = attention_timeline()
display(draw.timeline(timeline.of("one consumer"), between=(0, 34_000)))
print(timeline.of("one consumer"))

# %% [markdown]
# You see the loop: wait for the scores, softmax, wait for the output, and again. The producer has
# asked for the next tiles long before, and spends two thirds of the time waiting for a slot. That
# is why one warp with 24 registers per thread will do. And the 19% that the consumer waits for a
# tile? Three quarters of it lie before the first product, until Q and the first K have come. After
# that no such wait takes more than 110 cycles.
#
# Now count. The best that can happen is that all of the softmax runs under a product.
#
# **Predict:** the 1,024 keys are 8 tiles of 128. How much of its softmax does a consumer compute
# while a product of its own is under way, with one consumer, and with the scores a tile ahead?
#
# <details>
# <summary>Answer</summary>
#
# With one consumer none: each product has ended before the softmax begins. With the scores a tile
# ahead all but the softmax of the first tile, which has no output before it: 7 of 8, or 88%. What
# the other consumer has under way at that time comes on top, so the cell may show more.
#
# </details>

# %% tags=["nbval-check-output"]
for step in ("one consumer", "two consumers", "scores a tile ahead"):
    under = timeline.of(step).softmax_under_products
    none = timeline.of(step).without_product
    print(f"{step:20} softmax under products {under:4.0%}, no product {none:4.0%} of the time")

# %% [markdown]
# Two consumers might have taken turns by chance. They do not: four fifths of their softmax runs
# while nobody multiplies. The picture shows why. (It is longer than the first one because the
# program does twice as many queries.)

# %%
display(draw.timeline(timeline.of("two consumers"), between=(0, 34_000)))

# %% [markdown]
# They go nearly in step. From the second tile on, consumer 1 starts each product about 500 cycles
# after consumer 0, and a softmax takes two and a half times as long. So while one computes its
# softmax, the other is in its own for more than half of that time, and nobody multiplies. Chance
# does not undo that: neither gets far ahead, since a slot is filled again only when both have given
# it back.
#
# With the scores a tile ahead nobody needs the luck.

# %%
display(draw.timeline(timeline.of("scores a tile ahead"), between=(0, 34_000)))

# %% [markdown]
# The yellow slivers are empty, since nobody takes turns yet. Each is what it costs to read the clock
# twice: 73 cycles on the median.
#
# From the second tile to the last a product is under way all the time. That the tensor cores are
# busy all the time does not follow: a product may have ended long before anybody waits for it, and
# two products that are under way share the same tensor cores. Reading the clocks takes time
# too, which the last line under the first picture gives. A timeline says where to look. How fast a
# kernel is, only an ordinary measurement says: notebook {fastest-kernel} has one, step by step.
#
# The course's kernel takes one more step, `consumers take turns`: a consumer may start its products
# only after the other one has started its own, and a barrier for each consumer says so. It is
# FlashAttention-3's answer to two consumers that go in step.

# %% tags=["nbval-check-output"]
print(f"{cudnn / speeds.at('consumers take turns', 2048).ms:.2f} of cuDNN's speed")

# %% [markdown]
# **On other GPUs.** The picture is an H200's. Proton's scopes work in any Gluon kernel, so on your
# own GPU you can see your own warps; on one of compute capability 9.0,
# `python -m tools.record attention_timeline` in a checkout of the course records them anew for this
# picture.

# %% [markdown]
# ## Which tile next
#
# A program that does one tile of queries and ends leaves its multiprocessor idle twice: at its
# start, until the first keys have come, and at its end, while the output is stored. A persistent
# program (notebook {persistent-programs}) takes tile after tile. With a producer of its own that is
# worth more: it does not wait for the output, and loads the next queries and keys while the
# consumers finish this tile.
#
# The timeline shows both. First two programs one after the other, then one persistent program with
# the same two tiles, and room for two tiles of Q. Look for the gap between the products.

# %%
display(draw.timeline(timeline.of("consumers take turns"), between=(0, 62_000)))
display(draw.timeline(timeline.of("the next Q early"), between=(0, 62_000)))

# %% [markdown]
# Between the last product of the first tile and the first product of the second lie about 6,400
# cycles in the first picture, and 1,400 in the second.

# %% tags=["nbval-check-output"]
for step in ("persistent", "the next Q early"):
    print(f"{step}: {cudnn / speeds.at(step, 2048).ms:.2f} of cuDNN's speed")

# %% [markdown]
# Under a causal mask, tiles differ in length: the first queries see few keys, the last see all.
# Which should come first? If the longest ones come last, a few programs work long after the others
# have ended. So the longest come first, and the short ones fill the gaps.
#
# How large should a tile be? Large tiles read less and compute more than the mask lets through,
# since a tile is multiplied whole even if half of it is hidden. The cell counts the scores that are
# computed for each one that is visible, by the queries and keys of a tile.

# %% tags=["nbval-check-output"]
for length in (512, 1024, 4096):
    visible = length * (length + 1) / 2
    for rows, keys in ((64, 64), (64, 128), (128, 128), (192, 128)):
        tiles = [-(-min(first + rows, length) // keys) for first in range(0, length, rows)]
        print(f"{length:5}: {rows:3} x {keys:3} {sum(tiles) * rows * keys / visible:.2f}")

# %% [markdown]
# At short lengths small tiles win twice. They compute less that is hidden, and there are more of
# them, so that every multiprocessor has one. That is why the course's kernel has a second form:
# [one warp group](../kernels/attention/gluon/small.py) with 64 queries that asks for its own copies,
# with several programs per multiprocessor and no partition at all. It needs no barrier `empty` either:
# it asks for a tile once it has itself waited for the product that read the buffer. While one program
# computes powers, another one multiplies. It is taken here:
#
# | head dimension | without a mask | under a causal mask |
# |---|---|---|
# | 64 | short sequences | all lengths |
# | 128 | never | short sequences |
# | 256 | never | never |
#
# (At 64 and 128 it is also taken wherever a head has no more than 64 queries.)
#
# Here are four that shared a multiprocessor, with 512 keys.

# %%
display(draw.timeline(timeline.of("small programs")))

# %% [markdown]
# Nearly all of the softmax, 99%, runs under some product, and nobody has arranged for it. The price
# is that each warp group starts its own copies, which takes it 15% of the time, and waits for its
# first tile before it can do anything. The others can use the time that one loses that way.

# %% [markdown]
# ### Exercise {order-of-tiles} · The order of tiles (core)
#
# Program `number` takes the tile of queries that comes at that place: the longest first. Write its
# first row, the `tiles` of keys that any of its queries sees, and how many of these are `whole`:
# seen in full by all its queries. Name them `first_row`, `tiles` and `whole`. Query m sees the keys
# up to and including number m + `n_keys` - `n_queries`, and `BLOCK_M` divides the number of
# queries.


# %%
# exercise order-of-tiles
@gluon.jit
def order_kernel(out_ptr, n_queries, n_keys, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr):
    number = gl.program_id(0)
    blocks = gl.cdiv(n_queries, BLOCK_M)
    # about 4 lines from here
    first_row = (blocks - 1 - number) * BLOCK_M
    sees = first_row + n_keys - n_queries  # the last key that the first query sees
    tiles = gl.maximum(gl.cdiv(sees + BLOCK_M, BLOCK_N), 0)
    whole = gl.maximum((sees + 1) // BLOCK_N, 0)
    # to here
    gl.store(out_ptr + 3 * number, first_row)
    gl.store(out_ptr + 3 * number + 1, tiles)
    gl.store(out_ptr + 3 * number + 2, whole)


# %%
check("order-of-tiles", order_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The last query of the tile sees `BLOCK_M` - 1 keys more than the first. A number of keys, rounded
# up to tiles, is the number of tiles that are seen.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# A tile is whole if the first query sees all of it. Round down.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# With more queries than keys the first ones see nothing: neither number is below 0.
#
# </details>

# %% [markdown]
# **On other GPUs.** Order, persistence and tile sizes are arithmetic, and hold everywhere. Only the
# best numbers differ: how many programs there are, and what fits into shared memory (notebook
# {heads-and-tiles}).

# %% [markdown]
# ## What you can do now
#
# You have built attention from its parts, and seen what each step gains. Could you say which wait
# each step moved?

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/37-attention-in-gluon.py](../solutions/37-attention-in-gluon.py) has all answers.
#
# **Next:** [38, the fastest kernel of the course](38-fastest-kernel.ipynb).
