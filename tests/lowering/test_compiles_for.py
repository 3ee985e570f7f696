"""compiles_for: where a kernel compiles, and where it fits."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from course import compiles_for
from tests.simulating import kernels


@gluon.jit
def large_kernel(out_ptr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    buffer = gl.allocate_shared_memory(gl.float32, [32768], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    i = gl.arange(0, 32768, layout)
    buffer.store(gl.load(out_ptr + i))
    gl.store(out_ptr + i, buffer.load(layout))


@gluon.jit
def wrong_kernel(out_ptr):
    gl.store(out_ptr, unknown)  # noqa: F821


def test_a_ring_takes_a_gpu_with_tma():
    args, _, _ = kernels.ring_arguments(7, 2, "none")
    problems = compiles_for(kernels.ring_kernel, *args).problems
    refused = "does not compile"
    assert problems == {"sm_80": refused, "sm_89": refused, "sm_90": "", "sm_120": ""}


def test_what_compiles_and_does_not_fit_is_named():
    said = compiles_for(large_kernel, "*fp32:16", targets=["sm_90", "sm_120"])
    assert said.problems["sm_90"] == ""
    assert said.problems["sm_120"].startswith("too large: 131,072 bytes of shared memory, and a")
    assert str(said).startswith("sm_90  compiles\nsm_120 too large")


def test_an_error_in_the_kernel_is_told():
    said = compiles_for(wrong_kernel, "*fp32", targets=["sm_90"]).problems["sm_90"]
    assert "unknown is not defined" in said
