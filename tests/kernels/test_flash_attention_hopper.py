"""Attention for compute capability 9.0 without such a GPU: simulated, compiled, and when it is
taken. tests/gpu/test_flash_attention_hopper.py has what a GPU shows."""

import itertools
import math
import re

import numpy as np
import pytest
import torch
import triton

from course import MODE, lower, simulate
from kernels import device
from kernels.attention import flash_attention
from kernels.attention.gluon import plan as launching
from kernels.attention.gluon import settings as table
from kernels.attention.gluon.plan import Plan, plan_of, servable
from kernels.attention.gluon.settings import (
    FEW_QUERIES,
    ROWS,
    SETTINGS,
    STEPS,
    HopperSettings,
    heads_per_tile,
    heads_side_by_side,
    hopper_settings,
)
from kernels.attention.inputs import as_bhmd, prepare
from tests.kernels.test_flash_attention import reference
from tests.kernels.test_kernels_everywhere import OnGpu

pytestmark = [
    pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: the same in both modes"),
    pytest.mark.skipif(
        launching.triton_version() < launching.GLUON_TRITON,
        reason="needs Triton 3.9: written for the Gluon of Triton 3.9",
    ),
]

OVERLAPPED = HopperSettings(2, 64, 2)
WAYS = {
    "one consumer": HopperSettings(1, 64, 3),
    "two consumers": OVERLAPPED,
    "three consumers": HopperSettings(3, 64, 2),
    "one step after the other": OVERLAPPED._replace(overlap=False),
    "in turns": OVERLAPPED._replace(in_turns=True),
    "three in turns": HopperSettings(3, 64, 2, in_turns=True),
    "the next Q early": OVERLAPPED._replace(in_turns=True, query_slots=2),
    "a program for each tile": OVERLAPPED._replace(persistent=False),
    "the output in halves": OVERLAPPED._replace(out_halves=True),
    "rescaled where a maximum has grown far": OVERLAPPED._replace(lazy_rescale=True),
    "one after the other, rescaled where a maximum has grown far": OVERLAPPED._replace(
        overlap=False, lazy_rescale=True
    ),
    "fewer slots of K than of V": HopperSettings(2, 64, 3, 2),
    "heads side by side": OVERLAPPED._replace(heads_in_l2=True),
    "shortest first": OVERLAPPED._replace(longest_first=False),
    "small programs": HopperSettings(0, 64, 2),
    "small programs, three slots": HopperSettings(0, 64, 3, heads_in_l2=True),
}
# batch, heads, key heads, queries, keys: what no tile divides and what one does, fewer queries than
# keys and more, heads that share their keys in tiles of their own and in one.
SHAPES = [
    (1, 2, 1, 130, 200), (2, 2, 2, 64, 256), (1, 1, 1, 200, 100),
    (1, 8, 2, 17, 100), (2, 6, 3, 32, 128), (1, 4, 1, 1, 77),
]  # fmt: skip


def inputs(batch, heads, key_heads, queries, keys, head_dim=64, dtype=torch.float16):
    generator = torch.Generator().manual_seed(queries * keys)
    return tuple(
        torch.randn(batch, h, n, head_dim, generator=generator).to(dtype)
        for h, n in ((heads, queries), (key_heads, keys), (key_heads, keys))
    )


def simulated(q, k, v, causal, settings=None, layout="bhmd", programs=3, scale=None):
    """The output and the log-sum-exp, from a launch whose programs have several tiles each."""
    launch = prepare(None, q, k, v, causal, scale, layout)
    launch.out.fill_(math.nan)
    launch.lse.fill_(math.nan)
    plan = Plan(launch, settings)
    (tiles, _, _) = plan.grid
    persistent = plan.kernel is launching.attention_kernel and (
        settings is None or settings.persistent
    )
    grid = (min(tiles, programs) if persistent else tiles,)
    simulate(plan.kernel, grid, *plan.arguments(q, k, v, launch.out, launch.lse))
    return launch.out, launch.lse


