"""What only a GPU can show of vector add."""

import pytest
import torch

from kernels.vector_add import add, add_v1, add_v2

LAUNCHERS = [add_v1, add_v2, add]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_cpu_tensors_are_refused_in_a_sentence(launcher):
    x = torch.rand(10)
    with pytest.raises(ValueError, match="the inputs are on cpu, and this kernel is compiled for a GPU"):
        launcher(x, x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int64])
def test_every_dtype_agrees_with_torch_to_the_bit(dtype):
    x, y = ((torch.randn(98_432, device="cuda") * 50).to(dtype) for _ in range(2))
    assert torch.equal(add(x, y), x + y)


def test_more_elements_than_32_bits_count():
    n = 2**31 + 3_001
    if torch.cuda.mem_get_info()[0] < 8 * n:
        pytest.skip(f"needs {8 * n / 1e9:.0f} GB of free GPU memory")
    x = torch.randint(-100, 100, (n,), dtype=torch.int8, device="cuda")
    y = torch.randint(-100, 100, (n,), dtype=torch.int8, device="cuda")
    assert torch.equal(add(x, y), x + y)


def test_the_seed_documents_size_and_difference():
    torch.manual_seed(0)
    x, y = torch.rand(98_432, device="cuda"), torch.rand(98_432, device="cuda")
    assert torch.max(torch.abs(x + y - add(x, y))).item() == 0.0
