"""lower gives what the JIT makes, for any target, and says where each line came from."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.tools.tensor_descriptor import TensorDescriptor
from typer.testing import CliRunner

import course
from course import lower
from course.aot.options import Options
from course.aot.signature import parse_signature
from course.aot.worker import ParsedVariant, compile_variants
from course.cli import app, split_signature
from course.errors import CourseError
from course.isolate.commands import run_source
from course.lowering import worker
from course.lowering.api import LowerError, lower_file
from course.lowering.kernel_reference import InFile
from course.lowering.layouts import Layout, Layouts, Value
from course.lowering.passes import without_locations
from course.lowering.problems import clearer, disk_error
from tests.support import lower_kernels as kernels
from tests.support.processes import python_path


class Pair(NamedTuple):
    first: int
    second: int


ADD = ("*fp32:16", "*fp32:16", "*fp32:16", "i32:16")


@pytest.fixture(scope="module")
def add():
    return lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="sm_90")


def line_of(text):
    """The line of lower_kernels.py with this text."""
    with open(kernels.__file__) as file:
        return next(number for number, line in enumerate(file, start=1) if text in line)


# Equal to what the JIT makes, asked in a process and with a cache of its own

WARMUP = """
import course, torch
from tests.support import lower_kernels as kernels
from tests.support.fixed_driver import use
from triton.tools.tensor_descriptor import TensorDescriptor
import triton.language as tl
use({target!r})
x = torch.zeros(5000)
kernel = kernels.{kernel}.warmup({arguments}, grid=(1,))
import json
print(json.dumps({{name: text for name, text in kernel.asm.items() if isinstance(text, str)}}))
"""

CASES = {
    "aligned": ("add_kernel", "x, x, x, 4096, BLOCK_SIZE=256"),
    "an odd number": ("add_kernel", "x, x, x, 4097, BLOCK_SIZE=256"),
    "one": ("add_kernel", "x, x, x, 1, BLOCK_SIZE=256"),
    "64 bits": ("add_kernel", "x, x, x, 2**33, BLOCK_SIZE=256"),
    "a shifted view": ("add_kernel", "x[1:], x, x, 4096, BLOCK_SIZE=256"),
    "other dtypes": ("add_kernel", "x.to(torch.bfloat16), x.int(), x.half(), 4096, BLOCK_SIZE=256"),
    "more warps": ("add_kernel", "x, x, x, 4096, BLOCK_SIZE=1024, num_warps=8"),
    "a tensor descriptor": (
        "descriptor_kernel",
        "TensorDescriptor(x, [32, 32], [32, 1], [16, 16]), x, BLOCK=16",
    ),
    "flags and types": ("options_kernel", "x, True, 0.5, KIND='scaled', DTYPE=tl.float16"),
    "a loop": ("matmul_kernel", "x.half(), x.half(), x, 256, BLOCK=64, num_stages=2"),
}


def warmup(kernel, arguments, target):
    ended = run_source(
        WARMUP.format(kernel=kernel, arguments=arguments, target=target), kind="compile"
    )
    assert ended.how == "finished", ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def comparable(stages):
    """Without the places in files, which are not the same where tests are found elsewhere."""
    return {
        name: without_locations(text) if name != "source" else ""
        for name, text in stages.items()
        if name != "source"
    }


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize("case", CASES)
def test_the_stages_are_what_the_jit_makes(case, target, tmp_path, monkeypatch):
    kernel, arguments = CASES[case]
    x = torch.zeros(5000)
    given = eval(
        f"call({arguments})",
        {
            "call": lambda *a, **k: (a, k),
            "x": x,
            "torch": torch,
            "tl": tl,
            "TensorDescriptor": TensorDescriptor,
        },
    )
    made = lower(getattr(kernels, kernel), *given[0], target=target, **given[1])
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "another"))
    assert comparable(made.texts) == comparable(warmup(kernel, arguments, target))


def test_that_comparison_can_fail(tmp_path, monkeypatch):
    made = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=256, target="sm_90")
    other = warmup("add_kernel", "x, x, x, 4096, BLOCK_SIZE=512", "sm_90")
    assert comparable(made.texts)["ttir"] != comparable(other)["ttir"]


def test_a_text_describes_what_a_tensor_is():
    x = torch.zeros(5000)
    tensors = lower(kernels.add_kernel, x[1:], x, x.half(), 17, BLOCK_SIZE=64)
    texts = lower(kernels.add_kernel, "*fp32", "*fp32:16", "*fp16:16", "i32", BLOCK_SIZE=64)
    assert tensors.texts == texts.texts


def test_on_amd_the_size_of_the_storage_counts():
    small = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=256, target="gfx942")
    large = lower(kernels.add_kernel, "*fp32:16 large", *ADD[1:], BLOCK_SIZE=256, target="gfx942")
    meta = torch.empty(2**30, device="meta")
    assert small.ttir.count("tt.pointer_range = 32") == 3
    assert large.ttir.count("tt.pointer_range = 32") == 2
    assert (
        lower(kernels.add_kernel, meta, *ADD[1:], BLOCK_SIZE=256, target="gfx942").ttir
        == large.ttir
    )


def test_a_cells_kernel_is_found_by_its_own_lines(add):
    cell = lower(local_add_kernel, *ADD, BLOCK_SIZE=1024, target="sm_90")
    assert (
        cell.lines.of(local_add_kernel.fn.__code__.co_firstlineno + 4)["ttir"]
        == add.lines.of(line_of("x = tl.load(x_ptr + offsets, mask=mask)"))["ttir"]
    )


@triton.jit
def local_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


# Every target


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        ("sm_75", "fp32 fused multiply-adds"), ("sm_80", "mma"), ("sm_86", "mma"), ("sm_89", "mma"), ("sm_90", "wgmma"),
        ("sm_100", "tcgen05"), ("sm_120", "mma"), ("gfx942", "mfma"), ("gfx950", "mfma"), ("gfx1100", "wmma"), ("gfx1201", "wmma"),
    ],
)  # fmt: skip
def test_a_dot_becomes_what_the_target_has(target, instruction):
    made = lower(
        kernels.matmul_kernel, "*fp16:16", "*fp16:16", "*fp32:16", 256, BLOCK=64, target=target
    )
    assert made.target.dot == instruction
    assembly = made.counts["ptx" if made.target.nvidia else "amdgcn"]
    units = {"mma", "wgmma", "tcgen05", "mfma", "wmma"}
    assert {name for name in units if assembly.get(name)} == {instruction} & units
    assert assembly[instruction] > 0
    if made.target.nvidia:
        assert made.counts["sass"][instruction] > 0
        assert made.cubin[:4] == b"\x7fELF"
    else:
        assert made.hsaco[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    "target", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
)
def test_loads_go_on_while_a_program_computes_as_the_target_has_it(target):
    by_pointers = lower(
        kernels.matmul_kernel,
        "*fp16:16",
        "*fp16:16",
        "*fp32:16",
        256,
        BLOCK=64,
        num_stages=3,
        target=target,
    )
    described = lower(
        kernels.descriptor_kernel, "tensordesc<fp16[64, 64]>", "*fp16:16", 64, target=target
    )
    assert bool(by_pointers.counts["ptx"]["asynchronous copies"]) == (
        by_pointers.target.copies != "none"
    )
    assert ("cp.async.bulk.tensor" in described.ptx) == (described.target.copies == "TMA")


def test_sm_70_ends_with_the_cubin(monkeypatch):
    monkeypatch.delenv(
        "TRITON_PTXAS_PATH", raising=False
    )  # torch.compile, once used, names PyTorch's, which may know less
    made = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="sm_70")
    assert 'ttg.target = "cuda:70"' in made.ttgir
    assert made.cubin
    with pytest.raises(CourseError, match="does not know sm_70 any more"):
        made.sass  # noqa: B018
    assert "ptx" in made.counts
    assert str(made.lines)


def test_a_stage_of_another_vendor_is_named():
    amd = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="gfx942")
    with pytest.raises(
        CourseError, match="A kernel for gfx942 has no stage ptx: it has ttir, ttgir, llir, amdgcn"
    ):
        amd.ptx  # noqa: B018
    with pytest.raises(CourseError, match="A kernel for gfx942 ends in a hsaco"):
        amd.cubin  # noqa: B018


# Lines

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
    found = add.lines.of(line)
    for stage, operation in OPERATIONS[source].items():
        rows = getattr(add, stage).split("\n")
        assert any(operation in rows[row - 1] for row in found[stage]), stage
        assert {add.lines.back(stage, row).number for row in found[stage]} == {line}


def test_each_load_is_told_from_the_other(add):
    x, y = (line_of(f"    {name} = tl.load({name}_ptr + offsets, mask=mask)") for name in "xy")
    loads = [row for row, text in enumerate(add.sass.split("\n"), start=1) if "LDG" in text]
    assert {add.lines.back("sass", row).number for row in loads} == {x, y}
    assert (
        sum("LDG" in add.sass.split("\n")[row - 1] for row in add.lines.of(x)["sass"])
        == len(loads) // 2
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942", "gfx1100"])
def test_a_library_call_belongs_to_the_line_that_calls_it(target):
    made = lower(
        kernels.row_sum_kernel, "*fp32:16", "*fp32:16", "i32:16", BLOCK_SIZE=1024, target=target
    )
    found = made.lines.of(line_of("total = tl.sum(x, axis=0)"))
    assert set(found) == set(made.lines.stages)
    stage, shuffle = ("sass", "SHFL") if made.target.nvidia else ("amdgcn", "ds_bpermute")
    if made.target.nvidia:
        rows = [row for row, text in enumerate(made.sass.split("\n"), start=1) if shuffle in text]
        assert rows
        assert set(rows) <= set(found[stage])


def test_a_readers_own_function_has_lines_of_its_own():
    made = lower(
        kernels.row_sum_kernel, "*fp32:16", "*fp32:16", "i32:16", BLOCK_SIZE=1024, target="sm_90"
    )
    found = made.lines.of(line_of("return x * x"))
    assert any("arith.mulf" in made.ttir.split("\n")[row - 1] for row in found["ttir"])
    assert any(
        "FMUL" in made.sass.split("\n")[row - 1] or "FFMA" in made.sass.split("\n")[row - 1]
        for row in found["sass"]
    )


def test_the_methods_of_an_aggregate_have_lines_too():
    made = lower(kernels.aggregate_kernel, "*fp32:16", "i32", 64, target="sm_90")
    assert [each.name for each in made.listing] == ["aggregate_kernel", "of"]
    assert "return self.first + tl.arange(0, BLOCK)" in str(made.lines)


def test_the_code_behind_the_lines_is_the_code_that_runs(add):
    """SASS comes from a second run of the assembler, for its locations: the instructions must be those of the cubin."""
    from course.lowering.sass import nvidia_tool

    code = [line.split("*/")[1] for line in add.sass.split("\n") if "/*" in line and ";" in line]
    plain = [
        line.split("*/")[1]
        for line in nvidia_tool("nvdisasm", add.cubin, "-c", "-ndf").split("\n")
        if "/*" in line and ";" in line
    ]
    assert code == plain


def cell(text, name, number=7):
    """A kernel of a notebook's cell, whose file is in no folder."""
    import linecache

    file = f"/tmp/ipykernel_4711/{number}.py"
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


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_in_a_cell_a_library_call_has_its_lines_too(target):
    made = lower(cell(CELL, "k"), "*fp32:16", "*fp32:16", 1024, target=target)
    assert set(made.lines.of(7)) == set(made.readable())


