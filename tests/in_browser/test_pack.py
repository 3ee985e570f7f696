"""What is packed for a page, and what of Pyodide is taken into a site."""

import base64
import hashlib
import io
import json
import zipfile

import pytest

from docs.site import SiteError
from docs.site.in_browser import pack


@pytest.fixture
def own_runtime(tmp_path, monkeypatch):
    """A folder with a runtime of one file, whose hash is pinned."""
    folder = tmp_path / "runtime"
    folder.mkdir()
    (folder / "pyodide.mjs").write_text("export {}")
    digest = base64.b64encode(hashlib.sha256(b"export {}").digest()).decode()
    monkeypatch.setitem(pack.RUNTIME, "files", {"pyodide.mjs": f"sha256-{digest}"})
    monkeypatch.setattr(pack, "packed", lambda: b"")
    monkeypatch.setenv("SITE_RUNTIME", str(folder))
    return folder


def test_a_site_takes_the_runtime_that_is_named_and_else_the_public_one(
    own_runtime, tmp_path, monkeypatch
):
    pack.write(tmp_path / "out")
    assert (tmp_path / "out" / "pyodide" / "pyodide.mjs").read_text() == "export {}"
    assert json.loads((tmp_path / "out" / "runtime.json").read_text())["base"] == "pyodide/"
    monkeypatch.delenv("SITE_RUNTIME")
    pack.write(tmp_path / "out")
    named = json.loads((tmp_path / "out" / "runtime.json").read_text())["base"]
    assert named == pack.RUNTIME["base"] and pack.RUNTIME["version"] in named


def test_a_runtime_file_of_another_hash_is_refused(own_runtime, tmp_path):
    (own_runtime / "pyodide.mjs").write_text("export default 1")
    with pytest.raises(SiteError, match=r"pyodide\.mjs is not the file of Pyodide 0\.29"):
        pack.write(tmp_path / "out")


def test_without_the_pinned_triton_the_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(pack.RUNTIME, "triton", "0.0.0")
    with pytest.raises(pack.NoTritonError, match=r"triton 0\.0\.0 is not installed.*make setup"):
        pack.packed()


def test_the_archive_is_the_same_each_time_and_holds_no_answers_and_no_outputs():
    archive = pack.packed()
    assert archive == pack.packed()
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        names = opened.namelist()
        assert not [name for name in names if "exercises/answers" in name]
        notebooks = [name for name in names if name.endswith(".ipynb")]
        assert notebooks and all(b'"outputs"' not in opened.read(name) for name in notebooks)
        assert {"triton/LICENSE", "torch/__init__.py", "in_page.py"} <= {*names}
        assert len(archive) < 1_000_000
