"""Makefile, the locks, pyproject.toml, environment.yml, CI and the doctor tell one set of
versions."""

import ast
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import course
from course import bootstrap, doctor, pins
from tests.support.processes import ROOT, run


def lines_of(lock: str) -> list[str]:
    return [
        line
        for line in (ROOT / lock).read_text().splitlines()
        if line and not line.lstrip().startswith("#")
    ]


LINES, DEV_LINES = lines_of("requirements.lock"), lines_of("requirements-dev.lock")
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
# The lock of the learner gives what builds the course too, so that the set-up downloads no build
# tools.
ASKED = [
    Requirement(line) for line in PROJECT["dependencies"] + PYPROJECT["build-system"]["requires"]
]
ASKED_TO_TEST = [Requirement(line) for line in PROJECT["optional-dependencies"]["dev"]]
PYTHONS = SpecifierSet(PROJECT["requires-python"])


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(name: str, lines: list[str] = LINES) -> list[str]:
    """The versions that a lock gives for a package; several where they depend on the Python."""
    found = [Requirement(line) for line in lines]
    return [
        str(each.specifier).removeprefix("==")
        for each in found
        if canonical(each.name) == canonical(name)
    ]


def yaml_of(path: str):
    return pytest.importorskip("yaml").safe_load((ROOT / path).read_text())


