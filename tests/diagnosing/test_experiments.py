"""Experiments: what is timed, what is dropped, and which cause each of them is about."""

import re

import pytest
import torch

import course
from course import CourseError, diagnose
from course.diagnosing import api
from course.diagnosing.experiments import words
from course.diagnosing.experiments.blame import CAUSES
from course.diagnosing.experiments.clocks import Clocks
from course.diagnosing.experiments.ptx_variants import KINDS
from course.diagnosing.experiments.read_ptx import Ptx
from course.diagnosing.experiments.result import Experiment
from course.diagnosing.experiments.run import Candidate, candidates_for, timed_together
from course.diagnosing.experiments.whole import reversed_order
from course.diagnosing.experiments.worker import Code, EndedError, Times
from course.diagnosing.result import Finding
from course.diagnosing.time_model import Work
from course.gpus.peaks import gpu_of
from tests.diagnosing import (
    kernels_atomics,
    kernels_compiled,
    kernels_dots,
    kernels_experiments,
    kernels_grid,
    kernels_sectors,
)
from tests.diagnosing.measured import Asked, experiments, measured_as

COLUMN = (
    kernels_sectors.copy_column_kernel,
    (256,),
    torch.empty(2**22),
    torch.empty(2**18),
    16,
    1024,
)
LINE = ("kernel.py", 3)
AS_IT_IS = Code(b"", 4, 0)


def candidate(kind, cure=""):
    return Candidate(AS_IT_IS, kind, (LINE,), cure)


def times(us, same=None, spread=0.0):
    return Times(us, spread, same or [True] * len(us), None)


@pytest.fixture(scope="module")
def column():
    return Asked(*COLUMN)


def test_what_helps_with_other_results_and_what_takes_longer_than_the_launch_is_dropped():
    all = [Candidate(AS_IT_IS), candidate("loads"), candidate("stores"), candidate("math")]
    all += [candidate("num_warps", "num_warps=8"), candidate("num_warps", "num_warps=1")]
    said = timed_together(
        all, ["math: too much went"], None,
        lambda *_: times([100, 40, 120, None, 50, 60], [False] * 5 + [True]),
    )  # fmt: skip
    assert [(each.kind, each.us) for each in said.done] == [("loads", 40), ("num_warps", 60)]
    assert said.dropped == (
        "math: too much went",
        "stores: takes longer than the launch",
        "math: no time, or no room",
        "num_warps=8: results differ",
    )


def test_a_variant_that_faults_is_named_and_the_others_are_timed_without_it():
    calls = []

    def timer(_, codes, *__):
        calls.append(len(codes))
        if len(codes) == 3:
            raise EndedError(1, "ended with the error 'misaligned address'")
        return times([100, 40])

    said = timed_together(
        [Candidate(AS_IT_IS), candidate("exchange"), candidate("loads")], [], None, timer
    )
    assert calls == [3, 2]
    assert [each.kind for each in said.done] == ["loads"]
    assert said.dropped == ("exchange: ended with the error 'misaligned address'",)


def test_a_launch_that_does_not_end_itself_is_an_error():
    def timer(*_):
        raise EndedError(0, "did not end within 25 s")

    with pytest.raises(CourseError, match="the launch itself did not end within 25 s"):
        timed_together([Candidate(AS_IT_IS)], [], None, timer)


def test_a_gpu_that_others_use_is_told():
    said = timed_together([Candidate(AS_IT_IS)], [], None, lambda *_: times([100], spread=0.3))
    assert "spread by 30%: something else may use this GPU" in " ".join(said.notes)


def test_the_launch_itself_comes_first_and_each_candidate_can_be_launched():
    launch = kernels_experiments.SOFTMAX
    lowered = course.lower(launch.kernel, *launch.args, target="sm_90")
    candidates, dropped = candidates_for(lowered, (1024, 1, 1))
    assert candidates[0].code == Code(lowered.cubin, 4, lowered.metadata["options"]["shared"])
    kinds = [each.kind for each in candidates[1:]]
    assert {"empty", "clocks", "addresses", "memory", "loads", "stores", "num_warps"} <= {*kinds}
    assert all(each.code.binary.startswith(b"\x7fELF") for each in candidates)
    assert all(each.code.results for each in candidates if each.cure)
    assert dropped == []


