# %% [markdown]
# # 01 · Vector add
#
# **What you will build.** `z = x + y` for vectors of up to two thousand million elements, as fast
# as the memory allows.
#
# **What you will learn.** You cut a vector into blocks and mask the last one. You say which calls
# share a compiled kernel. You compute the time that a kernel takes at the speed of a copy, and
# see how near it comes.
#
# **What you need.** Lesson 00.
#
# | section | minutes |
# |---|---|
# | Cut a vector into blocks | 12 |
# | Write the kernel | 24 |
# | Is it right? | 5 |
# | Four things people believe | 8 |
# | What the compiler is told | 8 |
# | How fast can it be? | 18 |

# %%
from course import DEVICE, MODE, bench, check, cost, draw, explore, gpu_facts, hint, observed
from course import recorded, replay, specialise, vectors, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Cut a vector into blocks
#
# A program for each element would be wasteful: starting one costs more than an addition. So each
# program gets a *block* of neighbouring elements. Look at the last program: it has more lanes
# than elements.

# %%
draw.programs(10, block_size=4)

# %% [markdown]
# Ten elements in blocks of four need three programs: `triton.cdiv(10, 4)`, which rounds up.
# Inside a program, `tl.arange(0, 4)` is the block `[0, 1, 2, 3]`. Adding `pid * 4`, where the
# program's block starts, gives its *offsets*: its own element numbers.
#
# **Predict:** this kernel writes each program's number into its block. What is in `out` at the
# end?