def assert_right(result, q, k, v, causal, scale=None):
    out, lse = result
    expected, expected_lse = reference(q, k, v, causal=causal, scale=scale)
    torch.testing.assert_close(out.double(), expected, rtol=4e-3, atol=1e-3)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_launch_it_is_right(way, shape, causal):
    q, k, v = inputs(*shape)
    assert_right(simulated(q, k, v, causal, WAYS[way]), q, k, v, causal)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_the_settings_of_the_table_are_right(head_dim):
    for settings in {
        row for (dim, _), rows in SETTINGS.items() if dim == head_dim for _, row in rows
    }:
        q, k, v = inputs(1, 2, 2, 150, 150, head_dim)
        assert_right(simulated(q, k, v, True, settings), q, k, v, True)


def test_heads_and_length_may_change_places():
    q, k, v = inputs(2, 4, 2, 70, 90)
    moved = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    out, lse = simulated(*moved, True, OVERLAPPED, layout="bmhd")
    assert_right((out.transpose(1, 2), lse), q, k, v, True)


def test_inputs_may_be_parts_of_one_tensor():
    qkv = torch.randn(2, 90, 3, 4, 64, generator=torch.Generator().manual_seed(0)).half()
    q, k, v = qkv.unbind(2)
    out, lse = simulated(q, k, v, True, OVERLAPPED, layout="bmhd")
    assert_right((out.transpose(1, 2), lse), *(as_bhmd(x, "bmhd") for x in (q, k, v)), True)


def test_a_scale_of_the_callers_own_counts():
    q, k, v = inputs(1, 1, 1, 64, 100)
    assert_right(simulated(q, k, v, False, OVERLAPPED, scale=0.3), q, k, v, False, 0.3)


def test_few_queries_of_heads_that_share_their_keys_share_a_tile():
    assert [heads_per_tile(queries, 8) for queries in (1, 8, 9, 16, 17, 32, 33, 64)] == [
        8, 8, 4, 4, 2, 2, 1, 1,
    ]  # fmt: skip
    assert [heads_per_tile(1, shared) for shared in (1, 2, 3, 4, 6, 12, 32)] == [
        1,
        2,
        1,
        4,
        2,
        4,
        8,
    ]
    q, k, _ = inputs(1, 8, 2, 16, 100)
    assert Plan(prepare(None, q, k, k, False, None, "bhmd")).grid == (2, 1, 1)


def test_heads_come_side_by_side_as_far_as_their_keys_fit_the_l2_cache():
    settings = HopperSettings(2, 128, 2, heads_in_l2=True)
    assert heads_side_by_side(settings, 32, 16_384, 128) == 2
    assert heads_side_by_side(settings, 32, 512, 128) == 32
    assert heads_side_by_side(settings, 32, 10**9, 128) == 1
    assert heads_side_by_side(settings._replace(heads_in_l2=False), 32, 512, 128) == 1


@pytest.mark.parametrize("change", [{"persistent": False}, {"consumers": 0}])
def test_a_second_slot_for_q_is_refused_where_the_output_leaves_through_the_first(change):
    launch = prepare(None, *inputs(1, 1, 1, 64, 64), False, None, "bhmd")
    with pytest.raises(ValueError, match="query_slots is 2, and must be 1 where a program has one"):
        Plan(launch, HopperSettings(2, 64, 2, query_slots=2)._replace(**change))
    assert Plan(launch, HopperSettings(2, 64, 2, query_slots=2)).values["QUERY_SLOTS"] == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"consumers": 4}, "consumers is 4, and must be 0 to 3"),
        ({"key_slots": 3}, "key_slots is 3, and must be at most slots, 2"),
        ({"consumers": 0, "key_slots": 3}, "key_slots is 3"),
        ({"in_turns": True, "overlap": False}, "in_turns takes two consumers or more, and overlap"),
        ({"in_turns": True, "consumers": 1}, "in_turns takes two consumers or more"),
    ],
)
def test_settings_under_which_programs_would_wait_without_end_are_refused(change, says):
    launch = prepare(None, *inputs(1, 1, 1, 64, 64), False, None, "bhmd")
    with pytest.raises(ValueError, match=says):
        Plan(launch, HopperSettings(2, 64, 2)._replace(**change))


