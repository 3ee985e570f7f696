"""Mends for nbval: a dead session is noticed at once, and each notebook has a Triton cache of its own.

nbval 0.11 waits for a reply until the cell's time limit even where the session's process has died.
"""

import tempfile
import time
from queue import Empty

import pytest
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbFile

POLL_S = 1.0


class SessionDiedError(Exception):
    """The notebook's process ended while a cell ran."""


def await_reply(self, msg_id, timeout=None):
    """RunningKernel.await_reply, looking every POLL_S whether the session is still alive."""
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    while True:
        left = min(POLL_S, deadline - time.monotonic())
        if left <= 0:
            raise Empty  # what nbval expects at the cell's time limit
        try:
            message = self.get_message(stream="shell", timeout=left)
        except Empty:
            if not self.is_alive():
                raise SessionDiedError("the notebook's session died while this cell ran") from None
            continue
        if message["parent_header"].get("msg_id") == msg_id:
            if message["content"]["status"] == "aborted":
                raise RuntimeError("the session aborted this cell")
            return


def setup_with_own_cache(self):
    """IPyNbFile.setup, with an empty TRITON_CACHE_DIR that its session inherits."""
    self.triton_cache = tempfile.TemporaryDirectory(prefix="triton-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", self.triton_cache.name)
        patch.setenv("COURSE_PROGRESS", "off")  # nobody looks
        start_session(self)


def teardown_with_own_cache(self):
    end_session(self)
    self.triton_cache.cleanup()


start_session, end_session = IPyNbFile.setup, IPyNbFile.teardown
RunningKernel.await_reply = await_reply
IPyNbFile.setup, IPyNbFile.teardown = setup_with_own_cache, teardown_with_own_cache
