"""What a seat's user runs first: copy the lessons to its work folder, then become its server.

`python -m hub.open_seat COMMAND…`, or without a command to copy only: prints what was done.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from course.errors import CourseError
from course.lessons.source import ROOT
from course.lessons.workspace import copy_lessons


def main() -> None:
    home = Path(os.environ["COURSE_HOME"])
    copied: dict[str, object] = {}
    try:
        copied = asdict(copy_lessons(work=home / "work"))
        kernels = home / "kernels"  # what the lessons link to
        if not os.path.lexists(kernels):
            kernels.symlink_to(ROOT / "kernels")
    except (CourseError, OSError) as error:
        copied = {
            "problem": str(error)
        }  # the server starts all the same: work may be saved from it
    print(json.dumps(copied), flush=True)
    if command := sys.argv[1:]:
        os.execv(command[0], command)


if __name__ == "__main__":
    main()
