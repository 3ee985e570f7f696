"""In CPU mode verify watches every access: it finds reads outside, and programs that race."""

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from course import MODE
from course.verifying.api import verify
from course.verifying.compare import Tolerance
from course.verifying.inputs import Case, Input, vectors
from tests.support.launchers import elementwise

pytestmark = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: a GPU cannot be watched so")

SMALL = [case for case in vectors(2, dtypes=(torch.float32,)) if case.elements <= 4096]
ONE = [Case((Input((4096,)),))]


@triton.jit
def unmasked_load_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    total = tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets)
    tl.store(out_ptr + offsets, total, mask=offsets < n_elements)


@triton.jit
def far_kernel(x_ptr, distance):
    tl.store(x_ptr, tl.load(x_ptr + distance))


@triton.jit
def far_store_kernel(out_ptr, distance):
    tl.store(out_ptr + tl.program_id(axis=0) * distance, 1.0)


def far_launcher(x, y):
    out = torch.empty_like(x)
    far_kernel[(1,)](out, 10**12)
    return out


def far_store_launcher(x, y):
    out = torch.zeros_like(x)
    far_store_kernel[(2,)](out, 10**12) if x.numel() else None
    return out


@triton.jit
def total_kernel(x_ptr, total_ptr, ATOMIC: tl.constexpr):
    part = tl.sum(tl.load(x_ptr + tl.program_id(axis=0) * 1024 + tl.arange(0, 1024)), axis=0)
    if ATOMIC:
        tl.atomic_add(total_ptr, part)
    else:
        tl.store(total_ptr, tl.load(total_ptr) + part)


def total(atomic):
    def launch(x):
        out = torch.zeros((), dtype=x.dtype)
        total_kernel[(4,)](x, out, ATOMIC=atomic)
        return out

    return launch


@triton.jit
def last_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr + tl.program_id(axis=0)))


def last_writer_wins(x):
    out = torch.empty(())
    last_kernel[(x.numel(),)](x, out)
    return out


@triton.jit
def neighbor_kernel(out_ptr):
    """Each program but the first adds to its own element what its left neighbor left."""
    pid = tl.program_id(axis=1)
    if pid > 0:
        tl.store(out_ptr + pid, tl.load(out_ptr + pid) + tl.load(out_ptr + pid - 1))


def prefix_sum(x):
    out = x.clone()
    neighbor_kernel[(1, x.numel())](out)
    return out


@triton.jit
def wrapping_kernel(x_ptr, out_ptr, n_elements):
    offsets = (tl.program_id(axis=0) * 1024 + tl.arange(0, 1024)) % n_elements
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


def wrapping_copy(x):
    out = torch.empty_like(x)
    wrapping_kernel[(triton.cdiv(x.numel(), 1024) + 1,)](x, out, x.numel())
    return out


@triton.jit
def double_kernel(x_ptr, shift):
    offsets = (tl.program_id(axis=0) * 1024 + tl.arange(0, 1024) + shift) % 4096
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)


def two_launches(x):
    out = x.clone()
    double_kernel[(4,)](out, 0)
    double_kernel[(4,)](out, 512)  # each program now owns elements that two others owned before
    return out


@triton.jit
def through_address_kernel(address_ptr, out_ptr):
    x_ptr = tl.load(address_ptr).to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, 4096)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


def through_an_address(x):
    out = torch.empty_like(x)
    through_address_kernel[(1,)](torch.tensor([x.data_ptr()]), out)
    return out


@triton.jit
def descriptor_kernel(x_desc, out_desc):
    start = tl.program_id(axis=0) * 1024
    out_desc.store([start], x_desc.load([start]))


def through_descriptors(x):
    out = torch.empty_like(x)
    descriptors = (TensorDescriptor.from_tensor(each, [1024]) for each in (x, out))
    descriptor_kernel[(triton.cdiv(x.numel(), 1024),)](*descriptors)
    return out


NOT_OURS = "memory that is none of the kernel's arguments."

