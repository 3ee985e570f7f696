"""Functions that are wrong by one mistake each, beside what they should be: a table for tests."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from course.verifying.inputs import Case, Input

HALF, SINGLE = torch.float16, torch.float32


@dataclass(frozen=True)
class Planted:
    function: Callable[..., torch.Tensor]
    reference: Callable[..., torch.Tensor]
    cases: list[Case]


def on(*inputs: Input, function, reference) -> Planted:
    return Planted(function, reference, [Case(inputs, seed=2)])


def vectors(function, reference, count=1, dtype=SINGLE, values="normal"):
    return on(
        *[Input((600,), dtype, values=values)] * count, function=function, reference=reference
    )


def rows(function, reference, count=1, dtype=SINGLE, shape=(8, 130), values="normal"):
    return on(*[Input(shape, dtype, values=values)] * count, function=function, reference=reference)


def products(function, dtype=SINGLE, reference=torch.matmul):
    return on(
        Input((12, 96), dtype), Input((96, 10), dtype), function=function, reference=reference
    )


def added_in(dtype):
    """A function that adds up each row in a dtype, one term after another."""

    def added(x):
        total = torch.zeros(len(x), dtype=dtype)
        for column in range(x.shape[1]):
            total = (total.float() + x[:, column].float()).to(dtype)
        return total.to(x.dtype)

    return added


def multiplied_in(dtype):
    """A matrix product whose sums are rounded to a dtype after each term."""

    def multiplied(x, y):
        total = torch.zeros(len(x), y.shape[1], dtype=dtype)
        for k in range(x.shape[1]):
            product = x[:, k, None].float() * y[None, k].float()
            total = (total.float() + product).to(dtype)
        return total.to(x.dtype)

    return multiplied


def without_bits(x, bits):
    """float32 with so many of its last bits cut off, as TF32 has 13 bits less."""
    return (x.view(torch.int32) & ~((1 << bits) - 1)).view(SINGLE)


def cut_to_half(x):
    """Toward zero, and not to the nearest."""
    near = x.half()
    return torch.where(
        near.double().abs() > x.double().abs(), (near.view(torch.int16) - 1).view(HALF), near
    )


def norm(x, eps=1e-5, unbiased=False, centered=True):
    mean = x.mean(1, True)
    variance = x.var(1, unbiased, keepdim=True)
    return (x - mean if centered else x) * torch.rsqrt(variance + eps)


def layer_norm(x):
    return functional.layer_norm(x, x.shape[1:])


def rms_norm(x):
    return x * torch.rsqrt(x.square().mean(1, True) + 1e-5)


def softmax(x):
    return x.softmax(1)


def plain_softmax(x):
    return x.exp() / x.exp().sum(1, True)


def online_softmax(x, rescaled):
    """Over two halves of a row, whose sum is rescaled where the maximum grows."""
    left, right = x.chunk(2, 1)
    first, top = left.amax(1, True), x.amax(1, True)
    total = (left - first).exp().sum(1, True) * ((first - top).exp() if rescaled else 1)
    return (x - top).exp() / (total + (right - top).exp().sum(1, True))


def scan_of_blocks(x):
    """Sums of the first elements, begun anew in each 64."""
    return torch.cat([part.cumsum(1) for part in x.split(64, 1)], 1)


def silu_twice(x, y):
    return functional.silu(x) * y


def popcount(x, bits):
    return sum((x >> bit) & 1 for bit in range(bits))


def total(x):
    return x.sum(1)


VECTORS = {
    "off by 1e-5": vectors(lambda x: x * (1 + 1e-5), torch.clone),
    "shifted by one": vectors(lambda x: x.roll(1), torch.clone),
    "the last element left out": vectors(lambda x: torch.cat([x[:-1].exp(), x[-1:]]), torch.exp),
    "sign": vectors(lambda x, y: y - x, torch.sub, 2),
    "a term forgotten": vectors(lambda x, y, z: x + y, lambda x, y, z: x + y + z, 3),
    "1 in 10,000 of a term": vectors(
        lambda x, y, z: x + y + 1.0001 * z, lambda x, y, z: x + y + z, 3
    ),
    "an input for the other": vectors(
        lambda x, y: y * functional.silu(x), lambda x, y: x * functional.silu(y), 2
    ),
    "clamped on one side": vectors(lambda x: x.clamp(max=1), lambda x: x.clamp(-1, 1)),
    "clamped too far": vectors(lambda x: x.clamp(-1.001, 1), lambda x: x.clamp(-1, 1)),
    "relu of the magnitude": vectors(torch.abs, torch.relu),
    "NaN becomes zero": vectors(
        lambda x: x.nan_to_num(0.0, math.inf, -math.inf), torch.clone, values="NaN and inf"
    ),
    "a maximum that drops NaN": vectors(
        lambda x, y: torch.fmax(x, y.flip(0)),
        lambda x, y: torch.maximum(x, y.flip(0)),
        2,
        values="NaN and inf",
    ),
    "the slope of leaky relu": vectors(
        lambda x: functional.leaky_relu(x, 0.011), functional.leaky_relu
    ),
    "gelu by tanh for gelu": vectors(
        lambda x: functional.gelu(x, approximate="tanh"), functional.gelu
    ),
    "gelu by sigmoid": vectors(lambda x: x * torch.sigmoid(1.702 * x), functional.gelu),
    "pi with four digits": vectors(
        lambda x: torch.sin(3.1416 * x), lambda x: torch.sin(math.pi * x)
    ),
    "log2 for log": vectors(torch.log2, torch.log, values="each at least 1"),
    "a coarse exp": vectors(lambda x: 1 + x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4))), torch.exp),
    "degrees for radians": vectors(lambda x: torch.cos(torch.deg2rad(x)), torch.cos),
    "the wrong half rotated": on(
        *[Input((40,))] * 4,
        function=lambda x, y, c, s: torch.cat([x * c + y * s, y * c + x * s]),
        reference=lambda x, y, c, s: torch.cat([x * c - y * s, y * c + x * s]),
    ),
}
ROUNDINGS = {
    "computed in float16": vectors(lambda x, y: (x.half() + y.half()).float(), torch.add, 2),
    "computed in bfloat16": vectors(
        lambda x, y: (x.bfloat16() * y.bfloat16()).float(), torch.mul, 2
    ),
    "float64 in float32": vectors(lambda x: x.float().exp().double(), torch.exp, 1, torch.float64),
    "cut and not rounded": vectors(lambda x: cut_to_half(x), lambda x: x.half()),
    "cut after a product": vectors(
        lambda x, y: cut_to_half(x.float() * y.float()), torch.mul, 2, HALF
    ),
    "rounded thrice for twice": vectors(lambda x, y: x * torch.sigmoid(x) * y, silu_twice, 2, HALF),
    "tanh in steps of 16 bits": vectors(
        lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()), torch.tanh, 1, HALF
    ),
    "layer norm in steps of 16 bits": rows(lambda x: norm(x), layer_norm, 1, HALF),
    "softmax in steps of 16 bits": rows(
        lambda x: plain_softmax(x - x.amax(1, True)), softmax, 1, HALF
    ),
    "the log of a rounded sigmoid": vectors(
        lambda x: x.sigmoid().log(), functional.logsigmoid, 1, HALF
    ),
    "cut to an integer": vectors(
        lambda x: (20 * x).to(torch.int8), lambda x: (20 * x).round().to(torch.int8)
    ),
    "halves away from zero": vectors(
        lambda x: (x.abs() * 64 + 0.5).floor() * x.sign(), lambda x: (x * 64).round(), 1, HALF
    ),
    "ceiling for floor": vectors(torch.ceil, torch.floor),
    "no saturation": vectors(
        lambda x: (100 * x).round().to(torch.int32).to(torch.int8),
        lambda x: (100 * x).round().clamp(-128, 127).to(torch.int8),
    ),
    "a sum of three in bfloat16": vectors(
        lambda x, y, z: (x.bfloat16() + y.bfloat16() + z.bfloat16()).float(),
        lambda x, y, z: (x + y + z).float(),
        3,
    ),
    "rounded before the cast": vectors(
        lambda x, y: (x + y).float(), lambda x, y: x.float() + y.float(), 2, HALF
    ),
}
SUMS = {
    "float32 added in float16": rows(added_in(HALF), total),
    "float16 added in float16": rows(added_in(HALF), total, 1, HALF),
    "a mean added in float16": rows(
        lambda x: added_in(HALF)(x) / x.shape[1], lambda x: x.mean(1), 1, HALF
    ),
    "float32 added in bfloat16": rows(added_in(torch.bfloat16), total),
    "a product in TF32": products(lambda x, y: without_bits(x, 13) @ without_bits(y, 13)),
    "a product and a sum in TF32": on(
        Input((12, 96)),
        Input((96, 10)),
        Input((10,)),
        function=lambda x, y, z: without_bits(x, 13) @ without_bits(y, 13) + z,
        reference=lambda x, y, z: (x @ y + z).reshape(12, 10),
    ),
    "a product added in float16": products(multiplied_in(HALF), HALF),
    "a product whose last k is left out": products(lambda x, y: x[:, :-1] @ y[:-1]),
    "a product of a turned matrix": on(
        Input((16, 16)), Input((16, 16)), function=lambda x, y: x @ y.T, reference=torch.matmul
    ),
    "the wrong axis": on(
        Input((16, 16)), function=lambda x: x.sum(0), reference=lambda x: x.sum(1)
    ),
    "one element added twice": rows(lambda x: x.sum(1) + x[:, 0], total),
    "divided by one too few": rows(lambda x: x.sum(1) / (x.shape[1] - 1), lambda x: x.mean(1)),
    "unbiased variance": rows(lambda x: x.var(1), lambda x: x.var(1, False)),
    "a scan without its own element": rows(lambda x: x.cumsum(1) - x, lambda x: x.cumsum(1)),
    "a scan that forgets earlier blocks": rows(scan_of_blocks, lambda x: x.cumsum(1)),
    "a scan in float16": rows(lambda x: x.half().cumsum(1).float(), lambda x: x.cumsum(1)),
    "a maximum that begins at 0": rows(
        lambda x: x.amax(1).clamp(min=0), lambda x: x.amax(1), values="below zero"
    ),
}
NORMS = {
    "eps of 1e-6 for 1e-5": rows(lambda x: norm(x, 1e-6), lambda x: norm(x)),
    "eps beside the root": rows(
        lambda x: (x - x.mean(1, True)) / (x.var(1, False, keepdim=True).sqrt() + 1e-5), norm
    ),
    "layer norm with unbiased variance": rows(lambda x: norm(x, unbiased=True), layer_norm),
    "layer norm without the mean": rows(lambda x: norm(x, centered=False), layer_norm),
    "rms norm by the sum": rows(
        lambda x: x * torch.rsqrt(x.square().sum(1, True) + 1e-5), rms_norm
    ),
    "rms norm over padding": rows(
        lambda x: x * torch.rsqrt(x.square().sum(1, True) / 256 + 1e-5), rms_norm
    ),
    "softmax without its maximum": rows(plain_softmax, softmax, values="far apart"),
    "softmax over columns": rows(lambda x: x.softmax(0), softmax),
    "softmax that counts padding": rows(
        lambda x: (x - x.amax(1, True)).exp() / ((x - x.amax(1, True)).exp().sum(1, True) + 1e-3),
        softmax,
    ),
    "no rescale": rows(lambda x: online_softmax(x, rescaled=False), softmax),
    "attention without a scale": rows(
        lambda x, y: (x @ y.T).softmax(1), lambda x, y: (x @ y.T / 8).softmax(1), 2
    ),
    "a log-sum-exp without its maximum": rows(
        lambda x: x.exp().sum(1).log(), lambda x: x.logsumexp(1), values="far apart"
    ),
}


def whole(function, reference, dtype, *values):
    inputs = [Input((60,), dtype, values=each) for each in values or ("normal",)]
    return on(*inputs, function=function, reference=reference)


INTEGERS = {
    "integers divided toward zero": whole(
        lambda x: torch.div(x, 3, rounding_mode="trunc"),
        lambda x: torch.div(x, 3, rounding_mode="floor"),
        torch.int32,
    ),
    "a remainder with the sign of x": whole(
        torch.fmod, torch.remainder, torch.int16, "normal", "each at least 1"
    ),
    "an integer relu that copies": whole(torch.clone, torch.relu, torch.int32),
    "a count of 15 bits of 16": whole(
        lambda x: popcount(x, 15), lambda x: popcount(x, 16), torch.int16
    ),
    "a count of bits wrong for 0xFFFF": whole(
        lambda x: torch.where(x == -1, 15, popcount(x, 16)).to(x.dtype),
        lambda x: popcount(x, 16),
        torch.int16,
    ),
    "a magnitude of -128 that saturates": whole(
        lambda x: x.clamp(min=-127).abs(), torch.abs, torch.int8
    ),
    "int8 taken for uint8": whole(
        lambda x: x.view(torch.uint8).float(), lambda x: x.float(), torch.int8
    ),
    "a logical shift": whole(
        lambda x: ((x.to(torch.int64) & 0xFFFFFFFF) >> 4).to(torch.int32),
        lambda x: x >> 4,
        torch.int32,
    ),
    "int32 by way of float32": whole(lambda x: x.float().to(torch.int32), torch.clone, torch.int32),
    "a sum kept in int32": whole(
        lambda x: x.view(6, 10).sum(1, dtype=torch.int32).long(),
        lambda x: x.view(6, 10).sum(1),
        torch.int32,
    ),
    "a maximum of integers from 0": whole(
        lambda x: x.amax(0, True).clamp(min=0), lambda x: x.amax(0, True), torch.int32, "below zero"
    ),
    "compared without a sign": whole(
        lambda x, y: x.view(torch.uint8) < y.view(torch.uint8),
        torch.lt,
        torch.int8,
        "normal",
        "each at least 1",
    ),
    "int8 scaled without its zero point": whole(
        lambda x: x.float() * 0.05, lambda x: (x.float() - 3) * 0.05, torch.int8
    ),
    "int64 cut to 32 bits": whole(lambda x: x.to(torch.int32).long(), torch.clone, torch.int64),
}
MISTAKES = {**VECTORS, **ROUNDINGS, **SUMS, **NORMS, **INTEGERS}
