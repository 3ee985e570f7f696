"""What crosses the functions of a simulated kernel, and what a launch may give it."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import torch
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as HostDescriptor

from .barriers import Barriers
from .constants import Constant
from .shared_memory import Buffer
from .tensors import Descriptor
from .values import Block, Pointer


class Aggregate:
    """An object of a class under @aggregate."""


class KernelFunction(Protocol):
    """A function of a kernel that runs as Python."""

    __name__: str

    def __call__(self, *args: "Value", **kwargs: "Value") -> "Value": ...


Value: TypeAlias = (
    Block
    | Pointer
    | Buffer
    | Barriers
    | Descriptor
    | Aggregate
    | KernelFunction
    | Constant
    | Sequence["Value"]
)
"""What a name of a kernel stands for, and what its functions take and return."""

Argument: TypeAlias = torch.Tensor | HostDescriptor | Constant | Sequence["Argument"]
"""What a launch is given."""
