"""What diagnose advises holds for the kernel: it is not what the kernel does already, and its
reason is true."""

import pytest
import torch
import triton
import triton.language as tl

from course import CourseError, cost, diagnose, launches
from course.tracing.result import time_text


@triton.jit
def sines_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    for _ in tl.static_range(20):
        x = tl.sin(x)
    tl.store(out_ptr + i, x)


@triton.jit
def one_at_a_time_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(n):
        total += tl.load(x_ptr + row * n + k) * i
    tl.store(out_ptr + row * BLOCK + i, total)


@triton.jit
def unrolled_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    total = tl.zeros([BLOCK], tl.float32)
    for begin in tl.range(0, n, BLOCK, loop_unroll_factor=4):
        total += tl.load(x_ptr + row * n + begin + tl.arange(0, BLOCK))
    tl.store(out_ptr + row, tl.sum(total, axis=0))


@triton.jit
def largest_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(axis=0)
    largest = tl.topk(tl.load(x_ptr + row * n + tl.arange(0, BLOCK)), K)
    tl.store(out_ptr + row * K + tl.arange(0, K), largest)


def empty(*shape):
    return torch.empty(*shape, device="meta")


def test_programs_are_not_small_where_each_thread_moves_whole_vectors_and_computes_long():
    x = empty(2**26)
    said = diagnose(sines_kernel, (2**16,), x, empty(2**26), BLOCK=1024, target="H200")
    assert "small programs" not in said.causes


def test_a_loop_that_loads_one_number_each_time_is_not_told_to_take_larger_blocks():
    said = diagnose(
        one_at_a_time_kernel, (4096,), empty(4096, 512), empty(4096, 256), 512, 256, target="H200"
    )
    assert "pipelining" in said.causes
    assert "a thread loads" not in str(said)


def test_an_unrolled_loop_asks_for_no_pipeline_of_one_stage():
    x, out = empty(1056, 16384), empty(1056)
    said = diagnose(unrolled_kernel, (1056,), x, out, 16384, BLOCK=512, target="H200")
    assert "tl.range(…, num_stages=3)" in str(said)
    assert "num_stages=1" not in str(said)


def test_who_takes_the_first_few_is_not_told_to():
    x, out = empty(4096, 2048), empty(4096, 8)
    said = diagnose(largest_kernel, (4096,), x, out, 2048, BLOCK=2048, K=8, target="H200")
    assert "take shorter rows" in str(said)
    assert "where the first few are enough" not in str(said)


@pytest.mark.parametrize("grid", [lambda: (4,), lambda meta, more: (4,)], ids=["none", "two"])
def test_a_grid_function_that_takes_no_mapping_is_said_to(grid):
    x = torch.zeros(4096)
    with pytest.raises(CourseError, match="takes the launch's arguments by their names"):
        cost(sines_kernel, grid, x, x.clone(), BLOCK=1024)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.25, "250 ns"), (0.9999, "1 us"), (999.7, "1 ms"), (1234, "1.23 ms"),
        (999_700, "1 s"), (1_160_000, "1.16 s"), (3.6e9, "3,600 s"),
    ],
)  # fmt: skip
def test_a_time_has_no_exponent(us, text):
    assert time_text(us) == text


@triton.jit
def row_of_kernel(which_ptr, rows_ptr, out_ptr, BLOCK: tl.constexpr):
    number = tl.program_id(axis=0)
    i = tl.arange(0, BLOCK)
    row = tl.load(which_ptr + number)
    tl.store(out_ptr + number * BLOCK + i, tl.load(rows_ptr + row * BLOCK + i))


@triton.jit
def as_long_as_kernel(which_ptr, rows_ptr, out_ptr, BLOCK: tl.constexpr):
    number = tl.program_id(axis=0)
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(tl.load(which_ptr + number)):
        total += tl.load(rows_ptr + row * BLOCK + i)
    tl.store(out_ptr + number * BLOCK + i, total)


@triton.jit
def where_kernel(which_ptr, rows_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(rows_ptr + i, mask=tl.load(which_ptr + i) > 0, other=0.0))


@triton.jit
def scaled_kernel(which_ptr, rows_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(rows_ptr + i) * tl.load(which_ptr + i))


@pytest.mark.parametrize(
    ("kernel", "decides"),
    [
        (row_of_kernel, True),
        (as_long_as_kernel, True),
        (where_kernel, True),
        (scaled_kernel, False),
    ],
)
def test_zeros_that_decide_what_is_touched_are_said_to(kernel, decides):
    which = torch.empty(2**16, device="meta", dtype=torch.int32)
    said = diagnose(kernel, (64,), which, empty(2**16), empty(2**16), BLOCK=1024, target="H200")
    note = "On the device 'meta' which_ptr held zeros, which decided the places, masks or loops"
    assert any(note in each for each in said.notes) == decides


def test_another_block_than_the_recorded_one_has_the_grid_that_the_launch_asks_for():
    x = torch.zeros(4096)
    with launches() as seen:
        sines_kernel[lambda meta: (4096 // meta["BLOCK"],)](x, x.clone(), BLOCK=256)
    for block in (64, 256, 1024):
        assert cost(*seen[0], BLOCK=block).bytes_loaded == x.nbytes


def test_of_an_expanded_tensor_it_is_said_what_is_in_memory():
    x = torch.ones(1).expand(4096)
    words = r"element 1 of x_ptr, which has 4,096 and memory for 1 \(its strides are \(0,\)\)"
    with pytest.raises(CourseError, match=words):
        cost(sines_kernel, (4,), x, torch.empty(4096), BLOCK=1024)


@triton.jit
def add_rows_kernel(which_ptr, rows_ptr, out_ptr, BLOCK: tl.constexpr):
    number = tl.program_id(axis=0)
    i = tl.arange(0, BLOCK)
    row = tl.load(which_ptr + number)
    new = tl.load(rows_ptr + number * BLOCK + i)
    tl.atomic_add(out_ptr + row * BLOCK + i, new, sem="relaxed")


def added_to(which, rows=50_000):
    gradients = empty(len(which), 1024)
    grid = (len(which),)
    return diagnose(
        add_rows_kernel, grid, which, gradients, empty(rows, 1024), BLOCK=1024, target="H200"
    )


def test_a_row_that_most_programs_update_is_found_in_a_large_table():
    spread = torch.randint(0, 50_000, (16384,), dtype=torch.int32)
    half = torch.where(torch.arange(16384) % 2 == 0, 0, spread)
    assert "contention" not in added_to(spread).causes
    for which, updates in ((torch.zeros_like(spread), 16384), (half, 8192)):
        said = added_to(which)
        assert said.causes[0] == "contention"
        assert said.work.contended == pytest.approx(updates, rel=0.15)
        assert "times for one line of 128 bytes" in str(said)


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, n, k, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for begin in range(0, k, BLOCK_K):
        steps = begin + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + rows[:, None] * k + steps[None, :])
        b = tl.load(b_ptr + steps[:, None] * n + columns[None, :])
        total = tl.dot(a, b, total, input_precision="tf32")
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], total)


def test_beside_tl_dot_the_layout_may_be_what_makes_a_load_narrow():
    a, b, out = empty(4096, 4096), empty(4096, 4096), empty(4096, 4096)
    said = diagnose(product_kernel, (32, 32), a, b, out, 4096, 4096, 128, 32, target="H200")
    assert "narrow" in said.causes
    assert "the layout that tl.dot wants" in str(said)
    assert "along the axis that tl.dot adds up" in str(said)