def test_a_call_over_several_lines_is_followed_from_any_of_them():
    made = lower(cell(CELL, "k"), "*fp32:16", "*fp32:16", 1024, target="sm_90")
    assert any("tt.load" in line for line in made.follow("x = tl.load(", "ttir").stages["ttir"])
    assert made.follow("x = tl.load(").stages == made.follow("+ tl.arange").stages


def test_following_shows_places_and_what_is_not_there():
    made = lower(cell(CELL, "k"), "*fp32:16", "*fp32:16", 1024, target="sm_90")
    assert str(made.follow("def k(", "ttir", most=1)).splitlines()[-1].startswith("    … and")
    with pytest.raises(CourseError, match="No line of k hold 'nothing'"):
        made.follow("nothing")
    with pytest.raises(CourseError, match="3 lines of k hold '_ptr': name one by its text"):
        made.follow("_ptr")


def test_files_of_one_name_are_told_apart(tmp_path):
    for folder, text in (
        ("one", "import triton\nimport triton.language as tl\nimport importlib.util\n\n"
                "spec = importlib.util.spec_from_file_location('other', {!r})\nother = importlib.util.module_from_spec(spec)\n"
                "spec.loader.exec_module(other)\nhelper = other.helper\n\n\n@triton.jit\ndef k(x_ptr):\n"
                "    x = tl.load(x_ptr)\n    tl.store(x_ptr, helper(x))\n"),
        ("two", "import triton\n\n\n\n\n\n\n\n\n\n\n@triton.jit\ndef helper(x):\n    return x * x\n"),
    ):  # fmt: skip
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kern.py").write_text(
            text.replace("{!r}", repr(str(tmp_path / "two" / "kern.py")))
        )
    made = lower_file(tmp_path / "one" / "kern.py", "k", ["*fp32"], "sm_90")
    row = next(
        row for row, line in enumerate(made.ttgir.split("\n"), start=1) if "arith.mulf" in line
    )
    assert made.lines.back("ttgir", row).file == str(tmp_path / "two" / "kern.py")
    assert made.lines.back("ttgir", row).text == "    return x * x"


