# %% [markdown]
# # 07 · Programs that share: two kernels fused, races
#
# In most kernels so far each program had its own elements, and nobody else touched them. Here
# several kernels and several programs want the same memory. First you save the trips to memory
# between two kernels. Then two programs get in each other's way.
#
# **By the end you can**
#
# - say in bytes what fusing two kernels saves, and write a fused kernel of your own,
# - find a race between two programs, and fix it.
#
# **You need** notebooks {three-in-one} and {two-dimensions}.
#
# | section | about minutes |
# |---|---|
# | One kernel for two | 35 |
# | When programs get in each other's way | 30 |
# | Beginning and end | 5 |
# | **Together, an estimate** | 70 |

# %% tags=["runs-here"]
from course import DEVICE, MODE, bench, check, draw, hint, matrices, recorded, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## One kernel for two
#
# A layer of a network often ends in `gelu(x + bias)`, with one bias for each column. (GELU is a
# smooth function that leaves large positive numbers as they are and takes large negative ones to
# zero; exercise {bias-and-gelu} has the formula.) PyTorch runs that as two kernels: the first adds,
# the second applies GELU. The sum goes out to memory in between and comes back at once. You know
# what that costs: count the bytes.
#
# **Predict:** `x` is 65,536 x 4,096 float32. How many bytes do the two kernels move, and how many
# would one kernel move that does both?
#
# <details>
# <summary>Answer</summary>
#
# `x` has 268 million elements, so going through it once is 1.07 GB. Two kernels go through four
# times: read `x`, write the sum, read the sum, write the result. One kernel does it twice. The
# bias is 16 KB; it stays in the cache and does not count.
#
# </details>

# %% tags=["nbval-check-output", "runs-here"]
elements = 65536 * 4096
two_kernels = 4 * 4 * elements  # read x, write the sum; read the sum, write the result
one_kernel = 2 * 4 * elements  # read x, write the result
print(f"{two_kernels / 1e9:.1f} GB against {one_kernel / 1e9:.1f} GB")

# %% [markdown]
# Half the bytes should take half the time: that is what fusing gains, as you saw for the gate in
# notebook {three-in-one}. Here it is on a larger scale: one fused kernel (`bias_gelu`), the same as
# two kernels (`bias_gelu_v1`), and PyTorch's two, as recorded. For every version the plot divides
# the bytes that one kernel moves by the time. Two kernels move twice as many, so even at full speed
# they come out at half.

# %%
speeds = recorded("bias_gelu")
draw.speeds(speeds)

# %% [markdown]
# For the largest matrix the fused kernel reaches 94 % of the copy roof and our two kernels 48 %,
# about half of that, as counted. PyTorch's two come to 40 %. No arithmetic was saved. The same
# holds for every chain of element-wise operations: fusing it saves the trips to memory in between.
#
# Is memory always the limit, then? In bfloat16 there are half as many bytes.
#
# **Predict:** the float32 kernel takes 536 microseconds. If bytes were all that counts, how long
# would the bfloat16 kernel take?
#
# <details>
# <summary>Answer</summary>
#
# Half as long, 268 microseconds. It takes 382, and is far from the copy roof. GELU needs the error
# function, `erf`, and with it the kernel takes some forty instructions per element, which are
# computed in float32 either way. With half the bytes, the arithmetic takes longer than the
# memory. Every kernel needs a time for its bytes and a time for its arithmetic, and the longer of
# the two decides.
#
# </details>

# %%
halves = recorded("bias_gelu_bfloat16")
for each in (speeds, halves):
    timing = each.at("bias_gelu", 65536)
    share = timing.tb_s / each.copy_tb_s
    print(f"{each.x_name}: {timing.ms * 1e3:.0f} us, {share:.0%} of the copy roof")

# %% [markdown]
# ### Exercise {bias-and-gelu} · Bias and GELU in half precision (core)
#
# Now your own. Compute `gelu(x + bias)` for a contiguous float16 or bfloat16 matrix `x` and a
# `bias` of its width, in one kernel. Compute in float32, and round once, when the result is
# stored. GELU is `t / 2 * (1 + erf(t / sqrt(2)))`, with `tl.erf`. In PyTorch:
# `torch.nn.functional.gelu(x + bias)`.


