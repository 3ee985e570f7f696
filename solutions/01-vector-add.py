# %% [markdown]
# # 01 · Vector add
#
# Adding two vectors is the simplest thing that a GPU does, and PyTorch does it as well as anybody
# can. So why write a kernel for it? Because nothing distracts you here. You cut a tensor into
# blocks, you find out whether a kernel is *really* right, and you learn to say how fast it could
# possibly be before you time it. You will do the same three things for every kernel you ever
# write. At the end you do them for one that PyTorch does not have.
#
# **By the end you can**
#
# - add vectors of any length up to two billion, as fast as the memory allows,
# - say which calls share a compiled kernel, and which ones compile again,
# - work out the fastest that your kernel could possibly be, and see how close it gets,
# - fuse three operations into one kernel, and prove that it is right.
#
# **You need** lesson 00.
#
# | section | about minutes |
# |---|---|
# | Cut a vector into blocks | 15 |
# | Write the kernel | 30 |
# | Is it right? | 6 |
# | Three things people believe | 7 |
# | What the compiler is told | 5 |
# | Functions inside a kernel | 3 |
# | How fast can it be? | 35 |
# | One kernel instead of three | 30 |
# | Stretch exercises | 25 |
# | **All, an estimate** | 156 |

# %% [markdown]
# **Two questions from lesson 00**, to warm up. Answer them before you unfold the answers.
#
# 1. Ten programs were started. In which order do they run?
#
# <details>
# <summary>Answer</summary>
#
# In no order that you can rely on. A multiprocessor that has room takes the next program in line,
# and several run at the same time.
#
# </details>
#
# 2. What is in a lane that a mask has switched off at the load?
#
# <details>
# <summary>Answer</summary>
#
# Nothing that you may count on: it is undefined, unless you say with `other` what it should be.
#
# </details>

# %%
from course import DEVICE, MODE, bench, check, cost, draw, explore, gpu_facts, hint, observed
from course import recorded, replay, specialize, vectors, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Cut a vector into blocks
#
# *Routes: three hours, one day, all*
#
# How do you divide ten elements among programs that each take four? You need three programs:
# `triton.cdiv(10, 4)` divides and rounds up. The last one has more lanes than there are elements
# left.

# %%
draw.programs(10, block_size=4)

# %% [markdown]
# A program works out from its number which elements are its own. `tl.arange(0, 4)` is
# `[0, 1, 2, 3]` in every program. The part of program `pid` begins at `pid * 4`. Add the two, and
# you have the block of its offsets.
#
# **Predict:** this kernel writes each program's number into its part, and the mask protects what
# lies past the end. (`BLOCK_SIZE: tl.constexpr` is a number that is fixed when the kernel is
# compiled, and you give it by name at the launch. The next section says why.) `out` has 12 places
# and is filled with -1 before. What does it hold afterwards, with `n_elements` = 10?


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
# The last two are still -1. Program 2 computed the offsets 10 and 11 like any other, and only the
# mask kept it from storing there. If `out` had just ten places, the memory behind them would belong
# to something else, and without the mask the program would overwrite it.
#
# Those three lines (`pid`, `offsets`, `mask`) open nearly every Triton kernel. Write them once
# yourself.

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
# *Routes: three hours, one day, all*
#
# Now the addition. A tensor arrives as a pointer to its first element. A pointer plus a block of
# offsets is a block of pointers, and `tl.load` reads from all of them at once.
#
# `BLOCK_SIZE` is a `tl.constexpr`, a **constexpr** for short: a number that is known when the kernel
# is compiled. It has to be, because the compiler decides then which thread takes which lanes. Block
# sizes must be powers of two.


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
# Nobody wants to type a grid at every call. So you put a plain Python function around the kernel:
# the **launcher**. It allocates the output, computes the grid and launches.
#
# Our kernel assumes that elements lie next to each other in memory. `.contiguous()` copies a
# tensor whose elements do not, and costs nothing for the others. The offsets are integers of 32
# bits, so this kernel is good for up to 2^31 - 1 elements, about two billion.
#
# The grid may also be a function. Triton calls it with a dictionary of the kernel's arguments by
# name, constexprs included (we call it `meta`), so the grid stays right when you change
# `BLOCK_SIZE`.


