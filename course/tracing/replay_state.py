"""What a replay's script draws: a recording in JSON, of a size that a notebook may keep."""

import base64
import zlib
from typing import Any

import msgspec
import numpy as np

from course.display.highlight import lines
from course.triton_internals.interpreter import Program

from .downsample import Panel
from .records import ProgramSteps, Recording, Step

MOST_SAVED = 300_000
"""Characters of the recorded programs that a learner's notebook and a page of its own hold."""

MOST_KEPT = 20_000
"""Characters of them that the course's own notebooks keep, which many people download."""


State = dict[str, Any]
"""What the script draws, as JSON."""


def state_of(
    recording: Recording,
    programs: dict[Program, ProgramSteps],
    opened: Program,
    room: int = MOST_SAVED,
) -> State:
    """All that the script draws. The fields are those of `Recording` where they have its names.

    programs: those recorded. opened: the one that is shown first, which comes before the others.
    room: how many characters of programs to hold.
    """
    failed = recording.failure is not None
    saved = [program_state(programs[opened], room, last=failed)]
    for program, steps in programs.items():
        if program != opened:
            left = room - sum(len(state["steps"]) for state in saved)
            state = program_state(steps)
            if len(state["steps"]) <= left:
                saved.append(state)
    return {
        "kernel": recording.kernel,
        "grid": recording.grid,
        # For each row of the listing, the number of its line and its tokens: class, text, class, …
        "lines": [
            {"row": function.line + offset, "parts": [part for token in line for part in token]}
            for function in recording.functions
            for offset, line in enumerate(lines(function.text, "source"))
        ],
        "loops": recording.loops,
        # None if all programs ran.
        "ran": None if _ran_everywhere(recording) else recording.ran,
        "tensors": msgspec.to_builtins(recording.tensors),
        "programs": saved,
        "opened": {"program": opened, "at": _place(recording)},
        "failure": failure_text(recording),
        "notes": notes(recording),
    }


def program_state(recorded: ProgramSteps, room: int | None = None, last: bool = False) -> State:
    """A program for the script, in so many characters, or one step of it.

    `steps` are a list of `Step` as JSON, compressed, in base64. `ran` is how many were recorded:
    more than there are, if not all are kept. `cut` says whether it went on after the last one.
    last: whether to keep its last steps rather than its first.
    """
    steps = recorded.steps
    kept, text = len(steps), _packed(steps)
    while room is not None and len(text) > room and kept > 1:
        kept = max(1, int(0.95 * kept * room / len(text)))  # some steps take more than others
        text = _packed(steps[-kept:] if last else steps[:kept])
    return {"program": recorded.program, "steps": text, "cut": recorded.cut, "ran": len(steps)}


def _packed(steps: list[Step]) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(steps))).decode()


def _ran_everywhere(recording: Recording) -> bool:
    x, y, z = recording.grid
    return len(recording.ran) == x * y * z


def _place(recording: Recording) -> dict[str, int]:
    """Where in the opened program to open: at a step, or where a cell of a tensor is touched."""
    element = recording.element
    if recording.failure:
        return {"step": -1}
    if element is None:
        return {"step": recording.step}
    number = [tensor.name for tensor in recording.tensors].index(element.tensor)
    shape = recording.tensors[number].shape
    flat = np.ravel_multi_index(element.index, shape) if shape else 0
    return {"tensor": number, "cell": int(Panel(shape).of(np.array([flat]))[0])}


def failure_text(recording: Recording) -> str:
    """Why the launch did not come to its end; empty if it did."""
    failure = recording.failure
    if failure is None:
        return ""
    more = " Here are its first steps, and the one at which it was stopped."
    return failure.text + (more if failure.stopped else "")


def notes(recording: Recording) -> list[str]:
    """Sentences on what a reader of the steps should know."""
    sentences = list(recording.notes)
    x, y, z = recording.grid
    if not _ran_everywhere(recording) and not recording.failure:
        ran = len(recording.ran)
        sentences.append(f"Of {x * y * z:,} programs a sample of {ran:,} was run.")
    if any(tensor.dtype == "bfloat16" for tensor in recording.tensors):
        sentences.append(
            "Triton's interpreter computes wrongly in bfloat16: what is converted to float32 first "
            "is right."
        )
    for tensor in recording.tensors:
        for count, what in (
            (tensor.twice_elements, "written by several programs"),
            (tensor.unwritten_elements, "read, and written by nobody"),
        ):
            if count:
                elements = "1 element" if count == 1 else f"{count:,} elements"
                were = "was" if count == 1 else "were"
                sentences.append(f"{elements} of {tensor.name} {were} {what}.")
    return sentences
