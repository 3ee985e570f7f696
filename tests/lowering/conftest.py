"""The kernel that most of these tests look at."""

import pytest

from course import lower
from tests.support import lower_kernels as kernels


@pytest.fixture(scope="session")
def add():
    return lower(kernels.add_kernel, *kernels.ADD, BLOCK_SIZE=1024, target="sm_90")
