"""explore: the source and every stage of a kernel side by side, linked line by line.

Python computes the panes; static/explorer.js draws them. The same script serves the widget in a session and the page that
`to_html` writes; without any script the panes are still there, as plain text.
"""

import html
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course.display.highlight import lines
from course.display.widget import page_of, script, style, with_static, write_page
from course.errors import CourseError
from course.gpus.limits import TARGETS

from .api import Lowered, LowerError, Request, lower, lower_again
from .passes import without_location_only

SCRIPT = Path(__file__).with_suffix("")
TITLES = {
    "source": "Python", "ttir": "TTIR", "ttgir": "TTGIR", "llir": "LLVM IR", "ptx": "PTX", "sass": "SASS", "amdgcn": "GCN",
}  # fmt: skip
NUM_WARPS = (1, 2, 4, 8, 16)
NUM_STAGES = (1, 2, 3, 4, 5)

Pane = dict[str, Any]


def explore(kernel: Any, *args: Any, stages: list[str] | None = None, **kwargs: Any) -> "Explorer":
    """Linked panes over the source and the stages of a kernel.

    kernel: what `lower` has given, or a kernel, with args and kwargs as `lower` takes them. stages: the panes that are open at
        first, beside the source; by default TTGIR and PTX, or AMD's assembly. The others are a click away.
    Shown in a notebook; `.to_html("file.html")` writes a page that needs no session.
    """
    made = kernel if isinstance(kernel, Lowered) else lower(kernel, *args, **kwargs)
    return Explorer(made, stages)


