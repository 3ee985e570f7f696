# %% [markdown]
# # 13 · Rows of any width
#
# With one row per program, 100 columns give a program too little to do, and 100,000 too much. Here
# one kernel serves many shapes: several narrow rows per program, offsets that hold in any matrix,
# and settings that measuring chooses.
#
# **By the end you can** say how many rows a program should take, stop Triton from compiling the same
# kernel twice, bound a block by registers, and let measuring choose among what fits.
#
# **You need** notebook {two-running-numbers}.
#
# | section | about minutes |
# |---|---|
# | Narrow rows, wide rows | 40 |
# | Let measuring choose | 20 |
# | Beginning and end | 7 |
# | **Together, an estimate** | 67 |

# %%
from course import DEVICE, MODE, check, diagnose, draw, hint, recorded, specialize
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
# ## Narrow rows, wide rows
#
# You have two kernels. How fast are they, and where? This was recorded on an H200, for 1 GB of
# bfloat16 cut into rows of each width. `softmax_v2` is your `softmax_kernel` with 8 warps, and more
# for wide rows. `softmax_v3` is the online version. `softmax` is the finished operation, which
# picks a version by the width.
#
# **Predict:** where does one row per program fall off on the right, and why?
#
# <details>
# <summary>Answer</summary>
#
# At 32,768 columns, the widest row that does not spill. One program takes so many registers there
# that nothing else runs on the multiprocessor while it waits for memory.
#
# </details>

# %%
speeds = recorded("softmax_bfloat16")
draw.speeds(speeds, series=["softmax", "softmax_v2", "softmax_v3", "torch", "copy"])

# %% [markdown]
# From 4,096 to 16,384 columns, one row per program is within 5 % of the best version. Beyond, the
# online version goes on, but pays for its second sweep. `softmax` is faster than PyTorch at every
# width, and four times as fast at 8,192 columns.
#
# Up to 16,384 columns, `softmax` lies about 1 % *above* the dashed line. How can it be faster than
# a copy? The copy roof is the speed of one large plain copy in the same run. (The curve `copy`
# copies the same rows as the kernels work on, and stays a little below.) It is no limit of the
# hardware: that is the 4.8 TB/s that `cost` goes by. Another kernel that reads and writes as much
# may come out a percent higher or lower.
#
# One row per program falls off on the left as well, at rows that are not even very narrow. Why?

# %% [markdown]
# ### Exercise {narrow-rows} · Narrow rows (core)
#
# `softmax_kernel` on rows of 64 bfloat16, one row per program with 4 warps, is far from the copy
# roof. What is the main reason? Answer with a letter in quotes.
#
# - **a** It moves more bytes than several rows per program would.
# - **b** Most of a program is start, waiting and end, and half of its threads only repeat the
#   others.
# - **c** The row does not fit the registers, and spills.
# - **d** `exp` takes longer than the memory.

# %%
# exercise narrow-rows
answer = None
# about 1 line from here
answer = "b"
# to here

