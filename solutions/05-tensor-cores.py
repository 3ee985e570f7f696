# %% [markdown]
# # 05 · Tensor cores
#
# **What you will build.** A matrix product, from one `tl.dot` to tiles that keep tensor cores busy.
#
# **What you will learn.** You write the loop along K, and say in what its sum is kept. You read off
# the stages what a dot became on a GPU, and which thread holds what. You choose tiles, their order
# and the depth of the pipeline by bytes and by what fits.
#
# **What you need.** Lessons 02 to 04.
#
# | section | minutes |
# |---|---|
# | Operations for a byte | 5 |
# | The loop along K | 13 |
# | What a dot becomes | 7 |
# | Which numbers are multiplied | 6 |
# | Tiles and their order | 9 |
# | Who holds what | 8 |
# | Loading ahead | 9 |
# | Against cuBLAS | 4 |

# %%
from course import DEVICE, CourseError, check, cost, draw, explore, hint, lower
from course import matrix_pairs, observed, recorded, replay, verify
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# %% [markdown]
# ## Operations for a byte
#
# In a matrix product `c = a @ b`, `c[m, n]` is the sum over `k` of `a[m, k] * b[k, n]`. With `a` of
# `[M, K]` and `b` of `[K, N]` that is `M * N * K` multiplications and as many additions.
# **Predict** how many operations there are for each byte that must move, where M, N and K are 4,096
# and the numbers float16.

# %%
n = 4096
operations, moved = 2 * n**3, 3 * n * n * 2  # in float16: a and b read once, c written once
print(f"{operations / 1e9:.0f} billion operations, {moved / 1e6:.0f} MB")
print(f"{operations / moved:.0f} operations for a byte")

# %% [markdown]
# A vector add has one operation for twelve bytes. An H200 moves at most 4.8 TB a second, and does at
# most 989 TFLOP/s (10^12 operations a second) in float16: 206 operations for a byte. So here
# arithmetic binds by far, if memory delivers each number once.
#
# Only *tensor cores* do that many: units that multiply two small matrices in one instruction. The
# ordinary ones, which add your vectors, do 67 TFLOP/s in float32. `tl.dot` is how a kernel asks for
# tensor cores: it multiplies two blocks as matrices.


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
# The result of `tl.dot` is float32, although its operands are float16. A float16 has 11 binary digits,
# a product of two of them 22, and a float32 holds 24: no product is rounded, only their sum.
#
# ## The loop along K
#
# Real matrices fit no block. A program owns a tile of `c`, and walks along K: at each step it takes
# a tile of `a` and a tile of `b`, multiplies them, and adds the product to an *accumulator*, a
# block that stays in its registers. In PyTorch, for one tile of `c`:

# %%
acc = torch.zeros(32, 16, device=DEVICE)
for start in range(0, 64, 16):
    acc += a[:, start : start + 16].float() @ b[start : start + 16, :].float()
print((c - acc).abs().max().item() < 1e-4)

# %% [markdown]
# `tl.dot(a, b, acc)` multiplies and adds in one: tensor cores take the sum so far as a third
# operand. Three slips are made here again and again. `acc = 0` is an integer before the loop and a
# block after its first turn, which the compiler refuses. Pointers that nobody moves read the first
# tiles again and again. And a sum kept in float16 loses digits at every step.

# %% [markdown]
# ### Exercise 05.1 · The loop (core)
#
# `a` is `[M, K]`, `b` is `[K, N]`, both float16 and contiguous; `c` is float32. M, N and K are
# multiples of the blocks, so no mask is needed. Program (i, j) owns the tile in row i and column j
# of tiles. In PyTorch: `a.float() @ b.float()`.


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
# `tl.zeros([BLOCK_M, BLOCK_N], tl.float32)` makes the accumulator, before the loop.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# A step along K is `BLOCK_K` elements in a row of `a`, and `BLOCK_K` whole rows of `b`.
#
# </details>

# %% [markdown]
# Where K is no multiple of `BLOCK_K`, the last tiles stick out, of `a` on the right and of `b` at the
# bottom. **Predict**: is it enough to load zeros for `a` there, as zero times anything is zero?

