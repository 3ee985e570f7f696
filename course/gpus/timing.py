"""Times of single calls on the GPU, without what the CPU takes to launch them; and what it takes."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

LEAST_HELD_S, MOST_HELD_S, HELD_LAUNCHES = 2e-4, 1e-2, 5
"""The GPU spins before each call, as long as HELD_LAUNCHES of them take the CPU: by then the call's kernels stand in its queue,
one behind the other, also where the CPU was late."""
CYCLES_A_SECOND = 2e9
"""Of a GPU's clock, about; a slower one spins longer."""
MOST_CALLS = 200
ROUNDS_OF_LAUNCHES = 9


def times_ms(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], budget_ms: float = 40
) -> list[float]:
    """Milliseconds of calls of function(*inputs), as many as take about budget_ms together, after a few that warm up.

    The L2 cache is emptied before each.
    """
    cache = torch.empty(2**28, dtype=torch.int8, device="cuda")  # larger than any GPU's L2 cache
    for _ in range(2):
        function(*inputs)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(3):
        function(*inputs)
    launch_s = (time.perf_counter() - start) / 3
    held = int(min(MOST_HELD_S, max(LEAST_HELD_S, HELD_LAUNCHES * launch_s)) * CYCLES_A_SECOND)
    estimate = min(_timed(function, inputs, cache, held) for _ in range(3))
    return [
        _timed(function, inputs, cache, held)
        for _ in range(max(3, min(MOST_CALLS, int(budget_ms / estimate))))
    ]


def _timed(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], cache: torch.Tensor, held: int
) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    cache.zero_()
    torch.cuda._sleep(held)
    start.record()
    function(*inputs)
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def launch_us(call: Callable[[], Any], at_most: int = 200) -> float:
    """Microseconds the CPU spends on one call: the median of ROUNDS_OF_LAUNCHES rounds.

    The calls of a round, at_most so many, fit into the launch queue, so that it never waits; and the GPU is done with them in
    100 ms or so: at 200 calls each, those that take it 50 ms would be timed for minutes.
    """
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    calls = min(at_most, max(10, int(0.1 / (time.perf_counter() - start))))
    rounds = []
    for _ in range(ROUNDS_OF_LAUNCHES):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - start) / calls * 1e6)
        torch.cuda.synchronize()
    return median(rounds)
