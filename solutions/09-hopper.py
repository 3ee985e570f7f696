# %% [markdown]
# # 09 · Below tl: Gluon on Hopper
#
# Lesson 06 ended with an attention kernel that is close to the best one and does not reach it, and
# with the reason: within a group of warps the dot, the powers and the next dot wait for one
# another, and `tl` has no word that would change that. The compiler decides which thread holds
# which element, what is copied when, who waits for whom. Mostly it decides well. Where it does not,
# you can only ask it differently.
#
# **Gluon** is the language one level below, in the same package. It has the same programs, masks
# and blocks, and what `tl` decides you write yourself: layouts, buffers in shared memory, copies,
# barriers, and which warps do what. That is more work, and there is a new way to be wrong: a kernel
# in which everybody waits, and which never ends.
#
# No GPU is needed here. `simulate` follows a Gluon kernel in Python, your source unchanged: it
# computes what the kernel writes, and says who waits for whom where nobody can go on. The kernels
# are compiled for an H100 as well. On a GPU of compute capability 9.0 with Triton 3.9 a few cells
# also launch them; elsewhere these cells say a sentence and go on.
#
# **By the end you can**
#
# - write a kernel in Gluon, and choose its layouts,
# - start copies and products, and wait for the right one at the right time,
# - build a ring of buffers, and say at which phase each side waits,
# - divide a kernel among producer and consumer warps, and read a deadlock.
#
# **You need** lessons 03, 05 and 06.
#
# | section | about minutes |
# |---|---|
# | What tl decides for you | 15 |
# | Copies that run on their own | 10 |
# | A ring of buffers | 10 |
# | Producer and consumer warps | 20 |
# | Tensor cores on request | 15 |
# | Stretch exercises | 15 |
# | **All, an estimate** | 85 |

# %% [markdown]
# **Two questions from lessons 03 and 05.** Answer them before you unfold the answers.
#
# 1. A block of 1,024 float32 has the layout sizePerThread = [4], with 4 warps of 32 threads. How
#    many elements does a thread hold, and which ones does thread 0 hold?
#
# <details>
# <summary>Answer</summary>
#
# 1,024 / 128 = 8 elements. The layout covers 4 * 128 = 512 elements and wraps twice: thread 0 holds
# elements 0 to 3 and 512 to 515.
#
# </details>
#
# 2. What does the compiler's pipeline gain a loop over tiles, and what does it pay with?
#
# <details>
# <summary>Answer</summary>
#
# The next tiles are copied to shared memory while this one is multiplied, so the tensor cores wait
# less. It pays with shared memory: one more buffer per operand for each stage.
#
# </details>

# %%
from course import DEVICE, CourseError, check, compiles_for, draw, hint, lower, on_hopper, simulate
from kernels.vector_add import add_kernel_v2
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
import torch

# %% [markdown]
# ## What tl decides for you
#
# *Routes: all*
#
# Which of the thousand elements of a block does a thread hold? In lesson 01 you never said. The
# compiler did: its pass `coalesce` chose a layout, and wrote it into the first line of the TTGIR.

# %% tags=["nbval-check-output"]
tl_add = lower(add_kernel_v2, "*fp32:16", "*fp32:16", "*fp32:16", "i32:16", 1024, target="sm_90")
print(tl_add.ttgir.splitlines()[0])

# %% [markdown]
# In Gluon that line is yours. Here is the vector add once more: `gl` stands where `tl` stood,
# and `gl.arange` is told the layout. Its four lists are those of the line above: elements per
# thread, threads per warp, warps, and the axis along which neighbors lie. The number of warps has
# to be that of the launch, which is 4 unless you say otherwise.


# %%
@gluon.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    x = gl.load(x_ptr + i, mask=i < n)
    y = gl.load(y_ptr + i, mask=i < n)
    gl.store(out_ptr + i, x + y, mask=i < n)


# %% [markdown]
# What follows from the layout is no longer decided anywhere: `x`, `y` and the mask have the layout
# of `i`, because they are computed from it. Two blocks with different layouts cannot be added,
# until you convert one with `gl.convert_layout`, which moves the elements between threads.
#
# Triton's interpreter does not run Gluon, so `verify` and `replay` are no help here. The course has
# `simulate` in their place. It takes the kernel, the grid and the arguments.

