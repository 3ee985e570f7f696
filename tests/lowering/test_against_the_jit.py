"""lower gives what Triton's own JIT makes of a launch, and what an export has."""

import functools
import re

import pytest
import torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from course import aot, lower
from course.cli import split_signature
from course.lowering.api import lower_file
from tests.support import lower_kernels as kernels
from tests.support.jit_stages import comparable, jit_stages
from tests.support.lower_kernels import ADD

CASES = {
    "aligned": ("add_kernel", "x, x, x, 4096, BLOCK_SIZE=256"),
    "an odd number": ("add_kernel", "x, x, x, 4097, BLOCK_SIZE=256"),
    "one": ("add_kernel", "x, x, x, 1, BLOCK_SIZE=256"),
    "64 bits": ("add_kernel", "x, x, x, 2**33, BLOCK_SIZE=256"),
    "a shifted view": ("add_kernel", "x[1:], x, x, 4096, BLOCK_SIZE=256"),
    "other dtypes": ("add_kernel", "x.to(torch.bfloat16), x.int(), x.half(), 4096, BLOCK_SIZE=256"),
    "more warps": ("add_kernel", "x, x, x, 4096, BLOCK_SIZE=1024, num_warps=8"),
    "a tensor descriptor": (
        "descriptor_kernel",
        "TensorDescriptor(x, [32, 32], [32, 1], [16, 16]), x, BLOCK=16",
    ),
    "flags and types": ("options_kernel", "x, True, 0.5, KIND='scaled', DTYPE=tl.float16"),
    "a loop": ("matmul_kernel", "x.half(), x.half(), x, 256, BLOCK=64, num_stages=2"),
}


@functools.cache
def of_the_jit(target):
    """What the JIT makes of all cases, in one process."""
    return jit_stages(CASES, target)


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize("case", CASES)
def test_the_stages_are_what_the_jit_makes(case, target):
    kernel, arguments = CASES[case]
    names = {"x": torch.zeros(5000), "torch": torch, "tl": tl, "TensorDescriptor": TensorDescriptor}
    args, kwargs = eval(f"call({arguments})", {**names, "call": lambda *a, **k: (a, k)})
    lowered = lower(getattr(kernels, kernel), *args, target=target, **kwargs)
    assert comparable(lowered.texts) == comparable(of_the_jit(target)[case])


def test_that_comparison_can_fail():
    ours = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=256, target="sm_90")
    other = jit_stages({"other": ("add_kernel", "x, x, x, 4096, BLOCK_SIZE=512")}, "sm_90")
    assert comparable(ours.texts)["ttir"] != comparable(other["other"])["ttir"]


def test_a_text_describes_what_a_tensor_is():
    x = torch.zeros(5000)
    tensors = lower(kernels.add_kernel, x[1:], x, x.half(), 17, BLOCK_SIZE=64)
    texts = lower(kernels.add_kernel, "*fp32", "*fp32:16", "*fp16:16", "i32", BLOCK_SIZE=64)
    assert tensors.texts == texts.texts


def test_on_amd_the_size_of_the_storage_counts():
    small = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=256, target="gfx942")
    large = lower(kernels.add_kernel, "*fp32:16 large", *ADD[1:], BLOCK_SIZE=256, target="gfx942")
    meta = torch.empty(2**30, device="meta")
    assert small.ttir.count("tt.pointer_range = 32") == 3
    assert large.ttir.count("tt.pointer_range = 32") == 2
    of_meta = lower(kernels.add_kernel, meta, *ADD[1:], BLOCK_SIZE=256, target="gfx942")
    assert of_meta.ttir == large.ttir


SIGNATURES = [
    ("add_kernel", "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024"),
    ("add_kernel", "*fp16, *fp16, *bf16, i64, 64"),
    ("add_kernel", "*fp32, *fp32, *fp32, 100, 64"),
    ("add_kernel", "*fp32, *fp32, *fp32, i32:1, 64"),
    ("typed_kernel", "*fp32:16, fp16, bf16, i1, 64"),
    ("typed_kernel", "*fp32:16, fp32, fp64, True"),
    ("typed_kernel", "*i32, i8, u8, 1, 32"),
    ("typed_kernel", "*i64, i16, u16, i32, 32"),
    ("typed_kernel", "*i64:16, u32, u64, i64:16, 32"),
    ("typed_kernel", "*i32, u1, i1, False, 32"),
    ("typed_kernel", "*fp32, 2.5, -3, u8, 32"),
    ("add_kernel", "*kfp32, *kfp32:16, *fp32, i32, 64"),
    ("chosen_kernel", "*fp32, i32, 0, 64"),
    ("chosen_kernel", "*fp32, 7, i1, 64"),
]


@pytest.mark.parametrize(("kernel", "signature"), SIGNATURES)
def test_a_signature_gives_the_code_that_an_export_of_it_has(kernel, signature, tmp_path):
    lowered = lower_file(kernels.__file__, kernel, split_signature(signature), "sm_90")
    reference, out, options = f"{kernels.__file__}:{kernel}", tmp_path / "out", {"num_warps": 4}
    exported = aot.export(reference, signature, "1", kernel, out, target="sm_90", **options)
    bytes_in_c = re.findall(r"0x([0-9a-f]{2}),", exported.sources[0].read_text())
    assert lowered.cubin == bytes.fromhex("".join(bytes_in_c))
