"""The timeline of attention: scopes that change nothing, the trace, and what is counted of it."""

import re

import pytest

from course.benching import result
from course.benching.attention_timeline import (
    AttentionTimeline,
    Span,
    TracedLaunch,
    TracedProgram,
    Warp,
    attention_timeline,
    products_under_way,
)
from course.errors import CourseError
from course.gpus.recorded import Machine
from kernels.attention.gluon.settings import ROWS
from tests.support.scoped_attention import compiled
from tools.record import attention_timeline as recording

MACHINE = Machine("A GPU", "1.2", "2.11.0+cu130", "3.9.0", "2026-01-02")
WAITS_OR_RELEASES = r"HGMMA|DEPBAR\.LE gsb|TRYWAIT|SYNCS\.ARRIVE"


@pytest.fixture(scope="module")
def scopes():
    """Step -> the beginnings and ends of scopes in its traced kernel, and branches and loops."""
    marks = r'proton\.record (start|end) "([^"]*)"|\b(scf\.(?:if|for|while|yield))\b'
    return {
        step: re.findall(marks, compiled(step, "traced", "ttgir"))
        for step in ("consumers take turns", "small programs")
    }


def test_a_scope_ends_before_another_one_begins_and_in_the_same_block(scopes):
    for marks in scopes.values():
        inside = None
        for kind, state, branch in marks:
            if branch or kind == "start":
                assert inside is None
            if kind:
                assert kind == "start" or state == inside
                inside = state if kind == "start" else None
        assert inside is None


def test_together_the_kernels_have_every_state(scopes):
    states = {state for marks in scopes.values() for kind, state, _ in marks if kind}
    assert states == {*recording.NAMES}


@pytest.mark.parametrize("step", ["two consumers", "scores a tile ahead", "small programs"])
def test_without_proton_the_copies_compile_to_the_kernels_own_instructions(step):
    plain, scoped = (instructions(compiled(step, which)) for which in ("plain", "scoped"))
    assert plain == scoped


@pytest.mark.parametrize("step", ["two consumers", "scores a tile ahead"])
def test_between_the_clocks_around_a_softmax_stand_its_exp2_and_nothing_that_waits(step):
    parts = [[]]  # the instructions from one read of the clock to the next
    for instruction in instructions(compiled(step, "traced")):
        parts.append([]) if "SR_CLOCKLO" in instruction else parts[-1].append(instruction)
    of_a_thread = ROWS * recording.STEPS[step].block_n // 128
    counts = [sum("MUFU.EX2" in each for each in part) for part in parts]
    with_some = [count for count in counts if count]
    assert with_some and min(with_some) >= of_a_thread
    for part, count in zip(parts, counts, strict=True):
        waits = [each for each in part if re.search(WAITS_OR_RELEASES, each)]
        assert not (count and waits)


def instructions(code):
    """The instructions of SASS, without their addresses."""
    rows = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", code)
    return [row.strip() for row in rows]


def event(name, cta, core, warp, cycles, begins, lasts=100):
    """A span of Proton's trace. cycles: from where to where, since its program began."""
    start, end = (each / 1000 + begins / 1000 for each in cycles)
    return {
        "name": name, "pid": f"attention_kernel Core{core} CTA{cta}",
        "tid": f"warp {warp} (line 0)", "ts": start, "dur": end - start, "cat": "attention_kernel",
        "args": {"Init Time (ns)": 7000 + begins, "Post Final Time (ns)": 7000 + begins + lasts},
    }  # fmt: skip


def read(*events):
    text = recording.msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ns"})
    return recording.msgspec.json.decode(text, type=recording.Trace).events


def test_of_two_launches_the_last_one_is_kept_with_cycles_from_its_programs_beginning():
    events = read(
        event("softmax", 3, 5, 0, (0, 40), begins=0),
        event("softmax", 3, 2, 0, (10, 50), begins=900),
        event("wait for a product", 3, 2, 0, (55, 60), begins=900),
        event("start a copy", 3, 2, 8, (0, 4), begins=900, lasts=110),
        event("softmax", 1, 2, 0, (0, 9), begins=1500),
    )
    first, second = recording.programs_of(events, 2, consumers=1)
    assert (first.number, first.begins_ns, first.lasts_ns) == (3, 0, 110)
    assert (second.number, second.begins_ns) == (1, 600)
    assert [(warp.number, warp.role) for warp in first.warps] == [(0, "consumer"), (8, "producer")]
    states = recording.NAMES
    assert first.warps[0].spans(states) == [
        Span("softmax", 10, 50),
        Span("wait for a product", 55, 60),
    ]
    with pytest.raises(CourseError, match="has run 3 programs"):
        recording.programs_of(events, 3, consumers=1)


def test_roles_follow_from_what_a_warp_does():
    events = read(
        event("softmax", 0, 0, 3, (0, 4), 0),
        event("softmax", 0, 0, 4, (0, 4), 0),
        event("wait for a slot", 0, 0, 10, (0, 4), 0),
    )
    ((two,), (small,)) = (recording.programs_of(events, 1, consumers) for consumers in (2, 0))
    assert [warp.role for warp in two.warps] == ["consumer 0", "consumer 1", "producer"]
    assert {warp.role for warp in small.warps} == {"warp group"}


STATES = ("softmax", "start a product", "wait for a product")
SOFTMAX, START, WAIT = range(3)


