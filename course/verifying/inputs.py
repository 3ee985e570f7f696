"""The inputs a function is tried on: shapes, dtypes, strides and values made to catch the usual mistakes."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from course.errors import CourseError

from .guarded_memory import Guarded, guarded

# What CPU mode leaves to the GPU: the interpreter runs a program in about half a millisecond, whatever its block.
CPU_MODE_ELEMENTS = 2**20
CPU_MODE_SECONDS = 4

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Input:
    """One tensor of a case: what `Case.make` builds inside guards."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    layout: str = "contiguous"
    values: str = "normal"

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def make(self, device: str, generator: torch.Generator) -> Guarded:
        stride, offset = LAYOUTS[self.layout](self.shape)
        made = guarded(self.shape, stride, self.dtype, device, offset, for_reading=True)
        made.tensor.copy_(_values(self, generator))
        return made

    def __str__(self) -> str:
        shape = " x ".join(f"{size:,}" for size in self.shape) if self.shape else "a scalar"
        notable = [
            word
            for word, usual in ((self.layout, "contiguous"), (self.values, "normal"))
            if word != usual
        ]
        return ", ".join([f"{shape} {str(self.dtype).removeprefix('torch.')}", *notable])


@dataclass(frozen=True)
class Case:
    """The inputs of one call, drawn from a fixed seed."""

    inputs: tuple[Input, ...]
    seed: int = 0
    scalars: tuple[int | float, ...] = ()
    """Numbers that the function is given after the tensors."""

    @property
    def elements(self) -> int:
        """The elements of the largest input."""
        return max((each.elements for each in self.inputs), default=0)

    def make(self, device: str) -> list[Guarded]:
        generator = torch.Generator(device).manual_seed(self.seed)
        return [each.make(device, generator) for each in self.inputs]

    def __str__(self) -> str:
        return " and ".join(dict.fromkeys(map(str, self.inputs))) + "".join(
            f", {number}" for number in self.scalars
        )


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


# name -> (stride in elements, offset of the first element from an aligned address)
LAYOUTS: dict[str, Callable[[tuple[int, ...]], tuple[tuple[int, ...], int]]] = {
    "contiguous": lambda shape: (_contiguous(shape), 0),
    "offset by one element": lambda shape: (_contiguous(shape), 1),
    "every second element": lambda shape: (tuple(2 * step for step in _contiguous(shape)), 0),
    "left part of a wider one": lambda shape: (_contiguous((*shape[:-1], shape[-1] + 5)), 0),
    "transposed": lambda shape: (tuple(reversed(_contiguous(tuple(reversed(shape))))), 0),
}


def _values(wanted: Input, generator: torch.Generator) -> torch.Tensor:
    """Contiguous values of the wanted kind."""
    shape, dtype, device = wanted.shape, wanted.dtype, generator.device
    if not dtype.is_floating_point:
        return torch.randint(0, 80, shape, dtype=dtype, device=device, generator=generator)
    # Half-precision values are drawn as such: drawing in float32 first would need three times the memory.
    drawn = torch.randn(shape, dtype=dtype, device=device, generator=generator)
    if wanted.values == "large":
        # Both inputs of a sum stay finite, some sums do not.
        drawn = drawn.clamp(-2, 2).mul(torch.finfo(dtype).max / 3)
    elif wanted.values == "below zero":
        drawn = -1 - drawn.abs()
    elif wanted.values in ("near the maximum", "near the minimum"):
        end = (
            torch.finfo(dtype).max
            if wanted.values == "near the maximum"
            else torch.finfo(dtype).min
        )
        drawn = end - drawn.abs().clamp(max=4) * (end / 10)  # six tenths of the end or more
    elif wanted.values == "share":
        drawn = drawn.abs() + 0.1
        drawn = drawn / drawn.sum(dim=-1, keepdim=True)  # as softmax gives them
    elif wanted.values == "some empty":  # maxima of parts of a row, some of which have no element
        drawn[drawn < -0.3] = -math.inf
    elif wanted.values == "far apart":
        drawn = drawn * 1e4  # exp of most differences is 0
    elif wanted.values == "NaN and inf":
        flat = drawn.view(-1)
        for start, special in enumerate((math.nan, math.inf, -math.inf)):
            flat[start::7] = special
    return drawn


def vectors(count: int = 1, dtypes: tuple[torch.dtype, ...] = FLOATS) -> list[Case]:
    """Cases for a function of `count` vectors of one length, over lengths, dtypes, strides and values.

    The lengths are 0, 1, around powers of two that blocks usually have, odd, the 98,432 of Triton's own first
    tutorial, and one larger than a GPU's cache.
    """
    return list(_vectors(count, dtypes))