class Explorer(anywidget.AnyWidget):
    """The widget. Its state is what the script draws: see `panes_of`."""

    _esm = script(SCRIPT)
    _css = style(SCRIPT)

    panes: Any = traitlets.List().tag(sync=True)
    """One a stage, the source first: name, title, open, lines, rows, groups, changed."""
    choices = traitlets.Dict().tag(sync=True)
    """target, num_warps, num_stages: what is chosen now, and from what."""
    overview = traitlets.Unicode().tag(sync=True)
    problem = traitlets.Unicode().tag(sync=True)
    """Why the last choice does not compile."""

    def __init__(self, made: Lowered, stages: list[str] | None = None) -> None:
        super().__init__()
        self.lowered = made
        open_first = stages or ["ttgir", "ptx" if made.target.nvidia else "amdgcn"]
        known = made.lines.stages
        if unknown := [stage for stage in open_first if stage not in known]:
            raise CourseError(
                f"{made.kernel} for {made.target.name} has no stage {unknown[0]!r}: it has {', '.join(known)}."
            )
        self._show(made, panes_of(made, open_first))
        self.on_msg(self._answer)

    def to_html(self, path: str | Path) -> Path:
        """Write one file that needs neither a session nor the network, with linking alive; return
        its path."""
        state = {"panes": self.panes, "overview": self.overview}
        page = page_of(SCRIPT, self.lowered.kernel, state, static_html(self.panes, self.overview))
        return write_page(path, page)

    def _show(self, made: Lowered, panes: list[Pane]) -> None:
        self.lowered = made
        options = made.metadata["options"]
        with self.hold_sync():
            self.problem = ""
            self.panes = panes
            self.overview = str(made)
            self.choices = {
                "target": [made.target.name, list(TARGETS)],
                "num_warps": [options["num_warps"], list(NUM_WARPS)],
                "num_stages": [options.get("num_stages", 0), list(NUM_STAGES)],
                "can_change": made.request is not None,
            }

    def _answer(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """What the script asks for: another setting, the list of passes, or what one of them
        changed."""
        try:
            if "hello" in content:  # what is saved has switches only where a session answers
                self.send({"hello": True})
            elif "choose" in content:
                self._choose(content["choose"])
            elif "passes" in content:
                changed = [[each.number, each.name] for each in self.lowered.passes.changed]
                self.send({"passes": changed, "all": len(self.lowered.passes)})
            elif "diff" in content:
                self.send({"diff": self.lowered.passes[int(content["diff"])].diff()})
        except (CourseError, LowerError) as error:
            self.problem = str(error)

    def _choose(self, chosen: dict[str, Any]) -> None:
        open_now = [pane["name"] for pane in chosen.pop("panes", self.panes) if pane["open"]]
        before = {pane["name"]: pane["lines"] for pane in self.panes}
        made = again(
            self.lowered, str(chosen["target"]), int(chosen["num_warps"]), int(chosen["num_stages"])
        )
        panes = panes_of(made, [*open_now, *(["amdgcn"] if not made.target.nvidia else [])])
        for pane in panes:
            old = {_plain(line) for line in before.get(pane["name"], [])}
            pane["changed"] = [
                row for row, line in enumerate(pane["lines"]) if old and _plain(line) not in old
            ]
        self._show(made, panes)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        static = {"text/html": static_html(self.panes, self.overview), "text/plain": self.overview}
        own = super()._repr_mimebundle_
        return with_static(static, lambda: own(**kwargs))


def again(made: Lowered, target: str, num_warps: int, num_stages: int) -> Lowered:
    """The same kernel for other settings."""
    if made.request is None:
        raise CourseError("A kernel from edited IR cannot be compiled for other settings.")
    kwargs = {
        **made.request.kwargs,
        "num_warps": {"constant": str(num_warps)},
        "num_stages": {"constant": str(num_stages)},
    }
    return lower_again(
        Request(made.request.reference, made.request.args, kwargs, made.request.literal), target
    )


def panes_of(made: Lowered, open_first: list[str]) -> list[Pane]:
    """What the script draws: for each stage its coloured lines, their numbers, and the line of the
    source each came from.

    groups: an index into the source's lines, or -1.
    """
    source = made.lines.source
    group_of = {line.frame: number for number, line in enumerate(source)}
    panes = [
        _pane(
            "source",
            [line.text for line in source],
            [line.number for line in source],
            list(range(len(source))),
            True,
        )
    ]
    for stage, text in made.readable().items():
        texts, rows, groups = [], [], []
        for row, line in enumerate(text.split("\n"), start=1):
            if line.startswith("#loc") or line.strip().startswith(("//##", ".loc", ".file", "!")):
                continue  # where a line came from is what the panes show
            origin = made.lines.back(stage, row)
            line = without_location_only(line)
            texts.append(" ".join(line.split()) if stage == "sass" and "/*" in line else line)
            rows.append(row)
            groups.append(group_of[origin.frame] if origin else -1)
        panes.append(_pane(stage, texts, rows, groups, stage in open_first))
    return panes


def _pane(name: str, texts: list[str], rows: list[int], groups: list[int], is_open: bool) -> Pane:
    coloured = lines("\n".join(texts), name)
    return {
        "name": name,
        "title": TITLES[name],
        "open": is_open,
        "folds": name in ("source", "ttir", "ttgir"),
        "rows": rows,
        "groups": groups,
        "changed": [],
        # Each line as alternating class and text, which takes less room than pairs.
        "lines": [[part for token in line for part in token] for line in coloured],
    }


def _plain(line: list[str]) -> str:
    return "".join(line[1::2])


def static_html(panes: list[Pane], overview: str) -> str:
    """The open panes as HTML that needs neither script nor style to be read."""
    parts = ['<div class="course-explorer-static">', f"<pre>{html.escape(overview)}</pre>"]
    for pane in panes:
        text = "\n".join(
            f"{row:5}  {_plain(line)}"
            for row, line in zip(pane["rows"], pane["lines"], strict=True)
        )
        opened = " open" if pane["open"] else ""
        parts.append(
            f"<details{opened}><summary>{html.escape(pane['title'])}</summary><pre>{html.escape(text)}</pre></details>"
        )
    return "\n".join([*parts, "</div>"])
