"""The kinds of exercise. An exercise is data: what a right answer does, and what usual wrong ones have in common.

Its statement, its stub and its hints stand in the lesson (`statements.py` reads them there).
"""

import math
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch

from course.verifying.inputs import Case

Verdict = Literal[
    "right", "wrong", "does not compile", "race", "reads outside", "writes outside", "crashed", "stopped", "left to the GPU",
    "no answer", "to do",
]  # fmt: skip
"""`no answer`: not what the exercise asks for, such as a tensor for a number. `stopped`: at a limit of time or memory, so that
nothing is known; it is no try. `left to the GPU`: the interpreter cannot run it, and no GPU is there."""

Judged = tuple[Verdict, str]
"""A verdict and its reason, a sentence."""


@dataclass(frozen=True)
class Code:
    """An answer that is run: on `cases`, against `reference` in float64, and compiled."""

    id: str
    parameters: tuple[str, ...]
    """The names of the answer's parameters, as its stub has them."""
    reference: Callable[..., torch.Tensor]
    """In PyTorch, of a case's tensors and scalars."""
    cases: tuple[Case, ...]
    absolute: float = 0.0
    """Error allowed on top of the dtype's tolerance, for results that cancel."""
    contiguous: bool = False
    """Whether the result must be."""
    block: int | None = None
    """Elements that one program may well take: far more programs are wrong, but none are by default."""
    longer: Callable[[int], Case] | None = None
    """Makes, of what a grid of fixed size can write, a case of which that grid leaves some out."""
    most_launches: int | None = None
    most_bytes: Callable[..., int] | None = None
    """Of a case's tensors and scalars: the most that kernels may load and store together."""
    may_copy: bool = True
    """Whether PyTorch may copy the inputs first, as `.contiguous()` does."""
    compiled: Callable[[dict[str, str]], str] | None = None
    """Of the stages of a kernel that was compiled: what is wrong with it, or nothing."""
    in_float32: bool = False
    """Whether arithmetic on 16-bit floats is wrong, as it rounds on the way."""
    timeout_s: float = 10
    """For how long it may compute."""

    form: ClassVar[str]

    def function(self, answer: Any) -> Callable[..., torch.Tensor]:
        """What is tried on the cases."""
        raise NotImplementedError


@dataclass(frozen=True)
class Kernel(Code):
    """An answer under @triton.jit: the exercise allocates the output and makes the grid."""

    launch: Callable[..., torch.Tensor] = field(kw_only=True)
    """Of the kernel and a case's tensors and scalars: launches it and returns the output."""

    form = "a kernel, a function under @triton.jit"

    def function(self, answer: Any) -> Callable[..., torch.Tensor]:
        return lambda *inputs: self.launch(answer, *inputs)


@dataclass(frozen=True)
class Launcher(Code):
    """An answer that is a plain function: it allocates the output, makes the grid, and launches kernels of its own."""

    block: int | None = 1024
    trials: int = 0
    """The configurations that `@triton.autotune` must try in the first case."""

    form = "a launcher, a plain function that launches a kernel and returns a tensor"

    def function(self, answer: Any) -> Callable[..., torch.Tensor]:
        function: Callable[..., torch.Tensor] = answer
        return function


@dataclass(frozen=True)
class Number:
    """An answer that is a number in a unit."""

    id: str
    right: float
    unit: str
    because: str
    """Said to a right answer: how one gets it."""
    slips: tuple[tuple[float, str], ...] = ()
    """Wrong numbers that people get, and what led there."""
    relative: float = 0.02

    form = "a number"

    def judge(self, answer: Any) -> Judged:
        if isinstance(answer, bool) or not isinstance(answer, numbers.Real):
            return (
                "no answer",
                f"It must be a number, in {self.unit}; this is a {type(answer).__name__}.",
            )
        try:
            answer = float(answer)
        except OverflowError:
            answer = math.inf
        if math.isclose(answer, self.right, rel_tol=self.relative):
            return "right", self.because
        for value, slip in self.slips:
            if math.isclose(answer, value, rel_tol=self.relative):
                return "wrong", slip
        if answer <= 0 or not math.isfinite(answer):
            return "wrong", f"It must be above zero and finite, in {self.unit}."
        power = round(math.log10(answer) - math.log10(self.right))
        if power and math.isclose(answer, self.right * 10.0**power, rel_tol=self.relative):
            return (
                "wrong",
                f"The digits are right and the power of ten is not: it must be in {self.unit}.",
            )
        return (
            "wrong",
            f"It is too {'large' if answer > self.right else 'small'}. The unit is {self.unit}.",
        )


@dataclass(frozen=True)
class Choice:
    """An answer that is one letter of those in the statement."""

    id: str
    right: str
    why: dict[str, str]
    """For every letter, what speaks for or against it."""

    form = "a letter"

    def judge(self, answer: Any) -> Judged:
        letters = ", ".join(repr(letter) for letter in self.why)
        letter = answer.strip(" ().").lower() if isinstance(answer, str) else None
        if letter not in self.why:
            return "no answer", f"It must be one of {letters}."
        return "right" if letter == self.right else "wrong", self.why[letter]


@dataclass(frozen=True)
class Text:
    """An answer that is a word or a line."""

    id: str
    accepts: tuple[str, ...]
    """The right texts; spaces, commas, semicolons, "and", quotes at both ends, a full stop and capitals do not count."""
    because: str
    slips: dict[str, str] = field(default_factory=dict)
    """Wrong texts that people give, and what led there."""

    form = "a text"

    def judge(self, answer: Any) -> Judged:
        if not isinstance(answer, str):
            return "no answer", f"It must be a text, in quotes; this is a {type(answer).__name__}."
        given = _plain(answer)
        if given in map(_plain, self.accepts):
            return "right", self.because
        for text, slip in self.slips.items():
            if given == _plain(text):
                return "wrong", slip
        return "wrong", f"It is not {answer.strip()!r}."


def _plain(text: str) -> str:
    words = re.sub(r"[,;]|\band\b", " ", text.strip().rstrip("."))
    return "".join(words.split()).strip("'\"`").lower()


Exercise = Kernel | Launcher | Number | Choice | Text
