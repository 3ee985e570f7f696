# %% [markdown]
# # 16 · What a dot becomes
#
# Your product is right. Which instruction does the dot become, which numbers does it really multiply,
# and how large should a tile be?
#
# **By the end you can** find out which instruction a dot becomes on a GPU, say how precise it is, work
# out from the size of a tile how fast a kernel can be at most, and put the tiles into an order that
# the cache likes.
#
# **You need** notebooks {who-holds-what} and {matrix-product}.
#
# | section | about minutes |
# |---|---|
# | What a dot becomes | 25 |
# | Which numbers are multiplied | 10 |
# | How large a tile? | 10 |
# | The order of the tiles | 15 |
# | Beginning and end | 10 |
# | **Together, an estimate** | 70 |

# %%
from course import CourseError, check, cost, draw, explore, gpu_facts, hint, lower, observed
from course import recorded
import torch
import triton
import triton.language as tl

# %% [markdown]
# These are from earlier notebooks, and the cells below use them. Run them, and go on.

# %%
n = 4096
operations, moved = 2 * n**3, 3 * n * n * 2  # in float16: a and b are read once, c is written once
print(f"{operations / 1e9:.0f} billion operations, {moved / 1e6:.0f} MB")
print(f"{operations / moved:.0f} operations per byte")


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
# ## What a dot becomes
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
# ### Exercise {eight-by-eight} · Eight by eight (core)
#
# Multiply two 8 x 8 matrices, float16 and contiguous, with one `tl.dot`. `c` is float32. One
# program runs. The blocks must be large enough for a dot, and what lies behind the matrices must
# make no difference.


# %%
# exercise eight-by-eight
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
check("eight-by-eight", small_kernel)

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
# In this experiment only the operands were shortened; the products were added up in float64.
# float16 has a price of another kind: nothing above 65,504 can be represented. That is why
# bfloat16, with the range of float32, is so popular in spite of its few digits.
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
# notebook {your-first-kernel} that its arithmetic in bfloat16 is wrong. It handles a bfloat16 as
# the integer of its 16 bits, and `tl.dot` multiplies those integers, without a warning. `check` and
# `verify` leave bfloat16 to a GPU.

# %% [markdown]
# ## How large a tile?
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
# the repeated reading finds its numbers in the L2 cache. That is faster, but it is not free. The
# picture of the machine in notebook {your-first-kernel} has its speed: 9.66 TB/s on an H200. So there is one more roof above
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
# ### Exercise {tiles-in-order} · Tiles of 132 programs (core)
#
# `c` has 48 x 40 tiles, and `GROUP_M` is 6. How many rows of tiles of `a` and columns of tiles of
# `b` do the first 132 programs read, together?

# %%
# exercise tiles-in-order
answer = None
# about 1 line from here
answer = 6 + 132 / 6
# to here

# %%
check("tiles-in-order", answer)

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
# ## On your own
#
# - Draw `lower(tile_kernel, …, target="gfx942").layouts["product"]`. How many elements does a
#   thread of an MI300X hold?
#
# ## What you can do now
#
# You know what limits a product: first the L2 cache, through the size of the tile, then registers,
# which limit the tile in turn. Ask yourself:
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

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/16-what-a-dot-becomes.py](../solutions/16-what-a-dot-becomes.py) has all answers.
#
# **Next:** [17, copies in flight: pipelines and descriptors](17-copies-in-flight.ipynb).
