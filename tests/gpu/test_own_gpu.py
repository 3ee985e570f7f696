"""`course doctor --measure` on a real GPU: quick, near what its maker says, kept, and shown."""

import time

import pytest
import torch

import course
from course import CourseError, cost, draw
from course.benching.result import recorded
from course.gpus.own_gpu import measure_own_gpu, own_gpu
from course.gpus.peaks import gpu_of
from tests.support import trace_kernels as kernels

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

NAME = torch.cuda.get_device_name() if course.MODE.gpu else ""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What was measured and how many seconds it took, with the data folder that keeps it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_DATA", str(tmp_path_factory.mktemp("data")))
        start = time.perf_counter()
        facts = measure_own_gpu()
        yield facts, time.perf_counter() - start


def test_it_takes_less_than_half_a_minute(measured):
    facts, seconds = measured
    print(facts, f"{seconds:.1f} s", sep="\n")  # for whoever runs this with -s
    assert facts.machine.gpu == NAME
    assert seconds < 30


def test_it_is_kept_and_is_below_the_published_peaks(measured):
    own = own_gpu()
    facts, _ = measured
    assert (own.name, own.memory, own.dot["fp16"]) == (
        NAME,
        facts.memory_tb_s,
        facts.matmul_tflop_s,
    )
    assert ("bf16" in own.dot) == (torch.cuda.get_device_capability() >= (8, 0))
    try:
        peak = gpu_of(NAME)
    except CourseError as error:
        pytest.skip(f"needs a known GPU: {error}")
    assert 0.5 * peak.memory < own.memory <= peak.memory
    if "fp16" in peak.dot:
        assert 0.2 * peak.dot["fp16"] < own.dot["fp16"] <= peak.dot["fp16"]


def test_a_launch_takes_about_the_least_time_by_the_copy_roof(measured):
    x, y, out = (torch.randn(2**26, device="cuda") for _ in range(3))
    found = cost(
        kernels.add_kernel, (2**16,), x, y, out, 2**26, BLOCK_SIZE=1024
    )  # by what was measured, where no peak is known
    (least, *_) = found.roofs_on(found.own)
    assert least.name == "memory"
    assert 0.8 < found.measured_us / least.us < 1.5
    assert f"{NAME}, by the speeds measured on it: least time about" in str(found)
    assert f"measured on {NAME}" in draw.roofline(found).alt or found.gpu.measured


def test_plots_of_another_gpu_show_it(measured):
    other = recorded("vector_add").machine.gpu != NAME
    assert ("Dotted: copy roof measured on" in draw.speeds(recorded("vector_add")).alt) == other
    assert ("For comparison, NVIDIA H200, recorded on" in draw.machine().alt) == other
