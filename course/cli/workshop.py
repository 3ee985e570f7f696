"""`course workshop …`: a room of learners on one host."""

import os
import sys
from typing import Any

import typer

from course.errors import CourseError

app = typer.Typer(help="A room of learners on one host.", no_args_is_help=True)


PASSED_ON: dict[str, Any] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
COMMANDS = {
    "rehearse": "Do on this host what the room will do, as a learner would: green, or red with the"
    " sentence that helps. Exit 1 where anything is red.",
    "setup": "Download what serves a room, so that the start needs no network.",
    "start": "Start a JupyterHub for the room on this host, and print each seat's code; Ctrl-C ends"
    " it.",
    "stop": "End the room; the work is kept.",
    "codes": "Print the address and the code of each seat again; with --print, a page to cut.",
    "fix": "Give every seat the lessons as they are now; what a learner has begun stays.",
    "take-home": "Pack each learner's work into one file.",
    "clear": "End the room and delete the work, the codes and all else that it keeps.",
    "load": "Fill a room of its own with learners that log in, run lessons and misbehave.",
}
"""The commands of hub/, to which what was typed is passed on."""


def _become(context: typer.Context) -> None:
    """Run a command of hub/, which lies beside course/ in a checkout."""
    from course.lessons.folders import ROOT

    command = context.command.name
    if not (ROOT / "hub" / "__main__.py").is_file():
        raise CourseError(
            f"`course workshop {command}` needs a checkout of the course: clone its repository and"
            " run `make setup` there."
        )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-m", "hub", f"{command}", *context.args]
    os.execve(sys.executable, arguments, environ)


for _name, _help in COMMANDS.items():
    app.command(_name, help=_help, context_settings=PASSED_ON)(_become)
