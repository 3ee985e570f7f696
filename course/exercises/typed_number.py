"""A number that was typed as a text, with its unit or without: "268.4 MB", "1,056"."""

import re

TYPED = re.compile(
    r"(?:about|around|~|≈)?\s*"
    r"([-+]?(?:\d{1,3}(?:,\d{3})+|\d+|(?=\.\d))(?:\.\d*)?(?:e[-+]?\d+)?)"
    r"\s*((?![\d,.]).*)",
    re.IGNORECASE,
)
"""The number, and what stands behind it."""

SCALES: tuple[dict[str, float], ...] = (
    {
        "b": 1, "byte": 1, "kb": 1e3, "kilobyte": 1e3, "mb": 1e6, "megabyte": 1e6, "gb": 1e9,
        "gigabyte": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
    },
    {
        "s": 1, "second": 1, "ms": 1e-3, "millisecond": 1e-3, "us": 1e-6, "microsecond": 1e-6,
        "ns": 1e-9, "nanosecond": 1e-9,
    },
)  # fmt: skip
"""What can be measured in several units: each with its size."""


def number_in(unit: str, typed: str) -> float | None:
    """The number of a text, in this unit; None where the text is no number, or in a unit of
    something else."""
    match = TYPED.fullmatch(typed.strip().rstrip("."))
    if match is None:
        return None
    number, (given, *_) = float(match[1].replace(",", "")), (*_units(match[2]), "")
    wanted = _units(unit)
    if not given or given in wanted:
        return number
    for scale in SCALES:
        if given in scale and wanted[0] in scale:
            return number * scale[given] / scale[wanted[0]]
    return None


def _units(text: str) -> list[str]:
    """The words of a unit, in small letters and without the s of several."""
    words = re.findall(r"[^\W\d_]+|%", text.lower().replace("µ", "u").replace("μ", "u"))
    return [
        "percent" if word == "%" else word if word in ("s", "us", "ms", "ns") else word.rstrip("s")
        for word in words
    ]
