"""The inputs a function is tried on: shapes, dtypes, strides and values that catch mistakes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral

import torch

from course.errors import CourseError

from .guarded_memory import Guarded, guarded

# What CPU mode leaves to the GPU: the interpreter runs a program in about half a millisecond,
# whatever its block.
CPU_MODE_ELEMENTS = 2**20
CPU_MODE_SECONDS = 4

FLOATS = (torch.float32, torch.float16, torch.bfloat16)

Shape = tuple[int, ...]


def _contiguous(shape: Shape) -> Shape:
    """The strides of a contiguous tensor."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


CONTIGUOUS, STRIDED = "contiguous", "every second element"

# name -> (stride in elements, offset of the first element from an aligned address)
LAYOUTS: dict[str, Callable[[Shape], tuple[Shape, int]]] = {
    CONTIGUOUS: lambda shape: (_contiguous(shape), 0),
    "offset by one element": lambda shape: (_contiguous(shape), 1),
    STRIDED: lambda shape: (tuple(2 * step for step in _contiguous(shape)), 0),
    "left part of a wider one": lambda shape: (_contiguous((*shape[:-1], shape[-1] + 5)), 0),
    "transposed": lambda shape: (_contiguous(shape[::-1])[::-1], 0),
}
OTHER_LAYOUTS = tuple(name for name in LAYOUTS if name != CONTIGUOUS)


def _near(drawn: torch.Tensor, end: float) -> torch.Tensor:
    """Six tenths of the largest or smallest finite number, or more: a difference may overflow."""
    return end - drawn.abs().clamp(max=4) * (end / 10)


def _shares(drawn: torch.Tensor) -> torch.Tensor:
    """Above 0, each row with a sum of 1, as softmax gives them."""
    drawn = drawn.abs() + 0.1
    return drawn / drawn.sum(dim=-1, keepdim=True)


def _some_empty(drawn: torch.Tensor) -> torch.Tensor:
    """Maxima of parts of a row, of which some have no element: -inf."""
    drawn[drawn < -0.3] = -math.inf
    return drawn


def _nan_and_inf(drawn: torch.Tensor) -> torch.Tensor:
    """NaN, inf and -inf, each in every seventh element."""
    flat = drawn.view(-1)
    for start, special in enumerate((math.nan, math.inf, -math.inf)):
        flat[start::7] = special
    return drawn


# name -> the least and the largest, where integers are to be only that. There is no -1 below zero,
# since to divide the smallest integer by it ends the process.
WHOLE = {"small": (0, 79), "each at least 1": (1, 80), "below zero": (-80, -2)}

# bytes -> integers of that size
SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# name -> what makes such values of normal ones
VALUES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "normal": lambda drawn: drawn,
    "small": lambda drawn: drawn,  # a word for integers
    # A sum of two of them may overflow, though both are finite.
    "large": lambda drawn: drawn.clamp(-2, 2).mul(torch.finfo(drawn.dtype).max / 3),
    # A maximum that begins at 0 is wrong.
    "below zero": lambda drawn: -1 - drawn.abs(),
    "near the maximum": lambda drawn: _near(drawn, torch.finfo(drawn.dtype).max),
    "near the minimum": lambda drawn: _near(drawn, torch.finfo(drawn.dtype).min),
    "share": _shares,
    # As the sum of exp(x - maximum) over some elements is.
    "each at least 1": lambda drawn: 1 + drawn.abs(),
    "some empty": _some_empty,
    # exp of most differences is 0.
    "far apart": lambda drawn: drawn * 1e4,
    # The mean of the squares and the square of the mean have nearly all digits in common.
    "around 1,000": lambda drawn: drawn + 1000,
    "NaN and inf": _nan_and_inf,
}

EXTREME = ("near the maximum", "near the minimum")
"""Such values are said with the dtype whose extreme is meant."""