# %% tags=["nbval-check-output"]
print(torch.tensor([0.0]) @ torch.tensor([float("nan")]))

# %% [markdown]
# It is not. Behind the last row of `b` anything may lie, even a NaN, and 0 * NaN is NaN. Both tiles
# need zeros along K.
#
# The rows of `a` past M and the columns of `b` past N are another matter. What they hold ends up in
# rows and columns of the accumulator that are not stored.

# %% [markdown]
# ### Exercise 05.2 · Any size (core)
#
# The same for every M, N and K from 1 on. Mask both loads; the store is masked already.


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
# At the step that begins at `start`, `K - start` elements along K are left.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# A mask of a tile joins one along its rows with one along its columns, as in lesson 02.
#
# </details>

# %% [markdown]
# Here is the whole, with its launcher. It differs from yours in two ways: its grid has one
# dimension, from which a program finds its tile by a rule that *Tiles and their order* explains; and
# the store rounds to whatever type `c` has.


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


# %%
result = verify(matmul, torch.matmul, cases=matrix_pairs(), absolute=1e-3)
print(result)
assert result.right

# %% [markdown]
# (`absolute` allows for sums that cancel: their terms are far larger than they are.)
#
# Step through the loop of one program: with the arrows beside "iteration 1 of the loop" the tiles move on,
# and `acc` grows.

# %%
a, b = (torch.arange(256.0, device=DEVICE).reshape(16, 16).half() / 256 for _ in "ab")
replay(matmul_kernel, (1,), a, b, torch.empty_like(a), 16, 16, 16,
       BLOCK_M=8, BLOCK_N=8, BLOCK_K=4, GROUP_M=1)  # fmt: skip

# %% [markdown]
# ## What a dot becomes
#
# One `tl.dot` in your kernel; which instruction it becomes depends on the GPU. Here is a product of
# 64 x 64 x 64. **Predict** whether the newest GPU (sm_100) needs more instructions for it than one
# whose tensor cores Triton does not use (sm_75), or fewer.


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
# Each is the code of one thread; but an `mma` is one instruction of a whole warp, a `wgmma` of four.
#
# | target | GPUs | instruction | who issues it | operands lie in |
# |---|---|---|---|---|
# | sm_75 | T4 | `fma`: no tensor cores | each thread | registers |
# | sm_80 to sm_89, sm_120 | A100, RTX 30 to 50 | `mma` 16 x 8 x 16 | a warp | registers |
# | sm_90 | H100, H200 | `wgmma` 64 x N x 16 | four warps | shared memory (a: also registers) |
# | sm_100 | B200 | `tcgen05` | one thread | shared memory; the sum in *tensor memory* |
# | gfx942 | MI300X | `mfma` 32 x 32 x 8 | a wavefront | registers |
# | gfx1100 | RX 7900 | `wmma` 16 x 16 x 16 | a wavefront | registers |
#
# (A T4 has tensor cores, of a kind that this Triton no longer uses.) Larger instructions mean fewer
# of them, and operands that need not pass through registers leave those to the accumulator.

# %%
explore(tile_kernel, big, big, out, M=64, N=64, K=64, target="sm_90", stages=["ttgir", "ptx"])

# %% [markdown]
# Look in the TTGIR for `ttng.warp_group_dot`, and before it for `ttg.local_alloc`, which puts the
# operands into shared memory. In a session, choose other targets at the top.
#
# A dot has a least size, since its instructions have: for float16 on NVIDIA, K must be 16 or more. The
# interpreter does not mind. **Predict** what the compiler says to 8 x 8 x 8.

# %%
try:
    lower(tile_kernel, big, big, out, M=8, N=8, K=8, target="sm_90")
except CourseError as error:
    print(error)

# %% [markdown]
# ### Exercise 05.3 · Eight by eight (core)
#
# Multiply two 8 x 8 matrices, float16 and contiguous, with one `tl.dot`. `c` is float32. One program
# runs. The blocks must be large enough for a dot, and what is past the matrices must not matter.


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
# A block of 16 x 16 holds a matrix of 8 x 8 in its corner; rows are still 8 elements apart.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Three quarters of the lanes have no element. What must they add?
#
# </details>

