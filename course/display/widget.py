"""What the widgets share: script and style, what a notebook keeps, pages that need no notebook."""

import base64
import html
import json
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from course.files import write_whole

SHARED = Path(__file__).parent / "code"
WAKE = Path(__file__).parent / "saved.js"
CODE_STYLE = "overflow:auto;max-height:31.5em;line-height:1.4"
"""22 lines and a half, so that one sees where a text goes on below."""


def script(own: Path) -> str:
    """A widget's script, behind what all share. own: its path without the suffix."""
    return _joined(own, ".js")


def style(own: Path) -> str:
    """A widget's style, behind what all share. own: its path without the suffix."""
    return _joined(own, ".css")


def _joined(own: Path, suffix: str) -> str:
    paths = (path.with_suffix(suffix) for path in (SHARED, own))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def waking_script(widgets: Mapping[str, Path]) -> str:
    """One classic script that puts the live widget in place of each one that a page holds saved.

    widgets: for each kind of widget its script's path without the suffix. Works from file://,
    since it is no module and asks for nothing.
    """
    shared = SHARED.with_suffix(".js").read_text(encoding="utf-8")
    kinds = []
    for name, own in widgets.items():
        text = own.with_suffix(".js").read_text(encoding="utf-8")
        body = text.replace("export default", "return")
        kinds.append(f"widgets[{json.dumps(name)}] = (() => {{\n{body}}})();")
    wake = WAKE.read_text(encoding="utf-8")
    return "\n".join(["(() => {", shared, "const widgets = {};", *kinds, wake, "})();", ""])


def code_block(text: str) -> str:
    """Text as fixed-width HTML that scrolls in itself.

    Both elements and the style are needed: nbconvert's page sets <pre> in the face of its prose
    and wraps <code>; a code host strips the style.
    """
    code = f'<code style="white-space:pre">{html.escape(text)}</code>'
    return f'<pre style="{CODE_STYLE}">{code}</pre>'


def saved(kind: str, state: Mapping[str, object], content: str) -> str:
    """HTML that a page keeps of a widget: `content` to read, and the state for the waking script.

    The contract stands in docs/design.md, "Widgets".
    """
    packed = base64.b64encode(zlib.compress(json.dumps(state).encode(), 9)).decode()
    return f'<div data-course-widget="{kind}" data-state="{packed}">\n{content}\n</div>'


def with_static(
    kind: str,
    state: Callable[[], Mapping[str, object]],
    static: dict[str, str],
    widget_bundle: Callable[[], Any],
) -> Any:
    """A widget's MIME bundle with HTML and text that need neither script nor session.

    state: what the script draws, for notebooks that are kept (COURSE_STATIC=1).
    static: the text/html and text/plain of the bundle.
    widget_bundle: gives anywidget's own bundle, which is left out of notebooks that are kept: a
        widget's id differs from run to run.
    """
    if os.environ.get("COURSE_STATIC") == "1":
        return {**static, "text/html": saved(kind, state(), static["text/html"])}
    own = widget_bundle()
    bundle, metadata = own if isinstance(own, tuple) else (own, {})
    return {**static, **(bundle or {}), "text/plain": static["text/plain"]}, metadata


def page_of(kind: str, own: Path, title: str, state: Mapping[str, object], content: str) -> str:
    """A page of its own: the saved widget with its style, and the script that wakes it.

    own: the path of the widget's script without the suffix. content: HTML for a browser that runs
        no script.
    """
    return html_page(kind, own, title, saved(kind, state, content))


def html_page(
    kind: str, own: Path, title: str, body: str, css: str = "body { margin: 1em; }\n"
) -> str:
    """A page around HTML that holds saved widgets of a kind. css: the page's own."""
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title>
<style>{css}{style(own)}</style>
<body class="course-page">
{body}
<script>
{waking_script({kind: own})}</script>
</html>
"""


def write_page(path: str | Path, page: str) -> Path:
    """Write a page. Raises CourseError if it cannot be written."""
    path = Path(path)
    write_whole(path, page)
    return path
