"""Nsight Compute's metrics of a slow kernel and of those that it was mended to.

It needs `ncu` and the right to use the counters. The kernels are those of
lesson 08, letter for letter.
"""

from collections.abc import Callable
from statistics import median

import torch
import triton
import triton.language as tl

from course.benching.api import require_gpu
from course.benching.kernel_metrics import METRICS, SECTORS, KernelMetrics
from course.errors import CourseError
from course.gpus.recorded import this_machine
from course.gpus.timing import times_ms

from .nsight import counters

ROWS, COLUMNS = 1024, 16384
MODULE = "course.benching.record.kernel_metrics"


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


def _tiles(num_warps: int) -> Callable[[torch.Tensor, torch.Tensor], None]:
    def launch(x: torch.Tensor, out: torch.Tensor) -> None:
        grid = (triton.cdiv(COLUMNS, 32),)
        sizes = {"BLOCK_ROWS": ROWS, "BLOCK_COLS": 32}
        tiles_kernel[grid](x, out, ROWS, COLUMNS, **sizes, num_warps=num_warps)

    return launch


LAUNCHES = {"a column": _columns, "32, 4 warps": _tiles(4), "32, 8 warps": _tiles(8)}
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
    table = counters(MODULE, metrics, len(LAUNCHES))
    return KernelMetrics(
        machine=this_machine(),
        launches={
            name: {metric: values[metric] for metric in metrics}
            for name, values in zip(LAUNCHES, table, strict=True)
        },
        us=us,
        bytes=2 * x.nbytes,
    )


def _launch_all() -> None:
    """Launch each once, compiled before, under the profiler's eyes."""
    x, out = _inputs()
    for launch in LAUNCHES.values():
        launch(x, out)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        launch(x, out)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":  # under the profiler
    _launch_all()
