# %% [markdown]
# # 02 · How fast can it be? Three operations in one
#
# Your addition is right. Is it fast? A time alone does not tell you. Here you learn to say how fast
# a kernel could possibly be before you time it, and then you write one that PyTorch does not have:
# three operations in one sweep through memory, as the layers of most language models need it.
#
# **By the end you can**
#
# - work out the fastest that a kernel could possibly be, and see how close it gets,
# - say why small tensors are slow however good the kernel is,
# - fuse three operations into one kernel, and verify it.
#
# **You need** notebook {vector-add}.
#
# | section | about minutes |
# |---|---|
# | How fast can it be? | 35 |
# | Functions inside a kernel | 3 |
# | One kernel instead of three | 30 |
# | Beginning and end | 7 |
# | **Together, an estimate** | 75 |

# %% tags=["runs-here"]
from course import DEVICE, MODE, bench, check, cost, draw, gpu_facts, hint, recorded, vectors
from course import verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.


# %% tags=["runs-here"]
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


# %% tags=["runs-here"]
def add(x, y):
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    n = out.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)
    add_kernel[grid](x, y, out, n, BLOCK_SIZE=1024)
    return out


# %% [markdown]
# ## How fast can it be?
#
# Suppose your kernel takes 300 microseconds. Is that good? A time alone does not tell you. You need
# to know how little it could possibly take, and for that you count.
#
# Adding two float32 vectors reads 4 bytes from each and writes 4. That is 12 bytes per element, for
# one addition. You saw in notebook {your-first-kernel} that memory is the bottleneck by far, so the
# bytes decide.
#
# How fast can bytes move? The data sheet gives a number that no kernel reaches. The best yardstick
# is a plain copy of a large tensor: no kernel that goes through memory once can do much better. On
# an H200 it moves about 4.25 TB/s. We call that the **copy roof**. Divide your bytes by it, and you
# have the time to aim for.
#
# **Predict** that time for 2^26 elements (67 million): about 2, 20 or 200 microseconds?

# %%
facts = gpu_facts()
n = 2**26
roof_us = 12 * n / (facts.memory_tb_s * 1e12) * 1e6
print(f"{12 * n / 1e6:.0f} MB at {facts.memory_tb_s:.2f} TB/s: about {roof_us:.0f} us")

# %% [markdown]
# So an addition that takes 300 microseconds could take a third less time.
#
# ### Let a tool count
#
# For `add_kernel` you can count in your head. For larger kernels, `cost` does it: it runs the
# launch in the interpreter (here only a sample of its programs) and compiles it for a GPU that you
# do not need to have. A tensor on the device `meta` has a shape and no memory, which is all it
# needs.

# %%
x, y, out = (torch.empty(2**26, device="meta") for _ in range(3))
cost(add_kernel, (2**16,), x, y, out, 2**26, BLOCK_SIZE=1024, target="H200")

# %% [markdown]
# Go through it from the top. There is a line for each load and store, with the bytes that you
# counted. *Distinct* bytes are counted once, however often they are asked for: if they are fewer
# than what was loaded, something was loaded again. Here nothing was. (The lines on registers and
# occupancy can wait; notebook {which-block-size} needs them.)
#
# The last line has the least time. It is a little shorter than your 190 us, because it goes by the
# 4.8 TB/s that NVIDIA publishes, and no real copy reaches that. The brackets say how long memory,
# the L2 cache and the arithmetic would each take alone.
#
# And the sectors? Memory is not moved byte by byte, but in pieces of 32 bytes. Such a piece is a
# **sector**. Asking for 4 bytes of it moves all 32. "1.00 times the least" says that nothing was
# moved in vain. Here is a warp that loads 32 neighboring elements of a float32 vector. Below its
# threads lies memory, element by element, with a bold border around each sector. Four sectors hold
# them all. Move `start` to 1: the same 128 bytes now lie in five.

# %%
draw.ruler()

# %% [markdown]
# One more sector out of four is little. Notebook {neighbors-in-memory} shows kernels that waste
# most of what they move.