@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_right(step):
    q, k, v = inputs(1, 2, 1, 200, 300)
    assert_right(simulated(q, k, v, True, STEPS[step]), q, k, v, True)


def test_a_step_has_those_above_it():
    *steps, last = STEPS.values()
    changes = [
        [new for new, old in zip(step, before, strict=True) if new != old]
        for before, step in itertools.pairwise(steps)
    ]
    assert all(len(change) == 1 for change in changes), changes
    assert last.consumers == 0


def test_the_last_heads_may_be_fewer_than_come_side_by_side(monkeypatch):
    q, k, v = inputs(1, 3, 3, 200, 100)
    monkeypatch.setattr(table, "KEYS_IN_L2", 2 * k[0, 0].nbytes * 2)
    settings = OVERLAPPED._replace(heads_in_l2=True)
    assert heads_side_by_side(settings, 3, 100, 64) == 2
    assert_right(simulated(q, k, v, True, settings), q, k, v, True)


def launches():
    """(head_dim, whether causal, queries, keys) that go through every row of the tables, each with
    keys that its tiles divide and with keys that they do not."""
    for (head_dim, causal), rows in SETTINGS.items():
        for most, settings in rows:
            keys = int(min(most, 16384))
            assert hopper_settings(head_dim, causal, keys, keys) == settings
            yield from ((head_dim, causal, n, n) for n in (keys, keys - 1))
    for head_dim in FEW_QUERIES:
        yield from ((head_dim, True, ROWS, keys) for keys in (1024, 1025))


FEW_BYTES = 96
"""What may wait in local memory while the loops run: a program's own arguments, and with a head_dim
of 256, where O and S fill the registers, what it needs once for a tile of queries."""


_compiled = {}


def compiled(q, k, causal, settings=None):
    """A launch compiled for sm_90. Sizes are never specialized, so launches that differ in nothing
    else are compiled once."""
    launch = prepare(None, q, k, k, causal, None, "bhmd")
    plan = Plan(launch, settings)
    blocks = [tuple(fields["block_shape"]) for fields in plan.descriptors]
    constants = [value for name, value in plan.values.items() if name.isupper()]
    what = (plan.kernel, q.dtype, *blocks, *constants)
    if what not in _compiled:
        _compiled[what] = lower(
            plan.kernel, *plan.arguments(q, k, k, launch.out, launch.lse),
            num_warps=4, target="sm_90",
        )  # fmt: skip
    return _compiled[what]


def loops(sass):
    """The innermost loops that multiply, each as its lines. A wait that is tried again stands at
    the end of the code, and makes no loop of what it jumps back over."""
    lines = [line for line in sass.splitlines() if "//" not in line]
    places = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r"(\.L_x_\d+):", line))}
    ends = ((i, re.search(r"@!?U?P\d BRA `\((\.L_x_\d+)\)", line)) for i, line in enumerate(lines))
    spans = [
        (places[to[1]], i)
        for i, to in ends
        if to and places[to[1]] < i and "TRYWAIT" not in lines[i - 1]
    ]
    bodies = {span: lines[slice(*span)] for span in spans}
    multiply = {span for span, body in bodies.items() if "HGMMA" in "".join(body)}
    return [
        bodies[first, last]
        for first, last in multiply
        if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in multiply)
    ]


def assert_nothing_is_spilled_in_a_loop(lowered):
    assert lowered.resources.fits, lowered.resources
    assert lowered.resources.spill_bytes <= FEW_BYTES, lowered.resources
    if re.search(r"^ +0 bytes stack frame", lowered.assembler.log, re.MULTILINE):
        return  # no loop can use local memory that is not there; disassembling takes long
    assert loops(lowered.sass)
    for body in loops(lowered.sass):
        assert not re.search(r"\b(LDL|STL)\b", "\n".join(body))


