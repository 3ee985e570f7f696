# %% [markdown]
# # 32 · When it is wrong, or never ends
#
# A kernel that is right in every test you wrote is wrong on the GPU. Or it never comes back. There are
# tools that name the line, and you need to have seen their reports once.
#
# **By the end you can** find an access outside a tensor, a failed assertion and a loop without end on a
# GPU, say what your session can still do after each, choose among Triton's sanitizers, and tell your
# own mistake from one of the compiler's.
#
# **You need** notebook {nothing-complains}.
#
# | section | about minutes |
# |---|---|
# | Wrong on the GPU | 25 |
# | It never comes back | 4 |
# | Sanitizers that Triton brings | 15 |
# | Is it the compiler? | 15 |
# | Beginning and end | 4 |
# | **Together, an estimate** | 63 |
# | Stretch exercises, for those with time left | 20 |

# %%
from course import DEVICE, CourseError, apart, check, cost, gpu_report, hint, lower
import os
import re
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Wrong on the GPU
#
#  You have met the course's own tools: `verify` and `check` watch every address, `replay` steps
# through a program. In your own code base, on a real GPU, a kernel has three ways to speak for
# itself.
#
# `tl.static_assert` is checked while the kernel is compiled, so it costs nothing at run time. It
# can hold anything that is a constant: block sizes, types, options. Use it for what your kernel
# takes for granted.


# %%
@triton.jit
def halves_kernel(x_ptr, BLOCK_SIZE: tl.constexpr):
    tl.static_assert(BLOCK_SIZE % 2 == 0, "the block is cut into halves")
    tl.store(x_ptr + tl.arange(0, BLOCK_SIZE), 1.0)


try:
    lower(halves_kernel, torch.empty(1, device="meta"), BLOCK_SIZE=1, target="sm_90")
except CourseError as error:
    print(error)

# %% [markdown]
# `tl.device_print` prints values while the kernel runs. The interpreter prints a block as a whole,
# once for each program.


# %%
@triton.jit
def print_kernel(x_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=-1.0)
    tl.device_print("x", x)


def print_a_block():
    print_kernel[(2,)](torch.arange(6.0), 6, BLOCK_SIZE=4)


apart(print_a_block, interpret=True)

# %% [markdown]
# On a GPU each *thread* prints a line of its own, with the numbers of its program and the place in
# the block. Here is what the same kernel printed on an H200, with one warp.
#
# **Predict:** the two programs have blocks of 4 elements. How many lines are there?
#
# <details>
# <summary>Answer</summary>
#
# There are 64. A warp has 32 threads whatever the block is, so each of the 4 elements is in 8
# threads, which all print it. Two programs print twice as many.
#
# </details>

# %% tags=["nbval-check-output"]
gpu_report("printed")

# %% [markdown]
# So print little: one program, one value. (Put `if tl.program_id(axis=0) == 0:` before it.) And
# look in the right place: the lines go to the standard output of the process, which for a notebook
# is the terminal where Jupyter was started, and not the cell.
#
# `tl.device_assert(condition, message)` is for what depends on data. It is compiled only if the
# environment has `TRITON_DEBUG=1` when the kernel is compiled, or if the launch says `debug=True`;
# otherwise it is not there, and costs nothing. The interpreter does not look at it either. On a GPU
# a failed assertion names its line, the program (CUDA's *block*) and the thread. After that the GPU
# is lost to this process, as after the illegal access below.

# %% tags=["nbval-check-output"]
gpu_report("assertion")

# %% [markdown]
# Here is a kernel that needs one. It copies a row of a table for each token: `out[i] =
# table[index[i]]`. The tokens are padded to equal lengths, and padding has the index -100, as in
# PyTorch's losses.


