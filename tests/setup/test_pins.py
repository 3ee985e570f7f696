"""Makefile, the lock, pyproject.toml, environment.yml, CI and the doctor tell one set of
versions."""

import ast
import itertools
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import course
from course import bootstrap, doctor, environments, pins
from tests.support.processes import ROOT, run

LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
PACKAGES = LOCK["package"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
GROUPS = {
    group: [Requirement(line) for line in lines]
    for group, lines in PYPROJECT["dependency-groups"].items()
}
# What a wheel asks for, with lower bounds alone, and what builds the course: the learner's set
# gives both, so that the set-up downloads no build tools.
ASKED = [
    Requirement(line) for line in PROJECT["dependencies"] + PYPROJECT["build-system"]["requires"]
]
LAB = ("--group", "lab")
PYTHONS = SpecifierSet(PROJECT["requires-python"])


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(name: str) -> list[str]:
    """The versions that the lock gives for a package; several where they depend on the Python or
    on the build."""
    return [each["version"] for each in PACKAGES if each["name"] == canonical(name)]


def names_of(*options: str) -> set[str]:
    """The names of the packages that a set is installed from."""
    exported = run(
        sys.executable, "-m", "uv", "export", "-q", "--frozen", "--offline", "--no-hashes",
        "--no-emit-project", "--no-header", "--no-annotate", *options, check=True,
    ).stdout  # fmt: skip
    return {Requirement(line).name for line in exported.splitlines()}


def yaml_of(path: str):
    return pytest.importorskip("yaml").safe_load((ROOT / path).read_text())


def recipe(target: str) -> str:
    """What make would run for a target."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    return run("make", "-n", target, env=environ, check=True).stdout


@pytest.mark.parametrize("asked", [*ASKED, *itertools.chain(*GROUPS.values())], ids=str)
def test_what_pyproject_asks_for_is_what_the_lock_gives(asked):
    versions = locked(asked.name)
    assert versions
    assert all(asked.specifier.contains(version) for version in versions)


def test_a_wheel_takes_the_pytorch_that_is_there_and_a_lab_the_pinned_one():
    asked = {each.name: each.specifier for each in ASKED if each.name != "setuptools"}
    assert all(each.operator == ">=" for specifier in asked.values() for each in specifier)
    assert {"2.10.0", "2.11.0", pins.TORCH} <= set(
        asked["torch"].filter(["2.9.1", "2.10.0", "2.11.0", pins.TORCH])
    )
    assert asked["triton"].contains("3.6.0") and "jupyterlab" not in asked
    exact = {each.name: str(each.specifier) for each in GROUPS["lab"]}
    assert (exact["torch"], exact["triton"]) == (f"=={pins.TORCH}", f"=={pins.TRITON}")


def test_the_lock_belongs_to_pyproject():
    # Offline it resolves nothing: it fails where the lock would have to change.
    ended = run(sys.executable, "-m", "uv", "lock", "--check", "--offline")
    assert ended.returncode == 0, ended.stderr


def test_the_set_for_tests_is_the_learners_and_the_test_tools():
    learners, all_of_it = names_of(*LAB), names_of(*LAB, "--group", "dev")
    asked = ASKED + GROUPS["lab"]
    assert {canonical(each.name) for each in asked} <= learners < all_of_it
    assert {canonical(each.name) for each in GROUPS["dev"]} <= all_of_it - learners


@pytest.mark.parametrize("group", ["site", "hub"])
def test_the_tools_need_neither_pytorch_nor_triton(group):
    names = names_of("--only-group", group)
    assert {canonical(each.name) for each in GROUPS[group]} <= names
    assert not [name for name in names if name.startswith(("torch", "triton", "nvidia", "cuda"))]


def test_the_cpu_build_brings_nothing_of_cuda():
    added = names_of(*LAB) - names_of(*LAB, "--extra", "cpu")
    assert added and all(name.startswith(("nvidia-", "cuda-")) for name in added)


def test_every_file_of_the_lock_has_its_hash_and_comes_from_a_public_index():
    files = [
        file for each in PACKAGES for file in (each.get("sdist"), *each.get("wheels", ())) if file
    ]
    assert len(files) > 1000
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", file["hash"]) for file in files)
    hosts = set(re.findall(r'"(https?://[^/"]+|file:[^"]*)', (ROOT / "uv.lock").read_text()))
    assert hosts <= {
        "https://pypi.org", "https://files.pythonhosted.org",
        "https://download.pytorch.org", "https://download-r2.pytorch.org",
    }  # fmt: skip


def test_the_installer_is_in_the_lock_for_every_machine_that_is_set_up():
    (uv,) = (each for each in PACKAGES if each["name"] == "uv")
    names = [wheel["url"] for wheel in uv["wheels"]]
    for machine in ("x86_64", "aarch64"):
        assert [
            name
            for name in names
            if f"linux_2_17_{machine}" in name or f"linux_2_28_{machine}" in name
        ]


def test_pytorch_s_own_index_is_asked_for_the_cpu_build_alone():
    settings = PYPROJECT["tool"]["uv"]
    (index,) = settings["index"]
    assert index["url"] == environments.CPU_INDEX and index["explicit"]
    assert settings["sources"] == {"torch": {"index": index["name"], "extra": "cpu"}}
    sources = {
        each["version"]: each["source"]["registry"] for each in PACKAGES if each["name"] == "torch"
    }
    assert sources == {pins.TORCH: "https://pypi.org/simple", f"{pins.TORCH}+cpu": index["url"]}


def test_the_course_imports_no_test_tools():
    tools = {name.replace("-", "_") for name in names_of("--group", "dev") - names_of(*LAB)}
    tools.add("griffe")
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
    assert locked(name)
    assert all(found.startswith(version) for found in locked(name))


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
    assert (min(locked("torch")), *locked("triton")) == doctor.PINNED
    torch, triton = doctor.PINNED
    assert triton.startswith(doctor.PAIRS[".".join(torch.split(".")[:2])])
    assert (
        doctor.SUPPORTED_TRITON[0]
        <= tuple(map(int, triton.split(".")[:2]))
        <= doctor.SUPPORTED_TRITON[1]
    )


def test_conda_gives_a_python_that_serves_and_leaves_the_packages_to_the_lock():
    dependencies = yaml_of("environment.yml")["dependencies"]
    names = [re.split("[=<>]", each)[0] for each in dependencies]
    assert names == ["python", "c-compiler", "make"]
    assert PYTHONS.contains(dependencies[0].removeprefix("python="))
    assert "make lab" in (ROOT / "environment.yml").read_text()


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


def test_every_week_the_notebooks_run_on_pytorchs_of_other_images():
    (job,) = yaml_of(".github/workflows/elsewhere.yml")["jobs"].values()
    torch = next(each.specifier for each in ASKED if each.name == "torch")
    assert len(job["strategy"]["matrix"]["torch"]) > 1
    for version in job["strategy"]["matrix"]["torch"]:
        assert torch.contains(version) and version != pins.TORCH
    (python,) = (step["with"]["python-version"] for step in job["steps"] if "with" in step)
    assert PYTHONS.contains(python)


def files(part: str) -> set[Path]:
    """The test files and notebooks in the folders that `PART` names."""
    folders = [ROOT / folder for folder in part.split()]
    return {
        path
        for folder in folders
        for pattern in ("test_*.py", "*.ipynb")
        for path in folder.rglob(pattern)
    }