# %%
check("narrow-rows", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many threads does a program with 4 warps have, and how many elements does a row have?
#
# </details>

# %% [markdown]
# You reasoned your way to the cause. For a kernel of your own you can also ask: `diagnose` takes a
# launch as `cost` does, looks at what is counted and compiled, and says what limits it. Each cause
# comes with its number, the reason and a change to try. Here are 131,072 rows of 64 bfloat16.

# %%
x = torch.empty(2**17, 64, dtype=torch.bfloat16, device="meta")
diagnose(softmax_kernel, (2**17,), x, torch.empty_like(x), 64, 64, BLOCK_N=64, target="H200")

# %% [markdown]
# Both halves of the cause are there, with numbers. The gain is an estimate: the time of the launch
# in a simple model of the GPU, over its time in the same model once the cause is gone. So it says
# what to try first, and measuring says what it brought.
#
# The change is to give a program more to do: several rows at once, a tile `[BLOCK_M, BLOCK_N]`,
# which is reduced along `axis=1`.


# %%
@triton.jit(do_not_specialize=["n_rows"])
def rows_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_xm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
    x_ptrs = x_ptr + rows[:, None] * stride_xm + cols[None, :]
    x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
    power = tl.exp(x - tl.max(x, axis=1)[:, None])
    shares = power / tl.sum(power, axis=1)[:, None]
    tl.store(out_ptr + rows[:, None] * n_cols + cols[None, :], shares, mask=mask)


# %% tags=["nbval-check-output"]
x = torch.randn(1024, 100, device=DEVICE)
out = torch.empty_like(x)
rows_kernel[(triton.cdiv(1024, 16),)](x, out, 1024, 100, 100, BLOCK_M=16, BLOCK_N=128, num_warps=2)
print(torch.allclose(out, torch.softmax(x, dim=1)))

# %% [markdown]
# (A row past the end holds nothing but -inf, so its shares are NaN. They do no harm: the mask keeps
# them from being stored.)
#
# ### What the compiler need not know
#
# What is `do_not_specialize` for? Remember that Triton compiles a kernel for what it sees in the
# arguments: whether 16 divides them, and whether they are 1. For `n_cols` and `stride_xm` that pays
# off in wide loads. `n_rows` is only compared with row numbers. And of all sizes it is the one that
# changes, with every batch.
#
# **Predict:** suppose that nothing is said of `n_rows`. How many kernels do calls with 1,024, 1,025
# and 1 rows compile?
#
# <details>
# <summary>Answer</summary>
#
# Three: one that knows that 16 divides `n_rows`, one that knows nothing of it, and one in which
# `n_rows` is the constant 1. The first call of each waits for the compiler, perhaps in the middle
# of a training step.
#
# </details>

# %% tags=["nbval-check-output"]
plain_kernel = triton.jit(rows_kernel.fn)  # the same function, with nothing said of n_rows
sizes = {"BLOCK_M": 16, "BLOCK_N": 128}
for kernel in (plain_kernel, rows_kernel):
    told = [specialize(kernel, x, out, n_rows, 112, 112, **sizes) for n_rows in (1024, 1025, 1)]
    print(f"kernels: {len(set(told))}, for", ", ".join(f"'{t.parameters[2]}'" for t in told))

# %% [markdown]
# With `do_not_specialize`, all three calls share one kernel. Use it for numbers that change from
# call to call and that no address depends on: a number of rows, a batch size, a step, a seed. Do
# not use it for strides and widths.

# %% [markdown]
# ### Exercise {any-number-of-rows} · Any number of rows (core)
#
# Once more the largest element of each row of a float32 matrix, now with several rows per program.
# It must be right for matrices of more than 2^31 elements, and it must not be compiled anew for
# another number of rows. The exercise launches `cdiv(n_rows, BLOCK_M)` programs, and `BLOCK_N` is
# not below `n_cols`. In PyTorch: `x.max(dim=1).values`.
#
# (No test has memory for such a matrix: `check` looks into the TTIR to see whether the products
# have 64 bits.)


# %%
# exercise any-number-of-rows
@triton.jit(
    # about 1 line from here
    do_not_specialize=["n_rows"]
    # to here
)
def tile_max_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_xm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    cols = tl.arange(0, BLOCK_N)
    # about 4 lines from here
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * stride_xm + cols[None, :], mask=mask, other=float("-inf"))
    tl.store(out_ptr + rows, tl.max(x, axis=1), mask=rows < n_rows)
    # to here


