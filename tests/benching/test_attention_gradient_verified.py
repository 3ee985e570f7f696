"""How the gradient of attention is verified: what rounding makes of it is right, mistakes are not.

In CPU mode `verify` calls nothing in bfloat16 wrong: what is not right there is left to the GPU.
"""

import pytest
import torch

from course import MODE
from course.benching.benchmarks.flash_attention_backward import OPERATION, joined
from course.verifying.api import verify

pytestmark = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: the same in both modes")

SMALL = [case for case in OPERATION.cases if case.elements < 2**16]


def computed(d_out, q, k, v, causal=0, mistake=None):
    """The gradients in float64, but for what every kernel rounds to the dtype: P, dS and out."""

    def rounded(x):
        return x.to(dtype).double()

    dtype, scale, shared = q.dtype, q.shape[-1] ** -0.5, q.shape[1] // k.shape[1]
    d_out, q, k, v = (x.double() for x in (d_out, q, k, v))
    keys, values = (x.repeat_interleave(shared, dim=1) for x in (k, v))
    diagonal = k.shape[2] - q.shape[2] if causal else k.shape[2]
    S = q @ keys.mT * scale
    seen = torch.ones_like(S).tril(diagonal)
    P = torch.softmax(S.masked_fill(seen == 0, -1e9), -1) * seen
    out = rounded(rounded(P) @ values)
    if mistake == "mask off by one":
        seen = torch.ones_like(S).tril(diagonal - 1)
    P = P * seen
    delta = (d_out * out).sum(-1, keepdim=True) * (mistake != "no delta")
    d_S = rounded(P * (d_out @ values.mT - delta))
    by_query, by_key, P = d_S.clone(), d_S.clone(), rounded(P)
    if mistake == "16 keys dropped":
        by_query[..., :16] = 0
    if mistake == "16 queries dropped":
        by_key[..., -16:, :] = P[..., -16:, :] = 0
    d_q, d_k, d_v = by_query @ keys, by_key.mT @ q, P.mT @ d_out
    d_k, d_v = (x.unflatten(1, (-1, shared)) for x in (d_k, d_v))
    if mistake == "a head of a group missed":
        d_k, d_v = d_k[:, :, :-1], d_v[:, :, :-1]
    d_q, d_k = d_q * scale, d_k * scale ** (mistake != "no scale")
    return joined([x.to(dtype) for x in (d_q, d_k.sum(2), d_v.sum(2))])


def verdicts(mistake):
    def function(*args):
        return computed(*args, mistake=mistake)

    result = verify(function, OPERATION.reference, SMALL, absolute=OPERATION.absolute)
    return [outcome.verdict for outcome in result.outcomes]


def test_what_rounding_makes_of_it_is_right():
    assert {case.dtype for case in SMALL} == {"float16", "bfloat16"}
    assert verdicts(None) == ["right"] * len(SMALL)


EVERYWHERE = [True] * len(SMALL)
CAUSAL = [case.scalars == (1,) for case in SMALL]
SEVERAL_KEYS = [case.inputs[2].shape[2] > 1 for case in SMALL]


@pytest.mark.parametrize(
    ("mistake", "where"),
    [
        ("no delta", EVERYWHERE), ("no scale", SEVERAL_KEYS), ("16 keys dropped", SEVERAL_KEYS),
        ("16 queries dropped", EVERYWHERE), ("mask off by one", CAUSAL),
        ("a head of a group missed", EVERYWHERE),
    ],
)  # fmt: skip
def test_a_mistake_is_not(mistake, where):
    for verdict, wrong in zip(verdicts(mistake), where, strict=True):
        assert (verdict != "right") == wrong


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_ladder_is_right(version):
    cases = [case for case in SMALL if case.dtype == "float16"]
    result = verify(
        OPERATION.ladder[version], OPERATION.reference, cases, absolute=OPERATION.absolute
    )
    assert result.right, result