# %%
@triton.jit
def who_kernel(out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(out_ptr + offsets, pid, mask=mask)


# %% tags=["nbval-check-output"]
out = torch.full((12,), -1, dtype=torch.int32, device=DEVICE)
who_kernel[(triton.cdiv(10, 4),)](out, 10, BLOCK_SIZE=4)
print(out.tolist())

# %% [markdown]
# The last two are still -1. Program 2 did not stop by itself at the end of the vector: it
# computed offsets 10 and 11 like any other, and the *mask*, a block of true and false, kept them
# from being stored. Without the mask it writes into memory that belongs to something else.

# %% [markdown]
# ### Exercise 01.1 · Fill a vector (core)
#
# Store `value` in each of the `n_elements` elements of `out`, a float32 vector. The exercise
# launches `triton.cdiv(n_elements, BLOCK_SIZE)` programs. In PyTorch: `out.fill_(value)`.


# %%
# exercise 01.1
@triton.jit
def fill_kernel(out_ptr, value, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    # about 2 lines from here
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, value, mask=offsets < n_elements)
    # to here


# %%
check("01.1", fill_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Where does the block of program `pid` start? `who_kernel` computes it.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The last program has lanes past the end. Which of `tl.store`'s arguments switches them off?
#
# </details>

# %% [markdown]
# ## Write the kernel
#
# A tensor arrives as a pointer to its first element. A pointer plus a block of offsets is a block
# of pointers, and `tl.load` reads all of them at once. `BLOCK_SIZE` is a `tl.constexpr`: a
# constant to the compiler, since a block's size must be known when the kernel is compiled. It
# must be a power of two.


# %%
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


# %% [markdown]
# The *launcher* is the Python around it: it makes the output, computes the grid and starts the
# kernel, which counts on elements that lie one after the other: `.contiguous()` copies those that
# do not. The grid may be a function of the constants, as here; then it follows when `BLOCK_SIZE`
# changes.


# %%
def add(x, y):
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    n = out.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)
    add_kernel[grid](x, y, out, n, BLOCK_SIZE=1024)
    return out


# %% [markdown]
# Triton's own first tutorial adds 98,432 numbers: 96 full blocks of 1,024, and one of 128. Look
# for the difference from what PyTorch computes.

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
x = torch.rand(98432, device=DEVICE)
y = torch.rand(98432, device=DEVICE)
difference = torch.max(torch.abs(x + y - add(x, y)))
print(f"The maximum difference between torch and triton is {difference}")

# %% [markdown]
# ### Watch it run
#
# `replay` runs the same launch in the interpreter, on copies of the tensors, and keeps every step.
# Press ▶ and look at the variables beside the line, and at the elements that the program touches.
# **Predict:** how many of the 256 lanes of program 3 are masked, for 1,000 elements?

# %%
x, y = torch.rand(1000, device=DEVICE), torch.rand(1000, device=DEVICE)
out = torch.empty_like(x)
replay(add_kernel, (4,), x, y, out, 1000, program=3, BLOCK_SIZE=256)

# %% [markdown]
# Offsets 1,000 to 1,023 have no element: the mask keeps those 24 lanes from loading and from
# storing (hatched). A click on an element of `out_ptr` asks who wrote it. It works for any kernel
# of yours, and where a `check` fails, its last line is the call that opens the program that went
# wrong.

# %% [markdown]
# ### Exercise 01.2 · a * x + b (core)
#
# Write the kernel and its launcher for a float32 vector `x` of any length, contiguous or not, and
# two numbers `a` and `b`. A number is passed to a kernel as it is, without a pointer. In PyTorch:
# `a * x + b`.


# %%
# exercise 01.2
@triton.jit
def affine_kernel(x_ptr, out_ptr, a, b, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    # about 3 lines from here
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, a * x + b, mask=mask)
    # to here


def affine(x, a, b):
    x = x.contiguous()
    out = torch.empty_like(x)
    # about 2 lines from here
    grid = (triton.cdiv(x.numel(), 1024),)
    affine_kernel[grid](x, out, a, b, x.numel(), BLOCK_SIZE=1024)
    # to here
    return out


# %%
check("01.2", affine)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# It is `add_kernel` with one load fewer.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The grid is a tuple, also with one axis: `(programs,)`. A part of a block at the end needs a
# program too.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# Inside a kernel, use the parameters `a` and `b`: it cannot see Python's global variables.
#
# </details>

# %% [markdown]
# ### Exercise 01.3 · Backwards (core)
#
# Reverse a float32 vector: `out[i] = x[n_elements - 1 - i]`. The exercise launches
# `triton.cdiv(n_elements, BLOCK_SIZE)` programs. In PyTorch: `x.flip(0)`.


# %%
# exercise 01.3
@triton.jit
def reverse_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    # about 3 lines from here
    mask = offsets < n_elements
    x = tl.load(x_ptr + n_elements - 1 - offsets, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)
    # to here


# %%
check("01.3", reverse_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Offsets may run backwards: any block of integers can be added to a pointer.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Offsets count elements. The element read for output 0 has the number `n_elements - 1`.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# A lane past the end of the output would read in front of the input: mask the load too.
#
# </details>

# %% [markdown]
# ### Exercise 01.4 · Backwards, every second (stretch)
#
# From the last element backwards, take every second one of a contiguous float32 vector:
# `out[i] = x[n - 1 - 2 * i]`, for as many `i` as there are. Write both kernel and launcher; copy
# and reverse nothing with PyTorch. In PyTorch: `x.flip(0)[::2]`.


# %%
# exercise 01.4
@triton.jit
def back_by_two_kernel(x_ptr, out_ptr, n_elements, n_out, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    # about 3 lines from here
    mask = offsets < n_out
    x = tl.load(x_ptr + n_elements - 1 - 2 * offsets, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)
    # to here


def back_by_two(x):
    out = None
    # about 4 lines from here
    n_out = (x.numel() + 1) // 2
    out = torch.empty(n_out, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n_out, 512),)
    back_by_two_kernel[grid](x, out, x.numel(), n_out, BLOCK_SIZE=512)
    # to here
    return out


# %%
check("01.4", back_by_two)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# For 5 elements there are 3 results, for 4 there are 2.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Programs, offsets and mask follow the output; only the address of the load differs.
#
# </details>

# %% [markdown]
# ## Is it right?
#
# One size proves little. `verify` tries lengths around the block size, other dtypes, inputs that
# do not begin at an address divisible by 16 or are not contiguous, NaN and infinity, and compares
# each with PyTorch in float64. The last column is the largest error as a share of what is
# allowed; one rounding to float16 takes most of it. CPU mode leaves some cases to a GPU.

# %%
result = verify(add, torch.add, cases=vectors(2))
print(result)
assert result.right

# %% [markdown]
# The outputs were filled with a pattern before the run, and lie between two *guards*: memory that
# must not change. So `verify` also sees elements that nobody wrote, and writes outside. In CPU
# mode it watches every address besides, and sees reads outside and programs that race.
#
# **Predict:** here the store has lost its mask. Does `torch.allclose` notice?


# %%
@triton.jit
def add_unmasked_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y)  # no mask


# %% [markdown]
# So that nothing else comes to harm, the output is the front of a larger tensor, and the 24
# numbers behind it are -1.

# %%
memory = torch.full((1024,), -1.0, device=DEVICE)
x, y, out = torch.rand(1000, device=DEVICE), torch.rand(1000, device=DEVICE), memory[:1000]
add_unmasked_kernel[(1,)](x, y, out, 1000, BLOCK_SIZE=1024)
print("allclose:", torch.allclose(out, x + y))
print("still -1 behind it:", (memory[1000:] == -1).sum().item(), "of 24")

# %% [markdown]
# All 1,000 values are right, so `allclose` is content, and the numbers behind the output are
# gone. In a program of yours they belong to some other tensor: a kernel can pass its test and
# spoil a training run. `verify` reports such a kernel as wrong, and says where it wrote.

# %% [markdown]
# ## Four things people believe
#
# ### "A program is a thread"
#
# **Predict:** one program, a block of 1,024. How many elements does it write?

# %% tags=["nbval-check-output"]
out = torch.full((2048,), -1, dtype=torch.int32, device=DEVICE)
who_kernel[(1,)](out, 2048, BLOCK_SIZE=1024)
print((out == 0).sum().item())

# %% [markdown]
# A program is run by `num_warps` warps together, 4 unless you say otherwise: 4 x 32 = 128
# threads. The compiler deals the 1,024 elements out to them, 8 to each. You never name a thread
# in Triton; lesson 03 shows which one got what.

# %% [markdown]
# ### "Program 0 runs first"
#
# Each program here draws a ticket from a shared counter and writes its number at that place of
# the list. **Predict** the start of the list, in the interpreter and on a GPU.


# %%
@triton.jit
def order_kernel(counter_ptr, order_ptr):
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.store(order_ptr + ticket, tl.program_id(axis=0))


counter = torch.zeros(1, dtype=torch.int32, device=DEVICE)
order = torch.empty(512, dtype=torch.int32, device=DEVICE)
order_kernel[(512,)](counter, order)
print(order[:16].tolist())

# %% [markdown]
# The interpreter runs programs in order, one by one. A GPU starts them on all multiprocessors at
# once, and whichever gets there first draws first. Look at the first sixteen there, and never let
# one program rely on another.

# %%
print(observed().order)

# %% [markdown]
# ### "A masked lane is zero, so it does no harm"
#
# It is undefined, as lesson 00 said, even where you see a zero. And a zero does harm too. Here
# five lanes of eight have an element, all of them 0, and the kernel sums `exp(x)`. **Predict**
# the sum, with `other=float("-inf")` and without `other`.


# %%
@triton.jit
def sum_exp_kernel(x_ptr, out_ptr, n_elements, SAY_OTHER: tl.constexpr):
    offsets = tl.arange(0, 8)
    if SAY_OTHER:
        x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=float("-inf"))
    else:
        x = tl.load(x_ptr + offsets, mask=offsets < n_elements)
    tl.store(out_ptr, tl.sum(tl.exp(x), axis=0))


