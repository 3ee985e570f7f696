# %% [markdown]
# # 36 · Gluon: partitions, and tensor cores on request
#
# A ring of buffers has two sides: one fills it, the other uses it up. Here they become warps of their
# own, and the one that uses it up multiplies on tensor cores.
#
# **By the end you can** divide a kernel among producer and consumer warps, say at which phase each
# side waits, read a deadlock, start a product, and wait for it before its operands are overwritten.
#
# **You need** notebook {gluon-copies}.
#
# | section | about minutes |
# |---|---|
# | Producer and consumer warps | 25 |
# | Tensor cores on request | 40 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 75 |
# | Stretch exercises, for those with time left | 25 |

# %%
from course import DEVICE, CourseError, check, compiles_for, hint, lower, on_hopper, simulate
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
# ## Producer and consumer warps
#
# In `sum_kernel` of notebook {gluon-copies} the warps that compute also ask for the copies. They
# can only ask when they come round to it, and if their work is long, the buffer that they have just
# read lies idle. Notebook {heads-and-tiles} divided the work among warps with different jobs: a
# producer asks for copies and does nothing else, consumers compute. There the compiler did it. In
# Gluon you write one function for each job, and `gl.warp_specialize` starts them side by side. Each
# of them is called a **partition**.
#
# Now there are two questions to answer for each buffer. The consumer asks: is it full? The producer
# asks: is it empty, may I overwrite it? So each buffer has two barriers. A copy that lands ends a
# phase of `full`; a consumer that is done with a buffer says so with `mbarrier.arrive(empty)`.
#
# A wait can last forever. Here are two partitions that are too polite. (In the lists that follow them,
# the second has 1 warp with 24 registers per thread; more on that below.)


# %%
@gluon.jit
def go_second(mine, other):
    mbarrier.wait(other, 0)
    mbarrier.arrive(mine, count=1)


@gluon.jit
def polite_kernel():
    passed = mbarrier.allocate_mbarrier(batch=2)
    mbarrier.init(passed.index(0), count=1)
    mbarrier.init(passed.index(1), count=1)
    first = (passed.index(0), passed.index(1))
    second = (passed.index(1), passed.index(0))
    gl.warp_specialize([(go_second, first), (go_second, second)], [1], [24])


# %% tags=["nbval-check-output"]
try:
    simulate(polite_kernel, (1,))
except CourseError as error:
    print(error)

# %% [markdown]
# That is a **deadlock**. On a GPU the kernel would never end, and whoever waits for it, a print of
# its output for example, would wait forever. Nothing would be said. `simulate` says for each
# partition what it waits for, at which line, and what is lacking. Read such a message from the
# lacking arrival: who should have made it, and what does that one wait for?
#
# Now the ring with two jobs. The producer is this.
#
# **Predict:** in the first round nobody has arrived at any `empty` yet. For which phase must the
# producer wait so that it can begin?
#
# <details>
# <summary>Answer</summary>
#
# For phase 1, the one before the first, which counts as ended. In the second round it waits for
# phase 0, which ends when the consumer gives the buffer back for the first time. So where the
# consumer waits for `phase`, the producer waits for `phase ^ 1`, the other one.
#
# </details>


