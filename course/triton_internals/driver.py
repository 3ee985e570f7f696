"""A driver for Triton where there is no GPU, or where none is to be used."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import triton
from triton.backends.compiler import GPUTarget as GPUTarget
from triton.runtime.autotuner import Autotuner

from .patching import patched

if TYPE_CHECKING:
    import torch

Benchmarker = Callable[..., list[float]]


class FixedDriver:
    """Answers what Triton asks of a driver while it compiles, for a GPU that need not be there."""

    def __init__(self, target: GPUTarget, runs_trials: bool) -> None:
        """runs_trials: whether `@triton.autotune` runs each configuration or takes the first."""
        self.target, self.runs_trials = target, runs_trials
        # Triton keeps kernels by device: with one number for all, one target's would serve another.
        self.device = abs(hash((target.backend, target.arch))) % 10**6 + 1000

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return self.device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> "torch.device":
        import torch  # it takes seconds, and only a tuner's trial asks

        return torch.device("cpu")

    def get_benchmarker(self) -> Benchmarker:
        return _benchmarker(self.runs_trials)

    def map_python_to_cpp_type(self, type: str) -> str:
        """The C type for one of Triton's, as NVIDIA's own driver names it."""
        from triton.backends.nvidia import driver

        return str(driver.ty_to_cpp(type))


@contextlib.contextmanager
def driver_of(target: GPUTarget, runs_trials: bool) -> Iterator[None]:
    """While active, Triton's driver is a FixedDriver, and `@triton.autotune` measures nothing."""
    if hasattr(triton.knobs, "refresh_knobs"):  # what the environment asks to be put in now
        triton.knobs.refresh_knobs()
    with (
        patched(triton.runtime.driver, _active=FixedDriver(target, runs_trials)),
        patched(Autotuner, do_bench=do_bench(runs_trials)),
    ):
        yield


@contextlib.contextmanager
def found_driver(target: GPUTarget) -> Iterator[None]:
    """As `driver_of`, but the driver also counts as one that was found on this machine."""
    name = {"cuda": "nvidia", "hip": "amd"}[target.backend]
    found = {name: replace(triton.backends.backends[name], driver=FixedDriver)}
    with driver_of(target, runs_trials=False), patch.dict(triton.backends.backends, found):
        yield


def do_not_measure() -> None:
    """From now on `@triton.autotune` takes its first configuration, and asks nobody for times,
    however it was told to measure."""
    Autotuner.do_bench = do_bench(runs_trials=False)


def do_bench(runs_trials: bool) -> property:
    """What `Autotuner.do_bench` becomes, however it was told to measure."""
    return property(lambda _: _benchmarker(runs_trials))


def trials_noted(spans: list[tuple[int, int]]) -> contextlib.AbstractContextManager[None]:
    """While active, `spans` gets when `@triton.autotune` measures: from, to, in ns since 1970."""
    own_bench = Autotuner._bench

    def bench(tuner: Autotuner, *args: Any, **kwargs: Any) -> Any:
        start = time.time_ns()
        try:
            return own_bench(tuner, *args, **kwargs)
        finally:
            spans.append((start, time.time_ns()))

    return patched(Autotuner, _bench=bench)


def _benchmarker(runs_trials: bool) -> Benchmarker:
    def once(call: Callable[[], Any], *_: Any, **__: Any) -> list[float]:
        if runs_trials:
            call()
        return [1.0, 1.0, 1.0]

    return once
