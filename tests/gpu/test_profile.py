"""profile on a GPU: its times beside Proton's own, and by how much it slows a program.

`make test-gpu PART=tests/gpu/test_profile.py` pays for all of it; with `-s` it prints the figures.
What is timed runs in a process of its own: CUPTI stays at work in a process that has once used it.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
import triton
import triton.profiler as proton

from course import profile
from tests.profiling import program
from tests.support.processes import ROOT
from tools.record.step_profile import CUPTI, cupti

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

ONE = program.scale_kernel.configs[:1]
"""Tuned, each process could take another configuration, and times of two processes are compared."""


@pytest.fixture(autouse=True)
def _untuned(monkeypatch):
    monkeypatch.setattr(program.scale_kernel, "configs", ONE)


def in_child(function, *arguments):
    """What a function of this file returns in a process of its own, where Proton finds CUPTI."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, CUPTI).symlink_to(cupti())
        ended = subprocess.run(
            [sys.executable, "-m", __name__, function, json.dumps(arguments)],
            cwd=ROOT, env=os.environ | {"TRITON_CUPTI_LIB_PATH": folder},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


KERNELS_OF_STEP = 6


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
    program.scale(x, 2.0)  # compiled before it is captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        program.scale_kernel[lambda chosen: (triton.cdiv(x.numel(), chosen["SIZE"]),)](
            x, out, x.numel(), 3.0
        )
    for _ in range(9):
        graph.replay()


def busy_step():
    """A step that keeps the GPU busy for milliseconds, while the CPU is ahead."""
    x = torch.ones(4096, 4096, device="cuda")
    return program.scale(x, 2.0) @ x


STEPS = {run.__name__: run for run in (step, compiled_step, captured_step, busy_step)}


def often(name):
    for _ in range(20):
        STEPS[name]()
    torch.cuda.synchronize()


def proton_us(name, path):
    """What Proton says that each kernel took, in microseconds, by its name."""
    often(name)  # compiled
    session = proton.start(path, backend="cupti")
    often(name)
    proton.finalize(session)
    found = {}

    def visit(node):
        metrics = node.get("metrics", {})
        if "time (ns)" in metrics:
            name = node["frame"]["name"]
            found[name] = found.get(name, 0) + metrics["time (ns)"] / 1000
        for child in node.get("children", []):
            visit(child)

    for node in json.loads(Path(path).with_suffix(".hatchet").read_text()):
        if "frame" in node:
            visit(node)
    return found


@pytest.mark.parametrize("name", ["step", "compiled_step", "captured_step"])
def test_times_are_those_of_proton(name, tmp_path):
    by_proton = in_child("proton_us", name, str(tmp_path / "proton"))
    often(name)
    with profile() as p:
        often(name)
    assert p.timed and p.rows
    ours = Counter()
    for row in p.rows:
        ours[row.gpu_name] += row.us
    for kernel, us in ours.items():
        print(f"{name}: {kernel} {us:.1f} us, by Proton {by_proton[kernel]:.1f} us")
        assert us == pytest.approx(by_proton[kernel], rel=0.2)
    if name == "step":
        assert any("gemm" in each.name or "cutlass" in each.name for each in p.others)
    if name == "captured_step":
        assert sum(row.launches for row in p.rows) >= 20 * 10


def step_us(name):
    """The medians of what a step takes before it is watched, and while it is."""

    def took_us():
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            STEPS[name]()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e6 / 200

    took_us()
    alone = [took_us() for _ in range(5)]
    with profile() as p:
        took_us()  # what it looks at only once
        watched = [took_us() for _ in range(5)]
    assert p.timed
    return statistics.median(alone), statistics.median(watched)


def test_it_slows_a_program_that_keeps_the_gpu_busy_by_at_most_5_percent():
    """Between the launches that it looks at: each has been seen, compiled and tuned before."""
    alone, watched = in_child("step_us", "busy_step")
    print(f"a busy step takes {watched:.1f} us under profile, and {alone:.1f} without it")
    assert watched < 1.05 * alone


def test_a_kernel_costs_the_cpu_at_most_30_us_more():
    alone, watched = in_child("step_us", "step")
    more = (watched - alone) / KERNELS_OF_STEP
    print(f"a kernel costs the CPU {more:.1f} us more; a step of them takes {alone:.1f} without it")
    assert more < 30


def test_numbers_on_a_gpu_stay_bit_by_bit():
    alone = step()
    with profile():
        watched = step()
    assert torch.equal(alone.view(torch.int32), watched.view(torch.int32))


if __name__ == "__main__":
    program.scale_kernel.configs = ONE
    function, given = sys.argv[1:]
    print(json.dumps(globals()[function](*json.loads(given))))
