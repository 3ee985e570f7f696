"""The power of attention with large heads: Nsight Compute's counters, and the clock under load.

It needs `ncu`, the right to use the counters, and nvidia-smi. A card that reaches its power limit
lowers its clock, so a kernel that takes fewer cycles may take no less time. The clock and the power
are read while launches follow each other without a gap.
"""

import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from statistics import mean

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from course.benching.api import require_gpu
from course.benching.outdated import TIMED
from course.benching.profiles import AttentionPower, Load
from course.benching.source_hash import code_hash
from course.errors import CourseError
from course.gpus.recorded import this_machine
from course.gpus.turn import gpu_turn
from course.type_names import Function
from kernels.attention.gluon import plan as launching
from kernels.attention.gluon.plan import flash_attention_hopper
from kernels.attention.gluon.settings import LARGE_HEADS

from .nsight import counters

BATCH, HEADS, LENGTH, HEAD_DIM = 2, 8, 8192, 256
METRICS = (
    "gpc__cycles_elapsed.max",
    "sm__inst_executed.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
)
"""The first three fields of a `Load`."""
ROUNDS, ROUND_S, WARM_S = 3, 1.5, 0.5
"""Each way runs for so many seconds, and in turn with the others. The first of them are for the
clock to settle."""
SMI = (
    "nvidia-smi", "--query-gpu=clocks.sm,power.draw.instant", "--format=csv,noheader,nounits",
    "--loop-ms=25",
)  # fmt: skip
"""Prints the clock and the power of each GPU, or of the one that --id names, a line a sample."""
MOST_ERROR = 1e-3
"""The largest error that float16 may have, relative to the norm of the result in float32."""


def _cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return scaled_dot_product_attention(q, k, v)


ALWAYS = LARGE_HEADS._replace(lazy_rescale=False)
WAYS: dict[str, Function] = {
    "cuDNN": _cudnn,
    "rescaled always": partial(flash_attention_hopper, settings=ALWAYS),
    "rescaled where needed": partial(flash_attention_hopper, settings=LARGE_HEADS),
}


def _inputs() -> list[torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(0)
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [
        torch.randn(shape, device="cuda", dtype=torch.float16, generator=generator) for _ in "qkv"
    ]


def measure() -> AttentionPower:
    """Count and time every way to compute the same.

    Raises CourseError without a GPU that the kernel runs on, without `ncu` or nvidia-smi, and where
    a result is wrong.
    """
    require_gpu()
    q, k, v = _inputs()
    if not launching.available(q):
        raise CourseError("The power of attention needs a GPU of compute capability 9.0.")
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        right = scaled_dot_product_attention(q.float(), k.float(), v.float())
    for name, attention in WAYS.items():
        error = (attention(q, k, v).float() - right).norm() / right.norm()
        if not error < MOST_ERROR:  # also where it is NaN
            raise CourseError(f"Attention by {name!r} is wrong, so nothing was recorded.")
    table = counters(__name__, METRICS, len(WAYS))
    runs = defaultdict(list)
    with gpu_turn("the power of attention", say=lambda _: None):
        for _ in range(ROUNDS):
            for name, attention in WAYS.items():
                runs[name].append(_in_a_row(partial(attention, q, k, v)))
    loads = {}
    for (name, run), values in zip(runs.items(), table, strict=True):
        ms, mhz, watts = map(mean, zip(*run, strict=True))
        cycles, instructions, tensor_percent = (values[metric] for metric in METRICS)
        loads[name] = Load(int(cycles), int(instructions), tensor_percent, ms, mhz, watts)
    return AttentionPower(
        machine=this_machine(),
        source_hash=code_hash(TIMED["attention_power"]),
        head_dim=HEAD_DIM, length=LENGTH, heads=BATCH * HEADS,
        loads=loads,
    )  # fmt: skip


def _in_a_row(launch: Callable[[], object]) -> tuple[float, float, float]:
    """Milliseconds of a launch, MHz and watts, while launches follow each other without a gap."""
    _launch_for(WARM_S, launch)
    # nvidia-smi numbers GPUs in its own way: only the UUID names the one that launches.
    gpu = f"--id=GPU-{torch.cuda.get_device_properties().uuid}"
    try:
        smi = subprocess.Popen([*SMI, gpu], stdout=subprocess.PIPE, text=True)
    except FileNotFoundError as error:
        raise CourseError("nvidia-smi is not on the path: it reads clock and power.") from error
    try:
        ms = _launch_for(ROUND_S, launch)
    finally:
        smi.kill()
        said, _ = smi.communicate()
    return ms, *samples(said)


def _launch_for(seconds: float, launch: Callable[[], object]) -> float:
    """Milliseconds of a launch, of those that begin within so many seconds."""
    begun, launches = time.monotonic(), 0
    while (passed := time.monotonic() - begun) < seconds:
        for _ in range(20):
            launch()
        launches += 20
        torch.cuda.synchronize()
    return passed * 1e3 / launches


def samples(said: str) -> tuple[float, float]:
    """The means of what nvidia-smi says, MHz and watts, a line for each sample.

    Raises CourseError where there is no whole line of numbers.
    """
    # The last line may be cut off; "[N/A]" stands there on a card that has no sensor.
    rows = re.findall(r"^([\d.]+), *([\d.]+)$", said, re.MULTILINE)
    if not rows:
        raise CourseError("nvidia-smi says neither clock nor power of this GPU.")
    mhz, watts = (mean(map(float, column)) for column in zip(*rows, strict=True))
    return mhz, watts


def launches() -> Iterator[Callable[[], torch.Tensor]]:
    """Every way, to be profiled."""
    return (partial(attention, *_inputs()) for attention in WAYS.values())
