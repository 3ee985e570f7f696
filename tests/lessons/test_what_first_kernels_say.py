"""What the first notebooks and the README say, and what readers are asked to do on their own."""

import re

import pytest
import torch
import triton
import triton.language as tl

from course import MODE, lower, recorded, vectors, verify
from course.benching.observed import observed
from course.gpus.measured import recorded_facts
from course.gpus.peaks import gpu_of
from course.lessons.folders import ROOT
from course.lessons.order import lesson_sources, numbered, numbers
from kernels.vector_add import add_kernel_v2
from tests.support.launchers import elementwise

pytestmark = pytest.mark.gpu_too

cpu_mode = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: it is said of the interpreter")


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


def test_the_five_questions_have_the_answers_that_the_first_notebook_gives():
    x = torch.zeros(3, 4)
    assert (x.stride(), x.T.stride()) == ((4, 1), (1, 4))
    view = x[:, ::2]
    assert view.data_ptr() == x.data_ptr() and not view.is_contiguous()
    dtypes = (torch.float32, torch.float16, torch.bfloat16)
    assert [10**6 * dtype.itemsize for dtype in dtypes] == [4 * 10**6, 2 * 10**6, 2 * 10**6]
    assert str(torch.tensor(2.0**24) + 1) == "tensor(16777216.)"
    assert (torch.zeros(4, 1) + torch.zeros(1, 3)).shape == (4, 3)


@cpu_mode
def test_a_launch_without_a_grid_is_told_what_to_write(eight):
    with pytest.raises(Exception, match=r"without a grid: write double_kernel\[\(programs,\)\]"):
        double_kernel(*eight)


def test_a_grid_that_is_a_number_has_no_len(eight):
    words = "must be a tuple" if MODE.interpreting else r"object of type 'int' has no len\(\)"
    with pytest.raises(Exception, match=words):
        double_kernel[8](*eight)


def test_a_matrix_product_does_about_680_operations_in_the_time_of_a_trillion_bytes():
    facts = recorded_facts()
    assert facts.matmul_tflop_s == pytest.approx(680, rel=0.02)
    assert facts.matmul_tflop_s / facts.memory_tb_s > 100


def test_additions_of_float32_are_twenty_times_slower_than_a_matrix_product():
    additions = gpu_of("H200").vector["fp32"] / 2  # a fused multiply-add counts as two
    assert recorded_facts().matmul_tflop_s / additions == pytest.approx(20, rel=0.1)


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


@triton.jit
def subtract_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x, y = tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x - y, mask=mask)


@triton.jit
def add_three_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x, y = tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)
    z = tl.load(z_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y + z, mask=mask)


def small(count):
    """The cases of `vectors` that the interpreter runs soon."""
    return [case for case in vectors(count) if case.elements <= 2000]


def test_a_subtraction_is_verified_against_torch():
    assert verify(elementwise(subtract_kernel), torch.sub, small(2)).right


def test_three_vectors_are_added_in_one_kernel_and_verified():
    assert verify(elementwise(add_three_kernel), lambda x, y, z: x + y + z, small(3)).right


