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
# - divide a kernel among producer and consumer warps, and read a deadlock,
# - let the softmax of one tile run under the products of another, and say which wait allows it.
#
# **You need** lessons 03, 05 and 06. The lesson takes two sittings.
#
# | section | about minutes |
# |---|---|
# | What tl decides for you | 15 |
# | Copies that run on their own | 10 |
# | A ring of buffers | 10 |
# | Producer and consumer warps | 20 |
# | Tensor cores on request | 15 |
# | What attention leaves idle | 2 |
# | One consumer, and two | 10 |
# | The next scores before this output | 15 |
# | Watch the warps | 10 |
# | Which tile next | 20 |
# | Read the fastest kernel | 10 |
# | Against the best, again | 10 |
# | Stretch exercises | 15 |
# | **All, an estimate** | 162 |

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
from course import DEVICE, CourseError, check, compiles_for, draw, hint, lower, on_hopper
from course import attention_power, attention_timeline, recorded, simulate
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
# In Gluon that line is yours. Here is the vector add once more: `gl` stands where `tl` stood, and
# `gl.arange` is told the layout. Its four lists mean what those of the line above mean: elements
# per thread (fewer here, on purpose), threads per warp, warps, and the axis along which neighbors
# lie. The number of warps has to be that of the launch, which is 4 unless you say otherwise.


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

# %% [markdown]
# `lower` shows a Gluon kernel in the stages that you know, but for the first. It has no TTIR, in
# which layouts are still missing: in its place stands `glir`, your lines with the layouts that you
# gave them, and `ttgir` is what optimization left of these.
#
# Here are the first 256 elements. What a thread holds next (`r1`) lies 128 further on.

# %%
draw.layout(gluon_add, "x", rows=8)

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
# - as many **arrivals** have come as it was initialized for (`mbarrier.arrive` is one for all warps
#   that run it: they meet, and one thread arrives), and
# - all the bytes have come that were announced with `mbarrier.expect`. (To announce is itself one
#   arrival.)
#
# `mbarrier.wait(barrier, phase)` goes on as soon as the phase of that number has ended. With a
# barrier that is new, the phase 0 is under way, and the one before it, a phase 1, counts as ended.
# (It knows only the last phase that ended. In a ring that will do, since nobody gets a round
# ahead.)
#
# The next kernel doubles a tile of 64 x 64 that way, and copies it out by TMA as well. The copy
# engine does not see what threads have just written to shared memory, nor a barrier that they have
# just initialized, until a **proxy fence**, `fence_async_shared()`, has ordered the two. The same
# holds before a copy overwrites what threads have read.


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
# The picture shows a ring in time. Above is who fills, below is who reads, and gray is waiting. It
# already names both sides, and a second barrier, `empty`, which come in the next section.

# %%
draw.slide(lambda slots: draw.ring(tiles=6, slots=slots), slots=[1, 2, 3])

# %% [markdown]
# With one buffer, filling and reading take turns. With three, the reader hardly waits any more. Now
# step through two buffers, tile by tile: who waits for whom?

# %%
draw.slide(lambda read: draw.ring(tiles=5, slots=2, until=read), read=[1, 2, 3, 4, 5])

# %% [markdown]
# The barrier of buffer 0 ends a phase each time the buffer is full: for tile 0, for tile 2, for
# tile 4. So the reader of tile i waits for the phase whose number is the parity of its round. The
# boxes of the bottom row name it.

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
# makes on sm_80 and sm_89: groups in place of barriers. Every thread waits for its own copies, and
# a barrier of all warps then says that everybody's have come.

# %% [markdown]
# ## Producer and consumer warps
#
# *Routes: all*
#
# In that kernel the warps that compute also ask for the copies. They can only ask when they come
# round to it, and if their work is long, the buffer that they have just read lies idle. Lesson 06
# divided the work among warps with different jobs: a producer asks for copies and does nothing
# else, consumers compute. There the compiler did it. In Gluon you write one function for each job,
# and `gl.warp_specialize` starts them side by side. Each of them is called a **partition**.
#
# Now there are two questions to answer for each buffer. The consumer asks: is it full? The producer
# asks: is it empty, may I overwrite it? So each buffer has two barriers. A copy that lands ends a
# phase of `full`; a consumer that is done with a buffer says so with `mbarrier.arrive(empty)`.
#
# A wait can last forever. Here are two partitions that are too polite.


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
# you say the numbers yourself. The PTX has both instructions, in our polite kernel too, though its
# first partition has 256 from the start and gains nothing.

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
# in a layout of its own: `NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])` is Triton's number
# for `wgmma`, 4 warps, and products of 16 rows per warp, 64 columns, and 16 deep at a time.
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
# ## Sitting 2
#
# A good place to stop, or to start again (in a new session, run the cells with `import` and `tiled`
# first). So far you can
#
# - write down a layout, and see in the PTX what it makes of a load,
# - wait for a copy at the phase of its round, and give a buffer back,
# - divide a kernel among producer and consumer warps, and read a deadlock,
# - start a product, and wait for it before its operands are overwritten.
#
# What follows makes attention of these parts, and then reads the course's fastest kernel.