# %%
def add(x, y):
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    n = out.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)
    add_kernel[grid](x, y, out, n, BLOCK_SIZE=1024)
    return out


# %% [markdown]
# Triton's own first tutorial adds 98,432 numbers. That is 96 full blocks of 1,024 and one of 128,
# so the mask has something to do. Here is the same test.

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
x = torch.rand(98432, device=DEVICE)
y = torch.rand(98432, device=DEVICE)
difference = torch.max(torch.abs(x + y - add(x, y)))
print(f"The maximum difference between torch and triton is {difference}")

# %% [markdown]
# ### Watch it run
#
# Reading a kernel is one thing; seeing it work is another. `replay` runs the same launch in the
# interpreter, on copies of the tensors, and keeps every step. Press ▶, and watch the variables
# beside the line and the elements that the program touches.
#
# **Predict:** 1,000 elements in blocks of 256. How many of the 256 lanes of program 3 are masked?

# %%
x, y = torch.rand(1000, device=DEVICE), torch.rand(1000, device=DEVICE)
out = torch.empty_like(x)
replay(add_kernel, (4,), x, y, out, 1000, program=3, BLOCK_SIZE=256)

# %% [markdown]
# Four programs have 1,024 lanes, and there are 1,000 elements. So 24 lanes of the last program are
# masked (hatched): they neither load nor store. Click on an element of `out_ptr` to ask who wrote
# it.
#
# `replay` works on any kernel. When a `check` finds your kernel wrong, its last line is a `replay`
# call that opens the program that went wrong: copy it into a cell and run it.

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
# ### Exercise 01.4 · Backwards, every other element (stretch)
#
# From the last element backwards, take every other one of a contiguous float32 vector:
# `out[i] = x[n_elements - 1 - 2 * i]`, for as many `i` as there are. Write both kernel and
# launcher, and neither copy nor reverse anything with PyTorch. In PyTorch: `x.flip(0)[::2]`.


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
# *Routes: three hours, one day, all*
#
# Your kernel agreed with PyTorch on 98,432 numbers. Is it right? One size proves little: many
# kernels are right as long as the length is a multiple of the block, or the tensor is contiguous,
# or nothing is infinite.
#
# `verify` tries them all: lengths around the block size, other dtypes, tensors with gaps between
# their elements, tensors whose address is not a multiple of 16, NaN and infinity. It compares each
# result with PyTorch's in float64.

# %%
result = verify(add, torch.add, cases=vectors(2))
print(result)
assert result.right

# %% [markdown]
# The last column says how much of the allowed error was used. In float16 and bfloat16, little more
# is allowed than the error of one rounding. (Where numbers are added up it is somewhat more: they
# may nearly cancel, and their rounding errors stay.) So a kernel that rounds once stays below 100%.
# One that rounds after each of several products goes beyond, and is called wrong.
#
# CPU mode leaves some cases to a GPU, and says which: the longest vector, and those in bfloat16
# whose result is off, because the interpreter itself may be to blame.
#
# How would you notice that a kernel writes where it must not? `verify` fills each output with a
# pattern before the run, and puts a **guard** on both sides of it: memory that has to be unchanged
# afterwards. So it also finds elements that nobody wrote, and writes outside. In CPU mode it watches
# every address as well, finds reads outside and races, and fills undefined lanes with infinities.
#
# You may think that `torch.allclose` would do. Here the store has lost its mask. So that it harms
# nothing, the output is the front of a larger tensor, and the 24 numbers behind it are -1.
#
# **Predict:** does `torch.allclose` notice? And how many of the 24 are still -1?


# %%
@triton.jit
def unmasked_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y)  # no mask


