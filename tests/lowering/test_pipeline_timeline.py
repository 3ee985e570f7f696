"""The timeline of a loop, for loads that take twice as long as an iteration's arithmetic."""

import itertools

import pytest

from course.lowering.pipeline_schedule import Schedule, ScheduledOperation
from course.lowering.pipeline_timeline import PlacedOperation, placed_operations, timeline
from course.lowering.pipeline_view import loads_beside_arithmetic


def matmul(depth):
    loads = [PlacedOperation("load", name, 0) for name in "ab"]
    return [*loads, PlacedOperation("dot", "acc", depth - 1)]


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
    loads = [PlacedOperation("load", name, 0) for name in "kv"]
    softmax = PlacedOperation("softmax", "", depth - 1)
    dots = [PlacedOperation("dot", name, depth - 1) for name in "SO"]
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


def test_the_softmax_between_two_dots_is_one_operation():
    names = (("k_1", "tt.load", 0), ("scores", "tt.dot", 2), ("m", "tt.reduce", 2),
             ("p", "math.exp2", 2), ("v_7", "tt.load", 0), ("acc", "tt.dot", 2))  # fmt: skip
    placed = placed_operations(Schedule(tuple(ScheduledOperation(*each) for each in names)))
    assert [(each.kind, each.name, each.stage) for each in placed] == [
        ("load", "k", 0), ("dot", "scores", 2), ("softmax", "", 2), ("load", "v", 0),
        ("dot", "acc", 2),
    ]  # fmt: skip
