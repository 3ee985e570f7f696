# %% [markdown]
# # 17 · Copies in flight: pipelines and descriptors
#
# The tensor cores use up numbers faster than memory delivers them. So the next tiles must be on their
# way while this one is multiplied. Who copies them, where to, and what does it cost?
#
# **By the end you can** say where a dot's operands have to lie, what a deeper pipeline saves and costs,
# and load tiles by tensor descriptors.
#
# **You need** notebooks {neighbors-in-memory} and {what-a-dot-becomes}.
#
# | section | about minutes |
# |---|---|
# | Who holds what | 10 |
# | Loading ahead | 15 |
# | Tiles by descriptor | 30 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 65 |

# %%
from course import DEVICE, check, draw, hint, lower
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.

# %%
n = 4096
operations, moved = 2 * n**3, 3 * n * n * 2  # in float16: a and b are read once, c is written once
print(f"{operations / 1e9:.0f} billion operations, {moved / 1e6:.0f} MB")
print(f"{operations / moved:.0f} operations per byte")

# %%
big = torch.empty(n, n, device="meta", dtype=torch.float16)
out = torch.empty(n, n, device="meta")


# %%
@triton.jit
def tile_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])  # [M, K]
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])  # [K, N]
    product = tl.dot(a, b)  # [M, N]
    tl.store(c_ptr + m[:, None] * N + n[None, :], product)


