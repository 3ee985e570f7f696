"""What only a GPU can show of vector add."""

import pytest
import torch

from course import specialize
from kernels.vector_add import add, add_kernel, add_v1, add_v2
from tests.support.devices import needs_free_gib

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("launcher", [add_v1, add_v2, add])
def test_cpu_tensors_are_refused_in_a_sentence(launcher):
    x = torch.rand(10)
    with pytest.raises(
        ValueError, match="the inputs are on cpu, and this kernel is compiled for a GPU"
    ):
        launcher(x, x)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int64]
)
def test_every_dtype_agrees_with_torch_to_the_bit(dtype):
    x, y = ((torch.randn(98_432, device="cuda") * 50).to(dtype) for _ in range(2))
    assert torch.equal(add(x, y), x + y)


@pytest.mark.alone
def test_more_elements_than_32_bits_count():
    n = 2**31 + 3_001
    needs_free_gib(10.5)  # x, y, and a sum of each
    x = torch.randint(-100, 100, (n,), dtype=torch.int8, device="cuda")
    y = torch.randint(-100, 100, (n,), dtype=torch.int8, device="cuda")
    assert torch.equal(add(x, y), x + y)


def test_calls_share_a_kernel_exactly_where_specialise_says_so():
    x = torch.empty(4096, device="cuda")
    calls = [
        (x, x, x, 4096),
        (x, x, x, 4080),
        (x, x, x, 77),
        (x, x, x, 78),
        (x[1:], x, x, 77),
        (x, x, x, 1),
        (x, x, x, 16),
    ]
    add_kernel.device_caches.clear()
    for call in calls:
        add_kernel[(1,)](*call, BLOCK_SIZE=256)
    compiled = add_kernel.device_caches[torch.cuda.current_device()][0]
    assert (
        len(compiled) == len({specialize(add_kernel, *call, BLOCK_SIZE=256) for call in calls}) == 4
    )


def test_tensors_on_another_gpu_than_the_current_one():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.rand(1000, device="cuda:1")
    assert torch.equal(add(x, x), x + x)
