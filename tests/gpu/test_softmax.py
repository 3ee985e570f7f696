"""What only a GPU can show of softmax: wide rows, many rows, programs that wait for one another."""

import pytest
import torch

from course.benching.benchmarks import operation
from course.verifying.api import verify
from course.verifying.inputs import FLOATS, Case, Input
from kernels.softmax import softmax, softmax_v7
from tests.support.devices import needs_free_gib

pytestmark = pytest.mark.gpu

SHAPES = [
    (1, 262_144),
    (70_000, 3),
    (70_000, 100),
    (17, 262_143),
    (3, 131_071),
    (5, 65_537),
    (2, 5_000_000),
]


@pytest.mark.parametrize("dtype", FLOATS)
def test_wide_and_many_rows_are_right(dtype):
    cases = [Case((Input(shape, dtype),), seed=shape[1]) for shape in SHAPES]
    for values in ("normal", "large", "NaN and inf"):
        cases += [
            Case((Input((3, 262_144), dtype, layout, values),))
            for layout in ("contiguous", "left part of a wider one")
        ]
    found = operation("softmax")
    result = verify(softmax, found.reference, cases, absolute=found.absolute)
    assert result.right, result


@pytest.mark.parametrize("columns", [16_385, 50_257, 131_072, 262_144])
def test_programs_that_wait_for_one_another_agree_every_time(columns):
    x = torch.randn(2000, columns, device="cuda", dtype=torch.bfloat16)
    first = softmax(x)
    torch.testing.assert_close(
        first[-1].float(), torch.softmax(x[-1].float(), -1), rtol=1e-2, atol=1e-7
    )
    for _ in range(20):
        assert torch.equal(softmax(x), first)


def test_streams_of_waiting_programs_end():
    programs = min(
        64, torch.cuda.get_device_properties().multi_processor_count
    )  # a row's, which must run at once
    x = torch.randn(500, 4096 * programs, device="cuda", dtype=torch.bfloat16)
    expected = softmax_v7(x, block_n=4096, part_n=4096)
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    results = []
    for _ in range(3):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(softmax_v7(x, block_n=4096, part_n=4096))
    torch.cuda.synchronize()
    assert all(torch.equal(result, expected) for result in results)


@pytest.mark.alone
def test_more_elements_than_32_bits_count():
    needs_free_gib(9)  # x and its softmax
    x = torch.randn(2**31 // 32_768 + 3, 32_768, device="cuda", dtype=torch.bfloat16)
    out = softmax(x)
    torch.testing.assert_close(out[-3:], torch.softmax(x[-3:], -1))
