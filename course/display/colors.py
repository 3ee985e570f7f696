"""The colors of the pictures: one thing has one color throughout the course.

The table stands in `course/draw/__init__.py`.
"""

# Okabe and Ito's palette (2008), which people with any color vision can tell apart.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
VERMILION, SKY, YELLOW, BLACK = "#D55E00", "#56B4E9", "#F0E442", "#000000"
PALETTE = (BLUE, ORANGE, GREEN, PINK, VERMILION, SKY, YELLOW, BLACK)
GRAY = "#999999"
DARK = "#555555"
LIGHT = "#E8E8E8"

PROGRAMS = (BLUE, ORANGE, GREEN, PINK, SKY, YELLOW)
"""Programs in turn, as `replay` has them."""

# Paul Tol's light scheme, made for cells with black words in them.
WARPS = ("#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#BBCC33", "#44BB99", "#99DDFF", "#BBBBBB")
"""Warps 0 to 7, and again from 8 on."""

# Eight steps of matplotlib's viridis, which grows lighter evenly.
BANKS = (
    "#440154", "#46327E", "#365C8D", "#277F8E", "#1FA187", "#4AC16D", "#A0DA39", "#FDE725",
)  # fmt: skip
"""The 32 banks of shared memory, four by four."""

WORK = {"load": BLUE, "dot": GREEN, "store": ORANGE, "softmax": PINK}
"""What a program does: fetching, multiplying on the tensor cores, writing, arithmetic."""


def ink(color: str) -> str:
    """Black or white, whichever stands out more on `color` (given as #RRGGBB)."""
    return "black" if _luminance(color) > 0.179 else "white"  # sqrt(1.05 * 0.05) - 0.05


def paler(color: str, share: float) -> str:
    """A color mixed with white. share: of white, 0 to 1."""
    mixed = (round(part * (1 - share) + 255 * share) for part in rgb(color))
    return "#" + "".join(f"{part:02X}" for part in mixed)


def rgb(color: str) -> tuple[int, int, int]:
    """Red, green and blue, 0 to 255, of #RRGGBB."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _luminance(color: str) -> float:
    """How light a color is, 0 to 1, as the W3C's guidelines on contrast (WCAG 2) define it."""
    parts = (part / 255 for part in rgb(color))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
