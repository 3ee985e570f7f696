"""Lesson 09 says what its kernels and pictures show."""

import re

import pytest
import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from course import lower
from course.lessons.source import EXERCISE, ROOT
from course.lessons.source import stub as without_solution
from kernels.flash_attention_hopper_settings import HopperSettings
from tests.simulating.kernels import descriptor
from tests.support.lesson import Lesson, lines_of, script_of, stands_in

pytestmark = pytest.mark.unless_unchanged(
    "what lesson 09 says", "course", "docs", "kernels", "notebooks", "solutions",
)  # fmt: skip

LESSON = Lesson("09")


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
    told = [part for part in sections if "*Routes:" in part]
    assert told
    for part in told:
        assert "**On other GPUs.**" in part, part.splitlines()[0]


FILES = sorted((ROOT / "kernels").glob("flash_attention_hopper*.py"))
READ = LESSON.text.split("## Read the fastest kernel")[1].split("\n## ")[0]
QUOTED = re.findall(r"^```python\n(.*?)^```", READ, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("piece", QUOTED, ids=[piece.split("\n")[0] for piece in QUOTED])
def test_what_the_lesson_quotes_stands_in_the_kernels(piece):
    assert len(lines_of(piece)) <= 12
    assert stands_in(piece, FILES)


def test_under_every_piece_stands_a_question_with_a_folded_answer():
    questions = re.findall(r"^\*\*(\d+)\.\*\* ", READ, re.MULTILINE)
    assert questions == [str(number) for number in range(1, len(questions) + 1)]
    assert READ.count("<summary>Answer</summary>") == len(questions) == len(QUOTED)


def test_the_kernel_has_as_many_files_as_the_lesson_says():
    assert "in five files" in LESSON.flat
    assert len(FILES) == 5


def test_the_registers_of_the_questions_are_those_of_the_settings():
    assert HopperSettings(2, 128, 2).registers == (240, 24)
    assert HopperSettings(3, 128, 2).registers == (160, 32)
    assert 3 * 160 + 32 == 4 * (65_536 // 512)
    assert 3 * 128 * 240 == 92_160 > 65_536


def test_the_consumers_of_the_lessons_attention_take_240_registers(tmp_path):
    kernels = [cell for cell in LESSON.code if "@gluon.jit" in cell]
    imports = [line for line in LESSON.code[0].split("\n") if "gluon" in line]
    lesson = script_of(tmp_path, *imports, *kernels)
    q, k = torch.zeros(2, 256, 64, dtype=torch.float16)
    layout = gl.NVMMASharedLayout.get_default_for([128, 64], gl.float16)
    q_desc = TensorDescriptor.from_tensor(q, [128, 64], layout)
    k_desc = descriptor(k, [64, 64])
    arguments = (q_desc, k_desc, k_desc, torch.zeros(256, 64), 4, 1.0, 2, True)
    ptx = lower(lesson.attention_kernel, *arguments, target="sm_90").ptx
    numbers = set(re.findall(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32\s+(\d+);", ptx))
    assert {("inc", "240"), ("dec", "24")} <= numbers
