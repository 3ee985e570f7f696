"""RMSNorm over the last axis: out[m, n] = x[m, n] * rstd[m] * weight[n], with
rstd[m] = 1 / sqrt(mean(x[m]^2) + eps); and its gradient.

    for each row of x, in parallel:
        rstd = 1 / sqrt(sum(x * x) / N + eps)
        out = x * rstd * weight

The ladder, in bytes for x of M x N elements of s bytes. Each element must be read once and written
once: 2 * M * N * s. The weight is read from the cache, and rstd is 4 bytes per row.

    v1  rms_norm_v1  a program per row, two sweeps      asks for 3 * M * N * s; any width
    v2  rms_norm_v2  a program per row, in registers    2 * M * N * s; as wide as the registers
    v3  rms_norm_v3  several rows per program, in       2 * M * N * s; narrow rows fill a program
                     registers
    v4  rms_norm_v4  as v1, its second sweep from       asks for 3 * M * N * s; memory moves
                     the cache                          2 * M * N * s while the rows being worked
                                                        on fit the caches
    v5  rms_norm_v5  as v2, with hints for the cache,   2 * M * N * s; wide loads wherever rows
                     and the weight after the sum       begin at multiples of 16 bytes
        rms_norm     picks v3, v4 or v5 by the width; an operator, with its gradient

Backwards, let d_out be the upstream gradient, and x_hat = x * rstd what the weight multiplies.
Every element of a row stands in the row's rstd, so each element's gradient needs a sum over its
row. The weight's gradient is a sum over all rows, which belong to many programs:

    for each program p of P, in parallel:
        partial[p] = 0
        for row in p, p + P, p + 2 P, …:
            g = d_out * weight
            d_x = rstd * (g - x_hat * sum(g * x_hat) / N)
            partial[p] += d_out * x_hat
    d_weight = sum of partial[p] over p

Atomic additions would take them in the order in which programs end, and float additions in another
order give other bits. Here each program has a place of its own for its partial sums, and a second
kernel adds them up, always in the same order: the same input gives the same bits. P follows from
the shape alone, so that it is the same on every GPU.

    v1  rms_norm_backward_v1  two kernels: d_x in two     asks for 7 * M * N * s; any width
                              sweeps, partial sums by
                              columns
    v2  rms_norm_backward_v2  one kernel for both, a      3 * M * N * s, and 8 * P * N for partial
                              row in registers            sums; as wide as the registers
        rms_norm_backward     picks by the width

Sums are kept in float32, or in float64 for float64: the type of rstd says which. It is 1 / sqrt,
and not rsqrt, which GPUs only approximate for float64.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from kernels.checks import check_runs_on, check_same, check_tensors
from kernels.device import as_stored

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MOST_COLUMNS = 2**30
EPS = 1e-6


@triton.jit
def rms_norm_kernel_v1(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, stride_xm, eps, BLOCK_N: tl.constexpr
):
    """Program m owns row m: one sweep for the sum of squares, one to write."""
    real = rstd_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    total = tl.zeros([], real)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=0.0).to(real)
        total += tl.sum(x * x)
    rstd = 1.0 / tl.sqrt(total / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride_xm + cols, mask=mask).to(real)
        weight = tl.load(weight_ptr + cols, mask=mask).to(real)
        tl.store(out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask)


@triton.jit
def rms_norm_kernel_v2(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, stride_xm, eps, BLOCK_N: tl.constexpr
):
    """Program m owns row m, and keeps it in registers: BLOCK_N >= n_cols."""
    real = rstd_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=0.0).to(real)
    weight = tl.load(weight_ptr + cols, mask=mask).to(real)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask)


# From here on loads and stores carry hints for the cache: what is read shall leave it last, what is
# written first. ALIGN is a number of elements that n_cols and stride_xm are multiples of: dividing
# by it and multiplying tells the compiler so.


@triton.jit
def rms_norm_kernel_v3(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_rows, n_cols, stride_xm, eps,
    ALIGN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program i owns BLOCK_M rows from i * BLOCK_M on, in registers: BLOCK_N >= n_cols."""
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    real = rstd_ptr.dtype.element_ty
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
    x = tl.load(
        x_ptr + rows[:, None] * stride_xm + cols[None, :], mask=mask, other=0.0,
        eviction_policy="evict_last",
    ).to(real)
    weight = tl.load(
        weight_ptr + cols, mask=cols < n_cols, eviction_policy="evict_last"
    ).to(real)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=1) / n_cols + eps)  # [BLOCK_M]
    tl.store(rstd_ptr + rows, rstd, mask=rows < n_rows)
    out = x * rstd[:, None] * weight[None, :]
    tl.store(
        out_ptr + rows[:, None] * n_cols + cols[None, :], out, mask=mask,
        eviction_policy="evict_first",
    )


