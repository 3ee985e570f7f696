# %% [markdown]
# # 03 · Compilation stages
#
# You can count the bytes that a kernel must move, and so you know how fast it should be. Sooner
# or later you will write one that is right and takes three times as long. Where did the time go?
# The answer is in what the compiler made of your kernel: the loads came out narrow, the values
# found no room in the registers, or lanes that are neighbors in a block are not neighbors in
# memory.
#
# In this lesson you learn to find such a reason. It takes some getting used to: you will look at
# five languages, most of which you have never seen. You need not learn any of them. You need to
# know which few lines to look for, and that is what this lesson shows.
#
# **By the end you can**
#
# - follow a line of your kernel down to the instructions of the GPU,
# - read a layout, and say which thread holds which element of a block,
# - tell whether loads are wide, whether registers spill, and whether sectors are wasted,
# - find out why a kernel is slow, and fix it.
#
# **You need** lessons 01 and 02. You need no GPU: the compiler runs without one.
#
# | section | about minutes |
# |---|---|
# | From Python to machine code | 6 |
# | Blocks without a machine: TTIR | 3 |
# | Who holds what: TTGIR | 20 |
# | What divisibility buys | 20 |
# | One thread: LLVM IR, PTX, SASS | 5 |
# | A row sum | 10 |
# | Registers and spills | 3 |
# | When a kernel is slow | 40 |
# | Another vendor | 3 |
# | Stretch exercises | 15 |
# | **All, an estimate** | 125 |

# %% [markdown]
# **Two questions from lessons 01 and 02.** Answer them before you unfold the answers.
#
# 1. You launch a kernel with `n = 98432`, and then with `n = 98433`. Why does Triton compile it a
#    second time?
#
# <details>
# <summary>Answer</summary>
#
# 98,432 is divisible by 16 and 98,433 is not. Triton tells the compiler whether an argument is
# divisible by 16, so the two calls need two kernels. In this lesson you see what the compiler
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
from course import check, cost, draw, explore, hint, lower
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## From Python to machine code
#
# *Routes: one day, all*
#
# What happens between `add_kernel[grid](...)` and the first instruction on the GPU? The compiler
# rewrites your kernel several times, and each time the text gets closer to the machine. Each of
# these forms of the kernel is a **stage**. `lower` compiles a kernel and keeps them all.
#
# Here it is on the kernel of lesson 01. `lower` takes what a launch takes, without the grid.
# `target` names the GPU to compile for: "sm_90" is what NVIDIA calls the generation of the H100
# and H200. Nothing is run.


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
# Every stage remembers which line of Python each of its lines came from. `explore` shows the
# stages side by side. Run the cell, then move the mouse over a line: all its relatives light up,
# in each pane. Click to keep them, and choose other stages at the top. In a running session you
# can also try another `target` or `num_warps`, and what has changed is marked.

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
# *Routes: one day, all*
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
# These notes are what `specialize` listed in lesson 01. Here you see how they travel: each
# argument carries `tt.divisibility = 16`, and later stages build on it.

# %% [markdown]
# ## Who holds what: TTGIR
#
# *Routes: one day, all*
#
# A block of 1,024 elements has to live in the registers of 128 threads. Which thread holds which
# elements? You never said, and it decides whether the loads are fast. The second stage answers it
# with a **layout**, whose name follows the `#` in each type. This is the one for `x`. In the
# picture each box is four neighboring elements that one thread holds. The number in the box is the
# thread's, the color tells you its warp, and `r` at the left in which of its registers they are.

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
# reads 512 bytes without a gap: coalesced, as in lesson 02.
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
    print(f"{num_warps:3} warps: {each.elements_per_thread:2} elements per thread,", each.attribute)

# %%
draw.slide(lambda num_warps: draw.layout(with_warps(num_warps), "x"), num_warps=[4, 8])

