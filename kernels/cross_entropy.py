"""Cross-entropy of logits and targets, row by row: loss[m] = lse[m] - x[m, target[m]], with
lse[m] = log(sum(exp(x[m]))); and its gradient.

    for each row of x, in parallel:
        row_max, row_sum = -inf, 0
        for each block x of BLOCK_N elements:
            new_max = max(row_max, max(x))
            row_sum = row_sum * exp(row_max - new_max) + sum(exp(x - new_max))
            row_max = new_max
        lse = row_max + log(row_sum)
        loss = row_max - x[target] + log(row_sum)

PyTorch's own keeps log(softmax(x)), as large as x, for the gradient. This one is fused: it writes
two numbers per row, and the gradient computes the softmax anew from x and lse.

The ladder, in bytes for x of M x N elements of s bytes; what else is read and written is at most 24
bytes per row. Each element must be read once: M * N * s.

    v1  cross_entropy_v1  two sweeps: maximum, sum      asks for 2 * M * N * s
    v2  cross_entropy_v2  maximum and sum in one sweep  M * N * s
    v3  cross_entropy_v3  as v2, with a maximum and a   M * N * s; no thread waits for another
                          sum for each vector           until the sweep ends
        cross_entropy     v2 or v3, the faster one, as an operator with its gradient

Backwards, with d_loss for each row, in one more sweep: 2 * M * N * s.

    d_x[j] = d_loss * (exp(x[j] - lse) - (1 where j is the target, else 0))

Sums are kept in float32, or in float64 for float64: the type of lse says which.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from kernels.checks import check_runs_on, check_tensors
from kernels.device import LN2, LOG2E, as_stored, finite

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TARGET_DTYPES = (torch.int32, torch.int64)
MOST_COLUMNS = 2**30
IGNORE_INDEX = -100

# In the kernels exp(t) is exp2(t * LOG2E), where t is x minus a maximum: x * LOG2E could overflow.


@triton.jit
def store_loss(
    x_ptr, target_ptr, loss_ptr, lse_ptr, row, row_max, row_sum, n_cols, stride_xm, ignore_index
):
    """Store the row's lse, and its loss: 0 where the target is ignore_index, and NaN where it is
    neither that nor a column."""
    log_sum = tl.log2(row_sum) * LN2
    target = tl.load(target_ptr + row).to(tl.int64)
    x = tl.load(
        x_ptr + row * stride_xm + target, mask=(target >= 0) & (target < n_cols),
        other=float("nan"),
    ).to(lse_ptr.dtype.element_ty)
    tl.store(lse_ptr + row, row_max + log_sum)
    # Not lse - x: where logits are large, log_sum is lost in the rounding of lse.
    loss = row_max - x + log_sum
    tl.store(loss_ptr + row, tl.where(target == ignore_index, 0.0, loss))


@triton.jit
def cross_entropy_kernel_v1(
    x_ptr, target_ptr, loss_ptr, lse_ptr, n_cols, stride_xm, ignore_index, BLOCK_N: tl.constexpr
):
    """Program m owns row m: one sweep for the maximum, one for the sum."""
    real = lse_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    row_max = tl.full([], -float("inf"), real)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
        ).to(real)
        row_max = tl.maximum(row_max, tl.max(x))
    row_sum = tl.zeros([], real)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
        ).to(real)
        row_sum += tl.sum(tl.exp2((x - finite(row_max)) * LOG2E))
    store_loss(
        x_ptr, target_ptr, loss_ptr, lse_ptr, row, row_max, row_sum, n_cols, stride_xm, ignore_index
    )


@triton.jit
def cross_entropy_kernel_v2(
    x_ptr, target_ptr, loss_ptr, lse_ptr, n_cols, stride_xm, ignore_index, BLOCK_N: tl.constexpr
):
    """Program m owns row m: one sweep for maximum and sum together.

    A new maximum makes the sum so far smaller: exp(x - new) = exp(x - old) * exp(old - new).
    """
    real = lse_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    row_max = tl.full([], -float("inf"), real)
    row_sum = tl.zeros([], real)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
        ).to(real)
        new_max = tl.maximum(row_max, tl.max(x))
        row_sum *= tl.exp2((row_max - finite(new_max)) * LOG2E)
        row_sum += tl.sum(tl.exp2((x - finite(new_max)) * LOG2E))
        row_max = new_max
    store_loss(
        x_ptr, target_ptr, loss_ptr, lse_ptr, row, row_max, row_sum, n_cols, stride_xm, ignore_index
    )


@triton.jit
def cross_entropy_kernel_v3(
    x_ptr, target_ptr, loss_ptr, lse_ptr, n_cols, stride_xm, ignore_index,
    VECTOR: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program m owns row m: as v2, with a maximum and a sum for each vector of VECTOR elements,
    which one thread holds. They become the row's after the sweep."""
    real = lse_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    vectors = tl.arange(0, BLOCK_N // VECTOR)  # [BLOCK_N / VECTOR]
    first = vectors[:, None] * VECTOR + tl.arange(0, VECTOR)[None, :]  # [BLOCK_N / VECTOR, VECTOR]
    maxima = tl.full([BLOCK_N // VECTOR], -float("inf"), real)
    sums = tl.zeros([BLOCK_N // VECTOR], real)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + first
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
        ).to(real)
        new_maxima = tl.maximum(maxima, tl.max(x, axis=1))
        sums *= tl.exp2((maxima - finite(new_maxima)) * LOG2E)
        sums += tl.sum(tl.exp2((x - finite(new_maxima)[:, None]) * LOG2E), axis=1)
        maxima = new_maxima
    row_max = tl.max(maxima)
    row_sum = tl.sum(sums * tl.exp2((maxima - finite(row_max)) * LOG2E))
    store_loss(
        x_ptr, target_ptr, loss_ptr, lse_ptr, row, row_max, row_sum, n_cols, stride_xm, ignore_index
    )


@triton.jit
def cross_entropy_backward_kernel(
    d_loss_ptr, x_ptr, target_ptr, lse_ptr, d_x_ptr, n_cols, stride_xm, ignore_index,
    BLOCK_N: tl.constexpr,
):
    """Program m owns row m: the softmax from x and lse, less 1 at the target, times d_loss."""
    real = lse_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    target = tl.load(target_ptr + row).to(tl.int64)
    lse = tl.load(lse_ptr + row)
    d_loss = tl.load(d_loss_ptr + row)
    d_loss = tl.where((target >= 0) & (target < n_cols), d_loss, float("nan"))
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols).to(real)
        share = tl.exp2((x - lse) * LOG2E)
        d_x = d_loss * tl.where(cols == target, share - 1.0, share)
        # Not d_loss = 0 there: the logits of a row that is ignored may be NaN.
        d_x = tl.where(target == ignore_index, 0.0, d_x)
        tl.store(d_x_ptr + row * n_cols + cols, d_x, mask=cols < n_cols)


def _check(kernel: object, x: torch.Tensor, target: torch.Tensor, ignore_index: int) -> None:
    check_tensors("cross_entropy", x=x, target=target)
    check_runs_on("cross_entropy", kernel, x)
    if x.ndim < 1 or target.shape != x.shape[:-1]:
        raise ValueError(
            f"cross_entropy: x has shape {tuple(x.shape)} and target {tuple(target.shape)}; the "
            "target must have the shape of x without its last dimension, one column for each row."
        )
    if target.device != x.device:
        raise ValueError(
            f"cross_entropy: x is on {x.device} and target on {target.device}; both must be on the "
            "same device."
        )
    if x.dtype not in DTYPES:
        raise ValueError(
            f"cross_entropy: x is {x.dtype}; this kernel takes float16, bfloat16, float32 and "
            "float64."
        )
    if target.dtype not in TARGET_DTYPES:
        raise ValueError(
            f"cross_entropy: target is {target.dtype}, and must be int32 or int64, the numbers of "
            "columns."
        )
    if x.shape[-1] > MOST_COLUMNS:
        raise ValueError(
            f"cross_entropy: {x.shape[-1]:,} columns are more than the {MOST_COLUMNS:,} that 32 "
            "bits are sure to count."
        )
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
        raise TypeError(
            f"cross_entropy: ignore_index is of type {type(ignore_index).__name__}, "
            "and must be an int."
        )


def _matrix(x: torch.Tensor) -> torch.Tensor:
    """x as a matrix whose rows are contiguous and lie any stride apart; copied where it must be."""
    matrix = as_stored(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


def _sum_dtype(x: torch.Tensor) -> torch.dtype:
    """The dtype of losses and of lse."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _forward(
    kernel: Any, x: torch.Tensor, target: torch.Tensor, ignore_index: int, **arguments: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss and the lse of each row."""
    _check(cross_entropy_kernel_v1, x, target, ignore_index)
    matrix, target = _matrix(x), target.contiguous()
    loss = torch.empty(x.shape[:-1], dtype=_sum_dtype(x), device=x.device)
    lse = torch.empty_like(loss)
    if loss.numel():
        with torch.cuda.device_of(x):
            kernel[(matrix.shape[0],)](
                matrix, target, loss, lse, n_cols=matrix.shape[1], stride_xm=matrix.stride(0),
                ignore_index=ignore_index, **arguments,
            )
    return loss, lse


def cross_entropy_v1(
    x: torch.Tensor, target: torch.Tensor, ignore_index: int = IGNORE_INDEX, block_n: int = 4096,
    num_warps: int = 8,
) -> torch.Tensor:
    """v1 of the ladder: two sweeps over a row."""
    settings = {"BLOCK_N": block_n, "num_warps": num_warps}
    return _forward(cross_entropy_kernel_v1, x, target, ignore_index, **settings)[0]


def cross_entropy_v2(
    x: torch.Tensor, target: torch.Tensor, ignore_index: int = IGNORE_INDEX, block_n: int = 4096,
    num_warps: int = 8,
) -> torch.Tensor:
    """v2 of the ladder: maximum and sum in one sweep."""
    settings = {"BLOCK_N": block_n, "num_warps": num_warps}
    return _forward(cross_entropy_kernel_v2, x, target, ignore_index, **settings)[0]


def cross_entropy_v3(
    x: torch.Tensor, target: torch.Tensor, ignore_index: int = IGNORE_INDEX, block_n: int = 4096,
    num_warps: int = 8,
) -> torch.Tensor:
    """v3 of the ladder: one sweep, with a maximum and a sum for each vector of 16 bytes."""
    _check(cross_entropy_kernel_v3, x, target, ignore_index)
    settings = {"VECTOR": 16 // x.itemsize, "BLOCK_N": block_n, "num_warps": num_warps}
    return _forward(cross_entropy_kernel_v3, x, target, ignore_index, **settings)[0]


def _plan(x: torch.Tensor) -> tuple[Any, dict[str, int]]:
    """The faster kernel for rows of x, with its settings, as an H200 timed the versions with Triton
    3.9.0: v3 from 8,192 columns of 16 bits on, if each row begins where a vector does."""
    n_cols, vector = x.shape[-1], 16 // x.itemsize
    if x.itemsize == 2 and n_cols >= 8192 and n_cols % vector == 0:
        return cross_entropy_kernel_v3, {"VECTOR": vector, "BLOCK_N": 4096, "num_warps": 8}
    block_n = min(4096, 1 << max(n_cols - 1, 0).bit_length())
    return cross_entropy_kernel_v2, {"BLOCK_N": block_n, "num_warps": max(1, block_n // 512)}


@torch.library.triton_op("kernels::cross_entropy", mutates_args=())
def cross_entropy_operator(
    x: torch.Tensor, target: torch.Tensor, ignore_index: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """cross_entropy's result, and the lse of each row, which the gradient needs."""
    _check(cross_entropy_kernel_v1, x, target, ignore_index)
    kernel, settings = _plan(x)
    return _forward(torch.library.wrap_triton(kernel), x, target, ignore_index, **settings)


def cross_entropy_backward_v1(
    d_loss: torch.Tensor, x: torch.Tensor, target: torch.Tensor, lse: torch.Tensor,
    ignore_index: int, block_n: int = 4096, num_warps: int = 8,
    wrap: Callable[[Any], Any] = lambda kernel: kernel,
) -> torch.Tensor:
    """v1 of the gradient's ladder: one sweep over a row.

    wrap: what makes of a kernel one to launch. The others: see cross_entropy_backward.
    """
    _check(cross_entropy_backward_kernel, x, target, ignore_index)
    check_tensors("cross_entropy", d_loss=d_loss, lse=lse)
    fits = (target.shape, _sum_dtype(x), x.device)
    for name, tensor in (("d_loss", d_loss), ("lse", lse)):
        if (tensor.shape, tensor.dtype, tensor.device) != fits:
            raise ValueError(
                f"cross_entropy: {name} has shape {tuple(tensor.shape)} and is {tensor.dtype} on "
                f"{tensor.device}; it must have shape {tuple(target.shape)} and be "
                f"{_sum_dtype(x)} on {x.device}."
            )
    matrix = _matrix(x)
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if d_x.numel():
        with torch.cuda.device_of(x):
            wrap(cross_entropy_backward_kernel)[(matrix.shape[0],)](
                as_stored(d_loss).contiguous(), matrix, target.contiguous(), lse.contiguous(), d_x,
                n_cols=matrix.shape[1], stride_xm=matrix.stride(0), ignore_index=ignore_index,
                BLOCK_N=block_n, num_warps=num_warps,
            )
    return d_x


@torch.library.triton_op("kernels::cross_entropy_backward", mutates_args=())
def cross_entropy_backward(
    d_loss: torch.Tensor, x: torch.Tensor, target: torch.Tensor, lse: torch.Tensor,
    ignore_index: int,
) -> torch.Tensor:
    """The gradient d_x, of x's shape and dtype.

    d_loss: the upstream gradient of each row's loss. lse: as cross_entropy_operator returned it.
    Both have the shape of target, in float32, or in float64 for float64.
    x, target, ignore_index: as cross_entropy was given them.

    Raises ValueError where shapes, dtypes or devices do not fit.
    """
    wrap = torch.library.wrap_triton
    return cross_entropy_backward_v1(d_loss, x, target, lse, ignore_index, wrap=wrap)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    x, target, ctx.ignore_index = inputs
    _, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(x, target, lse)


def _gradients(ctx: Any, d_loss: torch.Tensor, _: Any) -> tuple[torch.Tensor, None, None]:
    return cross_entropy_backward(d_loss, *ctx.saved_tensors, ctx.ignore_index), None, None


cross_entropy_operator.register_autograd(_gradients, setup_context=_save_for_backward)


def cross_entropy(
    x: torch.Tensor, target: torch.Tensor, ignore_index: int = IGNORE_INDEX
) -> torch.Tensor:
    """The cross-entropy of each row, -log(softmax(x)[target]), with a gradient for x.

    It is computed and returned in float32, or in float64 for float64, in target's shape: take its
    sum, or its mean over the targets that count.

    x: logits, one dimension or more, any strides; the classes are the last dimension, where
        PyTorch's own function takes the second one. Rows that are not contiguous are copied first.
    target: the column of each row, int32 or int64, of x's shape without the last dimension.
    ignore_index: a target that does not count. Its row's loss and gradient are 0.

    A target that is neither a column nor ignore_index gives NaN, for the loss and the gradient:
    looking at the targets first would have to wait for the GPU.

    Raises TypeError for a non-tensor, or an ignore_index that is no int; ValueError where shapes or
    devices do not fit, for other dtypes than DTYPES and TARGET_DTYPES, and for a CPU tensor where
    the kernel is compiled for a GPU.
    """
    if not torch.compiler.is_compiling():  # which could not ask what kind of kernel it is
        _check(cross_entropy_kernel_v1, x, target, ignore_index)
    return cross_entropy_operator(x, target, ignore_index)[0]


if __name__ == "__main__":
    from kernels.program import main

    main(
        __doc__, [cross_entropy_v1, cross_entropy_v2, cross_entropy_v3, cross_entropy],
        lambda x, target: torch.nn.functional.cross_entropy(x, target, reduction="none"),
        lambda rows, cols: (torch.randn(rows, cols), torch.randint(0, cols, (rows,))),
        small=(5, 9001), large=(2**12, 32_768),
    )
