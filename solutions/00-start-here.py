# %% [markdown]
# # 00 · Start here
#
# **What you will build.** Your first kernel, in the next two minutes. Then small kernels that
# show what runs where, and what goes wrong without a word.
#
# **What you will learn.** You launch a Triton kernel on a tensor. You name three wrong kernels
# that the interpreter lets pass. You stop inside a running kernel and look at its values.
#
# **What you need.** Python and a little PyTorch. No GPU, and no CUDA.
#
# | section | minutes |
# |---|---|
# | Run a kernel | 3 |
# | The machine on one page | 5 |
# | Two modes | 3 |
# | What the interpreter lets pass | 7 |
# | Look inside a running kernel | 3 |
# | Try it yourself | 6 |
# | The words of this course | 1 |

# %% [markdown]
# ## Run a kernel
#
# Click into the cell below and press Shift+Enter. It loads what this lesson uses and prints in
# which *mode* this session runs; both modes are fine, and a later section says what they are. The
# line that imports `course` always comes first.

# %%
from course import DEVICE, MODE, apart, check, draw, gpu_facts, gpu_limits, hint, observed
import torch
import triton
import triton.language as tl

print(MODE)

# %% [markdown]
# This is a *kernel*: a function that runs on the GPU, many times at once. `@triton.jit` makes it
# one. Each run is a *program*, and `tl.program_id(axis=0)` tells it which one it is. `tl.load`
# reads memory at a pointer, `tl.store` writes there: program `i` reads element `i`, doubles it,
# and writes it.


# %%
@triton.jit
def double_kernel(x_ptr, out_ptr):
    i = tl.program_id(axis=0)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, 2 * x)


# %% [markdown]
# The square brackets hold the *grid*: how many programs to start. The tensors arrive in the
# kernel as pointers to their first elements, so `x_ptr + i` points to element `i`. Look for eight
# doubled numbers.

# %% tags=["nbval-check-output"]
x = torch.arange(8.0, device=DEVICE)
out = torch.empty_like(x)
double_kernel[(8,)](x, out)
print(out.tolist())

# %% [markdown]
# That was a launch: eight programs, one line of Python. When one of yours fails, read the last
# line, and the arrow `---->` that points into your own cell. Two slips fail with words that do
# not name them: a launch without a grid, `double_kernel(x, out)`, and one with `[8]` in place of
# `[(8,)]`.

# %% [markdown]
# ## The machine on one page
#
# A GPU is a row of *multiprocessors* (SMs in NVIDIA's papers) around one large memory. Data lies
# in device memory, passes through the L2 cache, and is computed on in registers. Look at the two
# speeds, and at how little the L2 cache and a multiprocessor hold beside device memory.

# %%
facts = gpu_facts()
draw.machine(facts)

# %% [markdown]
# A program runs on one multiprocessor, from its start to its end. Its work is split over a few
# *warps*: groups of 32 threads that execute each instruction together. Values live in registers.
# Shared memory is a scratchpad that the warps of one program use among themselves; Triton manages
# it for you.
#
# **Predict:** in a matrix product the multiprocessors of an H200 do about 700 x 10^12 float16
# operations a second. In the time it takes to read or write one byte of device memory, how many
# is that: 1, 10, or more than 100?

# %%
per_byte = facts.matmul_tflop_s / facts.memory_tb_s
print(f"{per_byte:.0f} operations in the time of one byte")

# %% [markdown]
# That is why this course counts bytes before it counts anything else. Adding two float32 vectors
# does one operation for every 12 bytes it moves, so the multiprocessors mostly wait, and moving
# fewer bytes is the way to be faster.
#
# **Predict:** a grid may have a million programs, and there are about a hundred multiprocessors.
# What happens to the programs that find no room?

# %%
draw.queue(20, multiprocessors=4)

# %% [markdown]
# They queue. When a multiprocessor has finished a program it takes the next one in line. (A real
# one holds several programs at a time; the sketch shows one.) So programs run in no order that
# you may rely on. Let no program wait for another: that one may not have started.