# %%
check("any-number-of-rows", tile_max_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Which multiplication may pass 2^31? One of its two factors must have 64 bits before.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The reduction along `axis=1` gives one number per row: a block of `BLOCK_M`, and the mask of its
# store has one axis as well.
#
# </details>

# %% [markdown]
# ## Let measuring choose
#
# How many rows per program, how many warps? Registers give a bound, and the bound prunes what is
# hopeless. Among the rest, measuring picks. Before you see how, here are two ideas that sound as if
# they had to help.
#
# The first is to start fewer programs. A **persistent** kernel starts as many programs as the GPU
# holds at once, and each of them takes row after row in a loop. So it pays for its start once. The
# second builds on that loop: while one row is computed, the next one can already be on its way from
# memory. The **pipeline depth** (`num_stages`) says how many iterations are in flight. `softmax_v8`
# does both; notebook {copies-in-flight} explains pipelines, and notebook {persistent-programs}
# persistent programs.
#
# Whether that helps can only be measured. This was recorded at 8,192 columns of bfloat16.

# %% tags=["nbval-check-output"]
depths = recorded("softmax_depths")
for timing in depths.of("persistent"):
    relative = timing.tb_s / depths.at("a row a program", timing.x).tb_s
    print(f"depth {timing.x}: {timing.tb_s:.2f} TB/s, {relative:.0%} of one row per program")

# %% [markdown]
# Every depth is slower than one row per program, and the depth changes almost nothing. Why is
# nothing gained? A multiprocessor holds several programs at once. While one of them waits for
# memory, another computes, so the loads of one overlap the arithmetic of the other already. That
# needs no loop, no shared memory and no barrier. Pipelines pay off where few programs fit, as in
# notebook {copies-in-flight}.
#
# So measure. `@triton.autotune` does it at the first call: it times each of the configurations that
# you give, and keeps the fastest. `key` names arguments: for each new combination of their values
# it measures again. A configuration can set constants of the kernel, such as `BLOCK_M`, besides
# `num_warps` and `num_stages`.
#
# Timing takes a while, so throw out first what cannot be good: `prune_configs_by` names a function
# for that. Here registers give the bound, at most 64 elements per thread. (With 32 warps that was
# too much, because a thread can have only 64 registers there. With four warps or fewer it can have
# up to 255.)
#
# The function, here `fitting`, is handed the configurations, the launch's arguments by name, and
# the constants that the launch names, such as `BLOCK_N`. A configuration's own constants are in its
# `kwargs`. It returns the configurations to be timed, and at least one of them.


# %%
def fitting(configs, arguments, **constants):
    elements = constants["BLOCK_N"]
    fit = [each for each in configs if each.kwargs["BLOCK_M"] * elements <= 2048 * each.num_warps]
    return fit or configs[:1]


tuned_kernel = triton.autotune(
    configs=[triton.Config({"BLOCK_M": m}, num_warps=w) for m in (1, 4, 16) for w in (1, 2, 4)],
    key=["n_cols"],
    prune_configs_by={"early_config_prune": fitting},
)(rows_kernel)

# %% tags=["nbval-check-output"]
for width in (128, 2048, 4096):
    fit = fitting(tuned_kernel.configs, {}, BLOCK_N=width)
    print(f"{width:5} columns: {len(fit)} of {len(tuned_kernel.configs)} configurations are timed")

# %% [markdown]
# The grid depends on `BLOCK_M` now, so it is a function of the constants. In CPU mode nothing can
# be timed: the first configuration is taken.

# %%
x = torch.randn(1024, 100, device=DEVICE)
out = torch.empty_like(x)


def grid(constants):
    return (triton.cdiv(1024, constants["BLOCK_M"]),)


tuned_kernel[grid](x, out, 1024, 100, 100, BLOCK_N=128)
print(torch.allclose(out, torch.softmax(x, dim=1)))
print("chosen:", tuned_kernel.best_config if MODE.gpu else "nothing is timed in CPU mode")

# %% [markdown]
# In practice you will want to know four more things.
#
# - If the key changes with every call, as `n_rows` would, every call measures again.
# - With `cache_results=True` the choice is kept on disk, and the next process need not measure.
# - With `TRITON_PRINT_AUTOTUNING=1` in the environment, Triton prints which one was chosen and how
#   long that took.
# - Each trial *runs* the kernel, many times, on your tensors. A kernel that writes into its own
#   input then works on its own results. `restore_value`, a list of argument names, puts those
#   tensors back after each trial, and `reset_to_zero` clears one that is added to.
#
# The course's kernels do not tune at the first call. Their choices stand in a table, with the date
# of its measurement: so nobody waits, and the same input gives the same result, bit for bit.

# %% [markdown]
# ### Exercise {tuned-in-place} · Tuned in place (core)
#
# `tuned_in_place` copies a contiguous float32 matrix and writes the softmax of each row over the
# row itself. On a GPU, its first call for a width gives a wrong result. Fix the decorator. In
# PyTorch: `torch.softmax(x, dim=1)`.
#
# (Without a GPU nothing is timed, so if you call it yourself in CPU mode, the result is right.
# `check` simulates the trials: it runs the kernel once with each configuration, and then for the
# result.)


# %%
# exercise tuned-in-place
@triton.autotune(
    configs=[triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)],
    key=["n_cols"],
    # about 1 line from here
    restore_value=["x_ptr"],
    # to here
)
@triton.jit
def in_place_kernel(x_ptr, n_cols, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + tl.program_id(axis=0).to(tl.int64) * n_cols + cols
    x = tl.load(x_ptrs, mask=cols < n_cols, other=float("-inf"))
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(x_ptrs, power / tl.sum(power, axis=0), mask=cols < n_cols)


def tuned_in_place(x):
    x = x.clone()
    in_place_kernel[(x.shape[0],)](x, x.shape[1], BLOCK_N=triton.next_power_of_2(x.shape[1]))
    return x


# %%
check("tuned-in-place", tuned_in_place)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# After two trials and the launch itself, a row is the softmax of the softmax of its softmax. (On a
# GPU each trial runs many times.)
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `triton.autotune` takes a list with the names of the arguments to put back after each trial.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Step through `rows_kernel` with `replay`, and look at the shapes of `tl.max(x, axis=1)` and of
#   what is subtracted.
#
# ## In practice
#
# [kernels/softmax.py](../kernels/softmax.py) is the finished operation, for any strides and widths.
# Its first four versions stand there, and four tuned ones, with a table that picks one, in
# [kernels/softmax_tuned.py](../kernels/softmax_tuned.py). Up to 8,192 columns it keeps rows in
# registers, several per program where they are narrow. Beyond, it reads a row twice, the second
# time from a cache, and lets several programs share a very wide row, with your merge. It reaches at
# least 90 % of the copy roof at every width that was recorded, up to 262,144 columns and at the odd
# width of 50,257.
#
# ## What you can do now
#
# You can keep a kernel right beyond 2^31 elements, serve any number of rows with one compiled
# kernel, and tune it. Ask yourself:
#
# 1. A kernel waits for the compiler every now and then in the middle of training. The batch size
#    changes from step to step. What is going on, and what do you do?
#
# <details>
# <summary>Answer</summary>
#
# Triton compiles one kernel for sizes that 16 divides, one for other sizes, and one for 1. If no
# address depends on the number, name it in `do_not_specialize`. If an autotuner's key holds it,
# take it out there as well.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/13-rows-of-any-width.py](../solutions/13-rows-of-any-width.py) has all answers.
#
# **Next:** [14, an operator that a model can train with](14-an-operator.ipynb).
