"""Variants of a kernel: each has lost one thing in its machine code, and nothing else."""

import re
from collections import Counter
from dataclasses import replace

import pytest
import torch

from course import lower
from course.diagnosing.experiments import parameter_changes
from course.diagnosing.experiments.assembly import assemble, assembled, code_of
from course.diagnosing.experiments.clocks import clocks_of, with_clocks
from course.diagnosing.experiments.edits import NEVER
from course.diagnosing.experiments.parameter_changes import cures_of, in_float32
from course.diagnosing.experiments.ptx_variants import variants_of
from course.diagnosing.experiments.read_ptx import Ptx
from course.diagnosing.experiments.whole import ended_at_once, narrow_divisions, relaxed
from tests.diagnosing import (
    kernels_atomics,
    kernels_dots,
    kernels_experiments,
    kernels_gathers,
    kernels_instructions,
)
from tests.diagnosing.launches import Launch, empty


def lowered_of(launch):
    return lower(launch.kernel, *launch.args, target="sm_90", **launch.options)


@pytest.fixture(scope="module")
def softmax():
    return lowered_of(kernels_experiments.SOFTMAX)


def variants(lowered):
    """kind -> its variant that holds for most lines."""
    found = {}
    for each in variants_of(Ptx(lowered)):
        found.setdefault(each.kind, each)
    return found


def operations(lowered, ptx):
    code = code_of(assemble(lowered, ptx))
    return Counter(each.operation for block in code.blocks for each in block.instructions)


def texts_of(lowered, variant):
    """The texts of the lines that a variant is about."""
    lines = {line.frame: line.text for line in lowered.source_lines()}
    return [lines[frame].strip() for frame in variant.lines]


def test_what_is_off_stays_in_the_code_under_a_predicate_and_everything_else_as_it_was(softmax):
    before = operations(softmax, softmax.ptx)
    for kind, names in (("loads", ["LDG"]), ("stores", ["STG"])):
        after = operations(softmax, variants(softmax)[kind].ptx)
        for name in (*names, "SHFL", "MUFU", "LDS", "STS", "BAR"):
            assert after[name] == before[name] > 0


def test_a_load_that_is_off_is_never_run(softmax):
    text = variants(softmax)["loads"].ptx
    loads = [row for row in text.split("\n") if "ld.global" in row]
    assert loads
    assert all(row.strip().startswith("@%off ") for row in loads)
    assert len(re.findall(rf"and.pred %off, %p\d+, {NEVER};", text)) == len(loads)


def test_what_threads_exchange_goes_with_its_barriers_and_what_is_computed_stays(softmax):
    before = operations(softmax, softmax.ptx)
    after = operations(softmax, variants(softmax)["exchange"].ptx)
    assert after["SHFL"] == 0 < before["SHFL"]
    assert after["LDG"] == before["LDG"]
    assert after["MUFU"] == before["MUFU"]


def test_each_line_has_a_variant_of_its_own_that_keeps_what_the_others_do(softmax):
    exchange = [each for each in variants_of(Ptx(softmax)) if each.kind == "exchange"]
    assert [len(each.lines) for each in exchange] == [2, 1, 1]
    left = [operations(softmax, each.ptx)["SHFL"] for each in exchange]
    assert left[0] == 0 < left[1] == left[2]


def test_mathematics_becomes_one_multiplication_for_each(softmax):
    before = operations(softmax, softmax.ptx)
    after = operations(softmax, variants(softmax)["math"].ptx)
    assert after["MUFU"] == 0 < before["MUFU"]
    assert after["SHFL"] == before["SHFL"]


def test_a_variant_that_loses_more_than_was_meant_is_none():
    lowered = lowered_of(kernels_experiments.SUM)
    before = code_of(assemble(lowered, lowered.ptx))
    variant = variants(lowered)["arithmetic"]
    assert operations(lowered, variant.ptx)["LDG"] < operations(lowered, lowered.ptx)["LDG"]
    said = assembled(lowered, before, variant)
    assert re.search(r"instructions for global memory in line \d+ went with it", said)
    assert isinstance(assembled(lowered, before, variants(lowered)["stores"]), bytes)


def test_a_text_that_the_assembler_refuses_is_none(softmax):
    before = code_of(assemble(softmax, softmax.ptx))
    broken = variants(softmax)["loads"]
    broken = type(broken)("loads", (), broken.ptx.replace("setp.eq", "setp"), removed=1)
    assert "assembler" in assembled(softmax, before, broken)


def test_what_decides_the_addresses_of_others_is_left_alone():
    lowered = lowered_of(Launch(
        kernels_gathers.gather_kernel, (64,),
        (empty(2**16, dtype=torch.int64), empty(2**16), empty(2**16), 1024),
    ))  # fmt: skip
    assert texts_of(lowered, variants(lowered)["loads"]) == [
        "tl.store(out_ptr + i, tl.load(x_ptr + places))"
    ]


