"""Sketches for tensor cores and attention: the walk along K, where tiles live, packing, merging."""

import math
from collections.abc import Sequence

from course.display.colors import BLUE, DARK, GREEN, LIGHT, ORANGE, PINK, PROGRAMS, paler
from course.display.picture import Picture, new_axes
from course.display.shapes import arrow, box, cell, label
from course.errors import CourseError

from .arguments import check_index, check_lists, check_numbers, check_whole

MOST = 8
"""Steps along K, key heads, parts and keys of a part."""
TILE_ROWS = 16
"""Rows of the smallest tile that a dot takes."""


def walk(steps: int, step: int) -> Picture:
    """One tile of c = a @ b: its strip of a and its strip of b, in `steps` tiles along K.

    step: the iteration that is shown, from 0 on; what was added before is colored too, paler.
    """
    check_whole("walk", MOST, steps=steps)
    check_index("step", step, steps)
    axes = new_axes(0.55 * steps + 3.4, 0.55 * steps + 1.6)
    for place in range(steps):
        for x, y, color, name in (
            (place, 0.0, BLUE, "a"),
            (steps + 0.5, steps + 0.5 - place, ORANGE, "b"),
        ):
            shade = color if place == step else paler(color, 0.7) if place < step else LIGHT
            cell(axes, x, y, shade, f"{name}{place}", size=9)
    cell(axes, steps + 0.5, 0, GREEN, "c", size=10)
    arrow(axes, (0.1, -0.25), (steps - 0.1, -0.25), DARK)
    arrow(axes, (steps + 1.75, steps + 1.4), (steps + 1.75, 1.6), DARK)
    label(axes, steps / 2, -0.55, "along K: one tile of the rows of a …")
    label(axes, steps + 1.95, steps / 2 + 1, "… and one of\nthe columns of b", ha="left")
    so_far = " + ".join(f"a{place} @ b{place}" for place in range(step + 1))
    axes.text(0, -1.1, f"iteration {step}: c = {so_far}", fontsize=9)
    alt = (
        f"A tile of c with its strip of a, {steps} tiles from left to right, and its strip of b, "
        f"{steps} tiles from top to bottom. Iteration {step} multiplies a{step} and b{step}; "
        f"c holds {so_far}."
    )
    return Picture.of_sketch(axes, (-0.2, steps + 4.4), (-1.4, steps + 1.7), alt)


def residence(block_m: int, block_n: int, d: int, warps: int) -> Picture:
    """Where q, k, v, S, P and O live in one iteration of flash attention on Hopper, with sizes.

    Float16 tiles in shared memory; S and O in float32 and P in 16 bits in the registers of
    `warps` warps, each evenly over their threads. One buffer of k and of v is drawn.
    """
    check_whole("residence", 512, block_m=block_m, block_n=block_n, d=d, warps=warps)
    threads = 32 * warps
    tiles = {"q": block_m * d, "k": block_n * d, "v": block_n * d}
    held = {"S": block_m * block_n, "P": block_m * block_n / 2, "O": block_m * d}
    axes = new_axes(8.4, 3.3)
    spots = {"q": 0.2, "k": 2.0, "v": 4.9}
    for name, x in spots.items():
        cell(axes, x, 2.2, BLUE, f"{name}\n{2 * tiles[name] / 1024:g} KB", width=1.5, size=9)
    places = {"S": 1.1, "P": 4.0, "O": 6.6}
    for name, x in places.items():
        text = f"{name}\n{held[name] / threads:g} registers"
        cell(axes, x, 0, PINK if name == "P" else GREEN, text, width=1.7, size=9)
    for name in ("q", "k"):
        arrow(axes, (spots[name] + 0.75, 2.15), (places["S"] + 0.85, 1.05), DARK)
    arrow(axes, (spots["v"] + 0.75, 2.15), (places["O"] + 0.6, 1.05), DARK)
    arrow(axes, (places["S"] + 1.75, 0.5), (places["P"] - 0.05, 0.5), DARK)
    arrow(axes, (places["P"] + 1.75, 0.5), (places["O"] - 0.05, 0.5), DARK)
    label(axes, 1.95, 1.5, "dot")
    label(axes, 3.35, 0.72, "softmax")
    label(axes, 6.2, 0.72, "dot")
    label(axes, 8.5, 2.7, "shared\nmemory", ha="left", fontsize=9)
    label(axes, 8.5, 0.5, "registers of\neach thread", ha="left", fontsize=9)
    axes.plot([0, 9.9], [1.75, 1.75], color=LIGHT, lw=1)
    in_shared = ", ".join(f"{name} {2 * size / 1024:g} KB" for name, size in tiles.items())
    in_registers = ", ".join(f"{name} {size / threads:g}" for name, size in held.items())
    alt = (
        f"One iteration with tiles of {block_m} x {block_n}, {d} dimensions and {warps} warps. In "
        f"shared memory: {in_shared}. In registers per thread: {in_registers}. The first dot reads "
        "q and k there and leaves S in registers; the softmax makes P of it, which stays in "
        "registers; the second dot takes P from there and v from shared memory, and adds to O."
    )
    return Picture.of_sketch(axes, (0, 10.2), (-0.2, 3.4), alt)


