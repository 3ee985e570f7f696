"""profile on a GPU: its times beside Proton's own, and by how much it slows a program.

`make test-gpu PART=tests/gpu/test_profile.py` pays for all of it; with `-s` it prints the figures.
"""

import json
import statistics
import time

import pytest
import torch
import triton
import triton.profiler as proton

from course import profile
from tests.profiling import program

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


def step():
    """Kernels of Triton's and of PyTorch's, from one step."""
    x = torch.ones(4096, 64, device="cuda")
    places = torch.arange(4095, -1, -1, device="cuda")
    return taken(program.scale(x, 2.0) @ torch.ones(64, 64, device="cuda"), places)


def taken(x, places):
    out = torch.empty_like(x)
    program.take_kernel[(len(places),)](x, places, out, x.shape[1], WIDTH=64)
    return out


def compiled_step():
    return compiled(torch.ones(2**20, device="cuda"))


@torch.compile
def compiled(x):
    return torch.nn.functional.gelu(x * 2 + 1)


def captured_step():
    x, out = torch.ones(2**16, device="cuda"), torch.empty(2**16, device="cuda")
    program.scale(x, 2.0)  # tuned before it is captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        program.scale_kernel[lambda chosen: (triton.cdiv(x.numel(), chosen["SIZE"]),)](
            x, out, x.numel(), 3.0
        )
    for _ in range(9):
        graph.replay()


def proton_us(run, path):
    """What Proton says that each kernel took, in microseconds, by its name."""
    session = proton.start(str(path), backend="cupti")
    run()
    torch.cuda.synchronize()
    proton.finalize(session)
    found = {}

    def visit(node):
        metrics = node.get("metrics", {})
        if "time (ns)" in metrics:
            name = node["frame"]["name"]
            found[name] = found.get(name, 0) + metrics["time (ns)"] / 1000
        for child in node.get("children", []):
            visit(child)

    for node in json.loads(path.with_suffix(".hatchet").read_text()):
        if "frame" in node:
            visit(node)
    return found


@pytest.mark.parametrize("run", [step, compiled_step, captured_step])
def test_times_are_those_of_proton(run, tmp_path):
    def often():
        for _ in range(20):
            run()

    often()  # compiled and tuned
    by_proton = proton_us(often, tmp_path / "proton")
    with profile() as p:
        often()
    assert p.timed and p.rows
    for row in p.rows:
        theirs = by_proton[row.gpu_name]
        print(f"{run.__name__}: {row.name} {row.us:.1f} us, by Proton {theirs:.1f} us")
        assert row.us == pytest.approx(theirs, rel=0.2)
    if run is step:
        assert any("gemm" in each.name or "cutlass" in each.name for each in p.others)
    if run is captured_step:
        assert sum(row.launches for row in p.rows) >= 20 * 10


def test_it_slows_a_program_by_at_most_5_percent():
    """Between the launches that it looks at: each has been seen, compiled and tuned before."""

    def took_s():
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            step()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    took_s()
    with profile() as p:
        took_s()
        watched = [took_s() for _ in range(5)]
    alone = [took_s() for _ in range(5)]
    slower = statistics.median(watched) / statistics.median(alone)
    print(f"a step under profile takes {slower:.3f} times as long")
    assert p.timed and slower < 1.05


def test_numbers_on_a_gpu_stay_bit_by_bit():
    alone = step()
    with profile():
        watched = step()
    assert torch.equal(alone.view(torch.int32), watched.view(torch.int32))
