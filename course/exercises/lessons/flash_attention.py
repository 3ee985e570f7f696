"""The exercises on the topic "flash attention"."""

import itertools
import math
import re
from collections.abc import Callable

import torch
import triton
from torch import Tensor
from torch.nn.functional import pad

from course.exercises.judges.required_code import (
    places_in_64_bits,
    strides_in_64_bits,
    sums_in_float32,
)
from course.exercises.kinds import KernelExercise, LauncherExercise, NumberExercise, TensorFunction
from course.exercises.result import Judged, wrong
from course.type_names import Kernel
from course.verifying.inputs import Case, Input

LN2 = math.log(2)
HALF = torch.float16
BLOCK_M, BLOCK_N = 64, 16
"""Queries and keys of a tile in the exercises with a loop; no head has as many numbers."""
ROUNDED = 2e-3
"""Shares are rounded to float16, and their products with values cancel."""


def _case(
    queries: int,
    keys: int,
    head_dim: int = 32,
    scalars: tuple[int, ...] = (),
    values: str = "normal",
) -> Case:
    q, k = Input((queries, head_dim), HALF, values=values), Input((keys, head_dim), HALF)
    return Case((q, k, k), seed=queries + keys, scalars=scalars)


def _two(queries: int, keys: int, head_dim: int) -> Case:
    """Queries and keys without values."""
    shapes = (queries, head_dim), (keys, head_dim)
    return Case(tuple(Input(shape, HALF) for shape in shapes), seed=queries + keys)


def _heads(heads: int, key_heads: int, queries: int, keys: int) -> Case:
    shapes = (heads, queries, 32), (key_heads, keys, 32), (key_heads, keys, 32)
    return Case(tuple(Input(shape, HALF) for shape in shapes), seed=heads + keys)


def _low(
    queries: tuple[int, ...], keys: tuple[int, ...], values: int = 1, large: bool = True
) -> Case:
    """Scores of about -10^10, or of -10^6 where they are not large.

    Those of a single key lie below whatever stands in for the -inf of keys that are not there.
    values: how many tensors of the keys' shape come after the keys.
    """
    q = Input(queries, HALF, values="near the maximum" if large else "each at least 1")
    k = Input(keys, HALF, values="near the minimum")
    return Case((q, k, *(Input(keys, HALF),) * values), seed=queries[-2])


def _scores(q: Tensor, k: Tensor) -> Tensor:
    scores: Tensor = q @ k.mT * q.shape[-1] ** -0.5
    return scores


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(_scores(q, k), -1) @ v


def _masked(
    q: Tensor, k: Tensor, v: Tensor, window: int = 2**30, shift: int = 0, unseen: float = 0.0
) -> Tensor:
    """Query m sees the last `window` of the keys up to m + N - M.

    shift: how many keys further the last one is.
    unseen: what a query gives that sees no key.
    """
    last = torch.arange(len(q), device=q.device)[:, None] + len(k) - len(q) + shift
    cols = torch.arange(len(k), device=q.device)[None, :]
    scores = _scores(q, k).masked_fill((cols > last) | (cols <= last - window), -torch.inf)
    return torch.softmax(scores, -1).nan_to_num(unseen) @ v


def _windowed(
    q: Tensor, k: Tensor, v: Tensor, window: int, left: bool = True, right: bool = True
) -> Tensor:
    """A sliding window in which a tile's keys are hidden on its left and its right, or are not: a
    key that is not there then counts with a score of 0."""
    outs = []
    for first_row in range(0, len(q), BLOCK_M):
        sees = first_row + len(k) - len(q)
        first = max(sees - window + 1, 0) // BLOCK_N * BLOCK_N
        end = min(sees + BLOCK_M, len(k))
        cols = torch.arange(first, first + max(0, triton.cdiv(end - first, BLOCK_N)) * BLOCK_N)
        tile = q[first_row : first_row + BLOCK_M]
        keys, values = (pad(x, (0, 0, 0, BLOCK_N))[cols] for x in (k, v))
        last = torch.arange(len(tile))[:, None] + sees
        hidden = ((cols <= last - window) & left) | ((cols > last) & right)
        scores = _scores(tile, keys).masked_fill(hidden.to(q.device), -torch.inf)
        outs.append(torch.softmax(scores, -1).nan_to_num() @ values)
    return torch.cat(outs)


def _batches(shape: tuple[int, int, int, int, int, int], causal: int, even: int = 0) -> Case:
    """shape: batch, heads, key heads, queries, keys, head_dim. even: what a launch makes of it."""
    batch, heads, key_heads, queries, keys, head_dim = shape
    q = Input((batch, heads, queries, head_dim), HALF)
    k = Input((batch, key_heads, keys, head_dim), HALF)
    return Case((q, k, k), seed=queries + keys, scalars=(causal, even))


