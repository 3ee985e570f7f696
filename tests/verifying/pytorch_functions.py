"""PyTorch's functions by kind, with the inputs that they take: a table for tests."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from course.verifying.inputs import Case, Input

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
ROWS, COLUMNS = 6, 50
MATRIX = (ROWS, COLUMNS)


@dataclass(frozen=True)
class Example:
    """A function and its inputs, each of which is (shape, values)."""

    function: Callable[..., torch.Tensor]
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    dtypes: tuple[torch.dtype, ...]

    @property
    def cases(self) -> list[Case]:
        """A case of each dtype. Values "index" are small integers, whatever the dtype is."""
        return [self._case(dtype) for dtype in self.dtypes]

    def _case(self, dtype: torch.dtype) -> Case:
        return Case(
            tuple(
                Input(shape, torch.int64, values="small")
                if values == "index"
                else Input(shape, dtype, values=values)
                for shape, values in self.inputs
            ),
            seed=1,
        )


def on(count, function, *, shape=MATRIX, values="normal", dtypes=FLOATS):
    """A function of so many tensors of one shape."""
    return Example(function, ((shape, values),) * count, dtypes)


def given(function, *inputs, dtypes=FLOATS):
    return Example(function, inputs, dtypes)


def whole(count, function, dtypes=INTEGERS):
    return on(count, function, dtypes=dtypes)


def _rotary(x, y, cos, sin):
    return torch.cat([x * cos - y * sin, y * cos + x * sin], dim=1)


def _attention(q, k, v):
    return torch.softmax(q @ k.transpose(1, 2) / 4, dim=-1) @ v


def _popcount(x):
    return sum((x >> bit) & 1 for bit in range(8 * x.itemsize))


ROW, FIRST = ((COLUMNS,), "normal"), (MATRIX, "normal")
SQUARE = ((COLUMNS, COLUMNS), "normal")
INDEX = ((ROWS,), "index")
HEADS = ((2, 9, 16), "normal")

ACTIVATIONS = {
    "relu": on(1, functional.relu),
    "gelu": on(1, functional.gelu),
    "gelu by tanh": on(1, lambda x: functional.gelu(x, approximate="tanh")),
    "silu": on(1, functional.silu),
    "silu times y": on(2, lambda x, y: functional.silu(x) * y),
    "mish": on(1, functional.mish),
    "softplus": on(1, functional.softplus),
    "elu": on(1, functional.elu),
    "selu": on(1, functional.selu),
    "leaky relu": on(1, functional.leaky_relu),
    "hardswish": on(1, functional.hardswish),
    "log of sigmoid": on(1, functional.logsigmoid),
    "tanhshrink": on(1, functional.tanhshrink),
    "softsign": on(1, functional.softsign),
    "glu": on(1, functional.glu),
}
NORMS = {
    "layer norm": given(
        lambda x, w, b: functional.layer_norm(x, (COLUMNS,), w, b), FIRST, ROW, ROW
    ),
    "rms norm": given(lambda x, w: functional.rms_norm(x, (COLUMNS,), w), FIRST, ROW),
    "rms norm, written out": on(1, lambda x: x * torch.rsqrt((x * x).mean(1, True) + 1e-5)),
    "batch norm": on(1, lambda x: functional.batch_norm(x, None, None, training=True)),
    "group norm": on(1, lambda x: functional.group_norm(x[None], 2), shape=(4, 30)),
    "normalize": on(1, functional.normalize),
}
REDUCTIONS = {
    "sum": on(1, lambda x: x.sum(1), shape=(8, 1000)),
    "sum of a column": on(1, lambda x: x.sum(0)),
    "sum of all": on(1, lambda x: x.sum()),
    "mean": on(1, lambda x: x.mean(1)),
    "variance": on(1, lambda x: x.var(1)),
    "deviation": on(1, lambda x: x.std(1)),
    "maximum of a row": on(1, lambda x: x.amax(1)),
    "norm": on(1, lambda x: x.norm(dim=1)),
    "product": on(1, lambda x: x.prod(0)),
    "log of the sum of powers": on(1, lambda x: x.logsumexp(1)),
    "softmax": on(1, lambda x: x.softmax(1)),
    "softmax, far apart": on(1, lambda x: x.softmax(1), values="far apart"),
    "log of softmax": on(1, lambda x: x.log_softmax(1)),
    "sum of a stack": on(3, lambda x, y, z: torch.stack([x, y, z]).sum(0)),
    "where the largest is": on(1, lambda x: x.argmax(1)),
}
SCANS = {
    "sums": on(1, lambda x: x.cumsum(1), shape=(4, 500)),
    "products": on(1, lambda x: x.cumprod(1), shape=(20, 9)),
    "logs of sums of powers": on(1, lambda x: x.logcumsumexp(1)),
}
LOSSES = {
    "cross entropy": given(
        lambda x, target: functional.cross_entropy(x, target % COLUMNS, reduction="none"),
        FIRST,
        INDEX,
    ),
    "mean cross entropy": given(
        lambda x, target: functional.cross_entropy(x, target % COLUMNS), FIRST, INDEX
    ),
    "mean squared error": on(2, functional.mse_loss),
    "mean absolute error": on(2, functional.l1_loss),
    "huber loss": on(2, functional.huber_loss),
    "binary cross entropy": on(
        2, lambda x, y: functional.binary_cross_entropy_with_logits(x, y.sigmoid())
    ),
    "divergence": on(
        2, lambda x, y: functional.kl_div(x.log_softmax(1), y.softmax(1), reduction="none")
    ),
}
PRODUCTS = {
    "matrix product": given(torch.matmul, FIRST, SQUARE),
    "product and sum": given(lambda x, y, z: x @ y + z, FIRST, SQUARE, FIRST),
    "linear": given(functional.linear, FIRST, SQUARE, ROW),
    "matrix times vector": given(torch.mv, FIRST, ROW),
    "batches": given(torch.bmm, HEADS, ((2, 16, 7), "normal")),
    "einsum": given(lambda x, y: torch.einsum("ik,jk->ij", x, y), FIRST, FIRST),
    "attention": given(_attention, HEADS, HEADS, HEADS),
    "outer product": given(torch.outer, ROW, ROW),
}
INDEXING = {
    "rows by index": given(lambda x, i: x[i % ROWS], FIRST, INDEX),
    "gather": given(lambda x, i: x.gather(1, (i % COLUMNS)[:, None]), FIRST, INDEX),
    "embedding": given(lambda i, x: functional.embedding(i % ROWS, x), INDEX, FIRST),
    "rows added by index": given(lambda x, i: x.index_add(0, i % 2, x), FIRST, INDEX),
    "joined": on(2, lambda x, y: torch.cat([x, y.flip(0)], dim=1)),
    "lower triangle": on(1, torch.tril),
    "rolled": on(1, lambda x: x.roll(3, 1)),
    "sorted": on(1, lambda x: x.sort(1).values),
    "where": on(2, lambda x, y: torch.where(x > y, x, 2 * y)),
    "rotary": on(4, _rotary),
}
ELEMENTWISE = {
    "sum of two": on(2, torch.add),
    "sum of three": on(3, lambda x, y, z: x + y + z),
    "sum of three, cast": on(3, lambda x, y, z: (x + y + z).float()),
    "quotient": on(2, torch.div),
    "exp": on(1, torch.exp),
    "log": on(1, torch.log, values="each at least 1"),
    "rsqrt": on(1, torch.rsqrt, values="each at least 1"),
    "sine": on(1, torch.sin),
    "erf": on(1, torch.erf),
    "power": on(1, lambda x: x**3),
    "lerp": on(3, torch.lerp),
    "addcmul": on(3, torch.addcmul),
    "atan2": on(2, torch.atan2),
    "clamp": on(1, lambda x: x.clamp(-1, 1)),
    "rounded": on(1, lambda x: (3 * x).round()),
    "NaN and inf": on(2, torch.maximum, values="NaN and inf"),
    "large": on(2, torch.sub, values="large"),
}
CASTS = {
    "to float16": on(1, lambda x: x.half()),
    "to bfloat16": on(1, lambda x: x.bfloat16()),
    "to float8": on(1, lambda x: x.to(torch.float8_e5m2)),
    "to int8": on(1, lambda x: (20 * x).round().clamp(-128, 127).to(torch.int8)),
    "to truth": on(1, lambda x: x > 0.5),
    "from float8": on(1, lambda x: x.float(), dtypes=(torch.float8_e4m3fn, torch.float8_e5m2)),
    "from integers": whole(1, lambda x: x.float() * 0.1),
}
SMALL = (MATRIX, "each at least 1")
WHOLE = {
    "integers: sum of two": whole(2, torch.add),
    "integers: product": whole(2, torch.mul),
    "integers: relu": whole(1, torch.relu),
    "integers: magnitude": whole(1, torch.abs),
    "integers: negative": whole(1, torch.neg),
    "integers: divided": given(
        lambda x, y: torch.div(x, y, rounding_mode="floor"), FIRST, SMALL, dtypes=INTEGERS
    ),
    "integers: remainder": given(torch.remainder, FIRST, SMALL, dtypes=INTEGERS),
    "integers: quotient": given(torch.div, FIRST, SMALL, dtypes=INTEGERS),
    "integers: sum": whole(1, lambda x: x.sum(1)),
    "integers: scan": whole(1, lambda x: x.cumsum(1)),
    "integers: maximum": whole(1, lambda x: x.amax(0)),
    "integers: bits": whole(2, lambda x, y: (x & y) ^ ~x),
    "integers: bits counted": whole(1, _popcount),
    "integers: shifted": whole(1, lambda x: (x << 3) >> 1),
    "integers: compared": whole(2, torch.lt),
    "integers: sorted": whole(1, lambda x: x.sort(1).values),
    "integers: to int8": whole(1, lambda x: x.to(torch.int8)),
}
KINDS = (
    ACTIVATIONS,
    NORMS,
    REDUCTIONS,
    SCANS,
    LOSSES,
    PRODUCTS,
    INDEXING,
    ELEMENTWISE,
    CASTS,
    WHOLE,
)
FUNCTIONS = {name: example for kind in KINDS for name, example in kind.items()}
