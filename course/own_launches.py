"""In CPU mode, kernels that a cell launches itself run as the tools run them.

Triton's interpreter lacks some of the language, and some it gets wrong. The tools mend that while
they run kernels, and `course.tracing.own_launches` while any other launch runs. This file only
arranges it: nothing is loaded before the first launch, and Triton is as it was between launches.
"""

import functools
import importlib
import sys
from importlib.machinery import PathFinder
from typing import Any

INTERPRETER = "triton.runtime.interpreter"


def mend_own_launches() -> None:
    """From now on launches in the interpreter are mended, also if Triton is imported later."""
    if INTERPRETER in sys.modules:
        _mend(sys.modules[INTERPRETER])
    else:
        sys.meta_path.insert(0, _WhenImported())


class _WhenImported:
    """Finds Triton's interpreter once, as Python would, and mends it when it is loaded."""

    def find_spec(self, name: str, path: Any = None, _: Any = None) -> Any:
        if name != INTERPRETER:
            return None
        sys.meta_path.remove(self)
        spec: Any = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def load_and_mend(module: Any) -> None:
            load(module)
            _mend(module)

        spec.loader.exec_module = load_and_mend
        return spec


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


def _tools() -> Any:
    return importlib.import_module("course.tracing.own_launches")
