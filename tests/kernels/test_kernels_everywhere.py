"""Every kernel compiles for every kind of GPU, with the settings of its launcher there, and fits.

There is no GPU here: a launcher is given tensors that claim to be on one and hold nothing, and what
it would launch is compiled.
"""

import re

import pytest
import torch
import triton

import course
from course import lower
from course.gpus.limits import MOST_THREADS, TARGETS
from kernels import (
    attention,
    bias_gelu,
    cross_entropy,
    device,
    matmul,
    rms_norm,
    rms_norm_backward,
    softmax,
    softmax_tuned,
    swiglu,
    transpose,
    vector_add,
)
from kernels.attention import gradient, tl, tl_hopper
from kernels.attention.gradient import inputs as gradient_inputs

pytestmark = pytest.mark.skipif(
    course.MODE.gpu, reason="needs CPU mode: compiling is the same in both modes"
)

MODULES = (
    vector_add,
    transpose,
    bias_gelu,
    swiglu,
    softmax,
    softmax_tuned,
    rms_norm,
    rms_norm_backward,
    cross_entropy,
    matmul,
    attention,
    tl,
    tl_hopper,
    gradient,
    gradient_inputs,
)
MULTIPROCESSORS = 40
"""Of the smallest GPU here, a T4: what a row of softmax may be cut into."""
ALL = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "gfx942", "gfx1100")
FEW = ("sm_75", "sm_90", "gfx942")
"""Where versions that no launcher picks are compiled: on what has least, what was measured, AMD."""
LARGE = ("sm_90", "sm_100")
"""With 227 KiB of shared memory for a program, so that launchers take their largest tiles."""
NVIDIA = tuple(name for name in ALL if TARGETS[name].nvidia)


class OnGpu(torch.Tensor):
    """A tensor that holds nothing and says that it is on a GPU."""

    is_cuda = True


def gpu(*shape, dtype=torch.float16):
    return torch.Tensor._make_subclass(OnGpu, torch.empty(shape, dtype=dtype, device="meta"))


def attend(launcher, head_dim):
    return lambda: launcher(*[gpu(1, 4, 1024, head_dim)] * 3, causal=True)


def attend_backward(launcher, head_dim):
    x, lse = gpu(1, 4, 1024, head_dim), gpu(1, 4, 1024, dtype=F32)
    return lambda: launcher(x, x, x, x, x, lse, causal=True)


def multiply(launcher, n, dtype=torch.float16, **options):
    return lambda: launcher(*[gpu(n, n, dtype=dtype)] * 2, **options)


def backward(launcher, rows, n):
    """Launch RMSNorm's gradient on rows of n bfloat16."""
    x, weight = gpu(rows, n, dtype=torch.bfloat16), gpu(n, dtype=torch.bfloat16)
    return lambda: launcher(x, x, weight, gpu(rows, dtype=F32))


def losses(launcher):
    """Launch a version of cross-entropy on rows as wide as a vocabulary."""
    return lambda: launcher(gpu(100, 50_257, dtype=torch.bfloat16), gpu(100, dtype=torch.int64))


LADDER_OF_SOFTMAX = [getattr(softmax, f"softmax_v{version}") for version in range(1, 9)]
F32 = torch.float32

# What is launched, where, and how. test_matmul.py and test_flash_attention.py go through all of
# their tables.
LAUNCHES = [
    *((f.__name__, where, lambda f=f: f(*[gpu(2**20, dtype=torch.bfloat16)] * 2))
      for f, where in ((vector_add.add_v1, FEW), (vector_add.add_v2, FEW), (vector_add.add, ALL))),
    *((f.__name__, where, lambda f=f: f(gpu(1024, 1024, dtype=F32)))
      for f, where in ((transpose.transpose_v1, FEW), (transpose.transpose, ALL))),
    *((f.__name__, where, lambda f=f: f(gpu(1024, 1024), gpu(1024)))
      for f, where in ((bias_gelu.bias_gelu_v1, FEW), (bias_gelu.bias_gelu, ALL))),
    ("swiglu", ALL, lambda: swiglu.swiglu(gpu(2**20), gpu(2**20))),
    *((f.__name__, FEW, lambda f=f: f(gpu(100, 8192, dtype=F32))) for f in LADDER_OF_SOFTMAX),
    *((f"softmax of {n}", ALL, lambda n=n: softmax.softmax(gpu(100, n, dtype=torch.bfloat16)))
      for n in (4096, 65_536)),
    *((f"{f.__name__} of {n}", ALL, lambda f=f, n=n: f(gpu(100, n, dtype=F32), gpu(n, dtype=F32)))
      for f, n in ((rms_norm.rms_norm_v3, 1024), (rms_norm.rms_norm_v5, 16_384),
                   (rms_norm.rms_norm_v4, 50_257))),
    *((f.__name__, FEW, lambda f=f: f(gpu(100, 8192), gpu(8192)))
      for f in (rms_norm.rms_norm_v1, rms_norm.rms_norm_v2)),
    ("rms_norm_backward_v1", ALL, backward(rms_norm_backward.rms_norm_backward_v1, 100, 50_257)),
    ("rms_norm_backward_v2", ALL, backward(rms_norm_backward.rms_norm_backward_v2, 1000, 8192)),
    *((f.__name__, where, losses(f))
      for f, where in ((cross_entropy.cross_entropy_v1, FEW), (cross_entropy.cross_entropy_v2, FEW),
                       (cross_entropy.cross_entropy_v3, ALL))),
    ("cross_entropy_backward_v1", ALL, lambda: cross_entropy.cross_entropy_backward_v1(
        gpu(100, dtype=F32), gpu(100, 50_257, dtype=torch.bfloat16), gpu(100, dtype=torch.int64),
        gpu(100, dtype=F32), -100)),
    *((f.__name__, FEW, multiply(f, 4096)) for f in (matmul.matmul_v1, matmul.matmul_v2)),
    ("matmul", (*NVIDIA, "gfx942"), multiply(matmul.matmul, 4096)),
    ("matmul of float32", ("sm_75", "sm_89", *LARGE), multiply(matmul.matmul, 4096, F32)),
    ("matmul without TF32, which RDNA lacks", ("gfx1100",),
     multiply(matmul.matmul, 4096, input_precision="ieee")),
    *((f.__name__, ("sm_90", "gfx942"), attend(f, 64))  # on sm_75 they spill, and compile for long
      for f in (attention.flash_attention_v1, attention.flash_attention_v2)),
    ("flash_attention", NVIDIA, attend(attention.flash_attention, 64)),
    ("flash_attention of 128 dimensions", LARGE, attend(attention.flash_attention, 128)),
    ("flash_attention_backward_v1", FEW,  # with more dimensions they compile for long
     attend_backward(gradient.flash_attention_backward_v1, 16)),
    ("flash_attention_backward_v2", ("sm_90",),
     attend_backward(gradient.flash_attention_backward_v2, 16)),
    ("flash_attention_v3", ("gfx942", "gfx1100"), attend(attention.flash_attention_v3, 64)),
]  # fmt: skip


