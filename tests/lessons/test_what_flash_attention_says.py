"""What "Flash attention" says of finished kernels, compiled code and recorded speeds is so."""

import inspect
import re
from pathlib import Path
from statistics import mean

import pytest
import torch

from course import cost, diagnose, draw, lower
from course.benching.attention_timeline import attention_timeline
from course.benching.result import recorded
from course.errors import CourseError
from course.exercises.answers import changed
from course.gpus.measured import recorded_facts
from kernels import attention
from kernels.attention import export, settings, tl, tl_hopper
from tests.support.lesson import Lesson, notebook_of, script_of, stands_in

LESSON = Lesson("Flash attention")
TEXT, FLAT = LESSON.text, LESSON.flat
OUTPUTS = notebook_of("heads-and-tiles").read_text(encoding="utf-8")
LENGTHS = (1024, 2048, 4096, 8192, 16_384)
FILES = [Path(module.__file__) for module in (tl, tl_hopper, export)]


def test_the_buffers_of_both_loops_take_the_same_place():
    assert "Their buffers take the same place, one loop after the other" in FLAT
    map_of_a_tile = OUTPUTS.split("In shared memory: ")[-1]
    assert map_of_a_tile.startswith("k 3 times 32 KiB from byte 0, k 3 times 32 KiB from byte 0")


def quoted():
    """The pieces of Python that the text on the finished kernels quotes."""
    sections = TEXT.split("# 25 · The finished kernel")[1]
    return re.findall(r"^```python\n(.*?)^```", sections, re.MULTILINE | re.DOTALL)


def test_what_the_lesson_quotes_stands_in_the_kernels():
    assert len(quoted()) > 3
    assert [piece for piece in quoted() if not stands_in(piece, FILES)] == []


def test_what_readers_write_is_nearly_all_of_the_finished_kernels(lesson):
    own = [lesson.even_kernel, lesson.borders, lesson.attend_keys, lesson.finish]
    plain = draw.reading(tl.flash_attention_kernel, *own)
    own = [lesson.attend_tile, lesson.matrices, lesson.turned, lesson.persistent_kernel]
    tile, whole = (
        draw.reading(kernel, *own)
        for kernel in (tl_hopper.attend_specialized, tl_hopper.flash_attention_kernel_v5)
    )
    assert (plain.known, plain.statements) == (64, 65)  # all but scale_log2's own line
    assert (tile.known, tile.statements) == (37, 41)  # all but the branch for 256 dimensions
    left = [line.strip() for line, known in whole.lines if not known]
    assert "if PERSISTENT:" in left and "rounds = nth // n_programs" not in left


def test_what_the_division_among_warps_buys_is_what_the_compiler_says(lesson):
    together, divided = (
        v5_lowered_own(kernel).resources
        for kernel in (lesson.tile_kernel, lesson.persistent_kernel)
    )
    assert "4 warps takes 255 registers per thread and spills" in FLAT
    assert together.registers == 255 and together.spill_bytes > 0
    assert "12 warps of 168 registers each" in FLAT
    assert divided.registers == 168 and divided.spill_bytes == 0


def v5_lowered_own(kernel):
    tuples = [("i32:16",) * count for count in (3, 3, 3, 3, 4, 2)]
    return lower(
        kernel, *["*fp16:16"] * 4, "*fp32:16", "fp32", *["i32:16"] * 3, *tuples,
        IS_CAUSAL=False, HEADDIM=128, BLOCK_M=128, BLOCK_N=128, HEADS_PER_KEY_HEAD=1,
        num_warps=4, num_stages=2, target="sm_90",
    )  # fmt: skip


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


def v5_lowered(kernel, causal=False, descriptors=("*fp16:16",) * 4):
    tuples = [("i32:16",) * count for count in (3, 3, 3, 3, 4, 2)]
    return lower(
        kernel, *descriptors, "*fp32:16", "fp32", *["i32:16"] * 3, *tuples,
        IS_CAUSAL=causal, HEADDIM=128, BLOCK_M=128, BLOCK_N=128, HEADS_PER_KEY_HEAD=1,
        PERSISTENT=True, num_warps=4, num_stages=2, target="sm_90",
    )  # fmt: skip