# %% [markdown]
# So what are several warps good for? While one warp waits for memory, the multiprocessor goes on
# with another that is ready. Switching between them costs nothing. With more warps there is more
# often one that is ready. That is how a GPU hides the time that memory takes.
#
# The threads of one warp execute each instruction together. If an `if` sends some of them another
# way, the warp goes through both ways, one after the other, which is called **divergence**. In
# Triton you rarely meet it: an `if` is about a single number, which is the same for all threads
# of the program, and single lanes are switched off by masks.

# %% [markdown]
# ### Exercise 03.1 · Which stage is it? (core)
#
# Name the stage of each of these five lines of `add_kernel`, in order: for example
# `"ttir, ptx, …"`. The stages are ttir, ttgir, llir (LLVM IR), ptx and sass.
#
# You have not seen a load in the last three yet, and you can still tell them apart. A register is
# called `%r1` in PTX and `R16` in SASS. LLVM IR has neither: it numbers its values, as in `%17`.
#
# ```
# 1   @%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
# 2   %x_6 = tt.load %x_5, %mask_4 : tensor<1024x!tt.ptr<f32>>
# 3   @!P0 LDG.E.128 R16, desc[UR4][R2.64] ;
# 4   %x_5 = tt.load %x_4, %mask_3 : tensor<1024x!tt.ptr<f32>, #blocked>
# 5   %17 = getelementptr [4 x i8], ptr addrspace(1) %0, i64 %16
# ```

# %%
# exercise 03.1
answer = None
# about 1 line from here
answer = "ptx, ttir, sass, ttgir, llir"
# to here

