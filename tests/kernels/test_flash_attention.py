"""The attention of kernels/, as a caller sees it, in either mode: in bfloat16 on a GPU only."""

import itertools
import math
import os
import subprocess
import sys

import pytest
import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from course import DEVICE, MODE, lower
from kernels.attention import (
    flash_attention,
    flash_attention_v1,
    flash_attention_v2,
    flash_attention_v3,
    flash_attention_v4,
    flash_attention_v5,
)
from kernels.attention import settings as table
from kernels.attention.export import _fwd_kernel
from kernels.attention.inputs import Launch
from kernels.attention.tl import flash_attention_kernel
from kernels.attention.tl_hopper import (
    flash_attention_kernel_v4,
    flash_attention_kernel_v5,
    specializable,
)
from tests.support.devices import dtypes_of, lacking, needs, needs_free_gib
from tests.support.processes import PATIENCE_S
from tests.support.refusals import assert_each_is_refused

pytestmark = pytest.mark.gpu_too

LADDER = [
    flash_attention_v1,
    flash_attention_v2,
    flash_attention_v3,
    flash_attention_v4,
    flash_attention,
]
COMPILED_TRITON = tuple(int(part) for part in triton.__version__.split(".")[:2])
DTYPES = dtypes_of(torch.float16, torch.bfloat16)


def random(*shape, dtype=torch.float16):
    generator = torch.Generator(DEVICE).manual_seed(sum(shape))
    return torch.randn(shape, device=DEVICE, generator=generator).to(dtype)


def inputs(batch=1, heads=2, queries=70, keys=70, head_dim=32, key_heads=None, dtype=torch.float16):
    q = random(batch, heads, queries, head_dim, dtype=dtype)
    k, v = random(2, batch, key_heads or heads, keys, head_dim, dtype=dtype)
    return q, k, v


def reference(q, k, v, causal=False, scale=None):
    """The output and the log-sum-exp in float64, written out."""
    q, k, v = q.double(), k.double(), v.double()
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        queries, keys = scores.shape[-2:]
        every = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(every.triu(keys - queries + 1), -math.inf)
    lse = scores.logsumexp(-1)
    shares = (scores - lse.where(lse > -math.inf, 0)[..., None]).exp()
    return shares @ v, lse


def assert_right(launcher, q, k, v, **options):
    out, lse = launcher(q, k, v, return_lse=True, **options)
    expected, expected_lse = reference(q, k, v, **options)
    # Probabilities are rounded to the dtype, and so is the result.
    close = 1e-3 if q.dtype == torch.float16 else 8e-3
    torch.testing.assert_close(out.double(), expected, rtol=4 * close, atol=close, equal_nan=True)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("launcher", LADDER)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys"), [(1, 1), (2, 1), (1, 65), (63, 64), (64, 63), (65, 130), (130, 65)]
)
def test_every_version_is_right_at_every_length(launcher, causal, queries, keys):
    for dtype in DTYPES:
        assert_right(launcher, *inputs(queries=queries, keys=keys, dtype=dtype), causal=causal)


@pytest.mark.parametrize("launcher", [flash_attention_v1, flash_attention_v3, flash_attention_v4])
@pytest.mark.parametrize("head_dim", [16, 24, 40, 64, 80, 128, 192, 256])
def test_every_head_dim_is_right(launcher, head_dim):
    for dtype in DTYPES:
        x = inputs(heads=1, queries=33, keys=50, head_dim=head_dim, dtype=dtype)
        assert_right(launcher, *x, causal=True)


@pytest.mark.parametrize("head_dim", [17, 31, 97])
def test_a_head_dim_that_no_descriptor_takes_is_right(head_dim):
    q, k, v = inputs(queries=20, keys=40, head_dim=head_dim)
    assert_right(flash_attention, q, k, v)
    with pytest.raises(ValueError, match="rows begin at multiples of 16 bytes"):
        flash_attention_v4(q, k, v)


@pytest.mark.parametrize("launcher", LADDER)
@pytest.mark.parametrize("key_heads", [1, 2, 3, 6])
def test_heads_that_share_keys(launcher, key_heads):
    x = inputs(batch=2, heads=6, queries=20, keys=40, head_dim=16, key_heads=key_heads)
    assert_right(launcher, *x, causal=True)


