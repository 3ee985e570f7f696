# %% [markdown]
# # 07 · Ahead of time
#
# Your kernel is right and it is fast. Now it has to run in a server that is written in C++. So far
# every launch needed Python, PyTorch and Triton in the process, and the first one waited for the
# compiler. A server should carry none of these, and should not compile anything while a customer
# waits.
#
# Triton can compile the kernel beforehand, and what comes out is a file in C. There is one catch.
# At each launch from Python the JIT looks at the values and finds out what may be assumed of them:
# whether an address is aligned, whether a length is divisible by 16. Beforehand there are no
# values, so you have to state these facts yourself. And if you get one wrong, or leave one out,
# there is seldom an error: the grid leaves elements out, a scale arrives as 0, or an attention
# kernel loads 2 bytes where it could load 16. In this lesson you meet all three, and learn how to
# notice each.
#
# **By the end you can**
#
# - turn a kernel into a C library, and call it with no Python in the process,
# - write a kernel's signature and its grid, and say what breaks where one of them is wrong,
# - check, byte by byte, what the driver is handed,
# - put several variants of a kernel behind one function, and say which of them a call takes,
# - tell from what the export reports whether the kernel will be slow, and fix it.
#
# **You need** lessons 01 to 03, lessons 04 to 06 for attention (exercise 07.2 and the sections from
# "Attention from C++" on), and a C compiler. You need no GPU. There is a place to stop before
# "Attention from C++".
#
# | section | about minutes |
# |---|---|
# | From a kernel to C | 7 |
# | What the driver is handed | 3 |
# | The signature | 15 |
# | The grid | 10 |
# | Triton's own tool | 15 |
# | Variants | 10 |
# | Attention from C++ | 10 |
# | What cannot be exported | 3 |
# | What a launch costs | 2 |
# | **All, an estimate** | 75 |

# %% [markdown]
# **Two questions from lessons 03 and 06.** Answer them before you unfold the answers.
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
from course import DEVICE, MODE, CourseError, aot, check, handed, hint, launch_costs, specialize
from course import stock
from kernels.attention.export import _fwd_kernel
from kernels.attention.tl_hopper import flash_attention_kernel_v4, flash_attention_kernel_v5
import os
import tempfile
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## From a kernel to C
#
# *Routes: all*
#
# To compile **ahead of time** means to compile before the application starts, and not at its first
# launch. Let us do it with a kernel that is simple and has one argument of each kind: pointers, a
# float, an integer and a constant. The lesson's files go into a fresh folder, which is removed when
# the session ends.

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
exported = aot.export(scale_kernel, signature, grid, name="multiply", out="aot/multiply")
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
# This is the cubin of lesson 03, written as a list of bytes. The C compiler puts it into the
# application, so the application needs no further file. The rest of this source is the function
# that launches. Before you run the next cell, think of what it must do: test what was promised,
# compute the grid, and hand over the arguments. Then find these three places.

# %%
print(text[text.index("/* Grid") :])

# %% [markdown]
# The last line calls the **driver**, NVIDIA's library through which every application talks to the
# GPU. `load()` hands it the cubin at the first call. (The two `scratch` pointers are arguments that
# Triton adds to every kernel. This one does not use them.)

# %% [markdown]
# ## What the driver is handed
#
# *Routes: all*
#
# Does this C really launch what we meant? `aot.build` makes a shared library of it, a `.so`, with
# this machine's C compiler. `aot.load` makes its functions callable with tensors and numbers, under
# the name that you gave, so that we can try them from here. (In C this function has its full name,
# with the hash. A name without it comes with `aot.link`, below.) On a GPU they launch. On a machine
# without one a **fake driver** takes its place: a library with the same functions, which
# writes down what it is handed and launches nothing. Your C runs in full there, up to the launch
# itself.

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
# *Routes: all*
#
# What has to be said of each argument? The JIT shows it best, since it finds the same things out at
# every launch. `specialize`, from lesson 01, lists them.

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
one = aot.export(scale_kernel, for_one, grid, name="one", out="aot/one")
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
# The warning is lesson 03 again. `mask` compares the offsets with `n_elements`. As long as nothing
# is known of that number, the end may lie between two neighbors, so each needs a load of its own:
# "loads of 4 bytes". Is the warning right that we should promise more? That depends on the callers.
# If vectors of any length must work, the promise would be wrong. Later you export two variants,
# and have both.

# %% [markdown]
# ### Exercise 07.1 · A signature (core)
#
# Write the signature of lesson 02's kernel
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
# *Routes: all*
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
down = aot.export(scale_kernel, signature, "n_elements / BLOCK_SIZE", name="down", out="aot/down")
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
# ### Exercise 07.2 · A grid (core)
#
# `_fwd_kernel` in [kernels/attention/export.py](../kernels/attention/export.py) is the
# attention of lesson 06, for callers in C. Each program owns `BLOCK_M` queries of one head, and
# `BLOCK_M` is 128. Along x the grid counts blocks of queries, along y all heads of all batches. The
# arguments that you need are `seqlen_q`, `nheads` and `batch`. (`seqlen_q_rounded`, which is there
# too, only says how far apart the rows of the log-sum-exp are.) Write the grid.

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
# The second part is a product of two arguments. You need not write the third: what is left out is
# 1.
#
# </details>

