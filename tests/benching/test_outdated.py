"""A record of a kernel that was edited since says so wherever it is shown, and is recorded anew."""

import shutil
import sys
from dataclasses import dataclass, replace

import pytest
import typer
from matplotlib.axes import Axes

from course import attention_power, attention_timeline, draw, pins
from course.benching import outdated, source_hash
from course.benching.benchmarks import operation, operation_names
from course.benching.benchmarks import study as study_of
from course.benching.result import recorded
from course.errors import CourseError
from course.gpus.recorded import EARLIER, Machine, Recorded
from docs.site import speeds as site
from tests.support.outdated_records import OUTDATED
from tests.support.processes import ROOT, run
from tools import record as recording
from tools.record.__main__ import main as record_command


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """Returns a function that puts a copy of kernels/ in the place of the course's. text: of the
    file, old -> new."""

    def forget():
        source_hash._module.cache_clear()
        outdated.hash_of_today.cache_clear()

    def edit(file, old, new):
        path = tmp_path / "kernels" / file
        if not path.parent.is_dir():
            shutil.copytree(ROOT / "kernels", path.parent)
            monkeypatch.syspath_prepend(tmp_path)
            monkeypatch.delitem(sys.modules, "kernels", raising=False)
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        forget()

    yield edit
    monkeypatch.undo()
    forget()


@pytest.fixture
def all_edited(monkeypatch):
    """Every kernel is another than those that were recorded."""
    monkeypatch.setattr(outdated, "hash_of_today", lambda name: "of today")


def current(name):
    """A record as if the kernels as they stand had been timed for it."""
    return replace(recorded(name), source_hash=outdated.hash_of_today(name))


def test_a_table_says_that_its_kernel_was_edited_and_others_do_not(edited):
    add, blocks, matmul = map(current, ("vector_add", "vector_add_blocks", "matmul"))
    assert not any(EARLIER in str(record) for record in (add, blocks, matmul))
    edited("vector_add.py", "def add(", "def add(unused, ")
    assert str(add).endswith(f"; {EARLIER}.")
    assert EARLIER in str(blocks)
    assert EARLIER not in str(matmul)


def test_how_a_kernel_is_written_down_makes_no_record_outdated(edited):
    record = current("vector_add")
    edited("vector_add.py", "import triton\n", "import triton\n\n# a comment\n")
    assert not record.outdated


@pytest.mark.parametrize("new", ["def (", "def add_by_another_name("])
def test_a_kernel_that_is_gone_or_no_python_has_changed(edited, new):
    edited("vector_add.py", "def add(", new)
    assert recorded("vector_add").outdated


def test_another_projects_kernels_say_nothing_of_a_record(edited, tmp_path):
    edited("vector_add.py", "def add(", "def add(unused, ")
    assert recorded("vector_add").outdated
    (tmp_path / "kernels" / "vector_add.py").unlink()
    outdated.hash_of_today.cache_clear()
    assert not recorded("vector_add").outdated


@pytest.mark.parametrize("name", operation_names())
def test_the_functions_of_a_record_are_the_versions_of_its_ladder(name):
    ladder = operation(name).ladder.values()
    assert [f"{each.__module__}.{each.__name__}" for each in ladder] == [*outdated.TIMED[name]]


def test_to_tell_an_outdated_record_neither_torch_nor_a_kernel_is_imported():
    code = (
        "import sys; from course import recorded; recorded('softmax').outdated;"
        "from course.benching.outdated import hash_of_today; print(hash_of_today('softmax'));"
        "print({'torch', 'triton', 'kernels'} & {*sys.modules})"
    )
    found = run(sys.executable, "-c", code).stdout.split()
    assert found == [outdated.hash_of_today("softmax"), "set()"]


SHOWN = {
    "speeds": lambda: draw.speeds(recorded("vector_add")),
    "relative speeds": lambda: draw.speeds(recorded("vector_add"), relative_to="torch.add"),
    "ladder": lambda: draw.ladder(recorded("matmul"), {"matmul_v1": 32}),
    "roofline": lambda: draw.roofline(ladder=recorded("matmul"), per_byte={"matmul_v1": 32}),
    "timeline": lambda: draw.timeline(attention_timeline().of("two consumers")),
}


@pytest.mark.parametrize("what", SHOWN)
def test_a_picture_says_in_its_title_and_in_words_that_it_is_outdated(
    what, all_edited, monkeypatch
):
    titles = []
    monkeypatch.setattr(Axes, "set_title", lambda axes, text, **_: titles.append(text))
    assert EARLIER in SHOWN[what]().alt
    assert EARLIER in titles[0]


def test_what_else_carries_a_hash_says_so_too(all_edited):
    assert EARLIER in str(attention_power())
    assert EARLIER in str(attention_timeline().of("two consumers"))


def test_the_page_of_the_site_says_so_by_the_plot_and_in_it(all_edited):
    entry = site.entry(recorded("softmax"))
    label = entry.partition('aria-label="')[2].partition('"')[0]
    text = entry.partition('<svg viewBox="0 0')[2].partition("</svg>")[0]
    assert EARLIER in entry.partition("<figure")[0] and EARLIER in label
    assert f">{EARLIER}</text>" in text


def test_what_was_measured_now_is_never_outdated(all_edited):
    assert not replace(recorded("softmax"), recorded=False).outdated


def test_a_run_lists_what_is_to_be_recorded_anew(record_property):
    known = {entry.name for entry in recording.entries()}
    for debt in recording.debts():
        assert debt.split()[0] in known
        record_property(OUTDATED, debt)