# %% [markdown]
# ## Two modes
#
# | | GPU mode | CPU mode |
# |---|---|---|
# | when | an NVIDIA GPU answers | none does |
# | a launch | compiles the kernel, runs it on the GPU | runs it in Triton's *interpreter*: NumPy, one program after another |
# | speed | measured | shown as recorded on a named GPU |
# | `DEVICE` | `"cuda"` | `"cpu"` |
#
# The lessons read the same in both. On a machine with a GPU you can ask for the other mode: start
# the lab with `COURSE_MODE=cpu make lab`.
#
# ### Your own GPU
#
# What the lessons show as recorded was measured on an H200. If you have another GPU, look for its
# row: how much shared memory a program may have, whether loads go on while it computes, and which
# instructions `tl.dot`, the matrix product, becomes. Lesson 05 explains those instructions.

# %%
gpu_limits()

# %% [markdown]
# A kernel that needs more shared memory than your GPU has fails with "out of resource: shared
# memory". Take smaller blocks then. On a T4, Triton uses no tensor cores, and there is no
# bfloat16. To see how fast your own GPU is, run `.venv/bin/course doctor --measure` in a terminal,
# once. It takes less than half a minute, and from then on pictures and `cost` show your GPU too.

# %% [markdown]
# ## What the interpreter lets pass
#
# The interpreter shows whether your arithmetic and your addresses are right, and you can stop in
# the middle of it. But it is kinder than a GPU and its compiler. Here are five wrong kernels that
# it runs without a word, or almost.

# %% [markdown]
# ### An `if` on a block
#
# `tl.arange(0, 4)` is a *block* of numbers, `[0, 1, 2, 3]`, used here as *offsets*: element
# numbers. Each of its four places is a *lane*. A condition on a block has four answers, and
# Python's `if` wants one. **Predict** what is stored where `n` is 2.


# %%
@triton.jit
def if_kernel(out_ptr, n):
    offsets = tl.arange(0, 4)
    if offsets < n:
        tl.store(out_ptr + offsets, 1.0)


def store_where_below_two():
    out = torch.zeros(4)
    if_kernel[(1,)](out, 2)
    print(out.tolist())


apart(store_where_below_two, interpret=True)

# %% [markdown]
# The interpreter takes any block for true, so all four lanes stored. (`apart` runs a function in
# a process of its own, here in the interpreter whatever the mode.) For a GPU this kernel does not
# compile: "Boolean value of Tensor with more than one value is ambiguous". What you want is a
# *mask*: a block of true and false, given to the load or store, that switches lanes off.

# %% [markdown]
# ### A masked lane without `other`
#
# This kernel finds the largest of `n` numbers with four lanes, and masks the lanes past the end.
# **Predict:** what is the largest of -3, -1 and -2 here?


# %%
@triton.jit
def largest_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 4)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr, tl.max(x, axis=0))


# %%
x = torch.tensor([-3.0, -1.0, -2.0], device=DEVICE)
out = torch.empty(1, device=DEVICE)
largest_kernel[(1,)](x, out, 3)
print(out.item())

# %% [markdown]
# The mask kept the fourth lane from reading memory; it did not take the lane out of the maximum.
# What such a lane holds is *undefined*: Triton promises nothing. The interpreter fills in 0, and
# so does Triton 3.9.0 on NVIDIA GPUs, but -1 was asked for. Say what you want with `other`. (Where
# `check`, `verify` and `replay` interpret, they put infinities there, so that it shows.)


# %% tags=["nbval-check-output"]
@triton.jit
def largest_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 4)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=float("-inf"))
    tl.store(out_ptr, tl.max(x, axis=0))


largest_kernel[(1,)](x, out, 3)
print(out.item())

# %% [markdown]
# ### Two programs that write to the same place
#
# Here 1,024 programs add their parts to one total: read it, add, write it back. **Predict** the
# total of 1,048,576 ones, in the interpreter and on a GPU.


# %%
@triton.jit
def total_kernel(x_ptr, total_ptr):
    offsets = tl.program_id(axis=0) * 1024 + tl.arange(0, 1024)
    part = tl.sum(tl.load(x_ptr + offsets), axis=0)
    tl.store(total_ptr, tl.load(total_ptr) + part)