# %%
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(axis=0)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first_m, GROUP_M)
    within = pid % (GROUP_M * tiles_n)
    rows = (first_m + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = within // height * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + ks[None, :]  # [BLOCK_M, BLOCK_K]
    b_ptrs = b_ptr + ks[:, None] * N + cols[None, :]  # [BLOCK_K, BLOCK_N]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        left = ks < K - start
        a = tl.load(a_ptrs, mask=(rows < M)[:, None] & left[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=left[:, None] & (cols < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)


# %% [markdown]
# ## Who holds what
#
# In notebook {who-holds-what} the compiler was free to choose which thread holds which element.
# Here it is not: a tensor core expects each element in a certain register of a certain thread. This
# is the accumulator of a 16 x 16 product, by 2 warps of an A100. Its `mma` makes 16 x 8 elements,
# so each warp makes one half.
#
# **Predict:** how many elements of the accumulator does a thread hold?
#
# <details>
# <summary>Answer</summary>
#
# 16 x 8 elements over 32 threads are 4 for each. Look where they are for thread 0: two neighbors in
# row 0, and two in row 8.
#
# </details>

# %%
args = (big[:16, :64].clone(), big[:64, :16].clone(), out[:16, :16].clone())
s = lower(tile_kernel, *args, M=16, N=16, K=64, num_warps=2, target="sm_80")
print(s.layouts["product"].attribute)
draw.layout(s, "product")

# %% [markdown]
# This layout is called `nvidia_mma`. Within a warp it is fixed by the instruction, and all that
# Triton chose is how the warps share the tile (`warpsPerCTA = [1, 2]`). The operands have a layout
# of their own, `dot_op`, and it is just as fixed. But for wide loads each thread takes 8 neighbors
# of `a`, in a `blocked` layout as in notebook {who-holds-what}. So between the load and the dot the
# elements have to change threads. They do so through shared memory: it is written in one layout and
# read in the other.
#
# Shared memory has a trap of its own. It consists of 32 **banks**, each 4 bytes wide: bytes 0 to 3
# are in bank 0, bytes 4 to 7 in bank 1, and after bank 31 it starts again with bank 0. In one cycle
# every bank delivers one group of 4 neighboring bytes. If two threads of a warp need different
# groups from the same bank, the second one waits for another cycle, and that is a **bank
# conflict**.
#
# Now look at our tile of `a`. A row has 64 float16, 128 bytes, so every row would begin in bank 0.
# And a warp reads 16 bytes from each of eight rows at once. All eight would need banks 0 to 3, and
# the read would take eight cycles instead of one. You can see it by switching off what the compiler
# does about it, `maxPhase = 8`, in the TTGIR. The number in each box is its bank; the frames show
# what warp 0 reads at once.

# %%
operand = next(each for each in s.layouts if each.kind == "dot_op" and "a" in each.names)
plain = s.replace(ttgir=s.ttgir.replace("maxPhase = 8", "maxPhase = 1"))
draw.layout(plain.layouts["#shared"], access=operand, rows=9)

# %% [markdown]
# What can one do? In row `r`, from 0 to 7, put piece `p` of 16 bytes in place `p ^ r`, where `^` is
# Python's exclusive or: in row 1 neighbors change places, in row 2 pairs of them, and so on.
# Nothing gets larger, and each column of pieces is now spread over all the banks. To **swizzle** a
# tile is to exchange the pieces of its rows like this.
#
# **Predict:** in which banks does the first piece of row 1 lie then?
#
# <details>
# <summary>Answer</summary>
#
# A piece of 16 bytes covers four banks. This one has changed places with the second, so it lies in
# banks 4 to 7.
#
# </details>

# %%
draw.layout(s.layouts["#shared"], access=operand, rows=9)

# %% [markdown]
# One cycle instead of eight, and the compiler does it unasked. On Hopper the tensor cores read
# shared memory themselves, and know this way of storing; there the layout is called `nvmma_shared`.
# Here are the layouts that you have met, and others that you may meet:
#
# | layout | where you meet it |
# |---|---|
# | `blocked` | loads, stores, arithmetic: chosen so that loads are wide |
# | `slice` | what is left of a layout when one axis is summed up |
# | `linear` | given bit by bit, where no other name fits: after a reshape or a split |
# | `nvidia_mma`, `amd_mfma`, `amd_wmma` | accumulators, as the instruction wants them |
# | `dot_op` | an operand in registers, made to fit its accumulator |
# | `swizzled_shared`, `nvmma_shared`, `amd_rotating_shared`, `padded_shared`, `shared_linear` | shared memory |
# | `tensor_memory_encoding`, `tensor_memory_scales_encoding` | tensor memory of sm_100: the accumulator, and scales of formats with 4 or 8 bits |

# %% [markdown]
# ## Loading ahead
#
# A dot has to wait for its tiles, and memory takes hundreds of nanoseconds to answer. In notebook
# {rows-of-any-width} that was no problem: a multiprocessor held many programs, and while one
# waited, another computed. Here a program with a large tile takes so many registers, and so much
# shared memory, that only one or two fit. Who computes while they wait?
#
# The program itself. A loop is **pipelined** if it loads the tiles of later iterations while it
# computes the present one. `num_stages`, its depth, is how many iterations are under way at a time.
# Move the slider from 1 on, and watch the row of the tensor cores.


# %%
def at_depth(num_stages, block_m=64, block_n=128, num_warps=4):
    options = {"num_stages": num_stages, "num_warps": num_warps, "target": "sm_90"}
    tile = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": 64, "GROUP_M": 8}
    return lower(matmul_kernel, big, big, big, n, n, n, **tile, **options)


draw.slide(lambda num_stages: draw.pipeline(at_depth(num_stages)), num_stages=[1, 2, 3, 4])

# %% [markdown]
# Which operation runs ahead, and how far, was read from the compiled kernel. How long a load takes
# beside a dot was made up for the picture; if it takes longer, you need more depth.
#
# What does depth cost? A tile that has been loaded and not yet multiplied must be somewhere, and
# that is shared memory.
#
# **Predict:** how many bytes does each further iteration under way take, for tiles of 64 x 64 of
# `a` and 64 x 128 of `b` in float16?
#
# <details>
# <summary>Answer</summary>
#
# (64 * 64 + 64 * 128) elements of 2 bytes: 24,576 bytes.
#
# </details>

# %%
for num_stages in (1, 2, 3, 4):
    s = at_depth(num_stages)
    shared, copies = s.resources.shared_bytes, s.counts["ptx"]["asynchronous copies"]
    print(f"depth {num_stages}: {shared:6,} bytes shared, {copies:2} asynchronous copies")

# %% [markdown]
# With a depth of 2 or more the loads are **asynchronous** copies, `cp.async` in PTX: they go from
# memory straight to shared memory, past the registers, and the thread that started one goes on with
# other work and waits for it later.
#
# A deeper pipeline helps until there is nothing left to wait for, and shared memory sets the limit:
# a program may have 227 KB on an H200, 163 KB on an A100 and 99 KB on an RTX 4090. On Hopper
# `wgmma` is asynchronous as well, and still reads one buffer while the next is being filled, so
# each iteration under way needs a buffer of its own. On sm_80 and sm_89 a depth of 4 needs only
# three buffers. A T4 has no `cp.async`, and depth changes nothing there.

# %% [markdown]
# ### Exercise {stages-that-fit} · How deep? (core)
#
# Tiles of 64 x 128, steps of 64 along K, float16, as above. Which depth is the largest that fits
# 64 KB, 99 KB and 227 KB, if each iteration under way takes a buffer for both tiles, as on Hopper,
# and nothing else counts? Write the three as a text, such as `"1, 2, 3"`. (1 KB is 1,024 bytes
# here.)

# %%
# exercise stages-that-fit
answer = None
# about 1 line from here
answer = "2, 4, 9"
# to here

# %%
check("stages-that-fit", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# How many elements do a tile of `a` and a tile of `b` have together, and how many bytes is each?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# `at_depth(9).resources.shared_bytes` asks the compiler.
#
# </details>

# %% [markdown]
# ## Tiles by descriptor
#
# With tiles of 64 x 128 the threads of `matmul_kernel` move 12,288 pointers in each iteration, and
# compute as many masks. None of that is the product. Notebook {neighbors-in-memory} showed another
# way to say "the tile at this row and this column", a tensor descriptor, and promised that it pays
# off here. The tensor memory accelerator (TMA) computes the addresses, fetches the tile, puts zeros
# where it sticks out of the matrix, and swizzles it on the way. Here is the loop with descriptors.
# Notice what is no longer there.


# %%
@triton.jit
def described_kernel(
    a_desc, b_desc, c_desc, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    row, col = tl.program_id(axis=0) * BLOCK_M, tl.program_id(axis=1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        a = a_desc.load([row, start])  # [BLOCK_M, BLOCK_K]
        b = b_desc.load([start, col])  # [BLOCK_K, BLOCK_N]
        acc = tl.dot(a, b, acc)
    c_desc.store([row, col], acc.to(c_desc.dtype))


# %% [markdown]
# The launcher makes a descriptor for each matrix, with the shape of the tile that the kernel will
# ask for, and gives the descriptors to the kernel in place of the tensors. The matrices here are
# 100 x 104 and 104 x 104, and tiles of 32 x 32 stick out. No masks are needed: what lies outside is
# read as 0 and never written, so both operands have their zeros along K. (104 columns, since each
# row has to begin at a multiple of 16 bytes.)

# %%
x, y, z = (torch.randn(rows, 104, device=DEVICE).half() for rows in (100, 104, 100))
tiles = (TensorDescriptor.from_tensor(each, [32, 32]) for each in (x, y, z))
described_kernel[(4, 4)](*tiles, 104, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
print(torch.allclose(z.float(), x.float() @ y.float(), atol=0.05))

# %% [markdown]
# What has become of the registers and the copies? Both kernels have tiles of 64 x 128 and a depth
# of 3, which is what Triton takes if you do not say.
#
# **Predict:** more registers than with pointers, or fewer? And what takes them up now?
#
# <details>
# <summary>Answer</summary>
#
# Fewer: no thread holds pointers and masks of the operands any more. Of the 90 that are left, 64
# are the accumulator: 64 x 128 elements over 128 threads.
#
# </details>

# %%
blocks = ([64, 64], [64, 128], [64, 128])  # the tiles of a, b and c
descs = (TensorDescriptor.from_tensor(big, block) for block in blocks)
d = lower(described_kernel, *descs, n, BLOCK_M=64, BLOCK_N=128, BLOCK_K=64, target="sm_90")
for name, each in (("pointers", at_depth(3)), ("descriptors", d)):
    copies = each.counts["ptx"]["asynchronous copies"]
    print(f"{name:11}: {each.resources.registers} registers, {copies} asynchronous copies")

# %% [markdown]
# Not all of the difference is the descriptors' doing: this kernel has no groups, and
# `matmul_kernel` without its groups takes 113 registers. From 113 to 90 is a fifth less.
#
# The seven copies are `a` and `b` twice before the loop to fill the pipeline, both once in the
# loop, and the store. One or two of the 128 threads start each of them, and the others go on. (For
# `b` it is two threads, half a tile each: such a copy moves rows of at most 128 bytes, and a row of
# `b`'s tile has 256.)
#
# Linear layers store their weights as [N, K], each row the weights of one output. So what PyTorch
# computes is `x @ w.T`. A descriptor cannot describe `w.T`, because its last stride is not 1. But
# it can describe `w`, and `tile.T` turns a tile after it was loaded. On Hopper that is a note to
# the tensor cores, and moves nothing.

# %% [markdown]
# ### Exercise {linear-by-descriptors} · A linear layer by descriptors (core)
#
# Write the loop and the descriptor of `w` for `linear(x, w)`, where `x` is [M, K], `w` is [N, K],
# both float16 and contiguous, and the result is `x @ w.T` in float16. N and K are multiples of 8,
# and M is any number. No pointers and no masks.


# %%
# exercise linear-by-descriptors
@triton.jit
def linear_kernel(
    x_desc, w_desc, out_desc, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    row, col = tl.program_id(axis=0) * BLOCK_M, tl.program_id(axis=1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    # about 4 lines from here
    for start in range(0, K, BLOCK_K):
        x = x_desc.load([row, start])
        w = w_desc.load([col, start])
        acc = tl.dot(x, w.T, acc)
    # to here
    out_desc.store([row, col], acc.to(out_desc.dtype))


def linear(x, w):
    out = torch.empty(x.shape[0], w.shape[0], dtype=x.dtype, device=x.device)
    x_desc = TensorDescriptor.from_tensor(x, [16, 64])
    out_desc = TensorDescriptor.from_tensor(out, [16, 32])
    # about 1 line from here
    w_desc = TensorDescriptor.from_tensor(w, [32, 64])
    # to here
    grid = (triton.cdiv(x.shape[0], 16), triton.cdiv(w.shape[0], 32))
    tile = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}
    linear_kernel[grid](x_desc, w_desc, out_desc, x.shape[1], **tile)
    return out


# %%
check("linear-by-descriptors", linear)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Which rows of `w` does the tile of `out` that begins at column `col` need?
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The shape that you give to a descriptor is that of the tile as it lies in memory: for `w` it is
# `BLOCK_N` rows of `BLOCK_K`.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Draw `operand`, the layout of `a` before the dot: `draw.layout(operand, thread=(0, 1))`. Which
#   elements of the tile must that thread hold?
# - Look at the registers of `at_depth(3, 128, 256)`, and at what spills. What does `num_warps=8` do
#   to them? And what does a tile of 256 x 256 need with 8 warps?
#
# ## What you can do now
#
# You know how the compiler loads ahead, what it pays for it, and how a descriptor takes the
# addresses off the threads. Could you draw a pipeline of depth 3?

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/17-copies-in-flight.py](../solutions/17-copies-in-flight.py) has all answers.
#
# **Next:** [18, persistent programs](18-persistent-programs.ipynb).
