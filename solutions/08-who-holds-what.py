# %% [markdown]
# # 08 · Who holds what: layouts and wide loads
#
# You can count the bytes that a kernel must move, so you know how fast it should be. Sooner or later
# you will write one that is right and takes three times as long. Where did the time go? The answer is
# in what the compiler made of your kernel. It takes some getting used to: you will look at languages
# that you have never seen. You need not learn any of them. You need to know which few lines to look
# for.
#
# **By the end you can**
#
# - follow a line of your kernel down to the instructions of the GPU,
# - read a layout, and say which thread holds which element of a block,
# - tell a wide load from narrow ones, and say what divisibility has to do with it.
#
# **You need** notebooks {which-block-size} and {neighbors-in-memory}. You need no GPU: the compiler
# runs without one.
#
# | section | about minutes |
# |---|---|
# | From Python to machine code | 10 |
# | Blocks without a machine: TTIR | 2 |
# | Who holds what: TTGIR | 20 |
# | What divisibility buys | 25 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 67 |

# %% [markdown]
# **Two questions from earlier notebooks.** Answer them before you unfold the answers.
#
# 1. You launch a kernel with `n = 98432`, and then with `n = 98433`. Why does Triton compile it a
#    second time?
#
# <details>
# <summary>Answer</summary>
#
# 98,432 is divisible by 16 and 98,433 is not. Triton tells the compiler whether an argument is
# divisible by 16, so the two calls need two kernels. Here you see what the compiler
# does with it.
#
# </details>
#
# 2. The 32 threads of a warp load float32 elements that are 4 apart. How many sectors is that,
#    and how many would be enough for as many bytes?
#
# <details>
# <summary>Answer</summary>
#
# The elements are 16 bytes apart, so two share a sector: 16 sectors. Side by side, 4 would do.
#
# </details>

# %%
from course import check, draw, explore, hint, lower
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## From Python to machine code
#
# What happens between `add_kernel[grid](...)` and the first instruction on the GPU? The compiler
# rewrites your kernel several times, and each time the text gets closer to the machine. Each of
# these forms of the kernel is a **stage**. `lower` compiles a kernel and keeps them all.
#
# Here it is on the kernel of notebook {vector-add}. `lower` takes what a launch takes, without the
# grid. `target` names the GPU to compile for: "sm_90" is what NVIDIA calls the generation of the
# H100 and H200. Nothing is run.


# %%
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


x = torch.empty(98432)
s = lower(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, target="sm_90")
s

# %% [markdown]
# A kernel of six lines, and five stages of it. The names are short for long words:
#
# | stage | in full | what it says |
# |---|---|---|
# | **TTIR** | Triton intermediate representation | what your program does to blocks, for no machine yet |
# | **TTGIR** | Triton GPU intermediate representation | the same, and which thread holds which element of each block |
# | **LLVM IR** | the intermediate representation of LLVM, a compiler framework that many languages share | what one thread does |
# | **PTX** | parallel thread execution | the same as assembly, for a virtual machine of NVIDIA's |
# | **cubin** | CUDA binary | machine code for one kind of GPU |
#
# An **intermediate representation** (IR) is simply a program in a compiler's own language,
# somewhere between what you wrote and what the machine runs. To read a cubin one turns it into
# text again. That text is called **SASS**, and it is what the GPU really executes.

# %% [markdown]
# Every stage remembers which line of Python each of its lines came from. `explore` shows them
# together. Run the cell, then move the mouse over a line: all its relatives light up, in each
# pane. Click to keep them, and choose other stages at the top. In a running session you can also
# try another `target` or `num_warps`, and what has changed is marked. A pane counts the lines that
# `lower` counts, and hides those that only note which line of Python others came from.

# %%
explore(s)

# %% [markdown]
# When you want to talk about a single line, `follow` prints it: give it a piece of your line, and
# the stages. Here is one load, in the first two stages.

# %% tags=["nbval-check-output"]
s.follow("x = tl.load", "ttir", "ttgir")

# %% [markdown]
# The two look alike. The second has `#blocked` at the end of the types, and soon you will know
# what that means. Now jump to the end.
#
# **Predict:** the addition `x + y` is one operation on a block of 1,024 elements, and 4 warps
# share the block. How many additions of single numbers are there in the PTX, the code of one
# thread?
#
# <details>
# <summary>Answer</summary>
#
# Eight: 4 warps are 128 threads, and 1,024 elements over 128 threads are 8 for each.
#
# </details>

