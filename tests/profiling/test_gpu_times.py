"""Times of a GPU: a trace in the form in which PyTorch's profiler exports it, made by hand.

No GPU has run these kernels: the names, grids and times are invented. tests/gpu/test_profile.py
holds the same against a real trace.
"""

import pytest

from course.profiling.gpu_times import Timed, kernels_of
from course.profiling.result import Profile, shared_out
from course.profiling.row import Place, Row
from course.tracing.recorder import launches

from . import program

BASE_NS = 1_790_000_000_000_000_000


def event(name, us, start_us=0.0, device=0, grid=None, category="kernel"):
    """A row of the trace."""
    args = {"device": device, "stream": 7, "correlation": 1, "registers per thread": 32}
    args |= {"grid": grid, "block": [128, 1, 1]} if grid else {"bytes": 64}
    return {"ph": "X", "cat": category, "name": name, "ts": start_us, "dur": us, "args": args}


def timed(*events, trials=()):
    host = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 0, "dur": 9}
    metadata = {"ph": "M", "name": "process_name", "args": {"name": "python"}}
    trace = {"baseTimeNanoseconds": BASE_NS, "traceEvents": [metadata, host, *events]}
    spans = [(BASE_NS + 1000 * start, BASE_NS + 1000 * end) for start, end in trials]
    return Timed(kernels_of(trace), spans)


@pytest.fixture
def rows():
    """A row of each kernel as it is seen, and how often it was launched."""
    with launches(run=False) as seen:
        program.step(program.torch.ones(8, 64), program.torch.tensor([5, 2, 7]))
    return [
        Row(each.name, (Place("step.py", line, "step"),), launches=3, recorded=each,
            gpu_name=each.name)
        for line, each in enumerate(seen, start=1)
    ]  # fmt: skip


def test_each_kernel_has_its_time_and_what_others_ran_has_one_line_each(rows):
    gemm = "void cutlass::Kernel2<a_gemm>(Params)"
    others = shared_out(rows, timed(
        *(event("scale_kernel", 5, grid=[2, 1, 1]) for _ in range(3)),
        *(event("take_kernel", 2, grid=[3, 1, 1]) for _ in range(3)),
        *(event(gemm, 10, grid=[8, 4, 1]) for _ in range(2)),
        event("Memcpy DtoH", 1.5, category="gpu_memcpy"),
        event("scale_kernel", 4, grid=[9, 1, 1]),  # somebody else's of that name
    ))  # fmt: skip
    assert [(row.name, row.us, row.launches) for row in rows] == [
        ("scale_kernel", 15, 3), ("take_kernel", 6, 3),
    ]  # fmt: skip
    assert [(each.name, each.launches, each.us) for each in others] == [
        (gemm, 2, 20), ("scale_kernel", 1, 4), ("Memcpy DtoH", 1, 1.5),
    ]  # fmt: skip


def test_trials_of_the_tuner_are_no_launches_of_the_program(rows):
    spans = [event("scale_kernel", 5, start, grid=[2, 1, 1]) for start in (100, 150, 300)]
    others = shared_out(rows, timed(*spans, trials=[(90, 200)]))
    assert rows[0].us == 5
    assert [(each.name, each.launches) for each in others] == [("trials of @triton.autotune", 2)]


def test_what_a_graph_repeats_counts_as_launches(rows):
    shared_out(rows, timed(*(event("take_kernel", 2, grid=[3, 1, 1]) for _ in range(30))))
    assert (rows[1].launches, rows[1].us) == (30, 60)


def test_rows_that_no_name_and_grid_tell_apart_share_their_time_by_their_launches(rows):
    twin = Row("take_kernel", (), launches=1, recorded=rows[1].recorded, gpu_name="take_kernel")
    shared_out([*rows, twin], timed(*(event("take_kernel", 2, grid=[3, 1, 1]) for _ in range(4))))
    assert (rows[1].us, twin.us, twin.launches) == (6, 2, 1)


def test_the_table_is_in_the_order_of_the_gain_with_shares_of_the_whole(rows):
    ran = timed(
        event("scale_kernel", 3, grid=[2, 1, 1]),
        event("take_kernel", 6, device=1, grid=[3, 1, 1]),
        event("a library's", 11, grid=[1, 1, 1]),
    )
    p = Profile()
    p.take(rows, ran)
    assert [row.name for row in p.rows] == ["take_kernel", "scale_kernel"]
    head, first, second = p.table()
    assert head[3:7] == ("time", "share", "to gain", "of its roof")
    assert first[3:5] == ("6 us", "30%") and second[3:5] == ("3 us", "15%")
    assert p[0].gain_us == pytest.approx(6 - p[0].counted.least_us)
    assert p.others_table()[1] == ("a library's", "1", "11 us", "55%")
    assert "Times are those of the GPUs [0, 1] together." in str(p)


def test_that_no_time_could_be_taken_is_said(rows):
    p = Profile()
    p.take(rows, Timed(problem="Profiler is already enabled on this thread"))
    assert not p.timed and "No time was measured: Profiler is already" in str(p)
