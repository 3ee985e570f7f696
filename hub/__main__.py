"""`python -m hub setup|start|codes|fix|load`: what `course workshop` runs."""

import math
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from course.cli.workshop import COMMANDS
from course.errors import CourseError

from . import start, tools
from .settings import MOST_SEATS, Settings, read

LAST_PORT = 2**16 - 1 - 3
"""The last port that has three after it."""
FOLDER = start.default_folder()

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
Folder = Annotated[Path, typer.Option(help="The workshop's folder.")]


@app.command("setup", help=COMMANDS["setup"])
def set_up() -> None:
    if not tools.ready():
        tools.make()
    print("Everything that serves a room is here.")


@app.command("start", help=COMMANDS["start"])
def start_room(
    seats: Annotated[int, typer.Option(help="How many learners.")],
    address: Annotated[str, typer.Option(help="Where the room is reached.")] = "0.0.0.0",
    port: Annotated[int, typer.Option(help="Its port; the next three are used too.")] = 8000,
    memory: Annotated[float | None, typer.Option(help="GiB per seat.")] = None,
    cores: Annotated[float | None, typer.Option(help="Cores per seat.")] = None,
    idle: Annotated[int, typer.Option(help="Minutes until an idle server ends.")] = 60,
    certificate: Annotated[str, typer.Option(help="A file; turns HTTPS on.")] = "",
    key: Annotated[str, typer.Option(help="The certificate's key.")] = "",
    one_account: Annotated[
        bool, typer.Option("--one-account", help="Run all seats as you: they are not kept apart.")
    ] = False,
    folder: Folder = FOLDER,
) -> None:
    if not 1 <= seats <= MOST_SEATS:
        raise CourseError(f"{seats} seats: take 1 to {MOST_SEATS}.")
    if not 1 <= port <= LAST_PORT:
        raise CourseError(f"Port {port}: take 1 to {LAST_PORT}; the three after it are used too.")
    for name, number in (("memory", memory), ("cores", cores), ("idle", idle)):
        if number is not None and not 0 < number < math.inf:
            raise CourseError(f"--{name} {number:g}: take a number larger than 0.")
    if os.getuid() and not one_account:
        raise CourseError(
            "Only root can give each seat a user of its own: start it with sudo, or with"
            " --one-account where every learner may see every other's work."
        )
    if bool(certificate) != bool(key):
        raise CourseError("HTTPS needs both: --certificate FILE and --key FILE.")
    own_cores = len(os.sched_getaffinity(0))
    settings = Settings(
        folder=folder.absolute(),
        seats=seats,
        address=address,
        port=port,
        memory_bytes=int(memory * 2**30) if memory else start.seat_bytes(seats),
        cores=cores or max(1.0, min(2.0, own_cores / 2)),
        idle_s=60 * idle,
        python=start.learners_python(),
        apart=not one_account,
        certificate=_readable(certificate),
        key=_readable(key),
    )
    start.start(settings)


@app.command(help=COMMANDS["codes"])
def codes(folder: Folder = FOLDER) -> None:
    print(start.codes_text(read(folder.absolute())))


@app.command(help=COMMANDS["fix"])
def fix(folder: Folder = FOLDER) -> None:
    from .fix import fix

    print(fix(read(folder.absolute())))


@app.command(help=COMMANDS["load"])
def load(
    lessons: Annotated[str, typer.Option(help="As 00,01.")] = "00,01",
    out: Annotated[Path | None, typer.Option(help="A file for the outcome, as JSON.")] = None,
    folder: Folder = FOLDER,
) -> None:
    from .load import load

    outcome = load(read(folder.absolute()), lessons.replace(" ", "").split(","), out)
    print(outcome)
    raise typer.Exit(0 if outcome.good else 1)


def _readable(file: str) -> str:
    """A file's whole path, since the hub runs in a folder of its own. Raises CourseError."""
    if file and not os.access(file, os.R_OK):
        raise CourseError(f"{file} cannot be read: name the file that holds it.")
    return os.path.abspath(file) if file else ""


if __name__ == "__main__":
    try:
        app(prog_name="course workshop")
    except CourseError as error:
        sys.exit(f"course: {error}")