# Counts, passes, layouts, resources


def test_counts_of_a_vector_add(add):
    assert add.counts["ttir"] == {"loads": 2, "stores": 1, "dots": 0, "reductions": 0}
    assert add.counts["ptx"]["vectorised global loads"] == add.counts["ptx"]["global loads"] == 4
    assert add.counts["sass"]["fp32 additions"] == 8
    scalar = lower(
        kernels.add_kernel, "*fp32", "*fp32", "*fp32", "i32", BLOCK_SIZE=1024, target="sm_90"
    )
    assert (
        scalar.counts["ptx"]["global loads"],
        scalar.counts["ptx"]["vectorised global loads"],
    ) == (16, 0)


def test_counts_of_a_row_sum():
    made = lower(
        kernels.row_sum_kernel, "*fp32:16", "*fp32:16", "i32:16", BLOCK_SIZE=1024, target="sm_90"
    )
    assert made.counts["ttgir"]["reductions"] == 1
    assert (
        made.counts["ptx"]["shuffles"] == made.counts["sass"]["shuffles"] == 7
    )  # 5 within a warp of 32, 2 for its 4 warps
    assert made.counts["ptx"]["barriers"] == made.counts["sass"]["barriers"] > 0


def test_the_pass_that_chose_the_layout_of_the_loads(add):
    coalesce = add.passes["tritongpu-coalesce"]
    assert coalesce.changed
    assert "sizePerThread = [4]" not in coalesce.before
    assert "sizePerThread = [4]" in coalesce.after
    assert "+#blocked1 = #ttg.blocked<{sizePerThread = [4]" in coalesce.diff()
    assert [each.name for each in add.passes.changed][:3] == [
        "inline",
        "convert-triton-to-tritongpu",
        "tritongpu-coalesce",
    ]
    assert "loc(" not in coalesce.before + coalesce.after
    assert "tritongpu-coalesce" in add.passes.diff(
        "convert-triton-to-tritongpu", "tritongpu-coalesce"
    )
    with pytest.raises(CourseError, match="No pass is called 'nonsense'"):
        add.passes["nonsense"]


def test_the_last_state_of_the_ttgir_passes_is_the_stage(add):
    assert without_locations(add.ttgir) in [each.before for each in add.passes]


