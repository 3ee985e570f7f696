"""Kernels of published packages, and a launch of each as the package makes it, but small.

A tensor is written as its type and length,
as "fp32[300]"; "i64[4]<5" has numbers below 5. Kernels take addresses alone,
so that a tensor's shape does not matter.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Package:
    """A package at the version whose kernels are launched."""

    name: str
    version: str
    sha256: str
    """The SHA-256 of its wheel."""
    files: tuple[str, ...]
    """What the kernels' modules are, and import."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel."""

    package: str
    module: str
    kernel: str
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    """In the kernel's order, up to its constants."""
    constants: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    bytes: tuple[int, int] | None = None
    """Loaded and stored, counted by hand from the kernel's text; atomic updates count as both."""
    targets: tuple[str, ...] = ("sm_80", "sm_90", "gfx942")
    """What it is lowered for."""
    computed: Callable[[list[torch.Tensor]], dict[int, torch.Tensor]] | None = None
    """What PyTorch makes of the launch's tensors, by the number of each that is written.

    For kernels that Triton's interpreter by itself does not run: a float argument has no `.to`
    there, and libdevice computes nothing.
    """


PACKAGES = (
    Package(
        "liger-kernel", "0.8.5", "60789cd576af073ab9b192b570d2597fd0cdad489cd62fb44fb16256d43754c9",
        (
            "liger_kernel/utils.py", "liger_kernel/ops/utils.py", "liger_kernel/ops/softmax.py",
            "liger_kernel/ops/rope.py",
            "liger_kernel/ops/layer_norm.py",
        ),
    ),
    Package(
        "sageattention", "1.0.6",
        "fafc66569bed62a16839e820c2612141b5a20accf55b876d941bab9c0ac5d888",
        ("sageattention/attn_qk_int8_per_block.py",),
    ),
    Package(
        "lightning-attn", "0.0.5",
        "73c8689c6b969a747efc5432b5d31b92e3a45178c1ae113832c72e1cda0e1afc",
        ("lightning_attn/ops/triton/lightning_attn2_no_decay.py",),
    ),
    Package(
        "cut-cross-entropy", "25.1.1",
        "e46f26d348f6a67927d17e65c5a212e795be13dcad5b10a77a200d6b8102d9d1",
        ("cut_cross_entropy/tl_autotune.py", "cut_cross_entropy/tl_utils.py",
         "cut_cross_entropy/cce_lse_forward.py"),
    ),
    Package(
        "fla-core", "0.6.0", "b0708b70e0b119cd58a0a5146ea56cb175cef6ed969d8ac60267e3e077ce3ebd",
        (
            "fla/__init__.py", "fla/backends.py", "fla/utils/__init__.py",
            "fla/utils/decorators.py", "fla/utils/env.py",
            "fla/utils/hardware.py", "fla/utils/testing.py", "fla/ops/utils/cache.py",
            "fla/ops/utils/index.py",
            "fla/ops/utils/op.py", "fla/ops/utils/cumsum.py",
        ),
    ),
    Package(
        "conch-triton-kernels", "1.3",
        "bbbdbbcc2ea5650f582a00d9c9ad9ca65b822a64b3cf41856c5e83efcdbe7cea",
        ("conch/kernels/activation/silu_and_mul.py",),
    ),
    Package(
        "xformers", "0.0.35", "ccc73c7db9890224ab05f5fb60e2034f9e6c8672a10be0cf00e95cbbae3eda7c",
        (
            "xformers/triton/importing.py", "xformers/ops/_triton/k_index_select_cat.py",
            "xformers/ops/_triton/rmsnorm_kernels.py",
        ),
    ),
    Package(
        "mlstm-kernels", "2.0.6",
        "85eeea2c1867a2fbd451ec2ddd6065a9d29d3a3022b8bb4ffe02c20e27c56df8",
        ("mlstm_kernels/baselines/flash_linear_attention/gla/chunk_util.py",),
    ),
)  # fmt: skip
"""In the order in which they are fetched."""


