"""What export, stock and handed are given: what the file says now, and values that a call takes."""

import copy
import sys

import pytest
import torch
import triton
import triton.language as tl

from course import CourseError, aot, compiles_for, handed, lower, stock

TUNED = """import triton
import triton.language as tl
from settings import CONFIGS


@triton.autotune(CONFIGS, key=[])
@triton.jit
def fill_kernel(x_ptr, value, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), value)
"""
SETTINGS = "import triton\nCONFIGS = [triton.Config({'BLOCK': %d}, num_warps=%d)]\n"
CHANGED = """import triton
import triton.language as tl


@triton.jit
def fill_kernel(x_ptr, value):
    tl.store(x_ptr + tl.arange(0, 64), value + %d)
"""
FILL = "*i32, i32"


@triton.autotune([triton.Config({"BLOCK": 128}, num_warps=2)], key=[])
@triton.jit
def tuned_kernel(x_ptr, value, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), value)


@triton.jit
def fill_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, n, mask=i < n)


def written(folder, name, block, warps):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(TUNED)
    (folder / "settings.py").write_text(SETTINGS % (block, warps))
    return f"{folder / name}.py:fill_kernel"


def exported(kernel, out, variants=FILL, **options):
    return aot.export(kernel, variants, "1", "fill", out, force=True, **options).functions[0]


def test_a_configuration_is_that_of_the_file_and_its_neighbors_as_they_are_now(tmp_path):
    before = list(sys.path), set(sys.modules)
    for folder, block, warps in (("one", 64, 2), ("two", 128, 8), ("one", 256, 4)):
        kernel = written(tmp_path / folder, "kernels_here", block, warps)
        function = exported(kernel, tmp_path / "out" / "fill", config=0)
        assert (function.constants_text, function.options.num_warps) == (f"BLOCK = {block}", warps)
        assert f"num-warps = {warps}" in lower(kernel, "*i32", "i32", config=0).ttgir.replace(
            '"ttg.', ""
        ).replace('"', "")
    assert list(sys.path) == before[0]
    assert not {"kernels_here", "settings"} & set(sys.modules)


def test_a_file_may_be_called_as_a_module_of_python(tmp_path):
    kernel = written(tmp_path, "copy", 64, 2)
    assert exported(kernel, tmp_path / "out" / "fill", config=0).constants_text == "BLOCK = 64"
    assert "tt.store" in lower(kernel, "*i32", "i32", config=0).ttir
    assert sys.modules["copy"] is copy and copy.deepcopy([1]) == [1]


@pytest.mark.parametrize(
    ("variants", "options", "says"),
    [
        (FILL, {"num_warps": 8}, "leave out these, or it"),
        (aot.Variant(FILL, num_warps=1), {}, "leave out these, or it"),
        (f"{FILL}, 32", {}, "gives BLOCK, as the configuration does"),
    ],
)
def test_what_a_configuration_gives_is_not_given_beside_it(tmp_path, variants, options, says):
    with pytest.raises(CourseError, match=says):
        exported(tuned_kernel, tmp_path / "fill", variants, config=0, **options)


@pytest.mark.parametrize("fusion", [0, 1])
def test_an_option_that_is_true_or_false_is_no_number(tmp_path, fusion):
    with pytest.raises(CourseError, match="must be True or False"):
        exported(fill_kernel, tmp_path / "fill", f"{FILL}, 128", enable_fp_fusion=fusion)


X = torch.zeros(8, dtype=torch.int32)


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((X, 0), "launches nothing"),
        ((X, 5, 6), "takes 2 values, and was given 3"),
        ((X, 5.5), "n is a float, and must be an int"),
        ((X, 2**32), "i32 holds -2147483648 to 2147483647"),
    ],
)
def test_values_that_triton_s_own_function_does_not_take_are_named(tmp_path, values, says):
    grid = "(n + 127) / 128, 1, 1"
    compiled = stock.compile(fill_kernel, "*i32, i32, 128", grid, "fill", tmp_path / "fill")
    with pytest.raises(CourseError, match=says):
        compiled.handed(*values)


@pytest.mark.parametrize(
    ("out", "target", "says"),
    [
        ("file/fill", "sm_90", "cannot be made"),
        (None, "sm_90", "must be a path"),
        ("fill", "gfx942", "AMD"),
    ],
)
def test_where_triton_s_own_tool_cannot_write_is_said(tmp_path, out, target, says):
    (tmp_path / "file").write_text("")
    place = tmp_path / out if out else out
    with pytest.raises(CourseError, match=says):
        stock.compile(fill_kernel, "*i32, i32, 128", "1, 1, 1", "fill", place, target=target)


@pytest.mark.compiler
def test_a_call_hands_over_dense_tensors_and_integers_of_c(tmp_path):
    library = aot.build(aot.export(fill_kernel, "*i32, i32, 128", "1", "fill", tmp_path / "fill"))
    for value in (X.to_sparse(), X.to("meta")):
        with pytest.raises(CourseError, match="has no address to hand over"):
            handed(library, value, 5)
    with pytest.raises(CourseError, match="fits no integer of C"):
        handed(library, X, 10**30)
    with pytest.raises(CourseError, match="the number of an algorithm"):
        handed(library, X, 5, algo="0")


def test_targets_may_be_one_and_arguments_that_do_not_fit_are_no_answer():
    assert list(compiles_for(fill_kernel, "*i32", "i32", 64, targets="sm_90").problems) == ["sm_90"]
    with pytest.raises(CourseError, match="at least one target"):
        compiles_for(fill_kernel, "*i32", "i32", 64, targets=[])
    with pytest.raises(CourseError, match="missing 1 required"):
        compiles_for(fill_kernel, "*i32", BLOCK=64)


def test_forms_of_a_kernel_before_and_after_a_change_are_not_linked(tmp_path):
    (tmp_path / "one").mkdir()
    file, headers = tmp_path / "one" / "kernels_here.py", []
    for hint, more in ((":16", 1), ("", 2)):
        file.write_text(CHANGED % more)
        signature, name = f"*i32{hint}, i32", f"{file}:fill_kernel"
        headers += aot.export(name, signature, "1", "fill", tmp_path / "fill", force=True).headers
    with pytest.raises(CourseError, match="as it was before a change and after it"):
        aot.link(headers, tmp_path / "linked")
