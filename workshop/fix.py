"""`course workshop fix`: give every seat the lessons as they are now, without touching its work."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from typing import Any

import msgspec

from course.files import write_whole
from course.workshop.room import known_exercises

from . import ROOT, seat_user
from .settings import Settings

COPY_S = 120


@dataclass
class Fixed:
    """What became of each lesson, by its file's name: seats."""

    renewed: dict[str, list[str]] = field(default_factory=dict)
    behind: dict[str, list[str]] = field(default_factory=dict)
    """Seats that have worked in it, and keep theirs."""
    problems: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{name}: renewed in {len(seats)} seats" for name, seats in self.renewed.items()]
        for name, seats in self.behind.items():
            lines.append(
                f"{name}: {len(seats)} seats have begun it and keep theirs ({', '.join(seats)});"
                f" `course reset {name[:2]}` in their terminal gives the new one beside it"
            )
        lines += [f"{seat}: {problem}" for seat, problem in self.problems.items()]
        reload = "Who has a renewed lesson open reloads its page."
        return "\n".join([*lines, reload] if self.renewed else lines or ["Nothing was to be done."])


def fix(settings: Settings) -> Fixed:
    """Copy the lessons to the seats that have a folder, as each seat's own user."""
    write_whole(settings.exercises_file, msgspec.json.encode(known_exercises()))
    fixed = Fixed()
    for name in settings.names:
        if not settings.home(name).is_dir():
            continue
        copied = _copy(settings, name)
        if "problem" in copied:
            fixed.problems[name] = copied["problem"]
        for kind, into in (("renewed", fixed.renewed), ("behind", fixed.behind)):
            for lesson in copied.get(kind, []):
                into.setdefault(lesson, []).append(name)
    return fixed


def _copy(settings: Settings, name: str) -> dict[str, Any]:
    user = settings.user(name)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "COURSE_MODE": "cpu"}
    environ |= seat_user.environment(settings, name)
    as_user: dict[str, Any] = {}
    if settings.apart:
        as_user = {"user": user, "group": user, "extra_groups": [], "umask": 0o077}
    ended = subprocess.run(
        [settings.python, "-P", "-m", "workshop.open_seat"],
        cwd=settings.home(name), env=environ, capture_output=True, text=True, timeout=COPY_S,
        **as_user,
    )  # fmt: skip
    try:
        copied: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        last = (ended.stderr.strip().splitlines() or ["nothing was printed"])[-1]
        return {"problem": f"its lessons could not be copied ({last})"}
    return copied
