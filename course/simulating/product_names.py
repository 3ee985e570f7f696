"""`warpgroup_mma`, its wait, and the fence, as a simulated kernel sees them."""

from typing import Any

import numpy as np

from .memory import Buffer
from .problems import SimulationError
from .program import Program
from .values import Block, plain


class ProductNames:
    def __init__(self, program: Program) -> None:
        self._program = program

    def fence_async_shared(self, cluster: bool = False) -> None:
        self._program.memory.unfenced.clear()

    def warpgroup_mma(
        self,
        a: Block | Buffer,
        b: Buffer,
        acc: Block,
        *,
        use_acc: Any = True,
        is_async: Any = False,
        **_: Any,
    ) -> Block:
        operands = [operand for operand in (a, b) if isinstance(operand, Buffer)]
        if a.shape[1] != b.shape[0] or [a.shape[0], b.shape[1]] != acc.shape:
            raise SimulationError(
                f"warpgroup_mma of {a.shape} and {b.shape} does not fit an accumulator of "
                f"{acc.shape}."
            )
        what = "nobody has waited for the product with warpgroup_mma_wait"
        pending = [self._program.memory.begin("multiplied", operand, what) for operand in operands]
        left = None if isinstance(a, Buffer) else a.values()
        out = Block(acc.array, acc.dtype, acc.layout)
        out.pending = True

        def end() -> None:
            x = np.asarray(a.array if left is None else left, np.float32)
            product = x @ np.asarray(b.array, np.float32)
            out.array = product + acc.array if plain(use_acc) else product
            out.pending = False
            for use in pending:
                self._program.memory.end(use)

        queue = self._program.own("products")
        queue.append(end)
        if not plain(is_async):
            self.warpgroup_mma_wait(0)
        self._program.turns.pause()
        return out

    def warpgroup_mma_wait(self, num_outstanding: Any = 0, deps: Any = None) -> Any:
        queue = self._program.own("products")
        while len(queue) > plain(num_outstanding):
            queue.pop(0)()
        self._program.turns.pause()
        if deps is not None:
            return deps[0] if len(deps) == 1 else tuple(deps)
        return None
