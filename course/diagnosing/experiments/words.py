"""What is said of an experiment that no rule explains."""

from ..rules.instructions import NARROW_DIVISION, NO_DIVISION
from .ptx_variants import ADDRESSES, DIVISIONS, ORDER

WORDS = {
    "loads": (
        "the loads",
        "what is loaded, or the wait for it, takes so long; the bytes alone would not.",
        "load fewer bytes, each once, and several blocks before the first is used.",
    ),
    "stores": (
        "the stores",
        "what is stored takes so long; the bytes alone would not.",
        "store what lies together by one instruction, along the axis whose stride is 1.",
    ),
    "atomics": (
        "the atomics",
        "updates of one place go one after the other, wherever they come from.",
        "add up inside a program what goes to one place, and update it once.",
    ),
    "memory": (
        "the loads and stores",
        "taking out one of them saves little, since the other takes as long.",
        "let neighbors of a block lie together in memory, for loads and for stores.",
    ),
    ADDRESSES: (
        "loads and the arithmetic for their addresses",
        "where neighbors of a block lie apart, each needs an address of its own: computing them "
        "takes longer than loading.",
        "let the last index of the block go along the axis whose stride is 1, and compute once "
        "what addresses have in common.",
    ),
    ORDER: (
        "",
        "programs that run at the same time share what the L2 cache holds: in this order it is "
        "read from memory again.",
        "let programs that load the same bytes follow one another in the grid.",
    ),
    "waiting": (
        "programs that wait for a lock",
        "while one program holds it, the others stand still.",
        "take it less often: let a program add up all its rows before it takes the lock once.",
    ),
    "products": (
        "the products of tl.dot",
        "they take so long although loads and stores go on beside them.",
        "take larger tiles, other numbers of warps or stages, or operands of fewer bits.",
    ),
    "exchange": (
        "what threads give to one another",
        "values go through shared memory or from lane to lane, and warps wait at barriers for it.",
        "reduce once after the loop, keep partial results in each thread, or take fewer warps.",
    ),
    "math": (
        "divisions, roots and exponentials",
        "each takes several instructions, on a unit that gives few results in a clock.",
        "multiply by a reciprocal, take tl.exp2 of a scaled argument, and compute once what a row "
        "or a column shares.",
    ),
    "arithmetic": (
        "the arithmetic",
        "its instructions take longer to issue than memory takes.",
        "compute once what does not change, and let one result serve several elements.",
    ),
    "idle multiprocessors": (
        "multiprocessors that have no program",
        "a program runs on one multiprocessor: those without one wait for the last to end.",
        "start more programs, all of about the same length.",
    ),
    "starting programs": (
        "starting and ending programs",
        "a launch of as many programs that do nothing takes this long.",
        "take larger blocks, or several blocks or rows for each program, or fewer warps.",
    ),
    "num_warps": (
        "",
        "the number of warps decides what a thread holds, and how many wait for one another.",
        "give the launch that number of warps.",
    ),
    "num_stages": (
        "",
        "the number of stages decides how many loads are under way at a time, and what they take "
        "of shared memory.",
        "give the launch that number of stages.",
    ),
    "float32": (
        "",
        "float64 is computed at half the rate of float32 at best, its divisions and roots far "
        "slower.",
        "compute in float32 what need not be float64.",
    ),
    DIVISIONS: ("", NO_DIVISION, NARROW_DIVISION),
    "relaxed": (
        "",
        "an atomic acquires and releases unless it is told not to, and waits for what was stored.",
        'write sem="relaxed", where the atomics hand over nothing else that was stored.',
    ),
}
"""A kind of experiment -> its subject, the reason, and the change to try. A change of a
parameter has no subject: it is named itself."""
