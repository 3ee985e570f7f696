# %% [markdown]
# # 11 · Softmax of a row
#
# Every attention layer contains a softmax, and so does the loss of every classifier. It is the first
# operation of this course in which each element of the result depends on a whole row.
#
# There is something to gain, too: on rows of 8,192 bfloat16, PyTorch's softmax was recorded at a
# quarter of the copy roof of an H200. The kernel that you write here, with 8 warps per program,
# reaches 97 % there.
#
# **By the end you can** reduce rows with the right neutral element, write softmax with one row per
# program, and keep offsets right beyond 2^31 elements.
#
# **You need** notebooks {programs-that-share} and {why-is-it-slow}.
#
# | section | about minutes |
# |---|---|
# | What softmax costs | 10 |
# | Reduce a row | 30 |
# | One row per program | 30 |
# | Beginning and end | 4 |
# | **Together, an estimate** | 74 |

# %% tags=["runs-here"]
from course import DEVICE, check, cost, hint, lower, matrices, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## What softmax costs
#
# Softmax turns the numbers of a row into shares that are above 0 and add up to 1:
#
# `softmax(x)[i] = exp(x[i]) / (exp(x[0]) + exp(x[1]) + …)`
#
# Written down like that, it fails for quite ordinary numbers.
#
# **Predict:** what does the formula give in float32 for the row `[1000, 1001]`?
#
# <details>
# <summary>Answer</summary>
#
# NaN. `exp(1000)` is far more than the largest float32, about 3.4e38, so it becomes infinity, and
# infinity over infinity is NaN.
#
# </details>

# %% tags=["nbval-check-output", "runs-here"]
x = torch.tensor([1000.0, 1001.0])
print("plain:", (torch.exp(x) / torch.exp(x).sum()).tolist())
shifted = torch.exp(x - x.max())
print("safe: ", [round(share, 4) for share in (shifted / shifted.sum()).tolist()])

# %% [markdown]
# The second line shows the way out: subtract the row's maximum `m` first. That changes nothing,
# because `exp(x - m)` is `exp(x) * exp(-m)`. The factor `exp(-m)` stands in the numerator and in
# each term of the sum, so it cancels. And now the largest exponent is 0: nothing can overflow.
#
# Here it is in PyTorch, one step per line. Each line is a kernel of its own, which reads its
# inputs from memory and writes its result there.
#
# **Predict:** how often is a whole matrix read, and how often is one written? How few would be
# enough? (The maxima and the sums are one number per row, so leave them out.)
#
# <details>
# <summary>Answer</summary>
#
# Five are read: by the maximum, the subtraction, the exponential, the sum and the division. Three
# are written. That makes eight trips through memory where two would do: read `x` once, and write
# the result once. For 2^26 float32, a trip is 268 MB, which takes 63 microseconds at 4.25 TB/s.
# Eight take about 505, two about 126.
#
# </details>


# %% tags=["nbval-check-output", "runs-here"]
def softmax_in_steps(x):
    largest = x.max(dim=1, keepdim=True).values
    shifted = x - largest
    power = torch.exp(shifted)
    total = power.sum(dim=1, keepdim=True)
    return power / total


x = torch.randn(64, 1000, device=DEVICE)
print(torch.allclose(softmax_in_steps(x), torch.softmax(x, dim=1)))

# %% [markdown]
# So fusing the five lines into one kernel can be four times as fast. All it takes is that a
# program keeps its row while it computes.

# %% [markdown]
# ## Reduce a row
#
# Softmax needs the maximum of a row and a sum over it. An operation that makes one number of many
# is a **reduction**. `tl.sum(x, axis=0)` reduces a block to one number, and so do `tl.max` and
# `tl.min`. For a tile, `axis=1` reduces each of its rows.
#
# The number of lanes of a block is a power of two, and a row can have any length, so some lanes
# have no element. Where each lane computes for itself, a mask on the store takes care of that. A
# reduction takes *every* lane, masked or not. So a lane without an element must hold a number that
# does not change the result: the **neutral element** of the operation. For a sum it is 0.
#
# What is it for a maximum? Zero seems natural. The next cell tries three candidates on the row
# -1, -2, -3, -4, -5, in a block of 8 lanes.
#
# **Predict:** what are the three maxima?
#
# <details>
# <summary>Answer</summary>
#
# 0, -1 and -1. The right one is -1, and with `other=0.0` the three masked lanes win. -3 comes out
# right here only because the row has an element above it. The neutral element of the maximum is
# -inf, since nothing is below it. A number such as -1e30 will not do: attention masks whole rows
# with -inf, and their maximum is below it.
#
# </details>


# %% tags=["runs-here"]
@triton.jit
def max_kernel(x_ptr, out_ptr, n, OTHER: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=OTHER)
    tl.store(out_ptr, tl.max(x, axis=0))


