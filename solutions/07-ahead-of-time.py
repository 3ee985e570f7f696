# %% [markdown]
# # 07 · Ahead of time
#
# **What you will build.** A library in C that holds a Triton kernel's machine code, loads it and
# launches it, for applications with no Python in them.
#
# **What you will learn.** You write a kernel's signature and grid, and say what breaks where one is
# wrong. You check what the driver is handed, byte by byte. You join variants of a kernel behind one
# function, and say which of them a call takes.
#
# **What you need.** Lessons 01 to 03, and lesson 06 for "Attention from C++". A C compiler.
#
# | section | minutes |
# |---|---|
# | From a kernel to C | 5 |
# | What the driver is handed | 5 |
# | The signature | 7 |
# | The grid | 5 |
# | Triton's own tool | 7 |
# | Variants | 7 |
# | Attention from C++ | 6 |
# | What a launch costs | 3 |

# %%
from course import DEVICE, MODE, CourseError, aot, check, handed, hint, launch_costs, specialise
from course import stock
from kernels.flash_attention_export import _fwd_kernel
import os
import tempfile
from pathlib import Path
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## From a kernel to C
#
# A launch from Python compiles at its first call, and needs Python, PyTorch and Triton in the
# process. A server in C++ wants none of them. So one compiles *ahead of time*: the machine code is
# written into a C file, with a function that launches it, and becomes a part of the application.

# %% [markdown]
# This kernel has pointers, a float, an integer and a constant. All files of this lesson go into a fresh
# folder, which is removed when the session ends.

# %%
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)


@triton.jit
def scale_kernel(x_ptr, out_ptr, scale, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * scale, mask=mask)


# %% [markdown]
# `aot.export` compiles the kernel and writes two files. It compiles for this machine's GPU; where there
# is none, for "sm_90", an H100 or H200. Look at the names.

# %% tags=["nbval-check-output"]
signature, grid = "*fp32:16, *fp32:16, fp32, i32, 1024", "cdiv(n_elements, BLOCK_SIZE)"
exported = aot.export(scale_kernel, signature, grid, name="multiply", out="aot/multiply")
print(*exported.headers, *exported.sources, sep="\n")

# %% [markdown]
# Between the name and the ending stands first a *hash*: eight hexadecimal digits made from the
# signature, the warps and the pipeline depth, and from nothing else. Then comes what the signature
# promises: `0d1d` says that arguments 0 and 1 are multiples of 16, and `3c` would say that argument 3
# is 1.

# %% [markdown]
# The header is what an application includes. Look at what became of the kernel's five arguments.

# %%
text = exported.headers[0].read_text()
print(text[text.index("/*") : text.index("// tt-linker:")])
print(exported.functions[0].prototype)

# %% [markdown]
# The constant is gone, since it is in the machine code. A *stream* has come first: a queue of work
# for the GPU. `CUresult` is an error code, 0 for success. Now the other file: the source holds the
# machine code.

# %%
text = exported.sources[0].read_text()
print(text[text.index("static const unsigned char") :][:110], "…")

# %% [markdown]
# It is the cubin as text, a number for each byte: the C compiler puts it into the application, and
# no file need be found later. At the first call `load()` hands these bytes to the *driver*, NVIDIA's
# library between an application and the GPU. The rest is the launch. Find in it the promises, the
# grid and the list of arguments. (Triton adds two pointers of its own to every kernel's arguments, for
# scratch memory. This one needs none.)

# %%
print(text[text.index("/* Grid") :])

# %% [markdown]
# ## What the driver is handed
#
# `aot.build` makes a shared library (`.so`) with this machine's C compiler, and the functions of a
# loaded library take tensors and numbers. On a GPU they launch. Where there is none, a stand-in takes
# the place of NVIDIA's driver library: it has the same functions, and writes down what it is handed.
# Your C runs in full there, up to the launch.

# %%
library = aot.build(exported)
multiply = aot.load(library, driver=None if MODE.gpu else aot.fake_driver).multiply
x = torch.randn(98433, device=DEVICE)
out = torch.empty_like(x)
multiply(x, out, 0.5, 98432)
print(torch.equal(out[:98432], x[:98432] * 0.5) if MODE.gpu else "handed to the stand-in")

# %% [markdown]
# On a GPU it says True. `handed` makes such a call too, always on the stand-in, and shows what came
# in. How many bytes the kernel reads of each argument is not taken from the C: it stands in the
# machine code.

