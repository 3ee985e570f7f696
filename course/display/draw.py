"""The pictures a lesson draws: draw.machine(), draw.programs(…), draw.queue(…), draw.speeds(…)."""

from .machine import machine
from .programs import programs, queue
from .speeds import speeds

__all__ = ["machine", "programs", "queue", "speeds"]