def _with_lse(
    q: Tensor, k: Tensor, v: Tensor, causal: int, even: int, shared: bool = False
) -> Tensor:
    """The output of each query joined with its log-sum-exp.

    shared: whether head h takes key head h % key heads, and not h // heads per key head.
    """
    more = q.shape[1] // k.shape[1]
    k, v = (x.repeat(1, more, 1, 1) if shared else x.repeat_interleave(more, dim=1) for x in (k, v))
    scores = _scores(q, k)
    if causal:
        seen = torch.ones(scores.shape[-2:], device=q.device).tril(k.shape[2] - q.shape[2]) > 0
        scores = scores.masked_fill(~seen, -torch.inf)
    return _joined(torch.softmax(scores, -1).nan_to_num() @ v, scores.logsumexp(-1))


def _joined(out: Tensor, lse: Tensor) -> Tensor:
    """The output, and behind each query's numbers a sixteenth of its log-sum-exp, or a large
    negative number where it sees no key."""
    return torch.cat([out, (lse.clamp(min=-1000) / 16)[..., None].to(out.dtype)], -1)


def _log_sum_exp(q: Tensor, k: Tensor) -> Tensor:
    q, k = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k))
    return torch.logsumexp(_scores(q, k), -1)


def _largest(q: Tensor, k: Tensor) -> Tensor:
    """Each query's largest score."""
    return _scores(q, k).max(-1).values


def _padded(q: Tensor, k: Tensor, v: Tensor, score: float = 0.0) -> Tensor:
    """Attention to keys that are not there, with this score, up to a power of two."""
    more = max(16, triton.next_power_of_2(len(k))) - len(k)
    scores = pad(_scores(q, k), (0, more), value=score)
    return torch.softmax(scores, -1)[:, : len(k)] @ v