# %% tags=["nbval-check-output"]
handed(library, x, out, 0.5, 98432)

# %% [markdown]
# A launch gives the driver a list of addresses, one for each argument, and no sizes: the driver
# copies as many bytes from each as the machine code says. `00 00 00 3f` is 0.5 in float32, its
# lowest byte first.

# %% [markdown]
# ## The signature
#
# The JIT looks at the values of each call, and compiles again where they ask for another kernel.
# `specialise`, from lesson 01, says what it finds. Ahead of time there are no values to look at, so
# you say it.

# %% tags=["nbval-check-output"]
specialise(scale_kernel, x, out, 0.5, 98432, BLOCK_SIZE=1024)

# %% [markdown]
# A signature has a part for each argument of the kernel, in order:
#
# - a type: `i32`, `i1` (a bool), `fp32`, `*fp16` (a pointer to float16);
# - a type with a promise (Triton says *hint*): `:16` for a multiple of 16, of a pointer its address;
#   `:1` for an integer that is 1;
# - a value, as `1024`: a constant. What is `tl.constexpr` in the kernel usually has one.
#
# **Predict** the parameters of the C function for `n_elements` as `i32:1`.

# %% tags=["nbval-check-output"]
for_one = "*fp32:16, *fp32:16, fp32, i32:1, 1024"
one = aot.export(scale_kernel, for_one, grid, name="one", out="aot/one")
print(one.functions[0].prototype)

# %% [markdown]
# What is 1 need not be passed to this function. A promise is your word: nobody looks at values while
# the kernel is compiled. The C function looks when it is called. **Predict** what it says to a vector
# that begins 4 bytes past a multiple of 16.

# %% tags=["nbval-check-output"]
try:
    handed(library, x[1:], out, 0.5, 98432)
except CourseError as error:
    print(error)

# %% [markdown]
# The function returned an error code, of which `handed` makes a sentence; a caller in C has to look for
# it. So promise what always holds, and no more.
# Promising too little is no error at all: loads are narrow, as in lesson 03, and where memory does
# not hide that, the kernel is slower.

# %% [markdown]
# ### Exercise 07.1 · A signature (core)
#
# Write the signature of `bias_gelu_kernel(x_ptr, bias_ptr, out_ptr, n_rows, n_cols, stride_xm,
# stride_xn, BLOCK_M, BLOCK_N)`, in float16, with tiles of 4 x 1024. All three tensors begin at
# multiples of 16 bytes; numbers are `i32`. The rows of `x` may lie any number of elements apart,
# and within a row elements are neighbours.

# %%
# exercise 07.1
answer = None
# about 1 line from here
answer = "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, i32:1, 4, 1024"
# to here

