"""cost and replay with tensors on a GPU: timed beside the counts, and the tensors left alone."""

import pytest
import torch

from course import CourseError, cost, replay
from course.gpus.peaks import gpu_of
from tests.support import trace_kernels as kernels

pytestmark = pytest.mark.gpu


def vectors(n):
    return [torch.randn(n, device="cuda") for _ in range(2)] + [torch.zeros(n, device="cuda")]


@pytest.mark.alone
def test_the_measured_time_stands_beside_the_least():
    try:
        gpu_of(torch.cuda.get_device_name())
    except CourseError as error:
        pytest.skip(f"needs a known GPU: {error}")
    n = 2**26
    x, y, out = vectors(n)
    found = cost(kernels.add_kernel, (n // 1024,), x[: 2**26], y, out, n, BLOCK_SIZE=1024)
    assert not (out != 0).any()  # timed on copies
    assert 1 < found.measured_us / found.least_us < 2
    assert "measured here" in str(found)


def test_replay_takes_cuda_tensors_and_leaves_them():
    x, y, out = vectors(1000)
    found = replay(
        kernels.add_kernel, (4,), x, y, out, 1000, element=("out_ptr", 999), BLOCK_SIZE=256
    )
    assert found.opened == (3, 0, 0)
    assert not (out != 0).any()
