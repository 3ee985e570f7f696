"""Running a C compiler over what was exported."""

import importlib.util
from pathlib import Path

from course.compilers import compiler_command
from course.errors import CourseError
from course.isolate.commands import run_command

TIMEOUT_S = 120
FLAGS = ("-std=c99", "-O2", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror")


def include_folder() -> Path:
    """The folder of cuda.h, which Triton brings."""
    spec = importlib.util.find_spec("triton")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))) / "backends" / "nvidia" / "include"


def compile_library(sources: list[Path], out: Path, *flags: str) -> None:
    """Compile C into a shared library. Raises CourseError with the compiler's first error."""
    compiler = compiler_command()
    paths = [str(source.absolute()) for source in sources]  # none is taken for an option
    # -Bsymbolic: a library calls its own functions, even in a process that has others of that name.
    shared = ["-shared", "-Wl,-Bsymbolic", "-isystem", str(include_folder())]
    run_compiler([*compiler, *FLAGS, *shared, "-o", str(out), *flags, *paths])
    if not out.exists():
        raise CourseError(f"The compiler {compiler[0]} wrote no library: is $CC a C compiler?")


def run_compiler(command: list[str]) -> None:
    """Run a compiler's command. Raises CourseError with its first error."""
    who = f"The compiler {command[0]}"
    try:
        ended = run_command(command, TIMEOUT_S)
    except OSError as error:
        raise CourseError(f"{who} could not be run: {error.strerror}.") from error
    if ended.how != "finished":
        errors = [line for line in ended.stderr.splitlines() if "error" in line]
        words = (errors or [ended.stderr])[0].strip()[:300]
        raise CourseError(f"{ended.sentence(who)}{f'; it said: {words}' if words else ''}.")
