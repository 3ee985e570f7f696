"""The exercises on the topic "ahead of time"."""

from course.aot.handed import PlainValue
from course.exercises.kinds import ChoiceExercise
from course.exercises.kinds.export import ExportCall, ExportExercise, tensor


def _rows(n_rows: int, n_cols: int, stride_xm: int, grid: tuple[int, int, int]) -> ExportCall:
    tensors = {name: tensor("float16") for name in ("x_ptr", "bias_ptr", "out_ptr")}
    numbers = {"n_rows": n_rows, "n_cols": n_cols, "stride_xm": stride_xm, "stride_xn": 1}
    return ExportCall({**tensors, **numbers}, grid, frozenset({*tensors, "stride_xn"}))


STRIDES = [
    f"stride_{of}{along}" for of in "qkvo" for along in ("b", "h", "n" if of in "kv" else "m")
]
LENGTHS = ("seqlen_q", "seqlen_k", "seqlen_q_rounded", "head_dim")
ATTENTION = {
    **dict.fromkeys(("Q", "K", "V", "Out"), "*fp16"),
    **dict.fromkeys(("Lse", "TMP"), "*fp32"),
    "softmax_scale": "fp32",
    **dict.fromkeys(("batch", "nheads", *STRIDES, *LENGTHS), "i32"),
    **dict.fromkeys(("EVEN_M", "EVEN_N", "EVEN_HEADDIM"), "i1"),
}


def _attention(batch: int, nheads: int, seqlen_q: int, grid: tuple[int, int, int]) -> ExportCall:
    values: dict[str, PlainValue] = {**dict.fromkeys(ATTENTION, 16), "softmax_scale": 0.25}
    values |= {name: tensor("float16") for name in ("Q", "K", "V", "Out")}
    values |= {name: tensor("float32") for name in ("Lse", "TMP")}
    values |= {"EVEN_M": 0, "EVEN_N": 0, "EVEN_HEADDIM": 1}
    counts = {"batch": batch, "nheads": nheads, "seqlen_q": seqlen_q}
    return ExportCall({**values, **counts, "seqlen_q_rounded": 1024}, grid, shown=tuple(counts))


def _add(n_elements: int, grid: int, past: str = "", wide: bool = False) -> ExportCall:
    """past: the vector that begins 4 bytes past a multiple of 16."""
    names = ("x_ptr", "y_ptr", "out_ptr")
    tensors = {name: tensor("float32", 4 if name == past else 0) for name in names}
    values: dict[str, PlainValue] = {**tensors, "n_elements": n_elements}
    return ExportCall(values, (grid, 1, 1), frozenset(values) if wide else frozenset())


EXERCISES = (
    ExportExercise(
        "export-signature",
        kernel="kernels/bias_gelu.py:bias_gelu_kernel",
        asks="signature",
        types={
            **dict.fromkeys(("x_ptr", "bias_ptr", "out_ptr"), "*fp16"),
            **dict.fromkeys(("n_rows", "n_cols", "stride_xm", "stride_xn"), "i32"),
        },
        calls=(
            _rows(33, 1000, 1004, (9, 1, 1)), _rows(64, 1024, 1024, (16, 1, 1)),
            _rows(5, 1025, 1040, (2, 2, 1)),
        ),
        grid="cdiv(n_rows, BLOCK_M), cdiv(n_cols, BLOCK_N)",
        may_be_constant={"stride_xn": 1},
        because="It promises what always holds, and nothing more: it was called with three "
        "inputs, and took each.",
        constants={"BLOCK_M": 4, "BLOCK_N": 1024},
    ),
    ExportExercise(
        "export-grid",
        kernel="kernels/attention/export.py:_fwd_kernel",
        asks="grid",
        types=ATTENTION,
        calls=tuple(
            _attention(batch, nheads, seqlen_q, (blocks, batch * nheads, 1))
            for batch, nheads, seqlen_q, blocks in (
                (2, 3, 130, 2), (2, 3, 128, 1), (1, 5, 100, 1), (1, 2, 129, 2), (3, 1, 258, 3),
            )
        ),
        signature="*fp16, *fp16, *fp16, *fp16, *fp32, *fp32, fp32, " + "i32, " * 18
        + "i1, i1, i1, 0, 16, 128, 16",
        because="Whatever the number of queries, every one has a program.",
    ),
    ChoiceExercise(
        "where-the-scale-went",
        right="c",
        why={
            "a": "Rounding changes the eighth digit or so. 0.125 is a power of two, which no "
            "format here rounds.",
            "b": "Then n_elements would be wrong too, and it is handed over as it was given.",
            "c": "A double has eight bytes, and the first four hold the number's last digits: "
            "of 0.125, nothing but zeros.",
            "d": "The signature says fp32, and four bytes are read, as a float32.",
        },
    ),
    ExportExercise(
        "second-variant",
        kernel="kernels/vector_add.py:add_kernel",
        asks="signatures",
        types={**dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*fp32"), "n_elements": "i32"},
        calls=(
            _add(98432, 97, wide=True), _add(98433, 97), _add(1, 1),
            *(_add(98432, 97, past=name) for name in ("x_ptr", "y_ptr", "out_ptr")),
        ),
        grid="cdiv(n_elements, BLOCK_SIZE)",
        because="What is aligned goes the wide way, everything else the narrow one.",
        constants={"BLOCK_SIZE": 1024},
    ),
)  # fmt: skip
