"""The IR before and after each pass."""

import pytest

from course import lower
from course.errors import CourseError
from course.lowering.passes import read, without_locations
from course.lowering.worker import text_of
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD, MATMUL


def test_the_pass_that_chose_the_layout_of_the_loads(add):
    coalesce = add.passes["tritongpu-coalesce"]
    assert coalesce.changed
    assert "sizePerThread = [4]" not in coalesce.before
    assert "sizePerThread = [4]" in coalesce.after
    assert "+#blocked1 = #ttg.blocked<{sizePerThread = [4]" in coalesce.diff()
    first_three = ["inline", "convert-triton-to-tritongpu", "tritongpu-coalesce"]
    assert [each.name for each in add.passes.changed][:3] == first_three
    assert "loc(" not in coalesce.before + coalesce.after
    assert "tritongpu-coalesce" in add.passes.diff(*first_three[1:])
    with pytest.raises(CourseError, match="No pass is called 'nonsense'"):
        add.passes["nonsense"]


def test_the_last_state_of_the_ttgir_passes_is_the_stage(add):
    assert without_locations(add.ttgir) in [each.before for each in add.passes]


def test_what_a_pass_prints_of_its_own_is_no_state_of_the_ir():
    """From Triton 3.8 on the dump holds the pipeliner's own steps."""
    passes = lower(kernels.matmul_kernel, *MATMUL, target="sm_90").passes
    assert all(each.before.count("module attributes") <= 1 for each in passes)


def test_passes_on_amd():
    lowered = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="gfx942")
    assert lowered.passes["tritongpu-coalesce"].changed


def dump(*passes):
    """A dump of passes, each a title, over what it runs, and the IR before it."""
    return "".join(
        f"// -----// IR Dump Before {title}: {title.lower()} ('{over}' operation)\n{ir}\n"
        for title, over, ir in passes
    )


def test_a_pass_over_one_function_has_its_own_changes():
    """But for those that the inliner runs."""
    module, function = "builtin.module", "tt.func"
    passes = read(
        dump(
            ("Inliner", module, "a"), ("Canonicalizer", function, "b"), ("Combine", module, "c"),
            ("Pointers", function, "c"), ("Cse", module, "d"),
        )
    )  # fmt: skip
    changed = {each.name: each.changed for each in passes}
    assert changed == {"inliner": True, "combine": False, "pointers": True, "cse": True}


def test_a_pass_without_a_name_has_that_of_its_class():
    space = "(anonymous namespace)::Verify"
    (each,) = read(
        f"// -----// IR Dump Before {space}: unknown<{space}> ('builtin.module' operation)"
    )
    assert (each.name, each.title) == ("Verify", "Verify")


def test_a_dump_that_is_too_large_is_a_sentence(tmp_path, monkeypatch):
    dump = tmp_path / "dump.mlir"
    dump.write_text("x" * 2_000_000)
    monkeypatch.setattr("course.isolate.fork_server.MOST_VALUE_BYTES", 1_000_000)
    with pytest.raises(CourseError, match="has 2 MB, and 1 MB of it can be kept: take a smaller"):
        text_of(dump)
