"""What the widgets share: script and style, what a notebook keeps, pages that need no notebook."""

import html
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from course.files import write_whole

SHARED = Path(__file__).parent / "code"


def script(own: Path) -> str:
    """A widget's script, behind what all share. own: its path without the suffix."""
    return _joined(own, ".js")


def style(own: Path) -> str:
    """A widget's style, behind what all share. own: its path without the suffix."""
    return _joined(own, ".css")


def _joined(own: Path, suffix: str) -> str:
    return "\n".join(path.with_suffix(suffix).read_text(encoding="utf-8") for path in (SHARED, own))


def with_static(static: dict[str, str], widget_bundle: Callable[[], Any]) -> Any:
    """A widget's MIME bundle with HTML and text that need neither script nor session.

    widget_bundle: gives anywidget's own bundle, which is left out of notebooks that are kept
    (COURSE_STATIC=1): a widget's id differs from run to run.
    """
    if os.environ.get("COURSE_STATIC") == "1":
        return static
    own = widget_bundle()
    bundle, metadata = own if isinstance(own, tuple) else (own, {})
    return {**static, **(bundle or {}), "text/plain": static["text/plain"]}, metadata


def page_of(own: Path, title: str, state: Mapping[str, object], static: str) -> str:
    """A page of its own: the widget's script and style, with its state as data in it.

    state: the widget's traits. static: HTML for a browser that runs no script.
    """
    # A "<" in a kernel's strings could end the script element, or begin what hides its end.
    data = json.dumps(state).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title>
<style>body {{ margin: 1em; }}
{style(own)}</style>
<body class="course-page">
<div id="widget"></div>
<noscript>{static}</noscript>
<script type="application/json" id="data">{data}</script>
<script type="module">
{script(own).replace("export default", "const widget =")}
const state = JSON.parse(document.getElementById("data").textContent);
const model = {{ get: (name) => state[name], on: () => {{}}, off: () => {{}}, send: () => {{}} }};
widget.render({{ model, el: document.getElementById("widget") }});
</script>
</html>
"""


def write_page(path: str | Path, page: str) -> Path:
    """Write a page. Raises CourseError if it cannot be written."""
    path = Path(path)
    write_whole(path, page)
    return path
