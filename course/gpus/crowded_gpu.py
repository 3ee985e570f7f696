"""A word to a session that holds much of a GPU that others share."""

import os
import sys

SEATS = "COURSE_SEATS"
"""How many sessions share the GPU, set by who leads the room."""


def memory_notice() -> str:
    """What to do where this session holds more than its part of a shared GPU; empty where it does
    not, where nobody shares the GPU, and where PyTorch has not used it yet."""
    torch = sys.modules.get("torch")
    seats = os.environ.get(SEATS, "")
    if not seats.isdigit() or torch is None or not torch.cuda.is_initialized():
        return ""
    held = torch.cuda.memory_reserved()
    part = torch.cuda.mem_get_info()[1] // max(1, int(seats))
    if held <= part:
        return ""
    return (
        f"This session holds {held / 1e9:.1f} GB of the GPU, and its part of the room's is "
        f"{part / 1e9:.1f} GB: `del` the tensors that you no longer need and call "
        "torch.cuda.empty_cache(), or restart the session (Kernel > Restart)."
    )
