"""The cases a function is tried on, and the guarded memory they lie in."""

import pytest
import torch
from torch._higher_order_ops.wrap import wrap

from course import DEVICE
from course.errors import CourseError
from course.verifying.guarded_memory import GuardedAllocations, guarded, is_poison
from course.verifying.inputs import LAYOUTS, Case, Input, heads, matrix_pairs, vectors

pytestmark = pytest.mark.gpu_too

DTYPES = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int8,
    torch.int32,
    torch.int64,
]


def test_vectors_cover_lengths_dtypes_layouts_and_values():
    inputs = [case.inputs[0] for case in vectors(2)]
    assert {0, 1, 1023, 1024, 1025, 98_432} <= {each.shape[0] for each in inputs}
    assert {each.dtype for each in inputs} == {torch.float32, torch.float16, torch.bfloat16}
    assert {each.layout for each in inputs} == {
        "contiguous",
        "offset by one element",
        "every second element",
    }
    assert {each.values for each in inputs} == {"normal", "NaN and inf", "large"}
    assert all(len(case.inputs) == 2 for case in vectors(2))


def test_matrix_pairs_can_be_multiplied_and_are_no_multiples_of_blocks():
    pairs = [case.inputs for case in matrix_pairs((torch.float16, torch.bfloat16))]
    assert all(a.shape[1] == b.shape[0] and a.dtype == b.dtype for a, b in pairs)
    assert {a.dtype for a, _ in pairs} == {torch.float16, torch.bfloat16}
    assert {a.layout for a, _ in pairs} == {b.layout for _, b in pairs} == set(LAYOUTS)
    assert any(a.shape[1] % 16 and a.shape[1] > 16 for a, _ in pairs)


@pytest.mark.parametrize("make", [matrix_pairs, heads])
@pytest.mark.parametrize(
    "dtypes", [torch.float16, (), ("float16",), "float16", (torch.int32,), None]
)
def test_cases_of_what_are_no_floats_are_a_sentence(make, dtypes):
    with pytest.raises(
        CourseError, match=f"{make.__name__} takes a tuple of floating-point dtypes"
    ):
        make(dtypes=dtypes)


def test_heads_cover_dtypes_odd_lengths_and_both_kinds_of_unequal_ones():
    cases = [case.inputs for case in heads()]
    assert {each.dtype for inputs in cases for each in inputs} == {torch.float16, torch.bfloat16}
    assert all(k == v and (q.shape[0], q.shape[2]) == (k.shape[0], k.shape[2]) for q, k, v in cases)
    lengths = {(q.shape[1], k.shape[1]) for q, k, _ in cases}
    assert (
        any(m < n for m, n in lengths)
        and any(m > n for m, n in lengths)
        and any(m == n > 1 for m, n in lengths)
    )
    assert any(m % 2 and n % 64 for m, n in lengths)


def test_the_same_case_gives_the_same_values():
    case = Case((Input((1000,)),) * 2, seed=3)
    first, second = case.make(DEVICE), case.make(DEVICE)
    assert torch.equal(first[0].tensor, second[0].tensor)
    assert not torch.equal(first[0].tensor, first[1].tensor)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_has_its_strides_and_alignment(layout):
    tensor = Input((6, 5), layout=layout).make(DEVICE, torch.Generator(DEVICE)).tensor
    assert tensor.shape == (6, 5)
    aligned = tensor.data_ptr() % 16 == 0
    expected = {
        "contiguous": ((5, 1), True),
        "offset by one element": ((5, 1), False),
        "every second element": ((10, 2), True),
        "left part of a wider one": ((10, 1), True),
        "transposed": ((1, 6), True),
    }
    assert (tensor.stride(), aligned) == expected[layout]


def test_values_are_finite_special_or_near_the_limits_as_named():
    def make(values):
        wanted = Input((100,), torch.float16, values=values)
        return wanted.make(DEVICE, torch.Generator(DEVICE)).tensor

    assert make("normal").isfinite().all()
    assert make("NaN and inf").isnan().any() and make("NaN and inf").isinf().any()
    large = make("large")
    assert large.isfinite().all()
    assert (large.double().abs().max() * 2) > torch.finfo(torch.float16).max
    for values, sign in (("near the maximum", 1), ("near the minimum", -1)):
        near = sign * make(values)
        assert near.isfinite().all() and (near > torch.finfo(torch.float16).max / 2).all()


WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


@pytest.mark.parametrize("dtype", WHOLE)
def test_integers_are_of_either_sign_with_the_extremes_unless_they_are_to_be_small(dtype):
    def make(values, shape=(7,)):
        return Input(shape, dtype, values=values).make(DEVICE, torch.Generator(DEVICE)).tensor

    info = torch.iinfo(dtype)
    some = set(make("normal").tolist())
    assert {info.min, info.max, -1 if info.min else 0} <= some
    assert set(make("normal", (300,)).tolist()) & set(range(1, 80))  # and small ones
    small = make("small", (300,))
    assert small.min() >= 0 and small.max() < 80
    assert make("each at least 1", (300,)).min() >= 1
    assert make("normal", ()).shape == () and make("normal", (0, 3)).shape == (0, 3)


