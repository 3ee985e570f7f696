"""A page whose cells run, in a browser: nothing is loaded before Run, a right answer, a loop
without end, a kernel that fills memory, a lost line, a page from a file."""

import base64
import functools
import hashlib
import html
import http.server
import json
import os
import threading
from pathlib import Path

import pytest

from course.lessons import saved_widgets
from docs.site.in_browser import pack
from tests.browser.conftest import browser, new_context

__all__ = ["browser", "new_context"]

pytestmark = pytest.mark.browser

CELLS = (
    "from course import check, replay\nimport torch\nimport triton\nimport triton.language as tl",
    """@triton.jit
def subtract_kernel(x_ptr, y_ptr, out_ptr):
    i = tl.program_id(axis=0)
    # about 3 lines from here
    # to here""",
    'check("first-kernel", subtract_kernel)',
    """@triton.jit
def add_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x + x, mask=offsets < n)

x, out = torch.rand(100_000), torch.empty(100_000)
add_kernel[(triton.cdiv(100_000, 1024),)](x, out, 100_000, BLOCK=1024)
print(torch.equal(out, x + x))""",
    "replay(add_kernel, (2,), x[:6].clone(), out[:6].clone(), 6, BLOCK=4)",
    "print('unchanged')",
)
LINES = """    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, x - y)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A page with a few cells as Sphinx writes them, and the site's script beside it."""
    folder = tmp_path_factory.mktemp("page")
    static = folder / "_static"
    pack.write(static / "in_browser")
    script = saved_widgets.script() + (pack.OWN / "site.js").read_text()
    (static / "site.js").write_text(script)
    cells = "".join(
        f'<div class="cell tag_runs-here"><div class="cell_input"><pre>{html.escape(cell)}\n</pre>'
        '</div><div class="cell_output"><pre>recorded</pre></div></div>'
        for cell in CELLS
    )
    head = '<!doctype html><meta charset="utf-8"><title>Cells</title>'
    page = f'{head}{cells}<script src="_static/site.js"></script>'
    (folder / "page.html").write_text(page)
    return folder


@pytest.fixture
def with_runtime(folder):
    """Give the page the runtime of the folder that PAGE_RUNTIME names. NumPy's may be any build for
    Pyodide's own binary interface: that one is pinned for sites that are published."""
    own = Path(os.environ.get("PAGE_RUNTIME", "build/pyodide"))
    wheel = next(own.glob("numpy-*.whl"), None)
    if wheel is None:
        pytest.skip("needs Pyodide's files and a NumPy for it in PAGE_RUNTIME, a folder")
    static = folder / "_static" / "in_browser"
    pinned = {name: value for name, value in pack.RUNTIME["files"].items() if "numpy" not in name}
    digest = base64.b64encode(hashlib.sha256(wheel.read_bytes()).digest()).decode()
    runtime = {
        "base": "pyodide/",
        "packages": "pyodide/",
        "numpy": wheel.name,
        "files": pinned | {wheel.name: f"sha256-{digest}"},
    }
    (static / "runtime.json").write_text(json.dumps(runtime))
    (static / "pyodide").unlink(missing_ok=True)
    (static / "pyodide").symlink_to(own.resolve())


@pytest.fixture
def visit(folder, new_context):
    """Open the page from a local server; also gives the addresses that it asks for."""
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def open_it():
        page, asked = new_context().new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/page.html")
        return page, asked

    yield open_it
    server.shutdown()
    server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript"
    }

    def log_message(self, *_):
        """Nothing is printed."""


def press(page, place, name="Run"):
    page.locator(".runs-here").nth(place).get_by_role("button", name=name, exact=True).click()


def state(page, place):
    return page.locator(".runs-here span").nth(place)


def told(page, place):
    """What a cell shows, once it has run."""
    state(page, place).filter(has_text="here in").wait_for()
    return page.locator(".runs-here-output").nth(place).inner_text()


def write(page, place, source):
    page.locator(".cell_input pre").nth(place).fill(source)


