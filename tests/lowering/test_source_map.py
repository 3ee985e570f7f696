"""Each line of a stage leads to the line of the kernel that it came from, and back."""

import importlib
import linecache

import pytest
import triton
import triton.language as tl

from course import lower
from course.errors import CourseError
from course.lowering.api import lower_file
from course.lowering.locations import READERS
from course.lowering.sass import nvidia_tool
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD, line_of


def test_a_cells_kernel_is_found_by_its_own_lines(add):
    cell = lower(local_add_kernel, *ADD, BLOCK_SIZE=1024, target="sm_90")
    line_in_cell = local_add_kernel.fn.__code__.co_firstlineno + 4
    line_in_file = line_of("x = tl.load(x_ptr + offsets, mask=mask)")
    assert cell.lines.of(line_in_cell)["ttir"] == add.lines.of(line_in_file)["ttir"]


@triton.jit
def local_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


OPERATIONS = {
    "pid = tl.program_id(axis=0)": {
        "ttir": "tt.get_program_id",
        "ttgir": "tt.get_program_id",
        "ptx": "%ctaid.x",
        "sass": "CTAID.X",
    },
    "mask = offsets < n": {
        "ttir": "arith.cmpi slt",
        "llir": "icmp slt",
        "ptx": "setp.lt",
        "sass": "ISETP",
    },
    "    x = tl.load(x_ptr + offsets, mask=mask)": {
        "ttir": "tt.load",
        "ttgir": "tt.load",
        "llir": "ld.global",
        "ptx": "ld.global",
        "sass": "LDG",
    },
    "tl.store(out_ptr + offsets, x + y, mask=mask)": {
        "ttir": "tt.store",
        "llir": "fadd",
        "ptx": "st.global",
        "sass": "STG",
    },
}


@pytest.mark.parametrize("source", OPERATIONS)
def test_a_line_leads_to_its_operations_in_every_stage_and_back(add, source):
    line = line_of(source)
    rows = add.lines.of(line)
    for stage, operation in OPERATIONS[source].items():
        assert any(operation in text for text in texts(add, stage, rows)), stage
        assert {add.lines.back(stage, row).number for row in rows[stage]} == {line}


def texts(lowered, stage, rows):
    """The texts of some of a stage's lines."""
    lines = lowered.text(stage).split("\n")
    return [lines[row - 1] for row in rows[stage]]


def rows_with(lowered, stage, text):
    """The numbers of a stage's lines that hold a text."""
    lines = lowered.text(stage).split("\n")
    return [row for row, line in enumerate(lines, start=1) if text in line]


def test_two_loads_of_one_kernel_are_not_confused(add):
    x, y = (line_of(f"    {name} = tl.load({name}_ptr + offsets, mask=mask)") for name in "xy")
    loads = rows_with(add, "sass", "LDG")
    assert {add.lines.back("sass", row).number for row in loads} == {x, y}
    loads_of_x = [text for text in texts(add, "sass", add.lines.of(x)) if "LDG" in text]
    assert len(loads_of_x) == len(loads) // 2


ROW_SUM = ("*fp32:16", "*fp32:16", "i32:16", 1024)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942", "gfx1100"])
def test_a_library_call_belongs_to_the_line_that_calls_it(target):
    lowered = lower(kernels.row_sum_kernel, *ROW_SUM, target=target)
    rows = lowered.lines.of(line_of("total = tl.sum(x, axis=0)"))
    assert set(rows) == set(lowered.lines.stages)
    if lowered.target.nvidia:
        shuffles = rows_with(lowered, "sass", "SHFL")
        assert shuffles
        assert set(shuffles) <= set(rows["sass"])


def test_a_readers_own_function_has_lines_of_its_own():
    lowered = lower(kernels.row_sum_kernel, *ROW_SUM, target="sm_90")
    rows = lowered.lines.of(line_of("return x * x"))
    assert any("arith.mulf" in text for text in texts(lowered, "ttir", rows))
    assert any("FMUL" in text or "FFMA" in text for text in texts(lowered, "sass", rows))


def test_the_methods_of_an_aggregate_have_lines_too():
    lowered = lower(kernels.aggregate_kernel, "*fp32:16", "i32", 64, target="sm_90")
    assert [function.name for function in lowered.listing] == ["aggregate_kernel", "of"]
    assert "return self.first + tl.arange(0, BLOCK)" in str(lowered.lines)


def test_the_code_behind_the_lines_is_the_code_that_runs(add):
    """SASS is from a second run of the assembler: its instructions must be those of the cubin."""
    plain = nvidia_tool("nvdisasm", add.cubin, "-c", "-ndf")
    assert instructions(add.sass) == instructions(plain)


def instructions(sass):
    return [line.split("*/")[1] for line in sass.split("\n") if "/*" in line and ";" in line]


def cell(text, name):
    """A kernel of a notebook's cell, whose file is in no folder."""
    file = "/tmp/ipykernel_4711/7.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"__name__": "__main__", "triton": triton, "tl": tl}
    exec(compile(text, file, "exec"), names)
    return names[name]


CELL = """@triton.jit
def k(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(
        x_ptr
        + tl.arange(0, N),
    )
    total = tl.sum(x, axis=0)
    tl.store(out_ptr, total)
"""


