"""pytest: a test is skipped only for what this machine lacks, and the last lines count for what.

A reason begins with "needs", as in "needs a browser: apt-get install chromium". A test that is
skipped for any other reason fails.
"""

from collections import Counter

import pytest

NEEDS = "Skipped: needs "


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test or a file was skipped, as "Skipped: needs root"; "" where it was not."""
    is_a_skip = report.skipped and isinstance(report.longrepr, tuple)
    return report.longrepr[2] if is_a_skip else ""


def refuse_other_reasons(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure unless its reason says what the machine lacks."""
    reason = reason_of(report)
    if reason and not reason.startswith(NEEDS):
        report.outcome = "failed"
        report.longrepr = (
            f'{reason}\nWhat a test needs and this machine lacks is said as "needs …": a test'
            " is skipped for nothing else."
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    refuse_other_reasons(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    refuse_other_reasons(report)
    return report


def pytest_terminal_summary(terminalreporter):
    reasons = map(reason_of, terminalreporter.stats.get("skipped", []))
    counts = Counter(reason.removeprefix(NEEDS).partition(":")[0] for reason in reasons)
    for needed, count in counts.most_common():
        terminalreporter.line(f"{count:,} skipped: needs {needed}")
