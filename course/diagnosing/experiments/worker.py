"""What runs in the child that launches: variants of a launch, timed in turns on copies."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import torch

from course.errors import CourseError
from course.isolate import runs_in
from course.lowering.kernel_reference import kernel_at
from course.tracing.launch import PackedLaunch
from course.triton_internals.jit_functions import jit_function
from course.triton_internals.launched_code import Launcher

from .clocks import RECORD_BYTES, Clocks, clocks_of
from .whole import PLACE_BYTES, PLACES

CACHE_BYTES = 2**28
"""More than any GPU's L2 cache: it is written before each launch, to empty that."""
HELD_CYCLES = 400_000
"""The GPU spins for so long before each launch, so that it stands in the queue by then."""
LONGEST_S = 25
"""A launch that is not done after so long is taken for one that never ends."""
PATIENCE_S, TIMES = 3, 10
"""After so many seconds and so many times the launch's own time, a code is taken for one that never
ends."""
LONG_S = 1
"""A launch that takes so long is not launched once more to warm up."""
MOST_ROUNDS, FEWEST_ROUNDS = 15, 3
SAME = 1e-2
"""How far a result may be off the launch's own, over its largest, to count as the same."""


@dataclass(frozen=True)
class Code:
    """Machine code that may stand in for a kernel's."""

    binary: bytes
    num_warps: int
    shared_bytes: int
    clocks: bool = False
    """Whether it writes records of its clocks."""
    scratch: bool = False
    """Whether it is given memory of its own, for those records or to load from."""
    results: bool = False
    """Whether its results are compared with those of the launch."""


@dataclass(frozen=True)
class Times:
    """How long launches of each code took; the first is the launch as it is."""

    us: list[float | None]
    """Medians in microseconds; None for what there was no time for, or cannot be loaded."""
    spread: float
    """The range of the middle half of the launch's own times, over their median."""
    same: list[bool]
    """Whether the results were those of the launch, where they were compared."""
    clocks: Clocks | None


class EndedError(CourseError):
    """A code that did not come to its end. args: its number, and how it ended."""


@runs_in("launch", timeout_s=120)
def timed(launch: PackedLaunch, codes: list[Code], seconds: float, progress: str) -> Times:
    """Time each code in turns, all arguments as they were before each launch.

    seconds: how long this may take. progress: a file that gets a byte for each code and round.
    Raises EndedError for a code that faults or does not end, after which the GPU answers no more
    here.
    """
    begun = time.monotonic()
    try:
        bench = _Bench(launch, codes)
    except torch.OutOfMemoryError as error:
        raise CourseError("the GPU has no room for copies of the tensors") from error
    told = Path(progress)
    told.touch()
    us: list[list[float]] = [[] for _ in codes]
    same = [False for _ in codes]
    want: list[torch.Tensor] = []
    for number, code in enumerate(codes):
        if time.monotonic() - begun > seconds:
            break
        if bench.runs[number] is not None:
            patience_s = PATIENCE_S + TIMES * us[0][0] / 1e6 if us[0] else LONGEST_S
            us[number].append(bench.tried(number, patience_s))
            if number == 0:
                if us[0][0] < LONG_S * 1e6:
                    us[0] = [bench.tried(0, LONGEST_S)]  # the first launch has loaded its code
                want = [tensor.clone() for tensor in bench.tensors]
            elif code.results:
                same[number] = _same(bench.tensors, want)
        _tell(told)
    clocks = bench.clocks()
    there = [number for number, found in enumerate(us) if found]
    a_round = sum(us[number][0] / 1e6 + bench.between_s for number in there)
    left = seconds - (time.monotonic() - begun)
    rounds = min(MOST_ROUNDS, int(left / a_round))
    if rounds >= FEWEST_ROUNDS:
        us = [[] for _ in codes]
        for _ in range(rounds):
            for number in there:
                us[number].append(bench.time_us(number))
            _tell(told)
    middle = quantiles(us[0], n=4) if len(us[0]) > 1 else [us[0][0]] * 3
    return Times(
        [median(each) if each else None for each in us],
        (middle[2] - middle[0]) / middle[1],
        same,
        clocks,
    )


def _tell(progress: Path) -> None:
    with progress.open("ab") as file:
        file.write(b".")


class _Bench:
    """The launch's tensors on the GPU, each twice, and a function for each code."""

    def __init__(self, launch: PackedLaunch, codes: list[Code]) -> None:
        saved = torch.load(launch.tensors, mmap=True, map_location="cuda", weights_only=True)
        self.tensors: list[torch.Tensor] = saved
        storages = {each.untyped_storage()._cdata: each.untyped_storage() for each in saved}
        self._live = [_bytes(storage) for storage in storages.values()]
        self._kept = [each.clone() for each in self._live]
        self._cache = torch.empty(CACHE_BYTES, dtype=torch.int8, device="cuda")
        kernel = jit_function(kernel_at(launch.reference))
        args = [value.make(True, saved) for value in launch.args]
        kwargs = {name: value.make(True, saved) for name, value in launch.kwargs.items()}
        launcher = Launcher(kernel, launch.grid, args, kwargs)
        self._clocked = any(code.clocks for code in codes)
        programs = math.prod(launch.grid) if self._clocked else 0
        self._records = torch.zeros(programs, RECORD_BYTES // 8, dtype=torch.int64, device="cuda")
        self._zeros = torch.zeros(PLACES * PLACE_BYTES, dtype=torch.int8, device="cuda")
        self.runs = [self._loaded(launcher, code) for code in codes]
        self.between_s = 0.0003 + sum(each.nbytes for each in self._live) / 1e12

    def _loaded(self, launcher: Launcher, code: Code) -> Callable[[], None] | None:
        """A function that launches a code; None if it does not fit the GPU."""
        scratch = self._records if code.clocks else self._zeros if code.scratch else None
        try:
            return launcher.of(code.binary, code.num_warps, code.shared_bytes, scratch)
        except Exception as error:
            if type(error).__name__ == "OutOfResources":
                return None
            raise

    def tried(self, number: int, patience_s: float) -> float:
        """The microseconds of a first launch. Raises EndedError if it faults or does not end."""
        try:
            start, end = self._launched(number)
            began = time.monotonic()
            while not end.query():
                if time.monotonic() - began > patience_s:
                    raise EndedError(number, f"did not end within {patience_s:.0f} s")
                time.sleep(0.0002)
            return 1000 * float(start.elapsed_time(end))
        except RuntimeError as error:
            said = str(error).partition("\n")[0].removeprefix("CUDA error: ")
            raise EndedError(number, f"ended with the error {said!r}") from error

    def time_us(self, number: int) -> float:
        """The microseconds of one more launch."""
        start, end = self._launched(number)
        end.synchronize()
        return 1000 * float(start.elapsed_time(end))

    def _launched(self, number: int) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        run = self.runs[number]
        assert run is not None
        for live, kept in zip(self._live, self._kept, strict=True):
            live.copy_(kept)
        self._cache.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(HELD_CYCLES)
        start.record()
        run()
        end.record()
        return start, end

    def clocks(self) -> Clocks | None:
        """What the clocks of the last launch with some have recorded."""
        if not self._clocked or not bool(self._records[:, 1].any()):
            return None
        multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
        return clocks_of(self._records, multiprocessors)


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _same(results: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    """Whether results are those of the launch, but for rounding."""
    return all(map(_close, results, wanted))


def _close(result: torch.Tensor, want: torch.Tensor) -> bool:
    if not want.is_floating_point():
        return torch.equal(result, want)
    finite = want[want.isfinite()]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(result, want, rtol=SAME, atol=SAME * largest, equal_nan=True)