# %%
ones = torch.ones(1024 * 1024, device=DEVICE)
total = torch.zeros(1, device=DEVICE)
total_kernel[(1024,)](ones, total)
print(f"{total.item():,.0f} of {ones.numel():,}")

# %% [markdown]
# In the interpreter the total is right, because programs run one after another. On a GPU many
# programs read the same old total before any has written a new one, and their parts are lost: a
# *race*. `tl.atomic_add(total_ptr, part)` does the three steps as one. Look at the total that the
# same kernel gave on a GPU.

# %%
print(observed().race)

# %% [markdown]
# ### Arithmetic in bfloat16
#
# NumPy has no bfloat16, so the interpreter keeps such values as integers of their 16 bits.
# Loading, storing and converting to float32 are right; converting back cuts bits off where a GPU
# rounds. The bits of 1.0 are the integer 16256, those of 2.0 are 16384. **Predict** whether `1 +
# 1` is 2 in CPU mode.


# %%
@triton.jit
def twice_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 16)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, x + x)


ones16 = torch.ones(16, device=DEVICE, dtype=torch.bfloat16)
twice = torch.empty_like(ones16)
twice_kernel[(1,)](ones16, twice)
print(f"{twice[0].item():.3g}")

# %% [markdown]
# The interpreter added 16256 + 16256 and read the sum as a bfloat16. A GPU prints 2. The same
# happens in `tl.dot`, the matrix product of lesson 05, where the integers are multiplied: 16
# products of 16256 times 16256. (Lesson 02 explains the two-dimensional offsets.)


# %%
@triton.jit
def dot_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.dot(x, x))


square = torch.ones(16, 16, device=DEVICE, dtype=torch.bfloat16)
product = torch.empty(16, 16, device=DEVICE)
dot_kernel[(1,)](square, product)
print(f"{product[0, 0].item():,.0f}, and it should be 16")

# %% [markdown]
# No warning came with it. In CPU mode, use float32 or float16, or convert with `.to(tl.float32)`
# right after the load. The course's own checks know about this and leave such cases to a GPU.

# %% [markdown]
# ### A load far out of bounds
#
# Read one element past the end of a tensor, and both modes hand you whatever lies there. Read far
# past it, and a GPU ends the session's use of the device, while the interpreter takes the whole
# session down. So this cell, too, runs apart.


# %%
@triton.jit
def far_kernel(x_ptr, distance):
    tl.store(x_ptr, tl.load(x_ptr + distance))


def read_far_away():
    x = torch.zeros(4, device=DEVICE)
    far_kernel[(1,)](x, 1_000_000_000_000)
    print(x)


apart(read_far_away)

# %% [markdown]
# That process is gone, and this one still has its variables. When a cell of your own ends the
# session, look for a mask you forgot, or an offset that is too large.

# %% [markdown]
# ## Look inside a running kernel
#
# In the interpreter a kernel is plain Python, so `print` works, and so does the debugger.
# `apart(…, interpret=True)` gives you the interpreter in GPU mode too. Look for the two masks:
# program 1 has two lanes past the end.