# %%
from kernels.attention.gluon.plan import Plan
from kernels.attention.gluon.settings import STEPS
from kernels.attention.inputs import prepare

# %% [markdown]
# ## What attention leaves idle
#
# *Routes: all*
#
# Per score, attention does two products of D numbers each, 4 * D operations on the tensor cores, and
# one power. Tensor cores are fast, and powers come from a small unit beside them: 16 per cycle and
# multiprocessor, says the CUDA programming guide for compute capability 9.0. With 132
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
# time at D = 64, a third at 128. So the one has to run while the other does. There are two ways, and
# the best kernels take both. With two consumers, one can compute powers while the other multiplies.
# And within one consumer, the next product can be under way during the powers.
#
# **On other GPUs.** The ratio is Hopper's. On sm_80, sm_89 and sm_120 the product is `mma.sync`, an
# instruction of a single warp, which waits where it needs the result. There the overlap comes from
# the other warps. On sm_100 products became faster and powers did not, so powers bind even more.

# %% [markdown]
# ## One consumer, and two
#
# *Routes: all*
#
# We write attention for one head with D = 64, without a mask, and for lengths that tiles of 64
# divide. K and V pass through one ring of four buffers, in turn: tile number `2 * i` is that of
# the keys, `2 * i + 1` that of the values. Here are the ring's three actions, and the step of the
# online softmax from lesson 06, in powers of two.


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
# The producer loads the queries once, and then K and V tile by tile. The consumer is the loop of
# lesson 06, one step after the other. K is stored by rows and needed transposed: `permute` says so
# without moving a byte, because `wgmma` can read its operand either way. And P never goes to shared
# memory. The accumulator's layout is nearly the one that a left operand needs, so `convert_layout`
# has little to do.


# %%
@gluon.jit
def load_head(q_desc, k_desc, v_desc, q, q_full, ring, full, empty, tiles):
    mbarrier.expect(q_full, q_desc.nbytes_per_cta)
    tma.async_load(q_desc, [gl.program_id(0) * q.shape[0], 0], q_full, q)
    for i in range(tiles):
        fetch_tile(k_desc, 64 * i, ring, full, empty, 2 * i)
        fetch_tile(v_desc, 64 * i, ring, full, empty, 2 * i + 1)


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
# Count what the second consumer saves. Per tile of keys a program reads 2 * 8,192 = 16,384 bytes of K
# and V. With one consumer they serve 64 queries, 256 bytes for each; with two they serve 128, and
# each costs 128 bytes.
#
# The division has to fit into the registers. The producer is one warp, and Gluon fills its group up
# to four: 12 warps in all, with 168 registers per thread when the program starts. `setmaxnreg` then
# gives the consumers 240, and leaves the producer 24.

# %% tags=["nbval-check-output"]
lower(attention_kernel, *arguments, target="sm_90").resources

# %% [markdown]
# **On other GPUs.** It is `wgmma` that needs sm_90. The division of a tile among groups of warps
# that share K and V is older: on sm_80 the warps of a program do it too, all in step.

# %% [markdown]
# ## The next scores before this output
#
# *Routes: all*
#
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

# %% [markdown]
# ### Exercise 09.6 · Scores ahead (core)
#
# Complete the loop: after the two products are started, wait for the scores alone and give back the
# buffer of K; after the softmax, wait for the output and give back the buffer of V. The loop is
# `attention_kernel`'s with `AHEAD=True`.


# %%
# exercise 09.6
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
check("09.6", attention_kernel)

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
#
# **On other GPUs.** A product that is left running needs `wgmma`, or `tcgen05` on sm_100. On sm_80,
# sm_89 and sm_120 the compiler can only mix the instructions of the two products with those of the
# softmax.

