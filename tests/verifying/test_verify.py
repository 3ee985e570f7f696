"""verify accepts what is right and says of every planted mistake what is wrong with it."""

import math
import re

import pytest
import torch
import triton
import triton.language as tl

from course import MODE
from course.errors import CourseError
from course.verifying.api import verify
from course.verifying.compare import Tolerance, tolerance_for
from course.verifying.inputs import Case, Input, vectors
from kernels.vector_add import add, add_kernel
from tests.support.launchers import elementwise

pytestmark = pytest.mark.gpu_too

SMALL = [
    case for case in vectors(2, dtypes=(torch.float32, torch.float16)) if case.elements <= 4096
]


@triton.jit
def unmasked_store_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y)


@triton.jit
def write_input_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(x_ptr + offsets, x, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)


@triton.jit
def before_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)
    tl.store(out_ptr - 2, 0.0)


@triton.jit
def no_mask_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets))


@triton.jit
def off_by_one_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets <= n_elements
    tl.store(
        out_ptr + offsets,
        tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask),
        mask=mask,
    )


def into_zeros(x, y):
    x, y = x.contiguous(), y.contiguous()
    out = torch.zeros_like(x)
    if out.numel():
        unmasked_store_kernel[(triton.cdiv(out.numel(), 1024),)](
            x, y, out, out.numel(), BLOCK_SIZE=1024
        )
    return out


def one_stride_for_both(x, y):
    step = x.stride(0) if x.numel() > 1 else 1
    return x + y.as_strided(y.shape, (step,), y.storage_offset())


def at_stride_one(x):
    return x.as_strided(x.shape, (1,), x.storage_offset())


OUT = "its output" if MODE.gpu else "out_ptr"
WROTE_AT_1 = f"wrote outside {OUT}, whose length is 1: at [1]"
# CPU mode sees the read that comes first.
READ_AT_1 = "Program 0 read outside x_ptr, whose length is 1: at [1]"
OUTSIDE = WROTE_AT_1 if MODE.gpu else READ_AT_1

