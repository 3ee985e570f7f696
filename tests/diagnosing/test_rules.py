"""Each rule names its cause in a kernel that has it, first, and not in the twin that has not."""

import re
from dataclasses import replace

import pytest
import torch

from course import diagnose, lower
from course.diagnosing import api
from course.diagnosing.evidence import Evidence
from course.diagnosing.rules import pipelining, registers
from course.gpus.peaks import gpu_of
from course.tracing.launch import requested
from course.tracing.sample import Plan
from tests.diagnosing import (
    kernels_atomics,
    kernels_dots,
    kernels_facts,
    kernels_gathers,
    kernels_grid,
    kernels_instructions,
    kernels_iterations,
    kernels_loops,
    kernels_registers,
    kernels_repeats,
    kernels_sectors,
    kernels_sharing,
    kernels_widths,
)

PAIRS = [
    *kernels_sectors.PAIRS,
    kernels_sectors.ROTATED,
    *kernels_gathers.PAIRS,
    *kernels_widths.PAIRS,
    kernels_widths.SHIFTED,
    kernels_widths.UNTOLD,
    *kernels_registers.PAIRS,
    *kernels_loops.PAIRS,
    kernels_loops.TOLD,
    *kernels_dots.PAIRS,
    *kernels_grid.PAIRS,
    *kernels_instructions.PAIRS,
    *kernels_sharing.PAIRS,
    *kernels_atomics.PAIRS,
    *kernels_iterations.PAIRS,
    *kernels_repeats.PAIRS,
]


UNSEEN = kernels_sectors.PAIRS[3].slow
DIAGNOSED = {}
FEW = Plan(most=32, operations=15_000)
"""Programs of these small kernels that show their cause as well as diagnose's own sample does."""


@pytest.fixture(autouse=True)
def _follow_few(monkeypatch):
    monkeypatch.setattr(api, "FOLLOWED", FEW)


def diagnosed(launch):
    """What diagnose says of a launch, which is asked once."""
    if id(launch) not in DIAGNOSED:
        said = diagnose(launch.kernel, launch.grid, *launch.args, target="H200", **launch.options)
        DIAGNOSED[id(launch)] = launch, said  # the launch is kept, and so is its id
    return DIAGNOSED[id(launch)][1]


def compiled(launch):
    """What the rules see of a launch that was not followed."""
    asked = requested("diagnose", launch.kernel, launch.grid, launch.args, launch.options)
    lowered = lower(launch.kernel, *launch.args, target="sm_90", **launch.options)
    return Evidence(asked, lowered, None, gpu_of("H200"))


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name for pair in PAIRS])
def test_a_cause_is_named_first_where_it_is_and_not_in_the_twin(pair):
    slow, mended = diagnosed(pair.slow), diagnosed(pair.mended)
    assert slow.causes[:1] == [pair.cause], str(slow)
    assert pair.cause not in mended.causes, str(mended)


@pytest.mark.parametrize(
    "number, blamed",
    [
        (0, "that n is divisible by 16"),
        (1, "that x_ptr is divisible by 16"),
        (2, "cannot see from"),
    ],
)
def test_the_argument_that_makes_loads_narrow_is_named_if_there_is_one(number, blamed):
    (finding,) = diagnosed(kernels_widths.PAIRS[number].slow).findings
    assert blamed in finding.why


def test_data_that_lie_together_and_begin_within_a_sector_are_to_be_aligned():
    (finding,) = diagnosed(kernels_sectors.MISALIGNED.slow).findings
    assert "begins in the middle of a sector" in finding.why
    assert finding.change.startswith("align the tensor, or pad its rows")
    assert "1.2 times" in finding.what  # 5 sectors for 4


def test_rows_that_do_not_fill_sectors_are_to_be_padded():
    launch = kernels_sectors.MISALIGNED.slow
    x = torch.zeros(133, 4097)
    unpadded = replace(launch, args=(x, launch.args[1], 4097, 128))
    (finding, *_) = (each for each in diagnosed(unpadded).findings if each.cause == "sectors")
    assert "begins in the middle of a sector" in finding.why


