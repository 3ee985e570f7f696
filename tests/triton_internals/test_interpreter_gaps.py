"""What Triton's interpreter lacks is filled, or left to a GPU: it makes no kernel wrong."""

import os
import sys
import threading
import time

import pytest
import torch
import triton
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime.errors import InterpreterError

from course import MODE, CourseError, check, cost, lower, replay
from course.exercises import learner
from course.isolate.commands import run_source
from course.lowering.api import lower_file
from course.triton_internals.libdevice import elementwise
from course.triton_internals.remembered_types import types_remembered
from course.verifying.api import verify
from course.verifying.inputs import Case, Input
from tests.support import gap_kernels as kernels

pytestmark = pytest.mark.skipif(
    MODE.gpu, reason="needs CPU mode: the interpreter's gaps are CPU mode's"
)

CASE = Case((Input((64,)),))
CANNOT = "Triton's interpreter cannot run "


@pytest.fixture(autouse=True)
def a_new_learner(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "data"))


def test_a_remembered_type_is_the_one_that_triton_makes():
    pointers = [tl.pointer_type(tl.float32), tl.pointer_type(tl.float32, const=True)]
    for element in (tl.int1, tl.float32, *pointers):
        for shape in ([4], [2, 8], [tl.constexpr(4), 2]):
            made = tl.block_type(element, shape)
            with types_remembered():
                for block in (tl.block_type(element, shape) for _ in range(2)):
                    assert (str(block), block.element_ty, list(block.shape), block.numel) == (
                        (str(made), element, list(made.shape), made.numel)
                    )
                    first, second = tl.tensor("a", block), tl.tensor("b", block)
                    assert (first.handle, second.handle, second.type) == ("a", "b", block)
                    assert first.dtype == element and first.numel.value == made.numel
    with types_remembered():
        for _ in range(2):
            with pytest.raises(ValueError, match="power of 2"):
                tl.block_type(tl.float32, [3])


def test_blocks_of_one_shape_stay_as_they_are_and_those_that_do_not_fit_are_refused():
    types = [tl.block_type(tl.float32, [2, 4]), tl.block_type(tl.int1, [2, 4])]
    one, other = (tl.tensor(name, type) for name, type in zip("ab", types, strict=True))
    wider = tl.tensor("c", tl.block_type(tl.float32, [2, 8]))
    with types_remembered():
        left, right = TritonSemantic(None).broadcast_impl_value(one, other)
        assert left is one and right is other
        with pytest.raises(ValueError, match="incompatible dimensions"):
            TritonSemantic(None).broadcast_impl_value(one, wider)


def floats():
    return torch.randn(64, generator=torch.Generator().manual_seed(0))


def with_exponentials(x):
    return torch.where(torch.arange(64) < 32, torch.exp(x), x)


def with_libdevice(x):
    return 2 * torch.exp(x) + torch.erf(x) + torch.tanh(x)


RUN = {
    "functions imported from the language": (kernels.imported_kernel, (), torch.exp),
    "a function under another name": (kernels.renamed_kernel, (), torch.exp),
    "a function under another name in another module": (kernels.other_module_kernel, (), torch.exp),
    "the method of what a loop counts": (kernels.counted_kernel, (), torch.exp),
    "a loop that is unrolled": (kernels.unrolled_kernel, (), torch.exp),
    "a loop that is unrolled in Triton's own helpers": (
        kernels.sorting_kernel,
        (),
        lambda x: torch.sort(x).values,
    ),
    "min and max of blocks": (kernels.bounded_kernel, (), lambda x: x.clamp(-0.5, 0.5)),
    "the methods of arguments": (kernels.numbers_kernel, (0.5, True), lambda x: x + 0.5),
    "an argument that is false": (kernels.numbers_kernel, (0.5, False), torch.clone),
    "and, or and not of conditions": (kernels.conditions_kernel, (64, True), with_exponentials),
    "an assert, and a constant's value": (kernels.asserting_kernel, (64,), torch.clone),
    "a constant before an `and`": (kernels.constant_first_kernel, (None,), torch.clone),
    "libdevice": (kernels.library_kernel, (), with_libdevice),
}


@pytest.mark.parametrize("name", RUN)
def test_what_can_be_made_to_run_runs(name):
    kernel, more, reference = RUN[name]
    result = verify(kernels.launcher(kernel, *more), reference, [CASE])
    assert result.right, result
    assert replay(kernel, (1,), floats(), floats(), *more).recording.failure is None
    assert cost(kernel, (1,), floats(), floats(), *more).bytes_stored == 4 * 64


def test_conditions_leave_no_name_in_a_replay():
    steps = replay(kernels.conditions_kernel, (1,), floats(), floats(), 64, True)._step_lines()
    assert not any("__course" in line for line in steps)
    assert any("first" in line for line in steps)


