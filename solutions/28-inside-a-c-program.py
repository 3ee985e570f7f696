# %% [markdown]
# # 28 · Inside a program in C++
#
# One exported kernel serves the facts that it was compiled for. A real program has many: aligned and
# not, long and short. Here several variants stand behind one function, and a C++ program calls the
# course's attention.
#
# **By the end you can** export variants, choose among them at run time, call a kernel from C++, and say
# what cannot be exported.
#
# **You need** notebooks {ahead-of-time}, {heads-and-tiles} and {finished-kernel}.
#
# | section | about minutes |
# |---|---|
# | Variants | 20 |
# | Attention from C++ | 30 |
# | What cannot be exported | 4 |
# | What a launch costs | 2 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 66 |

# %%
from course import DEVICE, MODE, CourseError, aot, check, handed, hint, launch_costs
from kernels.attention.export import _fwd_kernel
from kernels.attention.tl_hopper import flash_attention_kernel_v4, flash_attention_kernel_v5
import os
import tempfile
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.

# %%
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)


@triton.jit
def scale_kernel(x_ptr, out_ptr, scale, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * scale, mask=mask)


# %% tags=["nbval-check-output"]
signature, grid = "*fp32:16, *fp32:16, fp32, i32, 1024", "cdiv(n_elements, BLOCK_SIZE)"
exported = aot.export(scale_kernel, signature, grid, name="multiply", out="aot/tries/multiply")
print(*exported.headers, *exported.sources, sep="\n")

# %%
library = aot.build(exported)
multiply = aot.load(library, driver=None if MODE.gpu else aot.fake_driver).multiply
x = torch.randn(98433, device=DEVICE)
out = torch.empty_like(x)
multiply(x, out, 0.5, 98432)
print(torch.equal(out[:98432], x[:98432] * 0.5) if MODE.gpu else "handed to the fake driver")

# %% [markdown]
# ## Variants
#
# The warning of our first export left a question open. Some vectors are aligned and have a length
# that 16 divides, and for those we want wide loads. But all other vectors must work as well. The
# JIT compiles another kernel for each combination that it meets. We make two, one that is promised
# everything and one that is promised nothing: each signature becomes a **variant**, a function of
# its own. `aot.link` writes one more function that picks among them.
#
# **Predict:** what does that function have to test, and in which order?
#
# <details>
# <summary>Answer</summary>
#
# Whether the promises of the wide variant hold: both addresses and the length. That comes first. If
# one does not hold, the variant that was promised nothing takes the call.
#
# </details>

# %%
signatures = ["*fp32, *fp32, fp32, i32, 1024", "*fp32:16, *fp32:16, fp32, i32:16, 1024"]
both = aot.export(scale_kernel, signatures, grid, name="multiply", out="aot/tries/both")
linked = aot.link(both, out="aot/tries/linked")
text = linked.header.with_suffix(".c").read_text()
print(text[text.index("static CUresult") : text.index("/* Loads every")])

# %% [markdown]
# The first function is the one that picks. The other three are about algorithms, which come below;
# for now, `multiply_default` is the one to call. The variant with the most promises is tried first,
# in whatever order you gave them. So the order of the list does not matter here.
#
# **Predict:** which variant does each of these three calls take? The tensors are `x`, `x` and
# `x[1:]`, the lengths 98,432, 98,433 and 98,432.
#
# <details>
# <summary>Answer</summary>
#
# The first takes the wide one (`0d1d3d`). In the second the length is not divisible by 16, in the
# third the address is not, so both take the other.
#
# </details>

# %% tags=["nbval-check-output"]
linked_library = aot.build(linked)
calls = [(x, 98432), (x, 98433), (x[1:], 98432)]
taken = [handed(linked_library, vector, out, 0.5, n_elements).function for vector, n_elements in calls]
print(*taken, sep="\n")

# %% [markdown]
# You may also want a kernel with another block size, or another number of warps. That is no
# variant: no test of the arguments can tell which of the two is better. So `link` treats them as
# **algorithms**, kernels for the same function that the caller picks by number. They are numbered
# in the order given, and `multiply_default` takes number 0.

