"""Sectors as `cost` counts them against the GPU's own counters, which Nsight Compute reads.

python -m course.benching.ncu_counters folder      writes folder/sectors.json; needs `ncu` and the right to use the counters
"""

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from course import DEVICE
from course.errors import CourseError
from course.files import write_whole
from course.tracing.cost import cost
from kernels.transpose import transpose_kernel, transpose_kernel_v1
from kernels.vector_add import add_kernel

from .api import require_gpu, this_machine
from .result import FOLDER, Machine, from_content, to_content

METRICS = {
    "loaded": (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
    ),
    "stored": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
}
"""ldgsts: a copy to shared memory that passes the registers by, as in a pipelined loop."""
FILE = FOLDER / "observed" / "sectors.json"

Case = Callable[[], tuple[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any]]]
"""A kernel, its grid, its arguments and its constants."""


@triton.jit
def copy_strided_kernel(x_ptr, out_ptr, n_elements, stride, BLOCK_SIZE: tl.constexpr):
    """out[i] = x[i * stride]."""
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets * stride, mask=mask), mask=mask)


@triton.jit
def add_row_kernel(x_ptr, row_ptr, out_ptr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """out = x + row, for every row of x [BLOCK_M, BLOCK_N]: one load is the same for all rows."""
    cols = tl.arange(0, BLOCK_N)[None, :]
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    row = tl.load(row_ptr + cols + 0 * rows)
    tl.store(out_ptr + rows * BLOCK_N + cols, tl.load(x_ptr + rows * BLOCK_N + cols) + row)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    """out[i] = x[index[i]]."""
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, tl.load(x_ptr + tl.load(index_ptr + offsets)))


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    """c = a @ b, of [n, n]: program (i, j) owns a tile of [BLOCK, BLOCK]."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * n + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * n + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc)


def _floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(0)).to(
        dtype
    )


def _vector_add(n: int, shift: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    x, y = _floats(n, dtype=dtype), _floats(n + shift, dtype=dtype)[shift:]
    return add_kernel, (triton.cdiv(n, 1024),), (x, y, torch.empty_like(x), n), {"BLOCK_SIZE": 1024}


def _strided(stride: int) -> Any:
    n = 2**18
    return (
        copy_strided_kernel,
        (n // 1024,),
        (_floats(n * stride), _floats(n), n, stride),
        {"BLOCK_SIZE": 1024},
    )


def _transpose(kernel: Any, grid: tuple[int, ...], **blocks: int) -> Any:
    rows, cols = 512, 768
    return (
        kernel,
        grid,
        (_floats(rows, cols), _floats(cols, rows), rows, cols, rows * cols, cols, 1),
        blocks,
    )


def _gather() -> Any:
    n = 2**16
    index = torch.randperm(n, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    return gather_kernel, (n // 512,), (_floats(n), index, _floats(n)), {"BLOCK_SIZE": 512}


def _matmul(dtype: torch.dtype) -> Any:
    n = 512
    return (
        matmul_kernel,
        (n // 64, n // 64),
        (_floats(n, n, dtype=dtype), _floats(n, n, dtype=dtype), _floats(n, n), n),
        {"BLOCK": 64},
    )


CASES: dict[str, Case] = {
    "vector add": lambda: _vector_add(2**20),
    "vector add, a length that 16 does not divide": lambda: _vector_add(2**20 - 7),
    "vector add, y begins one element late": lambda: _vector_add(2**20, shift=1),
    "vector add in bfloat16": lambda: _vector_add(2**20, dtype=torch.bfloat16),
    "transpose, a row a program": lambda: _transpose(transpose_kernel_v1, (512, 1), BLOCK_N=1024),
    "transpose, a tile a program": lambda: _transpose(transpose_kernel, (8, 12, 1), BLOCK_M=64, BLOCK_N=64),
    "copy of every second element": lambda: _strided(2),
    "copy of every 16th element": lambda: _strided(16),
    "a row added to all rows": lambda: (
        add_row_kernel, (64,), (_floats(1024, 64), _floats(64), _floats(1024, 64)), {"BLOCK_M": 16, "BLOCK_N": 64}
    ),
    "a row of 8 added to all rows": lambda: (
        add_row_kernel, (64,), (_floats(4096, 8), _floats(8), _floats(4096, 8)), {"BLOCK_M": 64, "BLOCK_N": 8}
    ),
    "a gather": _gather,
    "matmul in float16": lambda: _matmul(torch.float16),
    "matmul in float32": lambda: _matmul(torch.float32),
}  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """One case: sectors of 32 bytes, as counted and as the GPU's counters had them."""

    case: str
    counted_loaded: int
    measured_loaded: int
    counted_stored: int
    measured_stored: int

    @property
    def error(self) -> float:
        """The larger of both relative differences."""
        pairs = (
            (self.counted_loaded, self.measured_loaded),
            (self.counted_stored, self.measured_stored),
        )
        return max(abs(counted - measured) / max(1, measured) for counted, measured in pairs)