# %% tags=["runs-here"]
# exercise bias-and-gelu
@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]
    # about 5 lines from here
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    bias = tl.load(bias_ptr + cols, mask=cols < n_cols).to(tl.float32)
    t = tl.load(x_ptr + offsets, mask=mask).to(tl.float32) + bias[None, :]
    gelu = t / 2 * (1 + tl.erf(t * 0.7071067811865476))
    tl.store(out_ptr + offsets, gelu, mask=mask)
    # to here


def bias_gelu(x, bias):
    out = torch.empty_like(x)
    # about 2 lines from here
    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))
    bias_gelu_kernel[grid](x, bias, out, *x.shape, BLOCK_M=32, BLOCK_N=32)
    # to here
    return out


# %% tags=["runs-here"]
check("bias-and-gelu", bias_gelu)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `.to(tl.float32)` right after each load. The store converts back by itself.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# One number of the bias for each column: load a block of `BLOCK_N`, and give it the shape of a
# row.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# `1 / sqrt(2)` is 0.7071067811865476. Write the number, and no root has to be computed.
#
# </details>

# %% [markdown]
# You have written a fused kernel. Two things are left to do with any kernel of your own: verify
# it on more cases than the exercise has, and time it. Your kernel counts on contiguous matrices,
# so others are copied first.
#
# Why `absolute=1e-6`? For a number `t` far below 0, `erf` is nearly -1, so `1 + erf(…)` subtracts two
# nearly equal numbers, and little more than rounding is left. That is about 1e-7, which is nothing
# beside most results, and much beside a result that is itself about 1e-6. So each element may be
# off by that much, whatever its size. (As long as exercise {bias-and-gelu} is open, `verify` says
# that nothing was written.)


# %% tags=["runs-here"]
def mine(x, bias):
    return bias_gelu(x.contiguous(), bias)


def by_torch(x, bias):
    return torch.nn.functional.gelu(x + bias)


cases = matrices(with_row=True, dtypes=(torch.float16, torch.bfloat16))
result = verify(mine, by_torch, cases=cases, absolute=1e-6)
print(result)

# %% [markdown]
# With a GPU, the next cell times your kernel beside PyTorch's two and a copy. Without one, or
# until yours is right, it shows what the course's own reached.

# %%
timed = MODE.gpu and result.right
speeds = bench(mine, like="bias_gelu_bfloat16") if timed else recorded("bias_gelu_bfloat16")
draw.speeds(speeds)

# %% [markdown]
# ## When programs get in each other's way
#
# Apart from the mistake in `rows_only_kernel`, and the totals and tickets of notebook
# {nothing-complains}, every program so far has stored to elements of its own and loaded only what
# no program stores to. That is why the order of the programs did not matter. The next kernel breaks
# this rule, and it is an easy rule to break.
#
# It smooths a matrix: each element becomes the mean of itself and the element above it. (Above
# row 0 there is nothing, which counts as 0.) To save memory, it stores the result over the input.


# %% tags=["runs-here"]
@triton.jit
def smooth_in_place_kernel(x_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + offsets, mask=mask)
    above = tl.load(x_ptr + offsets - n_cols, mask=mask & (rows[:, None] > 0), other=0.0)
    tl.store(x_ptr + offsets, (x + above) / 2, mask=mask)


# %% [markdown]
# To see what happens, let row `r` hold the number `r` everywhere. Then row `r` should become
# `r - 0.5`, and row 0 stays 0.
#
# **Predict:** with two tiles of 4 rows, one below the other, which row can come out wrong? In the
# interpreter, where program 0 runs to its end first, what does it become?
#
# <details>
# <summary>Answer</summary>
#
# Row 4. It is the first row of the second tile and needs row 3, which belongs to the first
# program. That one has already stored 2.5 there, so row 4 becomes (4 + 2.5) / 2 = 3.25 where it
# should be 3.5.
#
# </details>

