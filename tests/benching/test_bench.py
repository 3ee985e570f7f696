"""bench measures on a GPU and refuses without one; the sums around it are checked anywhere."""

from dataclasses import replace

import pytest
import torch

from course import MODE
from course.benching import api, run_study
from course.benching.api import bench
from course.benching.benchmarks import Study, operation
from course.benching.result import Speeds, Timing
from course.benching.series import backward_of
from course.errors import CourseError
from course.gpus import timing
from course.gpus.recorded import Machine
from kernels.vector_add import add
from tools import record

MACHINE = Machine("A GPU", "1", "2", "3", "2026-01-02")
needs_cpu_mode = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: about refusing without a GPU")


@needs_cpu_mode
@pytest.mark.parametrize(
    "call",
    [
        lambda: bench(add, like="vector_add"),
        lambda: bench(add, [torch.add], make=lambda n: (), sizes=[1], bytes=lambda: 1),
        lambda: record.record([]),
    ],
)
def test_without_a_gpu_it_points_to_what_was_recorded(call):
    words = r"this is CPU mode .*: look at what was recorded on one, with recorded\("
    with pytest.raises(CourseError, match=words + r'"vector_add"\)'):
        call()


def test_sizes_without_inputs_or_bytes_are_a_sentence(monkeypatch):
    monkeypatch.setattr(api, "require_gpu", lambda name=None: None)
    with pytest.raises(CourseError, match="bench needs make, sizes and bytes, or like="):
        bench(add, make=lambda n: (torch.empty(n),))


def test_a_wrong_operation_is_not_recorded(monkeypatch):
    monkeypatch.setattr(record, "run_study", lambda *_: pytest.fail("it was timed all the same"))
    right = operation("vector_add")
    wrong = replace(right, ladder={"wrong": lambda x, y: x - y}, cases=right.cases[:2])
    for _, measure in record._measures(wrong):
        with pytest.raises(CourseError, match="Nothing was recorded, since a version is wrong"):
            measure()


def test_a_call_that_takes_the_gpu_long_is_launched_fewer_times(monkeypatch):
    now = [0.0]  # a clock of its own, since this machine may be busy
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    calls = []
    for seconds in (1e-5, 0.006):
        calls.append(0)

        def function(seconds=seconds):
            calls[-1] += 1
            now[0] += seconds

        assert timing.launch_us(function) == pytest.approx(seconds * 1e6)
    assert calls == [2 + 9 * 200, 2 + 9 * 16]


def test_the_spread_is_the_median_and_the_outer_fifths():
    assert run_study._spread([float(i) for i in range(1, 102)]) == (51.0, 21.0, 81.0)
    assert run_study._spread([3.0]) == (3.0, 3.0, 3.0)


def test_two_functions_of_one_name_get_names_that_differ():
    def twin(x, y):
        return x

    other = twin
    names = list(api._series((add, torch.add, twin, other), taken=["add"]))
    assert names == ["add (2)", "torch.add", "twin", "twin (2)"]


@pytest.fixture
def timings_by_size(monkeypatch):
    """run_study without a GPU: size x takes x milliseconds, and 4 and more do not fit."""

    def timings_at(study, x):
        if x >= 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [Timing("f", x, x * 10**9, x, x, x)]

    monkeypatch.setattr(run_study, "_timings_at", timings_at)
    monkeypatch.setattr(run_study, "launch_us", lambda call: 1.0)
    monkeypatch.setattr(run_study, "copy_tb_s", lambda: 2.0)
    monkeypatch.setattr(run_study, "this_machine", lambda: MACHINE)


def a_study(xs):
    return Study("example", "elements", xs, lambda x: (), lambda: 1, {"f": lambda x: add})


def test_sizes_that_do_not_fit_are_left_out(timings_by_size):
    result = run_study.run_study(a_study([1, 2, 4, 8]))
    assert [timing.x for timing in result.timings] == [1, 2]
    assert result.at("f", 2).tb_s == 1.0
    assert result.unit == "TB/s"


def test_operations_are_counted_where_a_study_gives_them():
    timing = Timing("f", 1, bytes=10, ms=2, ms_low=1, ms_high=3, operations=4 * 10**9)
    speeds = Speeds("example", "N", (timing,), 2.0, {}, machine=MACHINE)
    assert (speeds.unit, timing.speed) == ("TFLOP/s", 2.0)
    assert "example: TFLOP/s\n" in str(speeds)
    assert Speeds.from_json(speeds.to_json()).timings == (timing,)


def test_a_study_of_which_nothing_fits_is_a_sentence(timings_by_size):
    words = "example does not fit into this GPU's memory at elements 4: take less"
    with pytest.raises(CourseError, match=words):
        run_study.run_study(a_study([4, 8]))


def test_peers_are_timed_in_turns(monkeypatch):
    order = []

    def one_call(function, inputs):
        function(*inputs)
        return [1.0]

    def timed(name):
        return lambda *inputs: order.append(name)

    monkeypatch.setattr(run_study, "times_ms", one_call)
    series = {name: lambda x, name=name: timed(name) for name in "ab"}
    study = Study("turns", "elements", [1], lambda x: (), lambda: 0, series)
    timings = run_study._timings_at(study, 1)
    assert order == ["a", "b"] * run_study.ROUNDS
    assert [(timing.series, timing.ms) for timing in timings] == [("a", 1.0), ("b", 1.0)]


def test_a_backward_pass_is_timed_alone_after_one_forward_pass():
    calls = []

    def product(x, weight):
        calls.append(x)
        return x * weight

    backward = backward_of(product, inputs=2)
    d_out, x, weight = torch.randn(3, 4, 5).unbind()
    for _ in range(2):
        d_x, d_weight = backward(d_out, x, weight, torch.ones(4))
        assert torch.equal(d_x, d_out * weight) and torch.equal(d_weight, d_out * x)
    assert len(calls) == 1