@dataclass(frozen=True)
class Sectors:
    """All cases on one machine. Prints as a table."""

    machine: Machine
    compared: tuple[Compared, ...]
    recorded: bool = False

    def __str__(self) -> str:
        lines = [
            f"{'Recorded' if self.recorded else 'Measured'} on {self.machine}",
            f"{'':46}{'loaded':>22}{'stored':>22}",
        ]
        for each in self.compared:
            loaded = f"{each.counted_loaded:,} / {each.measured_loaded:,}"
            stored = f"{each.counted_stored:,} / {each.measured_stored:,}"
            lines.append(f"{each.case:46}{loaded:>22}{stored:>22}  {each.error:.1%}")
        return "\n".join(lines)

    __repr__ = __str__

    def to_json(self) -> str:
        return json.dumps(to_content(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Sectors":
        content = json.loads(text)
        content["compared"] = tuple(Compared(**each) for each in content["compared"])
        return from_content(cls, content)


def counted(case: Case) -> tuple[int, int]:
    """The sectors that `cost` counts: loaded, stored."""
    kernel, grid, args, constants = case()
    found = cost(kernel, grid, *args, target="H200", **constants)
    assert found.exact
    return found.sectors_loaded, found.sectors_stored


def compare() -> Sectors:
    """Count every case, and read the GPU's counters for it. Raises CourseError without a GPU or without `ncu`."""
    require_gpu()
    ncu = shutil.which("ncu")
    if ncu is None:
        raise CourseError("Nsight Compute (ncu) is not on the path: it reads the GPU's counters.")
    metrics = [name for names in METRICS.values() for name in names]
    command = [
        ncu,
        "--csv",
        "--clock-control",
        "none",
        "--profile-from-start",
        "off",
        "--metrics",
        ",".join(metrics),
    ]
    done = subprocess.run(
        [*command, sys.executable, "-m", "course.benching.ncu_counters"],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    found = _read(done.stdout)
    if done.returncode or len(found) != len(CASES):
        raise CourseError(
            f"Nsight Compute has read {len(found)} of {len(CASES)} launches. It said: {(done.stderr or done.stdout)[-500:]}"
        )
    compared = []
    for (name, case), measured in zip(CASES.items(), found, strict=True):
        loaded, stored = counted(case)
        sums = {kind: sum(measured.get(metric, 0) for metric in METRICS[kind]) for kind in METRICS}
        compared.append(Compared(name, loaded, sums["loaded"], stored, sums["stored"]))
    return Sectors(this_machine(), tuple(compared))


def _read(text: str) -> list[dict[str, int]]:
    """The metrics of each launch, in order, from Nsight Compute's table."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    found: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(lines):
        value = row["Metric Value"].replace(",", "")
        found.setdefault(row["ID"], {})[row["Metric Name"]] = (
            int(float(value)) if value.replace(".", "").isdigit() else 0
        )
    return list(found.values())


def sectors() -> Sectors:
    """The recorded comparison."""
    return Sectors.from_json(FILE.read_text())


def _launch_all() -> None:
    """Launch each case once, under the profiler's eyes."""
    for case in CASES.values():
        kernel, grid, args, constants = case()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        kernel[grid](*args, **constants)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        result = compare()
        print(result)
        write_whole(Path(sys.argv[1]) / FILE.name, result.to_json())
    else:
        _launch_all()
