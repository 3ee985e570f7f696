"""The gradient in Gluon without a GPU of compute capability 9.0: simulated, compiled, and when it
is taken. tests/gpu/test_attention_gradient_hopper.py has what a GPU shows."""

import re

import pytest
import torch

from course import MODE, lower, simulate
from kernels.attention import flash_attention
from kernels.attention.gluon.plan import GLUON_TRITON, triton_version
from kernels.attention.gradient.gluon import plan as launching
from kernels.attention.gradient.inputs import prepare_backward
from tests.kernels.test_attention_gradient import assert_close, exact
from tests.kernels.test_flash_attention import inputs, random
from tests.kernels.test_flash_attention_hopper import loops

pytestmark = [
    pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: the same in both modes"),
    pytest.mark.skipif(
        triton_version() < GLUON_TRITON,
        reason="needs Triton 3.9: written for the Gluon of Triton 3.9",
    ),
]


def prepared(q, k, v, causal=False, scale=None, layout="bhmd"):
    d_out = random(*q.shape, dtype=q.dtype)
    out, lse = flash_attention(q, k, v, causal, scale, return_lse=True, layout=layout)
    return prepare_backward(d_out, q, k, v, out, lse, None, causal, scale, layout)


def simulated(launch):
    """dQ, dK and dV."""
    sums = torch.zeros(launch.gradients[0].shape)
    plan = launching.Plan(launch, sums)
    simulate(plan.kernel, plan.grid, *plan.arguments(launch, sums))
    return (sums * launch.forward.scale).half(), launch.d_k, launch.d_v


# heads, key heads, queries, keys, causal: what no tile divides and what one does, fewer queries
# than keys and more, queries that see no key, keys that no query sees, heads that share keys.
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize(
    ("heads", "key_heads", "queries", "keys", "causal"),
    [(1, 1, 128, 128, False), (2, 1, 70, 150, True), (1, 1, 200, 70, True), (1, 1, 1, 1, True)],
)
def test_it_is_right(head_dim, heads, key_heads, queries, keys, causal):
    q, k, v = inputs(1, heads, queries, keys, head_dim, key_heads)
    launch = prepared(q, k, v, causal)
    expected = exact(launch.d_out, q, k, v, causal=causal)
    assert_close(simulated(launch), expected, torch.float16)


def test_heads_and_length_may_change_places():
    q, k, v = inputs(2, 2, 70, 90, 64, 1)
    moved = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    launch = prepared(*moved, causal=True, scale=0.3, layout="bmhd")
    ours = [x.transpose(1, 2) for x in simulated(launch)]
    expected = exact(launch.d_out, q, k, v, causal=True, scale=0.3)
    assert_close(ours, expected, torch.float16)


def test_the_last_head_may_be_alone():
    q, k, v = inputs(1, launching.SIDE_BY_SIDE + 1, 70, 150, 64)
    launch = prepared(q, k, v, causal=True)
    assert_close(simulated(launch), exact(launch.d_out, q, k, v, causal=True), torch.float16)


MOST_SPILLS = {128: 4, 256: 40}
"""Instructions of a loop without a mask that reach local memory. With 256 dimensions a consumer
loads from there where its operands lie, before a product, and no sums."""


BARRIERS = {128: 14, 256: 10}
"""All of which are waited for: the memory of an unused one would be a tile's as well."""


def compiled(head_dim, dtype):
    """A kernel with both of its loops, the one with a causal mask and the one without."""
    x = torch.zeros(1, 2, 512, head_dim, dtype=dtype)
    launch = prepare_backward(x, x, x, x, x, torch.zeros(1, 2, 512), None, True, None, "bhmd")
    sums = torch.empty(x.shape)
    plan = launching.Plan(launch, sums)
    return lower(plan.kernel, *plan.arguments(launch, sums), num_warps=4, target="sm_90")


@pytest.mark.parametrize(("head_dim", "dtype"), [(128, torch.float16), (256, torch.bfloat16)])
def test_it_fits_and_spills_nothing_where_no_mask_is(head_dim, dtype):
    lowered = compiled(head_dim, dtype)
    assert lowered.resources.fits, lowered.resources
    assert "serialized" not in lowered.assembler.log
    assert "cp.reduce.async.bulk.tensor" in lowered.ptx
    assert lowered.ptx.count("mbarrier.init") == BARRIERS[head_dim]
    bodies = sorted(loops(lowered.sass), key=len)
    for body in bodies[: len(bodies) // 2]:  # the longer ones compute the mask
        spills = re.findall(r"\b(?:LDL|STL)\b", "\n".join(body))
        assert len(spills) <= MOST_SPILLS[head_dim]
