"""The reader's own GPU: `course doctor --measure` measures it, and plots and `cost` show it."""

from pathlib import Path

import msgspec
import torch

from course import MODE
from course.cache import data_folder
from course.errors import CourseError
from course.files import write_whole

from .measured import GpuFacts, measure_gpu
from .peaks import Gpu
from .turn import gpu_turn


def own_file() -> Path:
    """Where `course doctor --measure` keeps what it has measured: the JSON of `GpuFacts`."""
    return data_folder() / "gpu.json"


def measure_own_gpu() -> GpuFacts:
    """Measure this machine's GPU, which takes seconds, and keep the result.

    Raises CourseError in CPU mode, where the GPU has too little free memory, and where the result
    cannot be kept.
    """
    if not MODE.gpu:
        raise CourseError(f"There is nothing to measure, since this is {MODE}.")
    try:
        with gpu_turn("this GPU's own speed"):
            facts = measure_gpu()
    except torch.OutOfMemoryError as error:
        free, _ = torch.cuda.mem_get_info()
        raise CourseError(
            f"Only {free / 2**30:.1f} GiB of this GPU's memory are free, too little to measure it: "
            "`nvidia-smi` shows what else uses it; end that, and try again."
        ) from error
    write_whole(own_file(), facts.to_json())
    return facts


def own_gpu() -> Gpu | None:
    """The reader's own GPU as it was measured.

    None where none was measured, and where this machine has another one by now. Raises CourseError
    where the file is damaged.
    """
    try:
        own = measured_gpu(GpuFacts.from_json(own_file().read_text()))
    except OSError:  # the usual case: nothing was measured
        return None
    except (ValueError, msgspec.DecodeError) as error:
        raise CourseError(
            f"{own_file()} is damaged ({error}): run `course doctor --measure` again, or delete "
            "that file."
        ) from error
    return own if not MODE.gpu or own.name == torch.cuda.get_device_name() else None


def measured_gpu(facts: GpuFacts) -> Gpu:
    """A GPU by what was measured on it: the copy roof, and PyTorch's matrix products."""
    name, measured = facts.machine.gpu, facts.machine.date
    dot = {"fp16": facts.matmul_tflop_s}
    if facts.bf16_matmul_tflop_s is not None:
        dot["bf16"] = facts.bf16_matmul_tflop_s
    return Gpu(
        name, (name,), target="", memory=facts.memory_tb_s, vector={}, dot=dot,
        multiprocessors=facts.multiprocessors, clock_mhz=0, special_published=False,
        l2=facts.l2_tb_s, measured=measured,
    )  # fmt: skip
