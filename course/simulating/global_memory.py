"""The memory behind a tensor: its elements, and which programs have read and written each."""

import numpy as np

from .faults import HazardError

NOBODY, SEVERAL = -1, -2
"""In place of a program's number."""


class Storage:
    """One array, in the order of memory.

    Programs run one after the other here, and in any order on a GPU. So what one writes and another
    reads or writes otherwise is a hazard, whatever comes out.
    """

    def __init__(self, array: np.ndarray, name: str, first: int) -> None:
        """name, first: an argument in it, and the place of its first element."""
        self.array, self.name, self.first = array, name, first
        self.program = 0
        """The number of the one that runs."""
        self.writers = np.full(array.shape, NOBODY, np.int32)
        self.readers = np.full(array.shape, NOBODY, np.int32)

    def place(self, number: int) -> str:
        """A place in a sentence, as "x_ptr[3]"."""
        return f"{self.name}[{number - self.first}]"

    def read(self, places: np.ndarray) -> np.ndarray:
        """The elements at these places. Raises HazardError where another program has written."""
        writers, readers = self.writers[places], self.readers[places]
        for i in np.flatnonzero((writers != NOBODY) & (writers != self.program))[:1]:
            raise HazardError(
                f"Program {self.program} reads {self.place(places.flat[i])}, which program "
                f"{writers.flat[i]} has written in the same launch: nothing orders the two."
            )
        alone = (readers == NOBODY) | (readers == self.program)
        self.readers[places] = np.where(alone, self.program, SEVERAL)
        elements: np.ndarray = self.array[places]
        return elements

    def write(self, places: np.ndarray, values: np.ndarray) -> None:
        """Raises HazardError where another program has read what this changes, or has written
        something else."""
        now = np.ascontiguousarray(self.array[places])
        new = np.ascontiguousarray(values, now.dtype)
        changed = now.view(f"u{now.itemsize}") != new.view(f"u{new.itemsize}")
        writers, readers = self.writers[places], self.readers[places]
        for i in np.flatnonzero(changed & (writers != NOBODY) & (writers != self.program))[:1]:
            raise HazardError(
                f"Programs {writers.flat[i]} and {self.program} write different values to "
                f"{self.place(places.flat[i])}: nothing orders the two."
            )
        for i in np.flatnonzero(changed & (readers != NOBODY) & (readers != self.program))[:1]:
            raise HazardError(
                f"Program {self.program} writes {self.place(places.flat[i])}, which another one "
                "has read in the same launch: nothing orders the two."
            )
        self.array[places] = values
        self.writers[places] = self.program
