"""verify runs what is right once more: with other numbers in memory, and from the last program."""

import pytest
import torch
import triton
import triton.language as tl

from course import DEVICE, MODE
from course.verifying.api import verify
from course.verifying.inputs import Case, Input

IN_CPU_MODE = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: the interpreter sees accesses")
MATRIX, VECTOR = Case((Input((5, 100)),)), Case((Input((1000,)),))


@triton.jit
def row_max_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=float("-inf"))
        tl.store(out_ptr + row, tl.maximum(tl.load(out_ptr + row), tl.max(x, 0)))


@triton.jit
def column_extremes_kernel(x_ptr, out_ptr, n_cols, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + cols, mask=mask)
    if LARGEST:
        tl.atomic_max(out_ptr + cols, x, mask=mask)
    else:
        tl.atomic_min(out_ptr + cols, x, mask=mask)


@triton.jit
def and_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    both = tl.load(out_ptr + offsets, mask=mask) & tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, both, mask=mask)


@triton.jit
def twice_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    before = tl.load(out_ptr + offsets, mask=mask)
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.where(offsets < 0, before, x), mask=mask)


def row_max(allocate):
    def function(x):
        out = allocate(len(x))
        row_max_kernel[(len(x),)](x, out, x.shape[1], BLOCK=32)
        return out

    return function


def column_min(allocate):
    def function(x):
        out = allocate(x.shape[1])
        column_extremes_kernel[(len(x),)](x, out, x.shape[1], LARGEST=False, BLOCK=128)
        return out

    return function


def in_one_program(kernel):
    def function(x):
        out = torch.empty_like(x)
        kernel[(1,)](x, out, x.numel(), BLOCK=1024)
        return out

    return function


def all_of(value):
    return lambda size: torch.full((size,), value, device=DEVICE)


def empty(size):
    return torch.empty(size, device=DEVICE)


@pytest.mark.gpu_too
def test_a_result_that_depends_on_what_memory_held_is_wrong():
    largest = verify(row_max(empty), lambda x: x.amax(1), [MATRIX])
    assert "holds the largest number at the start" in largest.outcomes[0].reason
    smallest = verify(column_min(empty), lambda x: x.amin(0), [MATRIX])
    assert "holds the smallest number at the start" in smallest.outcomes[0].reason
    bools = Case((Input((1000,), torch.bool),))
    assert not verify(in_one_program(and_kernel), lambda x: x, [bools]).right


@pytest.mark.gpu_too
def test_what_is_filled_first_or_does_not_matter_is_right():
    assert verify(row_max(all_of(float("-inf"))), lambda x: x.amax(1), [MATRIX]).right
    assert verify(column_min(all_of(float("inf"))), lambda x: x.amin(0), [MATRIX]).right
    assert verify(in_one_program(twice_kernel), lambda x: x, [VECTOR]).right


@triton.jit
def last_adds_kernel(x_ptr, parts_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid, offsets = tl.program_id(0), tl.arange(0, BLOCK)
    mine = pid * BLOCK + offsets
    tl.store(parts_ptr + pid, tl.sum(tl.load(x_ptr + mine, mask=mine < n, other=0.0), 0))
    programs = tl.num_programs(0)
    if tl.atomic_add(count_ptr, 1) == programs - 1:
        tl.store(out_ptr, tl.sum(tl.load(parts_ptr + offsets, mask=offsets < programs, other=0), 0))


def last_adds(allocate):
    def function(x):
        programs = triton.cdiv(x.numel(), 64)
        count, out = allocate(1, dtype=torch.int32), torch.empty(1)
        parts = torch.empty(programs)
        last_adds_kernel[(programs,)](x, parts, count, out, x.numel(), BLOCK=64)
        return out

    return function


def column_max(x):
    out = torch.empty(x.shape[1], dtype=x.dtype)
    column_extremes_kernel[(len(x),)](x, out, x.shape[1], LARGEST=True, BLOCK=128)
    return out


@IN_CPU_MODE
@pytest.mark.parametrize(
    "function, reference, case, name",
    [
        (column_max, lambda x: x.amax(0), MATRIX, "out_ptr"),
        (column_max, lambda x: x.amax(0), Case((Input((5, 100), torch.int32),)), "out_ptr"),
        (last_adds(torch.empty), lambda x: x.sum()[None], VECTOR, "count_ptr"),
    ],
)
def test_a_wrong_element_that_is_computed_from_unwritten_memory_is_told_so(
    function, reference, case, name
):
    (outcome,) = verify(function, reference, [case]).outcomes
    assert f"{name} is read before anything is written to it" in outcome.reason
    assert "tl.atomic_" in str(outcome.problem.line)


@triton.jit
def locked_sum_kernel(x_ptr, lock_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0), 0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + own)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def exchanged_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.atomic_xchg(out_ptr + offsets, x, mask=offsets < n)


