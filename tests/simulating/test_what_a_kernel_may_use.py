"""What a simulated kernel may use: names, arguments, Python; the rest is refused in a sentence."""

from typing import NamedTuple

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.language.core import _aggregate as aggregate

from course import CourseError
from course.simulating.api import simulate
from course.simulating.faults import HazardError, SimulationError, UnsupportedError
from tests.simulating.kernels import descriptor


@gluon.jit
def unknown_kernel(x_ptr, x_desc, OF: gl.constexpr):
    if OF == "Block":
        gl.program_id(0).associative_scan()
    elif OF == "Pointer":
        x_ptr.associative_scan()
    elif OF == "Descriptor":
        x_desc.associative_scan()
    elif OF == "Barriers":
        hopper.mbarrier.allocate_mbarrier().associative_scan()
    else:
        x = gl.allocate_shared_memory(x_desc.dtype, [16, 64], x_desc.layout)
        x.associative_scan()


@pytest.mark.parametrize("kind", ["Block", "Pointer", "Descriptor", "Barriers", "Buffer"])
def test_a_method_that_is_not_known_is_refused_by_its_name(kind):
    x = torch.zeros(16, 64, dtype=torch.float16)
    with pytest.raises(UnsupportedError, match=rf"does not know {kind}\.associative_scan\.\n.* In"):
        simulate(unknown_kernel, (1,), x, descriptor(x, [16, 64]), kind)


@gluon.jit
def wrong_kernel(out_ptr):
    gl.store(out_ptr, gl.arange(0, 4) + gl.arange(0, 8))


def test_what_python_raises_names_the_line():
    with pytest.raises(
        UnsupportedError, match=r"cannot follow a line: ValueError.*\n    In wrong_"
    ):
        simulate(wrong_kernel, (1,), torch.zeros(4))


@gluon.jit
def module_kernel(x_desc):
    x = gl.allocate_shared_memory(x_desc.dtype, [16, 64], x_desc.layout)
    full = hopper.mbarrier.allocate_mbarrier()
    hopper.mbarrier.init(full, count=1)
    hopper.fence_async_shared()
    hopper.mbarrier.expect(full, x_desc.nbytes_per_cta)
    hopper.tma.async_load(x_desc, [0, 0], full, x)
    hopper.mbarrier.wait(full, 0)


def test_hopper_may_be_used_as_a_module():
    x = descriptor(torch.zeros(16, 64, dtype=torch.float16), [16, 64])
    simulate(module_kernel, (1,), x)


@gluon.jit
def warps_kernel(out_ptr, num_warps: gl.constexpr):
    gl.store(out_ptr, num_warps)


def test_a_kernel_may_take_num_warps():
    out = torch.zeros(1)
    simulate(warps_kernel, (1,), out, num_warps=8)
    assert out.item() == 8


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((), {}, r"warps_kernel takes \(out_ptr.*missing a required argument: 'out_ptr'"),
        ((torch.zeros(1),), {"orders": []}, "some of the orders .*, and not"),
        ((torch.zeros(1),), {"orders": 5}, "some of the orders .*, and not 5"),
        ((torch.zeros(1).to_sparse(),), {}, "takes dense tensors, and out_ptr is sparse"),
        ((torch.zeros(1),), {"orders": ["sideways"]}, "some of the orders .*, and not"),
        (
            (torch.zeros(1).to(torch.float8_e4m3fn),),
            {},
            r"does not know the type of out_ptr, torch\.float8_e4m3fn\. It knows torch\.float16",
        ),
    ],
)
def test_what_cannot_be_launched_is_refused(args, options, words):
    with pytest.raises(CourseError, match=words):
        simulate(warps_kernel, (1,), *args, **options)


@gluon.jit
def shifted_kernel(x_ptr, y_ptr, i):
    gl.store(x_ptr + i, 5)


def test_one_memory_as_two_types_is_refused():
    x = torch.zeros(4)
    with pytest.raises(UnsupportedError, match="the same memory as two types"):
        simulate(shifted_kernel, (1,), x, x.view(torch.int32), 0)


def test_a_part_of_a_tensor_has_bounds_of_its_own():
    x = torch.zeros(8)
    simulate(shifted_kernel, (1,), x[2:5], x, 2)
    assert x.tolist() == [0, 0, 0, 0, 5, 0, 0, 0]
    for i in (-1, 3):
        with pytest.raises(HazardError, match=rf"x_ptr\[{i}\] is outside .* whose length is 3"):
            simulate(shifted_kernel, (1,), x[2:5], x, i)


@gluon.jit
def phase_kernel(phase):
    barrier = hopper.mbarrier.allocate_mbarrier()
    hopper.mbarrier.init(barrier, count=1)
    hopper.mbarrier.wait(barrier, phase)


