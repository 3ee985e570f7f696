"""The exercises on the topic "vector add"."""

import torch
import triton

from course.exercises.kinds import (
    ChoiceExercise,
    KernelExercise,
    LauncherExercise,
    NumberExercise,
    TextExercise,
)
from course.type_names import Kernel
from course.verifying.inputs import Case, Input


def _vector(n: int, *scalars: float, layout: str = "contiguous") -> Case:
    return Case((Input((n,), layout=layout),), seed=n, scalars=scalars)


def _block(x: torch.Tensor) -> int:
    """Not the same for all cases, so that a kernel must go by what it is given."""
    return 128 if x.numel() < 500 else 256


def _grid(x: torch.Tensor) -> tuple[int]:
    return (triton.cdiv(x.numel(), _block(x)),)


def _fill(kernel: Kernel, x: torch.Tensor, value: float) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel[_grid(x)](out, value, x.numel(), BLOCK_SIZE=_block(x))
    return out


def _reverse(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel[_grid(x)](x, out, x.numel(), BLOCK_SIZE=_block(x))
    return out


def _gates(
    n: int, layout: str = "contiguous", dtype: torch.dtype = torch.float32, values: str = "normal"
) -> Case:
    """A gate of this length, and what passes it, which is contiguous."""
    return Case((Input((n,), dtype, layout, values), Input((n,), dtype)), seed=n)


STRIDED_UP = Case((Input((777,)), Input((777,), layout="every second element")), seed=777)
"""A contiguous gate, and what passes it, which is not."""


EXERCISES = (
    KernelExercise(
        "fill-a-vector",
        parameters=("out_ptr", "value", "n_elements", "BLOCK_SIZE"),
        reference=torch.full_like,
        cases=tuple(
            _vector(n, value)
            for n, value in ((300, 0.1), (128, -1.0), (1, 7.0), (129, 0.0), (2200, 1.0))
        ),
        launch=_fill,
        own_elements=True,
        # Lanes past the end may write the last element again.
        most_bytes=lambda x, value: x.nbytes + 4 * 128,
    ),
    LauncherExercise(
        "scale-and-shift",
        parameters=("x", "a", "b"),
        reference=lambda x, a, b: a * x + b,
        slips={
            "a and b change places": lambda x, a, b: b * x + a,
            "b is added before a multiplies": lambda x, a, b: a * (x + b),
        },
        cases=(
            *(_vector(n, 2.0, -0.5) for n in (1025, 5000, 1024, 1, 127)),
            _vector(300, 0.0, 3.0), _vector(777, -1.5, 0.25, layout="every second element"),
            _vector(777, 4.0, 1.0, layout="offset by one element"),
        ),
        own_elements=True,
        longer=lambda n: _vector(n + 1, 2.0, -0.5),
        absolute=1e-6,  # a * x and b cancel
    ),
    KernelExercise(
        "reversed-vector",
        parameters=("x_ptr", "out_ptr", "n_elements", "BLOCK_SIZE"),
        reference=lambda x: x.flip(0),
        slips={"nothing is reversed": lambda x: x},
        cases=tuple(_vector(n) for n in (300, 128, 1, 127, 1000)),
        launch=_reverse,
        own_elements=True,
    ),
    LauncherExercise(
        "every-other-backwards",
        parameters=("x",),
        reference=lambda x: x.flip(0)[::2],
        slips={
            "no element is left out: it takes them backwards, one after the other":
            lambda x: x.flip(0)[: (len(x) + 1) // 2],
            "it begins at the front": lambda x: x[::2],
        },
        cases=tuple(_vector(n) for n in (1025, 5000, 1024, 1, 2, 7)),
        own_elements=True,
        longer=lambda n: _vector(2 * n + 1),
        may_copy=False,
    ),
    TextExercise(
        "very-long-vector",
        accepts=(
            "i64", "n_elements: i64", "n_elements: i64, divisible by 16", "i64, divisible by 16",
        ),
        because="It does not fit 32 bits, so it is another type, and another compiled kernel.",
        slips={
            "i32": "The largest i32 is 2,147,483,647.",
            "u32": "Triton takes the smallest of i32 and i64 that holds the number, and u64 "
            "above that.",
            "int64": "Triton writes it shorter.",
            "constexpr": "Only an integer equal to 1 becomes a constant.",
            "*i64": "The star is for a pointer, and n_elements is a number.",
        },
    ),
    NumberExercise(
        "count-bytes",
        right=2 * 2 * 2**26 / 1e6,
        unit="MB",
        because="2 bytes are read and 2 written for each element; a and b are two numbers and "
        "no vectors.",
        slips={
            2 * 2**26 / 1e6: "One way only: the vector is read, and the result is written.",
            3 * 2 * 2**26 / 1e6: "Three vectors would be too many: only x is read, and the "
            "result written.",
            2 * 4 * 2**26 / 1e6: "That is float32. A bfloat16 has 2 bytes.",
            2 * 2 * 2**26 / 2**20: "Those are MiB, of 2^20 bytes. A MB has 10^6.",
        },
    ),
    NumberExercise(
        "least-time",
        right=4 * 4 * 2**24 / 4.25e12 * 1e6,
        unit="microseconds",
        because="Three vectors are read and one is written: 16 bytes per element.",
        slips={
            3 * 4 * 2**24 / 4.25e12 * 1e6: "One vector is missing: three are read and one is "
            "written.",
            4 * 2**24 / 4.25e12 * 1e6: "That is one vector. Three are read and one is written.",
            6 * 4 * 2**24 / 4.25e12 * 1e6: "That is two kernels: one addition written to "
            "memory, then the other. One kernel does both.",
        },
    ),
    ChoiceExercise(
        "what-takes-time",
        right="c",
        why={
            "a": "What fits the cache is faster to reach, not slower.",
            "b": "4,096 elements leave far more of them idle, with four programs, and take just "
            "as long.",
            "c": "From 4,096 elements to 65,536 the time hardly changes: it is the launch, not "
            "the work.",
            "d": "It is compiled in the first call only, and that takes about a second, not "
            "microseconds.",
        },
    ),
    ChoiceExercise(
        "which-fall",
        right="b",
        why={
            "a": "Registers are there to be used. What counts is how many warps fit beside each "
            "other, and whether all values fit into a thread's registers.",
            "b": "Only there do threads spill thousands of bytes. At the other two points few "
            "warps fit: an occupancy of 12.5 % and of 25 %.",
            "c": "16 warps at 32,768 spill 4 bytes per thread, which is one register. That is "
            "nothing beside the 2 x 64 values that the thread reads; look at its occupancy.",
            "d": "The occupancy only says how many warps fit. These warps are busy writing values "
            "to memory and reading them back.",
        },
    ),
    LauncherExercise(
        "gate-in-one-pass",
        parameters=("gate", "up"),
        reference=lambda gate, up: gate * torch.sigmoid(gate) * up,
        slips={
            "the sigmoid is not multiplied by the gate": lambda gate, up: torch.sigmoid(gate) * up,
            "gate and up change places": lambda gate, up: up * torch.sigmoid(up) * gate,
        },
        cases=(
            *(_gates(n) for n in (1025, 5000, 1024, 1)), _gates(777, "every second element"),
            _gates(901, dtype=torch.float16), _gates(300, values="below zero"),
            STRIDED_UP, _gates(301, values="far apart"),
        ),
        longer=lambda n: _gates(n + 1),
        most_launches=1,
        most_bytes=lambda gate, up: 3 * gate.nbytes,
    ),
)  # fmt: skip
