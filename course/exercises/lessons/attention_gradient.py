"""The exercises on the topic "attention's gradient"."""

import torch
import triton
from torch import Tensor
from torch.nn.functional import pad

from course.exercises.judges.required_code import sums_in_float32
from course.exercises.kinds import KernelExercise, TensorFunction
from course.type_names import Kernel
from course.verifying.inputs import Case, Input

HALF = torch.float16
BLOCK = 32
"""Queries and keys of a tile."""
ROUNDED = 1e-2
"""P and dS are rounded to float16, and the products that add them up cancel."""
SIZES = ("n_queries", "n_keys", "scale", "D", "BLOCK_M", "BLOCK_N")


def _case(queries: int, keys: int, head_dim: int = 32, low: bool = False) -> Case:
    """q, k, v, the gradient of the output, and the scale. low: all scores lie near -100."""
    of_q, of_k = ("each at least 1", "below zero") if low else ("normal", "normal")
    q, d_out = (Input((queries, head_dim), HALF, values=values) for values in (of_q, "normal"))
    k, v = (Input((keys, head_dim), HALF, values=values) for values in (of_k, "normal"))
    return Case((q, k, v, d_out), seed=queries + keys, scalars=(1.0 if low else head_dim**-0.5,))


CASES = (
    _case(37, 75), _case(64, 64, 16), _case(100, 33), _case(1, 70), _case(70, 1),
    _case(40, 45, low=True),
)  # fmt: skip


