"""The part "Below tl" says what its kernels and pictures show."""

import re
from itertools import pairwise
from statistics import median

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from course import attention_power, attention_timeline, lower, recorded
from course.gpus.limits import target_of
from course.lessons.folders import ROOT
from course.lessons.order import EXERCISE
from course.lessons.without_solutions import stub as without_solution
from course.simulating.api import simulate
from course.simulating.barriers import Barrier
from course.simulating.faults import SimulationError
from kernels.attention.gluon.plan import Plan
from kernels.attention.gluon.settings import (
    LARGE_HEADS,
    SETTINGS,
    STEPS,
    HopperSettings,
    hopper_settings,
)
from kernels.attention.inputs import prepare
from tests.kernels.test_flash_attention_hopper import compiled, loops
from tests.simulating import kernels
from tests.simulating.kernels import descriptor
from tests.support.lesson import Lesson, lines_of, script_of, stands_in

LESSON = Lesson("Below tl")


def test_no_cell_needs_an_exercise_to_be_solved():
    names = set()
    for cell in LESSON.code:
        if EXERCISE.match(cell.split("\n")[0]):
            names |= set(re.findall(r"^def (\w+)", without_solution(cell), re.MULTILINE))
        elif not cell.startswith("check("):
            used = names & set(re.findall(r"\w+", cell))
            assert not used, f"{used} in {cell}"


def test_every_section_says_what_holds_on_other_gpus():
    sections = re.split(r"^## ", LESSON.text, flags=re.MULTILINE)[1:]
    endings = ("What you can do now", "Further reading", "On your own", "In practice")
    told = [part for part in sections if not part.startswith(endings)]
    assert len(told) > 10
    for part in told:
        assert "**On other GPUs.**" in part, part.splitlines()[0]


FILES = sorted((ROOT / "kernels" / "attention" / "gluon").glob("[!_]*.py"))
READ = LESSON.text.split("## Read the fastest kernel")[1].split("\n## ")[0]
QUOTED = re.findall(r"^```python\n(.*?)^```", READ, re.MULTILINE | re.DOTALL)


RESCALED = LESSON.text.split("### When the card has no more power")[1]
QUOTED_LATER = re.findall(r"^```python\n(.*?)^```", RESCALED, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "piece",
    [*QUOTED, *QUOTED_LATER],
    ids=[piece.split("\n")[0] for piece in [*QUOTED, *QUOTED_LATER]],
)
def test_what_the_lesson_quotes_stands_in_the_kernels(piece):
    assert len(lines_of(piece)) <= 12
    assert stands_in(piece, FILES)


def test_under_every_piece_stands_a_question_with_a_folded_answer():
    questions = re.findall(r"^\*\*(\d+)\.\*\* ", READ, re.MULTILINE)
    assert questions == [str(number) for number in range(1, len(questions) + 1)]
    assert READ.count("<summary>Answer</summary>") == len(questions) == len(QUOTED)


def test_the_kernel_has_as_many_files_as_the_lesson_says():
    assert "in seven files" in LESSON.flat
    assert len(FILES) == 7