def test_a_phase_is_0_or_1():
    simulate(phase_kernel, (1,), 1)
    with pytest.raises(HazardError, match="barrier is waited for at phase 3: a phase is 0 or 1"):
        simulate(phase_kernel, (1,), 3)


def _kernel_of_a_function():
    number, three = gl.constexpr(7), gl.constexpr(3)

    @gluon.jit
    def store(out_ptr, *, value: gl.constexpr = three):
        gl.store(out_ptr, value * number)

    @gluon.jit
    def kernel(out_ptr):
        store(out_ptr)

    return kernel


def test_names_of_the_function_around_and_defaults_by_name_are_known():
    out = torch.zeros(1)
    simulate(_kernel_of_a_function(), (1,), out)
    assert out.item() == 21


@aggregate
class Step:
    size: gl.constexpr
    first: gl.constexpr = 4


@aggregate
class OwnStep:
    size: gl.constexpr

    def __init__(self, half):
        self.size = gl.constexpr(2 * half)


@gluon.jit
def aggregate_kernel(out_ptr, KIND: gl.constexpr):
    if KIND == "Step":
        step = Step(2)
        gl.store(out_ptr, step.size * step.first)
    elif KIND == "nothing":
        Step()
    else:
        OwnStep(2)


def test_an_aggregate_has_its_defaults():
    out = torch.zeros(1)
    simulate(aggregate_kernel, (1,), out, "Step")
    assert out.item() == 8


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nothing", "Step has the fields size, first: give each of them a value"),
        ("OwnStep", "does not know aggregates with an __init__ of their own, as OwnStep"),
    ],
)
def test_an_aggregate_that_cannot_be_constructed_is_refused(kind, words):
    with pytest.raises(SimulationError, match=words):
        simulate(aggregate_kernel, (1,), torch.zeros(1), kind)


def test_a_descriptor_of_more_than_its_tensor_is_refused():
    x = descriptor(torch.zeros(16, 64, dtype=torch.float16), [16, 64])
    x.shape = [17, 64]
    with pytest.raises(CourseError, match="x_desc describes more than its tensor's memory"):
        simulate(module_kernel, (1,), x)


@gluon.jit
def halves_kernel(out_ptr, COLUMNS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])
    rows = gl.arange(0, 4, gl.SliceLayout(1, layout))[:, None]
    block = rows * COLUMNS + gl.arange(0, COLUMNS, gl.SliceLayout(0, layout))[None, :]
    left, right = block.reshape([4, 2, COLUMNS // 2]).permute((0, 2, 1)).split()
    gl.store(out_ptr, gl.sum(gl.sum(left, axis=1), axis=0))
    gl.store(out_ptr + 1, gl.sum(gl.sum(right, axis=1), axis=0))


def test_a_block_is_split_into_its_halves():
    out = torch.zeros(2, dtype=torch.int32)
    simulate(halves_kernel, (1,), out, 8)
    whole = torch.arange(32).reshape(4, 8)
    assert out.tolist() == [whole[:, :4].sum(), whole[:, 4:].sum()]


@gluon.jit
def thirds_kernel(out_ptr):
    gl.arange(0, 4).split()


def test_only_an_axis_of_two_elements_is_split():
    with pytest.raises(SimulationError, match=r"last axis has 2 elements; the shape is \[4\]"):
        simulate(thirds_kernel, (1,), torch.zeros(1))


class Ends(NamedTuple):
    x: torch.Tensor
    out: torch.Tensor


@gluon.jit
def tuples_kernel(ends, numbers, tiles, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.arange(0, BLOCK, layout=layout)
    if tiles[1] is None:
        buffer = gl.allocate_shared_memory(tiles[0][0].dtype, [16, 64], tiles[0][0].layout)
        full = hopper.mbarrier.allocate_mbarrier()
        hopper.mbarrier.init(full, count=1)
        hopper.mbarrier.expect(full, tiles[0][0].nbytes_per_cta)
        hopper.tma.async_load(tiles[0][0], [0, 0], full, buffer)
        hopper.mbarrier.wait(full, 0)
    x_ptr, out_ptr = ends
    gl.store(out_ptr + offsets, gl.load(x_ptr + offsets) * numbers[0] + numbers[1])


@pytest.mark.parametrize("pair", [tuple, Ends._make])
def test_tensors_and_numbers_come_in_tuples(pair):
    x, out = torch.arange(128.0), torch.zeros(128)
    tile = torch.zeros(16, 64, dtype=torch.float16)
    tiles = ((descriptor(tile, [16, 64]),), None)
    simulate(tuples_kernel, (1,), pair((x, out)), (2, 0.5), tiles, 128)
    assert out.tolist() == (2 * x + 0.5).tolist()
    with pytest.raises(SimulationError, match=r"ends\[1\]\[64\]"):
        simulate(tuples_kernel, (1,), pair((x, out[:64])), (2, 0.5), tiles, 128)
