"""explore: the source and every stage of a kernel side by side, linked line by line.

Python computes the panes; explorer.js draws them. The same script serves the widget in a session
and the page that `to_html` writes; without any script the panes are still there, as plain text.
"""

import html
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course.display.highlight import lines as colored_lines
from course.display.widget import code_block, page_of, script, style, with_static, write_page
from course.errors import CourseError
from course.gpus.limits import TARGETS
from course.type_names import AnyValue, Kernel

from .api import Lowered, lower, lower_again
from .passes import without_location
from .sass import LEGEND, ControlCode

SCRIPT = Path(__file__).with_suffix("")
KIND = "explore"
TITLES = {
    "source": "Python", "ttir": "TTIR", "glir": "GLIR", "ttgir": "TTGIR", "llir": "LLVM IR",
    "ptx": "PTX", "sass": "SASS", "amdgcn": "GCN",
}  # fmt: skip
FOLDED = ("source", "ttir", "glir", "ttgir")
NUM_WARPS = (1, 2, 4, 8, 16)
NUM_STAGES = (1, 2, 3, 4, 5)


Pane = dict[str, Any]
"""What the script draws of a stage."""


def explore(
    kernel: Kernel, *args: AnyValue, stages: list[str] | None = None, **kwargs: AnyValue
) -> "Explorer":
    """Linked panes over the source and the stages of a kernel.

    kernel: what `lower` has given, or a kernel, with args and kwargs as `lower` takes them.
    stages: the panes that are open at first, beside the source; by default TTGIR and PTX, or AMD's
        assembly. Where the page has no room for so many, the first alone; all are a click away.
    Shown in a notebook; `.to_html("file.html")` writes a page that needs no session.
    """
    lowered = kernel if isinstance(kernel, Lowered) else lower(kernel, *args, **kwargs)
    return Explorer(lowered, stages)


class Explorer(anywidget.AnyWidget):
    """The widget. Its state is what the script draws."""

    _esm = script(SCRIPT)
    _css = style(SCRIPT)

    panes: Any = traitlets.List().tag(sync=True)
    """A `Pane` per stage, the source first."""
    choices = traitlets.Dict().tag(sync=True)
    """target, num_warps, num_stages: what is chosen now, and from what."""
    overview = traitlets.Unicode().tag(sync=True)
    problem = traitlets.Unicode().tag(sync=True)
    """Why the last choice does not compile."""

    def __init__(self, lowered: Lowered, stages: list[str] | None = None) -> None:
        super().__init__()
        stages = stages or ["ttgir", "ptx" if lowered.target.nvidia else "amdgcn"]
        known = lowered.lines.stages
        if unknown := [stage for stage in stages if stage not in known]:
            raise CourseError(
                f"{lowered.kernel} for {lowered.target.name} has no stage {unknown[0]!r}: "
                f"it has {', '.join(known)}."
            )
        self._show(lowered, panes_of(lowered, stages))
        self.on_msg(self._answer)

    def to_html(self, path: str | Path) -> Path:
        """Write one file that links without a session or the network; return its path."""
        content = static_html(self.panes, self.overview)
        return write_page(
            path, page_of(KIND, SCRIPT, self.lowered.kernel, {"panes": self.panes}, content)
        )

    def _show(self, lowered: Lowered, panes: list[Pane]) -> None:
        self.lowered = lowered
        options = lowered.launch_options
        with self.hold_sync():
            self.problem = ""
            self.panes = panes
            self.overview = str(lowered)
            self.choices = {
                "target": [lowered.target.name, list(TARGETS)],
                "num_warps": [options["num_warps"], list(NUM_WARPS)],
                "num_stages": [options.get("num_stages", 0), list(NUM_STAGES)],
                "can_change": lowered.request is not None,
            }

    def _answer(self, _: Any, message: dict[str, Any], __: Any) -> None:
        """Answer the script: another setting, the list of passes, or what one of them changed."""
        try:
            if "hello" in message:  # what is saved has switches only if a session answers
                self.send({"hello": True})
            elif "choose" in message:
                self._choose(message["choose"])
            elif "passes" in message:
                passes = self.lowered.passes
                changed = [[each.number, each.name] for each in passes.changed]
                self.send({"passes": changed, "all": len(passes)})
            elif "diff" in message:
                self.send({"diff": self.lowered.passes[int(message["diff"])].diff()})
        except CourseError as error:
            self.problem = str(error)

    def _choose(self, choice: dict[str, Any]) -> None:
        before = {pane["name"]: {*map(_plain, pane["lines"])} for pane in self.panes}
        stages = [pane["name"] for pane in choice.get("panes", self.panes) if pane["open"]]
        warps, stage_count = int(choice["num_warps"]), int(choice["num_stages"])
        lowered = again(self.lowered, str(choice["target"]), warps, stage_count)
        panes = panes_of(lowered, stages if lowered.target.nvidia else [*stages, "amdgcn"])
        for pane in panes:
            if old := before.get(pane["name"]):
                new = enumerate(map(_plain, pane["lines"]))
                pane["changed"] = [row for row, line in new if line not in old]
        self._show(lowered, panes)

    def _repr_mimebundle_(self, **kwargs: AnyValue) -> Any:
        static = {"text/html": static_html(self.panes, self.overview), "text/plain": self.overview}
        own = super()._repr_mimebundle_
        return with_static(KIND, lambda: {"panes": self.panes}, static, lambda: own(**kwargs))


