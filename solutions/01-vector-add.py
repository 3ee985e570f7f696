# %% [markdown]
# # 01 · Vector add: blocks, and is it right?
#
# Adding two vectors is the simplest thing that a GPU does, and PyTorch does it as well as anybody
# can. So why write a kernel for it? Because nothing distracts you here. You cut a tensor into
# blocks, you write the launcher around the kernel, and you find out whether a kernel is *really*
# right. You will do the same for every kernel you ever write.
#
# **By the end you can**
#
# - add vectors of any length up to two billion,
# - write a launcher, which allocates the output and chooses the grid,
# - have a kernel verified on inputs that you would not have thought of.
#
# **You need** notebook {your-first-kernel}.
#
# | section | about minutes |
# |---|---|
# | Cut a vector into blocks | 15 |
# | Write the kernel | 40 |
# | Is it right? | 10 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 75 |
# | Stretch exercises, for those with time left | 20 |

# %% [markdown]
# **Two questions from notebook {your-first-kernel}**, to warm up. Answer them before you unfold the
# answers.
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
# 2. A program has four lanes, and the mask switches two of them off. Do those two still run?
#
# <details>
# <summary>Answer</summary>
#
# Yes, all four lanes run. The mask only keeps two of them from memory.
#
# </details>

# %% tags=["runs-here"]
from course import DEVICE, check, draw, hint, replay, vectors, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Cut a vector into blocks
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
#
# <details>
# <summary>Answer</summary>
#
# Four times 0, four times 1, two times 2, and the last two are still -1. Program 2 computes the
# offsets 10 and 11 like any other, and only the mask keeps it from storing there.
#
# </details>


