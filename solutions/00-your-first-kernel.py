# %% [markdown]
# # 00 · Your first kernel
#
# Every operation you call in PyTorch ends in a function that somebody wrote to run on a GPU. Here
# you write one yourself, in Python. It takes four lines, and you need neither a GPU nor CUDA.
#
# **By the end you can** write a small kernel and launch it on a tensor, say which elements each of
# its programs touches, and keep it away from all others with a mask.
#
# You need Python and some PyTorch. *Ways through the course* has five questions to test yourself.
#
# <details>
# <summary>About 73 minutes: how long each section takes</summary>
#
# | section | about minutes |
# |---|---|
# | Run a kernel | 20 |
# | The machine on one page | 10 |
# | Two modes | 1 |
# | A block per program | 30 |
# | Why Triton, and when not | 1 |
# | Ways through the course | 7 |
# | The words of this course | 1 |
# | Beginning and end | 3 |
# | **Together, an estimate** | 73 |
#
# </details>

# %% [markdown]
# ## Run a kernel
#
# Click into the cell below and press Shift+Enter. It prints in which *mode* you are; both are fine.

# %% tags=["runs-here"]
from course import DEVICE, MODE, apart, check, draw, gpu_facts, gpu_limits, hint, observed, recorded
import torch
import triton
import triton.language as tl

print(MODE)

# %% [markdown]
# Let us double the elements of a vector. In Python you would write a loop over `i`. On a GPU you
# write what happens for one `i`, and start it once for every `i`.
#
# A function written to run on a GPU is a **kernel**, and `@triton.jit` turns a Python function into
# one. Each of its runs is a **program**, and `tl.program_id(axis=0)` tells a program which one it
# is: 0, 1, 2 and so on.


# %% tags=["runs-here"]
@triton.jit
def double_kernel(x_ptr, out_ptr):
    i = tl.program_id(axis=0)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, 2 * x)


# %% [markdown]
# A program needs to know where the data is: a **pointer** is the address of an element in memory,
# which Python hides from you and a kernel does not. `tl.load` reads what lies at a pointer, and
# `tl.store` writes there.
#
# Now start it; this is a **launch**. What stands in the square brackets is the **grid**: how many
# programs to start, as a tuple. (Python lets an object say what square brackets mean, and Triton
# uses them for the grid.) You pass tensors, and the kernel receives a pointer to the first
# element of each. So `x_ptr + i` points to element `i`: pointers count in elements, not in bytes.

# %% tags=["nbval-check-output", "runs-here"]
x = torch.arange(8.0, device=DEVICE)
out = torch.empty_like(x)
double_kernel[(8,)](x, out)
print(out.tolist())

# %% [markdown]
# That is all it takes: eight programs, and each doubled one element.
#
# What is it good for? PyTorch doubles a vector just as well. But take `gate * sigmoid(gate) * up`,
# which stands in the layers of most language models. PyTorch runs three kernels for it, and each of
# them goes through memory. One kernel that does all three steps goes through memory once. At the
# end of notebook {three-in-one} you will have written that kernel, and this is how fast it was on
# an H200: the bytes that must be moved, in terabytes per second, for vectors of different lengths.

# %%
curves = {"swiglu": "that kernel", "torch.compile": "torch.compile", "torch": "PyTorch's three"}
draw.speeds(recorded("swiglu"), curves)

# %% [markdown]
# For long vectors it is two and a half times as fast as PyTorch's three, and as fast as a plain
# copy of memory, which is the dashed line. Now back to the beginning.
#
# Things will go wrong when you try this yourself. In CPU mode the error is a sentence about what to
# write, with your own line below it. In GPU mode read the last line of the error first, then look
# for the arrow under `Cell In[…]`, which points to your own line.
#
# <details>
# <summary>In GPU mode: two errors that do not say what is wrong</summary>
#
# | you wrote | in GPU mode the error ends in | what is missing |
# |---|---|---|
# | `double_kernel(x, out)` | `Cannot call @triton.jit'd outside of the scope of a kernel` | the grid: `double_kernel[(8,)](x, out)` |
# | `double_kernel[8](x, out)` | `object of type 'int' has no len()` | the tuple: `(8,)` |
#
# </details>

