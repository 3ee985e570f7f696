# %% [markdown]
# # 14 · An operator that a model can train with
#
# A kernel is not yet an operation of a model. A model wants a gradient, sums over the batch, and
# `torch.compile`. Here you write such a sum, and softmax gets a gradient and `torch.compile`.
#
# **By the end you can** add up what many programs hold, derive softmax's gradient, make an operator
# that a model can train with, and say when not to write a kernel.
#
# **You need** notebook {rows-of-any-width}.
#
# | section | about minutes |
# |---|---|
# | Sums over programs | 20 |
# | In a model | 10 |
# | When not to write one | 5 |
# | Beginning and end | 5 |
# | **Together, an estimate** | 40 |
# | Stretch exercises, for those with time left | 15 |

# %%
from course import DEVICE, MODE, check, draw, hint, lower, observed, recorded
from triton.language.extra import libdevice
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.


# %%
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
# ## Sums over programs
#
# Along its row, a program owns everything that it adds up. What about the sum of each *column*? The
# gradient of a bias is one. It takes one number from every row, and the rows belong to many
# programs, which run at the same time.
#
# The obvious attempt is that each program loads the total so far, adds its part and stores it.
# Notebook {nothing-complains} showed what happens: two programs load the same old total, and one of
# the two parts is lost. `tl.atomic_add` does the three steps as one, which no other program can
# interrupt.
#
# Two things to remember. The output must be zero before the first program adds to it. And the
# programs add in no particular order, so a float32 sum, where each addition rounds, may differ in
# its last digits from run to run.

# %% [markdown]
# ### Exercise {column-sums} · Column sums (core)
#
# `out[n]` is the sum of column `n` of a float32 matrix, contiguous or not. Write the kernel and the
# launcher, with tiles of 16 rows or more per program. In PyTorch: `x.sum(dim=0)`.


# %%
# exercise column-sums
@triton.jit
def column_sum_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    # about 3 lines from here
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0)
    tl.atomic_add(out_ptr + cols, tl.sum(x, axis=0), mask=cols < n_cols)
    # to here


def column_sum(x):
    x = x.contiguous()
    out = None
    # about 3 lines from here
    out = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 64))
    column_sum_kernel[grid](x, out, *x.shape, BLOCK_M=32, BLOCK_N=64)
    # to here
    return out


# %%
check("column-sums", column_sum)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Reduce the rows of the tile first, with `axis=0`. Then there is one atomic per column and program.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `torch.empty` holds whatever was there before.
#
# </details>

# %% [markdown]
# ## In a model
#
# A model that trains needs softmax's gradient as well. Call a row's softmax `p`, and let `d_out` be
# the upstream gradient, which arrives from the layers that come after it: `d_out[i]` says how much
# the loss grows if `p[i]` does. We need `dx[j]`, how much the loss grows if `x[j]` does.
#
# Each share depends on every `x[j]`, since all of them stand in the sum. Write `S` for that sum, so
# `p[i] = exp(x[i]) / S`, and take the derivative of the quotient:
#
# ```
# for i = j     (exp(x[i]) * S - exp(x[i]) * exp(x[i])) / S^2  =  p[i] - p[i] * p[i]
# for i ≠ j     (0 * S         - exp(x[i]) * exp(x[j])) / S^2  =       - p[i] * p[j]
# ```
#
# If `x[j]` grows, its own share grows, and every other one shrinks to make room. Now add up over
# all shares what that does to the loss:
#
# ```
# dx[j] = sum over i of d_out[i] * (derivative of p[i] by x[j])
#       = d_out[j] * p[j]  -  sum over i of d_out[i] * p[i] * p[j]
#       = p[j] * (d_out[j] - sum over i of d_out[i] * p[i])
# ```
#
# The last sum is one number per row. So the gradient takes two inputs, a reduction and some
# arithmetic: a kernel like those that you have written.

