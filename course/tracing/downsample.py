"""A tensor of any size as a small matrix of cells, each for one element or for neighbors."""

import zlib
from dataclasses import dataclass

import numpy as np


def packed(numbers: np.ndarray) -> bytes:
    """Numbers of which many are alike: as int32, compressed."""
    return zlib.compress(numbers.astype("<i4").tobytes(), 9)


def unpacked(data: bytes) -> np.ndarray:
    """The numbers that `packed` was given."""
    return np.frombuffer(zlib.decompress(data), dtype="<i4")


@dataclass(frozen=True)
class Panel:
    """Rows and columns of cells.

    A vector is wrapped like text; of a tensor of more dimensions the last one goes across. Elements
    and cells are numbered along the rows.
    """

    shape: tuple[int, ...]
    most: int = 64
    """Cells across and down."""

    @property
    def matrix(self) -> tuple[int, int]:
        """The tensor's rows and columns."""
        columns = self.shape[-1] if self.shape else 1
        return int(np.prod(self.shape[:-1], dtype=np.int64)), columns

    @property
    def patch(self) -> tuple[int, int]:
        """How many elements a cell stands for, down and across: powers of two."""
        rows, columns = self.matrix
        if rows == 1:
            return 1, _power_of_two(columns / self.most**2)
        return _power_of_two(rows / self.most), _power_of_two(columns / self.most)

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        rows, columns = self.matrix
        down, across = self.patch
        if rows == 1:
            count = -(-columns // across)
            return max(1, -(-count // self.most)), min(count, self.most)
        return -(-rows // down), -(-columns // across)

    def of(self, elements: np.ndarray) -> np.ndarray:
        """The cell of each element."""
        rows, columns = self.matrix
        down, across = self.patch
        rest = elements % columns // across
        cells: np.ndarray = elements // columns // down * self.cells[1] + rest
        return elements // across if rows == 1 else cells

    def first(self, elements: np.ndarray, values: np.ndarray, empty: int) -> np.ndarray:
        """For each cell the value of its first element among these; `empty` if it has none."""
        firsts = np.full(self.cells[0] * self.cells[1], empty, dtype=np.int64)
        firsts[self.of(elements[::-1])] = values[::-1]
        return firsts

    def touched(self, elements: np.ndarray) -> np.ndarray:
        """For each cell whether it holds one of the elements."""
        touched = np.zeros(self.cells[0] * self.cells[1], dtype=bool)
        touched[self.of(elements)] = True
        return touched

    def shown(self, values: np.ndarray) -> np.ndarray:
        """One value per cell: its first NaN, else its first infinity, else its first element."""
        flat = values.ravel()
        if self.patch == (1, 1):
            return flat
        elements = np.arange(flat.size)
        shown: np.ndarray = flat[self.first(elements, elements, 0)]
        if np.issubdtype(flat.dtype, np.floating):
            for is_odd in (np.isinf(flat), np.isnan(flat)):
                odd = np.flatnonzero(is_odd)
                shown[self.of(odd)] = flat[odd]
        # The last line of a wrapped vector may not be full.
        return shown[: -(-flat.size // self.patch[1])] if self.matrix[0] == 1 else shown


def _power_of_two(ratio: float) -> int:
    """The least power of two that is not below a ratio."""
    return 1 << max(0, int(np.ceil(np.log2(ratio)))) if ratio > 1 else 1
