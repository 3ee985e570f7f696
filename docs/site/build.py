"""Build the site: sources, Sphinx, checks. Runs in the tools' environment."""

import shutil
import time

from sphinx.cmd.build import main as sphinx

from course.files import write_whole
from course.lessons import saved_widgets

from . import BUILD, OUT, ROOT, SiteError, check
from .sources import SOURCE, Sources, lay_out

DOCTREES = BUILD / "site-doctrees"
OUTSIDE = BUILD / "site-outside-links.txt"
"""The links to other hosts, one a line."""
STATIC = BUILD / "site-static"
OWN = ROOT / "docs" / "site"


def build() -> None:
    """Build build/site, and print what it takes and where to open it. Raises SiteError."""
    begin = time.monotonic()
    sources = Sources()
    lay_out(sources)
    sources.write()
    write_static()
    arguments = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(DOCTREES)]
    if sphinx([*arguments, "-c", str(OWN), str(SOURCE), str(OUT)]):
        shutil.rmtree(DOCTREES)  # a page that is not read again would not be complained of again
        raise SiteError("Sphinx found what is printed above: mend it, then run `make site` again.")
    remove_what_is_no_page(sources)
    report = check.check(OUT)
    print("".join(f"{problem}\n" for problem in report.problems), end="")
    if report.problems:
        raise SiteError("The pages have the problems above: mend the texts that they come from.")
    OUTSIDE.write_text("".join(f"{link}\n" for link in sorted(report.outside)))
    files = [path for path in OUT.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    took = time.monotonic() - begin
    print(f"{report.pages} pages, {size:.1f} MB, {took:.0f} s. Open file://{OUT / 'index.html'}")


def remove_what_is_no_page(sources: Sources) -> None:
    """Remove the theme's templates, and pages whose sources are gone: Sphinx leaves both."""
    wanted = {OUT / f"{page.rpartition('.')[0]}.html" for page in sources.files}
    wanted |= {OUT / "search.html", OUT / "genindex.html"}
    for path in OUT.rglob("*.html"):
        if path not in wanted:
            path.unlink()


def write_static() -> None:
    """Write the one script and the one style of the site: the widgets', and ours behind them."""
    STATIC.mkdir(parents=True, exist_ok=True)
    for name, widgets in (("site.js", saved_widgets.script()), ("site.css", saved_widgets.style())):
        write_whole(STATIC / name, f"{widgets}\n{(OWN / name).read_text(encoding='utf-8')}")