# %% [markdown]
# ## Which numbers are multiplied
#
# A tensor core takes no float32. For float32 operands `tl.dot` uses *TF32* by default on NVIDIA:
# the exponent of a float32 and the first 10 digits of its mantissa. (A mantissa's leading 1 is not
# stored: the 11 binary digits of a float16 are 10 stored ones.) bfloat16 stores 7. **Predict** which of
# these four loses most, and which two are alike.


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
# Only the operands were cut here: the products were added up in float64. TF32 is behind float16
# because it was cut and not rounded. What float16 pays for its digits is range: nothing above 65,504.
# On a GPU, the sum counts as well:

# %%
print(observed().dots)

# %% [markdown]
# `input_precision="ieee"` multiplies all 23 bits, without tensor cores; "tf32x3" splits each operand
# in two, multiplies three times, and comes as near. A sum kept in float16 is four times as far off as
# its operands alone are.
#
# Two warnings for CPU mode. The interpreter multiplies float32 in full, so TF32 never shows there. And
# it gets bfloat16 wrong. NumPy has no bfloat16, so the interpreter keeps such a value as the integer of
# its 16 bits. It loads, stores and converts to float32 correctly, but it adds and multiplies those
# integers. (Converting back, it cuts bits off where a GPU rounds.)
#
# **Predict:** the bits of 1.0 are the integer 16256. What does the interpreter make of a product of two
# 16 x 16 matrices of ones, which should be 16 everywhere: 16 x 1 x 1, or 16 x 16256 x 16256?


# %%
@triton.jit
def ones_kernel(x_ptr, twice_ptr, product_ptr):
    offsets = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + offsets)
    tl.store(twice_ptr + offsets, x + x)
    tl.store(product_ptr + offsets, tl.dot(x, x))


ones = torch.ones(16, 16, device=DEVICE, dtype=torch.bfloat16)
twice, product = torch.empty_like(ones), torch.empty(16, 16, device=DEVICE)
ones_kernel[(1,)](ones, twice, product)
print(f"1 + 1 = {twice[0, 0].item():.3g}, and the product is {product[0, 0].item():,.0f}")

# %% [markdown]
# On a GPU this prints 2 and 16. No warning comes with the wrong numbers, so in CPU mode use float32 or
# float16, or convert with `.to(tl.float32)` right after the load. `verify` and `check` know about it and
# leave such cases to a GPU.

# %% [markdown]
# ## Tiles and their order
#
# A tile of `BLOCK_M` x `BLOCK_N` reads `BLOCK_M` rows of `a` and `BLOCK_N` columns of `b`. The same
# row is read again by every tile beside it. **Predict** what twice the tile, in both directions,
# does to the bytes that programs ask for.

