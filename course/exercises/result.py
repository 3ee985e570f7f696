"""What a check returns: a verdict with its reason, in a sentence or a few."""

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from course.errors import CourseError

if TYPE_CHECKING:
    from course.tracing.replay import Replay

Verdict = Literal[
    "right", "wrong", "does not compile", "race", "reads outside", "writes outside",
    "false promise", "deadlock", "hazard", "crashed", "stopped", "left to the GPU", "no answer",
    "to do",
]  # fmt: skip
"""`false promise`: it tells the compiler by tl.multiple_of or the like what does not hold.
`deadlock`: everybody waits. `hazard`: shared memory or a barrier is used too early or too late.
`no answer`: not what the exercise asks for, such as a tensor for a number. `stopped`: at a
limit of time or memory, so that nothing is known. `left to the GPU`: the interpreter cannot run it,
and there is no GPU."""

NO_TRY: tuple[Verdict, ...] = ("to do", "no answer", "stopped", "left to the GPU")
"""Verdicts that say nothing of what the learner knows: they do not count as a try."""

# Okabe and Ito's green and vermilion, and a gray, which people with any color vision can tell
# apart. They color an edge beside the text, so that the text can be read in light and in dark.
RIGHT, WRONG, UNDECIDED = ("✔", "#009E73"), ("✘", "#D55E00"), ("○", "#999999")
"""A verdict's sign and color in a notebook."""

MIME = "application/vnd.triton-course.checked+json"
MOST_COLUMNS = 300


class Judged(NamedTuple):
    """A verdict, and why: a sentence or a few lines."""

    verdict: Verdict
    reason: str = ""
    kind: str = ""
    """What was found to be wrong, by a short name that stays the same however the sentence is
    written: "slip 2" for the exercise's second slip, "wrong in case 1", "arrivals"."""


def wrong(kind: str, reason: str) -> Judged:
    """The verdict "wrong", for one kind of mistake."""
    return Judged("wrong", reason, kind)


@dataclass(frozen=True)
class Checked:
    """What came of a check. Prints as a sentence or a few."""

    exercise: str
    verdict: Verdict
    reason: str = ""
    kind: str = ""
    """As `Judged` has it."""
    notes: list[str] = field(default_factory=list)
    stepper: Callable[[], "Replay"] | None = field(default=None, repr=False, compare=False)
    """Traces the launch in which it goes wrong."""

    def replay(self) -> "Replay":
        """Step through the program that went wrong. Raises CourseError where none did."""
        if self.stepper is None:
            raise CourseError(f"{self.exercise}: {self.verdict}. There is nothing to step through.")
        return self.stepper()

    @property
    def right(self) -> bool:
        return self.verdict == "right"

    def __str__(self) -> str:
        head = f"{self.exercise}: {self.verdict}."
        lines = [*self.reason.splitlines(), *self.notes]
        return "\n".join([head, *(f"    {shortened(line)}" for line in lines)])

    __repr__ = __str__

    def _repr_mimebundle_(self, **_: object) -> dict[str, str | dict[str, str]]:
        sign, color = sign_and_color(self.verdict)
        text = f"{sign} {self}"
        edge = f"border-left:5px solid {color};padding:2px 0 2px 10px"
        wrap = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
        code = f'<code style="{wrap}">{html.escape(text)}</code>'
        # The last is for `course check`, which reads it from the notebook.
        row = {"exercise": self.exercise, "verdict": self.verdict, "text": str(self)}
        return {"text/plain": text, "text/html": f'<pre style="{edge}">{code}</pre>', MIME: row}


def sign_and_color(verdict: str) -> tuple[str, str]:
    """A verdict's sign, and its color as #RRGGBB. One that is no check's counts as wrong."""
    return RIGHT if verdict == "right" else UNDECIDED if verdict in NO_TRY else WRONG


def shortened(line: str) -> str:
    """A line short enough to read, without what would steer a terminal."""
    shown = printable(line, kept="\t")
    if len(shown) <= MOST_COLUMNS:
        return shown
    whole_words, _, _ = shown[: MOST_COLUMNS + 1].rpartition(" ")
    return f"{whole_words if len(whole_words) > MOST_COLUMNS // 2 else shown[:MOST_COLUMNS]} …"


def printable(text: str, kept: str = "\n\t") -> str:
    """A text whose control characters, but those `kept`, are written out: a terminal obeys them."""
    return "".join(
        char if char.isprintable() or char in kept else repr(char)[1:-1] for char in text
    )
