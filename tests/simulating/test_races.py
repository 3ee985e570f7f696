"""What nothing orders is a hazard, whatever comes out: programs in memory, partitions in shared
memory; and blocks that do not fit what they are given to."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from course import simulate
from course.simulating.faults import DeadlockError, HazardError, SimulationError

LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
SHARED: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])


@gluon.jit
def before_kernel(x_ptr):
    """Each program reads what the one before it writes."""
    i, pid = gl.arange(0, 128, LAYOUT), gl.program_id(0)
    before = gl.load(x_ptr + (pid - 1) * 128 + i, mask=(i >= 0) & (pid > 0), other=0.0)
    gl.store(x_ptr + pid * 128 + i, before + 1)


@gluon.jit
def after_kernel(x_ptr, N: gl.constexpr):
    """Each program reads what the one after it writes."""
    i, pid = gl.arange(0, 128, LAYOUT), gl.program_id(0)
    after = gl.load(x_ptr + (pid + 1) * 128 + i, mask=(i >= 0) & (pid < N - 1), other=0.0)
    gl.store(x_ptr + pid * 128 + i, after + 1)


@gluon.jit
def same_kernel(x_ptr):
    """All programs write the same."""
    gl.store(x_ptr + gl.arange(0, 128, LAYOUT), 1.0)


@gluon.jit
def add_part(buffer, part):
    buffer.store(buffer.load(LAYOUT) + part)


@gluon.jit
def parts_kernel(x_ptr):
    buffer = gl.allocate_shared_memory(gl.float32, [128], SHARED)
    buffer.store(gl.zeros([128], gl.float32, LAYOUT))
    gl.warp_specialize([(add_part, (buffer, 1.0)), (add_part, (buffer, 2.0))], [4], [24])
    gl.store(x_ptr + gl.arange(0, 128, LAYOUT), buffer.load(LAYOUT))


@gluon.jit
def coordinate_kernel(desc):
    buffer = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    tma.async_load(desc, [0], full, buffer)


@gluon.jit
def wider_kernel(x_ptr):
    buffer = gl.allocate_shared_memory(gl.float16, [128], SHARED)
    buffer.store(gl.load(x_ptr + gl.arange(0, 128, LAYOUT)))


@gluon.jit
def warps_kernel(x_ptr):
    buffer = gl.allocate_shared_memory(gl.float32, [128], SHARED)
    buffer.store(gl.zeros([128], gl.float32, LAYOUT))
    x = buffer.load(gl.BlockedLayout([1], [32], [8], [0]))
    gl.store(x_ptr + gl.arange(0, 128, LAYOUT), x)


@gluon.jit
def named_kernel(x_ptr):
    full = mbarrier.allocate_mbarrier(); empty = mbarrier.allocate_mbarrier()  # noqa: E702  # fmt: skip
    mbarrier.init(full, count=1)
    mbarrier.init(empty, count=1)
    mbarrier.wait(empty, 0)


@pytest.mark.parametrize(
    ("kernel", "constants", "says"),
    [
        (before_kernel, {}, r"Program 1 reads x_ptr\[0\], which program 0 has written in the same"),
        (
            after_kernel,
            {"N": 3},
            r"Program 1 writes x_ptr\[128\], which another one has read in th",
        ),
    ],
)
def test_programs_that_one_another_wait_for_by_luck_alone_are_refused(kernel, constants, says):
    with pytest.raises(HazardError, match=says):
        simulate(kernel, (3,), torch.zeros(384), **constants)
    simulate(kernel, (1,), torch.zeros(384), **constants | dict.fromkeys(constants, 1))


def test_programs_may_write_the_same():
    simulate(same_kernel, (3,), x := torch.zeros(128))
    assert x.all()


def test_partitions_that_share_a_buffer_need_a_barrier():
    says = (
        r"buffer is .* in add_part \(1\), and was .* in add_part \(0\): no barrier orders the two"
    )
    with pytest.raises(HazardError, match=says):
        simulate(parts_kernel, (1,), torch.zeros(128))


def test_many_programs_of_a_large_tensor_are_followed():
    """Nothing is copied or compared for each program."""
    simulate(same_kernel, (256,), torch.zeros(2**22))


@pytest.mark.parametrize(
    ("kernel", "dtype", "says"),
    [
        (wider_kernel, torch.float32, r"buffer is fp16 \[128\], and this block is fp32 \[128\]"),
        (warps_kernel, torch.float32, r"8 warps, and 4 run this"),
    ],
)
def test_a_block_that_does_not_fit_is_refused(kernel, dtype, says):
    with pytest.raises(SimulationError, match=says):
        simulate(kernel, (1,), torch.zeros(128, dtype=dtype))


def test_a_block_is_asked_for_by_a_coordinate_for_each_axis():
    layout = gl.NVMMASharedLayout.get_default_for([8, 64], gl.float16)
    desc = TensorDescriptor.from_tensor(torch.zeros(64, 64).half(), [8, 64], layout)
    with pytest.raises(SimulationError, match=r"desc has 2 axes, and is asked .* by 1 coordinates"):
        simulate(coordinate_kernel, (1,), desc)


def test_each_of_two_statements_in_a_line_has_its_own_name():
    with pytest.raises(DeadlockError, match="of empty to end"):
        simulate(named_kernel, (1,), torch.zeros(1))
