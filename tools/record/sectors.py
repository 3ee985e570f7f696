"""Sectors as `cost` counts them against the GPU's own counters, which Nsight Compute reads.

It needs `ncu` and the right to use the counters.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import triton

from course import DEVICE
from course.gpus.recorded import Recorded, this_machine
from course.table import numbers
from course.tracing.api import cost
from course.type_names import AnyValue, Kernel
from kernels.transpose import transpose_kernel, transpose_kernel_v1
from kernels.vector_add import add_kernel
from tools.counted_kernels import add_row_kernel, copy_strided_kernel, gather_kernel, matmul_kernel

from .nsight import counters

LOADED = (
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
)
"""ldgsts: a copy to shared memory that passes the registers by, as in a pipelined loop."""
STORED = ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",)


@dataclass(frozen=True)
class CountedLaunch:
    """A kernel with its grid, its arguments and its constants."""

    kernel: Kernel
    grid: tuple[int, ...]
    args: tuple[AnyValue, ...]
    constants: dict[str, int]

    def __call__(self) -> None:
        self.kernel[self.grid](*self.args, **self.constants)


def _floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator(DEVICE).manual_seed(0)
    return torch.randn(*shape, device=DEVICE, generator=generator).to(dtype)


def _vector_add(n: int, shift: int = 0, dtype: torch.dtype = torch.float32) -> CountedLaunch:
    x, y = _floats(n, dtype=dtype), _floats(n + shift, dtype=dtype)[shift:]
    args = (x, y, torch.empty_like(x), n)
    return CountedLaunch(add_kernel, (triton.cdiv(n, 1024),), args, {"BLOCK_SIZE": 1024})


def _strided(stride: int) -> CountedLaunch:
    n = 2**18
    args = (_floats(n * stride), _floats(n), n, stride)
    return CountedLaunch(copy_strided_kernel, (n // 1024,), args, {"BLOCK_SIZE": 1024})


def _transpose(kernel: Kernel, grid: tuple[int, ...], **blocks: int) -> CountedLaunch:
    rows, cols = 512, 768
    args = (_floats(rows, cols), _floats(cols, rows), rows, cols, rows * cols, cols, 1)
    return CountedLaunch(kernel, grid, args, blocks)


def _add_row(rows: int, block_m: int, block_n: int) -> CountedLaunch:
    args = (_floats(rows, block_n), _floats(block_n), _floats(rows, block_n))
    return CountedLaunch(add_row_kernel, (64,), args, {"BLOCK_M": block_m, "BLOCK_N": block_n})


def _gather() -> CountedLaunch:
    n = 2**16
    index = torch.randperm(n, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    args = (_floats(n), index, _floats(n))
    return CountedLaunch(gather_kernel, (n // 512,), args, {"BLOCK_SIZE": 512})


def _matmul(dtype: torch.dtype) -> CountedLaunch:
    n = 512
    args = (_floats(n, n, dtype=dtype), _floats(n, n, dtype=dtype), _floats(n, n), n)
    return CountedLaunch(matmul_kernel, (n // 64, n // 64), args, {"BLOCK": 64})


CASES: dict[str, Callable[[], CountedLaunch]] = {
    "vector add": partial(_vector_add, 2**20),
    "vector add, a length that 16 does not divide": partial(_vector_add, 2**20 - 7),
    "vector add, y begins one element late": partial(_vector_add, 2**20, shift=1),
    "vector add in bfloat16": partial(_vector_add, 2**20, dtype=torch.bfloat16),
    "transpose, a row a program": partial(_transpose, transpose_kernel_v1, (512, 1), BLOCK_N=1024),
    "transpose, a tile a program": partial(
        _transpose, transpose_kernel, (8, 12, 1), BLOCK_M=64, BLOCK_N=64
    ),
    "copy of every second element": partial(_strided, 2),
    "copy of every 16th element": partial(_strided, 16),
    "a row added to all rows": partial(_add_row, 1024, block_m=16, block_n=64),
    "a row of 8 added to all rows": partial(_add_row, 4096, block_m=64, block_n=8),
    "a gather": _gather,
    "matmul in float16": partial(_matmul, torch.float16),
    "matmul in float32": partial(_matmul, torch.float32),
}


@dataclass(frozen=True)
class Compared:
    """The sectors of 32 bytes of one launch, as `cost` counts them and as the GPU's own counters
    had them."""

    case: str
    counted_loaded: int
    measured_loaded: int
    counted_stored: int
    measured_stored: int

    @property
    def error(self) -> float:
        """The larger of both relative differences."""
        loaded = abs(self.counted_loaded - self.measured_loaded) / max(1, self.measured_loaded)
        stored = abs(self.counted_stored - self.measured_stored) / max(1, self.measured_stored)
        return max(loaded, stored)


@dataclass(frozen=True, repr=False)
class Sectors(Recorded):
    """The sectors of several launches on one machine. Prints as a table."""

    compared: tuple[Compared, ...]

    def __str__(self) -> str:
        rows = [["", "loaded", "stored", "error"]]
        for row in self.compared:
            loaded = f"{row.counted_loaded:,} / {row.measured_loaded:,}"
            stored = f"{row.counted_stored:,} / {row.measured_stored:,}"
            rows.append([row.case, loaded, stored, f"{row.error:.1%}"])
        return f"{self.source}\n{numbers(rows)}"


def counted(case: str) -> tuple[int, int]:
    """The sectors that `cost` counts for a case: loaded, stored."""
    launch = CASES[case]()
    counts = cost(launch.kernel, launch.grid, *launch.args, target="H200", **launch.constants)
    assert counts.exact
    return counts.sectors_loaded, counts.sectors_stored


def measure() -> Sectors:
    """Count every case, and read the GPU's counters for it.

    Raises CourseError without a GPU or without `ncu`.
    """
    table = counters(__name__, [*LOADED, *STORED], len(CASES))
    compared = []
    for case, values in zip(CASES, table, strict=True):
        loaded, stored = counted(case)
        measured = [int(sum(values[each] for each in names)) for names in (LOADED, STORED)]
        compared.append(Compared(case, loaded, measured[0], stored, measured[1]))
    return Sectors(machine=this_machine(), compared=tuple(compared))


def launches() -> Iterator[CountedLaunch]:
    """Every case, to be profiled."""
    return (case() for case in CASES.values())
