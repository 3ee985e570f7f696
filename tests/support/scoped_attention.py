"""Compiles the attention kernels with the scopes of Proton, for tests of the timeline."""

from contextlib import nullcontext
from types import SimpleNamespace

import torch

from course.gpus.limits import target_of
from course.isolate import runs_in
from course.lowering.sass import nvidia_tool
from course.triton_internals.compiler import launches_compiled, own_cache, prepare_compiler
from course.triton_internals.driver import FixedDriver
from course.triton_internals.patching import patched
from course.triton_internals.profile_scopes import scoped_calls
from kernels.attention.gluon import plan as launching
from kernels.attention.gluon.settings import STEPS
from kernels.attention.inputs import prepare
from tools.record import attention_timeline as recording

SHARED_BYTES = 232_448
"""That a program may have on an H200."""


@runs_in("compile", timeout_s=120, prepare=prepare_compiler)
def compiled(step: str, which: str, stage: str = "sass") -> str:
    """The SASS of a step's kernel for sm_90, or another stage of it. which: "plain"; "scoped",
    whose scopes do nothing without Proton; or "traced", whose warps write down the clock."""
    case, settings = recording.CASES[step], STEPS[step]
    q = torch.empty(1, case.heads, case.length, case.head_dim, dtype=torch.float16)
    utils = SimpleNamespace(get_device_properties=lambda _: {"max_shared_mem": SHARED_BYTES})
    with (
        own_cache("course-scopes-"),
        launches_compiled(target_of("sm_90").triton) as launches,
        patched(FixedDriver, utils=utils),
        patched(launching, gpu_of=lambda _: SimpleNamespace(multiprocessors=132)),
        nullcontext() if which == "plain" else scoped_calls(recording.STATES),
    ):
        if which == "traced":
            from triton.profiler.hooks import InstrumentationHook

            InstrumentationHook(recording.mode(settings)).activate()
        launch = prepare(None, q, q, q, False, None, "bhmd")
        plan = launching.Plan(launch, settings)
        plan.launch(plan.arguments(q, q, q, launch.out, launch.lse))
    (kernel,) = launches.kernels
    if stage == "sass":
        return nvidia_tool("nvdisasm", kernel.asm["cubin"], "-c", "-ndf")
    return str(kernel.asm[stage])
