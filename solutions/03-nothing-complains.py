# %% [markdown]
# # 03 · When nothing complains
#
# A kernel can be wrong and give the right numbers. It can be right on Monday and wrong on Tuesday.
# It can be right in CPU mode and wrong on a GPU. In all of these cases there is no error message.
# Here you see the bugs that nothing complains about, and you repair three of them.
#
# **By the end you can**
#
# - recognize bugs that give no error message, and bugs that show only on a GPU,
# - say what the interpreter lets pass,
# - stop in the middle of a running kernel and look at its values.
#
# **You need** notebooks {your-first-kernel} and {vector-add}.
#
# | section | about minutes |
# |---|---|
# | Where the interpreter misleads you | 40 |
# | Three things people believe | 15 |
# | Look inside a running kernel | 2 |
# | Your own GPU | 1 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 68 |

# %% tags=["runs-here"]
from course import DEVICE, apart, check, draw, gpu_limits, hint, observed
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.


# %% tags=["runs-here"]
@triton.jit
def who_kernel(out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(out_ptr + offsets, pid, mask=mask)


# %% [markdown]
# ## Where the interpreter misleads you
#
# The interpreter does not tell you about every mistake. It refuses an `if` on a block, and it lets
# three other bugs through: one goes unnoticed as long as a 0 happens to be harmless, one shows only
# on a GPU, and one may show nowhere until it is too late.

# %% [markdown]
# ### A masked lane without `other`
#
# A mask keeps a lane from reading memory. But the lane is still there, and it holds *something*.
# This kernel finds the largest of `n` numbers with four lanes, and masks the lanes past the end.
# `tl.max(x, axis=0)` makes one number of a block, its largest; `tl.sum`, further down, adds a block
# up. With positive numbers nobody would notice anything wrong.
#
# **Predict:** what does it say is the largest of -3, -1 and -2?
#
# <details>
# <summary>Answer</summary>
#
# It says 0, where the answer should be -1: the fourth lane read nothing, but it took part in the
# maximum.
#
# </details>


# %% tags=["runs-here"]
@triton.jit
def largest_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 4)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr, tl.max(x, axis=0))


# %% tags=["runs-here"]
x = torch.tensor([-3.0, -1.0, -2.0], device=DEVICE)
out = torch.empty(1, device=DEVICE)
largest_kernel[(1,)](x, out, 3)
print(out.item())

# %% [markdown]
# What a masked lane holds is **undefined**: Triton promises nothing about it. The interpreter
# happens to fill in 0, and Triton 3.9.0 does the same on NVIDIA GPUs, so you may not notice for a
# long time.
#
# Say what you want there with `other`. For a maximum it is minus infinity, which never wins.


# %% tags=["nbval-check-output", "runs-here"]
@triton.jit
def largest_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 4)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=float("-inf"))
    tl.store(out_ptr, tl.max(x, axis=0))


largest_kernel[(1,)](x, out, 3)
print(out.item())

# %% [markdown]
# ### Exercise {mend-the-maximum} · Mend the maximum (core)
#
# Here is the same bug in a larger kernel. Each program finds the largest element of its own block,
# and in a model the elements are all sorts of numbers.
#
# ```
# x = tl.load(x_ptr + offsets, mask=offsets < n)
# ```
#
# Write a better load, so that the lanes past the end can never win.


# %% tags=["runs-here"]
# exercise mend-the-maximum
@triton.jit
def block_max_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = None
    # about 1 line from here
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=float("-inf"))
    # to here
    tl.store(out_ptr + pid, tl.max(x, axis=0))