MISTAKES = {
    "there is no mask at all": (elementwise(no_mask_kernel), OUTSIDE),
    "the mask lets one too many through": (elementwise(off_by_one_kernel), OUTSIDE),
    "the store has no mask and the output was zeros": (into_zeros, WROTE_AT_1),
    "the stride of x serves for y": (one_stride_for_both, "At [1]: expected"),
    "the result is on another device":
        (lambda x, y: (x + y).to("meta"), "The result is on meta, and must be on"),
    "the store has no mask": (elementwise(unmasked_store_kernel), WROTE_AT_1),
    "it writes before its output":
        (elementwise(before_kernel), f"wrote outside {OUT}, whose length is 1: at [-2]"),
    "the grid is rounded down":
        (elementwise(add_kernel, lambda n: n // 1024), "got nothing: it was never written"),
    "it writes to an input":
        (lambda x, y: elementwise(write_input_kernel)(x, y), "It changed its input x"),
    "it works in place": (lambda x, y: x.add_(y), "It changed its input x"),
    "the dtype is another":
        (lambda x, y: (x + y).double(), "has dtype torch.float64, and must have torch.float32"),
    "the shape is another": (lambda x, y: (x + y)[None], "has shape (1, 0), and must have (0,)"),
    "it is no tensor": (lambda x, y: [1.0], "returned a list"),
    "it computes in bfloat16":
        (lambda x, y: (x.bfloat16() + y.bfloat16()).to(x.dtype), "At [0]: expected"),
    "NaN becomes zero": (lambda x, y: (x + y).nan_to_num(nan=0.0), "At [0]: expected nan, got 0"),
    "inf becomes large":
        (lambda x, y: (x + y).clamp(max=torch.finfo(x.dtype).max), "expected inf, got"),
    "it ignores y": (lambda x, y: x + x, "At [0]: expected"),
    "it assumes that its inputs are contiguous":
        (lambda x, y: at_stride_one(x) + at_stride_one(y), "At [1]: expected"),
    "it raises": (lambda x, y: x @ "text", "It raised TypeError"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_for_its_own_reason(name):
    function, reason = MISTAKES[name]
    result = verify(function, torch.add, SMALL)
    assert not result.right
    assert any(reason in outcome.reason for outcome in result.wrong), result
    assert "First wrong case" in str(result)


@pytest.mark.parametrize(
    "function",
    [
        add,
        torch.add,
        lambda x, y: y + x,
        lambda x, y: torch.stack([x, y]).sum(0),
        elementwise(add_kernel),
    ],
    ids=["the course's", "torch.add", "other order", "by a sum", "no checks"],
)
def test_right_answers_of_any_kind_are_accepted(function):
    result = verify(function, torch.add, SMALL)
    assert result.right, result
    assert f"right in all {len(SMALL)} cases" in str(result)


@triton.jit
def extreme_kernel(x_ptr, out_ptr, n, FOLD: tl.constexpr, BLOCK: tl.constexpr):
    """The maximum, minimum or sum of n elements, with nothing said of the masked lanes."""
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n)
    if FOLD == "max":
        out = tl.max(x, axis=0)
    elif FOLD == "min":
        out = tl.min(x, axis=0)
    else:
        out = tl.sum(x, axis=0)
    tl.store(out_ptr, out)


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: what is undefined may go well on a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
@pytest.mark.parametrize("fold", ["max", "min", "sum"])
def test_masked_lanes_are_undefined_without_other(fold, dtype):
    def folded(x, block):
        dtype = x.dtype if fold != "sum" or x.is_floating_point() else torch.int64
        out = torch.empty(1, dtype=dtype, device=x.device)
        extreme_kernel[(1,)](x, out, len(x), fold, block)
        return out

    def reference(x):
        return getattr(x, f"a{fold}" if fold != "sum" else fold)(0, keepdim=True)

    whole, lacks_one, half = (Case((Input((n,), dtype, values="small"),)) for n in (8, 15, 8))
    assert verify(lambda x: folded(x, 8), reference, [whole]).right
    assert not verify(lambda x: folded(x, 16), reference, [half]).right
    # One lane that is undefined shows in a maximum or in a minimum only, by what it holds: the next
    # load fills it the other way.
    assert not verify(lambda x: folded(x, 16), reference, [lacks_one]).right or fold == "min"
    assert (
        not verify(lambda x: (folded(x, 16), folded(x, 16))[1], reference, [lacks_one]).right
        or fold == "max"
    )


@triton.jit
def one_element_kernel(x_ptr, out_ptr, n, FOLD: tl.constexpr):
    """The first of n elements, limited to 0 from one side; nothing is said where there is none."""
    x = tl.load(x_ptr, mask=n > 0)
    tl.store(out_ptr, tl.maximum(x, 0.0) if FOLD == "max" else tl.minimum(x, 0.0))


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: what is undefined may go well on a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("fold", ["max", "min"])
def test_a_single_undefined_number_is_filled_either_way(fold, dtype):
    def limited(x, launches):
        out = torch.empty(1, dtype=dtype, device=x.device)
        for _ in range(launches):
            one_element_kernel[(1,)](x, out, 0, fold)
        return out

    cases = [Case((Input((4,), dtype),))]
    assert not all(
        verify(lambda x, k=k: limited(x, k), lambda x: 0 * x[:1], cases).right for k in (1, 2)
    )


@triton.jit
def gather_kernel(x_ptr, index_ptr, counts_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = the sum of counts[0] elements of x from index[i] on; masked loads lack `other`."""
    lanes = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + lanes, mask=lanes < n)
    count = tl.load(counts_ptr + tl.program_id(axis=0), mask=tl.program_id(axis=0) * BLOCK < n)
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(count):
        total += tl.load(x_ptr + index + i, mask=lanes < n)
    tl.store(out_ptr + lanes, total, mask=lanes < n)


def test_undefined_lanes_that_change_no_result_are_accepted():
    def gathered(x, index, counts):
        out = torch.empty(index.shape, dtype=x.dtype, device=x.device)
        # The last program has no element.
        gather_kernel[(4,)](x, index.contiguous(), counts, out, len(index), 8)
        return out

    index = Input((19,), torch.int64, values="small")
    cases = [Case((Input((200,)), index, Input((4,), torch.int32, values="small")))]
    result = verify(gathered, _sums, cases, absolute=1e-5)
    assert result.right, result


def _sums(x, index, counts):
    counts = counts.repeat_interleave(8)[: len(index)]
    return torch.stack(
        [x[start : start + count].sum() for start, count in zip(index, counts, strict=True)]
    )


def test_a_wrong_result_by_undefined_lanes_hints_at_them():
    case = Case((Input((9,)),))

    def total(x):
        out = torch.empty(1, device=x.device)
        extreme_kernel[(1,)](x, out, len(x), "sum", 16)
        return out

    if not MODE.gpu:
        assert "undefined, and hold infinities here" in str(
            verify(total, lambda x: x.sum(0, keepdim=True), [case])
        )


def test_an_element_never_written_is_found_even_where_nan_is_expected():
    def all_but_the_nan(x):
        out = torch.empty_like(x)
        kept = ~x.isnan()
        out[kept] = x[kept]
        return out

    result = verify(all_but_the_nan, torch.clone, [Case((Input((100,), values="NaN and inf"),))])
    assert "At [0]: expected nan, got nothing: it was never written" in result.outcomes[0].reason


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: what CPU mode leaves out")
def test_cpu_mode_leaves_large_cases_to_the_gpu_and_says_so():
    result = verify(add, torch.add, vectors(2))
    left = [outcome for outcome in result.outcomes if outcome.verdict == "left to the GPU"]
    assert any("67,108,865" in outcome.case for outcome in left)
    assert "since the interpreter would take long: 67,108,865 float32" in str(result)


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: a GPU computes it rightly")
def test_bfloat16_that_the_interpreter_gets_wrong_is_left_to_the_gpu():
    case = Case((Input((100,), torch.bfloat16),) * 2)
    (outcome,) = verify(add, torch.add, [case]).outcomes
    assert outcome.verdict == "left to the GPU"
    assert outcome.reason == "the interpreter's bfloat16 arithmetic is wrong"
    assert verify(torch.add, torch.add, [case]).right
    # Addresses are known in bfloat16 too.
    assert not verify(MISTAKES["the store has no mask"][0], torch.add, [case]).right


def test_only_cases_that_ran_make_a_function_right():
    if not MODE.gpu:
        result = verify(add, torch.add, [Case((Input((5,)),) * 2)], most_elements=4)
        assert not result.right
        assert "no case was run" in str(result)


def test_a_reference_that_fails_is_a_sentence_that_blames_the_order_only_where_it_is_wrong():
    with pytest.raises(
        CourseError, match=r"The reference failed on 1 tensor .* vectors\(2\) makes two\.$"
    ):
        verify(add, torch.add, vectors(1))
    with pytest.raises(CourseError, match="PyTorch's second"):
        verify(torch.softmax, lambda x: x.nothing, vectors(1))


def test_function_and_reference_may_be_exchanged():
    assert verify(torch.add, elementwise(add_kernel), SMALL).right


@pytest.mark.parametrize(
    ("function", "reference", "cases", "sentence"),
    [
        (add_kernel, torch.add, SMALL, "launches the kernel .* write one around add_kernel"),
        (torch.ones(2), torch.add, SMALL, "takes a function of tensors; this is a Tensor"),
        (add, (2,), SMALL, "and then a reference: a function in PyTorch .* This is a tuple"),
        (add, None, SMALL, "verify takes your function first"),
        (add, torch.add, torch.ones(2), "takes a list of cases.* holds a Tensor"),
        (add, torch.add, [*SMALL, 1000], "takes a list of cases.* holds an int"),
    ],
)
def test_what_is_no_function_or_no_case_is_a_sentence(function, reference, cases, sentence):
    with pytest.raises(CourseError, match=sentence):
        verify(function, reference, cases)


def test_cases_that_are_no_list_are_a_sentence():
    with pytest.raises(CourseError, match="verify takes a list of cases, such as vectors"):
        verify(add, torch.add, vectors)


def test_out_arguments_are_allowed():
    def add_into(x, y):
        return torch.add(x, y, out=torch.empty(0, dtype=x.dtype, device=x.device))

    assert verify(add_into, torch.add, SMALL).right


def test_no_cases_is_a_sentence():
    with pytest.raises(CourseError, match="verify was given no cases"):
        verify(add, torch.add, [])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tolerance": 1e-3}, "tolerance is 0.001, and must be a Tolerance"),
        ({"absolute": "x"}, "absolute is 'x', and must be a number from 0 on"),
        ({"absolute": -1}, "absolute is -1, and must be a number from 0 on"),
        ({"absolute": lambda x: torch.ones(3)}, "given a tensor of shape (3,), and must give"),
        ({"case_s": -1}, "case_s is -1, and must be a number from 0 on"),
        ({"block": "x"}, "block is 'x', and must be a number from 1 on"),
        ({"most_elements": True}, "most_elements is True, and must be a number from 1 on"),
    ],
)
def test_options_of_another_kind_are_a_sentence(options, says):
    with pytest.raises(CourseError, match=re.escape(says)):
        verify(torch.clone, torch.clone, [Case((Input((10,)),))], **options)


@pytest.mark.parametrize("dtypes", [torch.float16, ()])
def test_vectors_of_no_dtypes_are_a_sentence(dtypes):
    with pytest.raises(CourseError, match="vectors takes dtypes, as"):
        vectors(1, dtypes)


def test_a_reference_that_works_in_place_is_named_and_not_the_function():
    def reference(x):
        return torch.nn.functional.relu(x, inplace=True)

    with pytest.raises(CourseError, match="The reference changes its input x"):
        verify(lambda x: x.clamp(min=0), reference, [Case((Input((10,)),))])


def test_a_tolerance_of_ones_own():
    case = [Case((Input((50,)),))]
    assert not verify(lambda x: x * 1.01, torch.clone, case).right
    assert verify(lambda x: x * 1.01, torch.clone, case, tolerance=Tolerance(0.02)).right


def test_the_error_allowed_may_differ_from_element_to_element():
    def allowed(x, most):
        return most * torch.arange(50, device=x.device)

    def off(x, most):
        return x + 0.9 * allowed(x, most)

    case = [Case((Input((50,)),), scalars=(0.1,))]
    assert verify(off, lambda x, most: x, case, absolute=allowed).right
    elsewhere = verify(off, lambda x, most: x, case, absolute=lambda *args: allowed(*args).flip(0))
    assert "At [26]" in str(elsewhere)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_allows_one_rounding_and_not_two(dtype):
    exact = torch.linspace(1, 2, 4001, dtype=torch.float64)
    allowed = tolerance_for(dtype)
    once = (exact.float().to(dtype).double() - exact).abs()
    assert (once <= allowed.absolute + allowed.relative * exact).all()
    assert (2 * once > allowed.absolute + allowed.relative * exact).any()


def test_integers_must_be_equal():
    case = [Case((Input((50,), torch.int32),))]
    assert verify(torch.clone, torch.clone, case).right
    assert not verify(lambda x: x + 1, torch.clone, case).right


def test_the_table_names_the_largest_error_by_dtype():
    text = str(verify(torch.add, torch.add, [Case((Input((2000,), torch.float16),) * 2)]))
    share = int(text.split()[-1].rstrip("%"))
    assert 50 < share <= 100
    assert math.isclose(0.5 / 0.55, share / 100, abs_tol=0.1)