# %%
memory = torch.full((1024,), -1.0, device=DEVICE)
x, y, out = torch.rand(1000, device=DEVICE), torch.rand(1000, device=DEVICE), memory[:1000]
unmasked_kernel[(1,)](x, y, out, 1000, BLOCK_SIZE=1024)
print("allclose:", torch.allclose(out, x + y))
print("still -1 behind it:", (memory[1000:] == -1).sum().item(), "of 24")

# %% [markdown]
# All 1,000 values are right, so `allclose` is satisfied, and everything behind the output has been
# overwritten. In a real model that memory belongs to some other tensor, perhaps to a weight. This
# is what makes such bugs so unpleasant: the kernel passes its test, and something else goes wrong
# an hour later.
#
# Here is what `verify` says about it.


# %%
def unmasked_add(x, y):
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    n = out.numel()
    unmasked_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK_SIZE=1024)
    return out


print(verify(unmasked_add, torch.add, cases=vectors(2), first_wrong_only=True))

# %% [markdown]
# `first_wrong_only` ends at the first wrong case. That is the second one, a vector of length 1: the
# first has length 0, for which no program starts. One block has 1,024 lanes, so 1,023 of them wrote
# outside, and the first of these at [1]. The only value is right, and `verify` still calls the
# kernel wrong.

# %% [markdown]
# ## Three things people believe
#
# *Routes: one day, all*
#
# These three come up again and again in questions about Triton. See for yourself that they are
# wrong.
#
# ### "A program is a thread"
#
# **Predict:** one program, a block of 1,024. How many elements does it write?

# %% tags=["nbval-check-output"]
out = torch.full((2048,), -1, dtype=torch.int32, device=DEVICE)
who_kernel[(1,)](out, 2048, BLOCK_SIZE=1024)
print((out == 0).sum().item())

# %% [markdown]
# It writes 1,024 elements. A program is run by `num_warps` warps together, 4 unless you say
# otherwise. That is 4 x 32 = 128 threads, and the compiler deals the 1,024 elements out to them, 8
# to each, as the picture in lesson 00 showed.

# %% [markdown]
# ### "Program 0 runs first"
#
# `tl.atomic_add` also returns what was in memory before it added. So each of these 1,024 programs
# draws a ticket from a shared counter: the first to come gets 0, the next gets 1. It then writes
# its own number at that place of a list, and the list shows who came when. **Predict** how it
# starts in the interpreter, which runs one program after another.


# %%
@triton.jit
def order_kernel(counter_ptr, order_ptr):
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.store(order_ptr + ticket, tl.program_id(axis=0))


counter = torch.zeros(1, dtype=torch.int32, device=DEVICE)
order = torch.empty(1024, dtype=torch.int32, device=DEVICE)
order_kernel[(1024,)](counter, order)
print(order[:16].tolist())

# %% [markdown]
# A GPU starts programs on all of its multiprocessors at once, and whoever gets there first draws
# first. These are the first sixteen there:

# %%
print(observed().order)

# %% [markdown]
# ### "A masked lane is zero, so it does no harm"
#
# It is undefined, even where you happen to see a zero. And even a zero can do harm. Here five lanes
# of eight have an element, all five are 0, and the kernel adds up `exp(x)`.
#
# **Predict** the sum with `other=float("-inf")`. And what is it without `other`, if the other lanes
# happen to be 0?


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
# Five times `exp(0)` is 5, and `exp(-inf)` is 0. Without `other`, three lanes joined in that have
# no element. `add_kernel` needs no `other`, because what it computes in such a lane is never stored.
#
# Did you notice the `if` in that kernel? An `if` on a single number is fine. On a constexpr it is
# even decided when the kernel is compiled, and the other branch is gone.

# %% [markdown]
# ## Sitting 2
#
# *Routes: three hours, one day, all*
#
# This is a good place for a break. So far you have cut a vector into blocks, written a kernel with
# a mask and a launcher, and had it verified. You know that agreeing with PyTorch on one input is no
# proof.
#
# If you come back in a new session, run the import cell at the top and the cells of `add_kernel` and
# `add`. What follows needs nothing else. Next you learn what the compiler makes of a call, then how
# fast an addition can be, and at the end you write a kernel that saves real time.