MISTAKES = {
    "the load has no mask": (
        elementwise(unmasked_load_kernel),
        torch.add,
        SMALL,
        "Program 0 read outside x_ptr, whose length is 1: at [1]",
    ),
    "it reads far outside": (far_launcher, torch.add, SMALL[1:], f"Program 0 read {NOT_OURS}"),
    "it writes far outside": (far_store_launcher, torch.add, SMALL, f"Program 1 wrote {NOT_OURS}"),
    "programs read, add and write one total": (
        total(atomic=False),
        torch.sum,
        ONE,
        "Programs 0 and 3 wrote different values to total_ptr.",
    ),
    "the last writer wins": (
        last_writer_wins,
        lambda x: x[-1],
        ONE,
        "wrote different values to out_ptr.",
    ),
    "a program reads what its neighbor writes": (
        prefix_sum,
        lambda x: x.cumsum(0),
        ONE,
        "which program (0, 1) wrote in the same launch: nothing orders the two.",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_that_the_interpreter_lets_pass_is_wrong(name):
    function, reference, cases, reason = MISTAKES[name]
    assert reason in verify(function, reference, cases).wrong[0].reason


RIGHT = {
    "an atomic addition": (total(atomic=True), torch.sum),
    "programs that write the same value": (wrapping_copy, torch.clone),
    "two launches, one after the other": (two_launches, lambda x: x * 4),
    "tensor descriptors": (through_descriptors, torch.clone),
    "addresses held in a tensor": (through_an_address, torch.clone),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_on_a_gpu_is_right_here(name):
    function, reference = RIGHT[name]
    result = verify(function, reference, ONE, tolerance=Tolerance(1e-3))
    assert result.right, result


def test_what_the_interpreter_lacks_for_bfloat16_is_left_to_the_gpu():
    cases = [Case((Input((4096,), dtype),)) for dtype in (torch.float32, torch.bfloat16)]
    result = verify(total(atomic=True), torch.sum, cases, tolerance=Tolerance(1e-3))
    in_float32, in_bfloat16 = result.outcomes
    assert in_float32.verdict == "right"
    assert in_bfloat16.verdict == "left to the GPU"
    assert in_bfloat16.reason == "the interpreter cannot do this with bfloat16"


def test_the_interpreter_is_left_as_it_was():
    from triton.runtime import interpreter

    before = interpreter.GridExecutor._init_args_hst
    verify(elementwise(unmasked_load_kernel), torch.add, SMALL[:2])
    assert interpreter.GridExecutor._init_args_hst is before
    patched = {"create_masked_load", "create_masked_store"}
    assert not patched & set(vars(interpreter.interpreter_builder))


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def copied(x, block, programs=None):
    out = torch.empty_like(x)
    copy_kernel[(programs or triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK_SIZE=block)
    return out


@pytest.mark.parametrize(("block", "programs"), [(1024, None), (16, None), (4096, 256)])
def test_a_grid_of_some_programs_too_many_is_right(block, programs):
    assert verify(lambda x: copied(x, block, programs), torch.clone, ONE, block=1024).right


def test_very_many_programs_are_wrong_and_do_not_run():
    million = lambda x: copied(x, 1024, 10**6)  # noqa: E731
    (outcome,) = verify(million, torch.clone, ONE, block=1024).outcomes
    assert outcome.reason == (
        "It starts 1,000,000 programs where 4 blocks of 1,024 elements would do: "
        "look at the grid, which is 1,000,000, and the block size."
    )


def test_programs_are_counted_over_all_launches_of_a_call():
    def one_by_one(x):
        out = torch.empty_like(x)
        for i in range(x.numel()):
            copy_kernel[(1,)](x[i:], out[i:], 1, BLOCK_SIZE=1)
        return out

    (outcome,) = verify(one_by_one, torch.clone, ONE, block=1024).outcomes
    assert outcome.reason.startswith("It starts 513 programs in 513 launches where 4 blocks")


def test_without_a_block_any_number_of_programs_may_run():
    assert verify(lambda x: copied(x, 4), torch.clone, ONE).right


@triton.jit
def one_number_kernel(x_ptr, out_ptr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, tl.load(x_ptr + row))


def one_program_more(x):
    out = torch.empty_like(x)
    one_number_kernel[(x.numel() + 1,)](x, out)
    return out


def test_a_single_number_past_the_end_is_no_offset_in_bytes():
    told = str(verify(one_program_more, torch.clone, [Case((Input((4,)),))]))
    assert "whose length is 4: at [4]." in told and "bytes" not in told