def test_a_number_is_no_condition():
    words = "take conditions and no numbers: compare, as in x != 0"
    assert words in str(verify(kernels.launcher(kernels.number_kernel), torch.clone, [CASE]))
    with pytest.raises(CourseError, match=words):
        lower(kernels.number_kernel, floats(), floats())


def test_a_kernel_takes_names_from_the_function_around_it():
    result = verify(kernels.launcher(kernels.inner_kernel), torch.exp, [CASE])
    assert result.right, result


@pytest.mark.parametrize("grid", [[1], lambda arguments: [1, 1]])
def test_a_grid_may_be_a_list(grid):
    def launch(x):
        out = torch.empty_like(x)
        kernels.imported_kernel[grid](x, out)
        return out

    result = verify(launch, torch.exp, [CASE])
    assert result.right, result


def test_a_number_with_a_point_is_a_float32_as_on_a_gpu():
    out = verify(
        kernels.launcher(kernels.scaled_kernel, 0.1),
        lambda x: x * 0.1,
        [Case((Input((64,), torch.float16),))],
    )
    assert out.right, out  # float16 times float32 is computed in float32
    assert lower(kernels.scaled_kernel, "*fp16", "*fp16", 0.1).ttir.count("arith.extf") == 1


def test_functions_of_libdevice_are_counted():
    assert cost(kernels.library_kernel, (1,), floats(), floats()).special == {"fp32": 4 * 64}


@pytest.mark.parametrize("name", ["imported_kernel", "library_kernel", "counted_kernel"])
def test_the_interpreter_and_the_kernels_module_are_left_as_they_were(name):
    from triton.language.extra import libdevice
    from triton.runtime import interpreter

    names = dict(vars(kernels))
    functions = libdevice.exp, interpreter._patch_lang, interpreter._implicit_cvt
    verify(kernels.launcher(getattr(kernels, name)), torch.exp, [CASE])
    assert functions == (libdevice.exp, interpreter._patch_lang, interpreter._implicit_cvt)
    assert all(vars(kernels)[name] is value for name, value in names.items())


LACKING = {
    "inline assembly": kernels.assembly_kernel,
    "the library function __nv_j0f": kernels.bessel_kernel,
    "triton.language.extra.cuda.utils.globaltimer": kernels.clock_kernel,
    "offsets, a method of an @aggregate class": kernels.aggregate_kernel,
    "the atomic_add of a tensor descriptor": kernels.descriptor_update_kernel,
}


@pytest.mark.parametrize("what", LACKING)
def test_what_cannot_be_run_is_left_to_the_gpu(what):
    kernel = LACKING[what]
    assert lower(kernel, floats(), floats()).ptx  # it is right on a GPU
    result = verify(kernels.launcher(kernel), torch.clone, [CASE])
    (outcome,) = result.outcomes
    assert (outcome.verdict, outcome.lacking) == ("left to the GPU", what)
    assert not result.right and not result.wrong
    assert f"Left to the GPU, since {CANNOT}{what}, but a GPU can: 64 float32." in str(result)


def test_replay_and_cost_do_not_blame_a_kernel_for_what_the_interpreter_lacks():
    args = kernels.assembly_kernel, (1,), floats(), floats()
    stopped = replay(*args)
    assert stopped.trace["failure"] == f"{CANNOT}inline assembly, but a GPU can."
    assert "y = tl.inline_asm_elementwise" in stopped._step_lines()[-2]
    with pytest.raises(CourseError) as refused:
        cost(*args)
    first, compiled, registers, *_ = str(refused.value).splitlines()
    line = kernels.assembly_kernel.fn.__code__.co_firstlineno + 4
    cannot = f"cost cannot follow assembly_kernel beyond line {line}"
    assert first == f"{CANNOT}inline assembly, but a GPU can: {cannot}."
    assert compiled == "Compiled for sm_90:"
    assert "registers" in registers


@pytest.mark.parametrize("tool", [lower, cost])
def test_a_descriptor_is_said_to_take_no_such_type_in_an_atomic(tool):
    grid = () if tool is lower else ((1,),)
    words = "a descriptor's atomics take integers of 32 or 64 bits"
    with pytest.raises(CourseError, match=words):
        tool(kernels.descriptor_maximum_kernel, *grid, floats(), floats())


def test_floats_are_exchanged():
    def exchanged(x):
        lanes = torch.arange(64)
        return torch.where((lanes >= 16) & (lanes < 32), 2 * x, -x)

    cases = [Case((Input((64,), dtype),)) for dtype in (torch.float32, torch.float64)]
    result = verify(kernels.launcher(kernels.exchange_kernel), exchanged, cases)
    assert result.right, result
    assert lower(kernels.exchange_kernel, floats(), floats()).ptx.count("atom.") == 2
    accesses = cost(kernels.exchange_kernel, (1,), floats(), floats()).accesses
    assert [each.bytes for each in accesses if each.kind == "update"] == [128, 64]


