"""A profile as HTML: in a notebook, and as a page that stands alone, with explorers."""

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from course.display.widget import code_block, html_page, saved
from course.errors import CourseError
from course.lowering.explorer import KIND, SCRIPT, static_html

if TYPE_CHECKING:
    from .result import Profile
    from .row import Row

STYLE = """body { margin: 1em; font-family: sans-serif; }
main > div, pre { overflow-x: auto; }
table { border-collapse: collapse; } td, th { padding: 0.2em 0.7em; text-align: left; }
tr { border-bottom: 1px solid #8886; }
"""
INDENTED = "style='margin-left:1.2em'"


def content_of(profile: "Profile") -> str:
    """The tables and the tree, which folds."""
    parts = [_table(rows) for rows in (profile.table(), profile.others_table()) if rows]
    parts += [f"<p>note: {escape(note)}</p>" for note in profile.all_notes()]
    return "\n".join([*parts, _tree(profile.branches())])


def page_of(profile: "Profile", most: int) -> str:
    """A page of its own. most: how many kernels have their explorer in it."""
    explorers = [_explorer(number, row) for number, row in enumerate(profile.rows[:most])]
    body = f"""<main>
<h1>Kernels, what there is to gain most first</h1>
{content_of(profile)}
<h2>Their stages</h2>
{"".join(explorers)}
</main>"""
    return html_page(KIND, SCRIPT, "Profile", body, STYLE)


def _explorer(number: int, row: "Row") -> str:
    title = f"<h3>[{number}] {escape(row.name)}</h3>{code_block(repr(row))}"
    try:
        explorer = row.explore()
    except CourseError as error:
        return f"{title}<p>{escape(str(error))}</p>"
    static = static_html(explorer.panes, explorer.overview)
    return title + saved(KIND, {"panes": explorer.panes}, static)


def _table(rows: list[tuple[str, ...]]) -> str:
    cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    cells[0] = cells[0].replace("td>", "th>").replace("<th></th>", "<td></td>")
    table = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<div tabindex=0><table>{table}</table></div>"


def _tree(branches: list[tuple[int, str]]) -> str:
    """Nested folds, open, each for a place with others below it."""
    parts, depth = [], 0
    for (deeper, text), (below, _) in pairwise([*branches, (0, "")]):
        parts.append("</details>" * (depth - deeper))
        if below > deeper:
            parts.append(f"<details open {INDENTED}><summary>{escape(text)}</summary>")
            depth = deeper + 1
        else:
            parts.append(f"<div {INDENTED}>{escape(text)}</div>")
            depth = deeper
    return "".join([*parts, "</details>" * depth])
