"""What the driver is handed is shown byte by byte, of our C and of Triton's own; and exercises are judged by it."""

import struct
from types import SimpleNamespace

import pytest
import torch

from course import aot, handed, stock
from course.aot.captured_launch import CapturedArgument, CapturedLaunch, plain, remade
from course.aot.signature import Argument
from course.errors import CourseError
from course.exercises.export_exercise import Exported, Launch, holds, tensor
from kernels.vector_add import add_kernel

ALIGNED, ANY = "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "*fp32, *fp32, *fp32, i32, 1024"
GRID = "cdiv(n_elements, BLOCK_SIZE)"
SCALE = """\
import triton
import triton.language as tl

FACTOR = tl.constexpr(2)


@triton.jit
def multiply_kernel(x_ptr, scale, half, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(x_ptr + offsets, scale * half * FACTOR, mask=offsets < n_elements)
"""
SIGNATURE = "*fp32, fp32, fp16, i32, 256"
IN_C = "(n_elements + 255) / 256, 1, 1"


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """Two variants of an addition, linked and built."""
    folder = tmp_path_factory.mktemp("added")
    exported = aot.export(add_kernel, [ALIGNED, ANY], GRID, "add", folder / "add")
    return aot.build(aot.link(exported, folder / "linked"))


@pytest.fixture
def multiply(tmp_path):
    path = tmp_path / "multiply.py"
    path.write_text(SCALE)
    return f"{path}:multiply_kernel"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int8], ids=str)
@pytest.mark.parametrize("start", [0, 1, 3])
def test_a_tensor_is_made_again_as_far_past_a_multiple_of_16_bytes(dtype, start):
    x = torch.zeros(100, dtype=dtype)[start:]
    again = remade(plain(x))
    assert again.dtype == dtype
    assert again.data_ptr() % 16 == x.data_ptr() % 16


def test_handed_shows_the_variant_the_grid_and_each_arguments_bytes(added):
    x = torch.zeros(4096)
    found = handed(added, x, x, x, 2048)
    assert found.function.endswith("_0d1d2d3d")
    assert (found.grid, found.threads, found.shared_bytes) == ((2, 1, 1), 128, 0)
    assert [each.name for each in found.arguments] == ["x_ptr", "y_ptr", "out_ptr", "n_elements"]
    assert (found.arguments[3].content, found.arguments[3].value) == (struct.pack("<i", 2048), 2048)
    assert "x_ptr          *fp32  8 bytes  an address, a multiple of 16" in str(found)
    assert "n_elements     i32    4 bytes  00 08 00 00  2048" in str(found)


def test_handed_names_the_variant_that_an_unaligned_call_takes(added):
    x = torch.zeros(4096)
    found = handed(added, x[1:], x, x, 2048)
    assert found.function.endswith("_")
    assert "x_ptr          *fp32  8 bytes  an address, no multiple of 16" in str(found)


def test_handed_says_why_there_is_no_launch(added, tmp_path):
    x = torch.zeros(4096)
    with pytest.raises(CourseError, match="n_elements is a float"):
        handed(added, x, x, x, 2048.0)
    with pytest.raises(CourseError, match="add launches nothing: its grid has a 0 in it"):
        handed(added, x, x, x, 0)
    alone = aot.build(aot.export(add_kernel, ALIGNED, GRID, "alone", tmp_path / "alone"))
    with pytest.raises(CourseError, match="CUDA_ERROR_INVALID_VALUE"):
        handed(alone, x[1:], x, x, 2048)


def test_what_cannot_be_handed_over_is_named(added):
    with pytest.raises(CourseError, match=r"There is no library nope\.so"):
        handed("nope.so")
    x = torch.zeros(8)
    with pytest.raises(CourseError, match="takes tensors and numbers; 'three' is neither"):
        handed(added, x, x, x, "three")


@pytest.mark.parametrize(
    ("signature", "grid", "says"),
    [
        (ANY, "1", "AssertionError"),
        ("*fp32, *fp32", "1, 1, 1", "refuses"),
        (ANY.replace("1024", "None"), "1, 1, 1", "KeyError"),
    ],
)
def test_what_tritons_own_tool_refuses_is_one_sentence(signature, grid, says, tmp_path):
    with pytest.raises(CourseError, match=f"Triton's own tool .*{says}"):
        stock.compile(add_kernel, signature, grid, "add", tmp_path / "add")


def test_tritons_own_tool_declares_floats_as_doubles_and_the_kernel_reads_other_numbers(
    multiply, tmp_path
):
    plain = stock.compile(multiply, SIGNATURE, IN_C, "multiply", tmp_path / "stock" / "multiply")
    assert "CUdeviceptr x_ptr, double scale, double half, int32_t n_elements" in plain.declaration
    found = plain.handed(torch.zeros(1000), 0.125, 0.5, 1000)
    assert found.grid == (4, 1, 1)
    names = [(each.name, each.value) for each in found.arguments[1:]]
    assert names == [("scale", 0.0), ("half", 0.0), ("n_elements", 1000)]
    assert (
        plain.handed(torch.zeros(1000), 0.1, 0.5, 1000).arguments[1].content
        == struct.pack("<d", 0.1)[:4]
    )


