"""On a GPU: lower gives what a launch compiles, its occupancy is the driver's, and edited IR runs."""

import ctypes

import pytest
import torch

from course import lower
from course.isolate.pool import call, stop_workers
from tests.support import child_tasks
from tests.support import lower_kernels as kernels
from tests.support.jit_stages import comparable
from tests.support.processes import computed_s

pytestmark = pytest.mark.gpu


def tensors(*dtypes):
    return [torch.zeros(70_000, dtype=dtype, device="cuda") for dtype in dtypes]


CALLS = {
    "aligned": lambda: (
        kernels.add_kernel,
        tensors(*[torch.float32] * 3),
        [4096],
        {"BLOCK_SIZE": 1024},
    ),
    "unaligned": lambda: (
        kernels.add_kernel,
        [each[1:] for each in tensors(*[torch.float32] * 3)],
        [4097],
        {"BLOCK_SIZE": 1024},
    ),
    "one": lambda: (
        kernels.add_kernel,
        tensors(*[torch.bfloat16] * 3),
        [1],
        {"BLOCK_SIZE": 256, "num_warps": 8},
    ),
    "a row sum": lambda: (
        kernels.row_sum_kernel,
        tensors(*[torch.float32] * 2),
        [1000],
        {"BLOCK_SIZE": 1024},
    ),
    "a matmul": lambda: (
        kernels.matmul_kernel,
        tensors(torch.float16, torch.float16, torch.float32),
        [256],
        {"BLOCK": 64, "num_stages": 3},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_what_a_launch_compiles(name):
    kernel, given, numbers, meta = CALLS[name]()
    launched = kernel[(1,)](*given, *numbers, **meta)
    made = lower(kernel, *given, *numbers, **meta)
    assert comparable(made.texts) == comparable(
        {stage: text for stage, text in launched.asm.items() if isinstance(text, str)}
    )


@pytest.mark.parametrize("name", CALLS)
def test_registers_and_occupancy_are_the_drivers(name):
    kernel, given, numbers, meta = CALLS[name]()
    launched = kernel[(1,)](*given, *numbers, **meta)
    found = lower(kernel, *given, *numbers, **meta).resources
    launched._init_handles()
    assert (found.registers, found.shared_bytes) == (launched.n_regs, launched.metadata.shared)
    programs = ctypes.c_int()
    error = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(programs),
        ctypes.c_void_p(launched.function),
        found.num_warps * 32,
        ctypes.c_size_t(found.shared_bytes),
    )
    assert (error, found.programs_per_sm) == (0, programs.value)


def test_edited_ir_runs():
    x, y, out = (
        torch.rand(1024, device="cuda"),
        torch.rand(1024, device="cuda"),
        torch.zeros(1024, device="cuda"),
    )
    made = lower(kernels.add_kernel, x, y, out, 1024, BLOCK_SIZE=1024)
    made.launch((1,), x, y, out, 1024)
    assert torch.equal(out, x + y)
    made.replace(ttgir=made.ttgir.replace("arith.addf", "arith.mulf")).launch((1,), x, y, out, 1024)
    assert torch.equal(out, x * y)


def test_workers_of_all_kinds_work_beside_a_session_that_uses_the_gpu():
    torch.zeros(1, device="cuda")
    assert call(child_tasks.kind, kind="launch").value == ["GPU", False, "0"]
    assert call(child_tasks.double_on_the_gpu, 21, kind="launch").value == 42
    assert call(child_tasks.kind, kind="interpret").value == ["CPU", True, "1"]


def test_lowering_takes_a_fraction_of_the_first_time():
    x = torch.zeros(98_432, device="cuda")
    stop_workers()
    start = computed_s()
    lower(kernels.add_kernel, x, x, x, 98_432, BLOCK_SIZE=1024)
    first = computed_s()
    lower(kernels.add_kernel, x, x, x, 98_432, BLOCK_SIZE=1024)
    assert computed_s() - first < (first - start) / 4
