"""How each line of a speed plot looks, and its words in the legend: the same in every plot."""

from dataclasses import dataclass, replace

from course.display.colors import BLACK, BLUE, GRAY, GREEN, ORANGE, PINK, SKY, VERMILION

WINE, OLIVE, TEAL, PURPLE = "#882255", "#999933", "#44AA99", "#AA4499"


@dataclass(frozen=True)
class Style:
    """A line. Hollow markers and broken lines let another line be seen under them."""

    color: str
    marker: str
    dash: str = "-"
    hollow: bool = False
    width: float = 1.5
    words: str = ""
    """What tells the legend's reader more than the name; or nothing."""


OURS = Style(BLUE, "o", width=3.0)
"""The function that a lesson is about: a broad line, on which others can lie and be seen."""

VERSIONS = {
    "v1": Style(PINK, "^"),
    "v2": Style(GREEN, "v"),
    "v3": Style(SKY, "P"),
    "v4": Style(WINE, "X", "--", hollow=True),
    "v5": Style(OLIVE, "<", "--"),
    "v6": Style(TEAL, ">", "-."),
    "v7": Style(PURPLE, "h", "-."),
    "v8": Style(GRAY, "d", "--", hollow=True),
}

STEPS = (
    "one consumer", "two consumers", "scores a tile ahead", "consumers take turns",
    "longest tiles first", "persistent", "the next Q early", "heads share the L2 cache",
)  # fmt: skip
"""Steps of attention for compute capability 9.0, each with those before it."""

OTHERS = {
    **dict(zip(STEPS, VERSIONS.values(), strict=True)),
    "small programs": Style(ORANGE, "*"),
    "flash_attention_tl": Style(BLACK, "s", "--", hollow=True),
    "without adding dQ": Style(TEAL, ">", "-."),
    # The next four have no versions by which to know them.
    **dict.fromkeys(("bias_gelu", "rms_norm_backward", "flash_attention_backward", "swiglu"), OURS),
    "copy": Style(BLACK, "x", ":"),
    **dict.fromkeys(("torch", "torch.add", "torch, flash"), Style(ORANGE, "s", "--", hollow=True)),
    **dict.fromkeys(("torch.compile", "torch, cuDNN"), Style(VERMILION, "D", "-.", hollow=True)),
    "torch, efficient": Style(OLIVE, "v", "--", hollow=True),
    **dict.fromkeys(("torch, math", "torch, in steps"), Style(GRAY, "P", ":")),
    "a row a program": Style(GREEN, "v", "--", hollow=True, words="one row per program"),
    "num_warps=1": Style(SKY, "^", "--", hollow=True),
    "num_warps=2": Style(PINK, "v", "-."),
    "num_warps=4": Style(BLUE, "o", width=3.0),
    "num_warps=8": Style(GREEN, "P", "-."),
    "num_warps=16": Style(VERMILION, "D", "--", hollow=True),
}

WORDS = {
    "add_v1": "one element per program",
    "add_v2": "a block per program",
    "transpose_v1": "one row per program",
    "softmax_v1": "three sweeps",
    "softmax_v2": "the row in registers",
    "softmax_v3": "online, two sweeps",
    "softmax_v4": "several rows per program",
    "softmax_v5": "vectors of 16 bytes",
    "softmax_v6": "second sweep from the cache",
    "softmax_v7": "several programs per row",
    "softmax_v8": "persistent",
    "matmul_v1": "64 x 64 tiles",
    "matmul_v2": "grouped",
    "matmul_v3": "larger tiles",
    "matmul_v4": "descriptors",
    "matmul_v5": "persistent",
    "rms_norm_v1": "two sweeps",
    "rms_norm_v2": "the row in registers",
    "rms_norm_v3": "several rows per program",
    "rms_norm_v4": "second sweep from the cache",
    "rms_norm_v5": "the weight after the sum",
    "cross_entropy_v1": "two sweeps",
    "cross_entropy_v2": "maximum and sum in one sweep",
    "cross_entropy_v3": "a maximum and a sum per vector",
    "flash_attention_v1": "a mask on every tile",
    "flash_attention_v2": "exp2, masked tiles apart",
    "flash_attention_v3": "measured tiles",
    "flash_attention_v4": "descriptors",
    "flash_attention_v5": "specialized warps",
}
"""The versions of the ladders, as `kernels/` describes them."""

SPARE = (PURPLE, TEAL, WINE, GRAY, PINK, SKY)
MARKERS = "hd<>PX"


def style_of(name: str, rank: int) -> Style:
    """The style of a series. rank: its place in the plot, for a name that is not known here."""
    if name in OTHERS:
        return OTHERS[name]
    version = name.rpartition("_")[2]
    if version in VERSIONS:
        return replace(VERSIONS[version], words=WORDS.get(name, ""))
    if rank == 0 or any(known.startswith(f"{name}_v") for known in WORDS):
        return OURS
    return Style(SPARE[rank % len(SPARE)], MARKERS[rank % len(MARKERS)])


def legend_text(name: str, style: Style) -> str:
    """A series in the legend."""
    if not style.words or name in OTHERS:
        return style.words or name
    return f"{name}: {style.words}"
