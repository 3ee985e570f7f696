"""What Sphinx reads, laid out in a folder: the repository's texts, with links that hold
on the site.

A link to a notebook leads to its page, one to any other file of the repository to a page with that
file. Files are written only where they differ from what is there, so that Sphinx builds anew what
has changed.
"""

import base64
import html
import json
import os
import re
from pathlib import Path
from typing import Any

from course.benching.result import Speeds

from . import ROOT, SiteError, first_kernel, routes, speeds
from .address import Address, address
from .questions import questions
from .reference import Reference

SHOWN = ("kernels", "solutions")
"""Folders whose Python files, and those below them, have a page each, linked or not."""
LANGUAGES = {
    ".py": "python",
    ".c": "c",
    ".h": "c",
    ".cc": "c++",
    ".md": "markdown",
    ".json": "json",
}
PICTURES = (".png", ".svg")
LINK_OR_CODE = re.compile(
    r"(?P<code>^(?P<fence>```+|~~~+).*?^(?P=fence)|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<text>\]\()(?P<target>[^)\s]+)",
    re.DOTALL | re.MULTILINE,
)
"""A link's beginning and its target; or code, in which nothing is a link."""


QUESTION = (
    '<form class="in-your-lab" data-question="{}"><label>Your answer <input></label>'
    " <button>Check</button><output></output></form>"
)
"""What judges an answer on the page, by itself."""
PAGES = {
    "docs/design.md": "design.md",
    "CONTRIBUTING.md": "contributing.md",
    "TEACHING.md": "teaching/index.md",
    "docs/teaching": "teaching/index.md",
    "hub/README.md": "teaching/room.md",
}
"""Files of the repository that have a place of their own on the site."""
FOLDERS = {"notebooks": "lessons", "docs/pages": "pages", "docs/teaching": "teaching"}
FOLDERS["docs/teaching/pilot"] = "teaching/pilot"
"""Folders whose files are pages -> where those stand on the site."""
FRONT = "docs/site/front.md"
CONTENTS = {
    "Lessons": ("lessons/",),
    "To look up": ("pages/",),
    "To teach with it": (
        *("teaching/index", "teaching/plans", "teaching/day", "teaching/helpers"),
        *("teaching/learners", "teaching/room", "teaching/cloud", "teaching/kubernetes"),
        "teaching/pilot",
        *(f"teaching/{digit}" for digit in range(10)),
    ),
    "Reference": (
        "reference/course.md",
        "reference/course-draw",
        "reference/course-aot",
        "reference/course-stock",
        "reference/results",
    ),
    "Kernels": ("kernels/",),
    "Behind the course": ("design", "contributing", "solutions/", "files/"),
}
"""The parts of the contents, and the pages of each by the beginnings of their paths."""


