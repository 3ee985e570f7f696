"""The doctor sees each thing that is wrong with a machine, and says what mends it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest

from course import doctor
from tests.support.processes import run

NAMES = {
    "mode",
    "Python",
    "torch",
    "GPU",
    "C compiler",
    "headers",
    "ptxas",
    "cuobjdump",
    "nvdisasm",
    "cache",
    "memory",
    "disk",
}
Usage = namedtuple("Usage", "total used free")


def run_doctor(home: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`course doctor` where CUDA shows no GPU."""
    ours = ("COURSE_MODE", "COURSE_CACHE", "TRITON_CACHE_DIR", "TRITON_INTERPRET")
    base = {name: value for name, value in os.environ.items() if name not in ours}
    environ = {**base, "CUDA_VISIBLE_DEVICES": "", "XDG_CACHE_HOME": str(home), **environ}
    return run(sys.executable, "-m", "course", "doctor", *options, env=environ)


def set_gpu(patch, capability=(9, 0), usable=(True, "an NVIDIA GPU answers"), cuda="13.2"):
    import torch

    for name, answer in (
        ("driver_devices", (1, "")),
        ("find_gpu", usable),
        ("torch_cuda", cuda),
        ("_driver", "580.1"),
    ):
        patch.setattr(doctor, name, lambda answer=answer: answer)
    patch.setattr(torch.cuda, "get_device_name", lambda index: "NVIDIA Something")
    patch.setattr(torch.cuda, "get_device_capability", lambda index: capability)


def set_no_gpu(patch):
    patch.setattr(doctor, "driver_devices", lambda: (0, "no NVIDIA driver is installed"))


def set_versions(patch, torch, triton, cuda="13.2"):
    patch.setattr(doctor, "_version", {"torch": torch, "triton": triton}.get)
    patch.setattr(doctor, "torch_cuda", lambda: cuda)


def set_tools(patch, folder, *names):
    """Let Triton's own programs be these."""
    programs = folder / "backends" / "nvidia" / "bin"
    programs.mkdir(parents=True)
    for name in names:
        (programs / name).touch(0o755)
    patch.setattr(doctor, "_package", lambda name: folder)


def set_cache(patch, folder, mode=0o700):
    folder.mkdir()
    folder.chmod(mode)
    patch.setenv("COURSE_CACHE", str(folder))


def set_nothing_to_compile_with(patch, folder):
    patch.delenv("CC", raising=False)
    patch.setattr(shutil, "which", lambda name: None)
    patch.setattr(sysconfig, "get_paths", lambda: {"include": str(folder)})


def set_machine(patch, memory, cores):
    patch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=memory))
    patch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))


def full(path):
    return Usage(2**40, 2**40, 0)


CPU_BUILD = {"usable": (False, "this PyTorch is the CPU build"), "cuda": None}
OLD_DRIVER = {"usable": (False, "the NVIDIA driver supports CUDA 12.4 and this PyTorch needs 13.2")}
OLDER_DRIVER = {
    "usable": (False, "the NVIDIA driver supports CUDA 11.8 and this PyTorch needs 12.8"),
    "cuda": "12.8",
}

