"""The lessons in a real JupyterLab, in a real browser."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from course.doctor import find_browser
from course.teaching import lab
from course.teaching.sources import NOTEBOOKS

pytestmark = pytest.mark.browser

# Runs every cell, and fails where that has not ended after two minutes: Page.evaluate knows no time limit.
RUN_ALL = """() => {
    const run = async () => {
        const panel = window.jupyterapp.shell.currentWidget;
        await panel.context.ready;
        await panel.sessionContext.ready;
        await panel.sessionContext.session.kernel.info;
        await window.jupyterapp.commands.execute('notebook:run-all-cells');
    };
    const late = new Promise((_, fail) => setTimeout(() => fail(new Error('the lesson did not end')), 120000));
    return Promise.race([run(), late]);
}"""
CELLS = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
    return Array.from(cells, cell => cell.toJSON()).filter(cell => cell.cell_type === 'code');
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """JupyterLab as `make lab` starts it, on copies of the lessons; gives its address with the token."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(NOTEBOOKS, home / "work")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = "token-for-this-test"
    own = {"HOME": str(home), "JUPYTER_RUNTIME_DIR": str(home / "run"), "JUPYTER_CONFIG_DIR": str(home / "config")}
    options = ["--no-browser", f"--ServerApp.port={port}", "--expose-app-in-browser", f"--IdentityProvider.token={token}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *lab.arguments(home), *options],
        cwd=home, env=os.environ | own, stdout=(home / "log").open("w"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}/lab/tree/work"
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}?token={token}", timeout=5)
                break
            except OSError:
                time.sleep(0.25)
        yield f"{address}/{{name}}?token={token}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"]
        running = started.chromium.launch(executable_path=find_browser(), args=options)
        yield running
        running.close()


@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS.glob("*.ipynb")))
def test_a_lesson_runs_from_top_to_bottom(name, server, browser, tmp_path):
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(server.format(name=name))
    page.wait_for_function("window.jupyterapp?.shell.currentWidget?.sessionContext", timeout=60_000)
    page.evaluate(RUN_ALL)
    cells = page.evaluate(CELLS)
    assert cells and all(cell["execution_count"] for cell in cells)
    assert [cell["source"] for cell in cells for output in cell["outputs"] if output["output_type"] == "error"] == []
    outside = [url for url in requests if not re.match(r"(http|ws)://127\.0\.0\.1|data:|blob:", url)]
    assert outside == []
    shown = page.locator("img[alt]").evaluate_all("images => images.map(image => image.alt.length)")
    assert any(length > 40 for length in shown), "no picture with its text is on the page"
    page.screenshot(path=tmp_path / "page.png")
    page.close()
