"""What every launcher asks of its inputs, answered in one sentence where it is not so."""

import torch
import triton

GRID_LIMIT = 65_535
"""The most programs along the second and third axis of a grid; the first takes 2**31 - 1."""


def check_tensors(operation: str, **tensors: object) -> None:
    """Raise TypeError where one of the named arguments is not a tensor, and ValueError where it is
    a sparse one."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"{operation}: {name} is of type {type(tensor).__name__}, "
                "and must be a torch.Tensor."
            )
        if tensor.layout != torch.strided:
            raise ValueError(
                f"{operation}: {name} has layout {tensor.layout}, and must be dense: call "
                ".to_dense() first."
            )


def check_same(operation: str, **tensors: torch.Tensor) -> None:
    """Raise ValueError where the tensors differ in device, dtype or shape."""
    (first_name, first), *others = tensors.items()
    for name, tensor in others:
        for what in ("device", "dtype", "shape"):
            ours, theirs = getattr(first, what), getattr(tensor, what)
            if ours != theirs:
                show = tuple if what == "shape" else str
                raise ValueError(
                    f"{operation}: {first_name} has {what} {show(ours)} and {name} has {what} "
                    f"{show(theirs)}; both must have the same {what}."
                )


def check_runs_on(operation: str, kernel: object, tensor: torch.Tensor) -> None:
    """Raise ValueError where `kernel` is compiled for a GPU and `tensor` is not on one.

    The kernel is asked, not the environment: an interpreted kernel takes tensors of any device.
    """
    if isinstance(kernel, triton.JITFunction) and not tensor.is_cuda:
        raise ValueError(
            f"{operation}: the inputs are on {tensor.device}, and this kernel is compiled for a "
            'GPU: move them there with .to("cuda"), or set TRITON_INTERPRET=1 before '
            "Triton is imported."
        )
