"""`course lower FILE.py:KERNEL`, and `lower_file` behind it."""

import importlib.util
import json
import sys

import pytest
from typer.testing import CliRunner

from course import lower
from course.cli import app, split_signature
from course.errors import CourseError
from course.lowering.api import LowerError, lower_file
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD


def test_the_command_takes_tuples_and_what_heuristics_choose():
    signature = split_signature("(*fp32:16, *fp32), (i32, 7), 64")
    lowered = lower_file(kernels.__file__, "tuple_kernel", signature, "sm_90")
    assert lowered.metadata["signature"] == {
        "pointers": "('*fp32', '*fp32')",
        "sizes": "('i32', 'i32')",
        "BLOCK": "constexpr",
    }

    def chosen(n):
        signature = ["*fp32:16", n]
        return lower_file(kernels.__file__, "chosen_kernel", signature, "sm_90", BLOCK="64")

    assert chosen("8").metadata["constants"]["EVEN"] == "True"
    assert chosen("7").metadata["constants"]["EVEN"] == "False"
    says = r"could not choose EVEN from these arguments \(TypeError: .*\): give it by name"
    with pytest.raises(CourseError, match=f"heuristics {says}"):
        chosen("i32")


COPYING = """import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))
"""


def test_a_kernel_of_a_file_that_was_loaded_under_another_name_is_found(tmp_path, monkeypatch):
    file = tmp_path / "copying.py"
    file.write_text(COPYING)
    spec = importlib.util.spec_from_file_location("under_another_name", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    lowered = lower(module.copy_kernel, "*fp32", "*fp32", BLOCK=64, target="sm_90")
    assert "copy_kernel" in lowered.ptx


TUNED = """import triton
import triton.language as tl


@triton.autotune([triton.Config({'N': 64})], key=[])
@triton.jit
def k(x_ptr, N: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, N), 1.0)
"""


def test_values_that_autotune_chooses_are_asked_for(tmp_path):
    path = tmp_path / "tuned.py"
    path.write_text(TUNED)
    with pytest.raises(CourseError, match=r"@triton\.autotune chooses N: give config=0 for its"):
        lower_file(path, "k", ["*fp32"])
    result = course_lower(f"{path}:k", "-s", "*fp32, N=64")
    assert result.exit_code == 0, result.output
    assert lower_file(path, "k", ["*fp32"], config=0).metadata["constants"]["N"] == "64"


ADD_KERNEL = (f"{kernels.__file__}:add_kernel", "-s", ", ".join([*ADD, "1024"]))


def course_lower(*arguments):
    return CliRunner().invoke(app, ["lower", *arguments])


def test_the_command_writes_all_stages(tmp_path):
    result = course_lower(*ADD_KERNEL, "--target", "gfx942", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    stages = {f"add_kernel.{stage}" for stage in ("ttir", "ttgir", "llir", "amdgcn", "hsaco")}
    assert {path.name for path in tmp_path.iterdir()} == {*stages, "metadata.json"}
    assert "add_kernel for gfx942" in result.output


def test_the_command_gives_json():
    result = course_lower(*ADD_KERNEL, "--target", "sm_90", "-w", "8", "--json")
    summary = json.loads(result.stdout)
    assert summary["resources"]["num_warps"] == 8
    assert summary["counts"]["ptx"]["fp32 additions"] == 4


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("-s", ", ".join([*ADD, "BLOCK_SIZE=256", "BLOCK_SIZE=512"])), "as 256 and as 512"),
        (("-s", ", ".join([*ADD, "1024", "num_warps=8"]), "-w", "4"), "as 4 and as 8"),
    ],
)
def test_what_is_given_twice_is_refused(more, says):
    result = course_lower(ADD_KERNEL[0], *more)
    assert result.exit_code and says in str(result.exception)


PARTS = """import triton


@triton.jit
def twice(x):
    return 2 * x
"""
KERNEL = """import triton
import triton.language as tl
from .parts import twice


@triton.autotune([triton.Config({}, num_warps=2)], key=[])
@triton.jit
def k(x_ptr, DTYPE: tl.constexpr, N: tl.constexpr = 16):
    offsets = tl.arange(0, N)
    tl.store(x_ptr + offsets, twice(tl.load(x_ptr + offsets)).to(DTYPE))
"""


def test_a_file_is_read_as_a_part_of_its_package(tmp_path):
    package = tmp_path / "mine"
    package.mkdir()
    for name, text in (("__init__", ""), ("parts", PARTS), ("kernel", KERNEL)):
        (package / f"{name}.py").write_text(text)
    lowered = lower_file(package / "kernel.py", "k", ["*fp32:16", "tl.float32"], "sm_90")
    assert lowered.lines.of(6, "parts.py")["ttir"]


def test_a_file_without_the_kernel_is_named(tmp_path):
    with pytest.raises(CourseError, match="There is no file"):
        lower_file(tmp_path / "none.py", "k", [])
    kernels_listed = r"There is no 'k' in .*: its kernels are add_kernel, square"
    with pytest.raises(LowerError, match=kernels_listed):
        lower_file(kernels.__file__, "k", [])
    (tmp_path / "broken.py").write_text("import nothing_of_the_kind\n")
    with pytest.raises(LowerError, match="cannot be loaded: ModuleNotFoundError"):
        lower_file(tmp_path / "broken.py", "k", [])


def test_a_kernels_arguments_may_be_called_as_those_of_the_command_are(tmp_path):
    path = tmp_path / "loss.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def loss(name, target, file, B: tl.constexpr):\n"
        "    i = tl.arange(0, B)\n"
        "    tl.store(file + i, tl.load(name + tl.load(target + i)))\n"
    )
    lowered = course_lower(f"{path}:loss", "-s", "name=*fp32, target=*i64, file=*fp32, B=128")
    assert lowered.exit_code == 0, lowered.output
    sizes = "name=*fp32[128], target=*i64[128], file=*fp32[128], B=128"
    diagnosed = CliRunner().invoke(app, ["diagnose", f"{path}:loss", "-g", "1", "-s", sizes])
    assert diagnosed.exit_code == 0 and "loss, 1 program" in diagnosed.output, diagnosed.output