# %% [markdown]
# ## Watch the warps
#
# *Routes: all*
#
# Does it come out like that on a GPU? `simulate` knows who waits for whom, and nothing of how long.
# The warps themselves can tell. Proton, the profiler of lesson 08, has two functions that a Gluon
# kernel may call: at `enter_scope("softmax")` and at `exit_scope("softmax")` each warp reads the
# clock of its multiprocessor and writes down what it read. The course has put such scopes around
# all that the warps of its fastest kernel do or wait for, ran the steps of this sitting on an H200
# at D = 128, and kept what the warps of one multiprocessor wrote. The results were the same to the
# bit. With 33 heads, all 132 multiprocessors get the same number of tiles of queries.
#
# Here is the first step, one consumer. Time runs to the right, in cycles. A pale color is a wait for
# what has the full one, and white is what has no name, such as the arithmetic of the loop. The last
# row shows when a product is under way: from its start until the consumer has waited for it. Outside
# of that the tensor cores have nothing to do.

# %%
timeline = attention_timeline()
display(draw.timeline(timeline.of("one consumer")))
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
# ahead all but the softmax of the first tile, which has no output before it: 7 of 8, or 88%. What the
# other consumer has under way at that time comes on top, so the cell may show more.
#
# </details>

# %% tags=["nbval-check-output"]
for step in ("one consumer", "two consumers", "scores a tile ahead"):
    under = timeline.of(step).softmax_under_products
    none = timeline.of(step).without_product
    print(f"{step:20} softmax under products {under:4.0%}, no product {none:4.0%} of the time")

# %% [markdown]
# Two consumers might have taken turns by chance. They do not: four fifths of their softmax runs
# while nobody multiplies. The picture shows why.

# %%
display(draw.timeline(timeline.of("two consumers")))

# %% [markdown]
# They go nearly in step. From the second tile on, consumer 1 starts each product about 500 cycles
# after consumer 0, and a softmax takes two and a half times as long. So while one computes its
# softmax, the other is in its own for more than half of that time, and nobody multiplies. Chance
# does not undo that: neither gets far ahead, since a slot is filled again only when both have given
# it back.
#
# With the scores a tile ahead nobody needs the luck.

# %%
display(draw.timeline(timeline.of("scores a tile ahead"), between=(0, 31_000)))

# %% [markdown]
# (The yellow slivers are scopes around nothing, since nobody takes turns in this step. So you see
# what two reads of the clock take: 73 cycles on the median.)
#
# From the second tile to the last a product is under way all the time. That the tensor cores are busy
# all the time does not follow: a product may have ended long before anybody waits for it, and two
# products that are under way share the same tensor cores. To have the clock read also takes time,
# which the last line under the first picture gives. A timeline says where to look. How fast a kernel
# is, only an ordinary measurement says: the end of this lesson has one, step by step.
#
# The course's kernel takes one more step, `consumers take turns`: a consumer may start its products
# only after the other one has started its own, and a barrier for each consumer says so. It is
# FlashAttention-3's answer to two consumers that go in step.
#
# **On other GPUs.** The picture is an H200's. Proton's scopes work in any Gluon kernel, so on your
# own GPU you can see your own warps; on one of compute capability 9.0,
# `python -m tools.record attention_timeline` in a checkout of the course records them anew for this
# picture.

# %% [markdown]
# ## Which tile next
#
# *Routes: all*
#
# A program that does one tile of queries and ends leaves its multiprocessor idle twice: at its
# start, until the first keys have come, and at its end, while the output is stored. A persistent
# program (lesson 05) takes tile after tile. With a producer of its own that is worth more: it does
# not wait for the output, and loads the next queries and keys while the consumers finish this tile.
#
# The timeline shows both. First two programs one after the other, then one persistent program with
# the same two tiles, and room for two tiles of Q. Look for the gap between the products.

# %%
display(draw.timeline(timeline.of("consumers take turns")))
display(draw.timeline(timeline.of("the next Q early")))

# %% [markdown]
# Between the last product of the first tile and the first product of the second lie about 6,400
# cycles in the first picture, and 1,400 in the second.
#
# Under a causal mask, tiles differ in length: the first queries see few keys, the last see all.
# Which should come first? If the longest ones come last, a few programs work long after the others
# have ended. So the longest come first, and the short ones fill the gaps.
#
# How large should a tile be? Large tiles read less and compute more than the mask lets through, since
# a tile is multiplied whole even if half of it is hidden. The cell counts the scores that are
# computed for each one that is visible, by the queries and keys of a tile.

