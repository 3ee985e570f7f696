"""Which cause an experiment is about: what was measured, beside what the rules have counted."""

from collections.abc import Iterator
from dataclasses import replace

from course.lowering.locations import Frame

from ..evidence import Evidence
from ..result import LEAST_GAIN, Finding
from .ptx_variants import ADDRESSES, DIVISIONS, MEMORY
from .result import Experiment, Experiments
from .words import WORDS

LEAST_BOUND = 1.15
"""A smaller gain is not named: even a plain copy of a tensor gains that much without its loads."""
NEARLY_ALL = 0.8
"""A single line is what matters if it saves this part of what all lines of its kind save."""
HELPED = 0.7
"""The part of a change's gain that a cause must explain, for the change to be its cure."""
UNEXPLAINED = 0.7
"""A gain that no rule has a reason for counts for this part of it: maybe nothing reaches it."""
BOTH = 1.3
"""Loads and stores together are named in place of each where they gain so many times as much."""
JOINED = 8
"""How many small programs one larger one stands for."""
BINDS = 0.7
"""Starting programs is what limits a launch if programs that do nothing take this part of its time:
else they start while others move data."""
ALL_BYTES = 0.7
"""A launch that takes less than this part of what its bytes take has lost loads or stores too."""
LAUNCH_US = 3
"""How long a launch of a single program that does nothing takes on an H200."""
LEAST_SPAN_US = 20
"""How long a launch must last for clocks to tell much: some tick once in a microsecond."""
COMPUTING = ("products", "exchange", "math", "arithmetic")
"""Kinds of which all loads and stores stay."""
GRID = ("idle multiprocessors", "starting programs")
CAUSES = {
    "loads": ("sectors", "narrow", "shared reads", "small tiles", "repeats", "pipelining"),
    "stores": ("sectors", "narrow", "repeats"),
    "atomics": ("sectors", "fences", "repeats", "contention"),
    "relaxed": ("fences",),
    "memory": ("sectors", "narrow", "repeats"),
    ADDRESSES: ("sectors", "narrow", "repeats", "instructions"),
    "waiting": ("locks",),
    "products": ("tensor cores", "older dot"),
    "exchange": ("reductions",),
    "math": ("instructions", "float64"),
    DIVISIONS: ("instructions",),
    "arithmetic": ("instructions", "float64", "tensor cores"),
    "float32": ("float64",),
    "num_warps": ("spills", "occupancy"),
    "num_stages": ("pipelining",),
    "idle multiprocessors": ("few programs", "last wave", "uneven programs"),
    "starting programs": ("small programs",),
}
"""A kind of experiment -> the causes that it measures."""


def blamed(
    evidence: Evidence, findings: tuple[Finding, ...], experiments: Experiments
) -> tuple[Finding, ...]:
    """The findings in the order of what experiments have saved, with one for each experiment that
    no rule explains. What no experiment is about comes behind them, by its estimate."""
    named, left = [], [*findings]
    measured = sorted(weighed(evidence, experiments), key=lambda pair: -pair[1])
    for experiment, gain in measured:
        own = [each for each in left if _is_about(evidence, experiment, each)]
        if gain >= _least(experiment):
            left = [each for each in left if each not in own]
            found = own or [unexplained(evidence, experiment, experiments)]
            named += [replace(each, without=experiment, gain=gain) for each in found]
        elif not experiment.cure:  # that one change does not help says nothing of the cause
            left = [each for each in left if each not in own or each.always]
            none = {id(each): replace(each, without=experiment, gain=1) for each in own}
            left = [none.get(id(each), each) for each in left]
    ordered = sorted(left, key=lambda each: (each.without is not None, -each.gain))
    kept = [each for each in ordered if each.always or each.gain >= LEAST_GAIN]
    return tuple(_in_order(_with_cures(named, experiments.us), kept, experiments.us))


def _in_order(named: list[Finding], left: list[Finding], us: float) -> list[Finding]:
    """What was measured, and behind it what was not. Only a cause that no experiment is about comes
    before a saving that counts for less and that no rule explains, and before a change that helps:
    a parameter is no reason. What is certain comes first."""
    certain = [each for each in left if each.certain and not each.without]
    left = [each for each in left if each not in certain]
    if not left or left[0].without:
        return [*certain, *named, *left]

    def comes_later(finding: Finding) -> bool:
        if _is_change(finding):
            return left[0].gain >= LEAST_BOUND
        return _is_unexplained(finding) and _weight(finding, us) < left[0].gain

    later = [each for each in named if comes_later(each)]
    sooner = [each for each in named if each not in later]
    return [*certain, *sooner, left[0], *later, *left[1:]]


