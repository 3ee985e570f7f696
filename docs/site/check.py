"""What must hold of the built pages: links and anchors lead somewhere, pictures have a text, and
nothing is loaded from another host."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src",
    "object": "data", "embed": "src", "video": "src", "audio": "src",
}  # fmt: skip
"""Elements that make a browser load something, with the attribute that says what."""
FOREIGN = re.compile(r"(?:https?:)?//", re.IGNORECASE)
FOREIGN_STYLE = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^\s\"')]+", re.IGNORECASE)


@dataclass
class Page(HTMLParser):
    """What a page links to, loads and shows."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    mute: list[str] = field(default_factory=list)
    """Pictures without a text."""
    handlers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.ids |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        is_loaded = tag != "link" or "canonical" not in attributes.get("rel", "")
        if tag in LOADED and LOADED[tag] in attributes and is_loaded:
            self.loads.append(attributes[LOADED[tag]])
        if tag == "img" and not attributes.get("alt", "").strip():
            self.mute.append(attributes.get("src", "")[:60])
        is_picture = attributes.get("role") == "img"
        if is_picture and not attributes.get("aria-label", "").strip():
            self.mute.append(f"<{tag} role=img>")
        self.handlers += [name for name in attributes if name.startswith("on")]
        self.loads += FOREIGN_STYLE.findall(attributes.get("style", ""))


@dataclass
class Report:
    """What was looked at, and what does not hold."""

    pages: int = 0
    problems: list[str] = field(default_factory=list)
    """Sentences."""
    outside: dict[str, list[str]] = field(default_factory=dict)
    """Links to other hosts, with the pages that have them. Following them is the reader's doing."""


def check(site: Path) -> Report:
    """Look at all pages and style sheets of a site."""
    site = site.resolve()
    pages = {path.relative_to(site).as_posix(): read(path) for path in sorted(site.rglob("*.html"))}
    report = Report(len(pages))
    for name, page in pages.items():
        for link in dict.fromkeys(page.links):
            _follow(report, site, pages, name, link)
        for load in dict.fromkeys(page.loads):
            _look_at_load(report, site, name, load)
        report.problems += [f"{name}: a picture has no text: {each}." for each in page.mute]
        report.problems += [f"{name}: an element has the handler {each}." for each in page.handlers]
    for style in sorted(site.rglob("*.css")):
        text = style.read_text(encoding="utf-8", errors="replace")
        report.problems += [
            f"{style.relative_to(site)}: a style loads {match}."
            for match in FOREIGN_STYLE.findall(text)
        ]
    return report


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def _follow(report: Report, site: Path, pages: dict[str, Page], name: str, link: str) -> None:
    parts = urlsplit(link)
    if parts.scheme in ("http", "https"):
        report.outside.setdefault(link, []).append(name)
    elif parts.scheme == "mailto":
        return
    elif parts.scheme or parts.netloc:
        report.problems.append(f"{name}: a link has no use on the web: {link}.")
    else:
        goal = _inside(site, name, parts.path)
        if goal is None:
            report.problems.append(f"{name}: a link leads nowhere: {link}.")
        elif parts.fragment and goal in pages and unquote(parts.fragment) not in pages[goal].ids:
            report.problems.append(f"{name}: a link's anchor is not there: {link}.")


def _look_at_load(report: Report, site: Path, name: str, load: str) -> None:
    if FOREIGN.search(load.partition(",")[0] if load.startswith("data:") else load):
        report.problems.append(f"{name}: it loads from another host: {load}.")
    elif not load.startswith("data:") and _inside(site, name, urlsplit(load).path) is None:
        report.problems.append(f"{name}: what it loads is not there: {load}.")


def _inside(site: Path, name: str, path: str) -> str | None:
    """The file of the site that a path leads to from a page; None where there is none."""
    if not path:
        return name
    goal = (site / name).parent / unquote(path)
    goal = goal / "index.html" if goal.is_dir() else goal
    goal = goal.resolve()
    if not goal.is_file() or not goal.is_relative_to(site):
        return None
    return goal.relative_to(site).as_posix()