# %% [markdown]
# Your turn. An exercise is four cells: what to do, a cell to write in, a `check`, and hints. You
# only add lines between the two comments, then run that cell and the `check` below it. `check`
# compiles your kernel and runs it in a process of its own, so nothing that you write there can harm
# this session. If you are stuck, unfold the hints, or call `hint("first-kernel")` in any cell. If
# you are still stuck, [solutions/00-your-first-kernel.py](../solutions/00-your-first-kernel.py) has
# the whole notebook solved.

# %% [markdown]
# ### Exercise {first-kernel} · Your first kernel (core)
#
# Subtract two float32 vectors: `out[i] = x[i] - y[i]`. The exercise launches one program per
# element.


# %% tags=["runs-here"]
# exercise first-kernel
@triton.jit
def subtract_kernel(x_ptr, y_ptr, out_ptr):
    i = tl.program_id(axis=0)
    # about 3 lines from here
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, x - y)
    # to here


# %% tags=["runs-here"]
check("first-kernel", subtract_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `double_kernel` above loads one element and stores one. Here you load two.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `y_ptr` points to the first element of `y`. Where is the element that program `i` needs?
#
# </details>

# %% [markdown]
# ## The machine on one page
#
# What does a GPU do with those programs, and what makes some kernels slow? For both you need a
# rough picture of the machine.
#
# A large GPU is about a hundred **multiprocessors** that share one memory. NVIDIA calls a
# multiprocessor an SM, for streaming multiprocessor. Data starts in **device memory**, travels
# through the **L2 cache**, which keeps what was used last, and ends up in **registers**: small
# and very fast storage inside a multiprocessor, where arithmetic happens. A multiprocessor also
# has **shared memory**, in which the parts of one program exchange values; Triton manages it for
# you.
#
# A kernel's instructions are carried out by **threads**, in groups of 32. Such a group is a
# **warp**: its 32 threads execute each instruction together, each on its own values. A program is
# run by a few warps of one multiprocessor, which has room for several programs at a time.

# %%
facts = gpu_facts()
draw.machine(facts)

# %% [markdown]
# Look at the sizes and the speeds. Device memory is large and far away. The L2 cache is much
# smaller and, on an H200, more than twice as fast. What a multiprocessor has for itself is a few
# hundred KiB, and that is faster still, though the picture gives no number for it.
#
# **Predict:** a large matrix product in float16 is one of the things that a GPU does fastest. An
# H200 does about 680 x 10^12 operations per second in it. The picture says how many bytes per
# second come from device memory. How many operations could be done in the time of one byte: 1, 10,
# or more than 100?

# %%
per_byte = facts.matmul_tflop_s / facts.memory_tb_s
print(f"{per_byte:.0f} operations in the time of one byte")

# %% [markdown]
# Compare that with an addition of two float32 vectors. A GPU adds single float32 numbers some twenty
# times more slowly than it computes in a float16 matrix product. Even so, memory is what the
# addition waits for: per element it reads 4 bytes twice and writes 4, so 12 bytes are moved for a
# single operation, and the multiprocessors spend nearly all of that time waiting. To make such a
# kernel faster you have to move fewer bytes. That is why this course counts bytes before it counts
# anything else.
#
# **Predict:** a grid may have a million programs, and there are about a hundred multiprocessors.
# What happens to the programs that find no room?
#
# <details>
# <summary>Answer</summary>
#
# They wait in line. A program runs on one multiprocessor from its start to its end, and when it has
# ended, the multiprocessor takes the next one. (A real one holds several programs at a time; the
# sketch shows one.)
#
# </details>

# %%
draw.queue(20, multiprocessors=4)

# %% [markdown]
# So programs run in no order that you can rely on. Never make one program wait for another, which
# may not have started.

# %% [markdown]
# ## Two modes
#
# You need no GPU for this course, because Triton comes with an **interpreter**: it runs a kernel
# as plain Python with NumPy, one program after another. The course calls this **CPU mode**. With
# an NVIDIA GPU you are in **GPU mode**, and kernels are compiled and really launched.
#
# | | GPU mode | CPU mode |
# |---|---|---|
# | when | an NVIDIA GPU is found | no GPU is found |
# | a launch | compiles the kernel and runs it on the GPU | runs it in the interpreter |
# | speed | is measured | is shown as recorded on a GPU that is named |
# | `DEVICE` | `"cuda"` | `"cpu"` |
#
# The notebooks read the same in both. With a GPU you can ask for the other mode: start the lab with
# `COURSE_MODE=cpu make lab`. What they show as recorded was measured on an H200. Import `course`
# before `triton`, as the first cell does: `course` chooses the mode, and Triton reads that choice
# when it is imported.
#
# The interpreter is slow, and it is more forgiving than a real compiler. What it cannot show you
# comes up below. It also gets arithmetic in bfloat16 wrong, so use float32 or float16 in CPU mode;
# notebook {what-a-dot-becomes} shows what happens otherwise.

# %% [markdown]
# ## A block per program
#
# One program per element is wasteful: starting a program takes far longer than doubling a number.
# So in Triton each program handles many elements at once. A value that holds many elements is a
# **block**, and each of its places is a **lane**.
#
# `tl.arange(0, 4)` is the block `[0, 1, 2, 3]`. Add the place where a program's part begins, and
# you have its **offsets**: the numbers of the elements that it works on. Here are six elements in
# blocks of four. Program 1 gets a full block too, though only two elements are left.

# %%
draw.programs(6, block_size=4)

# %% [markdown]
# What about the last two lanes? Their offsets are 6 and 7, and there are no such elements. You
# have to switch them off, with a **mask**: a block of true and false, which you give to each load
# and each store. Where it is false, no memory is touched.
#
# The kernel has to know how many elements there are. A number such as 6 is passed to it as it is,
# without a pointer. Input and output are the same tensor here, which is fine: each program reads
# its elements before it writes them.
#
# To see it happen we run the next kernel in the interpreter, where even `print` works inside a
# kernel. `apart` runs a function in a process of its own; with `interpret=True` it uses the
# interpreter, also in GPU mode. **Predict** the two lines that the kernel prints.


# %% tags=["nbval-check-output", "runs-here"]
@triton.jit
def triple_kernel(x_ptr, out_ptr, n):
    offsets = tl.program_id(axis=0) * 4 + tl.arange(0, 4)
    mask = offsets < n
    print("offsets", offsets, "mask", mask)
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 3 * x, mask=mask)


