"""pytest --going-on: leaves out what has passed at this very tree, so that a run that was cut off
goes on where it stopped. `make test-gpu` alone uses it.

What passes is noted in build/passed-on-gpu.txt as it passes. The file begins with a hash of the
tree's files and with what runs them: where any of that is another, everything runs. The cells of a
notebook follow from one another, so it is left out as a whole or not at all. What fails is written
to build/failed-on-gpu.txt as it fails, since a run that is cut off has no end at which pytest would
tell of it.
"""

import hashlib
import sys
from collections import defaultdict
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path

import pytest

import course

NOTED = Path("build", "passed-on-gpu.txt")
FAILED = NOTED.with_name("failed-on-gpu.txt")
BEGUN = "begun "
"""In front of a notebook in that file: its cells that stand above count no more."""
NOT_HASHED = ("/.git", "/course/*/recorded")
"""Beside what git ignores: what `make record` writes, so that `make gpu-debts` goes on as well."""


def pytest_addoption(parser):
    parser.addoption(
        "--going-on", action="store_true", help=f"leave out what has passed, as {NOTED} says"
    )


def pytest_configure(config):
    if not config.getoption("--going-on"):
        return
    if hasattr(config, "workerinput"):  # a process of xdist
        config.pluginmanager.register(LeavesOut(set(config.workerinput["passed"])))
    else:
        notes = Notes(config.rootpath)
        config.pluginmanager.register(notes)
        config.pluginmanager.register(LeavesOut(notes.passed), "leaves-out")


class LeavesOut:
    """In each process that collects."""

    def __init__(self, passed):
        self.passed = passed
        self.number = 0

    @pytest.hookimpl(trylast=True)  # behind -m and -k
    def pytest_collection_modifyitems(self, items):
        together = defaultdict(list)
        for item in items:
            together[item.path if item.path.suffix == ".ipynb" else item].append(item)
        items[:] = [
            item
            for group in together.values()
            if not {item.nodeid for item in group} <= self.passed
            for item in group
        ]
        self.number = sum(map(len, together.values())) - len(items)

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left_out"] = self.number


class Notes:
    """In the process that reports, of one or several."""

    def __init__(self, root):
        file, key = root / NOTED, key_of(root)
        lines = file.read_text().split("\n")[:-1] if file.exists() else []  # the last may be cut
        if lines[:1] != [key]:
            file.parent.mkdir(exist_ok=True)
            lines = [key]
        file.write_text("".join(f"{line}\n" for line in lines))
        self.passed = passed_in(lines[1:])
        self.file = file.open("a", buffering=1)  # each line at once
        self.failed = (root / FAILED).open("w", buffering=1)
        self.begun, self.called = set(), set()
        self.left_out = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput["passed"] = sorted(self.passed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.left_out = getattr(node, "workeroutput", {}).get("left_out", self.left_out)

    def pytest_runtest_logreport(self, report):
        test = report.nodeid
        notebook = test.partition("::")[0]
        if notebook.endswith(".ipynb") and notebook not in self.begun:
            self.begun.add(notebook)
            self.file.write(f"{BEGUN}{notebook}\n")
        if report.failed:
            self.failed.write(f"{test}, {report.when}\n{report.longreprtext}\n\n")
        if report.when == "call" and report.passed:
            self.called.add(test)
        if report.when == "teardown" and report.passed and test in self.called:
            self.file.write(f"{test}\n")

    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:  # all have passed before
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter, config):
        number = self.left_out or config.pluginmanager.get_plugin("leaves-out").number
        if number:
            terminalreporter.line(
                f"{number} left out, which have passed at this very tree: remove {NOTED} to run"
                " them again"
            )


def passed_in(lines):
    """The ids in what was noted."""
    passed = set()
    for line in lines:
        if line.startswith(BEGUN):
            cells = f"{line.removeprefix(BEGUN)}::"
            passed = {test for test in passed if not test.startswith(cells)}
        else:
            passed.add(line)
    return passed


def key_of(root):
    """A line: a hash of a tree's files, tracked and untracked, and what runs them."""
    ignored = root / ".gitignore"
    patterns = [*NOT_HASHED, *(ignored.read_text().split() if ignored.exists() else ())]
    digest = hashlib.sha256()
    for path in files(root, root, patterns):
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    tools = " ".join(f"{name} {version(name)}" for name in ("torch", "triton"))
    return f"{digest.hexdigest()} {course.MODE}, Python {sys.version.split()[0]}, {tools}"


def files(folder, root, patterns):
    """The files in a folder and below it, in order, but for those that a pattern names."""
    for path in sorted(folder.iterdir()):
        anchored = f"/{path.relative_to(root)}"
        if any(
            fnmatch(anchored if pattern.startswith("/") else path.name, pattern.rstrip("/"))
            for pattern in patterns
        ):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from files(path, root, patterns)
        elif path.is_file():
            yield path
