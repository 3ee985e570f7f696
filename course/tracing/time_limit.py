"""Python code that is ended when it has computed for too long, in this process."""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from course import MODE

LOOK_S = 0.2
"""Seconds of computing between two looks at how long a thread has computed."""


class Stopped(BaseException):
    """The time is over. No kernel's own `except` catches it."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise Stopped once the main thread has computed for so long, whatever Python it runs.

    What else the machine does meanwhile does not count. Another thread is not limited, since
    signals do not reach it.
    """
    by_hand = MODE.in_page  # the visitor of a page presses Stop
    in_main = threading.current_thread() is threading.main_thread()
    if by_hand or math.isinf(seconds) or not in_main:
        yield
        return
    if not seconds:  # which setitimer would take for no limit
        raise Stopped
    start = time.thread_time()

    def look(*_: object) -> None:
        if time.thread_time() - start > seconds:
            raise Stopped

    before = signal.signal(signal.SIGPROF, look)
    interval = min(LOOK_S, seconds)
    signal.setitimer(signal.ITIMER_PROF, interval, interval)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