# %% tags=["runs-here"]
check("mend-the-maximum", block_max_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Which number is smaller than all others, the largest negative ones included?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `other` may be `float("-inf")`.
#
# </details>

# %% [markdown]
# ### Two programs that write to the same place
#
# Here 1,024 programs each add up 1,024 numbers, and all of them add their part to one total: read
# the total, add, write it back. All 1,048,576 numbers are 1.
#
# **Predict** the total in the interpreter, which runs one program after another. Then remember the
# queue of programs in notebook {your-first-kernel}, where many run at the same time: could a GPU come to something else?


# %% tags=["runs-here"]
@triton.jit
def total_kernel(x_ptr, total_ptr):
    offsets = tl.program_id(axis=0) * 1024 + tl.arange(0, 1024)
    part = tl.sum(tl.load(x_ptr + offsets), axis=0)
    tl.store(total_ptr, tl.load(total_ptr) + part)


# %% tags=["runs-here"]
ones = torch.ones(1024 * 1024, device=DEVICE)
total = torch.zeros(1, device=DEVICE)
total_kernel[(1024,)](ones, total)
print(f"{total.item():,.0f} of {ones.numel():,}")

# %% [markdown]
# And this is what the same kernel came to on a GPU. (`observed()` holds what only a real GPU
# shows: in CPU mode as we recorded it, in GPU mode it runs the kernel on yours.)

# %%
print(observed().race)

# %% [markdown]
# Nearly everything is gone. How can that happen? Here are two of those programs, each adding 1 to a
# total of 5.

# %%
draw.race()

# %% [markdown]
# Both read the same old total before either had written a new one. Then the second wrote its own
# over that of the first. This is a **race**: the result depends on who comes first.
# `tl.atomic_add` takes a pointer and a value. It reads, adds and writes as one step, an **atomic**
# one, so no other program can come in between.

# %% [markdown]
# ### Exercise {mend-the-total} · Mend the lost update (core)
#
# Somebody counts how many elements of a vector are above a limit. Every program counts those of its
# block, and then it adds its part to the total like this:
#
# ```
# total = tl.load(total_ptr)
# tl.store(total_ptr, total + part)
# ```
#
# In CPU mode the count is right. Put something in the place of these two lines that is right on a
# GPU as well. The total is a float32, and it is 0 when the launch begins. (`tl.where(x > limit, 1.0,
# 0.0)` chooses lane by lane: 1 where the condition holds, and 0 elsewhere. The sum of these is the
# count.)


# %% tags=["runs-here"]
# exercise mend-the-total
@triton.jit
def count_kernel(x_ptr, total_ptr, limit, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=float("-inf"))
    part = tl.sum(tl.where(x > limit, 1.0, 0.0), axis=0)
    # about 1 line from here
    tl.atomic_add(total_ptr, part)
    # to here


# %% tags=["runs-here"]
check("mend-the-total", count_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Reading, adding and writing must be one step. Which function of `tl` does all three?
#
# </details>

# %% [markdown]
# ### Exercise {mend-the-end} · Mend the end (core)
#
# This kernel computes the differences of neighbors, `out[i] = x[i + 1] - x[i]`. There are `n`
# elements in `x`, and so `n - 1` differences. Its author used the mask that every kernel has:
#
# ```
# mask = offsets < n
# ```
#
# On the author's machine every difference was right. Yet the last program reads an element that
# does not belong to `x`, and it writes one that does not belong to `out`. Write a better mask.


# %% tags=["runs-here"]
# exercise mend-the-end
@triton.jit
def difference_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = None
    # about 1 line from here
    mask = offsets + 1 < n
    # to here
    x = tl.load(x_ptr + offsets, mask=mask)
    neighbor = tl.load(x_ptr + offsets + 1, mask=mask)
    tl.store(out_ptr + offsets, neighbor - x, mask=mask)


# %% tags=["runs-here"]
check("mend-the-end", difference_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Lane `i` needs element `i` and element `i + 1`. For which `i` are both there?
#
# </details>

# %% [markdown]
# ### A load far out of bounds
#
# If you read one element past the end of a tensor, you get whatever lies there, in both modes, and
# no error. If you read far past it, something breaks: on a GPU, every later call in this session
# fails. In CPU mode the launch is stopped instead, since the address belongs to no tensor that the
# kernel was given. The next cell runs apart, so that your session survives in both modes.


# %% tags=["runs-here"]
@triton.jit
def far_kernel(x_ptr, distance):
    tl.store(x_ptr, tl.load(x_ptr + distance))


def read_far_away():
    x = torch.zeros(4, device=DEVICE)
    far_kernel[(1,)](x, 1_000_000_000_000)
    print(x)


apart(read_far_away)

# %% [markdown]
# That process is gone, and this session still has its variables. When a kernel of your own breaks
# your session on a GPU, look for a mask that you forgot or an offset that is too large, and run it
# in CPU mode: there you are told the line.
#
# You need not find these bugs by staring. `check` also runs your answer in the interpreter, in
# either mode. There it watches every address that the kernel touches and fills undefined lanes with
# infinities, so all three show up. For kernels of your own, `verify` from notebook {vector-add}
# does the same in CPU mode.

# %% [markdown]
# ## Three things people believe
#
# These three come up again and again in questions about Triton. See for yourself that they are
# wrong.
#
# ### "A program is a thread"
#
# **Predict:** one program, a block of 1,024. How many elements does it write?
#
# <details>
# <summary>Answer</summary>
#
# It writes 1,024 elements. A program is run by `num_warps` warps together, 4 unless you say
# otherwise. That is 4 x 32 = 128 threads, and the compiler deals the 1,024 elements out to them, 8
# to each, as the picture in notebook {your-first-kernel} showed.
#
# </details>

# %% tags=["nbval-check-output", "runs-here"]
out = torch.full((2048,), -1, dtype=torch.int32, device=DEVICE)
who_kernel[(1,)](out, 2048, BLOCK_SIZE=1024)
print((out == 0).sum().item())

# %% [markdown]
# ### "Program 0 runs first"
#
# `tl.atomic_add` also returns what was in memory before it added. So each of these 1,024 programs
# draws a ticket from a shared counter: the first to come gets 0, the next gets 1. It then writes
# its own number at that place of a list, and the list shows who came when. **Predict** how it
# starts in the interpreter, which runs one program after another.


# %% tags=["runs-here"]
@triton.jit
def order_kernel(counter_ptr, order_ptr):
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.store(order_ptr + ticket, tl.program_id(axis=0))


counter = torch.zeros(1, dtype=torch.int32, device=DEVICE)
order = torch.empty(1024, dtype=torch.int32, device=DEVICE)
order_kernel[(1024,)](counter, order)
print(order[:16].tolist())

# %% [markdown]
# A GPU starts programs on all of its multiprocessors at once, and whoever gets there first draws
# first. These are the first sixteen there:

# %%
print(observed().order)

# %% [markdown]
# ### "A masked lane is zero, so it does no harm"
#
# It is undefined, even where you happen to see a zero. And even a zero can do harm. Here five lanes
# of eight have an element, all five are 0, and the kernel adds up `exp(x)`.
#
# **Predict** the sum with `other=float("-inf")`. And what is it without `other`, if the three empty
# lanes happen to hold 0?
#
# <details>
# <summary>Answer</summary>
#
# Five times `exp(0)` is 5, and `exp(-inf)` is 0. Without `other` it is 8: three lanes joined in
# that have no element.
#
# </details>


# %% tags=["runs-here"]
@triton.jit
def sum_exp_kernel(x_ptr, out_ptr, n_elements, SAY_OTHER: tl.constexpr):
    offsets = tl.arange(0, 8)
    if SAY_OTHER:
        x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=float("-inf"))
    else:
        x = tl.load(x_ptr + offsets, mask=offsets < n_elements)
    tl.store(out_ptr, tl.sum(tl.exp(x), axis=0))


# %% tags=["runs-here"]
x, out = torch.zeros(5, device=DEVICE), torch.empty(1, device=DEVICE)
for say_other in (True, False):
    sum_exp_kernel[(1,)](x, out, 5, SAY_OTHER=say_other)
    print(f"SAY_OTHER={say_other}:", out.item())

# %% [markdown]
# `add_kernel` needs no `other`, because what it computes in such a lane is never stored.
#
# Did you notice the `if` in that kernel? An `if` on a single number is fine. On a constexpr it is
# even decided when the kernel is compiled, and the other branch is gone.

# %% [markdown]
# ## Look inside a running kernel
#
# In the interpreter a kernel is plain Python, so Python's debugger works inside it. That is worth
# remembering when a value is not what you expect: stop there and look.
#
# `breakpoint()` stops the kernel. Here the typing is done for you: `p` prints the value of any
# expression, and `c` continues.


# %%
@triton.jit
def half_kernel(x_ptr):
    offsets = tl.arange(0, 4)
    x = tl.load(x_ptr + offsets)
    breakpoint()
    tl.store(x_ptr + offsets, x / 2)


def halve():
    half_kernel[(1,)](torch.tensor([2.0, 4.0, 6.0, 8.0]))


apart(halve, interpret=True, typed="p x\np x / 2\nc")

# %% [markdown]
# Both times a whole block was printed: `x` is four numbers at once. In a script of your own you
# type these commands yourself. Start it with `TRITON_INTERPRET=1 .venv/bin/python my_kernel.py`.

# %% [markdown]
# ## Your own GPU
#
# If you have a GPU that is no H200, find its row here. You see how much shared memory a program may
# have, whether it can load while it computes, which instructions `tl.dot`, the matrix product,
# becomes, and whether it can do bfloat16. Notebook {what-a-dot-becomes} explains those
# instructions. If you have no GPU, go on to the next section.
#
# A name such as `sm_90` is NVIDIA's for a generation of GPUs. Where a row stands for a whole
# series, whose cards differ, memory and bandwidth are left out. These are NVIDIA's own numbers.
# They differ a little from the picture in notebook {your-first-kernel}, where the sizes come from the driver and the speeds
# were measured. And of the 228 KiB of shared memory there, one program may have 227.

# %%
gpu_limits()

# %% [markdown]
# A kernel that needs more shared memory than your GPU has fails with "out of resource: shared
# memory"; use smaller blocks then. To find out how fast your own GPU is, run `.venv/bin/course
# doctor --measure` in a terminal, once. It takes less than half a minute, and from then on pictures
# and the tool `cost` show your GPU beside the H200.

# %% [markdown]
# ## On your own
#
# - Replace the last line of `total_kernel` by `tl.atomic_add(total_ptr, part)`, and run its two
#   cells. In CPU mode the total is right both times; on a GPU only with the atomic.
#
# ## In practice
#
# Write a kernel in CPU mode, with small tensors and odd sizes, until its values are right. Then run
# it on a GPU, where the real compiler checks it and races can appear. `verify`
# tries the odd sizes for you in either mode.
#
# ## What you can do now
#
# You know what CPU mode does not show, and that a program is no thread, that program 0 need not
# run first, and that a masked lane is not zero. Ask yourself:
#
# 1. A kernel adds up numbers and masks its load, without `other`. It gives the right sum. Why is it
#    still wrong?
#
# <details>
# <summary>Answer</summary>
#
# It relies on masked lanes being 0, and they are undefined. Write `other=0.0`, and it is right
# whatever Triton does there.
#
# </details>
#
# 2. A kernel is right in CPU mode. What could still be wrong with it?
#
# <details>
# <summary>Answer</summary>
#
# It may not compile, as with an `if` on a block. Its programs may race. It may read or write
# outside of its tensors without anything breaking. Its masked lanes may hold something else on a
# GPU.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/03-nothing-complains.py](../solutions/03-nothing-complains.py) has all answers.
#
# **Next:** [04, what a call compiles, and which block](04-which-block-size.ipynb).
