"""Numbers come out as a GPU computes them: types that meet, conversions, reductions."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from course import simulate

LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])


@gluon.jit
def scaled_kernel(x_ptr, out_ptr):
    i = gl.arange(0, 128, LAYOUT)
    gl.store(out_ptr + i, (gl.load(x_ptr + i) * 0.1).to(gl.float32))


@gluon.jit
def times_kernel(x_ptr, out_ptr, n):
    i = gl.arange(0, 128, LAYOUT)
    gl.store(out_ptr + i, (gl.load(x_ptr + i) * n).to(gl.float32))


@gluon.jit
def quotient_kernel(x_ptr, y_ptr, out_ptr):
    i = gl.arange(0, 128, LAYOUT)
    gl.store(out_ptr + i, gl.load(x_ptr + i) / gl.load(y_ptr + i))


@gluon.jit
def reduced_kernel(x_ptr, out_ptr):
    x = gl.load(x_ptr - 1 + gl.arange(0, 128, LAYOUT) + 1)
    gl.store(out_ptr, gl.max(x, axis=-1))
    gl.store(out_ptr + 1, x.min(0))
    gl.store(out_ptr + 2, gl.load(x_ptr) * 2)


@gluon.jit
def signs_kernel(x_ptr, out_ptr):
    i = gl.arange(0, 128, LAYOUT)
    x = gl.load(x_ptr + i)
    gl.store(out_ptr + i, ((x + x.to(gl.uint32)) // 3).to(gl.int64))


@gluon.jit
def converted_kernel(x_ptr, out_ptr):
    i = gl.arange(0, 128, LAYOUT)
    gl.store(out_ptr + i, gl.load(x_ptr + i).to(gl.int32))


@gluon.jit
def total_kernel(x_ptr, out_ptr):
    total = gl.sum(gl.load(x_ptr + gl.arange(0, 128, LAYOUT)), 0)
    gl.store(out_ptr, total // 2)
    for step in gl.static_range(0, 4, step=2):
        gl.store(out_ptr + 1, (total > step).to(gl.int32))


@gluon.jit
def both_kernel(x_ptr, out_ptr):
    i = gl.arange(0, 128, LAYOUT)
    x = gl.load(x_ptr + i)
    gl.store(out_ptr + i, ((x > 0) + (x > -1)).to(gl.float32))


def test_a_number_is_rounded_to_the_type_of_the_block_that_it_meets():
    x, out = torch.randn(128).bfloat16(), torch.empty(128)
    simulate(scaled_kernel, (1,), x, out)
    assert torch.equal(out, (x * torch.tensor(0.1).bfloat16()).float())
    x = torch.ones(128).half()
    simulate(times_kernel, (1,), x, out, 100_000)  # which float16 cannot hold
    assert out.isinf().all()


def test_quotients_of_16_bits_are_of_float32():
    x, y, out = torch.randn(128).half(), torch.randn(128).half(), torch.empty(128)
    simulate(quotient_kernel, (1,), x, y, out)
    assert torch.equal(out, x.float() / y.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_maximum_leaves_nan_out_and_single_numbers_are_loaded(dtype):
    x, out = torch.randn(128).to(dtype), torch.zeros(3, dtype=dtype)
    x[7] = torch.nan
    simulate(reduced_kernel, (1,), x, out)
    numbers = x[~x.isnan()]
    assert out.tolist() == [numbers.max().item(), numbers.min().item(), (x[0] * 2).item()]


def test_signed_and_unsigned_together_are_unsigned():
    x, out = torch.full((128,), -3, dtype=torch.int32), torch.empty(128, dtype=torch.int64)
    simulate(signs_kernel, (1,), x, out)
    assert out.unique().tolist() == [(2 * (2**32 - 3)) % 2**32 // 3]


def test_what_an_integer_cannot_hold_becomes_the_nearest_and_nan_zero():
    x, out = torch.zeros(128), torch.empty(128, dtype=torch.int32)
    x[:4] = torch.tensor([3e9, -3e9, torch.nan, -2.9])
    simulate(converted_kernel, (1,), x, out)
    assert out[:4].tolist() == [2**31 - 1, -(2**31), 0, -2]


def test_sums_of_integers_wrap_around():
    x, out = torch.full((128,), 2**25, dtype=torch.int32), torch.ones(2, dtype=torch.int32)
    simulate(total_kernel, (1,), x, out)
    assert out.tolist() == [0, 0]


def test_two_conditions_added_up_are_one_bit():
    x, out = torch.ones(128), torch.empty(128)
    simulate(both_kernel, (1,), x, out)
    assert not out.any()
