"""`make test-gpu` in parts is all of it."""

import os
import re
from pathlib import Path

from tests.support.processes import ROOT, run


def files(pattern: str) -> set[Path]:
    """The test files and notebooks under what a shell makes of `pattern`."""
    found = [path for word in pattern.split() for path in ROOT.glob(word)]
    inside = [
        [path] if path.is_file() else [*path.rglob("test_*.py"), *path.glob("*.ipynb")]
        for path in found
    ]
    return {path for paths in inside for path in paths}


def test_the_parts_that_the_makefile_lists_are_all_tests_and_share_none():
    text = (ROOT / "Makefile").read_text()
    (comment,) = re.findall(r"((?:^#.*\n)+)^test-gpu:", text, re.MULTILINE)
    parts = [
        files(quoted or plain) for quoted, plain in re.findall(r'PART=(?:"([^"]+)"|(\S+))', comment)
    ]
    assert len(parts) > 1 and all(parts)
    assert set.union(*parts) == files("tests notebooks")
    assert sum(map(len, parts)) == len(set.union(*parts))


def test_a_part_takes_the_place_of_all():
    environ = {**os.environ, "MAKEFLAGS": ""}
    made = run("make", "-n", "test-gpu", "PART=tests/gpu notebooks/00*", env=environ)
    assert "-m pytest tests/gpu notebooks/00*" in made.stdout
