"""The site's tools: locked, made once, and a set-up that fails is one sentence."""

import re

import pytest

from course import bootstrap
from docs.site import ROOT, SiteError, tools


def test_the_lock_gives_what_is_asked_for():
    asked = (ROOT / "docs" / "site" / "requirements.in").read_text()
    lock = (ROOT / "requirements-site.lock").read_text().splitlines()
    pins = re.findall(r"^([\w-]+==[\w.]+)", asked, re.MULTILINE)
    assert len(pins) == 4
    assert set(pins) <= set(lock)
    assert not [line for line in lock if re.match(r"(torch|triton|nvidia)", line)]


@pytest.fixture
def own(monkeypatch, tmp_path):
    """Tools that would be made in a folder of their own, by commands that do nothing."""
    monkeypatch.setattr(tools, "VENV", tmp_path / "tools")
    monkeypatch.setattr(tools, "MADE", tmp_path / "tools" / "made.json")
    monkeypatch.setattr(tools, "PYTHON", tmp_path / "tools" / "bin" / "python")
    monkeypatch.setattr(tools, "LOCK", tmp_path / "requirements-site.lock")
    monkeypatch.setattr(bootstrap, "VENV", "")
    monkeypatch.setattr(bootstrap, "install_uv", lambda: None)
    monkeypatch.setattr(bootstrap, "uv_settings", dict)
    tools.LOCK.write_text("sphinx==9.0.4\n")
    commands = []

    def check(command, settings=()):
        commands.append(command)
        tools.PYTHON.parent.mkdir(parents=True, exist_ok=True)
        tools.PYTHON.write_text("")
        tools.PYTHON.chmod(0o755)

    monkeypatch.setattr(bootstrap, "check", check)
    return commands


def test_tools_are_ready_once_made_and_until_the_lock_changes(own):
    assert not tools.ready()
    tools.make()
    assert tools.ready()
    assert own[-1][-2:] == ["-r", str(tools.LOCK)]
    tools.LOCK.write_text("sphinx==9.1.0\n")
    assert not tools.ready()


def test_an_interrupted_set_up_is_not_taken_for_a_whole_one(own, monkeypatch):
    def stop(command, settings=()):
        raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "check", stop)
    with pytest.raises(KeyboardInterrupt):
        tools.make()
    assert not tools.ready()


def test_without_a_network_the_first_set_up_says_what_to_do(own, monkeypatch):
    def fail(command, settings=()):
        raise bootstrap.Stop(bootstrap.explain("error: Failed to fetch: https://x/simple/"))

    monkeypatch.setattr(bootstrap, "check", fail)
    with pytest.raises(SiteError, match=r"index cannot be reached: check the network"):
        tools.make()


def test_a_version_that_the_index_lacks_names_the_sites_lock(own, monkeypatch):
    def fail(command, settings=()):
        raise bootstrap.Stop(bootstrap.explain("error: No solution found"))

    monkeypatch.setattr(bootstrap, "check", fail)
    with pytest.raises(SiteError, match=r"all of requirements-site\.lock"):
        tools.make()


def test_a_lock_that_is_missing_is_named(own):
    tools.LOCK.unlink()
    with pytest.raises(SiteError, match=r"requirements-site\.lock is missing"):
        tools.make()
