"""The pictures a lesson draws: draw.machine(), draw.programs(…), draw.layout(…), draw.access(…), draw.speeds(…) …"""

from .access_view import access
from .attention import attention
from .layout_view import layout
from .machine import machine
from .online import online
from .order import order
from .pipeline import pipeline
from .programs import programs, queue
from .roofline import roofline
from .slide import slide
from .speeds import speeds
from .tiles import tiles

__all__ = [
    "access",
    "attention",
    "layout",
    "machine",
    "online",
    "order",
    "pipeline",
    "programs",
    "queue",
    "roofline",
    "slide",
    "speeds",
    "tiles",
]