def test_what_a_pass_prints_of_its_own_is_no_state_of_the_ir():
    """From Triton 3.8 on the dump holds the pipeliner's own steps."""
    made = lower(kernels.matmul_kernel, *MATMUL, target="sm_90")
    assert all(each.before.count("module attributes") <= 1 for each in made.passes)


def test_passes_on_amd():
    made = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="gfx942")
    assert made.passes["tritongpu-coalesce"].changed


def test_a_blocked_layout_deals_elements_in_order(add):
    layout = add.layouts["x"]
    assert (layout.kind, layout.name, layout.shape, layout.element) == (
        "blocked",
        "#blocked",
        (1024,),
        "f32",
    )
    assert (layout.warps, layout.threads, layout.elements_per_thread) == (4, 32, 8)
    for element in (0, 3, 4, 130, 511, 512, 1023):
        (holder,) = layout.holders(element)
        assert (holder.warp, holder.thread, holder.register) == (
            element // 128 % 4,
            element % 128 // 4,
            element % 4 + 4 * (element // 512),
        )
    assert layout.held_by(0, 1) == [(4,), (5,), (6,), (7,), (516,), (517,), (518,), (519,)]
    assert (
        layout.lines == [line_of("    x = tl.load(x_ptr"), line_of("    y = tl.load(y_ptr")]
        or layout.lines
    )
    assert "0:0:0 0:0:1 0:0:2 0:0:3 0:1:0" in str(layout)


MATMUL = ("*fp16:16", "*fp16:16", "*fp32:16", 256, 64)

# The layouts that the seed of this course lists, and the swizzled kinds of shared memory, each with what makes it.
LAYOUTS = {
    "blocked": (kernels.add_kernel, (*ADD, 256), "sm_90"),
    "slice": (kernels.tile_sum_kernel, ("*fp32:16", "*fp32:16", 64), "sm_90"),
    "linear": (kernels.matmul_kernel, ("*fp16:16", "*fp16:16", "*fp32:16", 256, 64), "gfx942"),
    "dot_op": (kernels.matmul_kernel, ("*fp16:16", "*fp16:16", "*fp32:16", 256, 64), "sm_80"),
    "nvidia_mma": (kernels.matmul_kernel, ("*fp16:16", "*fp16:16", "*fp32:16", 256, 64), "sm_80"),
    "swizzled_shared": (
        kernels.matmul_kernel,
        ("*fp16:16", "*fp16:16", "*fp32:16", 256, 64),
        "sm_80",
    ),
    "nvmma_shared": (kernels.matmul_kernel, ("*fp16:16", "*fp16:16", "*fp32:16", 256, 64), "sm_90"),
    "amd_mfma": (kernels.matmul_kernel, ("*fp16:16", "*fp16:16", "*fp32:16", 256, 64), "gfx942"),
    "amd_wmma": (kernels.matmul_kernel, ("*fp16:16", "*fp16:16", "*fp32:16", 256, 64), "gfx1100"),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_kind_of_layout_covers_its_elements_and_is_consistent(kind):
    kernel, arguments, target = LAYOUTS[kind]
    made = lower(kernel, *arguments, target=target)
    layout = next(each for each in made.layouts if each.kind == kind)
    if layout.shared and triton.__version__.startswith("3.6"):
        assert "no view in this version of Triton" in str(layout)
        return
    if layout.shared:
        shape = layout.shape[-2:]
        offsets = [layout.offset(*index) for index in np.ndindex(*shape)]
        assert sorted(offsets) == list(range(len(offsets)))
        assert all(0 <= layout.bank(*index) < 32 for index in np.ndindex(4, 4))
        return
    for index in list(np.ndindex(*layout.shape))[:: max(1, int(np.prod(layout.shape)) // 200)]:
        for holder in layout.holders(*index):
            assert layout.held_by(holder.warp, holder.thread)[holder.register] == index


def test_the_tile_of_a_tensor_core_spreads_a_row_over_four_threads():
    """mma.m16n8k16: thread 4 * r + c holds columns 2c and 2c + 1 of row r (PTX ISA, matrix fragments for mma.m16n8k16)."""
    made = lower(
        kernels.matmul_kernel, "*fp16:16", "*fp16:16", "*fp32:16", 256, BLOCK=64, target="sm_80"
    )
    layout = next(
        each for each in made.layouts if each.kind == "nvidia_mma" and each.shape == (64, 64)
    )
    assert [layout.holders(0, column)[0].thread for column in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [layout.holders(row, 0)[0].thread for row in range(8)] == [0, 4, 8, 12, 16, 20, 24, 28]


def test_unknown_names_and_elements_are_errors(add):
    with pytest.raises(
        CourseError, match="Nothing is called 'z' in the TTGIR: there is #blocked, offsets"
    ):
        add.layouts["z"]
    with pytest.raises(CourseError, match=r"There is no element \(1024,\): the shape is \(1024,\)"):
        add.layouts["x"].holders(1024)
    with pytest.raises(
        CourseError, match="There is no thread 32 of warp 0: there are 4 warps of 32 threads"
    ):
        add.layouts["x"].held_by(0, 32)
    with pytest.raises(CourseError, match="#blocked lies in registers"):
        add.layouts["x"].offset(0)


def test_the_result_of_a_library_call_has_its_name():
    made = lower(kernels.tile_sum_kernel, "*fp32:16", "*fp32:16", 64, target="sm_90")
    assert made.layouts["total"].kind == "slice"


def test_a_helpers_variables_have_their_own_names():
    made = lower(kernels.helped_kernel, "*fp32:16", "*fp32:16", 64, target="sm_90")
    assert [each.shape for each in made.layouts.all("mean")] == [(64,)]
    assert {each.shape for each in made.layouts if "result" in each.names} == {(64, 64), (64, 1)}


def test_a_call_gives_its_variable_the_result_of_the_function():
    made = lower(kernels.noted_kernel, "*fp32:16", "*fp32:16", 64, target="sm_90")
    assert not any("result" in each.names for each in made.layouts)
    assert made.layouts["result"] is made.layouts["total"]
    assert made.layouts["result"].shape == (64,)


def test_the_results_of_a_loop_have_the_names_of_what_it_carries():
    """In Triton 3.9 the loop carries a and b, loaded for the next step, beside acc."""
    made = lower(kernels.matmul_kernel, *MATMUL, target="sm_80")
    for each in made.layouts:
        for value in each.values:
            if value.operation == "scf.for":
                assert (value.name == "acc") == (each.kind == "nvidia_mma"), each
    assert made.layouts["acc"].kind == "nvidia_mma"


def test_a_layouts_name_gives_its_largest_block():
    """And not the last one, which may be the column that a softmax divides by."""
    shapes = [(64, 64), (64, 1)]
    values = [(Value("arith.divf", "", (), 1, order),) for order in range(2)]
    blocks = zip(shapes, values, strict=True)
    column_last = Layouts(
        [Layout("#mma", "#ttg.nvidia_mma<{}>", shape, "f32", {}, of) for shape, of in blocks]
    )
    assert column_last["#mma"].shape == (64, 64)


@pytest.mark.skipif(triton.__version__.startswith("3.6"), reason="3.6 has no view of shared memory")
def test_a_part_of_a_buffer_lies_as_it_does_in_the_whole():
    parts = []
    made = lower(kernels.matmul_kernel, *MATMUL, target="sm_80")
    whole = next(
        each for each in made.layouts if each.kind == "swizzled_shared" and each.shape == (64, 64)
    )
    for each in made.layouts:
        if each.kind == "swizzled_shared" and any(
            value.operation == "ttg.memdesc_subslice" for value in each.values
        ):
            parts.append(each)
            assert all(
                each.offset(*index) == whole.offset(*index) for index in np.ndindex(*each.shape)
            )
    assert bool(parts) != triton.__version__.startswith("3.7")


@pytest.mark.skipif(triton.__version__.startswith("3.6"), reason="3.6 has no view of shared memory")
def test_the_barriers_of_a_b200_do_not_hide_the_layouts_of_its_tiles():
    made = lower(kernels.matmul_kernel, *MATMUL, target="sm_100")
    tile = next(
        each for each in made.layouts if each.kind == "nvmma_shared" and each.shape == (64, 64)
    )
    # Rows of 128 bytes in pieces of 16, exchanged by the row's number: the pattern of 128-byte swizzling (PTX ISA).
    assert [tile.offset(row, 0) for row in range(9)] == [row * 64 + row % 8 * 8 for row in range(9)]


def test_descriptors_and_amds_buffer_loads_are_counted():
    made = lower(
        kernels.descriptor_kernel, "tensordesc<fp16[64, 64]>", "*fp16:16", 64, target="sm_90"
    )
    assert made.counts["ttir"]["loads"] == 1
    assert (
        lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="gfx942").counts["ttgir"]["loads"]
        == 2
    )


def test_a_kernel_of_too_many_warps_cannot_be_launched():
    found = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=4096, num_warps=64, target="sm_90").resources
    assert (found.fits, found.programs_per_sm) == (False, 0)
    assert "64 warps, and a program may have 32" in str(found)


def test_what_a_print_keeps_in_memory_is_no_spill():
    assert lower(kernels.print_kernel, "*fp32", target="sm_90").resources.spill_bytes == 0


def test_resources_and_what_follows(add):
    found = add.resources
    assert (found.spill_bytes, found.shared_bytes, found.num_warps) == (0, 0, 4)
    assert 8 <= found.registers <= 64
    assert (found.programs_per_sm, found.limit, found.occupancy) == (16, "warps", 1.0)
    assert "programs of 4 warps on" in str(found) and "programs of 1 warp on" in str(
        replace(found, num_warps=1)
    )
    deep = lower(
        kernels.matmul_kernel,
        "*fp16:16",
        "*fp16:16",
        "*fp32:16",
        256,
        BLOCK=128,
        num_stages=5,
        target="sm_75",
    )
    assert deep.resources.spill_bytes > 0


def test_too_much_shared_memory_is_said():
    made = lower(
        kernels.matmul_kernel,
        "*fp16:16",
        "*fp16:16",
        "*fp32:16",
        256,
        BLOCK=128,
        num_stages=8,
        target="sm_80",
    )
    assert not made.resources.fits
    assert "too much, it cannot be launched" in str(made.resources)
    assert made.resources.programs_per_sm == 0


# Changing things


def test_a_diff_of_two_settings(add):
    other = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, num_warps=8, target="sm_90")
    diff = add.diff(other, "ttgir")
    assert (
        "-#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4]"
        in diff
    )
    assert (
        "+#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [8]"
        in diff
    )
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
    with pytest.raises(
        CourseError,
        match=r"/proc/nowhere/.* could not be written \(No such file or directory\): nothing was changed",
    ):
        add.dump("/proc/nowhere")


# Bad input: a sentence each, with the line where there is one


KERNELS = kernels.__file__
SIGNATURES = [
    ("add_kernel", "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024"),
    ("add_kernel", "*fp16, *fp16, *bf16, i64, 64"),
    ("add_kernel", "*fp32, *fp32, *fp32, 100, 64"),
    ("add_kernel", "*fp32, *fp32, *fp32, i32:1, 64"),
    ("typed_kernel", "*fp32:16, fp16, bf16, i1, 64"),
    ("typed_kernel", "*fp32:16, fp32, fp64, True"),
    ("typed_kernel", "*i32, i8, u8, 1, 32"),
    ("typed_kernel", "*i64, i16, u16, i32, 32"),
    ("typed_kernel", "*i64:16, u32, u64, i64:16, 32"),
    ("typed_kernel", "*i32, u1, i1, False, 32"),
    ("typed_kernel", "*fp32, 2.5, -3, u8, 32"),
    ("add_kernel", "*kfp32, *kfp32:16, *fp32, i32, 64"),
    ("chosen_kernel", "*fp32, i32, 0, 64"),
    ("chosen_kernel", "*fp32, 7, i1, 64"),
]


@pytest.mark.parametrize(("kernel", "signature"), SIGNATURES)
def test_a_signature_gives_the_code_that_an_export_of_it_has(kernel, signature):
    variant = ParsedVariant(parse_signature(signature), Options(num_warps=4, num_stages=3))
    exported = compile_variants(InFile(KERNELS, kernel), [variant], "1", "sm_90")
    made = lower_file(KERNELS, kernel, split_signature(signature), "sm_90")
    assert made.cubin == exported.variants[0].code


def test_the_command_takes_tuples_and_what_heuristics_choose():
    made = lower_file(
        KERNELS, "tuple_kernel", split_signature("(*fp32:16, *fp32), (i32, 7), 64"), "sm_90"
    )
    assert made.metadata["signature"] == {
        "pointers": "('*fp32', '*fp32')",
        "sizes": "('i32', 'i32')",
        "BLOCK": "constexpr",
    }
    for n, masked in ((8, False), (7, True)):
        made = lower_file(KERNELS, "chosen_kernel", ["*fp32:16", str(n)], "sm_90", BLOCK="64")
        assert made.metadata["constants"]["EVEN"] == str(not masked)
    with pytest.raises(
        CourseError,
        match=r"heuristics could not choose EVEN from these arguments \(TypeError: .*\): give it by name",
    ):
        lower_file(KERNELS, "chosen_kernel", ["*fp32:16", "i32"], "sm_90", BLOCK="64")


def test_what_heuristics_choose_is_taken_from_the_arguments():
    x = torch.zeros(64)
    assert lower(kernels.chosen_kernel, x, 8, BLOCK=64).metadata["constants"]["EVEN"] == "True"
    assert lower(kernels.chosen_kernel, x, 7, BLOCK=64).metadata["constants"]["EVEN"] == "False"
    assert (
        lower(kernels.chosen_kernel, x, 7, EVEN=True, BLOCK=64).metadata["constants"]["EVEN"]
        == "True"
    )


def test_parameters_may_be_called_as_the_jits_own():
    made = lower(kernels.self_kernel, "*i32:16", "i32", 64)
    assert list(made.metadata["signature"]) == ["self", "grid", "BLOCK"]
    assert lower(kernels.self_kernel, "*i32:16", grid="i32", BLOCK=64).ttir == made.ttir


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        (
            ["i32"],
            {},
            "BLOCK is a constant and was given as i32, so give the value that it has in a launch",
        ),
        (["x"], {}, "BLOCK is a constant and was given as x"),
        ([None], {}, "BLOCK is a constant and was given as None"),
        ([64], {"num_warps": "x"}, "num_warps is 'x': it must be a power of two"),
        ([64], {"num_ctas": 3}, "num_ctas is 3: it must be a power of two"),
        ([64], {"num_warps": 3}, "num_warps is 3"),
    ],
)
def test_a_constant_or_an_option_that_is_none_is_named(arguments, options, says):
    with pytest.raises(CourseError, match=says):
        lower(kernels.tile_sum_kernel, "*fp32:16", "*fp32:16", *arguments, **options)


