"""A bar on work that lasts, where somebody looks, and nothing anywhere else."""

import io
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from course import progress_bar as progress


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


@pytest.fixture
def pass_s(monkeypatch):
    """Lets seconds pass, by the clock that a bar goes by."""
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return lambda seconds: now.append(now.pop() + seconds)


def test_every_item_comes_once_and_in_order(terminal):
    assert list(progress.track(range(5), "Working")) == [0, 1, 2, 3, 4]


def test_short_work_shows_nothing(terminal, pass_s):
    for _ in progress.track(range(5), "Working"):
        pass_s(0.2)
    assert "Working" not in terminal.getvalue()


def test_long_work_shows_a_bar(terminal, pass_s):
    for _ in progress.track(range(3), "Working"):
        pass_s(0.6)
    assert "Working" in terminal.getvalue()


def test_work_that_is_done_elsewhere_shows_how_far_it_is_after_two_seconds(terminal, pass_s):
    left = [1.5, 1.0, 3.0]

    def ended(seconds):
        pass_s(left.pop(0) if left else 0)
        return not left

    progress.show_until(ended, lambda: 7, 9, "Checking")
    assert "Checking" in terminal.getvalue() and "78%" in terminal.getvalue()


def test_short_work_that_is_done_elsewhere_shows_nothing(terminal, pass_s):
    progress.show_until(lambda seconds: not pass_s(1), lambda: 1, 2, "Checking")
    assert terminal.getvalue() == ""


def test_work_within_work_shows_the_outer_bar_alone(terminal, pass_s):
    for _ in progress.track(range(2), "Verifying"):
        pass_s(1.1)
    assert "Verifying" in terminal.getvalue()
    for done in progress.track(range(3), "Checking"):
        pass_s(0.6)
        for _ in progress.track(range(3), "Compiling") if done == 2 else ():
            pass_s(0.6)
    assert "Checking" in terminal.getvalue() and "Compiling" not in terminal.getvalue()
    for _ in progress.track(range(3), "Compiling"):
        pass_s(0.6)
    assert "Compiling" in terminal.getvalue()


def test_only_the_main_thread_draws_a_bar(monkeypatch):
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    with ThreadPoolExecutor(1) as pool:
        assert progress._somebody_looks() and not pool.submit(progress._somebody_looks).result()


def test_it_can_be_turned_off(terminal, monkeypatch, pass_s):
    monkeypatch.setenv("COURSE_PROGRESS", "off")
    for _ in progress.track(range(3), "Working"):
        pass_s(0.4)
    assert terminal.getvalue() == ""


def test_a_log_gets_no_bar():
    assert not progress._somebody_looks()


def test_an_error_inside_the_loop_ends_the_bar(terminal, pass_s):
    with pytest.raises(ZeroDivisionError):
        for _ in progress.track(range(3), "Working"):
            pass_s(0.6)
            1 / 0  # noqa: B018


@pytest.fixture
def notebook(monkeypatch):
    """A notebook's session; gives what its bar shows, one after another."""
    shown = []
    handle = SimpleNamespace(update=lambda bundle, raw: shown.append(bundle))

    def display(bundle, raw, display_id):
        shown.append(bundle)
        return handle

    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    return shown


def test_a_notebook_shows_a_bar_and_keeps_neither_it_nor_a_widget(notebook, pass_s):
    for _ in progress.track(range(3), "a < b"):
        pass_s(0.6)
    assert [bundle["text/plain"] for bundle in notebook] == ["", "a < b: 2 of 3", ""]
    assert "a &lt; b: 2 of 3" in notebook[1]["text/html"] and not notebook[-1]["text/html"]
    assert all(set(bundle) == {"text/plain", "text/html"} for bundle in notebook)


def test_a_notebook_shows_nothing_of_short_work(notebook, pass_s):
    for _ in progress.track(range(5), "Working"):
        pass_s(0.2)
    assert notebook == []
