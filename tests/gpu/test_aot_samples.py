"""On a GPU: the samples compute what the plain loops do; the operator is the JIT's launch to the
bit, on the right stream."""

import os
import subprocess
from pathlib import Path

import pytest
import torch
import triton

from course import aot
from course.aot.example_project import SPECS
from course.gpus.limits import target_of
from kernels.attention.export import _fwd_kernel
from kernels.attention.settings import settings_for
from tests.support.processes import PATIENCE_S

HEAD_DIMS, DTYPES = (64, 128), {torch.float16: "fp16", torch.bfloat16: "bf16"}
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.compiler,
    pytest.mark.xdist_group("samples"),  # building the operator takes longer than any test
]


def driver_folder() -> Path:
    """Where this process's libcuda.so.1 is."""
    torch.cuda.init()
    torch.empty(1, device="cuda")
    mapped = (
        line.split(maxsplit=5)[5]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "libcuda.so" in line
    )
    return Path(next(mapped).strip()).parent


@pytest.mark.parametrize("name", list(SPECS))
def test_a_sample_in_c_and_in_cpp_agrees_with_its_plain_loop(tmp_path, name):
    aot.sample(name, tmp_path / name, target=None)
    environ = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{driver_folder()}:{os.environ.get('LD_LIBRARY_PATH', '')}",
    }
    ended = subprocess.run(
        ["make", "-s", "-C", tmp_path / name, "run"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    print(ended.stdout)  # the errors and the times, for whoever runs this with -s
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (
        ended.stdout.count(torch.cuda.get_device_name()) == 2
        and "does not agree" not in ended.stdout
    )


@pytest.fixture(scope="module")
def fmha():
    return aot.operator(HEAD_DIMS, tuple(DTYPES.values()))


def inputs(dtype, head_dim, queries=300, keys=517, batch=2, heads=3):
    generator = torch.Generator("cuda").manual_seed(head_dim)
    return [
        torch.randn(
            batch, length, heads, head_dim, device="cuda", dtype=dtype, generator=generator
        ).transpose(1, 2)
        for length in (queries, keys, keys)
    ]


def by_jit(q, k, v, scale, causal):
    """The launch that the operator makes, by Triton itself and with the same constants."""
    batch, heads, queries, head_dim = q.shape
    settings = settings_for(head_dim, target_of(None).shared_bytes // 1024)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    strides = [step for each in (q, k, v, out) for step in each.stride()[:3]]
    _fwd_kernel[(triton.cdiv(queries, settings.block_m), heads, batch)](
        q, k, v, out, lse, None, scale, batch, heads, *strides,
        queries, k.shape[2], queries, head_dim,
        EVEN_M=False, EVEN_N=False, EVEN_HEADDIM=True, IS_CAUSAL=causal,
        BLOCK_HEADDIM=head_dim, BLOCK_M=settings.block_m, BLOCK_N=settings.block_n,
        num_warps=settings.num_warps, num_stages=settings.num_stages,
    )  # fmt: skip
    return out, lse


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("lengths", [(300, 517), (1024, 1024)])
def test_the_operator_is_the_jits_launch_to_the_bit(fmha, dtype, head_dim, causal, lengths):
    q, k, v = inputs(dtype, head_dim, *lengths)
    out, lse = fmha(q, k, v, head_dim**-0.5, causal)
    expected, expected_lse = by_jit(q, k, v, head_dim**-0.5, causal)
    assert torch.equal(out, expected) and torch.equal(lse, expected_lse)
    mask = (
        torch.ones(lengths, dtype=torch.bool, device="cuda").tril(lengths[1] - lengths[0])
        if causal
        else None
    )
    exact = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), attn_mask=mask
    )
    torch.testing.assert_close(
        out.double(), exact, rtol=0, atol=5e-3 if dtype == torch.float16 else 5e-2
    )


@pytest.mark.parametrize("causal", [False, True])
def test_compile_takes_it_whole_and_gives_the_same(fmha, causal):
    def attend(q, k, v):
        out, lse = torch.ops.course.fmha(q, k, v, 0.125, causal)
        return out + 1, lse

    q, k, v = inputs(torch.float16, 64)
    out, lse = torch.compile(attend, fullgraph=True)(q, k, v)
    expected, expected_lse = attend(q, k, v)
    assert torch.equal(out, expected) and torch.equal(lse, expected_lse)


def test_pytorchs_own_checks_of_an_operator_pass(fmha):
    torch.library.opcheck(
        fmha.default,
        (*inputs(torch.float16, 64), 0.125, True),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_it_runs_on_the_current_stream(fmha):
    q, k, v = inputs(torch.float16, 64)
    expected, _ = fmha(q, k, v, 0.125, False)
    late = torch.zeros_like(q)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # about 0.1 s: a launch on another stream would read zeros
        late.copy_(q)
        out, _ = fmha(late, k, v, 0.125, False)
    torch.cuda.synchronize()
    assert torch.equal(out, expected)


def test_it_is_captured_into_a_graph(fmha):
    q, k, v = inputs(torch.float16, 64)
    expected, _ = fmha(q, k, v, 0.125, False)  # loads the kernels, which a capture may not
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, _ = fmha(q, k, v, 0.125, False)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)


def test_a_tensor_on_the_cpu_is_refused_in_one_sentence(fmha):
    q, k, v = inputs(torch.float16, 64)
    with pytest.raises(
        RuntimeError,
        match=r"^fmha: k is on the CPU, and must be on a CUDA device: call \.cuda\(\)\.$",
    ):
        fmha(q, k.cpu(), v, 0.125, False)