# %%
check("03.1", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Only one of the stages has layouts.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `ld.global` and `LDG` both mean a load from global memory. Look at how their registers are
# called.
#
# </details>

# %% [markdown]
# ### Exercise 03.2 · Elements per thread (core)
#
# With 2 warps and a block of 2,048, how many elements of `x` does a thread hold? Work it out from
# the layout before you ask `lower`.

# %%
# exercise 03.2
answer = None
# about 1 line from here
answer = 2048 / (2 * 32)
# to here

# %%
check("03.2", answer)

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
# *Routes: one day, all*
#
# A load instruction that fetches several elements at once is called **wide** (or vectorized). A
# thread that needs 8 elements can fetch them by 2 wide loads or by 8 narrow ones. Which of
# them does the compiler choose? A wide load of 16 bytes must begin at a multiple of 16 bytes.
# Aligned tensors do, and the compiler knows it from the notes above. `x[1:]` begins 4 bytes
# further on.
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
# Now the same question about the length. Both tensors are aligned again, but there are 98,433
# elements, and 16 does not divide that. From lesson 01 you know that the loads cannot be wide.
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
# Two things to know about promises. They must be true: after a false one the kernel stops with a
# "misaligned address", or it reads the wrong elements. And the note is put on the operation that
# computes the value, so make the promise about something that you computed, and use what comes
# back. No operation computes a parameter, so a promise about one has nothing to be attached to, and
# the compiler drops it without a word.

# %% [markdown]
# ### Exercise 03.3 · Wide loads (core)
#
# `x` is a float32 matrix whose rows are `stride` elements apart. Copy the first `n_cols` elements
# of row `row` to row `row` of `out`, whose rows are `n_cols` apart. The exercise launches one
# program per row, with `BLOCK_SIZE` at least `n_cols`. `stride` is 1,004 or another multiple of
# 4, and `n_cols` is a multiple of 4 too. Write it so that every load is wide.


# %%
# exercise 03.3
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
check("03.3", copy_rows_kernel)

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
# `stride = tl.multiple_of(stride, 4)` is a promise about a parameter, and is dropped. Make
# the promise about the product.
#
# </details>

# %% [markdown]
# ## One thread: LLVM IR, PTX, SASS
#
# *Routes: one day, all*
#
# From LLVM IR on, the text is the program of a single thread. All threads run the same text, so
# each must find out who it is. In PTX `%ctaid.x` is the number of the program and `%tid.x` the
# number of the thread in it.

# %% tags=["nbval-check-output"]
print(s.follow("pid = tl", "ptx"))
print(s.follow("offsets = pid", "ptx"))

# %% [markdown]
# That is the layout, as arithmetic. `shl … 2` shifts the thread's number by two bits, which
# multiplies it by 4: its first element. (`and … 508` keeps that below 512.) `shl … 10` multiplies
# the program's number by 1,024. `or` does the work of an addition here, because the two numbers
# have no bit in common: the first `or` puts the program's part and the thread's together, and the
# last one adds 512, which gives the thread's second run of elements.
#
# Now the load. Look for three things: where the mask went, how wide the load is, and what a
# masked lane gets.

# %% tags=["nbval-check-output"]
s.follow("x = tl.load", "ptx", most=9)

# %% [markdown]
# The mask is the predicate again, `@%p1`. `v4` is the width: four registers are loaded at once.
# The four lines `mov … 0x0` before it put zeros where a masked lane will find them. That is a
# habit of this compiler and no promise of Triton, so write `other` when you need a value there.
#
# Here is the same load in the two stages around PTX. Find the PTX in quotes in the first, and
# `LDG.E.128` in the second.

# %%
s.follow("x = tl.load", "llir", "sass", most=8)

# %% [markdown]
# In LLVM IR, Triton writes the load and its predicate as a piece of PTX, in quotes after `asm`.
# The line with `getelementptr` computes an address. In SASS, `LDG.E.128` is a load of 128 bits
# from global memory. The predicate in front, `@!P0`, is negated: "only if `P0` is false".
#
# If you choose SASS in the explorer above, you see one thing more: brackets before each
# instruction. The hardware does not check whether an operand has arrived, so the assembler, the
# program that turns PTX into machine code, writes down what to wait for. There are six flags for
# that, which the legend calls barriers. `W2` says that a load raises flag 2 until it has written
# its registers. A 2 in the first field of a later instruction makes the warp wait for it, and
# `S04` stalls the warp for 4 cycles. No exercise needs them. But when you ask what a warp waits
# for, this is where to look.
#
# **Predict:** here are three lines of PTX. Which register holds the mask of the load?
#
# ```
# setp.lt.s32   %p3, %r19, %r17;
# mov.u32       %r5, 0x0;
# @%p3 ld.global.b32 { %r5 }, [ %rd2 + 0 ];
# ```
#
# <details>
# <summary>Answer</summary>
#
# `%p3`. `setp` sets it to whether `%r19`, the offset, is less than `%r17`, the length. `%r5` is
# where the element goes.
#
# </details>

# %% [markdown]
# ## Sitting 2
#
# A good place to stop, or to start again (in a new session, run the import cell and the cell of
# `add_kernel` first). So far you can
#
# - compile a kernel with `lower`, and follow a line through TTIR (blocks), TTGIR (blocks with
#   layouts), PTX and SASS (one thread),
# - read a layout such as `sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4]`, and
#   count the elements per thread,
# - tell a wide load from narrow ones, and say what divisibility has to do with it.
#
# The rest puts this to use. You see how threads work together, what happens when registers run
# out, and then you get three slow kernels to fix.

# %% [markdown]
# ## A row sum
#
# *Routes: all*
#
# To add two vectors, no thread needs to know what another one holds. To sum up a row, it does:
# the elements are spread over 128 threads. How do they come together? In this kernel each program
# sums one row.


# %%
@triton.jit
def row_sum_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    total = tl.sum(x, axis=0)
    tl.store(out_ptr + row, total)


# %% tags=["nbval-check-output"]
row = lower(row_sum_kernel, x, x, 1024, BLOCK_SIZE=1024, target="sm_90")
print(row.follow("total = tl.sum", "ttgir"))

# %% [markdown]
# In TTGIR it is one operation, `tt.reduce`, with a small function of two numbers inside: their
# sum. In PTX it is three steps. First each thread adds up its own eight elements. Then the
# threads of a warp exchange their sums by shuffles. A **shuffle** is an instruction that reads a
# register of another thread of the same warp. Last, the warps put their sums together.
#
# **Predict:** after each shuffle half as many partial sums are left. How many shuffles does it
# take to add up the sums of 32 threads?
#
# <details>
# <summary>Answer</summary>
#
# Five: 32, 16, 8, 4, 2, 1. With one warp that is all. Four warps cannot read one another's
# registers, so each of them writes its sum to shared memory. A **barrier**, at which every warp
# of the program waits until all have arrived, makes sure that the sums are there before anyone
# reads them. Two more shuffles add up the four.
#
# </details>

# %% tags=["nbval-check-output"]
for num_warps in (1, 4):
    each = lower(row_sum_kernel, x, x, 1024, BLOCK_SIZE=1024, num_warps=num_warps, target="sm_90")
    names = ("shuffles", "shared stores", "shared loads", "barriers")
    print(f"num_warps={num_warps}:", ", ".join(f"{name}: {each.counts['ptx'][name]}" for name in names))

# %% [markdown]
# In two dimensions, the sum of each row of a tile is a block of one dimension. Where does that
# live? Its layout is a **slice** of the tile's layout: the same threads, with one axis taken out.


# %%
@triton.jit
def tile_sum_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * BLOCK + cols[None, :])
    total = tl.sum(x, axis=1)
    tl.store(out_ptr + rows, total)