@gluon.jit
def gluon_kernel(x_ptr):
    of_32_threads: gluon.language.constexpr = gluon.language.BlockedLayout([1], [32], [4], [0])
    places = x_ptr + gluon.language.arange(0, 64, layout=of_32_threads)
    gluon.language.store(places, gluon.language.load(places))


def test_what_the_compiler_writes_beside_its_exception_is_said():
    with pytest.raises(LowerError, match=r"It does not compile: .*layout") as raised:
        lower(gluon_kernel, "*fp32:16", target="gfx942")
    assert "threads per warp" in raised.value.details


@pytest.mark.parametrize(
    ("details", "says"),
    [
        ("k.py:6:9: error: it has 32 threads.\nnote", "It does not compile: it has 32 threads."),
        (
            "Pipeline failed while executing [`PlanCTA` on 'module']",
            "the compiler's pass PlanCTA failed.",
        ),
        ("", "It does not compile: PassManager::run failed."),
    ],
)
def test_a_failed_pass_is_named(details, says):
    assert clearer("It does not compile: PassManager::run failed.", details).endswith(says)


def test_arguments_that_are_none_of_a_kernels_are_named():
    with pytest.raises(
        CourseError, match="x_ptr is a list: give a tensor, or a tuple where the kernel takes one"
    ):
        lower(kernels.tile_sum_kernel, [1.0, 2.0], "*fp32:16", 64)
    with pytest.raises(
        CourseError, match="cannot be given a sparse tensor: pass the dense tensors"
    ):
        lower(kernels.tile_sum_kernel, torch.eye(4).to_sparse(), "*fp32:16", 64)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises(CourseError, match="cannot be given a nested tensor"):
        lower(kernels.tile_sum_kernel, nested, "*fp32:16", 64)
    with pytest.raises(LowerError, match="recursive_kernel calls itself, and a kernel cannot"):
        lower(kernels.recursive_kernel, "*fp32:16", "i32")


