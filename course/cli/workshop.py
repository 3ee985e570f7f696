"""`course workshop …`: a room of learners on one host."""

import os
import sys
from typing import Annotated, Any

import typer

from course.errors import CourseError

app = typer.Typer(help="A room of learners on one host.", no_args_is_help=True)


@app.command()
def rehearse(
    seats: Annotated[int, typer.Option(help="How many learners the room will have.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Do on this host what the room will do, as a learner would: green, or red with the sentence
    that helps. Exit 1 where anything is red."""
    from course.workshop import rehearse as rehearsal

    outcomes: list[rehearsal.Outcome] = []

    def say(outcome: rehearsal.Outcome) -> None:
        outcomes.append(outcome)
        if not as_json:
            print(outcome, flush=True)

    green = rehearsal.rehearse(seats, say)
    if as_json:
        print(rehearsal.as_json(outcomes))
    else:
        print("All green." if green else "Not ready: see what is RED above.")
    raise typer.Exit(0 if green else 1)


PASSED_ON: dict[str, Any] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


@app.command(context_settings=PASSED_ON)
def setup(context: typer.Context) -> None:
    """Download what serves a room, so that the start needs no network."""
    _become("setup", context.args)


@app.command(context_settings=PASSED_ON)
def start(context: typer.Context) -> None:
    """Start a JupyterHub for the room on this host, and print each seat's code; Ctrl-C ends it."""
    _become("start", context.args)


@app.command(context_settings=PASSED_ON)
def codes(context: typer.Context) -> None:
    """Print the address and the code of each seat again."""
    _become("codes", context.args)


@app.command(context_settings=PASSED_ON)
def fix(context: typer.Context) -> None:
    """Give every seat the lessons as they are now; what a learner has begun stays."""
    _become("fix", context.args)


@app.command(context_settings=PASSED_ON)
def load(context: typer.Context) -> None:
    """Try a running room with learners that log in, run lessons and misbehave."""
    _become("load", context.args)


def _become(command: str, arguments: list[str]) -> None:
    """Run a command of workshop/, which lies beside course/ in a checkout."""
    from course.lessons.source import ROOT

    if not (ROOT / "workshop" / "__main__.py").is_file():
        raise CourseError(
            f"`course workshop {command}` needs a checkout of the course: clone its repository and"
            " run `make setup` there."
        )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-m", "workshop", command, *arguments]
    os.execve(sys.executable, arguments, environ)
