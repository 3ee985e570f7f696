"""Lesson 09 says what its kernels and pictures show."""

import re
import types

import pytest
import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from course import lower
from course.lessons.source import EXERCISE, ROOT, lesson_sources, solved
from course.lessons.source import stub as without_solution
from kernels.flash_attention_hopper_settings import HopperSettings
from tests.lessons.test_lesson_06 import lines_of
from tests.simulating.kernels import descriptor

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


TEXT = "\n\n".join(cell.source for cell in CELLS if cell.cell_type == "markdown")
FILES = sorted((ROOT / "kernels").glob("flash_attention_hopper*.py"))
READ = TEXT.split("## Read the fastest kernel")[1].split("\n## ")[0]
QUOTED = re.findall(r"^```python\n(.*?)^```", READ, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("piece", QUOTED, ids=[piece.split("\n")[0] for piece in QUOTED])
def test_what_the_lesson_quotes_stands_in_the_kernels(piece):
    lines = lines_of(piece)
    assert len(lines) <= 12
    sources = [lines_of(path.read_text()) for path in FILES]
    assert any(
        lines == source[start : start + len(lines)]
        for source in sources
        for start in range(len(source))
    )


def test_under_every_piece_stands_a_question_with_a_folded_answer():
    questions = re.findall(r"^\*\*(\d+)\.\*\* ", READ, re.MULTILINE)
    assert questions == [str(number) for number in range(1, len(questions) + 1)]
    assert READ.count("<summary>Answer</summary>") == len(questions) == len(QUOTED)


def test_the_kernel_has_as_many_files_as_the_lesson_says():
    assert "in five files" in " ".join(TEXT.split())
    assert len(FILES) == 5


def test_the_registers_of_the_questions_are_those_of_the_settings():
    assert HopperSettings(2, 128, 2).registers == (240, 24)
    assert HopperSettings(3, 128, 2).registers == (160, 32)
    assert 3 * 160 + 32 == 4 * (65_536 // 512)
    assert 3 * 128 * 240 == 92_160 > 65_536


def test_the_consumers_of_the_lessons_attention_take_240_registers(tmp_path):
    path = tmp_path / "lesson.py"
    kernels = [
        cell.source for cell in CELLS if cell.cell_type == "code" and "@gluon.jit" in cell.source
    ]
    imports = [line for line in CELLS[2].source.split("\n") if "gluon" in line]
    path.write_text("\n".join([*imports, *kernels]))
    lesson = types.ModuleType("lesson_09")
    exec(compile(path.read_text(), str(path), "exec"), vars(lesson))
    q, k = torch.zeros(2, 256, 64, dtype=torch.float16)
    layout = gl.NVMMASharedLayout.get_default_for([128, 64], gl.float16)
    q_desc = TensorDescriptor.from_tensor(q, [128, 64], layout)
    k_desc = descriptor(k, [64, 64])
    arguments = (q_desc, k_desc, k_desc, torch.zeros(256, 64), 4, 1.0, 2, True)
    ptx = lower(lesson.attention_kernel, *arguments, target="sm_90").ptx
    numbers = set(re.findall(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32\s+(\d+);", ptx))
    assert {("inc", "240"), ("dec", "24")} <= numbers
