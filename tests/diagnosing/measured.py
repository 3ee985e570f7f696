"""A diagnosis as on a GPU, with times that are made up."""

from course.diagnosing import api
from course.diagnosing.experiments.clocks import Clocks
from course.diagnosing.experiments.result import Experiments
from course.isolate import warm


def measured_as(monkeypatch, us, done=(), busy=1.0, **fields):
    """From now on `diagnose` finds that a launch takes `us` and what experiments have `done`.

    done: experiments, or a function that gives them for a lowered kernel. busy: the part of the
        multiprocessors that have a program, on average.
    """

    def experiments_on(lowered, launch):
        found = tuple(done(lowered) if callable(done) else done)
        clocks = Clocks(132, us, busy, us, us)
        return Experiments(
            us, fields.pop("spread", 0.0), found, (), clocks, **{"empty_us": None, **fields}
        )

    def only_what_is_needed(*kinds):
        warm(*(kind for kind in kinds if kind != "launch"))

    monkeypatch.setattr(api, "_runs_here", lambda *_: True)
    monkeypatch.setattr(api, "warm", only_what_is_needed)
    monkeypatch.setattr(api, "experiments_on", experiments_on)
