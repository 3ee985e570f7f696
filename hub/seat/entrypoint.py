"""What a seat runs first: bring the lessons to its folder, then become its server.

`python entrypoint.py COMMAND…`, or without a command to bring the lessons only: prints what was
done.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from course.errors import CourseError
from course.exercises.learner import tried
from course.lessons.learner_copies import copy_lessons
from course.lessons.order import numbers
from course.lessons.unpack import unpack_if_installed

OURS = ("work", "docs", "kernels", "notebooks", "solutions")
"""The folders whose files are read."""


def main() -> None:
    copied: dict[str, object] = {}
    try:
        refuse_pipes()
        unpack_if_installed()
        copied = asdict(copy_lessons(begun=begun(), work=Path(os.environ["COURSE_HOME"]) / "work"))
    except (CourseError, OSError) as error:
        copied = {"problem": str(error)}  # the server starts all the same: work may be saved
    print(json.dumps(copied), flush=True)
    if command := sys.argv[1:]:
        config = Path(__file__).with_name("server_config.py")
        os.execvp(command[0], [*command, f"--config={config}"])


def refuse_pipes() -> None:
    """Raise CourseError for a pipe or a device among the files that are about to be read: opening
    it would wait without end."""
    home = Path(os.environ["COURSE_HOME"])
    for folder in (home, *(home / name for name in OURS)):
        for where, _, names in os.walk(folder):
            for path in (Path(where, name) for name in names):
                if path.exists() and not path.is_file():
                    raise CourseError(f"{path.relative_to(home)} is no file: delete it")
            if folder == home:
                break


def begun() -> set[str]:
    """The lessons in which an answer was checked: it may stand in a page that was not saved yet.
    All of them, where the progress cannot be read."""
    try:
        return {numbers().get(name, "")[:2] for name in tried()}
    except CourseError:
        return {number[:2] for number in numbers().values()}


if __name__ == "__main__":
    main()
