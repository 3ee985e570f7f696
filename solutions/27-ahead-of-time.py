# %% [markdown]
# # 27 · Ahead of time
#
# Your kernel is right and it is fast. Now it has to run in a server that is written in C++, which
# should carry neither Python nor PyTorch nor Triton, and should not compile anything while a customer
# waits.
#
# Triton can compile the kernel beforehand, and what comes out is a file in C. There is one catch. At
# each launch from Python the JIT looks at the values and finds out what may be assumed of them.
# Beforehand there are no values, so you have to state these facts yourself. If you get one wrong,
# there is seldom an error.
#
# **By the end you can** write the signature and the grid of a kernel that is compiled ahead of time,
# and say what Triton's own tool gets wrong without a word.
#
# **You need** notebooks {which-block-size} and {who-holds-what}.
#
# | section | about minutes |
# |---|---|
# | From a kernel to C | 6 |
# | What the driver is handed | 3 |
# | The signature | 15 |
# | The grid | 15 |
# | Triton's own tool | 15 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 64 |

# %% [markdown]
# **Two questions from earlier notebooks.** Answer them before you unfold the answers.
#
# 1. The 1,024 float32 of a block lie side by side, and each thread holds four neighbors. What must
#    the compiler know so that one wide load can fetch these four?
#
# <details>
# <summary>Answer</summary>
#
# That they begin at a multiple of 16 bytes, and that one mask holds for all four. The first
# follows from the tensor's address, the second from a length that is divisible by 16.
#
# </details>
#
# 2. An attention program has 128 queries, D = 64, and takes 128 keys at a time. How many registers
#    per thread do the scores and the accumulator take with 4 warps, in float32?
#
# <details>
# <summary>Answer</summary>
#
# 4 warps are 128 threads. The scores are 128 x 128 numbers, 128 per thread; the accumulator is 128
# x 64, 64 per thread. Together 192 of the 255 that a thread can have, and q, k, v and all
# addresses need room too.
#
# </details>

# %%
from course import DEVICE, MODE, CourseError, aot, check, handed, hint, specialize, stock
import os
import tempfile
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## From a kernel to C
#
# To compile **ahead of time** means to compile before the application starts, and not at its first
# launch. Let us do it with a kernel that is simple and has one argument of each kind: pointers, a
# float, an integer and a constant. The notebook's files go into a fresh folder, which is removed
# when the session ends.

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
# `aot.export` compiles a kernel and writes two files. It asks for a signature, which says what the
# arguments are, and a grid. Both are texts, and each has a section of its own below. It compiles
# for this machine's GPU, and where there is none for "sm_90", an H100 or H200.

# %% tags=["nbval-check-output"]
signature, grid = "*fp32:16, *fp32:16, fp32, i32, 1024", "cdiv(n_elements, BLOCK_SIZE)"
exported = aot.export(scale_kernel, signature, grid, name="multiply", out="aot/tries/multiply")
print(*exported.headers, *exported.sources, sep="\n")

# %% [markdown]
# The files' names look odd, and they say something. First comes a **hash**: eight hexadecimal
# digits made from the signature, the number of warps and the pipeline depth. Exports that differ in
# one of these do not overwrite each other. After it comes what the signature promises: `0d1d` says
# that arguments 0 and 1 are divisible by 16. (A `c` in place of `d` means: always 1.)
#
# The first file is the header, the one that an application includes. What became of the kernel's
# five arguments?

# %%
text = exported.headers[0].read_text()
print(text[text.index("/*") : text.index("// tt-linker:")])
print(exported.functions[0].prototype)

# %% [markdown]
# The pointers have become `CUdeviceptr`, an address on the GPU as an integer of 64 bits. The
# constant is gone, because the machine code already contains it. In front there is a new argument,
# the **stream**: a queue of work for the GPU, which is done in order. The function returns a
# `CUresult`, an error code, where 0 means success.
#
# The second file holds the machine code.

# %%
text = exported.sources[0].read_text()
print(text[text.index("static const unsigned char") :][:110], "…")

# %% [markdown]
# This is the cubin of notebook {who-holds-what}, written as a list of bytes. The C compiler puts it
# into the application, so the application needs no further file. The rest of this source is the
# function that launches. Before you run the next cell, think of what it must do: test what was
# promised, compute the grid, and hand over the arguments. Then find these three places.

# %%
print(text[text.index("/* Grid") :])

