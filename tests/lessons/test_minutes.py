"""The minutes of a lesson: what takes time, the table at its head, its sittings and routes."""

import nbformat
import pytest

from course.errors import CourseError
from course.lessons import lint, minutes

markdown, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
STUB = "# exercise 05.1\n# about 2 lines from here\na = 1\n\nb = 2\n# to here"


def lesson(*cells, head="# 05 · An example"):
    return nbformat.v4.new_notebook(cells=[markdown(head), *cells])


def words(count):
    return " ".join(["word"] * count)


def exercise(level):
    statement = markdown(f"### Exercise 05.1 · Double it ({level})\n\n{words(180)}")
    hints = markdown("<details>\n<summary>Hint 1</summary>\n\nAdd it.\n\n</details>")
    return [statement, code(STUB), code('check("05.1", a)'), hints]


def test_reading_running_and_writing_take_time():
    (section,) = minutes.sections(
        lesson(markdown(f"## One\n\n{words(360)}"), code("a"), *exercise("core"))
    )
    reading, cells, asking, writing = 3, 3, 3, 2 * 2
    assert section.core == pytest.approx(reading + cells + asking + writing, abs=0.1)
    assert section.stretch == 0


def test_a_stretch_exercise_is_no_core_and_what_follows_it_is():
    (section,) = minutes.sections(lesson(markdown("## One"), *exercise("stretch"), code("a")))
    assert section.stretch == pytest.approx(1 + 2 + 3 + 4, abs=0.1)
    assert section.core == pytest.approx(1)


def test_hints_are_not_read_and_answers_are():
    def fold(summary):
        text = f"<details>\n<summary>{summary}</summary>\n\n{words(180)}\n\n</details>"
        return minutes.sections(lesson(markdown(f"## One\n\n{text}")))[0].core

    assert fold("Hint 1") == 0
    assert fold("Answer") == pytest.approx(1)


def test_the_head_and_what_comes_behind_the_lesson_have_no_row():
    text = "## One\n\nText.\n\n## On your own\n\nMore.\n\n## What you can do now\n\nThis."
    assert [each.title for each in minutes.sections(lesson(markdown(text), code("a")))] == ["One"]


HEAD = """# 05 · An example

| section | about minutes |
|---|---|
| One | 3 |
| Two | 10 |
| **All, an estimate** | 13 |"""
BODY = (markdown(f"## One\n\n{words(600)}"), markdown(f"## Two\n\n{words(1800)}"))


def test_a_table_that_says_what_is_estimated_is_right():
    assert list(minutes.problems(lesson(*BODY, head=HEAD))) == []


def test_a_wrong_table_is_answered_with_the_right_one():
    wrong = HEAD.replace("| Two | 10 |", "| Two | 15 |")
    (problem,) = minutes.problems(lesson(*BODY, head=wrong))
    assert HEAD.split("\n\n")[1] in problem


def test_a_table_of_the_older_form_is_asked_for_nothing():
    old = "# 05 · An example\n\n| section | minutes |\n|---|---|\n| One | 99 |"
    assert list(minutes.problems(lesson(*BODY, *map(code, "a" * 99), head=old))) == []


def test_a_sitting_of_more_than_75_core_minutes_is_cut():
    long = [markdown("## One"), *map(code, "a" * 70), markdown("## Two"), *map(code, "a" * 10)]
    notebook = lesson(*long)
    notebook.cells[0].source = f"# 05 · An example\n\n{minutes.table(notebook)}"
    (problem,) = minutes.problems(notebook)
    assert "sitting 1 takes about 80 minutes" in problem
    notebook.cells.insert(72, markdown("## Sitting 2\n\nSo far: one."))
    assert minutes.sittings(notebook) == {1: 70, 2: 10}
    assert list(minutes.problems(notebook)) == []


@pytest.mark.parametrize(
    "line, right",
    [
        ("*Routes: three hours, one day, all*", True),
        ("*Routes: one day, all*", True),
        ("*Routes: all*", True),
        ("*Routes: one hour*", False),
        ("Some text.", False),
    ],
)
def test_where_one_section_names_its_routes_all_do(line, right):
    cells = [
        markdown("## One\n\n*Routes: all*\n\nText."),
        markdown(f"## Two\n\n{line}\n\nText."),
        markdown("## Sitting 2\n\nA recap."),
        markdown("## On your own\n\nMore."),
    ]
    sentences = list(minutes.problems(lesson(*cells)))
    assert sentences == [] if right else "under '## Two' must stand one of" in sentences[0]


def test_lint_and_the_command_know_of_it(tmp_path):
    source = tmp_path / "05-example.py"
    head = HEAD.replace("\n", "\n# ").replace("| One | 5 |", "| One | 25 |")
    source.write_text(f"# %% [markdown]\n# {head}\n\n# %% [markdown]\n# ## One\n")
    assert any("the table of minutes" in sentence for sentence in lint.problems(source))
    assert minutes.report(["05"], tmp_path)[0].startswith(minutes.TABLE)
    with pytest.raises(CourseError, match="no lesson '06': there is 05"):
        minutes.report(["06"], tmp_path)
