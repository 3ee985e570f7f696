"""Experiments: what is timed, what is dropped, and which cause each of them is about."""

import pytest
import torch

import course
from course import CourseError, diagnose
from course.diagnosing import api
from course.diagnosing.experiments import words
from course.diagnosing.experiments.blame import CAUSES
from course.diagnosing.experiments.result import Experiment
from course.diagnosing.experiments.run import Candidate, candidates_for, timed_together
from course.diagnosing.experiments.variants import KINDS, Variant
from course.diagnosing.experiments.worker import Code, EndedError, Times
from tests.diagnosing import (
    kernels_atomics,
    kernels_compiled,
    kernels_experiments,
    kernels_grid,
    kernels_sectors,
)
from tests.diagnosing.measured import measured_as

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
    return Candidate(AS_IT_IS, kind, Variant(kind, (LINE,), ""), cure)


def times(us, same=None, spread=0.0):
    return Times(us, spread, 3, same or [True] * len(us), None)


def lines_that_hold(lowered, *texts):
    return tuple(
        line.frame for line in lowered.source_lines() if any(text in line.text for text in texts)
    )


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
    assert "order of the programs" not in kinds
    in_two_axes, _ = candidates_for(lowered, (32, 32, 1))
    assert "order of the programs" in [each.kind for each in in_two_axes]
    assert dropped == []


def test_every_kind_has_words_and_the_causes_that_it_measures_are_known():
    assert {each.name for each in KINDS} <= {*words.WORDS}
    assert {*CAUSES} <= {*words.WORDS}


def test_the_rule_whose_line_saves_most_is_first_with_what_was_measured(monkeypatch):
    def done(lowered):
        lines = lines_that_hold(lowered, "tl.store")  # it loads there too
        return [Experiment("loads", lines, 50.0), Experiment("stores", lines, 90.0)]

    measured_as(monkeypatch, 100.0, done)
    said = diagnose(*COLUMN, target="H200")
    first = said.findings[0]
    assert (first.cause, first.without.kind) == ("sectors", "loads")
    assert first.gain == pytest.approx(2)
    assert "gain: at most 2.0 times: without it the launch takes 50 us, measured" in str(said)
    assert said.summary()["findings"][0]["measured"]
    assert "2 experiments in 0 s: loads 1, stores 1." in str(said)


def test_what_no_rule_explains_is_named_by_its_line(monkeypatch):
    def done(lowered):
        return [Experiment("math", lines_that_hold(lowered, "tl.store"), 20.0)]

    measured_as(monkeypatch, 100.0, done)
    launch = kernels_experiments.SOFTMAX
    said = diagnose(launch.kernel, launch.grid, *launch.args, target="H200")
    first = said.findings[0]
    assert first.what.startswith("divisions, roots and exponentials in line ")
    assert first.what.endswith(": 80% of the time")
    assert "tl.store" in first.text


def test_a_bound_never_promises_more_than_the_bytes_allow(monkeypatch):
    x, out = torch.empty(2**22), torch.empty(2**22)
    launch = kernels_sectors.copy_row_kernel, (4096,), x, out, 1, 1024

    def done(lowered):
        return [Experiment("loads", lines_that_hold(lowered, "tl.store"), 1.0)]

    measured_as(monkeypatch, 10.0, done)
    said = diagnose(*launch, target="H200")
    least_us = 2 * 2**22 * 4 / (4.8e6 * 0.88)
    assert said.findings[0].gain == pytest.approx(10 / least_us, rel=0.01)


def test_a_rule_whose_cause_saves_nothing_is_not_first_and_says_so(monkeypatch):
    def done(lowered):
        lines = lines_that_hold(lowered, "tl.store")
        return [Experiment("loads", lines, 99.0), Experiment("arithmetic", lines, 50.0)]

    measured_as(monkeypatch, 100.0, done)
    said = diagnose(*COLUMN, target="H200")
    assert said.findings[0].cause == "arithmetic"
    assert said.findings[-1].cause == "sectors"
    assert "gain: none by itself, measured" in str(said.findings[-1])


def test_idle_multiprocessors_are_measured_by_clocks(monkeypatch):
    pair = kernels_grid.PAIRS[0]
    assert pair.cause == "few programs"
    measured_as(monkeypatch, 1000.0, busy=0.25)
    said = diagnose(pair.slow.kernel, pair.slow.grid, *pair.slow.args, target="H200")
    assert said.causes[0] == "few programs"
    assert said.findings[0].gain == pytest.approx(4)


def test_programs_that_take_as_long_to_start_as_the_launch_lasts_come_first(monkeypatch):
    measured_as(monkeypatch, 100.0, empty_us=98.0)
    assert diagnose(*COLUMN, target="H200").causes[0] == "starting programs"
    measured_as(monkeypatch, 100.0, empty_us=40.0)
    assert "starting programs" not in diagnose(*COLUMN, target="H200").causes


def test_a_change_that_helped_stands_beside_the_cause_that_explains_it(monkeypatch):
    def done(lowered):
        lines = lines_that_hold(lowered, "atomic_add")
        relaxed = Experiment("relaxed", lines, 45.0, 'sem="relaxed"')
        return [Experiment("atomics", lines, 30.0), relaxed]

    measured_as(monkeypatch, 100.0, done)
    slow = kernels_atomics.PAIRS[0].slow
    said = diagnose(slow.kernel, slow.grid, *slow.args, target="H200")
    assert said.causes.count("fences") == 1
    assert "relaxed" not in said.causes
    first = said.findings[0]
    assert (first.cause, first.cure.cure) == ("fences", 'sem="relaxed"')
    assert 'tried: with sem="relaxed" it takes 45 us, measured, and gives the same' in str(first)


def test_a_change_that_gains_more_than_any_cause_explains_is_one_of_its_own(monkeypatch):
    measured_as(monkeypatch, 100.0, [Experiment("num_warps", (), 20.0, "num_warps=1")])
    first = diagnose(*COLUMN, target="H200").findings[0]
    assert first.what == "num_warps=1: 80% of the time"
    assert "gain: 5.0 times, measured" in str(first)


def test_what_cannot_be_measured_is_said_and_the_estimate_stays(monkeypatch):
    measured_as(monkeypatch, 100.0)

    def fails(*_):
        raise CourseError("the launch itself did not end within 25 s")

    monkeypatch.setattr(api, "experiments_on", fails)
    said = diagnose(*COLUMN, target="H200")
    assert "Nothing could be measured: the launch itself did not end within 25 s." in str(said)
    assert said.causes[0] == "sectors"
    assert said.measured_us is None


def test_a_kernel_that_was_not_followed_is_measured_all_the_same(monkeypatch):
    measured_as(monkeypatch, 100.0, [Experiment("products", (), 40.0)])
    said = diagnose(
        kernels_compiled.product_by_assembly_kernel, (64,), *kernels_compiled.OPERANDS,
        target="H200",
    )  # fmt: skip
    assert said.findings[0].gain == pytest.approx(2.5)