@pytest.mark.parametrize(
    ("kernel", "arguments", "says", "line"),
    [
        (kernels.wrong_type_kernel, ["*fp16:16"], "wrong_type_kernel does not compile", "y = tl.dot(x, x)"),
        (kernels.unknown_name_kernel, ["*fp32"], "nothing_of_that_name is not defined", "nothing_of_that_name)"),
        (kernels.odd_shape_kernel, ["*fp32"], "arange's range must be a power of 2", "tl.arange(0, 100)"),
        (kernels.library_kernel, ["*fp32"], "library_kernel does not compile", "tl.sum(x, axis=3)"),
        (kernels.assembly_kernel, ["*i32"], "ptxas says", None),
        (kernels.add_kernel, ADD, "missing a required argument|missing 1 required positional argument", None),
        (kernels.add_kernel, [*ADD, 1024, 5], "it takes 5 arguments and was given 6", None),
        (kernels.add_kernel, ["*fp33", *ADD[1:], 1024], "There is no type 'fp33' in '\\*fp33'", None),
        (kernels.descriptor_kernel, ["tensordesc<fp16[3]>", "*fp16", 64], "must have powers of two", None),
        (kernels.add_kernel, ["float", *ADD[1:], 1024], "'float' is no type of an argument", None),
    ],
)  # fmt: skip
def test_what_does_not_compile_is_said_with_its_line(kernel, arguments, says, line):
    with pytest.raises(LowerError, match=says) as raised:
        lower(kernel, *arguments)
    if line:
        assert f"Line {line_of(line)} of {kernels.__file__}:" in str(raised.value)
        assert raised.value.details
    assert len(str(raised.value)) < 400