def test_an_atomic_of_bfloat16_is_what_the_interpreter_lacks():
    half = torch.zeros(64, dtype=torch.bfloat16)
    args = kernels.updated_kernel, (1,), half, half.clone()
    what = f"{CANNOT}tl.atomic_add of bf16, but a GPU can"
    assert replay(*args).trace["failure"] == f"{what}."
    with pytest.raises(CourseError, match=f"{what}: cost cannot follow updated_kernel beyond"):
        cost(*args)


@pytest.mark.parametrize(
    "kernel", [kernels.indexed_kernel, kernels.assigned_kernel], ids=["loaded", "stored"]
)
def test_only_an_index_is_called_one(kernel):
    words = (
        "a pointer is not indexed"
        if kernel is kernels.indexed_kernel
        else "elements are not assigned by index: use tl.store"
    )
    assert words in str(verify(kernels.launcher(kernel), torch.clone, [CASE]))
    with pytest.raises(CourseError, match=words):
        lower(kernel, floats(), floats())


def outside_a_kernel(x):
    return tl.exp(x)


def test_a_function_of_the_language_outside_a_kernel_is_no_index_and_no_gap():
    (outcome,) = verify(outside_a_kernel, torch.exp, [CASE]).outcomes
    assert outcome.verdict == "wrong"
    assert "Did you forget to add @triton.jit" in outcome.reason


SAME_IN_PYTORCH = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt floor ceil trunc erf erfc "
    "sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh"
)


# NumPy's, of what is infinite or not a number.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_libdevice_is_what_pytorch_computes(dtype):
    x = torch.tensor(
        [-2.5, -1.5, -0.5, -0.0, 0.25, 0.5, 1.5, 3.0, float("inf"), float("nan")], dtype=dtype
    )
    array = x.numpy()

    def of_library(name, *arrays):
        letter = "f" if dtype == torch.float32 else ""
        function = elementwise(f"__nv_{name}{letter}", array.dtype)
        return function and torch.from_numpy(function(*arrays))

    for name in SAME_IN_PYTORCH.split():
        torch.testing.assert_close(of_library(name, array), getattr(torch, name)(x), equal_nan=True)
    rounded = of_library("round", array[:8])
    assert rounded.tolist() == [-3.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 3.0]
    assert of_library("rint", array[:8]).tolist() == x[:8].round().tolist()
    torch.testing.assert_close(of_library("pow", array, array), x**x, equal_nan=True)
    assert of_library("j0", array) is None


