"""Signatures and grids are judged by the launch that they lead to."""

import struct
from types import SimpleNamespace

import pytest

from course.aot.handed import CapturedArgument, CapturedLaunch
from course.aot.signature import Argument
from course.exercises.kinds.export import ExportCall, ExportExercise, holds, tensor

ALIGNED, ANY = "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "*fp32, *fp32, *fp32, i32, 1024"
GRID = "cdiv(n_elements, BLOCK_SIZE)"


@pytest.mark.parametrize(
    ("argument", "value", "right"),
    [
        (Argument("n", hint=16), 32, True),
        (Argument("n", hint=16), 33, False),
        (Argument("n", hint=1), 1, True),
        (Argument("n", hint=1), 16, False),
        (Argument("n"), 33, True),
        (Argument("x", hint=16), tensor("float32"), True),
        (Argument("x", hint=16), tensor("float32", 4), False),
    ],
)
def test_a_promise_holds_or_not(argument, value, right):
    assert holds(argument, value) is right


def test_a_call_names_its_numbers_and_what_is_not_aligned():
    values = {"x_ptr": tensor("float32", 4), "y_ptr": tensor("float32"), "n": 98432, "stride": 1}
    shown = "n = 98,432, stride = 1, x_ptr 4 bytes past a multiple of 16"
    assert ExportCall(values, (1, 1, 1)).described("cdiv(n, 4)") == shown
    call = ExportCall({**values, "x_ptr": tensor("float32")}, (1, 1, 1), shown=("n",))
    assert call.described("cdiv(n, 4)") == "n = 98,432"
    assert call.described("n * stride") == "n = 98,432, stride = 1"  # it is in the grid


def exercise(**changes):
    """One that asks for the signature of an addition of 2,048 aligned elements, with changes."""
    values = {**dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), tensor("float32")), "n_elements": 2048}
    kept = {
        "asks": "signature",
        "kernel": "kernels/vector_add.py:add_kernel",
        "types": {**dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*fp32"), "n_elements": "i32"},
        "calls": (ExportCall(values, (2, 1, 1)),),
        "grid": GRID,
        "because": "So it is.",
    }
    return ExportExercise("last-program", **{**kept, **changes})


@pytest.mark.parametrize("answer", [1, "", [], [ANY, ALIGNED], {"a": 1}, [1]])
def test_what_is_no_signature_at_all_is_no_answer_or_wrong(answer):
    assert exercise().judge(answer)[0] == ("wrong" if answer == "" else "no answer")


@pytest.mark.compiler
def test_a_right_signature_is_right():
    assert exercise().judge(ANY) == ("right", "So it is.", "")


@pytest.mark.compiler
def test_a_value_that_its_type_does_not_hold_is_wrong():
    call = ExportCall({**exercise().calls[0].values, "n_elements": 2**31}, (2**21, 1, 1))
    verdict, why, _ = exercise(calls=(call,)).judge(ANY)
    assert (verdict, "n_elements is 2147483648, and i32 holds" in why) == ("wrong", True)


@pytest.mark.parametrize("packed", [struct.pack("<f", 0.1), struct.pack("<d", 0.1)[:4]])
def test_a_value_that_the_kernel_reads_otherwise_is_wrong(packed):
    """No export of ours does that; the bytes are compared all the same."""
    arguments = CapturedArgument("scale", "fp32", packed), CapturedArgument("n", "i32", b"\5\0\0\0")
    launch = CapturedLaunch("add", (1, 1, 1), 128, 0, arguments, 0)
    call = ExportCall({"scale": 0.1, "n": 5}, (1, 1, 1))
    problems = list(exercise().launch_problems(call, launch, SimpleNamespace(arguments=())))
    if packed == struct.pack("<f", 0.1):
        assert problems == []
    else:
        (problem,) = problems
        assert problem.kind == "scale read"
        assert problem.reason.startswith("the kernel reads scale as -1.588")


@pytest.mark.compiler
def test_a_constant_that_is_allowed_must_have_its_value():
    allowing = exercise(may_be_constant={"n_elements": 2048})
    assert allowing.judge(ANY.replace("i32", "2048"))[0] == "right"
    verdict, _, kind = allowing.judge(ANY.replace("i32", "1024"))
    assert (verdict, kind) == ("wrong", "n_elements is constant")