# %%
x, out = torch.zeros(5, device=DEVICE), torch.empty(1, device=DEVICE)
for say_other in (True, False):
    sum_exp_kernel[(1,)](x, out, 5, SAY_OTHER=say_other)
    print(f"SAY_OTHER={say_other}:", out.item())

# %% [markdown]
# Five times `exp(0)` is 5. Without `other` three lanes joined in that have no element.
# `add_kernel` needs no `other`, because what it computes in such a lane is never stored. (An `if`
# on a `tl.constexpr` is decided when the kernel is compiled, so it is allowed.)

# %% [markdown]
# ### "A bigger block is faster"
#
# **Predict:** at 67 million elements, which block size is fastest for 4 warps: 64, 1,024 or
# 32,768? The cell shows what was recorded on an H200. The last section explains the copy roof.

# %%
blocks = recorded("vector_add_blocks")
draw.speeds(blocks, series=["num_warps=1", "num_warps=4", "num_warps=16"])

# %% [markdown]
# Small blocks lose: a program with little to do is mostly start and end. A wide range in the
# middle is equally good. Then very large blocks lose too: at 32,768 elements and 4 warps each
# thread holds 256 elements of each tensor, more than it has registers, and the rest is *spilled*
# to memory. With more warps that point comes later. 1,024 with 4 warps is safe here.

# %% [markdown]
# ## What the compiler is told
#
# A kernel is compiled when it is first called, and again when a call differs in something the
# compiler was told: dtypes, constants, options such as `num_warps`, whether an address or an
# integer is divisible by 16, whether an integer is 1 or needs 64 bits. `specialise` asks Triton
# what that would be, and compiles nothing.

# %% tags=["nbval-check-output"]
x = torch.empty(98432, device=DEVICE)
specialise(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024)

# %% [markdown]
# `*fp32` is a pointer to float32. That 98,432 is divisible by 16 tells the compiler that a whole
# group of lanes lies inside the mask or outside it, so it may load four elements at once.
#
# **Predict:** which of these four calls can use the kernel compiled for the call above?

