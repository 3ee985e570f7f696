# %% [markdown]
# # 35 · Gluon: layouts, copies, a ring of buffers
#
# The attention kernel of notebook {finished-on-hopper} is close to the best one and does not reach it:
# within a group of warps the dot, the powers and the next dot wait for one another, and `tl` has no
# word that would change that. The compiler decides which thread holds which element, what is copied
# when, who waits for whom.
#
# **Gluon** is the language one level below, in the same package. It has the same programs, masks and
# blocks, and what `tl` decides you write yourself. That is more work, and there is a new way to be
# wrong: a kernel in which everybody waits, and which never ends.
#
# No GPU is needed here. `simulate` follows a Gluon kernel in Python, your source unchanged: it computes
# what the kernel writes, and says who waits for whom where nobody can go on. The kernels are compiled
# for an H100 as well. On a GPU of compute capability 9.0 with Triton 3.9 a few cells also launch them;
# elsewhere these cells say a sentence and go on.
#
# **By the end you can** write a kernel in Gluon, choose its layouts, start copies and wait for them,
# build a ring of buffers, and say at which phase its reader waits.
#
# **You need** notebooks {who-holds-what} and {copies-in-flight}.
#
# | section | about minutes |
# |---|---|
# | What tl decides for you | 20 |
# | Copies that run on their own | 20 |
# | A ring of buffers | 15 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 65 |

# %% [markdown]
# **Two questions from earlier notebooks.** Answer them before you unfold the answers.
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
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# %% [markdown]
# ## What tl decides for you
#
# Which of the thousand elements of a block does a thread hold? In notebook {vector-add} you never
# said. The compiler did: its pass `coalesce` chose a layout, and wrote it into the first line of
# the TTGIR.

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
# **Predict:** a thread of `add_kernel` holds single elements, 128 apart. How many bytes does each
# of its loads move?
#
# <details>
# <summary>Answer</summary>
#
# Four. The elements that a thread holds are not neighbors, so none of its loads can be wider than
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
# ### Exercise {layout-for-wide-loads} · A layout for wide loads (core)
#
# Write the layout with which each load of `wide_kernel` moves 16 bytes per thread, and 512 bytes
# without a gap per warp, for float32 and 4 warps.


# %%
# exercise layout-for-wide-loads
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
check("layout-for-wide-loads", wide_kernel)

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
# what. This notebook and the next take these one by one.
#
# **On other GPUs.** Blocked layouts exist wherever Triton runs. `compiles_for` compiles a kernel
# for four architectures: those of an A100 (sm_80), an RTX 4090 (sm_89), an H100 or H200 (sm_90) and
# an RTX 5090 (sm_120).

# %% tags=["nbval-check-output"]
compiles_for(add_kernel, x, y, out, 4096, 1024)

# %% [markdown]
# ## Copies that run on their own
#
# A `gl.load` brings elements into registers, and the first instruction that needs them waits. To
# copy while computing, the bytes must go somewhere else: into shared memory, by an asynchronous
# copy, which is started by one instruction and runs on by itself. On Ampere (sm_80) the
# instruction is `cp.async`, and each thread copies a few bytes. Copies are gathered in groups, and
# `wait_group(0)` waits until none of this thread's groups is under way.
#
# The shared memory has a layout as well: `SwizzledSharedLayout(1, 1, 1, [0])` puts the elements one
# after the other.


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
# Hopper has a copy engine, the tensor memory accelerator (TMA), which you have used in notebook
# {copies-in-flight} through descriptors. One thread asks for a whole tile; the engine computes the
# addresses, fills in zeros outside the tensor, and writes the tile in a layout that the tensor
# cores can read. No other thread takes part, so none of them can wait for a group of its own
# copies. How do they learn that the tile has come?
#
# By an **mbarrier**, a counter in shared memory. It goes through **phases**, one after another. A
# phase ends when two things are complete:
#
# - as many **arrivals** have come as it was initialized for (`mbarrier.arrive` is one for all warps
#   that run it: they meet, and one thread arrives), and
# - all the bytes have come that were announced with `mbarrier.expect`. (To announce is itself one
#   arrival.)
#
# Of its phases it keeps one bit, their parity: is the one under way number 0 or number 1?
# `mbarrier.wait(barrier, phase)` asks whether `phase` is *not* the one under way, and waits until
# that is so. Step through two copies into the same buffer.

# %%
draw.slide(lambda until: draw.mbarrier(until), until=[1, 2, 3, 4, 5, 6])