NOTES = """
def test_that_notes(record_property):
    record_property("outdated record", "softmax was edited: record it on a GPU")

def test_other():
    pass
"""


IN_XDIST = ["-n", "1", "-p", "no:nbval", "-p", "no:playwright", "-p", "no:anyio"]


@pytest.mark.parametrize("options", [[], IN_XDIST], ids=["one process", "xdist"])
def test_what_a_test_notes_stands_at_the_end_once_and_fails_nothing(options, pytester):
    pytester.makepyfile(NOTES)
    result = pytester.runpytest_inprocess("-p", "tests.support.outdated_records", *options)
    result.assert_outcomes(passed=2)
    lines = [line for line in result.outlines if "softmax" in line]
    assert lines == ["softmax was edited: record it on a GPU"]
    assert "to be recorded anew on a GPU" in result.stdout.str()


@dataclass(frozen=True, repr=False)
class Number(Recorded):
    """Something that is measured."""

    value: int

    def __str__(self):
        return f"{self.value}, {self.source}"


HERE = Machine("A GPU", "1", "2", pins.TRITON, "2026-01-02", pinned_torch=pins.TORCH)


@pytest.fixture
def two(monkeypatch, tmp_path):
    """Two things to record, and the names of those that were measured."""
    done = []

    def entry(name):
        def measure() -> Number:
            done.append(name)
            return Number(1, machine=HERE)

        return recording.Entry(name, "group", tmp_path / f"{name}.json", measure)

    both = [entry("first"), entry("second")]
    monkeypatch.setattr(recording, "entries", lambda folder=None: both)
    monkeypatch.setattr(recording, "require_gpu", lambda: None)
    return both, done


def test_what_is_not_recorded_is_a_debt_until_it_is(two):
    (first, _), done = two
    assert recording.debts() == [
        "first is not recorded: `python -m tools.record first` on a GPU",
        "second is not recorded: `python -m tools.record second` on a GPU",
    ]
    assert recording.record(["first"]) == []
    assert done == ["first"] and first.path.is_file()
    assert recording.debts() == ["second is not recorded: `python -m tools.record second` on a GPU"]


def test_recording_goes_on_where_it_was_cut_off(two, monkeypatch):
    (first, second), done = two

    def cut_off() -> Number:
        raise KeyboardInterrupt

    monkeypatch.setattr(recording, "entries", lambda _: [first, replace(second, measure=cut_off)])
    with pytest.raises(KeyboardInterrupt):
        recording.record([])
    assert first.path.is_file() and not second.path.exists()
    monkeypatch.setattr(recording, "entries", lambda _: [first, second])
    recording.record([])
    assert done == ["first", "second"]
    recording.record([])
    assert done == ["first", "second"]


def test_a_name_and_all_record_what_is_up_to_date_too(two):
    _, done = two
    recording.record([])
    recording.record(["second"])
    recording.record(["group"])
    recording.record([], everything=True)
    assert done == ["first", "second"] + ["second"] + 2 * ["first", "second"]


def test_what_cannot_be_measured_is_said_and_the_rest_is_recorded(two, monkeypatch, capsys):
    (first, second), done = two

    def refuse() -> Number:
        raise CourseError("There is no ncu.")

    monkeypatch.setattr(recording, "entries", lambda _: [replace(first, measure=refuse), second])
    assert recording.record([]) == ["first: There is no ncu."]
    assert "first: There is no ncu." in capsys.readouterr().out
    assert done == ["second"]


def test_an_unknown_name_is_a_sentence_with_all_names(two):
    with pytest.raises(CourseError, match="under 'nope': there is first, group, second"):
        recording.record(["nope"])


def test_a_record_of_another_triton_is_a_debt(two, tmp_path):
    (first, _), _ = two
    older = replace(HERE, triton="3.0.0")
    first.path.write_text(Number(1, machine=older).to_json())
    assert f"was recorded before the course pinned Triton {pins.TRITON}" in first.debt()


def test_a_study_with_a_new_size_or_series_and_an_edited_kernel_are_debts(monkeypatch, tmp_path):
    path = tmp_path / "softmax_depths.json"
    record = replace(current("softmax_depths"), machine=HERE)
    path.write_text(record.to_json())
    sizes = [timing.x for timing in record.of("persistent")]
    _, study = study_of("softmax_depths")
    study = replace(study, xs=sizes, series=dict.fromkeys(record.series))
    entry = recording.Entry("softmax_depths", "softmax", path, study, study)
    assert entry.debt() is None
    larger = replace(study, xs=[*sizes, 99])
    assert "other series or sizes" in replace(entry, study=larger).debt()
    more = replace(study, series=study.series | {"more": None})
    assert "other series or sizes" in replace(entry, study=more).debt()
    monkeypatch.setattr(outdated, "hash_of_today", lambda name: "of today")
    assert entry.debt() == f"was {EARLIER}"


def test_a_check_for_a_release_fails_and_names_what_is_outdated(monkeypatch, capsys):
    monkeypatch.setattr(recording, "debts", lambda: ["softmax was edited"])
    with pytest.raises(typer.Exit) as ended:
        record_command(check=True)
    assert (ended.value.exit_code, capsys.readouterr().out) == (1, "softmax was edited\n")
    monkeypatch.setattr(recording, "debts", list)
    with pytest.raises(typer.Exit) as ended:
        record_command(check=True)
    assert (ended.value.exit_code, capsys.readouterr().out) == (0, "No record is outdated.\n")
