"""How many results of an instruction a multiprocessor gives in a clock, by the unit that gives it.

From the table of throughputs of native arithmetic instructions in NVIDIA's CUDA programming guide
(from version 13 on in the best practices guide), for compute capabilities 7.5 to 12.0. Float32 and
float64 are taken from a GPU's published peaks, which the same table's numbers make. An instruction
of a warp gives 32 results, so a unit that gives 16 in a clock is busy with it for two clocks.

Left out: what the guide does not tell apart (a multiplication of 64 bits takes longer than one of
32), and units that share their hardware.
"""

from .limits import Target
from .peaks import Gpu

WARP = 32
ISSUED = 4
"""Instructions that the four schedulers of a multiprocessor issue in a clock together."""

FLOAT32, FLOAT64, FLOAT16 = "float32", "float64", "float16"
INTEGER, MULTIPLY = "integer and logic", "integer multiplication"
SPECIAL, CONVERSION, WIDE_CONVERSION = "special functions", "conversion", "64-bit conversion"
SHUFFLE, SHARED, LOCAL, GLOBAL = "shuffles", "shared memory", "local memory", "global memory"
OTHER = "other"
"""Branches, barriers, constants and what one instruction does for the whole warp."""


def results_a_clock(unit: str, gpu: Gpu, target: Target) -> float:
    """Results of a unit in a clock of one multiprocessor; 0 where the issue alone limits it."""
    capability = target.capability
    if unit in (FLOAT32, FLOAT64):
        rate = gpu.vector_rate("fp32" if unit == FLOAT32 else "fp64")
        # A fused multiply-add counts as two operations, and is one result.
        return rate * 1e6 / 2 / (gpu.multiprocessors * gpu.clock_mhz) if gpu.clock_mhz else 0
    if unit == FLOAT16:  # two halves in each result
        return 128 if capability in (80, 90) else 64
    if unit == WIDE_CONVERSION:
        return 2 if capability in (75, 86, 87, 89, 120) else 16
    if unit == INTEGER:
        return 64
    return {MULTIPLY: 64, SPECIAL: 16, CONVERSION: 64, SHUFFLE: 32, SHARED: 32}.get(unit, 0)


def clocks(units: dict[str, float], gpu: Gpu, target: Target) -> tuple[float, str]:
    """The clocks that one multiprocessor takes for instructions of warps, counted by unit, and what
    takes them: the busiest unit, or "issue"."""
    needed = {"issue": sum(units.values()) / ISSUED}
    for unit, count in units.items():
        if rate := results_a_clock(unit, gpu, target):
            needed[unit] = count * WARP / rate
    busiest = max(needed, key=lambda unit: needed[unit])
    return needed[busiest], busiest