# check, what is wrong, and of what it finds: the name, the level, words it says, words that mend it
CASES = [
    ("gpu", lambda p, f: set_no_gpu(p),
     "GPU", "note", "CPU mode: no NVIDIA driver is installed", ""),
    ("gpu", lambda p, f: set_gpu(p, **CPU_BUILD),
     "GPU", "problem", "a GPU answers, but this PyTorch is the CPU", "make clean"),
    ("gpu", lambda p, f: set_gpu(p, **OLD_DRIVER),
     "GPU", "problem", "supports CUDA 12.4", "driver 580 or newer"),
    ("gpu", lambda p, f: set_gpu(p, **OLDER_DRIVER),
     "GPU", "problem", "supports CUDA 11.8", "driver 525 or newer"),
    ("gpu", lambda p, f: set_gpu(p, (7, 0)),
     "GPU", "problem", "compute capability 7.5 or newer", "COURSE_MODE=cpu"),
    ("gpu", lambda p, f: set_gpu(p, (7, 5)),
     "GPU", "note", "sm_75, driver 580.1: Triton no longer supports it", ""),
    ("gpu", lambda p, f: set_gpu(p, (8, 9)), "GPU", "ok", "no tensor memory accelerator", ""),
    ("gpu", lambda p, f: set_gpu(p, (9, 0)),
     "GPU", "ok", "tensor cores and tensor memory accelerator", ""),
    ("torch_and_triton", lambda p, f: set_versions(p, "2.15.0+cpu", "3.9.0", None),
     "torch", "ok", "(CPU build) with", ""),
    ("torch_and_triton", lambda p, f: set_versions(p, "2.15.0", "3.9.0"),
     "torch", "ok", "(CUDA 13.2 build)", ""),
    ("torch_and_triton", lambda p, f: set_versions(p, "2.15.0", "3.7.1"),
     "torch", "note", "not released together", "make"),
    ("torch_and_triton", lambda p, f: set_versions(p, "2.11.0", "3.6.0"),
     "torch", "ok", "belongs together", ""),
    ("torch_and_triton", lambda p, f: set_versions(p, "2.12.0", "3.7.0"),
     "torch", "ok", "belongs together", ""),
    ("torch_and_triton", lambda p, f: set_versions(p, "2.13.0", "3.7.1"),
     "torch", "ok", "belongs together", ""),
    ("torch_and_triton", lambda p, f: set_versions(p, "2.14.1", "3.8.0"),
     "torch", "ok", "belongs together", ""),
    ("torch_and_triton", lambda p, f: set_versions(p, "2.99.0", "3.9.0"),
     "torch", "note", "not released together", "make"),
    ("torch_and_triton", lambda p, f: set_versions(p, "2.9.1", "3.5.1"),
     "torch", "problem", "needs triton 3.6 to 3.9", "make"),
    ("torch_and_triton", lambda p, f: set_versions(p, "2.15.0", None),
     "torch", "problem", "triton missing", "make"),
    ("torch_and_triton", lambda p, f: set_versions(p, None, None),
     "torch", "problem", "torch and triton missing", "make"),
    ("python", lambda p, f: p.setattr(sys, "version_info", (3, 10, 2)),
     "Python", "problem", "3.10.2; the course", "make"),
    ("python", lambda p, f: p.setattr(sys, "version_info", (3, 14, 0)),
     "Python", "problem", "3.14.0; the course", "make"),
    ("tools", lambda p, f: set_tools(p, f, "ptxas", "cuobjdump"),
     "nvdisasm", "problem", "missing from", "make clean setup"),
    ("cache", lambda p, f: set_cache(p, f / "mine"), "cache", "ok", "yours alone", ""),
    ("cache", lambda p, f: set_cache(p, f / "open", 0o777),
     "cache", "problem", "can be written by others", "chmod 700"),
    ("memory_and_disk", lambda p, f: set_machine(p, 10**9, 2),
     "memory", "note", "1.0 GB free", "close"),
    ("memory_and_disk", lambda p, f: set_machine(p, 10**11, 2),
     "memory", "ok", "100.0 GB free and 2 CPU core(s)", ""),
    ("memory_and_disk", lambda p, f: p.setattr(shutil, "disk_usage", full),
     "disk", "problem", "0 MiB", "free"),
    ("browser", lambda p, f: p.setattr(shutil, "which", lambda _: None),
     "browser", "note", "no Chromium", "install chromium"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "change", "name", "level", "says", "mend"),
    CASES,
    ids=[f"{c[0]}: {c[4]}" for c in CASES],
)
def test_a_machine_like_this_is_described(
    monkeypatch, tmp_path, check, change, name, level, says, mend
):
    with monkeypatch.context() as patch:
        patch.delenv("COURSE_MODE", raising=False)
        change(patch, tmp_path)
        findings = list(getattr(doctor, check)())
    (found,) = (finding for finding in findings if finding.name == name)
    assert found.level == level
    assert says in found.says
    assert mend in found.mend
    assert bool(found.mend) == bool(mend)


