"""The exercises on the topic "when it is slow"."""

from itertools import pairwise

import torch
import triton

from course.benching.profiles import step_profile
from course.exercises.judges.cause_gone import CauseGone
from course.exercises.judges.required_code import product_in_float32
from course.exercises.kinds import (
    ChoiceExercise,
    DiagnosisExercise,
    KernelExercise,
    LauncherExercise,
    NumberExercise,
    cause,
)
from course.exercises.result import Judged, wrong
from course.type_names import Kernel
from course.verifying.inputs import Case, Input

MULTIPROCESSORS = 132
"""Of an H100 or H200."""
IGNORED = -100
"""PyTorch's number for a target that does not count."""
PROFILE = step_profile().steps["in place"]
"""The training step of which the lesson shows the profile, as it was mended."""
ONE_BY_ONE = "There is no loop in it."
NO_DOT = "There is no tl.dot in it."


def _meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def _gate(kernel: Kernel, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out, block = torch.empty_like(x), 256 if len(x) > 1000 else 128
    kernel[(triton.cdiv(len(x), block),)](x, y, out, len(x), BLOCK_SIZE=block)
    return out


def _lengths(x: torch.Tensor) -> torch.Tensor:
    """For each row how many of its numbers count: odd ones, a whole row, a single number."""
    rows, stride = x.shape
    lengths = [(37 * row + 1) % stride + 1 for row in range(rows - 1)]
    return torch.tensor([*lengths, stride], dtype=torch.int32, device=x.device)


def _means(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    rows, stride = x.shape
    out = torch.empty(rows, device=x.device)
    block_size = triton.next_power_of_2(stride)
    kernel[(rows,)](x, _lengths(x), out, stride, BLOCK_SIZE=block_size)
    return out


def _sums_of_rows(x: torch.Tensor) -> torch.Tensor:
    inside = torch.arange(x.shape[1], device=x.device) < _lengths(x)[:, None]
    return x.where(inside, 0.0).sum(dim=1)


def _product(kernel: Kernel, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = torch.empty(a.shape[0], b.shape[1], device=a.device)
    kernel[(a.shape[0] // 64, b.shape[1] // 64)](a, b, c, b.shape[1], a.shape[1], BLOCK=64)
    return c


def _cosine(kernel: Kernel, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(x), device=x.device)
    kernel[(len(x),)](x, y, out, x.shape[1], BLOCK_SIZE=64)
    return out


def _cosines(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y).sum(1) / (x.square().sum(1) * y.square().sum(1)).sqrt()


def _histogram(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    bins = _bins(x)
    counts = torch.zeros(bins, dtype=torch.int32, device=x.device)
    grid = (triton.cdiv(len(x), 128),)
    kernel[grid](_levels(x), counts, len(x), BINS=bins, BLOCK_SIZE=128)
    return counts.to(x.dtype)


def _bins(x: torch.Tensor) -> int:
    """Not the same for all cases, so that a kernel must go by what it is given."""
    return 32 if len(x) == 640 else 16


def _levels(x: torch.Tensor) -> torch.Tensor:
    """A gray level for each number, some of them rare."""
    return (x.abs() * 8).clamp(max=_bins(x) - 1).to(torch.int32)


def _counts(x: torch.Tensor) -> torch.Tensor:
    return torch.bincount(_levels(x).long(), minlength=_bins(x)).to(x.dtype)


def _adds_up_first(kernel: Kernel) -> Judged | None:
    """What is wrong with a histogram whose programs update a counter more than once each."""
    from course.tracing.api import cost  # it loads the compiler's side

    programs, size = 16, 1024
    args = (torch.arange(programs * size) % 16).to(torch.int32), torch.zeros(16, dtype=torch.int32)
    sizes = {"BINS": 16, "BLOCK_SIZE": size}
    counted = cost(kernel, (programs,), *args, programs * size, **sizes, target="H200")
    updates = sum(each.bytes for each in counted.accesses if each.kind == "update") // 4
    if updates <= 16 * programs:
        return None
    each = updates // programs
    text = f"a program of {size:,} pixels makes {each:,} updates: add up first, and update once."
    return wrong("many updates", text)


def _normed(x: torch.Tensor) -> torch.Tensor:
    apart = x - x.mean(dim=1, keepdim=True)
    return apart / (apart.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()


def _norm(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel[(len(x),)](x, out, x.shape[1], BLOCK_SIZE=triton.next_power_of_2(x.shape[1]))
    return out


def _piece(x: torch.Tensor) -> int:
    """Numbers of a piece of exercise documents-in-pieces, as its cases have it."""
    return 128 if len(x) == 333 else 64


def _begins(x: torch.Tensor) -> torch.Tensor:
    """Where documents begin, and the end: a short one, an empty one, one that ends with a piece,
    and a long one."""
    n = len(x)
    begins = [0, min(3, n), min(3, n), min(3 + 128, n), n]
    return torch.tensor(begins, dtype=torch.int32, device=x.device)


def _documents(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    begins = _begins(x)
    out = torch.zeros(len(begins) - 1, device=x.device)
    piece = _piece(x)
    pieces = triton.cdiv(int(begins.diff().max()), piece)
    kernel[(len(out), pieces)](x, begins, out, PIECE=piece, BLOCK_SIZE=32)
    return out


def _document_sums(x: torch.Tensor) -> torch.Tensor:
    begins = _begins(x).tolist()
    return torch.stack([x[begin:end].sum() for begin, end in pairwise(begins)])


def _uneven_documents() -> tuple[torch.Tensor, ...]:
    lengths = torch.full((257,), 2000)
    lengths[0], lengths[77], lengths[200] = 0, 500_000, 500_000
    begins = lengths.cumsum(0).to(torch.int32)
    return _meta(int(begins[-1])), begins, _meta(256)


def _means_of_rows(x: torch.Tensor) -> torch.Tensor:
    return (_sums_of_rows(x) / _lengths(x)).to(torch.promote_types(x.dtype, torch.float32))


def _mended_product(exercise_name: str) -> KernelExercise:
    """A matrix product of float16 in blocks of 64."""
    half = torch.float16
    return KernelExercise(
        exercise_name,
        parameters=("a_ptr", "b_ptr", "c_ptr", "N", "K", "BLOCK"),
        reference=product_in_float32,
        cases=tuple(
            Case((Input((m, k), half), Input((k, n), half)), seed=m + n + k)
            for m, n, k in ((64, 128, 64), (128, 64, 192), (64, 64, 256))
        ),
        launch=_product,
        absolute=1e-3,  # sums cancel
    )


def _pairs(*lengths: int) -> tuple[Case, ...]:
    """Two vectors of each length."""
    return tuple(Case((Input((n,)), Input((n,))), seed=n) for n in lengths)


def _product_args() -> tuple[torch.Tensor | int, ...]:
    half = torch.float16
    tensors = _meta(1024, 256, dtype=half), _meta(256, 1024, dtype=half), _meta(1024, 1024)
    return (*tensors, 1024, 256)


def _padded_rows() -> tuple[torch.Tensor | int, ...]:
    lengths = torch.full((64,), 4000, dtype=torch.int32)
    return _meta(64, 4096, dtype=torch.float16), lengths, _meta(64), 4096


def _indices(tokens: int, table: torch.Tensor) -> torch.Tensor:
    """A row of the table for each token; every third token has none."""
    index = (7 * torch.arange(tokens) + 3) % len(table)
    index[::3] = IGNORED
    return index.to(table.device)


TOKENS = 10


def _embed(kernel: Kernel, table: torch.Tensor) -> torch.Tensor:
    n_cols = table.shape[1]
    out = torch.empty(TOKENS, n_cols, device=table.device)
    block_size = triton.next_power_of_2(n_cols)
    kernel[(TOKENS,)](table, _indices(TOKENS, table), out, n_cols, BLOCK_SIZE=block_size)
    return out


def _embedded(table: torch.Tensor) -> torch.Tensor:
    index = _indices(TOKENS, table)
    return table[index.clamp(min=0)].where((index != IGNORED)[:, None], 0.0)


def _count(kernel: Kernel, edges: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel[(len(x),)](edges.sort().values, _some_on_edges(edges, x), out, len(edges))
    return out


def _some_on_edges(edges: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """x with every second number replaced by an edge, since random ones are never equal."""
    numbers = torch.arange(len(x), device=x.device)
    return edges[numbers % len(edges)].where(numbers % 2 == 0, x)


def _counted(edges: torch.Tensor, x: torch.Tensor, right: bool = True) -> torch.Tensor:
    """How many edges are at most x; with right=False, how many are less."""
    counted = torch.searchsorted(edges.sort().values, _some_on_edges(edges, x), right=right)
    return counted.to(x.dtype)


EXERCISES = (
    DiagnosisExercise(
        cause=cause(
            "slow-gate",
            right="c",
            a="1,024 programs are enough for any GPU.",
            b="The loads are narrow, but as a consequence: lanes that follow one another are no "
            "neighbors in memory, and no wider load could take several of them.",
            c="Lanes that follow one another are as many elements apart as there are programs, so "
            "each pays for a sector of its own.",
            d="A thread has 8 elements of each vector: `lower` reports no spilled bytes.",
            e=ONE_BY_ONE,
            f=NO_DOT,
        ),
        mended=KernelExercise(
            "slow-gate",
            parameters=("x_ptr", "y_ptr", "out_ptr", "n_elements", "BLOCK_SIZE"),
            reference=lambda x, y: torch.nn.functional.silu(x) * y,
            cases=(
                *_pairs(1001, 128, 1, 640),
                Case((Input((300,), values="far apart"), Input((300,))), seed=300),
            ),
            launch=_gate,
            slips={
                "it is x * y without the sigmoid": lambda x, y: x * y,
                "the sigmoid is that of y": lambda x, y: x * y * torch.sigmoid(y),
            },
        ),
        counted=CauseGone(
            ("sectors",), (64,), lambda: (*(_meta(2**16) for _ in range(3)), 2**16),
            {"BLOCK_SIZE": 1024},
        ),
    ),
    DiagnosisExercise(
        cause=cause(
            "slow-product",
            right="f",
            a="16 x 16 = 256 programs are more than 132.",
            b="The loads are wide: all sizes and addresses are divisible by 16.",
            c="The last index of both blocks goes along memory.",
            d="A few bytes do spill, because the operands take twice the registers in float32. "
            "That gains nothing by itself: the finding above it is what takes the time.",
            e="The loop is a `for` loop whose addresses depend on its counter alone.",
            f='float32 with input_precision="ieee" is multiplied one by one, outside the tensor '
            "cores.",
        ),
        mended=_mended_product("slow-product"),
        counted=CauseGone(("tensor cores", "older dot"), (16, 16), _product_args, {"BLOCK": 64}),
    ),
    NumberExercise(
        "twice-as-fast",
        right=100 * PROFILE.at("forward", "attention").us / 2 / PROFILE.us,
        unit="percent",
        because="Half of 102 us, of 1,039 us.",
        slips={
            50: "That is what the kernel gains, and it is a tenth of the step.",
            100 * PROFILE.at("forward", "attention").us / PROFILE.us: "That is the kernel's whole "
            "share: it would have to take no time at all.",
            100 * PROFILE.at("forward", "attention").us / 2 / PROFILE.at("forward").us: "That is "
            "the part of the forward pass; the question is about the step.",
        },
    ),
    ChoiceExercise(
        "well-tuned-and-slow",
        right="b",
        why={
            "a": "Widths that it has seen are in its memory. It tunes again for a new value of the "
            "key, and the key is the same.",
            "b": "The key has n_cols alone, so what was best for 8 rows is taken for 65,536 as "
            "well. Put what decides the number of programs into the key, or tune at the size that "
            "you mean.",
            "c": "It keeps its choices in memory, and on disk only if you ask for it "
            "(cache_results=True). A new process tunes anew.",
            "d": "The compiler has an eye for 1 and for multiples of 16, and 8 is neither. It "
            "compiles a kernel for each configuration, and not for each number of rows.",
        },
    ),
    KernelExercise(
        "rows-that-are-not-there",
        parameters=("table_ptr", "index_ptr", "out_ptr", "n_cols", "BLOCK_SIZE"),
        reference=_embedded,
        cases=tuple(
            Case((Input((rows, cols), values=values),), seed=rows + cols)
            for rows, cols, values in (
                (50, 33, "normal"), (5, 64, "normal"), (1, 3, "normal"), (200, 100, "normal"),
                (50, 34, "NaN and inf"),
            )
        ),
        launch=_embed,
        slips={"-100 stands for row 0": lambda table: table[_indices(TOKENS, table).clamp(min=0)]},
    ),
    NumberExercise(
        "how-many-errors",
        right=124,
        unit="errors",
        relative=0.0,
        because="8 programs have 1,024 lanes together, and 900 of them have an element.",
        slips={
            4: "That is how many lanes of the last program have an element.",
            24: "That is with 1,000 elements.",
            128: "That is a whole program; four of its lanes have an element.",
            1024: "These are all lanes; 900 of them read what is there.",
        },
    ),
    ChoiceExercise(
        "compiler-or-you",
        right="d",
        why={
            "a": "More warps add up in another order, and float additions round. Under fpsan the "
            "bits "
            "would agree.",
            "b": "A race is the kernel's. The pipeline only moves the read, so that it shows.",
            "c": "A tl.dot of float32 is TF32 unless you say otherwise, and CPU mode rounds "
            "nothing.",
            "d": "No race, no undefined lane, and no rounding: under fpsan both would give the "
            "same "
            "bits if they computed the same formula. Reduce it to one file, and report it.",
            "e": "What changes from run to run with the same input is a race, until shown "
            "otherwise.",
        },
    ),
    KernelExercise(
        "range-that-never-shrinks",
        parameters=("edges_ptr", "x_ptr", "out_ptr", "n_edges"),
        reference=_counted,
        cases=tuple(
            Case((Input((edges,)), Input((n,))), seed=edges + n)
            for edges, n in ((11, 9), (1, 5), (101, 30), (64, 8))
        ),
        launch=_count,
        block=None,
        one_by_one=True,
        timeout_s=4,
        slips={"an edge that equals x is not counted": lambda edges, x: _counted(edges, x, False)},
    ),
    DiagnosisExercise(
        cause=cause(
            "uneven-rows",
            right="b",
            a="There is a program for each of 4,096 rows.",
            b="The rows lie together and begin at multiples of 16, but the mask compares with a "
            "number from memory, of which the compiler knows nothing. It must be able to stop "
            "after any element, so it loads them one by one.",
            c="The lanes of a warp load neighbors: `cols` is added to the address as it is. `cost` "
            "counts nearly 8 times the least, since 8 narrow loads ask for each sector, one after "
            "another.",
            d="A thread has 32 elements: `lower` reports no spilled bytes.",
            e=ONE_BY_ONE,
            f=NO_DOT,
        ),
        mended=KernelExercise(
            "uneven-rows",
            parameters=("x_ptr", "lengths_ptr", "out_ptr", "stride", "BLOCK_SIZE"),
            reference=_means_of_rows,
            cases=tuple(
                Case((Input((rows, stride), torch.float16),), seed=rows)
                for rows, stride in ((5, 48), (3, 512), (1, 16), (7, 1040))
            ),
            launch=_means,
            absolute=1e-3,  # sums cancel
            slips={
                "the padding counts as well": lambda x: x.sum(dim=1) / _lengths(x),
                "it is divided by the stride": lambda x: _sums_of_rows(x) / x.shape[1],
            },
        ),
        counted=CauseGone(("narrow",), (64,), _padded_rows, {"BLOCK_SIZE": 4096}),
    ),
    DiagnosisExercise(
        cause=cause(
            "long-cosines",
            right="d",
            a="There is a program for each of 2,048 pairs.",
            b="The loads are wide: `n_cols` and the addresses are divisible by 16.",
            c="The lanes of a warp load neighbors: `cost` counts no more sectors than it must.",
            d="Two rows of 32,768 numbers are 512 numbers for each of 128 threads, and a thread "
            "has "
            "255 registers at most.",
            e=ONE_BY_ONE,
            f=NO_DOT,
        ),
        mended=KernelExercise(
            "long-cosines",
            parameters=("x_ptr", "y_ptr", "out_ptr", "n_cols", "BLOCK_SIZE"),
            reference=_cosines,
            cases=tuple(
                Case((Input((rows, columns)), Input((rows, columns))), seed=rows + columns)
                for rows, columns in ((3, 100), (2, 64), (4, 1), (2, 2500))
            ),
            launch=_cosine,
            absolute=1e-5,
            slips={"the squares of y are left out": lambda x, y: _cosines(x, y) * float("inf")},
        ),
        counted=CauseGone(
            ("spills",), (64,), lambda: (_meta(64, 32768), _meta(64, 32768), _meta(64), 32768),
            {"BLOCK_SIZE": 1024},
        ),
    ),
    DiagnosisExercise(
        cause=cause(
            "walk-along-k",
            right="e",
            a="16 x 16 = 256 programs are more than 132.",
            b="The loads are wide: all sizes and addresses are divisible by 16.",
            c="The last index of both blocks goes along memory.",
            d="`lower` reports no spilled bytes.",
            e="The compiler does not pipeline a while loop: it cannot know before an iteration "
            "whether there will be a next one.",
            f="The operands are float16 in blocks of 64: PTX has wgmma.",
        ),
        mended=_mended_product("walk-along-k"),
        counted=CauseGone(("pipelining",), (16, 16), _product_args, {"BLOCK": 64}),
    ),
    DiagnosisExercise(
        cause=cause(
            "long-sum",
            right="a",
            a="One program keeps one multiprocessor busy, and an H200 has 132.",
            b="The loads are wide: 2^20 and the addresses are divisible by 16.",
            c="The lanes of a warp load neighbors: `cost` counts no more sectors than it must.",
            d="A thread has 8 elements of each vector: `lower` reports no spilled bytes.",
            e="The loop does wait for its loads, and `diagnose` says so. But a pipeline in one "
            "program gains 2 times, and the other multiprocessors more than a hundred.",
            f=NO_DOT,
        ),
        mended=LauncherExercise(
            "long-sum",
            parameters=("x", "y"),
            reference=lambda x, y: (x * y).sum(dim=0, keepdim=True),
            cases=_pairs(300_001, 100, 1, 65_536),
            # Half of what is loaded is y's; and many products, since a single one may be near 0.
            longer=lambda loaded: _pairs(loaded // 2 + 100)[0],
            loads_reach=True,
            block=None,
            absolute=5e-3,  # sums cancel
            least_programs=lambda x, y: min(MULTIPROCESSORS, len(x) // 8192),
        ),
    ),
    DiagnosisExercise(
        cause=cause(
            "crowded-counters",
            right="g",
            a="1,024 programs are more than 132.",
            b="The loads are wide: 2^22 and the addresses are divisible by 16.",
            c="Neighbors load neighbors. Which counters they update depends on the image, and "
            "all 16 "
            "lie in two sectors.",
            g="262,144 updates of each counter go through one place of the L2 cache, one after the "
            "other.",
            h="`lower` finds no f64 in its PTX.",
            i="There is no loop in it: every program has as much to do.",
        ),
        mended=KernelExercise(
            "crowded-counters",
            parameters=("x_ptr", "counts_ptr", "n_elements", "BINS", "BLOCK_SIZE"),
            reference=_counts,
            cases=tuple(Case((Input((n,)),), seed=n) for n in (1000, 128, 1, 640)),
            launch=_histogram,
        ),
        counted=_adds_up_first,
    ),
    DiagnosisExercise(
        cause=cause(
            "digits-nobody-asked-for",
            right="h",
            a="There is a program for each of 8,192 rows.",
            c="The lanes of a warp load neighbors: `cost` counts no more sectors than it must.",
            d="`lower` reports no spilled bytes.",
            g="There is no atomic in it.",
            h="The first line makes a block of float64, and so is all that is computed from it.",
            i="There is no loop in it: every program has as much to do.",
        ),
        mended=KernelExercise(
            "digits-nobody-asked-for",
            parameters=("x_ptr", "out_ptr", "n_cols", "BLOCK_SIZE"),
            reference=_normed,
            cases=tuple(
                Case((Input((rows, columns), values=values),), seed=rows + columns)
                for rows, columns, values in (
                    (4, 100, "normal"), (3, 64, "normal"), (2, 781, "normal"),
                    (5, 90, "around 1,000"),
                )
            ),
            launch=_norm,
            absolute=3e-4,  # a mean of about 1,000 is rounded
            slips={"nothing is subtracted": lambda x: x / (x.square().mean(1, True) + 1e-5).sqrt()},
        ),
        counted=CauseGone(
            ("float64",), (64,), lambda: (_meta(64, 4096), _meta(64, 4096), 4096),
            {"BLOCK_SIZE": 4096},
        ),
    ),
    DiagnosisExercise(
        cause=cause(
            "documents-in-pieces",
            right="i",
            a="1,024 programs are more than 132, and each has something to do.",
            b="The loads are narrow, since the compiler knows nothing of where documents begin. "
            "That "
            "gains nothing by itself: two programs run long after the others have ended.",
            e="The loop does wait for its loads. A pipeline would make 489 iterations shorter, "
            "and two "
            "multiprocessors would still work alone.",
            g="There is no atomic in it.",
            h="`lower` finds no f64 in its PTX.",
            i="Two programs run the loop 489 times, and the others twice.",
        ),
        mended=KernelExercise(
            "documents-in-pieces",
            parameters=("x_ptr", "begins_ptr", "out_ptr", "PIECE", "BLOCK_SIZE"),
            reference=_document_sums,
            cases=tuple(Case((Input((n,)),), seed=n) for n in (1000, 333, 5)),
            launch=_documents,
            absolute=1e-4,
        ),
        counted=CauseGone(
            ("uneven programs",), (256, 62), _uneven_documents,
            {"PIECE": 8192, "BLOCK_SIZE": 1024},
        ),
    ),
)  # fmt: skip
