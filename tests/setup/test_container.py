"""The Dockerfile starts from a pinned image, runs as no root, and is given what the wheel needs."""

import json
import re
from pathlib import Path, PurePath

from tests.support.wheel import SOURCES

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LINES = re.sub(r"\\\n", "", DOCKERFILE)


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", LINES, re.MULTILINE)


def test_every_stage_begins_from_an_image_pinned_by_its_digest_or_from_a_stage_before_it():
    stages: list[str] = []
    for line in instructions("FROM"):
        image, _, stage = line.partition(" AS ")
        assert image in stages or re.search(r"@sha256:[0-9a-f]{64}$", image), line
        stages.append(stage)
    assert stages == ["tools", "packages", "wheel", "lab"]


def test_the_lab_runs_as_a_user_without_rights_and_keeps_its_token():
    (user,) = instructions("USER")
    assert user == "1000" and "--uid 1000" in LINES
    (command,) = map(json.loads, instructions("CMD"))
    assert command[:2] == ["course", "lab"]
    assert not [option for option in command if "token" in option or "password" in option]
    assert "-p 127.0.0.1:" in DOCKERFILE


def test_the_build_is_given_all_that_the_wheel_is_made_of():
    given = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().split("\n")
        if line.startswith("!")
    }
    for source in SOURCES:
        assert any(PurePath(source).match(pattern) for pattern in given), source
    assert "uv.lock" in given


def test_the_dev_container_is_the_dockerfiles_tools_and_sets_itself_up_with_make():
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    build = settings["build"]
    folder = ROOT / ".devcontainer"
    assert (folder / build["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (folder / build["context"]).resolve() == ROOT
    assert f" AS {build['target']}\n" in DOCKERFILE
    assert settings["postCreateCommand"] == "make setup"
    assert f" {settings['remoteUser']} " in LINES.replace("\n", " ")
    for tool in ("gcc", "g++", "libc6-dev", "git", "make"):
        assert tool in LINES
