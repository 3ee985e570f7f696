"""Compiles the attention kernels with the scopes of Proton, for tests of the timeline."""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch

from course.benching.record import attention_timeline as recording
from course.benching.record.scopes import write_scoped_kernels
from course.gpus.limits import target_of
from course.isolate import runs_in
from course.lowering.sass import nvidia_tool
from course.triton_internals.compiler import launches_compiled, own_cache, prepare_compiler
from course.triton_internals.driver import FixedDriver
from course.triton_internals.patching import patched
from kernels.attention.gluon import plan as launching
from kernels.attention.gluon.settings import STEPS
from kernels.attention.inputs import prepare

SHARED_BYTES = 232_448
"""That a program may have on an H200."""


@runs_in("compile", timeout_s=120, prepare=prepare_compiler)
def machine_code(step: str, which: str) -> str:
    """The SASS of a step's kernel for sm_90. which: "plain"; "scoped", whose scopes do nothing
    without Proton; or "traced", whose warps write down the clock."""
    case, settings = recording.CASES[step], STEPS[step]
    q = torch.empty(1, case.heads, case.length, case.head_dim, dtype=torch.float16)
    utils = SimpleNamespace(get_device_properties=lambda _: {"max_shared_mem": SHARED_BYTES})
    with (
        tempfile.TemporaryDirectory() as folder,
        own_cache("course-scopes-"),
        launches_compiled(target_of("sm_90").triton) as launches,
        patched(FixedDriver, utils=utils),
        patched(launching, gpu_of=lambda _: SimpleNamespace(multiprocessors=132)),
    ):
        write_scoped_kernels(Path(folder))
        sys.path.insert(0, folder)
        if which == "traced":
            from triton.profiler.hooks import InstrumentationHook

            InstrumentationHook(recording.mode(settings)).activate()
        with patched(launching, **({} if which == "plain" else recording.scoped_kernels())):
            launch = prepare(None, q, q, q, False, None, "bhmd")
            plan = launching.Plan(launch, settings)
            plan.launch(plan.arguments(q, q, q, launch.out, launch.lse))
    return nvidia_tool("nvdisasm", launches.kernels[0].asm["cubin"], "-c", "-ndf")