# %% tags=["nbval-check-output", "runs-here"]
x, out = -torch.arange(1.0, 6.0, device=DEVICE), torch.empty(1, device=DEVICE)
for other in (0.0, -3.0, float("-inf")):
    max_kernel[(1,)](x, out, 5, OTHER=other, BLOCK=8)
    print(f"other={other}: {out.item()}")

# %% [markdown]
# ### Exercise {row-sums} · Row sums (core)
#
# `out[m]` is the sum of row `m` of a float32 matrix whose rows are `stride_xm` elements apart, and
# whose columns lie side by side. The exercise launches one program per row, and `BLOCK_N` is a
# power of two that is not below `n_cols`. In PyTorch: `x.sum(dim=1)`.


# %% tags=["runs-here"]
# exercise row-sums
@triton.jit
def row_sum_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0)
    # about 3 lines from here
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))
    # to here


# %% tags=["runs-here"]
check("row-sums", row_sum_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Row `m` begins at `m * stride_xm`, which need not be `m * n_cols`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# What must a lane without an element hold, so that the sum stays the same?
#
# </details>

# %% [markdown]
# ### Exercise {row-maxima} · Row maxima (core)
#
# The same for the largest element of each row. A row may hold -inf, and the most negative numbers
# that float32 has, about -3.4e38. In PyTorch: `x.max(dim=1).values`.


# %% tags=["runs-here"]
# exercise row-maxima
@triton.jit
def row_max_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0)
    # about 3 lines from here
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=float("-inf"))
    tl.store(out_ptr + row, tl.max(x, axis=0))
    # to here


# %% tags=["runs-here"]
check("row-maxima", row_max_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# What does a lane without an element count as, when all the others are below zero?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `float("-inf")` may be written in a kernel.
#
# </details>

# %% [markdown]
# ## One row per program
#
# Now you have all the parts. A program loads its row once, keeps it in registers through the
# maximum, the exponential and the sum, and stores it once.
#
# Two things to look at. The kernel converts to float32 right after the load, whatever the input
# is, and the store rounds once. And after the load there is no mask until the store: a lane
# without an element holds -inf, and `exp(-inf)` is 0, which is neutral for the sum that follows.


# %% tags=["runs-here"]
@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=float("-inf")).to(tl.float32)
    shifted = x - tl.max(x, axis=0)
    power = tl.exp(shifted)
    tl.store(out_ptr + row * n_cols + cols, power / tl.sum(power, axis=0), mask=mask)


def softmax(x):
    x = x if x.stride(1) == 1 else x.contiguous()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(x.shape[1])
    if x.numel():
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK_N=block_n)
    return out


# %% [markdown]
# Is it right? One thing about the comparison: `x - m` is rounded before `exp` sees it, and an error
# of 1e-6 there is a relative error of 1e-6 in the result. The further `x` lies below `m`, the
# larger the difference is, and the larger its rounding error. So tiny shares have more than
# float32's own rounding error, and `absolute` allows an error of 1e-10 on top.

# %% tags=["runs-here"]
result = verify(softmax, lambda x: torch.softmax(x, dim=-1), cases=matrices(), absolute=1e-10)
print(result)
assert result.right

# %% [markdown]
# ### Why `.to(tl.int64)`?
#
# The first line of the kernel converts the program's number to 64 bits. No earlier kernel did
# that, so is it needed? Take the output of a language model for 65,536 positions, with one column
# for each of 50,257 tokens. That is a matrix of 3.3 billion elements, 6.6 GB in bfloat16, which is
# not unusual. The program's number and the stride both fit 32 bits easily. What about their
# product?
#
# An integer of 32 bits ends at 2^31 - 1 = 2,147,483,647, and 2^31 / 50,257 is 42,730.04.
#
# **Predict:** what are the offsets of rows 42,730 and 42,731 in 32 bits?
#
# <details>
# <summary>Answer</summary>
#
# Row 42,730 still fits. Row 42,731 does not: the product wraps around and comes out negative. The
# kernel would read two billion elements *before* the tensor, which on a GPU ends in an illegal
# memory access, or, if that memory is somebody's, in wrong numbers.
#
# </details>

# %% tags=["nbval-check-output", "runs-here"]
rows = torch.tensor([42_730, 42_731], dtype=torch.int32)
print("in 32 bits:", (rows * 50_257).tolist())
print("in 64 bits:", (rows.long() * 50_257).tolist())

# %% [markdown]
# Why doesn't the compiler take care of it? It goes by types. A stride of 50,257 fits 32 bits, so it
# arrives as an int32 (notebook {which-block-size}), the program's number is an int32 as well, and
# the product of two int32 is an int32. Once one of the two is an int64, the other is extended, and
# so is the product. You can see it in TTIR: `arith.extsi` extends a number, and `arith.muli … :
# i64` multiplies in 64 bits.

# %% tags=["nbval-check-output"]
x = torch.randn(512, 1024, device=DEVICE)
s = lower(softmax_kernel, x, torch.empty_like(x), 1024, 1024, BLOCK_N=1024, target="sm_90")
print(s.follow("x = tl.load", "ttir"))