# %%
small = torch.empty(256, 256, device="meta", dtype=torch.float16)
for block in (32, 64, 128):
    tile = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": 32, "GROUP_M": 1}
    grid = ((256 // block) ** 2,)
    counted = cost(matmul_kernel, grid, small, small, small, 256, 256, 256, **tile, target="H200")
    asked = counted.bytes_loaded
    print(
        f"{block:3}: {asked / 1e6:5.2f} MB asked for, {2 * 256**3 / asked:3.0f} operations for a byte"
    )

# %% [markdown]
# Half as many, as M * N * K * (1 / BLOCK_M + 1 / BLOCK_N) elements are asked for. At 64 x 64 it is
# 32 operations for a byte, where the tensor cores of an H200 want 206. So most of what is asked for
# must come from the L2 cache, or tiles must be larger. Both are done.
#
# What the L2 cache can serve depends on which programs run at the same time. Nobody promises an
# order, but as a rule they begin by their numbers: first as many as fit the 132 multiprocessors.
# **Predict** which order of tiles lets 16 programs share most rows of `a` and columns of `b`.

# %%
draw.slide(lambda group_m: draw.order(8, 8, group_m, programs=16), group_m=[1, 2, 4, 8])

# %% [markdown]
# A square of 4 x 4 tiles needs 4 rows and 4 columns, two rows of 8 need 2 and 8. That is the rule in
# `matmul_kernel`: go down `GROUP_M` tiles, then one column to the right. Here is what the first 132
# programs of a product of 2,048 x 2,048 in tiles of 64 x 64 read in one step along K, counted: so K
# is 64 here.

# %%
tall, wide = (torch.empty(*s, device="meta", dtype=torch.float16) for s in ((2048, 64), (64, 2048)))
tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}
for group_m in (1, 8):
    args = (tall, wide, big, 2048, 2048, 64)
    counted = cost(matmul_kernel, (132,), *args, **tile, GROUP_M=group_m, target="H200")
    asked, distinct = counted.bytes_loaded, counted.distinct_loaded
    told = f"asked for {asked / 8192:.0f} tiles, {distinct / 8192:.0f} different ones"
    print(f"groups of {group_m}: {told}")

# %% [markdown]
# 264 tiles are asked for either way, and all operations are the same. But memory has to deliver 37
# different ones row after row, and 25 in groups of 8. What that is worth depends on what the L2
# cache holds anyway: on an H200 a few percent at 4,096, and a seventh at 8,192, as you will see. It never
# changes the result.

# %% [markdown]
# ### Exercise 05.4 · Tiles of 132 programs (core)
#
# `c` has 48 x 40 tiles, `GROUP_M` is 6. How many rows of tiles of `a` and columns of tiles of `b`
# do the first 132 programs read, together?

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
# A group is 6 rows high and 40 columns wide: 240 tiles. The first 132 are in it.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# They go down first. How many columns of 6 are 132?
#
# </details>

# %% [markdown]
# ## Who holds what
#
# A tensor core finds each element in a fixed thread and register. Here is the accumulator of a 16 x
# 16 product by 2 warps on an A100, whose instruction makes 16 x 8 elements. **Predict** how many of
# them a thread holds.

# %%
args = (big[:16, :64].clone(), big[:64, :16].clone(), out[:16, :16].clone())
s = lower(tile_kernel, *args, M=16, N=16, K=64, num_warps=2, target="sm_80")
print(s.layouts["product"].attribute)
draw.layout(s, "product")

# %% [markdown]
# Four: two neighbours in row 0 and two in row 8, for thread 0. Each warp makes 8 columns. That is the
# layout `nvidia_mma`. Within a warp it is the instruction's; Triton chose only how the warps share
# the tile. The operands have layouts of their own, `dot_op`. Here is what thread 1 of warp 0 holds of
# `a`.

# %%
operand = next(each for each in s.layouts if each.kind == "dot_op" and "a" in each.names)
draw.layout(operand, thread=(0, 1))

# %% [markdown]
# But `a` was loaded in a `blocked` layout, 8 neighbours a thread, so that the loads are wide. From
# one to the other it goes through shared memory, which has 32 *banks* of 4 bytes: a warp takes 128
# bytes in one go if all banks are different. A row of `a` is 128 bytes. **Predict** in which bank its
# element (1, 0) lies. (`access` says which layout reads it.)

# %%
draw.layout(s.layouts["#shared"], access=operand, rows=9)

# %% [markdown]
# Not in bank 0 but in bank 4. Framed is what a warp asks for at once: 16 bytes of each of eight rows.
# If every row began in bank 0, these would lie in the same four banks. So the compiler *swizzles*:
# it exchanges the pieces of 16 bytes within a row, in another way in each of eight rows
# (`maxPhase = 8`). In the TTGIR you can take that out.

# %%
plain = s.replace(ttgir=s.ttgir.replace("maxPhase = 8", "maxPhase = 1"))
draw.layout(plain.layouts["#shared"], access=operand, rows=9)

# %% [markdown]
# Eight turns where one did. On Hopper the tensor cores read shared memory themselves, and know this
# swizzle: there it is called `nvmma_shared`.
#
# These are all the layouts that you will meet, those of lesson 03 among them. Every one says the same
# thing: where each element of a block lies.
#
# | layout | where it is met |
# |---|---|
# | `blocked` | loads, stores, arithmetic: chosen for wide loads |
# | `slice` | a row or column: a layout with one dimension taken out |
# | `linear` | bit by bit, where no other name fits: after a reshape or a split, say |
# | `nvidia_mma`, `amd_mfma`, `amd_wmma` | accumulators, as the instruction has them |
# | `dot_op` | an operand in registers, made to fit its accumulator |
# | `swizzled_shared`, `nvmma_shared`, `amd_rotating_shared`, `padded_shared` | shared memory |
# | `tensor_memory_encoding` | the accumulator on sm_100 |
#
# ## Loading ahead
#
# A dot waits for its tiles, and memory answers after hundreds of nanoseconds. In lesson 04 other
# programs computed meanwhile. Here a program holds so much that few fit, and so the loop itself is
# *pipelined*: while one tile is multiplied, the next ones are on their way into shared memory.
# `num_stages` is the pipeline depth. Move the slider.


# %%
def at_depth(num_stages, block_m=64, block_n=128, num_warps=4):
    options = {"num_stages": num_stages, "num_warps": num_warps, "target": "sm_90"}
    tile = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": 64, "GROUP_M": 8}
    return lower(matmul_kernel, big, big, big, n, n, n, **tile, **options)


draw.slide(lambda num_stages: draw.pipeline(at_depth(num_stages)), num_stages=[1, 2, 3, 4])

# %% [markdown]
# Loads run ahead of the dot, by `num_stages - 1` iterations. **Predict** what each further
# iteration costs.

# %%
for num_stages in (1, 2, 3, 4):
    s = at_depth(num_stages)
    shared, copies = s.resources.shared_bytes, s.counts["ptx"]["asynchronous copies"]
    print(f"depth {num_stages}: {shared:6,} bytes shared, {copies:2} asynchronous copies")

# %% [markdown]
# 24,576 bytes: a tile of `a` and one of `b`. The copies are *asynchronous*: `cp.async` goes from memory
# to shared memory without a register, and the thread goes on. A deeper pipeline waits less, until
# there is nothing left to wait for; and shared memory ends, for one program at 227 KB on an H200. A
# program that takes all of it is alone on its multiprocessor.
#
# (This is Hopper, whose `wgmma` still reads a buffer while the next is filled. On sm_80 and sm_89
# the same depth needs a buffer fewer, and programs may have 163 and 99 KB; a T4 has no `cp.async`,
# and depth changes nothing.)

# %% [markdown]
# ### Exercise 05.5 · How deep? (core)
#
# Tiles of 64 x 128, steps of 64 along K, float16. Which depth is the largest that fits 64 KB, 99 KB
# and 227 KB, if each iteration under way takes a buffer for both tiles, as on Hopper, and nothing
# else counts? Write the three as a text, such as `"1, 2, 3"`. (1 KB is 1,024 bytes here.)

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
# How many elements have a tile of `a` and a tile of `b` together, and how many bytes has each?
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
# What lesson 02 called a tensor descriptor takes one more burden off. `a_desc.load([row, start])` is a
# single instruction by one thread: the *tensor memory accelerator* (TMA) computes the addresses,
# fetches the tile, keeps to the edges and swizzles on the way. **Predict** what becomes of the
# registers. (This kernel has no groups, which saves a few as well.)


# %%
@triton.jit
def described_kernel(
    a_desc, b_desc, c_desc, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    row, col = tl.program_id(axis=0) * BLOCK_M, tl.program_id(axis=1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([row, start]), b_desc.load([start, col]), acc)
    c_desc.store([row, col], acc.to(c_desc.dtype))


# %%
def described(x, rows, cols):
    return TensorDescriptor(x, list(x.shape), list(x.stride()), [rows, cols])


descs = described(big, 64, 64), described(big, 64, 128), described(big, 64, 128)
d = lower(described_kernel, *descs, n, BLOCK_M=64, BLOCK_N=128, BLOCK_K=64, target="sm_90")
for name, each in (("pointers", at_depth(3)), ("descriptors", d)):
    copies = each.counts["ptx"]["asynchronous copies"]
    print(f"{name:11}: {each.resources.registers} registers, {copies} asynchronous copies")

# %%
x, y = (torch.randn(100, 100, device=DEVICE, dtype=torch.float16) for _ in "xy")
x, y = torch.nn.functional.pad(x, (0, 4)), torch.nn.functional.pad(y, (0, 4))
z = torch.empty(100, 104, device=DEVICE, dtype=torch.float16)
tiles = described(x, 32, 32), described(y, 32, 32), described(z, 32, 32)
described_kernel[(4, 4)](*tiles, 100, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
print(torch.allclose(z.float(), x.float()[:, :100] @ y.float(), atol=0.05))

# %% [markdown]
# A quarter fewer: no thread holds the pointers and masks of its tiles. The seven copies are two
# loads for each of three stages, and the store. In the last cell rows are padded to 104 columns,
# since they must begin at multiples of 16 bytes; K stays 100, and the zeros beyond it do no harm.
#
# ## Against cuBLAS
#
# What was recorded on an H200 in float16, against PyTorch, which calls NVIDIA's cuBLAS. `matmul_v1`
# and `v2` have tiles of 64 x 64, `v2` in groups; `v3` has tiles of up to 128 x 256 and more depth,
# `v4` descriptors; `v5` keeps a program on each multiprocessor, which loads for its next tile while
# it stores this one. `matmul` is the course's own, which picks among the last three. **Predict**
# which step gains most at 8,192.

# %%
speeds = recorded("matmul")
names = ["matmul", "torch", "matmul_v1", "matmul_v2", "matmul_v3", "matmul_v4", "matmul_v5"]
draw.speeds(speeds, series=names, xs=[1024, 2048, 4096, 8192])

# %% [markdown]
# Larger tiles: two and a half times the speed. Groups gain a seventh at 8,192, and 6 % at 4,096, whose
# operands, 34 MB each, the L2 cache nearly holds. Descriptors and persistent programs gain two to
# four percent each, and from 2,048 on the best stand beside cuBLAS. At 1,024 `v4` and `v5` fall off:
# their tiles are 128 x 256, which makes 32 for 132 multiprocessors, and `matmul` takes smaller ones
# there. One cost is not in this picture, which shows the GPU's time: a launch takes the CPU two to
# three times as long as PyTorch's, and longer than the GPU takes for the product of 1,024.
#
# So why write one? For what comes after the product while it is still in registers.

# %% [markdown]
# ### Exercise 05.6 · A layer in one launch (stretch)
#
# `linear_relu(x, w, bias)` is `torch.relu(x @ w.T + bias)`, in float16: `x` is `[M, K]`, its rows
# `stride_xm` elements apart, `w` is `[N, K]` and `bias` `[N]`, both contiguous; any M, N and K.
# Write the rest of the kernel. Add and cut off in float32, and round once.


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
# `w.T` needs no copy: element (k, n) of it is element (n, k) of `w`.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# The bias has an element for each column: `bias[None, :]`, once, after the loop.
#
# </details>

# %% [markdown]
# ## On your own
#
# - Look at the registers of `at_depth(3, 128, 256)`, and at what spills. What does `num_warps=8` do to
#   them?
# - Draw `lower(tile_kernel, …, target="gfx942").layouts["product"]`. How many elements does a
#   thread of an MI300X hold?
# - Write `matmul_kernel` for any strides. Which loads stay wide where `b` is transposed?
#
# ## In practice
#
# [kernels/matmul.py](../kernels/matmul.py) is the finished operation: any strides, three dtypes, a
# table of tiles by GPU and size. Where you only need a product, call PyTorch's. Where something
# follows it, write the product with that in the end, or let `torch.compile` do so.
#
# ## Further reading
#
# - [Matrix
#   multiplication](https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html),
#   Triton's own tutorial
# - [PTX](https://docs.nvidia.com/cuda/parallel-thread-execution/), the chapters on `mma`, `wgmma`
#   and tensor maps
# - K. Zhou and others: *Linear Layouts: Robust Code Generation of Efficient Tensor Computation
#   Using F2*, arXiv:2505.23819, on swizzling too