# %% tags=["runs-here"]
x = torch.arange(8.0, device=DEVICE)[:, None].repeat(1, 4)  # row r holds r
smooth_in_place_kernel[(2, 1)](x, 8, 4, BLOCK_M=4, BLOCK_N=4)
print(x[:, 0].tolist())

# %% [markdown]
# This is a **race**: two programs touch the same element, at least one of them stores to it, and
# nothing says who comes first.
#
# What makes races so hard to find is that they need not show. On a GPU both programs may well
# start at the same moment and load before either has stored. Then the result is right, a thousand
# times in a row, and wrong on another GPU. So testing results is not enough. What helps is to ask
# of each load: could another program of this launch have stored there? In CPU mode `verify` asks
# that for you. It notes who stores and who loads what, and reports a race even if the values are
# right.


# %% tags=["runs-here"]
def smooth_in_place(x):
    out = x.clone(memory_format=torch.contiguous_format)
    grid = (triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 32))
    smooth_in_place_kernel[grid](out, *x.shape, BLOCK_M=16, BLOCK_N=32)
    return out


def smooth_by_torch(x):
    above = torch.nn.functional.pad(x, (0, 0, 1, 0))[:-1]
    return (x + above) / 2


print(verify(smooth_in_place, smooth_by_torch, cases=matrices(dtypes=(torch.float32,))))

# %% [markdown]
# ### Exercise {find-the-race} · Find the race, and fix it (core)
#
# First name the cause, with a letter:
#
# - **a** Two programs store to the same element, and the last one wins.
# - **b** A program loads elements that another program may have stored to already.
# - **c** The mask lets lanes through that lie below the last row.
# - **d** Row 0 has no row above it.
#
# Then write a kernel and a launcher `smooth(x)` that cannot race, for a contiguous float32
# matrix. `x` stays as it is.

# %% tags=["runs-here"]
# exercise find-the-race
cause = None
# about 1 line from here
cause = "b"
# to here


@triton.jit
def smooth_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    # about 3 lines from here
    x = tl.load(x_ptr + offsets, mask=mask)
    above = tl.load(x_ptr + offsets - n_cols, mask=mask & (rows[:, None] > 0), other=0.0)
    tl.store(out_ptr + offsets, (x + above) / 2, mask=mask)
    # to here


def smooth(x):
    out = torch.empty_like(x)
    # about 2 lines from here
    grid = (triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 32))
    smooth_kernel[grid](x, out, *x.shape, BLOCK_M=16, BLOCK_N=32)
    # to here
    return out


answer = cause, smooth

# %% tags=["runs-here"]
check("find-the-race", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Read the message of `verify` again: which program read, which one wrote, and what?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# No barrier helps here, and no atomic (an operation that reads and writes in one step): a barrier
# makes the warps of one program wait for one another, but never one program for another. If nobody
# stores to what is loaded, nobody needs to wait.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Fuse another chain: `torch.relu(x * scale + bias)` for a float32 matrix and two vectors of its
#   width. How many kernels is it in PyTorch, and how many bytes do they move for each element of
#   `x`? How many does yours? (Give `verify` a tolerance, `absolute=1e-6`: where the sum cancels,
#   its rounding errors stay.)
#
# ## In practice
#
# `torch.compile` fuses chains such as bias and GELU by itself, into Triton kernels like yours.
# Write your own where it does not: where a reduction, an unusual memory layout or a matrix
# product stands in between. The finished operation, for any strides and batches, is
# [kernels/bias_gelu.py](../kernels/bias_gelu.py).
#
# ## What you can do now
#
# You can fuse two kernels and predict the gain from the bytes, and recognize a program that reads
# what another one writes. Ask yourself:
#
# 1. Three element-wise kernels in a row, each of which reads one tensor and writes one. How much
#    faster can one fused kernel be, and when will it be less?
#
# <details>
# <summary>Answer</summary>
#
# Three times at most: 2 trips through memory in place of 6. It is less once the arithmetic takes
# longer than the two trips, or where the tensors are so small that starting a kernel is what
# takes the time (then saving two launches helps on its own).
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/07-programs-that-share.py](../solutions/07-programs-that-share.py) has all answers.
#
# **Next:** [08, who holds what: layouts and wide loads](08-who-holds-what.ipynb).
