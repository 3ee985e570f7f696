"""Every launch through Triton is told to a recorder, before it runs."""

import contextlib
import inspect
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from triton import JITFunction, KernelInterface
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.interpreter import InterpretedFunction

from course.type_names import AnyValue, AnyValues, Function

from .driver import do_bench
from .patching import patched


@dataclass
class WatchedLaunch:
    """kernel[grid](*args, **kwargs), as a program calls it."""

    kernel: KernelInterface
    """With what is above `@triton.jit`."""
    args: Sequence[AnyValue]
    kwargs: AnyValues
    """With `config`, the configuration that `@triton.autotune` has chosen."""
    grid: Any
    sizes: tuple[int, ...] = ()
    """What the grid comes to."""


class Recorder(Protocol):
    """What `launches_watched` tells."""

    def begins(self, launch: WatchedLaunch) -> None:
        """A launch is called; nothing has run of it, nor was it tuned."""

    def ready(self, launch: WatchedLaunch) -> None:
        """All is chosen, and the kernel is about to run, perhaps as a trial of the tuner."""

    def ended(self, launch: WatchedLaunch) -> None:
        """The launch is over, or has failed."""


@contextlib.contextmanager
def launches_watched(recorder: Recorder, run: bool) -> Iterator[None]:
    """While active, `recorder` is told of every launch in this process.

    run: whether kernels run. If not, `@triton.autotune` takes its first configuration.
    """
    here = threading.local()  # PyTorch launches what a gradient needs from threads of its own

    def watched_run(own_run: Function, innermost: bool) -> Function:
        def watched(
            kernel: KernelInterface, *args: AnyValue, grid: Any, warmup: bool, **kwargs: AnyValue
        ) -> Any:
            def go_on() -> Any:
                if innermost and not run:
                    return None
                return own_run(kernel, *args, grid=grid, warmup=warmup, **kwargs)

            if warmup:
                return go_on()
            launch, outermost = getattr(here, "launch", None), False
            if launch is None:
                launch, outermost = WatchedLaunch(kernel, args, kwargs, grid), True
                recorder.begins(launch)
                here.launch = launch
            try:
                if innermost:
                    _choose(launch, kernel, args, kwargs)
                    recorder.ready(launch)
                return go_on()
            finally:
                if outermost:
                    here.launch = None
                    recorder.ended(launch)

        return watched

    with contextlib.ExitStack() as stack:
        for kind in (Autotuner, Heuristics, JITFunction, InterpretedFunction):
            innermost = kind in (JITFunction, InterpretedFunction)
            stack.enter_context(patched(kind, run=watched_run(kind.run, innermost)))
        if not run:
            stack.enter_context(patched(Autotuner, do_bench=do_bench(runs_trials=False)))
        yield


def _choose(
    launch: WatchedLaunch, kernel: KernelInterface, args: Sequence[AnyValue], kwargs: AnyValues
) -> None:
    """Note what the grid comes to, and which configuration was chosen."""
    bound = inspect.signature(kernel.fn).bind_partial(*args)
    known = bound.signature.parameters
    bound.arguments |= {name: value for name, value in kwargs.items() if name in known}
    bound.apply_defaults()
    grid = launch.grid(dict(bound.arguments)) if callable(launch.grid) else launch.grid
    launch.sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    tuner = launch.kernel
    while tuner is not kernel:
        if config := getattr(tuner, "best_config", None):
            launch.kwargs = launch.kwargs | {"config": config}
        tuner = tuner.fn
