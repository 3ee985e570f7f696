"""course compare: what two Tritons make of one kernel."""

import pytest

from course import CourseError
from course.profiling import two_tritons
from tests.support.processes import ROOT


def test_what_differs_is_counted_and_the_first_stage_named(monkeypatch, tmp_path):
    """Both are the installed Triton, and the second is told to take more warps."""
    own = two_tritons._lowered
    warps = {"3.8.0": 4, "3.9.0": 8}
    monkeypatch.setattr(two_tritons, "folder_of", lambda version: tmp_path / version)
    monkeypatch.setattr(
        two_tritons, "_lowered",
        lambda version, command: own(version, [*command, f"--num-warps={warps[version]}"]),
    )  # fmt: skip
    kernel = f"{ROOT}/kernels/vector_add.py:add_kernel"
    signature = "--signature=*fp32:16, *fp32:16, *fp32:16, i32:16, 1024"
    lines = two_tritons.compare([kernel, signature], ("3.8.0", "3.9.0"), "ttgir").split("\n")
    rows = {line.rsplit(None, 2)[0].strip(): line.split()[-2:] for line in lines[:12]}
    assert rows["resources: num warps"] == ["4", "8"]
    assert int(rows["resources: registers"][0]) > int(rows["resources: registers"][1]) > 0
    assert "What Triton 3.9.0 makes of it differs from TTGIR on." in lines
    assert any(
        line.startswith("-module attributes") and '"ttg.num-warps" = 4' in line for line in lines
    )
    with pytest.raises(CourseError, match=r"Triton 3\.8\.0: .*none_kernel"):
        two_tritons.compare(
            [kernel.replace("add_kernel", "none_kernel"), signature], ("3.8.0",) * 2
        )


def test_what_is_no_stage_is_refused_before_anything_is_compiled():
    with pytest.raises(CourseError, match="'foo' is no stage: --diff takes ttir, ttgir"):
        two_tritons.compare(["k.py:kernel"], ("3.8.0", "3.9.0"), "foo")


def test_what_is_no_version_is_refused():
    with pytest.raises(CourseError, match="'latest' is no version of Triton"):
        two_tritons.folder_of("latest")