@triton.jit
def assembly_answer(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    x = tl.inline_asm_elementwise(
        "add.f32 $0, $1, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out_ptr + offsets, x, mask=mask)


def test_an_answer_that_only_a_gpu_can_run_is_neither_right_nor_wrong_and_no_try():
    checked = check("if-becomes-mask", assembly_answer)
    assert str(checked) == (
        "if-becomes-mask: left to the GPU.\n"
        "    Triton's interpreter cannot run inline assembly, but a GPU can.\n"
        "    It compiles for an H100 (sm_90): check it in GPU mode."
    )
    assert not checked.right
    assert learner.tried() == {}


@triton.jit
def broken_assembly_answer(x_ptr, out_ptr, n):
    x = tl.inline_asm_elementwise(
        "add.f32 $0, $1, $1;", "=f,f", [tl.load(x_ptr)], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out_ptr + tl.arange(0, 7), x)


def test_what_does_not_compile_is_not_left_to_the_gpu():
    assert check("if-becomes-mask", broken_assembly_answer).verdict == "does not compile"


@triton.autotune(
    [triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)],
    ["n_cols"],
    restore_value=["x_ptr"],
    warmup=1,
    rep=1,
)
@triton.jit
def timed_kernel(x_ptr, n_cols, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + tl.program_id(axis=0) * n_cols + cols
    x = tl.load(x_ptrs, mask=cols < n_cols, other=float("-inf"))
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(x_ptrs, power / tl.sum(power, axis=0), mask=cols < n_cols)


@triton.autotune(
    [triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)],
    ["n_cols"],
    restore_value=["x_ptr"],
    use_cuda_graph=True,
)
@triton.jit
def graphed_kernel(x_ptr, n_cols, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + tl.program_id(axis=0) * n_cols + cols
    x = tl.load(x_ptrs, mask=cols < n_cols, other=float("-inf"))
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(x_ptrs, power / tl.sum(power, axis=0), mask=cols < n_cols)


def timed_in_place(x):
    x = x.clone()
    timed_kernel[(x.shape[0],)](x, x.shape[1], BLOCK_N=triton.next_power_of_2(x.shape[1]))
    return x


def graphed_in_place(x):
    x = x.clone()
    graphed_kernel[(x.shape[0],)](x, x.shape[1], BLOCK_N=triton.next_power_of_2(x.shape[1]))
    return x


@pytest.mark.parametrize("answer", [timed_in_place, graphed_in_place])
def test_a_tuner_that_measures_in_a_way_of_its_own_is_no_mistake(answer):
    assert check("tuned-in-place", answer).right
    assert answer(torch.zeros(2, 4)).tolist() == [[0.25] * 4] * 2  # nor in this session


# A module of a package that asks Triton for the GPU, and where there is one asks PyTorch about it.
ASKING = """
import torch, triton, triton.language as tl

try:
    found = triton.runtime.driver.active.get_current_target()
except RuntimeError:
    found = None
name = torch.cuda.get_device_name() if found is not None else ""

@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, 1.0)
"""
IN_A_SESSION = """
from course import cost, lower, replay
from course.verifying.api import verify
import torch
from kernels.vector_add import add, add_kernel
from course.verifying.inputs import Case, Input

lower(add_kernel, "*fp32", "*fp32", "*fp32", "i32", BLOCK_SIZE=64)
verify(add, torch.add, [Case((Input((8,)),) * 2)])
import asking

assert asking.found is None
assert cost(asking.kernel, (1,), torch.zeros(1)).bytes_stored == 4
assert replay(asking.kernel, (1,), torch.zeros(1)).steps
assert lower(asking.kernel, "*fp32").ptx
print("as without the course")
"""


def test_no_tool_tells_others_of_a_gpu_that_is_not_there(tmp_path, monkeypatch):
    (tmp_path / "asking.py").write_text(ASKING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setenv("COURSE_MODE", "cpu")
    ended = run_source(IN_A_SESSION)
    assert "as without the course" in ended.stdout, ended.stderr


# A module that cannot be loaded without a driver.
NEEDING = """
import triton, triton.language as tl

TARGET = triton.runtime.driver.active.get_current_target()
IS_AMD = tl.constexpr(TARGET.backend == "hip")

@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, 1.0 if IS_AMD else 2.0)
"""


def test_a_module_that_needs_a_driver_while_it_loads_is_told_of_the_target(tmp_path):
    file = tmp_path / "needing.py"
    file.write_text(NEEDING)
    assert "2.000000e+00" in lower_file(file, "kernel", ["*fp32"], "sm_90").ttir
    assert "1.000000e+00" in lower_file(file, "kernel", ["*fp32"], "gfx942").ttir


def slowly(x):
    return kernels.launcher(kernels.slow_kernel, 2**18 if x.numel() > 64 else 64)(
        x[:64].contiguous()
    )


CASES = [Case((Input((size,)),)) for size in (64, 65, 100, 64)]


def test_a_case_that_takes_the_interpreter_too_long_is_left_to_the_gpu():
    assert verify(slowly, lambda x: x[:64], CASES[:1]).right  # what is loaded once is loaded
    result = verify(slowly, lambda x: x[:64], CASES, case_s=1)  # of some 20 that the slow ones take
    verdicts = ["right", "left to the GPU", "left to the GPU", "right"]
    assert [outcome.verdict for outcome in result.outcomes] == verdicts
    assert "since the interpreter had not ended it after 1 s of computing: 65 float32." in str(
        result
    )
    assert "since the interpreter would take long: 100 float32." in str(result)
    assert verify(
        kernels.launcher(kernels.imported_kernel), torch.exp, [CASE]
    ).right  # nothing is left of it


def waiting(x):
    time.sleep(1.5)  # as on a machine that does something else
    return x.clone()


def test_a_case_is_not_stopped_for_time_in_which_it_does_not_compute():
    assert verify(torch.clone, torch.clone, [CASE]).right  # what is loaded once is loaded
    assert verify(waiting, torch.clone, [CASE], case_s=1).right


def test_in_another_thread_nothing_is_stopped():
    found = []
    other = threading.Thread(
        target=lambda: found.append(verify(torch.clone, torch.clone, [CASE], case_s=0))
    )
    other.start()
    other.join()
    assert found[0].right


def test_replay_says_what_undefined_lanes_hold_where_it_shows():
    note = "Masked lanes that are loaded without `other` are undefined"
    args = kernels.unmasked_sum_kernel, (1,), floats(), floats()[:1].clone()
    assert any(line.startswith(note) for line in replay(*args, 40).trace["notes"])
    assert not any(line.startswith(note) for line in replay(*args, 64).trace["notes"])


def test_a_forgotten_grid_leaves_the_language_as_it_was():
    before = dict(vars(tl))
    with pytest.raises(InterpreterError):
        kernels.renamed_kernel(floats(), floats())
    assert {name for name in before if vars(tl)[name] is not before[name]} == set()
    test_what_can_be_made_to_run_runs("functions imported from the language")
