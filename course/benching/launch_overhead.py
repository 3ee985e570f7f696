"""What a launch of a small kernel takes the CPU: through the JIT, as exported C, in a CUDA graph."""

import ctypes
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from course import MODE
from course.errors import CourseError
from course.gpus.timing import ROUNDS_OF_LAUNCHES, launch_us

from .api import require_gpu, this_machine
from .result import FOLDER, Machine, from_content, to_content

FILE = FOLDER / "observed" / "launches.json"
N_ELEMENTS = 1024
"""Of the vector add that is launched: one program, which the GPU computes faster than any CPU launches it."""
LAUNCHES = 200
"""In a row, and in the graph. They fit into the launch queue, so that none waits for the GPU."""
SIGNATURE, GRID = "*fp32:16, *fp32:16, *fp32:16, i32, 1024", "cdiv(n_elements, BLOCK_SIZE)"
LOOP = Path(__file__).with_name("launch_loop.c")


@dataclass(frozen=True)
class LaunchCosts:
    """One run on one machine. Prints as a table."""

    machine: Machine
    us: dict[str, float]
    """Way to launch -> median time on the CPU for one launch, in microseconds."""
    recorded: bool = False

    def __str__(self) -> str:
        width = max(map(len, self.us))
        lines = [f"{way:{width}}  {us:6.2f} us" for way, us in self.us.items()]
        return "\n".join(
            [*lines, f"{'Recorded' if self.recorded else 'Measured now'} on {self.machine}."]
        )

    __repr__ = __str__

    def to_json(self) -> str:
        return json.dumps(to_content(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "LaunchCosts":
        return from_content(cls, json.loads(text))


def launch_costs() -> LaunchCosts:
    """This machine's own in GPU mode; the recorded ones in CPU mode."""
    return measure_launches() if MODE.gpu else LaunchCosts.from_json(FILE.read_text())


def measure_launches() -> LaunchCosts:
    """Launch a vector add of N_ELEMENTS in every way. Raises CourseError in CPU mode, and where no C compiler is."""
    from course import aot
    from course.aot.building import compile_library
    from kernels.vector_add import add_kernel

    require_gpu()
    with tempfile.TemporaryDirectory(prefix="course-launches-") as folder:
        made = aot.export(add_kernel, SIGNATURE, GRID, "add", Path(folder) / "add", target=None)
        exported = aot.load(aot.build(made)).add
        loop = Path(folder) / "loop.so"
        flags = (
            f'-DSOURCE="{made.sources[0].name}"',
            f"-DLAUNCH={made.functions[0].name}",
            f"-I{folder}",
        )
        compile_library([LOOP], loop, *flags)
        from_c = ctypes.CDLL(str(loop))
    x, y, out = (torch.randn(N_ELEMENTS, device="cuda") for _ in range(3))

    def through_jit() -> None:
        add_kernel[(1,)](x, y, out, N_ELEMENTS, BLOCK_SIZE=1024)

    def through_load() -> None:
        exported(x, y, out, N_ELEMENTS)

    graph = torch.cuda.CUDAGraph()
    through_load()  # loads the kernel, which may not happen during a capture
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            through_load()
    return LaunchCosts(
        this_machine(),
        {
            "JIT: add_kernel[grid](…)": launch_us(through_jit),
            "torch.add(x, y, out=out)": launch_us(lambda: torch.add(x, y, out=out)),
            "exported C, called from Python": launch_us(through_load),
            "exported C, called from C": _from_c(from_c.us_exported, x, y, out),
            "    of this, the driver's cuLaunchKernel": _from_c(from_c.us_of_driver, x, y, out),
            f"CUDA graph of {LAUNCHES}, a launch of it": launch_us(graph.replay, at_most=5)
            / LAUNCHES,
        },
    )


def _from_c(us_a_launch: Any, *tensors: torch.Tensor) -> float:
    """What a function of LOOP returns, in the middle of several rounds. PyTorch has made the context current here."""
    us_a_launch.restype = ctypes.c_double
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    pointers = [ctypes.c_uint64(each.data_ptr()) for each in tensors]
    rounds = []
    for _ in range(ROUNDS_OF_LAUNCHES + 1):  # the first loads the kernel
        rounds.append(us_a_launch(stream, *pointers, N_ELEMENTS, LAUNCHES))
        torch.cuda.synchronize()
    if min(rounds) < 0:
        raise CourseError("A launch of the exported C failed.")
    return median(rounds[1:])
