"""pytest for tests/ and notebooks/: the mode, a Triton cache for each test, and what must not be
skipped."""

import atexit
import importlib.util
import os
import shutil
import tempfile

import pytest

import course  # before any test imports Triton: this picks the mode

if "PYTEST_XDIST_WORKER" in os.environ:
    # Several workers share the cores: more threads in each would only wait for one another.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The tests' checks are nobody's progress; sessions of notebooks under test inherit this too.
os.environ["COURSE_DATA"] = DATA = tempfile.mkdtemp(prefix="course-test-data-")
atexit.register(shutil.rmtree, DATA, ignore_errors=True)

AVAILABLE = ("browser", "gpu", "site", "workshop")
CELL_TIMEOUT_S = 1800
"""A session that has died is noticed at once, so this only ends a cell without end."""

HAS_NBVAL = importlib.util.find_spec("nbval") is not None
pytest_plugins = ["pytester", "tests.support.unchanged"]
pytest_plugins += ["tests.support.going_on", "tests.support.outdated_records"]
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
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU and GPU mode")
    config.addinivalue_line("markers", "gpu_too: worth a run in GPU mode beside that in CPU mode")
    config.addinivalue_line("markers", "xdist_group(name): stay in one process of make test-gpu")
    config.addinivalue_line("markers", "alone: times, or fills memory: has the GPU to itself")
    config.addinivalue_line("markers", "browser: needs Chromium")
    config.addinivalue_line("markers", "site: needs the tools that build the site")
    config.addinivalue_line("markers", "workshop: needs the tools that serve a room")
    unknown = required() - set(AVAILABLE)
    if unknown:
        raise pytest.UsageError(
            f"REQUIRE names {', '.join(sorted(unknown))}; it knows {', '.join(AVAILABLE)}."
        )


def required() -> set[str]:
    """What REQUIRE says must be there."""
    return {word.strip() for word in os.environ.get("REQUIRE", "").split(",") if word.strip()}


def missing(what: str) -> str | None:
    """Why this machine cannot run tests that need `what`; None where it can."""
    if what == "gpu":
        return None if course.MODE.gpu else f"needs a GPU: {course.MODE}"
    if what == "site":
        from docs.site import tools

        return None if tools.ready() else "needs the site's tools: make site"
    if what == "workshop":
        from workshop import tools

        return None if tools.ready() else "needs the tools of a room: course workshop setup"
    from course.doctor import find_browser

    return None if find_browser() else "needs Chromium: apt-get install chromium"


def pytest_runtest_setup(item):
    for what in AVAILABLE:
        if item.get_closest_marker(what) and (reason := missing(what)):
            if what in required():
                pytest.fail(f"REQUIRE={what}, but it {reason}", pytrace=False)
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
