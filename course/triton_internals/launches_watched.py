"""Every launch through Triton is told to a recorder, before it runs."""

import contextlib
import inspect
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from triton import Config, JITFunction, KernelInterface, knobs
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.interpreter import InterpretedFunction

from course.type_names import AnyValue, AnyValues, Function
from course.when_imported import when_imported

from .driver import do_bench
from .patching import patched

COMPILED = "torch._inductor.runtime.triton_heuristics"
"""The module through which torch.compile launches the kernels that it has written."""


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
    told: bool = True
    """Whether the recorder is told of the rest of it."""
    compiled: Any = None
    """What Triton has launched; None in the interpreter."""
    note: Any = None
    """The recorder's own."""


class Recorder(Protocol):
    """What `launches_watched` tells."""

    def begins(self, launch: WatchedLaunch) -> bool:
        """A launch is called; nothing has run of it, nor was it tuned. Whether to tell the rest."""

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

    def begin(*parts: Any) -> WatchedLaunch:
        launch = WatchedLaunch(*parts)
        launch.told = recorder.begins(launch)
        here.launch = launch
        return launch

    def end(launch: WatchedLaunch) -> None:
        here.launch = None
        if launch.told:
            recorder.ended(launch)

    def watched_run(own_run: Function, innermost: bool) -> Function:
        def watched(
            kernel: KernelInterface, *args: AnyValue, grid: Any, warmup: bool, **kwargs: AnyValue
        ) -> Any:
            if warmup:
                return own_run(kernel, *args, grid=grid, warmup=True, **kwargs)
            around = getattr(here, "launch", None)
            launch = around or begin(kernel, args, kwargs, grid)
            try:
                if innermost and launch.told:
                    _choose(launch, kernel, args, kwargs)
                    recorder.ready(launch)
                if innermost and not run:
                    return None
                result = own_run(kernel, *args, grid=grid, warmup=False, **kwargs)
                launch.compiled = launch.compiled or result
                return result
            finally:
                if around is None:
                    end(launch)

        return watched

    def watched_compiled(module: ModuleType) -> None:
        """Watch what torch.compile launches of the kernels that it has written."""
        own_run = module.CachingAutotuner.run

        def watched(tuner: Any, *args: AnyValue, **kwargs: AnyValue) -> Any:
            if getattr(here, "launch", None) is not None or kwargs.get("benchmark_run"):
                return own_run(tuner, *args, **kwargs)
            launch = begin(_loaded(tuner), args, {}, None)
            try:
                result = own_run(tuner, *args, **kwargs) if run else None
                if launch.told:
                    _choose_compiled(launch, tuner, args)
                    recorder.ready(launch)
                return result
            finally:
                end(launch)

        stack.enter_context(patched(module.CachingAutotuner, run=watched))

    with contextlib.ExitStack() as stack:
        for kind in (Autotuner, Heuristics, JITFunction, InterpretedFunction):
            innermost = kind in (JITFunction, InterpretedFunction)
            stack.enter_context(patched(kind, run=watched_run(kind.run, innermost)))
        if not run:
            stack.enter_context(patched(Autotuner, do_bench=do_bench(runs_trials=False)))
        if not knobs.runtime.interpret:  # there it launches as everybody does
            stack.callback(when_imported(COMPILED, watched_compiled))
        yield


def _loaded(tuner: Any) -> JITFunction:
    """The kernel that torch.compile has written for a tuner.

    One that was compiled by another process comes without its Python function, which is loaded
    again, as PyTorch does where it needs it. One out of PyTorch's cache stays without.
    """
    load = getattr(tuner, "_reload_kernel", None)
    if tuner.fn.fn is None and load is not None:
        tuner.fn = load().fn
    return tuner.fn


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


def _choose_compiled(launch: WatchedLaunch, tuner: Any, args: Sequence[AnyValue]) -> None:
    """The same for a kernel that torch.compile has written, whose launcher computes the grid."""
    chosen = tuner.launchers[0].config if tuner.launchers else tuner.configs[0]
    given, launch.sizes = tuner._interpret_args_grid(tuple(args), chosen)
    types = tuner.triton_meta["signature"]
    named = zip((name for name in types if types[name] != "constexpr"), given, strict=False)
    config = Config(chosen.kwargs, num_warps=chosen.num_warps, num_stages=chosen.num_stages)
    constants = tuner.triton_meta.get("constants", {})  # by name, or by a place in a tuple
    names = [*types]
    fixed = {names[key[0]] if isinstance(key, tuple) else key: constants[key] for key in constants}
    launch.args, launch.kwargs = (), dict(named) | fixed | config.all_kwargs()
