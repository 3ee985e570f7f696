"""`tma` and `async_copy` as a simulated kernel sees them."""

from typing import Any

import numpy as np

from .barriers import Barriers
from .memory import Buffer
from .problems import SimulationError
from .program import Program
from .tensors import Descriptor
from .values import Pointer, plain


class TmaNames:
    def __init__(self, program: Program) -> None:
        self._program = program

    def async_load(
        self,
        tensor_desc: Descriptor,
        coord: Any,
        barrier: Barriers,
        result: Buffer,
        pred: Any = True,
        **_: Any,
    ) -> None:
        if not plain(pred):
            return
        self._fit(tensor_desc, result)
        signaled, memory = barrier.one, self._program.memory
        places, inside = tensor_desc.places(coord)
        pending = memory.begin(
            "copied into", result, f"nobody has waited for {signaled.name} since the copy began"
        )

        def land() -> None:
            result.fill(np.where(inside, tensor_desc.storage[np.where(inside, places, 0)], 0))
            memory.end(pending)
            signaled.came(tensor_desc.nbytes_per_cta)

        signaled.copies.append(land)
        self._program.turns.pause()

    def async_store(
        self, tensor_desc: Descriptor, coord: Any, src: Buffer, cache_policy: Any = None
    ) -> None:
        self._fit(tensor_desc, src)
        memory = self._program.memory
        places, inside = tensor_desc.places(coord)
        pending = memory.begin("copied out", src, "nobody has waited with tma.store_wait")

        def land() -> None:
            tensor_desc.storage[places[inside]] = src.array[inside]
            memory.end(pending)

        self._program.own("stores").append(land)
        self._program.turns.pause()

    def store_wait(self, pendings: Any, read_only: bool = True) -> None:
        queue = self._program.own("stores")
        while len(queue) > plain(pendings):
            queue.pop(0)()

    def _fit(self, descriptor: Descriptor, buffer: Buffer) -> None:
        if descriptor.block_shape != buffer.shape:
            raise SimulationError(
                f"{descriptor.name} moves blocks of {descriptor.block_shape}, and {buffer.name} "
                f"has the shape {buffer.shape}."
            )


class AsyncCopyNames:
    """Copies by threads (cp.async), in groups."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def async_load(self, smem: Buffer, pointer: Pointer, mask: Any = None, **_: Any) -> None:
        memory = self._program.memory
        places, wanted = pointer.places(mask)
        pending = memory.begin("copied into", smem, "nobody has waited with async_copy.wait_group")

        def land() -> None:
            smem.fill(np.where(wanted, pointer.storage[np.where(wanted, places, 0)], 0))
            memory.unfenced.append(smem.array)  # written as threads write
            memory.end(pending)

        self._program.own("group").append(land)

    def commit_group(self) -> None:
        copies = self._program.own("group")[:]
        self._program.own("group").clear()
        self._program.own("groups").append(lambda: [land() for land in copies])

    def wait_group(self, num_outstanding: Any = 0) -> None:
        groups = self._program.own("groups")
        while len(groups) > plain(num_outstanding):
            groups.pop(0)()
