"""`tma` and `async_copy` as a simulated kernel sees them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np

from .barriers import Barriers
from .constants import Constant
from .faults import SimulationError
from .global_memory import Storage
from .program import ProgramNames
from .shared_memory import Buffer, Memory, Pending
from .tensors import Descriptor, Sums
from .values import Operand, Pointer, plain


class TmaNames(ProgramNames):
    """Functions of `tma`: copies of whole blocks, described by a descriptor."""

    def async_load(
        self,
        tensor_desc: Descriptor,
        coord: Sequence[SupportsIndex],
        barrier: Barriers,
        result: Buffer,
        pred: Operand = True,
        **_: Constant,
    ) -> None:
        if not plain(pred):
            return
        self._fit(tensor_desc, result)
        signaled, memory = barrier.one, self._program.memory
        places, inside = tensor_desc.places(coord)
        what = f"nobody has waited for {signaled.name} since the copy began"
        if result.written.all():
            what += ", which is not the first into it: look whether it was given back unread"
        pending = memory.begin("copied into", result, what)

        def land() -> None:
            block = np.full(places.shape, tensor_desc.padding, result.array.dtype)
            block[inside] = tensor_desc.storage.read(places[inside])
            result.fill(block)
            memory.end(pending)
            signaled.came(tensor_desc.nbytes_per_cta)

        signaled.copies.append(land)
        self._program.turns.pause()

    def async_store(
        self,
        tensor_desc: Descriptor,
        coord: Sequence[SupportsIndex],
        src: Buffer,
        cache_policy: Constant = None,
    ) -> None:
        self._begin(tensor_desc, coord, src, added=False)

    def async_atomic_add(
        self, tensor_desc: Descriptor, coord: Sequence[SupportsIndex], src: Buffer
    ) -> None:
        self._begin(tensor_desc, coord, src, added=True)

    def _begin(
        self, tensor_desc: Descriptor, coord: Sequence[SupportsIndex], src: Buffer, added: bool
    ) -> None:
        self._fit(tensor_desc, src)
        memory = self._program.memory
        places, inside = tensor_desc.places(coord)
        pending = memory.begin("copied out", src, "nobody has waited with tma.store_wait")
        sums = tensor_desc.sums if added else None
        store = Store(memory, pending, tensor_desc.storage, places[inside], inside, sums)
        self._program.under_way.stores.append(store)
        self._program.stores.append(store)
        self._program.turns.pause()

    def store_wait(self, pendings: SupportsIndex, read_only: Operand = True) -> None:
        queue = self._program.under_way.stores
        for store in queue[: max(0, len(queue) - int(pendings))]:
            store.read()
            if not plain(read_only):
                queue.remove(store)
                store.land()

    def _fit(self, descriptor: Descriptor, buffer: Buffer) -> None:
        if descriptor.block_shape != buffer.shape or descriptor.dtype != buffer.dtype:
            raise SimulationError(
                f"{descriptor.name} moves blocks of {descriptor.dtype} {descriptor.block_shape}, "
                f"and {buffer.name} is {buffer.dtype} {buffer.shape}."
            )


@dataclass(eq=False)
class Store:
    """A copy out of shared memory under way: its source is read first, and written later."""

    memory: Memory
    pending: Pending
    storage: Storage
    places: np.ndarray
    inside: np.ndarray
    sums: Sums | None
    """Where it is added, and not written to the storage."""
    values: np.ndarray | None = None
    """What was read from its source."""
    landed: bool = False

    def read(self) -> None:
        """Its source is free."""
        if self.values is None:
            self.values = self.pending.view[self.inside]
            self.memory.end(self.pending)

    def land(self) -> None:
        """Its data are in the tensor, once."""
        if not self.landed:
            if self.values is not None and self.sums is None:
                self.storage.write(self.places, self.values)
            elif self.values is not None and self.sums is not None:
                self.sums.add(self.places, self.values)
            self.landed = True


class AsyncCopyNames(ProgramNames):
    """Functions of `async_copy`: copies by threads (cp.async), in groups."""

    def async_load(
        self, smem: Buffer, pointer: Pointer, mask: Operand | None = None, **_: Constant
    ) -> None:
        memory = self._program.memory
        places, wanted = pointer.places(mask)
        smem.check_form([*places.shape], pointer.element)
        what = "no async_copy.commit_group stands behind it, so no async_copy.wait_group waits"
        pending = memory.begin("copied into", smem, what, by_threads=True)

        def land() -> None:
            block = np.zeros(places.shape, smem.array.dtype)
            block[wanted] = pointer.storage.read(places[wanted])
            smem.fill(block)
            memory.noted("written by store", smem)  # cp.async writes as threads do
            memory.end(pending)

        self._program.under_way.group.append((pending, land))

    def commit_group(self) -> None:
        under_way = self._program.under_way
        for pending, _ in under_way.group:
            pending.what = "nobody has waited with async_copy.wait_group"
        under_way.groups.append([land for _, land in under_way.group])
        under_way.group = []

    def wait_group(self, num_outstanding: SupportsIndex = 0) -> None:
        groups = self._program.under_way.groups
        while len(groups) > int(num_outstanding):
            for land in groups.pop(0):
                land()