# %%
wide = "*fp32:16, *fp32:16, fp32, i32:16, 4096"
wider = aot.export(scale_kernel, wide, grid, name="multiply", out="aot/tries/wider")
print(aot.link([both, wider], out="aot/tries/all"))

# %% [markdown]
# Here the order does matter. Had `wider` come first, every default call would go to it, and it
# refuses all calls that break its promises, although another algorithm would take them. Be careful
# in a shell: `aot/*.h` gives the headers in the order of their names. Where these differ in the
# hash alone, which one comes first is chance.

# %% [markdown]
# ### Exercise {second-variant} · A second variant (core)
#
# Write a list of signatures for notebook {vector-add}'s `add_kernel(x_ptr, y_ptr, out_ptr,
# n_elements, BLOCK_SIZE)`, in float32, with blocks of 1,024. They are exported, linked and called
# through `add_default`, with any lengths and any addresses. Every call must be served, and a call
# in which all addresses and the length are multiples of 16 must get wide loads.

# %%
# exercise second-variant
answer = None
# about 1 line from here
answer = ["*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "*fp32, *fp32, *fp32, i32, 1024"]
# to here

# %%
check("second-variant", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# You need two variants of one algorithm. What may they differ in?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# In notebook {who-holds-what}, were the loads wide where 16 did not divide the length?
#
# </details>

# %% [markdown]
# ## Attention from C++
#
# The attention of notebook {finished-kernel} becomes a library for C++. Its kernel has 32
# arguments, and the first attempt is to name their types and leave the rest as it is. The three
# flags EVEN_M, EVEN_N and EVEN_HEADDIM say whether the queries, the keys and the head dimension
# fill their blocks. They are `tl.constexpr` in the kernel, and a signature may make arguments of
# them (`i1`), so that one variant serves all lengths. The grid is that of exercise {export-grid},
# written so that Triton's own tool takes it too: its 127 and 128 stand for BLOCK_M, and must change
# with it. The four constants at the end are the causal mask, D, and blocks of 128 queries and 128
# keys. The compiler takes some seconds for it.
#
# **Predict:** in notebook {heads-and-tiles} you counted registers for just this tile, with 4 warps.
# What will the export report?
#
# <details>
# <summary>Answer</summary>
#
# Scores and accumulator alone take 192 registers per thread. With all the rest, 255 do not suffice:
# it spills.
#
# </details>

# %% tags=["nbval-check-output"]
attention_grid = "(seqlen_q + 127) / 128, batch * nheads, 1"
first_try = "*fp16, *fp16, *fp16, *fp16, *fp32, *fp32, fp32, " + "i32, " * 18
first_try += "i1, i1, i1, 1, 64, 128, 128"
first = aot.export(_fwd_kernel, first_try, attention_grid, "first", "aot/tries/first", target="sm_90")
print(first)

# %% [markdown]
# This library would give right results, and it would be a poor piece of work. The kernel spills,
# and it loads the 16-bit elements one by one. There is a third thing, which the report does not
# spell out. Asynchronous copies move 4, 8 or 16 bytes per thread, and never 2. So nothing can be
# pipelined: q takes 16,384 bytes of shared memory (128 x 64 x 2), a single tile of keys or values
# another 16,384, and that is all there is.
#
# We fix it in two steps. The spills first: at D = 64, `v3` of notebook {finished-kernel} takes 8
# warps, tiles of 128 x 64 and 3 stages. And while we are at it, we promise two things. Memory from
# an allocator begins at a multiple of 16 bytes (a view such as `x[1:]` need not, and will be
# refused), and the twelve strides of contiguous tensors are multiples of 64 here. The sixth pointer
# is a buffer that the kernel never uses, so it is promised nothing.
#
# **Predict:** one promise of the list in the warning is still missing. Will most of the loads be
# wide now?
#
# <details>
# <summary>Answer</summary>
#
# Not one of them. The mask of every load has `dims < head_dim` in it, along the axis on which
# neighbors lie in memory. Nothing is known of `head_dim`, so the mask may change between any two
# neighbors, however well the addresses are aligned. It is `n_elements` once more, in a place where
# it is hard to see. The flag EVEN_HEADDIM does not help: here it is an argument, so the compiler
# does not know its value and has to keep the mask.
#
# </details>

# %% tags=["nbval-check-output"]
pointers, strides = "*fp16:16, *fp16:16, *fp16:16, *fp16:16, *fp32:16, *fp32", "i32:16, " * 12
constants, options = "i1, i1, i1, 1, 64, 128, 64", {"num_warps": 8, "num_stages": 3, "target": "sm_90"}
second_try = f"{pointers}, fp32, i32, i32, {strides}i32, i32, i32, i32, {constants}"
second = aot.export(_fwd_kernel, second_try, attention_grid, "second", "aot/tries/second", **options)
print(second)

# %% [markdown]
# The spills are gone and the loads are as narrow as before. Now for `head_dim`, the last of the
# `i32`. It is 64 in every call, so promising it costs nothing.

# %% tags=["nbval-check-output"]
signature = f"{pointers}, fp32, i32, i32, {strides}i32, i32, i32, i32:16, {constants}"
name, out_path = "fmha_d64_fp16", "aot/fp16/fmha_kernel_d64_fp16"
fmha = aot.export(_fwd_kernel, signature, attention_grid, name, out_path, **options)
for each in (first, second, fmha):
    print(each.functions[0].needs)

# %% [markdown]
# One word in a signature, and every load moves 16 bytes instead of 2. Shared memory tells the rest
# of the story: q with its 16,384 bytes, and now three stages of a key tile and a value tile, each
# 64 x 64 x 2 = 8,192 bytes. 16,384 + 3 x 16,384 = 65,536. The loop is pipelined.
#
# From Python you never had to think of this, because the JIT finds it out at every launch. So read
# what the export prints: bytes of stack, bytes per load, and the warnings. To look closer, give the
# same signature to notebook {who-holds-what}'s tool in a shell: `course lower FILE.py:KERNEL -s "…"
# -w 8`.

# %% [markdown]
# There is one variant only, and linking still helps. It gives the application a name without a
# hash, `fmha_d64_fp16_default`, which stays the same when the signature changes. A call that breaks
# a promise is refused, since no other variant is there to take it.

# %% tags=["nbval-check-output"]
fmha_linked = aot.link(fmha, out="aot/fmha_kernel_fp16")
fmha_library = aot.build(fmha_linked)
print(*fmha_linked.sources, fmha_linked.header, fmha_library, sep="\n")

# %% [markdown]
# In a shell you would type the following, in the course's folder with its `.venv` activated. The
# "…" stands for ten more `i32:16`. Triton's own tool and linker take the same flags, on a machine
# with a GPU, and would declare the scale as a `double`.
#
# ```sh
# course aot compile kernels/attention/export.py -n _fwd_kernel \
#     -o aot/fp16/fmha_kernel_d64_fp16 --out-name fmha_d64_fp16 -w 8 -ns 3 \
#     -s "*fp16:16, *fp16:16, *fp16:16, *fp16:16, *fp32:16, *fp32, fp32, i32, i32, \
# i32:16, i32:16, …, i32, i32, i32, i32:16, i1, i1, i1, 1, 64, 128, 64" \
#     -g "(seqlen_q + 127) / 128, batch * nheads, 1"
# course aot link aot/fp16/*.h -o aot/fmha_kernel_fp16
# ```
#
# The application compiles `aot/*.c aot/fp16/*.c` and includes `fmha_kernel_fp16.h`. (What the other
# cells have exported lies in `aot/tries`, and stays out of it.) If you change the signature, the
# hash in the names changes too. So empty the folder before you export again, or the old variant is
# linked as well.

# %% [markdown]
# This is the call from C++. It is long, because a C function takes what Python would read from the
# tensors: three strides for each of q, k, v and out. The order is that of the header's prototype,
# so keep the header open beside it. What fills the last three is up to you, and the function cannot
# test it: say true for a block that is not full, and the kernel reads and writes past the end.
#
# ```cpp
# #include "fmha_kernel_fp16.h"
#
# const int row = 64, head = length * row, batch_step = heads * head;  // contiguous tensors
# CUresult result = fmha_d64_fp16_default(
#     stream, q, k, v, out, lse,
#     0,                      // a buffer that the kernel does not use: a null pointer will do
#     scale, batch, heads,
#     batch_step, head, row,  // q: from batch to batch, head to head, row to row
#     batch_step, head, row,  // k
#     batch_step, head, row,  // v
#     batch_step, head, row,  // out
#     length, length,         // queries, keys
#     length,                 // from one row of lse to the next
#     64,                     // head_dim
#     length % 128 == 0, length % 64 == 0, 1);  // do queries, keys and head_dim fill their blocks?
# ```
#
# A `cudaStream_t` serves as a `CUstream` (0 is the default one), and a pointer on the GPU becomes a
# `CUdeviceptr` by a cast. The calling thread must have a **context**, the driver's record of what
# this process owns on one GPU. PyTorch makes one, and so does CUDA's runtime with
# `cudaSetDevice(0)`. Without either, three calls of the driver do it:
#
# ```cpp
# CUdevice device;
# CUcontext context;
# must(cuInit(0)), must(cuDeviceGet(&device, 0));
# must(cuDevicePrimaryCtxRetain(&context, device)), must(cuCtxSetCurrent(context));
# ```
#
# Here `must` is a function of yours that looks at the `CUresult` and ends the program, with the
# sentence that `cuGetErrorString` gives, where it is not `CUDA_SUCCESS`. Hand it what the launch
# returns as well. The function returns as soon as the launch is in the stream, so its `CUresult` speaks of
# the launch alone. What goes wrong while the kernel runs is reported later, by
# `cudaStreamSynchronize` for example. The first call loads the machine code. If you would rather
# choose the moment, say before a server answers, call `load_fmha_d64_fp16()`.
#
# Building it takes a C and a C++ compiler and no CUDA toolkit, since `cuda.h` comes with Triton.
# The header declares its functions `extern "C"`. `-lcuda` is the driver's library. The driver brings
# it as `libcuda.so.1`; where the linker does not find a `libcuda.so`, write `-l:libcuda.so.1`.
#
# ```bash
# INCLUDE=$(python -c "import triton; print(triton.__path__[0] + '/backends/nvidia/include')")
# cc -O2 -I"$INCLUDE" -Iaot -Iaot/fp16 -c aot/*.c aot/fp16/*.c
# c++ -O2 -I"$INCLUDE" -Iaot -Iaot/fp16 main.cpp *.o -lcuda -pthread -o server
# ```
#
# With CMake, given the same folder by `-DTRITON_INCLUDE="$INCLUDE"`:
#
# ```cmake
# cmake_minimum_required(VERSION 3.20)
# project(server LANGUAGES C CXX)
# file(GLOB KERNELS aot/*.c aot/fp16/*.c)
# add_executable(server main.cpp ${KERNELS})
# target_include_directories(server PRIVATE aot aot/fp16 ${TRITON_INCLUDE})
# target_link_libraries(server PRIVATE cuda pthread)
# ```
#
# *Several kinds of GPU.* `link` takes one architecture, since no argument of a call says on which GPU
# it runs. So export under a name for each, `fmha_sm80` and `fmha_sm90`, into a folder each, and link
# each by itself. Then compile all of them into the one library, and choose once:
#
# ```cpp
# int major;
# must(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
# const auto fmha = major == 9 ? fmha_sm90_default : fmha_sm80_default;  // of one prototype
# ```
#
# Machine code for sm_80 also runs on the other GPUs of compute capability 8, and that for sm_90
# on 9.0 alone. On a GPU of any other major version, such as an RTX 5090 with 12, this line picks
# the code for sm_80, and the first call returns `CUDA_ERROR_NO_BINARY_FOR_GPU`. So refuse what is
# neither 8 nor 9 where you choose, with a sentence of your own, or export for it as well. *The driver* must be as new as CUDA's major version that made the machine code, and know the
# functions that the C calls, which came with CUDA 12.0. So the least is 525.60.13 on Linux, if the
# assembler is of CUDA 12, and 580 if it is of CUDA 13:

# %%
print("The assembler is of CUDA", triton.knobs.nvidia.ptxas.version)

# %% [markdown]
# `handed` makes the same call, here for 2 x 3 heads of 130 queries.
#
# **Predict:** the grid, and the number of threads.
#
# <details>
# <summary>Answer</summary>
#
# 130 queries are two blocks of 128, and there are 6 heads: (2, 6, 1). 8 warps are 256 threads.
#
# </details>

# %% tags=["nbval-check-output"]
batch, heads, length = 2, 3, 130
q = torch.empty(batch, heads, length, 64, dtype=torch.float16)
lse = torch.empty(batch, heads, length)
counts = [batch, heads, *q.stride()[:3] * 4, length, length, length, 64, False, False, True]
launch = handed(fmha_library, q, q, q, q, lse, lse, 64**-0.5, *counts)
print(launch.grid, f"{launch.threads} threads, {launch.shared_bytes:,} bytes of shared memory")
print(launch.arguments[6])

# %% [markdown]
# One command writes a whole application of this kind, in C and in C++, with a Makefile. The two
# applications make their inputs, launch, compare with a plain loop, and print what a launch took.
# Without a GPU the last line takes them up to the launch. They then say that the results do not
# agree, because nothing was computed, and `make` reports that as an error.
#
# ```bash
# course aot sample attention build/attention
# make -C build/attention run
# make -C build/attention run CUDA_LIB="$(course aot fake-driver)"
# ```
#
# A model in PyTorch can call the same kernel as an operator, `torch.ops.course.fmha`, without Triton in
# the process. The next cell builds it, which takes some seconds, and calls it. `torch.compile` and
# `torch.export` take it as well, since it says what shapes its results have. It has no gradient.

# %% tags=["nbval-check-output"]
driver = None if MODE.gpu else aot.fake_driver
fmha_operator = aot.operator(head_dims=(64,), dtypes=("fp16",), driver=driver)
q = q.normal_().to(DEVICE)
out, lse = fmha_operator(q, q, q, 64**-0.5, False)
print(tuple(out.shape), out.dtype, tuple(lse.shape), lse.dtype)

# %% [markdown]
# ## What cannot be exported
#
# The exported kernel is `v3` of notebook {finished-kernel}, and the one after that has faster ones.
# Why not export `v4` or `v5`? Let us try. The K and V of `v4` are tensor descriptors. (Its
# signature is cut short below, since the export stops at the first descriptor.) `v5` makes its
# descriptors itself, but it takes its strides as tuples, which C does not have. So we write a
# kernel around it that makes them, for contiguous tensors of one shape.


# %%
@triton.jit
def v5_kernel(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads, n_blocks, n_tiles, length):
    strides, rows = (nheads * length * 128, length * 128, 128), n_tiles * 128
    flash_attention_kernel_v5(
        q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads, n_blocks, n_tiles,
        strides, strides, strides, strides, (rows, rows, rows, rows), (length, length),
        IS_CAUSAL=False, HEADDIM=128, BLOCK_M=128, BLOCK_N=128, HEADS_PER_KEY_HEAD=1,
        PERSISTENT=True,
    )  # fmt: skip


# %% tags=["nbval-check-output"]
v4 = "*fp16:16, tensordesc<fp16[1, 1, 64, 64]>, tensordesc<fp16[1, 1, 64, 64]>, *fp16:16"
v5 = "*fp16:16, *fp16:16, *fp16:16, *fp16:16, *fp32, fp32, i32, i32, i32, i32:16"
for kernel, each in ((flash_attention_kernel_v4, v4), (v5_kernel, v5)):
    try:
        aot.export(kernel, each, "1", "attention", "aot/tries/attention", num_stages=2, target="sm_90")
    except CourseError as error:
        print(error)

# %% [markdown]
# A tensor descriptor of `v4` is no plain number or address. The launcher asks the driver to encode
# it for each tensor, and Triton's launch passes it on. The exported C can do neither. The
# descriptors of `v5` are made by the kernel, in a piece of device memory that Triton sets aside at
# each launch: that is the scratch memory. The C would have to allocate it.
#
# For similar reasons there is no export of a kernel that runs in clusters of programs (`num_ctas`),
# or whose programs wait for one another. A constant that is a text or a type cannot be written in a
# signature; in that case write a small kernel that calls yours with the constant in place.
#
# What does it cost to stay with `v3`? On the H200, at D = 128 and with no causal mask (ours, with D
# = 64, was not measured), `v3` took between 1.12 and 1.40 times as long as `v5`. The difference
# is largest at 512 queries and keys, and smallest at 16,384.

# %% [markdown]
# ## What a launch costs
#
# Does the export make the launch itself cheaper? From Python, a launch looks at every argument,
# makes a key from types and divisibility, finds the kernel for that key, and calls the driver. The
# C function tests its promises and calls the driver. There is a third way: a **CUDA graph** is a
# list of launches that is recorded once. A single call then starts them all, each with the
# arguments it had when it was recorded.
#
# `launch_costs` launches a vector add of 1,024 elements in all these ways, and says how long the
# CPU is busy with one launch. In GPU mode it measures on your machine; in CPU mode it shows what
# was recorded.

# %%
costs = launch_costs()
costs

# %% [markdown]
# Your CPU has other numbers; compare the ratios. Two things are worth noticing. From C nearly all
# of the time is the driver's own. And calling the exported C from Python gains little over the JIT,
# because Python again looks at every argument. A graph spreads the cost of one call over all the
# launches in it, so a graph of a single kernel gains little too. And its addresses, sizes and grids
# stay what they were.

# %% [markdown]
# ## On your own
#
# - Export `scale_kernel` for `target="sm_80"` too, under a name of its own, and build one shared library
#   of both from the shell. What does `nm -D --defined-only` list?
# - Give the argument `scale` the type `fp16`. What does the C function declare, and what does
#   `handed` show for 0.1?
# - Take the `:16` of one stride out of the last attention signature. Which loads become narrow, and
#   what does the warning name?
#
# ## In practice
#
# Export with the Triton that you measured with, and keep the command beside the build: the files
# are made again, never edited. Read the warnings. A cubin for sm_90 runs on GPUs of that
# architecture alone, and there is no PTX to fall back on. Look at every `CUresult`. And test the
# library as you test a kernel: with lengths that fill no block, against a reference.
#
# ## What you can do now
#
# You can put a kernel into a program that has never heard of Python. Ask yourself:
#
# 1. A colleague calls a function that Triton's own tool wrote, and a float argument arrives as 0.
#    Nothing failed. What happened?
#
# <details>
# <summary>Answer</summary>
#
# Its C declares a `double`, and the kernel reads only the first four of the eight bytes. The driver
# is told no sizes, so nobody notices.
#
# </details>
#
# 2. Your library has the same kernel for sm_80 and for sm_90. On which of these does a call of it run:
#    an RTX 4090 (8.9), an H200 (9.0), an RTX 5090 (12.0)?
#
# <details>
# <summary>Answer</summary>
#
# On the first two. Machine code runs on later GPUs of its own major version, so an RTX 4090 takes the
# code for sm_80, and an H200 has its own. Nothing in the library is for 12.0, and there is no PTX that
# the driver could translate.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/28-inside-a-c-program.py](../solutions/28-inside-a-c-program.py) has all answers.
#
# **Next:** [29, when it is slow](29-when-it-is-slow.ipynb).
