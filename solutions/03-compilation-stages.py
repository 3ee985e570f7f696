# %% [markdown]
# # 03 · Compilation stages
#
# **What you will build.** Nothing new to run. You take the vector add apart, and then a row sum,
# down to the instructions of the GPU. No GPU is needed for it.
#
# **What you will learn.** You follow a line of Python through five languages. You read a layout,
# and say which thread holds which element. You tell from the instructions what divisibility and
# `num_warps` did.
#
# **What you need.** Lessons 01 and 02.
#
# | section | minutes |
# |---|---|
# | Five languages | 8 |
# | Blocks without a machine: TTIR | 6 |
# | Who holds what: TTGIR | 14 |
# | What divisibility buys | 9 |
# | One thread: LLVM IR, PTX, SASS | 8 |
# | A row sum | 7 |
# | Resources | 6 |
# | Another vendor | 4 |

# %%
from course import check, draw, explore, hint, lower
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Five languages
#
# Here is the kernel of lesson 01. `lower` compiles it and keeps every stage. It takes what a
# launch takes, without the grid; `target` names the GPU to compile for, and "sm_90" is an H100 or
# H200. Look at how the program grows from stage to stage.


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
# Nothing was run: `x` is never read. Of a tensor only the dtype, the address and the size matter
# here, so a description serves as well: `lower(add_kernel, "*fp32:16", "*fp32:16", "*fp32:16",
# "i32:16", BLOCK_SIZE=1024)`, where `:16` means "divisible by 16".
#
# | stage | what it is | older texts call the step that makes it |
# |---|---|---|
# | TTIR | your program on blocks, for no machine yet | `ast_to_ttir` |
# | TTGIR | the same, with a layout for each block | `ttir_to_ttgir` |
# | LLVM IR | the program of one thread | `ttgir_to_llir` |
# | PTX | NVIDIA's virtual assembly | `llir_to_ptx` |
# | cubin | machine code, made by NVIDIA's assembler `ptxas` | `ptx_to_cubin` |
#
# Those five functions are gone from Triton; one call, `triton.compile`, runs them all. *SASS* is
# the cubin, disassembled.

# %% [markdown]
# Every stage remembers the line of Python that it came from. In a session, move over a line and
# its relatives light up in every pane; click to keep them, and open other stages at the top. Then
# try another `target` or `num_warps`: what has changed is marked.

# %%
explore(s)

# %% [markdown]
# In text, `follow` takes a piece of a line and shows what became of it. Here is a load.

# %% tags=["nbval-check-output"]
s.follow("x = tl.load", "ttir", "ttgir")

# %% [markdown]
# **Predict:** the addition is one operation in TTIR. How many instructions of PTX is it?

# %%
s.follow("out_ptr + offsets, x + y", "ttir", "ptx", "sass", most=12)

# %% [markdown]
# One `arith.addf` on 1,024 elements became eight `add.f32`: the code of one thread, which holds
# eight of them. (`FADD` is the same in SASS.) The rest computes addresses and stores.

# %% [markdown]
# ## Blocks without a machine: TTIR
#
# The first stage is what Triton reads off your Python. There are no threads in it. Look at the
# types: `tensor<1024xf32>` is a block of 1,024 float32, `!tt.ptr<f32>` a pointer to float32.

# %% tags=["nbval-check-output"]
for line in ("pid = tl", "offsets = pid", "mask = offsets"):
    print(s.follow(line, "ttir"))

# %% [markdown]
# `tt.splat` makes a block out of one number, `tt.make_range` is `tl.arange`. Your constant,
# `BLOCK_SIZE`, is gone: 1024 stands in its place. The names before the `=` are those of your
# variables. `tt.divisibility = 16`, which the whole text shows at the arguments, is what lesson
# 01's `specialise` listed.
#
# Each line ends with a location, which `follow` leaves out. Here is one, and what it stands for.

# %%
print(next(line for line in s.ttir.splitlines() if "tt.get_program_id" in line))
print(*(line for line in s.ttir.splitlines() if line.startswith(("#loc2 ", "#loc19 "))), sep="\n")

# %% [markdown]
# ## Who holds what: TTGIR
#
# A block of 1,024 elements lies in the registers of 128 threads. Which thread holds which
# element? The second stage answers that with a *layout*, written behind the `#` of each type.
# Here is the one of `x`: each box is some neighbouring elements in one thread, marked warp:thread,
# and below it their registers. **Predict** from it how many elements a thread holds.

