"""cost: bytes, sectors and operations against counts by hand; GPUs and their roofs; launches that are none."""

import math
import re

import numpy as np
import pytest
import torch
from triton.experimental import gluon
from triton.tools.tensor_descriptor import TensorDescriptor

import course
from course import CourseError, draw, lower, replay
from course.benching.record.ncu_counters import add_row_kernel
from course.gpus.peaks import GPUS, gpu_of
from course.tracing.observer import MOST_PROGRAMS, sample
from kernels.transpose import transpose_kernel, transpose_kernel_v1
from tests.support import trace_kernels as kernels


def cost(*args, target="H200", **options):
    """course.cost for one GPU, whichever this machine has: what is counted depends on it."""
    return course.cost(*args, target=target, **options)


def floats(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def sectors(found):
    return {(each.kind, each.tensor): (each.sectors, each.least) for each in found.accesses}


def test_a_vector_add_by_hand():
    n = 1008
    found = cost(kernels.add_kernel, (4,), floats(n), floats(n), floats(n), n, BLOCK_SIZE=256)
    assert (found.bytes_loaded, found.bytes_stored) == (2 * 4 * n, 4 * n)
    assert (found.distinct_loaded, found.distinct_stored) == (2 * 4 * n, 4 * n)
    assert sectors(found) == {
        ("load", "x_ptr"): (126, 126),
        ("load", "y_ptr"): (126, 126),
        ("store", "out_ptr"): (126, 126),
    }
    assert found.simple == {"fp32": 4 * 256}  # the masked lanes compute too
    assert [each.masked for each in found.accesses] == [16, 16, 16]
    assert found.exact and found.programs == 4
    assert found.bound == "memory"
    assert found.least_us == pytest.approx(3 * 4 * n / 4.8e12 * 1e6)


def test_a_length_that_16_does_not_divide_costs_sectors_and_no_bytes():
    n = 1000
    found = cost(kernels.add_kernel, (4,), floats(n), floats(n), floats(n), n, BLOCK_SIZE=256)
    assert (found.bytes_loaded, found.distinct_sectors) == (2 * 4 * n, 3 * n // 8)
    # The compiler cannot tell that the mask is the same for neighbours: it loads element by element, each lane its two
    # neighbours one after the other, so that every sector is asked for twice.
    assert all(1.9 < each.times <= 2 for each in found.accesses)


def test_row_sums_by_hand():
    found = cost(kernels.row_sum_kernel, (3,), floats(3, 100), floats(3), 100, BLOCK_SIZE=64)
    assert (found.bytes_loaded, found.bytes_stored) == (3 * 400, 3 * 4)
    assert found.simple == {
        "fp32": 3 * 2 * (63 + 1)
    }  # two blocks a row: 63 additions in each, one to the total


def test_a_matmul_by_hand():
    n, block = 64, 32
    found = cost(
        kernels.matmul_kernel, (2, 2), floats(n, n), floats(n, n), floats(n, n), n, BLOCK=block
    )
    assert found.bytes_loaded == 2 * 4 * n * n * (
        n // block
    )  # each matrix once for every column of tiles of the other
    assert (found.distinct_loaded, found.distinct_stored) == (2 * 4 * n * n, 4 * n * n)
    assert found.dot == {"tf32": 2 * n**3}
    assert [roof.name for roof in found.roofs] == ["memory", "tensor cores"]


@pytest.mark.parametrize("rows, cols", [(64, 64), (48, 80)])
def test_a_transpose_by_hand(rows, cols):
    x, out = floats(rows, cols), floats(cols, rows)
    strides = (rows * cols, cols, 1)
    found = cost(transpose_kernel_v1, (rows, 1), x, out, rows, cols, *strides, BLOCK_N=128)
    assert (found.bytes_loaded, found.bytes_stored) == (x.nbytes, x.nbytes)
    assert sectors(found)["load", "x_ptr"] == (x.nbytes // 32, x.nbytes // 32)
    assert sectors(found)["store", "out_ptr"][0] == x.numel()  # a sector for each element
    grid = (math.ceil(rows / 64), math.ceil(cols / 64), 1)
    better = cost(transpose_kernel, grid, x, out, rows, cols, *strides, BLOCK_M=64, BLOCK_N=64)
    assert better.bytes_stored == x.nbytes
    assert better.sectors_stored == x.nbytes // 32
    assert better.distinct_sectors == found.distinct_sectors == 2 * x.nbytes // 32


@pytest.mark.parametrize("stride, times", [(1, 1), (2, 8), (8, 8), (16, 8)])
def test_a_stride_costs_sectors(stride, times):
    # With its layout made for stores of four neighbours, a lane's loads lie 4 * stride apart from its neighbour's.
    x = floats(1024 * stride)
    found = cost(kernels.copy_strided_kernel, (1,), x, floats(1024), 1024, stride, BLOCK_SIZE=1024)
    assert sectors(found)["load", "x_ptr"] == (128 * times, 128)
    assert sectors(found)["store", "out_ptr"] == (128, 128)


def test_a_misaligned_view_costs_more():
    x = floats(1032)
    found = cost(kernels.add_kernel, (1,), x[:1024], x[1:1025], floats(1024), 1024, BLOCK_SIZE=1024)
    aligned, beside = sectors(found)["load", "x_ptr"], sectors(found)["load", "y_ptr"]
    assert aligned == (128, 128)
    assert (
        beside[0] > 4 * 128
    )  # four instructions for each group of four elements, and one sector more here and there


def test_two_loads_of_a_line_are_told_apart():
    found = cost(
        kernels.two_on_a_line_kernel, (2,), floats(512), floats(1024), floats(512), BLOCK_SIZE=256
    )
    assert [(each.kind, each.tensor, each.times) for each in found.accesses] == [
        ("load", "x_ptr", 1), ("load", "y_ptr", 4), ("store", "out_ptr", 1)
    ]  # fmt: skip


def test_a_helper_called_twice_is_two_accesses():
    found = cost(
        kernels.helper_twice_kernel,
        (1,),
        floats(1024),
        floats(2048),
        floats(1024),
        1024,
        BLOCK_SIZE=1024,
    )
    assert [(each.tensor, each.bytes, each.sectors) for each in found.accesses] == [
        ("x_ptr", 4096, 128), ("y_ptr", 4096, 1024), ("out_ptr", 4096, 128)
    ]  # fmt: skip


def test_a_load_within_a_load():
    index = torch.arange(256)
    found = cost(kernels.gather_kernel, (1,), floats(256), index, floats(256), 256, BLOCK_SIZE=256)
    assert [(each.tensor, each.times) for each in found.accesses] == [
        ("index_ptr", 1),
        ("x_ptr", 2),
        ("out_ptr", 1),
    ]


def test_every_warp_loads_a_scalar_and_one_stores_it():
    found = cost(
        kernels.shared_total_kernel, (8,), floats(8), torch.zeros(1), ATOMIC=True, num_warps=2
    )
    assert {each.kind: each.requests for each in found.accesses} == {"load": 8 * 2, "update": 8}
    assert (found.bytes_loaded, found.bytes_stored) == (
        8 * 4 + 8 * 4,
        8 * 4,
    )  # an update counts as both


def test_a_gather_counts_what_it_reads():
    index = torch.zeros(256, dtype=torch.int64)
    found = cost(kernels.gather_kernel, (4,), floats(256), index, floats(256), 256, BLOCK_SIZE=64)
    assert found.distinct_loaded == index.nbytes + 4


def test_tensor_descriptors():
    x, out = floats(64, 64), floats(64, 64)
    blocks = [TensorDescriptor(each, [64, 64], [64, 1], [32, 64]) for each in (x, out)]
    found = cost(kernels.descriptor_kernel, (2,), *blocks, BLOCK=32)
    assert [(each.bytes, each.sectors, each.by_descriptor) for each in found.accesses] == [
        (x.nbytes, x.nbytes // 32, True)
    ] * 2


def test_a_reduction_of_ones_own_is_counted():
    assert cost(kernels.row_max_kernel, (1,), floats(64), floats(1), BLOCK_SIZE=64).simple == {
        "fp32": 63
    }


def test_the_argument_is_left_as_it_was():
    x, out = floats(256), torch.full((256,), 7.0)
    cost(kernels.add_kernel, (1,), x, x, out, 256, BLOCK_SIZE=256)
    assert (out == 7).all()


def test_a_grid_too_large_is_sampled_and_said_so():
    x = torch.empty(2**28, device="meta")
    found = cost(
        kernels.add_kernel,
        lambda meta: (2**28 // meta["BLOCK_SIZE"],),
        x,
        x,
        x,
        2**28,
        BLOCK_SIZE=1024,
    )
    assert not found.exact and found.programs == MOST_PROGRAMS
    assert (found.bytes_loaded, found.distinct_stored) == (2 * 4 * 2**28, 4 * 2**28)
    assert "scaled up from 1,024 of them" in str(found)


@pytest.mark.parametrize("grid", [(5, 1, 1), (7, 3, 2), (1_000_000, 1, 1), (3000, 40, 5)])
def test_a_sample_holds_the_first_the_last_and_those_asked_for(grid):
    also = (grid[0] // 2, grid[1] - 1, 0)
    found = sample(grid, {also})
    assert len(set(found)) == len(found) == min(math.prod(grid), len(found))
    assert {(0, 0, 0), also, tuple(n - 1 for n in grid)} <= set(found)
    assert len(found) <= MOST_PROGRAMS + 1


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_has_roofs(name):
    x = floats(64, 64).half()
    found = cost(kernels.matmul_kernel, (2, 2), x, x, floats(64, 64), 64, target=name, BLOCK=32)
    assert found.gpu.name == name
    assert found.least_us > 0
    assert (
        "tensor cores" in [roof.name for roof in found.roofs] or name == "T4"
    )  # where Triton makes multiply-adds of it
    assert found.resources.target == found.gpu.target


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
    "name", ["H20", "sm_90", "NVIDIA GH200 480GB", "NVIDIA T400 4GB", "NVIDIA RTX A1000", "NVIDIA GeForce RTX 4090 Laptop GPU",
             "NVIDIA A100-SXM4-40GB", "NVIDIA H100 PCIe", ""]
)  # fmt: skip
def test_gpus_with_other_figures_are_refused(name):
    with pytest.raises(CourseError, match="There are no peak figures for"):
        gpu_of(name)


def test_an_fp8_dot_goes_by_fp16_where_the_tensor_cores_lack_fp8():
    x = floats(64, 64).to(torch.float8_e5m2)
    found = cost(kernels.small_dot_kernel, (1,), x, x, floats(64, 64), target="A100", BLOCK=64)
    assert found.dot == {"fp8e5": 2 * 64**3}
    assert {roof.name: roof.us for roof in found.roofs}["tensor cores"] == pytest.approx(
        2 * 64**3 / 312e12 * 1e6
    )


def test_what_several_arguments_share_is_distinct_once():
    x, out = floats(1024), floats(1024)
    found = cost(kernels.add_kernel, (1,), x, x, out, 1024, BLOCK_SIZE=1024)
    assert (found.bytes_loaded, found.distinct_loaded) == (8192, 4096)
    overlapping = cost(
        kernels.add_kernel, (1,), (y := floats(1025))[:1024], y[1:], out, 1024, BLOCK_SIZE=1024
    )
    assert overlapping.distinct_loaded == 4100
    meta = torch.empty(1024, device="meta")
    assert (
        cost(kernels.add_kernel, (1,), meta, meta, meta, 1024, BLOCK_SIZE=1024).distinct_sectors
        == 2 * 128
    )


def test_a_sample_does_not_count_twice_what_programs_share():
    x, row = torch.empty(2**16, 64, device="meta"), floats(64)
    found = cost(add_row_kernel, (4096,), x, row, x.clone(), BLOCK_M=16, BLOCK_N=64)
    assert not found.exact
    assert found.distinct_loaded == x.nbytes + row.nbytes
    assert found.distinct_stored == x.nbytes


def test_scans_and_atomics_are_counted():
    assert cost(kernels.scan_kernel, (1,), floats(64), floats(64), BLOCK_SIZE=64).simple == {
        "fp32": 63
    }
    assert cost(
        kernels.shared_total_kernel, (8,), floats(8), torch.zeros(1), ATOMIC=True
    ).simple == {"fp32": 8}


def test_a_launch_that_was_stopped_is_not_exact(monkeypatch):
    monkeypatch.setattr("course.tracing.survey.TRACE_S", 1)
    found = cost(kernels.endless_kernel, (1,), floats(4).abs())
    assert not found.exact
    assert any("was stopped" in note for note in found.notes)


def test_a_launch_that_was_stopped_before_it_began_is_a_sentence(monkeypatch):
    monkeypatch.setattr("course.tracing.survey.TRACE_S", 0.001)
    with pytest.raises(
        CourseError, match=r"stopped after 0\.001 s, before a program ran: this machine may be busy"
    ):
        cost(kernels.row_sum_kernel, (1,), floats(64), floats(64), 64, BLOCK_SIZE=64)


def test_a_program_that_was_stopped_is_not_counted():
    x = floats(4096)
    found = cost(kernels.stopped_kernel, (64,), x, torch.empty_like(x), 3, BLOCK_SIZE=64)
    assert found.programs == 3
    assert found.bytes_loaded == found.distinct_loaded == found.distinct_stored == x.nbytes
    assert found.simple == {"fp32": 4096}
    assert found.sectors_loaded == found.sectors_stored == x.nbytes // 32
    assert "64 programs, scaled up from 3 of them" in str(found)
    assert any("The programs that had ended by then were counted." in note for note in found.notes)


def test_where_no_program_ended_nothing_is_scaled_up():
    x = floats(4096)
    found = cost(kernels.stopped_kernel, (64,), x, torch.empty_like(x), 0, BLOCK_SIZE=64)
    assert found.programs == 0
    assert (found.distinct_loaded, found.distinct_stored) == (256, 256)
    assert "64 programs, none of which ended: what the first one did" in str(found)


def test_integers_of_numpy_and_torch():
    args = floats(64), floats(64), floats(64), 64
    for grid in ((np.int64(2),), [2], (torch.tensor(2), 1), 2):
        assert cost(kernels.add_kernel, grid, *args, BLOCK_SIZE=32).programs == 2


def test_clusters_are_refused():
    with pytest.raises(
        CourseError, match="cost follows programs that run by themselves, and num_ctas=2 joins them"
    ):
        cost(
            kernels.add_kernel,
            (2,),
            floats(64),
            floats(64),
            floats(64),
            64,
            BLOCK_SIZE=32,
            num_ctas=2,
        )


@gluon.jit
def gluon_kernel(x_ptr):
    gluon.language.store(x_ptr, 1.0)


@pytest.mark.parametrize("function", [cost, replay])
def test_gluon_is_refused_in_a_sentence(function):
    with pytest.raises(
        CourseError, match="takes no Gluon kernels yet, as gluon_kernel is one: lower, explore"
    ):
        function(gluon_kernel, (1,), floats(1))
    assert "tt.store" in lower(gluon_kernel, "*fp32", target="sm_90").ttgir


def test_what_heuristics_choose():
    assert (
        cost(kernels.heuristic_kernel, (2,), floats(64), floats(64), 64, BLOCK_SIZE=32).bytes_loaded
        == 256
    )
    assert (
        cost(kernels.heuristic_kernel, (2,), floats(64), floats(64), 50, BLOCK_SIZE=32).bytes_loaded
        == 200
    )


def test_a_function_as_an_argument_and_a_name_for_one_of_tritons():
    assert cost(
        kernels.apply_kernel, (1,), floats(64), floats(64), kernels.half, BLOCK_SIZE=64
    ).simple == {"fp32": 64}
    assert cost(kernels.alias_kernel, (1,), floats(64), floats(64), BLOCK_SIZE=64).special == {
        "fp32": 64
    }


def test_an_index_out_of_bounds_is_stopped_with_int64_arguments_too():
    index = torch.full((64,), 10**9)
    with pytest.raises(
        CourseError, match=r"program 0, line \d+: Program 0 read memory that is none"
    ):
        cost(kernels.gather_kernel, (1,), floats(64), index, floats(64), 64, BLOCK_SIZE=64)
    beside = torch.full((64,), 64)
    with pytest.raises(CourseError, match="none of the kernel's arguments"):
        cost(kernels.gather_kernel, (1,), floats(64), beside, floats(64), 64, BLOCK_SIZE=64)


@pytest.mark.parametrize("function", [cost, replay, draw.access])
def test_an_unknown_option(function):
    with pytest.raises(
        CourseError,
        match="bogus is neither a parameter of add_kernel nor an option of the compiler",
    ):
        function(
            kernels.add_kernel, (1,), floats(8), floats(8), floats(8), 8, BLOCK_SIZE=8, bogus=3
        )


def test_another_gpu_from_the_same_count():
    found = cost(
        kernels.add_kernel, (4,), floats(1000), floats(1000), floats(1000), 1000, BLOCK_SIZE=256
    )
    assert found.on("A100").least_us / found.least_us == pytest.approx(4.8 / 2.039)


def test_a_kernel_that_fails_says_where():
    with pytest.raises(
        CourseError, match=r"failing_kernel fails in program 0, line \d+: ValueError: .*\. replay"
    ):
        cost(kernels.failing_kernel, (4,), floats(256), floats(256), BLOCK_SIZE=16)


def test_a_kernel_that_only_the_interpreter_takes_is_counted_and_said_not_to_compile():
    found = cost(kernels.break_kernel, (1,), floats(64), 64, BLOCK_SIZE=16)
    assert found.resources is None
    assert found.bytes_loaded == 64
    assert any("break_kernel does not compile" in note for note in found.notes)


@pytest.mark.parametrize("function", [cost, replay, draw.access])
@pytest.mark.parametrize(
    "grid, words",
    [((0,), "holds no program"), ((2, -1), "none that can be launched"), ("4", "whole numbers"), ((1, 2, 3, 4), "one to three"),
     ((1, 70_000), "none that can be launched"), (None, "whole numbers"), ((2.0,), "whole numbers")],
)  # fmt: skip
def test_a_grid_that_is_none(function, grid, words):
    with pytest.raises(CourseError, match=words):
        function(kernels.add_kernel, grid, floats(8), floats(8), floats(8), 8, BLOCK_SIZE=8)


@pytest.mark.parametrize("function", [cost, replay, draw.access])
def test_what_is_no_launch(function):
    with pytest.raises(CourseError, match="takes a kernel"):
        function(print, (1,))
    with pytest.raises(CourseError, match="missing a required argument: 'BLOCK_SIZE'"):
        function(kernels.tuned_kernel, (1,), floats(8), floats(8), 8)
    with pytest.raises(CourseError, match="x_ptr must be a tensor"):
        function(kernels.add_kernel, (1,), "*fp32", floats(8), floats(8), 8, BLOCK_SIZE=8)
    with pytest.raises(CourseError, match="cannot be described"):
        function(kernels.add_kernel, (1,), object(), floats(8), floats(8), 8, BLOCK_SIZE=8)


def test_tensors_too_large_to_copy(monkeypatch):
    monkeypatch.setattr("course.tracing.launch.MOST_BYTES", 1000)
    with pytest.raises(CourseError, match="are copied to be traced"):
        cost(kernels.add_kernel, (1,), floats(256), floats(256), floats(256), 256, BLOCK_SIZE=256)


def test_pictures():
    x = floats(1032)
    args = (x[:1024], x[1:1025], floats(1024), 1024)
    picture = draw.access(kernels.add_kernel, (1,), *args, BLOCK_SIZE=1024)
    assert (
        "load x_ptr: 8 requests of a warp, 128 sectors for 128 at least: coalesced" in picture.alt
    )
    assert "load y_ptr" in picture.alt and "times the least" in picture.alt
    total = draw.access(kernels.shared_total_kernel, (4,), floats(4), torch.zeros(1), ATOMIC=False)
    assert "red: written by several programs" in total.alt
    half = draw.access(
        kernels.half_written_kernel, (4,), floats(256), torch.zeros(8), floats(1), BLOCK_SIZE=64
    )
    assert "yellow: read and written by nobody" in half.alt
    found = cost(kernels.add_kernel, (4,), *args, BLOCK_SIZE=256)
    assert "add_kernel" in draw.roofline(found).alt
    with pytest.raises(CourseError, match="shows one GPU"):
        draw.roofline(found, found.on("A100"))
    with pytest.raises(CourseError, match="what cost has returned"):
        draw.roofline()