def triple():
    x = torch.arange(6.0)
    triple_kernel[(2,)](x, x, 6)
    print(x)


apart(triple, interpret=True)

# %% [markdown]
# Both programs ran the same lines; only their `program_id` differed.
#
# How does a block get onto the machine? The compiler deals its lanes out to the threads of the
# program's warps. There are 4 warps unless you ask for another number, so 128 threads. The next
# picture goes down from the grid to a single thread, for blocks of 1,024 elements.

# %%
draw.hierarchy(block_size=1024, num_warps=4)

# %% [markdown]
# So each thread takes care of 8 lanes of the block, and keeps each of them in a register. In CUDA
# you would decide which thread does what. In Triton you never name a thread: you write what happens
# to the block, and the compiler decides which thread does it.

# %% [markdown]
# ### Exercise {last-program} · Who stops the last program? (core)
#
# `triple_kernel` above, with blocks of 4, is launched as `triple_kernel[(3,)](x, x, 10)`. Why
# does program 2 not write at the offsets 10 and 11? Answer with a letter.
#
# - **a** A program stops by itself at the end of the tensor.
# - **b** The mask is false in the lanes with those offsets, so they neither read nor write.
# - **c** Triton compares every offset with the length of the tensor.
# - **d** Program 2 has only two lanes.

# %% tags=["runs-here"]
# exercise last-program
answer = None
# about 1 line from here
answer = "b"
# to here

# %% tags=["runs-here"]
check("last-program", answer)

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
# What does the kernel know about `x`? It is given a pointer and `n`.
#
# </details>

# %% [markdown]
# ### An `if` on a block
#
# If you come from ordinary Python, you would write `if offsets < n:` instead of a mask. Nearly
# everybody does at first. But `offsets < n` has four answers, one per lane, and `if` wants one.
#
# **Predict:** the next cell runs such a kernel in the interpreter, with `n` = 2. Two of the four
# lanes are below 2. What will it do?


