"""Kernels whose programs run a loop more or less often."""

import torch
import triton
import triton.language as tl

from .launches import Launch, Pair, empty


@triton.jit
def sum_ragged_kernel(x_ptr, begins_ptr, out_ptr, BLOCK: tl.constexpr):
    """Sums of rows of different length, a program for each; row r begins at begins[r]."""
    row = tl.program_id(axis=0)
    begin = tl.load(begins_ptr + row)
    end = tl.load(begins_ptr + row + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(begin, end, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + i, mask=i < end, other=0.0)
    tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def sum_in_turn_kernel(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    """Sums of rows of one length; each program takes as many as there are programs for."""
    share = tl.cdiv(rows, tl.num_programs(axis=0))
    first = tl.program_id(axis=0) * share
    for row in range(first, tl.minimum(first + share, rows)):
        x = tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))
        tl.store(out_ptr + row, tl.sum(x))


@triton.jit
def follow_kernel(next_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Where one comes to by so many steps along a chain, from each place."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    place = i
    for _ in range(steps):
        place = tl.load(next_ptr + place)
    tl.store(out_ptr + i, place)


def begins(lengths: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(torch.int32)


ROWS, BLOCK = 2048, 256
LONG = 500
ALIKE = torch.full((ROWS,), BLOCK)
UNLIKE = ALIKE.clone()
UNLIKE[[77, 1234]] = LONG * BLOCK


def ragged(lengths: torch.Tensor, grid: int = ROWS) -> Launch:
    x = empty(int(lengths.sum()))
    return Launch(sum_ragged_kernel, (grid,), (x, begins(lengths), empty(ROWS), BLOCK))


PAIRS = (Pair("uneven programs", ragged(UNLIKE), ragged(ALIKE)),)
IN_TURN = Launch(sum_in_turn_kernel, (8,), (empty(60, BLOCK), empty(60), 60, BLOCK))
CHAIN = Launch(
    follow_kernel,
    (2,),
    (torch.arange(512, dtype=torch.int32), empty(512, dtype=torch.int32), 7, BLOCK),
)
