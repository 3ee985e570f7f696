"""The same bytes asked of the L2 cache by many programs."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from course.gpus.limits import SECTOR_BYTES
from course.lowering.call_sites import CallSites
from course.lowering.ttir_values import Value, Values
from course.tracing.records import AccessCounts

from ..evidence import Evidence, l2_sectors
from ..result import LEAST_GAIN, Finding
from .tensor_cores import tile_of

SEVERAL = 2.0
"""How often the programs ask for a tensor's bytes, from which on it is named."""
LARGEST_SIDE = 64
"""Up to which a tile's side is advised to be doubled: from there on wgmma and registers decide."""


def shared_reads(evidence: Evidence) -> Iterator[Finding]:
    """Loads of what other programs load too, where L2 takes longest, and for their sake.

    A tensor that fits in L1 is left out: there one program finds what another has loaded. So are
    the loads of a loop around tl.dot, since every tile of a product shares its rows and columns
    with others: how often is a matter of the tile's size (`small_tiles`).
    """
    work = evidence.work
    if work is None or work.longest[0] != "L2":
        return
    shared = {
        id(access): (access, times)
        for access in evidence.accesses
        if (times := _times(evidence, access)) >= SEVERAL
    }
    if not shared:
        return
    loads = [access for access, _ in shared.values()]
    saved = {key: 1 - 1 / times for key, (_, times) in shared.items()}
    mended = replace(
        work,
        l2_sectors=work.l2_sectors - sum(saved[id(each)] * l2_sectors(each) for each in loads),
        l1_sectors=work.l1_sectors - sum(saved[id(each)] * each.sectors for each in loads),
        requests=work.requests - sum(saved[id(each)] * each.requests for each in loads),
        instructions=_instructions(evidence, loads, min(times for _, times in shared.values())),
    )
    if work.us / mended.us < LEAST_GAIN:
        return
    most, times = max(shared.values(), key=lambda each: l2_sectors(each[0]))
    names = " and ".join(dict.fromkeys(evidence.tensor(access) for access in loads))
    yield Finding(
        cause="shared reads",
        what=(
            f"load {names}: each byte is loaded by {times:,.1f} programs on average, from the L2 "
            f"cache {round(sum(map(l2_sectors, loads))):,} sectors in all"
        ),
        why=f"{_who(evidence, most)}, and L2 takes longer to answer than memory to deliver.",
        change=(
            "let one program serve several of them: a block that spans what they differ in (rows, "
            "heads), so that what it loads once is used for all of it."
        ),
        mended=mended,
        line=most.line,
        text=evidence.text(most.file, most.line),
    )


def small_tiles(evidence: Evidence) -> Iterator[Finding]:
    """Products whose tiles are so small that L2 takes longest to give their operands."""
    work, tile = evidence.work, tile_of(evidence)
    loads = [access for access in evidence.accesses if _around_dots(evidence, access)]
    if work is None or work.longest[0] not in ("L2", "loads and stores") or not (tile and loads):
        return
    # A tile of M x N loads a row of one operand for N elements, and a column of the other for M.
    larger = tuple(max(side, min(2 * side, LARGEST_SIDE)) for side in tile)
    share = sum(1 / side for side in larger) / sum(1 / side for side in tile)
    mended = replace(
        work,
        l2_sectors=work.l2_sectors - (1 - share) * sum(map(l2_sectors, loads)),
        l1_sectors=work.l1_sectors - (1 - share) * sum(each.sectors for each in loads),
        requests=work.requests - (1 - share) * sum(each.requests for each in loads),
    )
    if work.us / mended.us < LEAST_GAIN:
        return
    most = max(loads, key=l2_sectors)
    before, after = (" x ".join(map(str, sides)) for sides in (tile, larger))
    yield Finding(
        cause="small tiles",
        what=(
            f"tiles of {before}: their operands are {round(sum(map(l2_sectors, loads))):,} sectors "
            f"from L2, {sum(map(l2_sectors, loads)) / work.memory_sectors:,.1f} for each that "
            "memory moves"
        ),
        why=(
            "the smaller a tile of the result, the more tiles load the same rows and columns, and "
            "L2 takes longer to answer than memory to deliver."
        ),
        change=f"tiles of {after}, which ask for {share:.0%} of that.",
        mended=mended,
        line=most.line,
        text=evidence.text(most.file, most.line),
    )


def _around_dots(evidence: Evidence, access: AccessCounts) -> bool:
    """Whether an access loads in a loop around tl.dot."""
    return access.kind == "load" and any(
        loop.dots and access.call in {*loop.plain, *loop.ahead} for loop in evidence.loops
    )


def _times(evidence: Evidence, access: AccessCounts) -> float:
    """How many programs load each byte of a tensor; 0 if that is of no account."""
    tensor = evidence.launch.arguments().get(evidence.tensor(access))
    if access.kind != "load" or access.block < 2 or not isinstance(tensor, torch.Tensor):
        return 0
    if _around_dots(evidence, access):
        return 0
    size = tensor.numel() * tensor.element_size()
    if not size or size <= evidence.target.sm_shared_bytes:
        return 0
    # Where a program uses a part of each sector alone, others ask for the rest, and another rule
    # names it.
    return min(access.bytes, access.touched * SECTOR_BYTES) / size


def _instructions(evidence: Evidence, loads: list[AccessCounts], times: float) -> dict[str, float]:
    """The launch's instructions once the lines that load run fewer times."""
    executed, work = evidence.executed, evidence.work
    assert work is not None
    if executed is None:
        return work.instructions
    lines = {(access.file, access.line) for access in loads}
    return evidence.instructions_without(
        lambda instruction, _: executed.line(instruction) in lines, 1 - 1 / times
    )


def _who(evidence: Evidence, access: AccessCounts) -> str:
    """Which programs load the same, as the beginning of a sentence."""
    free = [
        f"axis {axis}"
        for axis, size in enumerate(evidence.launch.grid)
        if size > 1 and axis not in _axes(evidence, access)
    ]
    if free:
        return f"the address does not depend on {' and '.join(free)} of the grid"
    return "programs whose numbers differ come to the same addresses"


def _axes(evidence: Evidence, access: AccessCounts) -> set[int]:
    """The axes of the grid that an access's addresses are computed from."""
    lowered = evidence.lowered
    calls, chains = CallSites(lowered.listing), dict(lowered.lines.places("ttir"))
    axes: set[int] = set()
    for row, value in Values(lowered.ttir).accesses:
        if row in chains and calls.path(chains[row], access.kind)[0] == access.call:
            axes |= _program_ids(value.operands[0])
    return axes


def _program_ids(value: Value) -> set[int]:
    """The axes of the program numbers behind a value."""
    axes, seen, left = set(), {id(value)}, [value]
    while left:
        each = left.pop()
        if each.operation == "tt.get_program_id":
            axes.add("xyz".index(each.text.split()[0]))
        for operand in each.operands:
            if id(operand) not in seen:
                seen.add(id(operand))
                left.append(operand)
    return axes
