"""A driver for Triton where no GPU is, or where none is to be used."""

from collections.abc import Callable
from typing import Any

import torch
from triton.backends.compiler import GPUTarget


class FixedDriver:
    """Answers what Triton asks of a GPU's driver while it compiles, for a GPU that need not be there."""

    def __init__(self, target: GPUTarget, runs_trials: bool) -> None:
        """runs_trials: whether `@triton.autotune` runs each of its configurations once, or just takes the first."""
        self.target, self.runs_trials = target, runs_trials
        # Kernels are kept in memory by device: a number for each target, or one target's would do for another.
        self.device = abs(hash((target.backend, target.arch))) % 10**6 + 1000

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return self.device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., list[float]]:
        def once(call: Callable[[], Any], quantiles: Any = None, **rest: Any) -> list[float]:
            if self.runs_trials:
                call()
            return [1.0, 1.0, 1.0]

        return once
