"""lower compiles for GPUs of all kinds, whichever this machine has."""

import pytest

import course
from course import lower
from course.errors import CourseError
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD, MATMUL

ELF = b"\x7fELF"
UNITS = {"mma", "wgmma", "tcgen05", "mfma", "wmma"}
DOTS = {
    "sm_75": "fp32 fused multiply-adds",
    **dict.fromkeys(("sm_80", "sm_86", "sm_89", "sm_120"), "mma"),
    "sm_90": "wgmma",
    "sm_100": "tcgen05",
    **dict.fromkeys(("gfx942", "gfx950"), "mfma"),
    **dict.fromkeys(("gfx1100", "gfx1201"), "wmma"),
}


@pytest.mark.parametrize("target", DOTS)
def test_a_dot_becomes_the_instruction_that_the_target_has(target):
    lowered, instruction = lower(kernels.matmul_kernel, *MATMUL, target=target), DOTS[target]
    assert lowered.target.dot == instruction
    counts = lowered.counts["ptx" if lowered.target.nvidia else "amdgcn"]
    assert {name for name in UNITS if counts.get(name)} == {instruction} & UNITS
    assert counts[instruction] > 0
    if lowered.target.nvidia:
        assert lowered.counts["sass"][instruction] > 0
        assert lowered.cubin.startswith(ELF)
    else:
        assert lowered.hsaco.startswith(ELF)


@pytest.mark.parametrize("target", [name for name in DOTS if name.startswith("sm_")])
def test_loads_go_on_while_a_program_computes_as_the_target_has_it(target):
    by_pointers = lower(kernels.matmul_kernel, *MATMUL, num_stages=3, target=target)
    block = "tensordesc<fp16[64, 64]>"
    by_descriptor = lower(kernels.descriptor_kernel, block, "*fp16:16", 64, target=target)
    copies = by_pointers.target.copies
    assert bool(by_pointers.counts["ptx"]["asynchronous copies"]) == (copies != "none")
    assert ("cp.async.bulk.tensor" in by_descriptor.ptx) == (copies == "TMA")


def test_sm_70_ends_with_the_cubin(monkeypatch):
    # torch.compile, once used, names PyTorch's assembler, which may know less.
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    lowered = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="sm_70")
    assert 'ttg.target = "cuda:70"' in lowered.ttgir
    assert lowered.cubin
    with pytest.raises(CourseError, match="does not know sm_70 any more"):
        lowered.sass  # noqa: B018
    assert "ptx" in lowered.counts
    assert str(lowered.lines)


def test_a_stage_of_another_vendor_is_named():
    amd = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="gfx942")
    stages = "A kernel for gfx942 has no stage ptx: it has ttir, ttgir, llir, amdgcn"
    with pytest.raises(CourseError, match=stages):
        amd.ptx  # noqa: B018
    with pytest.raises(CourseError, match="A kernel for gfx942 ends in a hsaco"):
        amd.cubin  # noqa: B018


@pytest.mark.skipif(course.MODE.gpu, reason="needs CPU mode")
def test_a_launch_needs_a_gpu_of_the_target(add):
    cannot = "A kernel for sm_90 cannot be launched here: CPU mode"
    with pytest.raises(CourseError, match=cannot):
        add.launch((1,))
