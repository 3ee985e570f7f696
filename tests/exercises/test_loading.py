"""What `check` loads: its own room and what the exercise needs, not the whole course."""

import json
import sys

import pytest

from course.exercises.registry import TOPICS
from tests.support.processes import python_path, run

MOST_MODULES = 35
MOST_MODULES_FOR_CODE = 72
"""To check a kernel or a launcher, in the session and in its children."""
PROGRAM = """
import json, sys
from course import check
before = set(sys.modules)
check("{exercise}", {answer})
print(json.dumps([sorted(before), sorted(sys.modules)]))
"""


def loaded(exercise, answer, tmp_path):
    """The names of the modules after importing check, and after checking an answer with it."""
    environ = {"PYTHONPATH": python_path(), "COURSE_MODE": "cpu", "COURSE_DATA": str(tmp_path)}
    program = PROGRAM.format(exercise=exercise, answer=answer)
    ended = run(sys.executable, "-c", program, check=True, env=environ)
    return json.loads(ended.stdout.splitlines()[-1])


def of_the_course(modules):
    return [name for name in modules if name.split(".")[0] == "course"]


def test_importing_check_loads_few_modules_and_no_tool(tmp_path):
    imported, _ = loaded("count-bytes", "268", tmp_path)
    assert len(of_the_course(imported)) <= MOST_MODULES
    tools = {"course.aot", "course.lowering", "course.isolate", "course.tracing", "anywidget"}
    assert tools.union({"pygments", "triton"}).isdisjoint(imported)


def test_no_garbage_is_looked_for_while_a_name_is_loaded():
    program = """
import course, gc
seen = []
gc.callbacks.append(lambda phase, info: seen.append(phase))
course.verify
print(len(seen) < 10, gc.isenabled())
"""
    environ = {"PYTHONPATH": python_path(), "COURSE_MODE": "cpu"}
    ended = run(sys.executable, "-c", program, check=True, env=environ)
    assert ended.stdout.split() == ["True", "True"]


CODE = "__import__('tests.support.wrong_answers', fromlist=['']).short_grid"


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [("count-bytes", "268"), ("last-program", "'b'"), ("scale-and-shift", CODE)],
)
def test_a_check_loads_its_own_lessons_exercises_and_neither_aot_nor_a_widget(
    exercise, answer, tmp_path
):
    _, checked = loaded(exercise, answer, tmp_path)
    lessons = [name for name in checked if name.startswith("course.exercises.lessons.")]
    assert lessons == [f"course.exercises.lessons.{TOPICS[exercise]}"]
    tools = {
        "course.aot",
        "course.exercises.answers",
        "course.lowering.api",
        "course.tracing.replay",
    }
    assert tools.union({"anywidget", "pygments"}).isdisjoint(checked)
    assert len(of_the_course(checked)) <= MOST_MODULES_FOR_CODE
