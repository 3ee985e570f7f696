"""Code that may crash, hang or fill the memory runs in a process of its own; how it ended is a
value.

@runs_in("compile", timeout_s=120)
def registers_of(kernel: KernelReference, target: str) -> Registers: ...

registers_of(kernel, "sm_90")           # in a child: the value, or a CourseError
registers_of.ended(kernel, "sm_90")     # how the child ended
"""

from .border import ChildError, runs_in
from .ended import ChildKind, Ended
from .pool import UnreadableError, cancel, warm

__all__ = ["ChildError", "ChildKind", "Ended", "UnreadableError", "cancel", "runs_in", "warm"]
