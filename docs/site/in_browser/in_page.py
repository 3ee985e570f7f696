"""Runs a page's cells: one namespace, what each prints, its value as a notebook shows it."""

import ast
import html
import io
import linecache
import os
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

os.environ |= {"COURSE_CHILD": "page", "TRITON_INTERPRET": "1", "COURSE_STATIC": "1"}

import course

OFFERED = {
    *("DEVICE", "MODE", "CourseError", "apart", "check", "draw", "hint", "replay", "verify"),
    *("heads", "matrices", "matrix_pairs", "vectors"),
}
"""What of the course a page has; the rest asks for a compiler or for what was recorded."""


def _absent(name: str) -> Callable[..., Any]:
    def absent(*_: Any, **__: Any) -> Any:
        raise course.CourseError(
            f"A page has no {name}: below such a cell it shows what was recorded. "
            "The lesson on your own machine runs it."
        )

    return absent


for _name in set(course.__all__) - OFFERED:
    setattr(course, _name, _absent(_name))

NAMES: dict[str, Any] = {"__name__": "__main__"}
"""What the cells of this page have defined."""


def run(cell: str, source: str) -> dict[str, str]:
    """Run a cell, whose place on the page is `cell`, in the page's namespace.

    Returns what it printed (`text`), its value as HTML (`html`), and how it failed (`error`).
    """
    shown = {"text": "", "html": "", "error": ""}
    file = f"<cell {cell}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            body = ast.parse(source, file).body
            last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), file, "exec"), NAMES)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), file, "eval"), NAMES)
                if value is not None and not _ends_in_semicolon(source):
                    shown["html"] = _shown(value)
    except BaseException as error:
        shown["error"] = _told(error, file)
    shown["text"] = printed.getvalue()
    return shown


def _ends_in_semicolon(source: str) -> bool:
    return source.rstrip().endswith(";")


def _shown(value: Any) -> str:
    """A value as HTML, as a notebook has it."""
    bundle = getattr(value, "_repr_mimebundle_", None)
    if bundle is not None:
        given = bundle()
        shown: dict[str, str] = given[0] if isinstance(given, tuple) else given
        if "text/html" in shown:
            return shown["text/html"]
    if hasattr(value, "_repr_html_"):
        return str(value._repr_html_())
    return f"<pre>{html.escape(repr(value))}</pre>"


def _told(error: BaseException, file: str) -> str:
    """An exception in a notebook's words: the lines of cells that led there, and what it says."""
    own = getattr(error, "_render_traceback_", None)
    if own is not None:
        return "\n".join(own())
    said = "".join(traceback.format_exception_only(error)).rstrip()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"Line {each.lineno}:  {each.line}" for each in frames if each.filename == file]
    if isinstance(error, SyntaxError):
        return said
    return "\n".join([*lines, said])
