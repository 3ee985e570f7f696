"""What "Flash attention" says of finished kernels, compiled code and recorded speeds is so."""

import ast
import inspect
import re
from pathlib import Path
from statistics import mean

import pytest
import torch

from course import cost, diagnose, lower
from course.benching.result import recorded
from course.errors import CourseError
from course.gpus.measured import recorded_facts
from kernels import attention
from kernels.attention import export, settings, tl, tl_hopper
from tests.support.lesson import Lesson, lines_of, notebook_of, script_of, stands_in

LESSON = Lesson("Flash attention")
TEXT, FLAT = LESSON.text, LESSON.flat
OUTPUTS = notebook_of("heads-and-tiles").read_text(encoding="utf-8")
LENGTHS = (1024, 2048, 4096, 8192, 16_384)
FILES = [Path(module.__file__) for module in (tl, tl_hopper, export)]


def test_the_buffers_of_both_loops_take_the_same_place():
    assert "Their buffers take the same place, one loop after the other" in FLAT
    map_of_a_tile = OUTPUTS.split("In shared memory: ")[1]
    assert map_of_a_tile.startswith("k 3 times 32 KiB from byte 0, k 3 times 32 KiB from byte 0")


def quoted():
    """The pieces of Python that the section on the finished kernels quotes."""
    section = TEXT.split("## Read the finished kernel")[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def test_what_the_lesson_quotes_stands_in_the_kernels():
    assert len(quoted()) > 15
    assert [piece for piece in quoted() if not stands_in(piece, FILES)] == []


@pytest.mark.parametrize(
    "function", ["flash_attention_kernel", "attend_specialized", "flash_attention_kernel_v5"]
)
def test_every_statement_of_a_finished_kernel_is_quoted(function):
    module = tl_hopper if hasattr(tl_hopper, function) else tl
    tree = ast.parse(Path(module.__file__).read_text())
    (definition,) = [node for node in tree.body if getattr(node, "name", "") == function]
    text = Path(module.__file__).read_text().splitlines()
    first, *_ = [node for node in definition.body if not isinstance(node, ast.Expr)]
    body = lines_of("\n".join(text[first.lineno - 1 : definition.end_lineno]))
    known = {line for piece in quoted() for line in lines_of(piece)}
    unread = [line for line in body if line not in known and not line.startswith("#")]
    assert unread == []


def test_the_questions_are_counted_and_have_folded_answers():
    section = TEXT.split("## Read the finished kernel")[1].split("\n## ")[0]
    questions = re.findall(r"^\*\*(\d+)\.\*\* ", section, re.MULTILINE)
    assert questions == [str(number) for number in range(1, len(questions) + 1)]
    folds = section.count("<summary>Answer</summary>")
    assert folds == len(questions) + section.count("**Predict:**")
    numbers = re.findall(r"as question (\d+) asks", section)
    assert all("range" in section.split(f"**{number}.** ")[1][:80] for number in numbers)


def test_the_producer_gives_the_registers_back_that_the_consumers_take():
    v5 = settings.SPECIALIZED_SETTINGS[128]
    tuples = [("i32:16",) * count for count in (3, 3, 3, 3, 4, 2)]
    lowered = lower(
        tl_hopper.flash_attention_kernel_v5,
        *["*fp16:16"] * 4, "*fp32:16", "fp32", *["i32:16"] * 3, *tuples,
        IS_CAUSAL=False, HEADDIM=128, BLOCK_M=v5.block_m, BLOCK_N=v5.block_n,
        HEADS_PER_KEY_HEAD=1, PERSISTENT=True,
        num_warps=v5.num_warps, num_stages=v5.num_stages, target="sm_90",
    )  # fmt: skip
    parts = lowered.ptx.split("setmaxnreg.")[1:]
    asked = [(part.split(".")[0], int(part.split(";")[0].split()[-1])) for part in parts]
    assert asked[1:2] + asked[4:6] == [("dec", 40), ("inc", 232), ("inc", 232)]
    assert [number for _, number in asked] == [256, 40, 120, 120, 232, 232, 256]
    copies = [part.count("cp.async.bulk.tensor") for part in parts]
    dots = [part.count("wgmma.mma_async") > 0 for part in parts]
    assert copies == [0, 4, 0, 0, 1, 1, 0]
    assert dots == [False, False, False, False, True, True, False]
    assert ".reqntid 384" in lowered.ptx and lowered.resources.registers == 168
    assert 3 * 168 == 40 + 2 * 232 and 128 * 3 * 168 == 64_512 < 65_536


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    """The lesson's kernels, by their names."""
    kernels = [text for text in LESSON.code if text.startswith(("@triton.jit", "# exercise"))]
    imports = "import torch\nimport triton\nimport triton.language as tl"
    return script_of(tmp_path_factory.mktemp("lesson"), imports, *kernels)


def test_a_loop_whose_queries_come_by_pointers_is_not_specialized_on_an_h200(lesson):
    args, tile = ["*fp16:16"] * 4 + [4096, 0.18], {"D": 64, "BLOCK_M": 128, "BLOCK_N": 64}
    lower(lesson.specialized_kernel, *args, **tile, num_warps=4, target="sm_100")
    with pytest.raises(CourseError, match="does not compile"):
        lower(lesson.specialized_kernel, *args, **tile, num_warps=4, target="sm_90")


@pytest.mark.parametrize(("in_twos", "instructions"), [(False, 48), (True, 16)])
def test_eight_scores_take_six_or_two_instructions_each(lesson, in_twos, instructions):
    line = "power = tl.exp2(" if in_twos else "power = tl.exp("
    lowered = lower(
        lesson.powers_kernel, "*fp32:16", "*fp32:16", 0.125, IN_TWOS=in_twos, target="sm_90"
    )
    assert len(lowered.follow(line, "sass").stages["sass"]) == instructions


def test_a_stride_of_one_has_no_method_to(tmp_path):
    script = script_of(tmp_path, WIDENED)
    lower(script.cast_kernel, "*fp32:16", 1, target="sm_90")
    with pytest.raises(CourseError, match="no attribute 'to'"):
        lower(script.method_kernel, "*fp32:16", 1, target="sm_90")


WIDENED = """\
import triton
import triton.language as tl


@triton.jit
def cast_kernel(x_ptr, stride):
    offsets = tl.arange(0, 16) * tl.cast(stride, tl.int64)
    tl.store(x_ptr + offsets, 0.0)


@triton.jit
def method_kernel(x_ptr, stride):
    offsets = tl.arange(0, 16) * stride.to(tl.int64)
    tl.store(x_ptr + offsets, 0.0)
"""


def ratios(series, peer, suffix="", head_dim=128, lengths=(512, *LENGTHS)):
    run = recorded(f"flash_attention_{head_dim}{suffix}")
    return [run.at(peer, n).ms / run.at(series, n).ms for n in lengths]


def between(least, most, numbers):
    return (round(min(numbers), len(least) - 2), round(max(numbers), len(most) - 2)) == (
        float(least), float(most),
    )  # fmt: skip


def test_the_speeds_of_v5_beside_its_peers_are_the_recorded_ones():
    assert "more than twenty times slower than v5" in FLAT
    assert min(ratios("flash_attention", "torch, math")) > 20
    assert "v5 is 1.5 to 1.6 times as fast as `flash`" in FLAT
    assert between("1.5", "1.6", ratios("flash_attention", "torch, flash"))
    assert "reaches 0.87 to 0.92 of cuDNN's speed" in FLAT
    assert between("0.87", "0.92", ratios("flash_attention", "torch, cuDNN"))


def test_the_speeds_of_the_versions_are_the_recorded_ones():
    full, causal = recorded("flash_attention_128"), recorded("flash_attention_128_causal")
    assert "It makes 310 TFLOP/s without a mask at 16,384" in FLAT
    assert round(full.at("flash_attention_v1", 16_384).speed) == 310
    assert "It was recorded at 150" in FLAT
    assert round(causal.at("flash_attention_v1", 16_384).speed) == 150
    assert "1.9 to 2.7 times as fast as v1" in FLAT
    gained = ratios("flash_attention_v2", "flash_attention_v1", "_causal")
    assert between("1.9", "2.7", gained)
    assert "at 512 and 1,024 keys its tiles waste more" in FLAT
    lost = ratios("flash_attention_v3", "flash_attention_v2", "_causal")
    assert [ratio < 1 for ratio in lost] == [True, True, False, False, False, False]
    assert "a third over v4 at 1,024, four percent at 16,384" in FLAT
    last = ratios("flash_attention", "flash_attention_v4", "_causal")
    assert (round(last[1], 1), round(last[-1], 2)) == (1.3, 1.04)


def test_what_the_lesson_says_of_the_l2_cache_follows_from_what_was_measured():
    l2 = recorded_facts().l2_tb_s
    assert "gives about 9.7 TB/s" in FLAT and round(l2, 1) == 9.7
    assert "989 / 9.7 is about 102" in FLAT and round(989 / 9.7) == 102
    assert "v2 is at seven tenths of it" in FLAT
    v2 = recorded("flash_attention_128").at("flash_attention_v2", 16_384).speed
    assert 0.69 < v2 / (64 * l2) < 0.72


def test_the_smallest_tile_asks_six_times_the_tensor_cores_time_of_the_l2_cache(lesson):
    q = torch.empty(4, 512, 64, dtype=torch.float16, device="meta")
    args, tile = (q, q, q, q, 512, 512, 0.125), {"D": 64, "BLOCK_N": 64, "CAUSAL": False}
    least = {
        m: cost(
            lesson.split_kernel, (512 // m, 4), *args, **tile, BLOCK_M=m, target="H200"
        ).least_us
        for m in (16, 128)
    }
    assert "more than six times as long as the tensor cores need" in FLAT
    operations = 4 * 4 * 512 * 512 * 64
    assert least[16] > 6 * operations / 989.4e6
    assert least[128] == pytest.approx(operations / 989.4e6, rel=0.01)  # where both roofs meet


def test_what_a_launch_takes_the_cpu_is_what_was_recorded():
    full, causal = recorded("flash_attention_128"), recorded("flash_attention_128_causal")
    assert "0.12 to 0.16 ms, and cuDNN's call 0.04 to 0.06" in FLAT
    v5 = [run.launch_us["flash_attention"] / 1000 for run in (full, causal)]
    cudnn = [run.launch_us["torch, cuDNN"] / 1000 for run in (full, causal)]
    assert between("0.12", "0.16", v5) and between("0.04", "0.06", cudnn)
    assert "In the causal run at 512 keys v5's launch takes longer" in FLAT
    assert v5[1] > causal.at("flash_attention", 512).ms


def test_v5_is_what_was_recorded_as_flash_attention_at_128_dimensions():
    body = inspect.getsource(attention.flash_attention_tl)
    assert body.index("launch_specialized") < body.index("launch_described")
    assert set(settings.SPECIALIZED_SETTINGS) == {128, 256}


def test_no_other_dimension_is_nearer_to_cudnn_than_64():
    averages = {
        head_dim: mean(
            ratio
            for suffix in ("", "_causal")
            for ratio in ratios("flash_attention", "torch, cuDNN", suffix, head_dim, LENGTHS)
        )
        for head_dim in (64, 128, 256)
    }
    assert max(averages, key=averages.get) == 64


def test_the_borders_in_the_answer_are_what_the_kernel_computes():
    def borders(first_row, queries, keys, block_m=64, block_n=64):
        sees = first_row + keys - queries + 1
        masked = max(min(sees, keys), 0) // block_n * block_n
        return masked, max(min(sees + block_m - 1, keys), 0)

    assert borders(128, 256, 256) == (128, 192) and borders(128, 256, 100) == (0, 36)
    assert "`masked` is 128, and `end` is min(129 + 63, 256) = 192" in FLAT
    assert "`masked` is 0, and `end` is max(min(-27 + 63, 100), 0) = 36" in FLAT


def test_the_packed_launch_is_diagnosed_as_too_few_programs_and_told_to_split_its_loop():
    (cell,) = LESSON.defining("ask")
    names = {"torch": torch, "flash_attention_kernel_v1": tl.flash_attention_kernel_v1}
    exec(cell, names)
    q = torch.empty(1, 8, 4, 64, dtype=torch.float16, device="meta")
    k = torch.empty(1, 8, 1024, 64, dtype=torch.float16, device="meta")
    first, *_ = names["ask"](diagnose, q, k).findings
    assert first.cause == "few programs"
    assert first.what.startswith("8 programs for 132 multiprocessors")
    assert "split the loop" in first.change


def test_a_question_that_the_lesson_names_by_its_number_is_that_one():
    number = re.search(r"`128 if HEADDIM == 256` is the subject of question (\d+)", FLAT)[1]
    assert "the branch for 256 do" in FLAT.split(f"**{number}.** ")[1][:150]


def test_only_the_settings_for_227_kb_are_said_to_have_won():
    assert "Those for 227 KB won on an H200, with Triton 3.7.1." in FLAT
    assert "Those for smaller GPUs fit and spill nothing" in FLAT
    written = Path(settings.__file__).read_text()
    assert written.count("Measured on an H200 with Triton 3.7.1") == 3
    assert "Those of 64 and 99 KiB fit and spill nothing; their speed was not measured." in written