def test_the_order_of_programs_is_tried_where_the_grid_has_several_axes():
    launch = kernels_experiments.SOFTMAX
    ptx = Ptx(course.lower(launch.kernel, *launch.args, target="sm_90"))
    assert [*reversed_order(ptx, (1024, 1, 1))] == []
    (variant,) = reversed_order(ptx, (32, 32, 1))
    assert re.search(r"mov\.u32\s+%r\d+, %course_x;", variant.ptx)


def test_every_kind_has_words_and_the_causes_that_it_measures_are_known():
    assert {each.name for each in KINDS} <= {*words.WORDS}
    assert {*CAUSES} <= {*words.WORDS}


def test_the_rule_whose_line_saves_most_is_first_with_what_was_measured(column):
    lines = column.lines("tl.store")  # it loads there too
    done = Experiment("loads", lines, 50.0), Experiment("stores", lines, 90.0)
    said = column.measured(experiments(100.0, done))
    first = said.findings[0]
    assert (first.cause, first.without.kind) == ("sectors", "loads")
    assert first.gain == pytest.approx(2)
    assert "gain: up to 2.0 times: without it the launch takes 50 us, measured" in str(said)
    assert said.summary()["findings"][0]["measured"]
    assert "2 experiments were made in 0 s: loads 1, stores 1." in str(said)


def test_all_lines_together_stand_for_them_where_no_line_saves_most_by_itself(column):
    one, two = column.lines("tl.store"), column.lines("rows =")
    assert len(one) == len(two) == 1
    both = Experiment("loads", one + two, 20.0)
    lines = [Experiment("loads", one, 90.0), Experiment("loads", two, 85.0)]
    (first, *_) = column.measured(experiments(100.0, [both, *lines])).findings
    assert first.without == both
    nearly_all = [lines[0], Experiment("loads", two, 30.0)]
    (first, *_) = column.measured(experiments(100.0, [both, *nearly_all])).findings
    assert first.without == nearly_all[1]


def test_what_no_rule_explains_is_named_by_its_line(column):
    done = [Experiment("math", column.lines("tl.store"), 20.0)]
    first = column.measured(experiments(100.0, done)).findings[0]
    assert first.what.startswith("divisions, roots and exponentials in line ")
    assert first.what.endswith(": 80% of the time")
    assert "tl.store" in first.text


def test_what_a_rule_explains_comes_before_a_slightly_larger_bound_without_a_reason(column):
    lines = column.lines("tl.store")
    done = [Experiment("loads", lines, 60.0), Experiment("math", lines, 50.0)]
    assert column.measured(experiments(100.0, done)).causes == ["sectors", "math"]
    done[1] = Experiment("math", lines, 30.0)
    assert column.measured(experiments(100.0, done)).causes == ["math", "sectors"]


def test_a_bound_never_promises_more_than_the_bytes_allow(column):
    done = [Experiment("loads", column.lines("tl.store"), 0.1)]
    first = column.measured(experiments(10.0, done)).findings[0]
    assert first.gain == pytest.approx(10 / column.evidence.least_us(), rel=0.01)
    # With a tenth of the multiprocessors at work, no load is faster than they can take it.
    few = column.measured(experiments(10.0, done, busy=0.1)).findings
    loads = next(each for each in few if each.without.kind == "loads")
    assert loads.gain < first.gain


def test_what_takes_less_than_its_bytes_has_lost_more_than_its_arithmetic(column):
    lines, least = column.lines("tl.store"), column.evidence.least_us()
    done = Experiment("loads", lines, 60.0), Experiment("arithmetic", lines, 0.6 * least)
    assert column.measured(experiments(100.0, done)).causes == ["sectors"]
    done = done[0], Experiment("arithmetic", lines, 0.8 * least)
    assert column.measured(experiments(100.0, done)).causes == ["arithmetic", "sectors"]


def test_an_estimated_cause_comes_before_a_small_saving_that_no_rule_explains(column):
    done = [Experiment("math", column.lines("tl.store"), 80.0)]  # nothing is about the sectors
    assert column.measured(experiments(100.0, done)).causes == ["sectors", "math"]
    assert column.said.findings[0].gain > 1.25


