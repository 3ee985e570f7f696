"""The codes by which the leader and the learners log in: made once, and kept in one file."""

import json
import secrets
from pathlib import Path

import msgspec

from course.errors import CourseError
from course.files import write_together

from .settings import LEADER, Settings, not_yours

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Characters of a code, without those that look alike (0 and o, 1, i and l)."""


def codes(settings: Settings) -> dict[str, str]:
    """The code of the leader and of each seat. Codes that are there stay, so a workshop can be
    started again, with more seats too.

    Raises CourseError where the codes that are there cannot be read: new ones would lock out all
    who have one.
    """
    known = _known_codes(settings.codes_file)
    wanted = [LEADER, *settings.names]
    if any(name not in known for name in wanted):
        known = {name: known.get(name) or _code() for name in [*known, *wanted]}
        _write_codes(settings, known)
    return {name: known[name] for name in wanted}


def new_code(settings: Settings, name: str) -> str:
    """Give a seat another code; the code. Who is logged in stays so. Raises CourseError."""
    known = codes(settings) | {name: _code()}
    _write_codes(settings, known)
    return known[name]


def _write_codes(settings: Settings, known: dict[str, str]) -> None:
    """Write them so that nobody else can read them, at no moment. Raises CourseError."""
    try:
        write_together({settings.codes_file: json.dumps(known, indent=1)}, mode=0o600)
    except CourseError as error:
        if isinstance(error.__cause__, PermissionError):
            raise not_yours(settings.folder) from error
        raise


def _known_codes(file: Path) -> dict[str, str]:
    """The codes of a file; none where there is no file. Raises CourseError."""
    try:
        known = msgspec.json.decode(file.read_bytes(), type=dict[str, str])
        return {name: code for name, code in known.items() if code}  # an empty code lets all in
    except FileNotFoundError:
        return {}
    except PermissionError as error:
        raise not_yours(file) from error
    except (OSError, ValueError) as error:
        raise CourseError(
            f"The codes in {file} cannot be read ({error}): put back a copy of the file, or move it"
            " away, and `course workshop start` gives every seat a new code."
        ) from error


def _code() -> str:
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(3))