# %% tags=["nbval-check-output"]
x, y = torch.randn(2, 4096, device=DEVICE)
out = torch.empty_like(x)
simulate(add_kernel, (4,), x, y, out, 4096, 1024)
print(torch.equal(out, x + y))

# %%
on_hopper(add_kernel, (4,), x, y, out, 4096, 1024)

# %% [markdown]
# The values are right, and the layout is a poor one.
#
# **Predict:** a thread of `add_kernel` holds single elements, 128 apart. How many bytes does each of
# its loads move?
#
# <details>
# <summary>Answer</summary>
#
# Four. The elements that a thread holds are no neighbors, so none of its loads can be wider than
# one element. The bytes of a warp still lie side by side, so no sector is read twice; it takes four
# times as many instructions to ask for them.
#
# </details>

# %% tags=["nbval-check-output"]
gluon_add = lower(add_kernel, x, y, out, 4096, 1024, target="sm_90")
for lowered in (tl_add, gluon_add):
    print({line.split()[1] for line in lowered.ptx.splitlines() if "ld.global" in line})

# %%
draw.layout(gluon_add, "x")

# %% [markdown]
# ### Exercise 09.1 · A layout for wide loads (core)
#
# Write the layout with which each load of `wide_kernel` moves 16 bytes per thread, for float32 and
# 4 warps.


# %%
# exercise 09.1
@gluon.jit
def wide_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: gl.constexpr):
    # about 1 line from here
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    # to here
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    x = gl.load(x_ptr + i, mask=i < n)
    y = gl.load(y_ptr + i, mask=i < n)
    gl.store(out_ptr + i, x + y, mask=i < n)


