# %% [markdown]
# # 05 · Tensor cores
#
# Nearly all the arithmetic of a neural network is matrix products. A GPU has units that do nothing
# else, and on an H200 they are fifteen times as fast as those that added your vectors. Using them
# is easy: there is one function for it, `tl.dot`. Keeping them busy is hard, because they use up
# numbers faster than memory delivers them. Most of this lesson is about that.
#
# PyTorch's own matrix product is excellent, and yours will end up beside it. You learn to write one
# because something may follow the product that should happen while the result is still in
# registers: a bias, a ReLU, or a softmax and a second product. The last one is flash attention,
# the next lesson.
#
# **By the end you can**
#
# - write a matrix product for any size with `tl.dot`, and say how precise it is,
# - find out which instruction a dot becomes on a GPU, and where its operands have to lie,
# - work out from the size of a tile how fast a kernel can be at most, and choose tiles by it,
# - say what a deeper pipeline, tensor descriptors and persistent programs each save, and write a
#   kernel with them.
#
# **You need** lessons 02 to 04. The lesson takes two sittings.
#
# | section | about minutes |
# |---|---|
# | Operations per byte | 5 |
# | The loop along K | 40 |
# | What a dot becomes | 20 |
# | Which numbers are multiplied | 5 |
# | How large a tile? | 5 |
# | The order of the tiles | 10 |
# | Who holds what | 6 |
# | Loading ahead | 10 |
# | Tiles by descriptor | 20 |
# | Persistent programs | 20 |
# | Against cuBLAS | 3 |
# | Stretch exercises | 20 |
# | **All, an estimate** | 164 |

# %% [markdown]
# **Two questions from earlier lessons.** Answer them before you unfold the answers.
#
# 1. `rows` and `cols` are the row and column numbers of a tile, two blocks of 64 numbers. Which
#    mask keeps a load of the tile inside an `M` x `N` matrix, and what is the shape of the mask?
#
# <details>
# <summary>Answer</summary>
#
# `(rows < M)[:, None] & (cols < N)[None, :]`. Broadcasting makes it [64, 64], as in lesson 02.
#
# </details>
#
# 2. A kernel has to move 1.07 GB through device memory, and the copy roof is 4.2 TB/s. What is the
#    least time that it can take?
#
# <details>
# <summary>Answer</summary>
#
# Divide the bytes by the roof: 1.07 GB / 4.2 TB/s = 0.25 ms. In this lesson a kernel has more than
# one roof, and the lowest of them counts.
#
# </details>

# %%
from course import DEVICE, CourseError, check, cost, draw, explore, gpu_facts, hint, lower
from course import matrix_pairs, observed, recorded, replay, verify
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# %% [markdown]
# ## Operations per byte
#
# *Routes: all*
#
# In lessons 01 to 04 memory set the limit: a vector add does a single addition for every 12 bytes,
# so the arithmetic was always done long before the bytes had arrived. Is a matrix product any
# different?
#
# In `c = a @ b`, the element `c[m, n]` is the sum over `k` of `a[m, k] * b[k, n]`. If `a` is
# [M, K] and `b` is [K, N], that makes `M * N * K` multiplications and as many additions. And in
# the best case, `a` and `b` are read once and `c` is written once.
#
# **Predict:** M, N and K are 4,096, and the numbers are float16. How many operations are there per
# byte that must move?
#
# <details>
# <summary>Answer</summary>
#
# 2 * 4096^3 operations for 3 * 4096^2 * 2 bytes: 4096 / 3, or 1,365 operations per byte. And the
# larger the matrices are, the more.
#
# </details>

# %%
n = 4096
operations, moved = 2 * n**3, 3 * n * n * 2  # in float16: a and b are read once, c is written once
print(f"{operations / 1e9:.0f} billion operations, {moved / 1e6:.0f} MB")
print(f"{operations / moved:.0f} operations per byte")

# %% [markdown]
# Compare that with the machine. By its data sheet an H200 moves 4.8 TB/s and does 989 TFLOP/s in
# float16. (TFLOP/s are 10^12 floating-point operations per second.) That is 206 operations in the
# time of one byte, and we have 1,365. So here arithmetic sets the limit, and by far, *if* memory
# delivers each number only once. Remember that "if": the second half of the lesson is about it.
#
# But where do 989 TFLOP/s come from? The units that added your vectors do only 67 TFLOP/s in
# float32. All of the 989 come from **tensor cores**: units that multiply two small matrices in a
# single instruction. `tl.dot` is how a kernel uses them. It takes two blocks and multiplies them as
# matrices. Here it is with matrices that fit into one block each.


# %%
@triton.jit
def tile_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])  # [M, K]
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])  # [K, N]
    product = tl.dot(a, b)  # [M, N]
    tl.store(c_ptr + m[:, None] * N + n[None, :], product)


# %%
a = torch.randn(32, 64, device=DEVICE, dtype=torch.float16)
b = torch.randn(64, 16, device=DEVICE, dtype=torch.float16)
c = torch.empty(32, 16, device=DEVICE)
tile_kernel[(1,)](a, b, c, M=32, N=16, K=64)
print((c - a.float() @ b.float()).abs().max().item() < 1e-4)