@pytest.mark.parametrize("launcher", LADDER)
def test_a_query_that_sees_no_key_gets_zero_and_a_log_sum_exp_of_minus_infinity(launcher):
    q, k, v = inputs(queries=70, keys=5)
    out, lse = launcher(q, k, v, causal=True, return_lse=True)
    assert (out[:, :, :65] == 0).all()
    assert (lse[:, :, :65] == -math.inf).all()
    assert lse[:, :, 65:].isfinite().all()
    torch.testing.assert_close(out[:, :, 65], v[:, :, 0])


def test_no_keys_no_queries_no_batch():
    out, lse = flash_attention(*inputs(keys=0), return_lse=True)
    assert (out == 0).all()
    assert (lse == -math.inf).all()
    assert flash_attention(*inputs(queries=0)).shape == (1, 2, 0, 32)
    assert flash_attention(*inputs(batch=0)).shape == (0, 2, 70, 32)


@pytest.mark.parametrize("launcher", LADDER)
@pytest.mark.parametrize("causal", [False, True])
def test_heads_and_length_may_change_places(launcher, causal):
    q, k, v = inputs(batch=2, heads=4, queries=30, keys=45, key_heads=2)
    expected, expected_lse = launcher(q, k, v, causal=causal, return_lse=True)
    moved = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    out, lse = launcher(*moved, causal=causal, return_lse=True, layout="bmhd")
    assert out.shape == moved[0].shape
    assert out.is_contiguous()
    assert torch.equal(out.transpose(1, 2), expected)
    assert torch.equal(lse, expected_lse)


@pytest.mark.parametrize("launcher", [flash_attention_v1, flash_attention])
def test_strided_inputs(launcher):
    packed = random(2, 40, 3, 2, 32)  # as one projection gives q, k and v
    assert_right(launcher, *packed.permute(2, 0, 3, 1, 4))
    wide = random(3, 2, 2, 40, 37)
    assert_right(launcher, *wide[..., 3:35])
    assert_right(launcher, *wide[..., :32].flip(0)[:, :, :, ::3])
    q, k, v = inputs()
    assert_right(launcher, q, k[:, :1].expand(1, 2, 70, 32), v[:, :, :1].expand(1, 2, 70, 32))
    assert_right(launcher, torch._neg_view(q), k, v)


@pytest.mark.parametrize("launcher", [flash_attention_v1, flash_attention])
def test_strided_inputs_with_heads_and_length_in_each_others_place(launcher):
    packed = random(2, 40, 3, 4, 32)
    wide = random(3, 2, 40, 2, 37)[..., :32].flip(0)[:, :, ::3]
    for q, k, v in (packed.unbind(2), wide):
        expected, _ = reference(*(x.transpose(1, 2) for x in (q, k, v)))
        out = launcher(q, k, v, layout="bmhd")
        torch.testing.assert_close(out.transpose(1, 2).double(), expected, rtol=4e-3, atol=1e-3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [128, 256])
@pytest.mark.parametrize(("queries", "keys"), [(128, 128), (128, 384), (384, 128)])
def test_specialized_warps_are_right(head_dim, queries, keys, causal):
    needs(flash_attention_v5)
    for dtype, key_heads in itertools.product(DTYPES, [4, 2]):
        x = inputs(
            heads=4, queries=queries, keys=keys, head_dim=head_dim, key_heads=key_heads, dtype=dtype
        )
        assert_right(flash_attention_v5, *x, causal=causal)


def test_specialized_warps_take_every_layout_that_is_one_matrix():
    needs(flash_attention_v5)
    packed = random(2, 128, 3, 2, 128)  # as one projection gives q, k and v
    assert_right(flash_attention_v5, *packed.permute(2, 0, 3, 1, 4))
    q, k, v = packed.unbind(2)
    out = flash_attention_v5(q, k, v, layout="bmhd")
    assert torch.equal(out.transpose(1, 2), flash_attention_v5(*packed.permute(2, 0, 3, 1, 4)))