# %%
check("07.1", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Nine arguments, nine parts.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# How far apart are neighbours in a row?
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# Of `n_rows`, `n_cols` and `stride_xm` nothing is known.
#
# </details>

# %% [markdown]
# ## The grid
#
# In Python you compute the grid at each launch. Here it is a text: the kernel's own integers, numbers,
# `+ - * / % ( )` and `cdiv`. It becomes C, whose `/` rounds down, like Python's `//` (but numbers below
# 0 towards 0).
#
# **Predict** the grids of 2,048 and of 1,500 elements.

# %% tags=["nbval-check-output"]
down = aot.export(scale_kernel, signature, "n_elements / BLOCK_SIZE", name="down", out="aot/down")
down_library = aot.build(down)
print([handed(down_library, x, out, 0.5, n_elements).grid for n_elements in (2048, 1500)])

# %% [markdown]
# Of 1,500 elements 476 are never computed, and nobody says so. Of 1,000 none would be: a grid with a
# 0 in it launches nothing, and is no error. `cdiv(n_elements, BLOCK_SIZE)` rounds up. What a grid
# depends on must be an argument of the kernel, also where the kernel itself does not read it, as
# `batch` in the exercise.

# %% [markdown]
# ### Exercise 07.2 · A grid (core)
#
# A program of `_fwd_kernel`, the attention in
# [kernels/flash_attention_export.py](../kernels/flash_attention_export.py), owns 128 queries of one head (`BLOCK_M`
# is 128). Along x the grid counts blocks of queries, along y all heads of all batches. Its
# arguments are called `seqlen_q`, `nheads` and `batch`. Write the grid.

# %%
# exercise 07.2
answer = None
# about 1 line from here
answer = "cdiv(seqlen_q, BLOCK_M), batch * nheads"
# to here

# %%
check("07.2", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many programs do 130 queries need? And 128?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Parts are separated by commas; what is left out is 1.
#
# </details>

# %% [markdown]
# ## Triton's own tool
#
# Triton brings a tool for this, `python -m triton.tools.compile`. In a shell `course aot compile` takes
# its flags:
#
# | flag | in `aot.export` | what it says |
# |---|---|---|
# | the file, `-n` | `kernel` | which kernel, in which file; the file is executed |
# | `-s` | `variants` | the signature (the tool takes no `True`: it wants 1) |
# | `-g` | `grid` | three parts; the tool pastes them into the C, so there is no `cdiv` and no `BLOCK_SIZE` |
# | `-on`, `--out-name` | `name` | what the C function is called |
# | `-o` | `out` | where the files go |
# | `-w` | `num_warps` | warps of a program: 4 here, and 1 in a shell, where nothing is said |
# | `-ns` | `num_stages` | the pipeline depth: 3 where nothing is said |
# | `-t` | `target` | which GPU: "sm_90", or "cuda:90:32" as the tool has it |
#
# The tool needs a GPU on the machine, even where `-t` names another. `stock.compile` runs it in a
# process that is told of one, so that it works here too. Its files have the same names as ours. Look
# at the types in the C function that it declares.

# %% tags=["nbval-check-output"]
in_c = "(n_elements + 1023) / 1024, 1, 1"
plain = stock.compile(scale_kernel, signature, in_c, name="multiply", out="stock/multiply", num_warps=4)
print(plain.header.name == exported.headers[0].name)
print(plain)

# %% [markdown]
# **Predict** which scale the kernel gets when an application calls this function with 0.125.

# %% tags=["nbval-check-output"]
plain.handed(x, out, 0.125, 98432)

# %% [markdown]
# ### Exercise 07.3 · Where the scale went (core)
#
# The function was given 0.125, and the kernel reads 0. With 0.1 it reads -1.6 * 10^-23. Why?
#
# - (a) A float32 cannot hold these numbers: they are rounded.
# - (b) The arguments reach the kernel in another order.
# - (c) The C function holds a `double`, and the kernel reads the first four of its eight bytes.
# - (d) The kernel was compiled for float16.

# %%
# exercise 07.3
letter = None
# about 1 line from here
letter = "c"
# to here

# %%
check("07.3", letter)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `import struct; struct.pack("<d", 0.125).hex(" ")` shows the bytes of a double.
#
# </details>

# %% [markdown]
# No compiler warns and no call fails: the C handed over an address, and four bytes were read there.
# 0.125 is the scale of attention at D = 64. **Predict** what attention becomes with a scale of 0.

# %% tags=["nbval-check-output"]
scores = torch.tensor([40.0, 8.0, -16.0, 0.0])
for scale_read in (0.125, 0.0):
    print(scale_read, [round(share, 2) for share in torch.softmax(scores * scale_read, dim=0).tolist()])

# %% [markdown]
# Every key gets the same share, and the result is the mean of the values: wrong, and plausible.
# What `aot.export` writes declares a `float`; where the kernel takes fp16 or bf16, the C rounds the
# `float` to two bytes. Before it writes a file, it compares the size of every argument with what the
# machine code reads. It also tests promises in every function: the tool's single functions launch where
# one is broken, and a wide load from such an address ends the work of the whole process on the GPU.

# %% tags=["nbval-check-output"]
print(exported.functions[0].prototype)
print(handed(library, x, out, 0.125, 98432).arguments[2])

# %% [markdown]
# ## Variants
#
# An application may have unaligned vectors too, and wants the wide loads for the aligned ones.
# Export both: each signature becomes a *variant*. `aot.link` writes a function that picks one.
# **Predict** what it tests.

# %%
signatures = ["*fp32, *fp32, fp32, i32, 1024", "*fp32:16, *fp32:16, fp32, i32:16, 1024"]
both = aot.export(scale_kernel, signatures, grid, name="multiply", out="aot/both")
linked = aot.link(both, out="aot/linked")
text = linked.header.with_suffix(".c").read_text()
print(text[text.index("static CUresult") : text.index("/* Loads every")])

# %% [markdown]
# It tests what the variants were promised: the one with most promises comes first, in whatever order
# you gave them. **Predict** which variant each of these calls takes.

# %% tags=["nbval-check-output"]
linked_library = aot.build(linked)
calls = [(x, 98432), (x, 98433), (x[1:], 98432)]
taken = [handed(linked_library, vector, out, 0.5, n_elements).function for vector, n_elements in calls]
print(*taken, sep="\n")

# %% [markdown]
# An aligned start with a length that 16 divides takes the one, all other calls the other. Variants that
# differ in a constant, in warps or in pipeline depth are another matter: nothing about the
# arguments says which of them is better. `link` numbers them as *algorithms*, in the order given.
# The caller picks one, and `multiply_default` takes number 0.

# %%
wide = "*fp32:16, *fp32:16, fp32, i32:16, 4096"
wider = aot.export(scale_kernel, wide, grid, name="multiply", out="aot/wider")
print(aot.link([both, wider], out="aot/all"))

# %% [markdown]
# Here order counts. Had `wider` come first, every default call would go to it, and be refused where
# it breaks its promises, although another algorithm takes it. A linker goes by the order of the
# headers it is given, and `aot/*.h` in a shell sorts them by hash: which one comes first is chance.

# %% [markdown]
# ### Exercise 07.4 · A second variant (core)
#
# Write a list of signatures for lesson 01's `add_kernel(x_ptr, y_ptr, out_ptr, n_elements,
# BLOCK_SIZE)`, in float32, with blocks of 1,024. They are exported, linked and called through
# `add_default`, with any lengths and any addresses. Calls in which everything is a multiple of 16
# must take wide loads.

# %%
# exercise 07.4
answer = None
# about 1 line from here
answer = ["*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "*fp32, *fp32, *fp32, i32, 1024"]
# to here

# %%
check("07.4", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Two variants of one algorithm: what may they differ in?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Lesson 03: are loads wide where the length is no multiple of 16?
#
# </details>

# %% [markdown]
# ## Attention from C++
#
# Now the attention of lesson 06, as a library that C++ calls. In a shell, in the course's folder with
# its `.venv` activated, these commands make its C; "…" stands for sixteen more `i32`. On a machine with
# a GPU, `python -m triton.tools.compile` and `python -m triton.tools.link` take the same flags, and
# declare the scale as a `double`.
#
# ```sh
# course aot compile kernels/flash_attention_export.py -n _fwd_kernel \
#     -o aot/fp16/fmha_kernel_d64_fp16 --out-name fmha_d64_fp16 -w 4 -ns 1 \
#     -s "*fp16, *fp16, *fp16, *fp16, *fp32, *fp32, fp32, i32, i32, …, i1, i1, i1, 1, 64, 128, 128" \
#     -g "(seqlen_q + 127) / 128, batch * nheads, 1"
# course aot link aot/fp16/*.h -o aot/fmha_kernel_fp16
# ```
#
# The three flags that say whether lengths fill their blocks are `tl.constexpr` in the kernel. As
# `i1` they become arguments: one variant then serves all lengths. The four constants are the causal
# mask, D, and blocks of 128 queries and 128 keys.

# %% tags=["nbval-check-output"]
signature = "*fp16, *fp16, *fp16, *fp16, *fp32, *fp32, fp32, " + "i32, " * 18
signature += "i1, i1, i1, 1, 64, 128, 128"
grid, out_path = "(seqlen_q + 127) / 128, batch * nheads, 1", "aot/fp16/fmha_kernel_d64_fp16"
fmha = aot.export(_fwd_kernel, signature, grid, "fmha_d64_fp16", out_path, num_stages=1, target="sm_90")
fmha_library = aot.build(aot.link(fmha, out="aot/fmha_kernel_fp16"))
print(*sorted(str(path) for path in Path("aot").rglob("fmha*")), sep="\n")

# %% [markdown]
# Four C files and the library. Nothing is promised, so the name ends with the hash. (Versions of the
# tool before 3.7 listed every argument there: `6979ce4b_0123…27`.) A change of the signature changes
# the hash, so a build takes `aot/*.c aot/fp16/*.c`, and an application includes `fmha_kernel_fp16.h`.
# (Empty the folder before you export again: old variants would be linked too.)
#
# ```cpp
# #include "fmha_kernel_fp16.h"
#
# CUresult result = fmha_d64_fp16_default(
#     stream, q, k, v, out, lse, 0, scale, batch, heads,
#     heads * length * 64, length * 64, 64,  // q: from batch to batch, head to head, row to row
#     heads * length * 64, length * 64, 64,  // k
#     heads * length * 64, length * 64, 64,  // v
#     heads * length * 64, length * 64, 64,  // out
#     length, length, length, 64,            // queries, keys, from row to row of lse, D
#     length % 128 == 0, length % 128 == 0, 1);  // do queries, keys, D fill their blocks?
# ```
#
# A `cudaStream_t` serves as `CUstream`, and an address on the GPU becomes a `CUdeviceptr` by a cast.
# The calling thread must have a context: CUDA's runtime makes one, as does PyTorch. The first call
# loads the machine code; `load_fmha_d64_fp16()` does so at a time of your choosing, say before a server
# answers or a CUDA graph is recorded. `cuda.h` comes with Triton, so no CUDA toolkit is needed to build
# it.
#
# The 0 is a null pointer: the kernel does not use that argument, and from Python any tensor stands
# there. Call it so, for 2 x 3 heads of 130 queries. **Predict** the grid.

# %% tags=["nbval-check-output"]
batch, heads, length = 2, 3, 130
q = torch.empty(batch, heads, length, 64, dtype=torch.float16)
lse = torch.empty(batch, heads, length)
counts = [batch, heads, *q.stride()[:3] * 4, length, length, length, 64, False, False, True]
found = handed(fmha_library, q, q, q, q, lse, lse, 64**-0.5, *counts)
print(found.grid, f"{found.threads} threads, {found.shared_bytes:,} bytes of shared memory")
print(found.arguments[6])

# %% [markdown]
# One command writes a whole application of this kind, in C and in C++, with a Makefile that builds it:
# it makes its inputs, launches, compares with a plain loop, and prints what a launch took. Without a
# GPU the last line takes it up to the launch. It then says that results do not agree, since nothing was
# computed, and `make` reports that as an error.
#
# ```bash
# course aot sample attention build/attention
# make -C build/attention run
# make -C build/attention run CUDA_LIB="$(course aot standin)"
# ```
#
# A model in PyTorch can call the same kernel as an operator. `aot.operator()` builds it: a C++ class
# that loads the embedded cubins when it is constructed, and whose call checks its inputs and launches
# on PyTorch's current stream. `out, lse = torch.ops.course.fmha(q, k, v, scale, causal)` calls it.
# `torch.compile` and `torch.export` take it, since it gives the shapes of its results without computing
# them. It has no gradient.

# %% [markdown]
# ## What a launch costs
#
# A launch from Python looks at every argument, makes a key from types and divisibility, finds the
# kernel under it and calls the driver. The C function tests its promises and calls the driver. A
# *CUDA graph* is a list of launches that was recorded once; the driver starts them all at one call,
# each with the arguments it had then.
#
# `launch_costs` launches a vector add of 1,024 elements in all these ways, and says what one launch
# takes the CPU: of your machine in GPU mode, as recorded on an H200's host in CPU mode. **Predict**
# the order.

# %%
costs = launch_costs()
costs

# %% [markdown]
# Other CPUs have other numbers; compare the ratios. From C, nearly all is the driver's own part.
# Through `aot.load` nothing is gained over the JIT, because there too Python looks at every argument. A
# graph is started by one call, whose time the launches in it share: a graph of one kernel gains little.
# Its addresses, sizes and grids stay what they were.

# %% [markdown]
# ## On your own
#
# - `!nm -D --defined-only {linked_library}` lists what the library exports. Which names does an
#   application see? (`course_aot_index` is data from which `aot.load` learns what to pass.)
# - Export `scale_kernel` under the same `name` for `target="sm_80"` too, with another `out`. What
#   does `aot.link` say to both?
# - Give the argument `scale` the type `fp16`. What does the C function declare, and what does
#   `handed` show for 0.1?
#
# ## In practice
#
# Export with the Triton that you measured with, and keep the command beside the build: the files are
# made again, never edited. A cubin for sm_90 runs on GPUs of that architecture alone, and there is no
# PTX to fall back on: for others export again, under another name, and let the application choose. Look
# at every `CUresult`. Test the library as you test a kernel: on
# lengths that fill no block, against a reference.
#
# ## Further reading
#
# - [Triton's own tool](https://github.com/triton-lang/triton/tree/main/python/triton/tools),
#   `compile.py` and `link.py`
# - [The CUDA driver API](https://docs.nvidia.com/cuda/cuda-driver-api/): libraries, kernels,
#   launches
