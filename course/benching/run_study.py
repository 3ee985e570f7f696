"""Run a study: time each of its functions at each of its sizes."""

import tempfile
from functools import partial

import numpy as np
import torch

from course.errors import CourseError
from course.gpus.recorded import this_machine
from course.gpus.timing import copy_tb_s, launch_us, times_ms
from course.gpus.turn import gpu_turn
from course.isolate.commands import run_source
from course.progress_bar import track

from .benchmarks import Study
from .result import Speeds, Timing

ROUNDS = 3
"""Turns in which each function is timed with its peers, so that a drift of the clock hits all."""


def run_study(study: Study, source_hash: str = "", first_call: str = "") -> Speeds:
    """Time every series of a study at every x, up to the first x that does not fit into memory.

    Where a room shares the GPU, this waits for its turn. first_call: Python for a fresh process, of
    which `call()` is timed; see `Operation`.
    """
    with gpu_turn(study.name):
        return _run(study, source_hash, first_call)


def _run(study: Study, source_hash: str, first_call: str) -> Speeds:
    timings: list[Timing] = []
    for x in track(list(study.xs), f"Timing {study.name}"):
        try:
            timings += _timings_at(study, x)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            break
    if not timings:
        raise CourseError(
            f"{study.name} does not fit into this GPU's memory at {study.x_name} "
            f"{study.xs[0]:,}: take less."
        )
    smallest = min(study.xs)
    inputs = study.make(smallest)
    costs_us = {
        name: launch_us(partial(function, *inputs))
        for name, function in study.functions(smallest).items()
    }
    if first_call:
        costs_us |= _first_calls_us(first_call)
    return Speeds(
        machine=this_machine(),
        name=study.name,
        x_name=study.x_name,
        timings=tuple(timings),
        copy_tb_s=copy_tb_s(),
        launch_us=costs_us,
        source_hash=source_hash,
    )


def _timings_at(study: Study, x: int) -> list[Timing]:
    """What each function takes at x: single calls on the GPU, gathered in turns."""
    inputs = study.make(x)
    bytes_moved = study.bytes(*inputs)
    operations = study.operations(*inputs) if study.operations else 0
    functions = study.functions(x)
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            times[name] += times_ms(function, inputs)
    return [Timing(name, x, bytes_moved, *_spread(ms), operations) for name, ms in times.items()]


def _spread(times: list[float]) -> tuple[float, float, float]:
    """The median, and the 20th and 80th percentile."""
    middle, low, high = np.percentile(times, (50, 20, 80)).tolist()
    return middle, low, high


FIRST_CALL = """
import os
os.environ["TRITON_CACHE_DIR"] = {cache!r}
import course
{prepare}
import time
start = time.perf_counter()
call()
print((time.perf_counter() - start) * 1e6)
"""


def _first_calls_us(prepare: str) -> dict[str, float]:
    """Microseconds of the first call in a fresh process: with an empty cache, then a filled one."""
    costs_us = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first call, empty cache", "first call, kernel in the disk cache"):
            ended = run_source(FIRST_CALL.format(cache=cache, prepare=prepare), timeout_s=120)
            if ended.how != "finished":
                raise CourseError(
                    f"The first call could not be timed: {ended.stderr.strip()[-300:]}"
                )
            costs_us[name] = float(ended.stdout)
    return costs_us