@pytest.mark.parametrize(
    "x",
    [
        random(1, 2, 128, 32),
        random(1, 2, 128, 64),
        random(1, 2, 127, 128),
        random(1, 2, 128, 132)[..., :128],
        random(1, 1, 128, 128).expand(1, 2, 128, 128),
    ],
)
def test_what_specialized_warps_do_not_take_is_a_sentence(x):
    with pytest.raises(
        ValueError,
        match="v5 takes a head_dim of 128 or 256, lengths of multiples of 128, and heads",
    ):
        flash_attention_v5(x, x, x)


def test_what_a_descriptor_cannot_count_in_32_bits_is_left_to_others():
    def launch(step):
        x = torch.empty(1, dtype=torch.float16, device="meta")
        x = x.as_strided((1, 1, 128, 128), (128 * step, 128 * step, step, 1))
        return Launch(x, x, x, x, x, 0.1, False, "bhmd")

    assert specializable(launch(2**31 - 8))
    assert not specializable(launch(2**31))


@pytest.mark.alone
@pytest.mark.gpu  # gigabytes, and the interpreter is slow
def test_rows_further_apart_than_32_bits_count():
    needs_free_gib(5)
    storage = torch.empty(2**31 + 2**26, dtype=torch.float16, device=DEVICE)
    x = storage.as_strided((1, 1, 65, 32), (1, 1, 2**25, 1))
    x.copy_(random(1, 1, 65, 32))
    assert_right(flash_attention_v1, x, x, x)
    assert_right(flash_attention_v3, x, x, x, causal=True)


@pytest.mark.parametrize("launcher", LADDER)
@pytest.mark.parametrize("scale", [0.01, 0.5, 30.0])
def test_scales_and_large_logits(launcher, scale):
    assert_right(launcher, *inputs(queries=20, keys=100), scale=scale, causal=True)


@pytest.mark.parametrize("launcher", LADDER)
def test_nan_in_one_head_stays_there(launcher):
    q, k, v = inputs(heads=3)
    clean = launcher(q, k, v)
    k[:, 1, 7] = math.nan
    out = launcher(q, k, v)
    assert out[:, 1].isnan().all()
    assert torch.equal(out[:, ::2], clean[:, ::2])


def test_nan_beside_the_tensors_changes_nothing():
    q, k, v = inputs(queries=20, keys=33, head_dim=24)
    beside = [torch.full((1, 2, 64, 40), math.nan, dtype=q.dtype, device=DEVICE) for _ in range(3)]
    views = [
        wide[:, :, 3 : 3 + x.shape[2], 8:32].copy_(x)
        for wide, x in zip(beside, (q, k, v), strict=True)
    ]
    for launcher in LADDER:
        if not lacking(launcher):
            assert torch.equal(launcher(*views), launcher(q, k, v))


REFUSED_CHANGES = [
    ({"q": 3}, TypeError, "q is of type int, and must be a torch.Tensor"),
    ({"q": random(2, 3, 16)}, ValueError,
     "q has 3 dimensions, and must have 4: batch, heads, length, head_dim"),
    ({"q": random(1, 2, 4, 16).float()}, ValueError,
     "q is torch.float32; this kernel takes float16 and bfloat16"),
    ({"q": random(1, 2, 4, 16).bfloat16()}, ValueError,
     "q has dtype torch.bfloat16 and k has dtype torch.float16"),
    ({"v": random(1, 2, 6, 16)}, ValueError,
     "k has shape (1, 2, 5, 16) and v has shape (1, 2, 6, 16)"),
    ({"k": torch.empty(1, 2, 5, 16, device="meta").half()}, ValueError,
     "both must have the same device"),
    ({"q": random(2, 2, 4, 16)}, ValueError,
     "q has batch 2 and head_dim 16, k has batch 1 and head_dim 16"),
    ({"q": random(1, 2, 4, 32)}, ValueError,
     "q has batch 1 and head_dim 32, k has batch 1 and head_dim 16"),
    ({"q": random(1, 3, 4, 16)}, ValueError, "3 heads of q cannot share 2 heads of k evenly"),
    ({"q": random(1, 2, 16, 4).mT}, ValueError,
     "q has stride 4 along head_dim, and must have 1: call .contiguous()"),
    ({"layout": "bhdm"}, ValueError, "layout is 'bhdm', and must be one of bhmd, bmhd"),
    ({"scale": 0.0}, ValueError, "scale is 0.0, and must be positive and finite"),
    ({"scale": math.nan}, ValueError, "scale is nan, and must be positive and finite"),
]  # fmt: skip