# %% [markdown]
# ### Exercise {softmax-backwards} · Softmax backwards (stretch)
#
# Write it for contiguous float32 rows, where `out` is the softmax: `dx = out * (d_out - s)`, with
# `s` the row's sum of `out * d_out`. The exercise launches one program per row.


# %%
# exercise softmax-backwards
@triton.jit
def softmax_backward_kernel(out_ptr, d_out_ptr, dx_ptr, n_cols, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    offsets = tl.program_id(axis=0).to(tl.int64) * n_cols + cols
    # about 4 lines from here
    out = tl.load(out_ptr + offsets, mask=mask, other=0.0)
    d_out = tl.load(d_out_ptr + offsets, mask=mask, other=0.0)
    dx = out * (d_out - tl.sum(out * d_out, axis=0))
    tl.store(dx_ptr + offsets, dx, mask=mask)
    # to here


# %%
check("softmax-backwards", softmax_backward_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# It is `softmax_kernel` with two loads, and a sum in place of the maximum.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# What must a lane without an element add to the sum?
#
# </details>

# %% [markdown]
# How does a kernel get into a model? You could simply call the launcher. But PyTorch sees no
# operation there, so no gradient comes back. An **operator** is a function that PyTorch knows by
# name, with types for what it takes and returns, and you can register yours as one.
#
# Read the next cell with this in mind. `torch.library.triton_op` registers a launcher.
# `mutates_args=()` promises that it changes none of its arguments. `wrap_triton` marks the launch,
# so that `torch.compile` can look into the operator and keep the Triton kernel as it is. (It takes
# compiled kernels only, so in CPU mode the launch goes without it.)
#
# Where PyTorch cannot or should not look into a launcher, `torch.library.custom_op` takes it as a
# closed box. Then you also write a function that says what shape and dtype come out, under
# `register_fake`.

# %%
wrap = torch.library.wrap_triton if MODE.gpu else lambda kernel: kernel


@torch.library.triton_op("course::softmax", mutates_args=())
def softmax_op(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    block_n = triton.next_power_of_2(x.shape[1])
    wrap(softmax_kernel)[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK_N=block_n)
    return out


# %% [markdown]
# The gradient takes two functions. PyTorch calls the first after the forward pass, with an object
# `ctx` that it keeps until the backward pass: there you save what the gradient needs, here only
# the output. It calls the second with that `ctx` and with `d_out`. (What stands in `backward` is
# PyTorch's arithmetic. Your kernel of {softmax-backwards} does the same in one launch.)


# %%
def setup_context(ctx, inputs, output):
    ctx.save_for_backward(output)


def backward(ctx, d_out):
    (out,) = ctx.saved_tensors
    return out * (d_out - (out * d_out).sum(dim=1, keepdim=True))


softmax_op.register_autograd(backward, setup_context=setup_context)

# %% [markdown]
# Does the gradient agree with PyTorch's own? The weights below make a loss in which every share
# counts differently.

# %% tags=["nbval-check-output"]
x = torch.randn(8, 100, device=DEVICE, requires_grad=True)
weights = torch.randn(8, 100, device=DEVICE)
(softmax_op(x) * weights).sum().backward()
expected = torch.autograd.grad((torch.softmax(x, dim=1) * weights).sum(), x)[0]
print(torch.allclose(x.grad, expected, atol=1e-6))

# %% [markdown]
# One agreement proves little about the registration itself. `torch.library.opcheck` looks at that:
# whether the operator changes what it promised not to change, and whether the gradient is
# registered so that PyTorch finds it. (Called without `test_utils` it also traces the operator,
# with tensors that have no data, which takes a compiled kernel.)

# %% tags=["nbval-check-output"]
tests = ("test_schema", "test_autograd_registration")
print(torch.library.opcheck(softmax_op, (x,), test_utils=tests))

# %% [markdown]
# On a GPU, `torch.compile` now takes the operator into a larger function without stopping at it,
# which `fullgraph=True` insists on. In CPU mode the function runs as it is.


# %%
def doubled(x):
    return 2 * softmax_op(x)


x = torch.randn(8, 100, device=DEVICE)
run = torch.compile(doubled, fullgraph=True) if MODE.gpu else doubled
print(torch.allclose(run(x), 2 * torch.softmax(x, dim=1)))

# %% [markdown]
# ## When not to write one
#
# `torch.compile` writes Triton too. This is its kernel for the softmax of 8,192 rows of 8,192
# bfloat16, as it was recorded, or in GPU mode as your own PyTorch writes it. Look for the two
# loops. Which two variables does the first one carry along?

# %%
print(observed().softmax_by_compile)

# %% [markdown]
# They are `_tmp3_max` and `_tmp3_sum`: your online normalizer, with maximum and sum in one sweep,
# and a second sweep that reads the row again and writes. One thing is different. It keeps a maximum
# and a sum for *every lane* of the block, and merges them after the loop, as you merged two halves.
# Its masked lanes hold 0, which is not neutral for a maximum; that does no harm, because after each
# tile `tl.where(r0_mask, …)` leaves the two numbers of such lanes as they were. (For narrow rows it
# writes another kernel, with the row in registers.)
#
# Here is its speed, relative to that of the finished kernel.

# %%
compared = ["softmax", "torch.compile", "torch", "copy"]
draw.speeds(recorded("softmax_bfloat16"), series=compared, relative_to="softmax")

# %% [markdown]
# Up to 1,024 columns it is nearly as fast, within about 12 % (except at 781, an odd width), and it
# joins the softmax with whatever stands before and after, which yours does not. There, write no
# kernel.
#
# Beyond that the finished kernel is about 2 to 2.8 times as fast. Is the second sweep to blame? Not
# mainly: `softmax_v3` makes two sweeps as well, and is more than twice as fast as `torch.compile`
# at 8,192 columns. Count the exponentials. Where every lane has a maximum of its own, every lane
# corrects its own sum as well, at every element. So this kernel takes three per element:
# `online_softmax_combine` takes one for the new term and one for the correction, and the second
# sweep takes another. `online_kernel` takes two, one in each sweep. And `torch.compile` takes them
# from `libdevice`, which is more exact and costs more.


# %%
@triton.jit
def exponential_kernel(x_ptr, EXACT: tl.constexpr):
    x_ptrs = x_ptr + tl.arange(0, 1024)
    x = tl.load(x_ptrs)
    y = libdevice.exp(x) if EXACT else tl.exp(x)
    tl.store(x_ptrs, y)


# %% tags=["nbval-check-output"]
for name, exact in (("tl.exp", False), ("libdevice.exp", True)):
    s = lower(exponential_kernel, "*fp32:16", EXACT=exact, target="sm_90")
    sass = s.follow("y = libdevice.exp(x)", "sass").stages["sass"]
    print(f"{name:13}: {len(sass) // 8} instructions for each of a thread's 8 elements")

# %% [markdown]
# The speeds say the same. From 2,048 to 16,384 columns `torch.compile` gets through about as many
# elements per second in float32 as in bfloat16, although float32 has twice the bytes. So arithmetic
# is its limit, and not the bytes. The finished kernel is limited by bytes and handles half as many
# float32, so in float32 `torch.compile` comes closer to it. PyTorch's own softmax does well in
# float32, too, from 128 to 2,048 columns. Measure what you want to replace first: in the same run,
# at your own sizes and in your own dtype.

# %% [markdown]
# ## What you can do now
#
# You can turn a kernel into an operator with a gradient, and you know when a kernel is not worth
# it. Could you explain both to a colleague?

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/14-an-operator.py](../solutions/14-an-operator.py) has all answers.
#
# **Next:** [15, a matrix product](15-matrix-product.ipynb).
#
# ## Further reading
#
# - *Custom Triton kernels* in PyTorch's documentation: `triton_op`, `wrap_triton` and
#   `register_autograd`
