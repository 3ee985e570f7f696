# %% [markdown]
# # 33 · An operation of your own
#
# Here you take one operation all the way, as you would one of your own: from a few lines of PyTorch to
# an operator that a model trains with. It is RMSNorm, which large language models apply twice in each
# layer. This notebook goes from the specification to a forward kernel that is right, counted and
# diagnosed, and to the gradient of its input.
#
# The exercises ask for the parts. Between them the notebook runs the course's own parts, which the
# import below calls `finished`, so that you can read on when one of yours does not work yet. Put yours
# in their place as soon as `check` has found them right.
#
# **You need** notebooks {an-operator} and {when-it-is-slow}.
#
# | section | about minutes |
# |---|---|
# | The specification | 7 |
# | The forward pass | 20 |
# | Count and diagnose | 10 |
# | The gradient on paper | 20 |
# | Beginning and end | 2 |
# | **Together, an estimate** | 59 |

# %%
from course import MODE, check, cost, diagnose, hint, matrices, verify
from kernels import rms_norm as finished
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## The specification
#
# RMSNorm divides each row by the root of the mean of its squares, and multiplies each column by a
# weight that the model learns:
#
# ```
# rstd[m]   = 1 / sqrt(mean(x[m] * x[m]) + eps)
# out[m, n] = x[m, n] * rstd[m] * weight[n]
# ```
#
# (`rstd` is short for "reciprocal of the standard deviation", a name that other norms have used for
# longer. `eps` is tiny. It keeps a row of zeros from being divided by zero.)
#
# In a model it is often spelled out, one step per line. That is your specification: it says
# what must come out, for which dtypes, and where a result is rounded.


# %%
def rms_norm_in_steps(x, weight, eps=1e-6):
    wide = x.float()
    squares = wide.square()
    rstd = torch.rsqrt(squares.mean(dim=-1, keepdim=True) + eps)
    normed = wide * rstd
    weighted = normed * weight
    return weighted.to(x.dtype)


# %% [markdown]
# Is it worth a kernel? Count before you write anything. Each line that handles a whole matrix is a
# kernel of its own: it reads its inputs from memory, and writes its result there. (`rstd` is one
# number per row, and the weight stays in the cache, so leave both out.)
#
# **Predict:** how many bytes per element do these lines move for an `x` in bfloat16, and how many
# would do?
#
# <details>
# <summary>Answer</summary>
#
# 40, and 4 would do: read `x` once and write the result once, with 2 bytes each. From the first
# line's result on everything has 4 bytes per element, until the last line writes 2, and the mean
# reads a matrix and writes next to nothing.
#
# </details>

# %% tags=["nbval-check-output"]
read = {"float": 2, "square": 4, "mean": 4, "normed": 4, "weighted": 4, "to": 4}
written = {"float": 4, "square": 4, "mean": 0, "normed": 4, "weighted": 4, "to": 2}
print(sum(read.values()) + sum(written.values()), "bytes per element, where", 2 + 2, "would do")

# %% [markdown]
# So a single kernel can be ten times as fast as the lines one by one. That is a bound and no
# promise: `torch.compile` fuses them too, and you will have to compare with that, not with the
# lines.
#
# The second thing to write before the kernel is the reference, which says what is right.
# `verify` gives it float64. Why not take the specification? Its first line turns float64 into
# float32, so the reference would be rounded like the kernel, and an error of the kernel's size
# would no longer show.


# %%
def rms_norm_reference(x, weight):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight


# %% [markdown]
# ## The forward pass
#
# The kernel is close to the softmax of notebook {softmax-of-a-row}: one program per row, the row in
# registers, one reduction. Three questions decide whether it is right:
#
# - Which number must a lane without an element hold, so that the sum of the squares stays the same?
# - The mean divides by a number of elements. Is that `n_cols` or `BLOCK_N`?
# - In which dtype are the squares added up, if `x` has 16 bits?
#
# It also stores `rstd`. Nobody asked for it, so why? The gradient needs it, as you will see. Four
# bytes per row save the backward pass a reduction over all of `x`.