def test_bad_input_is_a_sentence():
    good = dict(zip("qkv", inputs(queries=4, keys=5, head_dim=16), strict=True))
    for change, error, words in REFUSED_CHANGES:
        args = good | change
        assert_each_is_refused(LADDER, [(lambda args=args: args, error, words)])


@pytest.mark.parametrize("head_dim", [8, 257])
def test_a_head_dim_out_of_range_is_a_sentence(head_dim):
    with pytest.raises(ValueError, match=f"head_dim is {head_dim}, and must be 16 to 256"):
        flash_attention(*inputs(queries=4, keys=5, head_dim=head_dim))


def test_more_batches_than_a_grid_takes_are_a_sentence():
    x = random(1, 1, 1, 16).expand(65_536, 1, 1, 16)
    with pytest.raises(ValueError, match="batch 65,536 or heads 1 is more than the 65,535"):
        flash_attention(x, x, x)


def test_a_gpu_too_small_is_a_sentence():
    with pytest.raises(
        ValueError, match="this GPU has 48 KiB of shared memory for a program, and 64 are needed"
    ):
        table.settings_for(64, 48)


@pytest.mark.gpu  # an interpreted kernel takes CPU tensors
def test_cpu_tensors_are_refused_on_a_gpu():
    x = tuple(x.cpu() for x in inputs())
    assert_each_is_refused(LADDER, [(lambda: x, ValueError, "the inputs are on cpu")])


STRIDES, LENGTHS = ("i32:16",) * 3, ("i32:16",) * 2


def compiled(target, head_dim, causal, settings, even=True, descriptors=False):
    """The kernel of v3 as it is launched, or that of v4."""
    kernel, keys = flash_attention_kernel, ["*fp16:16", "*fp16:16"]
    rest = [*[STRIDES] * 4, LENGTHS, "i32:16", "i32:16"]
    if descriptors:
        x = torch.empty(4, 16, 4096, head_dim, dtype=torch.float16)
        tile = [1, 1, settings.block_n, head_dim]
        keys = [TensorDescriptor(x, list(x.shape), list(x.stride()), tile)] * 2
        kernel, rest = flash_attention_kernel_v4, [STRIDES, STRIDES, LENGTHS, "i32:16"]
    return lower(
        kernel, "*fp16:16", *keys, "*fp16:16", "*fp32:16", "fp32", "i32", *rest,
        EVEN_M=even, EVEN_N=even, EVEN_HEADDIM=even, IS_CAUSAL=causal, BLOCK_HEADDIM=head_dim,
        BLOCK_M=settings.block_m, BLOCK_N=settings.block_n, HEADS_PER_KEY_HEAD=1,
        num_warps=settings.num_warps, num_stages=settings.num_stages, target=target,
    )  # fmt: skip


MOST_SPILLED = 0 if COMPILED_TRITON <= (3, 7) else 64
"""Bytes: none with the Triton that the settings were chosen with, and some room for what comes."""


@pytest.mark.parametrize(
    ("target", "shared_kb"), [("sm_75", 64), ("sm_80", 163), ("sm_89", 99), ("sm_90", 227)]
)
@pytest.mark.parametrize("head_dim", [16, 64, 128, 256])
def test_the_settings_fit_the_gpu_and_spill_nothing(target, shared_kb, head_dim):
    for causal, even in itertools.product([False, True], [True, False]):
        settings = table.settings_for(head_dim, shared_kb)
        resources = compiled(target, head_dim, causal, settings, even).resources
        assert resources.fits, resources
        assert resources.spill_bytes <= MOST_SPILLED, (causal, even, resources)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_descriptors_are_read_by_hardware_into_tiles_that_fit(head_dim):
    for causal, even in itertools.product([False, True], [True, False]):
        settings = table.DESCRIPTOR_SETTINGS[head_dim]
        lowered = compiled("sm_90", head_dim, causal, settings, even, descriptors=True)
        assert lowered.resources.fits, lowered.resources
        assert lowered.resources.spill_bytes == 0, (causal, even, lowered.resources)
        assert "cp.async.bulk.tensor" in lowered.ptx
        assert "ld.global" not in lowered.ptx.split("cp.async.bulk.tensor")[-1]


