"""What pictures ask of their arguments."""

import math
from collections.abc import Collection, Iterable
from numbers import Real

from course.benching.result import Speeds
from course.errors import CourseError
from course.type_names import AnyValue, kind_of, shown

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
                f"draw.{picture}: {name} is {shown(number)}, and must be a whole number of "
                f"{limits}."
            )


def check_lists(picture: str, deep: int = 1, **given: AnyValue) -> None:
    """Raise CourseError unless what is given are lists or what stands for them, and what they hold
    in turn, so many levels deep."""
    for name, value in given.items():
        if isinstance(value, str) or not isinstance(value, Collection):
            raise CourseError(f"draw.{picture}: {name} is {shown(value)}, and must be a list.")
        if deep > 1:
            check_lists(picture, deep - 1, **{f"{name}[{i}]": each for i, each in enumerate(value)})


def check_numbers(picture: str, **lists: Iterable[object]) -> None:
    """Raise CourseError unless these are lists of finite numbers, none of them empty."""
    for name, given in lists.items():
        numbers = [*given]
        if not numbers or not all(map(_is_finite, numbers)):
            raise CourseError(f"draw.{picture}: {name} must hold finite numbers, and some.")


def _is_finite(number: object) -> bool:
    return isinstance(number, Real) and math.isfinite(number)


def check_index(name: str, number: object, count: int) -> None:
    """Raise CourseError unless there is a thing of this number, counted from 0."""
    if type(number) is not int or not 0 <= number < count:
        raise CourseError(f"There is no {name} {shown(number)}: there are {count}, counted from 0.")