# %%
@triton.jit
def triple_kernel(x_ptr, out_ptr, n):
    offsets = tl.program_id(axis=0) * 4 + tl.arange(0, 4)
    mask = offsets < n
    print("offsets", offsets, "mask", mask)
    tl.store(out_ptr + offsets, 3 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def triple():
    x = torch.arange(6.0)
    triple_kernel[(2,)](x, x, 6)
    print(x)


apart(triple, interpret=True)

# %% [markdown]
# `breakpoint()` stops there, and you can ask. Here the typing is done for you: `p` prints the
# value of any expression, and `c` continues. In a script of your own you type them: run it with
# `TRITON_INTERPRET=1 .venv/bin/python my_kernel.py`.


# %%
@triton.jit
def half_kernel(x_ptr):
    offsets = tl.arange(0, 4)
    x = tl.load(x_ptr + offsets)
    breakpoint()
    tl.store(x_ptr + offsets, x / 2)


def halve():
    half_kernel[(1,)](torch.tensor([2.0, 4.0, 6.0, 8.0]))


apart(halve, interpret=True, typed="p x\np x / 2\nc")

# %% [markdown]
# ## Try it yourself
#
# An exercise is four cells: what to do, a cell to write in, a `check`, and hints to unfold. You
# add lines between the two comments. `check` compiles your answer and runs it in a process of its
# own, so nothing you write there can harm this session. *Core* exercises are for everybody, a
# *stretch* is for when you have time left.

# %% [markdown]
# ### Exercise 00.1 · Who stops the last program? (core)
#
# `triple_kernel` above, with blocks of 4, is launched as `triple_kernel[(3,)](x, x, 10)`. Why
# does program 2 not write at the offsets 10 and 11? Answer with a letter.
#
# - **a** A program stops by itself at the end of the tensor.
# - **b** The mask is false in the lanes with those offsets, so they neither read nor write.
# - **c** Triton compares every offset with the length of the tensor.
# - **d** Program 2 has only two lanes.

# %%
# exercise 00.1
answer = None
# about 1 line from here
answer = "b"
# to here

# %%
check("00.1", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many lanes does `tl.arange(0, 4)` make, in every program?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# What does the kernel know of `x`? It is given a pointer and `n`.
#
# </details>

# %% [markdown]
# ### Exercise 00.2 · An `if` becomes a mask (core)
#
# This kernel was meant to write `2 * x` for the first `n` of up to 8 elements, in one program:
#
# ```python
# offsets = tl.arange(0, 8)
# if offsets < n:
#     x = tl.load(x_ptr + offsets)
#     tl.store(out_ptr + offsets, 2 * x)
# ```
#
# Write it so that it compiles, and touches no element past `n`. In PyTorch: `out = 2 * x`.


# %%
# exercise 00.2
@triton.jit
def double_below_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    # about 3 lines from here
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 2 * x, mask=mask)
    # to here


# %%
check("00.2", double_below_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `offsets < n` is a block of true and false: keep it under a name.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `tl.load` and `tl.store` both take `mask=`, and both need it.
#
# </details>

# %% [markdown]
# ## The words of this course
#
# Some words mean two things elsewhere. Here each means one.
#
# | word | here it means | and for the other thing |
# |---|---|---|
# | kernel | a function that runs on the GPU | Jupyter's own is a *session* |
# | program | one run of a kernel, with its own `program_id` | a *script* is what Python runs |
# | block | a value of many lanes, such as a program's elements | CUDA's group of threads is a *thread block* |
# | lane | one place of a block | CUDA's lane is a *thread's place in its warp* |
# | mode | GPU mode or CPU mode: what runs a kernel | |
# | stage | one form of a kernel on its way through the compiler | `num_stages` is *pipeline depth* |
# | pass | one step of the compiler | reading memory from end to end is a *sweep* |
# | hint | help with an exercise | for exported kernels it is *divisibility* |

# %% [markdown]
# ## On your own
#
# - In the cell of `double_kernel`, square the elements: `x * x` (a kernel has no `**`). Run it
#   and the cell below it.
# - In that second cell, take the grid `(4,)`. What is in the second half of `out`? `torch.empty`
#   puts nothing there: you see what the memory held before.
# - Replace the last line of `total_kernel` by `tl.atomic_add(total_ptr, part)`, and run its two
#   cells. In CPU mode the total is right both times; on a GPU only with the atomic.
#
# ## In practice
#
# Write a kernel in CPU mode, with small tensors and odd sizes, until its values are right. Then
# run it on a GPU, where the compiler reads it and races show. Lesson 01 brings `verify`, which
# tries the odd sizes for you in either mode.
#
# ## Further reading
#
# - [Triton's documentation](https://triton-lang.org/main/index.html), with the language's
#   reference
# - P. Tillet, H. T. Kung, D. Cox: *Triton: An Intermediate Language and Compiler for Tiled Neural
#   Network Computations*, MAPL 2019
# - [The CUDA programming guide](https://docs.nvidia.com/cuda/cuda-programming-guide/), for the
#   hardware's side of the picture
