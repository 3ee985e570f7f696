"""Compile what studies launch before the first is timed, in as many processes as there are cores.

Compiling takes most of the time of a study, on one core, while the GPU waits. Here each process
launches what it has compiled once, and only leaves it in Triton's cache.
"""

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, wait

import torch

from course.benching import benchmarks
from course.benching.benchmarks import Study
from course.isolate.available import cores
from course.progress_bar import show_until
from course.verifying.api import verify


def compile_ahead(studies: Sequence[Study]) -> None:
    """Call each function of the course's own at each size of these studies, and verify each version
    once. What fails here fails again, with its reason, when it is measured."""
    owners = {benchmarks.study(study.name)[0].name: None for study in studies}
    with ProcessPoolExecutor(
        max(1, int(cores())), mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        futures = [
            pool.submit(_verify, name, version)
            for name in owners
            for version in benchmarks.operation(name).ladder
        ]
        futures += [pool.submit(_call, study.name, x) for study in studies for x in study.xs]
        show_until(
            lambda seconds: not wait(futures, seconds).not_done,
            lambda: sum(future.done() for future in futures),
            len(futures),
            "Compiling ahead",
        )


def _verify(name: str, version: str) -> None:
    operation = benchmarks.operation(name)
    verify(
        operation.ladder[version], operation.reference, operation.cases, absolute=operation.absolute
    )
    torch.cuda.empty_cache()


def _call(name: str, x: int) -> None:
    _, study = benchmarks.study(name)
    inputs = study.make(x)
    for series, function in study.functions(x).items():
        if not series.startswith("torch"):
            function(*inputs)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