# %% [markdown]
# ### Exercise {rms-norm-forward} · RMSNorm forward (core)
#
# Write the kernel, for `x` in float32 or float16. Rows are `stride_xm` elements apart, and those of
# `out` lie side by side. Compute in float32; a store rounds. `rstd_ptr` points to one float32 per
# row. The exercise launches one program per row, and `BLOCK_N` is a power of two that is not below
# `n_cols`. `check` looks at `out` and at `rstd`, which it puts beside `out` as one more column.


# %%
# exercise rms-norm-forward
@triton.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, stride_xm, eps, BLOCK_N: tl.constexpr
):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    # about 5 lines from here
    x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask).to(tl.float32)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask)
    # to here


# %%
check("rms-norm-forward", rms_norm_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Begin with the two loads, each with `.to(tl.float32)`. A masked lane of `x` adds its square to the
# sum.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `tl.sum(x * x, axis=0)` is one number per program. `eps` is added to the mean, under the root.
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# Two stores: `rstd` is one number and needs no mask, and the result has the mask of the loads.
#
# </details>

# %% [markdown]
# Now the launcher. It has types, since it is to become an operator: PyTorch reads there what the
# operator takes and returns. `wrap` is from notebook {an-operator}: on a GPU it marks the launch
# for `torch.compile`. Is your kernel right? Then write `kernel = rms_norm_kernel`.

# %%
kernel = finished.rms_norm_kernel_v2
wrap = torch.library.wrap_triton if MODE.gpu else lambda kernel: kernel


def forward(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    x, n_cols, out = x.contiguous(), x.shape[1], torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rstd = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if x.numel():
        sizes = {"n_cols": n_cols, "stride_xm": n_cols, "BLOCK_N": triton.next_power_of_2(n_cols)}
        wrap(kernel)[(x.shape[0],)](x, weight.contiguous(), out, rstd, eps=eps, **sizes)
    return out, rstd


# %% [markdown]
# Right or wrong comes first, before anything about speed. `matrices(with_row=True)` makes a matrix
# and a row for each of its cases: odd sizes, empty ones, strides, other dtypes, and NaN and
# infinities among the elements.

# %%
result = verify(
    lambda x, weight: forward(x, weight, 1e-6)[0], rms_norm_reference, matrices(with_row=True)
)
print(result)
assert result.right

# %% [markdown]
# ## Count and diagnose
#
# A batch of 8,192 tokens of a model with 4,096 columns, in bfloat16. Tensors on the device `meta`
# have sizes and no memory, so you can count a launch that you could never interpret.
#
# **Predict:** how many bytes does the launch load, and how many of them are distinct? Remember that
# each program loads the weight.
#
# <details>
# <summary>Answer</summary>
#
# `x` has 8,192 x 4,096 x 2 = 67,108,864 bytes. Each of 8,192 programs loads 8,192 bytes of weight,
# which are as many again: 134,217,728 in all. But the weights are always the same 8,192 bytes, so
# only 67,117,056 are distinct, and the rest comes from the cache.
#
# </details>

# %%
x = torch.empty(8192, 4096, dtype=torch.bfloat16, device="meta")
weight, rstd = x[0], torch.empty(8192, device="meta")
sizes = {"n_cols": 4096, "stride_xm": 4096, "eps": 1e-6, "BLOCK_N": 4096}
cost(kernel, (8192,), x, weight, x, rstd, **sizes, target="H200")

# %% [markdown]
# Memory binds, no sector is wasted, and nothing spills. Does `diagnose` see anything that you do
# not?

# %%
diagnose(kernel, (8192,), x, weight, x, rstd, **sizes, target="H200")

# %% [markdown]
# At this size there is nothing left that counting could find. Whether the kernel is done, only a
# measurement can say. Knowing this early saves an afternoon on warps and stages. But your users
# will have other sizes. Take the widest rows that somebody may ask for: 32,768 float32.

# %%
x = torch.empty(4096, 32768, device="meta")
weight, rstd = x[0], torch.empty(4096, device="meta")
wide = {"n_cols": 32768, "stride_xm": 32768, "eps": 1e-6, "BLOCK_N": 32768}
diagnose(kernel, (4096,), x, weight, x, rstd, **wide, target="H200")

# %% [markdown]
# Four warps are 128 threads, and 32,768 columns are 256 numbers for each of them. That is more than
# the 255 registers that a thread can have, and the weight wants as many again. More warps share the
# row among more threads, so take 16.

# %%
diagnose(kernel, (4096,), x, weight, x, rstd, **wide, num_warps=16, target="H200")

# %% [markdown]
# Nearly. With 512 threads a multiprocessor of 65,536 registers has 128 for each. `x` takes 64 of
# them, and something else takes as many. Even 32 warps would spill, with half the registers for
# each thread.
#
# **Predict:** read your kernel again. What is kept in registers while the program waits for the
# sum, besides `x`? Does it have to be there by then?
#
# <details>
# <summary>Answer</summary>
#
# The weight: 64 numbers per thread, loaded before the sum and used after it. The advice says it in
# general: "compute one after another what is kept at the same time". Nothing needs the weight
# before `rstd` is known, so load it afterwards. It comes from a cache, and other programs work
# meanwhile.
#
# </details>

# %% [markdown]
# The last version of the finished kernel differs from its version 2 in that line. (And in hints for
# the cache, and in `ALIGN`, which promises the compiler that the width is a multiple of so many
# elements.)

# %%
late = finished.rms_norm_kernel_v5
diagnose(late, (4096,), x, weight, x, rstd, **wide, ALIGN=4, num_warps=16, target="H200")

# %% [markdown]
# One line moved down, and nothing spills. Such a change is hard to find by trying settings: no
# block size and no number of warps would have done it.

# %% [markdown]
# ## The gradient on paper
#
# `d_out[n]` says how much the loss grows if `out[n]` does. We need the same for each `x[i]` of the
# row. Take one row, write `r` for its `rstd` and `N` for its columns, and call `g = d_out *
# weight`: that is what arrives at `x * r`.
#
# Now `x[i]` reaches the loss in two ways. It stands in its own product `x[i] * r`. And it stands in
# the mean, so it moves `r`, and `r` is a factor of *every* element of the row. How much does it
# move `r`? With `r = (mean + eps)^(-1/2)`, and `2 * x[i] / N` as the derivative of the mean:
#
# ```
# derivative of r by x[i] = -1/2 * (mean + eps)^(-3/2) * 2 * x[i] / N  =  -r^3 * x[i] / N
# ```
#
# Add up both ways, and write `x_hat` for `x * r`:
#
# ```
# dx[i] = g[i] * r  +  (sum over j of g[j] * x[j]) * (-r^3 * x[i] / N)
#       = r * (g[i] - x_hat[i] * (sum over j of g[j] * x_hat[j]) / N)
# ```
#
# One reduction over the row, as in the forward pass. The weight is easier: `weight[n]` is a factor
# of column `n` in every row, so
#
# ```
# d_weight[n] = sum over all rows m of d_out[m, n] * x_hat[m, n]
# ```
#
# Both need `x_hat`, and so `rstd`: that is why the forward kernel stored it.

# %% [markdown]
# ### Exercise {gradient-of-x} · The gradient of x (core)
#
# Write the kernel for float32, with all rows side by side. The exercise launches one program per
# row.


# %%
# exercise gradient-of-x
@triton.jit
def rms_norm_dx_kernel(d_out_ptr, x_ptr, weight_ptr, rstd_ptr, dx_ptr, n_cols, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    offsets = row * n_cols + cols
    # about 6 lines from here
    rstd = tl.load(rstd_ptr + row)
    x_hat = tl.load(x_ptr + offsets, mask=mask, other=0.0) * rstd
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    g = tl.load(d_out_ptr + offsets, mask=mask, other=0.0) * weight
    mean = tl.sum(g * x_hat, axis=0) / n_cols
    tl.store(dx_ptr + offsets, rstd * (g - x_hat * mean), mask=mask)
    # to here


# %%
check("gradient-of-x", rms_norm_dx_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Four loads: `rstd` is one number, `d_out` and `x` are rows, and the weight has no row in its
# offset.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Compute `x_hat` and `g` first. Then it is the last line of the derivation, with `tl.sum`.
#
# </details>

# %% [markdown]
# ## What you can do now
#
# You have a specification, a reference, a forward kernel that is right, counted and diagnosed, and
# half of a gradient. Could you do the same for LayerNorm?

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/33-your-own-operation.py](../solutions/33-your-own-operation.py) has all answers.
#
# **Next:** [34, its gradient, and an operator](34-its-gradient.ipynb).