# %% [markdown]
# ## What the compiler is told
#
# *Routes: one day, all*
#
# The first call of a kernel takes about a second. The next one takes microseconds, and then some
# other call is slow again. Why?
#
# A kernel is compiled when it is first called, and again when a call differs in something that the
# compiler was told. Triton tells it more than you might expect: dtypes, constexprs, options such as
# `num_warps`; whether each address and each integer is divisible by 16; whether an integer is 1, or
# needs 64 bits. To compile a kernel for such facts is to **specialize** it. The course's function
# `specialize` asks Triton what it would tell the compiler, and compiles nothing.

# %% tags=["nbval-check-output"]
x = torch.empty(98432, device=DEVICE)
specialize(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024)

# %% [markdown]
# `*fp32` is a pointer to float32, and `i32` an integer of 32 bits. Why should the compiler care
# whether 98,432 is divisible by 16? Because then a group of four neighboring lanes lies inside the
# mask as a whole, or outside as a whole, so one instruction can load all four. For `n_elements`,
# "divisible by 16" counts elements. That is more than the 4 needed here, but Triton asks about 16
# only. For a pointer it counts bytes, and 16 bytes are four float32.
#
# **Predict:** which of these four calls can use the kernel that was compiled for the call above?

# %% tags=["nbval-check-output"]
first = specialize(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024)
print("n = 98,448:", specialize(add_kernel, x, x, x, 98448, BLOCK_SIZE=1024) == first)
print("n = 98,433:", specialize(add_kernel, x, x, x, 98433, BLOCK_SIZE=1024) == first)
print("x[1:]:     ", specialize(add_kernel, x[1:], x, x, 98432, BLOCK_SIZE=1024) == first)
print("BLOCK_SIZE:", specialize(add_kernel, x, x, x, 98432, BLOCK_SIZE=512) == first)

# %% [markdown]
# Only the first, since 98,448 is a multiple of 16 too. `x[1:]` begins 4 bytes after an aligned
# address, so its elements cannot be loaded four at a time. Each of the other three calls compiles
# once, and is quick from then on.
#
# One more case may surprise you: what happens to `n_elements` when it is 1?

# %% tags=["nbval-check-output"]
specialize(add_kernel, x, x, x, 1, BLOCK_SIZE=1024)

# %% [markdown]
# It became a constant, as if you had written 1 in the kernel. Triton does this for the sake of
# strides, which are often 1; lesson 02 has some.

# %% [markdown]
# ### Exercise 01.8 · A very long vector (stretch)
#
# A vector of 3,000,000,000 elements is longer than a signed integer of 32 bits can count: that
# ends at 2^31 - 1. Which type does the compiler give to `n_elements` then? Answer with the type
# alone, as a string, in the way `specialize` writes it. For 98,432 it would be `"i32"`.

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
# You may ask: `specialize` takes any number, and allocates nothing for it.
#
# </details>

# %% [markdown]
# ## Functions inside a kernel
#
# *Routes: three hours, one day, all*
#
# You have now written the same three opening lines several times. As in ordinary Python, what comes
# up again belongs in a function. A function under `@triton.jit` can be called from a kernel: it is
# then a helper, compiled into its caller, and costs nothing. It may return one value, several, or
# none. This one returns the offsets of the program that runs it, and their mask.
#
# The kernel computes `x * sigmoid(x)`, which is called SiLU. Its input may be float16, and
# `tl.sigmoid` takes only float32 or float64. So it converts with `.to` right after the load. The
# store converts back to the type of the output.


# %%
@triton.jit
def own_offsets(n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    return offsets, offsets < n_elements


@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets, mask = own_offsets(n_elements, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x * tl.sigmoid(x), mask=mask)


# %% tags=["nbval-check-output"]
x = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0], dtype=torch.float16, device=DEVICE)
out = torch.empty_like(x)
silu_kernel[(2,)](x, out, 6, BLOCK_SIZE=4)
print([round(value, 3) for value in out.tolist()])
print(torch.allclose(out, torch.nn.functional.silu(x)))

