"""The usual mistakes in lesson 08, and other right answers."""

from . import Mistake, Other

MISTAKES = {
    "08.1": [
        Mistake("narrow loads", {'cause = "c"': 'cause = "b"'}, "wrong", "as a consequence",
            means="They see narrow loads in the PTX and stop there; the lanes lie apart, and "
            "that makes the loads narrow."),
        Mistake("still a program apart", {
            "tl.program_id(axis=0) * BLOCK_SIZE + lanes":
            "lanes * tl.num_programs(axis=0) + tl.program_id(axis=0)",
        }, "wrong", "the cause is still there",
            means="They keep CUDA's picture, in which neighboring threads take turns; a program "
            "is not a thread."),
        Mistake("no mask", {", mask=mask": ""}, "reads outside", "outside x_ptr",
            means="They count on full blocks; the last block of a vector of 1,001 is not full."),
        Mistake("no sigmoid", {"x * tl.sigmoid(x) * y": "x * y"},
            "wrong", "comes out if it is x * y without the sigmoid",
            means="They mend the offsets and lose a factor of the formula."),
        Mistake("the gate of the other vector", {"tl.sigmoid(x)": "tl.sigmoid(y)"},
            "wrong", "comes out if the sigmoid is that of y",
            means="They take the gate for what gates, and apply the sigmoid to y."),
    ],
}  # fmt: skip

OTHERS = {
    "08.1": [
        Other("a capital", {'cause = "c"': 'cause = "C"'}),
        Other("the start first", {
            "    offsets = tl.program_id(axis=0) * BLOCK_SIZE + lanes":
            "    start = tl.program_id(axis=0) * BLOCK_SIZE\n    offsets = lanes + start",
        }),
        Other("the sigmoid by hand", {"x * tl.sigmoid(x) * y": "x / (1 + tl.exp(-x)) * y"}),
    ],
}  # fmt: skip
