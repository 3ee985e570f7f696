"""How arguments specialize a kernel, against what Triton itself would compile."""

import pytest
import torch
import triton
import triton.language as tl

from course.errors import CourseError
from course.isolate.commands import run_source
from course.lowering.specialization import specialize
from kernels.vector_add import add_kernel

ALIGNED = torch.empty(1024)


def parameters(*args, **meta):
    return {each.name: each for each in specialize(add_kernel, *args, **meta).parameters}


def test_types_divisibility_and_constants():
    by_name = parameters(ALIGNED, ALIGNED[1:], ALIGNED.half(), 4096, BLOCK_SIZE=256)
    assert [str(each) for each in by_name.values()] == [
        "x_ptr: *fp32, divisible by 16",
        "y_ptr: *fp32",
        "out_ptr: *fp16, divisible by 16",
        "n_elements: i32, divisible by 16",
        "BLOCK_SIZE: the constant 256",
    ]


@pytest.mark.parametrize(
    ("n", "says"),
    [
        (1, "n_elements: the constant 1"),
        (0, "n_elements: i32, divisible by 16"),
        (17, "n_elements: i32"),
        (-16, "n_elements: i32, divisible by 16"),
        (2**31 - 1, "n_elements: i32"),
        (2**31, "n_elements: i64, divisible by 16"),
        (2**63, "n_elements: u64, divisible by 16"),
        (1.0, "n_elements: fp32"),
        (True, "n_elements: u1"),
    ],
)
def test_scalars(n, says):
    assert str(parameters(ALIGNED, ALIGNED, ALIGNED, n, BLOCK_SIZE=256)["n_elements"]) == says


@triton.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["stride"])
def told_less_kernel(x_ptr, n, stride):
    tl.store(x_ptr + n * stride, 1.0)


@pytest.mark.parametrize(
    ("n", "stride", "says"),
    [
        (16, 16, ["n: i32", "stride: i32"]),
        (1, 1, ["n: i32", "stride: the constant 1"]),
        (2**31, 2**31, ["n: i64", "stride: i64"]),
    ],
)
def test_the_compiler_is_not_told_what_the_decorator_keeps_from_it(n, stride, says):
    told = specialize(told_less_kernel, ALIGNED, n, stride).parameters
    assert list(map(str, told[1:])) == says


def of_five_elements(**options):
    return specialize(add_kernel, ALIGNED, ALIGNED, ALIGNED, 5, BLOCK_SIZE=256, **options)


def test_options_of_the_compiler_make_another_kernel_where_they_are_not_the_usual_ones():
    usual, other = of_five_elements(), of_five_elements(num_warps=8)
    assert of_five_elements(num_warps=4) == usual != other
    assert other.parameters == usual.parameters
    assert str(other).endswith("num_warps: the option 8")


def test_an_option_that_does_not_exist_is_a_sentence():
    unknown = "num_warp: neither a parameter of the kernel nor an option of the compiler"
    with pytest.raises(CourseError, match=unknown):
        of_five_elements(num_warp=8)


def test_too_few_arguments_are_a_sentence():
    missing = r"do not fit the kernel add_kernel: add_kernel\(\) missing 3 required"
    with pytest.raises(CourseError, match=missing):
        specialize(add_kernel, ALIGNED, ALIGNED)


@pytest.mark.parametrize("wrong", [print, 3, None, torch.add])
def test_what_is_no_kernel_is_a_sentence(wrong):
    with pytest.raises(CourseError, match="specialize takes a kernel"):
        specialize(wrong)


def test_a_wrapped_kernel_is_looked_through():
    @triton.heuristics({"BLOCK_SIZE": lambda args: 64})
    @triton.jit
    def copy_kernel(x_ptr, BLOCK_SIZE: tl.constexpr):
        tl.store(x_ptr, tl.load(x_ptr))

    assert specialize(copy_kernel, ALIGNED, BLOCK_SIZE=64).kernel == "copy_kernel"


# In a child that compiles: Triton's own warmup, through a driver that says there is an sm_90, and
# what it compiled.
WARMUP = """
import course, torch, triton
from triton.backends.compiler import GPUTarget
from course.lowering.specialization import specialize
from course.triton_internals.driver import FixedDriver
from kernels.vector_add import add_kernel

triton.runtime.driver.set_active(FixedDriver(GPUTarget("cuda", 90, 32), runs_trials=False))

x = torch.empty(4096)
several = [(x, x, x, 4096), (x[1:], x, x, 4096), (x, x, x, 77), (x, x, x, 1)]
for args in [*several, (x.half(), x, x, 2**31)]:
    source = add_kernel.warmup(*args, BLOCK_SIZE=1024, grid=(1,)).src
    ours = specialize(add_kernel, *args, BLOCK_SIZE=1024).parameters
    assert [each.type for each in ours] == list(source.signature.values()), (ours, source.signature)
    assert [i for i, each in enumerate(ours) if each.divisible_by_16] == sorted(
        path[0] for path, attributes in source.attrs.items() if attributes
    ), source.attrs
    assert {i: each.constant for i, each in enumerate(ours) if each.constant is not None} == {
        path[0]: value for path, value in source.constants.items()
    }, source.constants
print("agrees")
"""


def test_triton_compiles_exactly_what_is_said():
    ended = run_source(WARMUP, kind="compile")
    assert ended.stdout == "agrees\n", ended.stderr
