"""What lessons 00 and 01 say in their text, and what their readers are asked to do on their own."""

import pytest
import torch
import triton
import triton.language as tl

from course import MODE
from course.benching.gpu_experiments import observed
from course.gpus.measured import recorded_facts

cpu_mode = pytest.mark.skipif(MODE.gpu, reason="it is said of the interpreter")


@triton.jit
def double_kernel(x_ptr, out_ptr):
    i = tl.program_id(axis=0)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, 2 * x)


@triton.jit
def square_kernel(x_ptr, out_ptr):
    i = tl.program_id(axis=0)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x * x)


@triton.jit
def power_kernel(x_ptr, out_ptr):
    i = tl.program_id(axis=0)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x**2)


@triton.jit
def total_kernel(x_ptr, total_ptr):
    offsets = tl.program_id(axis=0) * 1024 + tl.arange(0, 1024)
    part = tl.sum(tl.load(x_ptr + offsets), axis=0)
    tl.atomic_add(total_ptr, part)


@pytest.fixture
def eight():
    x = torch.arange(8.0, device=MODE.device)
    return x, torch.full_like(x, -1)


def test_the_five_questions_have_the_answers_that_lesson_00_gives():
    x = torch.zeros(3, 4)
    assert (x.stride(), x.T.stride()) == ((4, 1), (1, 4))
    view = x[:, ::2]
    assert view.data_ptr() == x.data_ptr() and not view.is_contiguous()
    dtypes = (torch.float32, torch.float16, torch.bfloat16)
    assert [10**6 * dtype.itemsize for dtype in dtypes] == [4 * 10**6, 2 * 10**6, 2 * 10**6]
    assert str(torch.tensor(2.0**24) + 1) == "tensor(16777216.)"
    assert (torch.zeros(4, 1) + torch.zeros(1, 3)).shape == (4, 3)


@cpu_mode
def test_a_launch_without_a_grid_names_an_attribute(eight):
    with pytest.raises(Exception, match="object has no attribute"):
        double_kernel(*eight)


def test_a_grid_that_is_a_number_has_no_len(eight):
    with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)"):
        double_kernel[8](*eight)


def test_a_matrix_product_does_about_680_operations_in_the_time_of_a_trillion_bytes():
    facts = recorded_facts()
    assert facts.matmul_tflop_s == pytest.approx(680, rel=0.02)
    assert facts.matmul_tflop_s / facts.memory_tb_s > 100


def test_nearly_all_of_the_total_was_lost_in_the_race():
    assert observed().race_total < 0.05 * 1024 * 1024


def test_elements_are_squared_by_a_product_and_not_by_a_power(eight):
    x, out = eight
    square_kernel[(8,)](x, out)
    assert out.tolist() == [0, 1, 4, 9, 16, 25, 36, 49]
    with pytest.raises(Exception, match=r"\*\*"):
        power_kernel[(8,)](x, out)


def test_half_a_grid_leaves_the_second_half_as_it_was(eight):
    x, out = eight
    double_kernel[(4,)](x, out)
    assert out.tolist() == [0, 2, 4, 6, -1, -1, -1, -1]


def test_an_atomic_adds_up_every_part():
    ones = torch.ones(1024 * 1024, device=MODE.device)
    total = torch.zeros(1, device=MODE.device)
    total_kernel[(1024,)](ones, total)
    assert total.item() == 1024 * 1024