def test_other_bad_input_is_said():
    with pytest.raises(
        CourseError, match=r"lower takes a kernel, a function under @triton\.jit; this is a int"
    ):
        lower(3)
    with pytest.raises(CourseError, match="There is no target 'sm_33': there is sm_70"):
        lower(kernels.add_kernel, *ADD, BLOCK_SIZE=64, target="sm_33")
    with pytest.raises(CourseError, match="An argument of type object cannot be described"):
        lower(kernels.add_kernel, object(), *ADD[1:], BLOCK_SIZE=64)
    with pytest.raises(CourseError, match=r"A kernel cannot be given a tensor of torch\.complex64"):
        lower(kernels.add_kernel, torch.zeros(4, dtype=torch.complex64), *ADD[1:], BLOCK_SIZE=64)
    with pytest.raises(CourseError, match="An argument of type Pair cannot be described"):
        lower(kernels.add_kernel, Pair(1, 2), *ADD[1:], BLOCK_SIZE=64)
    with pytest.raises(LowerError, match="BLOCK_SIZE is given twice"):
        lower(kernels.add_kernel, *ADD, 64, BLOCK_SIZE=64)
    with pytest.raises(LowerError, match="grid belongs to a launch"):
        lower(kernels.add_kernel, *ADD, BLOCK_SIZE=64, grid=(1,))
    with pytest.raises(LowerError, match="num_wraps"):
        lower(kernels.add_kernel, *ADD, BLOCK_SIZE=64, num_wraps=4)


def test_a_jitted_function_may_be_a_constant():
    made = lower(kernels.apply_kernel, "*fp32:16", kernels.square, 64, target="sm_90")
    assert "arith.mulf" in made.ttir


def test_values_that_autotune_chooses_are_asked_for(tmp_path):
    path = tmp_path / "tuned.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.autotune([triton.Config({'N': 64})], key=[])\n@triton.jit\n"
        "def k(x_ptr, N: tl.constexpr):\n    tl.store(x_ptr + tl.arange(0, N), 1.0)\n"
    )
    with pytest.raises(
        LowerError,
        match=r"What @triton.autotune or @triton.heuristics would choose must be given by name",
    ):
        lower_file(path, "k", ["*fp32"])
    result = CliRunner().invoke(app, ["lower", f"{path}:k", "-s", "*fp32, N=64"])
    assert result.exit_code == 0, result.output


def test_a_triton_py_in_the_current_folder_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "triton.py").write_text("raise ImportError('not this one')\n")
    script = "from course.isolate.pool import call\nfrom tests.support import child_tasks\nprint(call(child_tasks.give_back, 1, kind='compile').value)"
    environ = {**os.environ, "PYTHONPATH": python_path()}
    ended = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
    )
    assert ended.stdout == "1\n", ended.stderr


