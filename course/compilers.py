"""Finding a C or C++ compiler on this machine."""

import os
import shlex
import shutil

from .errors import CourseError

PROGRAMS = {"C": ("cc", "gcc", "clang"), "C++": ("g++", "c++", "clang++")}
NAMES = {"C": ("CC", "gcc"), "C++": ("CXX", "g++")}
"""language -> (the variable that names its compiler, the package that brings one)"""


def compiler_command(language: str = "C") -> list[str]:
    """The command that compiles C or "C++": $CC or $CXX, else the first usual program on PATH.

    Raises CourseError if the variable is no command or names no program, or if there is no program.
    """
    (variable, package), programs = NAMES[language], PROGRAMS[language]
    text = os.environ.get(variable, "")
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise CourseError(f"${variable} is {text!r}, which is no command: {error}.") from error
    if command and shutil.which(command[0]) is None:
        raise CourseError(
            f"${variable} names {command[0]}, which is not found: "
            f"unset it, or set it to a {language} compiler."
        )
    installed = command or [program for program in programs if shutil.which(program)][:1]
    if not installed:
        raise CourseError(
            f"There is no {language} compiler ({', '.join(programs[:-1])} or {programs[-1]}): "
            f"install one, as with `apt-get install {package}`, or set ${variable}."
        )
    return installed
