"""pytest: the CPU time that a run takes, of all its processes together, and which files take most.

A file's time begins where that of the file before ended, in the same process: it holds what its
fixtures take, and what is started for it and used by later files too. What a browser's processes
took is lost where the browser ends them itself: what the machine has computed meanwhile holds it,
beside whatever else ran there.
"""

import os
from collections import Counter

import pytest

from tests.support.processes import computed_s, machine_computed_s

MOST_FILES = 12
"""How many files the last lines name."""


def pytest_configure(config):
    config.pluginmanager.register(CpuTimes(config), "cpu-times")


class CpuTimes:
    """CPU seconds, counted in each process that runs tests and added up where they report."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.by_file: Counter[str] = Counter()
        self.of_workers = 0.0
        self._machine_before_s = machine_computed_s()
        self._before_s = 0.0

    def pytest_collection_finish(self) -> None:
        self._before_s = computed_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item, nextitem):
        yield
        if nextitem is None or nextitem.path != item.path:
            now_s = computed_s()
            item.user_properties.append(("cpu_s", now_s - self._before_s))
            self._before_s = now_s

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            file = report.nodeid.partition("::")[0]
            self.by_file[file] += dict(report.user_properties).get("cpu_s", 0.0)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["cpu_s"] = computed_s()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        self.of_workers += getattr(node, "workeroutput", {}).get("cpu_s", 0.0)

    def pytest_terminal_summary(self, terminalreporter) -> None:
        total_s = self.of_workers + sum(os.times()[:2]) if self.of_workers else computed_s()
        machine_s = machine_computed_s() - self._machine_before_s
        terminalreporter.section(
            f"CPU time of all processes: {total_s:,.0f} s, of the whole machine: {machine_s:,.0f} s"
        )
        for file, seconds in self.by_file.most_common(MOST_FILES):
            terminalreporter.line(f"{seconds:8,.1f} s  {file}")