def _numbers(q: Tensor, k: Tensor, v: Tensor, d_out: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """lse and delta of each query in float32, which the kernels are given."""
    q, k, v, d_out = (x.double() for x in (q, k, v, d_out))
    scores = q @ k.T * scale
    delta = (torch.softmax(scores, 1) * (d_out @ v.T)).sum(1)
    return scores.logsumexp(1).float(), delta.float()


def _launched_by(owned: str, with_v: bool = True) -> TensorFunction:
    """What launches a kernel whose programs own "keys" or "queries", whose shape its result has.

    with_v: whether it is given the values, and delta.
    """

    def launch(
        kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, d_out: Tensor, scale: float
    ) -> Tensor:
        (lse, delta), own = _numbers(q, k, v, d_out, scale), k if owned == "keys" else q
        given, out = (v, lse, delta) if with_v else (lse,), torch.empty_like(own)
        kernel[(triton.cdiv(len(own), BLOCK),)](
            q, k, *given, d_out, out, len(q), len(k), scale,
            D=q.shape[1], BLOCK_M=BLOCK, BLOCK_N=BLOCK,
        )  # fmt: skip
        return out

    return launch


def _last_tile(x: Tensor) -> slice:
    """The rows of the last tile."""
    return slice((len(x) - 1) // BLOCK * BLOCK, None)


def _powers(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """P."""
    return torch.softmax(q @ k.T * scale, 1)


def _of_values(q: Tensor, k: Tensor, v: Tensor, d_out: Tensor, scale: float) -> Tensor:
    return _powers(q, k, scale).T @ d_out


def _base_of_two(q: Tensor, k: Tensor, v: Tensor, d_out: Tensor, scale: float) -> Tensor:
    scores = q @ k.T * scale
    return torch.exp2(scores - scores.logsumexp(1)[:, None]).T @ d_out


def _divided_again(q: Tensor, k: Tensor, v: Tensor, d_out: Tensor, scale: float) -> Tensor:
    scores = q @ k.T * scale
    padded = pad(scores, (0, -len(k) % BLOCK)) - scores.logsumexp(1)[:, None]
    tiles = [torch.softmax(tile, 1) for tile in padded.split(BLOCK, 1)]
    return torch.cat(tiles, 1)[:, : len(k)].T @ d_out


def _last_values(q: Tensor, k: Tensor, v: Tensor, d_out: Tensor, scale: float) -> Tensor:
    return _of_values(q[_last_tile(q)], k, v, d_out[_last_tile(q)], scale)


def _with_delta(part: float) -> TensorFunction:
    """What gives dS. part: what delta is multiplied by, 1 where all is right."""

    def of_scores(q: Tensor, k: Tensor, v: Tensor, d_out: Tensor, scale: float) -> Tensor:
        powers, d_powers = _powers(q, k, scale), d_out @ v.T
        return powers * (d_powers - part * (powers * d_powers).sum(1, keepdim=True))

    return of_scores


RIGHT = _with_delta(1.0)
"""What gives dS."""


def _outside(q: Tensor, k: Tensor, v: Tensor, d_out: Tensor, scale: float) -> Tensor:
    """P * dP - delta."""
    products = _powers(q, k, scale) * (d_out @ v.T)
    return products - products.sum(1, keepdim=True)


def _by_the_keys(q: Tensor, k: Tensor, v: Tensor, d_out: Tensor, scale: float) -> Tensor:
    """dS, where dP is d_out @ k.T, and delta what it should be."""
    powers = _powers(q, k, scale)
    delta = (powers * (d_out @ v.T)).sum(1, keepdim=True)
    return powers * (d_out @ k.T - delta)


def _with_keys(d_scores: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return d_scores.T @ q


def _with_queries(d_scores: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return d_scores @ k


def _gradient(
    product: TensorFunction, of_scores: TensorFunction = RIGHT, times: int = 1
) -> TensorFunction:
    """dK or dQ: dS, which `of_scores` gives, multiplied by `product`.

    times: how often that is multiplied by the scale.
    """

    def of_inputs(q: Tensor, k: Tensor, v: Tensor, d_out: Tensor, scale: float) -> Tensor:
        gradient: Tensor = product(of_scores(q, k, v, d_out, scale), q, k)
        return gradient * scale**times

    return of_inputs


def _group_case(heads: int, key_heads: int, queries: int, keys: int) -> Case:
    q, k = (heads, queries, 32), (key_heads, keys, 32)
    return Case(tuple(Input(shape, HALF) for shape in (q, k, q)), seed=heads + keys)


def _of_a_group(kernel: Kernel, q: Tensor, k: Tensor, d_out: Tensor) -> Tensor:
    (heads, queries, d), (key_heads, keys, _) = q.shape, k.shape
    shared = k.double().repeat_interleave(heads // key_heads, 0)
    lse = (q.double() @ shared.mT * d**-0.5).logsumexp(2).float()
    out = torch.empty_like(k)
    kernel[(triton.cdiv(keys, BLOCK), key_heads)](
        q, k, lse, d_out, out, heads, key_heads, queries, keys, d**-0.5,
        D=d, BLOCK_M=BLOCK, BLOCK_N=BLOCK,
    )  # fmt: skip
    return out


def _by_head(q: Tensor, k: Tensor, d_out: Tensor) -> Tensor:
    """Each head's part of dV, [key heads, heads of a group, keys, head_dim]."""
    group = len(q) // len(k)
    powers = torch.softmax(q @ k.repeat_interleave(group, 0).mT * q.shape[2] ** -0.5, 2)
    parts: Tensor = (powers.mT @ d_out).unflatten(0, (len(k), group))
    return parts


def _slips(product: TensorFunction) -> dict[str, TensorFunction]:
    """What goes wrong in dK and dQ alike."""
    return {
        "delta is forgotten": _gradient(product, _with_delta(0.0)),
        "delta is added, and not subtracted": _gradient(product, _with_delta(-1.0)),
        "delta is subtracted from the product of P and dP, and not from dP":
        _gradient(product, _outside),
        "dP is the product of d_out with the keys, and not with the values":
        _gradient(product, _by_the_keys),
        "the scale is missing at the end": _gradient(product, times=0),
        "the gradient is multiplied by the scale twice": _gradient(product, times=2),
    }  # fmt: skip


def _through_scores(owned: str, out: str, product: TensorFunction) -> KernelExercise:
    """dK or dQ, by a kernel whose programs own keys or queries."""
    given = ("q_ptr", "k_ptr", "v_ptr", "lse_ptr", "delta_ptr", "d_out_ptr", out)
    return KernelExercise(
        f"gradient-of-{owned}",
        parameters=(*given, *SIZES),
        reference=_gradient(product),
        slips=_slips(product),
        cases=CASES,
        launch=_launched_by(owned),
        absolute=ROUNDED,
        in_float32=True,
        compiled=sums_in_float32,
    )


EXERCISES = (
    KernelExercise(
        "gradient-of-values",
        parameters=("q_ptr", "k_ptr", "lse_ptr", "d_out_ptr", "dv_ptr", *SIZES),
        reference=_of_values,
        slips={
            "the powers are of 2, and lse counts in powers of e": _base_of_two,
            "each tile of P is divided by its own sums, though lse has divided it already":
            _divided_again,
            "dv holds the last tile of queries alone": _last_values,
        },
        cases=CASES,
        launch=_launched_by("keys", with_v=False),
        absolute=ROUNDED,
        in_float32=True,
        compiled=sums_in_float32,
    ),
    _through_scores("keys", "dk_ptr", _with_keys),
    _through_scores("queries", "dq_ptr", _with_queries),
    KernelExercise(
        "gradient-of-a-group",
        parameters=(
            "q_ptr", "k_ptr", "lse_ptr", "d_out_ptr", "dv_ptr", "n_heads", "n_key_heads", *SIZES,
        ),
        reference=lambda q, k, d_out: _by_head(q, k, d_out).sum(1),
        slips={
            "only the last head of each group counts":
            lambda q, k, d_out: _by_head(q, k, d_out)[:, -1],
            "every head adds what the first of its group does":
            lambda q, k, d_out: _by_head(q, k, d_out)[:, 0] * (len(q) // len(k)),
        },
        cases=(
            _group_case(6, 2, 40, 45), _group_case(4, 4, 32, 64), _group_case(8, 1, 10, 33),
            _group_case(6, 3, 1, 20),
        ),
        launch=_of_a_group,
        absolute=ROUNDED,
        in_float32=True,
        compiled=sums_in_float32,
    ),
)  # fmt: skip
