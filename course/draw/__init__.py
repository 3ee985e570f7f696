"""The pictures a lesson draws: draw.machine(), draw.programs(…), draw.layout(…), draw.access(…) …

Each is loaded when it is first asked for, so that one picture does not load every tool.

One thing has one color in all of them (`course/display/colors.py`):

    programs 0, 1, 2, …       blue, orange, green, pink, sky blue, yellow, and again, as in `replay`
    warps 0, 1, 2, …          eight pale colors with black words, and again
    banks of shared memory    dark to light, in eight groups of four neighbors
    threads of one warp       dark to light, as banks (`draw.ruler`)
    what a program does       load blue, dot green, store orange, other arithmetic pink; waiting
                              for a load or a dot the same, paler
    a lane that is masked     hatched
    what is not concerned     light gray
    lines of a speed plot     the function of the lesson blue, PyTorch orange, torch.compile
                              vermilion, a copy black; the versions of a ladder each their own
"""

import importlib
from typing import Any

# The module that holds each. None bears its function's name: importing it would hide the function.
_MODULES = {
    "access": "course.tracing.access_view",
    "attention": "course.draw.attention_grid",
    "broadcast": "course.draw.broadcast_sketch",
    "exchange": "course.draw.tile_exchange",
    "hierarchy": "course.draw.hierarchy_sketch",
    "ladder": "course.draw.ladder_plot",
    "layout": "course.lowering.layout_view",
    "losses": "course.draw.loss_plot",
    "machine": "course.draw.machine_page",
    "merge": "course.draw.attention_sketches",
    "mbarrier": "course.draw.barrier_steps",
    "online": "course.draw.vector_sketches",
    "order": "course.draw.tile_sketches",
    "packing": "course.draw.attention_sketches",
    "pipeline": "course.lowering.pipeline_view",
    "programs": "course.draw.vector_sketches",
    "queue": "course.draw.vector_sketches",
    "race": "course.draw.race_timeline",
    "rescale": "course.draw.rescale_sketch",
    "ring": "course.draw.ring_timeline",
    "reading": "course.draw.known_lines",
    "residence": "course.draw.attention_sketches",
    "roofline": "course.draw.roofline_plot",
    "room": "course.draw.room_map",
    "ruler": "course.draw.memory_ruler",
    "slide": "course.draw.slider",
    "specialized": "course.draw.specialized_timeline",
    "speeds": "course.draw.speed_plot",
    "tiles": "course.draw.tile_sketches",
    "timeline": "course.draw.warp_timeline",
    "turns": "course.draw.warp_turns",
    "walk": "course.draw.attention_sketches",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'course.draw' has no attribute {name!r}")
    globals()[name] = function = getattr(importlib.import_module(_MODULES[name]), name)
    return function


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
