"""What pictures ask of their arguments."""

from collections.abc import Iterable

from course.benching.result import Speeds
from course.errors import CourseError
from course.type_names import kind_of

SPEEDS = 'what `bench` or `recorded` returned, as recorded("softmax")'


def check_kind(picture: str, value: object, kind: type, takes: str) -> None:
    """Raise CourseError unless a value is of a kind. takes: the kind in words."""
    if not isinstance(value, kind):
        raise CourseError(f"draw.{picture} takes {takes}; this is {kind_of(value)}.")


def check_series(picture: str, result: Speeds, names: Iterable[str]) -> None:
    """Raise CourseError unless `result` holds speeds, and these series."""
    check_kind(picture, result, Speeds, SPEEDS)
    for name in names:
        if name not in result.series:
            there = ", ".join(result.series)
            raise CourseError(f"There is no series {name!r} in {result.name}: there is {there}.")


def check_whole(picture: str, most: int | None = None, least: int = 1, **sizes: object) -> None:
    """Raise CourseError unless sizes are whole numbers of `least` or more, and at most `most`."""
    limits = f"{least} or more" if most is None else f"{least} to {most:,}"
    for name, number in sizes.items():
        if type(number) is not int or number < least or (most is not None and number > most):
            raise CourseError(
                f"draw.{picture}: {name} is {number!r}, and must be a whole number of {limits}."
            )


def check_index(name: str, number: object, count: int) -> None:
    """Raise CourseError unless there is a thing of this number, counted from 0."""
    if type(number) is not int or not 0 <= number < count:
        raise CourseError(f"There is no {name} {number!r}: there are {count}, counted from 0.")
