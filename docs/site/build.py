"""Build the site: sources, Sphinx, checks. Runs in the tools' environment."""

import shutil
import time

from sphinx.cmd.build import main as sphinx

from . import BUILD, OUT, ROOT, SiteError
from .sources import SOURCE, Sources, lay_out

DOCTREES = BUILD / "site-doctrees"


def build() -> None:
    """Build build/site, and print what it takes and where to open it. Raises SiteError."""
    begin = time.monotonic()
    sources = Sources()
    lay_out(sources)
    sources.write()
    arguments = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(DOCTREES)]
    if sphinx([*arguments, "-c", str(ROOT / "docs" / "site"), str(SOURCE), str(OUT)]):
        shutil.rmtree(DOCTREES)  # a page that is not read again would not be complained of again
        raise SiteError("Sphinx found what is printed above: mend it, then run `make site` again.")
    shutil.rmtree(OUT / "_sources", ignore_errors=True)
    files = [path for path in OUT.rglob("*") if path.is_file()]
    pages = sum(path.suffix == ".html" for path in files)
    size = sum(path.stat().st_size for path in files) / 1e6
    took = time.monotonic() - begin
    print(f"{pages} pages, {size:.1f} MB, {took:.0f} s. Open file://{OUT / 'index.html'}")
