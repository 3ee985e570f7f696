"""Triton's JIT with a target that need not be there: another way to the same stages than the
course's own."""

import triton
from triton.backends.compiler import GPUTarget


def use(target):
    """From now on this process compiles for `target`, as "sm_90" or "gfx942"."""
    gpu = (
        GPUTarget("cuda", int(target[3:]), 32)
        if target.startswith("sm_")
        else GPUTarget("hip", target, 64)
    )

    class Fixed:
        def __getattr__(self, name):
            answers = {"get_current_target": gpu, "get_current_device": 0, "get_current_stream": 0}
            return lambda *args: answers[name]

    triton.runtime.driver.set_active(Fixed())
