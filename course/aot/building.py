"""build: C that was exported or linked, as a shared library."""

import importlib.util
import json
import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any

from course.errors import CourseError
from course.files import write_together
from course.isolate.commands import run_command

from .exporting import Exported
from .identifiers import check_out
from .linking import Linked
from .manifest import read_header
from .sealing import sealed
from .writing import INDEX, refuse_others_files

TIMEOUT_S = 120
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O2", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror")


def compiler() -> list[str]:
    """The C compiler's command: $CC, or the first of cc, gcc and clang on PATH. Raises CourseError where there is none."""
    command = split_command("CC")
    if command and shutil.which(command[0]) is None:
        raise CourseError(
            f"$CC names {command[0]}, which is not found: unset it, or set it to a C compiler."
        )
    found = command or [each for each in COMPILERS if shutil.which(each)][:1]
    if not found:
        raise CourseError(
            "There is no C compiler (cc, gcc or clang): install one, as with `apt-get install gcc`, or set $CC."
        )
    return found


def split_command(variable: str) -> list[str]:
    """The words of a command in the environment. Raises CourseError where its quotes do not close."""
    try:
        return shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        raise CourseError(
            f"${variable} is {os.environ[variable]!r}, which is no command: {error}."
        ) from error


def include_folder() -> Path:
    """Where cuda.h is: Triton brings it."""
    found = importlib.util.find_spec("triton")
    assert found is not None and found.submodule_search_locations
    return Path(next(iter(found.submodule_search_locations))) / "backends" / "nvidia" / "include"


def build(
    made: Linked | Exported | str | Path, out: str | Path | None = None, force: bool = False
) -> Path:
    """Compile what `link` or `export` wrote into a shared library that `load` takes, and return its path.

    made: what they returned, or the path of a header of theirs. out: the library; by default beside the header, NAME.so.
    The functions of CUDA's driver stay undefined in it: whoever loads it has libcuda.so.1 loaded before.

    Raises CourseError where there is no C compiler, or where it refuses.
    """
    headers, sources = _parts(made)
    name = made.name if isinstance(made, Exported) else headers[0].name.removesuffix(".h")
    library = headers[0].with_name(f"{name}.so") if out is None else check_out(out)
    if library.resolve() in [each.resolve() for each in (*headers, *sources)]:
        raise CourseError(f"{library} is one of the files to build from: name another output.")
    refuse_others_files([library], force)
    content = [read_header(header) for header in headers]
    missing = [each for each in sources if not each.is_file()]
    if missing:
        raise CourseError(f"{missing[0]} is not there: export it again, and link again.")
    with tempfile.TemporaryDirectory(prefix="course-aot-") as folder:
        index, built = Path(folder) / "index.c", Path(folder) / "library.so"
        index.write_text(_index(content))
        compile_library([*sources, index], built)
        write_together({library: sealed(built.read_bytes())})
    return library


def compile_library(sources: list[Path], out: Path, *flags: str) -> None:
    """Run the C compiler. Raises CourseError with its first words where it refuses."""
    paths = [str(each.absolute()) for each in sources]  # so that none is taken for an option
    # -Bsymbolic: a library calls its own functions, also where the process has another one's of the same names.
    shared = ["-shared", "-Wl,-Bsymbolic"]
    run_compiler(
        [
            *compiler(),
            *FLAGS,
            "-isystem",
            str(include_folder()),
            *shared,
            "-o",
            str(out),
            *flags,
            *paths,
        ]
    )
    if not out.exists():
        raise CourseError(f"The compiler {compiler()[0]} wrote no library: is $CC a C compiler?")


def run_compiler(command: list[str]) -> None:
    """Run a compiler's command. Raises CourseError with its first words where it refuses."""
    try:
        ended = run_command(command, TIMEOUT_S)
    except OSError as error:
        raise CourseError(
            f"The compiler {command[0]} could not be run: {error.strerror}."
        ) from error
    if ended.how == "out of time":
        raise CourseError(
            f"The compiler {command[0]} did not end within {TIMEOUT_S} s, and was ended."
        )
    if ended.how != "finished":
        said = next(
            (line for line in ended.stderr.splitlines() if "error" in line),
            ended.stderr.strip()[:300],
        )
        raise CourseError(
            f"The compiler {command[0]} refused ({ended.how}): {said.strip() or 'it left no word'}."
        )


def _parts(made: Linked | Exported | str | Path) -> tuple[list[Path], list[Path]]:
    """Headers and sources."""
    if isinstance(made, (Linked, Exported)):
        return list(made.headers), list(made.sources)
    header = Path(made)
    return [header], [
        header.with_suffix(".c"),
        *(header.parent / each for each in read_header(header).get("sources", [])),
    ]


def _index(content: list[dict[str, Any]]) -> str:
    """A C file with the names and arguments of what is in the library, for `load`."""
    text = json.dumps(content)
    numbers = ",".join(str(byte) for byte in text.encode())
    return f"extern const char {INDEX}[];\nconst char {INDEX}[] = {{{numbers},0}};\n"
