"""Instructions counted from SASS: blocks and loops, and how often a warp runs them."""

from collections import Counter

import pytest

from course import diagnose
from course.diagnosing.evidence import Evidence
from course.diagnosing.executed import executed
from course.diagnosing.machine_code import Instruction, disassembled, machine_code_of, parsed
from course.gpus import throughput
from course.gpus.limits import target_of
from course.gpus.peaks import gpu_of
from course.lowering.api import lower
from course.lowering.memory_requests import requests_of
from tests.diagnosing import kernels_instructions, kernels_loops
from tests.diagnosing.launches import empty
from tests.diagnosing.trial4 import p15

LISTING = """
.text.kernel:
\t//## File "kernel.py", line 5
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/              @!P0 BRA `(.L_x_3) ;
.L_x_1:
\t//## File "library.py", line 90 inlined at "kernel.py", line 7
\t//## File "kernel.py", line 7
        /*0020*/                   FADD R1, R1, R2 ;
        /*0030*/               @P1 BRA P2, `(.L_x_2) ;
        /*0040*/                   CALL.REL.NOINC `($__internal_0_$__cuda_sm20_div) ;
.L_x_2:
        /*0050*/                   BRA.DIV UR4, `(.L_x_4) ;
        /*0060*/              @!P0 BRA `(.L_x_1) ;
.L_x_3:
        /*0070*/                   EXIT ;
.L_x_4:
        /*0080*/                   SHFL.BFLY PT, R3, R2, 0x10, 0x1f ;
        /*0090*/                   BRA `(.L_x_2) ;
.L_x_5:
        /*00a0*/                   BRA `(.L_x_5);
        /*00b0*/                   NOP;
$__internal_0_$__cuda_sm20_div:
        /*00c0*/                   DMUL R4, R4, R4 ;
        /*00d0*/                   RET.REL.NODEC R6 `(kernel) ;
"""


def reached(code):
    """The instructions that a program can reach without a call."""
    return [
        each.name for number in sorted(code.reached) for each in code.blocks[number].instructions
    ]


def test_a_loop_is_its_blocks_and_no_other_code():
    code = parsed(LISTING)
    (loop,) = code.loops
    inside = [
        each.name for number in sorted(loop.blocks) for each in code.blocks[number].instructions
    ]
    assert inside == ["FADD", "BRA", "CALL.REL.NOINC", "BRA.DIV", "BRA"]


def test_functions_for_special_cases_and_paths_of_lanes_apart_are_not_reached():
    names = reached(parsed(LISTING))
    assert "DMUL" not in names and "SHFL.BFLY" not in names
    assert names[-1] == "EXIT"


def test_an_instruction_has_the_line_that_was_told_last():
    lines = {
        each.name: each.line for block in parsed(LISTING).blocks for each in block.instructions
    }
    assert lines["S2R"] == ("kernel.py", 5)
    assert lines["FADD"] == ("kernel.py", 7)


@pytest.mark.parametrize(
    "name, fences", [("MEMBAR.ALL.GPU", True), ("MEMBAR.SC.SYS", True), ("MEMBAR.ALL.CTA", False)]
)
def test_a_fence_is_one_for_the_whole_gpu(name, fences):
    assert Instruction(name).fences == fences


def test_what_prepares_a_call_for_a_special_case_is_not_counted():
    from course.tracing.records import LaunchCounts

    counts = LaunchCounts("kernel", 1, [], [], [], {}, {}, {}, {})
    ran = executed(parsed(LISTING), counts, [], frozenset({("kernel.py", 7)}))
    assert "CALL" not in [run.instruction.operation for run in ran]


def test_a_division_of_64_bits_counts_with_the_function_that_it_calls():
    from course.tracing.records import LaunchCounts

    counts = LaunchCounts("kernel", 1, [], [], [], {}, {}, {}, {})
    listing = LISTING.replace("sm20_div", "sm20_div_s64")
    ran = executed(parsed(listing), counts, [], frozenset({("kernel.py", 7)}))
    inside = [(run.instruction.operation, run.line) for run in ran if run.divides]
    assert inside == [("DMUL", ("kernel.py", 7)), ("RET", ("kernel.py", 7))]
    assert "CALL" in [run.instruction.operation for run in ran]


def evidence_of(launch, monkeypatch):
    """What the rules of one diagnosis look at."""
    from course.diagnosing import api

    made = []

    def kept(*fields):
        made.append(Evidence(*fields))
        return made[-1]

    monkeypatch.setattr(api, "Evidence", kept)
    diagnose(launch.kernel, launch.grid, *launch.args, target="H200", **launch.options)
    return made[0]


@pytest.mark.parametrize("n", [16384, 3 * 512, 7 * 512, 512])
def test_additions_are_counted_once_for_each_element_however_often_the_body_is_copied(
    n, monkeypatch
):
    slow = kernels_loops.PAIRS[2].slow
    launch = type(slow)(slow.kernel, slow.grid, (empty(132, n), empty(132), n, 512))
    ran = evidence_of(launch, monkeypatch).executed
    additions = sum(run.times for run in ran if run.instruction.operation == "FADD")
    # A warp has a quarter of a row; then each thread adds its 4, and lanes and warps reduce.
    assert n / 4 / 32 <= additions <= n / 4 / 32 + 4 + 5 + 2


def test_without_a_trace_nothing_is_counted_as_run():
    slow = kernels_instructions.PAIRS[0].slow
    said = diagnose(slow.kernel, slow.grid, *slow.args, target="MI300X")
    assert said.work.instructions == {} and said.work.parts["instructions"] == 0


def test_loads_come_from_their_calls_and_not_from_lines_below():
    slow = kernels_loops.PAIRS[2].slow
    lowered = lower(slow.kernel, *slow.args, target="sm_90")
    calls = {each.path[0][:2] for each in requests_of(lowered)}
    code = machine_code_of(lowered, disassembled(lowered))
    assert calls == {
        each.line for block in code.blocks for each in block.instructions if each.accesses
    }


def test_what_follows_inline_assembly_is_from_the_line_of_its_call():
    arguments, options, _ = p15.arguments("cpu")
    lowered = lower(p15.kernel, *arguments, target="sm_90", **options)
    code = machine_code_of(lowered, disassembled(lowered))
    lines = Counter(each.line for block in code.blocks for each in block.instructions)
    texts = {line.frame: line.text for line in lowered.source_lines()}
    most = {texts[line].strip() for line, _ in lines.most_common(2)}
    assert most == {"cos = tl.cos(angle)", "sin = tl.sin(angle)"}


H200, RTX = gpu_of("H200"), gpu_of("RTX 4090")


def test_float64_is_half_as_fast_as_float32_on_one_gpu_and_a_sixty_fourth_on_another():
    for gpu, times in ((H200, 2), (RTX, 64)):
        rates = [
            throughput.results_a_clock(each, gpu, target_of(gpu.target))
            for each in (throughput.FLOAT32, throughput.FLOAT64)
        ]
        assert round(rates[0] / rates[1]) == times
    assert round(throughput.results_a_clock(throughput.FLOAT32, H200, target_of("sm_90"))) == 128


def test_the_busiest_unit_or_the_issue_sets_the_clocks():
    target = target_of("sm_90")
    assert throughput.clocks({throughput.SPECIAL: 8}, H200, target) == (16, throughput.SPECIAL)
    both = {throughput.SHUFFLE: 2, throughput.OTHER: 38}
    assert throughput.clocks(both, H200, target) == (10, "issue")