@pytest.mark.parametrize(("head_dim", "causal", "queries", "keys"), list(launches()))
def test_what_the_table_launches_fits_and_spills_nothing_in_its_loops(
    head_dim, causal, queries, keys
):
    # Each row in both dtypes, by turns with keys that its tiles divide: a compilation takes 6 s.
    dtype = (torch.float16, torch.bfloat16)[(keys + causal) % 2]
    q = torch.empty(1, 2, queries, head_dim, dtype=dtype)
    k = torch.empty(1, 2, keys, head_dim, dtype=dtype)
    lowered = compiled(q, k, causal)
    assert_nothing_is_spilled_in_a_loop(lowered)
    assert lowered.ptx.count("cp.async.bulk.tensor.4d.global") > 0
    assert "ld.global" not in lowered.ptx


@pytest.mark.parametrize("step", STEPS)
def test_every_step_fits_and_spills_nothing_in_its_loops(step):
    x = torch.empty(1, 2, 4096, 128, dtype=torch.float16)
    assert_nothing_is_spilled_in_a_loop(compiled(x, x, True, STEPS[step]))


def test_a_loop_that_spills_is_found():
    x = torch.empty(1, 2, 4096, 64, dtype=torch.float16)
    lowered = compiled(x, x, True, HopperSettings(3, 128, 2))
    if lowered.resources.spill_bytes:
        with pytest.raises(AssertionError):
            assert_nothing_is_spilled_in_a_loop(lowered)


@pytest.fixture
def hopper(monkeypatch):
    """This machine's tensors that say they are on a GPU are taken to be on an H200."""
    monkeypatch.setattr(device, "_properties", lambda index: device.Gpu((9, 0), 132, 227))
    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    monkeypatch.setattr(launching, "_plans", {})
    return monkeypatch


def gpu(*shape, dtype=torch.float16):
    return torch.Tensor._make_subclass(OnGpu, torch.empty(shape, dtype=dtype, device="meta"))


def serves(q, k=None, v=None, layout="bhmd"):
    k = q if k is None else k
    return plan_of(q, k, k if v is None else v, False, None, layout) is not None


def test_it_serves_its_head_dims_on_its_gpu(hopper):
    for head_dim, dtype in itertools.product((64, 128, 256), (torch.float16, torch.bfloat16)):
        assert serves(gpu(2, 4, 100, head_dim, dtype=dtype), gpu(2, 2, 77, head_dim, dtype=dtype))
    assert serves(gpu(2, 100, 4, 64), layout="bmhd")
    assert serves(gpu(2, 100, 3, 4, 64).unbind(2)[1], layout="bmhd")


@pytest.mark.parametrize("head_dim", [16, 32, 80, 96, 192])
def test_other_head_dims_are_left_to_others(hopper, head_dim):
    assert not serves(gpu(1, 1, 64, head_dim))


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0), (12, 0), (0, 0)])
def test_other_gpus_are_left_to_others(hopper, capability):
    hopper.setattr(device, "_properties", lambda index: device.Gpu(capability, 132, 227))
    assert not serves(gpu(1, 1, 64, 64))


def test_an_older_triton_the_interpreter_and_the_cpu_are_left_to_others(hopper):
    hopper.setattr(launching, "triton_version", lambda: (3, 8))
    assert not serves(gpu(1, 1, 64, 64))
    hopper.setattr(triton.knobs.runtime, "interpret", True)
    hopper.setattr(launching, "triton_version", lambda: (3, 10))
    assert not serves(gpu(1, 1, 64, 64))
    hopper.setattr(triton.knobs.runtime, "interpret", False)
    assert serves(gpu(1, 1, 64, 64))
    assert plan_of(*inputs(1, 1, 1, 64, 64), False, None, "bhmd") is None


def test_a_scale_of_numpys_is_a_scale(hopper):
    q = gpu(1, 1, 64, 64)
    assert plan_of(q, q, q, False, np.float64(0.5), "bhmd") is not None


def test_strides_that_no_descriptor_takes_are_left_to_others(hopper):
    assert not serves(gpu(1, 2, 64, 68)[..., :64])  # rows of 136 bytes
    assert not serves(gpu(1, 2, 64, 64), gpu(1, 1, 64, 64).expand(1, 2, 64, 64))
    assert not serves(gpu(1, 2, 64, 64), gpu(1, 2, 0, 64))


