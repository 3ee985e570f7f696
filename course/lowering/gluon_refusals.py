"""What Triton's refusals of Gluon mean, where its own words name types that nobody has written."""

import re
from collections.abc import Sequence

REFUSALS = (
    (
        r"Loop carried variable (\w+) changed type, .*warpgroup_mma_accumulator.*",
        r"\1 is a product under way, which is no value yet: take what "
        r"warpgroup_mma_wait(…, deps=[\1]) returns, after the product and before the iteration "
        "ends.",
    ),
    (
        r"'warpgroup_mma_accumulator' object is not iterable\.",
        "warpgroup_mma_wait takes its products in a list: write deps=[acc].",
    ),
    (
        r".*warpgroup_mma_accumulator.*",
        "This product is still running. Use the value that "
        "warpgroup_mma_wait(…, deps=[…]) returns.",
    ),
    (
        r"cannot convert (\w+Layout)\(.* to tensor.*",
        r"A \1 must be a constant: write `layout: gl.constexpr = …`.",
    ),
    (
        r"'shared_memory_descriptor' object has no attribute '__(get|set)item__'\.",
        "Buffers and barriers are not indexed by [ ]: write buffers.index(i) for number i.",
    ),
    (
        r"'shared_memory_descriptor_type' object has no attribute .*"
        r"|cannot convert shared_memory_descriptor<.* to tensor.*",
        "A buffer in shared memory is no block of values: read it by buffer.load(layout) first.",
    ),
)
"""Triton's words, and what to do about them."""


def plainer(reason: str, refusals: Sequence[tuple[str, str]] = REFUSALS) -> str:
    """The refusal in words that say what to do, where it is one of those that are known; by
    default of Gluon's."""
    for words, instead in refusals:
        if match := re.fullmatch(words, reason):
            return match.expand(instead)
    return reason
