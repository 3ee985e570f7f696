"""Lesson 09 says what its kernels and pictures show."""

import re

from course.lessons.source import EXERCISE, ROOT, lesson_sources, solved
from course.lessons.source import stub as without_solution

(SOURCE,) = [source for source in lesson_sources() if source.name.startswith("09")]
CELLS = solved(SOURCE).cells


def test_no_cell_needs_an_exercise_to_be_solved():
    names = set()
    for cell in CELLS:
        if cell.cell_type != "code":
            continue
        if EXERCISE.match(cell.source.split("\n")[0]):
            names |= set(re.findall(r"^def (\w+)", without_solution(cell.source), re.MULTILINE))
        elif not cell.source.startswith("check("):
            used = names & set(re.findall(r"\w+", cell.source))
            assert not used, f"{used} in {cell.source}"


def test_every_section_says_what_holds_on_other_gpus():
    text = "\n\n".join(cell.source for cell in CELLS if cell.cell_type == "markdown")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    told = [part for part in sections if "*Routes:" in part]
    assert told
    for part in told:
        assert "**On other GPUs.**" in part, part.splitlines()[0]


def test_every_term_that_the_lesson_defines_in_bold_is_in_the_glossary():
    page = (ROOT / "docs" / "pages" / "glossary.md").read_text()
    text = "\n".join(cell.source for cell in CELLS[2:] if cell.cell_type == "markdown")
    terms = re.findall(r"\*\*([^*.:]+)\*\*", text)
    assert len(terms) >= 8
    for term in terms:
        assert f"- **{term}** (" in page or f"- **{term.removesuffix('s')}** (" in page, term