@dataclass(frozen=True)
class Input:
    """One tensor of a case: what `Case.make` builds inside guards."""

    shape: Shape
    dtype: torch.dtype = torch.float32
    layout: str = CONTIGUOUS
    """One of LAYOUTS."""
    values: str = "normal"
    """One of VALUES. Integers are from 0 to 79 if they are "small", as indices must be; from 1 to
    80 if "each at least 1"; from -80 to -2 if "below zero". By any other name they are of either
    sign and any size, the dtype's extremes and -1 among them. Booleans are both."""

    def __post_init__(self) -> None:
        """Raises CourseError for what no tensor can be made of."""
        shape, dtype = self.shape, self.dtype
        sizes = shape if isinstance(shape, (tuple, list)) else (None,)
        if not all(isinstance(size, Integral) and size >= 0 for size in sizes):
            raise CourseError(
                f"The shape of an Input is a tuple of sizes, as (5, 3) or (5,); it is {shape!r}."
            )
        if not isinstance(dtype, torch.dtype) or dtype.is_complex:
            raise CourseError(
                f"The dtype of an Input is one that kernels take, as torch.float32; it is {dtype}."
            )
        for name, value, known in (
            ("layout", self.layout, LAYOUTS), ("values", self.values, VALUES),
        ):  # fmt: skip
            if value not in known:
                names = ", ".join(map(repr, known))
                raise CourseError(f"The {name} of an Input is one of {names}; it is {value!r}.")

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def make(self, device: str, generator: torch.Generator) -> Guarded:
        stride, offset = LAYOUTS[self.layout](self.shape)
        memory = guarded(self.shape, stride, self.dtype, device, offset, for_reading=True)
        memory.tensor.copy_(self._draw(generator))
        return memory

    def _draw(self, generator: torch.Generator) -> torch.Tensor:
        """Contiguous values."""
        shape, dtype, device = self.shape, self.dtype, generator.device
        if dtype == torch.bool:
            return torch.rand(shape, device=device, generator=generator) < 0.5
        if not dtype.is_floating_point:
            return self._draw_whole(generator)
        # 16-bit values are drawn as such: in float32 they would need three times the memory.
        # PyTorch draws none of 8 bits.
        drawn_as = dtype if dtype.itemsize > 1 else torch.float32
        drawn = torch.randn(shape, dtype=drawn_as, device=device, generator=generator)
        return VALUES[self.values](drawn)

    def _draw_whole(self, generator: torch.Generator) -> torch.Tensor:
        """Contiguous integers, half of them small unless all are to be so."""
        shape, dtype, device = self.shape, self.dtype, generator.device

        def drawn(kind: torch.dtype, least: int, largest: int) -> torch.Tensor:
            return torch.randint(
                least, largest, shape, dtype=kind, device=device, generator=generator
            )

        if self.values in WHOLE:
            least, largest = WHOLE[self.values]
            return drawn(dtype, least, largest + 1)
        signed = SIGNED[dtype.itemsize]
        info = torch.iinfo(signed)
        flat = drawn(signed, -80, 80).view(-1)
        flat[::2] = drawn(signed, info.min, info.max).view(-1)[::2]
        # At the same places in each input, so that none divides its smallest by -1.
        for start, special in enumerate((-1, info.min, info.max, 0)):
            flat[start::9] = special
        return flat.view(shape).view(dtype)

    def __str__(self) -> str:
        shape = " x ".join(f"{size:,}" for size in self.shape) if self.shape else "a scalar"
        usual = (CONTIGUOUS, "normal")
        notable = [word for word in (self.layout, self.values) if word not in usual]
        if self.values in EXTREME:
            notable[-1] += f" of {_name(self.dtype)}"
        return ", ".join([f"{shape} {_name(self.dtype)}", *notable])


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Case:
    """The inputs of one call, drawn from a fixed seed."""

    inputs: tuple[Input, ...]
    seed: int = 0
    scalars: tuple[int | float, ...] = ()
    """Numbers that the function is given after the tensors."""
    named: tuple[str, ...] = ()
    """What the function calls these numbers, where that is known."""

    def __post_init__(self) -> None:
        """Raises CourseError for what are no inputs."""
        given = self.inputs if isinstance(self.inputs, (tuple, list)) else (None,)
        if not all(isinstance(each, Input) for each in given):
            comma = "a tuple of inputs, with a comma where it is one"
            raise CourseError(f"Case takes {comma}, as Case((Input((5, 3)),)).")

    @property
    def elements(self) -> int:
        """The elements of the largest input."""
        return max((wanted.elements for wanted in self.inputs), default=0)

    @property
    def dtype(self) -> str:
        """The dtype of the first input, by its name."""
        return _name(self.inputs[0].dtype)

    def make(self, device: str) -> list[Guarded]:
        generator = torch.Generator(device).manual_seed(self.seed)
        return [wanted.make(device, generator) for wanted in self.inputs]

    def arguments(self, device: str) -> list[torch.Tensor | int | float]:
        """What the function is given: the tensors, then the numbers."""
        return [*(guarded.tensor for guarded in self.make(device)), *self.scalars]

    def __str__(self) -> str:
        tensors = " and ".join(dict.fromkeys(map(str, self.inputs)))
        numbers = [f"{each:.4g}" if type(each) is float else str(each) for each in self.scalars]
        if len(self.named) == len(numbers):
            pairs = zip(self.named, numbers, strict=True)
            numbers = [f"{name} = {number}" for name, number in pairs]
        return ", ".join([tensors, *numbers])


