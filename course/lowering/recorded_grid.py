"""The grid of a recorded launch, by which its arguments by name travel in `cost(*launch)`."""

from collections.abc import Sequence
from typing import Any

from course.type_names import AnyValue, AnyValues


class RecordedGrid(tuple[int, ...]):
    """Programs along each axis, with what the launch was given by name."""

    named: AnyValues
    given: Any
    """The grid as the program gave it, perhaps a function of the arguments."""

    @classmethod
    def of(cls, sizes: Sequence[int], named: AnyValues, given: Any) -> "RecordedGrid":
        grid = cls(sizes)
        grid.named, grid.given = named, given
        return grid


def with_recorded(grid: Any, kwargs: AnyValues) -> tuple[Any, AnyValues]:
    """A launch's grid, and its arguments by name with those that were recorded with the grid.

    For other arguments than the recorded ones the grid may be another, so it is asked for again.
    """
    if not isinstance(grid, RecordedGrid):
        return grid, kwargs
    return grid.given if kwargs else tuple(grid), grid.named | kwargs


def without_grid(
    args: tuple[AnyValue, ...], kwargs: AnyValues
) -> tuple[tuple[AnyValue, ...], AnyValues]:
    """The arguments of a recorded launch for a function that takes no grid; others as they are."""
    if args and isinstance(args[0], RecordedGrid):
        return args[1:], args[0].named | kwargs
    return args, kwargs