@triton.jit
def rms_norm_kernel_v4(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, stride_xm, eps,
    ALIGN: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program m owns row m: as v1, but each lane keeps a sum of its own until the sweep ends.

    So no thread waits for another within a sweep. The second sweep goes backwards, since what was
    read last is still in the cache.
    """
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    real = rstd_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    sums = tl.zeros([BLOCK_N], real)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=0.0,
            eviction_policy="evict_last",
        ).to(real)
        sums += x * x
    rstd = 1.0 / tl.sqrt(tl.sum(sums) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    last = (n_cols - 1) // BLOCK_N * BLOCK_N
    for back in range(0, n_cols, BLOCK_N):
        cols = last - back + tl.arange(0, BLOCK_N)
        mask = cols < n_cols
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=mask, eviction_policy="evict_first"
        ).to(real)
        weight = tl.load(weight_ptr + cols, mask=mask, eviction_policy="evict_last").to(real)
        tl.store(
            out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask,
            eviction_policy="evict_first",
        )


@triton.jit
def rms_norm_kernel_v5(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, stride_xm, eps,
    ALIGN: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program m owns row m, and keeps it in registers: BLOCK_N >= n_cols.

    The weight is loaded once rstd is known: loaded with x, it would take as many registers as x
    while the program waits for both, and rows of 32,768 float32 would spill.
    """
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    real = rstd_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = cols < n_cols
    x = tl.load(
        x_ptr + row * stride_xm + cols, mask=mask, other=0.0, eviction_policy="evict_last"
    ).to(real)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    weight = tl.load(weight_ptr + cols, mask=mask, eviction_policy="evict_last").to(real)
    tl.store(
        out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask,
        eviction_policy="evict_first",
    )


# From here on the gradient. Rows of d_x are contiguous; those of x and d_out have a stride each.


@triton.jit
def rms_norm_backward_x_kernel(
    d_out_ptr, x_ptr, weight_ptr, rstd_ptr, d_x_ptr, n_cols, stride_dm, stride_xm,
    BLOCK_N: tl.constexpr,
):
    """Program m owns row m: one sweep for the sum of g * x_hat, one to write d_x."""
    real = rstd_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    rstd = tl.load(rstd_ptr + row)
    sums = tl.zeros([BLOCK_N], real)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=0.0).to(real)
        d_out = tl.load(d_out_ptr + row * stride_dm + cols, mask=mask, other=0.0).to(real)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(real)
        sums += d_out * weight * (x * rstd)
    mean = tl.sum(sums) / n_cols
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride_xm + cols, mask=mask).to(real)
        d_out = tl.load(d_out_ptr + row * stride_dm + cols, mask=mask).to(real)
        weight = tl.load(weight_ptr + cols, mask=mask).to(real)
        d_x = rstd * (d_out * weight - x * rstd * mean)
        tl.store(d_x_ptr + row * n_cols + cols, d_x, mask=mask)


