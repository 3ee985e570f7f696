"""Modules that ask for a GPU while they are loaded: the target answers where there is none."""

import pytest
import torch
from triton.backends.compiler import GPUTarget

import course
from course import cost
from course.errors import CourseError
from course.lowering.api import lower_file
from course.lowering.gpu_stand_in import gpu_stand_in

pytestmark = pytest.mark.skipif(
    course.MODE.gpu or torch.cuda.is_available(), reason="here a GPU answers"
)

TORCH_COMPILE = """
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties
triton_helpers.set_driver_to_gpu()

@triton_heuristics.{kind}(
    {hints},
    filename=__file__,
    triton_meta={{'signature': {{'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', {sizes}'XBLOCK': 'constexpr'}}, 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9, regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024, warp_size=32), 'constants': {{}}, 'configs': [{{(0,): [['tt.divisibility', 16]], (1,): [['tt.divisibility', 16]], (2,): [['tt.divisibility', 16]]}}]}},
    inductor_meta={{'grid_type': 'Grid1D', 'autotune_hints': set(), 'kernel_name': 'kernel', 'mutated_arg_names': [], 'optimize_mem': True, 'no_x_dim': False, 'num_load': 1, 'num_reduction': 1, 'backend_hash': 'A', 'are_deterministic_algorithms_enabled': False}}
)
@triton.jit
def kernel({parameters}, XBLOCK : tl.constexpr):
"""  # noqa: E501  as PyTorch 2.15 writes it

POINTWISE = (
    TORCH_COMPILE.format(
        kind="pointwise", hints="size_hints={'x': 4096}", sizes="",
        parameters="in_ptr0, out_ptr0, xnumel",
    )
    + """    xnumel = 4000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = libdevice.tanh(tmp0)
    tl.store(out_ptr0 + (x0), tmp1, xmask)
"""
)  # fmt: skip
ROWS = (
    TORCH_COMPILE.format(
        kind="persistent_reduction",
        hints="size_hints={'x': 64, 'r0_': 256}, reduction_hint=ReductionHint.INNER",
        sizes="'r0_numel': 'i32', ", parameters="in_ptr0, out_ptr0, xnumel, r0_numel",
    )
    + """    xnumel = 64
    r0_numel = 200
    R0_BLOCK: tl.constexpr = 256
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < r0_numel
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 200*x0), r0_mask & xmask, other=0.0)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(r0_mask & xmask, tmp1, 0)
    tmp4 = tl.sum(tmp3, 1)[:, None].to(tl.float32)
    tl.store(out_ptr0 + (x0), tmp4, xmask)
"""
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sizes"), [(POINTWISE, ["4000"]), (ROWS, ["64", "200"])], ids=["pointwise", "rows"]
)
def test_a_file_of_torch_compiles_is_lowered_as_it_is(tmp_path, text, sizes):
    path = tmp_path / "generated.py"
    path.write_text(text)
    lowered = lower_file(path, "kernel", ["*fp32:16", "*fp32:16", *sizes], "sm_90", config=0)
    assert int(lowered.metadata["constants"]["XBLOCK"]) > 0
    assert "st.global" in lowered.ptx


def test_a_launch_of_torch_compiles_kernel_is_counted(tmp_path):
    path = tmp_path / "rows_of_torch_compile.py"
    path.write_text(ROWS)
    x, out = torch.ones(64, 200), torch.zeros(64)
    counted = cost(f"{path}:kernel", (64,), x, out, 64, 200, XBLOCK=1)
    assert (counted.bytes_loaded, counted.bytes_stored) == (64 * 200 * 4, 64 * 4)


ASKS = """import torch
import triton
import triton.language as tl

MAJOR, MINOR = torch.cuda.get_device_capability()
assert torch.cuda.is_available() and torch.cuda.current_device() == 0
SIZE = tl.constexpr(10 * MAJOR + MINOR)
MULTIPROCESSORS = torch.cuda.get_device_properties(0).multi_processor_count


@triton.jit
def kernel(x_ptr, N: tl.constexpr = MULTIPROCESSORS):
    tl.store(x_ptr, SIZE * 1000 + N)
"""


@pytest.mark.parametrize(("target", "stored"), [("sm_90", 90_132), ("sm_80", 80_108)])
def test_a_module_that_asks_pytorch_for_the_gpu_is_told_of_the_target(tmp_path, target, stored):
    path = tmp_path / "asks.py"
    path.write_text(ASKS)
    lowered = lower_file(path, "kernel", ["*i32"], target)
    assert f"arith.constant {stored} : i32" in lowered.ttir
    assert not torch.cuda.is_available()


def test_a_module_that_fails_otherwise_is_loaded_once(tmp_path):
    path = tmp_path / "fails.py"
    path.write_text("open(__file__ + '.log', 'a').write('x')\nraise RuntimeError('on purpose')\n")
    with pytest.raises(CourseError, match="cannot be loaded: RuntimeError: on purpose"):
        lower_file(path, "kernel", [])
    assert (tmp_path / "fails.py.log").read_text() == "x"


def test_an_amd_target_answers_as_rocm_does():
    with gpu_stand_in(GPUTarget("hip", "gfx942", 64)):
        properties = torch.cuda.get_device_properties(0)
        assert torch.cuda.get_device_capability() == (9, 4) and torch.version.hip
        assert (properties.gcnArchName, properties.warp_size) == ("gfx942", 64)
    assert torch.version.hip is None