# %%
@gluon.jit
def fetch(x_desc, buffers, full, empty, tiles, SLOTS: gl.constexpr):
    for i in range(tiles):
        slot, phase = i % SLOTS, (i // SLOTS) & 1
        mbarrier.wait(empty.index(slot), phase ^ 1)
        mbarrier.expect(full.index(slot), x_desc.nbytes_per_cta)
        tma.async_load(x_desc, [i * 64, 0], full.index(slot), buffers.index(slot))


# %% [markdown]
# ### Exercise {consumer-of-a-ring} · The consumer of a ring (core)
#
# Write what the consumer does with tile `i`: wait for it, add it to `total` in float32, and give
# the buffer back. Between the read and the arrival belongs a `fence_async_shared()`, since the next
# to use the buffer is the copy engine.


# %%
# exercise consumer-of-a-ring
@gluon.jit
def add_up(out_ptr, buffers, full, empty, tiles, SLOTS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    total = gl.zeros([64, 64], gl.float32, layout)
    for i in range(tiles):
        slot, phase = i % SLOTS, (i // SLOTS) & 1
        # about 4 lines from here
        mbarrier.wait(full.index(slot), phase)
        total += buffers.index(slot).load(layout).to(gl.float32)
        fence_async_shared()
        mbarrier.arrive(empty.index(slot), count=1)
        # to here
    rows = gl.arange(0, 64, gl.SliceLayout(1, layout))
    cols = gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + cols[None, :], total)


@gluon.jit
def divided_kernel(x_desc, out_ptr, tiles, SLOTS: gl.constexpr):
    buffers = gl.allocate_shared_memory(x_desc.dtype, [SLOTS, 64, 64], x_desc.layout)
    full = mbarrier.allocate_mbarrier(batch=SLOTS)
    empty = mbarrier.allocate_mbarrier(batch=SLOTS)
    for each in gl.static_range(SLOTS):
        mbarrier.init(full.index(each), count=1)
        mbarrier.init(empty.index(each), count=1)
    fence_async_shared()
    consumer = (out_ptr, buffers, full, empty, tiles, SLOTS)
    producer = (x_desc, buffers, full, empty, tiles, SLOTS)
    gl.warp_specialize([(add_up, consumer), (fetch, producer)], [1], [24])


# %%
check("consumer-of-a-ring", divided_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `buffers.index(slot).load(layout)` reads a buffer into registers.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The order is: wait for `full` of this buffer at `phase`, read, fence, arrive at `empty` of the
# same buffer.
#
# </details>

# %% [markdown]
# The two lists at the end of `gl.warp_specialize`, such as `[1]` and `[24]`, are for all
# partitions but the first: their warps, and their registers per thread. The first partition runs in the 4 warps of the launch, and
# gets the registers that the others leave. A producer needs a handful of registers, and 24 is the
# least that the hardware takes. What it gives up goes to the consumers: the instruction
# `setmaxnreg` moves registers from some warps of a program to others while it runs. You met it
# in the last question of notebook {heads-and-tiles}. Here you choose the numbers yourself:
# multiples of 8, up to 256.

# %% tags=["nbval-check-output"]
compiles_for(polite_kernel)

# %% [markdown]
# **On other GPUs.** Partitions and `setmaxnreg` came with sm_90, and sm_120 has them. Without TMA a
# producer would have to compute every address and copy with many threads, and gains little: on
# sm_80 and sm_89 all warps do the same work, and the ring is filled with `cp.async`.

# %% [markdown]
# ## Tensor cores on request
#
# A `tl.dot` gives its result where it stands. On Hopper the instruction underneath is `wgmma`: four
# warps together, a **warp group**, hand a product to the tensor cores, and go on. In Gluon that is
# `warpgroup_mma(a, b, acc, is_async=True)`. (Without `is_async` the call itself waits for the
# product.) The operands are buffers in shared memory, which the tensor cores read themselves. (`a`
# may be in registers as well.) The accumulator is in registers, in a layout of its own,
# `NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])`. Three lists: the instruction (`[3, 0]` is
# `wgmma`), how the 4 warps share the tile (one below the other), and the piece of one instruction:
# 16 rows per warp, 64 columns, 16 along K. (The columns are those of the tile; a wider one has a
# wider piece, up to 256.)
#
# What is under way is not there yet, and two things wait for it:
#
# - the accumulator: its value is what `warpgroup_mma_wait(n, deps=[acc])` returns, once all
#   products but the last n have ended,
# - the operands: their buffers are being read, and may not be filled again before that.
#
# The second is easily forgotten. A copy that lands in a buffer while it is multiplied makes results
# that are wrong now and then.
#
# Here is one product of 64 x 64 tiles, with one barrier for the copies of both.


# %%
@gluon.jit
def one_product_kernel(a_desc, b_desc, out_ptr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(a_desc.dtype, [64, 64], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [64, 64], b_desc.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    fence_async_shared()
    mbarrier.expect(full, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
    tma.async_load(a_desc, [0, 0], full, a)
    tma.async_load(b_desc, [0, 0], full, b)
    mbarrier.wait(full, 0)
    acc = gl.zeros([64, 64], gl.float32, layout)
    acc = warpgroup_mma(a, b, acc, is_async=True)
    acc = warpgroup_mma_wait(0, deps=[acc])
    rows = gl.arange(0, 64, gl.SliceLayout(1, layout))
    cols = gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + cols[None, :], acc)


# %% tags=["nbval-check-output"]
a, b = torch.randn(2, 64, 64, device=DEVICE).half()
product = torch.empty(64, 64, device=DEVICE)
simulate(one_product_kernel, (1,), tiled(a), tiled(b), product)
print(torch.allclose(product, a.float() @ b.float(), atol=1e-3))

# %%
on_hopper(one_product_kernel, (1,), tiled(a), tiled(b), product)

# %% [markdown]
# ### Exercise {product-and-waits} · A product and its waits (core)
#
# `product_kernel` multiplies a strip of tiles of `a` with a strip of tiles of `b`, and adds up, in
# a ring of two buffers for each. Fill the gap: start the product of this round as an asynchronous
# one, and wait for it before its buffers are filled again. No `fence_async_shared()` is needed in between, as there was above:
# the fence is for what threads themselves have read or written, and these buffers are read by the
# tensor cores, which reach shared memory in the same way as the copy engine.


# %%
# exercise product-and-waits
@gluon.jit
def load_pair(a_desc, b_desc, a, b, full, i):
    slot = i % 2
    mbarrier.expect(full.index(slot), a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
    tma.async_load(a_desc, [0, i * 64], full.index(slot), a.index(slot))
    tma.async_load(b_desc, [i * 64, 0], full.index(slot), b.index(slot))


@gluon.jit
def product_kernel(a_desc, b_desc, out_ptr, tiles):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(a_desc.dtype, [2, 64, 64], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [2, 64, 64], b_desc.layout)
    full = mbarrier.allocate_mbarrier(batch=2)
    for each in gl.static_range(2):
        mbarrier.init(full.index(each), count=1)
    fence_async_shared()
    for i in range(gl.minimum(2, tiles)):
        load_pair(a_desc, b_desc, a, b, full, i)
    acc = gl.zeros([64, 64], gl.float32, layout)
    for i in range(tiles):
        slot, phase = i % 2, (i // 2) & 1
        mbarrier.wait(full.index(slot), phase)
        # about 2 lines from here
        acc = warpgroup_mma(a.index(slot), b.index(slot), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=[acc])
        # to here
        if i + 2 < tiles:
            load_pair(a_desc, b_desc, a, b, full, i + 2)
    rows = gl.arange(0, 64, gl.SliceLayout(1, layout))
    cols = gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + cols[None, :], acc)


# %%
check("product-and-waits", product_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `a.index(slot)` and `b.index(slot)` are the operands, `acc` is what is added to, and what
# `warpgroup_mma` returns is the new `acc`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `warpgroup_mma_wait(0, deps=[acc])` returns the value. Give it the name `acc` again.
#
# </details>

# %% [markdown]
# This loop waits for each product before it starts the next one, so its tensor cores rest in
# between, at each wait, each copy and each turn of the loop. How can a product be started while the
# one before still runs? It adds to a result that the one before has not finished. But tensor cores
# take products in the order in which they were started, so the next one may be *asked for* before
# the last one has ended. `warpgroup_mma_wait(1, deps=[acc])` waits until all but the newest have
# ended. What it returns is still no value, since the newest adds to it. It says one thing: the
# operands of the product *before* have been read, and their buffers may be filled again.
#
# With a third buffer for each operand there is then always one that is multiplied, one that is full,
# and one that is being filled. Every fast product on Hopper has this loop.

# %% [markdown]
# ### Exercise {product-under-way} · A product under way (core)
#
# Complete `pipelined_kernel`: start the product of tile `i`, and wait until the one before it has
# ended. Then its buffers are filled again, with tile `i + 2`. What is missing after the loop?


# %%
# exercise product-under-way
@gluon.jit
def load_third(a_desc, b_desc, a, b, full, i):
    mbarrier.expect(full.index(i % 3), a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
    tma.async_load(a_desc, [0, i * 64], full.index(i % 3), a.index(i % 3))
    tma.async_load(b_desc, [i * 64, 0], full.index(i % 3), b.index(i % 3))


@gluon.jit
def pipelined_kernel(a_desc, b_desc, out_ptr, tiles):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(a_desc.dtype, [3, 64, 64], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [3, 64, 64], b_desc.layout)
    full = mbarrier.allocate_mbarrier(batch=3)
    for each in gl.static_range(3):
        mbarrier.init(full.index(each), count=1)
    fence_async_shared()
    for i in range(gl.minimum(2, tiles)):
        load_third(a_desc, b_desc, a, b, full, i)
    acc = gl.zeros([64, 64], gl.float32, layout)
    for i in range(tiles):
        mbarrier.wait(full.index(i % 3), (i // 3) & 1)
        # about 2 lines from here
        acc = warpgroup_mma(a.index(i % 3), b.index(i % 3), acc, is_async=True)
        acc = warpgroup_mma_wait(1, deps=[acc])
        # to here
        if i + 2 < tiles:
            load_third(a_desc, b_desc, a, b, full, i + 2)
    # about 1 line from here
    acc = warpgroup_mma_wait(0, deps=[acc])
    # to here
    rows = gl.arange(0, 64, gl.SliceLayout(1, layout))
    cols = gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + cols[None, :], acc)


# %%
check("product-under-way", pipelined_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Tile `i + 2` goes into buffer (i + 2) % 3, which is the one of tile `i - 1`. Which product read that?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# After the loop the newest product is still under way, and `acc` is stored in the next line.
#
# </details>

# %% [markdown]
# **On other GPUs.** `wgmma` exists on sm_90 alone. sm_80, sm_89 and sm_120 have `mma.sync`, in
# which every warp holds its operands in registers; Blackwell's data center GPUs (sm_100) have
# `tcgen05`, whose accumulator is in a memory of its own. So this kernel, unlike those before, is
# for Hopper only. A `tl.dot` runs on all of them, and that is what `tl` gives you for what it takes
# away.

# %% tags=["nbval-check-output"]
targets = ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"]
compiles_for(one_product_kernel, tiled(a), tiled(b), product, targets=targets)

# %% [markdown]
# The last exercise of this notebook puts everything together. Two consumer warp groups take 64 rows
# each of a tile with 128. They share the tile of `b`, so it is copied once for both, and its
# buffer is empty when both have given it back. The producer is this.


# %%
@gluon.jit
def load_tiles(a_desc, b_desc, a, b, full, empty, tiles):
    for i in range(tiles):
        slot, phase = i % 2, (i // 2) & 1
        mbarrier.wait(empty.index(slot), phase ^ 1)
        mbarrier.expect(full.index(slot), a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [0, i * 64], full.index(slot), a.index(slot))
        tma.async_load(b_desc, [i * 64, 0], full.index(slot), b.index(slot))


# %% [markdown]
# ### Exercise {two-consumers} · Two consumers (stretch)
#
# Complete the consumer, the count of the barriers `empty`, and the list of partitions. `HALF` is 0
# or 1: which half of the rows of `a` a consumer takes.


# %%
# exercise two-consumers
@gluon.jit
def multiply(out_ptr, a, b, full, empty, tiles, HALF: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    acc = gl.zeros([64, 64], gl.float32, layout)
    for i in range(tiles):
        slot, phase = i % 2, (i // 2) & 1
        half = a.index(slot).slice(64 * HALF, 64)
        # about 4 lines from here
        mbarrier.wait(full.index(slot), phase)
        acc = warpgroup_mma(half, b.index(slot), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(empty.index(slot), count=1)
        # to here
    rows = 64 * HALF + gl.arange(0, 64, gl.SliceLayout(1, layout))
    cols = gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + cols[None, :], acc)


@gluon.jit
def two_kernel(a_desc, b_desc, out_ptr, tiles):
    a = gl.allocate_shared_memory(a_desc.dtype, [2, 128, 64], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [2, 64, 64], b_desc.layout)
    full = mbarrier.allocate_mbarrier(batch=2)
    empty = mbarrier.allocate_mbarrier(batch=2)
    for each in gl.static_range(2):
        mbarrier.init(full.index(each), count=1)
        # about 1 line from here
        mbarrier.init(empty.index(each), count=2)
        # to here
    fence_async_shared()
    partitions: gl.constexpr = [4, 1]  # warps of the second consumer, and of the producer
    gl.warp_specialize(
        [
            (multiply, (out_ptr, a, b, full, empty, tiles, 0)),
            # about 1 line from here
            (multiply, (out_ptr, a, b, full, empty, tiles, 1)),
            # to here
            (load_tiles, (a_desc, b_desc, a, b, full, empty, tiles)),
        ],
        partitions, [240, 24],
    )  # fmt: skip


# %%
check("two-consumers", two_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# A phase of `empty` may only end when both consumers have arrived.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The second consumer is the same function with the same arguments, but for the last.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# A consumer arrives at `empty` after its product has ended, and not when it has started.
#
# </details>

# %% [markdown]
# ## What you can do now
#
# You can divide a kernel among warps, and read a deadlock. Ask yourself:
#
# 1. A kernel gives right results for two tiles and never ends for three. Its ring has two buffers.
#    Where do you look?
#
# <details>
# <summary>Answer</summary>
#
# At what gives a buffer back. The third tile is the first that needs a buffer for the second time:
# a missing `arrive`, one at another buffer's barrier, or a count that never comes together.
#
# </details>
#
# 2. Why does a consumer that multiplies wait for its product before it arrives at `empty`, although
#    it does not need the result yet?
#
# <details>
# <summary>Answer</summary>
#
# The tensor cores read the operands from the buffer while the product is under way. An arrival
# before it has ended lets the producer overwrite them.
#
# </details>
#
# 3. A ring has 3 buffers. For which phase of which `empty` does the producer wait before it asks for
#    tile 7, and what ends that phase?
#
# <details>
# <summary>Answer</summary>
#
# Tile 7 is of round 2 and lies in buffer 1. Its consumer waits for phase 0 of `full`, so the producer
# waits for phase 1 of `empty`. The consumer ends it when it gives tile 4 back.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/36-gluon-partitions.py](../solutions/36-gluon-partitions.py) has all answers.
#
# **Next:** [37, attention in Gluon](37-attention-in-gluon.ipynb).