def test_the_registers_of_the_questions_are_those_of_the_settings():
    assert HopperSettings(2, 128, 2).registers == (240, 24)
    assert HopperSettings(3, 128, 2).registers == (160, 32)
    assert 3 * 160 + 32 == 4 * (65_536 // 512)
    assert 3 * 128 * 240 == 92_160 > 65_536


def test_the_consumers_of_the_lessons_attention_take_240_registers(tmp_path):
    kernels = [cell for cell in LESSON.code if "@gluon.jit" in cell]
    imports = [line for line in LESSON.imports.split("\n") if "gluon" in line]
    lesson = script_of(tmp_path, *imports, *kernels)
    q, k = torch.zeros(2, 256, 64, dtype=torch.float16)
    layout = gl.NVMMASharedLayout.get_default_for([128, 64], gl.float16)
    q_desc = TensorDescriptor.from_tensor(q, [128, 64], layout)
    k_desc = descriptor(k, [64, 64])
    arguments = (q_desc, k_desc, k_desc, torch.zeros(256, 64), 4, 1.0, 2, True)
    ptx = lower(lesson.attention_kernel, *arguments, target="sm_90").ptx
    numbers = set(re.findall(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32\s+(\d+);", ptx))
    assert {("inc", "240"), ("dec", "24")} <= numbers


TIMES = attention_timeline()
WATCHED = LESSON.text.split("## Watch the warps")[1].split("\n## ")[0]


def consumers(step, state, program=0, warps=(0, 4)):
    """(start, end) of each span of a state, of the first warps of both consumers."""
    spans = TIMES.of(step).spans
    return [
        [(span.start, span.end) for span in spans[program, warp] if span.state == state]
        for warp in warps
    ]


def shared(one, others):
    """The share of the spans of one that lies within those of others."""
    within = sum(
        max(0, min(end, stop) - max(start, begin)) for start, end in one for begin, stop in others
    )
    return within / sum(end - start for start, end in one)


def test_the_producer_waits_for_a_slot_two_thirds_of_the_time():
    assert TIMES.of("one consumer").shares["producer"]["wait for a slot"] == pytest.approx(
        2 / 3, abs=0.02
    )
    assert "two thirds of the time waiting for a slot" in " ".join(WATCHED.split())


def test_the_consumer_waits_for_tiles_mostly_before_its_first_product():
    (waiting,) = consumers("one consumer", "wait for a tile", warps=(0,))
    (starts,) = consumers("one consumer", "start a product", warps=(0,))
    waits = {begin: end - begin for begin, end in waiting}
    before = sum(cycles for begin, cycles in waits.items() if begin < starts[0][0])
    assert before / sum(waits.values()) == pytest.approx(3 / 4, abs=0.01)
    assert max(cycles for begin, cycles in waits.items() if begin > starts[0][0]) < 110
    assert "Three quarters of it lie before the first product" in LESSON.flat
    share = TIMES.of("one consumer").shares["consumer"]["wait for a tile"]
    assert f"the {share:.0%} that the consumer waits for a tile" in LESSON.flat


def test_each_multiprocessor_has_the_same_number_of_tiles_of_queries():
    assert "With 33 heads, all 132 multiprocessors get the same" in LESSON.flat
    for name in ("one consumer", "two consumers", "scores a tile ahead", "consumers take turns"):
        launch = TIMES.of(name).launch
        assert launch.heads == 33
        assert launch.heads * launch.length % (132 * STEPS[name].queries) == 0


def test_the_form_without_partitions_is_taken_where_the_lesson_says():
    for row in (
        "| 64 | short sequences | all lengths |", "| 128 | never | short sequences |",
        "| 256 | never | never |",
    ):  # fmt: skip
        assert row in LESSON.text
    small = {
        (d, causal): [n for n in LENGTHS if hopper_settings(d, causal, n, n).consumers == 0]
        for d in (64, 128, 256)
        for causal in (False, True)
    }
    assert small[64, True] == list(LENGTHS)
    for d, causal in ((64, False), (128, True)):
        assert small[d, causal] and small[d, causal] == list(LENGTHS[: len(small[d, causal])])
    assert not small[128, False] and not small[256, False] and not small[256, True]


def test_the_softmax_under_products_is_what_the_answer_works_out():
    under = {step: TIMES.of(step).softmax_under_products for step in TIMES.launches}
    assert under["one consumer"] == 0
    assert under["two consumers"] == pytest.approx(1 / 5, abs=0.02)  # four fifths are not
    assert under["scores a tile ahead"] >= 7 / 8
    assert TIMES.launches["scores a tile ahead"].length == 8 * 128


def test_two_consumers_go_nearly_in_step():
    first, second = consumers("two consumers", "start a product")
    behind = [later[0] - earlier[0] for earlier, later in zip(first, second, strict=True)]
    assert all(450 < cycles < 565 for cycles in behind[2:])  # two products for each tile
    assert "about 500 cycles" in LESSON.flat
    first, second = consumers("two consumers", "softmax")
    assert shared(first, second) > 0.5 and shared(second, first) > 0.5
    long = median(end - start for start, end in first + second)
    assert long / median(behind) == pytest.approx(2.5, abs=0.1)


def test_with_the_scores_ahead_a_product_is_under_way_from_the_second_tile_to_the_last():
    step = TIMES.of("scores a tile ahead")
    starts, _ = consumers(step.name, "start a product")
    _, (begin, end), _ = step.with_product[:3]
    assert begin <= starts[1][0] and end >= starts[-1][0] - 250  # but for the wait for the last V
    assert (
        sum("between=(0, 34_000)" in cell for cell in LESSON.code) == 3
    )  # one scale for three steps
    for name in ("one consumer", "two consumers", "scores a tile ahead"):
        assert TIMES.of(name).extent(0)[1] <= 34_000  # the first program is shown to its end


def test_a_scope_around_nothing_takes_two_reads_of_the_clock():
    step = TIMES.of("scores a tile ahead")
    assert not STEPS[step.name].in_turns
    slivers = [
        span.end - span.start
        for spans in step.spans.values()
        for span in spans
        if span.state == "wait for its turn"
    ]
    assert f"{median(slivers):.0f} cycles on the median" in LESSON.flat


def test_small_programs_hide_their_softmax_and_pay_with_copies():
    small = TIMES.of("small programs")
    assert (small.launch.length, len(small.launch.programs), small.side_by_side) == (512, 4, True)
    assert f"{small.softmax_under_products:.0%}, runs under some product" in LESSON.flat
    copies = small.shares["warp group"]["start a copy"]
    assert f"which takes it {copies:.0%} of the time" in LESSON.flat
    assert "start a copy" not in TIMES.of("two consumers").shares["consumer 0"]


@pytest.mark.parametrize(
    ("step", "said", "cycles"),
    [("consumers take turns", "6,400", 6400), ("the next Q early", "1,400", 1400)],
)
def test_between_two_tiles_of_queries_no_product_is_under_way_for_as_long_as_it_says(
    step, said, cycles
):
    gaps = [after[0] - before[1] for before, after in pairwise(TIMES.of(step).with_product)]
    assert max(gaps) == pytest.approx(cycles, rel=0.05)
    assert f" {said} " in LESSON.flat


STUDIES = [
    f"{head_dim}{mask}{dtype}"
    for head_dim in (64, 128, 256)
    for mask in ("", "_causal")
    for dtype in ("", "_bfloat16")
]
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)


def shares(name, series):
    """Parts of cuDNN's speed, by length."""
    run = recorded(f"flash_attention_hopper_{name}")
    return {n: run.at("torch, cuDNN", n).ms / run.at(series, n).ms for n in LENGTHS}


def test_each_step_gains_what_the_lesson_says():
    of = {step: shares("128", step) for step in STEPS}
    tl = shares("128", "flash_attention_tl")
    assert "One consumer, which waits for everything by itself, is slower than `tl`" in LESSON.flat
    assert all(of["one consumer"][n] < tl[n] for n in LENGTHS)
    assert "about a third faster" in LESSON.flat
    gains = [of["two consumers"][n] / of["one consumer"][n] for n in LENGTHS]
    assert all(1.28 < gain < 1.39 for gain in gains), gains
    assert "With turns the kernel passes `tl` from 1,024 keys on" in LESSON.flat
    turns = of["consumers take turns"]
    assert [n for n in LENGTHS if turns[n] > tl[n]] == list(LENGTHS[1:])
    assert "from 2,048 on it is between 0.96 and 1.02 of cuDNN" in LESSON.flat
    rounded = [round(turns[n], 2) for n in LENGTHS[2:]]
    assert (min(rounded), max(rounded)) == (0.96, 1.02)
    assert min(turns[n] for n in LENGTHS[2:]) < 1 < max(turns[n] for n in LENGTHS[2:])
    assert (
        "The persistent program passes cuDNN at every length, and gains most on short"
        in LESSON.flat
    )
    persistent = of["persistent"]
    assert all(persistent[n] > 1 for n in LENGTHS)
    gains = [persistent[n] / turns[n] for n in LENGTHS]
    assert min(gains[:2]) > max(gains[2:])


def test_the_small_programs_pass_what_all_other_steps_together_do_not():
    together = shares("64_causal", "heads share the L2 cache")
    assert "All the steps together do not reach cuDNN here" in LESSON.flat
    assert all(share < 1 for share in together.values())
    small = shares("64_causal", "small programs")
    assert "at every length but one" in LESSON.flat
    assert sum(share > 1 for share in small.values()) == len(LENGTHS) - 1


def test_the_points_below_cudnn_are_those_that_the_lesson_tells_of():
    points = {
        (name, n): share for name in STUDIES for n, share in shares(name, "flash_attention").items()
    }
    faster = sum(share > 1 for share in points.values())
    assert f"It is faster than cuDNN at {faster} of {len(points)} points" in LESSON.flat
    assert "from 2,048 keys on at all of them" in LESSON.flat
    slower = {point for point, share in points.items() if share < 1}
    assert all(n < 2048 and "_causal" in name for name, n in slower)
    assert "2 to 8 tiles of keys" in LESSON.flat
    settings = hopper_settings(256, True, 512, 512)
    tiles = range(settings.queries, 513, settings.queries)
    seen = [last // settings.block_n for last in tiles]
    assert (seen[0], seen[-1]) == (2, 8)


def test_what_is_left_for_an_output_is_what_the_answer_counts():
    settings = hopper_settings(256, False, 8192, 8192)
    assert (settings.consumers, settings.block_n, settings.slots) == (2, 64, 2)
    queries, rings = settings.queries * 256 * 2, 2 * 2 * 64 * 256 * 2
    assert "Q takes 2 * 64 rows of 512 bytes, 65,536 bytes" in LESSON.flat and queries == 65_536
    assert "4 * 64 * 512 = 131,072" in LESSON.flat and rings == 131_072
    left = target_of("sm_90").shared_bytes - queries - rings
    assert f"That leaves {left:,} bytes" in LESSON.flat
    assert queries / 2 <= left < queries
    assert all(row.out_halves for _, row in SETTINGS[256, False])


POWER = attention_power()


def test_the_table_of_power_says_what_the_lesson_reads_in_it():
    cudnn, always, needed = POWER.loads.values()
    assert f"{1 - always.cycles / cudnn.cycles:.0%} fewer cycles" in LESSON.flat
    assert f"only {1 - always.ms / cudnn.ms:.0%} faster" in LESSON.flat
    assert cudnn.tensor_percent < always.tensor_percent < needed.tensor_percent
    assert always.mhz < cudnn.mhz and needed.mhz < always.mhz
    assert all(abs(load.watts - 690) < 7 for load in POWER.loads.values())
    joules = [load.ms * load.watts / 1e3 for load in POWER.loads.values()]
    assert f"{joules[0]:.2f} J and {joules[1]:.2f} J, divided by the same 690 W" in LESSON.flat
    more = always.instructions / cudnn.instructions - 1
    assert f"{more:.0%} more instructions than cuDNN's" in LESSON.flat
    fewer = 1 - needed.instructions / always.instructions
    assert f"{fewer:.0%} fewer instructions" in LESSON.flat
    assert f"at work {needed.tensor_percent:.0f}% of the time" in LESSON.flat
    assert f"takes {joules[2]:.2f} J, and so {1 - needed.ms / always.ms:.0%} less" in LESSON.flat


def test_the_loop_has_as_many_instructions_as_the_lesson_says():
    counts = {}
    for lazy in (False, True):
        x = torch.empty(1, 8, 512, 256, dtype=torch.float16)
        (one, other) = loops(compiled(x, x, False, LARGE_HEADS._replace(lazy_rescale=lazy)).sass)
        assert one.count("\n") == other.count("\n")
        counts[lazy] = [sum(";" in line for line in loop) for loop in (one, other)]
    assert "has 430 instructions or so" in LESSON.flat
    assert all(count == pytest.approx(430, abs=10) for count in counts[False])
    assert "costs its 20 instructions" in LESSON.flat
    more = [b - a for a, b in zip(sorted(counts[False]), sorted(counts[True]), strict=True)]
    assert all(extra == pytest.approx(20, abs=7) for extra in more), counts


def test_only_large_heads_are_rescaled_lazily():
    assert "At D = 64 and 128 there is less to save" in LESSON.flat
    for (head_dim, _), rows in SETTINGS.items():
        assert all(row.lazy_rescale == (head_dim == 256) for _, row in rows)


RINGS = {
    "The consumer asks: is it full?": ("no wait for full", "early read"),
    "The producer asks: is it empty, may I overwrite it?": ("no wait for empty", "too many "
    "arrivals"),
    "a consumer that is done with a buffer says so with": ("never arrives", "arrivals"),
    "as many **arrivals** have come as it was initialized for": (
        "one arrival too many asked", "arrivals",
    ),
    "all the bytes have come that were announced": ("too many bytes expected", "bytes"),
    "the producer waits for `phase ^ 1`, the other one": ("wrong phase of empty", "arrivals"),
    "waits for the phase whose number is the parity of its round": (
        "wrong phase of full", "early read",
    ),
    "until a **proxy fence**, `fence_async_shared()`, has ordered the two": ("no fence", "no "
    "fence"),
    "The same holds before a copy overwrites what threads have read": (
        "no fence before the next copy", "no fence",
    ),
}  # fmt: skip
PRODUCTS = {
    "its value is what `warpgroup_mma_wait(n, deps=[acc])` returns": (
        "product not waited for", "no product wait",
    ),
    "their buffers are being read, and may not be filled again before that": (
        "operand overwritten", "early refill",
    ),
}  # fmt: skip
"""What the lessons say of who waits for whom -> the kernel's fault that breaks it, and its kind."""


@pytest.mark.parametrize("words", [*RINGS, *PRODUCTS])
def test_what_is_said_of_order_is_what_simulate_asks_for(words):
    assert words in LESSON.flat
    fault, kind = (RINGS | PRODUCTS)[words]
    with pytest.raises(SimulationError) as caught:
        if words in RINGS:
            simulate(kernels.ring_kernel, (1,), *kernels.ring_arguments(7, 2, fault)[0])
        else:
            simulate(kernels.product_kernel, (1,), *kernels.product_arguments(fault)[0])
    assert caught.value.kind == kind


def test_what_is_said_of_a_barriers_phases():
    barrier = Barrier("full")
    barrier.init(1)
    assert "a wait for 0 waits for the first copy, and a wait for 1 goes on at once" in LESSON.flat
    assert not barrier.has_ended(0) and barrier.has_ended(1)
    assert "whoever waits for 0 when the second copy has come waits for a third" in LESSON.flat
    for phases in (1, 2, 3):
        barrier.arrive(1, announced=64)
        barrier.came(64)
        assert barrier.has_ended(0) == (phases != 2)


def test_what_is_left_out_is_said():
    assert "and `simulate` does not look for it" in LESSON.flat  # the fence behind an init
    x = descriptor(torch.zeros(16, 64, dtype=torch.float16), [16, 64])
    simulate(unfenced_kernel, (1,), x)


@gluon.jit
def unfenced_kernel(x_desc):
    x = gl.allocate_shared_memory(x_desc.dtype, [16, 64], x_desc.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.expect(full, x_desc.nbytes_per_cta)
    tma.async_load(x_desc, [0, 0], full, x)
    mbarrier.wait(full, 0)


def test_with_more_slots_for_k_than_for_v_the_small_kernel_waits_forever(monkeypatch):
    assert "never asks for some tile, and waits for it forever" in LESSON.flat
    settings = HopperSettings(0, 64, 1, key_slots=2)
    q = torch.zeros(1, 1, 64, 64, dtype=torch.float16)
    k = torch.zeros(1, 1, 192, 64, dtype=torch.float16)
    launch = prepare(None, q, k, k, False, None, "bhmd")
    with pytest.raises(ValueError, match="key_slots"):
        Plan(launch, settings)
    monkeypatch.setattr(HopperSettings, "check", lambda self: None)
    plan = Plan(launch, settings)
    with pytest.raises(SimulationError, match="wait"):
        arguments = plan.arguments(q, k, k, launch.out, launch.lse)
        simulate(plan.kernel, plan.grid[:1], *arguments, orders=["in order"])