# %% [markdown]
# ## Triton's own tool
#
# *Routes: all*
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
# ### Exercise 07.3 · Where the scale went (core)
#
# The function was given 0.125, and the kernel reads 0. When it is given 0.1, the kernel reads
# -1.6 * 10^-23. Why?
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
# ## Variants
#
# *Routes: all*
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
both = aot.export(scale_kernel, signatures, grid, name="multiply", out="aot/both")
linked = aot.link(both, out="aot/linked")
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
wider = aot.export(scale_kernel, wide, grid, name="multiply", out="aot/wider")
print(aot.link([both, wider], out="aot/all"))

# %% [markdown]
# Here the order does matter. Had `wider` come first, every default call would go to it, and it
# refuses all calls that break its promises, although another algorithm would take them. Be careful
# in a shell: `aot/*.h` gives the headers in the order of their names. Where these differ in the
# hash alone, which one comes first is chance.

# %% [markdown]
# ### Exercise 07.4 · A second variant (core)
#
# Write a list of signatures for lesson 01's `add_kernel(x_ptr, y_ptr, out_ptr, n_elements,
# BLOCK_SIZE)`, in float32, with blocks of 1,024. They are exported, linked and called through
# `add_default`, with any lengths and any addresses. Every call must be served, and a call in which
# all addresses and the length are multiples of 16 must get wide loads.

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
# You need two variants of one algorithm. What may they differ in?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# In lesson 03, were the loads wide where 16 did not divide the length?
#
# </details>

# %% [markdown]
# ## Sitting 2
#
# A good place to stop, or to start again (in a new session, run the import cell and the cell of
# `scale_kernel` first). So far you can
#
# - write a signature and a grid, and say what breaks where one of them is wrong,
# - look at the bytes that the driver is handed,
# - put variants behind one function, which picks by its promises.
#
# All of it was tried on a small kernel. What follows is the real thing.

# %% [markdown]
# ## Attention from C++
#
# *Routes: all*
#
# The attention of lesson 06 becomes a library for C++. Its kernel has 32 arguments,
# and the first attempt is to name their types and leave the rest as it is. The three flags EVEN_M,
# EVEN_N and EVEN_HEADDIM say whether the queries, the keys and the head dimension fill their
# blocks. They are `tl.constexpr` in the kernel, and a signature may make arguments of them (`i1`),
# so that one variant serves all lengths. The grid is that of exercise 07.2, written so that
# Triton's own tool takes it too: its 127 and 128 stand for BLOCK_M, and must change with it. The
# four constants at the end are the causal mask, D, and blocks of 128 queries and 128 keys. The
# compiler takes some seconds for it.
#
# **Predict:** in the second question at the head of this lesson you counted registers for just this
# tile, with 4 warps. What will the export report?
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
first = aot.export(_fwd_kernel, first_try, attention_grid, "first", "aot/first", target="sm_90")
print(first)

# %% [markdown]
# This library would give right results, and it would be a poor piece of work. The kernel spills,
# and it loads the 16-bit elements one by one. There is a third thing, which the report does not
# spell out. Asynchronous copies move 4, 8 or 16 bytes per thread, and never 2. So nothing can be
# pipelined: q takes 16,384 bytes of shared memory (128 x 64 x 2), a single tile of keys or values
# another 16,384, and that is all there is.
#
# We fix it in two steps. The spills first: at D = 64, `v3` of lesson 06 takes 8 warps, tiles of
# 128 x 64 and 3 stages. And while we are at it, we promise two things. Memory from an allocator
# begins at a multiple of 16 bytes (a view such as `x[1:]` need not, and will be refused), and the
# twelve strides of contiguous tensors are multiples of 64 here. The sixth pointer is a buffer that
# the kernel never uses, so it is promised nothing.
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
second = aot.export(_fwd_kernel, second_try, attention_grid, "second", "aot/second", **options)
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
# same signature to lesson 03's tool in a shell: `course lower FILE.py:KERNEL -s "…" -w 8`.

# %% [markdown]
# There is one variant only, and linking still helps. It gives the application a name without a
# hash, `fmha_d64_fp16_default`, which stays the same when the signature changes. A call that breaks
# a promise is refused, since no other variant is there to take it.

# %% tags=["nbval-check-output"]
fmha_linked = aot.link(fmha, out="aot/fmha_kernel_fp16")
fmha_library = aot.build(fmha_linked)
print(*fmha_linked.sources, fmha_linked.header, fmha_library, sep="\n")

