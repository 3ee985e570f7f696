"""replay: step through the programs of a launch, line by line, forwards and backwards.

Python records; static/replay.js draws. The same script serves the widget in a session, the saved widget and the page that
`to_html` writes; without any script the steps of one program are there as a table.
"""

import html
import inspect
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course.display.highlight import lines
from course.display.widget import page_of, script, style, with_static, write_page
from course.errors import CourseError
from course.triton_internals.jit_functions import plain_function

from . import worker as tasks
from .launching import TRACE_S, Asked, asked, run
from .replay_text import grid_text, named, touch_text, value_text
from .saved_steps import part_of, size_of

SCRIPT = Path(__file__).with_suffix("")
MOST_SAVED = 300_000
"""Characters of the recorded programs that a notebook keeps."""
MOST_ROWS = 60
"""Steps in the table that needs no script."""

Json = dict[str, Any]
Again = Callable[[list[Any], Any], Json]
"""Traces the launch anew: the programs to record, and an element to find the writer of."""


def replay(kernel: Any, grid: Any, *args: Any, **kwargs: Any) -> "Replay":
    """Step through the programs of a launch.

    kernel, grid, args, kwargs: as in kernel[grid](*args, **kwargs). It is run in the interpreter, on copies of the tensors.
    program: a number, or a tuple, of the program to open at; by default the first, or the one that fails.
    element: a parameter's name and an index, as ("out_ptr", 5) or ("out_ptr", (3, 5)): opens where that element is written.

    Shown in a notebook; `.to_html("file.html")` writes a page that needs no session. Raises CourseError where the launch is
    none.
    """
    own = (
        set(inspect.signature(function).parameters)
        if (function := plain_function(kernel))
        else set()
    )
    program, element = (
        kwargs.pop(name, None) if name not in own else None for name in ("program", "element")
    )
    launch = asked("replay", kernel, grid, args, kwargs)
    first = _program(program, launch.grid)
    wanted = _element(element)

    def again(programs: list[Any], at: Any) -> Json:
        found: Json = run(tasks.replay, launch, programs, at, TRACE_S)
        return found

    return Replay(
        again, again(_recorded_first(launch, first), wanted), first if program is not None else None
    )


def _recorded_first(launch: Asked, first: tuple[int, int, int]) -> list[Any]:
    """The programs to record: the one asked for, the first, its neighbour and the last."""
    x, y, z = launch.grid
    return [first, (0, 0, 0), (min(1, x - 1), 0, 0), (x - 1, y - 1, z - 1)]