def again(lowered: Lowered, target: str, num_warps: int, num_stages: int) -> Lowered:
    """The same kernel for other settings."""
    if lowered.request is None:
        raise CourseError("A kernel from edited IR cannot be compiled for other settings.")
    request = lowered.request.with_options(num_warps=num_warps, num_stages=num_stages)
    return lower_again(request, target)


def panes_of(lowered: Lowered, open_stages: list[str]) -> list[Pane]:
    """The panes of a kernel: its source, and each stage that is text."""
    source = lowered.lines.source
    group_of = {line.frame: number for number, line in enumerate(source)}
    numbers = [line.number for line in source]
    texts = [line.text for line in source]
    panes = [_pane("source", texts, numbers, list(range(len(source))), is_open=True)]
    for stage, text in lowered.readable().items():
        texts, rows, groups = [], [], []
        codes = lowered.control_codes if stage == "sass" else {}
        for row, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
            if line.startswith("#loc") or line.strip().startswith(("//##", ".loc", ".file", "!")):
                continue  # where a line came from is what the panes show
            origin = lowered.lines.back(stage, row)
            line = without_location(line)
            texts.append(_instruction(line, codes.get(row)) if stage == "sass" else line)
            rows.append(row)
            groups.append(group_of[origin.frame] if origin else -1)
        pane = _pane(stage, texts, rows, groups, stage in open_stages)
        if hidden := row - len(rows):
            pane["counted"] = f"{row:,} lines ({hidden:,} notes of source lines hidden)"
        panes.append(pane)
    return panes


def _instruction(line: str, code: ControlCode | None) -> str:
    """A line of SASS, with its control code if it is an instruction."""
    words = " ".join(line.split())
    return f"{code} {words}" if code else words if "/*" in line else line


def _pane(name: str, texts: list[str], rows: list[int], groups: list[int], is_open: bool) -> Pane:
    colored = colored_lines("\n".join(texts), name)
    return {
        "name": name,
        "title": TITLES[name],
        "open": is_open,
        # How many lines the stage has, in words.
        "counted": f"{len(rows):,} lines",
        # What the brackets before each line mean.
        "legend": LEGEND if name == "sass" else "",
        # Whether what is nested can be folded.
        "folds": name in FOLDED,
        # The number of each line.
        "rows": rows,
        # The index of the line of the source that each line came from, or -1.
        "groups": groups,
        # Indexes of lines that the last choice has changed.
        "changed": [],
        # Each line as alternating class and text, which takes less room than pairs.
        "lines": [[part for token in line for part in token] for line in colored],
    }


def _plain(line: list[str]) -> str:
    return "".join(line[1::2])


def static_html(panes: list[Pane], overview: str) -> str:
    """All panes as HTML that needs neither script nor style to be read; the open ones unfolded."""
    parts = [code_block(overview)]
    for pane in panes:
        numbered = zip(pane["rows"], pane["lines"], strict=True)
        text = "\n".join(f"{row:5}  {_plain(line)}" for row, line in numbered)
        summary = f"<summary>{html.escape(pane['title'])}, {pane['counted']}</summary>"
        legend = f"<p>{html.escape(pane['legend'])}</p>" if pane["legend"] else ""
        is_open = " open" if pane["open"] else ""
        parts.append(f"<details{is_open}>{summary}{legend}{code_block(text)}</details>")
    return "\n".join(parts)
