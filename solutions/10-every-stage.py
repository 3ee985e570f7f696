# %% [markdown]
# # 10 · Every stage, line by line
#
# You have looked at blocks with layouts, and at counts. Three more stages follow, each written for
# a single thread. Here you follow one line through all of them, you see how threads work together
# on a sum, and at the end what becomes of the same kernel on an AMD GPU.
#
# **By the end you can** say which of five stages a line is from, follow a load down to SASS, and say
# what a sum over a row costs a program's threads.
#
# **You need** notebook {who-holds-what}.
#
# | section | about minutes |
# |---|---|
# | One thread: LLVM IR, PTX, SASS | 15 |
# | A row sum | 10 |
# | Another vendor | 5 |
# | Beginning and end | 6 |
# | **Together, an estimate** | 36 |

# %%
from course import check, draw, hint, lower
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.


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
# ## One thread: LLVM IR, PTX, SASS
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
# from global memory, which is NVIDIA's word for device memory. The predicate in front, `@!P0`, is
# negated: "only if `P0` is false".
#
# <details>
# <summary>For the curious: how does a warp know that its load has arrived?</summary>
#
# If you choose SASS in the explorer of notebook {who-holds-what}, there are brackets before each
# instruction. The hardware does not check whether a value has arrived in its register, so the
# assembler, the program that turns PTX into machine code, writes down what to wait for. There are
# six flags for that. (The legend calls them barriers, as NVIDIA does; they are not the barriers of
# warps further down.) `W2` says that a load raises flag 2 until it has written its registers. A 2
# in the first field of a later instruction makes the warp wait for it, and `S04` stalls the warp
# for 4 cycles. When you ask what a warp waits for, this is where to look.
#
# </details>

# %% [markdown]
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
# ### Exercise {which-stage} · Which stage is it? (core)
#
# Name the stage of each of these five lines of `add_kernel`, in order: for example
# `"ttir, ptx, …"`. The stages are ttir, ttgir, llir (LLVM IR), ptx and sass.
#
# ```
# 1   @%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
# 2   %x_6 = tt.load %x_5, %mask_4 : tensor<1024x!tt.ptr<f32>>
# 3   @!P0 LDG.E.128 R16, desc[UR4][R2.64] ;
# 4   %x_5 = tt.load %x_4, %mask_3 : tensor<1024x!tt.ptr<f32>, #blocked>
# 5   %17 = getelementptr [4 x i8], ptr addrspace(1) %0, i64 %16
# ```

# %%
# exercise which-stage
answer = None
# about 1 line from here
answer = "ptx, ttir, sass, ttgir, llir"
# to here

# %%
check("which-stage", answer)

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
# called: `%r1` in PTX, `R16` in SASS. LLVM IR numbers its values, as in `%17`.
#
# </details>

# %% [markdown]
# ## A row sum
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
# ## Another vendor
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
#
# ## What you can do now
#
# You can find any line of a kernel in each stage. Ask yourself:
#
# 1. Eight warps sum up a row. How many shuffles does each thread of the first warp take?
#
# <details>
# <summary>Answer</summary>
#
# Five for the sums of its own warp, and three more for the eight sums that lie in shared memory.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/10-every-stage.py](../solutions/10-every-stage.py) has all answers.
#
# **Next:** [11, softmax of a row](11-softmax-of-a-row.ipynb).