def test_a_visitors_first_right_answer(with_runtime, visit):
    page, asked = visit()
    page.get_by_text("Nothing is installed and nothing is sent anywhere").wait_for()
    assert not any("in_browser" in url for url in asked)
    press(page, 2, "Check")
    assert "first-kernel: to do" in told(page, 2)
    assert all(url.startswith(("http://127.0.0.1", "blob:http://127.0.0.1")) for url in asked)
    write(page, 1, CELLS[1].replace("    # to here", f"{LINES}\n    # to here"))
    press(page, 2, "Check")
    page.get_by_text("first-kernel: right.").wait_for()
    assert "Correct in all 4 cases." in told(page, 2)
    assert "The compiler has not seen it" in told(page, 2)
    write(page, 1, CELLS[1].replace("    # to here", LINES.replace("x - y", "y - x")))
    press(page, 2, "Check")
    page.get_by_text("This is what comes out if y comes first").wait_for()
    press(page, 4)
    assert told(page, 3).strip() == "True"
    page.locator(".runs-here-output .course-replay").wait_for()
    write(page, 5, "x = 1\ny = x + nothing")
    press(page, 5)
    assert "Line 2:  y = x + nothing\nNameError: name 'nothing' is not defined" in told(page, 5)
    press(page, 5, "Undo changes")
    press(page, 5)
    page.locator(".runs-here-output").nth(5).filter(has_text="unchanged").wait_for()


def test_a_loop_without_end_is_stopped_and_full_memory_ends_no_page(with_runtime, visit):
    page, _ = visit()
    write(page, 5, "print('begun')\nwhile True:\n    pass")
    press(page, 5)
    page.locator(".runs-here span").nth(5).filter(has_text="Running").wait_for()
    press(page, 5, "Stop")
    state(page, 5).filter(has_text="Stopped.").wait_for()
    write(page, 5, "kept = []\nwhile True:\n    kept.append(bytearray(2**28))")
    press(page, 5)
    state(page, 5).filter(has_text="here in").or_(
        state(page, 5).filter(has_text="has ended")
    ).wait_for()
    write(page, 5, "print(1 + 1)")
    press(page, 5)
    page.locator(".runs-here-output").nth(5).filter(has_text="2").wait_for()


def test_a_lost_line_can_be_tried_again(folder, visit):
    (folder / "_static" / "in_browser" / "runtime.json").write_text(
        json.dumps({"base": "nowhere/", "packages": "nowhere/", "numpy": "numpy.whl", "files": {}})
    )
    page, _ = visit()
    for _ in range(2):
        press(page, 5)
        state(page, 5).filter(has_text="answers 404. Press Run to try again.").wait_for()
    assert page.get_by_role("button", name="Run", exact=True).first.is_enabled()


def test_a_file_of_another_hash_is_refused(folder, visit):
    static = folder / "_static" / "in_browser"
    (static / "other").mkdir(exist_ok=True)
    (static / "other" / "pyodide.mjs").write_text("postMessage({stage: 'other code ran'})")
    pinned = {"pyodide.mjs": pack.RUNTIME["files"]["pyodide.mjs"]}
    runtime = {"base": "other/", "packages": "other/", "numpy": "pyodide.mjs", "files": pinned}
    (static / "runtime.json").write_text(json.dumps(runtime))
    page, _ = visit()
    press(page, 5)
    state(page, 5).filter(has_text="Press Run to try again.").wait_for()
    assert page.get_by_text("other code ran").count() == 0


def test_a_page_from_a_file_says_how_to_serve_it_and_an_old_browser_what_it_lacks(
    folder, visit, new_context
):
    page = new_context().new_page()
    page.goto(f"file://{folder / 'page.html'}")
    press(page, 5)
    state(page, 5).filter(has_text="python3 -m http.server").wait_for()
    page, asked = visit()
    page.evaluate("delete globalThis.WebAssembly")
    press(page, 5)
    state(page, 5).filter(has_text="no WebAssembly").wait_for()
    assert page.get_by_text("recorded").count() == len(CELLS)
    assert not any("in_browser" in url for url in asked)
