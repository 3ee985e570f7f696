"""PyTorch's own random numbers: the same generator, and the same way from it to each dtype."""

import math
from collections.abc import Callable

import numpy as np

from ._tensor import Tensor, device, dtype, float32, float64, int64, made, shape_of


class Generator:
    """A Mersenne Twister."""

    def __init__(self, device: object = "cpu") -> None:
        self._device = device
        self.manual_seed(0)

    @property
    def device(self) -> device:
        """Where it draws."""
        return device(str(self._device))

    def manual_seed(self, seed: int) -> "Generator":
        """Begin anew."""
        self._twister = np.random.RandomState(seed)
        self._second: float | None = None  # normal numbers come in pairs
        return self

    def bits32(self, count: int) -> np.ndarray:
        """So many numbers of 32 bits."""
        return self._twister.randint(0, 2**32, count, dtype=np.uint32)

    def bits64(self, count: int) -> np.ndarray:
        """So many numbers of 64 bits, the high half drawn first."""
        high, low = self.bits32(2 * count).astype(np.uint64).reshape(-1, 2).T
        return high << np.uint64(32) | low

    def uniform(self, count: int, kind: dtype) -> np.ndarray:
        """Numbers from 0 to 1; those of 16 bits are drawn in float32."""
        digits, drawn = (53, self.bits64(count)) if kind is float64 else (24, self.bits32(count))
        return (drawn & drawn.dtype.type(2**digits - 1)).astype(kind.computed) * 2.0**-digits

    def normal(self) -> float:
        """One normal number."""
        if (kept := self._second) is not None:
            self._second = None
            return kept
        angle, length = self.uniform(2, float64)
        radius = math.sqrt(-2 * math.log1p(-length))
        self._second = radius * math.sin(2 * math.pi * angle)
        return radius * math.cos(2 * math.pi * angle)


_default = Generator()


def manual_seed(seed: int) -> Generator:
    """Begin anew what is drawn without a generator."""
    return _default.manual_seed(seed)


def rand(
    *size: int, dtype: dtype = float32, device: object = None, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers from 0 to 1."""
    shape = shape_of(size)
    drawn = made((generator or _default).uniform(math.prod(shape), dtype), dtype, device)
    drawn._array[drawn.values() == 1] = 0  # 1 is none of them, and what is rounded to it becomes 0
    return drawn.view(shape)


def randn(
    *size: int, dtype: dtype = float32, device: object = None, generator: Generator | None = None
) -> Tensor:
    """Normal numbers, by Box and Muller: sixteen at a time, or in pairs where there are fewer."""
    own, shape = generator or _default, shape_of(size)
    if (count := math.prod(shape)) < 16:
        drawn = np.array([own.normal() for _ in range(count)])
        return made(drawn.reshape(shape), dtype, device)

    def transformed(uniform: np.ndarray) -> np.ndarray:
        first, second = np.moveaxis(uniform.reshape(-1, 2, 8), 1, 0)
        radius, angle = np.sqrt(-2 * np.log(1 - first)), 2 * np.pi * second
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()

    whole = count // 16 * 16
    drawn = np.resize(own.uniform(whole if dtype.itemsize == 2 else count, dtype), count)
    drawn[:whole] = transformed(drawn[:whole])
    if count % 16:  # the last sixteen are drawn anew
        drawn[-16:] = transformed(own.uniform(16, dtype))
    return made(drawn.reshape(shape), dtype, device)


def randint(
    low: int, high: int, size: tuple[int, ...], *, dtype: dtype = int64, device: object = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Integers from low to high, which is not one of them."""
    own, span = generator or _default, high - low
    draw: Callable[[int], np.ndarray] = own.bits64 if span >= 2**28 else own.bits32
    drawn = draw(math.prod(size)).astype(np.uint64) % np.uint64(span)
    return made((drawn.astype(np.int64) + low).reshape(size), dtype, device)