# %% [markdown]
# The last line calls the **driver**, NVIDIA's library through which every application talks to the
# GPU. `load()` hands it the cubin at the first call. (The two `scratch` pointers are arguments that
# Triton adds to every kernel. This one does not use them.)

# %% [markdown]
# ## What the driver is handed
#
# Does this C really launch what we meant? `aot.build` makes a shared library of it, a `.so`, with
# this machine's C compiler. `aot.load` makes its functions callable with tensors and numbers, under
# the name that you gave, so that we can try them from here. (In C this function has its full name,
# with the hash. A name without it comes with `aot.link`, in notebook {inside-a-c-program}.) On a
# GPU they launch. On a machine without one a **fake driver** takes its place: a library with the
# same functions, which writes down what it is handed and launches nothing. Your C runs in full
# there, up to the launch itself.

# %%
library = aot.build(exported)
multiply = aot.load(library, driver=None if MODE.gpu else aot.fake_driver).multiply
x = torch.randn(98433, device=DEVICE)
out = torch.empty_like(x)
multiply(x, out, 0.5, 98432)
print(torch.equal(out[:98432], x[:98432] * 0.5) if MODE.gpu else "handed to the fake driver")

# %% [markdown]
# On a GPU this prints True. To look at the call itself, use `handed`: it makes the call on the
# fake driver, on every machine, and shows what came in.

# %% tags=["nbval-check-output"]
handed(library, x, out, 0.5, 98432)

# %% [markdown]
# A launch gives the driver a list of addresses, one per argument, and no sizes. The driver copies
# from each address as many bytes as the machine code says that the kernel takes. The table shows
# those bytes: `00 00 00 3f` is 0.5 in float32, lowest byte first. Keep in mind that nobody compares
# types here. It will matter soon.

# %% [markdown]
# ## The signature
#
# What has to be said of each argument? The JIT shows it best, since it finds the same things out at
# every launch. `specialize`, from notebook {which-block-size}, lists them.

# %% tags=["nbval-check-output"]
specialize(scale_kernel, x, out, 0.5, 98432, BLOCK_SIZE=1024)

# %% [markdown]
# A signature says this in advance. It has one part for each argument of the kernel, in order:
#
# | a part | for example | says |
# |---|---|---|
# | a type | `i32`, `i64`, `i1` (a bool), `fp32`, `*fp16` (a pointer to float16), `*bf16` | it is passed at each call |
# | a type with `:16` | `*fp32:16`, `i32:16` | the address in bytes, or the number, is always a multiple of 16 |
# | an integer type with `:1` | `i32:1` | the number is always 1 |
# | a value | `1024` | a constant: what you write for a `tl.constexpr` |
#
# The two in the middle are promises, like `tl.multiple_of`. Triton's name for such a promise is
# **hint**. About the first row: the JIT takes `i64` for a number that does not fit into 32 bits.
# Here you choose, and a larger number that is passed as an `i32` loses its upper half on the way,
# silently.
#
# **Predict:** which parameters does the C function have if `n_elements` is `i32:1`?
#
# <details>
# <summary>Answer</summary>
#
# The stream, two addresses and the scale. What is always 1 need not be passed, so it is compiled in
# like a constant.
#
# </details>

# %% tags=["nbval-check-output"]
for_one = "*fp32:16, *fp32:16, fp32, i32:1, 1024"
one = aot.export(scale_kernel, for_one, grid, name="one", out="aot/tries/one")
print(one.functions[0].prototype)

# %% [markdown]
# What if a promise is broken? The compiler takes your word for it, and makes wide loads wherever
# the promises suffice. A wide load from an address that is not aligned is an error on the GPU,
# after which the whole process can do no more work there. So the C function tests its promises at
# every call, needed or not. `x[1:]` begins 4 bytes past a multiple of 16.

# %% tags=["nbval-check-output"]
try:
    handed(library, x[1:], out, 0.5, 98432)
except CourseError as error:
    print(error)

# %% [markdown]
# The function returned an error code and launched nothing. `handed` made a sentence of the code; a
# caller in C has to look at it.
#
# So promise only what always holds, and promise all of it: a missing promise is no error, but it
# costs speed. Our own signature lacks one. `print` shows what `aot.export` had to say about it.

# %%
print(exported)

# %% [markdown]
# The warning is notebook {who-holds-what} again. `mask` compares the offsets with `n_elements`. As
# long as nothing is known of that number, the end may lie between two neighbors, so each needs a
# load of its own: "loads of 4 bytes". Is the warning right that we should promise more? That
# depends on the callers. If vectors of any length must work, the promise would be wrong. In
# notebook {inside-a-c-program} you export two variants, and have both.

