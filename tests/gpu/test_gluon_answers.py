"""What a check of an exercise in Gluon calls right is right on a GPU of that architecture too.

Each answer runs in a process of its own with a time limit, since a wrong barrier never ends.
"""

import os
import subprocess
import sys

import pytest
import torch

from course.exercises.answers import changed, others
from course.exercises.registry import find, topic_exercises
from course.simulating.hopper import _problem
from tests.exercises.test_exercises import CELLS, PRELUDE
from tests.support.processes import ROOT, python_path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(_problem()), reason="needs an H100 or H200 and Triton 3.9"),
]

HANGS_AFTER_S = 120
"""What compiles and runs in seconds has hung by then."""
ANSWERS = {
    f"{exercise} {other.name if other else 'the solution'}": (exercise, other)
    for exercise in topic_exercises("hopper")
    for other in (None, *others(exercise))
}


def text_of(answer):
    """An answer as a script, with what it is launched on appended."""
    exercise, other = ANSWERS[answer]
    text, name = CELLS[exercise]
    if other:
        text = changed(text, other.answer)
    run = "from tests.gpu.test_gluon_answers import launch_on_every_case"
    return f"{PRELUDE}{text}\n\n\n{run}\n\nlaunch_on_every_case({exercise!r}, {name})\n"


def launch_on_every_case(exercise_name, answer):
    """Run by the process: launch on the GPU, a hundred times each, and compare."""
    exercise = find(exercise_name)
    for case in exercise.cases:
        tensors = [guarded.tensor for guarded in case.make("cuda")]
        wide = [x.double() if x.is_floating_point() else x for x in tensors]
        expected = exercise.reference(*wide, *case.scalars)
        first = exercise.function(answer)(*tensors, *case.scalars)
        torch.testing.assert_close(first.double(), expected.double(), atol=5e-3, rtol=2e-3)
        for _ in range(100):
            again = exercise.function(answer)(*tensors, *case.scalars)
            assert torch.equal(first, again), case


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_right_answer_is_right_on_the_gpu_and_gives_the_same_bits(answer, tmp_path):
    path = tmp_path / "answer.py"
    path.write_text(text_of(answer))
    ended = subprocess.run(
        [sys.executable, str(path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
