"""`mbarrier` as a simulated kernel sees it."""

from typing import Any

import numpy as np

from .barriers import Barrier, Barriers
from .program import Program, kernel_frame
from .values import plain


class MbarrierNames:
    """Functions of `mbarrier`."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def allocate_mbarrier(self, batch: Any = None, two_ctas: bool = False) -> Barriers:
        name = self._program.assigned_name("a barrier")
        count = plain(batch) or 1
        names = [name] if plain(batch) is None else [f"{name}[{i}]" for i in range(count)]
        barriers = np.empty(count, object)
        barriers[:] = [Barrier(each) for each in names]
        return Barriers(barriers, name)

    def init(self, mbarrier: Barriers, count: Any) -> None:
        mbarrier.one.init(plain(count))

    def invalidate(self, mbarrier: Barriers) -> None:
        mbarrier.one.count = 0

    def expect(self, mbarrier: Barriers, bytes_per_cta: Any, pred: Any = True) -> None:
        if plain(pred):
            self._arrive(mbarrier.one, 1, plain(bytes_per_cta))

    def arrive(self, mbarrier: Barriers, *, count: Any = 1, pred: Any = True) -> None:
        if plain(pred):
            self._arrive(mbarrier.one, plain(count))

    def _arrive(self, barrier: Barrier, count: int, announced: int = 0) -> None:
        memory, turns = self._program.memory, self._program.turns
        memory.accesses.hand_over(barrier, turns.current)
        barrier.arrive(count, announced)
        turns.pause()

    def wait(self, mbarrier: Barriers, phase: Any, pred: Any = True, deps: Any = ()) -> None:
        barrier, phase = mbarrier.one, int(plain(phase))
        if not plain(pred):
            return
        line = kernel_frame().f_lineno

        def has_ended() -> bool:
            while not barrier.has_ended(phase) and barrier.copies:
                barrier.copies.pop(0)()  # as late as it may, and no more than the wait is for
            return barrier.has_ended(phase)

        has_ended()  # refuses a barrier that was never initialized, here and not in the schedule
        turns = self._program.turns
        turns.wait(has_ended, lambda: f"{barrier.waited_for(phase)} (line {line})")
        self._program.memory.accesses.take_over(barrier, turns.current)