# %% [markdown]
# ## How fast can it be?
#
# *Routes: three hours, one day, all*
#
# Suppose your kernel takes 300 microseconds. Is that good? A time alone does not tell you. You need
# to know how little it could possibly take, and for that you count.
#
# Adding two float32 vectors reads 4 bytes from each and writes 4. That is 12 bytes per element, for
# one addition. You saw in lesson 00 that memory is the bottleneck by far, so the bytes decide.
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
# So 300 microseconds for this addition would be nothing to be proud of.
#
# ### Let a tool count
#
# For `add_kernel` you can count in your head. For larger kernels, `cost` does it: it runs the launch
# in the interpreter (here only a sample of its programs) and compiles it for a GPU that you do not
# need to have. It prints some things that you have not met yet:
#
# - *Sectors.* Memory is not moved byte by byte, but in pieces of 32 bytes. Such a piece is a
#   **sector**. Asking for 4 bytes of it moves all 32. "1.00 times the least" means that nothing was
#   moved in vain; lesson 02 shows kernels that waste most of it.
# - *Distinct.* These are the bytes counted once, however often they are asked for. If they are
#   fewer than what was loaded, something was loaded again.
# - *Registers.* The values that a thread works on live in its registers, 4 bytes each. A thread
#   has at most 255 of them.
# - *Spills.* If a thread needs more, the rest is kept in memory and read back when it is needed:
#   it is **spilled**. That is slow.
# - *Occupancy.* A multiprocessor holds several programs at once, as many as find room for their
#   warps and registers, and works on one while another waits for memory. On an H200 it has places for
#   64 warps. The share that is filled is the **occupancy**.
#
# Here is a warp that loads 32 neighboring elements of a float32 vector. Four sectors hold them all.

# %%
draw.sectors(1)

# %% [markdown]
# And this is what `cost` counts for the whole addition. A tensor on the device `meta` has a shape
# and no memory, which is all it needs.

# %%
x, y, out = (torch.empty(2**26, device="meta") for _ in range(3))
cost(add_kernel, (2**16,), x, y, out, 2**26, BLOCK_SIZE=1024, target="H200")

# %% [markdown]
# The bytes are the ones you counted, and no sector is wasted. The least time at the bottom is a
# little shorter than the 190 us that you worked out above. It goes by the 4.8 TB/s that NVIDIA
# publishes, and no real copy reaches that. It tells you the limit, not how close you are to it. The
# brackets say how long memory, the L2 cache and the arithmetic would each take alone.

# %% [markdown]
# ### Measure it
#
# Now the real thing, over many sizes, beside `torch.add` and a copy of as many bytes. `add_v1` is
# an addition with one program per element, as in lesson 00. In GPU mode this measures the `add` of
# this notebook; in CPU mode it shows how fast it was on the GPU where it was recorded.

# %%
result = bench(add, like="vector_add") if MODE.gpu else recorded("vector_add")
draw.speeds(result, series=["add", "torch.add", "copy", "add_v1"])

# %% [markdown]
# For large vectors, `add` runs at the copy roof, and so does `torch.add`: there is nothing left to
# gain. (Why is it even a little above? A copy writes as much as it reads. An addition reads twice
# as much as it writes, and memory serves that mix a few percent faster. The roof itself comes from
# one large copy, timed apart from the curve, so it may differ from that by half a percent.) One
# program per element is two hundred times slower: each of those programs spends its time starting
# and stopping. And below about ten million elements the other three curves drop. Let us look at
# that more closely.

# %%
for n in (2**12, 2**16, 2**20, 2**26):
    taken_us = result.at("add", n).ms * 1e3
    roof_us = 12 * n / (result.copy_tb_s * 1e12) * 1e6
    print(f"{n:>10,} elements: {taken_us:6.1f} us, at the roof {roof_us:6.1f} us")

