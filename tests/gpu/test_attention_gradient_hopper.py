"""The gradient in Gluon on a GPU of compute capability 9.0, in a process of its own with a time
limit: a barrier that nobody completes hangs, and ends no session."""

import itertools
import json
import subprocess
import sys

import pytest
import torch

from course import MODE
from kernels.attention.gluon import plan as forward
from tests.gpu.test_flash_attention_hopper import HANGS_AFTER_S
from tests.support.processes import ROOT

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not MODE.gpu
        or torch.cuda.get_device_capability() != forward.CAPABILITY
        or forward.triton_version() < forward.GLUON_TRITON,
        reason="needs a GPU of compute capability 9.0 and Triton 3.9",
    ),
]
HEAD_DIMS = [64, 128, 256]
LENGTHS = [1, 63, 64, 129, 1000]


def run(function, *arguments):
    """Run a function of this file in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", __name__, function, json.dumps(arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=HANGS_AFTER_S,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


def prepared(q, k, v, causal):
    from kernels.attention.gradient.gluon.plan import servable
    from kernels.attention.gradient.inputs import prepare_backward
    from tests.kernels.test_flash_attention import random, reference

    d_out = random(*q.shape, dtype=q.dtype)
    out, lse = reference(q, k, v, causal)
    launch = prepare_backward(
        d_out, q, k, v, out.to(q.dtype), lse.float(), None, causal, None, "bhmd"
    )
    assert servable(launch)
    return launch


def gradients(launch):
    """dQ, dK and dV, over what was in the memory before."""
    from kernels.attention.gradient.gluon.plan import launch_gradient

    sums = torch.zeros(launch.forward.q.shape, device="cuda")
    for each in (launch.d_k, launch.d_v):
        each.fill_(float("nan"))
    launch_gradient(launch, sums)
    return sums * launch.forward.scale, launch.d_k.clone(), launch.d_v.clone()


def right(head_dim, causal):
    """All lengths, heads that share keys or not, both dtypes."""
    from tests.kernels.test_attention_gradient import assert_close, exact
    from tests.kernels.test_flash_attention import inputs

    dtypes = itertools.cycle((torch.float16, torch.bfloat16))
    sharing = itertools.cycle((4, 1, 2))
    for queries, keys in itertools.product(LENGTHS, LENGTHS):
        dtype = next(dtypes)
        q, k, v = inputs(2, 4, queries, keys, head_dim, key_heads=next(sharing), dtype=dtype)
        launch = prepared(q, k, v, causal)
        ours = [x.to(dtype) for x in gradients(launch)]
        assert_close(ours, exact(launch.d_out, q, k, v, causal=causal), dtype)


def same_bits(head_dim, causal):
    """dK and dV have the same bits each time. dQ is added up in any order: its error is that of
    float32 sums."""
    from tests.kernels.test_flash_attention import inputs

    for queries, keys, heads in ((33, 97, 3), (300, 555, 24), (1000, 1000, 40)):
        launch = prepared(*inputs(2, heads, queries, keys, head_dim), causal)
        d_q, d_k, d_v = gradients(launch)
        differ = torch.zeros((), dtype=torch.int64, device="cuda")
        farthest = torch.zeros((), device="cuda")
        for _ in range(500):
            again = gradients(launch)
            differ += (again[1] != d_k).sum() + (again[2] != d_v).sum()
            farthest = torch.maximum(farthest, (again[0] - d_q).abs().max())
        assert differ.item() == 0, (queries, keys)
        assert farthest.item() <= 1e-5 * max(1.0, d_q.abs().max().item()), (queries, keys)


def nan_stays(head_dim):
    from tests.kernels.test_flash_attention import inputs

    q, k, v = inputs(batch=2, heads=20, queries=500, keys=500, head_dim=head_dim)
    k[0, 7], v[1, 9] = float("nan"), float("inf")
    others = torch.ones(2, 20, dtype=torch.bool)
    others[0, 7] = others[1, 9] = False
    for each in gradients(prepared(q, k, v, True)):
        assert each[0, 7].isnan().any()
        assert each[others].isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_lengths_that_differ_are_right(head_dim, causal):
    run("right", head_dim, causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_many_calls_give_the_same_bits(head_dim, causal):
    run("same_bits", head_dim, causal)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_nan_stays_in_its_head(head_dim):
    run("nan_stays", head_dim)


if __name__ == "__main__":
    name, arguments = sys.argv[1:]
    globals()[name](*json.loads(arguments))