def test_barriers_say_full_to_consumers_and_empty_to_the_producer():
    parts = v5_lowered(tl_hopper.flash_attention_kernel_v5).ptx.split("setmaxnreg.")[1:]
    counts = re.findall(r"mbarrier\.init\S* \[[^]]*\], (\d+)", parts[0])
    assert (len(counts), counts.count("128"), counts.count("1")) == (32, 12, 20)
    waits = [part.count("mbarrier.try_wait") for part in parts]
    assert "It waits six times" in FLAT and waits == [0, 6, 0, 0, 3, 3, 0]
    assert "Each waits for q, k and v, and says `empty` for each" in FLAT
    assert [part.count("mbarrier.arrive.shared") for part in parts] == [0, 0, 0, 0, 3, 3, 0]
    assert parts[1].count("mbarrier.arrive.expect_tx") == 4


OTHER_FORMS = {
    "four axes for q": {
        "q_ptr, [q_rows, stride_qm], [stride_qm, 1], [BLOCK_M, HEADDIM]":
        "q_ptr, [8, nheads, lengths[0], HEADDIM], "
        "[stride_q[0], stride_q[1], stride_q[2], 1], [1, 1, BLOCK_M, HEADDIM]",
        "q_tiles.load([q_row + first_row, q_col])":
        "q_tiles.load([batch, head, first_row, 0]).reshape([BLOCK_M, HEADDIM])",
    },
    "q by a descriptor from the launcher": {
        "tl.make_tensor_descriptor(\n"
        "        q_ptr, [q_rows, stride_qm], [stride_qm, 1], [BLOCK_M, HEADDIM]\n    )": "q_ptr",
    },
    "two loops over keys": {
        "for start in tl.range(0, end, BLOCK_N, warp_specialize=SPECIALIZE):":
        "for start in tl.range(0, end, BLOCK_N, warp_specialize=SPECIALIZE):\n"
        "        O += tl.dot(q, k_tiles.load([k_row + start, k_col]).T)\n"
        "    for start in tl.range(0, end, BLOCK_N, warp_specialize=SPECIALIZE):",
    },
}  # fmt: skip


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_v5_compiles_in_no_other_form(form, tmp_path):
    assert "With four axes for q, or with a descriptor from the launcher, v5 does not" in FLAT
    assert "With two loops over keys it does not compile" in FLAT
    text = changed(Path(tl_hopper.__file__).read_text(), OTHER_FORMS[form])
    first = "tensordesc<fp16[128, 128]>" if "launcher" in form else "*fp16:16"
    kernel = script_of(tmp_path, text).flash_attention_kernel_v5
    loops = "two loops" in form
    with pytest.raises(CourseError, match="pass pipeline" if loops else "same number of elements"):
        v5_lowered(kernel, causal=loops, descriptors=(first, *["*fp16:16"] * 3))