def _vectors(count: int, dtypes: tuple[torch.dtype, ...]) -> Iterator[Case]:
    def case(
        n: int, dtype: torch.dtype, layout: str = "contiguous", values: str = "normal"
    ) -> Case:
        return Case((Input((n,), dtype, layout, values),) * count, seed=n)

    first = dtypes[0]
    for n in (0, 1, 127, 128, 1023, 1024, 1025, 98_432, 2**26 + 1):
        yield case(n, first)
    for dtype in dtypes:
        for n in (1, 781, 4096, 100_003):
            yield case(n, dtype)
        for layout in ("offset by one element", "every second element"):
            yield case(1025, dtype, layout)
        if (
            count > 1
        ):  # inputs whose strides differ: one input's stride must not be used for another
            yield Case(
                (
                    Input((1025,), dtype, "every second element"),
                    *(Input((1025,), dtype),) * (count - 1),
                ),
                seed=1025,
            )
        if dtype.is_floating_point:
            yield case(1025, dtype, values="NaN and inf")
            yield case(1025, dtype, values="large")


def matrices(*, dtypes: tuple[torch.dtype, ...] = FLOATS, with_row: bool = False) -> list[Case]:
    """Cases for a function of one matrix, and of a row as long as the matrix is wide, over shapes, dtypes and strides.

    with_row: give the row as a second input. Values are normal, and some NaN and infinite.
    """

    def case(
        shape: tuple[int, int],
        dtype: torch.dtype,
        layout: str = "contiguous",
        values: str = "normal",
    ) -> Case:
        matrix = Input(shape, dtype, layout, values)
        return Case(
            (matrix, Input(shape[1:], dtype)) if with_row else (matrix,), seed=shape[0] + shape[1]
        )

    first = dtypes[0]
    square = ((1, 1), (1, 781), (781, 1), (63, 65), (64, 64), (127, 513), (8193, 8191))
    found = [case(shape, first) for shape in ((0, 5), (3, 0), *square)]
    for dtype in dtypes:
        found += [case(shape, dtype) for shape in ((33, 100), (256, 64))]
        found += [case((65, 40), dtype, layout) for layout in LAYOUTS if layout != "contiguous"]
        if dtype.is_floating_point:
            found.append(case((20, 70), dtype, values="NaN and inf"))
    return found


def _check_floats(name: str, dtypes: object) -> None:
    """Raise CourseError unless these are some dtypes of floats."""
    listed = list(dtypes) if isinstance(dtypes, (tuple, list)) else []
    if not listed or not all(
        isinstance(each, torch.dtype) and each.is_floating_point for each in listed
    ):
        raise CourseError(
            f"{name} takes a tuple of floating-point dtypes, as (torch.float16,); this is {dtypes!r}."
        )


def matrix_pairs(dtypes: tuple[torch.dtype, ...] = (torch.float16,)) -> list[Case]:
    """Cases for a function of two matrices, [M, K] and [K, N], over shapes that blocks divide or not, dtypes and strides.

    float16 by default, whose products are exact in float32; float32 may be multiplied as TF32 on a GPU, and comes out far off.
    """
    _check_floats("matrix_pairs", dtypes)

    def case(
        m: int, n: int, k: int, dtype: torch.dtype, layouts: tuple[str, str] = ("contiguous",) * 2
    ) -> Case:
        return Case(
            (Input((m, k), dtype, layouts[0]), Input((k, n), dtype, layouts[1])), seed=m + n + k
        )

    found = []
    for dtype in dtypes:
        sizes = (
            (0, 5, 7),
            (5, 7, 0),
            (1, 1, 1),
            (64, 64, 64),
            (129, 65, 47),
            (1, 300, 70),
            (300, 1, 70),
            (256, 128, 160),
        )
        found += [case(m, n, k, dtype) for m, n, k in sizes]
        found += [
            case(72, 40, 136, dtype, (layout, "contiguous"))
            for layout in LAYOUTS
            if layout != "contiguous"
        ]
        found += [
            case(72, 40, 136, dtype, ("contiguous", layout))
            for layout in LAYOUTS
            if layout != "contiguous"
        ]
    return found


def heads(*, dtypes: tuple[torch.dtype, ...] = (torch.float16, torch.bfloat16)) -> list[Case]:
    """Cases for attention: queries [heads, M, D], keys and values [heads, N, D], over lengths, dtypes and head dimensions.

    Lengths are 1, a whole tile, odd, more keys than queries, and fewer.
    """
    _check_floats("heads", dtypes)
    found = []
    for dtype in dtypes:
        for count, queries, keys, head_dim in (
            (3, 65, 130, 32), (1, 1, 1, 16), (2, 64, 64, 64), (2, 130, 65, 16), (1, 200, 33, 64), (1, 5, 300, 128),
        ):  # fmt: skip
            q, k = Input((count, queries, head_dim), dtype), Input((count, keys, head_dim), dtype)
            found.append(Case((q, k, k), seed=queries + keys))
    return found
