"""The timeline of a loop, for loads that take twice as long as an iteration's arithmetic."""

import itertools

import pytest

from course.lowering.passes import Pass, Passes
from course.lowering.pipeline_schedule import ScheduledOperation, schedules, timeline
from course.lowering.pipeline_view import loads_beside_arithmetic


def matmul(depth):
    loads = [ScheduledOperation("load", name, 0) for name in "ab"]
    return [*loads, ScheduledOperation("dot", "acc", depth - 1)]


def dots(operations, iterations=4):
    bars = timeline(operations, iterations)
    return [(bar.iteration, bar.start) for bar in bars if bar.operation.kind == "dot"]


@pytest.mark.parametrize(
    ("depth", "starts"),
    [
        (1, [2, 5, 8, 11]),  # each waits for its own loads
        (2, [2, 3, 5, 6]),  # every other one waits
        (3, [2, 3, 4, 5]),
        (4, [2, 3, 4, 5]),  # there is nothing left to wait for
    ],
)
def test_a_deeper_pipeline_waits_less_until_nothing_is_left_to_wait_for(depth, starts):
    assert dots(matmul(depth)) == [*enumerate(starts)]


def attention(depth):
    loads = [ScheduledOperation("load", name, 0) for name in "kv"]
    softmax = ScheduledOperation("softmax", "", depth - 1)
    dots = [ScheduledOperation("dot", name, depth - 1) for name in "SO"]
    return [loads[0], dots[0], softmax, loads[1], dots[1]]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_two_operations_of_a_program_compute_at_once(depth):
    bars = [bar for bar in timeline(attention(depth), 3) if bar.operation.kind != "load"]
    assert len(bars) == 9
    assert all(one.end <= other.start for one, other in itertools.pairwise(bars))


def test_only_loads_that_go_on_beside_arithmetic_need_lanes_of_their_own():
    """v may still be on its way while the first dot and the softmax of its iteration work."""
    assert loads_beside_arithmetic(timeline(attention(3), 5))
    for operations in (attention(1), matmul(1), matmul(3)):
        assert not loads_beside_arithmetic(timeline(operations, 5))


LOOP = """
scf.for %i = %a to %b step %c {
  %k_1 = tt.load %p {loop.stage = 0 : i32}
  %scores = tt.dot %q, %k_1 {loop.stage = 2 : i32}
  %m = "tt.reduce"(%scores) {loop.stage = 2 : i32}
  %x = arith.subf %scores, %m {loop.stage = 3 : i32}
  %p_4 = math.exp2 %x {loop.stage = 2 : i32}
  %v_7 = tt.load %r {loop.stage = 0 : i32}
  %acc = tt.dot %p_4, %v_7 {loop.stage = 2 : i32}
}
"""


def schedules_of(loop):
    return schedules(Passes([Pass(0, "pipeline", "Pipeline", loop, "")]))


def test_the_softmax_between_two_dots_is_one_operation():
    (schedule,) = schedules_of(LOOP)
    assert [(each.kind, each.name, each.stage) for each in schedule.shown] == [
        ("load", "k", 0), ("dot", "scores", 2), ("softmax", "", 2), ("load", "v", 0),
        ("dot", "acc", 2),
    ]  # fmt: skip
    assert schedule.depth == 4


def test_exponentials_alone_are_no_softmax():
    exponentials = "\n".join(line for line in LOOP.split("\n") if "tt.reduce" not in line)
    (schedule,) = schedules_of(exponentials)
    assert [each.kind for each in schedule.shown] == ["load", "dot", "arithmetic", "load", "dot"]


WHILE = """
%r:2 = scf.while (%k = %n, %acc = %zero) : (i32, tensor<64x64xf32>) -> i32 {
  %more = arith.cmpi sgt, %k, %c0 : i32
  scf.condition(%more) %k, %acc : i32, tensor<64x64xf32>
} do {
^bb0(%k: i32, %acc: tensor<64x64xf32>):
  %a_1 = tt.load %p : tensor<64x64x!tt.ptr<f16>>
  %acc_2 = tt.dot %a_1, %b, %acc : tensor<64x64xf32>
  scf.yield %next, %acc_2 : i32, tensor<64x64xf32>
}
"""


def test_a_while_loop_is_a_loop_that_is_not_pipelined():
    (schedule,) = schedules_of(WHILE)
    assert [(each.kind, each.name) for each in schedule.shown] == [("load", "a"), ("dot", "acc")]
    assert schedule.depth == 1