# %% [markdown]
# ### Measure it
#
# Now the real thing, over many sizes, beside `torch.add` and a copy of as many bytes. `add_v1` is
# an addition with one program per element, as in notebook {your-first-kernel}. In GPU mode this
# measures the `add` of this notebook; in CPU mode it shows how fast it was on the GPU where it was
# recorded.

# %%
result = bench(add, like="vector_add") if MODE.gpu else recorded("vector_add")
draw.speeds(result, series=["add", "torch.add", "copy", "add_v1"])

# %% [markdown]
# For large vectors, `add` runs at the copy roof, and so does `torch.add`: there is nothing left to
# gain. One program per element is two hundred times slower: each of those programs spends its time
# starting and stopping. And below about ten million elements the other three curves drop. Let us
# look at that more closely.

# %%
for n in (2**12, 2**16, 2**20, 2**26):
    taken_us = result.at("add", n).ms * 1e3
    roof_us = 12 * n / (result.copy_tb_s * 1e12) * 1e6
    print(f"{n:>10,} elements: {taken_us:6.1f} us, at the roof {roof_us:6.1f} us")

# %% [markdown]
# These are times on the GPU alone. At 2^26 elements the time is about what you worked out. At 4,096
# and 65,536 elements it is far longer than at the roof, and nearly the same for both. Exercise
# {what-takes-time} below asks you why.
#
# Each call also costs the CPU time. **Predict:** does a call of your kernel cost the CPU more than
# one of `torch.add`, or less? The next cell also shows what the very first call costs.
#
# <details>
# <summary>Answer</summary>
#
# More, three to four times as much: Triton's launch is mostly Python, PyTorch's is C++.
#
# </details>

# %%
launch_us = recorded("vector_add").launch_us
for name in ("add", "torch.add", "first call, empty cache", "first call, kernel in the disk cache"):
    print(f"{name:40} {launch_us[name]:10,.0f} us")

# %% [markdown]
# This was recorded on an H200. There a small `add` keeps the GPU busy for about 4 us and the CPU
# for 29. In a loop of such calls it is the CPU that sets the pace.
#
# The first call ever takes about a second: Triton starts its compiler and compiles
# the kernel. In a new process it finds the compiled kernel on disk, and the first call is still
# slow.
#
# Take two things from this. Never time a first call. And if your tensors are small, do more in each
# kernel.

# %% [markdown]
# ### Exercise {count-bytes} · Count the bytes (core)
#
# Exercise {scale-and-shift} computed `a * x + b`. For a bfloat16 vector `x` of 2^26 elements, how
# many megabytes does that move at least? (1 MB is 10^6 bytes. A bfloat16 has 2 bytes.)

# %% tags=["runs-here"]
# exercise count-bytes
megabytes = None
# about 1 line from here
megabytes = (2 + 2) * 2**26 / 1e6
# to here

# %% tags=["runs-here"]
check("count-bytes", megabytes)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Which of `x`, `a`, `b` and the result have as many elements as the vector?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Both reading and writing are traffic.
#
# </details>

# %% [markdown]
# ### Exercise {least-time} · The least time (core)
#
# One kernel adds three float32 vectors of 2^24 elements: `w + x + y`. The copy roof of the GPU is
# 4.25 TB/s. How many microseconds are there to aim for?

# %% tags=["runs-here"]
# exercise least-time
microseconds = None
# about 1 line from here
microseconds = 4 * 4 * 2**24 / 4.25e12 * 1e6
# to here

# %% tags=["runs-here"]
check("least-time", microseconds)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Three vectors are read and one is written.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Bytes divided by bytes per second are seconds, and 1 TB is 10^12 bytes.
#
# </details>

# %% [markdown]
# ### Exercise {what-takes-time} · What takes the time? (core)
#
# At 65,536 elements `add` moves 0.8 MB, which takes 0.2 us at the copy roof. In fact it takes
# twenty times as long. Why? Answer with a letter.
#
# - **a** The vector does not fill the L2 cache.
# - **b** 64 programs are too few for 132 multiprocessors, so more than half of those are idle.
# - **c** The GPU takes some microseconds to start and end any kernel, however little it does.
# - **d** The kernel is compiled again in each call.

