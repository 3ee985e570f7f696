"""What a page gets, unpacked; and the same cells and answers run in both worlds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from docs.site import ROOT
from docs.site.in_browser import pack


@pytest.fixture(scope="session")
def room(tmp_path_factory) -> Path:
    """The folder that a page's Python finds everything in, and NumPy."""
    folder = tmp_path_factory.mktemp("room")
    for name, content in pack.files():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    packages = Path(numpy.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (packages / name).is_dir():
            (folder / name).symlink_to(packages / name)
    return folder


@pytest.fixture(scope="session")
def worlds(room, tmp_path_factory) -> dict[str, dict]:
    """What `page_world.py` found in each of the two: the page, where neither PyTorch nor libtriton
    can be imported, and the real one."""
    script = ROOT / "tests" / "support" / "page_world.py"
    out = tmp_path_factory.mktemp("worlds")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("COURSE_")}
    environ |= {"COURSE_CACHE": str(out / "cache"), "OMP_NUM_THREADS": "1"}
    ended = {
        world: subprocess.run(
            [sys.executable, *options, script, out / f"{world}.json", *arguments],
            env=environ, capture_output=True, text=True,
        )
        for world, options, arguments in (
            ("page", ["-I", "-S", "-B"], [room]), ("real", ["-W", "ignore"], []),
        )
    }  # fmt: skip
    for world, process in ended.items():
        assert process.returncode == 0, f"{world}: {process.stderr[-3000:]}"
    return {world: json.loads((out / f"{world}.json").read_text()) for world in ended}