def _program(program: Any, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    given = (
        (0, 0, 0)
        if program is None
        else program
        if isinstance(program, (tuple, list))
        else (program,)
    )
    try:
        x, y, z = (*map(operator.index, given), 0, 0, 0)[:3]
        if len(given) > 3 or not all(
            0 <= i < size for i, size in zip((x, y, z), grid, strict=True)
        ):
            raise TypeError
    except TypeError:
        raise CourseError(
            f"There is no program {program!r} in the grid {grid_text(list(grid))}."
        ) from None
    return x, y, z


def _element(element: Any) -> Any:
    if element is None:
        return None
    if (
        not isinstance(element, (tuple, list))
        or len(element) != 2
        or not isinstance(element[0], str)
    ):
        raise CourseError(
            f'element takes a parameter\'s name and an index, as ("out_ptr", (3, 5)); it is {element!r:.60}.'
        )
    name, index = element
    try:
        return [
            name,
            [operator.index(i) for i in (index if isinstance(index, (tuple, list)) else (index,))],
        ]
    except TypeError:
        raise CourseError(
            f"The index of element must be whole numbers; it is {index!r:.60}."
        ) from None


class Replay(anywidget.AnyWidget):
    """The widget. Its state is what the script draws."""

    _esm = script(SCRIPT)
    _css = style(SCRIPT)

    trace: Any = traitlets.Dict().tag(sync=True)

    def __init__(self, again: Again, content: Json, program: Any = None) -> None:
        """again: what traces once more for a program that was not recorded. content: what it has given first."""
        super().__init__()
        self._again = again
        self._recorded = {tuple(each["program"]): each for each in content["recorded"]}
        if not self._recorded:
            raise CourseError(
                "The program to be shown did not run again: there is nothing to step through."
            )
        self.content = content
        """What the trace has found, as `tracing.tasks.content_of` gives it."""
        opened = tuple(content["opened"] or program or (0, 0, 0))
        self.opened = opened if opened in self._recorded else next(iter(self._recorded))
        places = [
            (function["file"], function["line"] + offset, text)
            for function in content["source"]
            for offset, text in enumerate(function["text"].split("\n"))
        ]
        self._texts = [text for *_, text in places]
        self._row = {(file, line): row for row, (file, line, _) in enumerate(places)}
        self.trace = self._drawn()
        self.on_msg(self._answer)

    def to_html(self, path: str | Path) -> Path:
        """Write one file that needs neither a session nor the network, with the saved programs to step; return its path."""
        return write_page(
            path,
            page_of(SCRIPT, self.content["kernel"], {"trace": self.trace}, self._static_html()),
        )

    @property
    def steps(self) -> list[Json]:
        """The steps of the program that it opens at: line, what it has set, what it has touched."""
        found: list[Json] = self._recorded[self.opened]["steps"]
        return found

    def _drawn(self) -> Json:
        """What the script draws."""
        content = self.content
        source = [
            {
                "row": function["line"] + offset,
                "parts": [part for token in tokens for part in token],
            }
            for function in content["source"]
            for offset, tokens in enumerate(lines(function["text"], "source"))
        ]
        loops = [
            [self._row[file, first], self._row[file, last]]
            for file, first, last in content["loops"]
        ]
        x, y, z = content["grid"]
        everywhere = len(content["ran"]) == x * y * z
        saved = [
            part_of(
                self._with_rows(self._recorded[self.opened]),
                MOST_SAVED,
                last=bool(content["failure"]),
            )
        ]
        for program, recorded in self._recorded.items():
            if (
                program != self.opened
                and sum(map(size_of, saved)) + size_of(recorded) <= MOST_SAVED
            ):
                saved.append(self._with_rows(recorded))
        return {
            "kernel": content["kernel"], "grid": content["grid"], "lines": source, "loops": loops,
            "ran": None if everywhere else content["ran"], "tensors": content["tensors"], "programs": saved,
            "opened": {"program": list(self.opened), "at": self._at(), "part": "part" in saved[0]},
            "failure": self._failure(), "notes": self._notes(everywhere),
        }  # fmt: skip

    def _with_rows(self, recorded: Json) -> Json:
        """A program as the script takes it: with the rows of the source in place of files and lines."""
        names = ("depth", "sets", "touches", "error", "end")
        steps = [
            {
                "row": self._row.get((each["file"], each["line"]), 0),
                **{name: each[name] for name in names},
            }
            for each in recorded["steps"]
        ]
        return {**recorded, "steps": steps}

    def _at(self) -> Json:
        """Where in the opened program to open."""
        if self.content["failure"]:
            return {"step": -1}
        if self.content["element"]:
            name, index = self.content["element"]
            number = next(
                i for i, tensor in enumerate(self.content["tensors"]) if tensor["name"] == name
            )
            return {"tensor": number, "cell": _cell(self.content["tensors"][number], index)}
        return {"step": 0}

    def _failure(self) -> str:
        failure = self.content["failure"]
        if not failure:
            return ""
        more = (
            " Here are its first steps, and the one at which it was stopped."
            if failure["stopped"]
            else ""
        )
        return f"{failure['text']}{more}"

    def _notes(self, everywhere: bool) -> list[str]:
        notes = list(self.content.get("notes", []))
        if not everywhere and not self.content["failure"]:
            x, y, z = self.content["grid"]
            notes.append(
                f"Of {x * y * z:,} programs a sample of {len(self.content['ran']):,} was run."
            )
        if any(tensor["dtype"] == "bfloat16" for tensor in self.content["tensors"]):
            notes.append(
                "Triton's interpreter computes wrongly in bfloat16: what is converted to float32 first is right."
            )
        for tensor in self.content["tensors"]:
            for name, what in (
                ("twice", "written by several programs"),
                ("unwritten", "read, and written by nobody"),
            ):
                if count := tensor["counts"][name]:
                    elements = "1 element" if count == 1 else f"{count:,} elements"
                    notes.append(
                        f"{elements} of {tensor['name']} {'was' if count == 1 else 'were'} {what}."
                    )
        return notes

    def _answer(self, _: Any, content: Json, __: Any) -> None:
        """What the script asks for: whether a session is there, or another program."""
        try:
            if "hello" in content:
                self.send({"hello": True})
            elif "program" in content:
                program = tuple(int(i) for i in content["program"])
                if program not in self._recorded:
                    found = self._again([program], None)
                    self._recorded |= {tuple(each["program"]): each for each in found["recorded"]}
                if program not in self._recorded:
                    raise CourseError(
                        f"Program {program} did not come to run: {(self.content['failure'] or {}).get('text', '')}"
                    )
                self.send({"recorded": self._with_rows(self._recorded[program])})
        except CourseError as error:
            self.send({"problem": str(error)})

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        static = {"text/html": self._static_html(), "text/plain": str(self)}
        own = super()._repr_mimebundle_
        return with_static(static, lambda: own(**kwargs))

    def __str__(self) -> str:
        content = self.content
        head = f"{content['kernel']}, program {named(self.opened)} of grid {grid_text(content['grid'])}, step by step"
        rows = [
            f"line {row:4}  {source.strip():44} {' '.join(done)}".rstrip()
            for row, source, done in self._table()
        ]
        return "\n".join(
            [head, *rows, *([self._failure()] if content["failure"] else []), *self.trace["notes"]]
        )

    __repr__ = __str__

    def _table(self) -> list[tuple[int, str, list[str]]]:
        """Of the opened program: line, source, what the step has done. The last steps of one that failed, else the first."""
        steps = self.steps[-MOST_ROWS:] if self.content["failure"] else self.steps[:MOST_ROWS]
        found = []
        for step in steps:
            text = self._texts[self._row.get((step["file"], step["line"]), 0)]
            done = [value_text(name, value) for name, value in step["sets"].items()]
            done += [touch_text(touch) for touch in step["touches"]]
            found.append((step["line"], text, [*done, *([step["error"]] if step["error"] else [])]))
        return found

    def _static_html(self) -> str:
        rows = "\n".join(
            f"<tr><td>{row}</td><td><pre>{html.escape(text)}</pre></td><td>{'<br>'.join(map(html.escape, done))}</td></tr>"
            for row, text, done in self._table()
        )
        notes = "".join(
            f"<p>{html.escape(note)}</p>"
            for note in [self._failure(), *self.trace["notes"]]
            if note
        )
        left = len(self.steps) - MOST_ROWS
        more = f"<p>{left:,} steps more.</p>" if left > 0 else ""
        return (
            f"<p>{html.escape(self.content['kernel'])}, program {named(self.opened)}, step by step</p>{notes}"
            f"<table><tr><th>line</th><th></th><th>what it did</th></tr>{rows}</table>{more}"
        )


def _cell(tensor: Json, index: list[int]) -> int:
    import numpy as np

    from .downsample import Panel

    number = int(np.ravel_multi_index(tuple(index), tuple(tensor["shape"]))) if index else 0
    return int(Panel(tuple(tensor["shape"])).of(np.array([number]))[0])
