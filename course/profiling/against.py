"""Two profiles compared: what became slower, and which kernels were compiled to something else."""

from collections.abc import Iterator
from typing import Any

from course.table import numbers
from course.tracing.result import time_text

Summary = dict[str, Any]
"""A row as `Row.summary` writes it."""
LEAST_CHANGE = 0.02
"""A time that changed by less is within what two runs of one program differ by."""
COMPARED = {"registers": "registers", "spill_bytes": "bytes spilled", "shared_bytes": "shared bytes"}


def compared(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The comparison as text, what became slowest by most first."""
    timed = before["timed"] and now["timed"]
    key, what = ("us", "time") if timed else ("least_us", "time at best")
    pairs = list(_pairs(before["rows"], now["rows"]))
    pairs.sort(key=lambda pair: -(_us(pair[1], key) - _us(pair[0], key)))
    head = ("kernel", "launches", f"{what} before", "now", "difference")
    lines = [numbers([head, *(_cells(old, new, key) for old, new in pairs)])]
    for old, new in pairs:
        lines += [f"{new['kernel']}: {each}" for each in differences(old, new)] if old and new else []
    if before["made_by"] != now["made_by"]:
        made = ", ".join(
            f"{name} {before['made_by'][name]} then {version} now"
            for name, version in now["made_by"].items()
            if before["made_by"].get(name, version) != version
        )
        lines.append(f"made with other versions: {made}")
    return "\n".join(lines)


def _pairs(before: list[Summary], now: list[Summary]) -> Iterator[tuple[Summary, Summary]]:
    """Rows of one kernel with the same arguments; where there is none, an empty one."""
    left = list(before)
    for by in (("kernel", "arguments", "where"), ("kernel", "arguments"), ("kernel",)):
        for new in [each for each in now if each]:
            same = [old for old in left if all(old[name] == new[name] for name in by)]
            if same:
                left.remove(same[0])
                now = [each for each in now if each is not new]
                yield same[0], new
    yield from ((old, {}) for old in left)
    yield from (({}, new) for new in now)


def _us(row: Summary, key: str) -> float:
    return row.get(key) or 0.0


def _cells(old: Summary, new: Summary, key: str) -> tuple[str, ...]:
    was, took = _us(old, key), _us(new, key)
    difference = took - was
    if not (old and new):
        change = "new" if new else "gone"
    elif abs(difference) <= LEAST_CHANGE * was:
        change = "the same"
    else:
        change = f"{time_text(abs(difference))} {'slower' if difference > 0 else 'faster'}"
    launches = " then ".join(dict.fromkeys(str(each["launches"]) for each in (old, new) if each))
    return (new or old)["kernel"], launches, time_text(was), time_text(took), change


def differences(old: Summary, new: Summary) -> list[str]:
    """What the compiler has made differently of one kernel, in a few words each."""
    was, uses = old.get("resources") or {}, new.get("resources") or {}
    found = [
        f"{words} {was[name]:,} then {uses[name]:,}"
        for name, words in COMPARED.items()
        if was and uses and was[name] != uses[name]
    ]
    stages = new.get("stages", {})
    other = [name for name in stages if stages[name] != old.get("stages", {}).get(name)]
    if other and old.get("stages"):
        found.append(f"compiled to something else from {other[0].upper()} on")
    return found