def test_a_compiler_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr(worker.compile_kernel, "timeout_s", 2)
    with pytest.raises(LowerError, match="was stopped after 2 s of computing"):
        lower(kernels.endless_kernel, "*fp32")
    assert lower(kernels.add_kernel, *ADD, BLOCK_SIZE=64)


def test_a_file_that_does_not_end_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(worker.compile_kernel, "timeout_s", 2)
    (tmp_path / "endless.py").write_text("while True:\n    pass\n")
    with pytest.raises(
        LowerError,
        match=r"was stopped after 2 s of computing; before it compiles, it executes .*endless\.py\.$",
    ):
        lower_file(tmp_path / "endless.py", "kernel", ["*fp32"])


def test_a_compiler_that_aborts_is_an_error(add):
    """A layout of 3 warps, where the module says 4, trips an assertion or a check of the compiler."""
    broken = add.ttgir.replace("warpsPerCTA = [4]", "warpsPerCTA = [3]").replace(
        '"ttg.num-warps" = 4', '"ttg.num-warps" = 3'
    )
    with pytest.raises(LowerError):
        add.replace(ttgir=broken)
    assert lower(kernels.add_kernel, *ADD, BLOCK_SIZE=64)


def test_a_library_that_triton_lacks_is_no_matter_of_the_disk():
    said = str(disk_error(OSError("libLLVM.so: cannot open shared object file")))
    assert said.startswith(
        "Triton lacks a part of its own (libLLVM.so: cannot open shared object file): install it anew"
    )


def test_a_full_disk_is_said(monkeypatch, tmp_path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(tmp_path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root may make a small disk")
    try:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        with pytest.raises(
            LowerError, match=r"could not write its files in .*: No space left on device"
        ):
            lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_notebook_shows_the_sentence_and_not_the_traceback():
    with pytest.raises(LowerError) as raised:
        lower(kernels.odd_shape_kernel, "*fp32")
    shown = raised.value._render_traceback_()
    assert shown[0].startswith("LowerError: odd_shape_kernel does not compile")
    assert "sys.last_value.details" in shown[-1]


# The command


def test_the_command_writes_all_stages(tmp_path):
    result = CliRunner().invoke(
        app, ["lower", f"{kernels.__file__}:add_kernel", "-s", "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "--target", "gfx942", "--out", str(tmp_path)]
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [
            *(f"add_kernel.{stage}" for stage in ("ttir", "ttgir", "llir", "amdgcn", "hsaco")),
            "metadata.json",
        ]
    )
    assert "add_kernel for gfx942" in result.output


def test_the_command_gives_json(add):
    result = CliRunner().invoke(
        app,
        [
            "lower",
            f"{kernels.__file__}:add_kernel",
            "-s",
            ", ".join([*ADD, "1024"]),
            "--target",
            "sm_90",
            "-w",
            "8",
            "--json",
        ],
    )
    found = json.loads(result.stdout)
    assert found["resources"]["num_warps"] == 8
    assert found["counts"]["ptx"]["fp32 additions"] == 4


def test_a_file_is_read_as_a_part_of_its_package(tmp_path):
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text(
        "import triton\n\n\n@triton.jit\ndef twice(x):\n    return 2 * x\n"
    )
    (package / "kernel.py").write_text(
        "import triton\nimport triton.language as tl\nfrom .parts import twice\n\n\n"
        "@triton.autotune([triton.Config({}, num_warps=2)], key=[])\n@triton.jit\n"
        "def k(x_ptr, DTYPE: tl.constexpr, N: tl.constexpr = 16):\n"
        "    offsets = tl.arange(0, N)\n    tl.store(x_ptr + offsets, twice(tl.load(x_ptr + offsets)).to(DTYPE))\n"
    )
    made = lower_file(package / "kernel.py", "k", ["*fp32:16", "tl.float32"], "sm_90")
    assert made.lines.of(6, "parts.py")["ttir"]


def test_what_the_command_is_given_wrongly_is_said(tmp_path):
    with pytest.raises(CourseError, match="There is no file"):
        lower_file(tmp_path / "none.py", "k", [])
    with pytest.raises(
        LowerError, match=r"There is no 'k' in .*: its kernels are add_kernel, square"
    ):
        lower_file(kernels.__file__, "k", [])
    (tmp_path / "broken.py").write_text("import nothing_of_the_kind\n")
    with pytest.raises(LowerError, match="cannot be loaded: ModuleNotFoundError"):
        lower_file(tmp_path / "broken.py", "k", [])


def test_signatures_are_split_outside_brackets():
    assert split_signature("*fp32:16, tensordesc<fp16[64, 64]>, (1, 2), 1024,") == [
        "*fp32:16",
        "tensordesc<fp16[64, 64]>",
        "(1, 2)",
        "1024",
    ]


def test_a_launch_needs_the_target(add):
    if not course.MODE.gpu:
        with pytest.raises(
            CourseError, match="A kernel for sm_90 cannot be launched here: CPU mode"
        ):
            add.launch((1,))


AROUND = """
import triton
import triton.language as tl


def kernels():
    @triton.jit
    def inner(x_ptr):
        tl.store(x_ptr, 1)

    def neighbour():
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
        made = lower(kernel, "*i32", target="sm_90")
        assert f'around.py":{line}' in made.ttir and "neighbour" not in made.ttir