@pytest.mark.parametrize(("queries", "keys", "rows"), [(32, 16, 16), (64, 32, 0)])
def test_rows_that_see_no_key_are_nan_where_block_m_does_not_divide_the_lengths(
    queries, keys, rows
):
    assert "with tiles of 32 x 16, 32 queries and 16 keys, 16 rows see no key" in FLAT
    q, k = torch.randn(queries, 32).half(), torch.randn(keys, 32).half()
    out, lse = torch.zeros_like(q), torch.zeros(queries)
    strides = [(len(x) * 32, len(x) * 32, 32) for x in (q, k, k, q)]
    tl_hopper.flash_attention_kernel_v5[(queries // 32,)](
        q, k, k, out, lse, 0.1, 1, queries // 32, queries // 32, *strides,
        (queries, keys, keys, queries), (queries, keys), IS_CAUSAL=True, HEADDIM=32, BLOCK_M=32,
        BLOCK_N=16, HEADS_PER_KEY_HEAD=1, PERSISTENT=False,
    )  # fmt: skip
    assert int(out.isnan().any(dim=1).sum()) == rows


LOOP = """\
import triton
import triton.language as tl


@triton.jit
def loop_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    rows, dims = tl.program_id(axis=0) * M + tl.arange(0, M), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :])
    m = tl.full([M], -float("inf"), tl.float32)
    l = tl.zeros([M], tl.float32)
    O = tl.zeros([M, D], tl.float32)
    for start in range(0, n, N):
        cols = start + tl.arange(0, N)
        k = tl.trans(tl.load(k_ptr + cols[:, None] * D + dims[None, :]))
        S = tl.dot(q, k)
        m_new = tl.maximum(m, tl.max(S, axis=1) * scale)
        P = tl.exp2(S * scale - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        l = l * alpha + tl.sum(P, axis=1)
        v = tl.load(v_ptr + cols[:, None] * D + dims[None, :])
        O = tl.dot(P.to(v.dtype), v, O * alpha[:, None])
        m = m_new
    tl.store(out_ptr + rows[:, None] * D + dims[None, :], O / l[:, None])
"""
V_LINE = "        v = tl.load(v_ptr + cols[:, None] * D + dims[None, :])\n"
TRANSPOSED = {
    "tl.trans(tl.load(k_ptr + cols[:, None] * D + dims[None, :]))":
    "tl.load(k_ptr + cols[None, :] * D + dims[:, None])",
}  # fmt: skip
RESCALED = {
    V_LINE: "        O = O * alpha[:, None]\n" + V_LINE, "v, O * alpha[:, None])": "v, O)",
}  # fmt: skip
V_BESIDE_K = {V_LINE: "", "        S = tl.dot(q, k)\n": V_LINE + "        S = tl.dot(q, k)\n"}


def loop_lowered(folder, replaced, num_stages):
    """How many registers, bytes of shared memory and machine instructions the loop takes, and its
    TTGIR."""
    folder.mkdir()
    kernel = script_of(folder, changed(LOOP, replaced)).loop_kernel
    args, tile = ["*fp16:16"] * 4 + ["i32:16", "fp32"], {"D": 128, "M": 128, "N": 64}
    s = lower(kernel, *args, **tile, num_warps=8, num_stages=num_stages, target="sm_90")
    instructions = len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/", s.sass, re.MULTILINE))
    return (s.resources.registers, s.resources.shared_bytes, instructions), s.ttgir


def test_forms_of_one_loop_that_the_lesson_calls_the_same_compile_to_the_same(tmp_path):
    forms = {"": {}, "transposed": TRANSPOSED, "rescaled": RESCALED, "v beside k": V_BESIDE_K}
    each = {name: loop_lowered(tmp_path / f"2{name}", text, 2) for name, text in forms.items()}
    assert len({taken for taken, _ in each.values()}) == 1
    dots = re.findall(r"%(S|O)\w* = ttng\.warp_group_dot .*?\} : (\S+?)<", each[""][1])
    # P stays in registers, q lies in shared memory.
    assert sorted(set(dots)) == [("O", "tensor"), ("S", "!ttg.memdesc")]
    shared = [
        loop_lowered(tmp_path / f"1{name}", forms[name], 1)[0][1] for name in ("", "v beside k")
    ]
    assert "needs 48 KB and not 64" in FLAT and [each // 1024 for each in shared] == [48, 64]


def test_the_finished_kernel_without_its_masked_loop_takes_203_registers():
    assert "takes 203 registers" in FLAT
    of_v3 = settings.SETTINGS[227][128]
    lowered = lower(
        tl.flash_attention_kernel, *["*fp16:16"] * 4, "*fp32:16", "fp32", "i32",
        *[("i32:16",) * 3] * 4, ("i32", "i32"), "i32", "i32:16",
        EVEN_M=True, EVEN_N=True, EVEN_HEADDIM=True, IS_CAUSAL=False, BLOCK_HEADDIM=128,
        BLOCK_M=of_v3.block_m, BLOCK_N=of_v3.block_n, HEADS_PER_KEY_HEAD=1,
        num_warps=of_v3.num_warps, num_stages=of_v3.num_stages, target="sm_90",
    )  # fmt: skip
    assert lowered.resources.registers == 203


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    """The lesson's kernels, by their names."""
    kernels = [text for text in LESSON.code if text.startswith(("@triton.jit", "# exercise"))]
    imports = (
        "import torch\nimport triton\nimport triton.language as tl\n"
        "from kernels.attention.tl_hopper import attend_specialized, first_element\n"
        "from kernels.device import LN2, LOG2E, finite"
    )
    return script_of(tmp_path_factory.mktemp("lesson"), imports, *kernels)


SPECIALIZED = """\
import triton
import triton.language as tl


@triton.jit
def specialized_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, n_keys, scale2,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    q_offsets = rows[:, None] * D + tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + q_offsets)
    keys = tl.make_tensor_descriptor(k_ptr, [n_keys, D], [D, 1], [BLOCK_N, D])
    values = tl.make_tensor_descriptor(v_ptr, [n_keys, D], [D, 1], [BLOCK_N, D])
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in tl.range(0, n_keys, BLOCK_N, warp_specialize=True):
        scores = tl.dot(q, keys.load([start, 0]).T)
        new_m = tl.maximum(m, tl.max(scores, axis=1) * scale2)
        power = tl.exp2(scores * scale2 - new_m[:, None])
        rescale = tl.exp2(m - new_m)
        total = total * rescale + tl.sum(power, axis=1)
        acc = tl.dot(power.to(tl.float16), values.load([start, 0]), acc * rescale[:, None])
        m = new_m
    tl.store(out_ptr + q_offsets, acc / total[:, None])
"""


def test_a_loop_whose_queries_come_by_pointers_is_not_specialized_on_an_h200(tmp_path):
    args, tile = ["*fp16:16"] * 4 + [4096, 0.18], {"D": 64, "BLOCK_M": 128, "BLOCK_N": 64}
    kernel = script_of(tmp_path, SPECIALIZED).specialized_kernel
    lower(kernel, *args, **tile, num_warps=4, target="sm_100")
    with pytest.raises(CourseError, match="does not compile"):
        lower(kernel, *args, **tile, num_warps=4, target="sm_90")


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


def test_what_v5_leaves_of_the_tensor_cores_is_what_was_recorded():
    best = max(recorded("flash_attention_128").at("flash_attention", n).speed for n in LENGTHS)
    assert "578 of the tensor cores' 989 TFLOP/s, 58 percent" in FLAT
    assert (round(best), round(best / 989, 2)) == (578, 0.58)
    watched = attention_timeline().of("two consumers")
    assert "for 46 percent of the time it had no product" in FLAT
    assert round(watched.without_product, 2) == 0.46
    assert "four fifths of the softmax ran while nobody multiplied" in FLAT
    assert round(watched.softmax_under_products, 1) == 0.2


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

    assert "`masked` would be -128" in FLAT  # as in Triton, whose division rounds towards zero
    assert int((0 + 100 - 256 + 1) / 64) * 64 == -128
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


def test_only_the_settings_for_227_kb_are_said_to_have_won():
    assert "Those for 227 KB won on an H200, with Triton 3.7.1." in FLAT
    assert "Those for smaller GPUs fit and spill nothing" in FLAT
    written = Path(settings.__file__).read_text()
    assert written.count("Measured on an H200 with Triton 3.7.1") == 3
    assert "Those of 64 and 99 KiB fit and spill nothing; their speed was not measured." in written