# %% tags=["nbval-check-output"]
tile = lower(tile_sum_kernel, x, x, BLOCK=16, target="sm_90")
total = next(each for each in tile.layouts if each.kind == "slice" and each.element == "f32")
print(total.attribute)
print("the sum of row 3 is held", len(total.holders(3)), "times")

# %%
draw.layout(tile, "x")

# %%
draw.layout(total)

# %% [markdown]
# Read the tile's layout axis by axis. Down: 1 x 4 x 4 = 16 rows. Across: 2 x 8 x 1 = 16 columns.
# So 8 threads with 2 elements each lie across a row, and each warp has four rows. `order = [1, 0]`
# says that neighbors go along axis 1, the columns, first.
#
# After the sum all eight threads of a row hold it, so an element of the slice is held eight
# times. Compare the pictures: element 3 of the slice is labeled `0:24-31`, threads 24 to 31 of
# warp 0, and these are the eight that share row 3 of the tile.

# %% [markdown]
# ## Registers and spills
#
# *Routes: one day, all*
#
# A bigger block means fewer programs and more elements per thread. Why not take a block of
# 32,768, then?
#
# Everything that a thread holds needs a register, and registers are few. A multiprocessor has
# 65,536 of them for all the programs that it runs at a time, and one thread can have 255 at most.
# Remember from lesson 01 what follows. The more registers each program needs, the fewer programs
# fit at a time: the occupancy goes down. And when even 255 do not suffice, values spill: they are
# kept in memory.
#
# **Predict:** with 4 warps, how many registers does a thread need for its elements of `x` and `y`
# alone, in a block of 16,384? And of 32,768?
#
# <details>
# <summary>Answer</summary>
#
# 16,384 elements over 128 threads are 128 of each vector: 256 registers if all of `x` and `y`
# were held at once. The compiler gets by with 235, by adding some elements before it has loaded
# all. In a block of 32,768 a thread has 256 elements of each vector, and that does not fit.
#
# </details>

# %% tags=["nbval-check-output"]
for block_size in (1024, 4096, 16384, 32768):
    each = lower(add_kernel, x, x, x, 98432, BLOCK_SIZE=block_size, target="sm_90").resources
    spills = "spills" if each.spill_bytes else "no spill"
    print(f"{block_size:6}: {each.registers:3} registers, {spills}, occupancy {each.occupancy:.0%}")