def test_a_tensor_that_does_not_begin_at_16_bytes_is_left_to_others(hopper):
    whole = torch.empty(64 * 64 + 8, dtype=torch.float16)
    for offset, aligned in ((8, True), (4, False)):
        x = whole[offset : offset + 64 * 64].view(1, 1, 64, 64)
        launch = prepare(None, x, x, x, False, None, "bhmd")
        hopper.setattr(launching, "available", lambda x: True)
        start = x.data_ptr() % 16 == 0
        assert servable(launch) == start
        assert whole.data_ptr() % 16 or start == aligned


def test_bad_input_stays_a_sentence(hopper):
    q = gpu(1, 1, 64, 64)
    for bad, error in (
        ((q, q, gpu(1, 1, 65, 64)), ValueError),
        ((q, q, gpu(1, 1, 64, 64, dtype=torch.float32)), ValueError),
        ((q, q, "v"), TypeError),
        ((gpu(2, 1, 64, 64), q, q), ValueError),
    ):
        with pytest.raises(error, match=r"^flash_attention: .*\.$"):
            flash_attention(*bad)
    with pytest.raises(ValueError, match="layout is 'mbhd'"):
        flash_attention(q, q, q, layout="mbhd")


def test_a_second_call_with_the_same_shapes_has_the_plan_of_the_first(hopper):
    def plan(x, causal=False, scale=None):
        return plan_of(x, x, x, causal, scale, "bhmd")

    first = plan(gpu(1, 2, 64, 64))
    assert plan(gpu(1, 2, 64, 64)) is first
    for other in (
        plan(gpu(1, 2, 65, 64)),
        plan(gpu(1, 2, 64, 64, dtype=torch.bfloat16)),
        plan(gpu(1, 64, 2, 64).transpose(1, 2)),
        plan(gpu(1, 2, 64, 64), causal=True),
        plan(gpu(1, 2, 64, 64), scale=0.5),
    ):
        assert other is not None and other is not first


def test_plans_do_not_pile_up(hopper):
    hopper.setattr(launching, "MOST_PLANS", 3)
    for length in range(1, 9):
        assert serves(gpu(1, 1, length, 64))
    assert len(launching._plans) <= 3


def test_a_later_call_launches_what_the_first_has_compiled_on_its_own_tensors(hopper):
    class Launches(list):
        """Stands for a kernel, or for what is compiled from it."""

        compiled = None

        def __getitem__(self, grid):
            return lambda *args, **options: self.append((grid, args, options)) or self.compiled

    hopper.setattr(torch.cuda, "current_device", lambda: None)
    q = gpu(2, 4, 100, 64)
    plan = plan_of(q, q, q, True, None, "bhmd")
    jitted, compiled = Launches(), Launches()
    jitted.compiled = compiled
    plan.kernel = jitted
    calls = [[gpu(2, 4, 100, 64) for _ in "qkv"] for _ in range(3)]
    results = [flash_attention(*call, causal=True, return_lse=True) for call in calls]
    assert (len(jitted), len(compiled)) == (1, 2)
    for (grid, args, _), call, (out, lse) in zip([*jitted, *compiled], calls, results, strict=True):
        assert grid == plan.grid
        assert all(each.base is x for each, x in zip(args[:4], [*call, out], strict=True))
        assert args[4] is lse
        named = dict(zip(launching.small_kernel.arg_names[5:], args[5:], strict=True))
        assert named == plan.values
        assert (named["seqlen_k"], named["IS_CAUSAL"], named["SLOTS"]) == (100, True, 2)
    assert [options for _, _, options in [*jitted, *compiled]] == [{"num_warps": 4}, {}, {}]


@pytest.mark.parametrize("settings", [HopperSettings(0, 64, 2, key_slots=1), OVERLAPPED])
def test_every_barrier_is_used_after_it_is_initialized(settings):
    """Else the memory of an unused one is a tile's as well."""
    x = torch.empty(1, 2, 512, 64, dtype=torch.float16)
    ptx = compiled(x, x, False, settings).ptx
    waited = 2 if settings.consumers else 1
    rings = {"q": max(settings.consumers, 1), "k": settings.key_slots or settings.slots}
    barriers = waited * (sum(rings.values()) + settings.slots)
    assert ptx.count("mbarrier.init") == barriers