# %%
layout = s.layouts["x"]
print(layout.attribute)
draw.layout(s, "x")

# %% [markdown]
# Read it so: a thread takes 4 neighbours (`sizePerThread`), 32 threads stand side by side in a
# warp (`threadsPerWarp`), 4 warps beside one another (`warpsPerCTA`). That covers 4 x 32 x 4 =
# 512 elements. The block has 1,024, so the pattern is laid twice, and a thread holds 8: not 4.

# %% tags=["nbval-check-output"]
print("elements a thread:", layout.elements_per_thread)
print("thread 1 of warp 0:", [index for (index,) in layout.held_by(0, 1)])
print("element 600:", layout.holders(600)[0])

# %%
draw.layout(s, "x", thread=(0, 1))

# %% [markdown]
# Why 4 neighbours? Four float32 are 16 bytes, the most that one load instruction of a thread can
# fetch. And 32 threads with 4 neighbours each read 512 bytes without a gap: coalesced.
#
# **Predict:** what changes in the layout with `num_warps=8`? And with 16?


# %% tags=["nbval-check-output"]
def with_warps(num_warps):
    return lower(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, num_warps=num_warps, target="sm_90")


for num_warps in (4, 8, 16):
    found = with_warps(num_warps).layouts["x"]
    print(f"{num_warps:3} warps: {found.elements_per_thread:2} elements a thread,", found.attribute)

# %%
draw.slide(lambda num_warps: draw.layout(with_warps(num_warps), "x"), num_warps=[4, 8])

# %% [markdown]
# The program stays the same, and more threads share it. With 16 warps there are 512 threads for
# 1,024 elements: two each, and the loads are half as wide.
#
# The threads of a warp execute each instruction together. If some of them had to go another way
# than the rest, both ways would be executed, one after the other: *divergence*. You meet it
# rarely in Triton: an `if` is on one number, the same for all threads of a program, and single
# lanes are switched off by masks. And while one warp waits for memory, the multiprocessor goes on
# with another (a *context switch*, which costs nothing): that is what several warps are for.

# %% [markdown]
# ### Exercise 03.1 · Which stage is it? (core)
#
# Name the stage of each of these five lines of `add_kernel`, in order: for example `"ttir, ptx,
# …"`. The stages are ttir, ttgir, llir, ptx and sass.
#
# ```
# 1   @%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
# 2   %x_5 = tt.load %x_4, %mask_3 : tensor<1024x!tt.ptr<f32>>
# 3   @!P0 LDG.E.128 R16, desc[UR4][R2.64] ;
# 4   %x_5 = tt.load %x_4, %mask_3 : tensor<1024x!tt.ptr<f32>, #blocked>
# 5   %17 = getelementptr float, ptr addrspace(1) %0, i64 %16
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
# PTX writes a predicate as `%p1`, SASS as `P0`.
#
# </details>

# %% [markdown]
# ### Exercise 03.2 · Elements a thread (core)
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
# `x[1:]` begins 4 bytes after an aligned address. **Predict** what becomes of the loads of `x`,
# and of the others.

# %% tags=["nbval-check-output"]
shifted = lower(add_kernel, x[1:], x, x, 98432, BLOCK_SIZE=1024, target="sm_90")
for name, each in (("x", s), ("x[1:]", shifted)):
    found = each.counts["ptx"]
    print(f"{name:6} {found['global loads']:2} loads, {found['vectorised global loads']} of them wide")

# %% [markdown]
# A thread still has eight elements of each vector. For the aligned one two wide loads fetch them,
# for the shifted one eight narrow loads, since a wide load must start at a multiple of 16 bytes.
#
# **Predict:** and for a length that no 16 divides, 98,433?

# %% tags=["nbval-check-output"]
odd = lower(add_kernel, x, x, x, 98433, BLOCK_SIZE=1024, target="sm_90")
print(odd.counts["ptx"]["global loads"], "loads,", odd.counts["ptx"]["vectorised global loads"], "wide")
print(odd.follow("x = tl.load", "ptx", most=20))

