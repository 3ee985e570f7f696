"""What the part "Tensor cores" says of speeds, precision and compiled kernels is so."""

import inspect
import re

import numpy as np
import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from course import cost, draw, lower, recorded
from course.benching.observed import observed
from course.gpus.limits import TARGETS
from course.gpus.measured import recorded_facts
from course.gpus.peaks import GPUS
from kernels import matmul as kernels_matmul
from kernels.matmul_settings import LARGE
from tests.support.lesson import Lesson, script_of

LESSON = Lesson("Tensor cores")
TEXT = LESSON.text
KERNELS = ("tile", "matmul", "edges", "described", "linear", "owner", "persistent")
TILE = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64}
N = 4096


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    """The lesson's kernels, by their names."""
    texts = LESSON.defining(*(f"{name}_kernel" for name in KERNELS))
    kernels = [text.split("\n\n\nowners = ")[0] for text in texts]
    return script_of(tmp_path_factory.mktemp("lesson"), LESSON.imports, *kernels)


def halves(*shape):
    return torch.empty(*shape, device="meta", dtype=torch.float16)


def described(n, *blocks):
    return [TensorDescriptor.from_tensor(halves(n, n), list(block)) for block in blocks]


def speed(series, n=N):
    return recorded("matmul").at(series, n).speed


def test_an_h200_does_206_operations_in_the_time_of_a_byte():
    h200 = GPUS["H200"]
    assert (h200.memory, round(h200.dot["fp16"])) == (4.8, 989)
    assert round(h200.dot["fp16"] / h200.memory) == 206
    assert h200.vector["fp32"] == pytest.approx(67, rel=0.01)
    assert h200.dot["fp16"] / h200.vector["fp32"] == pytest.approx(15, rel=0.03)


def test_the_l2_roof_of_64_x_64_tiles_is_what_the_second_version_reached():
    facts = recorded_facts()
    assert (f"{facts.l2_tb_s:.2f}", f"{facts.memory_tb_s:.2f}") == ("9.66", "4.25")
    assert "9.66 TB/s" in TEXT and "4.25 TB/s" in TEXT
    assert round(32 * facts.l2_tb_s) == 309 and "309 TFLOP/s" in TEXT
    assert round(32 * facts.memory_tb_s) == 136
    assert [round(speed(name)) for name in ("matmul_v1", "matmul_v2", "matmul_v3")] == [
        295, 313, 700,
    ]  # fmt: skip
    assert 32 * facts.l2_tb_s == pytest.approx(speed("matmul_v2"), rel=0.02)


