"""What "Your own kernels" says of slow kernels is what `diagnose` counts, and the kernels are
those that were recorded."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from course import cost, diagnose, gpu_report, kernel_metrics, lower, step_profile
from course.benching.profiles import METRICS, SECTORS, TIME
from course.diagnosing.result import EXPLAINED
from course.diagnosing.time_model import UPDATED_LINE_NS
from course.lessons.folders import ROOT
from course.lessons.order import numbers
from tests.support.lesson import Lesson, empty, script_of

LESSON = Lesson("Your own kernels")
CODE = LESSON.code


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    """The lesson's kernels, by their names."""
    kernels = []
    for text in CODE:
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                first = node.decorator_list[0].lineno - 1
                kernels.append("\n".join(text.splitlines()[first : node.end_lineno]))
    return script_of(tmp_path_factory.mktemp("lesson"), LESSON.imports, *kernels)


def softmax(kernel, columns=1, **settings):
    x = empty(1024, 16384)
    grid = (16384 // columns,)
    return diagnose(kernel, grid, x, x, 1024, 16384, BLOCK_ROWS=1024, **settings, target="H200")


def test_a_softmax_down_the_columns_wastes_sectors_twice_and_its_store_counts_most(lesson):
    told = softmax(lesson.columns_kernel)
    assert told.causes == ["sectors", "sectors"]
    assert [finding.what.split(":")[0] for finding in told.findings] == [
        "store out_ptr",
        "load x_ptr",
    ]
    assert [f"{each.gain:.1f}" for each in told.findings] == ["5.5", "1.2"]


def test_behind_the_sectors_stand_spills_and_eight_warps_mend_them(lesson):
    told = softmax(lesson.tiles_kernel, 32, BLOCK_COLS=32)
    assert told.causes == ["spills"] and "num_warps=8, with which nothing spills" in str(told)
    assert "spilled to memory, with 32 registers per thread" in str(told)
    assert "The report says 32" in LESSON.flat
    mended = softmax(lesson.tiles_kernel, 32, BLOCK_COLS=32, num_warps=8)
    assert mended.causes == [] and mended.work.longest[0] == "memory"
    assert 1024 * 32 // (4 * 32) == 256


PRODUCT = empty(1024, 256, dtype=torch.float16), empty(256, 1024, dtype=torch.float16)


def product(kernel):
    args = (*PRODUCT, empty(1024, 1024), 1024, 256)
    return diagnose(kernel, (16, 16), *args, BLOCK=64, target="H200")


def test_of_two_findings_in_the_first_product_the_spills_gain_nothing(lesson):
    told = product(lesson.slow_product_kernel)
    assert told.causes == ["tensor cores", "spills"]
    assert told.findings[0].gain > 2 and told.findings[1].gain < 1.05
    assert product(lesson.product_kernel).causes == []


def test_the_second_product_waits_in_a_while_loop_and_spills_nothing(lesson):
    assert product(lesson.slow_walk_kernel).causes == ["pipelining"]
    assert product(lesson.walk_kernel).causes == []


def test_a_length_from_memory_makes_loads_narrow(lesson):
    x, out = empty(4096, 4096, dtype=torch.float16), empty(4096)
    lengths = torch.full((4096,), 4000, dtype=torch.int32)
    causes = [
        diagnose(kernel, (4096,), x, lengths, out, 4096, BLOCK_SIZE=4096, target="H200").causes
        for kernel in (lesson.slow_means_kernel, lesson.means_kernel)
    ]
    assert causes == [["narrow"], []]
    counted = cost(
        lesson.slow_means_kernel, (4096,), x, lengths, out, 4096, BLOCK_SIZE=4096, target="H200"
    )
    # Narrow loads of neighbors ask for the same sectors again, so `cost` alone would say c.
    assert "8.00 times the least" in str(counted)


def test_a_long_sum_has_two_findings_and_few_programs_comes_first(lesson):
    x = empty(2**20)
    told = diagnose(lesson.slow_dot_kernel, (1,), x, x, x, 2**20, BLOCK_SIZE=1024, target="H200")
    assert told.causes == ["few programs", "pipelining"]
    few, loop = told.findings
    assert few.gain > 100 and round(loop.gain) == 2


def test_each_letter_is_the_right_one_of_a_core_exercise():
    from course.exercises.registry import topic_exercises

    exercises = topic_exercises("when_it_is_slow").items()
    causes = {name: each.cause.right for name, each in exercises if hasattr(each, "cause")}
    assert sorted(causes.values()) == list("abcdefghi")
    for name in causes:
        number = re.escape(numbers()[name])
        assert re.search(rf"### Exercise {number} · .* \(core\)", LESSON.text), name


def test_what_is_said_of_spills_in_long_rows(lesson):
    x = empty(2048, 32768)
    for kernel, size, causes in (
        (lesson.slow_cosine_kernel, 32768, ["spills"]), (lesson.cosine_kernel, 1024, []),
    ):  # fmt: skip
        args = (x, x, empty(2048), 32768)
        told = diagnose(kernel, (2048,), *args, BLOCK_SIZE=size, target="H200")
        assert told.causes == causes


TRIAL = (ROOT / "docs" / "diagnose-trial.md").read_text()


def trial_row(beginning):
    """The cells of the first row of the trial's page that begins so."""
    rows = [line for line in TRIAL.splitlines() if line.startswith(beginning)]
    return [cell.strip(" *") for cell in rows[0].strip("|").split("|")]


def test_how_often_the_first_cause_was_right_is_what_the_trials_say():
    bold = r"\*\*(?:It|Without a GPU it) was right for (\d+ of \d+)"
    asked = re.findall(bold, TRIAL)
    assert "{}, {}, {} and {} ([the trials]".format(*asked) in LESSON.flat
    right, all_asked = (sum(int(each.split(" of ")[k]) for each in asked) for k in (0, 1))
    assert f"that it had not seen, {all_asked} in all" in LESSON.flat
    assert f"For {right} of them the cause" in LESSON.flat
    with_gpu = re.findall(r"With experiments it was right for (\d+) of 20", TRIAL)
    without = sum(int(each.split(" of ")[0]) for each in asked[-2:])
    tried = sum(map(int, with_gpu))
    assert f"it was then right for {tried}, and without one for {without}" in LESSON.flat
    assert len(with_gpu) == 2


def test_the_rarer_causes_are_told_as_the_trial_measured_them(lesson):
    levels, counts = torch.zeros(2**14, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    sizes = {"BINS": 16, "BLOCK_SIZE": 4096}
    told = diagnose(
        lesson.slow_histogram_kernel, (4,), levels, counts, 2**14, **sizes, target="H200"
    )
    assert told.causes[:1] == ["few programs"] and "fences" in told.causes
    assert "updates each element of counts_ptr" in str(told)
    assert 2**22 // 16 == 262_144 and "262,144 times" in LESSON.flat
    histogram, adam = trial_row("| [k08]"), trial_row("| [k14]")
    assert histogram[1] == "695" and "an atomic per element: 30.98" in histogram[2]
    assert trial_row("| k08 |")[2] == "608"
    assert "695 us on that GPU (the estimate says 608), and was 31 times" in LESSON.flat
    assert 2**22 // 32 == 131_072 and "for that line: 2^22 / 32 = 131,072" in LESSON.flat
    assert f"makes {131_072 * UPDATED_LINE_NS / 1e6:.2f} ms" in LESSON.flat
    assert "float64 by accident: 1.68" in adam[2] and "got 1.68 times as fast" in LESSON.flat


@pytest.mark.parametrize(("gpu", "least"), [("H200", 0.0), ("RTX 4090", 2.0)])
def test_float64_costs_what_the_gpus_unit_makes_it_cost(lesson, gpu, least):
    x = empty(8192, 4096)
    told = diagnose(lesson.slow_norm_kernel, (8192,), x, x, 4096, BLOCK_SIZE=4096, target=gpu)
    assert told.causes[0] == "float64"
    assert (told.findings[0].gain < 1.05) if not least else (told.findings[0].gain > least)


def test_a_table_from_numpy_makes_a_formula_float64():
    x = empty(128, 128)
    table = torch.from_numpy(np.linspace(0, 1, 128)).to("meta")
    assert table.dtype == torch.float64 and "np.linspace(0, 1, n)" in LESSON.flat

    def multiplies(weight):
        sizes = {"n_cols": 128, "BLOCK_SIZE": 128}
        return "mul.f64" in lower(weighted_kernel, x, weight, x, **sizes, target="sm_90").ptx

    assert multiplies(table) and not multiplies(table.float())


def test_two_documents_keep_two_multiprocessors_busy(lesson):
    lengths = torch.full((1025,), 2000)
    lengths[0], lengths[77], lengths[600] = 0, 500_000, 500_000
    begins = lengths.cumsum(0).to(torch.int32)
    args = (empty(int(begins[-1])), begins, empty(1024))
    told = diagnose(lesson.slow_documents_kernel, (1024,), *args, BLOCK_SIZE=1024, target="H200")
    assert told.causes[0] == "uneven programs" and "runs this loop 489 times" in str(told)
    assert -(-500_000 // 1024) == 489 and "take 489, on a multiprocessor each" in LESSON.flat


def test_a_product_of_blocks_is_bound_by_l2_and_no_rule_says_so(lesson):
    def told(side, **options):
        a, strips, number = empty(4096, 4096, dtype=torch.float16), 4096 // side, 1024 // side
        idx = torch.arange(number).repeat(strips).to(torch.int32) * 4
        args = (a, a, idx, empty(4096, 4096), 4096, 4096, number)
        return diagnose(
            lesson.blocks_kernel, (strips, strips), *args, BLOCK=side, **options, target="H200"
        )

    small, large = told(64), told(128, num_warps=8)
    assert small.causes == [] and small.work.longest[0] == "L2"
    assert small.work.us > 1.5 * large.work.us


def test_the_sanitizers_put_the_messages_in_that_the_lesson_speaks_of(lesson, monkeypatch):
    from tools.record import sanitized

    x, calls = empty(10_000), {}
    for mode in ("iisan", "consan", "fpsan", ""):
        monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", mode)
        calls[mode] = lower(sanitized.move_kernel, x, x, 100, 100, target="sm_90").llir
        if mode in ("consan", ""):
            early = lower(sanitized.early_kernel, x, x, BLOCK_SIZE=512, target="sm_90").llir
            assert ("has outstanding writes" in early) == (mode == "consan")
        if mode in ("fpsan", ""):
            added = lower(sanitized.sum_kernel, x, x, 4096, BLOCK_SIZE=128, target="sm_90").ptx
            assert ("add.f32" in added) == (mode == "")
    aligned = "must be 16-byte aligned"
    assert [aligned in calls[mode] for mode in calls] == [True, False, False, False]
    for words in ("missing fence_async_shared", "Barrier used before initialization", "Deadlock"):
        assert [words in calls[mode] for mode in calls] == [False, True, False, False]
    library = (Path(triton.__path__[0]) / "backends/nvidia/lib/gsan.ll").read_text()
    for words in ("Read after write", "Write after read", "Write after write"):
        assert f"{words} race detected" in library


def test_the_reports_of_the_sanitizers_are_what_the_lesson_reads_in_them():
    script = (ROOT / "tools" / "record" / "sanitized.py").read_text().splitlines()
    said = {
        "early, consan": "pending access. Pending access type: async_copy_global_to_shared",
        "shared, gsan": "Write after write race detected",
        "turned, iisan": "Tensor descriptor strides must be 16-byte aligned",
    }
    for name, words in said.items():
        first, *others = gpu_report(name).said.splitlines()
        line = re.match(r"sanitized.py:(\d+): .*block: .*thread: .*Assertion `", first)
        assert line and words in first
        assert script[int(line[1]) - 1].strip() in LESSON.text
        assert "device-side assert triggered" in gpu_report(name).ended
    assert len(others) == 24 and "… (104 more lines)" in others
    assert "block: [5,0,0]" in gpu_report("shared, gsan").said
    assert gpu_report("early").said == "right elements: 1 of 512"
    assert gpu_report("shared").said == gpu_report("turned").said == "no error"
    assert gpu_report("added").said == "the same bits: False"
    assert gpu_report("added, fpsan").said == "the same bits: True"


@triton.jit
def weighted_kernel(x_ptr, weight_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + tl.program_id(axis=0) * n_cols + cols)
    tl.store(out_ptr + cols, x * tl.load(weight_ptr + cols))


def functions(text):
    return {node.name: ast.dump(node) for node in ast.parse(text).body if hasattr(node, "args")}


def test_the_recorded_kernels_are_the_lessons():
    recorder = ROOT / "tools" / "record" / "kernel_metrics.py"
    recorded = functions(recorder.read_text())
    for name in ("columns_kernel", "tiles_kernel"):
        (text,) = [cell for cell in CODE if cell.startswith(f"@triton.jit\ndef {name}(")]
        assert functions(text)[name] == recorded[name]


def test_the_profile_says_what_the_lesson_says_of_it():
    profile = step_profile()
    assert profile.recorded
    first, mended = profile.steps["one_hot"], profile.steps["in place"]
    assert (round(first.us), round(mended.us)) == (1845, 1039)
    attention = first.at("forward", "attention")
    assert round(100 * attention.us / first.us) == 6
    assert round(mended.at("forward", "attention").us) == 102
    assert 0.4 < first.at("backward", "minus the targets").us / first.us < 0.5
    assert 1.0e9 < 4096 * 32_000 * 8 < 1.1e9


def test_the_metrics_say_what_the_lesson_says_of_them(lesson):
    metrics = kernel_metrics()
    slow, spills, mended = metrics.launches.values()
    busy = [metric for metric in METRICS if metric != TIME]
    memory, l2, multiprocessors, warps = busy
    assert round(slow[l2]) == 81 and slow[memory] < 10
    assert max(mended[each] for each in (memory, l2, multiprocessors)) < 66.5
    assert round(mended[l2]) == 66 and round(mended[warps]) == 12
    loaded, stored, *of_spills = SECTORS
    assert (slow[loaded], slow[stored]) == (2**24, 2**24)
    assert sum(spills[each] for each in of_spills) > spills[loaded] + spills[stored]
    us = list(metrics.us.values())
    assert round(us[1]) == 203 and 7 < us[0] / us[2] < 7.5
    assert f"{metrics.bytes / us[2] / 1e6:.1f}" == "2.6"
    spilled, tiles = [
        softmax(lesson.tiles_kernel, 32, BLOCK_COLS=32, **options).work
        for options in ({}, {"num_warps": 8})
    ]
    assert (round(tiles.us), round(us[2])) == (32, 51) and tiles.us / us[2] < EXPLAINED
    assert round(spilled.us) == 174 and spilled.us / us[1] > EXPLAINED
    assert sum(spills[each] for each in of_spills) == 18_776_064
    assert spilled.l1_sectors - tiles.l1_sectors == 18_776_064
    x = empty(1024, 16384)
    resources = lower(
        lesson.tiles_kernel, x, x, 1024, 16384, BLOCK_ROWS=1024, BLOCK_COLS=32, num_warps=8,
        target="sm_90",
    ).resources  # fmt: skip
    assert (resources.registers, resources.programs_per_sm) == (214, 1)


def test_the_reports_say_what_the_lesson_says_of_them():
    source = (ROOT / "tools/record/wrong.py").read_text().split("\n")
    assert source[43].strip() == "x = tl.load(x_ptr + offsets)"
    assert source[44].strip() == "tl.store(out_ptr + offsets, 2 * x)"
    checked = gpu_report("out of bounds, checked").said
    assert "read of size 4" in checked and "wrong.py:45" in checked
    assert "thread (104,0,0) in block (7,0,0)" in checked and 7 * 128 + 104 == 1000
    assert "ERROR SUMMARY: 24 errors" in checked and 8 * 128 - 1000 == 24
    assert "1000 right elements of 1000" in gpu_report("out of bounds").said
    printed = gpu_report("printed").said.split("\n")
    left = int(re.search(r"\((\d+) more lines\)", "\n".join(printed))[1])
    assert len(printed) - 1 + left == 64
    errors = gpu_report("illegal access").said.split("\n")
    assert [("illegal memory access" in line) for line in errors] == [True] * 3 + [False]
    assert "right elements: 1 of 128" in gpu_report("race").said
    raced = gpu_report("race, checked").said
    assert "Race reported" in raced and "right elements: 128 of 128" in raced
    assert "stopped" in gpu_report("hang").ended
    assert "1024 of 1024" in gpu_report("after the hang").said


def test_assertions_on_the_device_are_compiled_only_if_asked_for(lesson):
    x, index = empty(50, 20), empty(3, dtype=torch.int64)
    args = (x, index, empty(3, 20), 20)
    plain, debug = (
        lower(lesson.wrong_embed_kernel, *args, BLOCK_SIZE=32, target="sm_90", **options).ptx
        for options in ({}, {"debug": True})
    )
    assert "__assertfail" not in plain and "__assertfail" in debug