# %% [markdown]
# At 2^26 elements the time is about the one you worked out. At 4,096 and 65,536 elements it is far
# longer, and nearly the same for both. Exercise 01.7 below asks you why.
#
# Each call also costs the CPU time. **Predict:** does a call of your kernel cost the CPU more than
# one of `torch.add`, or less? The next cell also shows what the very first call costs.

# %%
launch_us = recorded("vector_add").launch_us
for name in ("add", "torch.add", "first call, empty cache", "first call, kernel in the disk cache"):
    print(f"{name:40} {launch_us[name]:10,.0f} us")

# %% [markdown]
# This was recorded on an H200. A call of our launcher costs the CPU three to four times what
# `torch.add` does: Triton's launch is written in Python, PyTorch's in C++. So there a small
# `add` keeps the GPU busy for about 4 us and the CPU for 29. In a loop of such calls it is the CPU
# that sets the pace.
#
# The first call ever takes about a second: Triton starts its compiler and compiles
# the kernel. In a new process it finds the compiled kernel on disk, and the first call is still
# slow.
#
# Take two things from this. Never time a first call. And if your tensors are small, do more in each
# kernel.

# %% [markdown]
# ### Exercise 01.5 · Count the bytes (core)
#
# Exercise 01.2 computed `a * x + b`. For a bfloat16 vector `x` of 2^26 elements, how many
# megabytes does that move at least? (1 MB is 10^6 bytes. A bfloat16 has 2 bytes.)

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
# One kernel adds three float32 vectors of 2^24 elements: `w + x + y`. The copy roof of the GPU is
# 4.25 TB/s. How many microseconds are there to aim for?

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
# Bytes divided by bytes per second are seconds, and 1 TB is 10^12 bytes.
#
# </details>

# %% [markdown]
# ### Exercise 01.7 · What takes the time? (core)
#
# At 65,536 elements `add` moves 0.8 MB, which takes 0.2 us at the copy roof. In fact it takes
# twenty times as long. Why? Answer with a letter.
#
# - **a** The vector does not fill the L2 cache.
# - **b** 64 programs are too few for 132 multiprocessors, so more than half of those are idle.
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
# ### Is a bigger block faster?
#
# We have used blocks of 1,024 all along. Would larger ones be better?
#
# **Predict:** 67 million elements, 4 warps per program, and a block size of 64, 1,024 or 32,768.
# For each, work out how many elements of `x` there are per thread. One of the three does not fit
# into 255 registers.

# %%
blocks = recorded("vector_add_blocks")
draw.speeds(blocks, series=["num_warps=1", "num_warps=4", "num_warps=16"])

# %% [markdown]
# Small blocks are slow: a program with little to do spends most of its time starting and stopping.
# In the middle there is a wide range where all are equally good.
#
# Then the curves fall. With 4 warps, 128 threads share a block. At 64 there is half an element per
# thread, at 1,024 there are 8, and at 32,768 there are 256. As many come from `y`, and together
# that is twice what a thread has registers for, so a large part is spilled. With 1 warp there are
# only 32 threads, and a thread has 256 of each at 8,192 already. With 16 warps it has 64 of each at
# most, and the curve falls only a little: 512 threads share the 65,536 registers of a
# multiprocessor, 128 for each, and that is not quite enough. 1,024 with 4 warps is a safe choice.
#
# You can look at what the compiler made of your kernel. Run the cell, then hover over the line that
# loads `x`: what became of it in PTX, an assembly language of NVIDIA's, lights up beside it. (`sm_90`
# is NVIDIA's name for the generation of the H100 and H200.) Lesson 03 teaches you to read that.

# %%
x = torch.empty(98432, device=DEVICE)
explore(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, target="sm_90", stages=["ptx"])

# %% [markdown]
# ## One kernel instead of three
#
# *Routes: three hours, one day, all*
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
# ### Exercise 01.9 · A gate in one pass (core)
#
# Write SwiGLU as one kernel with a launcher: `gate * sigmoid(gate) * up`, for two vectors of one
# length, contiguous or not, in float32 or float16. Convert what you load to float32, compute there,
# and let the store round once. Until you have written it, the launcher falls back on PyTorch's three
# kernels.