# %% [markdown]
# Convert *before* you multiply: afterwards the upper bits are lost. And convert the program's
# number, not the offsets of the columns. Then each tensor costs a program one wider multiplication,
# and `cols` stays a block of 32-bit numbers. Tests on small matrices never find a product that is
# too narrow, so make it a habit wherever a row or a matrix is multiplied by a stride.

# %% [markdown]
# ### What it costs
#
# **Predict:** how many bytes do 512 rows of 1,000 float32 move? And how many exponentials are
# computed, if the masked lanes count too?
#
# <details>
# <summary>Answer</summary>
#
# Each element is read once and written once: 2 x 512 x 1,000 x 4 = 4,096,000 bytes. The block has
# 1,024 lanes, so there are 512 x 1,024 = 524,288 exponentials.
#
# </details>

# %%
x = torch.randn(512, 1000, device=DEVICE)
args = (x, torch.empty_like(x), 1000, 1000)
cost(softmax_kernel, (512,), *args, BLOCK_N=1024, target="H200")

# %% [markdown]
# Exponentials have a line of their own, "special functions". A unit of its own computes them: each
# multiprocessor delivers 16 results per cycle, beside 256 plain operations. (256 holds for a
# multiplication joined with the addition that follows it, which counts as two; of maxima or plain
# sums there are 128.) The exponentials would take 125 ns here, and the bytes take 853: memory is what binds.
#
# No sector is wasted, so is all well? Remember the other question of notebook {who-holds-what}: are
# the loads wide?
#
# **Predict:** the block of 1,024 is shared by 128 threads. How many loads does a thread make for
# rows of 1,000 columns, and how many for rows of 1,024?
#
# <details>
# <summary>Answer</summary>
#
# 8 and 2. A thread holds 8 elements, and a wide load fetches four float32. Two things must hold for
# that: every row begins at a multiple of 16 bytes, and the mask does not end within a group of
# four. The compiler concludes the first from the stride and the second from the width, where 16
# divides them. 16 divides 1,024, and does not divide 1,000.
#
# </details>

# %% tags=["nbval-check-output"]
for n in (1000, 1008, 1024):
    rows = torch.empty(512, n, device="meta")
    s = lower(softmax_kernel, rows, rows, n, n, BLOCK_N=1024, target="sm_90")
    loads, wide = (s.counts["ptx"][name] for name in ("global loads", "vectorized global loads"))
    print(f"{n} columns: {loads} loads per thread, {wide} of them wide")
    print("   ", s.layouts["x"].attribute)

# %% [markdown]
# For 1,000 columns the layout has `sizePerThread = [1]`, and every load is narrow. The bytes and
# sectors are the same, so `cost` does not see it, but a program issues four times as many load
# instructions. 8 does divide 1,000, but nobody told the compiler. The finished kernel tells it, and
# in one of the tasks at the end you do the same.

# %% [markdown]
# ### Exercise {log-softmax} · Log-softmax (core)
#
# Store the natural logarithm (`tl.log`) of softmax, for float32 rows whose numbers may lie ten
# thousand apart, or near -3.4e38, where float32 ends. Rows of `x` are `stride_xm` elements apart,
# and `out` is contiguous. The exercise launches one program per row. In PyTorch:
# `torch.log_softmax(x, dim=1)`.


# %% tags=["runs-here"]
# exercise log-softmax
@triton.jit
def log_softmax_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=float("-inf"))
    # about 3 lines from here
    shifted = x - tl.max(x, axis=0)
    out = shifted - tl.log(tl.sum(tl.exp(shifted), axis=0))
    tl.store(out_ptr + row * n_cols + cols, out, mask=cols < n_cols)
    # to here


# %% tags=["runs-here"]
check("log-softmax", log_softmax_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The logarithm of a finished softmax will not do: `exp(-10000)` is 0 in float32, and its logarithm
# is -inf. The result must be -10000.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `log(a / b)` is `log(a) - log(b)`, and `log(exp(a))` is `a`.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Make the loads of `softmax_kernel` wide for 1,000 columns. A promise about a parameter is lost,
#   as you know from notebook {who-holds-what}. But if `n_cols` is a multiple of 8, `n_cols // 8 *
#   8` is the same number, and the compiler sees that 8 divides it. Do the same with `stride_xm`.
#   `lower` tells whether it worked.
#
# ## What you can do now
#
# You can reduce rows, with lanes that hold the neutral element where there is no element, and write
# a softmax that moves each element twice. Ask yourself:
#
# 1. A kernel is right for `[1000, 1000]` and gives an illegal memory access for `[100000, 50000]`.
#    What do you look at first?
#
# <details>
# <summary>Answer</summary>
#
# At products of a row and a stride: 100,000 x 50,000 is 5 billion, and 32 bits end at 2.1 billion.
# Is one of the factors converted to int64 *before* the multiplication?
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/11-softmax-of-a-row.py](../solutions/11-softmax-of-a-row.py) has all answers.
#
# **Next:** [12, two running numbers](12-two-running-numbers.ipynb).
