"""The usual mistakes on the topic "ahead of time", and other right answers."""

from . import Mistake, Other

WIDE, NARROW = "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "*fp32, *fp32, *fp32, i32, 1024"

MISTAKES = {
    "export-signature": [
        Mistake("a stride that need not divide",
            "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32:16, i32:1, 4, 1024",
            "wrong", "refuses to launch: stride_xm is promised to be a multiple of 16",
            "broken promises of stride_xm",
            means="They promise what held in their example; a row stride may be any number, and "
            "then the function refuses."),
        Mistake("a constexpr as i32",
            "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, i32:1, i32, i32",
            "does not compile", "constexpr", "refused",
            means="They give a type for a constexpr; the compiler needs its value."),
        Mistake("no promises", "*fp16, *fp16, *fp16, i32, i32, i32, i32, 4, 1024",
            "wrong", "is promised nothing of x_ptr, bias_ptr, out_ptr, stride_xn",
            "no promise of x_ptr, bias_ptr, out_ptr, stride_xn",
            means="They leave out what is known to hold; it runs, with narrow loads, and nobody "
            "is told."),
        Mistake("the lengths as constants",
            "*fp16:16, *fp16:16, *fp16:16, 33, 1000, i32, i32:1, 4, 1024",
            "wrong", "n_rows is the constant 33", "n_rows is constant",
            means="They write an example's sizes; then the function serves these sizes only."),
        Mistake("float32", "*fp32:16, *fp32:16, *fp32:16, i32, i32, i32, i32:1, 4, 1024",
            "wrong", "x_ptr is *fp32, and must be *fp16", "x_ptr is *fp32",
            means="They describe another dtype than the exercise's; the C function would read "
            "twice the bytes."),
        Mistake("no constants", "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, i32:1",
            "wrong", "has 7 parts", "parts",
            means="They list what is passed at run time; the constants belong to the signature "
            "as well."),
        Mistake("other blocks", "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, i32:1, 8, 1024",
            "wrong", "BLOCK_M is 8, and must be 4", "BLOCK_M is 8",
            means="They choose a tile of their own; here it is given."),
        Mistake("names of dtypes",
            "*float16:16, *float16:16, *float16:16, i32, i32, i32, i32:1, 4, 1024",
            "wrong", "has PyTorch's name of a type: write *fp16.", "unknown type",
            means="They write PyTorch's name; a signature has Triton's, as fp16."),
    ],
    "export-grid": [
        Mistake("rounded down", "seqlen_q / 128, batch * nheads",
            "wrong", "a grid of 1 x 6 x 1, and it must be 2 x 6 x 1",
            "grid 1 x 6 x 1 for 2 x 6 x 1",
            means="They divide and lose the last, partly filled block of queries."),
        Mistake("one too many", "seqlen_q / 128 + 1, batch * nheads", "wrong", "seqlen_q = 128",
            "grid 2 x 6 x 1 for 1 x 6 x 1",
            means="They add 1 to round up, which gives a block too many where 128 divides the "
            "length."),
        Mistake("no batch", "cdiv(seqlen_q, BLOCK_M), nheads",
            "wrong", "a grid of 2 x 3 x 1, and it must be 2 x 6 x 1",
            "grid 2 x 3 x 1 for 2 x 6 x 1",
            means="They count the heads of one sequence; each sequence of the batch has its own."),
        Mistake("the axes swapped", "batch * nheads, cdiv(seqlen_q, BLOCK_M)",
            "wrong", "a grid of 6 x 2 x 1", "grid 6 x 2 x 1 for 2 x 6 x 1",
            means="They exchange the axes; blocks of queries go along x."),
        Mistake("Python's cdiv", "triton.cdiv(seqlen_q, 128), batch * nheads",
            "wrong", "cdiv, as in cdiv(n, 128), is the only function", "module",
            means="They write Python; a grid is a text of its own, with cdiv as its only "
            "function."),
        Mistake("Python's division", "(seqlen_q + 127) // 128, batch * nheads",
            "wrong", "write / alone, which rounds down here", "floor",
            means="They write Python's //; in a grid / divides whole numbers, as in C."),
        Mistake("an unknown name", "cdiv(n_queries, 128), batch * nheads",
            "wrong", "no argument of that name", "unknown name",
            means="They use a name of their own; a grid knows the kernel's arguments."),
        Mistake("a tuple", (1, 2, 3), "no answer", "It must be a text",
            means="They give the numbers of one call; the grid is a text, computed at each call."),
        Mistake("one less than rounds up", "(seqlen_q + 126) / 128, batch * nheads",
            "wrong", "seqlen_q = 129", "grid 1 x 2 x 1 for 2 x 2 x 1",
            means="They add one too little to round up: a single query in the last block is lost."),
        Mistake("a sign", "0 - (-seqlen_q / BLOCK_M), batch * nheads",
            "wrong", "no sign stands before a number", "negative",
            means="They bring Python's trick for rounding up by a negative division; a grid "
            "knows no signs."),
        Mistake("the rows of Lse", "seqlen_q_rounded / BLOCK_M, batch * nheads",
            "wrong", "seqlen_q_rounded = 1,024 the driver", "grid 8 x 6 x 1 for 2 x 6 x 1",
            means="They count by the padded length, which is there for the rows of Lse, and "
            "start idle programs."),
        Mistake("nothing", "seqlen_q / 1000, batch * nheads",
            "wrong", "nothing is launched: the grid has a 0 in it", "no launch",
            means="They divide by too large a number, and the grid rounds to 0: nothing is "
            "launched."),
        Mistake("another block", "cdiv(seqlen_q, 129), batch * nheads", "wrong", "seqlen_q = ",
            "grid 1 x 2 x 1 for 2 x 2 x 1",
            means="They take another block size than the kernel's, so some lengths lose their "
            "end."),
    ],
    "where-the-scale-went": [
        Mistake("rounding", "a", "wrong", "no format here rounds", "a",
            means="They blame rounding; it changes the eighth digit, and 0.125 is exact in any "
            "format."),
        Mistake("the order", "b", "wrong", "n_elements would be wrong too", "b",
            means="They blame the order; then the length would be wrong as well."),
        Mistake("half precision", "d", "wrong", "four bytes are read", "d",
            means="They blame float16; the signature says fp32, and four bytes are read."),
    ],
    "second-variant": [
        Mistake("x alone may be anywhere",
            [
                WIDE,
                WIDE.replace("*fp32:16", "*fp32", 1).replace("i32:16", "i32"),
            ],
            "wrong",
            "no variant takes the call: in signature 1 y_ptr is promised to be a multiple of 16; "
            "in signature 2 y_ptr is", "broken promises of y_ptr, y_ptr",
            means="They free one address of its promise; any of the three may be misaligned."),
        Mistake("a length of 1", [WIDE, NARROW.replace("i32", "i32:1")],
            "wrong", "a multiple of 16; in signature 2 n_elements is promised to be 1",
            "broken promises of n_elements, n_elements",
            means='They take :1 for "no promise"; it promises that the number is 1.'),
        Mistake("one alone, wide", [WIDE], "wrong", "n_elements is promised to be a multiple of 16",
            "broken promises of n_elements",
            means="They export the fast variant only; every other call is refused."),
        Mistake("one alone, narrow", NARROW, "wrong", "a silent slow path",
            "no promise of x_ptr, y_ptr, out_ptr, n_elements",
            means="They export the variant that takes everything; aligned calls lose their wide "
            "loads, in silence."),
        Mistake("the length forgotten", [WIDE.replace("i32:16", "i32"), NARROW],
            "wrong", "is promised nothing of n_elements: a silent", "no promise of n_elements",
            means="They promise the addresses alone; without the length's promise the mask keeps "
            "the loads narrow."),
        Mistake("another block, last", [NARROW, WIDE.replace("1024", "2048")],
            "wrong", "BLOCK_SIZE is 2048, and must be 1024", "BLOCK_SIZE is 2048",
            means="They think that each variant may choose its block; the exercise has blocks of "
            "1,024."),
        Mistake("another block, first", [WIDE, NARROW.replace("1024", "2048")],
            "wrong", "BLOCK_SIZE is 2048, and must be 1024", "BLOCK_SIZE is 2048",
            means="They think that each variant may choose its block; the exercise has blocks of "
            "1,024."),
        Mistake("the same twice", [WIDE, WIDE], "wrong", "is given twice", "given twice",
            means="They list one variant twice; the linker would have two functions of one name."),
        Mistake("numbers", [16, 1], "no answer", "a list of texts",
            means="They list the alignments; what is asked for is whole signatures."),
    ],
}  # fmt: skip

OTHERS = {
    "export-signature": [
        Other("a constant stride", "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, 1, 4, 1024"),
        Other("no spaces", "*fp16:16,*fp16:16,*fp16:16,i32,i32,i32,i32:1,4,1024"),
        Other("what is only read", "*kfp16:16, *kfp16:16, *fp16:16, i32, i32, i32, i32:1, 4, 1024"),
    ],
    "export-grid": [
        Other("rounded up by hand", "(seqlen_q + 127) / 128, batch * nheads, 1"),
        Other("a formula of the block", "(seqlen_q + BLOCK_M - 1) / BLOCK_M, nheads * batch"),
    ],
    "where-the-scale-went": [Other("a capital", "C"), Other("in brackets", "(c)")],
    "second-variant": [
        Other("the other order", [NARROW, WIDE]),
        Other("one more, for a length alone", [NARROW, WIDE, NARROW.replace("i32", "i32:16")]),
        Other("a tuple", (WIDE, NARROW)),
    ],
}  # fmt: skip