def packing(key_heads: int, group: int) -> Picture:
    """One query per head: a tile of 16 rows for each head, and one for each group.

    group: heads that share a key head, 1 to 16.
    """
    check_whole("packing", MOST, key_heads=key_heads)
    check_whole("packing", TILE_ROWS, group=group)
    heads = key_heads * group
    axes = new_axes(min(10.0, 0.42 * (heads + key_heads) + 2.4), 2.7)
    for head in range(heads):
        color = PROGRAMS[head // group % len(PROGRAMS)]
        box(axes, head, 0, 0.85, TILE_ROWS, LIGHT)
        box(axes, head, TILE_ROWS - 1, 0.85, 1, color)
        packed = heads + 2 + head // group
        if head % group == 0:
            box(axes, packed, 0, 0.85, TILE_ROWS, LIGHT)
        row = TILE_ROWS - 1 - head % group
        box(axes, packed, row, 0.85, 1, color, edgecolor="white", lw=0.5)
    unpacked = f"a tile per head: {heads} tiles, 1 of {TILE_ROWS} rows used"
    together = f"packed: {key_heads} tiles,\n{group} of {TILE_ROWS} rows used"
    for x, words in ((heads / 2, unpacked), (heads + 2 + key_heads / 2, together)):
        label(axes, x, -1.6, words, fontsize=9)
    alt = (
        f"{heads} heads of one query, {group} to a key head. Unpacked they are {heads} tiles of "
        f"{TILE_ROWS} rows with one row used in each, packed {key_heads} tiles with {group}."
    )
    return Picture.of_sketch(axes, (-0.6, heads + key_heads + 3.4), (-3, TILE_ROWS + 0.6), alt)


def _log_sum_exp(scores: Sequence[float]) -> float:
    largest = max(scores)
    return largest + math.log(sum(math.exp(score - largest) for score in scores))


def merge(scores: Sequence[Sequence[float]], values: Sequence[Sequence[float]]) -> Picture:
    """Parts of one query's keys, merged by their log-sum-exps.

    scores, values: a list for each part, of one number per key.
    """
    check_lists("merge", 2, scores=scores, values=values)
    check_whole("merge", MOST, parts=len(scores))
    if [len(part) for part in scores] != [len(part) for part in values]:
        raise CourseError("draw.merge takes as many values as scores in each part.")
    for name, parts in (("scores", scores), ("values", values)):
        check_numbers("merge", **{f"{name}[{i}]": part for i, part in enumerate(parts)})
    lse = [_log_sum_exp(part) for part in scores]
    own = [
        sum(math.exp(score - total) * value for score, value in zip(part, held, strict=True))
        for part, held, total in zip(scores, values, lse, strict=True)
    ]
    weights = [math.exp(total - max(lse)) for total in lse]
    merged = sum(w * out for w, out in zip(weights, own, strict=True)) / sum(weights)
    widest = max(map(len, scores))
    axes = new_axes(0.75 * widest + 6.2, 0.42 * len(scores) + 1.3)
    heads = {
        widest / 2: "scores",
        widest + 1.2: "lse",
        widest + 3.1: "exp(lse - max)",
        widest + 5.2: "result",
    }
    for x, words in heads.items():
        label(axes, x, 1.35, words, fontsize=9)
    for row, part in enumerate(scores):
        color = PROGRAMS[row % len(PROGRAMS)]
        for place, score in enumerate(part):
            cell(axes, place, -row, color, f"{score:g}", size=9)
        for x, number in ((1.2, lse[row]), (3.1, weights[row]), (5.2, own[row])):
            label(axes, widest + x, 0.5 - row, f"{number:.3f}", fontsize=9)
    products = " + ".join(f"{w:.3f} x {out:.3f}" for w, out in zip(weights, own, strict=True))
    last = f"({products}) / {sum(weights):.3f} = {merged:.3f}"
    axes.text(0, -len(scores) + 0.3, last, fontsize=9, va="center")
    alt = (
        f"{len(scores)} parts with log-sum-exps "
        f"{', '.join(f'{each:.3f}' for each in lse)}, weights "
        f"{', '.join(f'{each:.3f}' for each in weights)} and results "
        f"{', '.join(f'{each:.3f}' for each in own)}. Merged: {last}."
    )
    return Picture.of_sketch(axes, (-0.2, widest + 6.4), (-len(scores) - 0.2, 1.9), alt)
