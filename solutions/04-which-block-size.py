# %% [markdown]
# # 04 · What a call compiles, and which block
#
# The first call of a kernel takes a second, the next one microseconds, and then some other call is
# slow again. And is a bigger block faster? The answer to the first is in what the compiler was
# told, and to the second in the registers that it used.
#
# **By the end you can** say which calls share a compiled kernel and which ones compile again, and
# why a block can be too large.
#
# **You need** notebooks {vector-add} and {three-in-one}.
#
# | section | about minutes |
# |---|---|
# | What the compiler is told | 6 |
# | Is a bigger block faster? | 15 |
# | Beginning and end | 6 |
# | **Together, an estimate** | 27 |
# | Stretch exercises, for those with time left | 10 |

# %%
from course import DEVICE, check, draw, explore, hint, lower, recorded, specialize
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


# %% [markdown]
# ## What the compiler is told
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
# mask as a whole, or outside as a whole, so one instruction can load all four. Divisible by 4 would
# do, but 16 is the only number that Triton asks about: 16 elements for a length, and 16 bytes for a
# pointer, which are four float32.
#
# **Predict:** which of these four calls can use the kernel that was compiled for the call above?
#
# <details>
# <summary>Answer</summary>
#
# Only the first, since 98,448 is a multiple of 16 too. `x[1:]` begins 4 bytes after an aligned
# address, so its elements cannot be loaded four at a time. Each of the other three calls compiles
# once, and is quick from then on.
#
# </details>

# %% tags=["nbval-check-output"]
first = specialize(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024)
print("n = 98,448:", specialize(add_kernel, x, x, x, 98448, BLOCK_SIZE=1024) == first)
print("n = 98,433:", specialize(add_kernel, x, x, x, 98433, BLOCK_SIZE=1024) == first)
print("x[1:]:     ", specialize(add_kernel, x[1:], x, x, 98432, BLOCK_SIZE=1024) == first)
print("BLOCK_SIZE:", specialize(add_kernel, x, x, x, 98432, BLOCK_SIZE=512) == first)

# %% [markdown]
# One more case may surprise you: what happens to `n_elements` when it is 1?

# %% tags=["nbval-check-output"]
specialize(add_kernel, x, x, x, 1, BLOCK_SIZE=1024)

# %% [markdown]
# It became a constant, as if you had written 1 in the kernel. Triton does this for the sake of
# strides, which are often 1; notebook {two-dimensions} has some.

# %% [markdown]
# ### Exercise {very-long-vector} · A very long vector (stretch)
#
# A vector of 3,000,000,000 elements is longer than a signed integer of 32 bits can count: that
# ends at 2^31 - 1. Which type does the compiler give to `n_elements` then? Answer with the type
# alone, as a string, in the way `specialize` writes it. For 98,432 it would be `"i32"`.

# %%
# exercise very-long-vector
answer = None
# about 1 line from here
answer = "i64"
# to here

# %%
check("very-long-vector", answer)

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
# ## Is a bigger block faster?
#
# We have used blocks of 1,024 all along. Would larger ones be better?
#
# **Predict:** 67 million elements, 4 warps per program, and a block size of 64, 1,024 or 32,768.
# For each, work out how many elements of `x` there are per thread. A register holds 4 bytes, and a
# thread has 255 of them at most: which of the three blocks does not fit?
#
# <details>
# <summary>Answer</summary>
#
# With 128 threads there are half an element, 8 and 256 elements of `x` for each, and the last do
# not fit.
#
# </details>

# %%
blocks = recorded("vector_add_blocks")
draw.speeds(blocks, series=["num_warps=1", "num_warps=4", "num_warps=16"])

# %% [markdown]
# Small blocks are slow: a program with little to do spends most of its time starting and stopping.
# In the middle there is a wide range where all are equally good.
#
# Then the curves fall, and some of them fall twice. Two things can be the reason.
#
# The first: a thread may need more than its 255 registers. What does not fit is **spilled**: it is
# kept in memory, and read back when it is needed. That is slow.
#
# The second: a multiprocessor holds several programs at once, as many as find room for their warps
# and registers, and works on one while another waits for memory. On an H200 it has 65,536 registers
# and places for 64 warps. The share of these places that is filled is the **occupancy**. If each
# program needs very many registers, only a few programs fit, and there may be no warp that can work
# while the others wait.
#
# The compiler says both. `lower` compiles a kernel without launching it, and notebook
# {who-holds-what} is about what comes out. Here are six points of the plot.

# %%
pointers = ["*fp32:16"] * 3
for warps, block in ((4, 1024), (4, 8192), (4, 16384), (4, 32768), (16, 16384), (16, 32768)):
    sizes = {"BLOCK_SIZE": block, "num_warps": warps}
    used = lower(add_kernel, *pointers, "i32:16", **sizes, target="H200").resources
    speed = blocks.at(f"num_warps={warps}", block).tb_s
    print(f"{warps:2} warps, {block:6}: {speed:.2f} TB/s, {used.registers:3} registers,", end=" ")
    print(f"{used.spill_bytes:5,} bytes spilled, occupancy {used.occupancy:.0%}")

# %% [markdown]
# ### Exercise {which-fall} · Which fall is which? (core)
#
# Three of these points are slower than the best: 4 warps at 16,384, 4 warps at 32,768, and 16 warps
# at 32,768. Which of the falls come from spilling? Answer with a letter.
#
# - **a** All three: more than 100 registers per thread are too many.
# - **b** Only 4 warps at 32,768. The other two lack warps.
# - **c** 4 warps at 32,768 and 16 warps at 32,768, since both spill.
# - **d** None of them. An occupancy of 100 % with 4 warps at 32,768 says that nothing is missing.

# %%
# exercise which-fall
answer = None
# about 1 line from here
answer = "b"
# to here

# %%
check("which-fall", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# One register holds 4 bytes. How many registers of a thread are spilled at each point?
#
# </details>

# %% [markdown]
# So the curve of 4 warps falls twice. First gently: at 16,384 a thread needs 235 registers, so only
# two programs, which are 8 warps of 64, fit on a multiprocessor. Too few of them are ready while
# others wait for memory, and that costs 13 %. With 16 warps at 32,768, one program takes all 65,536
# registers (128 * 512 threads), so no other program can work while it waits. At 8,192 with 4 warps
# the occupancy is 25 % as well, but four programs share the multiprocessor and cover for one
# another. Then it falls off a cliff: at 32,768 the values do not fit any more, and each thread
# writes nearly six thousand bytes to memory and reads them back. The occupancy is 100 % again (with
# nearly everything in memory, 32 registers are enough), and the kernel is the slowest of all. 1,024
# with 4 warps is a safe choice.
#
# You can also look at what the compiler made of your kernel. Run the cell, then hover over the line
# that loads `x`: what became of it in PTX, an assembly language of NVIDIA's, lights up too.
# (`sm_90` is NVIDIA's name for the generation of the H100 and H200.) Notebook {who-holds-what}
# teaches you to read that.

# %%
x = torch.empty(98432, device=DEVICE)
explore(add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, target="sm_90", stages=["ptx"])

# %% [markdown]
# ## What you can do now
#
# You know why the first call is slow, which later calls are slow again, and what bounds the size
# of a block. Ask yourself:
#
# 1. At `n` = 98,432 one instruction of `add_kernel` loads four elements. At 98,433 it takes four
#    instructions. What did Triton tell the compiler in one case and not in the other?
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
# [solutions/04-which-block-size.py](../solutions/04-which-block-size.py) has all answers.
#
# **Next:** [05, two dimensions: tiles and strides](05-two-dimensions.ipynb).