# %% [markdown]
# Notice the types: the operands are float16 and the product is float32. On an H200 that is free,
# and it matters. A float16 has 11 binary digits, so a product of two has 22 at most, and a float32
# holds 24: every single product is exact. Digits are lost only when products are added up, and
# there float32 loses few.

# %% [markdown]
# ## The loop along K
#
# *Routes: all*
#
# Real matrices do not fit into a block. So you do what you did in lesson 02: each program computes
# one tile of `c`. Take a tile of 64 x 64 with K = 4,096. It needs 64 rows of `a`, each 4,096 long,
# and that alone is 512 KiB in float16. A multiprocessor has 256 KiB of registers. So not even one
# tile's operands fit.
#
# They need not be there all at once, because a sum can be made in parts. The program walks along
# K. In each iteration it loads one tile of `a` and one tile of `b`, multiplies them, and adds the
# product to an **accumulator**: a block that stays in registers during the whole loop. In PyTorch,
# for one tile of `c`:

# %%
acc = torch.zeros(32, 16, device=DEVICE)
for start in range(0, 64, 16):
    acc += a[:, start : start + 16].float() @ b[start : start + 16, :].float()
print((c - acc).abs().max().item() < 1e-4)

# %% [markdown]
# You need two more functions for it in Triton. `tl.zeros([BLOCK_M, BLOCK_N], tl.float32)` is a
# block of zeros with that shape and type. `tl.dot(a, b, acc)` returns `acc` plus the product: the
# tensor cores add to a third operand anyway, so the addition costs nothing.
#
# Three mistakes are made here again and again.
#
# - `acc = 0` before the loop. That is a number, and after the first iteration it would be a block.
#   The compiler wants a variable to keep its type and shape through a loop, and refuses.
# - Forgotten pointers. A block of pointers stays where it is until you move it: without
#   `a_ptrs += …` every iteration loads the first tile again.
# - A sum in float16. It loses digits with every iteration.

# %% [markdown]
# ### Exercise 05.1 · The loop (core)
#
# `a` is [M, K] and `b` is [K, N], both float16 and contiguous, and `c` is float32. M, N and K are
# multiples of the blocks, so you need no masks. Program (i, j) owns the tile in row i and column j
# of tiles. Use `tl.dot`, and leave its operands in float16. In PyTorch: `a.float() @ b.float()`.


# %%
# exercise 05.1
@triton.jit
def loop_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + ks[None, :]
    b_ptrs = b_ptr + ks[:, None] * N + cols[None, :]
    c_ptrs = c_ptr + rows[:, None] * N + cols[None, :]
    # about 6 lines from here
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.store(c_ptrs, acc)
    # to here


