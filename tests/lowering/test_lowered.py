"""What is done with a lowered kernel: compared, edited, written to files."""

import json

import pytest
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from course import explore, lower
from course.errors import CourseError
from course.lowering.api import LowerError
from kernels.attention.settings import triton_version
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD


def test_a_diff_of_two_settings(add):
    other = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, num_warps=8, target="sm_90")
    diff = add.diff(other, "ttgir")
    layout = "#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA ="
    assert f"-{layout} [4]" in diff
    assert f"+{layout} [8]" in diff
    assert add.diff(add, "ptx") == ""


def test_edited_ir_goes_through_the_later_stages(add):
    edited = add.replace(ttgir=add.ttgir.replace("arith.addf", "arith.mulf"))
    assert (edited.counts["ptx"]["fp32 additions"], add.counts["ptx"]["fp32 additions"]) == (0, 8)
    assert edited.ttir == add.ttir
    assert edited.ptx.count("mul.f32") + edited.ptx.count("mul.rn.f32") == 8
    assert edited.replace(ttir=add.ttir).counts["ptx"] == add.counts["ptx"]
    with pytest.raises(CourseError, match="no passes over edited IR"):
        edited.passes  # noqa: B018


def test_broken_ir_is_an_error(add):
    with pytest.raises(LowerError):
        add.replace(ttgir=add.ttgir.replace("tt.load", "tt.laod"))
    with pytest.raises(CourseError, match="replace takes one edited stage"):
        add.replace()


def test_a_dump_has_a_file_for_each_stage(add, tmp_path):
    paths = add.dump(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == [
        *(f"add_kernel.{stage}" for stage in ("ttir", "ttgir", "llir", "ptx", "sass", "cubin")),
        "metadata.json",
    ]
    assert paths[1].read_text() == add.ttgir
    metadata = json.loads(paths[-1].read_text())
    assert metadata["signature"]["x_ptr"] == "*fp32"
    assert metadata["constants"] == {"BLOCK_SIZE": "1024"}
    assert metadata["target"] == "sm_90"
    no_folder = r"/proc/nowhere/.* could not be written \(No such file or directory\): nothing was"
    with pytest.raises(CourseError, match=no_folder):
        add.dump("/proc/nowhere")


def test_a_compiler_that_aborts_is_an_error(add):
    """A layout of 3 warps where the module says 4 trips a check of the compiler."""
    broken = add.ttgir.replace("warpsPerCTA = [4]", "warpsPerCTA = [3]")
    broken = broken.replace('"ttg.num-warps" = 4', '"ttg.num-warps" = 3')
    with pytest.raises(LowerError):
        add.replace(ttgir=broken)
    assert lower(kernels.add_kernel, *ADD, BLOCK_SIZE=64)


@gluon.jit
def gluon_kernel(x_ptr, out_ptr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, 128, layout)
    gl.store(out_ptr + i, gl.load(x_ptr + i))


@pytest.mark.skipif(
    triton_version() < (3, 9), reason="needs Triton 3.9: it keeps this from then on"
)
def test_a_gluon_kernel_has_gluons_ir_in_place_of_tritons():
    lowered = lower(gluon_kernel, "*fp32:16", "*fp32:16", target="sm_90")
    assert list(lowered.readable()) == ["glir", "ttgir", "llir", "ptx", "sass"]
    assert "sizePerThread = [1]" in lowered.glir
    assert lowered.counts["glir"]["loads"] == lowered.counts["ttgir"]["loads"] == 1
    (shown,) = lowered.follow("gl.load(", "glir").stages.values()
    assert any("tt.load" in row for row in shown)
    assert [pane["title"] for pane in explore(lowered).panes][:3] == ["Python", "GLIR", "TTGIR"]
    with pytest.raises(CourseError, match="has no stage ttir: it has glir, ttgir"):
        lowered.ttir  # noqa: B018
