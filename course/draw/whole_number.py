"""What sketches ask of their sizes."""

from course.errors import CourseError


def check_whole(sketch: str, name: str, number: object, most: int | None) -> None:
    """Raise CourseError unless a size is a whole number of 1 or more, and at most `most`."""
    if type(number) is not int or number < 1 or (most and number > most):
        limit = f"to {most}." if most else "or more."
        raise CourseError(
            f"draw.{sketch}: {name} is {number!r}, and must be a whole number of 1 {limit}"
        )
