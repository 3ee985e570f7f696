"""Nsight Compute's metrics of a slow kernel and of those that it was mended to.

It needs `ncu` and the right to use the counters. The kernels are those of the notebook "when it is
slow", letter for letter.
"""

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import torch
import triton
import triton.language as tl

from course.benching.api import require_gpu
from course.benching.profiles import METRICS, SECTORS, KernelMetrics
from course.errors import CourseError
from course.gpus.recorded import this_machine
from course.gpus.timing import times_ms

from .nsight import counters

ROWS, COLUMNS = 1024, 16384


@triton.jit
def columns_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK_ROWS: tl.constexpr):
    col = tl.program_id(axis=0)
    rows = tl.arange(0, BLOCK_ROWS)
    mask = rows < n_rows
    x = tl.load(x_ptr + rows * n_cols + col, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    share = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + rows * n_cols + col, share, mask=mask)


@triton.jit
def tiles_kernel(
    x_ptr, out_ptr, n_rows, n_cols, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr
):
    rows = tl.arange(0, BLOCK_ROWS)[:, None]
    cols = tl.program_id(axis=0) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    x = tl.load(x_ptr + rows * n_cols + cols, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0)[None, :])
    share = numerator / tl.sum(numerator, axis=0)[None, :]
    tl.store(out_ptr + rows * n_cols + cols, share, mask=mask)


def _columns(x: torch.Tensor, out: torch.Tensor) -> None:
    columns_kernel[(COLUMNS,)](x, out, ROWS, COLUMNS, BLOCK_ROWS=ROWS)


def _tiles(x: torch.Tensor, out: torch.Tensor, num_warps: int) -> None:
    sizes = {"BLOCK_ROWS": ROWS, "BLOCK_COLS": 32}
    tiles_kernel[(COLUMNS // 32,)](x, out, ROWS, COLUMNS, **sizes, num_warps=num_warps)


LAUNCHES: dict[str, Callable[[torch.Tensor, torch.Tensor], None]] = {
    "a column": _columns,
    "32, 4 warps": partial(_tiles, num_warps=4),
    "32, 8 warps": partial(_tiles, num_warps=8),
}
"""What one program does: a column, or 32 columns side by side with so many warps."""


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(ROWS, COLUMNS, device="cuda", generator=generator)
    return x, torch.empty_like(x)


def measure() -> KernelMetrics:
    """Profile and time every launch.

    Raises CourseError without a GPU or `ncu`, and where a launch gives a wrong result.
    """
    require_gpu()
    x, out = _inputs()
    right = torch.softmax(x.double(), dim=0)
    us = {}
    for name, launch in LAUNCHES.items():
        launch(x, out.fill_(torch.nan))
        if not torch.allclose(out.double(), right, rtol=1e-5, atol=1e-8):
            raise CourseError(f"The softmax by {name!r} is wrong, so nothing was recorded.")
        us[name] = median(times_ms(launch, (x, out))) * 1e3
    metrics = [*METRICS, *SECTORS]
    table = counters(__name__, metrics, len(LAUNCHES))
    return KernelMetrics(
        machine=this_machine(),
        launches={
            name: {metric: values[metric] for metric in metrics}
            for name, values in zip(LAUNCHES, table, strict=True)
        },
        us=us,
        bytes=2 * x.nbytes,
    )


def launches() -> Iterator[Callable[[], None]]:
    """Every launch, to be profiled."""
    x, out = _inputs()
    return (partial(launch, x, out) for launch in LAUNCHES.values())
