"""Finding a C compiler on this machine."""

import os
import shlex
import shutil

from .errors import CourseError

PROGRAMS = ("cc", "gcc", "clang")


def compiler_command() -> list[str]:
    """The command that compiles C: $CC, else the first usual program on PATH.

    Raises CourseError if the variable is no command or names no program, or if there is no program.
    """
    text = os.environ.get("CC", "")
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise CourseError(f"$CC is {text!r}, which is no command: {error}.") from error
    if command and shutil.which(command[0]) is None:
        raise CourseError(
            f"$CC names {command[0]}, which is not found: unset it, or set it to a C compiler."
        )
    installed = command or [program for program in PROGRAMS if shutil.which(program)][:1]
    if not installed:
        raise CourseError(
            f"There is no C compiler ({', '.join(PROGRAMS[:-1])} or {PROGRAMS[-1]}): install one, "
            "as with `apt-get install gcc`, or set $CC."
        )
    return installed