# %%
# exercise 01.9
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


# %%
check("01.9", swiglu)

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
# all, and the errors add up. Yours rounds once. `verify` lets either pass, since no result is called
# wrong that is as near as PyTorch's own, but where one rounds more than once it says so. As the
# reference the three kernels are fine, since `verify` computes a reference in float64.


# %%
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
# Third, if you have a GPU: is it fast? You are looking for nearly the whole copy roof, where
# PyTorch's three kernels reach 3/8 of it. Speeds here count the bytes that *must* be moved, 12 per
# element. In CPU mode there is nothing to time, and the two times that you worked out above are what
# to expect.

# %%
if MODE.gpu:
    make = lambda n: (torch.randn(n, device=DEVICE), torch.randn(n, device=DEVICE))
    must = lambda gate, up: 3 * gate.nbytes
    timed = bench(swiglu, [three_kernels], make=make, sizes=[2**22, 2**24, 2**26], bytes=must)
    print(timed)

# %% [markdown]
# You now have a fused kernel that is verified, counted and, on a GPU, timed. That is the whole
# method of this course. What comes later are harder kernels.
#
# To be honest, `torch.compile` would have fused these three operations for you, so try that first
# in your own work. It merges operations as they stand. Where the algorithm itself has to change, as
# in the flash attention of lesson 06, it needs somebody to write the kernel.

# %% [markdown]
# ## On your own
#
# - Change `add_kernel` so that it subtracts, and give `verify` the right reference.
# - Launch `add_kernel` with `n // 1024` programs instead of `triton.cdiv(n, 1024)`. What does
#   `verify` say first, and why about that length?
# - Add three vectors in one kernel. It moves 16 bytes per element, where two kernels move 24. Verify
#   it with `lambda x, y, z: x + y + z` and `vectors(3)`. On a GPU, time it as above.
#
# ## In practice
#
# Do not write a kernel for `x + y`. What to take away is the method: count the bytes, verify, then
# measure against the roof. The finished addition, with checks of its inputs and with 64-bit offsets
# for very long vectors, is [kernels/vector_add.py](../kernels/vector_add.py).
#
# ## What you can do now
#
# You can write a kernel over blocks with a launcher, verify it on inputs that you would not have
# thought of, and say how fast it could be at best. You know why the first call is slow, and why
# with small tensors it only helps to launch fewer kernels. And you have fused three operations
# into one. Ask yourself:
#
# 1. A kernel gives the same numbers as PyTorch, and `verify` calls it wrong. How can that be?
#
# <details>
# <summary>Answer</summary>
#
# It may write outside of its output, or read outside of its inputs, or only be wrong for other
# lengths, strides and dtypes than the ones you tried.
#
# </details>
#
# 2. A float32 vector of 2^28 elements is multiplied by a number. What is the least time at a copy
#    roof of 4.25 TB/s?
#
# <details>
# <summary>Answer</summary>
#
# 8 bytes per element, 2.15 GB in all. At 4.25 TB/s that takes 505 microseconds.
#
# </details>
#
# 3. (One day, all.) At `n` = 98,432 one instruction of `add_kernel` loads four elements; at 98,433
#    it takes four. What did Triton tell the compiler in one case and not in the other?
#
# <details>
# <summary>Answer</summary>
#
# That `n_elements` is divisible by 16. Otherwise the mask may end between two of four neighboring
# lanes, and then each of them needs an instruction of its own.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/01-vector-add.py](../solutions/01-vector-add.py) has all answers.
#
# **Next:** [lesson 02](02-two-dimensions.ipynb). With a second dimension come strides, and it starts
# to matter very much which elements a warp asks for together.
#
# ## Further reading
#
# - [Triton's vector-add
#   tutorial](https://triton-lang.org/main/getting-started/tutorials/01-vector-add.html)
# - S. Williams, A. Waterman, D. Patterson: *Roofline: An Insightful Visual Performance Model*,
#   CACM 2009
