"""The wheel holds `course` alone, and the course works from it with no checkout there."""

import json
import re
import subprocess
import urllib.request
import zipfile
from pathlib import Path

import nbformat
import pytest

from course.errors import CourseError
from course.lessons.unpack import FILES, unpack
from tests.support.processes import PATIENCE_S, first_answer
from tests.support.wheel import backend, build_wheel, build_wheel_of_sdist, install

ROOT = Path(__file__).parents[2]

SESSION = """
from course import check, lower
from kernels.vector_add import add_kernel
import kernels
print(kernels.__path__[0])
print(lower(add_kernel, "*fp32", "*fp32", "*fp32", "i32", BLOCK_SIZE=256))
check("last-program", "a")
check("export-grid", "cdiv(seqlen_q, BLOCK_M), batch * nheads")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("setuptools")
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return install(wheel, tmp_path_factory.mktemp("installed"))


def test_it_holds_one_package_and_every_file_that_the_course_reads(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"course"}
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "course"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert {name for name in tracked if (ROOT / name).exists()} <= names
    content = {name.removeprefix("course/content/") for name in names if "/content/" in name}
    files = {path.relative_to(ROOT).as_posix() for each in FILES for path in ROOT.glob(each)}
    assert content == files
    kernels = ("kernels/*.py", "kernels/attention/*.py", "kernels/attention/gluon/*.py")
    for pattern in (*kernels, "notebooks/*.ipynb", "solutions/*.py", "docs/pages/*.md"):
        assert len({name for name in content if Path(name).match(pattern)}) > 2
    assert not any("__pycache__" in name or "work/" in name for name in names)


def test_a_source_distribution_gives_the_same_wheel(wheel, tmp_path):
    other = build_wheel_of_sdist(wheel.parent / "checkout", tmp_path)
    assert set(zipfile.ZipFile(other).namelist()) == set(zipfile.ZipFile(wheel).namelist())


def test_a_wheel_without_the_lessons_is_not_built(tmp_path):
    pytest.importorskip("setuptools")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "course/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    built = backend("build_wheel('dist')", tmp_path)
    assert built.returncode != 0 and "has no kernels/**/*.py, which the wheel must" in built.stderr


def test_the_lab_unpacks_a_folder_and_serves_it(installed):
    runtime = installed.home / "runtime"
    environ = installed.environment(JUPYTER_RUNTIME_DIR=str(runtime))
    command = [str(installed.python), "-m", "course", "lab", "02", "--no-browser"]
    command += ["--ServerApp.port=0"]
    log = installed.home / "log"
    with log.open("w") as output:
        lab = subprocess.Popen(
            command, cwd=installed.home, env=environ, stdout=output, stderr=subprocess.STDOUT
        )
    info = runtime / f"jpserver-{lab.pid}.json"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def names_in_work() -> set[str]:
        server = json.loads(info.read_text())
        assert Path(server["root_dir"]) == installed.folder
        address = f"{server['url']}api/contents/work?token={server['token']}"
        with opener.open(address, timeout=PATIENCE_S) as answer:
            return {each["name"] for each in json.load(answer)["content"]}

    try:
        # The file with the address is there before the server listens at it.
        names = first_answer(names_in_work, lab, log)
    finally:
        lab.terminate()
        lab.wait()
    assert names == {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert f"Your folder is {installed.folder}." in log.read_text()
    for name in ("kernels/softmax.py", "solutions/05-two-dimensions.py", "docs/pages/errors.md"):
        assert (installed.folder / name).read_bytes() == (ROOT / name).read_bytes()


def unpack_again(installed) -> str:
    code = (
        "from course.lessons import learner_copies, unpack\n"
        "said = unpack.unpack_if_installed()\n"
        "learner_copies.copy_lessons()\n"
        "print(*said)"
    )
    return installed.run("-c", code)


@pytest.mark.compiler
def test_a_lesson_runs_in_that_folder_with_its_own_kernels_whatever_else_has_their_name(
    installed, tmp_path
):
    unpack_again(installed)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text("raise RuntimeError('another project')")
    path = installed.folder / "work" / "mine.ipynb"
    cells = [nbformat.v4.new_code_cell(SESSION)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    code = (
        "import nbclient, nbformat, sys\n"
        "notebook = nbformat.read(sys.argv[1], 4)\n"
        "nbclient.NotebookClient(notebook, timeout=None).execute()\n"
        "print(notebook.cells[0].outputs)"
    )
    printed = installed.run(
        "-c", code, str(path), folder=installed.folder / "work", PYTHONPATH=str(tmp_path)
    )
    assert str(installed.folder / "kernels") in printed
    assert "RuntimeError" not in printed
    progress = json.loads(
        installed.run("-m", "course", "progress", "--json", folder=installed.folder)
    )
    verdicts = {each["exercise"]: each["last_verdict"] for each in progress["exercises"]}
    assert verdicts["export-grid"] == "right", printed
    assert verdicts["last-program"] == "wrong", printed


def test_elsewhere_another_projects_kernels_stay_and_the_course_says_so(installed, tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text("OTHER = True")
    code = (
        "from course import CourseError\n"
        "from course.benching.benchmarks import operation\n"
        "import kernels\n"
        "assert kernels.OTHER\n"
        "try:\n"
        "    operation('vector_add')\n"
        "except CourseError as error:\n"
        "    print(error)"
    )
    said = installed.run("-c", code, PYTHONPATH=str(tmp_path))
    assert said.startswith(f"`import kernels` finds {tmp_path / 'kernels'} and not the course's")
    installed.run("-c", "from course.benching.benchmarks import operation as o; o('vector_add')")


def test_a_file_that_the_reader_changed_is_kept_and_named_when_the_course_brings_another(installed):
    unpack_again(installed)
    mine, untouched = installed.folder / "kernels/matmul.py", installed.folder / "README.md"
    mine.write_text("mine")
    assert unpack_again(installed) == f"{mine} is yours and stays; the course has another one.\n"
    untouched.unlink()
    unpack_again(installed)
    assert mine.read_text() == "mine"
    assert untouched.read_bytes() == (ROOT / "README.md").read_bytes()


def test_what_changes_the_courses_own_files_asks_for_a_checkout(installed):
    code = "from course.cli import app\napp(['notebooks', '00'], standalone_mode=False)"
    ask = f"try:\n    exec({code!r})\nexcept Exception as error:\n    print(error)"
    assert "run it in a checkout" in installed.run("-c", ask)


def test_every_link_of_the_guides_leads_to_a_file_of_the_readers_folder(tmp_path):
    unpack(tmp_path / "folder", ROOT)
    for guide in ("README.md", "TEACHING.md"):
        text = re.sub("```.*?```", "", (ROOT / guide).read_text(), flags=re.DOTALL)
        links = re.findall(r"\]\(([^)#:]+)[^)]*\)", text)
        assert len(links) > 5
        assert [link for link in links if not (tmp_path / "folder" / link).exists()] == []
    assert not (tmp_path / "folder" / "course").exists()


def test_a_folder_that_is_another_project_is_left_alone(tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    with pytest.raises(CourseError, match="set COURSE_HOME"):
        unpack(tmp_path, ROOT)
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]
