"""A JupyterLab with the lessons, and a browser."""

import os
import shutil
import socket
import subprocess
import sys
import urllib.request

import nbformat
import pytest

from course.doctor import find_browser
from course.lessons import lab
from course.lessons.folders import NOTEBOOKS
from course.lessons.without_solutions import METADATA
from tests.support.processes import PATIENCE_S, first_answer
from tests.support.saved_widgets import kept

EXPLORE = """from course import explore
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets))

explore(kernel, "*fp32:16", "*fp32:16", BLOCK=1024, target="sm_90")"""

REPLAY = """from course import DEVICE, replay
import torch
import triton
import triton.language as tl

@triton.jit
def double_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 2 * x, mask=mask)

x = torch.arange(1000.0, device=DEVICE)
replay(double_kernel, (8,), x, torch.empty_like(x), 1000, BLOCK=128)"""
OWN = {"explore.ipynb": EXPLORE, "replay.ipynb": REPLAY}
"""Notebooks of one cell, for the widgets."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address and token of JupyterLab as `make lab` starts it, on copies of the lessons."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(NOTEBOOKS, home / "work")
    for name, source in OWN.items():
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source)], metadata=METADATA
        )
        nbformat.write(notebook, home / "work" / name)
    with pytest.MonkeyPatch.context() as patch:
        output = nbformat.v4.new_output("display_data", data=kept("explore", patch))
    cell = nbformat.v4.new_code_cell("shown", outputs=[output], execution_count=1)
    saved = nbformat.v4.new_notebook(cells=[cell], metadata=METADATA)
    nbformat.write(saved, home / "work" / "saved.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = "token-for-this-test"
    own = {
        "HOME": str(home),
        "JUPYTER_RUNTIME_DIR": str(home / "run"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
    }
    options = [
        "--no-browser",
        f"--ServerApp.port={port}",
        "--expose-app-in-browser",
        f"--IdentityProvider.token={token}",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *lab.arguments(home), *options],
        cwd=home, env=os.environ | own, stdout=(home / "log").open("w"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}/lab/tree/work"
        opened = f"{address}?token={token}"
        first_answer(
            lambda: urllib.request.urlopen(opened, timeout=PATIENCE_S).close(),
            process,
            home / "log",
        )
        yield f"{address}/{{name}}?token={token}"
    finally:
        process.terminate()
        try:
            process.wait(30)  # it ends its sessions, and sometimes waits for one that has gone
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        options = [
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--disable-background-networking",
            # The address bar would start two processes for each context.
            "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,SpareRendererForSitePerProcess",
        ]
        running = started.chromium.launch(executable_path=find_browser(), args=options)
        yield running
        running.close()


@pytest.fixture
def new_context(browser):
    """Contexts in which nothing fails because a machine is busy."""
    made = []

    def make(**options):
        context = browser.new_context(**options)
        context.set_default_timeout(1000 * PATIENCE_S)
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()


@pytest.fixture
def new_page(new_context):
    """Pages of such contexts, of the size of a screen."""
    return lambda: new_context(viewport={"width": 1400, "height": 900}).new_page()


@pytest.fixture
def page(new_page):
    """An empty page without a network, that notes errors and what it asks for."""
    page = new_page()
    page.context.set_offline(True)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on(
        "request",
        lambda request: (
            page.problems.append(request.url) if request.url.startswith("http") else None
        ),
    )
    return page


PAYLOADS = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "--></script>",
    "<svg onload=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "javascript:alert(1)",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)",
    "<body onload=alert(1)>",
    "<style>@import 'http://127.0.0.2/x';</style>",
    "<link rel=stylesheet href=http://127.0.0.2/x>",
    "<base href=http://127.0.0.2/>",
    "<object data=http://127.0.0.2/x>",
    "&lt;img src=x onerror=alert(1)&gt;",
    "<details open ontoggle=alert(1)>",
    "${alert(1)}",
    "`+alert(1)+`",
    "<math><mi//xlink:href=x>",
    "<template><img src=x onerror=alert(1)></template>",
    "</style><img src=x onerror=alert(1)>",
    "]]><img src=x onerror=alert(1)>",
    "\u2028alert(1)",
    "</noscript><img src=x onerror=alert(1)>",
    "</pre></details><img src=x onerror=alert(1)>",
    "<!-- <script> %s",
]
"""Texts that would do something if a widget took them for markup or script."""


@pytest.fixture
def harmless(new_context):
    """Open a page with script or without, and hold that it neither runs nor asks for anything, nor
    holds foreign elements."""

    def hold(path, script):
        context = new_context(java_script_enabled=script)
        page = context.new_page()
        problems = []
        page.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                problems.append(request.url) if not request.url.startswith("file:") else None
            ),
        )
        page.goto(f"file://{path}")
        page.wait_for_timeout(500)
        assert problems == []
        assert page.locator("img, iframe, svg, object, base, link, math").count() == 0
        return page

    return hold
