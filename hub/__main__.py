"""`python -m hub setup|start|codes|fix|load`: what `course workshop` runs."""

import argparse
import math
import os
import sys
from pathlib import Path

from course.errors import CourseError

from . import start, tools
from .settings import MOST_SEATS, Settings, read

LAST_PORT = 2**16 - 1 - 3
"""The last port that has three after it."""


def main(arguments: list[str]) -> None:
    options = parser().parse_args(arguments)
    if options.command == "start":
        start.start(settings_of(options))
        return
    if options.command == "setup":
        if not tools.ready():
            tools.make()
        print("Everything that serves a room is here.")
        return
    settings = read(options.folder.absolute())
    if options.command == "codes":
        print(start.codes_text(settings))
    elif options.command == "fix":
        from .fix import fix

        print(fix(settings))
    elif options.command == "load":
        from .load import load

        outcome = load(settings, options.lessons.replace(" ", "").split(","), options.out)
        print(outcome)
        sys.exit(0 if outcome.good else 1)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="course workshop", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    for name, text in (
        ("setup", "Download what serves a room, so that the start needs no network."),
        ("start", "Start the hub; Ctrl-C ends it."),
        ("codes", "Print the address and the code of each seat again."),
        ("fix", "Give every seat the lessons as they are now; what a learner has begun stays."),
        ("load", "Try a running room: all seats log in, run lessons and misbehave."),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument(
            "--folder", type=Path, default=start.default_folder(), help="the workshop's folder"
        )
        if name == "start":
            add_start_options(command)
        elif name == "load":
            command.add_argument("--lessons", default="00,01", help="as 00,01")
            command.add_argument("--out", type=Path, help="a file for the outcome, as JSON")
    return top


def add_start_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seats", type=int, required=True, help="how many learners")
    command.add_argument("--address", default="0.0.0.0", help="where the room is reached")
    command.add_argument("--port", type=int, default=8000, help="its port; the next three are used")
    command.add_argument("--memory", type=float, help="GiB per seat")
    command.add_argument("--cores", type=float, help="cores per seat")
    command.add_argument("--idle", type=int, default=60, help="minutes until an idle server ends")
    command.add_argument("--certificate", default="", help="a file; turns HTTPS on")
    command.add_argument("--key", default="", help="the certificate's key")
    command.add_argument(
        "--one-account", action="store_true", help="run all seats as you: they are not kept apart"
    )


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that options ask for. Raises CourseError where they cannot be had."""
    refuse_numbers(options)
    if os.getuid() and not options.one_account:
        raise CourseError(
            "Only root can give each seat a user of its own: start it with sudo, or with"
            " --one-account where every learner may see every other's work."
        )
    if bool(options.certificate) != bool(options.key):
        raise CourseError("HTTPS needs both: --certificate FILE and --key FILE.")
    cores = len(os.sched_getaffinity(0))
    memory = options.memory
    return Settings(
        folder=options.folder.absolute(),
        seats=options.seats,
        address=options.address,
        port=options.port,
        memory_bytes=int(memory * 2**30) if memory else start.seat_bytes(options.seats),
        cores=options.cores or max(1.0, min(2.0, cores / 2)),
        idle_s=60 * options.idle,
        python=start.learners_python(),
        apart=not options.one_account,
        certificate=_readable(options.certificate),
        key=_readable(options.key),
    )


def refuse_numbers(options: argparse.Namespace) -> None:
    """Raise CourseError where a number is none that a room can have."""
    if not 1 <= options.seats <= MOST_SEATS:
        raise CourseError(f"{options.seats} seats: take 1 to {MOST_SEATS}.")
    if not 1 <= options.port <= LAST_PORT:
        raise CourseError(
            f"Port {options.port}: take 1 to {LAST_PORT}; the three after it are used too."
        )
    for name in ("memory", "cores", "idle"):
        number = getattr(options, name)
        if number is not None and not 0 < number < math.inf:
            raise CourseError(f"--{name} {number:g}: take a number larger than 0.")


def _readable(file: str) -> str:
    """A file's whole path, since the hub runs in a folder of its own. Raises CourseError."""
    if file and not os.access(file, os.R_OK):
        raise CourseError(f"{file} cannot be read: name the file that holds it.")
    return os.path.abspath(file) if file else ""


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except CourseError as error:
        sys.exit(f"course: {error}")
