"""Notebooks are derived from their sources, the same each time; a lesson keeps its contract."""

import itertools
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from course.cli import app
from course.errors import CourseError
from course.lessons import notebooks, source_rules
from course.lessons.folders import NOTEBOOKS, SOLUTIONS
from course.lessons.order import lesson_sources
from course.lessons.without_solutions import derive, solved, stub

LESSON = """# %% [markdown]
# # 05 · An example

# %%
import course

check = lambda exercise, answer: None

# %% [markdown]
# ### Exercise {product-loop} · Double it (core)

# %%
# exercise product-loop
def double(x):
    result = None
    # about 2 lines from here
    secret = x + x
    result = secret
    # to here
    return result

# %%
check("product-loop", double)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Add it to itself.
#
# </details>

# %% tags=["nbval-check-output"]
print(double(4))

# %% tags=["raises-exception"]
raise ValueError("on purpose")
"""


def lesson_in(folder):
    """One lesson in a folder, which derives and keeps the contract."""
    (folder / "solutions").mkdir()
    (folder / "notebooks").mkdir()
    source = folder / "solutions" / "05-example.py"
    source.write_text(LESSON)
    return source


@pytest.fixture
def lesson(tmp_path):
    return lesson_in(tmp_path)


@pytest.fixture(scope="module")
def built_once(tmp_path_factory):
    """The lesson's notebook, as it is built."""
    (path,) = build(lesson_in(tmp_path_factory.mktemp("built")))
    return path


@pytest.fixture
def built(lesson, built_once):
    """The lesson's notebook, in its place."""
    return Path(shutil.copy(built_once, lesson.parent.parent / "notebooks"))


def build(lesson):
    return notebooks.build([], lesson.parent, lesson.parent.parent / "notebooks")


def out_of_sync(lesson):
    return notebooks.out_of_sync(lesson.parent, lesson.parent.parent / "notebooks")


def test_the_committed_notebooks_are_what_their_sources_give():
    assert notebooks.out_of_sync() == []


def test_every_committed_notebook_was_run_and_shows_no_error_it_does_not_expect():
    for path in NOTEBOOKS.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            errors = [output for output in cell.get("outputs", []) if output.output_type == "error"]
            assert not errors or "raises-exception" in cell.metadata.get("tags", []), path.name


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_an_untouched_exercise_is_to_do_and_not_wrong(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and cell.source.startswith("check("):
            (output,) = cell.outputs
            assert "○" in output.data["text/plain"] and ": to do." in output.data["text/plain"]


def test_a_stub_lacks_the_solution_and_nothing_else(lesson):
    left, full = derive(lesson), solved(lesson)
    stub_lines, solution_lines = (notebook.cells[3].source.split("\n") for notebook in (left, full))
    assert stub_lines == [line for line in solution_lines if "secret" not in line]
    assert len(stub_lines) == len(solution_lines) - 2


def test_the_built_notebook_holds_the_stubs_output_and_no_solution(built_once):
    assert "secret" not in built_once.read_text()
    cells = nbformat.read(built_once, as_version=4).cells
    assert cells[6].outputs[0].text == "None\n"
    counts = [cell.execution_count for cell in cells if cell.cell_type == "code"]
    assert counts == [1, 2, 3, 4, 5]


def test_building_again_changes_no_byte(lesson, built_once):
    (path,) = build(lesson)
    assert path.read_bytes() == built_once.read_bytes()
    assert out_of_sync(lesson) == []


def test_a_new_cell_changes_no_other_cells_id(lesson):
    before = [cell.id for cell in derive(lesson).cells]
    lesson.write_text(LESSON.replace("# %% [markdown]\n# ###", "# %%\n1\n\n# %% [markdown]\n# ###"))
    after = [cell.id for cell in derive(lesson).cells]
    assert [each for each in after if each in before] == before
    assert len(after) == len(before) + 1


def test_cells_of_the_same_text_have_ids_of_their_own(lesson):
    lesson.write_text(LESSON + "\n# %%\n1\n\n# %%\n1\n")
    ids = [cell.id for cell in derive(lesson).cells]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda cells: cells[3].update(source=cells[3].source + "\n    secret = 1"),
            "differs from its source in cell 3",
        ),
        (lambda cells: cells[4].metadata.update(tags=[]), "differs from its source in cell 4"),
        (lambda cells: cells[1].update(id="other"), "differs from its source in cell 1"),
        (lambda cells: cells.pop(), "has 7 cells and its source has 8"),
        (
            lambda cells: cells[1].update(execution_count=None, outputs=[]),
            "was never run in cell 1",
        ),
    ],
)
def test_a_notebook_that_was_edited_by_hand_is_found(lesson, built, change, says):
    notebook = nbformat.read(built, as_version=4)
    change(notebook.cells)
    nbformat.write(notebook, built)
    (problem,) = out_of_sync(lesson)
    assert says in problem


def test_a_missing_notebook_and_one_without_a_source_are_found(lesson, built):
    built.rename(built.with_name("06-other.ipynb"))
    assert out_of_sync(lesson) == [
        "notebooks/06-other.ipynb has no source in solutions/: delete it, or add 06-other.py.",
        "notebooks/05-example.ipynb is missing: run `course notebooks 05`.",
    ]


