"""Each exercise is proved twice: its solution and other right answers pass, its stub and the usual
mistakes fail, each for its own reason."""

import ast
import itertools
import re
from importlib.metadata import version

import pytest

import course
from course import check
from course.errors import CourseError
from course.exercises.answers import Mistake, Other, changed, mistakes, others
from course.exercises.judges import code
from course.exercises.judges.worker import Found
from course.exercises.kinds import CodeExercise
from course.exercises.registry import NAMES, exercises
from course.lessons.order import EXERCISE, lesson_sources
from course.lessons.statements import statements
from course.lessons.without_solutions import solved, stub
from tests.support.lesson import script_of

pytestmark = pytest.mark.gpu_too

PRELUDE = (
    "from course import DEVICE\nfrom kernels.device import LN2, LOG2E, finite\n"
    "from kernels.attention.tl_hopper import attend_specialized, first_element\n"
    "import torch\nimport triton\nimport triton.language as tl\n"
    "from triton.tools.tensor_descriptor import TensorDescriptor\n"
    "from triton.experimental import gluon\n"
    "from triton.experimental.gluon import language as gl\n"
    "from triton.experimental.gluon.language.nvidia import hopper\n"
    "from triton.experimental.gluon.language.nvidia.ampere import async_copy\n"
    "from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier\n"
    "from triton.experimental.gluon.language.nvidia.hopper import tma, warpgroup_mma\n"
    "from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma_wait\n\n\n"
)


def kernels_of(text):
    """name -> source of the kernels that a cell begins with."""
    if not text.startswith(("@gluon.jit", "@triton.jit")):
        return {}
    lines = text.split("\n")
    functions = itertools.takewhile(
        lambda each: isinstance(each, ast.FunctionDef), ast.parse(text).body
    )
    return {
        each.name: "\n".join(lines[each.decorator_list[0].lineno - 1 : each.end_lineno]) + "\n\n\n"
        for each in functions
        if each.decorator_list
    }


def behind_given(text, given, answer):
    """A cell behind the kernels that it names without defining them, and those that these name.

    answer: the name that is checked, which may be one of the given kernels.
    """
    words = set(re.findall(r"\w+", f"{answer} {text}"))
    names = words - set(re.findall(r"def (\w+)", text))
    used = "".join(source for name, source in given.items() if name in names)
    return text if not used else behind_given(used + text, given, answer)


def cells():
    """For each exercise its solved cell, and the name that its check is given.

    An exercise may use kernels of the lesson that are given before it.
    """
    by_exercise = {}
    for source in lesson_sources():
        given = {}
        for cell, after in itertools.pairwise(solved(source).cells):
            if match := EXERCISE.match(cell.source.split("\n")[0]):
                answer = re.fullmatch(r'check\("[a-z0-9-]+", (\w+)\)', after.source)[1]
                by_exercise[match[1]] = behind_given(cell.source, given, answer), answer
            elif cell.cell_type == "code":
                given |= kernels_of(cell.source)
    return by_exercise


CELLS = cells()
WHOLE = (
    "any-number-of-rows", "product-loop", "eight-by-eight", "persistent-product", "slow-product",
    "walk-along-k", *NAMES["hopper"][:7],
)  # fmt: skip
"""Exercises of sizes that 8 divides: their statements promise it, or what is compiled for such
sizes is judged."""


EACH = list(exercises())
MISTAKES = [
    pytest.param(exercise, mistake, id=f"{exercise} {mistake.name}")
    for exercise in exercises()
    for mistake in mistakes(exercise)
]
OTHERS = [
    pytest.param(exercise, other, id=f"{exercise} {other.name}")
    for exercise in exercises()
    for other in others(exercise)
]


@pytest.fixture(autouse=True, scope="module")
def _triton_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("triton")


@pytest.fixture(autouse=True)
def _own_caches(_triton_cache, monkeypatch):
    """One cache for all answers: kernels that an answer shares with another are compiled once."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(_triton_cache))


@pytest.fixture
def define(tmp_path):
    """Run a cell's text as a script of its own, and return what its check would be given."""

    def define(text, name):
        return vars(script_of(tmp_path, PRELUDE + text))[name]

    return define


def answer_of(exercise, planted, define):
    if not isinstance(planted.answer, dict):
        return planted.answer
    text, name = CELLS[exercise]
    return define(changed(text, planted.answer), name)


def test_exercises_and_notebooks_name_the_same_ones():
    assert sorted(exercises()) == sorted(statements())
    assert list(statements()) == list(CELLS)


@pytest.mark.parametrize("exercise", EACH)
def test_the_solution_is_right(exercise, define):
    checked = check(exercise, define(*CELLS[exercise]))
    assert checked.verdict == "right", checked


@pytest.mark.parametrize("exercise", EACH)
def test_the_stub_is_to_do(exercise, define):
    text, name = CELLS[exercise]
    assert check(exercise, define(stub(text), name)).verdict == "to do"


