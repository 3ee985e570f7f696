"""What a seat's server does with sessions: memory is given back when a third one begins."""

import asyncio
import runpy
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from hub import ROOT


@pytest.fixture
def kernels(monkeypatch):
    """A seat's kernels, as pairs of the time of their last sign of life and what they do."""
    config = runpy.run_path(
        str(ROOT / "hub" / "seat" / "server_config.py"), {"get_config": MagicMock}
    )
    ended = []

    async def end(self, kernel_id, **_):
        ended.append(kernel_id)
        del self._kernels[kernel_id]

    async def begin(self, **_):
        return "new"

    monkeypatch.setattr(AsyncMappingKernelManager, "shutdown_kernel", end)
    monkeypatch.setattr(AsyncMappingKernelManager, "start_kernel", begin)

    def start_beside(**states):
        manager = config["SeatKernels"]()
        manager._kernels = {
            name: SimpleNamespace(last_activity=at, execution_state=state)
            for name, (at, state) in states.items()
        }
        assert asyncio.run(manager.start_kernel()) == "new"
        return ended

    return start_beside


def test_a_second_session_ends_nothing(kernels):
    assert kernels(first=(1, "idle")) == []


def test_a_third_session_ends_the_one_that_was_idle_for_longest(kernels):
    assert kernels(first=(5, "idle"), second=(3, "idle")) == ["second"]


def test_a_session_that_computes_is_never_ended(kernels):
    assert kernels(first=(1, "busy"), second=(2, "busy")) == []
