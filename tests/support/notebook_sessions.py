"""Mends for nbval: a dead session is noticed at once, each notebook has a Triton cache of its own,
and without a GPU its session is a fork of a warm process.

nbval 0.11 waits for a reply until the cell's time limit even where the session's process has died,
and gives it 10 s to answer at all and 5 s for each output, which are too few on a busy machine.
"""

import tempfile
import time
from queue import Empty

import pytest
from jupyter_client.provisioning import local_provisioner
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbFile

from course import MODE
from tests.support.warm_processes import WarmProcesses

POLL_S = 1.0
COMPILING = ("ahead-of-time", "inside-a-c-program")
"""Names of the lessons that compile C."""
LEAST_S = 600
"""How long a session that lives is waited for at least."""


def pytest_itemcollected(item):
    """A notebook runs on a GPU too, in one session: its cells stay in one process of xdist."""
    if item.path.suffix == ".ipynb" and item.path.stem[3:] in COMPILING:
        item.add_marker(pytest.mark.compiler)
    if item.path.suffix == ".ipynb":
        item.add_marker(pytest.mark.gpu_too)
        item.add_marker(pytest.mark.xdist_group(item.path.name))


class SessionDiedError(Exception):
    """The notebook's process ended while a cell ran."""


def message_of(kernel, stream, timeout):
    """The next message of a session, looking every POLL_S whether it is still alive."""
    deadline = float("inf") if timeout is None else time.monotonic() + max(timeout, LEAST_S)
    while True:
        left = min(POLL_S, deadline - time.monotonic())
        if left <= 0:
            raise Empty  # what nbval expects at the cell's time limit
        try:
            return kernel.get_message(stream=stream, timeout=left)
        except Empty:
            if not kernel.is_alive():
                raise SessionDiedError("the notebook's session died while this cell ran") from None


def await_reply(self, msg_id, timeout=None):
    """RunningKernel.await_reply, for a session that may have died or be slow."""
    while True:
        message = message_of(self, "shell", timeout)
        if message["parent_header"].get("msg_id") == msg_id:
            if message["content"]["status"] == "aborted":
                raise RuntimeError("the session aborted this cell")
            return


def get_kernel_message(self, timeout=None, stream="iopub"):
    """IPyNbFile.get_kernel_message, for a session that may have died or be slow."""
    return message_of(self.kernel, stream, timeout)


def setup_with_own_cache(self):
    """IPyNbFile.setup, with an empty TRITON_CACHE_DIR that its session inherits."""
    self.triton_cache = tempfile.TemporaryDirectory(prefix="triton-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", self.triton_cache.name)
        patch.setenv("COURSE_PROGRESS", "off")  # nobody looks
        if not MODE.gpu:  # which a process that has asked the driver cannot hand to its forks
            patch.setattr(local_provisioner, "launch_kernel", WARM.launch_kernel)
        start_session(self)


def teardown_with_own_cache(self):
    end_session(self)
    self.triton_cache.cleanup()


WARM = WarmProcesses()
start_session, end_session = IPyNbFile.setup, IPyNbFile.teardown
RunningKernel.await_reply = await_reply
IPyNbFile.get_kernel_message = get_kernel_message
IPyNbFile.setup, IPyNbFile.teardown = setup_with_own_cache, teardown_with_own_cache
