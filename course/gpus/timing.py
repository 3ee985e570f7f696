"""Times on this GPU: of calls, of their launches by the CPU, of the copy that is the roof."""

import time
from collections.abc import Callable
from statistics import median

import torch
from triton.testing import do_bench

from course.type_names import Function

Call = Function

LEAST_HELD_S, MOST_HELD_S, HELD_LAUNCHES = 2e-4, 1e-2, 5
"""The GPU spins before each call, as long as HELD_LAUNCHES of them take the CPU: by then the call's
kernels stand in its queue, one behind the other, also where the CPU was late."""
CYCLES_A_SECOND = 2e9
"""A GPU's clock, about; a slower one spins longer."""
MOST_CALLS, BUDGET_MS = 200, 40
ROUNDS_OF_LAUNCHES = 9
ROOF_BYTES = 2**32
"""Read and written together by the copy that measures the roof: far more than any cache holds."""


def times_ms(function: Call, inputs: tuple[torch.Tensor, ...]) -> list[float]:
    """Milliseconds of calls of function(*inputs), as many as take about BUDGET_MS together.

    A few calls before warm up. The L2 cache is emptied before each call.
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

    def time_ms() -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        cache.zero_()
        torch.cuda._sleep(held)
        start.record()
        function(*inputs)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    estimate_ms = min(time_ms() for _ in range(3))
    calls = max(3, min(MOST_CALLS, int(BUDGET_MS / estimate_ms)))
    return [time_ms() for _ in range(calls)]


def launch_us(call: Callable[[], object], at_most: int = 200) -> float:
    """Microseconds the CPU spends on one call: the median of ROUNDS_OF_LAUNCHES rounds.

    The calls of a round, at_most so many, fit into the launch queue, so that it never waits; and
    the GPU is done with them in 100 ms or so: at 200 calls each, those that take it 50 ms would be
    timed for minutes.
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


def copy_tb_s() -> float:
    """The copy roof of this GPU: bytes read and written per second, in 10^12.

    Takes at most a quarter of the free memory.
    """
    free, _ = torch.cuda.mem_get_info()
    moved = min(ROOF_BYTES, free // 4 // 8 * 8)
    return moved / repeated_ms(copy_of(moved), rep=150) / 1e9


def repeated_ms(call: Callable[[], object], rep: int = 100) -> float:
    """The median milliseconds of a call that is repeated for `rep` milliseconds."""
    return float(median(do_bench(call, warmup=20, rep=rep, return_mode="all")))


def copy_of(moved_bytes: int) -> Callable[..., torch.Tensor]:
    """A function that copies on the GPU, moving `moved_bytes` in all: half are read, half written.

    It takes any arguments and ignores them, so that it can stand as a peer of any function.
    """
    # Random bits: a GPU moves zeros with less power, and so faster, than real data.
    source = torch.randint(0, 2**31 - 1, (moved_bytes // 8,), dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    return lambda *_: target.copy_(source)
