"""cost: bytes, sectors and operations against counts by hand; GPUs and roofs; refusals."""

import math
import re

import numpy as np
import pytest
import torch
import triton
from triton.experimental import gluon
from triton.tools.tensor_descriptor import TensorDescriptor

import course
from course import CourseError, draw, lower, replay
from course.benching.result import recorded
from course.gpus.measured import recorded_facts
from course.gpus.peaks import GPUS, gpu_of
from course.tracing.sample import MOST_SAMPLED, Plan
from kernels.attention.tl import flash_attention_kernel_v1
from kernels.transpose import transpose_kernel, transpose_kernel_v1
from tests.support import trace_kernels as kernels
from tools.counted_kernels import add_row_kernel


def cost(*args, target="H200", **options):
    """course.cost for one GPU, whichever this machine has: what is counted depends on it."""
    return course.cost(*args, target=target, **options)


def floats(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def add(n, programs, **options):
    args = floats(n), floats(n), floats(n), n
    return cost(kernels.add_kernel, (programs,), *args, **options)


def sectors(counted):
    return {
        (access.kind, access.tensor): (access.sectors, access.least) for access in counted.accesses
    }


def test_a_vector_add_by_hand():
    n = 1008
    counted = add(n, 4, BLOCK_SIZE=256)
    assert (counted.bytes_loaded, counted.bytes_stored) == (2 * 4 * n, 4 * n)
    assert (counted.distinct_loaded, counted.distinct_stored) == (2 * 4 * n, 4 * n)
    accesses = ("load", "x_ptr"), ("load", "y_ptr"), ("store", "out_ptr")
    assert sectors(counted) == dict.fromkeys(accesses, (126, 126))
    assert counted.simple == {"fp32": 4 * 256}  # the masked lanes compute too
    assert [access.masked for access in counted.accesses] == [16, 16, 16]
    assert counted.exact and counted.programs == 4
    assert counted.bound == "memory"
    assert counted.least_us == pytest.approx(3 * 4 * n / 4.8e12 * 1e6)


def test_a_length_that_16_does_not_divide_costs_sectors_and_no_bytes():
    n = 1000
    counted = add(n, 4, BLOCK_SIZE=256)
    assert (counted.bytes_loaded, counted.distinct_sectors) == (2 * 4 * n, 3 * n // 8)
    # The compiler cannot tell that the mask is the same for neighbors: it loads element by
    # element, each lane its two neighbors in turn, so that every sector is asked for twice.
    assert all(1.9 < access.times <= 2 for access in counted.accesses)


def test_row_sums_by_hand():
    counted = cost(kernels.row_sum_kernel, (3,), floats(3, 100), floats(3), 100, BLOCK_SIZE=64)
    assert (counted.bytes_loaded, counted.bytes_stored) == (3 * 400, 3 * 4)
    # Two blocks a row: 63 additions in each, one to the total.
    assert counted.simple == {"fp32": 3 * 2 * (63 + 1)}


def test_a_load_all_of_whose_lanes_are_masked_far_from_memory_has_no_row():
    counted = cost(kernels.far_mask_kernel, (1,), floats(64), floats(64), 64, BLOCK_SIZE=64)
    rows = [(access.kind, access.tensor, access.bytes) for access in counted.accesses]
    assert rows == [("load", "x_ptr", 256), ("store", "out_ptr", 256)]


def test_what_a_program_does_with_all_lanes_masked_counts_to_where_others_go():
    rows = [
        (each.tensor, each.bytes, each.masked) for each in add(1024, 2, BLOCK_SIZE=1024).accesses
    ]
    assert rows == [(name, 4096, 1024) for name in ("x_ptr", "y_ptr", "out_ptr")]


def test_a_load_in_the_layout_of_a_slice_is_found_in_the_compiled_kernel():
    counted = cost(kernels.outer_sum_kernel, (1,), floats(64), floats(64, 64), BLOCK_SIZE=64)
    load = counted.accesses[0]
    # 8 instructions in each of 4 warps, whose lanes ask for one or two elements: see its PTX.
    assert (load.requests, load.sectors, load.times) == (32, 32, 4)
    assert not any("no compiled access" in note for note in counted.notes)


def test_a_matmul_by_hand():
    n, block = 64, 32
    tensors = floats(n, n), floats(n, n), floats(n, n)
    counted = cost(kernels.matmul_kernel, (2, 2), *tensors, n, BLOCK=block)
    # Each matrix once for every column of tiles of the other.
    assert counted.bytes_loaded == 2 * 4 * n * n * (n // block)
    assert (counted.distinct_loaded, counted.distinct_stored) == (2 * 4 * n * n, 4 * n * n)
    assert counted.dot == {"tf32": 2 * n**3}
    assert [roof.name for roof in counted.roofs] == ["memory", "L2 cache", "tensor cores"]


def halves(*shape):
    return torch.empty(*shape, dtype=torch.float16, device="meta")


def test_the_l2_cache_must_answer_every_byte_that_programs_ask_for():
    """Tiles of twice the size ask for half as much; what memory must move is the same."""
    x, l2 = halves(256, 256), recorded_facts().l2_tb_s
    for block, loaded in ((32, 2**21), (64, 2**20), (128, 2**19)):
        grid = (256 // block, 256 // block)
        counted = cost(kernels.matmul_kernel, grid, x, x, x, 256, BLOCK=block)
        assert (counted.bytes_loaded, counted.bytes_asked) == (loaded, loaded + x.nbytes)
        assert counted.bound == "L2 cache"
        assert counted.least_us == pytest.approx((loaded + x.nbytes) / l2 / 1e6)
        assert counted.l2_intensity == 2 * 256**3 / counted.bytes_asked
        # What L1 has it does not ask of L2, so this is no bound.
        assert re.search(r"H200: least time about [\d.]+ ns, bound by L2 cache \(L2", str(counted))
    # 64 x 64 tiles make 32 operations per byte: what v2 was recorded at is their roof, about.
    fastest = max(timing.speed for timing in recorded("matmul").of("matmul_v2"))
    assert fastest == pytest.approx(32 * l2, rel=0.02)


def test_tiles_of_more_queries_cost_attention_less():
    q, lse = halves(1, 1, 512, 64), torch.empty(512, device="meta")
    strides = [q.stride()[:3]] * 4
    least = []
    for rows in (16, 64, 128):
        counted = cost(
            flash_attention_kernel_v1, (512 // rows, 1, 1), q, q, q, q.clone(), lse, 0.125, 1, 1,
            *strides, (512, 512), 64, IS_CAUSAL=False, BLOCK_HEADDIM=64, BLOCK_M=rows, BLOCK_N=64,
        )  # fmt: skip
        keys_and_values = 2 * (512 // rows) * 512 * 64 * 2
        assert counted.bytes_loaded == keys_and_values + q.nbytes
        least.append(counted.least_us)
        (tensor_cores,) = (roof.us for roof in counted.roofs if roof.name == "tensor cores")
        assert tensor_cores == pytest.approx(4 * 512 * 512 * 64 / 989.4 / 1e6)
    assert least[0] > 3 * least[1] > 5 * least[2]
    assert least[2] < 1.1 * tensor_cores  # by then the tensor cores bind as much


def test_a_gpu_whose_l2_cache_nobody_measured_has_no_roof_of_it():
    counted = add(1008, 4, BLOCK_SIZE=256)
    assert "L2 cache" in [roof.name for roof in counted.roofs]
    assert "L2 cache" not in [roof.name for roof in counted.on("A100").roofs]
    assert "L2" not in str(counted.on("A100"))


@pytest.mark.parametrize("rows, cols", [(64, 64), (48, 80)])
def test_a_transpose_by_hand(rows, cols):
    x, out = floats(rows, cols), floats(cols, rows)
    args = x, out, rows, cols, rows * cols, cols, 1
    counted = cost(transpose_kernel_v1, (rows, 1), *args, BLOCK_N=128)
    assert (counted.bytes_loaded, counted.bytes_stored) == (x.nbytes, x.nbytes)
    assert sectors(counted)["load", "x_ptr"] == (x.nbytes // 32, x.nbytes // 32)
    assert sectors(counted)["store", "out_ptr"][0] == x.numel()  # a sector for each element
    grid = (math.ceil(rows / 64), math.ceil(cols / 64), 1)
    better = cost(transpose_kernel, grid, *args, BLOCK_M=64, BLOCK_N=64)
    assert better.bytes_stored == x.nbytes
    assert better.sectors_stored == x.nbytes // 32
    assert better.distinct_sectors == counted.distinct_sectors == 2 * x.nbytes // 32


@pytest.mark.parametrize("stride, times", [(1, 1), (2, 8), (8, 8), (16, 8)])
def test_a_stride_costs_sectors(stride, times):
    # With its layout made for stores of four neighbors, a lane's loads lie 4 * stride apart from
    # its neighbor's.
    args = floats(1024 * stride), floats(1024), 1024, stride
    counted = cost(kernels.copy_strided_kernel, (1,), *args, BLOCK_SIZE=1024)
    assert sectors(counted)["load", "x_ptr"] == (128 * times, 128)
    assert sectors(counted)["store", "out_ptr"] == (128, 128)


def test_a_misaligned_view_costs_more():
    x = floats(1032)
    args = x[:1024], x[1:1025], floats(1024), 1024
    counted = sectors(cost(kernels.add_kernel, (1,), *args, BLOCK_SIZE=1024))
    assert counted["load", "x_ptr"] == (128, 128)
    # Four instructions for each group of four elements, and one sector more here and there.
    assert counted["load", "y_ptr"][0] > 4 * 128


def test_words_for_the_caches_change_no_width():
    counted = cost(kernels.copy_once_kernel, (4,), floats(4096), floats(4096), BLOCK_SIZE=1024)
    assert sectors(counted) == {("load", "x_ptr"): (512, 512), ("store", "out_ptr"): (512, 512)}


def test_two_loads_of_a_line_are_told_apart():
    tensors = floats(512), floats(1024), floats(512)
    counted = cost(kernels.two_on_a_line_kernel, (2,), *tensors, BLOCK_SIZE=256)
    assert [(access.kind, access.tensor, access.times) for access in counted.accesses] == [
        ("load", "x_ptr", 1),
        ("load", "y_ptr", 4),
        ("store", "out_ptr", 1),
    ]


def test_a_helper_called_twice_is_two_accesses():
    args = floats(1024), floats(2048), floats(1024), 1024
    counted = cost(kernels.helper_twice_kernel, (1,), *args, BLOCK_SIZE=1024)
    assert [(access.tensor, access.bytes, access.sectors) for access in counted.accesses] == [
        ("x_ptr", 4096, 128),
        ("y_ptr", 4096, 1024),
        ("out_ptr", 4096, 128),
    ]


def gather(index, programs, block):
    args = floats(256), index, floats(256), 256
    return cost(kernels.gather_kernel, (programs,), *args, BLOCK_SIZE=block)


def test_a_load_within_a_load():
    accesses = gather(torch.arange(256), 1, 256).accesses
    times = [(access.tensor, access.times) for access in accesses]
    assert times == [("index_ptr", 1), ("x_ptr", 2), ("out_ptr", 1)]


def test_a_gather_counts_what_it_reads():
    index = torch.zeros(256, dtype=torch.int64)
    assert gather(index, 4, 64).distinct_loaded == index.nbytes + 4


def shared_total(**options):
    tensors = floats(8), torch.zeros(1)
    return cost(kernels.shared_total_kernel, (8,), *tensors, ATOMIC=True, **options)


def test_every_warp_loads_a_scalar_and_one_stores_it():
    counted = shared_total(num_warps=2)
    requests = {access.kind: access.requests for access in counted.accesses}
    assert requests == {"load": 8 * 2, "update": 8}
    # An update counts as both.
    assert (counted.bytes_loaded, counted.bytes_stored) == (8 * 4 + 8 * 4, 8 * 4)


def test_what_several_warps_load_alike_is_needed_once():
    # 64 elements for 128 threads: two of the four warps ask for what the others ask for.
    counted = sectors(add(64, 1, BLOCK_SIZE=64))
    assert counted["load", "x_ptr"] == counted["load", "y_ptr"] == (16, 8)
    assert counted["store", "out_ptr"] == (8, 8)


def test_scans_reductions_and_atomics_are_counted():
    scan = cost(kernels.scan_kernel, (1,), floats(64), floats(64), BLOCK_SIZE=64)
    own_reduction = cost(kernels.row_max_kernel, (1,), floats(64), floats(1), BLOCK_SIZE=64)
    assert scan.simple == own_reduction.simple == {"fp32": 63}
    assert shared_total().simple == {"fp32": 8}


def test_tensor_descriptors():
    x, out = floats(64, 64), floats(64, 64)
    blocks = [TensorDescriptor(tensor, [64, 64], [64, 1], [32, 64]) for tensor in (x, out)]
    counted = cost(kernels.descriptor_kernel, (2,), *blocks, BLOCK=32)
    for access in counted.accesses:
        assert (access.bytes, access.sectors) == (x.nbytes, x.nbytes // 32)
        assert access.by_descriptor
    assert len(counted.accesses) == 2


def test_the_argument_is_left_as_it_was():
    x, out = floats(256), torch.full((256,), 7.0)
    cost(kernels.add_kernel, (1,), x, x, out, 256, BLOCK_SIZE=256)
    assert (out == 7).all()


def test_a_grid_too_large_is_sampled_and_said_so():
    n = 2**28
    x = torch.empty(n, device="meta")
    grid = lambda meta: (n // meta["BLOCK_SIZE"],)  # noqa: E731
    counted = cost(kernels.add_kernel, grid, x, x, x, n, BLOCK_SIZE=1024)
    assert not counted.exact and counted.programs == MOST_SAMPLED
    assert (counted.bytes_loaded, counted.distinct_stored) == (2 * 4 * n, 4 * n)
    assert "scaled up from 1,024 of them" in str(counted)


@pytest.mark.parametrize("grid", [(5, 1, 1), (7, 3, 2), (1_000_000, 1, 1), (3000, 40, 5)])
def test_a_sample_holds_the_first_the_last_and_those_asked_for(grid):
    also = (grid[0] // 2, grid[1] - 1, 0)
    programs = Plan().programs(grid, {also})
    assert len(set(programs)) == len(programs) == min(math.prod(grid), len(programs))
    assert {(0, 0, 0), also, tuple(n - 1 for n in grid)} <= set(programs)
    assert len(programs) <= MOST_SAMPLED + 1


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_has_roofs(name):
    x = floats(64, 64).half()
    counted = cost(kernels.matmul_kernel, (2, 2), x, x, floats(64, 64), 64, target=name, BLOCK=32)
    assert counted.gpu.name == name
    assert counted.least_us > 0
    # For a T4 Triton makes multiply-adds of it.
    assert "tensor cores" in [roof.name for roof in counted.roofs] or name == "T4"
    assert counted.resources.target == counted.gpu.target


@pytest.mark.gpu_too
def test_by_default_it_is_counted_for_this_machines_gpu():
    name = torch.cuda.get_device_name() if course.MODE.gpu else "H200"
    args = kernels.add_kernel, (1,), floats(64), floats(64), floats(64), 64
    try:
        expected = gpu_of(name)
    except CourseError as error:
        with pytest.raises(CourseError, match=re.escape(str(error))):
            course.cost(*args, BLOCK_SIZE=64)
    else:
        assert course.cost(*args, BLOCK_SIZE=64).gpu == expected


def test_names_of_gpus():
    assert gpu_of("NVIDIA H200").name == gpu_of("h200").name == "H200"
    assert gpu_of("NVIDIA GeForce RTX 4090").name == gpu_of("rtx4090").name == "RTX 4090"


@pytest.mark.parametrize(
    "name",
    [
        "H20",
        "NVIDIA GH200 480GB",
        "NVIDIA T400 4GB",
        "NVIDIA RTX A1000",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA H100 PCIe",
        "",
    ],
)
def test_gpus_with_other_figures_are_refused(name):
    with pytest.raises(CourseError, match="There are no peak figures for"):
        gpu_of(name)


@pytest.mark.parametrize(
    ("dtype", "words", "kind"), [(torch.float8_e4m3fn, "e4m3", "fp8"), (torch.uint8, "e2m1", "fp4")]
)
def test_a_scaled_dot_is_counted_by_the_numbers_it_multiplies(dtype, words, kind):
    """Two numbers of 4 bits lie in a byte; where the tensor cores lack them, the rate is fp8's."""
    k = 64 * (2 if words == "e2m1" else 1)
    a = torch.ones(64, 64, dtype=torch.uint8).view(dtype)
    scales = torch.full((64, k // 32), 127, dtype=torch.uint8)
    args = a, a, scales, floats(64, 64), k, words
    counted = cost(kernels.scaled_dot_kernel, (1,), *args, target="H200")
    assert counted.dot == {kind: 2 * 64 * 64 * k}
    (roof,) = [each for each in counted.roofs if each.name == "tensor cores"]
    assert roof.us == pytest.approx(2 * 64 * 64 * k / 1978.9e6)


def test_an_fp8_dot_goes_by_fp16_where_the_tensor_cores_lack_fp8():
    x = floats(64, 64).to(torch.float8_e5m2)
    counted = cost(kernels.small_dot_kernel, (1,), x, x, floats(64, 64), target="A100", BLOCK=64)
    assert counted.dot == {"fp8e5": 2 * 64**3}
    tensor_cores = {roof.name: roof.us for roof in counted.roofs}["tensor cores"]
    assert tensor_cores == pytest.approx(2 * 64**3 / 312e12 * 1e6)


def test_what_several_arguments_share_is_distinct_once():
    def add_of(x, y, out):
        return cost(kernels.add_kernel, (1,), x, y, out, 1024, BLOCK_SIZE=1024)

    x, y, meta = floats(1024), floats(1025), torch.empty(1024, device="meta")
    twice = add_of(x, x, x.clone())
    assert (twice.bytes_loaded, twice.distinct_loaded) == (8192, 4096)
    assert add_of(y[:1024], y[1:], x).distinct_loaded == 4100  # they overlap
    assert add_of(meta, meta, meta).distinct_sectors == 2 * 128


def test_a_sample_does_not_count_twice_what_programs_share():
    x, row = torch.empty(2**16, 64, device="meta"), floats(64)
    counted = cost(add_row_kernel, (4096,), x, row, x.clone(), BLOCK_M=16, BLOCK_N=64)
    assert not counted.exact
    assert counted.distinct_loaded == x.nbytes + row.nbytes
    assert counted.distinct_stored == x.nbytes


@pytest.mark.parametrize("kept", [1, 4, 64, 4096])
def test_a_sample_does_not_count_twice_a_part_that_programs_share(kept):
    """A part of a tensor that has much more: its size says nothing of what is distinct."""
    x, row = torch.empty(4096 * 64, device="meta"), 4 * 64
    counted = cost(kernels.modulo_kernel, (4096,), x, x.clone(), KEPT=kept, BLOCK=64)
    assert not counted.exact
    assert (counted.distinct_loaded, counted.distinct_stored) == (kept * row, x.nbytes)
    assert counted.distinct_sectors == (kept * row + x.nbytes) // 32


def test_rows_of_a_table_that_all_programs_ask_for_are_distinct_once():
    table, out = floats(10_000, 64), torch.empty(4096 * 64, device="meta")
    index = torch.randint(0, 10, (4096,), generator=torch.Generator().manual_seed(0))
    counted = cost(kernels.picked_kernel, (4096,), table, index, out, BLOCK=64)
    assert counted.distinct_loaded == index.nbytes + 10 * 4 * 64


def test_ever_longer_parts_of_a_larger_tensor_are_distinct_once():
    x, out = torch.empty(2**23, device="meta"), torch.empty(2048 * 64, device="meta")
    counted = cost(kernels.prefixes_kernel, (2048,), x, out, BLOCK=64)
    assert not counted.exact
    assert counted.distinct_loaded == 2048 * 64 * 4
    assert counted.distinct_sectors == pytest.approx(2 * 2048 * 64 * 4 / 32, abs=1)


def test_copies_of_an_unrolled_load_have_each_their_own_width():
    x, out = floats(4096 + 16), torch.empty(4096)
    unrolled, written = (
        cost(kernel, (4,), x, out, BLOCK=1024)
        for kernel in (kernels.unrolled_shifts_kernel, kernels.written_shifts_kernel)
    )
    assert unrolled.sectors_loaded == written.sectors_loaded
    assert unrolled.accesses[0].requests == sum(each.requests for each in written.accesses[:4])


def test_rows_that_neighbors_share_are_still_scaled_up():
    x, out = torch.empty(4096 * 64, device="meta"), torch.empty(4096 * 64, device="meta")
    counted = cost(kernels.shared_by_neighbors_kernel, (4096,), x, out, EACH=2, BLOCK=64)
    assert 2048 <= counted.distinct_loaded / (4 * 64) < 2100


def test_an_offset_that_wraps_at_32_bits_is_told_so_and_no_mask_advised():
    x = torch.empty(2**15 + 1, 2**16, dtype=torch.int8, device="meta")
    out = torch.empty(len(x), 64, dtype=torch.int8, device="meta")
    with pytest.raises(CourseError, match="offset in x_ptr has reached 2\\*\\*31") as raised:
        cost(kernels.rows_far_apart_kernel, (len(x),), x, out, x.shape[1], BLOCK=64)
    assert "mask" not in str(raised.value)


def test_a_launch_that_was_stopped_is_not_exact(monkeypatch):
    monkeypatch.setattr("course.tracing.survey.TRACE_S", 1)
    counted = cost(kernels.endless_kernel, (1,), floats(4).abs())
    assert not counted.exact
    assert any("was stopped" in note for note in counted.notes)


def test_a_launch_that_was_stopped_before_it_began_is_a_sentence(monkeypatch):
    monkeypatch.setattr("course.tracing.survey.TRACE_S", 0)
    words = r"stopped after 0 s, before a program ran: this machine may be busy"
    with pytest.raises(CourseError, match=words):
        cost(kernels.row_sum_kernel, (1,), floats(1, 64), floats(1), 64, BLOCK_SIZE=64)


def stopped(after):
    """The cost of a launch of 64 programs that is stopped after some of them."""
    x = floats(4096)
    return cost(kernels.stopped_kernel, (64,), x, torch.empty_like(x), after, BLOCK_SIZE=64)


def test_a_program_that_was_stopped_is_not_counted():
    counted, size = stopped(3), 4 * 4096
    assert counted.programs == 3
    assert counted.bytes_loaded == counted.distinct_loaded == counted.distinct_stored == size
    assert counted.simple == {"fp32": 4096}
    assert counted.sectors_loaded == counted.sectors_stored == size // 32
    assert "64 programs, scaled up from 3 of them" in str(counted)
    some = "The programs that had ended by then were counted."
    assert any(some in note for note in counted.notes)


def test_where_no_program_ended_nothing_is_scaled_up():
    counted = stopped(0)
    assert counted.programs == 0
    assert (counted.distinct_loaded, counted.distinct_stored) == (256, 256)
    assert "64 programs, none of which ended: what the first one did" in str(counted)


def test_a_grid_of_integers_of_numpy_and_torch():
    args = floats(64), floats(64), floats(64), 64
    for grid in ((np.int64(2),), [2], (torch.tensor(2), 1), 2):
        assert cost(kernels.add_kernel, grid, *args, BLOCK_SIZE=32).programs == 2


@pytest.mark.parametrize("function", [cost, replay, draw.access])
def test_clusters_are_refused(function):
    words = "follows programs that run by themselves, and num_ctas=2 joins them"
    with pytest.raises(CourseError, match=words):
        function(kernels.add_kernel, (2,), *[floats(64)] * 3, 64, BLOCK_SIZE=32, num_ctas=2)
    in_two = triton.Config({"BLOCK_SIZE": 32}, num_ctas=2)
    tuned = triton.autotune([in_two], key=[])(kernels.add_kernel)
    with pytest.raises(CourseError, match=words):
        function(tuned, (2,), *[floats(64)] * 3, 64, config=0)


@pytest.mark.parametrize("type", ["i32", "i32:16", "fp32"])
def test_a_type_in_place_of_a_number_is_refused(type):
    words = f"cost runs the kernel: n_elements must be a number, and not the type '{type}'"
    with pytest.raises(CourseError, match=words):
        cost(kernels.add_kernel, (2,), *[floats(64)] * 3, type, BLOCK_SIZE=32)


@gluon.jit
def gluon_kernel(x_ptr):
    gluon.language.store(x_ptr, 1.0)


@pytest.mark.parametrize("function", [cost, replay])
def test_gluon_is_refused_in_a_sentence(function):
    words = "takes no Gluon kernels yet, as gluon_kernel is one: lower, explore"
    with pytest.raises(CourseError, match=words):
        function(gluon_kernel, (1,), floats(1))
    assert "tt.store" in lower(gluon_kernel, "*fp32", target="sm_90").ttgir


@pytest.mark.parametrize("n, bytes_loaded", [(64, 256), (50, 200)])
def test_a_constant_is_what_heuristics_choose(n, bytes_loaded):
    args = floats(64), floats(64), n
    counted = cost(kernels.heuristic_kernel, (2,), *args, BLOCK_SIZE=32)
    assert counted.bytes_loaded == bytes_loaded


def test_a_function_as_an_argument_and_a_name_for_one_of_tritons():
    x, out = floats(64), floats(64)
    applied = cost(kernels.apply_kernel, (1,), x, out, kernels.half, BLOCK_SIZE=64)
    assert applied.simple == {"fp32": 64}
    assert cost(kernels.alias_kernel, (1,), x, out, BLOCK_SIZE=64).special == {"fp32": 64}


def test_an_index_out_of_bounds_is_stopped_with_int64_arguments_too():
    words = r"program 0, line \d+: Program 0 read memory that is none of the kernel's arguments"
    for far in (10**9, 256):
        with pytest.raises(CourseError, match=words):
            gather(torch.full((256,), far), 1, 64)


def test_an_address_in_a_tensor_is_not_followed_where_the_launch_is_a_copy():
    x, out = floats(64), floats(1)
    words = r"a copy of a launch whose tensors hold addresses, but a GPU can: cost cannot follow"
    with pytest.raises(CourseError, match=words):
        cost(kernels.listed_kernel, (1,), torch.tensor([x.data_ptr()]), out, BLOCK_SIZE=64)


def test_what_one_of_tritons_helpers_refuses_is_blamed_on_the_line_of_its_call():
    line = kernels.third_axis_kernel.fn.__code__.co_firstlineno + 3
    with pytest.raises(CourseError, match=rf"program 0, line {line}:"):
        cost(kernels.third_axis_kernel, (1,), floats(64), floats(1), BLOCK_SIZE=64)


@pytest.mark.parametrize("function", [cost, replay, draw.access])
def test_an_unknown_option_is_refused(function):
    words = "bogus is neither a parameter of add_kernel nor an option of the compiler"
    args = floats(8), floats(8), floats(8), 8
    with pytest.raises(CourseError, match=words):
        function(kernels.add_kernel, (1,), *args, BLOCK_SIZE=8, bogus=3)


def test_another_gpu_from_the_same_count():
    counted = add(1000, 4, BLOCK_SIZE=256)
    assert counted.on("A100").least_us / counted.least_us == pytest.approx(4.8 / 2.039)


def test_a_kernel_that_fails_says_where():
    words = r"failing_kernel fails in program 0, line \d+: ValueError: .*\. replay"
    with pytest.raises(CourseError, match=words):
        cost(kernels.failing_kernel, (4,), floats(256), floats(256), BLOCK_SIZE=16)


def test_a_kernel_that_only_the_interpreter_takes_is_counted_and_said_not_to_compile():
    counted = cost(kernels.break_kernel, (1,), floats(64), 64, BLOCK_SIZE=16)
    assert counted.resources is None
    assert counted.bytes_loaded == 64
    assert any("break_kernel does not compile" in note for note in counted.notes)


@pytest.mark.parametrize("function", [cost, replay, draw.access])
@pytest.mark.parametrize(
    "grid, words",
    [
        ((0,), "holds no program"),
        ((2, -1), "cannot be launched"),
        ("4", "whole numbers"),
        ((1, 2, 3, 4), "one to three"),
        ((1, 70_000), "cannot be launched"),
        (None, "whole numbers"),
        ((2.0,), "whole numbers"),
    ],
)
def test_a_grid_that_cannot_be_launched_is_a_sentence(function, grid, words):
    with pytest.raises(CourseError, match=words):
        function(kernels.add_kernel, grid, floats(8), floats(8), floats(8), 8, BLOCK_SIZE=8)


@pytest.mark.parametrize("function", [cost, replay, draw.access])
def test_arguments_that_cannot_be_launched_are_a_sentence(function):
    x, out = floats(8), floats(8)
    with pytest.raises(CourseError, match="takes a kernel"):
        function(print, (1,))
    with pytest.raises(CourseError, match="chooses BLOCK_SIZE: give config=0"):
        function(kernels.tuned_kernel, (1,), x, out, 8)
    with pytest.raises(CourseError, match="x_ptr must be a tensor"):
        function(kernels.add_kernel, (1,), "*fp32", x, out, 8, BLOCK_SIZE=8)
    with pytest.raises(CourseError, match="cannot be described"):
        function(kernels.add_kernel, (1,), object(), x, out, 8, BLOCK_SIZE=8)


def test_tensors_too_large_to_copy_are_refused(monkeypatch):
    monkeypatch.setattr("course.tracing.launch.MOST_BYTES", 1000)
    with pytest.raises(CourseError, match="are copied to be traced"):
        add(256, 1, BLOCK_SIZE=256)


X = floats(1032)
MISALIGNED = (X[:1024], X[1:1025], floats(1024), 1024)


def test_a_load_that_the_compiler_leaves_out_is_named():
    kernel = kernels.unused_load_kernel
    counted = cost(kernel, (1,), floats(512), floats(512), floats(512), BLOCK_SIZE=512)
    line = kernel.fn.__code__.co_firstlineno + 4
    assert f"No compiled access was found of line {line}: the compiler may have" in str(counted)


@pytest.mark.parametrize("target", ["H200", "A100", "MI300X"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_atomics_side_by_side_ask_for_what_they_move(dtype, target):
    x = torch.ones(512, dtype=dtype)
    kernel = kernels.sum_by_atomics_kernel
    counted = cost(kernel, (1,), x, x.clone(), BLOCK_SIZE=512, target=target)
    assert sectors(counted)["update", "out_ptr"] == (x.nbytes // 32, x.nbytes // 32)
    assert "No compiled access" not in str(counted)


@pytest.mark.parametrize(("precision", "parts"), [("bf16x3", 1), ("bf16x6", 1), ("tf32x3", 2)])
def test_products_in_parts_are_bound_by_the_rate_of_their_parts(precision, parts):
    a = floats(32, 32)
    counted = cost(kernels.precise_dot_kernel, (1,), a, torch.empty(32, 32), precision)
    assert counted.dot == {precision: 2 * 32**3}
    assert f"tensor cores {parts * 2 * 32**3 / 989.4e3:.3g} ns" in str(counted)


def test_a_picture_of_few_lanes_counts_the_threads_that_ask():
    launch = kernels.add_kernel, (1,), floats(5), floats(5), floats(5), 5
    assert "In the first request 3 threads reach" in draw.access(*launch, BLOCK_SIZE=256).alt


def test_a_picture_of_accesses_says_who_touches_what():
    add_kernel, total_kernel = kernels.add_kernel, kernels.shared_total_kernel
    requests = draw.access(add_kernel, (1,), *MISALIGNED, BLOCK_SIZE=1024).alt
    coalesced = "8 requests of a warp, 128 sectors for 128 at least: coalesced"
    assert f"load x_ptr: {coalesced}" in requests
    assert "load y_ptr" in requests and "times the least" in requests
    assert f"{coalesced}. In the first request 32 threads reach into 16 sectors side by" in requests
    index, out = 64 * torch.arange(32, dtype=torch.int32), torch.zeros(32)
    args = floats(2048), index, out, 32
    strided = draw.access(kernels.gather_kernel, (1,), *args, BLOCK_SIZE=32).alt
    assert "32 threads reach into 32 sectors, one every 256 bytes." in strided
    total = draw.access(total_kernel, (4,), floats(4), torch.zeros(1), ATOMIC=False)
    assert "red: written by several programs" in total.alt
    tensors = floats(256), torch.zeros(8), floats(1)
    half = draw.access(kernels.half_written_kernel, (4,), *tensors, BLOCK_SIZE=64)
    assert "yellow: read and written by nobody" in half.alt


def test_a_roofline_shows_costs_on_one_gpu():
    counted = cost(kernels.add_kernel, (4,), *MISALIGNED, BLOCK_SIZE=256)
    assert "add_kernel" in draw.roofline(counted).alt
    two = draw.roofline({"one": counted, "other": add(1008, 4, BLOCK_SIZE=256)}).alt
    assert "H200: memory: 4.8 TB/s, L2 cache: 9.66 TB/s, measured, arithmetic, fp32: 67" in two
    assert "one: " in two
    assert "other: 2.52 ns at least, bound by memory, 0.0847 operations per byte of memory" in two
    assert "traffic, 0.0847 per byte asked of the L2 cache." in two
    assert "L2 cache" not in draw.roofline(counted.on("A100")).alt.partition("asked of")[0]
    with pytest.raises(CourseError, match="shows one GPU"):
        draw.roofline(counted, counted.on("A100"))
    with pytest.raises(CourseError, match="what cost has returned"):
        draw.roofline()


def test_a_roofline_carries_a_ladder():
    timed, per_byte = recorded("matmul"), {"matmul_v1": 32, "matmul_v3": 85.3}
    alone = draw.roofline(ladder=timed, per_byte=per_byte, x=8192).alt
    speed = timed.at("matmul_v1", 8192).speed
    assert f"matmul_v1: 32 operations per byte asked of the L2 cache, {speed:.0f} TFLOP/s." in alone
    counted = add(1008, 4, BLOCK_SIZE=256)
    assert "add_kernel" in draw.roofline(counted, ladder=timed, per_byte=per_byte).alt
    with pytest.raises(CourseError, match="shows one GPU"):
        draw.roofline(counted.on("A100"), ladder=timed, per_byte=per_byte)
    with pytest.raises(CourseError, match="matmul has no 'add' at"):
        draw.roofline(ladder=timed, per_byte={"add": 1})


@pytest.mark.parametrize(
    ("x", "n", "says"),
    [
        ([1.0, 2.0], 8, "x_ptr is a list: give a tensor, or a tuple where the kernel takes one"),
        (
            torch.zeros(8),
            2**64,
            f"n_elements is {2**64}, and a number of a kernel has 64 bits at most",
        ),
    ],
)
def test_a_value_that_no_kernel_takes_is_refused_before_it_runs(x, n, says):
    with pytest.raises(CourseError, match=says):
        cost(kernels.add_kernel, (1,), x, floats(8), floats(8), n, BLOCK_SIZE=8)


def test_what_heuristics_choose_by_is_named_where_it_is_not_given():
    kernel = kernels.heuristic_kernel
    with pytest.raises(CourseError, match="chooses EVEN by BLOCK_SIZE: give that by name"):
        cost(kernel, (1,), floats(8), floats(8), 8)