# %%
check("05.1", loop_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The accumulator is made once, before the loop, and stored once, after it.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The next tile of `a` lies `BLOCK_K` elements further along the row. The next tile of `b` lies
# `BLOCK_K` whole rows further down.
#
# </details>

# %% [markdown]
# What if `BLOCK_K` does not divide K? Then the last tiles stick out: that of `a` on the right, that
# of `b` at the bottom. You might think that it is enough to load zeros for `a` there. Whatever is
# in `b`, zero times it is zero. Or is it?
#
# **Predict:** is 0 times anything 0 in floating point?
#
# <details>
# <summary>Answer</summary>
#
# No: 0 times NaN is NaN, and 0 times infinity is NaN too. Behind the last row of `b` there may be
# anything, a NaN too. So both tiles need zeros along K.
#
# </details>

# %% tags=["nbval-check-output"]
print(torch.tensor([0.0]) @ torch.tensor([float("nan")]))

# %% [markdown]
# The rows of `a` past M and the columns of `b` past N are harmless in comparison: what they hold
# ends up in rows and columns of the accumulator that are never stored. Still mask them: a load must
# not read outside the matrix.

# %% [markdown]
# ### Exercise 05.2 · Any size (core)
#
# Now for every M, N and K from 1 on; 32 bits are enough for the offsets. Mask both loads; the store
# has its mask already.


# %%
# exercise 05.2
@triton.jit
def edges_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + ks[None, :]
    b_ptrs = b_ptr + ks[:, None] * N + cols[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        # about 4 lines from here
        left = ks < K - start
        a = tl.load(a_ptrs, mask=(rows < M)[:, None] & left[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=left[:, None] & (cols < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
        # to here
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)


# %%
check("05.2", edges_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# In the iteration that begins at `start`, `K - start` elements along K are left.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The mask of a tile joins a condition on its rows and one on its columns, as in lesson 02. For `a`
# the columns are along K, for `b` the rows are.
#
# </details>

# %% [markdown]
# Here is the whole thing, with a launcher. It differs from yours in one place: the grid has one
# axis instead of two, and a few lines turn the program's number into a tile. The section *The order
# of the tiles* explains them, so read over them for now. The store is yours. It rounds the
# accumulator to whatever type `c` has, once, at the very end.


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


# %%
def matmul(a, b, block_m=32, block_n=32, block_k=32, group_m=4):
    a, b = a.contiguous(), b.contiguous()
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, device=a.device, dtype=a.dtype)
    tile = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": group_m}
    if c.numel():
        grid = (triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)
        matmul_kernel[grid](a, b, c, m, n, k, **tile)
    return c


# %% [markdown]
# Is it right, also at odd sizes? `matrix_pairs()` gives pairs of many shapes to try. One thing is
# new: in a sum of many products of either sign, large terms cancel and leave a small result. An
# error that is tiny beside the terms then looks large beside the result. `absolute` allows for it:
# so much error is fine whatever the result is.

# %%
result = verify(matmul, torch.matmul, cases=matrix_pairs(), absolute=1e-3)
print(result)
assert result.right

# %% [markdown]
# Step through the loop of one program. With the arrows beside "iteration 1 of the loop" the tiles
# move on along K, and `acc` grows.

# %%
a, b = (torch.arange(256.0, device=DEVICE).reshape(16, 16).half() / 256 for _ in "ab")
replay(matmul_kernel, (1,), a, b, torch.empty_like(a), 16, 16, 16,
       BLOCK_M=8, BLOCK_N=8, BLOCK_K=4, GROUP_M=1)  # fmt: skip

# %% [markdown]
# ## What a dot becomes
#
# *Routes: all*
#
# You wrote one `tl.dot`. Which instruction is that on a GPU? It depends on the GPU more than
# anything else in this course, and it decides how large tiles should be and how many warps work on
# them. Here is a product of 64 x 64 x 64, compiled for six GPUs. A T4 (sm_75) has tensor cores of a
# kind that this Triton no longer uses, so there `tl.dot` becomes ordinary multiply-adds.
#
# **Predict:** an `mma` of an A100 (sm_80) multiplies 16 x 16 by 16 x 8, and one warp executes it
# together. How many of them does each of 4 warps need for 64 x 64 x 64?
#
# <details>
# <summary>Answer</summary>
#
# An `mma` makes 16 x 8 elements of the product, of which there are 4 x 8 = 32, and takes 16 steps
# along K, so 4 of them are needed for each. That is 128 in all, and 32 for each of the 4 warps.
#
# </details>


# %%
big = torch.empty(n, n, device="meta", dtype=torch.float16)
out = torch.empty(n, n, device="meta")


# %%
names = ("mma", "wgmma", "tcgen05", "mfma", "wmma", "fp32 fused multiply-adds")
for target in ("sm_75", "sm_80", "sm_90", "sm_100", "gfx942", "gfx1100"):
    s = lower(tile_kernel, big, big, out, M=64, N=64, K=64, target=target)
    counted = s.counts["ptx" if target.startswith("sm") else "amdgcn"]
    print(f"{target:8}", *(f"{counted[name]} {name}" for name in names if counted.get(name)))

# %% [markdown]
# These are counts in the program of one thread. All 32 threads of a warp execute an `mma` together,
# and four warps, 128 threads, execute a `wgmma` together. So every generation does more per
# instruction, and in the last one a single thread is enough to start it:
#
# | target | GPUs | instruction | who issues it | where the operands lie |
# |---|---|---|---|---|
# | sm_75 | T4 | `fma`: no tensor cores | each thread | registers |
# | sm_80 to sm_89, sm_120, sm_121 | A100, RTX 30 to 50, DGX Spark | `mma` 16 x 8 x 16 | a warp | registers |
# | sm_90 | H100, H200 | `wgmma` 64 x N x 16 | four warps | shared memory; `a` may be in registers |
# | sm_100, sm_103 | B200, B300 | `tcgen05` | one thread | shared memory; `a` may be in tensor memory, and the sum is |
# | gfx942 | MI300X | `mfma` 32 x 32 x 8 | a wavefront, AMD's warp | registers |
# | gfx1100 | RX 7900 | `wmma` 16 x 16 x 16 | a wavefront, AMD's warp | registers |
#
# **Tensor memory** is storage that a B200 or B300 has in each multiprocessor beside the shared
# memory, for the sums of the tensor cores. Follow the last column down the NVIDIA rows: first the
# operands leave the registers, and then the sum does too. What no longer passes through registers
# leaves room for larger tiles.
#
# Look for it in the stages of an H200. In the TTGIR, `ttg.local_alloc` puts the operands into
# shared memory, and `ttng.warp_group_dot` multiplies them. In a session, choose other targets at
# the top.

# %%
explore(tile_kernel, big, big, out, M=64, N=64, K=64, target="sm_90", stages=["ttgir", "ptx"])

# %% [markdown]
# An instruction that multiplies 16 x 16 by 16 x 8 cannot multiply less. With a smaller M or N part
# of its work is thrown away, but for float16 on NVIDIA GPUs the K of a dot must be 16 or more. The
# interpreter does not mind, so this is one of the mistakes that only the compiler finds:

# %%
try:
    lower(tile_kernel, big, big, out, M=8, N=8, K=8, target="sm_90")
except CourseError as error:
    print(error)

# %% [markdown]
# ### Exercise 05.3 · Eight by eight (core)
#
# Multiply two 8 x 8 matrices, float16 and contiguous, with one `tl.dot`. `c` is float32. One
# program runs. The blocks must be large enough for a dot, and what lies behind the matrices must
# make no difference.


# %%
# exercise 05.3
@triton.jit
def small_kernel(a_ptr, b_ptr, c_ptr):
    i = tl.arange(0, 16)
    # about 5 lines from here
    inside = (i[:, None] < 8) & (i[None, :] < 8)
    offsets = i[:, None] * 8 + i[None, :]
    a = tl.load(a_ptr + offsets, mask=inside, other=0.0)
    b = tl.load(b_ptr + offsets, mask=inside, other=0.0)
    tl.store(c_ptr + offsets, tl.dot(a, b), mask=inside)
    # to here


# %%
check("05.3", small_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# A block of 16 x 16 holds a matrix of 8 x 8 in its corner. In memory its rows are still 8 elements
# apart.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Three quarters of the lanes have no element. What must they contribute to the sums?
#
# </details>

# %% [markdown]
# ## Which numbers are multiplied
#
# *Routes: all*
#
# How precise is all this? A tensor core takes no float32. If you give `tl.dot` float32 operands on
# an NVIDIA GPU, it multiplies them as **TF32** unless you say otherwise: a float32 with only the
# first 10 binary digits after the leading one, and the other 13 cut off. A float16 has just as
# many: its 11 digits are the leading 1, which none of these formats stores, and 10 that are stored.
# A bfloat16 stores 7.
#
# **Predict:** which of the four formats below loses most? TF32 and float16 have equally many
# digits: do they come out alike?
#
# <details>
# <summary>Answer</summary>
#
# bfloat16 loses most, with the fewest digits. TF32 and float16 do not come out alike: converting to
# float16 rounds to the nearest number, while TF32 is cut off here. Cutting can lose twice as much,
# and always in the same direction.
#
# </details>


# %%
formats = {
    "float32": lambda x: x,
    "TF32": lambda x: (x.view(torch.int32) & ~0x1FFF).view(torch.float32),  # 13 bits cut off
    "float16": lambda x: x.half(),
    "bfloat16": lambda x: x.bfloat16(),
}

# %% tags=["nbval-check-output"]
x, y = (torch.randn(256, 256, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
exact = x.double() @ y.double()
for name, cut in formats.items():
    error = (cut(x).double() @ cut(y).double() - exact).norm() / exact.norm()
    print(f"{name:9} {error:.0e}")

# %% [markdown]
# In this experiment only the operands were shortened; the products were added up in float64. float16
# has a price of another kind: nothing above 65,504 can be represented. That is why bfloat16, with
# the range of float32, is so popular in spite of its few digits.
#
# On a GPU the adding up loses digits as well. These errors were measured there, for products of
# 1,024 x 1,024:

# %%
print(observed().dots)

# %% [markdown]
# Read it from the bottom. Accumulating in float16 makes the error four times what float16 operands
# alone cause, so leave the accumulator in float32. TF32 is 1,000 times less precise than float32.
# If that is too little, you have two ways out:
#
# - `tl.dot(a, b, input_precision="ieee")` multiplies all the digits of float32, in the ordinary
#   arithmetic units.
# - `input_precision="tf32x3"` stays in the tensor cores. It writes each number as a sum of two TF32
#   numbers, the second one being what was cut off, and adds up three of the four products.
#
# Is it a surprise that "tf32x3" has the smaller error of the two? With "ieee" a result is a chain
# of 1,024 additions, and a float32 is rounded after every one of them. A tensor core adds several
# products before its sum becomes a float32 again, so there are fewer roundings to pile up.
#
# In CPU mode you see none of this: the interpreter multiplies float32 in full. And remember from
# lesson 00 that its arithmetic in bfloat16 is wrong. It handles a bfloat16 as the integer of its 16
# bits, and `tl.dot` multiplies those integers, without a warning. `check` and `verify` leave
# bfloat16 to a GPU.

# %% [markdown]
# ## Sitting 2
#
# A good place to stop, or to start again (in a new session, run the import cell and the cells of
# `n`, `tile_kernel`, `matmul_kernel` and `big` first). So far you can
#
# - write the loop of a matrix product: an accumulator in float32, two tiles per iteration, zeros
#   wherever K ends,
# - say which instruction a dot becomes, and that on newer GPUs its operands lie in shared memory,
# - choose between TF32, "tf32x3" and "ieee" for float32.
#
# The kernel is right. In the second half you make it fast.

# %% [markdown]
# ## How large a tile?
#
# *Routes: all*
#
# The course has your kernel in [kernels/matmul.py](../kernels/matmul.py) as `matmul_v1`, with tiles
# of 64 x 64. On an H200, for matrices of 4,096 x 4,096, it was recorded at 295 TFLOP/s, less than a
# third of 989. Yet arithmetic was going to be the limit. What went wrong?
#
# The "if" went wrong. Memory does not deliver each number only once. A tile of `c` reads `BLOCK_M`
# rows of `a`, and every other tile in the same row of tiles reads the same rows of `a` again. Count
# one iteration. A program loads `(BLOCK_M + BLOCK_N) * BLOCK_K` elements of 2 bytes each, and does
# `2 * BLOCK_M * BLOCK_N * BLOCK_K` operations with them. `BLOCK_K` cancels:
#
# operations per byte = `BLOCK_M * BLOCK_N / (BLOCK_M + BLOCK_N)`
#
# For tiles of 64 x 64 that is 64 * 64 / 128 = 32. Who delivers all these bytes? It cannot be device
# memory: 32 operations per byte at 4.25 TB/s would be 136 TFLOP/s, and 295 were recorded. Most of
# the repeated reading finds its numbers in the L2 cache. That is faster, but it is not free. Lesson
# 00's page of the machine has its speed: 9.66 TB/s on an H200. So there is one more roof above
# every kernel, the **L2 roof**: the operations per byte that a program asks for, times the bytes
# per second that the L2 cache delivers. (`cost` has it too.)
#
# **Predict:** what does a tile twice as large in both directions do to the operations per byte?
# And where is the L2 roof for tiles of 64 x 64?
#
# <details>
# <summary>Answer</summary>
#
# Twice as large in both directions means twice as many operations per byte. For 64 x 64 the roof is
# at 32 times 9.66, or 309 TFLOP/s.
#
# </details>

# %%
l2 = gpu_facts().l2_tb_s  # measured: many programs that read the same few megabytes
for block_m, block_n in ((32, 32), (64, 64), (128, 128), (128, 256)):
    per_byte = block_m * block_n / (block_m + block_n)
    at_most = f"at most {per_byte * l2:3.0f} TFLOP/s"
    print(f"{block_m:3} x {block_n:3}: {per_byte:2.0f} operations per byte, {at_most}")

# %% [markdown]
# `matmul_v2` has tiles of 64 x 64 too, in the better order that comes next, and was recorded at
# 313. It is at the L2 roof, so its tensor cores wait for the L2 cache. (313 is a percent *above*
# the roof: that was measured with another kernel.)
#
# The cure is larger tiles. Here are the versions of `kernels/matmul.py` under the L2 roof and that
# of the tensor cores; from `v3` on, the tiles at 4,096 are 128 x 256.

# %%
per_byte = {"matmul_v1": 32, "matmul_v2": 32}
per_byte |= dict.fromkeys(["matmul_v3", "matmul_v4", "matmul_v5"], 128 * 256 / (128 + 256))
draw.ladder(recorded("matmul"), per_byte, x=4096)

# %% [markdown]
# At 4,096, larger tiles more than double the speed, from 313 to 700 TFLOP/s. Why stop there? The
# accumulator has to stay in registers.
#
# **Predict:** how many registers per thread does the accumulator alone take for a tile of 128 x
# 256, with 8 warps? And for 256 x 256?
#
# <details>
# <summary>Answer</summary>
#
# 8 warps are 256 threads, so 128 * 256 / 256 = 128 float32 per thread, half of the 255 registers
# that a thread may have. For 256 x 256 it is 256, one more than there are, and more warps do not
# help: the tile takes all the registers of the multiprocessor.
#
# </details>

# %% [markdown]
# ## The order of the tiles
#
# *Routes: all*
#
# The L2 cache can only deliver what is in it. An H200 has 63 MB of it, and the two matrices of
# 8,192 x 8,192 take 134 MB each. So what is in there when a program asks? What programs that run at
# the same time have just read.
#
# As a rule programs start in the order of their numbers, and which tile a number means is up to
# you. In the pictures 16 programs run at a time.
#
# **Predict:** in the obvious order, row after row, 16 programs of an 8 x 8 grid of tiles take two
# rows of tiles of `a` and eight columns of `b`: 10 together. What is the fewest possible?
#
# <details>
# <summary>Answer</summary>
#
# A square of 4 x 4 tiles needs 4 rows and 4 columns: 8.
#
# </details>

# %%
draw.slide(lambda group_m: draw.order(8, 8, group_m, programs=16), group_m=[1, 2, 4, 8])

# %% [markdown]
# That is what those lines in `matmul_kernel` do. Tiles are counted in groups that are `GROUP_M`
# rows high and as wide as `c`. Within a group the numbers go down first, and then one column to the
# right. With the picture for `group_m=4`:
#
# - A group has `GROUP_M * tiles_n` tiles, so `pid` divided by that, rounded down, is the number of
#   the group, and times `GROUP_M` it is the group's first row of tiles, `first_m`.
# - `height` is `GROUP_M`, or fewer rows in the last group.
# - `within` is the tile's number within its group. `within % height` counts down the rows, and
#   `within // height` counts the columns.
#
# How much does it save? Here are the first 132 programs of a product of 2,048 x 2,048 in tiles of
# 64 x 64, with K = 64.

# %%
tall, wide = (torch.empty(*s, device="meta", dtype=torch.float16) for s in ((2048, 64), (64, 2048)))
tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}
for group_m in (1, 8):
    args = (tall, wide, big, 2048, 2048, 64)
    counted = cost(matmul_kernel, (132,), *args, **tile, GROUP_M=group_m, target="H200")
    asked, distinct = counted.bytes_loaded, counted.distinct_loaded
    text = f"asked for {asked / 8192:.0f} tiles, {distinct / 8192:.0f} different ones"
    print(f"groups of {group_m}: {text}")

# %% [markdown]
# All 132 programs ask for two tiles each, in either order, so the L2 cache has as much to do. But
# device memory has to deliver only 25 tiles in place of 37. On an H200 the groups were worth 6 % at
# 4,096, where the cache nearly holds both operands, and 17 % at 8,192.

# %% [markdown]
# ### Exercise 05.4 · Tiles of 132 programs (core)
#
# `c` has 48 x 40 tiles, and `GROUP_M` is 6. How many rows of tiles of `a` and columns of tiles of
# `b` do the first 132 programs read, together?

# %%
# exercise 05.4
answer = None
# about 1 line from here
answer = 6 + 132 / 6
# to here

# %%
check("05.4", answer)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# A group is 6 rows high and 40 columns wide: 240 tiles. The first 132 programs are all in it.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The numbers go down first. How many columns of 6 tiles do 132 programs fill?
#
# </details>

# %% [markdown]
# ## Who holds what
#
# *Routes: all*
#
# In lesson 03 the compiler was free to choose which thread holds which element. Here it is not: a
# tensor core expects each element in a certain register of a certain thread. This is the
# accumulator of a 16 x 16 product, by 2 warps of an A100. Its `mma` makes 16 x 8 elements, so each
# warp makes one half.
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
# of `a`, in a `blocked` layout as in lesson 03. So between the load and the dot the elements have
# to change threads. They do so through shared memory: it is written in one layout and read in the
# other.
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
# *Routes: all*
#
# A dot has to wait for its tiles, and memory takes hundreds of nanoseconds to answer. In lesson 04
# that was no problem: a multiprocessor held many programs, and while one waited, another computed.
# Here a program with a large tile takes so many registers, and so much shared memory, that only one
# or two fit. Who computes while they wait?
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
# ### Exercise 05.5 · How deep? (core)
#
# Tiles of 64 x 128, steps of 64 along K, float16, as above. Which depth is the largest that fits
# 64 KB, 99 KB and 227 KB, if each iteration under way takes a buffer for both tiles, as on Hopper,
# and nothing else counts? Write the three as a text, such as `"1, 2, 3"`. (1 KB is 1,024 bytes
# here.)

# %%
# exercise 05.5
answer = None
# about 1 line from here
answer = "2, 4, 9"
# to here

# %%
check("05.5", answer)

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
# *Routes: all*
#
# With tiles of 64 x 128 the threads of `matmul_kernel` move 12,288 pointers in each iteration, and
# compute as many masks. None of that is the product. Lesson 02 showed another way to say "the tile
# at this row and this column", a tensor descriptor, and promised that it pays off here. The tensor
# memory accelerator (TMA) computes the addresses, fetches the tile, puts zeros where it sticks out
# of the matrix, and swizzles it on the way. Here is the loop with descriptors. Notice what is no
# longer there.


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
# The seven copies are instructions in the code: two loads in each of three places, twice before the
# loop to fill the pipeline and once in it, and the store. Each is carried out by very few threads.
# One thread copies a tile of `a`. Two threads copy a tile of `b`, half each, because such a copy
# moves rows of at most 128 bytes, as wide as the swizzle, and a row of `b`'s tile has 256.
#
# Linear layers store their weights as [N, K], each row the weights of one output. So what PyTorch
# computes is `x @ w.T`. A descriptor cannot describe `w.T`, because its last stride is not 1. But
# it can describe `w`, and `tile.T` turns a tile after it was loaded. On Hopper that is a note to the
# tensor cores, and moves nothing.

# %% [markdown]
# ### Exercise 05.7 · A linear layer by descriptors (core)
#
# Write the loop and the descriptor of `w` for `linear(x, w)`, where `x` is [M, K], `w` is [N, K], both
# float16 and contiguous, and the result is `x @ w.T` in float16. N and K are multiples of 8, and M
# is any number. No pointers and no masks. (The numbers are out of order: 05.6 is the last one.)


# %%
# exercise 05.7
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
check("05.7", linear)

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
# ## Persistent programs
#
# *Routes: all*
#
# A product of 8,192 x 8,192 has 2,048 tiles of 128 x 256. With a depth of 4 each program takes 192
# KB of shared memory, so a multiprocessor holds a single one. While it stores its tile, the tensor
# cores have nothing to do, and then they wait again until the next program's first operands arrive.
# That happens 15 or 16 times on each of the 132 multiprocessors, and no other program fills the
# gap.
#
# What if a program did not end? Start only as many as there are multiprocessors, and let each
# compute one tile after the other: *persistent* programs, as in lesson 04. Which tiles does program
# p take? The simplest rule is p, p + P, p + 2 P and so on, where P is the number of programs, which
# a kernel learns from `tl.num_programs(axis=0)`. Here programs only write down their own number,
# so that you see who takes which of ten blocks.


# %% tags=["nbval-check-output"]
@triton.jit
def owner_kernel(owner_ptr, n_blocks):
    program = tl.program_id(axis=0)
    for block in range(program, n_blocks, tl.num_programs(axis=0)):
        tl.store(owner_ptr + block, program)


owners = torch.empty(10, device=DEVICE, dtype=torch.int32)
owner_kernel[(4,)](owners, 10)
print(owners.tolist())

# %% [markdown]
# The grid no longer says how much work there is, only how many share it.

# %% [markdown]
# ### Exercise 05.8 · A persistent product (core)
#
# Write the product of `described_kernel` for persistent programs. `check` starts a few of them,
# numbered along axis 0, and each computes tile after tile. Tiles are counted row after row, and
# there are `n_tiles`. Store each tile in the type of `c_desc`. The loop along K is in
# `tile_product`, a function that your kernel can call. `a_desc`, `b_desc` and `c_desc` are
# descriptors with the shapes of their tiles.


# %%
# exercise 05.8
@triton.jit
def tile_product(
    a_desc, b_desc, row, col, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, start]), b_desc.load([start, col]), acc)
    return acc


@triton.jit
def persistent_kernel(
    a_desc, b_desc, c_desc, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    n_tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    # about 4 lines from here
    for tile in range(tl.program_id(axis=0), n_tiles, tl.num_programs(axis=0)):
        row, col = tile // tiles_n * BLOCK_M, tile % tiles_n * BLOCK_N
        acc = tile_product(a_desc, b_desc, row, col, K, BLOCK_M, BLOCK_N, BLOCK_K)
        c_desc.store([row, col], acc.to(c_desc.dtype))
    # to here


# %%
check("05.8", persistent_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# The loop is that of `owner_kernel`, over tiles in place of blocks.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Tile number `tile` is in row `tile // tiles_n` of tiles. `row` is the first row of that tile in
# the matrix: multiply by its height.
#
# </details>

# %% [markdown]
# Has this closed the gap? Not yet. The loop along K still ends before the tile is stored, and the
# next tile's first loads come after that. Write `tl.range(…, flatten=True)` in place of the outer
# `range`, and the compiler makes one loop of the two, in which an iteration is one step along K, of
# this tile or of the next. Now the pipeline runs on across the end of a tile, and the next tile's
# loads are under way while this one is stored. It has a price: the tile on its way out needs shared
# memory too, beside the buffers of the pipeline that are already being filled again.
#
# ### The finished kernel
#
# You now know nearly everything in `matmul_kernel_v5`, the course's fastest for large matrices.
# This is its loop, word for word from [kernels/matmul.py](../kernels/matmul.py). `grouped` is the
# rule of *The order of the tiles*, and `load_tile` is `desc.load` or, where a matrix lies
# transposed, `desc.load(…).T` with the offsets exchanged.
#
# ```python
# n_tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
# for pid in tl.range(tl.program_id(axis=0), n_tiles, tl.num_programs(axis=0), flatten=True):
#     tile_m, tile_n = grouped(pid, M, N, BLOCK_M, BLOCK_N, GROUP_M)
#     acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
#     for start in range(0, K, BLOCK_K):
#         a = load_tile(a_desc, tile_m * BLOCK_M, start, A_TRANSPOSED)  # [BLOCK_M, BLOCK_K]
#         b = load_tile(b_desc, start, tile_n * BLOCK_N, B_TRANSPOSED)  # [BLOCK_K, BLOCK_N]
#         acc = tl.dot(a, b, acc, input_precision=INPUT_PRECISION)
#     # [BLOCK_M, BLOCK_N / 2] each
#     left, right = acc.reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1).split()
#     c_desc.store([tile_m * BLOCK_M, tile_n * BLOCK_N], left.to(c_desc.dtype))
#     c_desc.store([tile_m * BLOCK_M, tile_n * BLOCK_N + BLOCK_N // 2], right.to(c_desc.dtype))
# ```
#
# 1. Why is the tile written in two halves? The tile is 128 x 256 in float16 with a depth of 4 and
#    `BLOCK_K = 64`, and a program may have 232,448 bytes of shared memory.
#
# <details>
# <summary>Answer</summary>
#
# The four buffers take 4 * (128 * 64 + 64 * 256) * 2 = 196,608 bytes, and a whole tile of `c` would
# take 65,536 more: too much. Half a tile is 32,768, the two halves use the same room in turn, and
# 32 bytes more serve to wait for the copies: 229,408 as compiled. So two stores buy a deeper
# pipeline.
#
# </details>
#
# 2. What does the line with `split` do to the shape of `acc`, step by step? (`split` takes a block
#    apart along a last axis of length 2.)
#
# <details>
# <summary>Answer</summary>
#
# `reshape` cuts each row into two halves, [128, 2, 128]. `permute` moves the axis of the two halves
# to the end, [128, 128, 2]. `split` gives the left half of the tile and the right half, [128, 128]
# each.
#
# </details>

# %% [markdown]
# ## Against cuBLAS
#
# *Routes: all*
#
# How good is it? PyTorch calls NVIDIA's own library for matrix products, cuBLAS. These speeds were
# recorded on an H200 in float16. `matmul` is the course's function, which picks a version and its
# tiles by the GPU and the size.

# %%
speeds = recorded("matmul")
names = ["matmul", "torch", "matmul_v1", "matmul_v2", "matmul_v3", "matmul_v4", "matmul_v5"]
draw.speeds(speeds, series=names, xs=[1024, 2048, 4096, 8192])

# %% [markdown]
# The big step is the larger tile: at 8,192 it is 2.4 times the speed. The versions from `v3` on are
# too close to tell apart, so here they are again, divided by PyTorch's speed.

# %%
names = ["matmul_v3", "matmul_v4", "matmul_v5", "matmul"]
draw.speeds(speeds, series=names, xs=[2048, 4096, 8192], relative_to="torch")

# %% [markdown]
# At 8,192, descriptors gain 3 % over pointers, and persistent programs one more percent; at 4,096
# it is 2 % each.
#
# At 1,024 (first picture) `v4` and `v5` fall behind. They keep their tiles of 128 x 256, which make
# only 32 programs there. `v3` and `matmul` take smaller ones.
#
# These pictures show the GPU's time alone. A launch of these versions also takes the CPU 70 to 100
# microseconds, where PyTorch's product takes 22, and the GPU is done with 1,024 x 1,024 in 10. So
# for small matrices the GPU waits for Python (see lesson 07).
#
# Write one when something follows the product that can be done while it is still in registers. Try
# it.

# %% [markdown]
# ### Exercise 05.6 · A layer in one launch (stretch)
#
# `linear_relu(x, w, bias)` is `torch.relu(x @ w.T + bias)`, in float16: `x` is [M, K], its rows
# contiguous and `stride_xm` elements apart, `w` is [N, K] and `bias` [N], both contiguous; M, N and
# K from 1 on. Write the rest of the kernel. Add the bias and apply the ReLU in float32, and round
# once.


# %%
# exercise 05.6
@triton.jit
def linear_relu_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, M, N, K, stride_xm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        # about 5 lines from here
        x_mask = (rows < M)[:, None] & (ks < K)[None, :]
        w_mask = (ks < K)[:, None] & (cols < N)[None, :]
        x = tl.load(x_ptr + rows[:, None] * stride_xm + ks[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + cols[None, :] * K + ks[:, None], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc)
    bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    acc = tl.maximum(acc + bias[None, :], 0.0)
    # to here
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)


def linear_relu(x, w, bias):
    (m, k), n = x.shape, len(w)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(m, 16), triton.cdiv(n, 32))
    tile = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}
    linear_relu_kernel[grid](x, w, bias, out, m, n, k, x.stride(0), **tile)
    return out


# %%
check("05.6", linear_relu)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# `w.T` needs no copy: its element (k, n) is element (n, k) of `w`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The bias has one element per column, `bias[None, :]`. Add it once, after the loop.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Look at the registers of `at_depth(3, 128, 256)`, and at what spills. What does `num_warps=8` do
#   to them? And what does a tile of 256 x 256 need with 8 warps?
# - Draw `operand`, the layout of `a` before the dot, with `thread=(0, 1)`. Which elements of the
#   tile must that thread hold?
# - Draw `lower(tile_kernel, …, target="gfx942").layouts["product"]`. How many elements does a
#   thread of an MI300X hold?
# - Write `matmul_kernel` for any strides. Which loads stay wide if `b` is transposed?
#
# ## In practice
#
# [kernels/matmul.py](../kernels/matmul.py) is the finished operation: any strides, three dtypes, a
# table of tiles by GPU and size. If you only need a product, call PyTorch's. If something follows
# it, write the product with that at its end, or let `torch.compile` do so.
#
# ## What you can do now
#
# You can write a matrix product of any size for tensor cores, and you know what limits it: first
# the L2 cache, through the size of the tile, then registers and shared memory, which limit the tile
# in turn. You have loaded tiles by descriptors and kept programs alive in a loop. Ask yourself:
#
# 1. Tiles of 128 x 64 in float16. How many operations per byte is that, and how fast can the kernel
#    be at most, with an L2 cache of 9.7 TB/s?
#
# <details>
# <summary>Answer</summary>
#
# 128 * 64 / 192 = 42.7 operations per byte, and 42.7 * 9.7 = 414 TFLOP/s.
#
# </details>
#
# 2. Your kernel loads `a` with a mask along K and `other=0.0`, and `b` without. The result is right
#    on your machine. Why is it still wrong?
#
# <details>
# <summary>Answer</summary>
#
# Past K it reads whatever lies behind `b`. 0 times that is 0 only if it is a finite number, and it
# may not even be memory that you are allowed to read.
#
# </details>
#
# 3. A persistent kernel has 2,048 tiles for 132 programs. How many tiles does each take, and what
#    do some multiprocessors do at the very end?
#
# <details>
# <summary>Answer</summary>
#
# 2,048 = 15 * 132 + 68. So 68 programs take 16 tiles and 64 programs take 15, and those 64
# multiprocessors have nothing to do while the last tiles are computed. Being persistent does not
# change that.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/05-tensor-cores.py](../solutions/05-tensor-cores.py) has all answers.
#
# **Next:** [lesson 06](06-flash-attention.ipynb). You put two products and a softmax into one
# kernel, and nothing in between ever leaves the chip.
#
# ## Further reading
#
# - [Matrix
#   multiplication](https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html),
#   Triton's own tutorial, and the one on [persistent
#   products](https://triton-lang.org/main/getting-started/tutorials/09-persistent-matmul.html)
# - [PTX](https://docs.nvidia.com/cuda/parallel-thread-execution/), the chapters on `mma`, `wgmma`
#   and tensor maps
# - M. Fasi and others: *Numerical behavior of NVIDIA tensor cores*, PeerJ Computer Science 7:e330,
#   2021, on how tensor cores add: they line up several products by the largest and cut off the rest
# - K. Zhou and others: *Linear Layouts: Robust Code Generation of Efficient Tensor Computation
#   Using F2*, arXiv:2505.23819, on swizzling too