def test_a_gather_is_told_to_sort_and_an_update_to_add_up_first():
    gather, count = (diagnosed(pair.slow).findings[0] for pair in kernels_gathers.PAIRS)
    assert re.search(r"the places are those that line \d+ loaded, and they lie apart", gather.why)
    assert gather.change.startswith("sort the indices")
    assert "tl.histogram" in count.change


def test_places_that_lie_together_by_chance_are_no_cause():
    assert diagnosed(kernels_gathers.IN_ORDER).causes == []


def test_indices_without_values_are_said_to_have_been_zeros():
    note = "On the device 'meta' places_ptr held zeros, which decided the places"
    assert note in str(diagnosed(kernels_gathers.WITHOUT_PLACES))
    assert note not in str(diagnosed(kernels_gathers.IN_ORDER))


def test_a_shifted_window_is_not_told_to_promise_what_is_not_so():
    (finding,) = diagnosed(kernels_widths.SHIFTED.slow).findings
    assert "begins at no multiple of 16 bytes" in finding.why
    assert "tl.multiple_of" not in finding.change


def test_a_number_that_is_no_multiple_is_not_to_be_marked_as_one():
    (untold,) = diagnosed(kernels_widths.UNTOLD.slow).findings
    assert "tl.multiple_of" in untold.change
    (ragged,) = diagnosed(kernels_widths.PAIRS[0].slow).findings
    assert ragged.change == "make n a multiple of 16 by padding the tensor."


def test_threads_without_elements_of_their_own_are_named():
    (finding,) = diagnosed(kernels_grid.PAIRS[1].slow).findings
    assert "its blocks have 128 elements for 256 threads" in finding.why


def test_a_loop_over_small_blocks_is_told_to_take_larger_ones():
    slow = kernels_loops.PAIRS[2].slow
    half = replace(slow, args=(slow.args[0].half(), *slow.args[1:3], 256))
    (finding,) = diagnosed(half).findings
    assert finding.change.startswith("larger blocks, for fewer iterations: a thread loads 4 bytes")
    whole = replace(slow, args=(*slow.args[:3], 512))
    assert diagnosed(whole).findings[0].change.startswith("`for … in tl.range(…, num_stages=3)`")


def test_a_loop_that_goes_from_row_to_row_is_not_told_to_take_larger_blocks():
    (finding,) = diagnosed(kernels_loops.SCAN).findings
    assert finding.cause == "pipelining"
    assert "larger blocks" not in finding.change


def test_one_of_each_pair_of_neighbors_is_to_be_moved_with_the_other():
    findings = diagnosed(kernels_sectors.ROTATED.slow).findings
    assert all("tl.split" in finding.change for finding in findings)
    (column, *_) = diagnosed(kernels_sectors.PAIRS[0].slow).findings
    assert "tl.split" not in column.change


HASHED, NOISE, BORDER, DECAY, MOMENTS = kernels_instructions.PAIRS


def test_the_instructions_of_an_element_are_told_with_the_line_of_most():
    (finding,) = diagnosed(HASHED.slow).findings
    assert finding.text == "h = (h ^ (h >> 15)) * 0x2C1B3C6D"
    assert "for its integer arithmetic and logic" in finding.what
    # Of each round a multiplication, and a shift and an exclusive or in one or two instructions.
    assert 2 * 48 <= int(finding.what.split()[0]) <= 4 * 48


def test_random_numbers_of_which_three_in_four_are_thrown_away_are_to_be_used():
    (finding,) = diagnosed(NOISE.slow).findings
    assert "tl.rand4x" in finding.change and "tl.rand(seed, i)" in finding.text
    assert "tl.rand4x" not in diagnosed(HASHED.slow).findings[0].change


def test_divisions_of_64_bits_count_with_the_function_that_they_call():
    (first, *_) = diagnosed(BORDER.slow).findings
    assert first.text.startswith("column, row = i % columns")
    number, part = re.match(
        r"(\d+) instructions .* of which (\d+)% divide integers of 64 bits", first.what
    ).groups()
    # Three divisions, each by some eighty instructions.
    assert 150 < int(number) * int(part) / 100 < 300
    assert ".to(tl.int32)" in first.change