# %% tags=["nbval-check-output"]
for length in (512, 1024, 4096):
    visible = length * (length + 1) / 2
    for rows, keys in ((64, 64), (64, 128), (128, 128), (192, 128)):
        tiles = [-(-min(first + rows, length) // keys) for first in range(0, length, rows)]
        print(f"{length:5}: {rows:3} x {keys:3} {sum(tiles) * rows * keys / visible:.2f}")

# %% [markdown]
# At short lengths small tiles win twice. They compute less that is hidden, and there are more of
# them, so that every multiprocessor has one. That is why the course's kernel has a second form. It
# takes it for short sequences, at D = 128 under a causal mask alone, and at D = 64 under a causal
# mask for all lengths. The form is [one warp group](../kernels/attention/gluon/small.py)
# with 64 queries that asks for its own copies, with several programs per multiprocessor and no
# partition at all. While one program computes powers, another one multiplies. Here are four that
# shared a multiprocessor, with 512 keys.

# %%
display(draw.timeline(timeline.of("small programs")))

# %% [markdown]
# Nearly all of the softmax, 99%, runs under some product, and nobody has arranged for it. The price
# is that each warp group starts its own copies, which takes it 15% of the time, and waits for its
# first tile before it can do anything. The others can use the time that one loses that way.

# %% [markdown]
# ### Exercise 09.7 · The order of tiles (core)
#
# Program `number` takes the tile of queries that comes at that place: the longest first. Write its
# first row, the `tiles` of keys that any of its queries sees, and how many of these are `whole`:
# seen in full by all its queries. Name them `first_row`, `tiles` and `whole`. Query m sees the keys
# up to and including number m + `n_keys` - `n_queries`, and `BLOCK_M` divides the number of
# queries.


# %%
# exercise 09.7
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
check("09.7", order_kernel)

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
# best numbers differ: how many programs there are, and what fits into shared memory (lesson 06).

# %% [markdown]
# ## Read the fastest kernel
#
# *Routes: all*
#
# [kernels/attention/gluon/kernel.py](../kernels/attention/gluon/kernel.py) is all of this with the
# rest: any lengths, heads that share their keys, three head dimensions, a log-sum-exp. Read it in
# pieces. After each one stands a question; answer it before you unfold the answer. (`@aggregate`
# bundles values under field names, and its methods get the bundle as `self`; none of that is left
# at run time.) First [the ring](../kernels/attention/gluon/ring.py):
#
# ```python
# @gluon.jit
# def wait_empty(self, n):
#     # In round 0 this is the phase before the first, which counts as ended.
#     mbarrier.wait(self.empty.index(n % self.SLOTS), (n // self.SLOTS & 1) ^ 1)
# ```
#
# **1.** `n` counts all tiles that pass through the ring, also from one tile of queries to the next.
# Why must it not begin at 0 again?
#
# <details>
# <summary>Answer</summary>
#
# The barriers do not begin again. Their phases go on, so the parity must come from a count that goes
# on as well. A count that restarts after an odd number of rounds waits for the wrong phase.
#
# </details>
#
# ```python
# slot = n % self.SLOTS
# full = self.full.index(slot)
# mbarrier.expect(full, desc.nbytes_per_cta, pred=pred)
# tma.async_load(desc, coordinates, full, self.slots.index(slot), pred=pred)
# ```
#
# **2.** The announcement comes before the copy. Could the phase end between the two?
#
# <details>
# <summary>Answer</summary>
#
# No. The announcement is the one arrival that the barrier was initialized for, but the phase also
# lacks the announced bytes, until the copy has brought them.
#
# </details>

# %% [markdown]
# The consumer's loop, which you have just written, with its turns:
#
# ```python
# program.wait_turn(CONSUMER, n)
# S = own.scores(n)
# O = own.output(n - 1, P, O)
# program.end_turn(CONSUMER)
# S = warpgroup_mma_wait(1, deps=[S])  # all but the last product have ended
# own.k_ring.release(n)
# P, m, l, alpha, grown = own.softmax(S, m, l, first_key, MASKED)  # while O is computed
# O = warpgroup_mma_wait(0, deps=[O])
# own.v_ring.release(n - 1)
# if grown:
#     O = own.rescale(O, alpha)
# return own.operand(P), O, m, l
# ```
#
# (`grown` is `True` when the kernel is compiled, but for a head dimension of 256. The last section
# comes to that.)
#
# **3.** K and V have a ring each here, and yours shared one. What does that change for the counts?
#
# <details>
# <summary>Answer</summary>
#
# Tile n of the keys and tile n of the values have the same number, in two rings. Yours were tiles
# 2 * n and 2 * n + 1 of one.
#
# </details>

# %% [markdown]
# Around the start of the two products stands a turn, which your loop did not have. Each consumer has
# one mbarrier for it, and `end_turn` arrives at the next consumer's. This is `wait_turn`:
#
# ```python
# if self.IN_TURNS:
#     FIRST: gl.constexpr = CONSUMER == 0
#     mbarrier.wait(self.turns.index(CONSUMER), n & 1 ^ FIRST)
# ```
#
# **4.** Why does the first consumer wait for the other parity? And what would happen if one consumer
# had a tile more than the other?
#
# <details>
# <summary>Answer</summary>
#
# The first one goes first. Its wait for tile n is for what the last consumer did with tile n - 1, one
# phase earlier. Before tile 0 that is the phase before the first, which counts as ended.
#
# With a tile more, a consumer would wait for a turn that nobody ends: a deadlock. Both belong to one
# tile of queries, so both take as many tiles of keys.
#
# </details>

# %% [markdown]
# What `own.softmax` calls, after its mask and the new maximum `m_new`:
#
# ```python
# base = m_new
# if MASKED:  # where a row sees no key yet, -inf - -inf would be NaN
#     base = gl.where(m_new == -float("inf"), 0.0, m_new)
# P = gl.exp2(S * scale_log2 - (base * scale_log2)[:, None])  # a multiply-add, an exp2
# alpha = gl.exp2((m - base) * scale_log2)
# l = l * gl.convert_layout(alpha, gl.SliceLayout(1, l.type.layout))[:, None] + lane_sums(P)
# return P, m_new, l, alpha, grown
# ```
#
# **5.** `online` had no `base`. When is it needed, and why not always? And its `total` was a number
# per row. Here `l` is a block of [ROWS, 8], the sums of columns 8 apart, and m is the maximum
# before it is scaled. What does that save?
#
# <details>
# <summary>Answer</summary>
#
# A row that has seen no key yet has the maximum -inf, and -inf - -inf is NaN. Only a mask can cause
# that. Where nothing is masked, each row sees the first tile and its maximum is a number, so the
# comparison is left out when the kernel is compiled.
#
# A row of the scores lies in 4 threads, each of which holds 2 of every 8 columns. Columns 8 apart
# lie in the same thread, so these sums need no exchange between threads. The 4 threads add up what
# they have once, after the last tile. The maximum cannot wait that long: each tile needs it.
#
# </details>

# %% [markdown]
# The producer, for one tile of queries:
#
# ```python
# for i in range(1, n):
#     k_ring.wait_empty(count + i)
#     first_key = (n - 1 - i) * BLOCK_N
#     k_ring.copy(program.k_desc, [batch, key_head, first_key, 0], count + i)
#     v_ring.wait_empty(count + i - 1)
#     v_ring.copy(program.v_desc, [batch, key_head, first_key + BLOCK_N, 0], count + i - 1)
# ```
#
# **6.** Why is K[i] fetched before V[i - 1], and why does the last tile of keys come first?
#
# <details>
# <summary>Answer</summary>
#
# The consumer needs them in that order: it starts the scores of tile i before the output of tile
# i - 1. And the last tiles of keys are those that a mask cuts, at the diagonal and at the end of the
# keys. With these first, the rest is one plain loop.
#
# </details>

# %% [markdown]
# The order of the tiles. (`columns` is the number of heads in all batches, and `blocks` the number
# of tiles of queries per head.)
#
# ```python
# first = number // (self.heads_in_l2 * blocks) * self.heads_in_l2
# within = number % (self.heads_in_l2 * blocks)
# together = gl.minimum(self.heads_in_l2, columns - first)  # fewer at the end
# block = within // together
# if self.IS_CAUSAL and self.LONGEST_FIRST:
#     block = blocks - 1 - block
# ```
#
# **7.** `heads_in_l2` heads take turns tile by tile. Why not all of them, and why not one?
#
# <details>
# <summary>Answer</summary>
#
# Programs that run at the same time should read the same K and V, out of the L2 cache. So only as
# many heads take turns as have keys and values that fit there. With one head at a time, its short
# tiles would come before the next head's long ones, and the long ones should come first.
#
# </details>

# %% [markdown]
# How many tiles of keys there are, which you wrote as 09.7:
#
# ```python
# n = gl.cdiv(self.seqlen_k, self.BLOCK_N)
# whole = self.seqlen_k // self.BLOCK_N
# if self.IS_CAUSAL:  # query i sees the keys up to i + seqlen_k - seqlen_q
#     last_key = first_query + self.seqlen_k - self.seqlen_q
#     n = gl.maximum(gl.minimum(n, gl.cdiv(last_key + self.BLOCK_M, self.BLOCK_N)), 0)
#     whole = gl.maximum(gl.minimum(whole, (last_key + 1) // self.BLOCK_N), 0)
# return n, n - whole
# ```
#
# **8.** This one takes the minimum with the tiles that there are. Yours did without. What is
# different?
#
# <details>
# <summary>Answer</summary>
#
# Here the last tile of queries may be cut off by the number of queries. Its `first_query` + BLOCK_M
# then lies past the end, and the keys that such a row would see are past the end too.
#
# </details>

# %% [markdown]
# The first scores are computed by themselves. Then the consumer takes its tiles in this order:
#
# ```python
# P, m, l, _, _ = own.softmax(S, m, l, (n - 1) * BLOCK_N, MASKED)
# P = own.operand(P)
# if schedule.IS_CAUSAL:  # otherwise only the first tile can need a mask
#     for i in range(1, masked):
#         P, O, m, l = take_overlapped(
#             program, CONSUMER, own, count + i, (n - 1 - i) * BLOCK_N, P, O, m, l, True
#         )
# for i in range(gl.maximum(masked, 1), n):
#     P, O, m, l = take_overlapped(
#         program, CONSUMER, own, count + i, 0, P, O, m, l, False
#     )
# ```
#
# **9.** There are two loops, which v5 could not have. Why can this kernel?
#
# <details>
# <summary>Answer</summary>
#
# In `tl` the compiler divides one loop among the warps. Here the producer is a function of its own
# with a loop of its own, and the consumers may have as many loops as they like, as long as both
# count the same tiles in the same order.
#
# </details>

# %% [markdown]
# At the end of a tile of queries the consumer sends its output off:
#
# ```python
# parts = (O.to(out_tile.dtype),)
# if WIDTH < D:
#     parts = parts[0].reshape([ROWS, 2, WIDTH]).permute((0, 2, 1)).split()
# for part in gl.static_range(D // WIDTH):
#     tma.store_wait(0)  # what the buffer held before has left it
#     out_tile.reshape([ROWS, WIDTH]).store(parts[part])
#     fence_async_shared()  # TMA sees what the warps have stored
#     tma.async_store(program.out_desc, [batch, head, first_query, part * WIDTH], out_tile)
# ```
#
# **10.** Where the buffer holds a whole output, `parts` has one part. Its store by TMA is started
# here, and waited for one tile later. What would go wrong without that wait, and what does it gain
# to wait so late?
#
# <details>
# <summary>Answer</summary>
#
# The next output would be written over one that is still being copied out. Waiting late, the copy
# runs under a whole tile of work.
#
# </details>

# %% [markdown]
# The buffer is one more piece of shared memory:
#
# ```python
# if PERSISTENT:
#     out_tiles = gl.allocate_shared_memory(
#         out_desc.dtype, [CONSUMERS] + out_desc.block_shape, out_desc.layout
#     )
# ```
#
# **11.** At D = 256 an output leaves in two halves. Count the shared memory that a program of two
# consumers needs with tiles of 64 keys and two slots in each ring. Of 232,448 bytes, how much is
# left for the output? And what do halves cost?
#
# <details>
# <summary>Answer</summary>
#
# Q takes 2 * 64 rows of 512 bytes, 65,536 bytes, and the rings of K and V 4 * 64 * 512 = 131,072.
# That leaves 35,840 bytes (the barriers take a few of them). Two whole outputs would be as large as
# Q, and two halves are 32,768. The second half must wait until the first has left the buffer, which
# its own products cannot hide. But Q's own buffer is free as soon as the last scores are computed, and the
# next Q is copied meanwhile.
#
# </details>

# %% [markdown]
# And the partitions:
#
# ```python
# gl.warp_specialize(
#     [(consume, (program, 0)), (consume, (program, 1)), (produce, (program,))],
#     [4, 1], [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
# )
# ```
#
# **12.** Two consumers have 240 registers per thread and their producer 24. With three, the settings
# say 160 and 32. Why not 240 again?
#
# <details>
# <summary>Answer</summary>
#
# A multiprocessor has 65,536 registers, and three groups of 128 threads with 240 would take 92,160.
# Four groups, one of which holds the producer, start with 128 per thread. What the producer gives up
# raises the three others to 160: 3 * 160 + 32 = 4 * 128.
#
# </details>

# %% [markdown]
# The steps of this sitting are [settings](../kernels/attention/gluon/settings.py) of this one
# kernel, but for the last, which is the small one. `simulate` follows each of them, causal, with 200
# queries and keys, a length that no tile divides.

# %% tags=["nbval-check-output"]
q, k, v = torch.randn(3, 1, 1, 200, 64, device=DEVICE).half()
reference = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
for name, settings in STEPS.items():
    launch = prepare(None, q, k, v, True, None, "bhmd")
    plan = Plan(launch, settings)
    arguments = plan.arguments(q, k, v, launch.out, launch.lse)
    simulate(plan.kernel, plan.grid[:1], *arguments, orders=["in order"])
    print(f"{name:24} {torch.allclose(launch.out, reference, atol=4e-3)}")

# %% [markdown]
# **On other GPUs.** `flash_attention` takes this kernel on compute capability 9.0 with Triton 3.9
# or newer, and lesson 06's versions everywhere else. You need not know which: the values agree
# within the rounding of float16.

# %% [markdown]
# ## Against the best, again
#
# *Routes: all*
#
# How fast is it, and what does each step add? The picture shows the share of cuDNN's speed in the
# same run on an H200, at D = 128 without a mask. `flash_attention_tl` is lesson 06's best, and the
# others are the steps of this sitting, each with those before it.

# %%
steps = ["flash_attention_tl", "one consumer", "two consumers", "scores a tile ahead"]
steps += ["consumers take turns", "persistent", "the next Q early"]
draw.speeds(recorded("flash_attention_hopper_128"), steps, relative_to="torch, cuDNN")

# %% [markdown]
# One consumer, which waits for everything by itself, is slower than `tl`. A second one makes it
# about a third faster. Scores a tile ahead and turns pass `tl` from 1,024 keys on, and from 2,048
# on they are within 7% of cuDNN, below it or above. On short sequences the persistent program passes
# it: there the start and the end of a tile of queries are a large part of the time.
#
# Now D = 64 with a causal mask, where order and size of the tiles matter. The small programs are the
# other form of the kernel.

# %%
steps = ["flash_attention_tl", "one consumer", "two consumers", "consumers take turns", "persistent"]
steps += ["heads share the L2 cache", "small programs"]
draw.speeds(recorded("flash_attention_hopper_64_causal"), steps, relative_to="torch, cuDNN")

# %% [markdown]
# All the steps together do not reach cuDNN here. The small programs pass it at every length but
# one, with no partition and no turns. So these techniques are no ladder that you always climb to the
# top: at another size another one pays.
#
# ### When the card has no more power
#
# At D = 256 the kernel met a limit that no timeline shows. Here are cuDNN and the kernel with all
# steps so far (its output in halves), without a mask and with 8,192 keys. The first three rows are
# of one launch by itself, as Nsight Compute counts it. The others are of launches that follow each
# other for some seconds, in turn. The last column comes in a moment.

# %%
attention_power()

# %% [markdown]
# Compare the first two columns. Our kernel takes 4% fewer cycles, and its tensor cores are at work
# for more of them. In a row, though, it is only 1% faster. Where has the rest gone? Look at the
# clock. An H200 may draw 700 W, and both are close to that. A card at its limit lowers its clock
# until it keeps to it. So each cycle of ours takes longer, and the time of a launch is no longer its
# cycles but its energy: 1.24 J and 1.23 J, divided by the same 690 W or so.
#
# That asks a new question of the kernel. Not: where does it wait? But: what does it do that need
# not be done? It executes 28% more instructions than cuDNN's.
#
# **Predict:** the loop over tiles of 64 keys has 430 instructions or so. How many of them does a
# thread spend on `O * alpha`?
#
# <details>
# <summary>Answer</summary>
#
# A consumer's O has 64 * 256 elements in 128 threads: 128 for each, and as many multiplications. At
# D = 128 there would be half as many, for tiles twice as long.
#
# </details>
#
# Most of them multiply by 1: once a row has seen a few hundred keys, its maximum hardly ever grows.
# To multiply only where it has grown would already help, but of 64 rows there is often one. So the
# kernel goes further, and lets the maximum that it subtracts lie below the true one:
#
# ```python
# near = m_new * scale_log2 <= m * scale_log2 + MOST_GROWTH
# grown = gl.min(near.to(gl.int32), axis=0) == 0  # one answer for all rows
# m_new = gl.where(grown, m_new, m)
# ```
#
# **13.** `MOST_GROWTH` is 8. Why is the result right when `m` is less than the maximum? And why may it
# not be less by any amount?
#
# <details>
# <summary>Answer</summary>
#
# P, l and O are all relative to the same m. Whatever it is, it cancels in O / l, and m + log(l) is
# the same. But P grows with what is missing: `2**8` = 256 at most here. Its float16 ends at 65,504,
# and there it would be infinite.
#
# </details>
#
# That is the last column: 23% fewer instructions, and tensor cores that are at work 95% of the time.
# The clock is lower still, since more work in a cycle takes more power. But a launch takes 1.16 J,
# and so 6% less time than before. (For scores that keep growing the multiplication comes back, and
# the question before it costs its 20 instructions.) At D = 64 and 128 there is less to save, 32 or 64
# multiplications to a tile of 128 keys, and the settings do without it.
#
# ### What comes of it
#
# `flash_attention` takes the settings that were the fastest for a head dimension, a mask and a
# length. The cell has them in float16 and bfloat16, from 512 to 16,384 keys.

# %%
shares = {}
for name in (f"{d}{mask}{dtype}" for d in (64, 128, 256) for mask in ("", "_causal")
             for dtype in ("", "_bfloat16")):  # fmt: skip
    run = recorded(f"flash_attention_hopper_{name}")
    for n in (512, 1024, 2048, 4096, 8192, 16384):
        shares[name, n] = run.at("torch, cuDNN", n).ms / run.at("flash_attention", n).ms

# %%
for d in ("64", "128", "256"):
    of_this = [share for (name, _), share in shares.items() if name.split("_")[0] == d]
    print(f"D = {d:>3}: {min(of_this):.2f} to {max(of_this):.2f} of cuDNN's speed")
print("\nslower than cuDNN:")
for (name, n), share in shares.items():
    if share < 1:
        print(f"{name:20} {n:6,} keys {share:.3f}")

# %% [markdown]
# It is faster than cuDNN at 66 of 72 points, and from 2,048 keys on at all of them. The others are
# short sequences under a mask. With 512 keys and D = 256, a tile of queries has only 2 to 8 tiles of
# keys. Its start and its end, where no product is under way, are a good part of its time.
#
# What cannot be said in Gluon? Tiles whose sides are no powers of two, and the named barriers of the
# hardware, with which FlashAttention-3's consumers take their turns; two mbarriers do it here. What
# has it cost? A kernel for one architecture, in seven files, and all the ways to be wrong that you
# have met in this lesson. `tl` is the right choice until a measured gap is worth that.
#
# **On other GPUs.** What is recorded is an H200's. On an H100 the kernel is right as well, and takes
# the settings that were tuned here: `bench` tells you how fast they are there. On any other GPU there
# is nothing to measure: the kernel is not taken.

# %% [markdown]
# ## What you can do now
#
# You can write a kernel below `tl`: choose its layouts, start its copies and products, and wait for
# each of them where it is needed. You can divide it among warps and read a deadlock. And you have
# read an attention kernel whose every wait you can explain. Ask yourself:
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

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/09-hopper.py](../solutions/09-hopper.py) has all answers.
#
# **Next:** a kernel of your own. Take one whose `tl` version you know well, write it in Gluon with
# the layouts that the compiler chose, and change one decision at a time. From a specification to a
# measured operator, [an operation of your own](../docs/pages/your-own-operation.md) has the way.
#
# ## Further reading
#
# - [Gluon's own tutorials](https://github.com/triton-lang/triton/tree/main/python/tutorials/gluon),
#   of which 01 to 05, 07 and 08 run on Hopper
# - [The PTX manual](https://docs.nvidia.com/cuda/parallel-thread-execution/): mbarrier, wgmma,
#   setmaxnreg, and the proxies