def test_integers_below_zero_divide_without_overflow():
    drawn = Input((300,), torch.int32, values="below zero").make(DEVICE, torch.Generator(DEVICE))
    assert drawn.tensor.max() < -1  # the smallest integer divided by -1 ends the process


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (3, 4), (0,), ()])
def test_a_fresh_guarded_tensor_is_poison_and_has_no_stray_writes(dtype, shape):
    stride = torch.empty(shape).stride()
    memory = guarded(shape, stride, dtype, DEVICE)
    assert is_poison(memory.tensor).all()
    assert memory.stray_writes() == []
    if (
        0 not in shape
    ):  # the same in every run, so that what is promised of it holds always or never
        assert memory.tensor.data_ptr() % 512 == 256


@pytest.mark.parametrize("dtype", DTYPES)
def test_writes_inside_are_no_stray_writes_and_writes_outside_are(dtype):
    memory = guarded((3, 4), (8, 2), dtype, DEVICE)
    memory.tensor.fill_(1)
    assert memory.stray_writes() == []
    assert not is_poison(memory.tensor).any()
    start = memory.tensor.storage_offset()
    for position in (-1, 1, 23):  # before it, in a gap between its elements, after it
        memory.buffer[start + position] = 1
    assert memory.stray_writes() == [-1, 1, 23]


@pytest.mark.parametrize(
    "allocate",
    [
        lambda x: torch.empty(5, device=x.device),
        lambda x: torch.empty_like(x),
        lambda x: torch.empty_strided((2, 3), (3, 1), device=x.device),
        lambda x: x.new_empty(4),
        lambda x: torch.empty(5, dtype=torch.int64, device=x.device),
    ],
)
def test_every_way_to_allocate_is_guarded(allocate):
    x = torch.ones(3, device=DEVICE)
    with GuardedAllocations() as allocated:
        out = allocate(x)
    assert is_poison(out).all()
    assert [memory.tensor.data_ptr() for memory in allocated.all] == [out.data_ptr()]


@pytest.mark.parametrize(
    ("allocate", "value"),
    [
        (lambda x: torch.zeros(5, device=x.device), 0),
        (lambda x: torch.zeros_like(x), 0),
        (lambda x: torch.ones(2, 3, device=x.device), 1),
        (lambda x: torch.full((4,), 7.0, device=x.device), 7),
        (lambda x: x.clone(), 1),
        (lambda x: x[::2].contiguous(), 1),
    ],
)
def test_what_is_filled_is_guarded_too_and_stays_filled(allocate, value):
    x = torch.ones(5, device=DEVICE)
    with GuardedAllocations() as allocated:
        out = allocate(x)
    assert (out == value).all()
    assert out.data_ptr() in [memory.tensor.data_ptr() for memory in allocated.all]
    assert all(memory.stray_writes() == [] for memory in allocated.all)


def test_an_operator_of_higher_order_passes_and_what_it_computes_is_seen():
    """As a launch by torch.library.wrap_triton is one on a GPU."""
    x = torch.ones(3, device=DEVICE)
    with GuardedAllocations() as allocated:
        out = wrap(lambda x: x + 1, x)
    assert out.tolist() == [2, 2, 2]
    assert allocated.operations == ["add"]


def test_inputs_and_outputs_lie_between_different_patterns():
    read, written = (
        guarded((4,), (1,), torch.float32, DEVICE, for_reading=for_reading)
        for for_reading in (True, False)
    )
    assert read.pattern != written.pattern
    written.buffer.copy_(read.buffer)  # as a kernel does that has no mask at all
    assert written.stray_writes()


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (Case((Input((98_432,)),) * 2), "98,432 float32"),
        (Case((Input((3, 4), torch.float16, "transposed"),)), "3 x 4 float16, transposed"),
        (Case((Input((3,)), Input((), torch.int32))), "3 float32 and a scalar int32"),
        (Case((Input((5,), values="large"),)), "5 float32, large"),
        (Case((Input((5,), torch.float16, values="near the minimum"),)),
         "5 float16, near the minimum of float16"),
        (Case((Input((5,)),), scalars=(0.17677669,)), "5 float32, 0.1768"),
        (Case((Input((5,)),), scalars=(0.5, True), named=("scale", "causal")),
         "5 float32, scale = 0.5, causal = True"),
    ],
)  # fmt: skip
def test_a_case_prints_its_shapes_dtypes_layouts_and_values(case, says):
    assert str(case) == says
