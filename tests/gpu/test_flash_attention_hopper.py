"""Attention for compute capability 9.0 on such a GPU, in a process of its own with a time limit: a
barrier that nobody completes hangs, and ends no session."""

import itertools
import json
import subprocess
import sys

import pytest
import torch

from course import MODE
from kernels.attention.gluon import plan as launching
from kernels.attention.gluon.settings import FEW_QUERIES, SETTINGS
from tests.support.processes import ROOT

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not MODE.gpu
        or torch.cuda.get_device_capability() != launching.CAPABILITY
        or launching.triton_version() < launching.GLUON_TRITON,
        reason="needs a GPU of compute capability 9.0 and Triton 3.9",
    ),
]

HANGS_AFTER_S = 300
"""What compiles and runs in a minute has hung by then."""

LENGTHS = [1, 2, 63, 64, 65, 1000, 4097]


def run(function, *arguments):
    """Run a function of this file in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", __name__, function, json.dumps(arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=HANGS_AFTER_S,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


def right(head_dim, causal):
    """All lengths, heads that share keys or not, both dtypes."""
    from kernels.attention.gluon.plan import flash_attention_hopper
    from tests.kernels.test_flash_attention import assert_right, inputs

    dtypes = itertools.cycle((torch.float16, torch.bfloat16))
    sharing = itertools.cycle((4, 1, 2))
    for queries, keys in itertools.product(LENGTHS, LENGTHS):
        q, k, v = inputs(2, 4, queries, keys, head_dim, key_heads=next(sharing), dtype=next(dtypes))
        assert_right(flash_attention_hopper, q, k, v, causal=causal)


def rows_are_right(head_dim, causal):
    """Every row of the table, whatever the length, over many tiles for each program."""
    from kernels.attention.gluon.plan import Plan
    from kernels.attention.inputs import prepare
    from tests.kernels.test_flash_attention import assert_right, inputs

    rows = {row for (dim, _), table in SETTINGS.items() if dim == head_dim for _, row in table}
    for settings in rows | {FEW_QUERIES[head_dim]}:
        for queries, keys in ((2048, 2048), (777, 1999), (1999, 777)):
            x = inputs(2, 24, queries, keys, head_dim, key_heads=8)

            def launcher(q, k, v, causal, return_lse, settings=settings):
                return Plan(prepare(None, q, k, v, causal, None, "bhmd"), settings)(q, k, v)

            assert_right(launcher, *x, causal=causal)


def layouts(head_dim):
    from kernels.attention.gluon.plan import flash_attention_hopper

    qkv = torch.randn(2, 333, 3, 6, head_dim, device="cuda", dtype=torch.bfloat16)
    q, k, v = qkv.unbind(2)
    out, lse = flash_attention_hopper(q, k, v, causal=True, layout="bmhd", return_lse=True)
    moved = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    expected, expected_lse = flash_attention_hopper(*moved, causal=True, return_lse=True)
    assert torch.equal(out.transpose(1, 2), expected)
    assert torch.equal(lse, expected_lse)


def same_bits(head_dim, causal):
    """Outputs are allocated anew each time, over what was in the memory before."""
    from kernels.attention.gluon.plan import Plan
    from kernels.attention.inputs import prepare
    from tests.kernels.test_flash_attention import inputs

    rows = {row for _, row in SETTINGS[head_dim, causal]} | {FEW_QUERIES[head_dim]}
    shapes = ((33, 97, 3), (300, 555, 24), (64, 1000, 40))
    for settings, (queries, keys, heads) in itertools.product(rows, shapes):
        q, k, v = inputs(2, heads, queries, keys, head_dim)
        plan = Plan(prepare(None, q, k, v, causal, None, "bhmd"), settings)
        first, first_lse = plan(q, k, v)
        differ = torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(1000):
            poison = torch.full_like(first, float("nan"))
            del poison  # the next output lies there
            out, lse = plan(q, k, v)
            differ += (out != first).sum() + (lse != first_lse).sum()
        assert differ.item() == 0, (settings, queries, keys)


def nan_stays(head_dim):
    from kernels.attention.gluon.plan import flash_attention_hopper
    from tests.kernels.test_flash_attention import inputs

    q, k, v = inputs(batch=2, heads=40, queries=500, keys=500, head_dim=head_dim)
    clean = flash_attention_hopper(q, k, v, causal=True)
    k[0, 7], v[1, 9] = float("nan"), float("inf")
    touched = flash_attention_hopper(q, k, v, causal=True)
    others = torch.ones(2, 40, dtype=torch.bool)
    others[0, 7] = others[1, 9] = False
    assert touched[0, 7].isnan().all()
    assert torch.equal(touched[others], clean[others])


def many_elements():
    from kernels.attention.gluon.plan import flash_attention_hopper
    from tests.kernels.test_flash_attention import reference

    q = torch.randn(9, 64, 65_536, 64, device="cuda", dtype=torch.float16)
    k, v = torch.randn(2, 9, 64, 128, 64, device="cuda", dtype=torch.float16)
    assert q.numel() > 2**31
    out = flash_attention_hopper(q, k, v)
    expected, _ = reference(q[-1:, -1:, -100:], k[-1:, -1:], v[-1:, -1:])
    torch.testing.assert_close(out[-1:, -1:, -100:].double(), expected, rtol=4e-3, atol=1e-3)


def streams_and_threads():
    """Calls of several threads, each on a stream of its own, do not mix up their addresses."""
    from concurrent.futures import ThreadPoolExecutor

    from kernels.attention.gluon.plan import flash_attention_hopper
    from tests.kernels.test_flash_attention import inputs

    def many(number):
        generator = torch.Generator("cuda").manual_seed(number)
        q, k, v = torch.randn(3, 1, 4, 256, 64, device="cuda", generator=generator).half()
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            first = flash_attention_hopper(q, k, v)
            return all(torch.equal(flash_attention_hopper(q, k, v), first) for _ in range(200))

    flash_attention_hopper(*inputs(1, 4, 256, 256, 64))
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(many, range(8)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", launching.HEAD_DIMS)
def test_lengths_that_differ_are_right(head_dim, causal):
    run("right", head_dim, causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", launching.HEAD_DIMS)
def test_every_row_of_the_table_is_right_at_every_length(head_dim, causal):
    run("rows_are_right", head_dim, causal)


@pytest.mark.parametrize("head_dim", launching.HEAD_DIMS)
def test_both_layouts_give_the_same_bits(head_dim):
    run("layouts", head_dim)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", launching.HEAD_DIMS)
def test_a_thousand_calls_give_the_same_bits(head_dim, causal):
    run("same_bits", head_dim, causal)


@pytest.mark.parametrize("head_dim", launching.HEAD_DIMS)
def test_nan_stays_in_its_head(head_dim):
    run("nan_stays", head_dim)


@pytest.mark.alone
def test_more_elements_than_32_bits_count():
    from tests.support.devices import needs_free_gib

    needs_free_gib(20)
    run("many_elements")


def test_threads_do_not_mix_up_their_tensors():
    run("streams_and_threads")


if __name__ == "__main__":
    name, arguments = sys.argv[1:]
    globals()[name](*json.loads(arguments))