def test_a_program_that_waits_for_a_lock_can_go_on_without_it_and_its_atomics_stay():
    lowered = lowered_of(kernels_atomics.PAIRS[1].slow)
    found = variants(lowered)
    assert texts_of(lowered, found["waiting"]) == [
        "while tl.atomic_cas(locks_ptr + part, 0, 1) == 1:"
    ]
    # Without its release nobody would get the lock.
    assert not {"atomics", "stores"} & {*found}
    assert operations(lowered, found["waiting"].ptx)["ATOMG"] == 2


def test_an_atomic_that_orders_nothing_else_is_tried_without_its_fences():
    fenced, free = map(lowered_of, (kernels_atomics.PAIRS[0].slow, kernels_atomics.PAIRS[0].mended))
    (variant,) = relaxed(Ptx(fenced))
    assert operations(fenced, fenced.ptx)["MEMBAR"] > 0
    assert operations(fenced, variant.ptx)["MEMBAR"] == 0
    assert variant.cure == 'sem="relaxed"'
    assert not [*relaxed(Ptx(free))]


def test_divisions_of_64_bits_become_such_of_32():
    lowered = lowered_of(kernels_instructions.PAIRS[2].slow)
    (variant,) = narrow_divisions(Ptx(lowered))
    before, after = (operations(lowered, ptx) for ptx in (lowered.ptx, variant.ptx))
    assert after["CALL"] == 0 < before["CALL"]
    assert after["LDG"] == before["LDG"]
    assert variant.removed == 24 and variant.cure == "divisions of 32 bits"
    assert not [*narrow_divisions(Ptx(lowered_of(kernels_instructions.PAIRS[2].mended)))]


def test_products_go_and_the_copies_that_feed_them_stay():
    lowered = lowered_of(kernels_dots.product(torch.float16, "tf32"))
    variant = variants(lowered)["products"]
    before, after = (operations(lowered, ptx) for ptx in (lowered.ptx, variant.ptx))
    assert isinstance(assembled(lowered, code_of(assemble(lowered, lowered.ptx)), variant), bytes)
    assert after["LDGSTS"] >= before["LDGSTS"] * 0.5
    assert "@%course_never wgmma" in variant.ptx


def test_float64_becomes_float32_and_what_is_loaded_keeps_its_type():
    args = empty(2**16), empty(1, dtype=torch.float64), empty(2**16), 1024
    lowered = lower(kernels_experiments.decay_kernel, *args, target="sm_90")
    (cure,) = (each for each in cures_of(lowered) if each.kind == "float32")
    assert operations(lowered, lowered.ptx)["DFMA"] > 0
    assert operations(lowered, cure.lowered.ptx)["DFMA"] == 0
    assert "ptr<f64>" in cure.lowered.ttir
    assert "f64" not in in_float32(lowered.ttir).replace("ptr<f64>", "").replace(": f64 to", "")


def test_warps_and_stages_are_tried_where_they_may_matter(softmax):
    assert [each.change for each in cures_of(softmax)] == [
        "num_warps=1", "num_warps=2", "num_warps=8", "num_warps=16",
    ]  # fmt: skip
    product = lowered_of(kernels_dots.product(torch.float16, "tf32"))
    assert {each.kind for each in cures_of(product)} == {"num_warps", "num_stages"}


def test_what_spills_is_not_tried_with_fewer_warps(softmax):
    spilling = replace(softmax)
    vars(spilling)["resources"] = replace(softmax.resources, spill_bytes=6500)
    assert [each.change for each in cures_of(spilling)] == ["num_warps=8", "num_warps=16"]


def test_a_change_that_takes_the_compiler_too_long_is_none(softmax, monkeypatch):
    monkeypatch.setattr(parameter_changes, "LONGEST_S", 0)
    assert [*cures_of(softmax)] == []


def test_a_kernel_that_ends_at_once_still_has_the_resources_of_the_whole(softmax):
    text = ended_at_once(Ptx(softmax)).ptx
    assert f"@!{NEVER} ret;" in text
    assert operations(softmax, text)["LDG"] == operations(softmax, softmax.ptx)["LDG"]


def test_clocks_are_read_at_both_ends_and_written_once(softmax):
    clocked = operations(softmax, with_clocks(softmax.ptx))
    before = operations(softmax, softmax.ptx)
    assert clocked["STG"] == before["STG"] + 2
    assert clocked["LDG"] == before["LDG"]


def test_clocks_say_how_long_multiprocessors_had_nothing_to_do():
    us = 1000
    records = torch.tensor([
        [0, 10 * us, 0, 0],
        [2 * us, 4 * us, 1, 0],
        [3 * us, 5 * us, 1, 0],  # beside the one before
        [7 * us, 8 * us, 1, 0],
    ])  # fmt: skip
    clocks = clocks_of(records, multiprocessors=4)
    assert clocks.span_us == 10
    assert clocks.busy == pytest.approx((10 + 3 + 1) / 40)
