"""A bar on work that lasts, where somebody looks, and nothing anywhere else."""

import io
import time

import pytest

from course import progress


@pytest.fixture
def terminal(monkeypatch):
    """Somebody looks, and the bar is drawn into a text."""
    from rich.console import Console

    out = io.StringIO()
    monkeypatch.setattr(progress, "_somebody_looks", lambda: True)
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    console = Console(file=out, force_terminal=True, width=80)
    monkeypatch.setattr("rich.get_console", lambda: console)
    monkeypatch.setattr("rich.live.get_console", lambda: console, raising=False)
    monkeypatch.setattr("rich.progress.get_console", lambda: console)
    return out


def test_every_item_comes_once_and_in_order(terminal):
    assert list(progress.track(range(5), "Working")) == [0, 1, 2, 3, 4]


def test_short_work_shows_nothing(terminal):
    list(progress.track(range(5), "Working"))
    assert "Working" not in terminal.getvalue()


def test_long_work_shows_a_bar(terminal):
    for _ in progress.track(range(3), "Working"):
        time.sleep(0.6)
    assert "Working" in terminal.getvalue()


def test_it_can_be_turned_off(terminal, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", "off")
    for _ in progress.track(range(3), "Working"):
        time.sleep(0.4)
    assert terminal.getvalue() == ""


def test_a_log_gets_no_bar():
    assert not progress._somebody_looks()


def test_an_error_inside_the_loop_ends_the_bar(terminal):
    with pytest.raises(ZeroDivisionError):
        for _ in progress.track(range(3), "Working"):
            time.sleep(0.6)
            1 / 0  # noqa: B018
