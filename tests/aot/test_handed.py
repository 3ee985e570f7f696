"""What the driver is handed is shown byte by byte, of our C and of Triton's own."""

import struct

import pytest
import torch
import triton

from course import aot, handed, stock
from course.aot.handed import CapturedArgument, plain, remade
from course.errors import CourseError
from kernels.vector_add import add_kernel
from tests.support.aot_kernels import large_kernel

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


@pytest.mark.compiler
def test_handed_shows_the_variant_the_grid_and_each_arguments_bytes(added):
    x = torch.zeros(4096)
    found = handed(added, x, x, x, 2048)
    assert found.function.endswith("_0d1d2d3d")
    assert (found.grid, found.threads, found.shared_bytes) == ((2, 1, 1), 128, 0)
    assert [each.name for each in found.arguments] == ["x_ptr", "y_ptr", "out_ptr", "n_elements"]
    assert (found.arguments[3].content, found.arguments[3].value) == (struct.pack("<i", 2048), 2048)
    assert "x_ptr          *fp32  8 bytes  an address, a multiple of 16" in str(found)
    assert "n_elements     i32    4 bytes  00 08 00 00  2048" in str(found)


@pytest.mark.compiler
def test_handed_names_the_variant_that_an_unaligned_call_takes(added):
    x = torch.zeros(4096)
    found = handed(added, x[1:], x, x, 2048)
    assert found.function.endswith("_")
    assert "x_ptr          *fp32  8 bytes  an address, no multiple of 16" in str(found)


@pytest.mark.compiler
def test_handed_says_why_there_is_no_launch(added, tmp_path):
    x = torch.zeros(4096)
    with pytest.raises(CourseError, match="n_elements is a float"):
        handed(added, x, x, x, 2048.0)
    with pytest.raises(CourseError, match="add launches nothing: its grid has a 0 in it"):
        handed(added, x, x, x, 0)
    alone = aot.build(aot.export(add_kernel, ALIGNED, GRID, "alone", tmp_path / "alone"))
    with pytest.raises(CourseError, match="CUDA_ERROR_INVALID_VALUE"):
        handed(alone, x[1:], x, x, 2048)


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["sm_80", "sm_100"])
def test_the_fake_device_is_the_one_that_the_library_is_for(tmp_path, target):
    signature = "*fp16:16, *fp16:16, *fp32:16, i32:16, 128"
    made = aot.export(large_kernel, signature, "1", "large", tmp_path / "large", target=target)
    half = torch.zeros(64, dtype=torch.float16)
    found = handed(aot.build(made), half, half, half.float(), 64)
    assert found.shared_bytes == made.functions[0].shared_bytes > 48 * 1024


@pytest.mark.compiler
def test_what_cannot_be_handed_over_is_named(added):
    with pytest.raises(CourseError, match=r"handed takes the path that aot\.build returned; this"):
        handed(None)
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


@pytest.mark.compiler
def test_tritons_own_tool_declares_floats_as_doubles_and_the_kernel_reads_other_numbers(
    multiply, tmp_path
):
    theirs = stock.compile(multiply, SIGNATURE, IN_C, "multiply", tmp_path / "stock" / "multiply")
    assert "CUdeviceptr x_ptr, double scale, double half, int32_t n_elements" in theirs.declaration
    launch = theirs.handed(torch.zeros(1000), 0.125, 0.5, 1000)
    assert launch.grid == (4, 1, 1)
    numbers = [(argument.name, argument.value) for argument in launch.arguments[1:]]
    assert numbers == [("scale", 0.0), ("half", 0.0), ("n_elements", 1000)]
    launch = theirs.handed(torch.zeros(1000), 0.1, 0.5, 1000)
    assert launch.arguments[1].content == struct.pack("<d", 0.1)[:4]


@pytest.mark.compiler
def test_ours_declares_floats_and_the_kernel_reads_what_was_given(multiply, tmp_path):
    ours = aot.export(multiply, SIGNATURE, GRID, "multiply", tmp_path / "multiply", num_warps=1)
    parameters = "CUdeviceptr x_ptr, float scale, float half, int32_t n_elements"
    assert parameters in ours.functions[0].prototype
    found = handed(aot.build(ours), torch.zeros(1000), 0.125, 0.5, 1000)
    assert [each.value for each in found.arguments[1:]] == [0.125, 0.5, 1000]


def test_files_of_ours_are_called_as_those_of_tritons_own_tool(multiply, tmp_path):
    signature = "*fp32:16, fp32, fp16, i32, 256"
    path = tmp_path / "stock" / "multiply"
    theirs = stock.compile(multiply, signature, IN_C, "multiply", path, 4, 3)
    ours = aot.export(multiply, signature, GRID, "multiply", tmp_path / "multiply")
    if triton.__version__ < "3.7":  # whose names list every argument after the hash, hint or none
        assert theirs.header.name.partition("_")[0] == ours.headers[0].name.partition("_")[0]
    else:
        assert theirs.header.name == ours.headers[0].name
        assert theirs.function == ours.functions[0].name


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
    said = r"A tensor begins 2 bytes into an element of torch\.float32: copy it first\."
    with pytest.raises(CourseError, match=said):
        plain(x)
