"""The settings of attention in Gluon, and what was measured to choose them."""

import math
from typing import Any, NamedTuple


class HopperSettings(NamedTuple):
    """How a launch of one of the two kernels is cut and run."""

    consumers: int
    """Warp groups that compute, beside a producer warp. 0: small_kernel, of one warp group."""
    block_n: int
    """Keys of a tile."""
    slots: int
    """Tiles in the ring of V, and in that of K."""
    key_slots: int | None = None
    """Tiles in the ring of K, where they are fewer than `slots`."""
    persistent: bool = True
    """As many programs as multiprocessors, which take several tiles each. Otherwise one program
    for each tile, whose output leaves through Q's buffer; small_kernel has no other way."""
    out_halves: bool = False
    """Of a persistent program: the output leaves in two halves through a buffer of half an output,
    where there is no room for a whole one."""
    heads_in_l2: bool = False
    """As many heads side by side as have keys that fit the L2 cache, and not one after the other.
    """
    overlap: bool = True
    """The scores of the next tile are computed before this tile's output."""
    in_turns: bool = False
    """Of several consumers with `overlap`, one after the other starts its products."""
    query_slots: int = 1
    """Tiles of queries in the ring of Q. With 2 the next Q is copied while this one is used; there
    is none where the output leaves through Q's buffer, and 2 are refused."""
    lazy_rescale: bool = False
    """O is rescaled only where a maximum has grown far, which saves a multiplication for nearly
    every element of O and tile of keys, and costs a question that all warps of a consumer answer
    together. Not in small_kernel."""
    longest_first: bool = True
    """Of a causal head, the tiles of the last queries come first."""

    def check(self) -> None:
        """Raise ValueError for what the kernels do not have: with some of it they never end."""
        if not 0 <= self.consumers <= 3:
            raise ValueError(f"flash_attention: consumers is {self.consumers}, and must be 0 to 3.")
        if (self.key_slots or 1) > self.slots:
            raise ValueError(
                f"flash_attention: key_slots is {self.key_slots}, and must be at most slots, "
                f"{self.slots}."
            )
        if self.in_turns and (self.consumers < 2 or not self.overlap):
            raise ValueError("flash_attention: in_turns takes two consumers or more, and overlap.")
        if self.out_in_q and self.query_slots > 1:
            raise ValueError(
                f"flash_attention: query_slots is {self.query_slots}, and must be 1 where a "
                "program has one tile of queries: the output leaves through Q's buffer, and no "
                "further Q comes."
            )

    @property
    def out_in_q(self) -> bool:
        """Whether the output leaves through Q's buffer, as that of a program with one tile does."""
        return not (self.persistent and self.consumers)

    @property
    def queries(self) -> int:
        """Rows of a tile of queries."""
        return ROWS * max(self.consumers, 1)

    @property
    def registers(self) -> tuple[int, int]:
        """Registers per thread of a consumer and of the producer."""
        return (160, 32) if self.consumers == 3 else (240, 24)


ROWS = 64
"""Rows of a warp group: the fewest that its tensor cores multiply."""
KEYS_IN_L2 = 25_000_000
"""Bytes of K and V that stay in the L2 cache while programs read them: half of an H100's 50 MB,
since Q and the outputs pass through it too. Heads that share their keys are counted one by one."""

LARGE_HEADS = HopperSettings(2, 64, 2, out_halves=True, in_turns=True, lazy_rescale=True)
# The fastest of those tried on an H200 with Triton 3.9.0 on 2026-11-22, in float16 and bfloat16.
SETTINGS: dict[tuple[int, bool], tuple[tuple[float, HopperSettings], ...]] = {
    (64, False): (
        (1024, HopperSettings(0, 128, 2)),
        (math.inf, HopperSettings(3, 128, 2, in_turns=True, query_slots=2)),
    ),
    (64, True): (
        (1024, HopperSettings(0, 64, 2)),
        (8192, HopperSettings(0, 128, 2, heads_in_l2=True)),
        (math.inf, HopperSettings(0, 128, 2)),
    ),
    (128, False): (
        (4096, HopperSettings(2, 128, 2, in_turns=True, query_slots=2)),
        (math.inf, HopperSettings(2, 128, 2)),
    ),
    (128, True): (
        (512, HopperSettings(0, 64, 1)),
        (2048, HopperSettings(2, 128, 2, heads_in_l2=True, in_turns=True, query_slots=2)),
        (4096, HopperSettings(2, 128, 2, persistent=False, heads_in_l2=True)),
        (math.inf, HopperSettings(2, 128, 2, persistent=False)),
    ),
    (256, False): ((math.inf, LARGE_HEADS),),
    (256, True): (
        (512, LARGE_HEADS._replace(heads_in_l2=True)),
        (
            math.inf,
            HopperSettings(2, 64, 3, 2, persistent=False, heads_in_l2=True, lazy_rescale=True),
        ),
    ),
}
"""(head_dim, whether causal) -> (the longest keys, settings)."""

ONE_CONSUMER = HopperSettings(
    1, 128, 2, persistent=False, overlap=False, longest_first=False
)


def _steps() -> dict[str, HopperSettings]:
    settings = ONE_CONSUMER
    steps = {"one consumer": settings}
    changes: dict[str, dict[str, Any]] = {
        "two consumers": {"consumers": 2},
        "scores a tile ahead": {"overlap": True},
        "consumers take turns": {"in_turns": True},
        "longest tiles first": {"longest_first": True},
        "persistent": {"persistent": True},
        "the next Q early": {"query_slots": 2},
        "heads share the L2 cache": {"heads_in_l2": True},
    }
    for name, change in changes.items():
        settings = steps[name] = settings._replace(**change)
    return steps | {"small programs": HopperSettings(0, 64, 2)}


STEPS = _steps()
"""What each technique adds, for a head_dim of 64 or 128: every step has those above it, but the
last one, which is another kernel. What they reach on an H200 with Triton 3.9.0 is recorded:
`course recorded flash_attention_hopper_128`."""

FEW_QUERIES = {
    64: HopperSettings(0, 128, 2),
    128: HopperSettings(0, 64, 2),
    256: HopperSettings(1, 64, 2, persistent=False),
}
"""head_dim -> settings where one warp group takes all queries of a head. An H200, Triton 3.9.0."""


def hopper_settings(head_dim: int, causal: bool, seqlen_q: int, seqlen_k: int) -> HopperSettings:
    """The settings for queries and keys of these lengths."""
    if seqlen_q <= ROWS:
        return FEW_QUERIES[head_dim]
    return next(row for most, row in SETTINGS[head_dim, causal] if seqlen_k <= most)


def heads_per_tile(seqlen_q: int, heads_per_key_head: int) -> int:
    """How many heads that share their keys share a tile, where they have few queries each: a power
    of two. TMA copies 8 rows of each at least, which is what its swizzle repeats after."""
    heads = 1
    while (
        heads < 8 and heads_per_key_head % (2 * heads) == 0 and seqlen_q * 2 * heads <= ROWS
    ):
        heads *= 2
    return heads


def heads_side_by_side(
    settings: HopperSettings, columns: int, seqlen_k: int, head_dim: int
) -> int:
    """How many of `columns` heads come side by side. Elements of K and V have 2 bytes."""
    if not settings.heads_in_l2:
        return 1
    return min(max(KEYS_IN_L2 // (4 * seqlen_k * head_dim), 1), columns)
