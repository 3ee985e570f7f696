"""on_hopper: launch a Gluon kernel where it can run."""

import torch
import triton

from course import MODE
from course.triton_internals.jit_functions import plain_function
from course.type_names import AnyValue, Kernel

HOPPER = (9, 0)
OLDEST_TRITON = (3, 9)
"""Older ones have other names for what the lessons use."""


def on_hopper(kernel: Kernel, grid: tuple[int], *args: AnyValue, **kwargs: AnyValue) -> None:
    """Launch a kernel on a GPU of compute capability 9.0; elsewhere say in a sentence that none is.

    grid, args, kwargs: as for a launch.
    """
    function = plain_function(kernel)
    name = function.__name__ if function else str(kernel)
    if problem := _problem():
        print(f"{name} is not launched here: {problem}. What `simulate` wrote stands.")
        return
    kernel[grid](*args, **kwargs)
    torch.cuda.synchronize()
    print(f"{name} was launched on {torch.cuda.get_device_name()}.")


def _problem() -> str:
    """Why nothing of Hopper's can be launched in this session; "" if it can."""
    if not MODE.gpu:
        return "this session has no GPU"
    if torch.cuda.get_device_capability() != HOPPER:
        return "it takes a GPU of compute capability 9.0, an H100 or H200"
    if tuple(map(int, triton.__version__.split(".")[:2])) < OLDEST_TRITON:
        return "it takes Triton 3.9"
    return ""
