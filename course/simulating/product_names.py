"""`warpgroup_mma`, its wait, and the fence, as a simulated kernel sees them."""

from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np
from triton.experimental.gluon import language as gl

from .constants import Constant
from .faults import HazardError, SimulationError
from .program import ProgramNames
from .shared_memory import Buffer
from .values import Block, Operand, plain, rounded


class Product(Block):
    """What an asynchronous warpgroup_mma gives: no value, until it has been waited for."""

    def __init__(self, accumulator: Block) -> None:
        super().__init__(np.empty(accumulator.shape), accumulator.dtype, accumulator.layout)
        self.ended = False

    def values(self) -> np.ndarray:
        raise HazardError(
            "A product is used before warpgroup_mma_wait has returned it: take what "
            "warpgroup_mma_wait(…, deps=[…]) gives.",
            "no product wait",
        )


def _as_read(array: np.ndarray, dtype: gl.dtype) -> np.ndarray:
    """An operand as tensor cores read it: of float32 the bits that TF32 has."""
    if dtype != gl.float32:
        return array
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFF_E000)).view(np.float32)


class ProductNames(ProgramNames):
    """Functions of `hopper` itself: products of tensor cores, and the fence they need."""

    def fence_async_shared(self, cluster: bool = False) -> None:
        self._program.memory.accesses.fence(self._program.turns.current)

    def warpgroup_mma(
        self,
        a: Block | Buffer,
        b: Buffer,
        acc: Block,
        *,
        use_acc: Operand = True,
        is_async: Operand = False,
        **_: Constant,
    ) -> Block:
        operands = [operand for operand in (a, b) if isinstance(operand, Buffer)]
        if a.shape[1] != b.shape[0] or [a.shape[0], b.shape[1]] != acc.shape:
            raise SimulationError(
                f"warpgroup_mma of {a.shape} and {b.shape} does not fit an accumulator of "
                f"{acc.shape}."
            )
        if a.dtype != b.dtype:
            raise SimulationError(
                f"warpgroup_mma takes two operands of one type, and was given {a.dtype} and "
                f"{b.dtype}."
            )
        what = "nobody has waited for the product with warpgroup_mma_wait"
        pending = [self._program.memory.begin("multiplied", operand, what) for operand in operands]
        left = None if isinstance(a, Buffer) else a.values()
        computed = np.int32 if acc.dtype == gl.int32 else np.float32
        added, out = bool(plain(use_acc)), Product(acc)

        def end() -> None:
            x = _as_read(a.array if left is None else left, a.dtype).astype(computed)
            product = x @ _as_read(b.array, b.dtype).astype(computed)
            out.array = rounded(product + acc.array if added else product, acc.dtype)
            out.ended = True
            for use in pending:
                self._program.memory.end(use)

        self._program.under_way.products.append(end)
        result = out if plain(is_async) else self._wait(0, [out])[0]
        self._program.turns.pause()
        return result

    def warpgroup_mma_wait(
        self, num_outstanding: SupportsIndex = 0, deps: Sequence[Block] | None = None
    ) -> Block | tuple[Block, ...]:
        if not deps:
            raise SimulationError(
                "warpgroup_mma_wait needs the products that it returns: deps=[product]."
            )
        results = self._wait(int(num_outstanding), deps)
        return results[0] if len(results) == 1 else results

    def _wait(self, num_outstanding: int, deps: Sequence[Block]) -> tuple[Block, ...]:
        """`deps`, with its products as values where they have ended."""
        queue = self._program.under_way.products
        while len(queue) > num_outstanding:
            queue.pop(0)()
        self._program.turns.pause()
        return tuple(
            Block(each.array, each.dtype, each.layout)
            if isinstance(each, Product) and each.ended
            else each
            for each in deps
        )