def test_a_tile_asks_for_as_many_bytes_as_the_formula_says(lesson):
    small = halves(256, 256)
    for block, per_byte in ((32, 16), (64, 32), (128, 64)):
        tile = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": 32, "GROUP_M": 1}
        args = (small, small, small, 256, 256, 256)
        counted = cost(lesson.matmul_kernel, ((256 // block) ** 2,), *args, **tile, target="H200")
        assert 2 * 256**3 / counted.bytes_loaded == per_byte


def test_groups_descriptors_and_persistence_gain_what_the_text_says():
    gains = {
        (after, n): round(100 * (speed(after, n) / speed(before, n) - 1))
        for before, after in (
            ("matmul_v1", "matmul_v2"), ("matmul_v3", "matmul_v4"), ("matmul_v4", "matmul_v5"),
        )
        for n in (4096, 8192)
    }  # fmt: skip
    assert gains == {
        ("matmul_v2", 4096): 6,
        ("matmul_v2", 8192): 17,
        ("matmul_v4", 4096): 2,
        ("matmul_v4", 8192): 3,
        ("matmul_v5", 4096): 2,
        ("matmul_v5", 8192): 1,
    }
    assert f"{speed('matmul_v3', 8192) / speed('matmul_v2', 8192):.1f}" == "2.4"


def test_a_launch_takes_the_cpu_longer_than_the_gpu_takes_for_a_small_product():
    result = recorded("matmul")
    versions = [us for name, us in result.launch_us.items() if name != "torch"]
    assert min(versions) > 69 and max(versions) < 100
    assert round(result.launch_us["torch"]) == 22
    assert round(result.at("matmul", 1024).ms * 1000) == 10


def test_the_largest_version_makes_32_programs_at_1024():
    tiles = LARGE[2].tiles
    assert (tiles.block_m, tiles.block_n, tiles.block_k, tiles.num_stages) == (128, 256, 64, 4)
    assert tiles.count(halves(1024, 1024)) == 32
    assert tiles.count(halves(8192, 8192)) == 2048 == 15 * 132 + 68


def test_descriptors_take_a_fifth_fewer_registers_than_pointers_without_groups(lesson, tmp_path):
    big = halves(N, N)
    (text,) = LESSON.defining("edges_kernel")
    narrow = text.replace(".to(tl.int64)", "")  # as in the kernel with groups
    plain = lower(
        script_of(tmp_path, LESSON.imports, narrow).edges_kernel,
        big,
        big,
        big,
        N,
        N,
        N,
        **TILE,
        target="sm_90",
    )
    # it stores float16 here, as the kernel with groups does
    by_descriptor = lower(
        lesson.described_kernel, *described(N, (64, 64), (64, 128), (64, 128)), N, **TILE,
        target="sm_90",
    )  # fmt: skip
    registers = plain.resources.registers, by_descriptor.resources.registers
    assert registers == (113, 90)
    assert all(str(number) in TEXT for number in registers)


def test_each_iteration_under_way_takes_a_buffer_and_on_an_a100_one_fewer(lesson):
    big = halves(N, N)
    per_iteration = (64 * 64 + 64 * 128) * 2
    assert per_iteration == 24_576
    for target, buffers in (("sm_90", 4), ("sm_80", 3), ("sm_89", 3)):
        stages = lower(
            lesson.matmul_kernel, big, big, big, N, N, N, **TILE, GROUP_M=8, num_stages=4,
            target=target,
        )  # fmt: skip
        assert stages.resources.shared_bytes == buffers * per_iteration, target
    kib = [TARGETS[target].shared_bytes // 1024 for target in ("sm_90", "sm_80", "sm_89")]
    assert kib == [227, 163, 99]


def test_eight_rows_conflict_unless_their_pieces_are_exchanged(lesson):
    big, out = halves(16, 64), torch.empty(16, 16, device="meta")
    args = (big, halves(64, 16), out)
    stages = lower(lesson.tile_kernel, *args, M=16, N=16, K=64, num_warps=2, target="sm_80")
    operand = next(each for each in stages.layouts if each.kind == "dot_op" and "a" in each.names)
    plain = stages.replace(ttgir=stages.ttgir.replace("maxPhase = 8", "maxPhase = 1"))
    swizzled, rowwise = (
        draw.layout(each.layouts["#shared"], access=operand, rows=9).alt for each in (stages, plain)
    )
    assert "1 cycle (no bank conflict)" in swizzled
    assert "8 cycles (8-way bank conflict)" in rowwise


def test_one_thread_copies_a_tile_of_a_and_two_copy_one_of_b(lesson):
    stages = lower(
        lesson.described_kernel, *described(N, (64, 64), (64, 128), (64, 128)), N, **TILE,
        target="sm_90",
    )  # fmt: skip
    loads = re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared", stages.ptx)
    stores = re.findall(r"cp\.async\.bulk\.tensor\.2d\.global", stages.ptx)
    assert (len(loads), len(stores)) == (6, 1)
    # threads below 32 are one warp, and those below 64 two; one thread of each is elected
    assert {"32", "64"} <= set(re.findall(r"setp\.lt\.u32 \t%p\d+, %r\d+, (\d+);", stages.ptx))
    assert "elect.sync" in stages.ptx


def test_turning_a_tile_that_was_loaded_moves_nothing_on_hopper(lesson):
    descs = described(N, (64, 64), (128, 64), (64, 128))
    ttgir = lower(lesson.linear_kernel, *descs, N, **TILE, target="sm_90").ttgir
    assert "ttg.memdesc_trans" in ttgir and "ttng.warp_group_dot" in ttgir
    assert "ttg.convert_layout" not in ttgir and "ttg.local_load" not in ttgir


def test_a_whole_tile_of_c_leaves_no_room_for_four_stages():
    tile = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}
    options = {"A_TRANSPOSED": False, "B_TRANSPOSED": False, "INPUT_PRECISION": "tf32"}
    stages = lower(
        kernels_matmul.matmul_kernel_v5, *described(8192, (128, 64), (64, 256), (128, 128)),
        8192, 8192, 8192, **tile, **options, num_warps=8, num_stages=4, target="sm_90",
    )  # fmt: skip
    resources = stages.resources
    buffers = 4 * (128 * 64 + 64 * 256) * 2
    assert buffers == 196_608 and buffers + 128 * 256 * 2 > resources.most_shared_bytes == 232_448
    assert resources.shared_bytes == 229_408 < resources.most_shared_bytes
    assert resources.programs_per_sm == 1 and resources.spill_bytes == 0


def innermost_loop(ttgir):
    """The text of the last loop that begins in TTGIR, between its braces."""
    start = depth = 0
    for at in range(ttgir.rindex("scf.for"), len(ttgir)):
        if ttgir[at] == "{":
            start = start or at
            depth += 1
        elif ttgir[at] == "}":
            depth -= 1
            if start and not depth:
                return ttgir[start:at]
    raise AssertionError("a loop without an end")


@pytest.mark.parametrize("flatten", [False, True])
def test_a_flattened_loop_stores_a_tile_among_the_loads_of_the_next(lesson, tmp_path, flatten):
    (cell,) = LESSON.defining("persistent_kernel")
    old = "range(tl.program_id(axis=0), n_tiles, tl.num_programs(axis=0))"
    new = f"tl.{old[:-1]}, flatten=True)" if flatten else old
    assert cell.count(old) == 1
    imports = "import triton\nimport triton.language as tl"
    script = script_of(tmp_path, imports, cell.replace(old, new))
    descs = described(N, (64, 64), (64, 128), (64, 128))
    stages = lower(script.persistent_kernel, *descs, N, N, N, **TILE, target="sm_90")
    loop = innermost_loop(stages.ttgir)
    assert "async_tma_copy_global_to_local" in loop
    assert ("async_tma_copy_local_to_global" in loop) == flatten


def test_the_finished_kernel_is_quoted_word_for_word():
    (quoted,) = re.findall(r"```python\n(n_tiles.*?)```", TEXT, re.DOTALL)
    source = inspect.getsource(inspect.getmodule(kernels_matmul))
    body = [line.strip() for line in source.split("def matmul_kernel_v5(")[1].split("\n")]
    lines = [line.strip() for line in quoted.strip().split("\n")]
    start = body.index(lines[0])
    assert body[start : start + len(lines)] == lines


def test_a_sum_in_float16_makes_four_times_the_error_of_float16_operands():
    errors = observed().dot_errors
    assert errors["float16, added up in float16"] / errors["float16"] == pytest.approx(4, abs=0.5)
    assert errors["float32, by default (TF32)"] / errors["float32, input_precision='ieee'"] > 1000
    assert errors["float32, input_precision='tf32x3'"] < errors["float32, input_precision='ieee'"]


def test_rounding_after_each_of_1024_additions_gives_the_error_of_ieee():
    random = np.random.default_rng(0)
    a = random.standard_normal((64, 1024)).astype(np.float32)
    b = random.standard_normal((1024, 64)).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    total = np.zeros((64, 64), np.float32)
    for k in range(1024):
        product = np.multiply.outer(a[:, k].astype(np.float64), b[k].astype(np.float64))
        total = (total + product).astype(np.float32)
    error = np.linalg.norm(total - exact) / np.linalg.norm(exact)
    assert error == pytest.approx(observed().dot_errors["float32, input_precision='ieee'"], rel=0.1)


def test_a_product_of_float16_is_exact_in_float32():
    numbers = torch.randn(10_000, generator=torch.Generator().manual_seed(0)).half()
    others = numbers.flip(0)
    assert torch.equal((numbers.float() * others.float()).double(), numbers.double() * others)


@pytest.mark.parametrize("target", [name for name in TARGETS if name.startswith("sm_1")])
def test_newer_gpus_take_the_instruction_that_the_table_gives_them(lesson, target):
    big = halves(N, N)
    out = torch.empty(N, N, device="meta")
    counts = lower(lesson.tile_kernel, big, big, out, M=64, N=64, K=64, target=target).counts["ptx"]
    row = next(line for line in TEXT.split("\n") if line.startswith("|") and target in line)
    assert ("tcgen05" in row, "mma` 16 x 8" in row) == (counts["tcgen05"] > 0, counts["mma"] > 0)