@IN_CPU_MODE
def test_a_lock_that_nothing_has_written_is_wrong_and_an_exchange_is_a_store():
    def locked(allocate):
        def function(x):
            lock, out = allocate(1, dtype=torch.int32), torch.zeros(1)
            locked_sum_kernel[(4,)](x, lock, out, x.numel(), BLOCK=256)
            return out

        return function

    total = lambda x: x.sum()[None]  # noqa: E731
    (outcome,) = verify(locked(torch.empty), total, [VECTOR]).outcomes
    assert "lock_ptr is updated by an atomic before anything is written to it" in outcome.reason
    assert verify(locked(torch.zeros), total, [VECTOR]).right
    assert verify(in_one_program(exchanged_kernel), torch.clone, [VECTOR]).right


@triton.jit
def ticket_kernel(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.atomic_add(count_ptr, 1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, tl.load(x_ptr + offsets, mask=offsets < n), mask=place < n)


@triton.jit
def running_sums_kernel(x_ptr, out_ptr, total_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    before = tl.atomic_add(total_ptr, tl.sum(x, 0))
    tl.store(out_ptr + offsets, before + tl.cumsum(x, 0), mask=offsets < n)


@triton.jit
def handed_on_kernel(x_ptr, out_ptr, total_ptr, turn_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    while tl.atomic_add(turn_ptr, 0) != pid:
        pass
    before = tl.atomic_add(total_ptr, tl.sum(x, 0))
    tl.atomic_add(turn_ptr, 1)
    tl.store(out_ptr + offsets, before + tl.cumsum(x, 0), mask=offsets < n)


def with_counters(kernel, *dtypes):
    def function(x):
        out, counters = torch.empty_like(x), [torch.zeros(1, dtype=dtype) for dtype in dtypes]
        kernel[(triton.cdiv(x.numel(), 250),)](x, out, *counters, x.numel(), BLOCK=256)
        return out

    return function


@IN_CPU_MODE
def test_what_depends_on_the_order_of_programs_is_wrong():
    exact = Case((Input((1024,)),))
    (outcome,) = verify(with_counters(ticket_kernel, torch.int32), torch.clone, [exact]).outcomes
    assert (outcome.problem.kind, outcome.problem.what) == ("race", "order")
    assert "What an atomic on count_ptr[0] returns depends on which programs came" in outcome.reason
    sums = with_counters(running_sums_kernel, torch.float32)
    assert not verify(sums, lambda x: x.cumsum(0), [VECTOR]).right


@IN_CPU_MODE
def test_programs_that_wait_for_their_turn_are_right():
    in_turn = with_counters(handed_on_kernel, torch.float32, torch.int32)
    assert verify(in_turn, lambda x: x.cumsum(0), [VECTOR]).right
    assert verify(last_adds(torch.zeros), lambda x: x.sum()[None], [VECTOR]).right


@triton.jit
def scattered_kernel(x_ptr, place_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
    place = tl.load(place_ptr + row)
    tl.atomic_add(out_ptr + place * n_cols + cols, x, mask=cols < n_cols)


@IN_CPU_MODE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_may_be_added_up_in_any_order(dtype):
    def scattered(x, places):
        out = torch.zeros(80, x.shape[1], dtype=x.dtype)
        scattered_kernel[(len(x),)](x, places, out, x.shape[1], BLOCK=64)
        return out

    def gradient_of_embedding(x, places):
        table = torch.zeros(80, x.shape[1], dtype=x.dtype, requires_grad=True)
        torch.nn.functional.embedding(places, table).backward(x)
        return table.grad

    def put(x, places):
        return torch.zeros(80, x.shape[1], dtype=x.dtype).index_put((places,), x, accumulate=True)

    case = Case((Input((500, 40), dtype), Input((500,), torch.int64, values="small")))
    for reference in (gradient_of_embedding, put):
        result = verify(scattered, reference, [case])
        assert result.right, result


@triton.jit
def neighbor_beside_a_counter_kernel(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
    tl.atomic_add(count_ptr + tl.program_id(0), 1)
    after = tl.load(out_ptr + offsets - 1, mask=(offsets < n) & (offsets > 0), other=0.0)
    tl.store(out_ptr + n + offsets, after, mask=offsets < n)


@IN_CPU_MODE
def test_an_atomic_beside_a_race_hides_it_not():
    def shifted(x):
        n = x.numel()
        out, counts = x.new_empty(2 * n), torch.zeros(4, dtype=torch.int32)
        neighbor_beside_a_counter_kernel[(4,)](x, out, counts, n, BLOCK=256)
        return out[n:]

    def reference(x):
        return x.roll(1).index_fill(0, torch.tensor([0]), 0)

    (outcome,) = verify(shifted, reference, [VECTOR]).outcomes
    assert outcome.problem.kind == "race"
    assert "which program 0 wrote in the same launch: nothing orders the two" in outcome.reason


@triton.jit
def count_kernel(x_ptr, count_ptr, n, BLOCK: tl.constexpr):
    tl.atomic_xchg(count_ptr, tl.minimum(n, (tl.program_id(0) + 1) * BLOCK))


@IN_CPU_MODE
def test_a_shape_that_depends_on_the_order_is_wrong_and_no_traceback():
    def counted(x):
        count = torch.zeros(1, dtype=torch.int32)
        count_kernel[(4,)](x, count, x.numel(), BLOCK=256)
        return x.clone()[: int(count)]

    (outcome,) = verify(counted, torch.clone, [VECTOR]).outcomes
    assert "The result has shape (256,), and must have (1000,)." in outcome.reason


@triton.jit
def filled_index_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    least = tl.minimum(tl.load(index_ptr), 0)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets + least, mask=offsets < n),
             mask=offsets < n)  # fmt: skip


@IN_CPU_MODE
def test_a_run_that_fails_where_memory_held_something_else_is_wrong():
    def indexed(x):
        out, index = torch.empty_like(x), torch.empty(1, dtype=torch.int32)
        filled_index_kernel[(1,)](x, index, out, x.numel(), BLOCK=1024)
        return out

    (outcome,) = verify(indexed, torch.clone, [VECTOR]).outcomes
    assert "It fails: Program 0 read memory that is none" in outcome.reason
    assert "index_ptr holds the smallest number at the start" in outcome.reason


@triton.jit
def waiting_kernel(x_ptr, flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        while tl.atomic_add(flag_ptr, 0) != 1:
            pass
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
    tl.atomic_xchg(flag_ptr, 1)


@IN_CPU_MODE
@pytest.mark.parametrize(
    "allocate, verdict, says",
    [
        (torch.zeros, "left to the GPU", "cannot run a program that waits for a later one"),
        (torch.empty, "wrong", "waits without end, and flag_ptr is read before anything"),
    ],
)
def test_a_program_that_waits_for_a_later_one_is_stopped_at_once(allocate, verdict, says):
    def waiting(x):
        out, flag = torch.empty_like(x), allocate(1, dtype=torch.int32)
        waiting_kernel[(4,)](x, flag, out, x.numel(), BLOCK=256)
        return out

    (outcome,) = verify(waiting, torch.clone, [VECTOR]).outcomes
    assert outcome.verdict == verdict and says in outcome.reason


@triton.jit
def numbered_kernel(x_ptr, out_ptr, turn_ptr, call, n, BLOCK: tl.constexpr):
    pid, programs = tl.program_id(0), tl.num_programs(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    while tl.atomic_add(turn_ptr, 0) != call * programs + pid:
        pass
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
    tl.atomic_add(turn_ptr, 1)


@IN_CPU_MODE
def test_memory_that_a_function_keeps_from_call_to_call_is_left_as_it_is():
    kept = {"calls": 0}

    def numbered(x):
        turn = kept.setdefault("turn", torch.zeros(1, dtype=torch.int32))
        out = torch.empty_like(x)
        numbered_kernel[(4,)](x, out, turn, kept["calls"], x.numel(), BLOCK=256)
        kept["calls"] += 1
        return out

    cases = [Case((Input((1000,)),), seed=seed) for seed in range(3)]
    assert verify(numbered, torch.clone, cases).right
    assert kept["calls"] == 3
