"""What pictures of results ask of their first argument."""

from course.errors import CourseError
from course.type_names import kind_of

SPEEDS = 'what `bench` or `recorded` returned, as recorded("softmax")'


def check_kind(picture: str, value: object, kind: type, takes: str) -> None:
    """Raise CourseError unless a value is of a kind. takes: the kind in words."""
    if not isinstance(value, kind):
        raise CourseError(f"draw.{picture} takes {takes}; this is {kind_of(value)}.")
