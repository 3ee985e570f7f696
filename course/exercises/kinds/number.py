"""An exercise whose answer is a number, which may be typed as a text: "268.4 MB", "1,056"."""

import math
import re
from dataclasses import dataclass, field
from numbers import Real
from typing import ClassVar

from course.exercises.result import Judged

from .question import Question, known_slip, no_answer, out_of_a_tuple

TYPED = re.compile(
    r"(?:about|around|~|≈)?\s*"
    r"([-+]?(?:\d{1,3}(?:,\d{3})+|\d+|(?=\.\d))(?:\.\d*)?(?:e[-+]?\d+)?)"
    r"\s*((?![\d,.]).*)",
    re.IGNORECASE,
)
"""The number, and what stands behind it."""

SCALES: tuple[dict[str, float], ...] = (
    {
        "b": 1, "byte": 1, "kb": 1e3, "kilobyte": 1e3, "mb": 1e6, "megabyte": 1e6, "gb": 1e9,
        "gigabyte": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
    },
    {
        "s": 1, "second": 1, "ms": 1e-3, "millisecond": 1e-3, "us": 1e-6, "microsecond": 1e-6,
        "ns": 1e-9, "nanosecond": 1e-9,
    },
)  # fmt: skip
"""What can be measured in several units: each with its size."""


@dataclass(frozen=True)
class NumberExercise(Question):
    """An answer that is a number in a unit."""

    id: str
    right: float
    unit: str
    because: str
    """Said to a right answer: how one gets it."""
    slips: dict[float, str] = field(default_factory=dict)
    """Wrong numbers that people get -> what led there."""
    relative: float = 0.02

    form: ClassVar[str] = "a number"

    def judge(self, answer: object) -> Judged:
        answer = given = out_of_a_tuple(answer)
        wanted = f"a number, in {self.unit}"
        if isinstance(given, str) and (answer := number_in(self.unit, given)) is None:
            return Judged("no answer", f"It must be {wanted}, as 12.5; this is {given!r}.")
        if isinstance(answer, bool) or not isinstance(answer, Real):
            return no_answer(wanted, answer)
        try:
            number = float(answer)
        except OverflowError:
            number = math.inf
        if self._is(self.right, number):
            return Judged("right", self.because)
        return Judged("wrong", *self._objection(number))

    def _is(self, expected: float, number: float) -> bool:
        return math.isclose(number, expected, rel_tol=self.relative)

    def _objection(self, number: float) -> tuple[str, str]:
        """What is wrong with a number, and its kind: a known slip, its unit, or its size."""
        if slip := known_slip(self.slips, lambda value: self._is(value, number)):
            return slip
        if number <= 0 or not math.isfinite(number):
            return f"It must be above zero and finite, in {self.unit}.", "not positive"
        power = round(math.log10(number) - math.log10(self.right))
        if power and self._is(self.right * 10.0**power, number):
            digits = "The digits are right and the power of ten is not"
            return f"{digits}: it must be in {self.unit}.", "power of ten"
        size = "large" if number > self.right else "small"
        return f"It is too {size}. The unit is {self.unit}.", f"too {size}"


def number_in(unit: str, typed: str) -> float | None:
    """The number of a text, in this unit; None where the text is no number, or in a unit of
    something else."""
    match = TYPED.fullmatch(typed.strip().rstrip("."))
    if match is None:
        return None
    number, (given, *_) = float(match[1].replace(",", "")), (*_units(match[2]), "")
    wanted = _units(unit)
    if not given or given in wanted:
        return number
    for scale in SCALES:
        if given in scale and wanted[0] in scale:
            return number * scale[given] / scale[wanted[0]]
    return None


def _units(text: str) -> list[str]:
    """The words of a unit, in small letters and without the s of several."""
    words = re.findall(r"[^\W\d_]+|%", text.lower().replace("µ", "u").replace("μ", "u"))
    return [
        "percent" if word == "%" else word if word in ("s", "us", "ms", "ns") else word.rstrip("s")
        for word in words
    ]