def test_an_answer_under_another_name_is_judged_too(define):
    text, name = CELLS["persistent-product"]
    renamed = text.replace(f"def {name}(", "def my_own_kernel(")
    stubbed = stub(text).replace(f"def {name}(", "def my_own_kernel(")
    wrong = changed(renamed, {"tile // tiles_n * BLOCK_M": "tile // tiles_n"})
    verdicts = [
        check("persistent-product", define(each, "my_own_kernel")).verdict
        for each in (renamed, wrong, stubbed)
    ]
    assert verdicts == ["right", "wrong", "to do"]


TRITON, TORCH = (
    tuple(int(part) for part in version(package).split(".")[:2]) for package in ("triton", "torch")
)
REFUSED_BEFORE_3_9 = {("every-pair", "and without parentheses")}
"""Mistakes that Triton 3.9 compiles and earlier ones do not: a chain of comparisons."""
KIND_ON_A_GPU = {("rms-norm-forward", "in float16"): "16 bits"}
"""What is too inexact in the interpreter, and exact enough on a GPU: there the compiled code
tells of it."""
WORDED_BY_TORCH = {("register-operator", "no gradient for eps")}
"""Mistakes whose kind is an error of PyTorch's, as its pinned version words it."""


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES)
def test_a_mistake_is_caught_for_what_it_is(exercise, mistake: Mistake, define, monkeypatch):
    # What a search would add to the text takes seconds each; test_one_change.py has it.
    monkeypatch.setattr(code, "_one_change", lambda *_: Found())
    checked = check(exercise, answer_of(exercise, mistake, define))
    verdict = mistake.verdict
    if TRITON < (3, 9) and (exercise, mistake.name) in REFUSED_BEFORE_3_9:
        verdict = "does not compile"
    assert checked.verdict == verdict, checked
    assert mistake.says in str(checked)
    kind = mistake.kind
    if course.MODE.gpu:
        kind = KIND_ON_A_GPU.get((exercise, mistake.name), kind)
    if (exercise, mistake.name) in WORDED_BY_TORCH and TORCH < (2, 15):
        assert checked.kind.startswith("raised RuntimeError")
    else:
        assert checked.kind == kind or TRITON < (3, 9)  # others refuse in other words


@pytest.mark.parametrize(("exercise", "other"), OTHERS)
def test_a_right_answer_of_another_kind_is_accepted(exercise, other: Other, define):
    checked = check(exercise, answer_of(exercise, other, define))
    assert checked.verdict == "right", checked


def test_every_exercise_has_three_mistakes_and_two_other_answers():
    for exercise in exercises():
        assert len(mistakes(exercise)) >= 3, exercise
        assert len(others(exercise)) >= 2, exercise


def test_every_mistake_says_in_a_sentence_what_it_means():
    for exercise in exercises():
        for mistake in mistakes(exercise):
            assert mistake.means[0].isupper() and mistake.means[-1] == ".", (exercise, mistake.name)
            assert 20 < len(mistake.means) < 160, (exercise, mistake.name)


def test_every_slip_in_values_is_told_to_one_who_makes_it():
    for exercise in exercises().values():
        told = [mistake.says for mistake in mistakes(exercise.name)]
        for slip in getattr(exercise, "slips", {}) if isinstance(exercise, CodeExercise) else ():
            said = f"This is what comes out if {slip}."
            assert any("comes out if" in says and says in said for says in told), (
                exercise.name,
                slip,
            )


def test_the_first_case_leaves_a_part_of_a_block():
    """Where a mask is forgotten, the first thing that people read should be about it."""
    for exercise in exercises().values():
        if isinstance(exercise, CodeExercise) and exercise.name not in WHOLE:
            sizes = [size for tensor in exercise.cases[0].inputs for size in tensor.shape]
            assert any(size % 8 for size in sizes), exercise.name


def test_an_unknown_exercise_is_a_sentence_that_helps():
    with pytest.raises(CourseError, match=r"no exercise 'frist-kernel'. Do you mean first-kernel"):
        check("frist-kernel", 1)
    with pytest.raises(CourseError, match=r"no exercise '00.9': exercises have names now"):
        check("00.9", 1)


def mistake_of(exercise, name, define):
    (mistake,) = [each for each in mistakes(exercise) if each.name == name]
    return answer_of(exercise, mistake, define)


def test_a_grid_of_fixed_size_is_stepped_through_where_it_is_too_short(define):
    checked = check(
        "scale-and-shift", mistake_of("scale-and-shift", "a grid of 32 programs", define)
    )
    assert "At [32768]" in str(checked) and "The case: 32,769 float32" in str(checked)
    assert checked.replay().recording.grid == (32, 1, 1)


def test_a_false_promise_is_stepped_through_up_to_it(define):
    shown = check("wide-loads", mistake_of("wide-loads", "a promise of 16", define)).replay()
    assert shown.opened == (1, 0, 0)
    promise = "Program 1 promises by tl.multiple_of that 1,004"
    assert shown.recording.failure.text.startswith(promise)
    assert "start" not in shown.steps[-1].sets
