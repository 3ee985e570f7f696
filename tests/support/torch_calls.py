"""Calls of what the page's stand-in has of PyTorch, on drawn inputs: run in both worlds alike."""

import contextlib
import math

import numpy as np
import torch
from torch.utils.weak import WeakTensorKeyDictionary

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
RNG = np.random.default_rng(7)


def of(*shape, dtype=torch.float32, low=-3.0, high=3.0):
    """A tensor of numbers that both worlds have alike."""
    drawn = RNG.uniform(low, high, shape)
    return torch.tensor(drawn.tolist(), dtype=torch.float64).to(dtype)


def shown(value):
    """A value as JSON that does not lose a digit."""
    if isinstance(value, torch.Tensor):
        wide = value.double() if value.is_floating_point() else value
        return [
            str(value.dtype),
            [*value.shape],
            [*value.stride()],
            [*map(str, flat(wide.tolist()))],
        ]
    if isinstance(value, (tuple, list)):
        return [shown(each) for each in value]
    return str(value)


def flat(value):
    return [x for each in value for x in flat(each)] if isinstance(value, list) else [value]


def calls():
    """name -> what comes out."""
    found = {}

    def keep(name, value):
        assert name not in found, name
        found[name] = shown(value)

    for seed in (0, 5, 2**31 + 7):
        for dtype in FLOATS:
            for shape in ((3,), (4, 4), (1000,), (37,), (5, 7)):
                generator = torch.Generator().manual_seed(seed)
                name = f"{seed} {dtype} {shape}"
                keep(f"rand {name}", torch.rand(shape, dtype=dtype, generator=generator))
                keep(f"randn {name}", torch.randn(shape, dtype=dtype, generator=generator))
                keep(f"randn again {name}", torch.randn(shape, dtype=dtype, generator=generator))
        for dtype, low, high in (
            (torch.int64, 0, 80), (torch.int32, -(2**31), 2**31 - 1), (torch.int8, -80, 80),
            (torch.int64, -(2**63), 2**63 - 1), (torch.int16, -80, -2),
        ):  # fmt: skip
            generator = torch.Generator().manual_seed(seed)
            name = f"randint {seed} {dtype} {low}"
            keep(name, torch.randint(low, high, (20,), dtype=dtype, generator=generator))
    torch.manual_seed(3)
    keep("default rand", torch.rand(2, 3))
    keep("default randn", torch.randn(20))

    unary = "round abs neg exp exp2 sigmoid tanh square relu sign isnan isfinite reciprocal"
    for dtype in (*FLOATS, torch.int32, torch.int64):
        x = of(5, 7, dtype=dtype)
        x.view(-1)[3] = 0
        if x.is_floating_point():
            x.view(-1)[4:7] = torch.tensor([math.nan, math.inf, -math.inf]).to(dtype)
        for name in unary.split():
            keep(f"{name} {dtype}", getattr(x, name)())
        for name in ("log", "log2", "sqrt", "rsqrt"):
            keep(f"{name} {dtype}", getattr(abs(x), name)())
        keep(
            f"transposed {dtype}",
            (x.T * 2, x.T.clone(), torch.empty_like(x.T).fill_(1), x.T.double()),
        )
        keep(f"sum {dtype}", (x.sum(), x.sum(dim=0), x.sum(-1, keepdim=True), x[:, ::2].sum(dim=1)))
        keep(
            f"max {dtype}",
            (x.max(), x.min(), x.amax(-1), x.amin(dim=0, keepdim=True), x.argmax(dim=1)),
        )
        keep(f"max with place {dtype}", tuple(x.max(dim=1)))
        keep(f"cumsum {dtype}", x[:, ::2].cumsum(dim=1))
        keep(
            f"casts {dtype}",
            (x.nan_to_num(0, 9, -9).to(torch.float16), x.isnan().to(dtype), x.clamp(-1, 1)),
        )
        for other in (
            2,
            0.5,
            True,
            of(7, dtype=torch.float32),
            torch.tensor(3),
            of(5, 1, dtype=torch.bfloat16),
        ):
            for name in ("add", "sub", "mul", "div", "lt", "le", "gt", "ge", "eq", "ne"):
                if name == "sub" and other is True:
                    continue  # which PyTorch refuses
                keep(
                    f"{name} {dtype} {other!s:.12} {getattr(other, 'dtype', '')}",
                    getattr(x, name)(other),
                )
        keep(
            f"swapped {dtype}",
            (2 - x, 2 + x, 2 * x, 2 / x, 2.5 - x, -x, +1 * x, 2 ** x.clamp(0, 3)),
        )
        keep(
            f"more of two {dtype}",
            (torch.maximum(x, x * 2), torch.minimum(x, x * 2), x // 2, x % 3, x**2),
        )
        keep(f"where {dtype}", torch.where(x > 0, x, 0.0))
        keep(f"where tensors {dtype}", torch.where(x > 0, x, torch.zeros_like(x)))
        keep(
            f"joined {dtype}",
            (torch.stack([x, x]), torch.cat([x, x], dim=1), x.flip(0), x.flip(0, 1)),
        )
        keep(
            f"views {dtype}",
            (
                x[1],
                x[:, 2],
                x[1:, ::2],
                x.t(),
                x.unsqueeze(1),
                x[None].squeeze(0),
                x.reshape(-1),
                x.T.reshape(35),
                x.mT,
                x.permute(1, 0),
                x.transpose(0, 1),
            ),
        )
        keep(
            f"repeat {dtype}",
            (x.repeat(2, 1), x[:1].expand(3, 7), x[x > 0], x.masked_fill(x > 0, 1)),
        )
        keep(f"in place {dtype}", inplace(x))
        keep(f"printed {dtype}", (str(x), str(x[0, 0]), str(x[:0]), str(x[:, :0]), str(x > 0)))
        if x.is_floating_point():
            finite = x.nan_to_num(0, 2, -2)
            keep(
                f"softmax {dtype}",
                (
                    finite.softmax(-1),
                    torch.softmax(finite, dim=0),
                    finite.log_softmax(1),
                    finite.logsumexp(1),
                    finite.logsumexp(1, keepdim=True),
                    finite.mean(dim=1),
                    finite.mean(),
                ),
            )
            keep(
                f"functions {dtype}",
                (
                    torch.nn.functional.silu(finite),
                    torch.nn.functional.gelu(finite),
                    torch.nn.functional.gelu(finite, approximate="tanh"),
                    torch.hypot(finite, finite),
                ),
            )
            keep(f"products {dtype}", (finite @ finite.T, finite[None] @ finite.T[None]))
            keep(
                f"pad {dtype}",
                (
                    torch.nn.functional.pad(x, (1, 2)),
                    torch.nn.functional.pad(x, (0, 0, 1, -1), value=2.0),
                ),
            )
            info = torch.finfo(dtype)
            keep(f"limits {dtype}", (info.eps, info.max, info.min, info.smallest_normal, info.tiny))
        else:
            info = torch.iinfo(dtype)
            keep(f"limits {dtype}", (info.min, info.max, info.bits))
            keep(f"bits {dtype}", (x & 3, x | 1, x ^ 5, ~x, 3 & x))
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        info = torch.finfo(dtype)
        keep(f"limits {dtype}", (info.eps, info.max, info.min, info.smallest_normal))
    numbers = [
        [1000.0, 1001.0], [1e-5, 1.0], [1e10, 1.0], [0.1, 2000.5], [1.0, 2.0, 3.5], [math.nan, 1.0],
        [math.inf, 0.25], [1e-8], [123456.0, 1.0], [0.0], [[1.5, 2.0], [3.0, 400.0]],
        [True, False], [1, -200],
    ]  # fmt: skip
    keep("printed lists", [str(torch.tensor(each)) for each in numbers])
    keep(
        "printed large",
        [
            str(torch.arange(n).reshape(*shape))
            for n, shape in (
                (1001, (1001,)),
                (2000, (20, 100)),
                (3000, (3, 10, 100)),
                (24, (2, 3, 4)),
                (100, (100,)),
            )
        ],
    )
    keep("printed large floats", [str(torch.arange(n) / 7) for n in (5, 30, 2000)])
    keep(
        "formatted",
        (f"{torch.tensor(1.5):.3f}", f"{torch.tensor([1, 2])}", repr(torch.zeros(2, 3).shape)),
    )
    keep(
        "made",
        (
            torch.zeros(2, 3),
            torch.ones(2, dtype=torch.int32),
            torch.full((2,), 7),
            torch.full((2,), 0.5),
            torch.full((2,), True),
            torch.arange(5),
            torch.arange(0, 1, 0.25),
            torch.arange(2, 8, 3),
            torch.zeros((2, 2)),
            torch.ones_like(torch.zeros(2)),
            torch.full_like(torch.zeros(2), 3),
            torch.tensor([1, 2.5]),
            torch.tensor(3),
            torch.as_tensor(2.0),
            torch.tensor([True]),
        ),
    )
    keep(
        "promoted",
        [
            torch.promote_types(one, other)
            for one in FLOATS
            for other in (*FLOATS, torch.int32, torch.bool, torch.uint8)
        ],
    )
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.000001])
    keep(
        "near",
        (
            torch.allclose(x, y),
            torch.equal(x, y),
            torch.equal(x, x),
            torch.allclose(x, y + 1),
            torch.is_tensor(x),
            bool((x == x).all()),
            bool((x == y).any()),
        ),
    )
    keep(
        "one number",
        (
            x[1].item(),
            float(x[0]),
            int(x[1]),
            [5, 6, 7][torch.tensor(1)],
            len(x),
            [each.item() for each in x],
            bool(x[0]),
        ),
    )
    keep(
        "asked",
        (
            x.dim(),
            x.ndim,
            x.numel(),
            x.element_size(),
            x.itemsize,
            x.nbytes,
            x.size(0),
            x.stride(0),
            x[1:].storage_offset(),
            x.is_contiguous(),
            x.is_floating_point(),
            x.is_complex(),
            x.device.type,
            str(x.device),
            x.data_ptr() % 64,
            x[1:].data_ptr() - x.data_ptr(),
            x.untyped_storage().nbytes(),
        ),
    )
    grid = torch.arange(12.0).reshape(3, 4)
    grid[1] = 0
    grid[:, 2] = torch.tensor([7.0, 8.0, 9.0])
    grid[grid > 8] = -1
    keep(
        "assigned",
        (
            grid,
            grid.nonzero().tolist(),
            grid.as_strided((2, 2), (4, 2), 1),
            grid[torch.tensor([0, 2])],
            grid.view(torch.int32),
            grid[..., 1],
            grid.numpy().sum(),
            grid.flatten().tolist(),
        ),
    )
    keep(
        "moved",
        (
            x.cpu(),
            x.detach(),
            x.to("cpu"),
            x.half(),
            x.bfloat16(),
            x.int(),
            x.long(),
            x.bool(),
            x.type_as(grid.long()),
            x.new_zeros(2),
            x.new_empty(3).shape,
            torch.empty(2, 3).shape,
            torch.clone(x),
            x.to(y),
            x.to(torch.float64, copy=True),
            x.contiguous(),
            grid.T.contiguous(),
        ),
    )
    remembered = WeakTensorKeyDictionary()
    remembered[x] = 7
    keep("remembered", (remembered[x], x in remembered, y in remembered, x.shape.numel()))
    shared = np.array([1.0, 2.0, 4.0])
    torch.from_numpy(shared)[1] = 9
    keep("from NumPy", (shared.tolist(), np.asarray(x).tolist(), torch.from_numpy(shared)))
    torch.cuda.is_available()
    keep(
        "refused",
        [
            refused(call)
            for call in (
                lambda: grid.T.view(12),
                lambda: bool(grid),
                lambda: grid.bfloat16().numpy(),
            )
        ],
    )
    return found


def inplace(x):
    x = x.clone()
    x += 1
    x *= 2
    x -= 3
    x.add_(1).mul_(2).sub_(1)
    x[0] = 5
    x[1].zero_()
    x[2].copy_(x[3])
    return x


def refused(call):
    with contextlib.suppress(Exception):
        call()
        return "not refused"
    return "refused"
