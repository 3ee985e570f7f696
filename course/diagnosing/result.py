"""What `diagnose` returns: what limits a launch, the largest estimated gain first."""

import html
from dataclasses import dataclass, field
from typing import Any

from course.lowering.source_map import SourceLine
from course.tracing.result import time_text

from .experiments.result import Experiment, Experiments
from .time_model import Work

LEAST_GAIN = 1.05
"""Below this, a gain is within what the estimate does not know."""
EXPLAINED = 0.7
"""The part of a measured time that the estimate must reach to be said to explain it."""


@dataclass(frozen=True)
class Finding:
    """One cause that costs a kernel time, with its number, its place and what to do."""

    cause: str
    """Its name, as "sectors" or "spills": the same for all findings of one rule."""
    what: str
    """What was counted, as a clause that begins with the number's subject."""
    why: str
    """The reason, as a sentence."""
    change: str
    """The change to try, as a sentence."""
    mended: Work | None = None
    """The work of the launch once this is mended; None if the gain is not estimated."""
    place: SourceLine | None = None
    """The kernel's line; None if the cause has no line of its own."""
    always: bool = False
    """Whether it is named although mending it by itself gains nothing."""
    certain: bool = False
    """Whether it stands before all that is estimated: half of the GPU has nothing to do, or half of
    the work is for nothing."""
    gain: float = 1
    """The time now over the time once it is mended, estimated or measured; at least 1."""
    without: Experiment | None = None
    """The experiment that the gain is taken from; None where it is only estimated."""
    cure: Experiment | None = None
    """A change of a parameter that was tried, and helped."""

    @property
    def line(self) -> int:
        """The number of the kernel's line; 0 if the cause has no line of its own."""
        return self.place.number if self.place else 0

    @property
    def text(self) -> str:
        """The text of that line."""
        return self.place.text.strip() if self.place else ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The rows that follow the finding and its line."""
        cured = self.cure and f"with {self.cure.cure} it takes {time_text(self.cure.us)}, measured"
        tried = [f"tried: {cured}, and gives the same"] if cured else []
        return f"why: {self.why}", f"try: {self.change}", *tried, f"gain: {self._gain}"

    @property
    def _gain(self) -> str:
        """What is said of the gain."""
        if self.without and self.gain < LEAST_GAIN:
            return "none by itself, measured"
        if self.without and self.without.cure:
            return f"{self.gain:.1f} times, measured"
        if self.without:
            least = f"without it the launch takes {time_text(self.without.us)}, measured"
            return f"up to {self.gain:.1f} times: {least}"
        if self.mended is None:
            return "not estimated, since the launch was not followed"
        if self.gain < LEAST_GAIN:
            return "none by itself, while something else takes longer"
        return f"about {self.gain:.1f} times, estimated"

    def __str__(self) -> str:
        place = [f"line {self.line}: {self.text}"] if self.place else []
        return "\n".join([self.what, *place, *self.reasons])

    def to_html(self) -> str:
        """The same as HTML: what was counted in bold, and the line as code."""
        place = f"line {self.line}: <code>{html.escape(self.text)}</code>"
        rows = [f"<b>{html.escape(self.what)}</b>", *([place] if self.place else [])]
        return "<br>".join([*rows, *map(html.escape, self.reasons)])


@dataclass(frozen=True)
class Diagnosis:
    """What limits a launch. Prints as a list, the largest estimated gain first."""

    kernel: str
    target: str
    """The GPU that it is estimated for."""
    programs: int
    findings: tuple[Finding, ...]
    """The causes, the one with the largest estimated gain first."""
    facts: tuple[str, ...] = ()
    """What else was seen: sentences that claim no gain."""
    work: Work | None = field(default=None, repr=False)
    """What the launch asks of the GPU; None if it was not followed."""
    measured_us: float | None = None
    """The median time on this machine's GPU, if that is the target."""
    notes: tuple[str, ...] = ()
    experiments: Experiments | None = None
    """What was measured with parts of the kernel taken out; None without a GPU."""

    @property
    def causes(self) -> list[str]:
        """The names of the causes, in the order of the findings."""
        return [finding.cause for finding in self.findings]

    @property
    def estimated_us(self) -> float | None:
        """The estimated time in microseconds; None if the launch was not followed."""
        return None if self.work is None else self.work.us

    @property
    def explained(self) -> float | None:
        """The estimated time over the measured one; None without a measurement."""
        if self.measured_us is None or self.estimated_us is None:
            return None
        return self.estimated_us / self.measured_us

    def summary(self) -> dict[str, Any]:
        """All of it as JSON: the causes with their gains, the facts, the times in microseconds."""
        fields = ("cause", "what", "line", "why", "change")
        return {
            "kernel": self.kernel,
            "target": self.target,
            "programs": self.programs,
            "findings": [
                {name: getattr(each, name) for name in fields}
                | {
                    "gain": each.gain if each.mended or each.without else None,
                    "measured": bool(each.without),
                    "tried": each.cure.cure if each.cure else "",
                }
                for each in self.findings
            ],
            "facts": list(self.facts),
            "estimated_us": self.estimated_us,
            "measured_us": self.measured_us,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        causes = [
            f"{number:3}. " + str(finding).replace("\n", "\n     ")
            for number, finding in enumerate(self.findings, start=1)
        ]
        rows = [] if causes else ["No rule found a cause."]
        rows += self._rest()
        head = f"{self.kernel}{self._launch}"
        return "\n".join([head, *causes, *(f"     {row}" for row in rows)])

    __repr__ = __str__

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self.to_html()}

    def to_html(self) -> str:
        """The same as HTML: a list, each finding with its line as code."""
        items = "".join(f"<li>{finding.to_html()}</li>" for finding in self.findings)
        causes = f"<ol>{items}</ol>" if items else "<p>No rule found a cause.</p>"
        rest = "".join(f"<p>{html.escape(row)}</p>" for row in self._rest())
        head = f"<b>{html.escape(self.kernel)}</b>{html.escape(self._launch)}"
        return f"<div><p>{head}</p>{causes}{rest}</div>"

    @property
    def _launch(self) -> str:
        """What follows the kernel's name: the size of the launch, and the GPU."""
        return f", {self.programs:,} program{'s' if self.programs != 1 else ''}, for {self.target}"

    def _rest(self) -> list[str]:
        """What follows the causes: facts, the estimate beside what was measured, and notes."""
        rows = [f"also: {fact}" for fact in self.facts]
        if self.work is not None:
            part, us = self.work.longest
            rows.append(f"estimated {time_text(self.work.us)}, of which {part} {time_text(us)}")
        if self.measured_us is not None:
            rows.append(f"measured {time_text(self.measured_us)}")
        tried = self.experiments is not None and self.experiments.done
        if tried or self.explained is None:
            pass  # what was measured part by part needs no estimate
        elif self.explained < EXPLAINED:
            rows.append(
                f"The estimate explains {self.explained:.0%} of the measured time: what takes the "
                "rest is not known here. Profile the kernel before you change it."
            )
        elif self.explained > 1 / EXPLAINED:
            rows.append(
                f"The estimate is {self.explained:.1f} times the measured time: trust the order of "
                "the gains, and no more than that."
            )
        return [*rows, *self.notes, *(self.experiments.notes if self.experiments else [])]