# %%
check("09.1", wide_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The first list is how many neighbors one thread holds. A float32 has 4 bytes.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Compare with the line that the compiler wrote for the `tl` kernel.
#
# </details>

# %% [markdown]
# A layout is only the first of these decisions. For a loop with `tl.dot`, `tl` also decides when
# the next tiles are copied, into how many buffers, when the loop waits for them, and which warps do
# what. The rest of this sitting takes these one by one.
#
# **On other GPUs.** Blocked layouts exist wherever Triton runs. `compiles_for` compiles a kernel
# for four architectures: those of an A100 (sm_80), an RTX 4090 (sm_89), an H100 or H200 (sm_90) and
# an RTX 5090 (sm_120).

# %% tags=["nbval-check-output"]
compiles_for(add_kernel, x, y, out, 4096, 1024)

# %% [markdown]
# ## Copies that run on their own
#
# *Routes: all*
#
# A `gl.load` brings elements into registers, and the first instruction that needs them waits. To
# copy while computing, the bytes must go somewhere else: into shared memory, by an asynchronous
# copy, which is started by one instruction and runs on by itself. On Ampere (sm_80) the
# instruction is `cp.async`, and each thread copies a few bytes. Copies are gathered in groups, and
# `wait_group(0)` waits until none of this thread's groups is under way.


# %%
@gluon.jit
def doubled_kernel(x_ptr, out_ptr, WAIT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.program_id(0) * 512 + gl.arange(0, 512, layout)
    buffer = gl.allocate_shared_memory(gl.float32, [512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    async_copy.async_load(buffer, x_ptr + i)
    async_copy.commit_group()
    if WAIT:
        async_copy.wait_group(0)
    gl.store(out_ptr + i, 2 * buffer.load(layout))


# %% [markdown]
# **Predict:** what happens without the wait, on a GPU and in `simulate`?
#
# <details>
# <summary>Answer</summary>
#
# On a GPU the kernel reads whatever lies in the buffer at that moment. That may be the new bytes,
# old ones, or some of each, and it may differ from run to run. `simulate` lets a copy land as late
# as it may, so the read comes too early every time, and it says so.
#
# </details>

# %% tags=["nbval-check-output"]
for wait in (True, False):
    try:
        simulate(doubled_kernel, (8,), x, out, wait)
        print(torch.equal(out, x + x))
    except CourseError as error:
        print(error)

# %% [markdown]
# Hopper has a copy engine, the tensor memory accelerator (TMA), which you have used in lesson 05
# through descriptors. One thread asks for a whole tile; the engine computes the addresses, fills in
# zeros outside the tensor, and writes the tile in a layout that the tensor cores can read. No other
# thread takes part, so none of them can wait for a group of its own copies. How do they learn that
# the tile has come?
#
# By an **mbarrier**, a counter in shared memory. It goes through **phases**, which are numbered 0,
# 1, 0, 1 and so on. A phase ends when two things are complete:
#
# - as many **arrivals** have come as it was initialized for (threads make them by
#   `mbarrier.arrive`), and
# - all the bytes have come that were announced with `mbarrier.expect`. (To announce is itself one
#   arrival.)
#
# `mbarrier.wait(barrier, phase)` goes on as soon as the phase of that number has ended. With a
# barrier that is new, the phase 0 is under way, and the one before it, a phase 1, counts as ended.
#
# The next kernel doubles a tile of 64 x 64 that way, and copies it out by TMA as well. The copy
# engine does not see what threads have just written to shared memory, nor a barrier that they have
# just initialized, until a **proxy fence**, `fence_async_shared()`, has ordered the two.


# %%
@gluon.jit
def tile_kernel(x_desc, out_desc, PHASE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    buffer = gl.allocate_shared_memory(x_desc.dtype, [64, 64], x_desc.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    fence_async_shared()
    mbarrier.expect(full, x_desc.nbytes_per_cta)
    tma.async_load(x_desc, [gl.program_id(0) * 64, 0], full, buffer)
    mbarrier.wait(full, PHASE)
    x = buffer.load(layout)
    buffer.store(x + x)
    fence_async_shared()
    tma.async_store(out_desc, [gl.program_id(0) * 64, 0], buffer)
    tma.store_wait(0)


# %% [markdown]
# A descriptor is made by the launcher: the tensor, the block, and the block's layout in shared
# memory. Here is one for tiles of 64 x 64 float16, with the layout that Gluon proposes.


# %%
def tiled(matrix):
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    return TensorDescriptor.from_tensor(matrix, [64, 64], layout)


# %% [markdown]
# **Predict:** the kernel waits for phase 0. What would waiting for phase 1 do?
#
# <details>
# <summary>Answer</summary>
#
# Nothing: the phase before the first one counts as ended, so the wait is over at once, and the
# buffer is read too early.
#
# </details>

# %% tags=["nbval-check-output"]
matrix = torch.randn(4 * 64, 64, device=DEVICE).half()
doubled = torch.empty_like(matrix)
for phase in (0, 1):
    try:
        simulate(tile_kernel, (4,), tiled(matrix), tiled(doubled), phase)
        print(torch.equal(doubled, matrix + matrix))
    except CourseError as error:
        print(error)

# %%
on_hopper(tile_kernel, (4,), tiled(matrix), tiled(doubled), 0)

# %% [markdown]
# **On other GPUs.** `cp.async` is there from sm_80 on. A copy by TMA needs sm_90 or later; consumer
# GPUs of the Blackwell generation have it too.

# %% tags=["nbval-check-output"]
print(compiles_for(doubled_kernel, x, out, True))
print(compiles_for(tile_kernel, tiled(matrix), tiled(doubled), 0))

# %% [markdown]
# ## A ring of buffers
#
# *Routes: all*
#
# One buffer is no gain: the kernel copies, waits, computes, and only then copies again. With
# several, the next tiles are under way while this one is computed on. Tile i goes into buffer
# i % SLOTS, and each buffer has an mbarrier of its own. That is a **ring of buffers**. When a
# buffer was read, it is filled again, with the tile SLOTS further on.
#
# The picture shows a ring in time. Above is who fills, below is who reads, and gray is waiting.

# %%
draw.slide(lambda slots: draw.ring(tiles=6, slots=slots), slots=[1, 2, 3])

# %% [markdown]
# With one buffer, filling and reading take turns. With three, the reader hardly waits any more. The
# barrier of buffer 0 ends a phase each time the buffer is full: with two buffers for tile 0, for
# tile 2, for tile 4. So the reader of tile i waits for the phase whose number is the parity of its
# round. The boxes of the bottom row name it.

# %% [markdown]
# ### Exercise 09.2 · The phase of a round (core)
#
# `sum_kernel` adds up `tiles` tiles of 64 x 64, in a ring. Its `phase` is right for the first round
# alone. Give it the right number for tile `i`.


# %%
# exercise 09.2
@gluon.jit
def sum_kernel(x_desc, out_ptr, tiles, SLOTS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    buffers = gl.allocate_shared_memory(x_desc.dtype, [SLOTS, 64, 64], x_desc.layout)
    full = mbarrier.allocate_mbarrier(batch=SLOTS)
    for each in gl.static_range(SLOTS):
        mbarrier.init(full.index(each), count=1)
    fence_async_shared()
    for i in range(gl.minimum(SLOTS, tiles)):  # the first round
        mbarrier.expect(full.index(i), x_desc.nbytes_per_cta)
        tma.async_load(x_desc, [i * 64, 0], full.index(i), buffers.index(i))
    total = gl.zeros([64, 64], gl.float32, layout)
    for i in range(tiles):
        slot, phase = i % SLOTS, 0
        # about 1 line from here
        phase = (i // SLOTS) & 1
        # to here
        mbarrier.wait(full.index(slot), phase)
        total += buffers.index(slot).load(layout).to(gl.float32)
        fence_async_shared()
        if i + SLOTS < tiles:  # the same buffer, one round later
            mbarrier.expect(full.index(slot), x_desc.nbytes_per_cta)
            tma.async_load(x_desc, [(i + SLOTS) * 64, 0], full.index(slot), buffers.index(slot))
    rows = gl.arange(0, 64, gl.SliceLayout(1, layout))
    cols = gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + cols[None, :], total)


# %%
check("09.2", sum_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# With 2 buffers, tiles 0 and 1 are of round 0, and tiles 2 and 3 of round 1. Which expression of
# `i` and `SLOTS` gives the round?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Phases are numbered 0, 1, 0, 1: take the lowest bit of the round, `& 1`.
#
# </details>

# %% [markdown]
# **On other GPUs.** The ring is an idea and no instruction. With `cp.async` it is what `num_stages`
# makes on sm_80 and sm_89: groups in place of barriers, and every thread waits for its own copies.

# %% [markdown]
# ## Producer and consumer warps
#
# *Routes: all*
#
# In that kernel the warps that compute also ask for the copies. They can only ask when they come
# round to it, and if their work is long, the buffer that they have just read lies idle. Lesson 06
# divided the work among warps with different jobs: a producer asks for copies and does nothing
# else, consumers compute. There the compiler did it. In Gluon you write one function for each job, and
# `gl.warp_specialize` starts them side by side. Each of them is called a **partition**.
#
# Now there are two questions to answer for each buffer. The consumer asks: is it full? The producer
# asks: is it empty, may I overwrite it? So each buffer has two barriers. A copy that lands ends a
# phase of `full`; a consumer that is done with a buffer says so with `mbarrier.arrive(empty)`.
#
# Who waits for somebody can wait forever. Here are two partitions that are too polite.


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
# That is a **deadlock**. On a GPU the launch would never return, and nothing would be said.
# `simulate` says for each partition what it waits for, at which line, and what is lacking. Read such
# a message from the lacking arrival: who should have made it, and what does that one wait for?
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
# ### Exercise 09.3 · The consumer of a ring (core)
#
# Write what the consumer does with tile `i`: wait for it, add it to `total` in float32, and give
# the buffer back. Between the read and the arrival belongs a `fence_async_shared()`, since the next
# to use the buffer is the copy engine.


# %%
# exercise 09.3
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
check("09.3", divided_kernel)

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
# The two lists at the end of `gl.warp_specialize` are for all partitions but the first: their
# warps, and their registers per thread. The first partition runs in the 4 warps of the launch. A
# producer needs a handful of registers, and 24 is the least that the hardware knows. What it gives
# up goes to the consumers: the instruction `setmaxnreg` moves registers from some warps of a
# program to others while it runs. That was the answer to the last question of lesson 06, and here
# you say the numbers yourself. The PTX has both halves of the exchange, in our polite kernel too.

# %% tags=["nbval-check-output"]
polite = lower(polite_kernel, target="sm_90")
print(*sorted({line.strip() for line in polite.ptx.splitlines() if "setmaxnreg" in line}), sep="\n")
compiles_for(polite_kernel)

# %% [markdown]
# **On other GPUs.** Partitions and `setmaxnreg` came with sm_90, and sm_120 has them. Without TMA a
# producer would have to compute every address and copy with many threads, and gains little: on
# sm_80 and sm_89 all warps do the same work, and the ring is filled with `cp.async`.

# %% [markdown]
# ## Tensor cores on request
#
# *Routes: all*
#
# A `tl.dot` gives its result where it stands. On Hopper the instruction underneath is `wgmma`: four
# warps together, a **warp group**, hand a product to the tensor cores, and go on. In Gluon that is
# `warpgroup_mma(a, b, acc, is_async=True)`. The operands are buffers in shared memory, which the
# tensor cores read themselves. (`a` may be in registers as well.) The accumulator is in registers,
# in a layout of its own: `NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])` is version 3 of the
# tensor cores, 4 warps, and products of 16 rows per warp, 64 columns, and 16 deep at a time.
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
# ### Exercise 09.4 · A product and its waits (core)
#
# `product_kernel` multiplies a strip of tiles of `a` with a strip of tiles of `b`, and adds up, in
# a ring of two buffers for each. Fill the gap: start the product of this round as an asynchronous
# one, and wait for it before its buffers are filled again.


# %%
# exercise 09.4
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
check("09.4", product_kernel)

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
# This loop waits for each product before it asks for the next copy, so its tensor cores still rest
# between products. With `warpgroup_mma_wait(1, …)` the newest product may stay under way, and what
# is known to be free is the buffer of the one before. Sitting 2 uses that in earnest.
#
# **On other GPUs.** `wgmma` exists on sm_90 alone. sm_80, sm_89 and sm_120 have `mma.sync`, in
# which every warp holds its operands in registers; Blackwell's data center GPUs (sm_100) have
# `tcgen05`, whose accumulator is in a memory of its own. So this kernel, unlike those before, is for
# Hopper only. A `tl.dot` runs on all of them, and that is what `tl` gives you for what it takes away.

# %% tags=["nbval-check-output"]
targets = ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"]
compiles_for(one_product_kernel, tiled(a), tiled(b), product, targets=targets)

# %% [markdown]
# The last exercise of this sitting puts everything together. Two consumer warp groups take 64 rows
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
# ### Exercise 09.5 · Two consumers (stretch)
#
# Complete the consumer, the count of the barriers `empty`, and the list of partitions. `HALF` is 0
# or 1: which half of the rows of `a` a consumer takes.


# %%
# exercise 09.5
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
check("09.5", two_kernel)

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
# You can write a kernel below `tl`: choose its layouts, start its copies and products, and wait for
# each of them where it is needed. You can divide it among warps and read a deadlock. Ask yourself:
#
# 1. A ring has 3 buffers. At which phase does the consumer wait for tile 7, and at which does the
#    producer wait before it asks for tile 7?
#
# <details>
# <summary>Answer</summary>
#
# Tile 7 is of round 7 // 3 = 2. The consumer waits for phase 0 of `full`, the producer for phase 1
# of `empty`, both of buffer 1.
#
# </details>
#
# 2. A kernel gives right results for two tiles and never ends for three. Its ring has two buffers.
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
# 3. Why does a consumer that multiplies wait for its product before it arrives at `empty`, although
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
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/09-hopper.py](../solutions/09-hopper.py) has all answers.
#
# **Next:** a kernel of your own. Take one whose `tl` version you know well, write it in Gluon with
# the layouts that the compiler chose, and change one decision at a time.
#
# ## Further reading
#
# - [Gluon's own tutorials](https://github.com/triton-lang/triton/tree/main/python/tutorials/gluon),
#   of which 01 to 05, 07 and 08 are about Hopper
# - [The PTX manual](https://docs.nvidia.com/cuda/parallel-thread-execution/): mbarrier, wgmma,
#   setmaxnreg, and the proxies
