"""What the widgets share: what a notebook keeps of them."""

import os
from typing import Any


def with_static(static: dict[str, str], widget: Any) -> Any:
    """A widget's MIME bundle with HTML and text that need neither script nor session.

    widget: a function that gives anywidget's own bundle. For notebooks that are kept (COURSE_STATIC=1) it is left out: a
    widget's id differs from run to run.
    """
    if os.environ.get("COURSE_STATIC") == "1":
        return static
    made = widget()
    bundle, metadata = made if isinstance(made, tuple) else (made, {})
    return {**static, **(bundle or {}), "text/plain": static["text/plain"]}, metadata