# %% [markdown]
# ### Exercise {export-signature} · A signature (core)
#
# Write the signature of notebook {programs-that-share}'s kernel
#
# ```
# bias_gelu_kernel(x_ptr, bias_ptr, out_ptr, n_rows, n_cols, stride_xm, stride_xn, BLOCK_M, BLOCK_N)
# ```
#
# for float16 and tiles of 4 x 1024. All three tensors begin at multiples of 16 bytes, and all
# numbers are `i32`. There may be any number of rows and columns. The rows of `x` may lie any number
# of elements apart, and within a row the elements are neighbors. Promise what always holds, and
# nothing else.

# %%
# exercise export-signature
answer = None
# about 1 line from here
answer = "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, i32:1, 4, 1024"
# to here

# %%
check("export-signature", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Nine arguments, so nine parts. The last two are constants.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `stride_xn` is the distance from an element to its neighbor in the row. How large is it?
#
# </details>
#
# <details>
# <summary>Hint 3</summary>
#
# Nothing is known of `n_rows`, `n_cols` and `stride_xm`.
#
# </details>

# %% [markdown]
# ## The grid
#
# From Python you compute the grid before each launch. The C function must do that by itself, from
# the arguments it is given. So the grid is a text that becomes C: up to three parts, separated by
# commas, of which those left out are 1. A part is made of the kernel's own integers and constants
# by name, numbers, `+ - * / % ( )` and `cdiv`. As in C, `/` drops the fraction.
#
# **Predict:** what is the grid for 2,048 elements, and for 1,500, if you write
# `n_elements / BLOCK_SIZE` with blocks of 1,024? Which elements are left out?
#
# <details>
# <summary>Answer</summary>
#
# 2,048 / 1,024 is 2, and 1,500 / 1,024 is 1. One program covers 1,024 elements, so of the 1,500 the
# last 476 are never computed. And for 1,000 the grid would be 0. Launching no programs is no error,
# so the call would succeed and do nothing.
#
# </details>

# %% tags=["nbval-check-output"]
down = aot.export(scale_kernel, signature, "n_elements / BLOCK_SIZE", name="down", out="aot/tries/down")
down_library = aot.build(down)
print([handed(down_library, x, out, 0.5, n_elements).grid for n_elements in (2048, 1500)])

# %% [markdown]
# Nothing complains here, neither the compiler nor the driver. Write `cdiv(n_elements, BLOCK_SIZE)`,
# which rounds up.
#
# The grid can only use what the function is given. If it depends on a number that the kernel does
# not need, that number must be an argument of the kernel all the same. The next kernel has one like
# that: its code never reads `batch`.

# %% [markdown]
# ### Exercise {export-grid} · A grid (core)
#
# `_fwd_kernel` in [kernels/attention/export.py](../kernels/attention/export.py) is the attention of
# notebook {finished-kernel}, for callers in C. Each program owns `BLOCK_M` queries of one head, and
# `BLOCK_M` is 128. Along x the grid counts blocks of queries, along y all heads of all batches. The
# arguments that you need are `seqlen_q`, `nheads` and `batch`. (`seqlen_q_rounded`, which is there
# too, only says how far apart the rows of the log-sum-exp are.) Write the grid.

# %%
# exercise export-grid
answer = None
# about 1 line from here
answer = "cdiv(seqlen_q, BLOCK_M), batch * nheads"
# to here

# %%
check("export-grid", answer)

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
# The second part is a product of two arguments. You need not write the third: what is left out is
# 1.
#
# </details>

# %% [markdown]
# ## Triton's own tool
#
# Triton brings a tool for this, `python -m triton.tools.compile`. Why does the course write C of
# its own? You will see in a moment. The options have the same meaning in both, and in a shell
# `course aot compile` takes the tool's flags:
#
# | flag | in `aot.export` | what it says |
# |---|---|---|
# | the file, `-n` | `kernel` | which kernel, and in which file; the file is executed |
# | `-s` | `variants` | the signature, or here a list of them (the tool writes a bool as 1, and not as True) |
# | `-g` | `grid` | the grid (the tool wants three parts, and takes neither `cdiv` nor names of constants) |
# | `-on`, `--out-name` | `name` | what the C function is called |
# | `-o` | `out` | the files' path, up to the hash |
# | `-w` | `num_warps` | warps per program: 4 if you say nothing here, but **1** in a shell |
# | `-ns` | `num_stages` | the pipeline depth: 3 if you say nothing |
# | `-t` | `target` | which GPU: "sm_90", or "cuda:90:32" as the tool has it |
#
# The tool needs a GPU on the machine, even where `-t` names another one. `stock.compile` runs it in
# a process that is made to believe there is one, so it works here too. Compare the types in the C
# function that it declares with those in ours.

# %% tags=["nbval-check-output"]
in_c = "(n_elements + 1023) / 1024, 1, 1"
plain = stock.compile(scale_kernel, signature, in_c, name="multiply", out="stock/multiply", num_warps=4)
print(plain.header.name == exported.headers[0].name)
print(plain)

# %% [markdown]
# The files have the same names as ours, and one of the types differs. Suppose an application calls
# this function with 0.125. This is what the driver is handed:

# %% tags=["nbval-check-output"]
plain.handed(x, out, 0.125, 98432)

# %% [markdown]
# ### Exercise {where-the-scale-went} · Where the scale went (core)
#
# The function was given 0.125, and the kernel reads 0. When it is given 0.1, the kernel reads
# -1.6 * 10^-23. Why?
#
# - (a) A float32 cannot hold these numbers: they are rounded.
# - (b) The arguments reach the kernel in another order.
# - (c) The C function holds a `double`, and the kernel reads the first four of its eight bytes.
# - (d) The kernel was compiled for float16.

# %%
# exercise where-the-scale-went
letter = None
# about 1 line from here
letter = "c"
# to here

# %%
check("where-the-scale-went", letter)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `import struct; struct.pack("<d", 0.125).hex(" ")` shows the bytes of a double.
#
# </details>

# %% [markdown]
# Nothing warned of it: not the C compiler, not the driver. The C gave an address, and four bytes
# were read there. How bad is it? 0.125 is the scale of attention at D = 64.
#
# **Predict:** what do the shares of a softmax become if all scores are multiplied by 0?
#
# <details>
# <summary>Answer</summary>
#
# All scores are 0 then, so all keys get the same share, and the result is the plain mean of the
# values. That is wrong, and it looks like a perfectly good result.
#
# </details>

# %% tags=["nbval-check-output"]
scores = torch.tensor([40.0, 8.0, -16.0, 0.0])
for scale_read in (0.125, 0.0):
    print(scale_read, [round(share, 2) for share in torch.softmax(scores * scale_read, dim=0).tolist()])

# %% [markdown]
# This is why the course writes C of its own. `aot.export` declares a `float`, and before it writes
# a file, it compares the size of every argument with what the machine code reads. It also tests the
# promises in every function. The tool's functions test nothing, and launch even where a promise is
# broken.

# %% tags=["nbval-check-output"]
print(exported.functions[0].prototype)
print(handed(library, x, out, 0.125, 98432).arguments[2])

# %% [markdown]
# ## On your own
#
# - `!nm -D --defined-only {library}` lists what the library exports. Which names does an
#   application see? (`course_aot_index` is data from which `aot.load` learns what to pass.)
#
# ## What you can do now
#
# You can export a kernel, and you know which facts you state by doing so. Ask yourself:
#
# 1. In `"*fp32:16, i32, i32:1, 128"`, what does the C function test, and which parameters does it
#    have?
#
# <details>
# <summary>Answer</summary>
#
# It tests that the address is a multiple of 16. Its parameters are the stream, the address and the
# first integer. The second integer is always 1, and 128 is a constant.
#
# </details>
#
# 2. All addresses and strides of your kernel are promised, and the export still says "loads of 2
#    bytes". Where do you look?
#
# <details>
# <summary>Answer</summary>
#
# At the mask: at the number that it compares with the offsets along the last axis. The warning
# names it. If none is missing, not even `:1` for the last stride, lanes that are neighbors in the
# block are not neighbors in memory.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/27-ahead-of-time.py](../solutions/27-ahead-of-time.py) has all answers.
#
# **Next:** [28, inside a program in C++](28-inside-a-c-program.ipynb).
#
# ## Further reading
#
# - [Triton's own tool](https://github.com/triton-lang/triton/tree/main/python/triton/tools),
#   `compile.py` and `link.py`
# - [The CUDA driver API](https://docs.nvidia.com/cuda/cuda-driver-api/): libraries, kernels,
#   launches
