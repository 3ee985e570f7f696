"""The minutes of a lesson: what takes time, the table at its head, and its length."""

import nbformat
import pytest

from course.errors import CourseError
from course.lessons import minutes, source_rules

markdown, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
STUB = "# exercise product-loop\n# about 2 lines from here\na = 1\n\nb = 2\n# to here"


def lesson(*cells, head="# 05 · An example"):
    return nbformat.v4.new_notebook(cells=[markdown(head), *cells])


def words(count):
    return " ".join(["word"] * count)


def exercise(level):
    statement = markdown(f"### Exercise product-loop · Double it ({level})\n\n{words(180)}")
    hints = markdown("<details>\n<summary>Hint 1</summary>\n\nAdd it.\n\n</details>")
    return [statement, code(STUB), code('check("product-loop", a)'), hints]


def core_of(*cells):
    """The minutes of one section."""
    section, _ = minutes.sections(lesson(markdown("## One"), *cells))
    return section.core


def fold(summary, text):
    return markdown(f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>")


def test_reading_and_lines_of_code_take_time():
    assert core_of(markdown(words(360))) == pytest.approx(2, abs=0.02)
    assert core_of(code("a\n" * 14)) == pytest.approx(2 + 0.25, abs=0.02)
    assert core_of(markdown("```\n" + "a\n" * 14 + "```")) == pytest.approx(2, abs=0.02)


def test_a_prediction_and_a_folded_question_take_time_and_an_optional_fold_none():
    assert core_of(markdown("**Predict:** what?")) == pytest.approx(1, abs=0.02)
    assert core_of(fold("Answer", words(180))) == pytest.approx(2 + 1, abs=0.02)
    for optional in ("Hint 1", "For the curious: why?"):
        assert core_of(fold(optional, words(180))) == 0


def test_a_table_of_minutes_takes_no_longer_where_it_is_folded():
    table = f"{minutes.TABLE}\n|---|---|\n| One | 5 |"
    assert core_of(fold("About 5 minutes", table)) == core_of(markdown(table))


def test_an_exercise_takes_its_statement_its_question_and_its_lines():
    reading, cells, asking, writing = 1, 2 * 0.25, 5, 2 * 2
    around = 3 / 7  # the two marks, and the line that names it
    expected = reading + cells + asking + writing + around
    assert core_of(*exercise("core")) == pytest.approx(expected, abs=0.1)


def test_a_stretch_exercise_is_no_core_and_what_follows_it_is():
    cells = [markdown("## One"), *exercise("stretch"), code("a")]
    section, _ = minutes.sections(lesson(*cells))
    assert section.stretch > 10
    assert section.core == pytest.approx(0.25 + 1 / 7)


def test_the_head_and_the_end_have_a_row_together_and_what_few_do_has_none():
    text = f"## One\n\nText.\n\n## On your own\n\n{words(900)}\n\n## What you can do now\n\n"
    one, ends = minutes.sections(lesson(markdown(text + words(180)), head=f"# 05\n\n{words(180)}"))
    assert one.title == "One" and one.core < 0.1
    assert ends.title == minutes.ENDS
    assert ends.core == pytest.approx(2, abs=0.05)


HEAD = """# 05 · An example

| section | about minutes |
|---|---|
| One | 3 |
| Two | 10 |
| Beginning and end | 1 |
| **Together, an estimate** | 14 |"""
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


def test_a_lesson_of_more_than_75_minutes_is_cut():
    notebook = lesson(markdown(f"## One\n\n{words(180 * 80)}"))
    notebook.cells[0].source = f"# 05 · An example\n\n{minutes.table(notebook)}"
    (problem,) = minutes.problems(notebook)
    assert "it takes about 81 minutes" in problem and "cut it in two" in problem


def test_lint_and_the_command_know_of_it(tmp_path):
    source = tmp_path / "05-example.py"
    head = HEAD.replace("\n", "\n# ").replace("| One | 3 |", "| One | 25 |")
    source.write_text(f"# %% [markdown]\n# {head}\n\n# %% [markdown]\n# ## One\n")
    assert any("the table of minutes" in sentence for sentence in source_rules.problems(source))
    assert minutes.report(["05"], tmp_path)[0].startswith(minutes.TABLE)
    with pytest.raises(CourseError, match="no lesson '06': there is 05"):
        minutes.report(["06"], tmp_path)
