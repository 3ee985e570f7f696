"""`course doctor --measure`: measure the reader's own GPU once, and keep what was found."""

import torch

from course import MODE
from course.errors import CourseError
from course.files import write_whole

from .measured import GpuFacts, measure_gpu
from .peaks import own_file


def measure_own_gpu() -> GpuFacts:
    """Measure this machine's GPU, which takes seconds, and keep the result for plots and `cost` to show.

    Raises CourseError in CPU mode, where the GPU has too little free memory, and where the result cannot be kept.
    """
    if not MODE.gpu:
        raise CourseError(f"There is nothing to measure, since this is {MODE}.")
    try:
        facts = measure_gpu()
    except torch.OutOfMemoryError as error:
        free, _ = torch.cuda.mem_get_info()
        raise CourseError(
            f"Only {free / 2**30:.1f} GiB of this GPU's memory are free, too little to measure it: "
            "`nvidia-smi` shows what else uses it; end that, and try again."
        ) from error
    write_whole(own_file(), facts.to_json())
    return facts
