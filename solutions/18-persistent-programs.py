# %% [markdown]
# # 18 · Persistent programs
#
# A launch of 2,048 tiles on 132 multiprocessors ends 2,048 programs and begins as many. Here 132
# programs stay, and each takes one tile after another.
#
# **By the end you can** write a persistent kernel, and say what it saves and what it does not.
#
# **You need** notebook {copies-in-flight}.
#
# | section | about minutes |
# |---|---|
# | Persistent programs | 25 |
# | Against cuBLAS | 2 |
# | Beginning and end | 4 |
# | **Together, an estimate** | 31 |
# | Stretch exercises, for those with time left | 25 |

# %%
from course import DEVICE, check, draw, hint, recorded
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## Persistent programs
#
# A product of 8,192 x 8,192 has 2,048 tiles of 128 x 256. With a depth of 4 each program takes 192
# KB of shared memory, so a multiprocessor holds a single one. While it stores its tile, the tensor
# cores have nothing to do, and then they wait again until the next program's first operands arrive.
# That happens 15 or 16 times on each of the 132 multiprocessors, and no other program fills the
# gap.
#
# What if a program did not end? Start only as many as there are multiprocessors, and let each
# compute one tile after the other: *persistent* programs, as in notebook {rows-of-any-width}. Which
# tiles does program p take? The simplest rule is p, p + P, p + 2 P and so on, where P is the number
# of programs, which a kernel learns from `tl.num_programs(axis=0)`. Here programs only write down
# their own number, so that you see who takes which of ten blocks.


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
# ### Exercise {persistent-product} · A persistent product (core)
#
# Write the product of `described_kernel` for persistent programs. `check` starts a few of them,
# numbered along axis 0, and each computes tile after tile. Tiles are counted row after row, and
# there are `n_tiles`. Store each tile in the type of `c_desc`. The loop along K is in
# `tile_product`, a function that your kernel can call. `a_desc`, `b_desc` and `c_desc` are
# descriptors with the shapes of their tiles.


# %%
# exercise persistent-product
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
check("persistent-product", persistent_kernel)

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
# rule of *The order of the tiles* in notebook {what-a-dot-becomes}, and `load_tile` is `desc.load`
# or, where a matrix lies transposed, `desc.load(…).T` with the offsets exchanged.
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
# for small matrices the GPU waits for Python (see notebook {inside-a-c-program}).
#
# Write a product of your own when something follows it that can be done while the result is still
# in registers. Try it.

# %% [markdown]
# ### Exercise {layer-in-one-launch} · A layer in one launch (stretch)
#
# `linear_relu(x, w, bias)` is `torch.relu(x @ w.T + bias)`, in float16: `x` is [M, K], its rows
# contiguous and `stride_xm` elements apart, `w` is [N, K] and `bias` [N], both contiguous; M, N and
# K from 1 on. Write the rest of the kernel. Add the bias and apply the ReLU in float32, and round
# once.


# %%
# exercise layer-in-one-launch
@triton.jit
def linear_relu_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, M, N, K, stride_xm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
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
check("layer-in-one-launch", linear_relu)

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
# ## In practice
#
# [kernels/matmul.py](../kernels/matmul.py) is the finished operation: any strides, three dtypes, a
# table of tiles by GPU and size. If you only need a product, call PyTorch's. If something follows
# it, write the product with that at its end, or let `torch.compile` do so.
#
# ## What you can do now
#
# You have kept programs alive in a loop, and seen how near that comes to cuBLAS. Ask yourself:
#
# 1. A persistent kernel has 2,048 tiles for 132 programs. How many tiles does each take, and what
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
# [solutions/18-persistent-programs.py](../solutions/18-persistent-programs.py) has all answers.
#
# **Next:** [19, attention on one tile of keys](19-one-tile-of-keys.ipynb).
