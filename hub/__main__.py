"""`python -m hub COMMAND`: what `course workshop` runs."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from course.cli.workshop import COMMANDS
from course.errors import CourseError
from course.lessons.order import lesson_sources, lessons_named

from . import learners_work, printed_codes, start, tools
from .codes import codes as known_codes
from .settings import MOST_SEATS, Settings, read, seat_bytes

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
    address: Annotated[str, typer.Option(help="Where the room is reached.")] = Settings.address,
    port: Annotated[
        int, typer.Option(help="Its port; the next three are used too.")
    ] = Settings.port,
    memory: Annotated[float | None, typer.Option(help="GiB per seat.")] = None,
    cores: Annotated[float | None, typer.Option(help="Cores per seat.")] = None,
    disk: Annotated[float, typer.Option(help="GiB per seat; 0: all share the host's.")] = 2,
    idle: Annotated[int, typer.Option(help="Minutes until an idle server ends.")] = 60,
    lessons: Annotated[str, typer.Option(help="The plan's, as 00,01; shown first.")] = "",
    image: Annotated[str, typer.Option(help="The course's image.")] = Settings.image,
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
    if not address.strip():
        raise CourseError("--address: name an address of this host, or 0.0.0.0 for all it has.")
    plan = ",".join(numbers(lessons))
    own_cores = len(os.sched_getaffinity(0))
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    for name, number, least, most in (
        ("memory", memory, 1, gib), ("cores", cores, 0.1, own_cores), ("idle", idle, 1, 10**4),
        ("disk", disk or None, 0.1, 1000),
    ):  # fmt: skip
        if number is not None and not least <= number <= most:
            raise CourseError(f"--{name} {number:g}: take {least:g} to {most:.4g}.")
    if os.getuid() and not one_account:
        raise CourseError(
            "Only root can give each seat a container and a disk of its own: start it with sudo, or"
            " with --one-account where every learner may see every other's work."
        )
    if one_account and not os.getuid():
        raise CourseError(
            "--one-account as root would make every learner root on this host: run it as a user"
            " without rights, or leave it out, and each seat is a container."
        )
    if bool(certificate) != bool(key):
        raise CourseError("HTTPS needs both: --certificate FILE and --key FILE.")
    settings = Settings(
        folder=folder.absolute(),
        seats=seats,
        address=address,
        port=port,
        memory_bytes=int(memory * 2**30) if memory else seat_bytes(seats),
        cores=cores or max(1.0, min(2.0, own_cores / 2)),
        disk_bytes=int(disk * 2**30) if not one_account else 0,
        idle_s=60 * idle,
        lessons=plan,
        image=image,
        python=start.learners_python(),
        apart=not one_account,
        certificate=_readable(certificate),
        key=_readable(key),
    )
    start.start(settings)


@app.command(help=COMMANDS["stop"])
def stop(folder: Folder = FOLDER) -> None:
    start.stop(read(folder.absolute()))


@app.command(help=COMMANDS["codes"])
def codes(
    print_: Annotated[
        Path | None, typer.Option("--print", help="A page to print and cut, as slips.html.")
    ] = None,
    folder: Folder = FOLDER,
) -> None:
    settings = read(folder.absolute())
    if print_:
        printed_codes.write(settings, print_)
        print(f"{print_}: open it in a browser, print it and cut it.")
    else:
        for name, code in known_codes(settings).items():
            print(f"{settings.public_url}    {name}    {code}")


@app.command(help=COMMANDS["fix"])
def fix(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False, folder: Folder = FOLDER
) -> None:
    from .fix import fix

    settings = read(folder.absolute())
    if not yes:
        typer.confirm("Has everybody saved (Ctrl+S)? What is not saved cannot be seen", abort=True)
    print(fix(settings))


@app.command("take-home", help=COMMANDS["take-home"])
def take_home(
    out: Annotated[Path, typer.Argument(help="A folder for one file per seat.")],
    folder: Folder = FOLDER,
) -> None:
    for file in learners_work.take_home(start.opened(folder), out):
        print(file)


@app.command(help=COMMANDS["clear"])
def clear(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False, folder: Folder = FOLDER
) -> None:
    settings = read(folder.absolute())
    if not yes:
        typer.confirm(f"Delete the work of all seats and their codes in {folder}?", abort=True)
    start.stop(settings)
    learners_work.clear(settings)
    print(f"Nothing of the room is left in {folder}.")


@app.command(help=COMMANDS["load"])
def load(
    seats: Annotated[int, typer.Option(help="How many learners.")] = 6,
    lessons: Annotated[str, typer.Option(help="As 00,01.")] = "00,01",
    memory: Annotated[float | None, typer.Option(help="GiB per seat.")] = None,
    port: Annotated[int, typer.Option(help="The port of its room.")] = 8400,
    image: Annotated[str, typer.Option(help="The course's image.")] = Settings.image,
    one_account: Annotated[bool, typer.Option("--one-account")] = False,
    out: Annotated[Path | None, typer.Option(help="A file for the outcome, as JSON.")] = None,
) -> None:
    from .load import load

    options = ["--seats", f"{seats}", "--address", "127.0.0.1", "--image", image]
    options += ["--lessons", lessons]
    options += ["--memory", f"{memory}"] if memory else []
    options += ["--one-account"] if one_account else []
    outcome = load(options, port, numbers(lessons), out)
    print(outcome)
    raise typer.Exit(0 if outcome.good else 1)


@app.command(help=COMMANDS["rehearse"])
def rehearse(
    seats: Annotated[int, typer.Option(help="How many learners the room will have.")] = 1,
    lessons: Annotated[
        str, typer.Option(help="The plan's lessons, as 00,01; all without it.")
    ] = "",
    image: Annotated[str, typer.Option(help="The course's image.")] = Settings.image,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    from . import rehearse as rehearsal
    from .answers import lesson_answers

    if seats < 1:
        raise CourseError(f"{seats} seats: take 1 or more.")
    outcomes: list[rehearsal.Outcome] = []

    def say(outcome: rehearsal.Outcome) -> None:
        outcomes.append(outcome)
        if not as_json:
            print(outcome, flush=True)

    answers = lesson_answers(numbers(lessons))
    if not as_json:
        print(f"About {rehearsal.minutes(answers)} minutes, more where the machine is busy.")
    green = rehearsal.rehearse(seats, say, answers=answers, image=image)
    if as_json:
        print(rehearsal.as_json(outcomes))
    else:
        print("All green." if green else "Not ready: see what is RED above.")
    raise typer.Exit(0 if green else 1)


def numbers(lessons: str) -> list[str]:
    """The numbers in a list as "00, 01". Raises CourseError where one is no lesson's."""
    asked = [each.strip().zfill(2) for each in lessons.split(",") if each.strip()]
    lessons_named(asked, lesson_sources())  # a number that is no lesson's is refused
    return asked


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