# %% tags=["nbval-check-output"]
first = specialise(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024)
print("n = 98,448:", specialise(add_kernel, x, x, x, 98448, BLOCK_SIZE=1024) == first)
print("n = 98,433:", specialise(add_kernel, x, x, x, 98433, BLOCK_SIZE=1024) == first)
print("x[1:]:     ", specialise(add_kernel, x[1:], x, x, 98432, BLOCK_SIZE=1024) == first)
print("BLOCK_SIZE:", specialise(add_kernel, x, x, x, 98432, BLOCK_SIZE=512) == first)

# %% [markdown]
# Only the first: another multiple of 16. `x[1:]` begins 4 bytes after an aligned address, so its
# loads cannot be as wide. Each of the others costs a compilation, once.
#
# **Predict:** what does the compiler make of `n_elements` when it is 1?

# %% tags=["nbval-check-output"]
specialise(add_kernel, x, x, x, 1, BLOCK_SIZE=1024)

# %% [markdown]
# It became a constant. That is meant for strides, which are often 1.
#
# A kernel can call other functions under `@triton.jit`. Such a helper is compiled into its
# caller, and may return a block, several values, or nothing. This one returns two; look also at
# `tl.zeros`, which makes a block, and `.to`, which converts one.


# %%
@triton.jit
def split(x):
    whole = tl.floor(x)
    return whole, x - whole


