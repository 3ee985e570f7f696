"""What a leader reads of a lesson is made from the lesson and its exercises."""

import re

import pytest

from course.errors import CourseError
from course.exercises import teaching
from course.exercises.answers import mistakes
from course.lessons.folders import ROOT
from course.lessons.minutes import ENDS, rounded, sections
from course.lessons.order import ROUTES, lesson_sources
from course.lessons.without_solutions import solved

GUIDE = (ROOT / "TEACHING.md").read_text()
TOGETHER = ROOT / "docs" / "teaching" / "pilot"


@pytest.fixture(scope="module")
def pages():
    return {path.stem: text for path, text in teaching.pages().items()}


def table_rows(text: str) -> list[list[str]]:
    return [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in text.split("\n") if "|" in line]


def test_a_page_has_every_exercise_of_its_lesson_with_every_usual_mistake(pages):
    for name in ("00-your-first-kernel", "07-programs-that-share"):
        parts = re.split(r"^`([a-z-]+)`: (?:core|stretch)", pages[name], flags=re.MULTILINE)
        texts = dict(zip(parts[1::2], parts[2::2], strict=True))
        assert len(texts) >= 2
        for exercise, text in texts.items():
            usual = mistakes(exercise)
            rows = table_rows(text)[2:]
            assert [row[0].replace("\\", "") for row in rows] == [each.name for each in usual]
            assert [row[2].replace("\\", "") for row in rows] == [each.means for each in usual]


def test_a_plan_takes_the_sections_of_its_route_and_adds_their_minutes_up(pages):
    half, day = pages["plans"].split("\n## ")[1:3]
    for text, route in ((half, "an evening"), (day, "a long day")):
        timed = [
            (section.title, rounded(section.core))
            for source in lesson_sources()
            if source.stem[3:] in ROUTES[route]
            for section in sections(solved(source))
        ]
        rows = [row for row in table_rows(text)[2:] if row[1]]
        assert [(row[2], int(row[3])) for row in rows] == timed
        total = sum(minutes for _, minutes in timed)
        assert f"about {total // 60}:{total % 60:02d}" in text.split("\n")[0]
    assert len(re.findall("a break", half)) >= 1


def test_every_section_has_a_note_and_every_note_a_section():
    notes = teaching.read_notes()
    for source in lesson_sources():
        titles = {section.title for section in sections(solved(source))} - {ENDS}
        assert titles == set(notes.get(source.stem[3:], {})), source.name
    assert teaching.lost_notes() == []


def test_a_page_that_was_changed_by_hand_is_said_to_be_out_of_date(monkeypatch, tmp_path):
    texts = {tmp_path / "a.md": "as it must be\n", tmp_path / "b.md": "missing\n"}
    monkeypatch.setattr(teaching, "pages", lambda: texts)
    monkeypatch.setattr(teaching, "ROOT", tmp_path)
    (tmp_path / "a.md").write_text("by hand\n")
    out_of_date = "is out of date: run `course teaching`."
    assert teaching.problems() == [f"a.md {out_of_date}", f"b.md {out_of_date}"]
    assert teaching.write() == [tmp_path / "a.md", tmp_path / "b.md"]
    assert teaching.problems() == []
    assert teaching.write() == []


def test_a_note_without_what_may_be_skipped_is_refused(tmp_path):
    notes = tmp_path / "sections.toml"
    notes.write_text('[00."Two modes"]\nwhy = "because"\n')
    with pytest.raises(CourseError, match=r"sections.toml cannot be read .*skip"):
        teaching.read_notes(notes)


def test_the_questions_before_and_after_are_ten_and_no_exercises(pages):
    questions = (TOGETHER / "questions.md").read_text()
    numbers = re.findall(r"^(\d+)\. ", questions.split("\n## Answers")[0], re.MULTILINE)
    assert numbers == [str(number) for number in range(1, 11)]
    answers = re.findall(r"^(\d+)\. ", questions.split("\n## Answers")[1], re.MULTILINE)
    assert answers == numbers
    assert not re.search(r"\b0\d\.\d", questions)


def test_the_guide_links_to_files_that_are_there():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", GUIDE)
    assert len(links) > 5
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_the_commands_that_the_guide_names_are_there():
    from course.cli import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    named = set(re.findall(r"`(?:\S*/)?course (\w+)", GUIDE))
    assert {"doctor", "report", "reset"} <= named
    assert named - {"workshop"} <= known
