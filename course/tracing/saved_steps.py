"""What a notebook keeps of a recorded program: all of it, or as many steps as there is room for."""

import base64
import zlib
from typing import Any

Json = dict[str, Any]
STEP_CHARACTERS = 120
"""About what a step takes beside its values."""


def size_of(recorded: Json) -> int:
    """The characters that a program takes."""
    return len(recorded["blob"]) + STEP_CHARACTERS * len(recorded["steps"])


def part_of(recorded: Json, room: int, last: bool) -> Json:
    """A program in so many characters, or one step of it: its first steps or its last, and "part", how many there were."""
    steps = recorded["steps"]
    if size_of(recorded) <= room:
        return recorded
    ends = [each["end"] for each in steps]
    content = zlib.decompress(base64.b64decode(recorded["blob"]))
    kept = max(1, len(steps) * room // size_of(recorded))
    while True:
        first = len(steps) - kept if last else 0
        base = ends[first - 1] // 8 * 8 if first else 0
        blob = base64.b64encode(zlib.compress(content[base : ends[first + kept - 1]], 9)).decode()
        moved = [_moved(step, base) for step in steps[first : first + kept]]
        part = {**recorded, "steps": moved, "blob": blob, "part": len(steps)}
        if size_of(part) <= room or kept == 1:
            return part
        kept = max(1, int(0.8 * kept))  # some steps take more than others


def _moved(step: Json, base: int) -> Json:
    """A step whose blob begins `base` bytes later."""

    def moved(each: Json) -> Json:
        places: Json = {
            name: [each[name][0], each[name][1] - base, each[name][2]]
            for name in ("data", "mask", "cells")
            if _is_place(each, name)
        }
        if "value" in each:
            places["value"] = moved(each["value"])
        return {**each, **places}

    sets = {name: moved(each) for name, each in step["sets"].items()}
    return {**step, "sets": sets, "touches": [moved(each) for each in step["touches"]]}


def _is_place(each: Json, name: str) -> bool:
    """Whether it is a place in the blob: a value's `cells` are its rows and columns."""
    return name in each and isinstance(each[name][0], str)