def recipe(target: str) -> str:
    """What make would run for a target."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    return run("make", "-n", target, env=environ, check=True).stdout


@pytest.mark.parametrize(
    ("lock", "asked"),
    [
        *(("requirements.lock", each) for each in ASKED),
        *(("requirements-dev.lock", each) for each in ASKED_TO_TEST),
    ],
    ids=str,
)
def test_what_pyproject_asks_for_is_what_the_lock_gives(lock, asked):
    versions = locked(asked.name, lines_of(lock))
    assert versions
    assert all(asked.specifier.contains(version) for version in versions)


def test_the_lock_for_tests_is_the_learners_and_the_test_tools():
    assert set(LINES) < set(DEV_LINES)
    assert [each.name for each in ASKED_TO_TEST if locked(each.name)] == []
    added = {Requirement(line).name for line in set(DEV_LINES) - set(LINES)}
    assert not added & {Requirement(line).name for line in LINES}


def test_the_course_imports_no_test_tools():
    tools = {Requirement(line).name.replace("-", "_") for line in set(DEV_LINES) - set(LINES)}
    files = [
        path
        for folder in ("course", "kernels", "solutions")
        for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(files) > 50
    for path in files:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = [
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        ]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        assert [name for name in names if name.split(".")[0] in tools] == [], path


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("torch", pins.TORCH), ("triton", pins.TRITON),
        ("jupyterlab", "4.6."), ("ipywidgets", "8.1."),
        ("anywidget", ""), ("matplotlib", ""), ("typer", ""), ("rich", ""),
    ],
)  # fmt: skip
def test_the_lock_holds_what_the_course_stands_on(name, version):
    (found,) = locked(name)
    assert found.startswith(version)


def test_the_lock_holds_exact_versions_that_any_index_and_both_torch_builds_can_give():
    assert LINES
    assert [line for line in DEV_LINES if not re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", line)] == []
    assert [line for line in DEV_LINES if line.startswith(("nvidia-", "cuda-"))] == []


def test_the_pythons_agree():
    oldest, newest = (
        ".".join(map(str, version)) for version in (bootstrap.OLDEST, bootstrap.NEWEST)
    )
    beyond = f"{bootstrap.NEWEST[0]}.{bootstrap.NEWEST[1] + 1}"
    assert str(PYTHONS) == str(SpecifierSet(f">={oldest},<{beyond}"))
    assert (
        f"# PYTHON=…      the Python to set up with; {oldest}, 3.12 or {newest}\n"
        in (ROOT / "Makefile").read_text()
    )
    assert bootstrap.PYTHONS == ("python3.13", "python3.12", "python3.11")
    images = re.findall(
        r"^FROM python:([\d.]+)-\S+@sha256:[0-9a-f]{64} AS", DOCKERFILE, re.MULTILINE
    )
    assert images and all(PYTHONS.contains(image) for image in images)


def test_the_version_is_one_and_the_changes_of_one_that_is_not_released_are_said_to_be():
    version = PROJECT["version"]
    assert course.__version__ == version
    (newest, *_) = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest == ("Unreleased" if version.endswith(".dev0") else version)


def test_the_doctor_knows_the_pinned_pair():
    assert (locked("torch")[0], locked("triton")[0]) == doctor.PINNED
    torch, triton = doctor.PINNED
    assert triton.startswith(doctor.PAIRS[".".join(torch.split(".")[:2])])
    assert (
        doctor.SUPPORTED_TRITON[0]
        <= tuple(map(int, triton.split(".")[:2]))
        <= doctor.SUPPORTED_TRITON[1]
    )


def test_conda_takes_the_lock_and_names_no_version_of_its_own():
    dependencies = yaml_of("environment.yml")["dependencies"]
    (pip,) = (each["pip"] for each in dependencies if isinstance(each, dict))
    assert "-r requirements.lock" in pip
    plain = [each for each in dependencies if isinstance(each, str)]
    assert not [each for each in plain + pip if re.match(r"(py)?torch|triton", each)]
    (python,) = (each.split("=")[-1] for each in plain if each.startswith("python="))
    assert PYTHONS.contains(python)


def test_pip_can_read_what_conda_gives_it(tmp_path):
    (pip,) = (
        each["pip"] for each in yaml_of("environment.yml")["dependencies"] if isinstance(each, dict)
    )
    options = [each for each in pip if not each.startswith(("-r", "--editable"))]
    (tmp_path / "requirements.txt").write_text("\n".join([*options, "no-such-package-0.whl"]))
    options = ("--dry-run", "--no-index", "--no-deps", "-r", "requirements.txt")
    ended = run(sys.executable, "-m", "pip", "install", *options, cwd=tmp_path)
    assert "no such option" not in ended.stderr
    assert "no-such-package-0.whl" in ended.stderr


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("target", "option"),
    [
        ("setup", ""),
        ("lab", ""),
        ("test", " --dev"),
        ("lint", " --dev"),
        ("lock", " --dev"),
        ("test-triton-versions", " --dev"),
    ],
)
def test_make_sets_up_before_everything_else_with_the_test_tools_where_they_are_needed(
    target, option
):
    assert re.match(rf"\S+ course/bootstrap.py{option}\n", recipe(target))


@pytest.mark.compiler
def test_make_tests_the_tritons_that_the_doctor_accepts():
    tested = re.findall(r"triton==(\d+)\.(\d+)", recipe("test-triton-versions"))
    supported = [tuple(map(int, version)) for version in tested] + [
        tuple(map(int, doctor.PINNED[1].split(".")[:2]))
    ]
    (major, oldest), (_, newest) = doctor.SUPPORTED_TRITON
    assert supported == [(major, minor) for minor in range(oldest, newest + 1)]


def test_ci_lints_and_tests_with_make():
    assert re.findall(r"make (\w+)", (ROOT / ".ci" / "run").read_text()) == ["lint", "test"]
    jobs = yaml_of(".github/workflows/ci.yml")["jobs"]
    runs = {
        name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()
    }
    assert runs == {
        "lint": ["make lint TORCH=cpu"],
        "test": ['make test TORCH=cpu PART="${{ matrix.part }}"'],
    }
    matrix = jobs["test"]["strategy"]["matrix"]
    assert all(PYTHONS.contains(python) for python in matrix["python"])
    parts = [files(part) for part in matrix["part"]]
    assert set.union(*parts) == files("tests notebooks")
    assert sum(map(len, parts)) == len(set.union(*parts)), "a file is in two parts"


def files(part: str) -> set[Path]:
    """The test files and notebooks in the folders that `PART` names."""
    folders = [ROOT / folder for folder in part.split()]
    return {
        path
        for folder in folders
        for pattern in ("test_*.py", "*.ipynb")
        for path in folder.rglob(pattern)
    }
