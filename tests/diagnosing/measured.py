"""Diagnoses as on a GPU, with times that are made up or were recorded."""

from dataclasses import replace

import pytest

from course import diagnose
from course.diagnosing import api
from course.diagnosing.evidence import Evidence
from course.diagnosing.experiments.blame import blamed
from course.diagnosing.experiments.clocks import Clocks
from course.diagnosing.experiments.result import Experiments
from course.diagnosing.rules import findings_of
from course.isolate import warm


def experiments(us, done=(), busy=1.0, **fields):
    """What came of experiments with a launch that takes `us`.

    busy: the part of the multiprocessors that have a program, on average.
    """
    clocks = Clocks(1000.0, busy)
    fields = {"spread": 0.0, "dropped": (), "clocks": clocks, "empty_us": None} | fields
    return Experiments(us, done=tuple(done), **fields)


def measured_as(monkeypatch, found):
    """From now on `diagnose` takes this for what experiments have found."""
    monkeypatch.setattr(api, "runs_here", lambda *_: True)
    monkeypatch.setattr(api, "warm", lambda *kinds: warm(*(k for k in kinds if k != "launch")))
    monkeypatch.setattr(api, "experiments_on", lambda *_: found)


class Asked:
    """A launch that `diagnose` was asked about once, without a GPU."""

    def __init__(self, kernel, grid, *args, **options):
        with pytest.MonkeyPatch.context() as patch:
            seen = []
            patch.setattr(api, "Evidence", lambda *parts: seen.append(Evidence(*parts)) or seen[0])
            self.said = diagnose(kernel, grid, *args, target="H200", **options)
        (self.evidence,) = seen
        self.lowered = self.evidence.lowered

    def lines(self, text):
        """The lines of the kernel that hold a text."""
        return tuple(line.frame for line in self.lowered.source_lines() if text in line.text)

    def measured(self, found):
        """What `diagnose` would say with these experiments."""
        rated = api.ranked([*findings_of(self.evidence)], self.evidence.work)
        return replace(
            self.said,
            findings=blamed(self.evidence, rated, found),
            measured_us=found.us,
            experiments=found,
        )
