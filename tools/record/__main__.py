"""The command `python -m tools.record`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from course.errors import CourseError
from tools import record as recording

Names = Annotated[
    list[str] | None, typer.Argument(help="Operations, studies or others, as softmax or launches.")
]
Out = Annotated[Path | None, typer.Option(help="A folder to write to, not the course's own.")]
All = Annotated[bool, typer.Option("--all", help="Record what is up to date too.")]
Check = Annotated[
    bool, typer.Option("--check", help="Measure nothing; exit 1 where a record is outdated.")
]


def main(
    names: Names = None, out: Out = None, everything: All = False, check: Check = False
) -> None:
    """On a GPU: measure anew what the lessons show as recorded and is outdated, or what is named.
    Called again, it goes on where it stopped."""
    if check:
        problems = recording.debts()
        print("\n".join(problems) or "No record is outdated.")
    else:
        problems = recording.record(names or [], out, everything)
    raise typer.Exit(1 if problems else 0)


if __name__ == "__main__":
    try:
        typer.run(main)
    except CourseError as error:
        sys.exit(str(error))
