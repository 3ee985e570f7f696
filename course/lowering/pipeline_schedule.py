"""How the compiler pipelines a loop: at which of the loop's steps each operation works, and on
which iteration."""

import re
from dataclasses import dataclass

from course.errors import CourseError

from .passes import Passes

OPERATION = re.compile(r"^\s*(?:%(\w+)[^=]*= )?\"?([\w.]+)\"?\b.*loop\.stage = (\d+)")
LOADS = ("tt.load", "tt.descriptor_load", "tt.experimental_descriptor_load", "amdg.buffer_load")
DOTS = ("tt.dot", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "tt.dot_scaled")
STORES = ("tt.store", "tt.descriptor_store")


@dataclass(frozen=True)
class Scheduled:
    """An operation of a loop's body."""

    name: str
    """What it makes, as the TTGIR names it: after the kernel's variable."""
    operation: str
    stage: int
    """How many steps of the loop after its iteration began it works."""

    @property
    def kind(self) -> str:
        """load, dot, store, or nothing for the rest."""
        kinds = {
            **dict.fromkeys(LOADS, "load"),
            **dict.fromkeys(DOTS, "dot"),
            **dict.fromkeys(STORES, "store"),
        }
        return kinds.get(self.operation, "")


@dataclass(frozen=True)
class Schedule:
    """The operations of one loop. Where nothing is pipelined all are of stage 0."""

    operations: tuple[Scheduled, ...]

    @property
    def depth(self) -> int:
        """How many iterations are under way at a time."""
        return 1 + max((each.stage for each in self.operations), default=0)


def schedules(passes: Passes) -> list[Schedule]:
    """The schedule of every innermost loop that loads or multiplies, in order. Raises CourseError
    where there is none."""
    planned = [each for each in passes if "loop.stage" in each.before]
    if planned:
        found = _loops(planned[-1].before)
    else:  # nothing was pipelined: the loops as they stand where that would have happened
        found = _loops(
            next((each.before for each in passes if each.name.endswith("pipeline")), ""),
            unplanned=True,
        )
    found = [
        each
        for each in found
        if any(operation.kind in ("load", "dot") for operation in each.operations)
    ]
    if not found:
        raise CourseError(
            "This kernel has no loop that loads or multiplies, so there is nothing to pipeline."
        )
    return found


def _loops(text: str, unplanned: bool = False) -> list[Schedule]:
    done: list[Schedule] = []
    open_loops: list[tuple[int, list[Scheduled]]] = []
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        while open_loops and indent <= open_loops[-1][0] and line.strip().startswith("}"):
            operations = open_loops.pop()[1]
            if operations:
                done.append(Schedule(tuple(operations)))
        if "scf.for" in line:
            open_loops.append((indent, []))
        elif open_loops and (match := OPERATION.match(line)):
            open_loops[-1][1].append(Scheduled(match[1] or "", match[2], int(match[3])))
        elif (
            open_loops
            and unplanned
            and (match := re.match(r"^\s*(?:%(\w+)[^=]*= )?([\w.]+)\b", line))
        ):
            open_loops[-1][1].append(Scheduled(match[1] or "", match[2], 0))
    return done