# %% tags=["nbval-check-output"]
followed = s.follow("out_ptr + offsets, x + y", "ttir", "ptx", "sass")
for stage, lines in followed.stages.items():
    additions = [line for line in lines if "add.f32" in line or "addf" in line or "FADD" in line]
    print(f"{stage:5} {len(additions)} additions, such as  {additions[0].strip()}")

# %% [markdown]
# `arith.addf` is TTIR's addition of a whole block; `add.f32` and `FADD` add two numbers.

# %% [markdown]
# ## Blocks without a machine: TTIR
#
# The first stage is your kernel written out step by step, and nothing has been decided yet: there
# are no threads and no registers in it. It answers one question well: did the compiler understand
# what I meant? Look at the types. `tensor<1024xf32>` is a block of 1,024 float32, and
# `!tt.ptr<f32>` is a pointer to a float32.

# %% tags=["nbval-check-output"]
for line in ("pid = tl", "offsets = pid", "mask = offsets"):
    print(s.follow(line, "ttir"))

# %% [markdown]
# Your variables are there by name, each with a number where it takes several steps.
# `tt.make_range` is `tl.arange`. `tt.splat` makes a block out of one number, since both sides of
# an addition must be blocks. `slt` is "less than" for numbers with a sign. And `BLOCK_SIZE` is
# gone: a constexpr is a number by now, 1024.
#
# What does the compiler know about the arguments? That is in the line that opens the function,
# `tt.func`.

# %% tags=["nbval-check-output"]
head = next(line for line in s.ttir.splitlines() if "tt.func" in line)
print(head.count("tt.divisibility = 16"), "of the 4 arguments are known to be divisible by 16")

# %% [markdown]
# These notes are what `specialize` listed in notebook {which-block-size}. Here you see how they
# travel: each argument carries `tt.divisibility = 16`, and later stages build on it.

# %% [markdown]
# ## Who holds what: TTGIR
#
# A block of 1,024 elements has to live in the registers of 128 threads. Which thread holds which
# elements? You never said, and it decides whether the loads are fast. The second stage answers it
# with a **layout**, whose name follows the `#` in each type. This is the one for `x`. In the
# picture each box is four neighboring elements that one thread holds. The number in the box is the
# thread's, the color tells you its warp, and the `r` at the left tells you in which of its
# registers they are.

# %%
layout = s.layouts["x"]
print(layout.attribute)
draw.layout(s, "x")

# %% [markdown]
# Read the layout like this. Each thread takes 4 neighboring elements (`sizePerThread = [4]`), 32
# threads stand side by side in a warp (`threadsPerWarp = [32]`), and 4 warps stand side by side
# in a program (`warpsPerCTA = [4]`; a CTA, cooperative thread array, is NVIDIA's name for the
# threads that run one program). `order` says which axis the neighbors go along first; a vector
# has only one.
#
# Multiply, and you have 4 x 32 x 4 = 512 elements. The block has 1,024, so the pattern is laid
# twice. This is the point that trips people up: a thread holds 8 elements here, and not
# `sizePerThread`.
#
# **Predict:** which elements does thread 1 of warp 0 hold?
#
# <details>
# <summary>Answer</summary>
#
# 4, 5, 6 and 7, right after the four of thread 0. The pattern begins again at 512, so the other
# four are 516 to 519.
#
# </details>

# %% tags=["nbval-check-output"]
print("elements per thread:", layout.elements_per_thread)
print("thread 1 of warp 0:", [index for (index,) in layout.held_by(0, 1)])
print("element 600:", layout.holders(600)[0])

# %%
draw.layout(s, "x", thread=(0, 1))

# %% [markdown]
# Why did the compiler choose 4 neighbors? Four float32 are 16 bytes, the most that one load
# instruction of a thread can fetch on this GPU. And a warp whose threads take 4 neighbors each
# reads 512 bytes without a gap: coalesced, as in notebook {neighbors-in-memory}.
#
# **Predict:** what changes in the layout with 8 warps in place of 4? And with 16?
#
# <details>
# <summary>Answer</summary>
#
# With 8 warps there are 256 threads, so 1,024 elements are exactly 4 for each: `warpsPerCTA`
# becomes 8 and the pattern is laid once. With 16 warps there are 512 threads and only 2 elements
# for each, so `sizePerThread` drops to 2, and each load is half as wide.
#
# </details>


# %% tags=["nbval-check-output"]
def with_warps(num_warps):
    return lower(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, num_warps=num_warps, target="sm_90")


for num_warps in (4, 8, 16):
    each = with_warps(num_warps).layouts["x"]
    print(f"{num_warps} warps: {each.elements_per_thread} elements per thread")
    print("   ", each.attribute)

