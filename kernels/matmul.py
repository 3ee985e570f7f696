"""Matrix product: c[m, n] = sum over k of a[m, k] * b[k, n], added up in float32 and rounded once.

    for each tile of BLOCK_M x BLOCK_N elements of c, in parallel:
        acc = 0                                              # [BLOCK_M, BLOCK_N], in registers
        for each BLOCK_K of the K columns of a and rows of b:
            acc += a[rows of the tile, ks] @ b[ks, columns of the tile]
        c[tile] = acc

The ladder. 2 * M * N * K operations, and with s bytes per element s * (M * K + K * N + M * N) bytes
that must move. A tile reads BLOCK_M rows of a and BLOCK_N columns of b, so that programs ask for
s * M * N * K * (1 / BLOCK_M + 1 / BLOCK_N) bytes: 2 / s * BLOCK_M * BLOCK_N / (BLOCK_M + BLOCK_N)
operations per byte.

    v1  matmul_v1  a tile of 64 x 64 per program    32 operations per byte of 16-bit operands
    v2  matmul_v2  as v1, programs in groups        the same, more of it from the L2 cache: P
                                                    programs at a time in a row of tiles read 1
                                                    row and P columns of tiles; in groups of 8,
                                                    8 rows and P / 8 columns
    v3  matmul_v3  as v2, larger tiles, from TILES  85 operations per byte at 128 x 256, and more
                                                    loads in flight
    v4  matmul_v4  as v3, by tensor descriptors     the same; the tensor memory accelerator
                                                    (TMA) computes addresses, where threads did
    v5  matmul_v5  as v4, persistent programs       the same; the next tile is being loaded while
                                                    this one is written
        matmul     picks v3, v4 or v5 by the GPU, the strides and the size of c
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.checks import GRID_LIMIT, check_runs_on, check_tensors
from kernels.device import as_stored, gpu_of
from kernels.matmul_settings import (
    LARGE,
    LEAST_TO_COPY,
    MOST_BY_POINTERS,
    PLANS,
    SMALL,
    Plan,
    Tiles,
    tiles_for,
)
from kernels.transpose import transpose_kernel

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
PRECISIONS = ("tf32", "ieee")
MOST_ELEMENTS = 2**30
"""The longest dimension: 32 bits are sure to count that many elements and a block more."""


@triton.jit
def matmul_kernel_v1(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):
    """Program p owns tile p of c, a contiguous [M, N]: the tiles are counted row after row."""
    pid = tl.program_id(axis=0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tile_m, tile_n = pid // tiles_n, pid % tiles_n
    # In 64 bits, since a row times its stride may pass 2**31.
    rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    ks = tl.arange(0, BLOCK_K)  # [BLOCK_K]
    step_ak, step_bk = tl.cast(stride_ak, tl.int64), tl.cast(stride_bk, tl.int64)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * step_ak  # [BLOCK_M, BLOCK_K]
    b_ptrs = b_ptr + ks[:, None] * step_bk + cols[None, :] * stride_bn  # [BLOCK_K, BLOCK_N]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        # Past K both operands are 0. If only one were, a NaN or an infinity that happens to lie
        # behind the other would make 0 * NaN.
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - start), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - start) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=INPUT_PRECISION)
        a_ptrs += BLOCK_K * step_ak
        b_ptrs += BLOCK_K * step_bk
    mask = (rows[:, None] < M) & (cols[None, :] < N)  # [BLOCK_M, BLOCK_N]
    c_ptrs = c_ptr + rows[:, None] * N + cols[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=mask)  # rounded once, here


@triton.jit
def grouped(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """The row and column of tile `pid`, counted down the columns of a group of GROUP_M rows of
    tiles."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)  # the last group may have fewer
    within = pid % (GROUP_M * tiles_n)
    return first_m + within % rows, within // rows


