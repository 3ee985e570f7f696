"""A recorded launch to step through: a widget, a page of its own, and a table without any script.

Python records and replay.js draws: in a session, in a saved notebook, and on the page that
`to_html` writes.
"""

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course.display.widget import page_of, script, style, with_static, write_page
from course.errors import CourseError
from course.triton_internals.interpreter import Program
from course.type_names import AnyValue

from .records import Element, Recording, Step, program_text
from .replay_state import failure_text, notes, program_state, state_of
from .replay_text import grid_text, value_text

SCRIPT = Path(__file__).with_suffix("")
MOST_ROWS = 60
"""Steps in the table that needs no script."""

Again = Callable[[list[Program], Element | None], Recording]
"""Traces the launch anew: the programs to record, and an element to find the writer of."""


class Replay(anywidget.AnyWidget):
    """The widget. Its state is what the script draws."""

    _esm = script(SCRIPT)
    _css = style(SCRIPT)

    trace: Any = traitlets.Dict().tag(sync=True)
    """See `replay_state.ReplayState`."""

    def __init__(self, again: Again, recording: Recording, program: Program | None = None) -> None:
        """again: traces once more, for a program that was not recorded. recording: what is shown
        first. program: the one to open at, if the recording names none."""
        super().__init__()
        self._again = again
        self._programs = {steps.program: steps for steps in recording.programs}
        if not self._programs:
            raise CourseError(
                "The program to be shown did not run again: there is nothing to step through."
            )
        self.recording = recording
        opened = recording.opened or program or (0, 0, 0)
        self.opened = opened if opened in self._programs else next(iter(self._programs))
        self._texts = [
            text for function in recording.functions for text in function.text.split("\n")
        ]
        self.trace = state_of(recording, self._programs, self.opened)
        self.on_msg(self._answer)

    @property
    def steps(self) -> list[Step]:
        """The steps of the program that it opens at."""
        return self._programs[self.opened].steps

    def to_html(self, path: str | Path) -> Path:
        """Write one file that needs neither a session nor the network; return its path.

        It holds the programs that a saved notebook holds.
        """
        state = {"trace": self.trace}
        return write_page(path, page_of(SCRIPT, self.recording.kernel, state, self._static_html()))

    def _answer(self, _: object, content: dict[str, Any], __: object) -> None:
        """Answer the script: whether a session is there, or another program."""
        try:
            if "hello" in content:
                self.send({"hello": True})
            elif "program" in content:
                x, y, z = map(int, content["program"])
                self.send({"recorded": self._recorded((x, y, z))})
        except CourseError as error:
            self.send({"problem": str(error)})

    def _recorded(self, program: Program) -> Any:
        """A program for the script, traced now if it was not recorded."""
        if program not in self._programs:
            recording = self._again([program], None)
            self._programs |= {steps.program: steps for steps in recording.programs}
        if program not in self._programs:
            failure = self.recording.failure
            raise CourseError(
                f"Program {program} did not come to run: {failure.text if failure else ''}"
            )
        return program_state(self._programs[program])

    def _repr_mimebundle_(self, **kwargs: AnyValue) -> Any:
        static = {"text/html": self._static_html(), "text/plain": str(self)}
        own = super()._repr_mimebundle_
        return with_static(static, lambda: own(**kwargs))

    def __str__(self) -> str:
        grid = grid_text(self.recording.grid)
        program = program_text(self.opened)
        lines = [f"{self.recording.kernel}, program {program} of grid {grid}, step by step"]
        for step, text, done in self._table():
            lines.append(f"line {step.line:4}  {text.strip():44} {' '.join(done)}".rstrip())
        failure = failure_text(self.recording)
        return "\n".join([*lines, *([failure] if failure else []), *notes(self.recording)])

    __repr__ = __str__

    def _table(self) -> list[tuple[Step, str, list[str]]]:
        """The opened program's first steps, or its last if it failed: step, source, what it did."""
        steps = self.steps[-MOST_ROWS:] if self.recording.failure else self.steps[:MOST_ROWS]
        return [(step, self._texts[step.row], _done(step)) for step in steps]

    def _static_html(self) -> str:
        rows = "\n".join(
            f"<tr><td>{step.line}</td><td><pre>{html.escape(text)}</pre></td>"
            f"<td>{'<br>'.join(map(html.escape, done))}</td></tr>"
            for step, text, done in self._table()
        )
        sentences = [failure_text(self.recording), *notes(self.recording)]
        paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in sentences if text)
        left = len(self.steps) - MOST_ROWS
        more = f"<p>{left:,} steps more.</p>" if left > 0 else ""
        kernel, program = html.escape(self.recording.kernel), program_text(self.opened)
        return (
            f"<p>{kernel}, program {program}, step by step</p>{paragraphs}"
            f"<table><tr><th>line</th><th></th><th>what it did</th></tr>{rows}</table>{more}"
        )


def _done(step: Step) -> list[str]:
    """What a step has done, in words."""
    values = [value_text(name, value) for name, value in step.sets.items()]
    touches = [touch.text for touch in step.touches]
    return [*values, *touches, *([step.error] if step.error else [])]