# %%
draw.slide(lambda num_warps: draw.layout(with_warps(num_warps), "x"), num_warps=[4, 8])

# %% [markdown]
# So what are several warps good for? While one warp waits for memory, the multiprocessor goes on
# with another that is ready. Switching between them costs nothing.

# %%
draw.slide(lambda warps: draw.turns(warps), warps=[1, 4, 8])

# %% [markdown]
# With more warps there is more often one that is ready. That is how a GPU hides the time that memory
# takes.
#
# The threads of one warp execute each instruction together. If an `if` sends some of them another
# way, the warp goes through both ways, one after the other, which is called **divergence**. In
# Triton you rarely meet it: an `if` is about a single number, which is the same for all threads
# of the program, and single lanes are switched off by masks.

# %% [markdown]
# ### Exercise {elements-per-thread} · Elements per thread (core)
#
# With 2 warps and a block of 2,048, how many elements of `x` does a thread hold? Work it out from
# the layout before you ask `lower`.

# %%
# exercise elements-per-thread
answer = None
# about 1 line from here
answer = 2048 / (2 * 32)
# to here

# %%
check("elements-per-thread", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many threads are 2 warps?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Every element of this layout is held once.
#
# </details>

# %% [markdown]
# ## What divisibility buys
#
# A load instruction that fetches several elements at once is called **wide** (or vectorized). A
# thread that needs 8 elements can fetch them by 2 wide loads or by 8 narrow ones. Which of
# them does the compiler choose? A wide load of 16 bytes must begin at a multiple of 16 bytes.
# Aligned tensors do, and the compiler knows it from the notes above. `x[1:]` begins 4 bytes
# further on.
#
# Here is one wide load of a warp: each thread takes four neighbors, which are 16 bytes. Move
# `start` to 1, as in `x[1:]`, and then on to 4: what do you read below?

# %%
draw.ruler(per_thread=4)

# %% [markdown]
# Only where thread 0 begins at a multiple of 16 bytes can each thread take its four at once.
# Otherwise it takes them one by one. Each of these four loads touches 16 or 17 sectors, so they ask
# for 65 in all, where one wide load asked for 16.
#
# **Predict:** how many loads of `x` does one thread make for `x[1:]`, if `y` is still aligned?
# And how many are there in all?
#
# <details>
# <summary>Answer</summary>
#
# 8 narrow loads of `x[1:]`, one for each element that the thread holds, and 2 wide loads of `y`
# as before: 10.
#
# </details>

# %% tags=["nbval-check-output"]
shifted = lower(add_kernel, x[1:], x, x, 98432, BLOCK_SIZE=1024, target="sm_90")
for name, each in (("x", s), ("x[1:]", shifted)):
    counts = each.counts["ptx"]
    print(name, counts["global loads"], "loads,", counts["vectorized global loads"], "of them wide")

# %% [markdown]
# (`global` in the names of these counts is NVIDIA's word for device memory.)
#
# Now the same question about the length. Both tensors are aligned again, but there are 98,433
# elements, and 16 does not divide that. From notebook {which-block-size} you know that the loads
# cannot be wide.
#
# **Predict:** how many loads does a thread make in all? And why can four neighbors not share one?
# Think of the mask at the very end of the vector.
#
# <details>
# <summary>Answer</summary>
#
# 16: 8 of `x` and 8 of `y`. A wide load has one mask for all of its elements: it is made or not.
# With 98,432 elements four neighbors are always on the same side of the end, because 4 divides
# the length. With 98,433 the end may lie between them, so each element needs a mask of its own,
# and a load of its own.
#
# </details>

# %% tags=["nbval-check-output"]
odd = lower(add_kernel, x, x, x, 98433, BLOCK_SIZE=1024, target="sm_90")
print(odd.counts["ptx"]["global loads"], "loads,", odd.counts["ptx"]["vectorized global loads"], "wide")
print(odd.follow("x = tl.load", "ptx", most=9))

# %% [markdown]
# Every load has its own mask in front: an instruction with `@%p1` is carried out only if `%p1` is
# true. Such a switch is called a **predicate**. (`mul.wide` is no wide load: it multiplies two
# 32-bit numbers into a 64-bit one.)
#
# What does that cost? Four times as many load instructions. And each of the four in place of a wide
# one picks one element out of every four, so a warp asks for the same 16 sectors four times: `cost`
# says "4.00 times the least" here. Only the first of the four brings them from memory. The others
# find them in a small cache of the multiprocessor's own. So a vector add, which waits for memory,
# may hardly notice. A kernel that computes more will.
#
# Who decides all this? The compiler works in many small steps, and each step, called a **pass**,
# rewrites the program a little. `s.passes` keeps what each of them changed. The one that chose 4
# neighbors is called `tritongpu-coalesce`: it looks at every load and store and picks a layout in
# which threads read neighbors. Here is its first change (`-` is before, `+` after).

# %%
print(*s.passes["tritongpu-coalesce"].diff().splitlines()[:5], sep="\n")

# %% [markdown]
# Before the pass every thread took one element at a time, `#blocked` with `sizePerThread = [1]`.
# The pass added a second layout with 4. A later pass, `tritongpu-remove-layout-conversions`,
# makes the rest of the kernel use it too, so that nothing needs to be converted from one layout
# into the other.
#
# What if you know something that the compiler does not? In the next exercise the rows of a matrix
# begin 1,004 elements apart. The compiler asks only whether 16 divides that; it does not, so it
# assumes nothing. But 4 does, and for wide loads that would be enough. You can promise it:
# `tl.multiple_of(value, 4)` gives the value back with the note that 4 divides it.
#
# Two things to know about promises. First, they must be true. After a false one the kernel stops
# with a "misaligned address", or it reads the wrong elements. (If you promise it of a block, it
# concerns only the first element in each run of neighbors. The others cannot be divisible: after 0
# come 1, 2 and 3.)
#
# Second, a promise sticks to a computation. Compare these two lines:
#
# ```
# stride = tl.multiple_of(stride, 4)        # dropped
# start = tl.multiple_of(row * stride, 4)   # kept
# ```
#
# `stride` arrives as an argument. No operation computes it, so there is nothing that the note could
# be attached to, and the compiler drops it without a word. `row * stride` is computed. So make the
# promise about something that you computed, and use what comes back.

# %% [markdown]
# ### Exercise {wide-loads} · Wide loads (core)
#
# `x` is a float32 matrix whose rows are `stride` elements apart. Copy the first `n_cols` elements
# of row `row` to row `row` of `out`, whose rows are `n_cols` apart. The exercise launches one
# program per row, with `BLOCK_SIZE` at least `n_cols`. `stride` is 1,004 or another multiple of
# 4, and `n_cols` is a multiple of 4 too. (`n_cols` is a constexpr here, so the compiler knows the
# number itself, and the mask and the store need no promise.) Write it so that every load is wide.


# %%
# exercise wide-loads
@triton.jit
def copy_rows_kernel(x_ptr, out_ptr, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    # about 3 lines from here
    start = tl.multiple_of(row * stride, 4)
    x = tl.load(x_ptr + start + cols, mask=cols < n_cols)
    tl.store(out_ptr + row * n_cols + cols, x, mask=cols < n_cols)
    # to here


# %%
check("wide-loads", copy_rows_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Write it without a promise first. `check` then says how many loads are narrow.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# A row begins at `row * stride`. Of which number must the compiler know that 4 divides it?
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# Of the two lines above the exercise, you need the second.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Take a kernel of your own from an earlier notebook, and count its loads with `lower`. Are all of
#   them wide?
#
# ## What you can do now
#
# You can compile a kernel for a GPU that you do not have, and say from the layout which thread
# holds what. Ask yourself:
#
# 1. `sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [8]`, and a block of 2,048. How
#    many elements does each thread hold?
#
# <details>
# <summary>Answer</summary>
#
# The pattern covers 2 x 32 x 8 = 512 elements and is laid four times: 8 elements. Or directly:
# 2,048 elements over 256 threads.
#
# </details>
#
# 2. In the PTX of your kernel every load is a plain `ld.global.b32`, though the tensor is
#    aligned. What do you look at?
#
# <details>
# <summary>Answer</summary>
#
# At what the address and the mask are computed from. A stride or a length that 16 does not divide
# makes the loads narrow, and so does a block whose lanes are not neighbors.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/08-who-holds-what.py](../solutions/08-who-holds-what.py) has all answers.
#
# **Next:** [09, why is it slow?](09-why-is-it-slow.ipynb).
#
# ## Further reading
#
# - [Triton's own IR, operation by operation](https://triton-lang.org/main/dialects/dialects.html)
# - [PTX](https://docs.nvidia.com/cuda/parallel-thread-execution/), NVIDIA's reference
# - K. Zhou and others: *Linear Layouts: Robust Code Generation of Efficient Tensor Computation
#   Using F2*, arXiv:2505.23819