# %% [markdown]
# A new barrier is in phase 0. So a wait for 0 waits for the first copy, and a wait for 1 goes on at
# once, as if a phase before the first one had ended. And whoever waits for 0 when the second copy
# has come waits for a third. In a ring a slot is filled again only after it was read. So a barrier is
# never more than one phase past the one that somebody waits for, and one bit is enough.
#
# The next kernel doubles a tile of 64 x 64 that way, and copies it out by TMA as well. Its layout
# has two axes: a thread holds 8 neighbors of a row, and a warp 4 rows of 8 threads.
# `nbytes_per_cta` are the bytes of one tile. (A CTA is what PTX calls a program; CUDA C++ says
# thread block.)
#
# The copy
# engine does not see what threads have just written to shared memory, nor a barrier that they have
# just initialized, until a **proxy fence**, `fence_async_shared()`, has ordered the two. The same
# holds before a copy overwrites what threads have read. (The fence after the initialization is
# what NVIDIA's guide asks for, and `simulate` does not look for it. And `mbarrier.invalidate`, which
# you may meet elsewhere, is for a barrier whose memory is used for something else afterwards.)


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
# You waited for the copy. But who made the threads wait for each other? Each of them stores
# elements that the copy engine takes away at the word of a single thread, and before that one
# thread asks for a copy into a buffer that all of them read. If you know CUDA, you will have looked
# for a `__syncthreads()`.

# %% tags=["nbval-check-output"]
lowered = lower(tile_kernel, tiled(matrix), tiled(doubled), 0, target="sm_90")
print(lowered.ptx.count("bar.sync"), "barriers for all threads")

# %% [markdown]
# Gluon has put them there, as `tl` does: wherever a thread may touch what another one has written or
# still reads in shared memory, the compiler makes all of them meet (`bar.sync`). So threads are the
# compiler's. Work that runs on by itself is yours: you wait for copies and for products, and you
# place the proxy fences in front of what the copy engine takes. The last line of the kernel is such a
# wait, too: a program that ends gives its shared memory to the next one, and the copy out may not have
# read it yet. `tma.store_wait(0)` waits until it has.

# %% [markdown]
# **On other GPUs.** `cp.async` is there from sm_80 on. A copy by TMA needs sm_90 or later; consumer
# GPUs of the Blackwell generation have it too.

# %% tags=["nbval-check-output"]
print(compiles_for(doubled_kernel, x, out, True))
print(compiles_for(tile_kernel, tiled(matrix), tiled(doubled), 0))

# %% [markdown]
# ## A ring of buffers
#
# One buffer is no gain: the kernel copies, waits, computes, and only then copies again. With
# several, the next tiles are under way while this one is computed on. Tile i goes into buffer
# i % SLOTS, and each buffer has an mbarrier of its own. That is a **ring of buffers**. When a
# buffer was read, it is filled again, with the tile SLOTS further on.
#
# The picture shows a ring in time. Above is who fills, below is who reads, and gray is waiting. It
# already names both sides, and a second barrier, `empty`, which come in the next notebook.

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
# ### Exercise {phase-of-a-round} · The phase of a round (core)
#
# `sum_kernel` adds up `tiles` tiles of 64 x 64, in a ring. Its `phase` is right for the first round
# alone. Give it the right number for tile `i`.
#
# Two words in it are new. `gl.static_range` is a loop that the compiler writes out, iteration by
# iteration, so its number is a constant each time: an `if` that asks for it is decided when the
# kernel is compiled, and the place of each barrier in the array is known then. And `gl.SliceLayout(1, layout)` is what is left of a
# layout of two axes without axis 1: each thread holds the rows of its elements. `rows[:, None]` has
# the whole layout again, and so it fits `total`.


# %%
# exercise phase-of-a-round
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
check("phase-of-a-round", sum_kernel)

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
# **On other GPUs.** The ring is an idea, not an instruction. With `cp.async` it is what `num_stages`
# makes on sm_80 and sm_89: groups in place of barriers. Every thread waits for its own copies, and
# a barrier of all warps then says that everybody's have come.

# %% [markdown]
# ## What you can do now
#
# You can write down a layout, and wait for a copy at the phase of its round. Ask yourself:
#
# 1. A ring has 3 buffers. On which buffer's barrier does the reader of tile 7 wait, and for which
#   phase? And for which phase did the reader of tile 4 wait there?
#
# <details>
# <summary>Answer</summary>
#
# Both lie in buffer 1. Tile 7 is of round 7 // 3 = 2, so its reader waits for phase 0. Tile 4 is
# of round 1, and its reader waited for phase 1.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/35-gluon-copies.py](../solutions/35-gluon-copies.py) has all answers.
#
# **Next:** [36, gluon: partitions, and tensor cores on request](36-gluon-partitions.ipynb).
#
# ## Further reading
#
# - [Gluon's own tutorials](https://github.com/triton-lang/triton/tree/main/python/tutorials/gluon),
#   of which 01 to 05, 07 and 08 run on Hopper
# - [The PTX manual](https://docs.nvidia.com/cuda/parallel-thread-execution/): mbarrier, wgmma,
#   setmaxnreg, and the proxies