BROKEN = [
    (
        'tags=["nbval-check-output"]',
        'tags=["nbval-check-outputs"]',
        "nothing reads the tag 'nbval-check-outputs'",
    ),
    ("# exercise product-loop", "# exercise product-lop", "is called 'product-loop'"),
    ("product-loop", "product", "exercise 'product' must be called by words with hyphens"),
    (
        "# exercise product-loop\n",
        "",
        "solution markers stand in a cell that does not begin with '# exercise its-name'",
    ),
    ("about 2 lines", "about 9 lines", "the stub says about 9 lines, and the solution has 2"),
    ("    # to here\n", "", "stands without '# to here' after it"),
    (
        "    # about 2 lines from here\n",
        "",
        "'# to here' stands without '# about N lines from here'",
    ),
    ("    result = None\n    # about", "    if x:\n        # about", "the stub does not parse"),
    ("import course", "import course\n!pip install x", "!pip does not belong in a lesson"),
    (
        "import course",
        "import course, sys\nsys.path.append('..')",
        "sys.path does not belong in a lesson",
    ),
    ("import course", f"x = {'1' * 104}", "a line has 108 columns, and at most 104 are allowed"),
    (
        "import course",
        "\n".join(f"x{i} = {i}" for i in range(30)),
        "it has 31 lines, and at most 10 are allowed",
    ),
    (
        "(core)",
        "(easy)",
        "exercise product-loop needs a statement under '### Exercise {product-loop}",
    ),
    ("Hint 1", "Hint", "exercise product-loop needs hints two cells on"),
    ("# <details>\n# <summary>", "# <details><summary>", "folded text is written as"),
    ("Hint 1</summary>\n#\n", "Hint 1</summary>\n", "folded text is written as"),
    (
        'check("product-loop", double)',
        "double",
        'exercise product-loop needs a cell check("product-loop", answer) after it',
    ),
    ("# # 05 · An example", "# An example", "the first cell must be the title"),
    (
        "# # 05 · An example",
        "# # 05 · An example\n#\n# | a | b |\n# |---|---|\n# | 1 | 2 | | 3 | 4 |",
        "a table has 2 columns, and this row 5 cells: | 1 | 2 | | 3 | 4 |",
    ),
    (
        "# # 05 · An example",
        "# # 05 · An example\n#\n# Compute `x * sigmoid(x)\n# * y` for `n` elements.",
        "code that goes on in the next line begins a list there: * y` for `n` elements.",
    ),
]


@pytest.mark.parametrize(("old", "new", "says"), BROKEN, ids=[row[2][:40] for row in BROKEN])
def test_a_lesson_that_breaks_the_contract_is_not_built(lesson, old, new, says):
    assert old in LESSON
    lesson.write_text(LESSON.replace(old, new))
    assert any(says in problem for problem in source_rules.problems(lesson)), source_rules.problems(
        lesson
    )
    with pytest.raises(CourseError):
        build(lesson)
    assert not list((lesson.parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("1 / 0", "A cell failed"),
        ("import os; os.abort()", "A cell failed"),
        ("print(object())", "differs from run to run"),
        ("print('/tmp/ipykernel_12/3.py')", "differs from run to run"),
        ("import sys; print('careful', file=sys.stderr)", "writes to stderr: careful"),
    ],
)
def test_a_lesson_that_fails_or_varies_is_not_written(lesson, code, says):
    lesson.write_text(LESSON.replace("import course", code))
    with pytest.raises(CourseError, match=says):
        build(lesson)
    assert not list((lesson.parent.parent / "notebooks").glob("*.ipynb"))


def test_an_unknown_lesson_is_a_sentence():
    for arguments in (["00", "77"], ["77", "--check"]):
        ended = CliRunner().invoke(app, ["notebooks", *arguments])
        assert str(ended.exception).startswith("There is no lesson '77'"), ended.stdout


def test_an_exercise_has_the_number_of_its_place(lesson):
    start, end = LESSON.index("# %% [markdown]\n# ###"), LESSON.index('# %% tags=["nbval')
    first = LESSON[start:end]
    second = first.replace("product-loop", "product-of-any-size")
    said = "# %% [markdown]\n# See {product-loop}.\n"
    lesson.write_text(LESSON[:start] + second + first + said + LESSON[end:])
    assert source_rules.problems(lesson) == []
    texts = [cell.source for cell in derive(lesson).cells]
    assert "### Exercise 05.2 · Double it (core)" in "\n".join(texts)
    assert "See 05.2." in texts


def test_two_exercises_of_one_name_are_refused(lesson):
    start, end = LESSON.index("# %% [markdown]\n# ###"), LESSON.index('# %% tags=["nbval')
    lesson.write_text(LESSON[:end] + LESSON[start:])
    assert "there are two exercises 'product-loop'" in source_rules.problems(lesson)[0]


def test_the_marks_of_an_exercise_are_no_lines_of_its_cell(lesson):
    lines = [f"x{i} = {i}" for i in range(9)]
    marked = "\n".join(
        ["# exercise product-loop", "y = 0", "# about 9 lines from here", *lines, "# to here"]
    )
    assert not list(source_rules._size_problems(marked.split("\n"), 10))
    assert list(source_rules._size_problems([*marked.split("\n"), "z = 0"], 10))


def test_a_cell_without_markers_is_its_own_stub():
    assert stub("x = 1\n# a comment") == "x = 1\n# a comment"


def test_every_lesson_of_the_course_keeps_the_contract():
    problems = map(source_rules.problems, lesson_sources(SOLUTIONS))
    assert [*itertools.chain.from_iterable(problems)] == []


def test_no_kept_notebook_names_a_place_of_the_machine_that_built_it():
    for path in NOTEBOOKS.glob("*.ipynb"):
        words = re.split(r"[\s\"<&]+", path.read_text())
        assert [word for word in words if "/" in word.rpartition("/site-packages/")[0]] == []
