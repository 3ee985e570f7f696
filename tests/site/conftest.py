"""The site, built once from the repository as it is, and browsers that note what goes wrong."""

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from course.environments import Environment
from docs.site import ROOT
from tests.browser.conftest import browser, new_context

__all__ = ["browser", "new_context", "offline", "open_page", "site"]

REPOSITORY = "https://github.com/someone/triton-course"
WIDE = {"width": 1400, "height": 900}
PHONE = {"width": 390, "height": 844}


def offline() -> list[str]:
    """What to put before a command so that it has no network; nothing where this is not allowed."""
    command = ["unshare", "--net", "--map-root-user"]
    allowed = shutil.which("unshare") and subprocess.run([*command, "true"]).returncode == 0
    return command if allowed else []


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The built site, of a repository with an address. It was built with the network cut off, once
    for all processes of this run."""
    around = tmp_path_factory.getbasetemp()
    folder = (around.parent if "PYTEST_XDIST_WORKER" in os.environ else around) / "built"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "said").exists():
            (folder / "said").write_text(build(folder))
    assert re.search(r"\d+ pages, [\d.]+ MB, built in \d+ s", (folder / "said").read_text())
    return folder / "site"


def build(folder: Path) -> str:
    """Build the site into folder/site; what that printed."""
    python = str(Environment(("site",)).python)
    command = [*offline(), python, "-m", "docs.site", str(folder)]
    environ = os.environ | {"SITE_REPOSITORY": REPOSITORY}
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def open_page(site, new_context):
    """Open a page of the site from its file. Whatever goes wrong there or is asked of another host
    fails the test at its end."""
    problems = []

    def note(page):
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda message: (
                problems.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.on(
            "request",
            lambda request: (
                problems.append(request.url)
                if not request.url.startswith(("file:", "data:", "http://127.0.0.1"))
                else None
            ),
        )

    def open_it(name, *, base=None, size=WIDE, loaded=None, **options):
        page = new_context(viewport=size, **options).new_page()
        note(page)
        if loaded is not None:
            page.on("request", lambda request: loaded.append(request.url))
        page.goto(f"{base or f'file://{site}'}/{name}")
        return page

    yield open_it
    assert problems == []
