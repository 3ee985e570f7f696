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

from course.display.widget import code_block, page_of, script, style, with_static, write_page
from course.errors import CourseError
from course.triton_internals.interpreter import Program
from course.type_names import AnyValue

from .records import Element, Recording, Step, grid_text, program_text
from .replay_state import MOST_KEPT, failure_text, notes, program_state, state_of
from .replay_text import value_text

SCRIPT = Path(__file__).with_suffix("")
KIND = "replay"
MOST_ROWS = 60
"""Steps in the text that needs no script."""

Again = Callable[[list[Program], Element | None], Recording]
"""Traces the launch anew: the programs to record, and an element to find the writer of."""


class Replay(anywidget.AnyWidget):
    """The widget. Its state is what the script draws."""

    _esm = script(SCRIPT)
    _css = style(SCRIPT)

    trace: Any = traitlets.Dict().tag(sync=True)
    """See `replay_state.state_of`."""

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
        if program and program not in self._programs:
            asked, shown = self._named(program), self._named(self.opened)
            recording.notes.append(
                f"Program {asked} was not reached before the launch ended: this is program {shown}."
            )
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
        title, content = self.recording.kernel, self._static_html()
        return write_page(path, page_of(KIND, SCRIPT, title, {"trace": self.trace}, content))

    def _kept_state(self) -> dict[str, object]:
        """What the script draws of a notebook that the course keeps."""
        programs = self._programs
        return {"trace": state_of(self.recording, programs, self.opened, MOST_KEPT)}

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

    def _named(self, program: Program) -> str:
        return program_text(program, grid=self.recording.grid)

    def _repr_mimebundle_(self, **kwargs: AnyValue) -> Any:
        static = {"text/html": self._static_html(), "text/plain": str(self)}
        own = super()._repr_mimebundle_
        return with_static(KIND, self._kept_state, static, lambda: own(**kwargs))

    def __str__(self) -> str:
        return "\n".join([self._title, *self._step_lines(), *self._sentences])

    __repr__ = __str__

    @property
    def _title(self) -> str:
        program, grid = self._named(self.opened), grid_text(self.recording.grid)
        return f"{self.recording.kernel}, program {program} of grid {grid}, step by step"

    @property
    def _sentences(self) -> list[str]:
        """Why it failed, where it did, and what a reader of the steps should know."""
        failure = failure_text(self.recording)
        return [*([failure] if failure else []), *notes(self.recording)]

    def _step_lines(self) -> list[str]:
        """The opened program's first steps, or its last if it failed: each line of the source, and
        indented below it what it did there."""
        steps = self.steps[-MOST_ROWS:] if self.recording.failure else self.steps[:MOST_ROWS]
        lines = []
        for step in steps:
            lines.append(f"line {step.line:4}  {self._texts[step.row]}".rstrip())
            lines += [f"{'':9}| {text}" for text in _done(step)]
        left, cut = len(self.steps) - len(steps), self._programs[self.opened].cut
        more = f"{left:,} more steps{', and others that were not kept' * cut}."
        return [*lines, *([more] if left else [])]

    def _static_html(self) -> str:
        paragraphs = (f"<p>{html.escape(text)}</p>" for text in (self._title, *self._sentences))
        return "\n".join([*paragraphs, code_block("\n".join(self._step_lines()))])


def _done(step: Step) -> list[str]:
    """What a step has done, in words."""
    values = [value_text(name, value) for name, value in step.sets.items()]
    touches = [touch.text for touch in step.touches]
    return [*values, *touches, *([step.error] if step.error else [])]