def _undivided(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.exp(_scores(q, k) - _largest(q, k)[:, None]) @ v


def _online(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    acc_kept: Callable[[Tensor], Tensor] = torch.exp,
    total_kept: Callable[[Tensor], Tensor] = torch.exp,
    divided: bool = False,
    m_times: float = 1.0,
) -> Tensor:
    """The loop over tiles of keys, with a slip.

    acc_kept, total_kept: what the accumulator and the total are multiplied by, of the difference
    of two maxima.
    divided: the accumulator by the total, in every turn.
    m_times: how many times the largest score m is. Any m would cancel out, but for powers that
        float16 cannot hold.
    """
    m = torch.full((len(q), 1), -torch.inf, dtype=q.dtype, device=q.device)
    acc, total = torch.zeros_like(q), torch.zeros_like(m)
    for first in range(0, len(k), BLOCK_N):
        scores = _scores(q, k[first : first + BLOCK_N])
        new_m = torch.maximum(m, scores.max(-1, keepdim=True).values * m_times)
        power, difference = torch.exp(scores - new_m), m - new_m
        added = power.half().to(v.dtype) @ v[first : first + BLOCK_N]
        acc = acc * acc_kept(difference) + added
        total = total * total_kept(difference) + power.sum(-1, keepdim=True)
        acc, m = acc / total if divided else acc, new_m
    return acc / total


def _total_kept(q: Tensor, k: Tensor) -> Tensor:
    """The sum of the powers, where each tile's keep the unit of the maximum of its time."""
    tiles = _scores(q, k).split(BLOCK_N, -1)
    maxima = torch.stack([tile.max(-1).values for tile in tiles]).cummax(0).values
    pairs = zip(tiles, maxima, strict=True)
    return torch.stack([torch.exp(tile - m[:, None]).sum(-1) for tile, m in pairs]).sum(0)


def _unscaled_exp(difference: Tensor) -> Tensor:
    """2 to a difference that is in powers of e: what exp makes of one in powers of two."""
    return torch.exp(difference / LN2)


def _scaled_twice(q: Tensor) -> Callable[[Tensor], Tensor]:
    """What scale2 makes of a difference of maxima that it is in already."""
    scale2 = q.shape[-1] ** -0.5 / LN2
    return lambda difference: torch.exp(difference * scale2)


def _last_tile(k: Tensor) -> int:
    """Where the last tile of keys begins."""
    return (len(k) - 1) // BLOCK_N * BLOCK_N


def _last_tile_alone(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    shares = torch.softmax(_scores(q, k), -1)
    first = _last_tile(k)
    return shares[:, first:] @ v[first:]


def _grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _attention(q, *(x.repeat_interleave(len(q) // len(x), dim=0) for x in (k, v)))


def _as_if(expected: int, x: Tensor, rows: int) -> Tensor:
    """What is read of `_apart(x, rows)` where so many rows are expected between its heads."""
    memory, (heads, length, d) = pad(x, (0, 0, 0, rows)), x.shape
    return memory.flatten()[: heads * (length + expected) * d].view(heads, -1, d)[:, :length]


def _one_tile(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out, (block_m, d) = torch.empty_like(q), q.shape
    block_n = max(16, triton.next_power_of_2(len(k)))
    kernel[(1,)](q, k, v, out, len(k), d**-0.5, D=d, BLOCK_M=block_m, BLOCK_N=block_n)
    return out


def _loop(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, *more: float) -> Tensor:
    """more: what the kernel is given besides, a window or a slope."""
    out, (queries, d) = torch.empty_like(q), q.shape
    kernel[(triton.cdiv(queries, BLOCK_M),)](
        q, k, v, out, queries, len(k), *more, d**-0.5, D=d, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N
    )
    return out


def _lse(kernel: Kernel, q: Tensor, k: Tensor) -> Tensor:
    lse, (queries, d) = torch.empty(len(q), dtype=torch.float32, device=q.device), q.shape
    kernel[(triton.cdiv(queries, BLOCK_M),)](
        q, k, lse, queries, len(k), d**-0.5, D=d, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N
    )
    return lse


def _apart(x: Tensor, rows: int) -> Tensor:
    """The same heads, with so many rows of zeros after each."""
    heads, length, d = x.shape
    return torch.zeros(heads, length + rows, d, dtype=x.dtype, device=x.device)[:, :-rows].copy_(x)


def _by_head(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out, (heads, queries, d) = torch.empty(q.shape, dtype=q.dtype, device=q.device), q.shape
    q, k, v = _apart(q, 2), _apart(k, 1), _apart(v, 3)
    kernel[(heads,)](
        q, k, v, out, heads, len(k), queries, k.shape[1], d**-0.5,
        q.stride(0), k.stride(0), v.stride(0), D=d, BLOCK_M=64, BLOCK_N=64,
    )  # fmt: skip
    return out


def _side_by_side(x: Tensor) -> Tensor:
    """The same, as [batch, length, heads, D] in memory."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _strided(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, causal: int, even: int) -> Tensor:
    """The output with its log-sum-exp, of tensors whose heads lie apart and in another order.

    even: whether tiles are 64 x 64, which no other launch's are; -1 gives the kernel no flags.
    """
    (batch, heads, queries, d), keys, key_heads = q.shape, k.shape[2], k.shape[1]
    q = _side_by_side(q)
    k, v = (_apart(x.flatten(0, 1), more).unflatten(0, x.shape[:2]) for x, more in ((k, 1), (v, 3)))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(batch, heads, queries + 3, dtype=torch.float32, device=q.device)
    block_m, block_n = (64 if even == 1 else 32), 64
    block_d = max(16, triton.next_power_of_2(d))
    fills = {"M": queries % block_m == 0, "N": keys % block_n == 0, "HEADDIM": d == block_d}
    flags = {f"EVEN_{axis}": fill for axis, fill in fills.items()} if even >= 0 else {}
    kernel[(triton.cdiv(queries, block_m), heads, batch)](
        q, k, v, out, lse, d**-0.5, heads, *(x.stride()[:3] for x in (q, k, v, out)),
        (queries, keys), queries + 3, d, **flags, IS_CAUSAL=bool(causal), BLOCK_HEADDIM=block_d,
        BLOCK_M=block_m, BLOCK_N=block_n, HEADS_PER_KEY_HEAD=heads // key_heads,
    )  # fmt: skip
    return _joined(out, lse[..., :queries])


def _as_one_matrix(
    kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, causal: int, programs: int
) -> Tensor:
    """The output with its log-sum-exp. Heads lie side by side in q, under a causal mask also in
    k and the output, and without one in v; the others lie head after head.

    programs: how many take the tiles; 0 for one each.
    """
    (batch, heads, queries, d), (_, key_heads, keys, _) = q.shape, k.shape
    out, q = torch.empty_like(q, memory_format=torch.contiguous_format), _side_by_side(q)
    if causal:
        out, k = _side_by_side(out), _side_by_side(k)
    else:
        v = _side_by_side(v)
    lse = torch.empty(batch, heads, queries, dtype=torch.float32, device=q.device)
    block_m, block_n = (128, 64) if programs else (32, 32)
    tiles = batch * heads * queries // block_m
    rows = tuple(x.numel() // x.stride(2) for x in (q, k, v, out))
    triton.set_allocator(  # in a child of its own
        lambda size, _, stream: torch.empty(size, dtype=torch.int8, device=q.device)
    )
    kernel[(programs or tiles,)](
        q, k, v, out, lse, d**-0.5, heads, queries // block_m, tiles,
        *(x.stride()[:3] for x in (q, k, v, out)), rows, (queries, keys), IS_CAUSAL=bool(causal),
        HEADDIM=d, BLOCK_M=block_m, BLOCK_N=block_n, HEADS_PER_KEY_HEAD=heads // key_heads,
        num_stages=2,
    )  # fmt: skip
    return _joined(out, lse)


def _first_tiles(x: Tensor) -> Tensor:
    """The first tile of each head, in the place of every one."""
    return x[:, :, :32].repeat(1, 1, x.shape[2] // 32, 1)


def _whole_tiles_alone(q: Tensor, k: Tensor, v: Tensor, causal: int, even: int) -> Tensor:
    """Without the keys behind the last whole tile of 64, where no causal mask looks at them."""
    end = k.shape[2] if causal else k.shape[2] // 64 * 64
    return _with_lse(q, k[:, :, :end], v[:, :, :end], causal, even)


def _divided(stages: dict[str, str]) -> Judged | None:
    ttir, ttgir = stages["ttir"], stages["ttgir"]
    if "ttg.warp_specialize" not in ttgir:
        text = (
            "The compiler gave it one group of warps: ask for more at the head of the loop over "
            "tiles, by warp_specialize=True."
        )
        return wrong("not divided", text)
    # Without a causal mask all tiles are equally long, and n_blocks is 1, a constant. Which round a
    # tile is of is its number divided by the step, by which nothing else is divided.
    loops = re.findall(r"scf\.for (%[\w.]+) = .* step (%[\w.]+)", ttir)
    turned = (re.findall(rf"divsi (%[\w.]+), {step} ", ttir) == [nth] for nth, step in loops)
    if re.search(r"divsi .*, %n_blocks ", ttir) and not any(turned):
        text = (
            "Under a causal mask its tiles come in the order of their numbers, so that a program "
            "has a long one in each round: take turned(nth, n_programs, n_tiles)."
        )
        return wrong("not turned", text)
    return None


def _no_mask_left(stages: dict[str, str]) -> Judged | None:
    """What is left of the masks in a launch with all flags, whose tiles are 64 x 64."""
    ttir = stages["ttir"]
    if "tensor<64x64xf32>" not in ttir:
        return None
    if ttir.count("scf.for") > 1:
        text = "All tiles are full, and its second loop is still there: give borders EVEN_N."
        return wrong("second loop", text)
    if re.search(r"arith\.cmpi .*tensor<", ttir):
        text = "All tiles are full, and it still compares rows or dimensions with their ends."
        return wrong("mask left", text)
    return None


def _least_bytes(q: Tensor, k: Tensor, v: Tensor, window: int = 2**30) -> int:
    """Bytes of queries and results, and of the tiles of keys and values that each program sees."""
    moved, last = 2 * q.nbytes, len(k) - len(q)
    for first_row in range(0, len(q), BLOCK_M):
        end = min(first_row + BLOCK_M, len(q)) + last
        start = max(0, first_row + last - window + 1) // BLOCK_N * BLOCK_N
        moved += max(0, min(triton.cdiv(end, BLOCK_N) * BLOCK_N, len(k)) - start) * (
            k[0].nbytes + v[0].nbytes
        )
    return moved


def _biased(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    eighths: int,
    before_the_scale: float = 0.0,
    shift: int | None = None,
    distances: bool = True,
) -> Tensor:
    """Each score less a slope, in eighths, times the distance to the query's own place.

    before_the_scale: what the slope is multiplied by where the bias is in other units.
    shift: the first query's place among the keys; by default the last query's is the last key's.
    distances: or differences, which are negative for keys behind.
    """  # fmt: skip
    shift = len(k) - len(q) if shift is None else shift
    places = torch.arange(len(q), device=q.device)[:, None] + shift
    distance = places - torch.arange(len(k), device=q.device)
    distance = distance.abs() if distances else distance
    slope = eighths / 8 * (before_the_scale or 1.0)
    return torch.softmax(_scores(q, k) - slope * distance.to(q.dtype), -1) @ v


def _texts(heads: int, *lengths: int) -> Case:
    """Texts one after another, each with so many tokens."""
    x = Input((sum(lengths), heads, 32), HALF)
    return Case((x, x, x), seed=sum(lengths), scalars=lengths)


def _each_text(q: Tensor, k: Tensor, v: Tensor, *lengths: int) -> Tensor:
    texts = zip(*(x.split(list(lengths)) for x in (q, k, v)), strict=True)
    heads = [
        torch.stack([_masked(*(x[:, h] for x in text)) for h in range(q.shape[1])], 1)
        for text in texts
    ]
    return torch.cat(heads)


def _launch_texts(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, *lengths: int) -> Tensor:
    out, (_, heads, d) = torch.empty_like(q), q.shape
    starts = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device=q.device)
    grid = triton.cdiv(max(lengths), BLOCK_M), len(lengths), heads
    kernel[grid](q, k, v, out, starts, heads, d**-0.5, D=d, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return out


def _token(heads: int, key_heads: int, keys: int, head_dim: int, values: str = "normal") -> Case:
    """One query per head."""
    q = Input((heads, head_dim), HALF, values=values)
    k = Input((key_heads, keys, head_dim), HALF)
    return Case((q, k, k), seed=keys)


def _one_token(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _grouped(q[:, None], k, v)[:, 0]


def _merged_by(weigh: Callable[[Tensor], Tensor]) -> TensorFunction:
    """The results of 64 keys each, weighed by what `weigh` makes of [heads, parts, 64] scores."""

    def merged(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (x.repeat_interleave(len(q) // len(x), dim=0) for x in (k, v))
        more = -k.shape[1] % 64
        scores = pad(_scores(q[:, None], k)[:, 0], (0, more), value=-torch.inf)
        scores = scores.unflatten(1, (-1, 64))
        values = pad(v, (0, 0, 0, more)).unflatten(1, (-1, 64))
        parts = (torch.softmax(scores, -1)[:, :, None] @ values)[:, :, 0]
        out: Tensor = (weigh(scores)[:, None] @ parts)[:, 0]
        return out

    return merged


def _in_powers_of_two(stages: dict[str, str]) -> Judged | None:
    if " math.exp " in stages["ttir"]:
        text = "It takes tl.exp, and the scores count in powers of two: take tl.exp2 of them."
        return wrong("exp", text)
    return None


def _exp2_with_the_scale(stages: dict[str, str]) -> Judged | None:
    """What a kernel does to each score more than a multiply-add and exp2; None if nothing.

    A tile of scores is [BLOCK_M, BLOCK_N]; no case has as many numbers in a head.
    """
    tile = f"tensor<{BLOCK_M}x{BLOCK_N}xf32"
    lines = [line for line in stages["ttir"].splitlines() if tile in line]
    if any(" math.exp " in line for line in lines):
        again = "which multiplies each of them again: take tl.exp2"
        return wrong("exp", f"It takes tl.exp of the scores, {again}.")
    products = [line.split("=")[0].strip() for line in lines if " arith.mulf " in line]
    if len(products) > 1:
        text = "It multiplies each score more than once: scale2 holds both factors."
        return wrong("products", text)
    if any(f'"tt.reduce"({name})' in stages["ttir"] for name in products):
        return wrong(
            "scaled maximum",
            "It takes the maximum of scores that were scaled: take it of the scores as the dot "
            "gives them, and multiply it by scale2, once per row.",
        )
    return sums_in_float32(stages)


TILE = ("D", "BLOCK_M", "BLOCK_N")
POINTERS = (
    "q_ptr", "k_ptr", "v_ptr", "out_ptr", "lse_ptr", "scale", "nheads", "stride_q", "stride_k",
    "stride_v", "stride_out", "lengths", "stride_lse", "head_dim",
)  # fmt: skip
MATRICES = (
    *POINTERS[:7], "n_blocks", "n_tiles", "stride_q", "stride_k", "stride_v", "stride_out",
    "matrix_rows", "lengths", "IS_CAUSAL", "HEADDIM", "BLOCK_M", "BLOCK_N",
)  # fmt: skip
STRIDED_TILE = ("BLOCK_HEADDIM", "BLOCK_M", "BLOCK_N", "HEADS_PER_KEY_HEAD")

EXERCISES = (
    KernelExercise(
        "one-tile",
        parameters=("q_ptr", "k_ptr", "v_ptr", "out_ptr", "n_keys", "scale", *TILE),
        reference=_attention,
        slips={
            "keys that are not there count with a score of 0": _padded,
            "the scores are not scaled": lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v,
            "nothing is divided by the sum of the powers": _undivided,
            "a finite number stands in for the -inf of keys that are not there, and these scores "
            "lie below it": lambda q, k, v: _padded(q, k, v, score=-1e9),
        },
        cases=(
            _case(16, 13), _case(16, 30, values="far apart"), _case(32, 32),
            _low((16, 64), (1, 64)), _case(64, 50),
        ),
        launch=_one_tile,
        absolute=ROUNDED,
        in_float32=True,
        compiled=sums_in_float32,
    ),
    KernelExercise(
        "attention-loop",
        parameters=("q_ptr", "k_ptr", "v_ptr", "out_ptr", "n_queries", "n_keys", "scale", *TILE),
        reference=_attention,
        slips={
            "acc keeps its old unit: it is not multiplied by rescale":
            lambda q, k, v: _online(q, k, v, acc_kept=torch.ones_like),
            "total keeps its old unit: it is not multiplied by rescale":
            lambda q, k, v: _online(q, k, v, total_kept=torch.ones_like),
            "rescale is 1 all the time: m is overwritten before rescale is computed":
            lambda q, k, v: _online(q, k, v, torch.ones_like, torch.ones_like),
            "acc holds the last tile alone": _last_tile_alone,
            "acc is divided by total in every turn, and not once behind the loop":
            lambda q, k, v: _online(q, k, v, divided=True),
            "m stays -inf, so that rescale is 0 and takes all earlier tiles away":
            lambda q, k, v: _attention(q, k[_last_tile(k) :], v[_last_tile(k) :]),
        },
        cases=(
            _case(37, 75), _case(20, 90, values="far apart"), _case(32, 64), _case(1, 130),
            _low((64, 64), (1, 64)),
        ),
        launch=_loop,
        absolute=ROUNDED,
        in_float32=True,
        compiled=sums_in_float32,
    ),
    KernelExercise(
        "scale-in-the-exponent",
        parameters=("q_ptr", "k_ptr", "v_ptr", "out_ptr", "n_queries", "n_keys", "scale", *TILE),
        reference=_attention,
        slips={
            "the scores are not scaled": lambda q, k, v: torch.softmax(q @ k.mT * LN2, -1) @ v,
            "scale2 is taken for powers of e":
            lambda q, k, v: torch.softmax(_scores(q, k) / LN2, -1) @ v,
            "acc keeps its old unit: rescale is 1 all the time":
            lambda q, k, v: _online(q, k, v, torch.ones_like, torch.ones_like),
            "rescale is a power of e, and m counts in powers of two":
            lambda q, k, v: _online(q, k, v, _unscaled_exp, _unscaled_exp),
            "rescale is multiplied by scale2 a second time: both maxima are scaled already":
            lambda q, k, v: _online(q, k, v, _scaled_twice(q), _scaled_twice(q)),
            "the maximum is not scaled, so that powers below it are too small for float16":
            lambda q, k, v: _online(q, k, v, m_times=LN2 * q.shape[-1] ** 0.5),
        },
        cases=(
            _case(37, 75, 64), _case(20, 90, values="far apart"), _case(32, 64, 64),
            _case(1, 130),
            # A GPU rounds scores * scale2 - m once, and m was rounded before: where m is about
            # 10^11, the two are thousands apart.
            _low((64, 64), (1, 64), large=False),
        ),
        launch=_loop,
        absolute=ROUNDED,
        in_float32=True,
        compiled=_exp2_with_the_scale,
    ),
    KernelExercise(
        "log-sum-exp",
        parameters=("q_ptr", "k_ptr", "lse_ptr", "n_queries", "n_keys", "scale", *TILE),
        reference=_log_sum_exp,
        slips={
            "the result is in powers of two: times ln 2 is missing, or the logarithm is log2":
            lambda q, k: _log_sum_exp(q, k) / LN2,
            "m is in powers of two, and the rest is not":
            lambda q, k: _largest(q, k) / LN2 + _log_sum_exp(q, k) - _largest(q, k),
            "the logarithm of total is in powers of two, and m is not":
            lambda q, k: _largest(q, k) + (_log_sum_exp(q, k) - _largest(q, k)) / LN2,
            "m is divided by ln 2, and not multiplied":
            lambda q, k: _largest(q, k) / LN2**2 + _log_sum_exp(q, k) - _largest(q, k),
            "m is left out": lambda q, k: _log_sum_exp(q, k) - _largest(q, k),
            "total keeps its old unit: it is not multiplied by rescale":
            lambda q, k: _largest(q, k) + _total_kept(q, k).log(),
        },
        cases=(
            _two(37, 75, 32), _two(32, 64, 64), _two(1, 130, 16),
            _low((40, 32), (1, 32), values=0),
        ),
        launch=_lse,
        absolute=1e-5,
        compiled=_in_powers_of_two,
    ),
    NumberExercise(
        "tiles-left",
        right=1056,
        unit="tiles",
        relative=0.0,
        because="Program i computes the 2 * (i + 1) tiles up to its last query's key: 2 + 4 + … "
            "+ 64.",
        slips={
            2048: "Those are all tiles: the ones above the staircase are skipped.",
            1024: "That is half of all. Of the tiles that the staircase crosses none can be "
                "skipped.",
            992: "Those are the whole tiles alone: the masked ones are computed too.",
            64: "Those are the masked tiles alone.",
            2080: "That is with 64 queries in a tile: there are 128, and two more tiles of keys "
                "from one to the next.",
            528: "That is a tile for each 128 keys: they are 64 keys wide.",
        },
    ),
    KernelExercise(
        "causal-attention",
        parameters=("q_ptr", "k_ptr", "v_ptr", "out_ptr", "n_queries", "n_keys", "scale", *TILE),
        reference=_masked,
        slips={
            "each query sees one key too few: the last one is missing":
            lambda q, k, v: _masked(q, k, v, shift=-1),
            "the mask begins at the top left: query i sees the keys up to i":
            lambda q, k, v: _masked(q, k, v, shift=len(q) - len(k)),
            "0 is divided by 0, which is NaN, for queries that see no key":
            lambda q, k, v: _masked(q, k, v, unseen=math.nan),
        },
        cases=(
            _case(45, 77), _case(64, 64), _case(100, 33), _case(64, 49), _case(77, 45),
            _case(1, 70), _low((33, 32), (1, 32)),
        ),
        launch=_loop,
        absolute=ROUNDED,
        in_float32=True,
        compiled=sums_in_float32,
        most_bytes=_least_bytes,
    ),
    KernelExercise(
        "grouped-heads",
        parameters=(
            "q_ptr", "k_ptr", "v_ptr", "out_ptr", "n_heads", "n_key_heads", "n_queries", "n_keys",
            "scale", "stride_qh", "stride_kh", "stride_vh", *TILE,
        ),
        reference=_grouped,
        slips={
            "head h takes key head h % n_key_heads":
            lambda q, k, v: _attention(q, *(x.repeat(len(q) // len(x), 1, 1) for x in (k, v))),
            "every head takes the first key head":
            lambda q, k, v: _attention(q, k[:1], v[:1]),
            "k moves on from head to head, and v does not":
            lambda q, k, v: _grouped(q, k, v[:1].expand(v.shape)),
            "every head takes the queries of the first":
            lambda q, k, v: _grouped(q[:1].expand(q.shape), k, v),
            "the queries of head h are read from h * n_queries * D on, and not from h * stride_qh "
            "on": lambda q, k, v: _grouped(_as_if(0, q, 2), k, v),
            "k is read from h * n_keys * D on, and not from h * stride_kh on":
            lambda q, k, v: _grouped(q, _as_if(0, k, 1), v),
            "v is read with the stride of k": lambda q, k, v: _grouped(q, k, _as_if(1, v, 3)),
        },
        cases=(
            _heads(6, 2, 20, 45), _heads(8, 4, 64, 64), _heads(3, 3, 17, 30),
            _low((4, 33, 32), (1, 1, 32)),
        ),
        launch=_by_head,
        absolute=ROUNDED,
        in_float32=True,
        compiled=sums_in_float32,
    ),
    NumberExercise(
        "attention-registers",
        right=128,
        unit="registers",
        relative=0.0,
        because="2 x 128 x 128 numbers over 8 x 32 threads, a register each.",
        slips={
            64: "That is one of the two alone.",
            256: "That is with 4 warps, and more than a thread may have: such a kernel spills.",
            512: "Those are the bytes of a thread: a register has 4.",
            4096: "A warp has 32 threads, and each has registers of its own.",
            32: "Those would be scores or an accumulator in 16 bits: both are float32.",
            192: "That is the tile of 128 x 64 with 4 warps: here are twice as many scores, over "
                "twice as many threads.",
        },
    ),
    KernelExercise(
        "sliding-window",
        parameters=(
            "q_ptr", "k_ptr", "v_ptr", "out_ptr", "n_queries", "n_keys", "window", "scale", *TILE,
        ),
        reference=_masked,
        slips={
            "the window is one key too wide": lambda q, k, v, w: _masked(q, k, v, w + 1),
            "the window is one key too narrow": lambda q, k, v, w: _masked(q, k, v, w - 1),
            "the window is counted from the top left: that of query i ends at key i":
            lambda q, k, v, w: _masked(q, k, v, w, shift=len(q) - len(k)),
            "the mask has no left edge: each query sees all keys from the first tile's on":
            lambda q, k, v, w: _windowed(q, k, v, w, left=False),
            "the mask has no right edge: each query sees keys after its own":
            lambda q, k, v, w: _windowed(q, k, v, w, right=False),
        },
        cases=tuple(
            _case(queries, keys, scalars=(window,))
            for queries, keys, window in (
                (45, 177, 50), (128, 128, 32), (150, 150, 1),
                (130, 70, 20), (64, 64, 1000), (1, 200, 33),
            )
        ),
        launch=_loop,
        absolute=ROUNDED,
        in_float32=True,
        compiled=sums_in_float32,
        most_bytes=_least_bytes,
    ),
    KernelExercise(
        "bias-by-distance",
        parameters=(
            "q_ptr", "k_ptr", "v_ptr", "out_ptr", "n_queries", "n_keys", "slope", "scale", *TILE,
        ),
        reference=_biased,
        slips={
            "the bias is added before the scale, which makes it smaller":
            lambda q, k, v, s: _biased(q, k, v, s, before_the_scale=q.shape[-1] ** -0.5),
            "the bias is not brought into powers of two, and the scores are":
            lambda q, k, v, s: _biased(q, k, v, s, before_the_scale=LN2),
            "near keys lose, and far ones gain: the bias is added":
            lambda q, k, v, s: _biased(q, k, v, -s),
            "the distance is counted from key i for query i":
            lambda q, k, v, s: _biased(q, k, v, s, shift=0),
            "the distance has a sign: keys after the query gain":
            lambda q, k, v, s: _biased(q, k, v, s, distances=False),
            "no bias is subtracted": lambda q, k, v, s: _attention(q, k, v),
        },
        cases=tuple(
            _case(queries, keys, scalars=(eighths,))
            for queries, keys, eighths in (
                (45, 77, 4), (32, 64, 1), (70, 33, 8), (1, 150, 2),
                (2100, 40, 1),  # the first query is farther from any key than a float16 counts
            )
        ),
        launch=lambda kernel, q, k, v, eighths: _loop(kernel, q, k, v, eighths / 8),
        absolute=ROUNDED,
        in_float32=True,
        compiled=sums_in_float32,
    ),
    KernelExercise(
        "texts-of-any-length",
        parameters=("q_ptr", "k_ptr", "v_ptr", "out_ptr", "starts_ptr", "n_heads", "scale", *TILE),
        reference=_each_text,
        cases=tuple(
            _texts(heads, *lengths)
            for heads, lengths in ((2, (45, 45)), (1, (33, 1, 70)), (3, (5, 64)), (1, (20,)))
        ),
        launch=_launch_texts,
        absolute=ROUNDED,
        in_float32=True,
        compiled=lambda stages: places_in_64_bits(stages) or sums_in_float32(stages),
    ),
    LauncherExercise(
        "split-the-keys",
        parameters=("q", "k", "v"),
        reference=_one_token,
        slips={
            "all parts count alike":
            _merged_by(lambda scores: torch.full_like(scores[..., 0], 1 / scores.shape[-2])),
            "parts are weighed by their log-sum-exp, and not by its exponential":
            _merged_by(lambda s: s.logsumexp(-1) / s.logsumexp(-1).sum(-1, keepdim=True)),
            "a part counts by its maximum, and its total is left out":
            _merged_by(lambda scores: torch.softmax(scores.max(-1).values, -1)),
            "a part counts by its total, and its maximum is left out":
            _merged_by(lambda s: torch.softmax(s.logsumexp(-1) - s.max(-1).values, -1)),
            "the weighted parts are added up, and not divided by the sum of the weights":
            _merged_by(
                lambda s: torch.exp(s.logsumexp(-1) - s.logsumexp(-1).amax(-1, keepdim=True))
            ),
            "every group takes the first key head":
            lambda q, k, v: _one_token(q, k[:1].expand(k.shape), v[:1].expand(v.shape)),
        },
        cases=(
            _token(6, 2, 300, 32), _token(2, 2, 64, 64), _token(8, 1, 1, 16),
            _token(3, 3, 517, 32), _token(4, 2, 130, 16, values="far apart"),
        ),
        block=None,
        absolute=ROUNDED,
        in_float32=True,
        most_launches=2,
        least_programs=lambda q, k, v: triton.cdiv(k.shape[1], 64) * len(k),
    ),
    KernelExercise(
        "any-strides",
        parameters=(*POINTERS, "IS_CAUSAL", *STRIDED_TILE),
        reference=_with_lse,
        slips={
            "head h takes key head h % key heads":
            lambda q, k, v, causal, even: _with_lse(q, k, v, causal, even, shared=True),
            "every batch takes the first one's keys":
            lambda q, k, v, causal, even:
            _with_lse(q, k[:1].expand(k.shape), v[:1].expand(v.shape), causal, even),
            "every batch and head takes the first one's queries":
            lambda q, k, v, causal, even:
            _with_lse(q[:1, :1].expand(q.shape), k, v, causal, even),
            "v has the strides of k":
            lambda q, k, v, causal, even:
            _with_lse(q, k, _as_if(1, v.flatten(0, 1), 3).view(v.shape), causal, even),
            "k has no strides of its own: its heads are taken for contiguous ones":
            lambda q, k, v, causal, even:
            _with_lse(q, _as_if(0, k.flatten(0, 1), 1).view(k.shape), v, causal, even),
        },
        cases=(
            _batches((2, 4, 2, 45, 77, 20), 1, -1), _batches((2, 3, 1, 70, 33, 32), 0, -1),
            _batches((1, 2, 2, 64, 128, 16), 1, -1), _batches((1, 1, 1, 1, 20, 24), 0, -1),
        ),
        launch=_strided,
        absolute=ROUNDED,
        compiled=strides_in_64_bits,
    ),
    KernelExercise(
        "even-flags",
        parameters=(*POINTERS, "EVEN_M", "EVEN_N", "EVEN_HEADDIM", "IS_CAUSAL", *STRIDED_TILE),
        reference=_with_lse,
        slips={
            "the keys behind the last whole tile are left out: borders is told that there are none":
            _whole_tiles_alone,
        },
        cases=(
            _batches((1, 2, 1, 45, 77, 20), 1), _batches((2, 2, 2, 64, 64, 32), 0, 1),
            # Tiles that fill a single axis.
            _batches((1, 2, 2, 64, 109, 20), 0), _batches((1, 1, 1, 45, 64, 20), 0),
            _batches((1, 2, 2, 70, 77, 16), 0),
        ),
        launch=_strided,
        absolute=ROUNDED,
        compiled=_no_mask_left,
    ),
    KernelExercise(
        "one-matrix",
        parameters=(*MATRICES, "HEADS_PER_KEY_HEAD"),
        reference=_with_lse,
        slips={
            "every head takes the queries of the first":
            lambda q, k, v, causal, _: _with_lse(q[:, :1].expand(q.shape), k, v, causal, 0),
            "every head takes the first one's keys, where heads lie side by side":
            lambda q, k, v, causal, _:
            _with_lse(q, k[:, :1].expand(k.shape) if causal else k, v, causal, 0),
            "every head takes the first one's values, where heads lie side by side":
            lambda q, k, v, causal, _:
            _with_lse(q, k, v if causal else v[:, :1].expand(v.shape), causal, 0),
            "every tile takes its head's first queries":
            lambda q, k, v, causal, _: _with_lse(_first_tiles(q), k, v, causal, 0),
            "every tile of keys is the first one":
            lambda q, k, v, causal, _: _with_lse(q, _first_tiles(k), _first_tiles(v), causal, 0),
        },
        cases=(
            _batches((2, 4, 2, 64, 96, 32), 0), _batches((1, 3, 1, 96, 64, 16), 1),
            _batches((2, 2, 2, 32, 32, 64), 1),
        ),
        launch=_as_one_matrix,
        absolute=ROUNDED,
    ),
    KernelExercise(
        "divided-loop",
        parameters=(*MATRICES, "HEADS_PER_KEY_HEAD"),
        reference=_with_lse,
        cases=(_batches((1, 2, 1, 256, 128, 64), 1, 3), _batches((1, 3, 3, 128, 128, 64), 0, 2)),
        launch=_as_one_matrix,
        absolute=ROUNDED,
        compiled=_divided,
    ),
)  # fmt: skip
