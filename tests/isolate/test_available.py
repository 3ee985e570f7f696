"""What a session may use, as the kernel says it in its various ways."""

import os

import pytest

from course.isolate import available

GIB = 2**30


@pytest.fixture
def machine(tmp_path):
    """Make a root folder with these files, for a machine on which 8 GiB are free."""

    def make(files):
        for path, text in {
            "proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n",
            **files,
        }.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return tmp_path

    return make


VERSION_2 = {"proc/self/cgroup": "0::/user/mine\n"}
VERSION_1 = {"proc/self/cgroup": "4:memory:/user/mine\n3:cpu,cpuacct:/user/mine\n0::/\n"}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 8 * GIB),
        ({**VERSION_2, "sys/fs/cgroup/user/mine/memory.max": "max\n"}, 8 * GIB),
        (
            {
                **VERSION_2,
                "sys/fs/cgroup/user/mine/memory.max": str(3 * GIB),
                "sys/fs/cgroup/user/mine/memory.current": str(2 * GIB),
                "sys/fs/cgroup/user/mine/memory.stat": f"anon 5\ninactive_file {GIB}\n",
            },
            2 * GIB,
        ),
        (
            {
                **VERSION_2,  # the limit of the group that it lies in
                "sys/fs/cgroup/user/mine/memory.max": "max",
                "sys/fs/cgroup/user/mine/memory.current": str(GIB),
                "sys/fs/cgroup/user/memory.max": str(4 * GIB),
                "sys/fs/cgroup/user/memory.current": str(3 * GIB),
            },
            GIB,
        ),
        (
            {
                **VERSION_1,
                "sys/fs/cgroup/memory/user/mine/memory.limit_in_bytes": str(3 * GIB),
                "sys/fs/cgroup/memory/user/mine/memory.usage_in_bytes": str(2 * GIB),
                "sys/fs/cgroup/memory/user/mine/memory.stat": f"total_inactive_file {GIB // 2}\n",
            },
            3 * GIB // 2,
        ),
        (
            {
                **VERSION_1,  # in a container that does not see its own path
                "sys/fs/cgroup/memory/memory.limit_in_bytes": str(3 * GIB),
                "sys/fs/cgroup/memory/memory.usage_in_bytes": str(4 * GIB),
            },
            0,
        ),
    ],
)
def test_free_memory(machine, files, free):
    assert available.free_memory_bytes(machine(files)) == free


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({}, None),
        ({**VERSION_2, "sys/fs/cgroup/user/mine/cpu.max": "max 100000\n"}, None),
        ({**VERSION_2, "sys/fs/cgroup/user/mine/cpu.max": "50000 100000\n"}, 0.5),
        ({**VERSION_2, "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        (
            {
                **VERSION_1,
                "sys/fs/cgroup/cpu/user/cpu.cfs_quota_us": "25000",
                "sys/fs/cgroup/cpu/user/cpu.cfs_period_us": "100000",
            },
            0.25,
        ),
        (
            {
                **VERSION_1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            None,
        ),
    ],
)
def test_cores(machine, files, most):
    assert available.cores(machine(files)) == (most or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(("free", "given"), [(100 * GIB, 4 * GIB), (6 * GIB, 3 * GIB), (GIB, GIB)])
def test_a_child_may_take_a_part_of_what_is_free(monkeypatch, free, given):
    monkeypatch.setattr(available, "free_memory_bytes", lambda: free)
    assert available.child_memory_bytes() == given


def test_a_session_with_less_than_a_core_for_each_of_two_children_waits_longer(monkeypatch):
    monkeypatch.setattr(available, "cores", lambda: 4.0)
    assert (available.wall_s(10), available.wall_s(100)) == (120, 300)
    monkeypatch.setattr(available, "cores", lambda: 0.5)
    assert available.wall_s(10) == 480