class Sources:
    """The folder that Sphinx reads, as it is filled."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder
        self.root = root
        self.address = address(root)
        self.files: dict[str, bytes] = {}
        """What is in the folder, by path: pages, and pictures that they show."""
        self.shown: set[str] = set()
        """Files of the repository that have a page of their own."""

    def add(self, path: str, text: str) -> None:
        """Add a page. path: in the folder, with its suffix."""
        self.files[path] = text.encode()

    def add_markdown(self, path: str, file: str) -> None:
        """Add a page from a Markdown file of the repository, with a link to edit it."""
        text = self.relink((self.root / file).read_text(encoding="utf-8"), file, path)
        edit = f"\n\n[Edit this page]({self.address.edit(file)})\n" if self.address else ""
        self.add(path, f"{text}{edit}")

    def relink(self, markdown: str, file: str, page: str = "", base: str = "") -> str:
        """Markdown with links that hold on the site.

        file: where the text stands in the repository; page: where it will stand on the site, or
        base: the site's address, for a text that will stand elsewhere.
        Raises SiteError for a link to what is not there.
        """

        def replace(match: re.Match[str]) -> str:
            target = match["target"]
            if match["code"] or re.match(r"[a-z]+:|#", target) or target in self.files:
                return match[0]
            name, mark, anchor = target.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(file), name))
            if not (self.root / path).is_file() and path not in PAGES:
                raise SiteError(f"{file} links to {target}, which is not there: mend that link.")
            goal = os.path.relpath(self.page_of(path), os.path.dirname(page) or ".")
            if base:
                goal = f"{base}/{re.sub('[.](md|ipynb)$', '.html', goal)}"
            return f"{match['text']}{goal}{mark}{anchor}"

        return LINK_OR_CODE.sub(replace, markdown)

    def page_of(self, path: str) -> str:
        """The page of a file of the repository, which it has from now on."""
        folder, name = os.path.split(path)
        if path in PAGES:
            return PAGES[path]
        if folder in FOLDERS and name.endswith((".md", ".ipynb")):
            return f"{FOLDERS[folder]}/{name}"
        if name.endswith(PICTURES):
            self.files[f"pictures/{name}"] = (self.root / path).read_bytes()
            return f"pictures/{name}"
        self.shown.add(path)
        if path.startswith(tuple(f"{shown}/" for shown in SHOWN)):
            return f"{path.removesuffix('.py')}.md"
        return f"files/{path.removesuffix('.md')}.md"

    def write(self) -> None:
        """Write what differs, and remove what no longer belongs."""
        for path, content in self.files.items():
            file = self.folder / path
            if not file.is_file() or file.read_bytes() != content:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        for file in self.folder.rglob("*"):
            if file.is_file() and file.relative_to(self.folder).as_posix() not in self.files:
                file.unlink()


def lay_out(sources: Sources) -> None:
    """Fill the folder."""
    add_lessons(sources)
    if sources.address:
        sources.files["cards/course.png"] = (sources.root / "docs" / "explorer.png").read_bytes()
    pages = [path for folder in FOLDERS for path in (sources.root / folder).glob("*.md")]
    files = [path.relative_to(sources.root).as_posix() for path in pages]
    for file in sorted({*files, *(file for file in PAGES if file.endswith(".md"))}):
        sources.add_markdown(sources.page_of(file), file)
    for name, text in Reference(sources.root).pages().items():
        sources.add(f"reference/{name}.md", text)
    records = sources.root / "course" / "benching" / "recorded"
    sources.add("pages/recorded-speeds.md", speeds.page(records))
    add_front_page(sources)
    for folder in SHOWN:
        for path in sorted((sources.root / folder).rglob("*.py")):
            sources.shown.add(path.relative_to(sources.root).as_posix())
    for path in sorted(sources.shown):
        sources.add(sources.page_of(path), file_page(path, (sources.root / path).read_text()))
    add_contents(sources)


def add_front_page(sources: Sources) -> None:
    """Add the front page, with the ways through the lessons and what else there is to look up."""
    text = (sources.root / FRONT).read_text(encoding="utf-8")
    if sources.address:
        text = text.replace("<this repository>", sources.address.repository)
    pages = sorted((sources.root / "docs" / "pages").glob("*.md"))
    titles = [(path, path.read_text(encoding="utf-8").partition("\n")[0]) for path in pages]
    listed = [f"- [{title.lstrip('# ')}](../pages/{path.name})" for path, title in titles]
    solutions = sources.root / "solutions"
    record = sources.root / "course" / "benching" / "recorded" / "swiglu.json"
    swiglu = Speeds.from_json(record.read_text())
    others = (sources.root / "docs" / "pages" / "others.md").read_text(encoding="utf-8")
    filled = {
        "parts": routes.parts("../../notebooks", solutions),
        "pages": "\n".join(listed),
        "minutes": str(routes.minutes_of(next(solutions.glob("00-*.py")))),
        "first kernel": f"```python\n{first_kernel.LAUNCHED}```",
        "first replay": first_kernel.SAVED.read_text(encoding="utf-8"),
        "swiglu": speeds.figure(swiglu),
        "swiglu source": swiglu.source,
        "others": "\n".join(line for line in others.split("\n") if line.startswith("|")),
    }
    text = re.sub("<!-- (.*?) -->", lambda place: filled[place[1]], text)
    sources.add("index.md", sources.relink(text, FRONT, "index.md"))


def add_contents(sources: Sources) -> None:
    """Add to the front page the contents that stand beside each page."""
    contents = "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"
        for caption, folders in CONTENTS.items()
        if (entries := "\n".join(_pages_in(sources, folders)))
    )
    sources.files["index.md"] += contents.encode()


def _pages_in(sources: Sources, folders: tuple[str, ...]) -> list[str]:
    """Entries of the contents; of a file's page its name alone."""
    return [
        f"{page.removeprefix(folder)}.py <{page}>" if folder in ("kernels/", "solutions/") else page
        for folder in folders
        for path in sorted(sources.files)
        if path.endswith((".md", ".ipynb")) and path.startswith(folder)
        for page in [os.path.splitext(path)[0]]
    ]