# %% tags=["runs-here"]
# exercise what-takes-time
answer = None
# about 1 line from here
answer = "c"
# to here

# %% tags=["runs-here"]
check("what-takes-time", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Look at the time for 4,096 elements, which is a sixteenth of the work.
#
# </details>

# %% [markdown]
# ## Functions inside a kernel
#
# You have now written the same three opening lines several times. As in ordinary Python, what comes
# up again belongs in a function. A function under `@triton.jit` can be called from a kernel: it is
# then a helper, compiled into its caller, and costs nothing. It may return one value, several, or
# none. This one returns the offsets of the program that runs it, and their mask.
#
# The kernel computes `x * sigmoid(x)`, which is called SiLU. Its input may be float16, and
# `tl.sigmoid` takes only float32 or float64. So it converts with `.to` right after the load. The
# store converts back to the type of the output.


# %% tags=["runs-here"]
@triton.jit
def own_offsets(n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    return offsets, offsets < n_elements


@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets, mask = own_offsets(n_elements, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x * tl.sigmoid(x), mask=mask)


# %% tags=["nbval-check-output", "runs-here"]
x = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0], dtype=torch.float16, device=DEVICE)
out = torch.empty_like(x)
silu_kernel[(2,)](x, out, 6, BLOCK_SIZE=4)
print([round(value, 3) for value in out.tolist()])
print(torch.allclose(out, torch.nn.functional.silu(x)))

# %% [markdown]
# ## One kernel instead of three
#
# `add` is as fast as `torch.add`, and that is all it can be. Where can a kernel of your own win?
# Where PyTorch goes through memory several times, and one kernel can do with one.
#
# Here is such a case. The layers of most language models contain a gate called SwiGLU: two tensors
# come out of matrix products, and one of them decides how much of the other passes. Written in
# PyTorch it is `gate * torch.sigmoid(gate) * up`. That is three operations, so three kernels. Each
# reads its inputs from memory and writes its result back. To do several operations in one kernel is
# to **fuse** them.
#
# **Predict:** count the vectors that the three kernels read and write together. How many would a
# fused kernel read and write? How much faster can it be at best?
#
# <details>
# <summary>Answer</summary>
#
# The sigmoid reads one and writes one. Each product reads two and writes one. Together that is
# eight. A fused kernel reads `gate` and `up` and writes the result, which makes three. At best it
# takes 3/8 of the time.
#
# </details>

# %%
facts, n = gpu_facts(), 2**26
for name, moved in (("three kernels", 8), ("one kernel", 3)):
    roof_us = moved * 4 * n / (facts.memory_tb_s * 1e12) * 1e6
    print(f"{name}: {moved} vectors, {moved * 4 * n / 1e6:,.0f} MB, about {roof_us:.0f} us")

# %% [markdown]
# ### Exercise {gate-in-one-pass} · A gate in one pass (core)
#
# Write SwiGLU as one kernel with a launcher: `gate * sigmoid(gate) * up`, for two vectors of one
# length, contiguous or not, in float32 or float16. Convert what you load to float32, compute there,
# and let the store round once. Until you have written it, the launcher falls back on PyTorch's
# three kernels.


# %% tags=["runs-here"]
# exercise gate-in-one-pass
@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    # about 4 lines from here
    mask = offsets < n_elements
    gate = tl.load(gate_ptr + offsets, mask=mask).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, gate * tl.sigmoid(gate) * up, mask=mask)
    # to here


def swiglu(gate, up):
    out = None
    # about 4 lines from here
    gate, up = gate.contiguous(), up.contiguous()
    out = torch.empty_like(gate)
    grid = (triton.cdiv(out.numel(), 1024),)
    swiglu_kernel[grid](gate, up, out, out.numel(), BLOCK_SIZE=1024)
    # to here
    return gate * torch.sigmoid(gate) * up if out is None else out


