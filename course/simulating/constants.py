"""What a kernel may have as a constant."""

from typing import TypeAlias, TypeVar

from triton.experimental.gluon import language as gl

T = TypeVar("T")

Layout: TypeAlias = (
    gl.AutoLayout
    | gl.BlockedLayout
    | gl.SliceLayout
    | gl.NVMMADistributedLayout
    | gl.DotOperandLayout
    | gl.DistributedLinearLayout
)
"""How a block lies in the registers of threads."""

SharedLayout: TypeAlias = (
    gl.NVMMASharedLayout
    | gl.SwizzledSharedLayout
    | gl.PaddedSharedLayout
    | gl.SharedLinearLayout
)  # fmt: skip
"""How a block lies in shared memory."""

Constant: TypeAlias = float | str | gl.dtype | Layout | SharedLayout | gl.constexpr | None
"""A constant: its value, or a constexpr that holds it. An int or a bool counts as a float."""


def unwrapped(value: T) -> T:
    """A constexpr as its value, anything else as it is."""
    return value.value if isinstance(value, gl.constexpr) else value
