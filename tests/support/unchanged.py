"""pytest: tests whose outcome a hash says has not changed since they passed need not run again.

    @pytest.mark.unless_unchanged("answers of lesson 01", "solutions/01-*", "course/exercises")

names a group of tests, all in one file, and the files, folders and globs on which their outcome
depends: what is read there, or imported by a name that is put together at run time. The test's own
file with all that it imports, the files beside it that are no tests, tests/support and the locked
versions count always.

An ordinary run in CPU mode leaves a group out if the hash in tests/passed.json is that of these
files now, but for its tests that are marked `always`: each tool has one at least that runs each
time. In GPU mode, or with another Triton than the pinned one, every group runs and nothing is
noted: another machine, another outcome.
`make test-all` runs every group, and it alone writes that file: a group's hash is written if each
of its tests has just passed (or was skipped for want of a GPU), and is removed if one has failed.
"""

import hashlib
import json
from collections import defaultdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

import course
from course.pins import TRITON
from tests.support.imports import imported

ROOT = Path(__file__).parents[2]
PASSED = ROOT / "tests" / "passed.json"
ALWAYS = ("tests/support", "conftest.py", "pyproject.toml", "requirements-dev.lock")


def pytest_addoption(parser):
    parser.addoption(
        "--all-groups",
        action="store_true",
        help="run what has not changed as well, and note in tests/passed.json what has passed",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "unless_unchanged(group, *paths): need not run where nothing in paths has changed",
    )
    config.addinivalue_line("markers", "always: runs though nothing has changed in its group")
    if config.getoption("--all-groups") and (config.option.keyword or config.option.markexpr):
        raise pytest.UsageError(
            "--all-groups notes what has passed as a whole: leave out -k and -m."
        )
    config.pluginmanager.register(Noted(config), "passed-groups")


def pytest_collection_modifyitems(config, items):
    passed = read() if comparable() and not config.getoption("--all-groups") else {}
    for item in items:
        for marker in item.iter_markers("unless_unchanged"):
            group, *paths = marker.args
            value = hash_of(item.path, tuple(paths))
            item.user_properties.append(("unless_unchanged", f"{value} {group}"))
            if passed.get(group) == value and not item.get_closest_marker("always"):
                reason = (
                    "nothing that it depends on has changed since it passed: make test-all runs it"
                )
                item.add_marker(pytest.mark.skip(reason=reason))


class Noted:
    """Which groups have passed in this run. In the process that reports, of one or several."""

    def __init__(self, config):
        self.config = config
        self.outcomes = defaultdict(set)

    def pytest_runtest_logreport(self, report):
        for name, text in report.user_properties:
            if name == "unless_unchanged":
                value, _, group = text.partition(" ")
                self.outcomes[group].add(value if report.outcome != "failed" else "failed")

    def pytest_sessionfinish(self, session, exitstatus):
        in_a_worker = hasattr(self.config, "workerinput")
        noting = self.config.getoption("--all-groups") and comparable()
        if in_a_worker or not noting or exitstatus not in (0, 1):
            return
        passed = read() | {
            group: None if len(values) > 1 else next(iter(values))
            for group, values in self.outcomes.items()
        }
        kept = {group: value for group, value in passed.items() if value not in (None, "failed")}
        PASSED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def comparable() -> bool:
    """Whether this run's outcome says something of an ordinary run's."""
    return not course.MODE.gpu and version("triton") == TRITON


def read() -> dict[str, str]:
    """The hash with which each group has passed last."""
    return json.loads(PASSED.read_text()) if PASSED.exists() else {}


@cache
def hash_of(test: Path, paths: tuple[str, ...]) -> str:
    """A hash of the files that a test's outcome depends on. Raises UsageError for a path with
    none."""
    folder = test.parent.relative_to(ROOT).as_posix() if test.is_relative_to(ROOT) else ""
    beside = [path for path in test.parent.glob("*.py") if not path.name.startswith("test_")]
    files = imported(test, ROOT).union(beside if folder.startswith("tests") else [])
    for pattern in (*ALWAYS, *paths):
        matches = files_at(pattern)
        if not matches:
            raise pytest.UsageError(f"unless_unchanged: there is nothing at {pattern!r}")
        files |= matches
    digest = hashlib.sha256()
    for file in sorted(files):
        name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else file.name
        digest.update(f"{name}\0".encode() + content_hash(file))
    return digest.hexdigest()[:16]


@cache
def content_hash(file: Path) -> bytes:
    """The hash of a file's bytes."""
    return hashlib.sha256(file.read_bytes()).digest()


@cache
def files_at(pattern: str) -> frozenset[Path]:
    """The files at a path, a glob or in a folder, without what Python and others keep there."""
    hidden = (".", "__")
    return frozenset(
        file
        for match in ROOT.glob(pattern)
        for file in ([match] if match.is_file() else match.rglob("*"))
        if file.is_file()
        and file != PASSED
        and not any(
            part.startswith(hidden) and part != "__init__.py"
            for part in file.relative_to(ROOT).parts
        )
    )
