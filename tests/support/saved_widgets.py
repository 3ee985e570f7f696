"""What a notebook of the course keeps of an explorer, a replay, a ruler and a slide."""

import torch

from course import draw, explore, replay
from tests.support import lower_kernels, trace_kernels


def shown(name: str):
    """The widget of this kind, as a lesson's cell shows it."""
    x = torch.arange(1000.0)
    if name == "explore":
        return explore(lower_kernels.add_kernel, *lower_kernels.ADD, 1024, target="sm_90")
    if name == "replay":
        return replay(trace_kernels.add_kernel, (4,), x, x, x.clone(), 1000, BLOCK_SIZE=256)
    if name == "ruler":
        return draw.ruler(1, 8)
    return draw.slide(lambda block: draw.programs(10, block), block_size=[2, 4])


def kept(name: str, monkeypatch) -> dict[str, str]:
    """Its MIME bundle in a notebook that the course keeps."""
    monkeypatch.setenv("COURSE_STATIC", "1")
    return shown(name)._repr_mimebundle_()
