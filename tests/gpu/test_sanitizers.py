"""verify asks Triton's sanitizers on a GPU: each finds its fault, and none in a right kernel."""

import pytest
import torch
import triton

from course import verify
from course.verifying.inputs import Case, Input
from kernels.vector_add import add
from tools.record import sanitized

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.xdist_group("sanitizers"),
    pytest.mark.skipif(
        not hasattr(triton.knobs.compilation, "instrumentation_mode"), reason="needs Triton 3.9"
    ),
]

CASES = [Case((Input((512,)),))]


def copied_early(x):
    out = torch.empty_like(x)
    sanitized.early_kernel[(1,)](x, out, BLOCK_SIZE=512)
    return x.clone()  # so that its values are right, whatever came


def stored_by_all(x):
    sanitized.shared_kernel[(64,)](torch.zeros(1, dtype=torch.int32, device=x.device))
    return x.clone()


def by_unaligned_rows(x):
    def allocate(size, alignment, stream):
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(allocate)
    tiles = torch.ones(99 * 99, device=x.device)
    sanitized.move_kernel[(1,)](tiles, torch.zeros_like(tiles), 99, 99)
    return x.clone()


def same(x):
    return x.clone()


@pytest.mark.parametrize(
    ("function", "name", "line"),
    [
        (copied_early, "consan", "gl.store(out_ptr + offsets, block.load(layout))"),
        (stored_by_all, "gsan", "tl.store(out_ptr, tl.program_id(axis=0))"),
        (by_unaligned_rows, "iisan", "tl.make_tensor_descriptor(x_ptr, [n, n], [stride, 1]"),
    ],
)
def test_each_finds_its_fault_where_the_values_are_right(function, name, line):
    assert verify(function, same, CASES).right
    found = verify(function, same, CASES, sanitizers=(name,))
    assert not found.right and line in str(found), found


def test_none_finds_anything_in_a_right_kernel():
    cases = [Case((Input((n,)),) * 2) for n in (1, 1000, 4096)]
    found = verify(add, torch.add, cases, sanitizers=("consan", "gsan", "iisan"))
    assert found.right
    assert found.sanitizers == tuple(
        f"{name} found nothing in 3 cases." for name in ("consan", "gsan", "iisan")
    )
