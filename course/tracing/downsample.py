"""A tensor of any size as a small matrix of cells, each standing for one element or a patch of neighbours."""

import base64
import zlib
from dataclasses import dataclass

import numpy as np


def packed(values: np.ndarray) -> str:
    """Numbers as a short text, where many are alike: of 32 bits, compressed."""
    return base64.b64encode(zlib.compress(values.astype("<i4").tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """What `packed` was given."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<i4")


@dataclass(frozen=True)
class Panel:
    """Rows and columns of cells. A vector is wrapped like text; of a tensor of more dimensions the last is across."""

    shape: tuple[int, ...]
    most: int = 64
    """Cells across and down."""

    @property
    def matrix(self) -> tuple[int, int]:
        """The tensor as rows and columns."""
        columns = self.shape[-1] if self.shape else 1
        return int(np.prod(self.shape[:-1], dtype=np.int64)), columns

    @property
    def patch(self) -> tuple[int, int]:
        """How many elements a cell stands for, down and across: powers of two."""
        rows, columns = self.matrix
        if rows == 1:
            return 1, _power(columns / self.most**2)
        return _power(rows / self.most), _power(columns / self.most)

    @property
    def cells(self) -> tuple[int, int]:
        rows, columns = self.matrix
        down, across = self.patch
        if rows == 1:
            count = -(-columns // across)
            return max(1, -(-count // self.most)), min(count, self.most)
        return -(-rows // down), -(-columns // across)

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """The cell of each element by its number, both counted along the rows."""
        rows, columns = self.matrix
        down, across = self.patch
        if rows == 1:
            return numbers // across
        return numbers // columns // down * self.cells[1] + numbers % columns // across

    def first(self, numbers: np.ndarray, values: np.ndarray, empty: int) -> np.ndarray:
        """For each cell the value of its first element among those numbered, `empty` where there is none."""
        found = np.full(self.cells[0] * self.cells[1], empty, dtype=np.int64)
        found[self.of(numbers[::-1])] = values[::-1]
        return found

    def touched(self, numbers: np.ndarray) -> np.ndarray:
        """For each cell whether it holds one of the elements numbered."""
        found = np.zeros(self.cells[0] * self.cells[1], dtype=bool)
        found[self.of(numbers)] = True
        return found

    def shown(self, values: np.ndarray) -> np.ndarray:
        """One value for each cell: its first NaN, else its first infinity, else its first element."""
        flat = values.ravel()
        if self.patch == (1, 1):
            return flat
        numbers = np.arange(flat.size)
        found = flat[self.first(numbers, numbers, 0)]
        if np.issubdtype(flat.dtype, np.floating):
            for odd in (np.isinf(flat), np.isnan(flat)):
                where = np.flatnonzero(odd)
                found[self.of(where)] = flat[where]
        # The last line of a wrapped vector may not be full.
        return found[: -(-flat.size // self.patch[1])] if self.matrix[0] == 1 else found


def _power(ratio: float) -> int:
    """The least power of two that is not below a ratio."""
    return 1 << max(0, int(np.ceil(np.log2(ratio)))) if ratio > 1 else 1
