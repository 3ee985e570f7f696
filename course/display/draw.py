"""The pictures a lesson draws: draw.machine(), draw.programs(…), draw.tiles(…), draw.layout(s, "x"), draw.speeds(…) …"""

from .layout_view import layout
from .machine import machine
from .pipeline import pipeline
from .programs import programs, queue
from .slide import slide
from .speeds import speeds
from .tiles import tiles

__all__ = ["layout", "machine", "pipeline", "programs", "queue", "slide", "speeds", "tiles"]
