"""What a launch takes the CPU: through the JIT, as exported C, in a CUDA graph."""

import ctypes
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from course import MODE
from course.errors import CourseError
from course.gpus.recorded import Recorded, this_machine
from course.gpus.timing import launch_us
from course.table import numbers

from .api import require_gpu
from .result import observation

N_ELEMENTS = 1024
"""The vector add that is launched: one program, done sooner than any CPU launches the next."""
LAUNCHES = 200
"""In a row, and in the graph. They fit into the launch queue, so that none waits for the GPU."""
SIGNATURE, GRID = "*fp32:16, *fp32:16, *fp32:16, i32, 1024", "cdiv(n_elements, BLOCK_SIZE)"
LOOP = Path(__file__).with_name("launch_loop.c")


@dataclass(frozen=True, repr=False)
class LaunchCosts(Recorded):
    """One run on one machine. Prints as a table."""

    us: dict[str, float]
    """Way to launch -> median time on the CPU for one launch, in microseconds."""

    def __str__(self) -> str:
        return f"{numbers([(way, f'{us:6.2f} us') for way, us in self.us.items()])}\n{self.source}"


def launch_costs() -> LaunchCosts:
    """This machine's own in GPU mode; the recorded ones in CPU mode."""
    return measure_launches() if MODE.gpu else observation(LaunchCosts, "launches")


def measure_launches() -> LaunchCosts:
    """Launch a vector add of N_ELEMENTS in every way.

    Raises CourseError in CPU mode, and without a C compiler.
    """
    from course import aot
    from course.aot.c_compiler import compile_library
    from kernels.vector_add import add_kernel

    require_gpu()
    with tempfile.TemporaryDirectory(prefix="course-launches-") as folder:
        stem = Path(folder) / "add"
        exported = aot.export(add_kernel, SIGNATURE, GRID, "add", stem, target=None)
        add = aot.load(aot.build(exported)).add
        loop, source = Path(folder) / "loop.so", exported.sources[0].name
        launch = exported.functions[0].name
        compile_library([LOOP], loop, f'-DSOURCE="{source}"', f"-DLAUNCH={launch}", f"-I{folder}")
        in_c = ctypes.CDLL(str(loop))
    x, y, out = (torch.randn(N_ELEMENTS, device="cuda") for _ in range(3))

    def through_jit() -> None:
        add_kernel[(1,)](x, y, out, N_ELEMENTS, BLOCK_SIZE=1024)

    def through_load() -> None:
        add(x, y, out, N_ELEMENTS)

    def from_c(name: str) -> float:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        pointers = [ctypes.c_uint64(tensor.data_ptr()) for tensor in (x, y, out)]

        def call() -> None:
            if in_c[name](stream, *pointers, N_ELEMENTS, LAUNCHES):
                raise CourseError("A launch of the exported C failed.")

        return launch_us(call, at_most=1) / LAUNCHES

    graph = torch.cuda.CUDAGraph()
    through_load()  # loads the kernel, which may not happen during a capture
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            through_load()
    us = {
        "JIT: add_kernel[grid](…)": launch_us(through_jit),
        "torch.add(x, y, out=out)": launch_us(lambda: torch.add(x, y, out=out)),
        "exported C, called from Python": launch_us(through_load),
        "exported C, called from C": from_c("by_export"),
        "    of this, the driver's cuLaunchKernel": from_c("by_driver"),
        f"CUDA graph of {LAUNCHES}, a launch of it": launch_us(graph.replay, at_most=5) / LAUNCHES,
    }
    return LaunchCosts(machine=this_machine(), us=us)
