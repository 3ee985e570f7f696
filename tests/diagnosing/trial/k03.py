"""Rotary position embedding, interleaved pairs, one program per (token, head)."""

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

TOL = dict(rtol=5e-3, atol=5e-3)
outputs = [1]


@triton.jit
def kernel(x, y, cos, sin, st, sh, H: tl.constexpr, HALF: tl.constexpr):
    h = tl.program_id(0)
    t = tl.program_id(1)
    i = tl.arange(0, HALF)
    c = tl.load(cos + t * HALF + i)
    s = tl.load(sin + t * HALF + i)
    base = t * st + h * sh
    even = tl.load(x + base + 2 * i).to(tl.float32)
    odd = tl.load(x + base + 2 * i + 1).to(tl.float32)
    tl.store(y + base + 2 * i, (even * c - odd * s).to(tl.float16))
    tl.store(y + base + 2 * i + 1, (even * s + odd * c).to(tl.float16))


def _make(device, large):
    T, H, D = (16384, 32, 128) if large else (16, 4, 32)
    g = torch.Generator(device=device).manual_seed(3)
    x = torch.randn((T, H, D), device=device, dtype=torch.float16, generator=g)
    f = 10000.0 ** (-torch.arange(0, D, 2, device=device).float() / D)
    ang = torch.arange(T, device=device).float()[:, None] * f[None]
    return (
        x,
        torch.empty_like(x),
        ang.cos().contiguous(),
        ang.sin().contiguous(),
        x.stride(0),
        x.stride(1),
    )


def _kw(a):
    return dict(H=a[0].shape[1], HALF=a[0].shape[2] // 2, num_warps=4, num_stages=1)


def arguments(device, large):
    a = _make(device, large)
    return a, _kw(a), (a[0].shape[1], a[0].shape[0])


def reference(args):
    x, _, c, s = args[:4]
    e, o = x[..., 0::2].float(), x[..., 1::2].float()
    c, s = c[:, None], s[:, None]
    return [torch.stack((e * c - o * s, e * s + o * c), -1).reshape(x.shape)]


@triton.jit
def kernel_a(x, y, cos, sin, st, sh, H: tl.constexpr, HALF: tl.constexpr):
    t = tl.program_id(0)
    i = tl.arange(0, HALF)
    c = tl.load(cos + t * HALF + i)[None, :]
    s = tl.load(sin + t * HALF + i)[None, :]
    base = t * st + tl.arange(0, H)[:, None] * sh
    even = tl.load(x + base + 2 * i[None, :]).to(tl.float32)
    odd = tl.load(x + base + 2 * i[None, :] + 1).to(tl.float32)
    tl.store(y + base + 2 * i[None, :], (even * c - odd * s).to(tl.float16))
    tl.store(y + base + 2 * i[None, :] + 1, (even * s + odd * c).to(tl.float16))


def arguments_a(device, large):
    a = _make(device, large)
    return a, _kw(a), (a[0].shape[0],)


@triton.jit
def kernel_b(x, y, cos, sin, st, sh, H: tl.constexpr, HALF: tl.constexpr):
    h = tl.program_id(0)
    t = tl.program_id(1)
    i = tl.arange(0, HALF)
    c = tl.load(cos + t * HALF + i)
    s = tl.load(sin + t * HALF + i)
    d = t * st + h * sh + tl.arange(0, 2 * HALF)
    even, odd = tl.split(tl.reshape(tl.load(x + d).to(tl.float32), (HALF, 2)))
    r = tl.reshape(tl.join(even * c - odd * s, even * s + odd * c), (2 * HALF,))
    tl.store(y + d, r.to(tl.float16))


mend_a = SimpleNamespace(
    kernel=kernel_a, arguments=arguments_a, reference=reference, outputs=outputs
)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, reference=reference, outputs=outputs)
DOMINANT = "a"
CAUSE_A = "Far too many tiny programs: each (token, head) program of 128 threads turns only 64 pairs (256 bytes) and loads the same cos/sin row again; one program per token takes all heads."
CAUSE_B = "Even and odd elements are loaded and stored with a stride of two, 2 bytes a lane, half of each sector used; a contiguous load with split/join mends it."
LINE_A = "h = tl.program_id(0)"
LINE_B = "even = tl.load(x + base + 2 * i).to(tl.float32)"
