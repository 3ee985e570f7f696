"""Two profiles compared: what became slower, and which kernels were compiled to something else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course.errors import CourseError
from course.lowering.passes import bare
from course.table import numbers
from course.tracing.result import time_text

Summary = dict[str, Any]
"""A row as `Row.summary` writes it."""
DEBUG = re.compile(r"\s*(#loc|//|!|\.loc\b|\.file\b|\$L__(tmp|func)\w*:|source_filename|; Module)")
LEAST_CHANGE = 0.02
"""A time that changed by less is within what two runs of one program differ by."""


def read_summary(path: str | Path) -> dict[str, Any]:
    """What `Profile.to_json` has written. Raises CourseError for a file that holds something
    else."""
    try:
        summary: dict[str, Any] = json.loads(Path(path).read_bytes())
        if summary.keys() >= {"timed", "rows", "made_by"}:
            return summary
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, AttributeError):
        pass
    raise CourseError(f"{path} is no profile, as `course profile --json {path}` writes one.")


def compared(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The comparison as text, what became slower by most first."""
    key = "us" if before["timed"] and now["timed"] else "least_us"
    found = [
        (old.get(key) or 0.0, new.get(key) or 0.0, old, new)
        for old, new in _pairs(before["rows"], now["rows"])
    ]
    rows, lines = [("kernel", "launches", "before", "now", "")], []
    for was, takes, old, new in sorted(found, key=lambda each: each[0] - each[1]):
        either, change = new or old, takes - was
        says = f"{time_text(abs(change))} {'slower' if change > 0 else 'faster'}"
        if not (old and new):
            says = "new" if new else "gone"
        elif abs(change) <= LEAST_CHANGE * was:
            says = "the same"
        launches = str(either["launches"])
        rows.append((either["name"], launches, time_text(was), time_text(takes), says))
        lines += [f"{either['name']}: {each}" for each in differences(old, new)]
    if before["made_by"] != now["made_by"]:
        lines.append(f"before: {before['made_by']}\nnow: {now['made_by']}")
    return "\n".join([numbers(rows), *lines])


def _pairs(before: list[Summary], now: list[Summary]) -> Iterator[tuple[Summary, Summary]]:
    """Rows of one kernel, with the same arguments if there are such; an empty one for none."""
    before, now = [*before], [*now]
    for by in (("name", "arguments", "where"), ("name", "arguments"), ("name",)):
        for new in [*now]:
            for old in [each for each in before if all(each[name] == new[name] for name in by)][:1]:
                before.remove(old)
                now.remove(new)
                yield old, new
    yield from ((old, {}) for old in before)
    yield from (({}, new) for new in now)


def differences(old: Summary, new: Summary) -> list[str]:
    """What the compiler has made differently of one kernel, in a few words each."""
    was, uses = old.get("resources") or {}, new.get("resources") or {}
    names = ("registers", "spill_bytes", "shared_bytes", "num_warps")
    found = [
        f"{name.replace('_', ' ')} {was[name]:,}, now {uses[name]:,}"
        for name in names
        if was and uses and was[name] != uses[name]
    ]
    before, now = old.get("stages", {}), new.get("stages", {})
    if other := [name for name in now if name in before and now[name] != before[name]]:
        found.append(f"compiled to something else from {other[0].upper()} on")
    return found


def comparable(text: str) -> str:
    """A stage without what says where it came from."""
    code = re.split(r"\n\s*\.section\s+\.debug", text)[0].split("\n")
    return "\n".join(filter(None, (bare(line) for line in code if not DEBUG.match(line))))
