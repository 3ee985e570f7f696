"""What `diagnose` returns: what limits a launch, the largest estimated gain first."""

import html
from dataclasses import dataclass, field
from typing import Any

from course.tracing.result import time_text

from .time_model import Work


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
    line: int = 0
    """The kernel's line; 0 if it is no one line's."""
    text: str = ""
    """The text of that line."""


@dataclass(frozen=True)
class Ranked:
    """A finding with its estimated gain."""

    finding: Finding
    gain: float
    """The estimated time now over the estimated time once it is mended; at least 1."""

    def __str__(self) -> str:
        finding = self.finding
        place = [f"line {finding.line}: {finding.text}"] if finding.line else []
        return "\n".join([finding.what, *place, *self.rows])

    @property
    def rows(self) -> tuple[str, str, str]:
        """What follows the finding and its line."""
        return f"why: {self.finding.why}", f"try: {self.finding.change}", self._gain

    @property
    def _gain(self) -> str:
        if self.finding.mended is None:
            return "gain: not estimated, since the launch was not followed"
        if self.gain < LEAST_GAIN:
            return "gain: none by itself, while something else takes longer"
        return f"gain: about {self.gain:.1f} times, estimated"


LEAST_GAIN = 1.05
"""Below this, a gain is within what the estimate does not know."""
EXPLAINED = 0.7
"""The part of a measured time that the estimate must reach to be said to explain it."""


@dataclass(frozen=True)
class Diagnosis:
    """What limits a launch. Prints as a list, the largest estimated gain first."""

    kernel: str
    target: str
    """The GPU that it is estimated for."""
    programs: int
    ranked: tuple[Ranked, ...]
    facts: tuple[str, ...] = ()
    """What else was seen: sentences that claim no gain."""
    work: Work | None = field(default=None, repr=False)
    """What the launch asks of the GPU; None if it was not followed."""
    measured_us: float | None = None
    """The median time on this machine's GPU, if that is the target."""
    notes: tuple[str, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """The causes, the one with the largest estimated gain first."""
        return [each.finding for each in self.ranked]

    @property
    def causes(self) -> list[str]:
        """The names of the causes, in the same order."""
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
        rows = [
            {
                "cause": each.finding.cause,
                "what": each.finding.what,
                "line": each.finding.line,
                "why": each.finding.why,
                "change": each.finding.change,
                "gain": None if each.finding.mended is None else each.gain,
            }
            for each in self.ranked
        ]
        return {
            "kernel": self.kernel,
            "target": self.target,
            "programs": self.programs,
            "findings": rows,
            "facts": list(self.facts),
            "estimated_us": self.estimated_us,
            "measured_us": self.measured_us,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        programs = f"{self.programs:,} program{'s' if self.programs != 1 else ''}"
        rows = [f"{self.kernel}, {programs}, for {self.target}"]
        for number, each in enumerate(self.ranked, start=1):
            first, *rest = str(each).split("\n")
            rows += [f"{number:3}. {first}", *(f"     {row}" for row in rest)]
        if not self.ranked:
            rows.append("     No rule found a cause.")
        rows += [f"     also: {fact}" for fact in self.facts]
        rows += [f"     {row}" for row in self._times()]
        return "\n".join([*rows, *(f"     {note}" for note in self.notes)])

    __repr__ = __str__

    def _times(self) -> list[str]:
        """The estimate, and beside it what was measured."""
        rows = []
        if self.work is not None:
            part, us = self.work.longest
            rows.append(f"estimated {time_text(self.work.us)}, of which {part} {time_text(us)}")
        if self.measured_us is not None:
            rows.append(f"measured {time_text(self.measured_us)}")
        if self.explained is not None:
            if self.explained < EXPLAINED:
                rows.append(
                    f"The estimate explains {self.explained:.0%} of the measured time: what takes "
                    "the rest is not known here. Profile the kernel before you change it."
                )
            elif self.explained > 1 / EXPLAINED:
                rows.append(
                    f"The estimate is {self.explained:.1f} times the measured time: take the gains "
                    "for an order, and no more."
                )
        return rows

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self.to_html()}

    def to_html(self) -> str:
        """The same as HTML: a list, each finding with its line as code."""
        items = f"<ol>{''.join(map(_item, self.ranked))}</ol>"
        causes = items if self.ranked else "<p>No rule found a cause.</p>"
        facts = "".join(f"<p>also: {html.escape(fact)}</p>" for fact in self.facts)
        rest = "".join(f"<p>{html.escape(row)}</p>" for row in (*self._times(), *self.notes))
        programs = f"{self.programs:,} program{'s' if self.programs != 1 else ''}"
        head = f"<b>{html.escape(self.kernel)}</b>, {programs}, for {html.escape(self.target)}"
        return f"<div><p>{head}</p>{causes}{facts}{rest}</div>"


def _item(ranked: Ranked) -> str:
    finding = ranked.finding
    place = f"line {finding.line}: <code>{html.escape(finding.text)}</code>"
    rows = [f"<b>{html.escape(finding.what)}</b>", *([place] if finding.line else [])]
    return f"<li>{'<br>'.join([*rows, *map(html.escape, ranked.rows)])}</li>"