@triton.jit
def split_kernel(x_ptr, whole_ptr, part_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    parts = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    whole, part = split(tl.load(x_ptr + offsets))
    parts += part
    tl.store(whole_ptr + offsets, whole.to(tl.int32))
    tl.store(part_ptr + offsets, parts)


# %% tags=["nbval-check-output"]
x = torch.tensor([0.5, 1.25, 2.0, 3.75], device=DEVICE)
whole, part = torch.empty(4, dtype=torch.int32, device=DEVICE), torch.empty_like(x)
split_kernel[(1,)](x, whole, part, BLOCK_SIZE=4)
print(whole.tolist(), part.tolist())

# %% [markdown]
# A glance ahead to lesson 03: in a session, move over the line that loads `x`, and what the
# compiler makes of it for an H100 or H200 lights up beside it.

# %%
x = torch.empty(98432, device=DEVICE)
explore(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, target="sm_90", stages=["ptx"])

# %% [markdown]
# ## How fast can it be?
#
# Count first. Adding two float32 vectors reads 4 bytes from each and writes 4: 12 bytes an
# element, with one addition. A fair mark is a large copy: the *copy roof*. Bytes over the roof is
# the time to aim at.
#
# **Predict** it for 2^26 elements: about 2, 20 or 200 microseconds?

# %%
facts = gpu_facts()
n = 2**26
roof_us = 12 * n / (facts.memory_tb_s * 1e12) * 1e6
print(f"{12 * n / 1e6:.0f} MB at {facts.memory_tb_s:.2f} TB/s: about {roof_us:.0f} us")

# %% [markdown]
# `cost` counts for you: it runs the launch in the interpreter, a sample of its programs here, and
# compiles it for a GPU that need not be there. (A tensor on the device `meta` has a shape and no
# memory.) Look for the bytes, and for the least time on an H200.

# %%
x, y, out = (torch.empty(2**26, device="meta") for _ in range(3))
cost(add_kernel, (2**16,), x, y, out, 2**26, BLOCK_SIZE=1024, target="H200")

# %% [markdown]
# The least time is a little below yours, because it goes by the 4.8 TB/s that the maker
# publishes, and no copy comes that far. *Sectors* and *registers* come up in lessons 02 and 03.
# Such a count needs no GPU, for any kernel you write; it says what cannot be beaten, and not how
# near you come.
#
# Now the real thing, over sizes, beside `torch.add` and a copy of as many bytes. `add_v1` is the
# kernel with one element a program. In GPU mode this measures *your* `add`; in CPU mode it shows
# the course's, as recorded.

# %%
result = bench(add, like="vector_add") if MODE.gpu else recorded("vector_add")
draw.speeds(result, series=["add", "torch.add", "copy", "add_v1"])

# %% [markdown]
# For large vectors there is nothing left to gain. (A little above the roof is no error: a copy is
# half reading and half writing, and memory serves the addition's mix, two reads to a write, a few
# percent faster; `torch.add` gets the same.) One element a program is two hundred times slower.
# And below some ten million elements all of them fall off.

# %%
for n in (2**12, 2**16, 2**20, 2**26):
    taken_us = result.at("add", n).ms * 1e3
    roof_us = 12 * n / (result.copy_tb_s * 1e12) * 1e6
    print(f"{n:>10,} elements: {taken_us:6.1f} us, at the roof {roof_us:6.1f} us")

# %% [markdown]
# A launch takes a few microseconds on the GPU even if there is next to nothing to do. At 4,096
# elements that is the whole time; at 2^26 it is lost in the rest. The CPU also works for each
# call.
#
# **Predict:** which is dearer for the CPU, a call of `torch.add` or of a Triton kernel? And the
# very first call?

# %%
launch_us = recorded("vector_add").launch_us
for name in ("add", "torch.add", "first call, empty cache", "first call, kernel in the disk cache"):
    print(f"{name:40} {launch_us[name]:10,.0f} us")

# %% [markdown]
# These were recorded on an H200. A call through Triton's Python costs the CPU three to four times
# what PyTorch's C++ does. The first call ever takes about a second: Triton builds a
# helper of its own, starts its compiler and compiles the kernel. In a new process the kernel
# comes from the cache on disk, and the first call is still slow. So a first call is never a
# measurement, and small tensors are a reason to do more in each kernel.

# %% [markdown]
# ### Exercise 01.5 · Count the bytes (core)
#
# `affine` of exercise 01.2, but for a bfloat16 vector of 2^26 elements: how many megabytes does
# it move at least? (1 MB is 10^6 bytes. A bfloat16 has 2 bytes.)

# %%
# exercise 01.5
megabytes = None
# about 1 line from here
megabytes = (2 + 2) * 2**26 / 1e6
# to here

# %%
check("01.5", megabytes)

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
# ### Exercise 01.6 · The least time (core)
#
# One kernel adds three float32 vectors of 2^24 elements: `w + x + y`. A large copy moves 4.25
# TB/s on the card. How many microseconds does the kernel take at least?

# %%
# exercise 01.6
microseconds = None
# about 1 line from here
microseconds = 4 * 4 * 2**24 / 4.25e12 * 1e6
# to here

# %%
check("01.6", microseconds)

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
# Bytes divided by bytes a second are seconds, and 1 TB is 10^12 bytes.
#
# </details>

# %% [markdown]
# ### Exercise 01.7 · What takes the time? (core)
#
# At 65,536 elements `add` moves 0.8 MB, which takes 0.2 us at the copy roof. It takes twenty
# times as long. Why? Answer with a letter.
#
# - **a** The vector does not fill the L2 cache.
# - **b** 64 programs are too few for 132 multiprocessors, so each of them does too much.
# - **c** The GPU takes some microseconds to start and end any kernel, however little it does.
# - **d** The kernel is compiled again in each call.

# %%
# exercise 01.7
answer = None
# about 1 line from here
answer = "c"
# to here

# %%
check("01.7", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Look at the time for 4,096 elements, which is a sixteenth of the work.
#
# </details>

# %% [markdown]
# ### Exercise 01.8 · The compiler's word (stretch)
#
# Which type does `specialise` show for `n_elements` when it is 3,000,000,000? Write the word as
# Triton does.

# %%
# exercise 01.8
answer = None
# about 1 line from here
answer = "i64"
# to here

# %%
check("01.8", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# 2^31 is 2,147,483,648.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# You may ask: `specialise` takes any number, and allocates nothing for it.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Change `add` to subtract, and give `verify` the right reference.
# - Launch with `n // 1024` programs in place of `triton.cdiv(n, 1024)`. What does `verify` say
#   first?
# - Add three vectors in one kernel: 16 bytes an element, where two kernels move 24. Verify it
#   with `lambda x, y, z: x + y + z` and `vectors(3)`, and on a GPU time it: `help(bench)` says
#   how to give your own inputs.
#
# ## In practice
#
# Do not write a kernel for `x + y`: PyTorch's is as good, and `torch.compile` joins it with its
# neighbours. What you keep from this lesson is the way: count bytes, verify, then measure against
# the roof. The finished operation, with its input checks and 64-bit offsets for very long
# vectors, is [kernels/vector_add.py](../kernels/vector_add.py).
#
# Between your Python and the GPU's instructions lie five stages of a compiler. Lesson 03 walks
# through them with this kernel.
#
# ## Further reading
#
# - [Triton's vector-add
#   tutorial](https://triton-lang.org/main/getting-started/tutorials/01-vector-add.html)
# - S. Williams, A. Waterman, D. Patterson: *Roofline: An Insightful Visual Performance Model*,
#   CACM 2009
