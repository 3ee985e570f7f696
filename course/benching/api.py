"""How fast is a function? Medians on the GPU, with peers and the copy roof measured in the same run."""

import datetime
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import median, quantiles
from typing import Any

import torch

from course import MODE, pins
from course.errors import CourseError
from course.gpus.copy_bandwidth import copy_tb_s
from course.gpus.timing import launch_us, times_ms
from course.isolate.commands import run_source
from course.progress_bar import track

from .result import Machine, Speeds, Timing
from .source_hash import code_hash
from .studies import Function, Operation, Study, study

ROUNDS = 3
"""Each function is timed in so many turns with its peers, so that a drift of the clock hits all alike."""


def bench(
    function: Function,
    against: Sequence[Function] = (),
    *,
    like: str | None = None,
    make: Callable[[int], tuple[torch.Tensor, ...]] | None = None,
    sizes: Sequence[int] = (),
    bytes: Callable[..., int] | None = None,
) -> Speeds:
    """Time `function` on this GPU against other functions, at several sizes.

    function, against: take the tensors that `make` returns.
    like: the name of a study of the course, as "vector_add": its sizes, inputs, bytes and peers are used.
    make: size -> the inputs, on the GPU. sizes: in elements. bytes: the inputs -> bytes that a call must move.

    Raises CourseError in CPU mode, where the interpreter's speed says nothing of a GPU's.
    """
    found = study(like)[1] if like is not None else None
    require_gpu(like)
    if found is not None:
        ours, *_ = found.series
        peers = {name: build for name, build in found.series.items() if name != ours}
        series = _series((function, *against), taken=peers) | peers
        return run_study(replace(found, name=_name(function), xs=sizes or found.xs, series=series))
    if make is None or bytes is None or not sizes:
        raise CourseError(
            "bench needs make, sizes and bytes, or like= and the name of a study such as vector_add."
        )
    return run_study(
        Study(_name(function), "elements", sizes, make, bytes, _series((function, *against)))
    )


def _series(
    functions: Sequence[Function], taken: Collection[str] = ()
) -> dict[str, Callable[[int], Function | None]]:
    """Series for functions that are the same at every size, under names that are all different."""
    series: dict[str, Callable[[int], Function | None]] = {}
    for function in functions:
        name, count = _name(function), 1
        while name in series or name in taken:
            count += 1
            name = f"{_name(function)} ({count})"
        series[name] = partial(_whatever_the_size, function)
    return series


def _whatever_the_size(function: Function, x: int) -> Function:
    return function


def require_gpu(name: str | None = None) -> None:
    """Raise CourseError in CPU mode, pointing to what was recorded."""
    if not MODE.gpu:
        name = name or "vector_add"
        raise CourseError(
            f"bench times kernels on an NVIDIA GPU, and this is CPU mode ({MODE.reason}): look at what was recorded on one, "
            f'with recorded("{name}") in a notebook or `course recorded {name}` in a shell.'
        )


def record(operation: Operation) -> Iterator[Speeds]:
    """Verify every version of an operation; then run study after study, each when asked for the next, with the
    hash of its code.

    Raises CourseError in CPU mode, and where the operation is not right: what is wrong is not timed.
    """
    from course.verifying.api import verify

    require_gpu(operation.name)
    for function in operation.ladder.values():
        verified = verify(
            function, operation.reference, operation.cases, absolute=operation.absolute
        )
        if not verified.right:
            raise CourseError(f"Nothing was recorded, since a version is wrong. {verified}")
    source_hash = code_hash(operation.ladder.values())
    return (run_study(each, source_hash, operation.first_call) for each in operation.studies)


def run_study(study: Study, source_hash: str = "", first_call: str = "") -> Speeds:
    """Time every series of a study at every x; the rest is left out from the first x that does not fit into memory."""
    timings: list[Timing] = []
    for x in track(list(study.xs), f"Timing {study.name}"):
        try:
            timings += _timings_at(study, x)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            break
    if not timings:
        raise CourseError(
            f"{study.name} does not fit into this GPU's memory at {study.x_name} {study.xs[0]:,}: take less."
        )
    smallest = min(study.xs)
    inputs = study.make(smallest)
    costs = {
        name: launch_us(partial(f, *inputs))
        for name, build in study.series.items()
        if (f := build(smallest))
    }
    if first_call:
        costs |= _first_calls(first_call)
    return Speeds(
        study.name, study.x_name, tuple(timings), copy_tb_s(), this_machine(), costs, source_hash
    )


def _timings_at(study: Study, x: int) -> list[Timing]:
    inputs = study.make(x)
    functions = {name: function for name, build in study.series.items() if (function := build(x))}
    moved, done = study.bytes(*inputs), study.operations(*inputs) if study.operations else 0
    times = _times(functions, inputs)
    return [Timing(name, x, moved, *_spread(times[name]), done) for name in functions]


def _times(
    functions: dict[str, Function], inputs: tuple[torch.Tensor, ...]
) -> dict[str, list[float]]:
    """Milliseconds of single calls on the GPU, for each function, gathered in turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            times[name] += times_ms(function, inputs)
    return times


def _spread(times: list[float]) -> tuple[float, float, float]:
    """The median, and the 20th and 80th percentile."""
    if len(times) == 1:
        return times[0], times[0], times[0]
    fifths = quantiles(times, n=5, method="inclusive")
    return median(times), fifths[0], fifths[3]


def _first_calls(prepare: str) -> dict[str, float]:
    """Microseconds of the first call in a fresh process: with an empty cache, then with the kernel in it."""
    script = (
        prepare
        + "import time\nstart = time.perf_counter()\ncall()\nprint((time.perf_counter() - start) * 1e6)\n"
    )
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first call, empty cache", "first call, kernel in the disk cache"):
            text = (
                f"import os\nos.environ['TRITON_CACHE_DIR'] = {cache!r}\nimport course\n" + script
            )
            ended = run_source(text, timeout_s=120)
            if ended.how != "finished":
                raise CourseError(
                    f"The first call could not be timed: {ended.stderr.strip()[-300:]}"
                )
            found[name] = float(ended.stdout)
    return found


def this_machine() -> Machine:
    """The GPU and the versions of this process."""
    import triton

    return Machine(
        gpu=torch.cuda.get_device_name(),
        driver=driver_version(),
        torch=torch.__version__,
        triton=triton.__version__,
        date=datetime.date.today().isoformat(),
        pinned_torch=pins.TORCH,
    )


def driver_version() -> str:
    """The NVIDIA driver's version, or "unknown"."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.splitlines()[0].strip()


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None) or type(function).__name__
    return f"torch.{name}" if getattr(torch, name, None) is function else name
