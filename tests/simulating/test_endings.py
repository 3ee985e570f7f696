"""How a simulated program ends: what is under way then, what was interrupted, what never ends."""

import os
import signal
import threading
import time

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from course.simulating import partitions
from course.simulating.api import simulate
from course.simulating.faults import HazardError, SimulationError
from course.simulating.partitions import Partition, Turns
from course.simulating.program import HERE
from tests.simulating.kernels import descriptor


@gluon.jit
def copied_kernel(out_desc, seen_ptr, out_ptr, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    out = gl.allocate_shared_memory(out_desc.dtype, [16, 64], out_desc.layout)
    out.store(gl.full([16, 64], 2.0, gl.float16, layout))
    fence_async_shared()
    tma.async_store(out_desc, [0, 0], out)
    if FAULT != "no store_wait":
        tma.store_wait(0)
    gl.store(seen_ptr, gl.load(out_ptr))
    if FAULT == "written":
        tma.store_wait(0, read_only=False)
    gl.store(seen_ptr + 1, gl.load(out_ptr))


def _copied(fault):
    out, seen = torch.zeros(16, 64, dtype=torch.float16), torch.zeros(2)
    simulate(copied_kernel, (1,), descriptor(out, [16, 64]), seen, out, fault)
    assert (out == 2).all()
    return seen.tolist()


def test_a_copy_out_that_nobody_waits_for_is_named():
    with pytest.raises(HazardError, match="out is still copied out when the program ends: nobody"):
        _copied("no store_wait")


def test_store_wait_frees_the_source_before_the_tensor_is_written():
    assert _copied("none") == [0, 0]
    assert _copied("written") == [0, 2]


@gluon.jit
def unawaited_kernel(x_desc):
    x = gl.allocate_shared_memory(x_desc.dtype, [16, 64], x_desc.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.expect(full, x_desc.nbytes_per_cta)
    tma.async_load(x_desc, [0, 0], full, x)


def test_a_copy_in_that_nobody_waits_for_is_named():
    x = descriptor(torch.zeros(16, 64, dtype=torch.float16), [16, 64])
    with pytest.raises(HazardError, match="x is still copied into when the program ends: nobody"):
        simulate(unawaited_kernel, (1,), x)


@gluon.jit
def padded_kernel(x_desc, out_ptr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    x = gl.allocate_shared_memory(x_desc.dtype, [16, 64], x_desc.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.expect(full, x_desc.nbytes_per_cta)
    tma.async_load(x_desc, [8, 0], full, x)
    mbarrier.wait(full, 0)
    gl.store(out_ptr, gl.sum(gl.sum(x.load(layout), 1), 0))


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_a_descriptor_pads_as_it_says(padding):
    x, out = descriptor(torch.ones(16, 64, dtype=torch.float16), [16, 64]), torch.zeros(1)
    x.padding = padding
    simulate(padded_kernel, (1,), x, out)
    assert out.isnan() if padding == "nan" else out == 8 * 64


@gluon.jit
def endless_kernel(flag_ptr):
    while gl.load(flag_ptr) == 0:
        pass


def test_a_loop_that_never_ends_is_named(monkeypatch):
    monkeypatch.setattr(partitions, "MOST_STEPS", 1000)
    with pytest.raises(SimulationError, match=r"not ended after 1,000 steps(.|\n)*line \d+: while"):
        simulate(endless_kernel, (1,), torch.zeros(1))


@gluon.jit
def counting_kernel(count):
    number = 0
    while number < count:
        number = number * 1


@gluon.jit
def partition_without_end(count):
    for _ in range(count):
        pass


@gluon.jit
def partition_that_ends():
    pass


@gluon.jit
def specialized_kernel(count):
    gl.warp_specialize([(partition_that_ends, ()), (partition_without_end, (count,))], [4])


@pytest.mark.parametrize(
    ("kernel", "line"),
    [
        (counting_kernel, r"In counting_kernel, line \d+: (while|number)"),
        (specialized_kernel, r"In partition_without_end, line \d+: (for|pass)"),
    ],
)
def test_a_loop_that_touches_no_memory_is_named_too(monkeypatch, kernel, line):
    monkeypatch.setattr(partitions, "MOST_STEPS", 1000)
    with pytest.raises(SimulationError, match=rf"not ended after 1,000 steps(.|\n)*{line}"):
        simulate(kernel, (1,), 100_000)


@pytest.fixture
def interruptible():
    """Whatever ran before in this process may have left SIGINT another handler, or none."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_every_partition(interruptible):
    ended = threading.Semaphore(0)

    def computes():
        try:
            while True:  # again, in case Python swallows the first one, as it does in a destructor
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                until = time.thread_time() + 5
                while time.thread_time() < until:
                    pass
        finally:
            ended.release()

    def waits():
        try:
            turns.wait(lambda: False, str)
        finally:
            ended.release()

    turns = Turns("backwards")
    with pytest.raises(KeyboardInterrupt):
        turns.run([Partition("computes", computes), Partition("waits", waits)])
    assert ended.acquire(timeout=60)
    assert ended.acquire(timeout=60)


def test_a_kernel_may_live_beside_the_simulation():
    assert not (HERE.rstrip(os.sep) + "_lesson.py").startswith(HERE)
