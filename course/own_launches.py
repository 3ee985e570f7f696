"""In CPU mode, kernels that a cell launches itself run as the tools run them.

Triton's interpreter lacks some of the language, and some it gets wrong. The tools mend that while
they run kernels, and `course.tracing.own_launches` while any other launch runs. This file only
arranges it: nothing is loaded before the first launch, and Triton is as it was between launches.
"""

import functools
import importlib
import sys
from typing import Any

from .when_imported import when_imported

INTERPRETER = "triton.runtime.interpreter"


def mend_own_launches() -> None:
    """From now on launches in the interpreter are mended, also if Triton is imported later."""
    when_imported(INTERPRETER, _mend)
    when_imported("torch.library", _wrap_what_is_interpreted)


def _mend(interpreter: Any) -> None:
    own_run = interpreter.InterpretedFunction.run

    @functools.wraps(own_run)
    def run(kernel: Any, *args: Any, **named: Any) -> Any:
        return _tools().run(own_run, kernel, args, named)

    def called_without_grid(kernel: Any, *args: Any, **named: Any) -> Any:
        _tools()  # puts a function here that says what is missing
        return kernel(*args, **named)

    def tuned_without_times(tuner: Any) -> Any:
        _tools()  # puts an answer here that asks no driver
        return tuner.do_bench

    interpreter.InterpretedFunction.run = run
    interpreter.InterpretedFunction.__call__ = called_without_grid
    sys.modules["triton.runtime.autotuner"].Autotuner.do_bench = property(tuned_without_times)


def _wrap_what_is_interpreted(library: Any) -> None:
    """An operator launches a kernel as it is where that is interpreted: PyTorch 2.10 and 2.11
    refuse to wrap one."""
    own_wrap = library.wrap_triton

    @functools.wraps(own_wrap)
    def wrap_triton(triton_kernel: Any) -> Any:
        innermost = triton_kernel
        while type(innermost).__module__ != INTERPRETER and hasattr(innermost, "fn"):
            innermost = innermost.fn  # of a tuner or of heuristics
        interpreted = type(innermost).__module__ == INTERPRETER
        return triton_kernel if interpreted else own_wrap(triton_kernel)

    library.wrap_triton = wrap_triton


def _tools() -> Any:
    return importlib.import_module("course.tracing.own_launches")
