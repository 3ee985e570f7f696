"""Exercises whose answer is a value: a number, a letter, a text, or several names in order.

A number may be typed as a text: "268.4 MB", "1,056".
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TypeVar

from course.exercises.result import Checked, Judged
from course.type_names import kind_of

T = TypeVar("T")


class Question:
    """An exercise whose answer is no code: it is judged in this process."""

    name: str

    def judge(self, answer: object) -> Judged:
        """The verdict of an answer."""
        raise NotImplementedError

    def check(self, answer: object) -> Checked:
        """What `check` returns for an answer."""
        return Checked(self.name, *self.judge(answer))


def no_answer(must_be: str, answer: object) -> Judged:
    """The verdict for a value of another type than the exercise asks for."""
    return Judged("no answer", f"It must be {must_be}; this is {kind_of(answer)}.")


def known_slip(slips: Mapping[T, str], is_made: Callable[[T], bool]) -> tuple[str, str] | None:
    """What is said of the first slip that was made, and its kind.

    slips: wrong answers that people give -> what led there.
    """
    for place, (wrong, says) in enumerate(slips.items(), start=1):
        if is_made(wrong):
            return says, f"slip {place}"
    return None


def out_of_a_tuple(answer: object) -> object:
    """What stands alone in a tuple or a list, which a comma too many makes; else the answer."""
    return answer[0] if isinstance(answer, (tuple, list)) and len(answer) == 1 else answer


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

    name: str
    right: float
    unit: str
    because: str
    """Said to a right answer: how one gets it."""
    slips: dict[float, str] = field(default_factory=dict)
    """Wrong numbers that people get -> what led there."""
    relative: float = 0.02

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


LETTER = re.compile(r"[\s(]*([a-z])\s*(?:$|[).:,;=-])")
"""A letter alone, or before what it stands for, as "c: x[1:, :32]"."""


@dataclass(frozen=True)
class ChoiceExercise(Question):
    """An answer that is one letter of those in the statement."""

    name: str
    right: str
    why: dict[str, str]
    """letter -> what speaks for or against it"""

    def judge(self, answer: object) -> Judged:
        answer = out_of_a_tuple(answer)
        match = LETTER.match(answer.lower()) if isinstance(answer, str) else None
        letter = match[1] if match else ""
        if letter not in self.why:
            return Judged("no answer", f"It must be one of {', '.join(map(repr, self.why))}.")
        if letter == self.right:
            return Judged("right", self.why[letter])
        return Judged("wrong", self.why[letter], letter)


@dataclass(frozen=True)
class TextExercise(Question):
    """An answer that is a word or a line."""

    name: str
    accepts: tuple[str, ...]
    """The right texts. What does not count: spaces, commas, semicolons, "and", quotes at both ends,
    a full stop and capitals."""
    because: str
    slips: dict[str, str] = field(default_factory=dict)
    """Wrong texts that people give -> what led there."""

    def judge(self, answer: object) -> Judged:
        if isinstance(answer, (tuple, list)):
            answer = ", ".join(map(str, answer))
        if not isinstance(answer, str):
            return no_answer("a text, in quotes", answer)
        text = _plain(answer)
        if text in map(_plain, self.accepts):
            return Judged("right", self.because)
        slip = known_slip(self.slips, lambda wrong: text == _plain(wrong))
        if slip:
            return Judged("wrong", *slip)
        given, right = answer.split(","), self.accepts[0].split(",")
        pairs = enumerate(zip(given, right, strict=False), start=1)
        wrong = [str(place) for place, (one, other) in pairs if _plain(one) != _plain(other)]
        which = f": look at number {' and '.join(wrong)} of {len(right)}" if len(right) > 1 else ""
        told = which if len(given) == len(right) else ""
        return Judged("wrong", f"It is not {answer.strip()!r}{told}.", "other")


def _plain(text: str) -> str:
    words = re.sub(r"[,;]|\band\b", " ", text.strip().rstrip("."))
    return "".join(words.split()).strip("'\"`").lower()


@dataclass(frozen=True)
class NamesExercise(Question):
    """An answer that is a text with several names, or a list of them."""

    name: str
    right: tuple[str, ...]
    because: str
    """Said to a right answer."""
    slips: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Wrong orders that people give -> what led there."""
    synonyms: dict[str, str] = field(default_factory=dict)
    """Other names that stand for one of these, in small letters; a longer one before a part of it.
    """
    of: str = "names"
    """What the names are of, in a sentence: "stages"."""

    def judge(self, answer: object) -> Judged:
        names = self._names(answer)
        if names is None:
            return no_answer(f"a text in quotes, as '{self.right[0]}, …'", answer)
        if names == self.right:
            return Judged("right", self.because)
        return Judged("wrong", *self._objection(names))

    def _names(self, answer: object) -> tuple[str, ...] | None:
        """The names in an answer, each as `right` has it if it is known; None without a text."""
        texts = [answer] if isinstance(answer, str) else answer
        if not isinstance(texts, (list, tuple)) or not all(isinstance(t, str) for t in texts):
            return None
        text = ", ".join(texts).lower()
        for other, name in self.synonyms.items():
            text = re.sub(rf"\b{re.escape(other)}\b", name, text)
        return tuple(re.findall(r"[\w-]+", re.sub(r"\band\b", " ", text)))

    def _objection(self, names: tuple[str, ...]) -> tuple[str, str]:
        """What is wrong with the names, and its kind: an unknown one, their number, or their
        order."""
        known = sorted(set(self.right))
        if unknown := [name for name in names if name not in known]:
            is_none = f"{unknown[0]!r} is none of the {self.of}"
            return f"{is_none}: those are {', '.join(known)}.", "unknown"
        if len(names) != len(self.right):
            there = f"{len(names)} name{'s' if len(names) != 1 else ''}"
            wanted = f"{len(self.right)}, one for each line, in order"
            return f"It has {there}, and must have {wanted}.", there
        if slip := known_slip(self.slips, lambda wrong: names == wrong):
            return slip
        placed = sum(name == right for name, right in zip(names, self.right, strict=True))
        return f"{placed} of the {len(self.right)} stand in the right place.", "order"