def test_a_sort_is_not_told_to_divide_less():
    first = diagnosed(kernels_instructions.SORT).findings[0]
    assert first.cause == "instructions" and first.change.startswith("sort less: tl.topk")


def test_small_programs_that_cannot_be_followed_are_named_by_their_blocks():
    said = diagnosed(kernels_instructions.BY_ASSEMBLY)
    assert said.causes == ["small programs"] and "each of which moves 2,048 bytes" in str(said)
    assert not diagnosed(kernels_instructions.BY_ASSEMBLY_IN_BLOCKS).causes


def test_one_number_in_float64_is_named_and_no_fact_says_it_again():
    said = diagnosed(DECAY.slow)
    (finding,) = said.findings
    assert finding.change.startswith("make rate_ptr float32 before it meets a block")
    assert not any("float64" in fact for fact in said.facts)


def test_reductions_of_a_loop_are_told_by_their_shuffles_and_barriers():
    finding, *_ = diagnosed(MOMENTS.slow).findings
    # Two sums, each over 32 lanes and then over 16 warps: 5 and 4 steps.
    assert "in each of 32 iterations: 18 shuffles" in finding.what
    assert "of each of 16 warps" in finding.what


def test_loads_that_many_programs_share_are_told_with_the_axis_along_which_they_do():
    (finding,) = diagnosed(kernels_sharing.PAIRS[0].slow).findings
    assert finding.what.startswith("load x_ptr: each byte is loaded by 8.0 programs")
    assert "does not depend on axis 0 of the grid" in finding.why


def test_what_a_program_loads_again_itself_is_not_shared_with_others():
    assert "shared reads" not in [found.cause for found in diagnosed(kernels_sharing.OWN).findings]


def test_the_fences_of_atomics_are_counted():
    finding, *_ = diagnosed(kernels_atomics.PAIRS[0].slow).findings
    # 4,096 elements for 128 threads, and an atomic adds one integer.
    assert "32 fences of each warp" in finding.what and 'sem="relaxed"' in finding.change


def test_the_turns_of_a_lock_are_counted():
    finding, *_ = diagnosed(kernels_atomics.PAIRS[1].slow).findings
    assert "16 locks in locks_ptr, taken 128 times each" in finding.what
    # The atomics that take it and release it, and the load between them.
    assert "it makes 3 trips to the L2 cache" in finding.why
    assert finding.text.startswith("while tl.atomic_cas")


def test_programs_that_run_a_loop_more_often_than_others_are_counted():
    finding, *_ = diagnosed(kernels_iterations.PAIRS[0].slow).findings
    assert "runs this loop 500 times, and 1.5 times is the average of all 2,048" in finding.what
    assert "2 run it at least half as often" in finding.why
    assert finding.text.startswith("for start in range(begin, end, BLOCK)")


def test_how_often_a_block_asks_for_the_same_is_counted():
    finding, *_ = diagnosed(kernels_repeats.PAIRS[0].slow).findings
    # 32 rows hold the same, and a request of a warp spans two of them.
    assert "a block of 8,192 elements asks for each of its sectors 16.0 times" in finding.what
    assert "(inner // 32)[:, None]" in finding.text


def test_a_gather_that_comes_to_one_place_again_is_no_repeat():
    assert "repeats" not in diagnosed(kernels_repeats.ONE_PLACE).causes


def test_lanes_of_one_request_that_ask_for_the_same_are_no_cause():
    assert diagnosed(kernels_repeats.ONE_REQUEST).causes == []


def test_what_warps_ask_for_alike_is_not_taken_for_more_that_is_needed():
    (finding,) = diagnosed(kernels_sectors.SHIFTED_SCALES).findings
    # Each request of two half rows takes three sectors of each in place of two.
    assert "load scale_ptr" in finding.what and "1.5 times as many" in finding.what
    assert "in the middle of a sector" in finding.why


