"""The course as a web site: `python -m docs.site`, or `make site`.

| file | what is in it |
|---|---|
| `__main__.py` | the command; `make site` makes the environment for it first |
| `build.py` | sources, Sphinx, checks, and what is printed |
| `lesson_pages.py` | what Sphinx reads: the repository's texts, with links that hold on the site |
| `reference.py` | a page of the public names, from the source alone |
| `routes.py` | the ways through the course, from what the lessons say |
| `speeds.py` | a page of what was recorded |
| `address.py` | where the repository and the site are: one setting |
| `elsewhere.py` | the lessons as notebooks for Colab, Kaggle and other places |
| `first_kernel.py` | the kernel of the front page, and its replay as it was recorded |
| `questions.py` | exercises that a page judges by itself |
| `check.py` | links, anchors, alternative texts, foreign hosts |
| `conf.py`, `site.js`, `site.css`, `front.md` | Sphinx's settings, script, style, the front page |
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


class SiteError(Exception):
    """The site cannot be built; the message is one sentence that says what to do."""
