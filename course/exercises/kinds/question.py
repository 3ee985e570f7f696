"""A question: an exercise whose answer is no code, and which judges it in this process."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from course.exercises.result import Checked, Judged
from course.type_names import kind_of

T = TypeVar("T")


class Question:
    """An exercise whose answer is no code: it is judged in this process."""

    id: str

    def judge(self, answer: object) -> Judged:
        """The verdict of an answer."""
        raise NotImplementedError

    def check(self, answer: object) -> Checked:
        """What `check` returns for an answer."""
        return Checked(self.id, *self.judge(answer))


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