@pytest.mark.skipif(COMPILED_TRITON < (3, 7), reason="needs Triton 3.7: v5 was measured with it")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [128, 256])
def test_loads_and_halves_of_a_tile_get_warps_of_their_own(head_dim, causal):
    settings = table.SPECIALIZED_SETTINGS[head_dim]
    lowered = lower(
        flash_attention_kernel_v5, *["*fp16:16"] * 4, "*fp32:16", "fp32", *["i32:16"] * 3,
        *[STRIDES] * 4, ("i32:16",) * 4, LENGTHS,
        IS_CAUSAL=causal, HEADDIM=head_dim, BLOCK_M=settings.block_m, BLOCK_N=settings.block_n,
        HEADS_PER_KEY_HEAD=1, PERSISTENT=head_dim in table.PERSISTENT,
        num_warps=settings.num_warps, num_stages=settings.num_stages, target="sm_90",
    )  # fmt: skip
    assert lowered.resources.fits, lowered.resources
    assert lowered.resources.spill_bytes == 0, lowered.resources
    loading, *computing = lowered.ttgir.split("partition")
    assert "async_tma_copy_global_to_local" in loading
    assert "warp_group_dot" not in loading
    assert len([part for part in computing if "warp_group_dot" in part]) == 2


def test_the_loop_without_a_mask_compares_nothing():
    lowered = compiled("sm_90", 64, False, table.settings_for(64, 227))
    assert lowered.ptx.count("wgmma.mma_async") > 0
    assert "setp.le" not in lowered.ptx


def test_the_exported_kernel_takes_the_arguments_that_callers_in_c_pass():
    names = _fwd_kernel.arg_names
    strides = [
        f"stride_{x}{axis}"
        for x, row in (("q", "m"), ("k", "n"), ("v", "n"), ("o", "m"))
        for axis in ("b", "h", row)
    ]
    assert names[:9] == ["Q", "K", "V", "Out", "Lse", "TMP", "softmax_scale", "batch", "nheads"]
    assert names[9:21] == strides
    assert names[21:25] == ["seqlen_q", "seqlen_k", "seqlen_q_rounded", "head_dim"]
    flags = ["EVEN_M", "EVEN_N", "EVEN_HEADDIM", "IS_CAUSAL"]
    assert names[25:] == [*flags, "BLOCK_HEADDIM", "BLOCK_M", "BLOCK_N"]


WITHOUT_GLUON = """
import torch
import triton.experimental.gluon.language.nvidia.hopper as hopper
del hopper.warpgroup_mma
from kernels.attention import flash_attention
q = torch.randn(1, 1, 16, 16).half()
print(flash_attention(q, q, q).shape)
"""


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: the same in both modes")
def test_attention_in_tl_needs_no_name_of_gluon():
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_GLUON],
        capture_output=True, text=True, timeout=PATIENCE_S,
        env=os.environ | {"TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert ended.stdout == "torch.Size([1, 1, 16, 16])\n", ended.stderr[-2000:]


RUN_TIME_FLAGS = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from kernels.attention.export import _fwd_kernel

names = _fwd_kernel.arg_names
types = ["*fp16"] * 4 + ["*fp32"] * 2 + ["fp32"] + ["i32"] * 18 + ["i1"] * 3 + ["constexpr"] * 4
for causal in (False, True):
    constants = dict(zip(names[28:], (causal, 64, 128, 64)))
    source = ASTSource(_fwd_kernel, dict(zip(names, types)), constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    head = compiled.asm["ptx"].split(".entry")[1].split("{")[0]
    print("parameters of a byte:", head.count(".param .u8"))
"""


def test_the_even_flags_may_be_given_at_run_time():
    """As an exported kernel has them. A process of its own, since this one may interpret."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ended = subprocess.run(
        [sys.executable, "-c", RUN_TIME_FLAGS],
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout == 2 * "parameters of a byte: 3\n"