# %% tags=["runs-here"]
check("gate-in-one-pass", swiglu)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The kernel is `add_kernel` with another formula in its last line. The launcher is `add`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `tl.sigmoid` takes float32: write `.to(tl.float32)` after each load, as `silu_kernel` does.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# Allocate `out` in the launcher with `torch.empty_like`. Apart from `.contiguous()`, call no
# PyTorch operation there that computes: each is one more kernel.
#
# </details>

# %% [markdown]
# The three cells below verify your kernel, count what it moves, and time it. They also run before
# you have solved the exercise; run them again afterwards.
#
# First: is it right? In float16, PyTorch's three kernels round after each operation, three times in
# all. Yours rounds once. `verify` lets either pass, and says so where one rounds more than once. As
# the reference the three kernels are fine, since `verify` computes a reference in float64.


# %% tags=["runs-here"]
def three_kernels(gate, up):
    return gate * torch.sigmoid(gate) * up


print(verify(swiglu, three_kernels, cases=vectors(2)))

# %% [markdown]
# Second: does it move what it should? You want to see two loads and one store of 268 MB each, with
# "1.00 times the least". (An empty kernel moves nothing.)

# %%
gate, up, out = (torch.empty(2**26, device="meta") for _ in range(3))
cost(swiglu_kernel, (2**16,), gate, up, out, 2**26, BLOCK_SIZE=1024, target="H200")

# %% [markdown]
# Third: is it fast? Speeds here count the bytes that *must* be moved, 12 per element, whatever a
# function really moves. So PyTorch's three kernels should reach 3/8 of the copy roof, and yours all
# of it. In GPU mode the next cell times your own `swiglu`. In CPU mode it shows how fast this kernel
# was on an H200.

# %%
result = bench(swiglu, like="swiglu") if MODE.gpu else recorded("swiglu")
draw.speeds(result, ["swiglu", "torch.compile", "torch", "copy"])

# %% [markdown]
# This is the picture from the beginning of notebook {your-first-kernel}. At 2^26 elements one kernel
# took 189 us and the three took 505, nearly what you worked out. If you saw this in CPU mode,
# the kernel that was timed is the course's own. Yours moves exactly as many bytes, as `cost` has
# counted, so this is the speed to expect of it.
#
# Below a million elements it is not the bytes that decide but the start of each kernel. One start
# in place of three is still about twice as fast on the GPU. But a call of our launcher costs the
# CPU as much as three of PyTorch's, so a loop of small calls gains nothing.
#
# You now have a fused kernel that is verified and counted, and you know its speed. That is the
# whole method of this course. What comes later are harder kernels.
#
# The curve in between is `torch.compile`. It fused these three operations without your help, and
# came within a tenth of this kernel, so try that first in your own work. It merges operations as
# they stand. Where the algorithm itself has to change, as in the flash attention of notebook
# {loop-over-keys}, it needs somebody to write the kernel.

# %% [markdown]
# ## On your own
#
# - Add three vectors in one kernel. It moves 16 bytes per element, where two kernels move 24.
#   Verify it with `lambda x, y, z: x + y + z` and `vectors(3)`.
#
# ## In practice
#
# Do not write a kernel for `x + y`. What to take away is the method: count the bytes, verify, then
# measure against the roof. The finished addition, with checks of its inputs and with 64-bit offsets
# for very long vectors, is [kernels/vector_add.py](../kernels/vector_add.py).
#
# ## What you can do now
#
# You can say how fast a kernel could be at best, and you have fused three operations into one.
# You know why with small tensors it only helps to launch fewer kernels. Ask yourself:
#
# 1. A float32 vector of 2^28 elements is multiplied by a number. What is the least time at a copy
#    roof of 4.25 TB/s?
#
# <details>
# <summary>Answer</summary>
#
# 8 bytes per element, 2.15 GB in all. At 4.25 TB/s that takes 505 microseconds.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/02-three-in-one.py](../solutions/02-three-in-one.py) has all answers.
#
# **Next:** [03, when nothing complains](03-nothing-complains.ipynb).