# %% [markdown]
# At 32,768 the assembler gave up on registers and keeps the blocks in memory. So a thread needs
# only 32 of them, and the occupancy is back at 100 %. But in lesson 01 you saw their speeds, and
# this one was the slowest of the four. High occupancy is not speed. It says how many warps there
# are to choose from while others wait, and no more than that.
#
# The assembler does not always give up like that. Usually it keeps what fits in registers, 255 per
# thread, and spills only the rest. So any spill at all is a sign, even one of a few bytes.

# %% [markdown]
# ## When a kernel is slow
#
# *Routes: one day, all*
#
# Now you have what it takes to find out why a kernel is slow. Go through four questions, in this
# order, because the first ones are the cheapest to answer:
#
# | | what may be wrong | where you see it | a usual cure |
# |---|---|---|---|
# | **a** | too few programs: some multiprocessors have nothing to do | the grid; an H200 has 132 multiprocessors | cut the work into more programs |
# | **b** | narrow loads of neighbors | `lower(…).counts["ptx"]`: loads, and how many of them are wide | divisibility, a promise |
# | **c** | wasted sectors: the lanes of a warp load elements that lie far apart | `cost(…)`: "times the least" behind each access | let the last axis go along memory |
# | **d** | spills: a thread needs more than 255 registers | `lower(…).resources`: bytes spilled | smaller blocks, or more warps |
#
# How do you tell **b** from **c**? Not by the numbers: where the lanes' elements lie far apart,
# the loads are narrow as well, and narrow loads of neighbors may ask for the same sectors again,
# as you saw with 98,433 elements. So look at the address in your kernel. Where `tl.arange` is added
# as it is, neighboring lanes load neighboring elements, and narrow loads are **b**. Where
# `tl.arange` has been multiplied by a stride, or divided (`//`, `%`), the lanes may lie apart, and
# that is **c**.
#
# (There is one more step before them all: compare the measured time with the bytes over the copy
# roof, as in lesson 01. If the two agree, the kernel is not slow. Then only moving fewer bytes
# helps.)
#
# The three kernels that follow give the right result, and each has one of these four problems. In
# each exercise you name the problem by its letter, and write the kernel without it. Nothing is
# timed: the compiler's output and the counts tell, also without a GPU.
#
# The first multiplies each row of a matrix by a factor of its own. It numbers the elements of the
# matrix and gives each program 1,024 of them. The cell shows you how to ask both tools. Tensors
# on the device "meta" have a shape and take no memory, which is all that the tools need.


