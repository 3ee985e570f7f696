"""diagnose with tensors on a GPU: the estimate beside the measured time, and tensors left alone."""

import pytest
import torch

from course import CourseError, diagnose
from course.gpus.peaks import gpu_of
from tests.diagnosing.kernels_gluon import copy_kernel
from tests.support import trace_kernels as kernels

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


@pytest.fixture(autouse=True)
def known_gpu():
    """Skips where no peak figures are known of this GPU."""
    try:
        gpu_of(torch.cuda.get_device_name())
    except CourseError as error:
        pytest.skip(f"needs a known GPU: {error}")


def test_the_estimate_of_an_addition_explains_its_measured_time():
    n = 2**26
    x, y, out = (torch.zeros(n, device="cuda") for _ in range(3))
    said = diagnose(kernels.add_kernel, (n // 1024,), x, y + 1, out, n, BLOCK_SIZE=1024)
    assert not (out != 0).any()  # timed on copies
    assert 0.7 < said.explained < 1.4
    assert "measured " in str(said)
    assert "not known here" not in str(said)


def test_a_gluon_kernel_is_timed_although_it_is_not_followed():
    x, out = torch.ones(2**24, device="cuda"), torch.zeros(2**24, device="cuda")
    said = diagnose(copy_kernel, (2**24 // 1024,), x, out, 1024, 4)
    assert not (out != 0).any()
    assert said.measured_us > 0
    assert said.explained is None
    assert "measured " in str(said)