# %% [markdown]
# All of them are narrow, each with a mask of its own: four neighbours may now lie on both sides
# of the end, and a wide load has one mask. It costs little on a large GPU, where memory is the
# limit anyway; in a kernel that computes more it shows.
#
# The compiler is a row of *passes*, each of which rewrites the program a little. `passes` keeps
# what every one of them did.

# %%
s.passes

# %% [markdown]
# The first line of that list puts called functions in place of their calls and clears up after
# that, the second makes TTGIR: with a plain layout of one element a thread. **Predict** which one widened it to 4, and check.

# %%
print(s.passes["tritongpu-coalesce"].diff()[:600])

# %% [markdown]
# It looks at every load and store and picks the layout that reads neighbours. Between its layout
# and the rest it puts conversions (`ttg.convert_layout`), most of which a later pass takes out
# again: `tritongpu-remove-layout-conversions`.

# %% [markdown]
# ### Exercise 03.3 · Wide loads (core)
#
# `x` is a float32 matrix whose rows are `stride` elements apart; copy the first `n_cols` of row
# `row` to row `row` of `out`, whose rows are `n_cols` apart. `stride` is 1,004, or another multiple
# of 4, which the compiler is not told, as it only asks about 16. Write it so that every load is
# wide. You may promise the compiler something: `tl.multiple_of(value, 4)` gives back the value.


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
# Promise it of a value that you have computed, such as a product, and use what comes back.
#
# </details>

# %% [markdown]
# ### Exercise 03.4 · Which pass? (core)
#
# Compile `add_kernel` with `x[1:]` in place of `x`, as `shifted` above. In which pass does
# `ttg.convert_layout` disappear again from the TTGIR? Write its name as `passes` prints it.

# %%
# exercise 03.4
answer = None
# about 1 line from here
answer = "tritongpu-remove-layout-conversions"
# to here