# %%
@triton.jit
def wrong_embed_kernel(table_ptr, index_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    token = tl.program_id(axis=0)
    row = tl.load(index_ptr + token)
    tl.device_assert(row >= 0, "a negative row")
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(table_ptr + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + token * n_cols + cols, x, mask=cols < n_cols)


# %% [markdown]
# The mask looks at the columns, and nobody looks at the row: row -100 lies before the table. What
# you would see on a GPU depends on what is there. If it is memory of another tensor, the kernel
# copies it and says nothing. The course's tools look at the address itself:

# %%
table, index = torch.ones(50, 20, device=DEVICE), torch.tensor([4, 17, -100], device=DEVICE)
args = (table, index, torch.empty(3, 20, device=DEVICE), 20)
try:
    cost(wrong_embed_kernel, (3,), *args, BLOCK_SIZE=32, target="H200")
except CourseError as error:
    print(error)

# %% [markdown]
# ### Exercise {rows-that-are-not-there} · Rows that are not there (core)
#
# Write `embed_kernel`: it copies row `index[i]` of a float32 table of `n_cols` columns to row `i`
# of the output, and writes zeros where the index is -100. The launch has one program per token.


# %%
# exercise rows-that-are-not-there
@triton.jit
def embed_kernel(table_ptr, index_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    token = tl.program_id(axis=0)
    row = tl.load(index_ptr + token)
    cols = tl.arange(0, BLOCK_SIZE)
    # about 2 lines from here
    mask = (cols < n_cols) & (row >= 0)
    copied = tl.load(table_ptr + row * n_cols + cols, mask=mask, other=0.0)
    # to here
    tl.store(out_ptr + token * n_cols + cols, copied, mask=cols < n_cols)


# %%
check("rows-that-are-not-there", embed_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# A mask may hold anything that is true or false for each lane. A condition on the row is the same
# for all of them.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# What does a lane hold that the mask leaves out? And which lanes must be stored?
#
# </details>

# %% [markdown]
# What if you have neither an assertion nor the course's tools? Then there is **compute-sanitizer**,
# which comes with CUDA: it runs any program and checks each access of each kernel on the GPU
# itself. Its tool `memcheck` looks for accesses outside of what was allocated. Here is a script
# whose kernel doubles 1,000 numbers in blocks of 128 and has no mask, without the checker and with
# it. Its lines 44 and 45 are `x = tl.load(x_ptr + offsets)` and `tl.store(out_ptr + offsets, 2 *
# x)`.

# %% tags=["nbval-check-output"]
print(gpu_report("out of bounds"))
print(gpu_report("out of bounds, checked"))

# %% [markdown]
# By itself the script finishes, and its result is right. PyTorch rounds the memory of a tensor up
# to a multiple of 512 bytes, here from 4,000 to 4,096, and the kernel touches just these 96 bytes
# more. With blocks of 256 the kernel could reach another tensor's memory. The checker names the
# access (a read of 4 bytes), the thread and the block, and how far outside the address is. Program
# 7 begins at element 896, so lane 104 is element 1,000, the first that is not there. The line is
# where the tool saw it, and it can be one too late, as here: the read stands in line 44.
#
# Why the variable in front of the command? PyTorch cuts its tensors out of large allocations, and a
# checker that knows only those sees nothing wrong where one tensor ends and the next begins. With
# `PYTORCH_NO_CUDA_MEMORY_CACHING=1` each tensor is an allocation of its own.

# %% [markdown]
# ### Exercise {how-many-errors} · How many errors? (stretch)
#
# The checker counted 24 errors, one for each thread that read outside. (It stopped the program
# there, before the stores.) The same kernel is launched on 900 elements in place of 1,000, again in
# blocks of 128 with one element per thread. How many errors does it count?

# %%
# exercise how-many-errors
errors = None
# about 1 line from here
errors = 8 * 128 - 900
# to here

# %%
check("how-many-errors", errors)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many programs are there, and how many lanes do they have together?
#
# </details>

# %% [markdown]
# And if an address is so far out that the GPU itself notices? Then you get an error without any
# checker, and it costs you the session:

# %% tags=["nbval-check-output"]
gpu_report("illegal access")

# %% [markdown]
# The launch itself raised nothing, because a launch only puts work into a queue. The error came at
# the next call that waited. From then on *every* call that needs the GPU raises the same error,
# also those that have nothing to do with it, and no tensor on the GPU can be read any more. What is
# on the CPU is untouched: save it, restart the notebook's kernel, and run the launch under
# compute-sanitizer. (`check` and `apart` launch in a process of their own, so that this happens
# there. `verify` launches in yours.)

# %% [markdown]
# ## It never comes back
#
# The last kind of trouble is a launch that does not end. There are two ways to write one: a loop
# whose condition never becomes false, and a program that waits for another program. The second you
# know from notebook {your-first-kernel}: programs have no order, and the one that is waited for may
# not have started. So here is the first. For each number, the kernel counts the edges that are at
# most that number. The edges are sorted, so it halves the range in which the answer lies, again and
# again.


# %%
@triton.jit
def endless_count_kernel(edges_ptr, x_ptr, out_ptr, n_edges):
    x = tl.load(x_ptr + tl.program_id(axis=0))
    low, high = 0, n_edges  # the answer is low, or high, or between them
    while low < high:
        middle = (low + high) // 2
        is_counted = tl.load(edges_ptr + middle) <= x
        low = tl.where(is_counted, middle, low)
        high = tl.where(is_counted, high, middle)
    tl.store(out_ptr + tl.program_id(axis=0), low)


# %% [markdown]
# Do not launch it here. If a launch hangs on a GPU, the notebook's stop button does not help: it
# interrupts Python, and Python is not what hangs. The GPU goes on until the process that launched
# it has ended, so you would have to restart the kernel of the notebook and lose your variables.
# `apart` runs a function in a process of its own and ends that process when its time is over. Below
# that you see two programs that were recorded on an H200, one after the other. The first waits for
# a flag that nobody sets, and was ended in the same way; the second found the GPU as usable as
# before.


# %%
def count():
    edges, out = torch.arange(11.0, device=DEVICE), torch.empty(1, device=DEVICE)
    endless_count_kernel[(1,)](edges, torch.tensor([5.5], device=DEVICE), out, 11)
    print(out)


apart(count, timeout_s=2)
print(gpu_report("hang"), gpu_report("after the hang"), sep="\n\n")

# %% [markdown]
# How do you find out *why*? Take a small case and print what should change in the loop: with
# `tl.device_print("low", low)` you see within a few lines that it stops changing.

# %% [markdown]
# ### Exercise {range-that-never-shrinks} · A range that does not shrink (stretch)
#
# Write the two lines so that the loop ends: `out[i]` is the number of edges that are at most
# `x[i]`. The edges are sorted float32 numbers, and the launch has one program per number. In
# PyTorch: `torch.searchsorted(edges, x, right=True)`.


# %%
# exercise range-that-never-shrinks
@triton.jit
def count_kernel(edges_ptr, x_ptr, out_ptr, n_edges):
    x = tl.load(x_ptr + tl.program_id(axis=0))
    low, high = 0, n_edges
    while low < high:
        middle = (low + high) // 2
        is_counted = tl.load(edges_ptr + middle) <= x
        # about 2 lines from here
        low = tl.where(is_counted, middle + 1, low)
        high = tl.where(is_counted, high, middle)
        # to here
    tl.store(out_ptr + tl.program_id(axis=0), low)


# %%
check("range-that-never-shrinks", count_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Take `low = 5` and `high = 6`. What is the middle, and what are `low` and `high` after the
# iteration?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# If the edge in the middle is at most x, it is counted. So the answer is at least one more than
# the middle.
#
# </details>

# %% [markdown]
# ## Sanitizers that Triton brings
#
# compute-sanitizer looks at machine code, and knows nothing of tiles, barriers and programs. Triton can
# do better, since its compiler knows what each access is for: it puts checks of its own into your
# kernel. The environment chooses them when the kernel is compiled:
#
# ```sh
# TRITON_INSTRUMENTATION_MODE=consan python script.py
# ```
#
# | mode | stands for | finds |
# |---|---|---|
# | `consan` | concurrency | shared memory that is touched while a copy or a product still uses it, misused barriers, deadlocks |
# | `gsan` | global memory | an element that two programs touch, one of them by a store, with nothing that orders the two |
# | `iisan` | illegal instructions | descriptors made in a kernel whose address or strides are no multiples of 16 bytes |
# | `fpsan` | floating point | nothing by itself: it makes results comparable to the bit |
#
# The first three are assertions, and speak as the one that you saw above: the line, the program, the
# thread, and a message. Which messages? They stand in the compiled kernel, so you can read them without
# a GPU. Here is a kernel that moves a tile by descriptors of its own.


# %%
@triton.jit
def move_kernel(x_ptr, out_ptr, n, stride):
    x_desc = tl.make_tensor_descriptor(x_ptr, [n, n], [stride, 1], [16, 16])
    out_desc = tl.make_tensor_descriptor(out_ptr, [n, n], [stride, 1], [16, 16])
    out_desc.store([0, 0], x_desc.load([0, 16]))


def messages(mode):
    os.environ["TRITON_INSTRUMENTATION_MODE"] = mode
    x = torch.empty(10_000, device="meta")
    lowered = lower(move_kernel, x, x, 100, 100, target="sm_90")
    del os.environ["TRITON_INSTRUMENTATION_MODE"]
    print(f"{mode}: {lowered.ptx.count(chr(10)):,} lines of PTX")
    print(*sorted(set(re.findall(r'assertMessage\w* = .*?c"(.*?)\\00', lowered.llir))), "", sep="\n")


# %% [markdown]
# **Predict:** which of the two modes adds more to this kernel: the one that follows every access to
# shared memory, or the one that looks at the descriptors?
#
# <details>
# <summary>Answer</summary>
#
# `consan`, by far. It keeps a record of every buffer and barrier, and asks it at each access. `iisan`
# asks two questions when a descriptor is made. So expect a kernel under `consan` to be many times
# slower, and use small sizes.
#
# </details>

# %% tags=["nbval-check-output"]
messages("iisan")
messages("consan")

# %% [markdown]
# Read the list of `consan` as a list of what can go wrong between warps: buffers that are read or
# written too early, a fence that is missing, a barrier that gets too many arrivals or is used before it
# is initialized, a wait without end. Where you do not write barriers yourself, the compiler does, and
# its mistakes are found in the same way. In Gluon, from notebook {gluon-copies} on, they are yours.
#
# `gsan` needs memory of its own beside each tensor, so it runs the whole script:
#
# ```sh
# python -m triton.tools.gsan script.py
# ```
#
# `verify` and `check` find races in CPU mode for what they run. `gsan` finds them in a whole
# program, in kernels that the interpreter cannot run, and where programs wait for one another by
# atomics: it knows which of them order what. It remembers a sample of the readers, so one clean
# run is no proof.
#
# What do the reports look like? Three scripts ran on an H200, first by themselves and then under
# the sanitizer that finds their fault. The first is in Gluon, and reads shared memory before the
# copy to it has come. In the second, 64 programs store to the same place. The third is
# `move_kernel` with rows of 99 float32, 396 bytes, which 16 does not divide. Their lines 33, 39
# and 45 are these:
#
# ```python
# gl.store(out_ptr + offsets, block.load(layout))
# tl.store(out_ptr, tl.program_id(axis=0))
# x_desc = tl.make_tensor_descriptor(x_ptr, [n, n], [stride, 1], [16, 16])
# ```
#
# **Predict:** what did each of the three say without a sanitizer?
#
# <details>
# <summary>Answer</summary>
#
# No word of an error. The first got 1 of 512 elements right and finished. The second finished
# too: one of the 64 stores came last, and nothing is wrong with its number. The third finished as
# well, whatever it moved.
#
# </details>

# %% tags=["nbval-check-output"]
for name in ("early, consan", "shared, gsan", "turned, iisan"):
    print(gpu_report(name.split(",")[0]).said)
    command, first, *others = str(gpu_report(name)).splitlines()
    print(command, first, f"(lines behind this: {len(others)})", sep="\n", end="\n\n")

# %% [markdown]
# Each report has the same parts. First the file and the line: not the place of the mistake, but of
# the access at which it showed. In the first script line 33 is right, and the wait is missing in
# front of it. Then the program, which is CUDA's `block`, and the thread. A fault of the whole
# program is reported by one thread, as by thread 0 of the first two. One that every thread meets
# comes once for each, in any order: the third said the same 128 times, and the record keeps 24 of
# the lines. Read the first and count no others. Last comes the sentence.
# `async_copy_global_to_shared` in the first is what was still under way, so look for its wait.
# (That line ends early in the record.) "Write after write" in the second says what came before and
# what after; the same is there for a read after a write, and for a write after a read. Program 5
# was the one at which it showed, and in another run it may be another. The third names what was not
# aligned.
#
# After such a line the process has lost the GPU, as after any failed assertion: it ended with
# `CUDA error: device-side assert triggered`. So there is one report per run. Mend that, and run
# again. On a GPU, `verify(function, reference, cases, sanitizers=("gsan", "iisan"))` does this
# for you: what is right by its values is called once more under each, in a process of its own, so
# that your session keeps the GPU.
#
# And `fpsan`? It computes with whole numbers in place of floats, by rules in which `(a + b) + c`
# and `a + (b + c)` are equal to the last bit. The numbers mean nothing. But two kernels that
# compute the same formula, in whatever order, give the same ones. So let both run under it,
# compare with `torch.equal`, and you know whether a difference was rounding or a mistake. (It
# keeps sums, products and `exp`. It knows nothing of `sqrt(x) * sqrt(x) = x`, of NaN or of
# rounding.) A fourth script sums a million numbers up in blocks of 128 and in blocks of 1,024:

# %% tags=["nbval-check-output"]
print(gpu_report("added"), gpu_report("added, fpsan"), sep="\n\n")

# %% [markdown]
# By themselves the two sums differ in their bits. Under `fpsan` they are the same. So the
# difference was the order of the additions, and neither kernel is wrong. Had a block been left
# out, the bits would differ under `fpsan` too.

# %% [markdown]
# ## Is it the compiler?
#
# The kernel is right with one block size and wrong with another. You have read it three times. Surely
# that is the compiler? Here is one: the largest number of a row.


# %%
@triton.jit
def largest_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    largest = -float("inf")
    for start in range(0, n, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
        largest = tl.maximum(largest, tl.max(x, axis=0))
    tl.store(out_ptr, largest)


# %% tags=["nbval-check-output"]
x, out = -1.0 - torch.arange(96.0, device=DEVICE), torch.empty(1, device=DEVICE)
for settings in ({"BLOCK_SIZE": 32}, {"BLOCK_SIZE": 64}, {"BLOCK_SIZE": 32, "num_warps": 8}):
    largest_kernel[(1,)](x, out, 96, **settings)
    print(settings, "largest:", out.item(), "of", x.max().item())

# %% [markdown]
# Settings decide which of the kernel's own mistakes can be seen. 32 divides 96, and 64 does not, so
# only there are lanes masked, and 0 is larger than every number of this row. So before you blame
# anybody else, let what changed tell you where to look:
#
# | wrong with | look first at |
# |---|---|
# | one block size | masks and `other`, a block that reaches into the next row, sums of 32 bits |
# | more warps | atomics and their order; a combine function of your own that is not associative |
# | more stages | memory that another program writes meanwhile; addresses that a loop changes |
# | one kind of GPU | TF32 in a `tl.dot`, a promise that does not hold |
# | one run of two, same settings | a race |
#
# If none of these is it, narrow it down, a step at a time, and write each result down:
#
# 1. Run `verify`, in CPU mode too: races, masked lanes, promises and accesses outside are found there.
# 2. Take the smallest input that still fails, and vary one setting at a time.
# 3. Is it only rounding? Run the right and the wrong setting under `fpsan` and compare the bits.
# 4. Ask who: `num_stages=1` leaves the pipeline out, and `DISABLE_PTXAS_OPT=1` in the environment makes
#    NVIDIA's assembler translate without optimizing. If that alone mends it, the assembler is the
#    suspect; `lower` shows what it was given.
# 5. Halve the kernel: store what is known after half of its lines, compare that, and go on in the half
#    that is wrong. Then throw away every line that does not matter.
#
# What is left is a report: one file, that anybody can run, with the kernel, inputs from a fixed seed,
# the right setting and the wrong one, what comes out of each and what should. Name the GPU, the driver
# and the versions (`.venv/bin/course doctor` prints them). It goes to
# [Triton's issues](https://github.com/triton-lang/triton/issues), where one search first may save
# your evening. And try the newest Triton: the mistake may be mended there.

# %% [markdown]
# ### Exercise {compiler-or-you} · The compiler, or you? (core)
#
# Which of these speaks for a mistake of the compiler's?
#
# - **a** With 4 and with 8 warps a sum of a million numbers differs in its last digits.
# - **b** With 3 stages it is wrong and with 1 it is right; `verify` says that one program reads what
#   another one writes.
# - **c** A product of float32 matrices is off by 0.1 % on an H200, and right in CPU mode.
# - **d** With 3 stages it is wrong and with 1 it is right; `verify` finds nothing, and under `fpsan`
#   the bits of both differ.
# - **e** It is wrong once in ten runs, with the same settings and the same input.

# %%
# exercise compiler-or-you
letter = None
# about 1 line from here
letter = "d"
# to here

# %%
check("compiler-or-you", letter)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Which of them can you explain by the kernel alone? The order of a sum, TF32 and a race are yours.
#
# </details>

# %% [markdown]
# ## In practice
#
# compute-sanitizer has another tool, `racecheck`. It looks for threads of one program that touch
# the same place in shared memory with nothing between them that makes one wait for the other. In
# Triton the compiler places those waits, so you will seldom need it. In Gluon, from notebook
# {gluon-copies} on, you start copies that run on by themselves, and to wait for these is up to you.
# Here is a script in Gluon that copies a block to shared memory and reads it before the copy is
# done, without the checker and with it.

# %% tags=["nbval-check-output"]
print(gpu_report("race"), gpu_report("race, checked"), sep="\n\n")

# %% [markdown]
# By itself the script got 1 of 128 elements right. Under the checker, which slows everything down,
# all 128 came out right: the copy had the time that nobody had given it. The race is reported all
# the same, because the checker looks for what is missing and not at the values. A wrong result that
# goes away when you look at it is a race until shown otherwise.

# %% [markdown]
# ## On your own
#
# - Take `TRITON_DEBUG=1` and a kernel of yours with a `tl.device_assert`. Compare
#   `lower(…).resources` with `debug=True` and without: what does an assertion cost?
#
# ## What you can do now
#
# You know what a GPU says of kernels that are wrong or never end, and what is left of your session
# afterwards. You know which sanitizer to ask, and what to rule out before you blame the compiler.

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/32-wrong-or-endless.py](../solutions/32-wrong-or-endless.py) has all answers.
#
# **Next:** [33, an operation of your own](33-your-own-operation.ipynb).
