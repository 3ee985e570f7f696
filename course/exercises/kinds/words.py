"""Exercises whose answer is a letter, a text, or several names in the order of what they name."""

import re
from dataclasses import dataclass, field
from typing import ClassVar

from course.exercises.result import Judged

from .question import Question, known_slip, no_answer, out_of_a_tuple

LETTER = re.compile(r"[\s(]*([a-z])\s*(?:$|[).:,;=-])")
"""A letter alone, or before what it stands for, as "c: x[1:, :32]"."""


@dataclass(frozen=True)
class ChoiceExercise(Question):
    """An answer that is one letter of those in the statement."""

    id: str
    right: str
    why: dict[str, str]
    """letter -> what speaks for or against it"""

    form: ClassVar[str] = "a letter"

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

    id: str
    accepts: tuple[str, ...]
    """The right texts. What does not count: spaces, commas, semicolons, "and", quotes at both ends,
    a full stop and capitals."""
    because: str
    slips: dict[str, str] = field(default_factory=dict)
    """Wrong texts that people give -> what led there."""

    form: ClassVar[str] = "a text"

    def judge(self, answer: object) -> Judged:
        if isinstance(answer, (tuple, list)):
            answer = ", ".join(map(str, answer))
        if not isinstance(answer, str):
            return no_answer("a text, in quotes", answer)
        text = _plain(answer)
        if text in map(_plain, self.accepts):
            return Judged("right", self.because)
        slip = known_slip(self.slips, lambda wrong: text == _plain(wrong))
        return Judged("wrong", *(slip or (f"It is not {answer.strip()!r}.", "other")))


def _plain(text: str) -> str:
    words = re.sub(r"[,;]|\band\b", " ", text.strip().rstrip("."))
    return "".join(words.split()).strip("'\"`").lower()


@dataclass(frozen=True)
class NamesExercise(Question):
    """An answer that is a text with several names, or a list of them."""

    id: str
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

    form: ClassVar[str] = "a text with several names"

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
