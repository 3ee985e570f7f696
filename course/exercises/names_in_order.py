"""An exercise whose answer is several names, in the order of what they name."""

import re
from dataclasses import dataclass, field
from typing import ClassVar

from course.type_names import kind_of

from .kinds import Answer
from .result import Judged


@dataclass(frozen=True)
class NamesInOrder:
    """An answer that is a text with several names, or a list of them."""

    id: str
    right: tuple[str, ...]
    because: str
    """Said to a right answer."""
    slips: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Wrong orders that people give, and what led there."""
    synonyms: dict[str, str] = field(default_factory=dict)
    """Other names that stand for one of these, in small letters; a longer one before a part of it.
    """
    of: str = "names"
    """What the names are of, in a sentence: "stages"."""

    form: ClassVar[str] = "a text with several names"

    def judge(self, answer: Answer) -> Judged:
        names = self._names(answer)
        if names is None:
            form = f"a text in quotes, as '{', '.join(self.right[:1])}, …'"
            return Judged("no answer", f"It must be {form}; this is {kind_of(answer)}.")
        if names == self.right:
            return Judged("right", self.because)
        return Judged("wrong", *self._objection(names))

    def _names(self, answer: Answer) -> tuple[str, ...] | None:
        """The names in an answer, each as `right` has it if it is known; None if it is no text."""
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
        known = dict.fromkeys(sorted(self.right))
        if unknown := [name for name in names if name not in known]:
            is_none = f"{unknown[0]!r} is none of the {self.of}"
            return f"{is_none}: those are {', '.join(known)}.", "unknown"
        if len(names) != len(self.right):
            there = f"{len(names)} name{'s' if len(names) != 1 else ''}"
            wanted = f"{len(self.right)}, one for each line, in order"
            return f"It has {there}, and must have {wanted}.", there
        for place, (wrong, slip) in enumerate(self.slips.items(), start=1):
            if names == wrong:
                return slip, f"slip {place}"
        placed = sum(name == right for name, right in zip(names, self.right, strict=True))
        return f"{placed} of the {len(self.right)} stand in the right place.", "order"
