"""A profile as HTML: in a notebook, and as a page that stands alone, with explorers."""

import html
from typing import TYPE_CHECKING

from course.display.widget import code_block, saved, style, waking_script
from course.errors import CourseError
from course.lowering.explorer import KIND, SCRIPT, static_html

if TYPE_CHECKING:
    from .result import Profile, Row

STYLE = """body { margin: 1em; font-family: sans-serif; }
table { border-collapse: collapse; } td, th { padding: 0.2em 0.7em; text-align: left; }
tr { border-bottom: 1px solid #8886; } td.number { text-align: right; }
"""


def content_of(profile: "Profile") -> str:
    """The table and the tree, which folds."""
    parts = [_table(profile.table())] if len(profile) else ["No kernel was launched by Triton."]
    if profile.others:
        head = ("others", "launches", "time")
        rows = [(each.name, f"{each.launches:,}", f"{each.us:,.1f} us") for each in profile.others]
        parts.append(_table([head, *rows]))
    parts += [f"<p>note: {html.escape(note)}</p>" for note in profile.all_notes()]
    return "\n".join([*parts, _tree(profile.branches())])


def page_of(profile: "Profile", most: int) -> str:
    """A page of its own. most: how many kernels have their explorer in it."""
    explorers = [_explorer(n, row) for n, row in enumerate(profile.rows[:most])]
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Profile</title>
<style>{STYLE}{style(SCRIPT)}</style>
<body class="course-page">
<h1>Kernels, what there is to gain most first</h1>
{content_of(profile)}
{"".join(explorers)}
<script>
{waking_script({KIND: SCRIPT})}</script>
</html>
"""


def _explorer(number: int, row: "Row") -> str:
    title = f"<h2 id='kernel-{number}'>[{number}] {html.escape(row.name)}</h2>"
    try:
        explorer = row.explore()
    except CourseError as error:
        return f"{title}<p>{html.escape(str(error))}</p>"
    counted = code_block(f"{row.arguments}\n{row.counted}")
    panes = saved(
        KIND, {"panes": explorer.panes}, static_html(explorer.panes, explorer.overview)
    )
    return f"{title}{counted}{panes}"


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *body = rows
    cells = ["".join(f"<th>{html.escape(each)}</th>" for each in head)]
    cells += ["".join(map(_cell, row)) for row in body]
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _cell(text: str) -> str:
    number = " class='number' style='text-align:right'" if text[:1].isdigit() else ""
    return f"<td{number}>{html.escape(text)}</td>"


def _tree(branches: list[tuple[int, str]]) -> str:
    """Nested folds, open; a line with nothing below it is text."""
    parts, depths = [], [depth for depth, _ in branches] + [0]
    for number, (depth, text) in enumerate(branches):
        deeper = depths[number + 1] > depth
        escaped = html.escape(text)
        parts.append(
            f"<details open style='margin-left:1.2em'><summary>{escaped}</summary>"
            if deeper
            else f"<div style='margin-left:1.2em'>{escaped}</div>"
        )
        parts.append("</details>" * max(0, depth - depths[number + 1]))
    return "".join(parts)
