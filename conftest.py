"""pytest for tests/ and notebooks/: the mode, a Triton cache for each test, and what this machine
lacks."""

import atexit
import functools
import importlib.util
import os
import shutil
import tempfile

import pytest

import course  # before any test imports Triton: this picks the mode
from course.isolate import available

if "PYTEST_XDIST_WORKER" in os.environ:
    # Several workers share the cores: more threads in each would only wait for one another.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The tests' checks are nobody's progress; sessions of notebooks under test inherit this too.
os.environ["COURSE_DATA"] = DATA = tempfile.mkdtemp(prefix="course-test-data-")
atexit.register(shutil.rmtree, DATA, ignore_errors=True)

MARKS = {
    "browser": "Chromium",
    "container": "root, a container engine and the course's image",
    "compiler": "make, a C compiler and a C++ compiler",
    "gpu": "an NVIDIA GPU and GPU mode",
    "hub": "the tools that serve a room",
    "site": "the tools that build the site",
}
"""name -> what the tests with this mark need; what REQUIRE can name."""
WORKER_BYTES = 3 * 2**30
"""What a process of tests may take, with the children that it starts."""
CELL_TIMEOUT_S = 1800
"""A session that has died is noticed at once, so this only ends a cell without end."""

HAS_NBVAL = importlib.util.find_spec("nbval") is not None
pytest_plugins = ["pytester", "tests.support.cpu_times", "tests.support.garbage"]
pytest_plugins += ["tests.support.skipped", "tests.support.going_on"]
pytest_plugins += ["tests.support.outdated_records"]
if HAS_NBVAL:
    pytest_plugins.append("tests.support.notebook_sessions")


def pytest_configure(config):
    if HAS_NBVAL:
        # Every notebook under nbval, whichever way pytest was started; only tagged cells compare
        # their outputs.
        config.option.nbval_lax = True
        config.option.nbval_current_env = True
        config.option.nbval_cell_timeout = config.option.nbval_kernel_startup_timeout = (
            CELL_TIMEOUT_S
        )
    for name, needed in MARKS.items():
        config.addinivalue_line("markers", f"{name}: needs {needed}")
    config.addinivalue_line("markers", "gpu_too: worth a run in GPU mode beside that in CPU mode")
    config.addinivalue_line("markers", "xdist_group(name): stay in one process of make test-gpu")
    config.addinivalue_line("markers", "alone: times, or fills memory: has the GPU to itself")
    unknown = required() - set(MARKS)
    if unknown:
        raise pytest.UsageError(
            f"REQUIRE names {', '.join(sorted(unknown))}; it knows {', '.join(MARKS)}."
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """What `-n auto` means: a process for each core, as far as the memory goes."""
    return max(1, min(int(available.cores()), available.free_memory_bytes() // WORKER_BYTES))


def required() -> set[str]:
    """The marks that REQUIRE names: what must be there."""
    return {word.strip() for word in os.environ.get("REQUIRE", "").split(",") if word.strip()}


def missing(mark: str) -> str | None:
    """Why this machine cannot run tests with this mark; None where it can."""
    if mark == "gpu":
        return None if course.MODE.gpu else f"needs a GPU: {course.MODE}"
    if mark == "site":
        from course.environments import Environment

        return None if Environment(("site",)).is_made() else "needs the site's tools: make site"
    if mark == "hub":
        from hub import tools

        return None if tools.ready() else "needs the tools of a room: course workshop setup"
    if mark == "container":
        return without_containers()
    if mark == "compiler":
        programs = [name for name in ("make", "cc", "g++") if shutil.which(name) is None]
        return f"needs {MARKS[mark]}: there is no {programs[0]}" if programs else None
    from course.doctor import find_browser

    return None if find_browser() else "needs a browser: apt-get install chromium"


@functools.cache
def without_containers() -> str | None:
    """Why seats of a room cannot be containers here; None where they can."""
    from course.errors import CourseError
    from hub import engine

    if os.getuid():
        return "needs root: only it makes containers with disks of their own"
    try:
        if not engine.run(engine.program(), "images", "-q", "triton-course").strip():
            return "needs the course's image: podman build -t triton-course ."
        engine.run(engine.program(), "run", "--rm", "--entrypoint", "true", "triton-course")
    except CourseError as error:
        return f"needs podman or docker that starts a container: {error}"
    return None


def pytest_runtest_setup(item):
    for mark in MARKS:
        if item.get_closest_marker(mark) and (reason := missing(mark)):
            if mark in required():
                pytest.fail(f"REQUIRE={mark}, but it {reason}", pytrace=False)
            pytest.skip(reason)
    _skip_a_launcher_this_gpu_lacks_room_for(getattr(getattr(item, "callspec", None), "params", {}))


def _skip_a_launcher_this_gpu_lacks_room_for(params):
    if not course.MODE.gpu or "launcher" not in params:
        return
    from tests.support.devices import needs

    needs(params["launcher"], params.get("head_dim", 64))


@pytest.fixture(autouse=True)
def _own_caches(tmp_path, monkeypatch):
    """A kernel compiled by one test is not there for the next: a test cannot pass out of the cache.

    What torch.compile keeps refers to files in Triton's cache, and goes with it.
    """
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