# %%
check("03.4", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Ask each pass: `"convert_layout" in each.before`, and the same of `each.after`.
#
# </details>

# %% [markdown]
# ## One thread: LLVM IR, PTX, SASS
#
# From LLVM IR on, the text is the program of one thread. Which thread it is, it asks the
# hardware. Look for the thread's number, `%tid.x`, and for the program's, `%ctaid.x`.

# %% tags=["nbval-check-output"]
print(s.follow("pid = tl", "ptx"))
print(s.follow("offsets = pid", "ptx"))

# %% [markdown]
# That is the layout as arithmetic: the thread's number times 4, plus the program's times 1,024.
# Every thread computes its own offsets. Now the load. Look for three things: where the mask went,
# how wide the load is, and what a masked lane gets.

# %% tags=["nbval-check-output"]
s.follow("x = tl.load", "ptx", most=9)

# %% [markdown]
# The mask became a *predicate*: `@%p1` in front of an instruction means "only if `%p1` is true".
# `v4` is the width. The four `mov … 0x0` before it put zeros where a masked lane will find them.
# That is this compiler's habit and no promise of Triton: say `other` when you need a value.
#
# LLVM IR holds the same as a piece of PTX in quotes, since LLVM has no masked load of its own.
# SASS is what the GPU runs: `LDG.E.128` is the load of 128 bits, `@!P0` the predicate, turned
# round.

# %% [markdown]
# ### Exercise 03.5 · The mask in PTX (core)
#
# Which register holds the mask of this load? Write it with its `%`.
#
# ```
# setp.lt.s32   %p3, %r19, %r17;
# mov.u32       %r5, 0x0;
# @%p3 ld.global.b32 { %r5 }, [ %rd2 + 0 ];
# ```

# %%
# exercise 03.5
answer = None
# about 1 line from here
answer = "%p3"
# to here

# %%
check("03.5", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `setp` sets a predicate: here, whether `%r19` is less than `%r17`.
#
# </details>

# %% [markdown]
# ## A row sum
#
# Adding two vectors needs no thread to know what another holds. A sum does. This kernel adds up a
# row; a program owns a row. Look at the one operation that is new.


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
# `tt.reduce` takes a function of two numbers, here their sum. Each thread first adds up its own
# eight. Then threads of a warp exchange theirs by *shuffles*: an instruction that reads another
# thread's register. **Predict** how many shuffles it takes to add up 32 threads.

# %% tags=["nbval-check-output"]
for num_warps in (1, 4):
    made = lower(row_sum_kernel, x, x, 1024, BLOCK_SIZE=1024, num_warps=num_warps, target="sm_90")
    found = made.counts["ptx"]
    names = ("shuffles", "shared stores", "shared loads", "barriers")
    print(f"{num_warps} warps:", ", ".join(f"{found[name]} {name}" for name in names))

# %% [markdown]
# Five: after each, half as many partial sums are left. With one warp that is all. Four warps
# cannot shuffle among one another: each writes its sum to shared memory, a *barrier* waits until
# all have, and two more shuffles add up the four.
#
# In two dimensions the result of a sum along the columns is a column of numbers, and its layout
# is a *slice* of the tile's: the same threads, with one dimension taken out.


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
# Compare the first column of the tile with the slice: row 3 is held where row 3 of the tile
# begins. All eight threads of that row hold its sum; the picture shows the first. Layouts for matrix
# products and for shared memory wait for lesson 05.

# %% [markdown]
# ## Resources
#
# A multiprocessor has 65,536 registers, and what its programs need decides how many of them it
# holds at a time. The warps that fit, over the 64 that it can hold, are the *occupancy*.
# **Predict** the occupancy of the add with larger and larger blocks, at 4 warps.

# %% tags=["nbval-check-output"]
for block_size in (1024, 4096, 16384, 32768):
    found = lower(add_kernel, x, x, x, 98432, BLOCK_SIZE=block_size, target="sm_90").resources
    spills = "spills" if found.spill_bytes else "no spill"
    print(f"{block_size:6}: {found.registers:3} registers, {spills}, occupancy {found.occupancy:.0%}")

# %% [markdown]
# Registers fill up, and fewer programs fit. At 32,768 each thread would need more than 255
# registers, the most there are. The assembler gives up, keeps the blocks in memory instead, and
# occupancy is back at 100 %. Lesson 01 recorded the speeds of these: this one, with its full
# occupancy, is the slowest. So occupancy is not speed. It says how many warps there are to choose
# from while others wait, and that is all.

# %% [markdown]
# ## Another vendor
#
# The same kernel for an AMD MI300X: TTIR differs in a note at the pointers alone, TTGIR has its layouts for warps of 64
# threads (AMD says *wavefront*), and the last stages are AMD's assembly and its own binary. Look
# at the width of the load.

# %% tags=["nbval-check-output"]
amd = lower(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, target="gfx942")
print(amd.layouts["x"].attribute)
print(amd.counts["amdgcn"]["vectorised global loads"], "wide loads")

# %%
amd.follow("x = tl.load", "ttgir", "amdgcn")

# %% [markdown]
# 4 warps are 256 threads here, so 1,024 elements are four to each, and one wide load a vector is
# enough. Its consumer cards (gfx1100) have warps of 32.

# %% [markdown]
# ### Exercise 03.6 · Threads of a program (stretch)
#
# A kernel is launched with `num_warps=8`. How many threads run a program of it on an MI300X
# (gfx942)?

# %%
# exercise 03.6
answer = None
# about 1 line from here
answer = 8 * 64
# to here

# %%
check("03.6", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `threadsPerWarp` in the layout above.
#
# </details>

# %% [markdown]
# ## On your own
#
# - `s.dump("build/vector_add")` writes every stage to a file. Open the TTGIR and read it from top
#   to bottom: you know every line of it.
# - `s.replace(ttgir=s.ttgir.replace("arith.addf", "arith.mulf"))` compiles an edited stage. Follow
#   the last line of the kernel in what comes back.
# - Add `num_stages=1` to a `lower` of your own and compare with `s.diff(other, "ttgir")`. (In
#   Triton `num_stages` is the *pipeline depth* of loops, and has nothing to do with these stages.)
#
# ## In practice
#
# Look at the stages when a kernel is slower than its bytes or operations say: are the loads wide,
# are there conversions in the loop, do registers spill? In a shell: `course lower my_kernel.py:name
# --signature "*fp32:16, i32, 1024" --out build`.
#
# ## Further reading
#
# - [Triton's own IR, operation by operation](https://triton-lang.org/main/dialects/dialects.html)
# - [PTX](https://docs.nvidia.com/cuda/parallel-thread-execution/), NVIDIA's reference
# - K. Zhou and others: *Linear Layouts: Robust Code Generation of Efficient Tensor Computation
#   Using F2*, arXiv:2505.23819