@pytest.fixture
def launched(monkeypatch):
    """The launches that the modules make from now on, as (kernel, args, kwargs)."""
    launches = []

    class Recorded:
        # What a launcher asks of a kernel, to learn whether it is compiled.
        __class__ = triton.JITFunction

        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            return lambda *args, **kwargs: launches.append((self.kernel, args, kwargs))

    for module in MODULES:
        for name, value in list(vars(module).items()):
            if "kernel" in name and hasattr(value, "fn"):
                monkeypatch.setattr(module, name, Recorded(value))
    return launches


def be(monkeypatch, target):
    """Let launchers take this machine's GPU for one of this architecture."""
    kib = target.shared_bytes // 1024
    capability = divmod(int(target.name[3:]), 10) if target.nvidia else (0, 0)
    gpu = device.Gpu(capability, MULTIPROCESSORS, kib)
    monkeypatch.setattr(device, "_properties", lambda index: gpu)


@pytest.mark.parametrize("name", ALL)
def test_every_launch_compiles_and_fits(name, launched, monkeypatch):
    target = TARGETS[name]
    be(monkeypatch, target)
    too_large = []
    for what, where, launch in LAUNCHES:
        if name not in where:
            continue
        launched.clear()
        launch()
        assert launched, what
        for kernel, args, options in launched:
            lowered = lower(kernel, *args, target=name, **options).metadata["options"]
            shared, warps = lowered["shared"], lowered["num_warps"]
            if shared > target.shared_bytes or warps * target.warp_size > MOST_THREADS:
                too_large.append(f"{what}: {kernel.__name__} takes {shared:,} bytes, {warps} warps")
    assert not too_large, "\n".join(too_large)


def test_no_kernel_is_forgotten(launched, monkeypatch):
    be(monkeypatch, TARGETS["sm_90"])
    for _, where, launch in LAUNCHES:
        if "sm_90" in where:
            launch()
    compiled = {kernel.__name__ for kernel, _, _ in launched}
    kernels = {
        name
        for module in MODULES
        for name in vars(module)
        if "kernel" in name and not name.startswith("_")
    }
    assert kernels - compiled == set()


@pytest.mark.parametrize("kernel", [
    "transpose_kernel_v1", "rms_norm_backward_weight_kernel", "rms_norm_backward_kernel_v2",
    "softmax_kernel_v8",
])  # fmt: skip
def test_a_loop_that_may_step_past_2_31_counts_in_64_bits(kernel, launched, monkeypatch):
    be(monkeypatch, TARGETS["sm_90"])
    for _, where, launch in LAUNCHES:
        if "sm_90" in where:
            launch()
    (launch, *_) = (each for each in launched if each[0].__name__ == kernel)
    function, args, options = launch
    ttir = lower(function, *args, target="sm_90", **options).ttir
    assert set(re.findall(r"scf\.for .* : (i\d+) +{", ttir)) == {"i64"}


def test_tf32_is_refused_where_there_is_none(launched, monkeypatch):
    be(monkeypatch, TARGETS["gfx1100"])
    matmul.matmul(gpu(64, 64), gpu(64, 64))
    ((kernel, args, options),) = launched
    with pytest.raises(course.CourseError, match="input_precision must be one of"):
        lower(kernel, *args, target="gfx1100", **options)
