"""What Triton and PyTorch answer to a module that asks for a GPU while it is loaded, where there is
none: a target stands in for it."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from course.gpus.limits import MOST_THREADS, TARGETS
from course.gpus.peaks import GPUS
from course.triton_internals.driver import GPUTarget, found_driver
from course.triton_internals.patching import patched
from course.type_names import AnyValue


@contextlib.contextmanager
def gpu_stand_in(target: GPUTarget, available: bool = True) -> Iterator[None]:
    """While active, Triton's driver and `torch.cuda` answer for one GPU of a target.

    Nothing can be allocated on it. available: whether `torch.cuda` says that it is there.
    """
    there: dict[str, AnyValue] = {"is_available": True, "device_count": 1}
    answers: dict[str, AnyValue] = {
        **(there if available else {}),
        "current_device": 0,
        "get_device_name": _properties(target).name,
        "get_device_capability": _capability(target),
        "get_device_properties": _properties(target),
    }
    version = {} if target.backend == "cuda" else {"hip": "6.4"}
    with (
        found_driver(target),
        patched(torch.cuda, **{name: _answering(value) for name, value in answers.items()}),
        patched(torch.version, **version),
    ):
        yield


def _answering(value: AnyValue) -> Any:
    return lambda *_, **__: value


def _capability(target: GPUTarget) -> tuple[int, int]:
    """As PyTorch has it: (9, 0) for sm_90, (9, 4) for gfx942, (11, 0) for gfx1100."""
    if target.backend == "cuda":
        return divmod(int(target.arch), 10)
    version = str(target.arch).removeprefix("gfx")
    return int(version[:-2]), int(version[-2], 16)


def _properties(target: GPUTarget) -> SimpleNamespace:
    """PyTorch's names for what a GPU has; its multiprocessors are those of a GPU as it is sold."""
    name = f"sm_{target.arch}" if target.backend == "cuda" else str(target.arch)
    limits = TARGETS[name]
    sold = next((gpu for gpu in GPUS.values() if gpu.target == name), None)
    major, minor = _capability(target)
    return SimpleNamespace(
        name=sold.device_names[0] if sold else name,
        major=major,
        minor=minor,
        multi_processor_count=sold.multiprocessors if sold else 1,
        total_memory=sold.memory_gb * 10**9 if sold else 0,
        L2_cache_size=sold.l2_mb * 10**6 if sold else 0,
        shared_memory_per_block=48 * 1024,
        shared_memory_per_block_optin=limits.shared_bytes,
        shared_memory_per_multiprocessor=limits.sm_shared_bytes,
        regs_per_multiprocessor=65_536,
        max_threads_per_multi_processor=limits.sm_warps * limits.warp_size,
        max_threads_per_block=MOST_THREADS,
        warp_size=limits.warp_size,
        gcnArchName=name,
    )