# %%
@triton.jit
def slow_scale_kernel(x_ptr, scale_ptr, out_ptr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    number = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = number < n_rows * n_cols
    row = number % n_rows
    col = number // n_rows
    scale = tl.load(scale_ptr + row, mask=mask)
    x = tl.load(x_ptr + row * n_cols + col, mask=mask)
    tl.store(out_ptr + row * n_cols + col, x * scale, mask=mask)


# %%
matrix, factors = torch.empty(256, 1024, device="meta"), torch.empty(256, device="meta")
args = (matrix, factors, matrix, 256, 1024)
lowered = lower(slow_scale_kernel, *args, BLOCK_SIZE=1024, target="sm_90")
print({name: count for name, count in lowered.counts["ptx"].items() if "global" in name})
print(lowered.resources)
print(cost(slow_scale_kernel, (256,), *args, BLOCK_SIZE=1024, target="H200"))

# %% [markdown]
# Three lines need a word. The load of `scale` says 4.00: a block needs its 256 factors once, and each
# of the four warps asks for all of them. That is little beside the other two lines. The 2,048 bytes
# of shared memory: the product is stored in another layout than the one in which `scale` and `x` were
# loaded, and the threads exchange elements there. (In TTGIR it is the line with
# `ttg.convert_layout`.) And the times in the last line count no waste: they say what the task needs,
# not what this kernel takes.

# %% [markdown]
# ### Exercise 03.4 · Why is it slow? Rows and factors (core)
#
# What slows `slow_scale_kernel` down: **a**, **b**, **c** or **d** of the table? Then write
# `scale_kernel`, which does the same without it, for a contiguous float32 `x` and `out` of
# `n_rows` x `n_cols` and a `scale` of `n_rows`. The exercise launches one program for every
# `BLOCK_SIZE` elements.


# %%
# exercise 03.4
cause = None
# about 1 line from here
cause = "c"
# to here


@triton.jit
def scale_kernel(x_ptr, scale_ptr, out_ptr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    number = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = number < n_rows * n_cols
    # about 4 lines from here
    row = number // n_cols
    scale = tl.load(scale_ptr + row, mask=mask)
    x = tl.load(x_ptr + number, mask=mask)
    tl.store(out_ptr + number, x * scale, mask=mask)
    # to here


answer = cause, scale_kernel

# %%
check("03.4", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Take the first two lanes of program 0. Which elements do they load, and how far apart are these
# in memory?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The kernel numbers the elements down the columns. Memory numbers them along the rows.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# If elements are numbered along the rows, the number of an element is its offset. Only the row is
# still needed, for the factor.
#
# </details>

# %% [markdown]
# The second kernel divides each row by its sum. It is launched on a matrix of 4,096 rows and
# 32,768 columns: one program per row, `BLOCK_SIZE=32768`, and 4 warps as usual. Ask the tools
# yourself. (For `cost`, a grid of `(8,)` is enough, since all rows are alike.)


# %%
@triton.jit
def slow_shares_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    tl.store(out_ptr + row * n_cols + cols, x / tl.sum(x, axis=0), mask=mask)


# %%
wide = torch.empty(4096, 32768, device="meta")
lower(slow_shares_kernel, wide, wide, 32768, BLOCK_SIZE=32768, target="sm_90")

# %% [markdown]
# ### Exercise 03.5 · Why is it slow? Shares of a sum (core)
#
# What slows `slow_shares_kernel` down: **a**, **b**, **c** or **d**? Then write a launcher
# `shares(x)` that does the same without it, for a contiguous float32 matrix of up to 32,768
# columns.


# %%
# exercise 03.5
cause = None
# about 1 line from here
cause = "d"
# to here


@triton.jit
def shares_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    # about 2 lines from here
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row * n_cols + cols, x / tl.sum(x, axis=0), mask=cols < n_cols)
    # to here


def shares(x):
    out = torch.empty_like(x)
    n_rows, n_cols = x.shape
    # about 2 lines from here
    block_size = triton.next_power_of_2(n_cols)
    shares_kernel[(n_rows,)](x, out, n_cols, BLOCK_SIZE=block_size, num_warps=16)
    # to here
    return out


answer = cause, shares

# %%
check("03.5", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many elements of `x` does one thread hold, and why must it hold all of them until the sum is
# known?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# There are two ways out. More warps share the row among more threads. Or the kernel goes through
# the row in pieces, twice: once for the sum, and once to divide.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# `num_warps` is an argument of the launch, as in `kernel[grid](…, num_warps=8)`.
#
# </details>

# %% [markdown]
# The third kernel limits each row of a matrix to a largest value of its own. The matrix is short
# and very wide: 4 rows of 2^20 elements. Each program goes through its row in a loop.


# %%
@triton.jit
def slow_limit_kernel(x_ptr, limit_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    limit = tl.load(limit_ptr + row)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
        tl.store(out_ptr + row * n_cols + cols, tl.minimum(x, limit), mask=cols < n_cols)


# %% [markdown]
# ### Exercise 03.6 · Why is it slow? Four long rows (stretch)
#
# What slows `slow_limit_kernel` down, launched on a grid of `(4,)` with `BLOCK_SIZE=1024`: **a**,
# **b**, **c** or **d**? Then write a launcher `limit_rows(x, limit)` that does the same without
# it, for any contiguous float32 matrix. In PyTorch: `torch.minimum(x, limit[:, None])`.


# %%
# exercise 03.6
cause = None
# about 1 line from here
cause = "a"
# to here


@triton.jit
def limit_kernel(x_ptr, limit_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    limit = tl.load(limit_ptr + row)
    # about 3 lines from here
    cols = tl.program_id(axis=1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + row * n_cols + cols, tl.minimum(x, limit), mask=cols < n_cols)
    # to here


def limit_rows(x, limit):
    out = torch.empty_like(x)
    # about 2 lines from here
    grid = (x.shape[0], triton.cdiv(x.shape[1], 1024))
    limit_kernel[grid](x, limit, out, x.shape[1], BLOCK_SIZE=1024)
    # to here
    return out


answer = cause, limit_rows

# %%
check("03.6", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many multiprocessors can work on this launch at a time?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Nothing in one part of a row depends on another part. A second axis of the grid can take the
# place of the loop.
#
# </details>

# %% [markdown]
# ## Another vendor
#
# *Routes: all*
#
# How much of this holds for a GPU that is not NVIDIA's? Here is the same kernel for an AMD
# MI300X, whose architecture is called gfx942. TTIR differs only in a note on the pointers. TTGIR
# has layouts for warps of 64 threads (AMD calls a warp a *wavefront*). The last stages are AMD's
# own assembly and binary.
#
# **Predict:** with 4 warps of 64 threads and a block of 1,024, how many elements does a thread
# hold, and how many wide loads does it need for `x` and `y` together?
#
# <details>
# <summary>Answer</summary>
#
# 256 threads hold 4 elements each, which is one wide load of `x` and one of `y`: two.
#
# </details>

# %% tags=["nbval-check-output"]
amd = lower(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, target="gfx942")
print(amd.layouts["x"].attribute)
print(amd.counts["amdgcn"]["vectorized global loads"], "wide loads")

# %%
amd.follow("x = tl.load", "ttgir", "amdgcn")

# %% [markdown]
# `buffer_load_dwordx4` is the wide load: four words of 4 bytes. So what you learned here carries
# over, with other numbers. AMD's consumer cards, such as gfx1100, have warps of 32 threads.

# %% [markdown]
# ## On your own
#
# - `s.replace(ttgir=s.ttgir.replace("arith.addf", "arith.mulf"))` compiles an edited stage.
#   Follow the last line of the kernel to PTX in what comes back: what became of the eight
#   additions?
# - Compile `row_sum_kernel` for `num_warps=2` and `num_warps=8`. How many shuffles do you expect,
#   and how many are there?
# - Take a kernel of your own from lesson 01 or 02, and ask it the four questions of the table.
#   Are all of its loads wide?
#
# ## In practice
#
# Keep the order: first the bytes, then the grid, then loads and sectors, then registers. Look at
# the stages only when you have a question for them. In a terminal this writes them all to files
# (`:16` says "divisible by 16"):
#
# ```
# .venv/bin/course lower my_kernel.py:add_kernel \
#     --signature "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024" --out build
# ```

# %% [markdown]
# ## What you can do now
#
# You can compile a kernel for a GPU that you do not have, find any of its lines in each stage,
# and say from the layout which thread holds what. Given a slow kernel, you know which four
# questions to ask and where to find the answers. Ask yourself:
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
#
# 3. A kernel has an occupancy of 25 % and reaches 95 % of the copy roof. Should you worry?
#
# <details>
# <summary>Answer</summary>
#
# No. Enough warps were there to keep memory busy, and more would not make it faster.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/03-compilation-stages.py](../solutions/03-compilation-stages.py) has all answers.
#
# **Next:** [lesson 04](04-softmax.ipynb). You write a softmax, and meet registers and spills
# again, this time because the row must stay on the chip.
#
# ## Further reading
#
# - [Triton's own IR, operation by operation](https://triton-lang.org/main/dialects/dialects.html)
# - [PTX](https://docs.nvidia.com/cuda/parallel-thread-execution/), NVIDIA's reference
# - K. Zhou and others: *Linear Layouts: Robust Code Generation of Efficient Tensor Computation
#   Using F2*, arXiv:2505.23819