def launch_of(*programs):
    record = AttentionTimeline(
        machine=MACHINE, source_hash="", states=STATES,
        launches={"a step": TracedLaunch(128, 1024, 2, 30.0, 33.0, programs)},
    )  # fmt: skip
    return record.of("a step")


def test_shares_are_of_the_time_of_a_program_and_add_up_to_all_of_it():
    one = Warp(0, "consumer", ((SOFTMAX, 0, 50), (WAIT, 10, 40)))
    other = Warp(8, "producer", ((WAIT, 20, 30),))
    shares = launch_of(TracedProgram(0, 0, 100, (one, other))).shares
    assert shares["consumer"] == pytest.approx(
        {"softmax": 0.5, "wait for a product": 0.4, "other": 0.1, "has ended": 0}
    )
    assert shares["producer"]["has ended"] == 0.5
    assert sum(shares["producer"].values()) == pytest.approx(1)


def test_a_product_is_under_way_from_its_start_to_the_wait_that_ends_it():
    spans = [
        Span("start a product", 0, 2), Span("start a product", 4, 6),
        Span("wait for a product", 7, 10), Span("softmax", 10, 20),
        Span("wait for a product", 20, 21), Span("start a product", 30, 31),
        Span("wait for a product", 31, 40),
    ]  # fmt: skip
    assert products_under_way(spans) == [(0, 10), (4, 21), (30, 40)]


def test_the_times_of_products_of_several_warps_are_counted_once():
    first = Warp(0, "consumer 0", ((START, 0, 10), (WAIT, 0, 30), (SOFTMAX, 0, 60)))
    second = Warp(4, "consumer 1", ((START, 30, 10), (WAIT, 0, 20)))
    launch = launch_of(TracedProgram(0, 0, 100, (first, second)))
    assert launch.with_product == [(0, 60)]
    assert launch.without_product == pytest.approx(0.4)


def test_a_softmax_runs_under_products_of_its_own_warp_and_of_others():
    own = Warp(0, "consumer 0", ((START, 0, 10), (SOFTMAX, 0, 20), (WAIT, 0, 10), (SOFTMAX, 0, 40)))
    other = Warp(4, "consumer 1", ((START, 70, 5), (WAIT, 0, 5)))
    launch = launch_of(TracedProgram(0, 0, 100, (own, other)))
    assert launch.softmax_under_products == pytest.approx((20 + 10) / 60)


def test_a_program_that_began_later_is_moved_by_the_clock_rate_of_all():
    warp = Warp(0, "warp group", ((SOFTMAX, 0, 200),))
    launch = launch_of(TracedProgram(0, 0, 100, (warp,)), TracedProgram(9, 50, 100, (warp,)))
    assert [spans[0].start for spans in launch.spans.values()] == [0, 100]
    assert launch.extent(1) == (100, 300) and launch.cycles == 300
    assert launch.side_by_side
    after = launch_of(TracedProgram(0, 0, 100, (warp,)), TracedProgram(9, 100, 100, (warp,)))
    assert not after.side_by_side


def test_json_keeps_all_of_it_with_a_line_for_each_warp():
    warp = Warp(0, "warp group", ((SOFTMAX, 0, 200), (START, 3, 4)))
    record = launch_of(
        TracedProgram(0, 0, 100, (warp, warp)), TracedProgram(9, 50, 100, (warp,))
    ).record
    text = record.to_json()
    assert sum("steps" in line for line in text.splitlines()) == 3
    again = AttentionTimeline.from_json(text)
    assert again.launches == record.launches and again.recorded


def test_a_step_that_is_not_recorded_is_answered_with_those_that_are():
    warp = Warp(0, "warp group", ((SOFTMAX, 0, 200),))
    with pytest.raises(CourseError, match="'no such' is recorded: there are 'a step'"):
        launch_of(TracedProgram(0, 0, 100, (warp,))).record.of("no such")


def test_a_launch_prints_its_shares_by_role():
    warp = Warp(0, "warp group", ((SOFTMAX, 0, 50), (START, 0, 10), (WAIT, 0, 40)))
    text = str(launch_of(TracedProgram(0, 0, 100, (warp,))))
    assert re.search(r"^softmax +50%$", text, re.MULTILINE)
    assert "50% of the time" in text and "30.0 us, and 33.0 us" in text


def test_without_a_record_one_is_told_how_to_make_it(monkeypatch, tmp_path):
    monkeypatch.setattr(result, "OBSERVED", tmp_path)
    with pytest.raises(CourseError, match="No attention_timeline is recorded: `make record`"):
        attention_timeline()


def test_the_record_is_of_the_kernels_as_they_are_and_of_every_case():
    record = attention_timeline()
    assert record.states == recording.NAMES
    assert list(record.launches) == [*recording.CASES]
    for name, case in recording.CASES.items():
        launch = record.launches[name]
        assert (launch.head_dim, launch.length, launch.heads) == (
            case.head_dim, case.length, case.heads,
        )  # fmt: skip
        assert len(launch.programs) == case.programs


def test_no_span_of_the_record_was_lost():
    """A warp whose buffer is too small loses its first spans: then products would be missing."""
    record = attention_timeline()
    start = record.states.index("start a product")
    for name, launch in record.launches.items():
        tiles = -(-launch.length // recording.STEPS[name].block_n)
        for warp in (warp for program in launch.programs for warp in program.warps):
            products = sum(state == start for state, _, _ in warp.steps)
            assert products % (2 * tiles) == 0 and (products > 0) == (warp.role != "producer")
            assert all(gap >= 0 and cycles >= 0 for _, gap, cycles in warp.steps)