# %% tags=["runs-here"]
@triton.jit
def who_kernel(out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(out_ptr + offsets, pid, mask=mask)


# %% tags=["nbval-check-output", "runs-here"]
out = torch.full((12,), -1, dtype=torch.int32, device=DEVICE)
who_kernel[(triton.cdiv(10, 4),)](out, 10, BLOCK_SIZE=4)
print(out.tolist())

# %% [markdown]
# If `out` had just ten places, the memory behind them would belong to something else, and without
# the mask a program would overwrite it.
#
# Those three lines (`pid`, `offsets`, `mask`) open nearly every Triton kernel. Write them once
# yourself.

# %% [markdown]
# ### Exercise {fill-a-vector} · Fill a vector (core)
#
# Store `value` in each of the `n_elements` elements of `out`, a float32 vector. The exercise
# launches `triton.cdiv(n_elements, BLOCK_SIZE)` programs. In PyTorch: `out.fill_(value)`.


# %% tags=["runs-here"]
# exercise fill-a-vector
@triton.jit
def fill_kernel(out_ptr, value, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    # about 2 lines from here
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, value, mask=offsets < n_elements)
    # to here


# %% tags=["runs-here"]
check("fill-a-vector", fill_kernel)

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
# Now the addition. A tensor arrives as a pointer to its first element. A pointer plus a block of
# offsets is a block of pointers, and `tl.load` reads from all of them at once.
#
# `BLOCK_SIZE` is a `tl.constexpr`, a **constexpr** for short: a number that is known when the
# kernel is compiled. It has to be, because the compiler decides then which thread takes which
# lanes. Block sizes must be powers of two.


# %% tags=["runs-here"]
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


# %% tags=["runs-here"]
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

# %% tags=["nbval-check-output", "runs-here"]
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
#
# <details>
# <summary>Answer</summary>
#
# Four programs have 1,024 lanes, and there are 1,000 elements. So 24 lanes of the last program are
# masked: they neither load nor store.
#
# </details>

# %% tags=["runs-here"]
x, y = torch.rand(1000, device=DEVICE), torch.rand(1000, device=DEVICE)
out = torch.empty_like(x)
replay(add_kernel, (4,), x, y, out, 1000, program=3, BLOCK_SIZE=256)

# %% [markdown]
# Masked lanes are hatched. Click on an element of `out_ptr` to ask who wrote it.
#
# `replay` works on any kernel. When a `check` finds your kernel wrong, its last line is a `replay`
# call that opens the program that went wrong: copy it into a cell and run it.

# %% [markdown]
# ### Exercise {scale-and-shift} · a * x + b (core)
#
# Write the kernel and its launcher for a float32 vector `x` of any length, contiguous or not, and
# two numbers `a` and `b`. A number is passed to a kernel as it is, without a pointer. In PyTorch:
# `a * x + b`.


# %% tags=["runs-here"]
# exercise scale-and-shift
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


# %% tags=["runs-here"]
check("scale-and-shift", affine)

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
# ### Exercise {reversed-vector} · Backwards (core)
#
# Reverse a float32 vector: `out[i] = x[n_elements - 1 - i]`. The exercise launches
# `triton.cdiv(n_elements, BLOCK_SIZE)` programs. In PyTorch: `x.flip(0)`.


# %% tags=["runs-here"]
# exercise reversed-vector
@triton.jit
def reverse_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    # about 3 lines from here
    mask = offsets < n_elements
    x = tl.load(x_ptr + n_elements - 1 - offsets, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)
    # to here


# %% tags=["runs-here"]
check("reversed-vector", reverse_kernel)

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
# ### Exercise {every-other-backwards} · Backwards, every other element (stretch)
#
# From the last element backwards, take every other one of a contiguous float32 vector:
# `out[i] = x[n_elements - 1 - 2 * i]`, for as many `i` as there are. Write both kernel and
# launcher, and neither copy nor reverse anything with PyTorch. In PyTorch: `x.flip(0)[::2]`.


# %% tags=["runs-here"]
# exercise every-other-backwards
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


# %% tags=["runs-here"]
check("every-other-backwards", back_by_two)

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
# Your kernel agreed with PyTorch on 98,432 numbers. Is it right? One size proves little: many
# kernels are right as long as the length is a multiple of the block, or the tensor is contiguous,
# or nothing is infinite.
#
# `verify` tries them all: lengths around the block size, other dtypes, tensors with gaps between
# their elements, tensors whose address is not a multiple of 16, NaN and infinity. It compares each
# result with PyTorch's in float64.

# %% tags=["runs-here"]
result = verify(add, torch.add, cases=vectors(2))
print(result)
assert result.right

# %% [markdown]
# The last column says how much of the allowed error was used. In float16 and bfloat16, little more
# is allowed than the error of one rounding. (Where numbers are added up it is somewhat more: they
# may nearly cancel, and their rounding errors stay.) So a kernel that rounds once stays below 100%.
# One that rounds after each of several products goes beyond, and is called wrong, unless PyTorch's
# own operations round as often: notebook {three-in-one} has such a case.
#
# CPU mode leaves some cases to a GPU, and says which: the longest vector, and those in bfloat16
# whose result is off, because the interpreter itself may be to blame.
#
# How would you notice that a kernel writes where it must not? `verify` fills each output with a
# pattern before the run, and puts a **guard** on both sides of it: memory that has to be unchanged
# afterwards. So it also finds elements that nobody wrote, and writes outside. In CPU mode it
# watches every address as well, finds reads outside and races, and fills undefined lanes with
# infinities.
#
# You may think that `torch.allclose` would do. Here the store has lost its mask. So that it harms
# nothing, the output is the front of a larger tensor, and the 24 numbers behind it are -1.
#
# **Predict:** does `torch.allclose` notice? And how many of the 24 are still -1?
#
# <details>
# <summary>Answer</summary>
#
# It does not notice, and none of them is. All 1,000 values are right, so `allclose` is satisfied,
# and everything behind the output has been overwritten.
#
# </details>


# %% tags=["runs-here"]
@triton.jit
def unmasked_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y)  # no mask


# %% tags=["runs-here"]
memory = torch.full((1024,), -1.0, device=DEVICE)
x, y, out = torch.rand(1000, device=DEVICE), torch.rand(1000, device=DEVICE), memory[:1000]
unmasked_kernel[(1,)](x, y, out, 1000, BLOCK_SIZE=1024)
print("allclose:", torch.allclose(out, x + y))
print("still -1 behind it:", (memory[1000:] == -1).sum().item(), "of 24")

# %% [markdown]
# In a real model the memory behind an output belongs to some other tensor, perhaps to a weight.
# This is what makes such bugs so unpleasant: the kernel passes its test, and something else goes
# wrong an hour later.
#
# Here is what `verify` says about it.


# %% tags=["runs-here"]
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
# ## On your own
#
# - Change `add_kernel` so that it subtracts, and give `verify` the right reference.
# - Launch `add_kernel` with `n // 1024` programs instead of `triton.cdiv(n, 1024)`. What does
#   `verify` say first, and why about that length?
#
# ## What you can do now
#
# You can write a kernel over blocks with a launcher, and verify it. You know that agreeing with
# PyTorch on one input is no proof. Ask yourself:
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

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/01-vector-add.py](../solutions/01-vector-add.py) has all answers.
#
# **Next:** [02, how fast can it be? Three operations in one](02-three-in-one.ipynb).
#
# ## Further reading
#
# - [Triton's vector-add
#   tutorial](https://triton-lang.org/main/getting-started/tutorials/01-vector-add.html)
# - S. Williams, A. Waterman, D. Patterson: *Roofline: An Insightful Visual Performance Model*,
#   CACM 2009