def test_a_rule_whose_cause_saves_nothing_is_not_first_and_says_so(column):
    lines = column.lines("tl.store")
    done = [Experiment("loads", lines, 99.0), Experiment("arithmetic", lines, 50.0)]
    said = column.measured(experiments(100.0, done))
    assert said.causes == ["arithmetic", "sectors"]
    assert "gain: none by itself, measured" in str(said.findings[-1])


def test_programs_that_take_as_long_to_start_as_the_launch_lasts_come_first(column):
    slow = column.measured(experiments(100.0, empty_us=98.0))
    assert slow.causes[0] == "starting programs"
    assert "starting programs" not in column.measured(experiments(100.0, empty_us=40.0)).causes


def test_a_change_that_gains_more_than_any_cause_explains_is_one_of_its_own(column):
    done = [Experiment("num_warps", (), 20.0, "num_warps=1")]
    counted, change = column.measured(experiments(100.0, done)).findings[:2]
    assert counted.cause == "sectors" and not counted.without  # a parameter is no reason
    assert change.what == "with num_warps=1 the launch takes 80% less time"
    assert "gain: 5.0 times, measured" in str(change)


def test_what_is_certain_comes_before_what_was_measured():
    slow = kernels_dots.window(False)
    asked = Asked(slow.kernel, slow.grid, *slow.args)
    loads = Experiment("loads", asked.lines("tl.load(k_ptr"), 50.0)
    hidden, measured = asked.measured(experiments(100.0, [loads])).findings[:2]
    assert (hidden.cause, hidden.without) == ("hidden tiles", None)
    assert measured.without == loads


def test_idle_multiprocessors_are_measured_by_clocks():
    pair = kernels_grid.PAIRS[0]
    assert pair.cause == "few programs"
    asked = Asked(pair.slow.kernel, pair.slow.grid, *pair.slow.args)
    said = asked.measured(experiments(1000.0, busy=0.25))
    assert said.causes[0] == "few programs"
    assert said.findings[0].gain == pytest.approx(4)
    # Of a launch that is over before a clock ticks often, they tell nothing.
    short = asked.measured(experiments(10.0, clocks=Clocks(10.0, 0.25)))
    assert not [each for each in short.findings if each.without and each.gain > 1]


def test_a_change_that_helped_stands_beside_the_cause_that_explains_it():
    slow = kernels_atomics.PAIRS[0].slow
    asked = Asked(slow.kernel, slow.grid, *slow.args)
    lines = asked.lines("atomic_add")
    relaxed = Experiment("relaxed", lines, 45.0, 'sem="relaxed"')
    said = asked.measured(experiments(100.0, [Experiment("atomics", lines, 30.0), relaxed]))
    assert said.causes.count("fences") == 1
    assert "relaxed" not in said.causes
    first = said.findings[0]
    assert (first.cause, first.cure.cure) == ("fences", 'sem="relaxed"')
    assert 'tried: with sem="relaxed" it takes 45 us, measured, and gives the same' in str(first)


def test_what_was_measured_needs_no_estimate_of_its_whole(monkeypatch):
    done = [Experiment("products", (), 40.0)]
    measured_as(monkeypatch, experiments(100.0, done))
    args = kernels_compiled.OPERANDS
    said = diagnose(
        kernels_compiled.product_by_assembly_kernel, (64,), *args, target="H200"
    )  # which the interpreter cannot follow
    assert said.findings[0].gain == pytest.approx(2.5)
    assert "not known here" not in str(said)


def test_what_cannot_be_measured_is_said_and_the_estimate_stays(monkeypatch):
    measured_as(monkeypatch, experiments(100.0))

    def fails(*_):
        raise CourseError("the launch itself did not end within 25 s")

    monkeypatch.setattr(api, "experiments_on", fails)
    said = diagnose(*COLUMN, target="H200")
    assert "Nothing could be measured: the launch itself did not end within 25 s." in str(said)
    assert said.causes[0] == "sectors"
    assert said.measured_us is None


def test_what_is_certain_comes_before_what_is_estimated():
    work = Work(gpu_of("H200"), programs=32, slots=1, memory_sectors=1e6)
    words = "what", "why", "change"
    guess = Finding("sectors", *words, mended=work.less(memory_sectors=9e5))
    few = Finding("few programs", *words, mended=work, certain=True)
    assert [each.cause for each in api.ranked([guess, few], work)] == ["few programs", "sectors"]