# %% tags=["runs-here"]
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
# It stops, and says what to write. For a GPU this kernel does not even compile: "Boolean value of
# Tensor with more than one value is ambiguous". Triton's interpreter by itself would have treated
# the block as true, and stored all four ones without a warning; the course's refuses what would
# not compile. That works for mistakes which people make often, and not for all of them. So `check`
# always compiles your kernel as well, and you should not trust one that has only run in CPU mode.

# %% [markdown]
# ### Exercise {if-becomes-mask} · An `if` becomes a mask (core)
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
# Write it with a mask, so that it compiles and touches no element at `n` or beyond. In PyTorch:
# `out = 2 * x`.


# %% tags=["runs-here"]
# exercise if-becomes-mask
@triton.jit
def double_below_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    # about 3 lines from here
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 2 * x, mask=mask)
    # to here


# %% tags=["runs-here"]
check("if-becomes-mask", double_below_kernel)

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
# ## Why Triton, and when not
#
# There are four ways to get something done on a GPU from Python. They differ in how much you
# decide yourself, and it pays to try them in this order.
#
# | | what you write | take it when |
# |---|---|---|
# | PyTorch | calls of operations that exist | there is an operation for it: it has been tuned for years |
# | `torch.compile` | the same calls, in a function that PyTorch compiles | several cheap operations follow one another: it merges them for you (and the code it writes is Triton) |
# | Triton | what one *block* of the data goes through, in Python | the algorithm itself has to change, as in flash attention, or you want to decide what stays on the chip |
# | CUDA C++ | what each single *thread* does | you need the last few percent, or instructions that Triton does not offer |
#
# So do not write a Triton kernel for an operation that PyTorch has, and do not write one before you
# have tried `torch.compile`. With small tensors a faster kernel will not help either: starting it
# takes longer than its work, as you will measure in notebook {three-in-one}, so all you can do is
# start fewer. When you do need a kernel, Triton takes the hardest part off you. In CUDA you hand
# out the work to thousands of threads and keep them from getting in each other's way. In Triton you
# say what happens to a block of a thousand elements, and the compiler hands it out.

# %% [markdown]
# ## Ways through the course
#
# | route | you take | and at the end you have |
# |---|---|---|
# | an evening | notebooks {your-first-kernel} to {three-in-one} | a kernel of your own that does three operations in one: verified, its bytes counted, and timed if you have a GPU |
# | a long day | those three, and notebooks {two-dimensions} to {programs-that-share} | kernels for matrices as well, two kernels fused into one, and a race found and fixed |
# | all | every notebook in order, each in one sitting | softmax, matrix products and flash attention too, kernels as C without Python, an operation of your own from its specification to a gradient, and a model that learns through your attention |
#
# Each notebook says at its head how many minutes it takes. They are estimates for somebody who is
# new to this, and exercises are most of the time. You can always go on without having solved an
# exercise, since every section begins from the course's own kernels. *Core* exercises are for
# everybody, a *stretch* is for those with time left.
#
# **Are you ready?** The rest of the course takes some PyTorch for granted.
#
# <details>
# <summary>Five questions, with answers</summary>
#
# 1. `x = torch.zeros(3, 4)`. What are `x.stride()` and `x.T.stride()`? They are `(4, 1)` and
#    `(1, 4)`. A stride says how many *elements* lie between two neighbors along an axis, and
#    transposing only swaps the two numbers:
#    [torch.Tensor.stride](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.stride.html).
# 2. Does `x[:, ::2]` copy anything? Is it contiguous? It copies nothing: it is a *view* of the same
#    memory with other strides. Its elements do not lie side by side, so it is not contiguous, and
#    `.contiguous()` would copy it:
#    [tensor views](https://docs.pytorch.org/docs/stable/tensor_view.html).
# 3. How many bytes are a million elements of float32, float16 and bfloat16? 4 million, 2 million and
#    2 million. The number in the name counts bits:
#    [dtypes](https://docs.pytorch.org/docs/stable/tensor_attributes.html).
# 4. What does `torch.tensor(2.0**24) + 1` print? `tensor(16777216.)`, which is 2^24 itself. A
#    float32 keeps 24 binary digits, so the 1 is rounded away. The order in which a kernel adds
#    numbers up changes the last digits for the same reason:
#    [numerical accuracy](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html).
# 5. What is the shape of the sum of a `[4, 1]` and a `[1, 3]` tensor? `[4, 3]`: an axis of length 1
#    is repeated as often as the other tensor needs it:
#    [broadcasting](https://docs.pytorch.org/docs/stable/notes/broadcasting.html).
#
# If three of them were news to you, read the pages behind the links first.
#
# </details>

