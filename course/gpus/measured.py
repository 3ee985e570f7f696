"""The machine a kernel runs on: sizes as the driver reports them, speeds as measured."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
import triton
import triton.language as tl

from course import MODE

from .recorded import Recorded, this_machine
from .timing import copy_tb_s, repeated_ms

FOLDER = Path(__file__).parent / "recorded"
SHOWN_WITHOUT_GPU = "NVIDIA H200"


Speed = Annotated[float, msgspec.Meta(gt=0)]


def file_name(gpu: str) -> str:
    """The name of the file that holds a GPU's recorded facts: nvidia-h200.json."""
    return gpu.lower().replace(" ", "-") + ".json"


@dataclass(frozen=True, repr=False)
class GpuFacts(Recorded):
    """Sizes and speeds of one GPU. Prints as a table."""

    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    shared_bytes: int
    """Shared memory of one multiprocessor."""
    register_bytes: int
    """Registers of one multiprocessor."""
    warps: int
    """The most warps that one multiprocessor holds at a time."""
    memory_tb_s: Speed
    """A large copy: bytes read and written."""
    l2_tb_s: Speed
    """Many programs reading the same 8 MiB again and again, or the half of a smaller L2 cache."""
    matmul_tflop_s: Speed
    """8,192 x 8,192 x 8,192 in float16, by PyTorch's library."""
    bf16_matmul_tflop_s: Speed | None = None
    """The same in bfloat16; None where the GPU lacks it, and in older records."""

    def __str__(self) -> str:
        product = f"{self.matmul_tflop_s:.0f} TFLOP/s, float16 matrix product"
        copy = f"{self.memory_tb_s:.1f} TB/s, read and written"
        rows = [
            ("device memory", f"{self.memory_bytes / 2**30:.0f} GiB", copy),
            ("L2 cache", f"{self.l2_bytes / 2**20:.0f} MiB", f"{self.l2_tb_s:.1f} TB/s, read"),
            ("multiprocessors", str(self.multiprocessors), product),
            ("  shared memory in each", f"{self.shared_bytes / 2**10:.0f} KiB", ""),
            ("  registers in each", f"{self.register_bytes / 2**10:.0f} KiB", ""),
            ("  warps in each, at most", str(self.warps), "32 threads a warp"),
        ]
        if (rate := self.bf16_matmul_tflop_s) is not None:
            rows.insert(3, ("", "", f"{rate:.0f} TFLOP/s, bfloat16 matrix product"))
        lines = [f"{what:26}{size:>10}   {speed}".rstrip() for what, size, speed in rows]
        return "\n".join([*lines, self.source])


def gpu_facts() -> GpuFacts:
    """This GPU's facts in GPU mode, in two seconds or so; those of an H200 in CPU mode."""
    return measure_gpu() if MODE.gpu else recorded_facts()


def recorded_facts() -> GpuFacts:
    """The recorded facts of an H200."""
    return GpuFacts.from_json((FOLDER / file_name(SHOWN_WITHOUT_GPU)).read_text())


def measure_gpu() -> GpuFacts:
    """Ask the driver, move some data and multiply two matrices."""
    properties: Any = torch.cuda.get_device_properties()
    return GpuFacts(
        machine=this_machine(),
        multiprocessors=properties.multi_processor_count,
        memory_bytes=properties.total_memory,
        l2_bytes=properties.L2_cache_size,
        shared_bytes=properties.shared_memory_per_multiprocessor,
        register_bytes=properties.regs_per_multiprocessor * 4,
        warps=properties.max_threads_per_multi_processor // 32,
        memory_tb_s=copy_tb_s(),
        l2_tb_s=_l2_tb_s(properties.multi_processor_count, properties.L2_cache_size),
        matmul_tflop_s=_matmul_tflop_s(torch.float16),
        bf16_matmul_tflop_s=_matmul_tflop_s(torch.bfloat16) if properties.major >= 8 else None,
    )


@triton.jit
def sweep_kernel(x_ptr, out_ptr, n_blocks, BLOCKS_READ: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """Each program reads BLOCKS_READ blocks of x, in an order of its own; their sum is stored.

    Neighbors in the grid may share a multiprocessor: the strides keep one from finding in L1 what
    another has just read. The sum keeps the loads from being removed.
    """
    pid = tl.program_id(axis=0)
    offsets = tl.arange(0, BLOCK_SIZE)
    total = tl.zeros([BLOCK_SIZE], dtype=tl.int32)
    for i in range(BLOCKS_READ):
        block = (pid * 61 + i * 131) % n_blocks
        # from L2, past L1
        total += tl.load(x_ptr + block * BLOCK_SIZE + offsets, cache_modifier=".cg")
    tl.store(out_ptr + pid, tl.sum(total))


def _l2_tb_s(multiprocessors: int, l2_bytes: int) -> float:
    block_size, blocks_read, programs = 2048, 256, 8 * multiprocessors
    # A power of two, so that the strides of the sweep meet every block: 8 MiB, or half the cache.
    swept_bytes = min(2**23, 2 ** ((l2_bytes // 2).bit_length() - 1))
    x = torch.randint(0, 100, (swept_bytes // 4,), dtype=torch.int32, device="cuda")
    out = torch.empty(programs, dtype=torch.int32, device="cuda")

    def call() -> None:
        n_blocks = x.numel() // block_size
        sweep_kernel[(programs,)](x, out, n_blocks, blocks_read, block_size, num_warps=4)

    return programs * blocks_read * block_size * x.element_size() / repeated_ms(call) / 1e9


def _matmul_tflop_s(dtype: torch.dtype) -> float:
    n = 8192
    a, b = (torch.randn(n, n, dtype=dtype, device="cuda") for _ in range(2))
    return 2 * n**3 / repeated_ms(lambda: a @ b) / 1e9
