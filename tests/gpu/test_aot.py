"""On a GPU: exported kernels give the JIT's bits, on any thread and device, and their launches cost
less."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
import triton

from course import aot
from course.benching.launch_costs import measure_launches
from course.errors import CourseError
from kernels.softmax import softmax_kernel_v2
from kernels.vector_add import add_kernel
from tests.support import aot_kernels as kernels

pytestmark = pytest.mark.gpu

ADD = [
    "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024",
    "*fp32, *fp32, *fp32, i32, 1024",
    "*fp32, *fp32, *fp32, i32:1, 1024",
]
ROWS = 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("aot")


@pytest.fixture(scope="module")
def add_library(folder):
    exported = aot.export(
        add_kernel, ADD, "cdiv(n_elements, BLOCK_SIZE)", "add", folder / "add" / "add", target=None
    )
    return aot.build(aot.link(exported, folder / "linked"))


@pytest.fixture
def add(add_library):
    return aot.load(add_library).add


def vectors(count, device="cuda"):
    generator = torch.Generator(device).manual_seed(count)
    return [torch.randn(count + 1, device=device, generator=generator) for _ in range(2)]


@pytest.mark.parametrize("n", [1, 16, 1000, 4096, 98_432, 1_000_003])
@pytest.mark.parametrize("offset", [0, 1])
def test_a_vector_add_gives_the_bits_of_the_jit(add, n, offset):
    x, y = (each[offset:] for each in vectors(n))
    ours, theirs = torch.full_like(x, -1), torch.full_like(x, -1)
    add(x, y, ours, n)
    add_kernel[(triton.cdiv(n, 1024),)](x, y, theirs, n, BLOCK_SIZE=1024)
    torch.cuda.synchronize()
    assert torch.equal(ours, theirs)
    assert torch.equal(ours[:n], x[:n] + y[:n])


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("columns", [781, 1024, 4096])
def test_a_row_softmax_gives_the_bits_of_the_jit(folder, dtype, columns):
    block = triton.next_power_of_2(columns)
    divisible = ":16" if columns % 16 == 0 else ""
    signature = f"*{dtype}:16, *{dtype}:16, i32{divisible}, i32{divisible}, {block}"
    variant = aot.Variant(signature, num_warps=8)
    name = f"softmax_{dtype}_{columns}"
    exported = aot.export(softmax_kernel_v2, variant, f"{ROWS}", name, folder / name, target=None)
    launch = getattr(aot.load(aot.build(exported)), name)
    torch_dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    x = torch.randn(ROWS, columns, device="cuda").to(torch_dtype)
    ours, theirs = torch.empty_like(x), torch.empty_like(x)
    launch(x, ours, columns, x.stride(0))
    softmax_kernel_v2[(ROWS,)](x, theirs, columns, x.stride(0), BLOCK_N=block, num_warps=8)
    torch.cuda.synchronize()
    assert torch.equal(ours, theirs)


def test_every_scalar_type_is_read_as_it_was_given(folder):
    signature = "*fp64, i1, i8, i16, i32, i64, u8, u16, u32, u64, fp16, bf16, fp32, fp64"
    exported = aot.export(
        kernels.types_kernel, signature, "1", "types", folder / "types", target=None
    )
    launch = aot.load(aot.build(exported)).types
    out = torch.zeros(1, dtype=torch.float64, device="cuda")
    # Exact in any order.
    integers = (-128, -32768, -(2**31), 2**40, 255, 65535, 2**32 - 1, 2**41)
    values = (True, *integers, 0.5, -0.25, 0.125, 2**-10)
    launch(out, *values)
    assert out.item() == sum(values)


def test_attention_with_a_float_argument_gives_the_bits_of_the_jit(folder):
    signature = "*fp16:16, *fp16:16, *fp16:16, *fp16:16, fp32, i32:16, 64, 64, True"
    kernel, out = kernels.attention_kernel, folder / "attention"
    exported = aot.export(kernel, signature, "cdiv(seqlen, BLOCK), 8", "attention", out)
    launch = aot.load(aot.build(exported)).attention
    q, k, v = (torch.randn(8, 512, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    ours, theirs = torch.empty_like(q), torch.empty_like(q)
    launch(q, k, v, ours, 0.125, 512)
    kernels.attention_kernel[(8, 8)](q, k, v, theirs, 0.125, 512, BLOCK=64, D=64, CAUSAL=True)
    torch.cuda.synchronize()
    assert torch.equal(ours, theirs)
    reference = torch.nn.functional.scaled_dot_product_attention(
        q[None], k[None], v[None], is_causal=True
    )[0]
    assert torch.allclose(ours, reference, atol=4e-3)


def test_more_than_48_kb_of_shared_memory_is_there(folder):
    signature = "*fp16:16, *fp16:16, *fp32:16, i32:16, 128"
    exported = aot.export(
        kernels.large_kernel, signature, "1", "large", folder / "large", num_warps=8, target=None
    )
    if exported.functions[0].shared_bytes <= 48 * 1024:
        pytest.skip("needs another GPU: this one's code needs no more than 48 KB")
    a, b = torch.randn(128, 256, device="cuda").half(), torch.randn(256, 128, device="cuda").half()
    out = torch.empty(128, 128, device="cuda")
    aot.load(aot.build(exported)).large(a, b, out, 256)
    assert torch.allclose(out, a.float() @ b.float(), atol=1e-2, rtol=1e-3)


def test_a_stream_orders_launches(add):
    x, y = vectors(2**22)
    out = torch.empty_like(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(20):
            add(x, y, out, 2**22)
            x.copy_(out)
    stream.synchronize()
    one, two = vectors(2**22)
    for _ in range(20):
        one[: 2**22] += two[: 2**22]
    assert torch.equal(x[: 2**22], one[: 2**22])


def test_threads_that_call_first_at_once_all_get_their_result(add_library):
    add = aot.load(add_library).add
    barrier = Barrier(8)

    def work(number):
        x, y = vectors(10_000 + number)
        out = torch.empty_like(x)
        torch.cuda.synchronize()
        barrier.wait()
        add(x, y, out, 10_000 + number)
        torch.cuda.synchronize()
        return torch.equal(out[: 10_000 + number], (x + y)[: 10_000 + number])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_every_device_runs_it(add, folder):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    signature = "*fp16:16, *fp16:16, *fp32:16, i32:16, 128"
    exported = aot.export(
        kernels.large_kernel, signature, "1", "large", folder / "devices", num_warps=8, target=None
    )
    large = aot.load(aot.build(exported)).large
    for number in range(torch.cuda.device_count()):
        device = f"cuda:{number}"
        x, y = vectors(5000, device)
        out = torch.empty_like(x)
        add(x, y, out, 5000)
        assert torch.equal(out[:5000], (x + y)[:5000])
        a, b = (
            torch.randn(128, 256, device=device).half(),
            torch.randn(256, 128, device=device).half(),
        )
        product = torch.empty(128, 128, device=device)
        large(a, b, product, 256)
        assert torch.allclose(product, a.float() @ b.float(), atol=1e-2, rtol=1e-3)
    assert torch.cuda.current_device() == 0


def test_a_promise_that_is_broken_is_an_error_and_the_gpu_goes_on(folder, add):
    exported = aot.export(
        add_kernel, ADD[0], "cdiv(n_elements, BLOCK_SIZE)", "strict", folder / "strict", target=None
    )
    strict = aot.load(aot.build(exported)).strict
    x, y = vectors(4096)
    out = torch.empty_like(x)
    with pytest.raises(CourseError, match="CUDA_ERROR_INVALID_VALUE"):
        strict(x[1:], y, out, 4096)
    add(x, y, out, 4096)
    torch.cuda.synchronize()
    assert torch.equal(out[:4096], (x + y)[:4096])


def test_it_may_be_unloaded_and_used_again(add_library):
    loaded = aot.load(add_library)
    x, y = vectors(4096)
    for _ in range(3):
        out = torch.empty_like(x)
        loaded.add(x, y, out, 4096)
        torch.cuda.synchronize()
        loaded.unload()
        assert torch.equal(out[:4096], (x + y)[:4096])


def test_code_for_another_gpu_is_an_error(folder):
    major, _ = torch.cuda.get_device_capability()
    other = "sm_90" if major != 9 else "sm_80"
    exported = aot.export(
        add_kernel, ADD[1], "cdiv(n_elements, BLOCK_SIZE)", "other", folder / "other", target=other
    )
    x, y = vectors(4096)
    with pytest.raises(CourseError, match="CUDA_ERROR_"):
        aot.load(aot.build(exported)).other(x, y, x, 4096)
    torch.cuda.synchronize()


@pytest.mark.alone
def test_a_launch_costs_less_than_the_jits():
    costs = measure_launches()
    print(costs)  # for whoever runs this with -s
    jit, _, _, from_c, of_the_driver, graph = costs.us.values()
    assert 0 < graph < from_c < jit / 2
    assert from_c - of_the_driver < 1