def test_a_grid_that_rounds_down_is_first_found_at_one_element():
    few = elementwise(add_kernel_v2, lambda n: n // 1024)
    said = str(verify(few, torch.add, small(2), first_wrong_only=True))
    assert "First wrong case: 1 float32." in said
    assert "got nothing: it was never written" in said


def test_one_instruction_loads_four_elements_where_the_length_is_divisible_by_16():
    loads = {
        n: lower(add_kernel_v2, *["*fp32:16"] * 3, n, BLOCK_SIZE=1024, target="sm_90").ptx
        for n in ("i32:16", "i32")
    }
    assert "ld.global.v4" in loads["i32:16"] and "ld.global.v4" not in loads["i32"]


def three_roundings(gate, up):
    return gate * torch.sigmoid(gate) * up


def test_three_kernels_of_pytorch_round_more_than_once_in_float16_and_verify_says_so():
    said = verify(three_roundings, three_roundings, vectors(2, (torch.float16,)))
    assert said.right and "rounded to float16 more than once" in str(said)
    once = verify(three_roundings, three_roundings, vectors(2, (torch.float32,)))
    assert once.right and "more than once" not in str(once)


def test_one_program_per_element_is_two_hundred_times_slower():
    speeds = recorded("vector_add")
    ratio = speeds.at("add_v1", 2**26).ms / speeds.at("add", 2**26).ms
    assert ratio == pytest.approx(200, rel=0.15)


def test_small_vectors_take_as_long_as_a_launch_and_large_ones_run_at_the_roof():
    speeds = recorded("vector_add")
    tiny, small, large = (speeds.at("add", n) for n in (2**12, 2**16, 2**26))
    assert 2e-3 < tiny.ms < 5e-3 and small.ms < 1.2 * tiny.ms
    assert small.ms == pytest.approx(20 * small.bytes / speeds.copy_tb_s / 1e9, rel=0.15)
    assert 0.98 < large.tb_s / speeds.copy_tb_s < 1.05
    below, above = (speeds.at("add", n).tb_s for n in (2**22, 2**24))
    assert below < 0.75 * speeds.copy_tb_s and above > 0.9 * speeds.copy_tb_s


def test_a_call_of_ours_takes_the_cpu_three_to_four_times_a_call_of_torch():
    launch_us = recorded("vector_add").launch_us
    assert 3 < launch_us["add"] / launch_us["torch.add"] < 4
    assert launch_us["first call, empty cache"] == pytest.approx(1e6, rel=0.3)
    assert launch_us["first call, kernel in the disk cache"] > 1e5


def test_speed_falls_where_a_thread_would_hold_256_elements_of_each_vector():
    speeds = recorded("vector_add_blocks")
    for warps in (1, 4):
        full = speeds.at(f"num_warps={warps}", 1024).tb_s
        assert full > 0.95 * speeds.copy_tb_s
        assert speeds.at(f"num_warps={warps}", 64).tb_s < 0.5 * full
        assert speeds.at(f"num_warps={warps}", 256 * 32 * warps).tb_s < 0.3 * full
    widest = max(timing.x for timing in speeds.of("num_warps=16"))
    assert speeds.at("num_warps=16", widest).tb_s > 0.85 * speeds.copy_tb_s


@pytest.mark.parametrize(
    ("warps", "block_size", "registers", "spills"),
    [
        (4, 1024, 26, "none"),
        (4, 32_768, 32, "many"),
        (1, 8192, 255, "many"),
        (16, 32_768, 128, "few"),
    ],
)
def test_blocks_spill_where_the_notebook_says_so(warps, block_size, registers, spills):
    args = [*["*fp32:16"] * 3, "i32:16"]
    options = {"BLOCK_SIZE": block_size, "num_warps": warps, "target": "sm_90"}
    used = lower(add_kernel_v2, *args, **options).resources
    assert used.registers == registers
    least, most = {"none": (0, 0), "few": (1, 64), "many": (256, 2**16)}[spills]
    assert least <= used.spill_bytes <= most


def test_a_product_with_a_number_takes_505_microseconds_at_the_roof():
    moved = 8 * 2**28
    assert round(moved / 1e9, 2) == 2.15
    assert round(moved / 4.25e12 * 1e6) == 505


ROUTE = re.compile(r"^(?:# )?(\| (?:an evening|a long day|all) \|.*)$", re.MULTILINE)


def test_the_readme_and_the_first_notebook_show_the_same_three_routes():
    first, *_ = lesson_sources()
    routes = ROUTE.findall(numbered(first.read_text(), numbers()))
    assert len(routes) == 3
    assert ROUTE.findall((ROOT / "README.md").read_text()) == routes