# %% [markdown]
# In a shell you would type the following, in the course's folder with its `.venv` activated. The "…"
# stands for ten more `i32:16`. Triton's own tool and linker take the same flags, on a
# machine with a GPU, and would declare the scale as a `double`.
#
# ```sh
# course aot compile kernels/attention/export.py -n _fwd_kernel \
#     -o aot/fp16/fmha_kernel_d64_fp16 --out-name fmha_d64_fp16 -w 8 -ns 3 \
#     -s "*fp16:16, *fp16:16, *fp16:16, *fp16:16, *fp32:16, *fp32, fp32, i32, i32, i32:16, i32:16, …, \
# i32, i32, i32, i32:16, i1, i1, i1, 1, 64, 128, 64" \
#     -g "(seqlen_q + 127) / 128, batch * nheads, 1"
# course aot link aot/fp16/*.h -o aot/fmha_kernel_fp16
# ```
#
# The application compiles `aot/*.c aot/fp16/*.c` and includes `fmha_kernel_fp16.h`. If you change
# the signature, the hash in the names changes too. So empty the folder before you export again, or
# the old variant is linked as well.

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
# this process owns on one GPU. PyTorch makes one, and so does CUDA's runtime: `cudaSetDevice(0)` is
# enough. The function returns as soon as the launch is in the stream, so its `CUresult` speaks of
# the launch alone. What goes wrong while the kernel runs is reported later, by
# `cudaStreamSynchronize` for example. The first call loads the machine code. If you would rather
# choose the moment, say before a server answers, call `load_fmha_d64_fp16()`.
#
# Building it takes a C and a C++ compiler and no CUDA toolkit, since `cuda.h` comes with Triton. The
# header declares its functions `extern "C"`. `-lcuda` is the driver's library, and comes with the
# driver.
#
# ```bash
# INCLUDE=$(python -c "import triton; print(triton.__path__[0] + '/backends/nvidia/include')")
# cc -O2 -I"$INCLUDE" -Iaot -Iaot/fp16 -c aot/*.c aot/fp16/*.c
# c++ -O2 -I"$INCLUDE" -Iaot -Iaot/fp16 main.cpp *.o -lcuda -pthread -o server
# ```
#
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
# A model in PyTorch can call the same kernel as an operator, without Triton in the process.
# `aot.operator()` builds it, and then `out, lse = torch.ops.course.fmha(q, k, v, scale, causal)`
# calls it. `torch.compile` and `torch.export` take it, because it also says what shapes its results
# have; `torch.library.opcheck` tests such claims of any operator. It has no gradient.

# %% [markdown]
# ## What cannot be exported
#
# *Routes: all*
#
# The exported kernel is `v3` of lesson 06, and that lesson ended with faster ones. Why not export
# `v4` or `v5`? Let us try. The K and V of `v4` are tensor descriptors. (Its signature is cut short
# below, since the export stops at the first descriptor.) `v5` makes its descriptors itself, but it
# takes its strides as tuples, which C does not have. So we write a kernel around it that makes them,
# for contiguous tensors of one shape.


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
        aot.export(kernel, each, "1", "attention", "aot/attention", num_stages=2, target="sm_90")
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
# *Routes: all*
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
# - `!nm -D --defined-only {linked_library}` lists what the library exports. Which names does an
#   application see? (`course_aot_index` is data from which `aot.load` learns what to pass.)
# - Export `scale_kernel` under the same `name` for `target="sm_80"` too, with another `out`. What
#   does `aot.link` say to both?
# - Give the argument `scale` the type `fp16`. What does the C function declare, and what does
#   `handed` show for 0.1?
# - Take the `:16` of one stride out of the last attention signature. Which loads become narrow, and
#   what does the warning name?
#
# ## In practice
#
# Export with the Triton that you measured with, and keep the command beside the build: the files
# are made again, never edited. Read the warnings. A cubin for sm_90 runs on GPUs of that
# architecture alone, and there is no PTX to fall back on. For other GPUs export again, under
# another name, and let the application choose. Look at every `CUresult`. And test the library as
# you test a kernel: with lengths that fill no block, against a reference.

# %% [markdown]
# ## What you can do now
#
# You can take a kernel out of Python. You write its signature and its grid, see from the export's
# report whether the loads are wide and nothing spills, and check on any machine what the driver is
# handed. Ask yourself:
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
#
# 3. A colleague calls a function that Triton's own tool wrote, and a float argument arrives as 0.
#    Nothing failed. What happened?
#
# <details>
# <summary>Answer</summary>
#
# Its C declares a `double`, and the kernel reads only the first four of the eight bytes. The driver
# is told no sizes, so nobody notices.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/07-ahead-of-time.py](../solutions/07-ahead-of-time.py) has all answers.
#
# **Next:** [lesson 08](08-when-it-is-slow.ipynb). A kernel of your own is slow, wrong, or never comes
# back: what do you ask first? Before that, export one that you wrote in lessons 01 to 06, and see
# whether any of its loads come out narrow.
#
# ## Further reading
#
# - [Triton's own tool](https://github.com/triton-lang/triton/tree/main/python/triton/tools),
#   `compile.py` and `link.py`
# - [The CUDA driver API](https://docs.nvidia.com/cuda/cuda-driver-api/): libraries, kernels,
#   launches
