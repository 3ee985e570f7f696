"""The command line: `course COMMAND`. Each command calls the module that does the work."""

import inspect
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from course.brackets import split_signature
from course.errors import CourseError
from course.files import advice
from course.places import need_checkout
from course.type_names import AnyValues

from . import aot as cli_aot
from . import workshop as cli_workshop

app = typer.Typer(
    help="The helper of the Triton course.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(cli_aot.app, name="aot")
app.add_typer(cli_workshop.app, name="workshop")

Names = Annotated[
    list[str] | None, typer.Argument(help="Operations, as vector_add; all where none is named.")
]
Lesson = Annotated[str, typer.Argument(help="A lesson's number, as 01.")]
Notebooks = Annotated[
    list[str], typer.Argument(help="Lessons, as 01, or notebooks, as work/01-vector-add.ipynb.")
]
Kernel = Annotated[
    str, typer.Argument(help="A file and a kernel in it, as kernels/vector_add.py:add_kernel.")
]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
NumWarps = Annotated[int | None, typer.Option("--num-warps", "-w")]
NumStages = Annotated[int | None, typer.Option("--num-stages", "-ns", help="Pipeline depth.")]


def option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lab(context: typer.Context) -> None:
    """Copy the lessons to work/ and open them in JupyterLab, at a lesson with `course lab 04`.
    Options of `jupyter lab` are passed on."""
    from course.lessons import lab

    lab.start(context.args)


@app.command()
def reset(lesson: Lesson) -> None:
    """Give a fresh copy of a lesson. The old one is kept beside it."""
    from course.lessons import learner_copies

    fresh, kept = learner_copies.reset(lesson)
    print(f"{fresh} is fresh." + (f" Your old copy is {kept.name}, beside it." if kept else ""))


@app.command()
def check(lessons: Notebooks, as_json: Json = False) -> None:
    """Run your copy of a lesson and show what its checks say; exit 1 unless every core exercise of
    it is right."""
    from course.exercises.grade_notebook import all_right, grade
    from course.exercises.result import printable, sign_and_color

    all_are_right = True
    for lesson in lessons:
        path, rows = grade(lesson)
        all_are_right &= all_right(rows)
        if as_json:  # a line for each, since the next notebook may end this process
            print(json.dumps({"notebook": path, "checks": list(map(asdict, rows))}), flush=True)
        else:
            texts = [f"{sign_and_color(row.verdict)[0]} {row.text}" for row in rows]
            texts = texts or ["no exercise was checked."]
            print(*map(printable, [f"{path}:", *texts]), sep="\n", flush=True)
    raise typer.Exit(0 if all_are_right else 1)


SIGNATURE_HELP = (
    'As "*fp32:16, *fp32:16, i32, 1024"; also NAME=1024, and a tuple as "(*fp32, i32)".'
)
TARGET_HELP = "As sm_90 or gfx942; this machine's GPU, or sm_90."
STAGES_HELP = "A folder: a file for each stage, and metadata.json."


@app.command()
def lower(
    kernel: Kernel,
    signature: Annotated[str, option(SIGNATURE_HELP, "--signature", "-s")],
    target: Annotated[str | None, option(TARGET_HELP)] = None,
    num_warps: NumWarps = None,
    num_stages: NumStages = None,
    out: Annotated[Path | None, option(STAGES_HELP)] = None,
    as_json: Json = False,
) -> None:
    """Compile a kernel of any file through all stages, for any GPU."""
    from course.lowering.api import LowerError, lower_file

    file, name, in_order, options = _kernel_and_arguments(kernel, signature, num_warps, num_stages)
    try:
        lowered = lower_file(file, name, in_order, target, **options)
    except LowerError as error:
        if as_json:
            print(json.dumps({"problem": str(error), "details": error.details}, indent=1))
        raise
    paths = lowered.dump(out) if out else []
    if as_json:
        print(json.dumps({**lowered.summary(), "files": [str(path) for path in paths]}, indent=1))
    else:
        print(lowered, *paths, sep="\n")


SIZES_HELP = 'As "*fp32[4096, 4096], *fp32[4096], 4096, 1024"; also NAME=1024.'


@app.command()
def diagnose(
    kernel: Kernel,
    grid: Annotated[str, option('As "4096" or "64, 64".', "--grid", "-g")],
    signature: Annotated[str, option(SIZES_HELP, "--signature", "-s")],
    target: Annotated[str | None, option("As H200 or A100; this machine's GPU, or H200.")] = None,
    num_warps: NumWarps = None,
    num_stages: NumStages = None,
    as_json: Json = False,
) -> None:
    """Say what limits a launch of a kernel of any file, the largest estimated gain first."""
    from course.diagnosing.from_signature import diagnose_file

    file, name, in_order, options = _kernel_and_arguments(kernel, signature, num_warps, num_stages)
    diagnosis = diagnose_file(file, name, grid, in_order, target, **options)
    print(json.dumps(diagnosis.summary(), indent=1) if as_json else diagnosis)


DIFF_HELP = "Also show the lines of a stage that differ, as ttgir or ptx."


@app.command(name="compare")
def compare_tritons(
    kernel: Kernel,
    triton: Annotated[tuple[str, str], option("Two versions, as 3.8.0 3.9.0.")],
    signature: Annotated[str, option(SIGNATURE_HELP, "--signature", "-s")],
    target: Annotated[str | None, option(TARGET_HELP)] = None,
    num_warps: NumWarps = None,
    num_stages: NumStages = None,
    diff: Annotated[str, option(DIFF_HELP)] = "",
) -> None:
    """Compile a kernel by several versions of Triton, and say what they make of it differently."""
    from course.profiling.two_tritons import compare

    given = {"-s": signature, "--target": target, "-w": num_warps, "-ns": num_stages}
    options = [
        each for name, value in given.items() if value is not None for each in (name, str(value))
    ]
    print(compare([kernel, *options], triton, diff))


HTML_HELP = "Write a page that stands alone, with the explorer of each kernel."
JSON_HELP = "Write it for machines, and for --against."
AGAINST_HELP = "A profile that --json has written: say what became slower since."


@app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def profile(
    script: Annotated[str, typer.Argument(help="A Python script.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="What the script is given.")] = None,
    html: Annotated[str, option(HTML_HELP)] = "",
    json_file: Annotated[str, option(JSON_HELP, "--json")] = "",
    against: Annotated[str, option(AGAINST_HELP)] = "",
    target: Annotated[str | None, option("As H200 or A100; this machine's GPU, or H200.")] = None,
    run: Annotated[bool, option("Whether kernels run, or are only noted.")] = True,
) -> None:
    """Run a script and show its Triton kernels, what there is to gain most first. Options of this
    command come before the script."""
    from course.profiling.script import Wanted, profile_script

    wanted = Wanted(script, arguments or [], html, json_file, against, target, run)
    raise typer.Exit(profile_script(wanted))


def _kernel_and_arguments(
    kernel: str, signature: str, num_warps: int | None, num_stages: int | None
) -> tuple[str, str, list[str], AnyValues]:
    """A kernel's file and name, the arguments in order, and those by name with the options."""
    file, _, name = kernel.rpartition(":")
    if not file:
        raise CourseError(f"{kernel!r} names no kernel: write FILE.py:KERNEL.")
    parts = split_signature(signature)
    by_name = [part for part in parts if re.match(r"\w+=", part)]
    in_order = [part for part in parts if part not in by_name]
    given = {"num_warps": num_warps, "num_stages": num_stages}
    options: AnyValues = {key: value for key, value in given.items() if value is not None}
    for key, value in (part.split("=", 1) for part in by_name):
        if key in options:
            raise CourseError(f"{key} is given twice: as {options[key]} and as {value}.")
        options[key] = value
    return file, name, in_order, options


@app.command()
def hint(exercise: Annotated[str, typer.Argument(help="An exercise, as first-kernel.")]) -> None:
    """Show the hints to an exercise."""
    from course.exercises.api import all_hints

    print("\n".join(all_hints(exercise)))


@app.command()
def progress(as_json: Json = False) -> None:
    """Show which exercises you have solved."""
    from course.exercises.progress import progress

    mine = progress()
    print(json.dumps(asdict(mine), indent=1) if as_json else mine)


MEASURE_HELP = "Measure the speed of this machine's GPU instead, and keep it for plots and cost."


SEAT = "What the report calls you, as a seat's number; nothing if you give nothing."


@app.command()
def report(seat: Annotated[str, option(SEAT)] = "") -> None:
    """Write what you may hand over after a workshop: times and tries, no name and no code."""
    from course.exercises.report import report, write

    mine = report(seat)
    print(mine)
    print(f"Written to {write(mine)}. Read it before you hand it over; nothing is sent.")


@app.command()
def doctor(
    as_json: Json = False, measure: Annotated[bool, option(MEASURE_HELP, "--measure")] = False
) -> None:
    """Look at this machine: what works, what does not, and the command that mends it."""
    if measure:
        from course.gpus.own_gpu import measure_own_gpu, own_file

        facts = measure_own_gpu()
        kept = f"Kept in {own_file()}; plots and cost show it from now on."
        print(facts.to_json() if as_json else f"{facts}\n{kept}")
        return
    from course import doctor

    findings = doctor.examine()
    print(doctor.as_json(findings) if as_json else doctor.as_text(findings))
    raise typer.Exit(1 if any(finding.level == "problem" for finding in findings) else 0)


@app.command()
def verify(names: Names = None) -> None:
    """Compare every version of an operation with its reference."""
    from course.benching.benchmarks import operation, operation_names
    from course.verifying.api import verify as verify_function

    wrong = False
    for name in names or operation_names():
        op = operation(name)
        for function in op.ladder.values():
            result = verify_function(function, op.reference, op.cases, absolute=op.absolute)
            print(result)
            wrong |= not result.right
    raise typer.Exit(1 if wrong else 0)


@app.command()
def bench(names: Names = None) -> None:
    """Time an operation on this GPU against its peers."""
    from course.benching.api import require_gpu
    from course.benching.benchmarks import operation, operation_names
    from course.benching.run_study import run_study

    operations = [operation(name) for name in names or operation_names()]
    require_gpu(operations[0].name)
    for op in operations:
        for study in op.studies:
            print(run_study(study), end="\n\n")


@app.command()
def recorded(names: Names = None) -> None:
    """Show the recorded speeds of an operation."""
    from course.benching import result as records

    for name in names or records.names():
        print(records.recorded(name), end="\n\n")


def _exit_with(problems: list[str], none: str) -> NoReturn:
    """Print problems, or that there are none, and exit with 1 or 0."""
    print("\n".join(problems) or none)
    raise typer.Exit(1 if problems else 0)


COMPARE_HELP = "Compare only, run nothing; exit 1 where they differ."
MINUTES_HELP = "Print the table of minutes for the head of these lessons."
LESSONS_HELP = "Lessons, as 01; all where none is named."


@app.command()
def notebooks(
    check: Annotated[bool, option(COMPARE_HELP, "--check")] = False,
    minutes: Annotated[bool, option(MINUTES_HELP, "--minutes")] = False,
    lessons: Annotated[list[str] | None, typer.Argument(help=LESSONS_HELP)] = None,
) -> None:
    """Derive notebooks/ from solutions/ and run them in CPU mode."""
    from course.lessons import notebooks
    from course.lessons.order import lesson_sources, lessons_named

    if minutes:
        from course.lessons.minutes import report

        print("\n\n".join(report(lessons or [])))
        return
    lessons_named(lessons or [], lesson_sources())  # a number that is no lesson's is refused
    if check:
        _exit_with(notebooks.out_of_sync(), "notebooks/ agrees with solutions/.")
    need_checkout("course notebooks")
    for path in notebooks.build(lessons or []):
        print(path)


@app.command()
def teaching(
    check: Annotated[bool, option("Compare only; exit 1 where a page differs.", "--check")] = False,
) -> None:
    """Write docs/teaching/: for each lesson, its minutes and its usual wrong answers."""
    from course.exercises import teaching

    need_checkout("course teaching")
    if check:
        _exit_with(teaching.problems(), "docs/teaching/ agrees with the lessons.")
    print(*teaching.write(), *teaching.lost_notes(), sep="\n")


# A docstring's lines are for its file: help is wrapped anew, as wide as the terminal is.
for command in (*app.registered_commands, *cli_aot.app.registered_commands):
    command.help = " ".join((inspect.getdoc(command.callback) or "").split())


def main() -> None:
    """Run a command; an error meant for a person is printed as its one sentence."""
    try:
        app()
    except CourseError as error:
        sys.exit(f"course: {error}")
    except OSError as error:  # one that no command foresaw
        what = f"{error.filename}: " if error.filename else ""
        sys.exit(f"course: {what}{error.strerror or error}: {advice(error)}.")
