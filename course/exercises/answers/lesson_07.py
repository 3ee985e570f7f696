from . import Mistake, Other

WIDE, NARROW = "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "*fp32, *fp32, *fp32, i32, 1024"

MISTAKES = {
    "07.1": [
        Mistake(
            "a stride that need not divide",
            "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32:16, i32:1, 4, 1024",
            "wrong",
            "refuses to launch: stride_xm is promised to be a multiple of 16",
        ),
        Mistake(
            "a constexpr as i32",
            "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, i32:1, i32, i32",
            "does not compile",
            "constexpr",
        ),
        Mistake(
            "no promises",
            "*fp16, *fp16, *fp16, i32, i32, i32, i32, 4, 1024",
            "wrong",
            "is promised nothing of x_ptr, bias_ptr, out_ptr, stride_xn",
        ),
        Mistake(
            "the lengths as constants",
            "*fp16:16, *fp16:16, *fp16:16, 33, 1000, i32, i32:1, 4, 1024",
            "wrong",
            "n_rows is the constant 33",
        ),
        Mistake(
            "float32",
            "*fp32:16, *fp32:16, *fp32:16, i32, i32, i32, i32:1, 4, 1024",
            "wrong",
            "x_ptr is *fp32, and must be *fp16",
        ),
        Mistake(
            "no constants",
            "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, i32:1",
            "wrong",
            "has 7 parts",
        ),
        Mistake(
            "other blocks",
            "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, i32:1, 8, 1024",
            "wrong",
            "BLOCK_M is 8, and must be 4",
        ),
        Mistake(
            "names of dtypes",
            "*float16:16, *float16:16, *float16:16, i32, i32, i32, i32:1, 4, 1024",
            "wrong",
            "has PyTorch's name of a type: write *fp16.",
        ),
    ],
    "07.2": [
        Mistake(
            "rounded down",
            "seqlen_q / 128, batch * nheads",
            "wrong",
            "a grid of 1 x 6 x 1, and it must be 2 x 6 x 1",
        ),
        Mistake("one too many", "seqlen_q / 128 + 1, batch * nheads", "wrong", "seqlen_q = 128"),
        Mistake(
            "no batch",
            "cdiv(seqlen_q, BLOCK_M), nheads",
            "wrong",
            "a grid of 2 x 3 x 1, and it must be 2 x 6 x 1",
        ),
        Mistake(
            "the axes swapped",
            "batch * nheads, cdiv(seqlen_q, BLOCK_M)",
            "wrong",
            "a grid of 6 x 2 x 1",
        ),
        Mistake(
            "Python's cdiv",
            "triton.cdiv(seqlen_q, 128), batch * nheads",
            "wrong",
            "cdiv, as in cdiv(n, 128), is the only function",
        ),
        Mistake(
            "Python's division",
            "(seqlen_q + 127) // 128, batch * nheads",
            "wrong",
            "write / alone, which rounds down here",
        ),
        Mistake(
            "an unknown name",
            "cdiv(n_queries, 128), batch * nheads",
            "wrong",
            "no argument of that name",
        ),
        Mistake("a tuple", (1, 2, 3), "no answer", "It must be a text"),
        Mistake(
            "one less than rounds up",
            "(seqlen_q + 126) / 128, batch * nheads",
            "wrong",
            "seqlen_q = 129",
        ),
        Mistake(
            "a sign",
            "0 - (-seqlen_q / BLOCK_M), batch * nheads",
            "wrong",
            "no sign stands before a number",
        ),
        Mistake(
            "the rows of Lse",
            "seqlen_q_rounded / BLOCK_M, batch * nheads",
            "wrong",
            "seqlen_q_rounded = 1,024 the driver",
        ),
        Mistake(
            "nothing",
            "seqlen_q / 1000, batch * nheads",
            "wrong",
            "nothing is launched: the grid has a 0 in it",
        ),
        Mistake("another block", "cdiv(seqlen_q, 129), batch * nheads", "wrong", "seqlen_q = "),
    ],
    "07.3": [
        Mistake("rounding", "a", "wrong", "no format here rounds"),
        Mistake("the order", "b", "wrong", "n_elements would be wrong too"),
        Mistake("half precision", "d", "wrong", "four bytes are read"),
    ],
    "07.4": [
        Mistake(
            "x alone may be anywhere",
            [WIDE, WIDE.replace("*fp32:16", "*fp32", 1).replace("i32:16", "i32")],
            "wrong",
            "no variant takes the call: in signature 1 y_ptr is promised to be a multiple of 16; in signature 2 y_ptr is",
        ),
        Mistake(
            "a length of 1",
            [WIDE, NARROW.replace("i32", "i32:1")],
            "wrong",
            "a multiple of 16; in signature 2 n_elements is promised to be 1",
        ),
        Mistake(
            "one alone, wide", [WIDE], "wrong", "n_elements is promised to be a multiple of 16"
        ),
        Mistake("one alone, narrow", NARROW, "wrong", "a silent slow path"),
        Mistake(
            "the length forgotten",
            [WIDE.replace("i32:16", "i32"), NARROW],
            "wrong",
            "is promised nothing of n_elements: a silent",
        ),
        Mistake(
            "another block, last",
            [NARROW, WIDE.replace("1024", "2048")],
            "wrong",
            "BLOCK_SIZE is 2048, and must be 1024",
        ),
        Mistake(
            "another block, first",
            [WIDE, NARROW.replace("1024", "2048")],
            "wrong",
            "BLOCK_SIZE is 2048, and must be 1024",
        ),
        Mistake("the same twice", [WIDE, WIDE], "wrong", "is given twice"),
        Mistake("numbers", [16, 1], "no answer", "a list of texts"),
    ],
}

OTHERS = {
    "07.1": [
        Other("a constant stride", "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, 1, 4, 1024"),
        Other("no spaces", "*fp16:16,*fp16:16,*fp16:16,i32,i32,i32,i32:1,4,1024"),
        Other("what is only read", "*kfp16:16, *kfp16:16, *fp16:16, i32, i32, i32, i32:1, 4, 1024"),
    ],
    "07.2": [
        Other("rounded up by hand", "(seqlen_q + 127) / 128, batch * nheads, 1"),
        Other("a formula of the block", "(seqlen_q + BLOCK_M - 1) / BLOCK_M, nheads * batch"),
    ],
    "07.3": [Other("a capital", "C"), Other("in brackets", "(c)")],
    "07.4": [
        Other("the other order", [NARROW, WIDE]),
        Other("one more, for a length alone", [NARROW, WIDE, NARROW.replace("i32", "i32:16")]),
        Other("a tuple", (WIDE, NARROW)),
    ],
}
