"""Which mode is chosen, and what is said where it cannot be."""

import subprocess
import sys

import pytest

from course import mode
from course.errors import CourseError
from tests.support import processes
from tests.support.processes import ROOT


@pytest.fixture
def gpu_answers(monkeypatch):
    monkeypatch.setattr(mode, "driver_devices", lambda: (1, ""))
    monkeypatch.setattr(mode, "torch_cuda", lambda: "13.0")
    monkeypatch.setattr(mode, "driver_cuda", lambda: (13, 0))
    monkeypatch.setattr(mode, "driver_capability", lambda: (9, 0))


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a fresh process, with nothing of ours in its environment but what is given."""
    base = {"PATH": "/usr/bin:/bin", "HOME": environ.pop("HOME"), "PYTHONPATH": str(ROOT)}
    return processes.run(sys.executable, "-c", code, cwd=None, env=base | environ)


def test_a_gpu_that_answers_means_gpu_mode(gpu_answers):
    chosen = mode.choose({})
    assert (chosen.name, chosen.device, chosen.interpreting) == ("GPU", "cuda", False)


def test_no_driver_means_cpu_mode_with_the_reason(monkeypatch):
    monkeypatch.setattr(mode, "driver_devices", lambda: (0, "no NVIDIA driver is installed"))
    chosen = mode.choose({})
    assert (chosen.name, chosen.device, chosen.interpreting) == ("CPU", "cpu", True)
    assert "no NVIDIA driver is installed" in str(chosen)


def test_a_cpu_build_of_pytorch_means_cpu_mode(gpu_answers, monkeypatch):
    monkeypatch.setattr(mode, "torch_cuda", lambda: None)
    assert str(mode.choose({})) == "CPU mode: this PyTorch is the CPU build"


def test_a_driver_too_old_for_this_pytorch_means_cpu_mode(gpu_answers, monkeypatch):
    monkeypatch.setattr(mode, "driver_cuda", lambda: (12, 4))
    assert "supports CUDA 12.4 and this PyTorch needs 13.0" in str(mode.choose({}))


def test_a_gpu_that_triton_no_longer_supports_means_cpu_mode_unless_gpu_mode_is_asked_for(
    gpu_answers, monkeypatch
):
    monkeypatch.setattr(mode, "driver_capability", lambda: (7, 5))
    assert "capability 7.5, and Triton no longer supports" in str(mode.choose({}))
    assert mode.choose({}).interpreting and mode.choose({"COURSE_MODE": "gpu"}).gpu


def test_the_driver_tells_the_compute_capability(monkeypatch):
    class Driver:
        def cuDeviceGetAttribute(self, number, attribute, device):  # noqa: N802
            number._obj.value = {75: 7, 76: 5}[attribute]

    monkeypatch.setattr(mode.ctypes, "CDLL", lambda name: Driver())
    assert mode.driver_capability() == (7, 5)


@pytest.mark.parametrize(
    "environ", [{"COURSE_MODE": "cpu"}, {"COURSE_MODE": "CPU"}, {"TRITON_INTERPRET": "1"}]
)
def test_cpu_mode_can_be_asked_for_on_a_gpu(gpu_answers, environ):
    assert mode.choose(environ).name == "CPU"


def test_course_mode_outranks_triton_interpret(gpu_answers):
    assert mode.choose({"COURSE_MODE": "gpu", "TRITON_INTERPRET": "1"}).gpu


def test_gpu_mode_asked_for_without_a_gpu_is_a_sentence(monkeypatch):
    monkeypatch.setattr(mode, "driver_devices", lambda: (0, "no NVIDIA driver is installed"))
    with pytest.raises(
        CourseError, match="COURSE_MODE=gpu, but no NVIDIA driver is installed: unset COURSE_MODE"
    ):
        mode.choose({"COURSE_MODE": "gpu"})


def test_a_mode_that_does_not_exist_is_a_sentence():
    with pytest.raises(CourseError, match="set it to cpu or gpu"):
        mode.choose({"COURSE_MODE": "tpu"})


@pytest.mark.parametrize(("kind", "interpreting"), [("compile", False), ("interpret", True)])
def test_a_child_does_what_it_is_told_on_any_machine(gpu_answers, kind, interpreting):
    assert mode.choose({"COURSE_CHILD": kind, "COURSE_MODE": "gpu"}).interpreting is interpreting


def test_importing_course_loads_neither_torch_nor_triton(tmp_path):
    result = run(
        "import course, sys; print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))",
        HOME=str(tmp_path),
    )
    assert result.stdout.strip() == "[]", result.stderr


def test_the_import_sets_what_triton_reads(tmp_path):
    code = (
        "import course, os; print(os.environ['TRITON_INTERPRET'],"
        " os.environ['TRITON_DEFAULT_FP_FUSION'])"
    )
    assert run(code, HOME=str(tmp_path), COURSE_MODE="cpu").stdout.split() == ["1", "1"]
    assert (tmp_path / ".cache" / "triton-course").stat().st_mode & 0o777 == 0o700


def test_triton_imported_first_in_the_wrong_mode_is_a_sentence_at_first_use(tmp_path):
    result = run(
        "import triton, course\nfrom course import DEVICE", HOME=str(tmp_path), COURSE_MODE="cpu"
    )
    assert result.returncode == 1
    assert (
        "Triton was imported before course, with its interpreter off, and this is CPU mode"
        in result.stderr
    )


def test_triton_imported_first_in_the_right_mode_is_fine(tmp_path):
    code = "import triton\nfrom course import DEVICE; print(DEVICE)"
    assert run(code, HOME=str(tmp_path), TRITON_INTERPRET="1").stdout.strip() == "cpu"


def test_a_cache_that_others_can_write_is_refused_at_first_use(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    result = run(
        "from course import DEVICE", HOME=str(tmp_path), COURSE_MODE="cpu", COURSE_CACHE=str(folder)
    )
    assert result.returncode == 1
    assert f"chmod 700 {folder}" in result.stderr


def test_unknown_names_are_attribute_errors():
    import course

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        course.nonsense  # noqa: B018


def test_every_name_a_lesson_imports_is_there():
    import course

    for name in course.__all__:
        assert getattr(course, name) is not None
    assert set(course.__all__) <= set(dir(course))
