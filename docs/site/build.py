"""Build the site: sources, Sphinx, checks. Runs in the tools' environment."""

import html
import json
import re
import shutil
import time
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from course.files import write_whole
from course.lessons import saved_widgets

from . import BUILD, ROOT, SiteError, check, elsewhere
from .address import UNKNOWN
from .in_browser import pack
from .lesson_pages import Sources, lay_out

OWN = ROOT / "docs" / "site"
ICON = re.compile(r'(?P<name>"[\w-]+"|\w+):\[\d+,\d+,\[[^\]]*\],"\w+",(?:"[^"]*"|\[[^\]]*\])\],?')
"""An icon in the theme's script: its name, its size, and the path of its shape."""


def build(folder: Path = BUILD) -> None:
    """Build the site, and print what it takes and where to open it.

    folder: where site/ will be, and what is made on the way. Raises SiteError.
    """
    begin = time.monotonic()
    site = folder / "site"
    sources = Sources(folder / "site-source")
    lay_out(sources)
    sources.write()
    write_static(folder / "site-static")
    run_sphinx(folder)
    remove_what_is_no_page(site, sources)
    thin_icons(site)
    write_descriptions(site)
    elsewhere.write(sources, site)
    if sources.address:
        shutil.copytree(folder / "site-source" / "cards", site / "cards", dirs_exist_ok=True)
    report = check.check(site)
    if report.problems:
        print(*report.problems, sep="\n")
        raise SiteError("The pages have the problems above: mend the texts that they come from.")
    outside = folder / "site-outside-links.txt"
    outside.write_text("".join(f"{link}\n" for link in sorted(report.outside)))
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
    took = time.monotonic() - begin
    print(
        f"{report.pages} pages, {size:.1f} MB, built in {took:.0f} s."
        f" {len(report.outside)} links lead outside: {outside}.\n"
        f"Open file://{site / 'index.html'}"
    )
    if not sources.address:
        print(UNKNOWN)


def run_sphinx(folder: Path) -> None:
    """Make pages of the sources; a warning is an error."""
    doctrees = folder / "site-doctrees"
    options = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(doctrees), "-c", str(OWN)]
    options.append("--write-all")  # the contents stand beside every page
    static = ["-D", f"html_static_path={folder / 'site-static'}"]
    if sphinx([*options, *static, str(folder / "site-source"), str(folder / "site")]):
        # A page that is not read again would not be complained of again.
        shutil.rmtree(doctrees, ignore_errors=True)
        raise SiteError("Sphinx found what is printed above: mend it, then run `make site` again.")


def remove_what_is_no_page(site: Path, sources: Sources) -> None:
    """Remove the theme's templates, and pages whose sources are gone: Sphinx leaves both."""
    wanted = {site / f"{page.rpartition('.')[0]}.html" for page in sources.files}
    wanted |= {site / "search.html", site / "genindex.html"}
    for path in site.rglob("*.html"):
        if path not in wanted:
            path.unlink()


def write_descriptions(site: Path) -> None:
    """Write what the search shows of a page where a script may not fetch it: from a file."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    said = {
        path.relative_to(site).as_posix(): html.unescape(found[1])
        for path, text in texts.items()
        if (found := re.search(r'<meta name="description" content="([^"]*)"', text))
    }
    script = f"globalThis.pageDescriptions = {json.dumps(said)};\n"
    write_whole(site / "_static" / "descriptions.js", script)


def thin_icons(site: Path) -> None:
    """Leave of the theme's icons, which are most of what a page loads, those that it shows."""
    scripts = site / "_static" / "scripts"
    theme = (scripts / "pydata-sphinx-theme.js").read_text(encoding="utf-8")
    pages = (site / name for name in ("index.html", "search.html", "lessons/01-vector-add.html"))
    shown = "".join(page.read_text(encoding="utf-8") for page in pages) + theme
    used = set(re.findall(r"\bfa-([a-z-]+)", shown))
    icons = (scripts / "fontawesome.js").read_text(encoding="utf-8")
    kept = ICON.sub(lambda icon: icon[0] if icon["name"].strip('"') in used else "", icons)
    write_whole(scripts / "fontawesome.js", kept)
    for path in (site / "_static").rglob("*.map"):
        path.unlink()  # what only a debugger asks for


def write_static(folder: Path) -> None:
    """Write the one script and the one style of the site: the widgets', and ours behind them. What
    runs cells in a page comes last, where Triton's Python is there to be packed."""
    folder.mkdir(parents=True, exist_ok=True)
    ours = [OWN]
    try:
        pack.write(folder / "in_browser")
        ours.append(OWN / "in_browser")
    except pack.NoTritonError as problem:
        print(f"No cell can be run on these pages: {problem}")
    for name, widgets in (("site.js", saved_widgets.script()), ("site.css", saved_widgets.style())):
        texts = [path.read_text(encoding="utf-8") for own in ours for path in [own / name]]
        write_whole(folder / name, "\n".join([widgets, *texts]))