def test_narrow_loads_of_what_lanes_ask_for_alike_are_found():
    (finding,) = diagnosed(kernels_sectors.ODD_SCALES).findings
    assert finding.what.startswith("load scale_ptr: 2 bytes of a thread")
    assert "does not know that N is divisible by 16" in finding.why


def test_what_a_thread_takes_by_several_wide_instructions_is_no_waste():
    assert diagnosed(kernels_sectors.BYTES).causes == []


def test_a_while_loop_is_shown_by_its_head():
    (finding, *_) = diagnosed(kernels_loops.PAIRS[1].slow).findings
    assert finding.text.startswith("while k < K:")
    assert "`for … in range(…)`" in finding.change


def test_lanes_that_are_no_neighbors_are_not_called_misaligned():
    (finding,) = (each for each in diagnosed(UNSEEN).findings if each.cause == "sectors")
    assert "the threads of one warp do not get neighbors" in finding.why


def test_a_loop_that_asks_for_a_pipeline_is_not_told_to_ask_for_one():
    told = diagnosed(kernels_loops.TOLD.slow)
    assert "pipelining" not in told.causes, str(told)


def test_the_depth_of_a_loop_is_the_one_that_it_asks_for_itself():
    told = compiled(kernels_loops.TOLD.slow)
    assert [told.stages_of(loop) for loop in told.loops] == [4]
    untold = compiled(kernels_loops.PAIRS[2].slow)
    assert [untold.stages_of(loop) for loop in untold.loops] == [1]
    product = compiled(kernels_loops.PAIRS[0].mended)
    assert [product.stages_of(loop) for loop in product.loops] == [4]


def test_a_loop_some_of_whose_loads_are_under_way_is_not_said_to_wait_for_all():
    evidence = compiled(kernels_loops.PAIRS[2].slow)
    assert [finding.cause for finding in pipelining.unpipelined(evidence)] == ["pipelining"]
    (loop,) = evidence.loops
    loop.ahead += loop.plain
    assert list(pipelining.unpipelined(evidence)) == []


@pytest.mark.parametrize("launch", [kernels_gathers.SEARCH, kernels_iterations.CHAIN])
def test_a_loop_whose_loads_lead_to_one_another_is_a_gather_and_not_told_to_pipeline(launch):
    evidence = compiled(launch)
    (loop,) = evidence.loops
    assert all((call, "load") in evidence.gathers for call in loop.plain)
    assert list(pipelining.unpipelined(evidence)) == []


def test_maxnreg_is_advised_only_where_nothing_spills_with_it(monkeypatch):
    evidence, asked = compiled(kernels_registers.PAIRS[0].slow), []
    (spills,) = registers.occupancy(evidence)
    assert "maxnreg" not in spills.change

    def spills_nothing(lowered, maxnreg):
        asked.append(maxnreg)
        return lowered

    monkeypatch.setattr(registers, "with_options", spills_nothing)
    (fits,) = registers.occupancy(evidence)
    assert f"or maxnreg={asked[0]}, with which nothing spills" in fits.change
    assert f"at {asked[0]} it would hold" in fits.what


def test_accesses_of_which_a_mask_keeps_out_as_many_lanes_share_a_sentence():
    (fact,) = (each for each in diagnosed(kernels_facts.PAIRS[2].slow).facts if "mask" in each)
    assert re.search(r"50% of the lanes out: line \d+ \(load x_ptr\), line \d+ \(store out", fact)


FACTS = kernels_facts.PAIRS


def test_the_signs_of_a_maximum_are_no_mask_and_put_nothing_apart():
    (signs,) = (each for each in FACTS if "two atomics" in each.cause)
    said = str(diagnosed(signs.slow))
    assert "mask" not in said and "lie apart" not in said


@pytest.mark.parametrize("pair", FACTS, ids=[pair.name for pair in FACTS])
def test_a_fact_is_told_where_it_holds_and_not_of_the_twin(pair):
    slow, mended = diagnosed(pair.slow), diagnosed(pair.mended)
    assert any(pair.cause in fact for fact in slow.facts), str(slow)
    assert not any(pair.cause in fact for fact in mended.facts), str(mended)
