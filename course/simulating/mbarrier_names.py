"""`mbarrier` as a simulated kernel sees it."""

from collections.abc import Sequence
from typing import SupportsIndex

from triton.experimental.gluon.language.nvidia.hopper.mbarrier import MBarrierLayout

from .barriers import Barrier, Barriers
from .constants import unwrapped
from .faults import Lack
from .program import ProgramNames, kernel_frame
from .shared_memory import Buffer
from .values import Operand, plain


class MbarrierNames(ProgramNames):
    """Functions of `mbarrier`."""

    MBarrierLayout = MBarrierLayout

    def allocate_mbarrier(self, batch: int | None = None, two_ctas: bool = False) -> Barriers:
        name = self._program.assigned_name("a barrier")
        return Barriers.named(name, int(unwrapped(batch) or 1))

    def init(self, mbarrier: Barriers, count: SupportsIndex) -> None:
        mbarrier.one.init(int(count))

    def invalidate(self, mbarrier: Barriers) -> None:
        mbarrier.one.invalidate()

    def expect(
        self, mbarrier: Barriers, bytes_per_cta: SupportsIndex, pred: Operand = True
    ) -> None:
        if plain(pred):
            self._arrive(mbarrier.one, 1, int(bytes_per_cta))

    def arrive(self, mbarrier: Barriers, *, count: SupportsIndex = 1, pred: Operand = True) -> None:
        if plain(pred):
            self._arrive(mbarrier.one, int(count))

    def _arrive(self, barrier: Barrier, count: int, announced: int = 0) -> None:
        memory, turns = self._program.memory, self._program.turns
        memory.accesses.hand_over(barrier, turns.current)
        barrier.arrive(count, announced)
        turns.pause()

    def wait(
        self,
        mbarrier: Barriers,
        phase: SupportsIndex,
        pred: Operand = True,
        deps: Sequence[Buffer] = (),
    ) -> None:
        barrier, parity = mbarrier.one, int(phase)
        if not plain(pred):
            return
        line = kernel_frame().f_lineno

        def has_ended() -> bool:
            while not barrier.has_ended(parity) and barrier.copies:
                barrier.copies.pop(0)()  # as late as it may, and no more than the wait is for
            return barrier.has_ended(parity)

        has_ended()  # refuses a barrier that was never initialized, here and not in the schedule
        turns = self._program.turns

        def lacks() -> Lack:
            faults, words = barrier.waited_for(parity)
            return Lack(faults, f"{words} (line {line})")

        turns.wait(has_ended, lacks)
        self._program.memory.accesses.take_over(barrier, turns.current)
