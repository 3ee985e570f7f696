"""The pictures a lesson draws: draw.machine(), draw.programs(…), draw.layout(…), draw.access(…), draw.speeds(…) …"""

from course.lowering.layout_view import layout
from course.lowering.pipeline_view import pipeline
from course.tracing.access_view import access

from .attention_grid import attention
from .machine_page import machine
from .online_softmax import online
from .program_grid import programs, queue
from .program_order import order
from .roofline_plot import roofline
from .slider import slide
from .speed_plot import speeds
from .tile_walk import tiles

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