def test_ours_declares_floats_and_the_kernel_reads_what_was_given(multiply, tmp_path):
    ours = aot.export(
        multiply,
        SIGNATURE,
        "cdiv(n_elements, BLOCK_SIZE)",
        "multiply",
        tmp_path / "multiply",
        num_warps=1,
    )
    assert (
        "CUdeviceptr x_ptr, float scale, float half, int32_t n_elements"
        in ours.functions[0].prototype
    )
    found = handed(aot.build(ours), torch.zeros(1000), 0.125, 0.5, 1000)
    assert [each.value for each in found.arguments[1:]] == [0.125, 0.5, 1000]


def test_files_of_ours_are_called_as_those_of_tritons_own_tool(multiply, tmp_path):
    signature = "*fp32:16, fp32, fp16, i32, 256"
    plain = stock.compile(
        multiply, signature, IN_C, "multiply", tmp_path / "stock" / "multiply", 4, 3
    )
    ours = aot.export(
        multiply, signature, "cdiv(n_elements, BLOCK_SIZE)", "multiply", tmp_path / "multiply"
    )
    assert plain.header.name == ours.headers[0].name
    assert plain.function == ours.functions[0].name


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


def test_a_launch_names_its_numbers_and_what_is_not_aligned():
    values = {"x_ptr": tensor("float32", 4), "y_ptr": tensor("float32"), "n": 98432, "stride": 1}
    assert (
        str(Launch(values, (1, 1, 1)))
        == "n = 98,432, stride = 1, x_ptr 4 bytes past a multiple of 16"
    )
    assert (
        str(Launch({**values, "x_ptr": tensor("float32")}, (1, 1, 1), shown=("n",))) == "n = 98,432"
    )


def exercise(**changes):
    """One that asks for the signature of an addition of 2,048 aligned elements, with changes."""
    values = {**dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), tensor("float32")), "n_elements": 2048}
    kept = {
        "asks": "signature",
        "kernel": "kernels/vector_add.py:add_kernel",
        "types": {**dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*fp32"), "n_elements": "i32"},
        "launches": (Launch(values, (2, 1, 1)),),
        "grid": GRID,
        "because": "So it is.",
    }
    return Exported("00.1", **{**kept, **changes})


@pytest.mark.parametrize("answer", [1, "", [], [ANY, ALIGNED], {"a": 1}, [1]])
def test_what_is_no_signature_at_all_is_no_answer_or_wrong(answer):
    assert exercise().judge(answer)[0] == ("wrong" if answer == "" else "no answer")


def test_a_right_signature_is_right():
    assert exercise().judge(ANY) == ("right", "So it is.")


def test_a_value_that_its_type_does_not_hold_is_wrong():
    launch = Launch({**exercise().launches[0].values, "n_elements": 2**31}, (2**21, 1, 1))
    verdict, why = exercise(launches=(launch,)).judge(ANY)
    assert (verdict, "n_elements is 2147483648, and i32 holds" in why) == ("wrong", True)


def test_a_value_that_the_kernel_reads_otherwise_is_wrong():
    """No export of ours does that; the bytes are compared all the same."""
    launch = Launch({"scale": 0.1, "n": 5}, (1, 1, 1))
    function = SimpleNamespace(arguments=())
    for half in (False, True):
        scale = CapturedArgument(
            "scale", "fp32", struct.pack("<d", 0.1)[:4] if half else struct.pack("<f", 0.1)
        )
        found = CapturedLaunch(
            "add", (1, 1, 1), 128, 0, (scale, CapturedArgument("n", "i32", struct.pack("<i", 5))), 0
        )
        problems = "".join(exercise()._launch_problems(launch, found, function))
        assert (
            problems.startswith("With scale = 0.1, n = 5 the kernel reads scale as -1.588") is half
        )
        assert bool(problems) is half


def test_a_constant_that_is_allowed_must_have_its_value():
    allowing = exercise(may_be_constant={"n_elements": 2048})
    assert allowing.judge(ANY.replace("i32", "2048"))[0] == "right"
    assert allowing.judge(ANY.replace("i32", "1024")) == (
        "wrong",
        "n_elements is the constant 1024, and it is 2048 in every call.",
    )


@pytest.mark.parametrize(
    ("type", "digits", "shown"),
    [
        ("i32", "00000080", "-2147483648"),
        ("u64", "ffffffffffffffff", "18446744073709551615"),
        ("bf16", "cd3d", "0.100097656"),
        ("fp32", "0000003f", "0.5"),
        ("i1", "01", "True"),
    ],
)
def test_a_number_is_shown_as_it_is(type, digits, shown):
    assert str(CapturedArgument("n", type, bytes.fromhex(digits))).endswith(shown)


def test_a_tensor_within_an_element_is_refused():
    x = torch.frombuffer(bytearray(64), dtype=torch.float32, offset=2, count=4)
    with pytest.raises(
        CourseError,
        match=r"A tensor begins 2 bytes into an element of torch\.float32: copy it first\.",
    ):
        plain(x)