@pytest.mark.parametrize(("gpu", "level"), [(set_no_gpu, "note"), (set_gpu, "problem")])
def test_a_missing_compiler_and_missing_headers_are_a_problem_only_with_a_gpu(
    monkeypatch, tmp_path, gpu, level
):
    gpu(monkeypatch)
    set_nothing_to_compile_with(monkeypatch, tmp_path)
    cc, headers = doctor.compiler()
    assert (cc.name, cc.level, cc.mend) == ("C compiler", level, "sudo apt-get install gcc")
    assert (headers.name, headers.level) == ("headers", level)
    assert headers.mend.endswith("-dev")


def test_a_compiler_named_in_cc_that_is_not_there_is_missing(monkeypatch):
    set_gpu(monkeypatch)
    monkeypatch.setenv("CC", "no-such-compiler")
    assert next(doctor.compiler()).level == "problem"


@pytest.mark.parametrize("broken", ["torch", "triton"])
def test_what_make_setup_would_skip_as_made_is_mended_by_making_it_anew(monkeypatch, broken):
    set_versions(
        monkeypatch, *(None if name == broken else "2.15.0" for name in ("torch", "triton"))
    )
    (found,) = doctor.torch_and_triton()
    assert found.mend == "make clean setup"


def test_a_cache_that_cannot_be_made_is_a_problem(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "file" / "cache"))
    found = next(doctor.cache())
    assert found.level == "problem" and "cannot be made" in found.says


def test_a_cache_of_another_user_is_mended_without_that_users_rights(monkeypatch, tmp_path):
    set_cache(monkeypatch, tmp_path / "cache")
    monkeypatch.setattr(os, "geteuid", lambda: (tmp_path / "cache").stat().st_uid + 1)
    found = next(doctor.cache())
    assert (found.level, "belongs to another user" in found.says) == ("problem", True)
    assert "chmod" not in found.mend
    assert "COURSE_CACHE" in found.mend


def test_a_cache_on_a_network_is_slow(monkeypatch, tmp_path):
    set_cache(monkeypatch, tmp_path / "cache")
    monkeypatch.setattr(doctor, "_file_system", lambda path: "nfs")
    assert [(found.level, "slow" in found.says) for found in doctor.cache()] == [
        ("ok", False),
        ("note", True),
    ]


def test_this_machine_is_described_whole(tmp_path):
    # In a process of its own: in this one a test may have loaded the fake driver.
    told = json.loads(run_doctor(tmp_path, "--json").stdout)
    findings = [doctor.Finding(**each) for each in told]
    assert {finding.name for finding in findings} - {"browser"} == NAMES
    assert {finding.level for finding in findings} <= {"ok", "note", "problem"}
    assert all(finding.says and "\n" not in finding.says for finding in findings)
    assert [
        finding.name for finding in findings if finding.level == "problem" and not finding.mend
    ] == []
    assert (findings[0].name, findings[0].level) == ("mode", "ok")
    assert findings[0].says.startswith("CPU mode")


def test_text_and_json_hold_the_same_findings():
    findings = [
        doctor.Finding("disk", "problem", "0 MiB free", "free a gigabyte"),
        doctor.Finding("Python", "ok", "3.12.1"),
    ]
    assert [doctor.Finding(**each) for each in json.loads(doctor.as_json(findings))] == findings
    lines = doctor.as_text(findings).splitlines()
    assert [line.split() for line in lines] == [
        ["problem", "disk", "0", "MiB", "free"], ["->", "free", "a", "gigabyte"],
        ["ok", "Python", "3.12.1"],
    ]  # fmt: skip


def test_gpu_mode_without_a_gpu_is_a_problem_that_the_doctor_starts_and_explains(tmp_path):
    ended = run_doctor(tmp_path, COURSE_MODE="gpu")
    assert ended.returncode == 1
    assert ended.stderr == ""
    problem, mend = ended.stdout.splitlines()[:2]
    assert problem.startswith("problem  mode         COURSE_MODE=gpu, but ")
    assert mend.split()[:3] == ["->", "unset", "COURSE_MODE"]


def test_the_command_gives_json_and_its_exit_code_tells_of_problems(tmp_path):
    ended = run_doctor(tmp_path, "--json", COURSE_MODE="cpu")
    findings = [doctor.Finding(**each) for each in json.loads(ended.stdout)]
    assert {finding.name for finding in findings} >= NAMES
    assert ended.returncode == any(finding.level == "problem" for finding in findings)
