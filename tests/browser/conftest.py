"""A JupyterLab with the lessons, and a browser."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest

from course.doctor import find_browser
from course.teaching import lab
from course.teaching.sources import METADATA, NOTEBOOKS

EXPLORE = """from course import explore
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets))

explore(kernel, "*fp32:16", "*fp32:16", BLOCK=1024, target="sm_90")"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """JupyterLab as `make lab` starts it, on copies of the lessons; gives its address with the token."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(NOTEBOOKS, home / "work")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(EXPLORE)], metadata=METADATA)
    nbformat.write(notebook, home / "work" / "explore.ipynb")
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
