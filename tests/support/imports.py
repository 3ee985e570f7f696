"""Which files of a project a file of Python imports, at once or in turn.

The text is read and not run. So a module that is only mentioned counts as well, and one whose name
is put together at run time does not.
"""

import re
from functools import cache
from pathlib import Path

import course
from course import draw

IMPORT = r"from (?P<base>[\w.]+) import (?P<names>\([^)]*\)|.+)|import (?P<modules>.+)"
AT_ONCE = re.compile(rf"^(?:{IMPORT})", re.MULTILINE)
ANYWHERE = re.compile(
    rf"^[ \t]*(?:{IMPORT})|\b(?P<asked>(?:course|draw|kernels|tests)\.[\w.]+)", re.MULTILINE
)
"""An import, in a function or a text as well, or a name that is asked of a package."""
LOADED_WHEN_ASKED = {
    **{f"course.{name}": module for name, (module, _) in course._LAZY.items()},
    **{
        f"{at}.{name}": module
        for name, module in draw._MODULES.items()
        for at in ("draw", "course.draw")
    },
}
"""The names that a package imports when they are asked for, and the module of each."""
LOAD_WHEN_ASKED = ("course/__init__.py", "course/draw/__init__.py", "course/cli/__init__.py")
"""Files of which only what they import at once counts."""


def imported(path: Path, root: Path) -> set[Path]:
    """The files below root that a file imports, at once or in turn, and itself.

    A package's names that are loaded when they are asked for count where they are asked for.
    """
    files: set[Path] = set()
    ahead = {path}
    while ahead:
        file = ahead.pop()
        files.add(file)
        ahead |= _mentioned(file, root) - files
    return files


@cache
def _mentioned(path: Path, root: Path) -> frozenset[Path]:
    """The files of the modules that a file mentions, and of the packages that they are in."""
    package = path.relative_to(root).parent.parts if path.is_relative_to(root) else ()
    found: set[Path] = set()
    statement = AT_ONCE if path.as_posix().endswith(LOAD_WHEN_ASKED) else ANYWHERE
    for match in statement.finditer(path.read_text(encoding="utf-8")):
        for name in _names(match, package):
            *parts, last = LOADED_WHEN_ASKED.get(name, name).split(".")
            folder = root
            for part in [*parts, last]:
                found |= {folder / f"{part}.py", folder / part / "__init__.py"}
                folder /= part
    return frozenset(filter(Path.is_file, found))


def _names(match: re.Match[str], package: tuple[str, ...]) -> list[str]:
    """The modules and names of a statement, as "course.errors.CourseError"."""
    if asked := match.groupdict().get("asked"):
        return [asked]
    if match["modules"]:
        return re.findall(r"[\w.]+", match["modules"])
    base = match["base"].lstrip(".")
    if level := len(match["base"]) - len(base):
        base = ".".join([*package[: len(package) + 1 - level], *filter(None, [base])])
    return [f"{base}.{name}" for name in re.findall(r"\w+", match["names"])]