@triton.jit
def matmul_kernel_v2(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):
    """v2 and v3: as v1, but the tiles are counted in groups (see `grouped`)."""
    tile_m, tile_n = grouped(tl.program_id(axis=0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    ks = tl.arange(0, BLOCK_K)  # [BLOCK_K]
    step_ak, step_bk = tl.cast(stride_ak, tl.int64), tl.cast(stride_bk, tl.int64)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * step_ak  # [BLOCK_M, BLOCK_K]
    b_ptrs = b_ptr + ks[:, None] * step_bk + cols[None, :] * stride_bn  # [BLOCK_K, BLOCK_N]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - start), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - start) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=INPUT_PRECISION)
        a_ptrs += BLOCK_K * step_ak
        b_ptrs += BLOCK_K * step_bk
    store_tile(c_ptr, acc, tile_m, tile_n, M, N, BLOCK_M, BLOCK_N)


@triton.jit
def store_tile(c_ptr, acc, tile_m, tile_n, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Round acc once and write it as the tile (tile_m, tile_n) of c, a contiguous [M, N]."""
    rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = (rows[:, None] < M) & (cols[None, :] < N)  # [BLOCK_M, BLOCK_N]
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def load_tile(desc, row, col, TRANSPOSED: tl.constexpr):
    """The tile that begins at (row, col) of a matrix.

    `desc` describes that matrix or, where TRANSPOSED, its transpose.
    """
    if TRANSPOSED:
        return desc.load([col, row]).T
    else:
        return desc.load([row, col])


@triton.jit
def matmul_kernel_v4(
    a_desc, b_desc, c_ptr, M, N, K,
    A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):
    """As v2, but the tensor memory accelerator (TMA) copies whole tiles, at one thread's request.

    What lies outside a described matrix reads as 0, so both operands are 0 past K.
    """
    tile_m, tile_n = grouped(tl.program_id(axis=0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        a = load_tile(a_desc, tile_m * BLOCK_M, start, A_TRANSPOSED)  # [BLOCK_M, BLOCK_K]
        b = load_tile(b_desc, start, tile_n * BLOCK_N, B_TRANSPOSED)  # [BLOCK_K, BLOCK_N]
        acc = tl.dot(a, b, acc, input_precision=INPUT_PRECISION)
    store_tile(c_ptr, acc, tile_m, tile_n, M, N, BLOCK_M, BLOCK_N)


@triton.jit
def matmul_kernel_v5(
    a_desc, b_desc, c_desc, M, N, K,
    A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):
    """Program p of P owns tiles p, p + P, p + 2 P … and computes one after the other.

    flatten makes one loop of the two, so that the next tile's first loads are in flight while this
    tile is written. c is written half a tile at a time: half the shared memory leaves room for
    another stage of the pipeline.
    """
    n_tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for pid in tl.range(tl.program_id(axis=0), n_tiles, tl.num_programs(axis=0), flatten=True):
        tile_m, tile_n = grouped(pid, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for start in range(0, K, BLOCK_K):
            a = load_tile(a_desc, tile_m * BLOCK_M, start, A_TRANSPOSED)  # [BLOCK_M, BLOCK_K]
            b = load_tile(b_desc, start, tile_n * BLOCK_N, B_TRANSPOSED)  # [BLOCK_K, BLOCK_N]
            acc = tl.dot(a, b, acc, input_precision=INPUT_PRECISION)
        # [BLOCK_M, BLOCK_N / 2] each
        left, right = acc.reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1).split()
        c_desc.store([tile_m * BLOCK_M, tile_n * BLOCK_N], left.to(c_desc.dtype))
        c_desc.store([tile_m * BLOCK_M, tile_n * BLOCK_N + BLOCK_N // 2], right.to(c_desc.dtype))


def _check(a: torch.Tensor, b: torch.Tensor, input_precision: str) -> None:
    check_tensors("matmul", a=a, b=b)
    check_runs_on("matmul", matmul_kernel_v1, a)
    for name, tensor in (("a", a), ("b", b)):
        if tensor.ndim != 2:
            raise ValueError(
                f"matmul: {name} has shape {tuple(tensor.shape)}; it must have two dimensions."
            )
        if tensor.dtype not in DTYPES:
            raise ValueError(
                f"matmul: {name} is {tensor.dtype}; this kernel takes float16, bfloat16 and "
                "float32."
            )
        if max(tensor.shape) > MOST_ELEMENTS:
            raise ValueError(
                f"matmul: {name} has shape {tuple(tensor.shape)}; one dimension may have "
                f"{MOST_ELEMENTS:,} elements."
            )
    for what in ("device", "dtype"):
        if getattr(a, what) != getattr(b, what):
            raise ValueError(
                f"matmul: a has {what} {getattr(a, what)} and b has {what} {getattr(b, what)}; "
                f"both must have the same {what}."
            )
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"matmul: a has {a.shape[1]:,} columns and b has {b.shape[0]:,} rows; there must be as "
            "many."
        )
    if input_precision not in PRECISIONS:
        raise ValueError(
            f"matmul: input_precision is {input_precision!r}, and must be 'tf32' or 'ieee'."
        )


def _prepare(
    a: torch.Tensor, b: torch.Tensor, input_precision: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Check a and b; return them and c, with nothing written."""
    _check(a, b, input_precision)
    return as_stored(a), as_stored(b), a.new_empty((a.shape[0], b.shape[1]))


def _kind(a: torch.Tensor, input_precision: str) -> str:
    """What is multiplied, as the tables of settings have it."""
    return "16 bits" if a.itemsize == 2 else input_precision


def _tiles(c: torch.Tensor, input_precision: str) -> Tiles:
    """The settings of v3 for a product c on its GPU."""
    return tiles_for(gpu_of(c).shared_kib, _kind(c, input_precision), c.numel())


def _launch_by_pointers(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, input_precision: str, tiles: Tiles
) -> torch.Tensor:
    """v2 or v3, which differ in their tiles."""
    if c.numel():
        with torch.cuda.device_of(c):
            matmul_kernel_v2[(tiles.count(c),)](
                a, b, c, *c.shape, a.shape[1], *a.stride(), *b.stride(), **tiles.blocks,
                GROUP_M=tiles.group_m, INPUT_PRECISION=input_precision, **tiles.compiled_with,
            )
    return c


def matmul_v1(
    a: torch.Tensor, b: torch.Tensor, input_precision: str = "tf32", tiles: Tiles | None = None
) -> torch.Tensor:
    """v1 of the ladder: each program computes one tile."""
    a, b, c = _prepare(a, b, input_precision)
    tiles = tiles or SMALL[_kind(a, input_precision)]
    if c.numel():
        with torch.cuda.device_of(c):
            matmul_kernel_v1[(tiles.count(c),)](
                a, b, c, *c.shape, a.shape[1], *a.stride(), *b.stride(), **tiles.blocks,
                INPUT_PRECISION=input_precision, **tiles.compiled_with,
            )
    return c


def matmul_v2(
    a: torch.Tensor, b: torch.Tensor, input_precision: str = "tf32", tiles: Tiles | None = None
) -> torch.Tensor:
    """v2 of the ladder: programs in groups."""
    a, b, c = _prepare(a, b, input_precision)
    tiles = tiles or SMALL[_kind(a, input_precision)]
    return _launch_by_pointers(a, b, c, input_precision, tiles)


def matmul_v3(
    a: torch.Tensor, b: torch.Tensor, input_precision: str = "tf32", tiles: Tiles | None = None
) -> torch.Tensor:
    """v3 of the ladder: tiles from TILES."""
    a, b, c = _prepare(a, b, input_precision)
    return _launch_by_pointers(a, b, c, input_precision, tiles or _tiles(c, input_precision))


def _transposed(x: torch.Tensor) -> bool | None:
    """Whether a descriptor takes x as it lies (False), its transpose (True), or neither (None).

    A descriptor needs contiguous rows that begin at multiples of 16 bytes and do not overlap.
    """
    (rows, cols), (down, along) = x.shape, x.stride()
    if rows and cols and x.data_ptr() % 16 == 0:
        if along == 1 and down >= cols and down * x.itemsize % 16 == 0:
            return False
        if down == 1 and along >= rows and along * x.itemsize % 16 == 0:
            return True
    return None


def _aligned(x: torch.Tensor) -> torch.Tensor:
    """A copy of x that a descriptor takes."""
    vector = 16 // x.itemsize
    copy = x.new_empty((x.shape[0], triton.cdiv(x.shape[1], vector) * vector))[:, : x.shape[1]]
    return copy.copy_(x)


def _transposed_copy(x: torch.Tensor) -> torch.Tensor:
    """A copy of x whose transpose a descriptor takes.

    The kernel of transpose writes it where it can, without its launcher, which takes any number of
    dimensions and twice the CPU time.
    """
    rows, cols = x.shape
    grid = -(-rows // 64), -(-cols // 64)
    if rows * x.itemsize % 16 or grid[1] > GRID_LIMIT:
        return _aligned(x.mT).mT
    transposed = x.new_empty((cols, rows))
    transpose_kernel[grid](x, transposed, rows, cols, 0, *x.stride(), BLOCK_M=64, BLOCK_N=64)
    return transposed.mT


def _describe(
    x: torch.Tensor, rows: int, cols: int, transpose: bool = False
) -> tuple[TensorDescriptor, bool]:
    """A descriptor of x or its transpose for tiles of [rows, cols], and whether it is the latter.

    x is copied where no descriptor takes it as it lies. transpose: copy it also where a descriptor
    takes x alone, and not its transpose.
    """
    transposed = _transposed(x)
    if transpose and not transposed:
        x, transposed = _transposed_copy(x), True
    elif transposed is None:
        x, transposed = _aligned(x), False
    matrix, block = (x.mT, [cols, rows]) if transposed else (x, [rows, cols])
    # Tensor cores cut float32 to TF32, with 2.6 times the error of rounding: the TMA rounds.
    rounds = x.dtype == torch.float32
    desc = TensorDescriptor(
        matrix, [*matrix.shape], [*matrix.stride()], block, round_f32_to_tf32=rounds
    )
    return desc, transposed


def _launch_described(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, input_precision: str, plan: Plan
) -> torch.Tensor:
    """v4 or v5; v3 for exact float32 and empty operands, v4 for a c that no descriptor takes."""
    if not a.numel() or not b.numel() or _kind(a, input_precision) == "ieee":
        return _launch_by_pointers(a, b, c, input_precision, _tiles(c, input_precision))
    tiles, persistent = plan.tiles, plan.persistent and _transposed(c) is False
    with torch.cuda.device_of(c):
        a_desc, a_transposed = _describe(a, tiles.block_m, tiles.block_k)
        b_desc, b_transposed = _describe(b, tiles.block_k, tiles.block_n, plan.transpose_b)
        settings = {
            "A_TRANSPOSED": a_transposed,
            "B_TRANSPOSED": b_transposed,
            **tiles.blocks,
            "GROUP_M": tiles.group_m,
            **tiles.compiled_with,
        }
        if persistent:
            c_desc = TensorDescriptor(
                c, [*c.shape], [*c.stride()], [tiles.block_m, tiles.block_n // 2]
            )
            matmul_kernel_v5[(min(tiles.count(c), gpu_of(c).multiprocessors),)](
                a_desc, b_desc, c_desc, *c.shape, a.shape[1], INPUT_PRECISION=input_precision,
                **settings,
            )
        else:
            matmul_kernel_v4[(tiles.count(c),)](
                a_desc, b_desc, c, *c.shape, a.shape[1], INPUT_PRECISION=input_precision, **settings
            )
    return c


def matmul_v4(
    a: torch.Tensor, b: torch.Tensor, input_precision: str = "tf32", plan: Plan | None = None
) -> torch.Tensor:
    """v4 of the ladder: tensor descriptors of a and b, or of copies that descriptors take."""
    a, b, c = _prepare(a, b, input_precision)
    return _launch_described(
        a, b, c, input_precision, plan or LARGE[c.itemsize]._replace(persistent=False)
    )


def matmul_v5(
    a: torch.Tensor, b: torch.Tensor, input_precision: str = "tf32", plan: Plan | None = None
) -> torch.Tensor:
    """v5 of the ladder: persistent programs."""
    a, b, c = _prepare(a, b, input_precision)
    return _launch_described(
        a, b, c, input_precision, plan or LARGE[c.itemsize]._replace(persistent=True)
    )


def _by_vectors(x: torch.Tensor) -> bool:
    """Whether pointers read x by vectors: Triton notes only which sizes and strides 16 divides."""
    (rows, cols), (down, along) = x.shape, x.stride()
    length, step = (cols, down) if along == 1 else (rows, along)
    return 1 in (down, along) and length % 16 == step % 16 == x.data_ptr() % 16 == 0


def matmul(a: torch.Tensor, b: torch.Tensor, input_precision: str = "tf32") -> torch.Tensor:
    """The matrix product of a and b, as a new contiguous tensor, forward only.

    It is added up in float32 and rounded once.

    a: [M, K], any strides. b: [K, N], any strides. Where a GPU has a tensor memory accelerator and
        M * N * K is large, they are copied if their rows do not begin at multiples of 16 bytes;
        float32 b also if its columns are not contiguous.
    input_precision: of float32 operands. "tf32", Triton's default, multiplies them in tensor cores
        that have it, with 10 bits of mantissa: rounded where descriptors read them, cut where
        pointers do, with 2.6 times the error. "ieee" multiplies with all 23, without tensor cores.

    Raises TypeError for a non-tensor; ValueError for another number of dimensions than two,
    another dtype than DTYPES, dtypes, devices or shapes that do not match, another precision than
    PRECISIONS, a dimension of more than MOST_ELEMENTS, and CPU tensors where the kernel is compiled
    for a GPU.
    """
    a, b, c = _prepare(a, b, input_precision)
    use_pointers = (
        gpu_of(a).shared_kib < 227
        or (c.itemsize == 2 and c.numel() <= MOST_BY_POINTERS and _by_vectors(a) and _by_vectors(b))
        or (c.numel() * a.shape[1] < LEAST_TO_COPY and None in (_transposed(a), _transposed(b)))
    )
    if use_pointers:
        return _launch_by_pointers(a, b, c, input_precision, _tiles(c, input_precision))
    return _launch_described(
        a, b, c, input_precision,
        next(plan for most, plan in PLANS[c.itemsize] if c.numel() <= most),
    )


if __name__ == "__main__":
    from kernels.program import main

    main(
        __doc__, [matmul_v1, matmul_v2, matmul_v3, matmul_v4, matmul_v5, matmul], torch.matmul,
        lambda m, n, k: (torch.randn(m, k).half(), torch.randn(k, n).half()),
        small=(129, 257, 70), large=(4096, 4096, 4096), peer="torch",
    )
