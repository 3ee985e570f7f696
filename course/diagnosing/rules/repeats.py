"""The same bytes several times: within one block that a program loads, or by many programs."""

from collections.abc import Iterator
from dataclasses import replace

from course.gpus.limits import SECTOR_BYTES
from course.tracing.records import AccessCounts

from ..evidence import Evidence, l2_sectors
from ..gathers import values_behind
from ..result import Finding
from ..time_model import Work
from .tensor_cores import tile_of

SEVERAL = 2.0
"""How often a block asks for its sectors, or the programs for a tensor's bytes, from which on that
is named."""
LARGEST_SIDE = 64
"""Up to which a tile's side is advised to be doubled: from there on wgmma and registers decide."""


def shared_reads(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """Loads of what other programs load too, where L2 takes longest, and for their sake.

    A tensor that fits in L1 is left out: there one program finds what another has loaded. So are
    the loads of a loop around tl.dot, since every tile of a product shares its rows and columns
    with others: how often is a matter of the tile's size (`small_tiles`).
    """
    if work.longest[0] != "L2":
        return
    times = [(access, _times(evidence, access)) for access in evidence.accesses]
    shared = [(access, often) for access, often in times if often >= SEVERAL]
    if not shared:
        return
    loads = [access for access, _ in shared]
    lines = {(access.file, access.line) for access in loads}
    fewest = min(often for _, often in shared)
    instructions = evidence.instructions_without(lambda run: run.line in lines, 1 - 1 / fewest)
    mended = work
    for access, often in shared:
        mended = _without_loads(mended, [access], 1 - 1 / often)
    most, often = max(shared, key=lambda pair: l2_sectors(pair[0]))
    yield Finding(
        "shared reads",
        f"load {evidence.tensors(loads)}: each byte is loaded by {often:,.1f} programs on average, "
        f"from the L2 cache {round(sum(map(l2_sectors, loads))):,} sectors in all",
        f"{_who(evidence, most)}, and L2 takes longer to answer than memory to deliver.",
        "let one program serve several of them: a block that spans what they differ in (rows, "
        "heads), so that what it loads once is used for all of it.",
        mended=replace(mended, instructions=instructions),
        place=evidence.place(most),
    )


def small_tiles(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """Products whose tiles are so small that L2 takes longest to give their operands."""
    if work.longest[0] not in ("L2", "loads and stores"):
        return
    tile = tile_of(evidence)
    loads = [access for access in evidence.accesses if _around_dots(evidence, access)]
    if not (tile and loads):
        return
    # A tile of M x N loads a row of one operand for N elements, and a column of the other for M.
    larger = tuple(max(side, min(2 * side, LARGEST_SIDE)) for side in tile)
    share = sum(1 / side for side in larger) / sum(1 / side for side in tile)
    sectors = sum(map(l2_sectors, loads))
    before, after = (" x ".join(map(str, sides)) for sides in (tile, larger))
    yield Finding(
        "small tiles",
        f"tiles of {before}: their operands are {round(sectors):,} sectors from L2, "
        f"{sectors / work.memory_sectors:,.1f} for each that memory moves",
        "the smaller a tile of the result, the more tiles load the same rows and columns, and L2 "
        "takes longer to answer than memory to deliver.",
        f"tiles of {after}, which ask for {share:.0%} of that.",
        mended=_without_loads(work, loads, 1 - share),
        place=evidence.place(max(loads, key=l2_sectors)),
    )


def _without_loads(work: Work, loads: list[AccessCounts], part: float) -> Work:
    """The launch's work without a part of what these loads ask for."""
    return work.less(
        l2_sectors=part * sum(map(l2_sectors, loads)),
        l1_sectors=part * sum(each.sectors for each in loads),
        requests=part * sum(each.requests for each in loads),
    )


def _around_dots(evidence: Evidence, access: AccessCounts) -> bool:
    """Whether an access loads in a loop around tl.dot."""
    return access.kind == "load" and any(
        loop.dots and access.call in loop.loads for loop in evidence.loops
    )


def _times(evidence: Evidence, access: AccessCounts) -> float:
    """How many programs load each byte of a tensor; 0 if that is of no account."""
    tensor = evidence.argument(access)
    if access.kind != "load" or access.block < 2 or tensor is None:
        return 0
    size = tensor.numel() * tensor.element_size()
    if not size or size <= evidence.target.sm_shared_bytes or _around_dots(evidence, access):
        return 0
    # What a program has just loaded it loads again without asking another's. Where it uses a part
    # of each sector alone, others ask for the rest, and another rule names it.
    first = 1 - access.again / max(1, access.executions)
    return first * min(access.bytes, access.touched * SECTOR_BYTES) / size


def _who(evidence: Evidence, access: AccessCounts) -> str:
    """Which programs load the same, as the beginning of a sentence."""
    operations = evidence.touches.get((access.call, access.kind), [])
    used = {
        "xyz".index(value.text.split()[0])
        for operation in operations
        for value in values_behind(operation.operands[:1], beyond_loads=True)
        if value.operation == "tt.get_program_id"
    }
    sizes = enumerate(evidence.launch.grid)
    free = [f"axis {axis}" for axis, size in sizes if size > 1 and axis not in used]
    if free:
        return f"the address does not depend on {' and '.join(free)} of the grid"
    return "programs whose numbers differ come to the same addresses"


def repeated(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """Loads of blocks that hold rows more than once, as `(rows // 8)[:, None]` does.

    A gather is left out: what its places are is a matter of the data.
    """
    for access in evidence.accesses:
        times = _times_in_a_block(access)
        if times >= SEVERAL and not evidence.is_gather(access):
            yield _repeated(evidence, work, access, times)


def _repeated(evidence: Evidence, work: Work, access: AccessCounts, times: float) -> Finding:
    saved = 1 - 1 / times
    line = access.file, access.line
    instructions = evidence.instructions_without(
        lambda run: run.instruction.accesses and run.line == line, saved
    )
    less = work.less(l1_sectors=saved * access.sectors, requests=saved * access.requests)
    return Finding(
        "repeats",
        f"load {evidence.tensor(access)}: a block of {access.block:,} elements asks for each of "
        f"its sectors {times:,.1f} times",
        "threads ask for what another thread of the same program asks for too.",
        "load each element once, in a block of its own shape, and repeat it in registers, by "
        "broadcasting (x[:, None, :]) and tl.reshape.",
        mended=replace(less, instructions=instructions),
        place=evidence.place(access),
    )


def _times_in_a_block(access: AccessCounts) -> float:
    """How often the requests of one execution ask for the same bytes.

    Lanes of one request that do so are served together, and cost nothing.
    """
    if access.kind != "load" or access.block < 2 or not access.touched:
        return 0
    return min(access.bytes / (access.touched * SECTOR_BYTES), access.sectors / access.touched)
