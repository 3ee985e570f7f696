"""diagnose on Gluon kernels: what the compiled code shows, and that the rest is not known."""

from dataclasses import replace

import pytest

from course import diagnose, lower
from course.diagnosing import shared_memory
from tests.diagnosing.kernels_gluon import BANKS, PAIRS, WIDTHS, products

ALONE = "only its compiled code was judged: what a Gluon kernel touches is not counted."


def diagnosed(launch, target="H200"):
    return diagnose(launch.kernel, launch.grid, *launch.args, target=target, **launch.options)


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name for pair in PAIRS])
def test_a_cause_that_the_code_shows_is_named_and_not_in_the_twin(pair):
    slow, mended = diagnosed(pair.slow), diagnosed(pair.mended)
    assert slow.causes[:1] == [pair.cause], str(slow)
    assert pair.cause not in mended.causes, str(mended)


def test_the_half_that_is_missing_is_said_to_be_missing_and_no_time_is_estimated():
    said = diagnosed(WIDTHS.slow)
    assert said.causes == []
    assert str(said).endswith(ALONE)
    assert said.estimated_us is None


def test_accesses_that_are_narrower_than_what_a_thread_holds_are_a_fact():
    fact = "load: 4 bytes of a thread in one instruction, 16 possible if what it holds lies"
    assert any(fact in each for each in diagnosed(WIDTHS.slow).facts)
    assert diagnosed(WIDTHS.mended).facts == ()


def test_a_bank_conflict_is_a_fact_with_its_line_and_swizzled_rows_have_none():
    (fact,) = (each for each in diagnosed(BANKS.slow).facts if "bank" in each)
    assert "loads from shared memory in 32 cycles for each request" in fact
    assert fact.endswith("a 32-way bank conflict: turned = tile.load(columns)")
    assert not any("bank" in each for each in diagnosed(BANKS.mended).facts)


def test_a_bank_conflict_is_not_claimed_of_other_instructions_than_it_was_counted_for(monkeypatch):
    slow = BANKS.slow
    lowered = lower(slow.kernel, *slow.args, target="sm_90", **slow.options)
    assert [each.kind for each in shared_memory.conflicts_of(lowered)] == ["load"]
    narrower = lowered.ptx.replace("ld.shared.b32", "ld.shared.b16")
    matrices = lowered.ptx.replace("ld.shared.b32", "ldmatrix.sync.aligned.m8n8.x4.shared.b16")
    for ptx in (narrower, matrices):
        changed = replace(lowered, texts={**lowered.texts, "ptx": ptx})
        assert list(shared_memory.conflicts_of(changed)) == []


@pytest.mark.parametrize("target, name", [("A100", "mma_v2"), ("H200", "warpgroup_mma")])
def test_multiply_adds_are_told_the_product_that_the_gpu_has(target, name):
    (finding,) = diagnosed(products(mma=False), target).findings
    assert name in finding.change


def test_mma_sync_is_an_older_product_on_hopper_alone():
    assert diagnosed(products(mma=True)).causes == ["older dot"]
    assert diagnosed(products(mma=True), "A100").causes == []