# %% [markdown]
# **Do you know CUDA?** Then you can skim the section on the machine.
#
# <details>
# <summary>I know CUDA: read this</summary>
#
# | CUDA | Triton |
# |---|---|
# | a thread block, `blockIdx.x` | a program, `tl.program_id(axis=0)` |
# | `kernel<<<grid, 256>>>(…)` | `kernel[grid](…)`; how many threads run a program follows from `num_warps`, 4 by default |
# | `i = blockIdx.x * blockDim.x + threadIdx.x`, one per thread | `offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)`, a whole block at once |
# | `if (i < n)` | a mask, given to each load and store |
# | the size of a block counts threads | `BLOCK_SIZE` counts elements: the compiler gives each thread several |
# | `__shared__`, `__syncthreads()`, shuffles | no names for them: the compiler puts them where a reduction or a change of layout needs them |
# | a loop over `threadIdx.x + k * blockDim.x` | not needed inside a block |
# | `float4` loads, by hand | the compiler makes wide loads where it can prove that addresses are aligned |
# | a lane is a thread's place in its warp | a lane is one place of a block |
#
# Two things you will miss: you cannot index a block (`x[3]`), since its elements are spread over
# the threads, and a single lane cannot leave early.
#
# </details>

# %% [markdown]
# ## The words of this course
#
# Some words mean two things elsewhere. In this course each means one. You need not learn the table;
# come back when a word confuses you.
#
# | word | here it means | the other meaning is called |
# |---|---|---|
# | kernel | a function written to run on a GPU | Jupyter's own kernel is a *session* |
# | program | one run of a kernel, with its own `program_id` | what Python runs is a *script* |
# | block | a value of many lanes, such as a program's elements | CUDA's group of threads is a *thread block* |
# | lane | one place of a block | CUDA's lane is a *thread's place in its warp* |
# | mode | GPU mode or CPU mode: what runs a kernel | |
# | stage | one form of a kernel on its way through the compiler (notebook {who-holds-what}) | `num_stages` is *pipeline depth* (notebook {copies-in-flight}) |
# | pass | one step of the compiler (notebook {who-holds-what}) | reading memory from end to end is a *sweep* |
# | hint | help with an exercise | for exported kernels it is *divisibility* (notebook {ahead-of-time}) |

# %% [markdown]
# ## On your own
#
# - In the cell of `double_kernel`, square the elements instead: `x * x` (a kernel has no `**`).
#   Run it and the cell below it.
# - In that second cell, use the grid `(4,)`. What is in the second half of `out`? `torch.empty`
#   writes nothing, so you see what the memory held before.
#
# ## What you can do now
#
# You can write a kernel that handles a block per program, launch it on a grid, and mask what lies
# past the end. You know that a simple kernel spends most of its time waiting for memory, and that
# programs have no order. Ask yourself:
#
# 1. Ten elements, blocks of four: how many programs, and how many lanes are masked?
#
# <details>
# <summary>Answer</summary>
#
# Three programs have twelve lanes, so two lanes of the last program are masked.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/00-your-first-kernel.py](../solutions/00-your-first-kernel.py) has all answers.
#
# **Next:** [01, vector add: blocks, and is it right?](01-vector-add.ipynb).
#
# ## Further reading
#
# - [Triton's documentation](https://triton-lang.org/main/index.html), with the language's
#   reference
# - P. Tillet, H. T. Kung, D. Cox: *Triton: An Intermediate Language and Compiler for Tiled Neural
#   Network Computations*, MAPL 2019
# - [The CUDA programming guide](https://docs.nvidia.com/cuda/cuda-programming-guide/), for the
#   hardware's side of the picture
