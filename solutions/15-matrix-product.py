# %% [markdown]
# # 15 · A matrix product
#
# Nearly all the arithmetic of a neural network is matrix products. A GPU has units that do nothing
# else, and on an H200 they are fifteen times as fast as those that added your vectors. Using them is
# easy: there is one function for it, `tl.dot`. Keeping them busy is hard.
#
# PyTorch's own matrix product is excellent, and yours will end up beside it. You learn to write one
# because something may follow the product that should happen while the result is still in registers:
# a bias, a ReLU, or a softmax and a second product.
#
# **By the end you can** write a matrix product for any size with `tl.dot`, and say which roof binds it.
#
# **You need** notebooks {two-dimensions} and {softmax-of-a-row}.
#
# | section | about minutes |
# |---|---|
# | Operations per byte | 10 |
# | The loop along K | 50 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 70 |

# %% [markdown]
# **Two questions from earlier notebooks.** Answer them before you unfold the answers.
#
# 1. `rows` and `cols` are the row and column numbers of a tile, two blocks of 64 numbers. Which
#    mask keeps a load of the tile inside an `M` x `N` matrix, and what is the shape of the mask?
#
# <details>
# <summary>Answer</summary>
#
# `(rows < M)[:, None] & (cols < N)[None, :]`. Broadcasting makes it [64, 64], as in notebook
# {two-dimensions}.
#
# </details>
#
# 2. A kernel has to move 1.07 GB through device memory, and the copy roof is 4.2 TB/s. What is the
#    least time that it can take?
#
# <details>
# <summary>Answer</summary>
#
# Divide the bytes by the roof: 1.07 GB / 4.2 TB/s = 0.25 ms. From now on a kernel has more than
# one roof, and the lowest of them counts.
#
# </details>

# %%
from course import DEVICE, check, draw, hint, matrix_pairs, replay, verify
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Operations per byte
#
# So far memory set the limit: a vector add does a single addition for every 12 bytes,
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
# delivers each number only once. Remember that "if": the next three notebooks are about it.
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
# Real matrices do not fit into a block. So you do what you did in notebook {two-dimensions}: each
# program computes one tile of `c`. Take a tile of 64 x 64 with K = 4,096. It needs 64 rows of `a`,
# each 4,096 long, and that alone is 512 KiB in float16. A multiprocessor has 256 KiB of registers.
# So not even one tile's operands fit.
#
# They need not be there all at once, because a sum can be made in parts. The program walks along
# K. In each iteration it loads one tile of `a` and one tile of `b`, multiplies them, and adds the
# product to an **accumulator**: a block that stays in registers during the whole loop.

# %%
draw.walk(steps=4, step=2)

# %% [markdown]
# In PyTorch, for one tile of `c`:

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
# ### Exercise {product-loop} · The loop (core)
#
# `a` is [M, K] and `b` is [K, N], both float16 and contiguous, and `c` is float32. M, N and K are
# multiples of the blocks, so you need no masks. Program (i, j) owns the tile in row i and column j
# of tiles. Use `tl.dot`, and leave its operands in float16. In PyTorch: `a.float() @ b.float()`.


# %%
# exercise product-loop
@triton.jit
def loop_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
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
check("product-loop", loop_kernel)

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
# ### Exercise {product-of-any-size} · Any size (core)
#
# Now for every M, N and K from 1 on. Mask both loads; the store
# has its mask already.


# %%
# exercise product-of-any-size
@triton.jit
def edges_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
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
check("product-of-any-size", edges_kernel)

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
# The mask of a tile joins a condition on its rows and one on its columns, as in notebook
# {two-dimensions}. For `a` the columns are along K, for `b` the rows are.
#
# </details>

# %% [markdown]
# Here is the whole thing, with a launcher. It differs from yours in one place: the grid has one
# axis instead of two, and a few lines turn the program's number into a tile. Notebook
# {what-a-dot-becomes} explains them, so read over them for now. The store is yours. It rounds the
# accumulator to whatever type `c` has, once, at the very end. In one thing it is less careful than
# the exercises: its offsets have 32 bits, which are enough for matrices of less than 2^31 elements.
# [kernels/matmul.py](../kernels/matmul.py) widens its rows and columns.


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
# ## On your own
#
# - Write `matmul_kernel` for any strides. Which loads stay wide if `b` is transposed?
#
# ## What you can do now
#
# You can write the loop of a matrix product: an accumulator in float32, two tiles per iteration,
# zeros wherever K ends. Ask yourself:
#
# 1. Your kernel loads `a` with a mask along K and `other=0.0`, and `b` without. The result is right
#    on your machine. Why is it still wrong?
#
# <details>
# <summary>Answer</summary>
#
# Past K it reads whatever lies behind `b`. 0 times that is 0 only if it is a finite number, and it
# may not even be memory that you are allowed to read.
#
# </details>

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/15-matrix-product.py](../solutions/15-matrix-product.py) has all answers.
#
# **Next:** [16, what a dot becomes](16-what-a-dot-becomes.ipynb).
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
