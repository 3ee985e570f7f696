"""bench measures on a GPU and refuses without one; the sums around it are checked on any machine."""

import pytest
import torch

from course import MODE
from course.benching import api as bench_module
from course.benching import recording
from course.benching.api import bench, record
from course.benching.result import Machine, Speeds, Timing
from course.benching.studies import Study, operation
from course.errors import CourseError
from course.gpus import timing
from kernels.vector_add import add

MACHINE = Machine("A GPU", "1", "2", "3", "2026-01-02")
needs_cpu_mode = pytest.mark.skipif(MODE.gpu, reason="about refusing without a GPU")


@needs_cpu_mode
@pytest.mark.parametrize(
    "call",
    [
        lambda: bench(add, like="vector_add"),
        lambda: bench(add, [torch.add], make=lambda n: (), sizes=[1], bytes=lambda: 1),
        lambda: record(operation("vector_add")),
        lambda: recording.record_all([]),
    ],
)
def test_without_a_gpu_it_points_to_what_was_recorded(call, tmp_path, monkeypatch):
    with pytest.raises(
        CourseError,
        match=r'this is CPU mode .*: look at what was recorded on one, with recorded\("vector_add"\)',
    ):
        call()


def test_half_a_question_is_a_sentence(monkeypatch):
    monkeypatch.setattr(bench_module, "require_gpu", lambda name=None: None)
    with pytest.raises(CourseError, match="bench needs make, sizes and bytes, or like="):
        bench(add, make=lambda n: (torch.empty(n),))


def test_a_wrong_operation_is_not_recorded(monkeypatch):
    monkeypatch.setattr(bench_module, "require_gpu", lambda name=None: None)
    monkeypatch.setattr(
        bench_module, "run_study", lambda *_: pytest.fail("it was timed all the same")
    )
    vector_add = operation("vector_add")
    wrong = type(vector_add)(
        **{
            **vars(vector_add),
            "ladder": {"wrong": lambda x, y: x - y},
            "cases": vector_add.cases[:2],
        }
    )
    with pytest.raises(CourseError, match="Nothing was recorded, since a version is wrong"):
        record(wrong)


def test_what_was_measured_is_written_before_the_next_is(monkeypatch, tmp_path):
    def run(study, *_):
        if study.name == "second":
            raise TimeoutError
        return Speeds(study.name, "elements", (Timing("f", 1, 1, 1.0, 1.0, 1.0),), 4.0, MACHINE, {})

    def named(name):
        return Study(name, "elements", [1], lambda x: (), lambda: 1, {})

    vector_add = operation("vector_add")
    two = type(vector_add)(
        **{**vars(vector_add), "ladder": {}, "studies": (named("first"), named("second"))}
    )
    for module in (bench_module, recording):
        monkeypatch.setattr(module, "require_gpu", lambda name=None: None)
    monkeypatch.setattr(bench_module, "run_study", run)
    monkeypatch.setattr(recording, "operation", lambda name: two)
    with pytest.raises(TimeoutError):
        recording.record_all(["two"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["first.json"]


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
    assert bench_module._spread([float(i) for i in range(1, 102)]) == (51.0, 21.0, 81.0)
    assert bench_module._spread([3.0]) == (3.0, 3.0, 3.0)


def test_two_functions_of_one_name_are_told_apart():
    def twin(x, y):
        return x

    other = twin
    names = list(bench_module._series((add, torch.add, twin, other), taken=["add"]))
    assert names == ["add (2)", "torch.add", "twin", "twin (2)"]


@pytest.fixture
def measured_by_rote(monkeypatch):
    """run_study without a GPU: each size takes its own number of milliseconds, and 4 and more do not fit."""

    def timings_at(study, x):
        if x >= 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [Timing("f", x, x * 10**9, x, x, x)]

    monkeypatch.setattr(bench_module, "_timings_at", timings_at)
    monkeypatch.setattr(bench_module, "launch_us", lambda call: 1.0)
    monkeypatch.setattr(bench_module, "copy_tb_s", lambda: 2.0)
    monkeypatch.setattr(bench_module, "this_machine", lambda: MACHINE)


def study(xs):
    return Study("example", "elements", xs, lambda x: (), lambda: 1, {"f": lambda x: add})


def test_sizes_that_do_not_fit_are_left_out(measured_by_rote):
    result = bench_module.run_study(study([1, 2, 4, 8]))
    assert [timing.x for timing in result.timings] == [1, 2]
    assert result.at("f", 2).tb_s == 1.0
    assert result.unit == "TB/s"


def test_operations_are_counted_where_a_study_gives_them():
    timing = Timing("f", 1, bytes=10, ms=2, ms_low=1, ms_high=3, operations=4 * 10**9)
    speeds = Speeds(
        "example", "N", (timing,), 2.0, Machine("A GPU", "1", "2", "3", "2026-01-02"), {}
    )
    assert (speeds.unit, timing.tflop_s, timing.speed) == ("TFLOP/s", 2.0, 2.0)
    assert "example: TFLOP/s\n" in str(speeds)
    assert Speeds.from_json(speeds.to_json()).timings == (timing,)


def test_a_study_of_which_nothing_fits_is_a_sentence(measured_by_rote):
    with pytest.raises(
        CourseError, match="example does not fit into this GPU's memory at elements 4: take less"
    ):
        bench_module.run_study(study([4, 8]))


def test_peers_are_timed_in_turns_and_leave_out_what_a_study_leaves_out(monkeypatch):
    order = []

    def one_call(function, inputs):
        function(*inputs)
        return [1.0]

    def timed(name):
        return lambda *inputs: order.append(name)

    monkeypatch.setattr(bench_module, "times_ms", one_call)
    times = bench_module._times({"a": timed("a"), "b": timed("b")}, ())
    assert order == ["a", "b"] * bench_module.ROUNDS
    assert times == {"a": [1.0] * 3, "b": [1.0] * 3}
