"""The helpers of the course. Importing this package picks the mode; do it before Triton is
imported.

    from course import DEVICE, MODE, bench, draw, recorded, verify

The other names are loaded when they are first asked for, so that the import itself takes
milliseconds.
"""

import gc
import importlib
import os
import sys
from typing import Any

from .errors import CourseError
from .mode import activate, choose
from .own_launches import mend_own_launches
from .places import lets_import_kernels

__version__ = "1.0.0.dev0"

lets_import_kernels(sys.path)

_problem: CourseError | None = None
try:
    MODE = choose(os.environ)
    activate(MODE, os.environ)
    if MODE.interpreting:
        mend_own_launches()
    DEVICE = MODE.device  # where a lesson puts its tensors: "cuda" in GPU mode, "cpu" in CPU mode
except CourseError as error:
    # Raised when a name is asked for, and not here: `course doctor` must be able to start and
    # explain it.
    _problem = error

# name -> the module that holds it, and what it is called there (nothing: the module itself)
_LAZY = {
    "aot": ("course.aot", None),
    "apart": ("course.isolate.apart", "apart"),
    "attention_power": ("course.benching.profiles", "attention_power"),
    "attention_timeline": ("course.benching.attention_timeline", "attention_timeline"),
    "bench": ("course.benching.api", "bench"),
    "check": ("course.exercises.api", "check"),
    "compiles_for": ("course.lowering.configurations", "compiles_for"),
    "cost": ("course.tracing.api", "cost"),
    "configs": ("course.lowering.configurations", "configs"),
    "diagnose": ("course.diagnosing.api", "diagnose"),
    "draw": ("course.draw", None),
    "explore": ("course.lowering.explorer", "explore"),
    "gpu_facts": ("course.gpus.measured", "gpu_facts"),
    "gpu_limits": ("course.gpus.peaks", "gpu_limits"),
    "handed": ("course.aot.handed", "handed"),
    "heads": ("course.verifying.inputs", "heads"),
    "gpu_report": ("course.benching.profiles", "gpu_report"),
    "hint": ("course.exercises.api", "hint"),
    "kernel_metrics": ("course.benching.profiles", "kernel_metrics"),
    "launch_costs": ("course.benching.launch_costs", "launch_costs"),
    "launches": ("course.tracing.recorder", "launches"),
    "lower": ("course.lowering.api", "lower"),
    "matrices": ("course.verifying.inputs", "matrices"),
    "matrix_pairs": ("course.verifying.inputs", "matrix_pairs"),
    "observed": ("course.benching.observed", "observed"),
    "on_hopper": ("course.simulating.hopper", "on_hopper"),
    "profile": ("course.profiling.api", "profile"),
    "recorded": ("course.benching.result", "recorded"),
    "replay": ("course.tracing.api", "replay"),
    "simulate": ("course.simulating.api", "simulate"),
    "specialize": ("course.lowering.specialization", "specialize"),
    "step_profile": ("course.benching.profiles", "step_profile"),
    "stock": ("course.aot.stock", None),
    "training": ("course.benching.training", "training"),
    "vectors": ("course.verifying.inputs", "vectors"),
    "verify": ("course.verifying.api", "verify"),
}

__all__ = ["DEVICE", "MODE", "CourseError", *_LAZY]


def __getattr__(name: str) -> Any:
    if _problem is not None and name in __all__:
        raise _problem
    if name not in _LAZY:
        raise AttributeError(f"module 'course' has no attribute {name!r}")
    home, attribute = _LAZY[name]
    collects = gc.isenabled()
    gc.disable()  # what PyTorch makes as it is imported stays, and to look through it takes 0.25 s
    try:
        module = importlib.import_module(home)
    finally:
        if collects:
            gc.enable()
    globals()[name] = value = getattr(module, attribute) if attribute else module
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
