"""bench measures on a GPU and refuses without one; the sums around it are checked on any machine."""

import pytest
import torch

from course import MODE
from course.errors import CourseError
from course.measuring import bench as bench_module
from course.measuring import recording
from course.measuring.bench import bench, record
from course.measuring.studies import operation
from kernels.vector_add import add

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
        CourseError, match=r'this is CPU mode .*: look at what was recorded on one, with recorded\("vector_add"\)'
    ):
        call()


def test_half_a_question_is_a_sentence(monkeypatch):
    monkeypatch.setattr(bench_module, "require_gpu", lambda name=None: None)
    with pytest.raises(CourseError, match="bench needs make, sizes and bytes, or like="):
        bench(add, make=lambda n: (torch.empty(n),))


def test_a_wrong_operation_is_not_recorded(monkeypatch):
    monkeypatch.setattr(bench_module, "require_gpu", lambda name=None: None)
    monkeypatch.setattr(bench_module, "run_study", lambda *_: pytest.fail("it was timed all the same"))
    vector_add = operation("vector_add")
    wrong = type(vector_add)(**{**vars(vector_add), "ladder": {"wrong": lambda x, y: x - y}, "cases": vector_add.cases[:2]})
    with pytest.raises(CourseError, match="Nothing was recorded, since a version is wrong"):
        record(wrong)


def test_the_spread_is_the_median_and_the_outer_fifths():
    assert bench_module._spread([float(i) for i in range(1, 102)]) == (51.0, 21.0, 81.0)
    assert bench_module._spread([3.0]) == (3.0, 3.0, 3.0)


def test_two_functions_of_one_name_are_told_apart():
    def twin(x, y):
        return x

    other = twin
    names = list(bench_module._series((add, torch.add, twin, other), taken=["add"]))
    assert names == ["add (2)", "torch.add", "twin", "twin (2)"]


def test_peers_are_timed_in_turns_and_leave_out_what_a_study_leaves_out(monkeypatch):
    order = []

    def one_call(function, **_):
        function()
        return [1.0]

    def timed(name):
        return lambda *inputs: order.append(name)

    monkeypatch.setattr("triton.testing.do_bench", one_call)
    times = bench_module._times({"a": timed("a"), "b": timed("b")}, ())
    assert order == ["a", "b"] * bench_module.ROUNDS
    assert times == {"a": [1.0] * 3, "b": [1.0] * 3}
