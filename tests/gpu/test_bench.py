"""bench and gpu_facts on a real GPU."""

import time
from statistics import median

import pytest
import torch

from course import bench, draw, gpu_facts
from course.gpus.timing import times_ms
from kernels.vector_add import add

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


def inputs(n):
    return torch.randn(n, device="cuda"), torch.randn(n, device="cuda")


def test_a_function_is_timed_beside_its_peers():
    result = bench(
        add, [torch.add], make=inputs, sizes=[2**12, 2**24], bytes=lambda x, y: 3 * x.nbytes
    )
    assert result.series == ["add", "torch.add"]
    assert not result.recorded
    large = result.at("add", 2**24)
    # Bytes and milliseconds give the speed: at most twice a copy's, and at least a tenth of it.
    assert 0.1 < large.tb_s / result.copy_tb_s < 2
    assert large.ms > result.at("add", 2**12).ms
    assert 1 < result.launch_us["torch.add"] < result.launch_us["add"] < 1000
    assert "measured now on" in draw.speeds(result).alt


def test_what_the_cpu_takes_to_launch_does_not_count():
    def late(x):
        time.sleep(100e-6)
        return x + 1

    assert median(times_ms(late, inputs(2**10)[:1])) < 0.05


def test_like_takes_the_sizes_and_peers_of_a_study():
    result = bench(add, like="vector_add", sizes=[2**14])
    assert result.series == ["add", "add_v2", "add_v1", "torch.add", "copy"]


def test_the_facts_of_this_gpu():
    facts = gpu_facts()
    assert not facts.recorded
    assert facts.machine.gpu == torch.cuda.get_device_name()
    assert facts.l2_tb_s > facts.memory_tb_s