def weighed(evidence: Evidence, experiments: Experiments) -> Iterator[tuple[Experiment, float]]:
    """The experiments that matter, with what mending what they took out gains at most."""
    busy = _busy(experiments)
    gains = {
        each: experiments.us
        / max(each.us, 0.0 if each.cure else evidence.least_us(1 if each.kind in GRID else busy))
        for each in [*_telling(experiments), *_of_grid(experiments)]
    }
    one = max((gain for each, gain in gains.items() if each.kind in MEMORY), default=0)
    least_us = ALL_BYTES * evidence.least_us()
    for each, gain in gains.items():
        if each.kind in COMPUTING and each.us < least_us:
            continue
        if each.kind not in ("memory", ADDRESSES) or gain >= BOTH * one:
            yield each, gain


def _telling(experiments: Experiments) -> Iterator[Experiment]:
    """The single lines of each kind, or all lines together where no line saves most by itself, and
    the best change of each parameter."""
    kinds = dict.fromkeys(each.kind for each in experiments.done)
    for kind in kinds:
        own = [each for each in experiments.done if each.kind == kind]
        if own[0].cure:
            yield min(own, key=lambda each: each.us)
            continue
        together = max(own, key=lambda each: len(each.lines))
        single = [each for each in own if each is not together] or own
        saved = experiments.us - together.us
        best = experiments.us - min(each.us for each in single)
        yield from single if best >= NEARLY_ALL * saved else [together]


def _of_grid(experiments: Experiments) -> Iterator[Experiment]:
    """What clocks say of idle multiprocessors, and an empty launch of the start of programs."""
    us, starting_us = experiments.us, (experiments.empty_us or 0) - LAUNCH_US
    yield Experiment("idle multiprocessors", (), us * _busy(experiments))
    if starting_us >= BINDS * us:
        yield Experiment("starting programs", (), us - starting_us * (1 - 1 / JOINED))


def _busy(experiments: Experiments) -> float:
    """The part of the multiprocessors that have a program, on average; 1 where clocks are too
    coarse to tell."""
    clocks = experiments.clocks
    return clocks.busy if clocks and clocks.span_us >= LEAST_SPAN_US else 1


def _least(experiment: Experiment) -> float:
    return LEAST_GAIN if experiment.cure else LEAST_BOUND


def _is_about(evidence: Evidence, experiment: Experiment, finding: Finding) -> bool:
    """Whether an experiment measures what a finding is about."""
    if finding.cause not in CAUSES.get(experiment.kind, ()):
        return False
    places = set(_places(evidence, finding))
    return not places or not experiment.lines or bool(places & set(experiment.lines))


def _places(evidence: Evidence, finding: Finding) -> Iterator[Frame]:
    """The lines that a finding is about; for a loop those of its loads too."""
    if finding.place:
        yield finding.place.frame
        for loop in evidence.loops:
            if finding.cause == "pipelining" and loop.line == finding.place:
                yield from (call[:2] for call in loop.loads)


def unexplained(evidence: Evidence, experiment: Experiment, experiments: Experiments) -> Finding:
    """A finding for what was measured and no rule has a reason for."""
    what, why, change = WORDS[experiment.kind]
    part = 1 - experiment.us / experiments.us
    lines = sorted(evidence.line(frame).number for frame in experiment.lines)
    where = (
        f" in line{'s' if len(lines) > 1 else ''} {' and '.join(map(str, lines))}" if lines else ""
    )
    said = f"{what}{where}: {part:.0%} of the time"
    if experiment.cure:
        said = f"with {experiment.cure} the launch takes {part:.0%} less time"
    return Finding(
        experiment.kind,
        said,
        why,
        change,
        place=evidence.line(experiment.lines[0]) if experiment.lines else None,
    )


def _is_unexplained(finding: Finding) -> bool:
    return finding.cause in WORDS and not _is_change(finding)


def _is_change(finding: Finding) -> bool:
    """Whether a finding is no more than a change that helps."""
    return finding.cause in WORDS and bool(finding.without and finding.without.cure)


def _with_cures(named: list[Finding], us: float) -> list[Finding]:
    """The findings by what they count for, with each change that helped beside the first cause that
    explains its gain, in place of a finding of its own.

    us: the time of the launch as it is.
    """
    cures = [each for each in named if _is_change(each)]
    causes = sorted(
        (each for each in named if each not in cures), key=lambda each: -_weight(each, us)
    )
    for cure in cures:
        number = next((n for n, each in enumerate(causes) if each.gain >= HELPED * cure.gain), None)
        if number is None or causes[number].cure:
            causes.append(cure)
        else:
            own = causes[number]
            causes[number] = replace(own, cure=cure.without, gain=max(own.gain, cure.gain))
    return sorted(causes, key=lambda each: -_weight(each, us))


def _weight(finding: Finding, us: float) -> float:
    """What a finding counts for among others."""
    if not _is_unexplained(finding):
        return finding.gain
    reached = us / finding.cure.us if finding.cure else 0
    return max(UNEXPLAINED * finding.gain, reached)