@triton.jit
def rms_norm_backward_weight_kernel(
    d_out_ptr, x_ptr, rstd_ptr, partials_ptr, n_rows, n_cols, stride_dm, stride_xm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program (j, p) of P owns columns [j * BLOCK_N, (j + 1) * BLOCK_N), and of the blocks of
    BLOCK_M rows every P-th one from p on: it writes the sum of d_out * x_hat to partials[p]."""
    real = rstd_ptr.dtype.element_ty
    cols = tl.program_id(axis=0) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    part = tl.program_id(axis=1).to(tl.int64)
    sums = tl.zeros([BLOCK_M, BLOCK_N], real)
    for start in range(
        tl.program_id(axis=1) * BLOCK_M, n_rows, tl.num_programs(axis=1) * BLOCK_M
    ):
        rows = start + tl.arange(0, BLOCK_M).to(tl.int64)  # [BLOCK_M]
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
        rstd = tl.load(rstd_ptr + rows, mask=rows < n_rows, other=0.0)
        x = tl.load(
            x_ptr + rows[:, None] * stride_xm + cols[None, :], mask=mask, other=0.0
        ).to(real)
        d_out = tl.load(
            d_out_ptr + rows[:, None] * stride_dm + cols[None, :], mask=mask, other=0.0
        ).to(real)
        sums += d_out * (x * rstd[:, None])
    tl.store(partials_ptr + part * n_cols + cols, tl.sum(sums, axis=0), mask=cols < n_cols)


@triton.jit
def rms_norm_backward_kernel_v2(
    d_out_ptr, x_ptr, weight_ptr, rstd_ptr, d_x_ptr, partials_ptr, n_rows, n_cols,
    stride_dm, stride_xm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr,
):
    """Program p of P owns, of the blocks of BLOCK_M rows, every P-th one from p on: it writes their
    d_x, and the sum of d_out * x_hat to partials[p]. BLOCK_N >= n_cols.

    While one block is computed, the loads of the next DEPTH - 1 are on their way.
    """
    real = rstd_ptr.dtype.element_ty
    part = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    weight = tl.load(weight_ptr + cols, mask=cols < n_cols, other=0.0).to(real)
    sums = tl.zeros([BLOCK_M, BLOCK_N], real)
    for start in tl.range(
        tl.program_id(axis=0) * BLOCK_M, n_rows, tl.num_programs(axis=0) * BLOCK_M,
        num_stages=DEPTH,
    ):
        rows = start + tl.arange(0, BLOCK_M).to(tl.int64)  # [BLOCK_M]
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
        rstd = tl.load(rstd_ptr + rows, mask=rows < n_rows, other=0.0)[:, None]
        x = tl.load(
            x_ptr + rows[:, None] * stride_xm + cols[None, :], mask=mask, other=0.0
        ).to(real)
        d_out = tl.load(
            d_out_ptr + rows[:, None] * stride_dm + cols[None, :], mask=mask, other=0.0
        ).to(real)
        x_hat = x * rstd
        g = d_out * weight[None, :]
        mean = tl.sum(g * x_hat, axis=1)[:, None] / n_cols
        d_x = rstd * (g - x_hat * mean)
        tl.store(d_x_ptr + rows[:, None] * n_cols + cols[None, :], d_x, mask=mask)
        sums += d_out * x_hat
    tl.store(partials_ptr + part * n_cols + cols, tl.sum(sums, axis=0), mask=cols < n_cols)


@triton.jit
def sum_partials_kernel(
    partials_ptr, out_ptr, n_parts, n_cols, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Program j owns columns [j * BLOCK_N, (j + 1) * BLOCK_N): it adds up their n_parts partial
    sums, BLOCK_P at a time, from first to last."""
    cols = tl.program_id(axis=0) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    sums = tl.zeros([BLOCK_P, BLOCK_N], partials_ptr.dtype.element_ty)
    for start in range(0, n_parts, BLOCK_P):
        parts = start + tl.arange(0, BLOCK_P).to(tl.int64)  # [BLOCK_P]
        mask = (parts[:, None] < n_parts) & (cols[None, :] < n_cols)  # [BLOCK_P, BLOCK_N]
        sums += tl.load(
            partials_ptr + parts[:, None] * n_cols + cols[None, :], mask=mask, other=0.0
        )
    tl.store(out_ptr + cols, tl.sum(sums, axis=0), mask=cols < n_cols)


def _check(kernel: object, x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    check_tensors("rms_norm", x=x, weight=weight)
    check_runs_on("rms_norm", kernel, x)
    if x.ndim < 1 or weight.shape != x.shape[-1:]:
        raise ValueError(
            f"rms_norm: x has shape {tuple(x.shape)} and weight {tuple(weight.shape)}; the weight "
            "must have one dimension, as long as the last one of x."
        )
    if weight.device != x.device or weight.dtype != x.dtype:
        raise ValueError(
            f"rms_norm: x is {x.dtype} on {x.device} and weight {weight.dtype} on {weight.device}; "
            "both must be the same."
        )
    if x.dtype not in DTYPES:
        raise ValueError(
            f"rms_norm: x is {x.dtype}; this kernel takes float16, bfloat16, float32 and float64."
        )
    if x.shape[-1] > MOST_COLUMNS:
        raise ValueError(
            f"rms_norm: {x.shape[-1]:,} columns are more than the {MOST_COLUMNS:,} that 32 bits "
            "are sure to count."
        )
    if isinstance(eps, bool) or not isinstance(eps, int | float):
        raise TypeError(f"rms_norm: eps is a {type(eps).__name__}, and must be a number.")
    if not 0 <= eps < math.inf:
        raise ValueError(f"rms_norm: eps is {eps}, and must be finite and 0 or more.")


def _matrix(x: torch.Tensor) -> torch.Tensor:
    """x as a matrix whose rows are contiguous and lie any stride apart; copied where it must be."""
    x = as_stored(x)
    matrix = x.reshape(-1, x.shape[-1]) if x.numel() else x.new_empty((0, x.shape[-1]))
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


def _sum_dtype(x: torch.Tensor) -> torch.dtype:
    """The dtype of rstd and of partial sums."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _block_n(x: torch.Tensor) -> int:
    """The power of two that holds a row of the matrix x."""
    return 1 << (int(x.shape[1]) - 1).bit_length()


def _align(x: torch.Tensor) -> int:
    """ALIGN for the matrix x: as many elements as 16 bytes hold, or fewer."""
    return math.gcd(int(x.shape[1]), int(x.stride(0)), 16 // x.itemsize)


def _warps(num_warps: int, block_n: int) -> int:
    """At least one warp per 2,048 columns, which keeps 64 columns in each thread's registers."""
    return min(32, max(num_warps, block_n // 2048))


class Launch(NamedTuple):
    """A kernel, how many programs of it, and its arguments besides the tensors and their sizes."""

    kernel: Any
    programs: int
    arguments: dict[str, int]


# Each takes the matrix x and the settings of its version. int: what torch.compile leaves open of a
# shape is fixed here, since constants of the kernel follow from it.


def _v1(x: torch.Tensor, block_n: int = 4096, num_warps: int = 8) -> Launch:
    return Launch(rms_norm_kernel_v1, x.shape[0], {"BLOCK_N": block_n, "num_warps": num_warps})


def _v2(x: torch.Tensor, num_warps: int = 4) -> Launch:
    block_n = _block_n(x)
    arguments = {"BLOCK_N": block_n, "num_warps": _warps(num_warps, block_n)}
    return Launch(rms_norm_kernel_v2, x.shape[0], arguments)


def _v3(x: torch.Tensor, tile: int = 2048, num_warps: int = 2) -> Launch:
    block_n = _block_n(x)
    block_m = max(1, tile // block_n)
    arguments = {
        "n_rows": x.shape[0], "ALIGN": _align(x), "BLOCK_M": block_m, "BLOCK_N": block_n,
        "num_warps": _warps(num_warps, block_n),
    }
    return Launch(rms_norm_kernel_v3, triton.cdiv(x.shape[0], block_m), arguments)


def _v4(x: torch.Tensor, block_n: int = 8192, num_warps: int = 16) -> Launch:
    arguments = {"ALIGN": _align(x), "BLOCK_N": block_n, "num_warps": num_warps}
    return Launch(rms_norm_kernel_v4, x.shape[0], arguments)


def _v5(x: torch.Tensor, num_warps: int = 4) -> Launch:
    block_n = _block_n(x)
    arguments = {
        "ALIGN": _align(x), "BLOCK_N": block_n, "num_warps": _warps(num_warps, block_n)
    }
    return Launch(rms_norm_kernel_v5, x.shape[0], arguments)


def _as_it_is(kernel: Any) -> Any:
    return kernel


def _forward(
    version: Callable[..., Launch], x: torch.Tensor, weight: torch.Tensor, eps: float,
    wrap: Callable[[Any], Any] = _as_it_is, **settings: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and rstd for the gradient. wrap: what makes of a kernel one to launch."""
    _check(rms_norm_kernel_v1, x, weight, eps)
    matrix, weight = _matrix(x), as_stored(weight).contiguous()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rstd = torch.empty(x.shape[:-1], dtype=_sum_dtype(x), device=x.device)
    if out.numel():
        launch = version(matrix, **settings)
        with torch.cuda.device_of(x):
            wrap(launch.kernel)[(launch.programs,)](
                matrix, weight, out, rstd, n_cols=matrix.shape[1], stride_xm=matrix.stride(0),
                eps=float(eps), **launch.arguments,
            )
    return out, rstd


def rms_norm_v1(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, block_n: int = 4096,
    num_warps: int = 8,
) -> torch.Tensor:
    """v1 of the ladder: two sweeps over a row."""
    return _forward(_v1, x, weight, eps, block_n=block_n, num_warps=num_warps)[0]


def rms_norm_v2(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, num_warps: int = 4
) -> torch.Tensor:
    """v2 of the ladder: a row in registers."""
    return _forward(_v2, x, weight, eps, num_warps=num_warps)[0]


def rms_norm_v3(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, tile: int = 2048, num_warps: int = 2
) -> torch.Tensor:
    """v3 of the ladder: each program takes as many rows as `tile` elements hold.

    Rows count as wide as the next power of two.
    """
    return _forward(_v3, x, weight, eps, tile=tile, num_warps=num_warps)[0]


def rms_norm_v4(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, block_n: int = 8192,
    num_warps: int = 16,
) -> torch.Tensor:
    """v4 of the ladder: two sweeps, the second from the cache."""
    return _forward(_v4, x, weight, eps, block_n=block_n, num_warps=num_warps)[0]


def rms_norm_v5(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, num_warps: int = 4
) -> torch.Tensor:
    """v5 of the ladder: a row in registers, with hints for the cache."""
    return _forward(_v5, x, weight, eps, num_warps=num_warps)[0]


Gradients = tuple[torch.Tensor, torch.Tensor]
"""d_x and d_weight."""


def _check_backward(
    d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> None:
    _check(rms_norm_backward_x_kernel, x, weight, eps=0.0)
    check_tensors("rms_norm", d_out=d_out, rstd=rstd)
    check_same("rms_norm", x=x, d_out=d_out)
    if (rstd.shape, rstd.dtype, rstd.device) != (x.shape[:-1], _sum_dtype(x), x.device):
        raise ValueError(
            f"rms_norm: rstd has shape {tuple(rstd.shape)} and is {rstd.dtype} on {rstd.device}; "
            f"it must have shape {tuple(x.shape[:-1])} and be {_sum_dtype(x)} on {x.device}."
        )


def _sum_partials(
    partials: torch.Tensor, weight: torch.Tensor, wrap: Callable[[Any], Any]
) -> torch.Tensor:
    """The sum of the rows of partials, in the dtype of the weight."""
    n_parts, n_cols = partials.shape
    d_weight = torch.empty_like(weight)
    wrap(sum_partials_kernel)[(triton.cdiv(n_cols, 16),)](
        partials, d_weight, n_parts, n_cols, BLOCK_P=128, BLOCK_N=16, num_warps=4
    )
    return d_weight


def rms_norm_backward_v1(
    d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor,
    block_n: int = 4096, parts: int = 16, num_warps: int = 8,
    wrap: Callable[[Any], Any] = _as_it_is,
) -> Gradients:
    """v1 of the gradient's ladder: d_x in two sweeps, then the weight's partial sums.

    parts: partial sums per column, P at most. The others: see rms_norm_backward.
    """
    _check_backward(d_out, x, weight, rstd)
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    d_out, x, weight = _matrix(d_out), _matrix(x), as_stored(weight).contiguous()
    if not x.numel():
        return d_x, torch.zeros_like(weight)
    n_rows, n_cols = x.shape
    block_m, block_c = 32, 128
    parts = min(parts, triton.cdiv(n_rows, block_m))
    partials = torch.empty((parts, n_cols), dtype=rstd.dtype, device=x.device)
    with torch.cuda.device_of(x):
        wrap(rms_norm_backward_x_kernel)[(n_rows,)](
            d_out, x, weight, rstd, d_x, n_cols, d_out.stride(0), x.stride(0), BLOCK_N=block_n,
            num_warps=num_warps,
        )
        wrap(rms_norm_backward_weight_kernel)[(triton.cdiv(n_cols, block_c), parts)](
            d_out, x, rstd, partials, n_rows, n_cols, d_out.stride(0), x.stride(0),
            BLOCK_M=block_m, BLOCK_N=block_c, num_warps=8,
        )
        return d_x, _sum_partials(partials, weight, wrap)


def rms_norm_backward_v2(
    d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor,
    tile: int = 2048, parts: int = 1024, num_warps: int = 4, depth: int = 1,
    wrap: Callable[[Any], Any] = _as_it_is,
) -> Gradients:
    """v2 of the gradient's ladder: one kernel for d_x and the weight's partial sums.

    tile: elements per block of rows. parts: programs, P at most. depth: blocks whose loads are
    under way at once. The others: see rms_norm_backward.
    """
    _check_backward(d_out, x, weight, rstd)
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    d_out, x, weight = _matrix(d_out), _matrix(x), as_stored(weight).contiguous()
    if not x.numel():
        return d_x, torch.zeros_like(weight)
    n_rows, n_cols = x.shape
    block_n = _block_n(x)
    block_m = max(1, tile // block_n)
    parts = min(parts, triton.cdiv(n_rows, block_m))
    partials = torch.empty((parts, n_cols), dtype=rstd.dtype, device=x.device)
    with torch.cuda.device_of(x):
        wrap(rms_norm_backward_kernel_v2)[(parts,)](
            d_out, x, weight, rstd, d_x, partials, n_rows, n_cols, d_out.stride(0), x.stride(0),
            BLOCK_M=block_m, BLOCK_N=block_n, DEPTH=depth,
            # At least one warp per 1,024 columns: four tiles of that width are in registers.
            num_warps=min(32, max(num_warps, block_n // 1024)),
        )
        return d_x, _sum_partials(partials, weight, wrap)


# Element size in bytes -> (the widest rows, version, settings), the fastest of those tried on an
# H200 with Triton 3.9.0 on 2026-11-22, for rows of 2 (bfloat16) and 4 bytes.
Plans = dict[int, tuple[tuple[float, Callable[..., Any], dict[str, int]], ...]]
PLANS: Plans = {
    2: (
        (1024, _v3, {"tile": 2048, "num_warps": 4}),
        (2048, _v5, {"num_warps": 4}),
        (4096, _v5, {"num_warps": 8}),
        (6144, _v5, {"num_warps": 4}),
        (8192, _v5, {"num_warps": 16}),
        (12288, _v5, {"num_warps": 8}),
        (32768, _v5, {"num_warps": 16}),
        (math.inf, _v4, {"block_n": 16384, "num_warps": 32}),
    ),
    4: (
        (512, _v3, {"tile": 1024, "num_warps": 4}),
        (1024, _v5, {"num_warps": 2}),
        (2048, _v5, {"num_warps": 8}),
        (5120, _v5, {"num_warps": 16}),
        (6144, _v5, {"num_warps": 4}),
        (8192, _v5, {"num_warps": 16}),
        (12288, _v4, {"block_n": 4096, "num_warps": 8}),
        (16384, _v4, {"block_n": 8192, "num_warps": 16}),
        (32768, _v5, {"num_warps": 32}),
        (math.inf, _v4, {"block_n": 16384, "num_warps": 32}),
    ),
    8: (
        (512, _v3, {"tile": 512, "num_warps": 2}), (8192, _v5, {"num_warps": 16}),
        (math.inf, _v4, {"block_n": 8192, "num_warps": 32}),
    ),
}
BACKWARD_PLANS: Plans = {
    2: (
        (512, rms_norm_backward_v2, {"tile": 2048, "parts": 528, "num_warps": 8, "depth": 1}),
        (1024, rms_norm_backward_v2, {"tile": 4096, "parts": 1024, "num_warps": 4, "depth": 1}),
        (2048, rms_norm_backward_v2, {"tile": 2048, "parts": 528, "num_warps": 4, "depth": 1}),
        (4096, rms_norm_backward_v2, {"tile": 2048, "parts": 1024, "num_warps": 4, "depth": 1}),
        (16384, rms_norm_backward_v2, {"tile": 2048, "parts": 264, "num_warps": 32, "depth": 1}),
        (math.inf, rms_norm_backward_v1, {"block_n": 8192, "parts": 64, "num_warps": 16}),
    ),
    4: (
        (512, rms_norm_backward_v2, {"tile": 4096, "parts": 264, "num_warps": 4, "depth": 2}),
        (1024, rms_norm_backward_v2, {"tile": 4096, "parts": 264, "num_warps": 8, "depth": 2}),
        (2048, rms_norm_backward_v2, {"tile": 2048, "parts": 528, "num_warps": 4, "depth": 2}),
        (4096, rms_norm_backward_v2, {"tile": 2048, "parts": 264, "num_warps": 16, "depth": 2}),
        (16384, rms_norm_backward_v2, {"tile": 2048, "parts": 264, "num_warps": 32, "depth": 1}),
        (math.inf, rms_norm_backward_v1, {"block_n": 8192, "parts": 16, "num_warps": 16}),
    ),
    8: (
        (4096, rms_norm_backward_v2, {"tile": 1024, "parts": 1024, "num_warps": 8}),
        (math.inf, rms_norm_backward_v1, {"block_n": 2048, "parts": 16, "num_warps": 8}),
    ),
}


def _planned(plans: Plans, x: torch.Tensor) -> tuple[Callable[..., Any], dict[str, int]]:
    """The version and its settings for rows of x."""
    return next(plan[1:] for plan in plans[x.itemsize] if x.shape[-1] <= plan[0])


@torch.library.triton_op("kernels::rms_norm", mutates_args=())
def rms_norm_operator(
    x: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """rms_norm's result, and rstd: one number per row, which the gradient needs."""
    _check(rms_norm_kernel_v1, x, weight, eps)
    version, settings = _planned(PLANS, x)
    return _forward(version, x, weight, eps, wrap=torch.library.wrap_triton, **settings)


@torch.library.triton_op("kernels::rms_norm_backward", mutates_args=())
def rms_norm_backward(
    d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients d_x and d_weight, with the same bits for the same input.

    d_out: the upstream gradient, of x's shape, dtype and device, any strides.
    x, weight: as rms_norm was given them. rstd: as rms_norm_operator returned it: x.shape[:-1], in
    float32, or float64 for float64.

    Raises TypeError for a non-tensor; ValueError where shapes, dtypes or devices do not fit.
    """
    _check_backward(d_out, x, weight, rstd)
    version, settings = _planned(BACKWARD_PLANS, x)
    return version(d_out, x, weight, rstd, wrap=torch.library.wrap_triton, **settings)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    x, weight, _ = inputs
    _, rstd = output
    ctx.mark_non_differentiable(rstd)
    ctx.save_for_backward(x, weight, rstd)


def _gradients(ctx: Any, d_out: torch.Tensor, _: Any) -> tuple[torch.Tensor, torch.Tensor, None]:
    return *rms_norm_backward(d_out, *ctx.saved_tensors), None


rms_norm_operator.register_autograd(_gradients, setup_context=_save_for_backward)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    """x * weight / sqrt(mean(x * x) + eps), the mean over the last dimension; with a gradient for x
    and weight.

    It is computed in float32, or in float64 for float64, and rounded once. The same input gives the
    same bits, gradients included, and a row's result does not depend on the other rows.

    x: one dimension or more, any strides. Where its rows are not contiguous, or no strides join its
        leading dimensions, it is copied first.
    weight: one dimension, as long as the last one of x, of the same dtype and device.
    eps: 0 or more; the kernel reads it as a float32.

    Raises TypeError for a non-tensor, or an eps that is no number; ValueError where shapes, dtypes
    or devices do not fit, for another dtype than DTYPES, for an eps below 0 or not finite, and for
    a CPU tensor where the kernel is compiled for a GPU.
    """
    if not torch.compiler.is_compiling():  # which could not ask what kind of kernel it is
        _check(rms_norm_kernel_v1, x, weight, eps)
    return rms_norm_operator(x, weight, float(eps))[0]