def layer_norm(tensors: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    _, x, weight, bias, *_ = tensors
    rows = x.reshape(3, 100)
    y, mean, rstd = torch.native_layer_norm(rows, [100], weight, bias, 1e-5)
    return {0: y, 4: mean, 5: rstd}


def rms_norm(tensors: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    x, _, weight = tensors
    return {1: torch.nn.functional.rms_norm(x.reshape(3, 100), [100], weight, 1e-5)}


def log_sum_exp(tensors: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    """The log-sum-exp of a row's products with every column, added to what was there."""
    e, c, before, _ = tensors
    return {2: torch.logaddexp(before, (e.reshape(16, 32) @ c.reshape(32, 32).T).logsumexp(dim=1))}


LAUNCHES = (
    Launch(  # 3 rows of 100
        "liger-kernel", "liger_kernel.ops.softmax", "_softmax_single_block_forward_kernel", (3,),
        ("fp32[300]", 100, "fp32[300]", 100, 100), {"BLOCK_SIZE": 128}, {"num_warps": 4},
        bytes=(3 * 100 * 4, 3 * 100 * 4),
    ),
    # A cosine and a sine for each of 16.
    Launch(  # 2 tokens, 4 heads of 32 of q and 2 of k, rotated in place
        "liger-kernel", "liger_kernel.ops.rope", "_triton_rope", (2,),
        ("fp32[256]", 128, "fp32[128]", 64, "fp32[64]", 32, "fp32[64]", 32, 2),
        {
            "bs": 1, "cos_bs": 1, "n_qh": 4, "n_kh": 2, "hd": 32, "pad_n_qh": 4, "pad_n_kh": 2,
            "pad_hd": 32, "pad_rd": 32,
            "rd": 32, "BLOCK_SIZE": 4, "BACKWARD_PASS": False,
        },
        {"num_warps": 4},
        bytes=(2 * (2 * 16 + 4 * 32 + 2 * 32) * 4, 2 * (4 * 32 + 2 * 32) * 4),
    ),
    Launch(  # 3 rows of 100, with weights, biases, means and reciprocal deviations
        "liger-kernel", "liger_kernel.ops.layer_norm", "_layer_norm_forward_kernel", (3,),
        (
            "fp32[300]", 100, "fp32[300]", 100, "fp32[100]", 100, "fp32[100]", 100, "fp32[3]", 1,
            "fp32[3]", 1, 100, 1e-5,
        ),
        {"BLOCK_SIZE": 128}, {"num_warps": 4},
        bytes=(3 * 3 * 100 * 4, 3 * (100 + 2) * 4), computed=layer_norm,
    ),
    Launch(  # 2 blocks of 32 queries by 2 blocks of 32 keys, 1 head of 32
        "sageattention", "sageattention.attn_qk_int8_per_block", "_attn_fwd", (2, 1, 1),
        (
            "i8[2048]", "i8[2048]", "fp16[2048]", "fp32[2]", "fp32[2]", "fp16[2048]", 2048, 2048,
            32, 2048, 2048, 32, 2048,
            2048, 32, 2048, 2048, 32, 64, 64,
        ),
        {"H": 1, "num_kv_groups": 1, "HEAD_DIM": 32, "BLOCK_M": 32, "BLOCK_N": 32, "STAGE": 1},
        {"num_warps": 4, "num_stages": 3},
        bytes=(2 * (32 * 32 + 4 + 2 * (32 * 32 + 4 + 32 * 32 * 2)), 2048 * 2),
    ),
    Launch(  # 2 heads of 64 rows of 32, in 2 blocks
        "lightning-attn", "lightning_attn.ops.triton.lightning_attn2_no_decay", "_fwd_kernel", (2,
        1),
        ("fp32[4096]", "fp32[4096]", "fp32[4096]", "fp32[4096]"),
        {"b": 1, "h": 2, "n": 64, "d": 32, "e": 32, "BLOCK": 32, "NUM_BLOCK": 2, "BLOCK_MODEL": 32},
        bytes=(3 * 4096 * 4, 4096 * 4),
    ),
    Launch(  # 16 rows by 32 columns of an inner product over 32, under a lock
        "cut-cross-entropy", "cut_cross_entropy.cce_lse_forward", "_cce_lse_forward_kernel", (1,),
        ("fp32[512]", "fp32[1024]", "fp32[16]", None, "i32[1]<1", None, None, 16, 32, 32, 32, 1,
         32, 1, 1, 1, 1, 128),
        {
            "HAS_VALIDS": False, "BLOCK_B": 16, "BLOCK_V": 32, "BLOCK_D": 32, "GROUP_B": 8,
            "EVEN_D": True,
            "HAS_SOFTCAP": False, "HAS_LA": False, "DOT_PRECISION": "ieee",
        },
        computed=log_sum_exp,
    ),
    Launch(  # 3 tokens of 100, and as many values to multiply by, in two blocks each
        "conch-triton-kernels", "conch.kernels.activation.silu_and_mul", "_silu_and_mul_kernel",
        (3,), ("fp32[300]", "fp32[600]", 100, 200, 100), {"cxpr_block_size": 64},
        bytes=(3 * 200 * 4, 3 * 100 * 4),
    ),
    # The package imports PyTorch's compiler, which takes seconds.
    Launch(  # 2 sequences of 32 of 1 head, each summed in 2 chunks
        "fla-core", "fla.ops.utils.cumsum", "chunk_local_cumsum_scalar_kernel", (2, 2),
        ("fp32[64]", "fp32[64]", None, None, None, 32),
        {"B": 2, "H": 1, "BT": 16, "REVERSE": False, "HAS_SCALE": False, "IS_VARLEN": False},
        bytes=(64 * 4, 64 * 4), targets=("sm_90",),
    ),
    Launch(  # 4 rows of 100 out of 5, in blocks of 1 by 128
        "xformers", "xformers.ops._triton.k_index_select_cat", "index_select_cat_fwd_kernel", (4,
        1),
        ("fp32[400]", "fp32[500]", "i64[4]<5", 4, 100, 100, 1), {"BLOCK_SIZE_INDEX": 1,
         "BLOCK_SIZE_COL": 128},
        bytes=(4 * (100 * 4 + 8), 4 * 100 * 4),
    ),
    Launch(  # 3 rows of 100, read twice in blocks of 64, the second time with weights
        "xformers", "xformers.ops._triton.rmsnorm_kernels", "_rms_norm_kernel", (3,),
        ("fp32[300]", "fp32[300]", "fp32[100]", 1e-5, 100), {"N_COLS": 100, "BLOCK_SIZE": 64,
         "INCLUDE_WEIGHT": True},
        bytes=(3 * 3 * 100 * 4, 3 * 100 * 4), computed=rms_norm,
    ),
    Launch(  # 2 heads of 32 tokens of 24, in 2 chunks each: pointers go on row by row
        "mlstm-kernels", "mlstm_kernels.baselines.flash_linear_attention.gla.chunk_util",
        "prepare_qg_kg", (1, 2, 2), (*("fp32[1544]",) * 5, 768, 24, 1, 1, 2, 32, 0.125),
        {"BT": 16, "BK": 32, "DK": 24},
        # What a chunk's last row decays by is loaded without a mask.
        bytes=(4 * (32 + 3 * 16 * 24) * 4, 4 * 2 * 16 * 24 * 4),
    ),
)  # fmt: skip
