"""A cell's function with all it uses, run in a process of its own."""

import pytest

from course.errors import CourseError
from course.isolate.apart import apart
from course.isolate.function_source import source_of
from course.tracing.own_launches import OwnLaunchError
from tests.support import sample_cells


@pytest.fixture(autouse=True)
def as_in_a_notebook(monkeypatch):
    """Functions of a notebook belong to the module __main__."""
    for value in vars(sample_cells).values():
        function = getattr(value, "fn", value)
        if getattr(function, "__module__", None) == sample_cells.__name__:
            monkeypatch.setattr(function, "__module__", "__main__")


def test_kernels_helpers_and_constants_go_along(capsys):
    apart(sample_cells.uses_everything, interpret=True)
    assert capsys.readouterr().out == "[3.0, 3.0, 3.0, 3.0] 2.0\nThe process finished.\n"


def test_the_source_imports_course_first():
    assert source_of(sample_cells.uses_everything).imports[0] == "import course"


def test_a_tensor_cannot_go_along_and_is_named():
    with pytest.raises(CourseError, match="TENSOR is a Tensor, which cannot go along"):
        source_of(sample_cells.uses_a_tensor)


def test_a_local_name_is_no_use_of_the_global(capsys):
    apart(sample_cells.local_name_like_a_global)
    assert capsys.readouterr().out.startswith("5\n")


def test_a_closure_is_named():
    with pytest.raises(CourseError, match="inner uses secret from the function around it"):
        source_of(sample_cells.enclosing())


def test_a_function_made_by_exec_is_named():
    namespace = {"__name__": "__main__"}
    exec("def made(): pass", namespace)
    with pytest.raises(CourseError, match="The source of made cannot be read"):
        source_of(namespace["made"])


@pytest.mark.parametrize("wrong", [3, "text", lambda x: x, print])
def test_what_is_no_function_without_arguments_is_refused(wrong):
    with pytest.raises(CourseError, match="apart takes a function with no arguments"):
        apart(wrong)


def crash():
    import ctypes

    ctypes.string_at(0)


def fail():
    raise RuntimeError("on purpose")


def hang():
    while True:
        pass


def fail_in_a_line():
    raise OwnLaunchError("it reads outside\nLine 3 of its cell:  x = 1\nand more")


def ask():
    value = 41
    breakpoint()
    print("went on", value)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (crash, "The process was killed by SIGSEGV. This session goes on."),
        (fail, "The process failed: RuntimeError: on purpose. This session goes on."),
        (
            fail_in_a_line,
            "The process failed: OwnLaunchError: it reads outside. This session goes on.\n"
            "Line 3 of its cell:  x = 1",
        ),
        (hang, "The process was stopped after 2 s of computing. This session goes on."),
    ],
)
def test_how_it_ended_is_said(function, says, capsys, monkeypatch):
    monkeypatch.setattr(function, "__module__", "__main__")
    apart(function, timeout_s=2)
    assert capsys.readouterr().out.strip() == says


def test_typed_lines_reach_the_debugger_and_are_shown(capsys, monkeypatch):
    monkeypatch.setattr(ask, "__module__", "__main__")
    apart(ask, typed="p value + 1\nc")
    out = capsys.readouterr().out
    assert "(Pdb) p value + 1\n42\n" in out
    assert "went on 41" in out
