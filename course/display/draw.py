"""The pictures a lesson draws: draw.machine(), draw.programs(…), draw.tiles(…), draw.queue(…), draw.speeds(…)."""

from .machine import machine
from .programs import programs, queue
from .speeds import speeds
from .tiles import tiles

__all__ = ["machine", "programs", "queue", "speeds", "tiles"]