def lowered_cell(target="sm_90"):
    return lower(cell(CELL, "k"), "*fp32:16", "*fp32:16", 1024, target=target)


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_in_a_cell_a_library_call_has_its_lines_too(target):
    lowered = lowered_cell(target)
    assert set(lowered.lines.of(7)) == set(lowered.readable())


def test_a_call_over_several_lines_is_followed_from_any_of_them():
    lowered = lowered_cell()
    assert any("tt.load" in line for line in lowered.follow("x = tl.load(", "ttir").stages["ttir"])
    assert lowered.follow("x = tl.load(").stages == lowered.follow("+ tl.arange").stages


BRANCHES = """
tt.func @k(%n: i32) {
  %z = scf.if %0 -> (i32) {
    scf.yield %y : i32 loc(#loc2)
  } else {
    scf.yield %n : i32 loc(#loc3)
  } loc(#loc1)
  %m = scf.while (%i = %n) : (i32) -> i32 {
    scf.condition(%5) %i : i32 loc(#loc4)
  } do {
  ^bb0(%i: i32 loc("i"(#loc4))):
    scf.yield %j : i32 loc(#loc5)
  } loc(#loc4)
  ttg.warp_specialize(%a) attributes {requestedRegisters = array<i32: 24>}
  default {
    ttg.warp_yield loc(#loc6)
  }
  partition0(%b: i32) num_warps(1) {
    ttg.warp_return loc(#loc6)
  } : (i32) -> () loc(#loc6)
  tt.return loc(#loc7)
} loc(#loc)
#loc = loc("k.py":1:1)
""" + "\n".join(f'#loc{n} = loc("k.py":{n + 1}:1)' for n in range(1, 8))


def test_the_head_of_every_region_of_an_operation_comes_from_its_line():
    rows = ["", *BRANCHES.split("\n")]
    heads = {
        rows[row].split()[0]: place[1]
        for row, (place,) in READERS["ttir"](BRANCHES)
        if rows[row].endswith(("{", "}"))
    }
    assert heads == {
        "tt.func": 1, "%z": 2, "}": 5, "%m": 5, "ttg.warp_specialize(%a)": 7, "default": 7,
        "partition0(%b:": 7,
    }  # fmt: skip


def test_following_shows_some_lines_and_refuses_an_unclear_text():
    lowered = lowered_cell()
    assert str(lowered.follow("def k(", "ttir", most=1)).splitlines()[-1].startswith("    … and")
    with pytest.raises(CourseError, match="No line of k hold 'nothing'"):
        lowered.follow("nothing")
    with pytest.raises(CourseError, match="3 lines of k hold '_ptr': name one by its text"):
        lowered.follow("_ptr")


KERNEL_OF_ONE = """import triton
import triton.language as tl
import importlib.util

spec = importlib.util.spec_from_file_location('other', {two!r})
other = importlib.util.module_from_spec(spec)
spec.loader.exec_module(other)
helper = other.helper


@triton.jit
def k(x_ptr):
    x = tl.load(x_ptr)
    tl.store(x_ptr, helper(x))
"""
HELPER_OF_TWO = """import triton










@triton.jit
def helper(x):
    return x * x
"""


def test_files_of_one_name_are_not_confused(tmp_path):
    one, two = (tmp_path / folder / "kern.py" for folder in ("one", "two"))
    for path, text in ((one, KERNEL_OF_ONE.format(two=str(two))), (two, HELPER_OF_TWO)):
        path.parent.mkdir()
        path.write_text(text)
    lowered = lower_file(one, "k", ["*fp32"], "sm_90")
    (row,) = rows_with(lowered, "ttgir", "arith.mulf")
    origin = lowered.lines.back("ttgir", row)
    assert (origin.file, origin.text) == (str(two), "    return x * x")


LETTERS = """import triton
import triton.language as tl


@triton.jit
def k(x_ptr, out_ptr):
    i = tl.arange(0, 128)
    größe = tl.load(x_ptr + i)
    tl.store(out_ptr + i, größe)
"""


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_paths_and_names_may_hold_letters_outside_ascii(tmp_path, target):
    path = tmp_path / "Ordner 课程" / "251 kérnel €.py"
    path.parent.mkdir()
    path.write_text(LETTERS)
    lowered = lower_file(path, "k", ["*fp32:16", "*fp32:16"], target)
    assert set(lowered.lines.of(8)) == set(lowered.readable())
    assert lowered.layouts["größe"].lines == [8]


AROUND = """
import triton
import triton.language as tl


def kernels():
    @triton.jit
    def inner(x_ptr):
        tl.store(x_ptr, 1)

    def neighbor():
        return 2

    return inner


class Box:
    @staticmethod
    @triton.jit
    def inner(x_ptr):
        tl.store(x_ptr, 1)
"""


def test_a_kernel_in_a_function_or_a_class_compiles_with_its_own_lines(tmp_path, monkeypatch):
    (tmp_path / "around.py").write_text(AROUND)
    monkeypatch.syspath_prepend(tmp_path)
    around = importlib.import_module("around")
    for kernel, line in ((around.kernels(), 9), (around.Box.inner, 21)):
        lowered = lower(kernel, "*i32", target="sm_90")
        assert f'around.py":{line}' in lowered.ttir
        assert "neighbor" not in lowered.ttir
