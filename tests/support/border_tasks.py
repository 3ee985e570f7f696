"""Functions that declare the kind of child they run in, for tests/isolate/test_border.py."""

import math
import os
from dataclasses import dataclass

import msgspec

from course.errors import CourseError
from course.isolate import runs_in


@dataclass(frozen=True)
class Point:
    x: float
    name: str = ""
    nearest: "Point | None" = None


class Circle(msgspec.Struct, frozen=True, tag=True):
    radius: float


class Square(msgspec.Struct, frozen=True, tag=True):
    side: float


class TooLargeError(CourseError):
    def __init__(self, message: str, size: int) -> None:
        super().__init__(message, size)
        self.size = size

    def __str__(self) -> str:
        return str(self.args[0])


prepared = []


def prepare() -> None:
    prepared.append(os.getpid())


@runs_in("interpret", timeout_s=30, prepare=prepare)
def moved(point: Point, by: float = 1.0) -> Point:
    return Point(point.x + by, point.name, point)


@runs_in("interpret")
def areas(shapes: list[Circle | Square]) -> tuple[float, ...]:
    assert all(isinstance(shape, (Circle, Square)) for shape in shapes)
    return tuple(shape.side**2 if isinstance(shape, Square) else math.inf for shape in shapes)


@runs_in("interpret")
def bytes_of(data: bytes) -> bytes:
    return data[::-1]


@runs_in("interpret")
def refuse(size: int) -> int:
    error = TooLargeError(f"{size} is too large: take 3.", size)
    error.kind = "too large"
    raise error


@runs_in("interpret")
def divide(number: int) -> float:
    return 1 / number


@runs_in("interpret")
def a_text() -> int:
    return "no number"  # type: ignore[return-value]


@runs_in("interpret", timeout_s=1)
def hang() -> None:
    while True:
        pass


@runs_in("interpret")
def pids() -> tuple[int, int]:
    """Its own process, and one that it asks for in the same kind of child: the same."""
    return os.getpid(), own_pid()


@runs_in("interpret")
def own_pid() -> int:
    return os.getpid()


@runs_in("interpret")
def preparers() -> list[int]:
    return prepared
