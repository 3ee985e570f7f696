"""The types that an argument may have: as Triton names them, in C, in PyTorch, and in the machine code's parameters."""

from dataclasses import dataclass

from course.lowering.arguments import DTYPES

POINTEES = (*DTYPES, "fp8e4b15")
"""What a pointer may point to: every scalar type of Triton's."""


@dataclass(frozen=True)
class Scalar:
    """The type of an argument that is given at run time."""

    name: str
    """As Triton has it: "i32", or "*fp16" for a pointer."""
    c: str
    """Of the C function's parameter."""
    bytes: int
    """Of the kernel's own parameter."""
    bits_c: str = ""
    """The C type in which it goes to the kernel, where that is another one than `c`."""

    @property
    def pointer(self) -> bool:
        return self.name.startswith("*")

    @property
    def integer(self) -> bool:
        return not self.pointer and self.name[0] in "iu"

    @property
    def boolean(self) -> bool:
        return self.name in ("i1", "u1")

    @property
    def float(self) -> bool:
        return not self.pointer and self.name[0] in "fb"

    @property
    def range(self) -> tuple[int, int]:
        """The least and the greatest value of an integer."""
        if self.boolean:
            return 0, 1
        bits = 8 * self.bytes
        return (
            (0, 2**bits - 1) if self.name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )


_ALL = (
    Scalar("i1", "int8_t", 1), Scalar("u1", "uint8_t", 1),
    Scalar("i8", "int8_t", 1), Scalar("i16", "int16_t", 2), Scalar("i32", "int32_t", 4), Scalar("i64", "int64_t", 8),
    Scalar("u8", "uint8_t", 1), Scalar("u16", "uint16_t", 2), Scalar("u32", "uint32_t", 4), Scalar("u64", "uint64_t", 8),
    Scalar("fp16", "float", 2, "uint16_t"), Scalar("bf16", "float", 2, "uint16_t"),
    Scalar("fp32", "float", 4), Scalar("fp64", "double", 8),
)  # fmt: skip
SCALARS = {scalar.name: scalar for scalar in _ALL}


def scalar_of(name: str) -> Scalar | None:
    """The type of this name; None where there is none. "*kfp32" is a pointer to what is only read."""
    if name.startswith("*"):
        pointee = name[1:]
        return (
            Scalar(name, "CUdeviceptr", 8)
            if pointee in POINTEES or pointee.removeprefix("k") in POINTEES
            else None
        )
    return SCALARS.get(name)