def vectors(count: int = 1, dtypes: tuple[torch.dtype, ...] = FLOATS) -> list[Case]:
    """Cases for a function of `count` vectors of one length.

    Over dtypes, strides, values and lengths: 0, 1, around powers of two that blocks usually have,
    odd, the 98,432 of Triton's own first tutorial, and one larger than a GPU's cache.
    """
    if type(count) is not int or count < 1:
        raise CourseError(f"vectors takes how many there are, as vectors(2); it is {count!r:.60}.")
    listed = dtypes if isinstance(dtypes, (tuple, list)) else ()
    if not listed or not all(isinstance(each, torch.dtype) for each in listed):
        raise CourseError(f"vectors takes dtypes, as (torch.float16,); these are {dtypes!r:.60}.")

    def case(n: int, dtype: torch.dtype, layout: str = CONTIGUOUS, values: str = "normal") -> Case:
        return Case((Input((n,), dtype, layout, values),) * count, seed=n)

    lengths = (0, 1, 127, 128, 1023, 1024, 1025, 98_432, 2**26 + 1)
    cases = [case(n, dtypes[0]) for n in lengths]
    for dtype in dtypes:
        cases += [case(n, dtype) for n in (1, 781, 4096, 100_003)]
        cases += [case(1025, dtype, name) for name in ("offset by one element", STRIDED)]
        if count > 1:  # strides that differ: one input's must not be used for another
            strided, plain = Input((1025,), dtype, STRIDED), Input((1025,), dtype)
            cases.append(Case((strided, *[plain] * (count - 1)), seed=1025))
        if dtype.is_floating_point:
            cases += [case(1025, dtype, values=name) for name in ("NaN and inf", "large")]
    return cases


def matrices(*, dtypes: tuple[torch.dtype, ...] = FLOATS, with_row: bool = False) -> list[Case]:
    """Cases for a function of one matrix, over shapes, dtypes and strides.

    with_row: a second input, a row as long as the matrix is wide. Values are normal, and some NaN
    and infinite.
    """

    def case(
        shape: Shape, dtype: torch.dtype, layout: str = CONTIGUOUS, values: str = "normal"
    ) -> Case:
        row = [Input(shape[1:], dtype)] if with_row else []
        return Case((Input(shape, dtype, layout, values), *row), seed=sum(shape))

    shapes = (
        (0, 5), (3, 0), (1, 1), (1, 781), (781, 1), (63, 65), (64, 64), (127, 513), (8193, 8191),
    )  # fmt: skip
    cases = [case(shape, dtypes[0]) for shape in shapes]
    for dtype in dtypes:
        cases += [case(shape, dtype) for shape in ((33, 100), (256, 64))]
        cases += [case((65, 40), dtype, layout) for layout in OTHER_LAYOUTS]
        if dtype.is_floating_point:
            cases.append(case((20, 70), dtype, values="NaN and inf"))
    return cases


def _check_floats(name: str, dtypes: object) -> None:
    """Raise CourseError unless these are some dtypes of floats."""
    listed = dtypes if isinstance(dtypes, (tuple, list)) else ()
    are_floats = [isinstance(each, torch.dtype) and each.is_floating_point for each in listed]
    if not are_floats or not all(are_floats):
        wanted = "a tuple of floating-point dtypes, as (torch.float16,)"
        raise CourseError(f"{name} takes {wanted}; this is {dtypes!r}.")


def matrix_pair(
    m: int, n: int, k: int, dtype: torch.dtype,
    a_layout: str = CONTIGUOUS, b_layout: str = CONTIGUOUS, values: str = "normal",
) -> Case:  # fmt: skip
    """A case for a function of two matrices, [m, k] and [k, n]."""
    a, b = Input((m, k), dtype, a_layout, values), Input((k, n), dtype, b_layout, values)
    return Case((a, b), seed=m + n + k)


def matrix_pairs(dtypes: tuple[torch.dtype, ...] = (torch.float16,)) -> list[Case]:
    """Cases for a function of two matrices, [M, K] and [K, N], over shapes, dtypes and strides.

    Blocks divide some shapes and not others. float16 by default, whose products are exact in
    float32; float32 may be multiplied as TF32 on a GPU, and comes out far off.
    """
    _check_floats("matrix_pairs", dtypes)

    sizes = (
        (0, 5, 7), (5, 7, 0), (1, 1, 1), (64, 64, 64), (129, 65, 47), (1, 300, 70), (300, 1, 70),
        (256, 128, 160),
    )  # fmt: skip
    cases = []
    for dtype in dtypes:
        cases += [matrix_pair(*size, dtype) for size in sizes]
        cases += [matrix_pair(72, 40, 136, dtype, a_layout=layout) for layout in OTHER_LAYOUTS]
        cases += [matrix_pair(72, 40, 136, dtype, b_layout=layout) for layout in OTHER_LAYOUTS]
    return cases


def heads(*, dtypes: tuple[torch.dtype, ...] = (torch.float16, torch.bfloat16)) -> list[Case]:
    """Cases for attention: queries [heads, M, D], keys and values [heads, N, D].

    Over dtypes, head dimensions and lengths: 1, a whole tile, odd, more keys than queries, fewer.
    """
    _check_floats("heads", dtypes)
    sizes = (
        (3, 65, 130, 32), (1, 1, 1, 16), (2, 64, 64, 64), (2, 130, 65, 16), (1, 200, 33, 64),
        (1, 5, 300, 128),
    )  # fmt: skip

    def case(count: int, queries: int, keys: int, head_dim: int, dtype: torch.dtype) -> Case:
        q, k = Input((count, queries, head_dim), dtype), Input((count, keys, head_dim), dtype)
        return Case((q, k, k), seed=queries + keys)

    return [case(*size, dtype) for dtype in dtypes for size in sizes]