def add_lessons(sources: Sources) -> None:
    """Add the lessons as they are committed. Raises SiteError where one is missing or damaged."""
    stems = {path.stem for path in (sources.root / "solutions").glob("[0-9][0-9]-*.py")}
    for stem in sorted(stems):  # before any is read, since they link to one another
        if not (sources.root / "notebooks" / f"{stem}.ipynb").is_file():
            raise SiteError(
                f"notebooks/{stem}.ipynb is missing: run `course notebooks {stem[:2]}`."
            )
    for stem in sorted(stems):
        file = f"notebooks/{stem}.ipynb"
        try:
            notebook = json.loads((sources.root / file).read_text(encoding="utf-8"))
            cells = notebook["cells"]
        except (ValueError, KeyError, TypeError) as error:
            raise SiteError(
                f"{file} is no notebook ({error}): run `course notebooks {stem[:2]}`."
            ) from error
        page = f"lessons/{stem}.ipynb"
        asked = questions(sources.root / "course" / "exercises" / "lessons")
        _fold_what_is_predicted(cells)
        if sources.address and (card := first_picture(cells)):
            sources.files[f"cards/{stem}.png"] = card
            notebook.setdefault("metadata", {})["og:image"] = f"cards/{stem}.png"
        notebook["cells"] = [
            shown for cell in cells for shown in _cells(sources, cell, page, asked)
        ]
        title, mark, rest = "".join(notebook["cells"][0]["source"]).partition("\n\n")
        bar = one_click(sources.address, stem)
        notebook["cells"][0]["source"] = f"{title}\n\n{bar}{mark}{rest}"
        sources.add(page, json.dumps(notebook, indent=1))


def one_click(address: Address, stem: str) -> str:
    """The links at the head of a lesson: where it opens with one click, what to take along."""
    links = [f'<a href="../notebooks/{stem}.ipynb" download>Download the notebook</a>']
    if address:
        places = address.places(stem).items()
        links = [f'<a href="{link}">Open in {name}</a>' for name, link in places] + links
        links.append(f'<a href="{address.edit(f"solutions/{stem}.py")}">Edit</a>')
    return f'<p class="one-click">{" ".join(links)}</p>'


def first_picture(cells: list[dict[str, Any]]) -> bytes | None:
    """The first picture among a lesson's outputs, for the card of a shared link."""
    found = re.search(r"data:image/png;base64,([\w+/=]+)", json.dumps(cells))
    return base64.b64decode(found[1]) if found else None


def _fold_what_is_predicted(cells: list[dict[str, Any]]) -> None:
    """Fold the output that answers a prediction: the first one behind the text that asks for it."""
    is_asked = False
    for cell in cells:
        if cell["cell_type"] == "markdown":
            is_asked = "**Predict" in "".join(cell["source"])
        elif is_asked and cell["outputs"]:
            tags = cell["metadata"].setdefault("tags", [])
            tags.append("hide-output")  # as MyST-NB has it
            is_asked = False


def _cells(
    sources: Sources, cell: dict[str, Any], page: str, asked: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """A cell as the page shows it; behind the check of an exercise, how to answer it.

    asked: the questions that a page can judge.
    """
    text = "".join(cell["source"])
    name = Path(page).name
    if cell["cell_type"] == "markdown":
        return [cell | {"source": sources.relink(text, f"notebooks/{name}", page)}]
    shown = [cell | {"outputs": [_output(output) for output in cell["outputs"]]}]
    if 'data-course-widget=\\"explore' in json.dumps(cell["outputs"]):
        tags = [*cell["metadata"].get("tags", []), "full-width"]  # as the theme has it
        shown[0]["metadata"] = cell["metadata"] | {"tags": tags}
    if check := re.match(r"check\(\"([\w-]+)\"", text):
        command = f"make lab LAB={name[:2]}"
        lab = f"Write it in your own lab: <code>{command}</code> opens this lesson there."
        source = f'<div class="in-your-lab">{lab}</div>'
        if question := asked.get(check[1]):
            source = QUESTION.format(html.escape(json.dumps(question)))
        id_ = f"{cell['id']}-lab"
        shown.append({"cell_type": "markdown", "id": id_, "metadata": {}, "source": source})
    return shown


def _output(output: dict[str, Any]) -> dict[str, Any]:
    """An output without data that only programs read."""
    if "data" not in output:
        return output
    data = {kind: text for kind, text in output["data"].items() if "vnd.triton-course" not in kind}
    return output | {"data": data}


def file_page(path: str, text: str) -> str:
    """A page that shows a file."""
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text)), 3)
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"# {path}\n\n{fence}{{code-block}} {language}\n:linenos:\n\n{text.rstrip()}\n{fence}\n"
