from . import Mistake, Other

MISTAKES = {
    "03.1": [
        Mistake(
            "TTIR for TTGIR", "ptx, ttgir, sass, ttir, llir", "wrong", "only TTGIR has layouts"
        ),
        Mistake("PTX for SASS", "sass, ttir, ptx, ttgir, llir", "wrong", "registers begin with %"),
        Mistake(
            "LLVM IR for PTX", "llir, ttir, sass, ttgir, ptx", "wrong", "getelementptr is LLVM's"
        ),
        Mistake("one too few", "ptx, ttir, sass, ttgir", "wrong", "It is not"),
    ],
    "03.2": [
        Mistake("sizePerThread", 4, "wrong", "That is sizePerThread"),
        Mistake("4 warps", 16, "wrong", "That is with 4 warps"),
        Mistake("a guess", 33, "wrong", "too large"),
    ],
    "03.3": [
        Mistake(
            "no promise",
            {"tl.multiple_of(row * stride, 4)": "row * stride"},
            "wrong",
            "8 of 8 loads in the PTX are narrow",
        ),
        Mistake(
            "a promise of something else",
            {"row * stride, 4": "row * stride, 2"},
            "wrong",
            "loads in the PTX are narrow",
        ),
        Mistake(
            "a promise of too much",
            {"row * stride, 4": "row * stride, 1024"},
            "wrong",
            "Program 1 promises by tl.multiple_of that 1,004 is a multiple of 1,024",
        ),
        Mistake(
            "a promise of 16",
            {"row * stride, 4": "row * stride, 16"},
            "wrong",
            "1,004 is a multiple of 16",
        ),
        Mistake(
            "a promise of the row",
            {"tl.multiple_of(row * stride, 4)": "tl.multiple_of(row, 4) * stride"},
            "wrong",
            "Program 1 promises by tl.multiple_of that 1 is a multiple of 4",
        ),
        Mistake(
            "a promise by tl.assume",
            {"    start =": "    tl.assume(row * stride % 16 == 0)\n    start ="},
            "wrong",
            "Program 1 promises by tl.assume what is false",
        ),
        Mistake(
            "a promise of neighbours",
            {
                "    cols = tl.arange(0, BLOCK_SIZE)": "    cols = tl.max_contiguous(tl.arange(0, BLOCK_SIZE) // 2 * 2, 4)"
            },
            "wrong",
            "Program 0 promises by tl.max_contiguous that lane 1 holds the neighbour of what lane 0 holds",
        ),
        Mistake(
            "one stride alone", {"row * stride, 4": "row * 1004, 4"}, "wrong", "2 x 1,020 float32"
        ),
        Mistake(
            "no mask",
            {"start + cols, mask=cols < n_cols": "start + cols"},
            "reads outside",
            "outside input 0",
        ),
        Mistake(
            "rows as far apart in the output",
            {"out_ptr + row * n_cols": "out_ptr + row * stride"},
            "writes outside",
            "outside its output",
        ),
    ],
    "03.4": [
        Mistake("the conversion", "convert-triton-to-tritongpu", "wrong", "one element a thread"),
        Mistake(
            "the one that makes them", "tritongpu-coalesce", "wrong", "puts the conversions in"
        ),
        Mistake("a guess", "canonicalize", "wrong", "It is not"),
    ],
    "03.5": [
        Mistake("the loaded register", "%r5", "wrong", "receives what is loaded"),
        Mistake("the length", "%r17", "wrong", "compared with"),
        Mistake("zero", "zero", "wrong", "loads nothing"),
    ],
    "03.6": [
        Mistake("NVIDIA's warp", 256, "wrong", "warps of 32"),
        Mistake("one warp", 64, "wrong", "one warp"),
        Mistake("a text", "512", "no answer", "must be a number"),
    ],
}

OTHERS = {
    "03.1": [Other("no commas", "ptx ttir sass ttgir llir"), Other("capitals", "PTX, TTIR, SASS, TTGIR, LLIR")],
    "03.2": [Other("an integer", 32), Other("a float", 32.0)],
    "03.3": [
        Other("arithmetic that shows it", {"tl.multiple_of(row * stride, 4)": "row * (stride // 4) * 4"}),
        Other("a promise of the stride's multiple", {"tl.multiple_of(row * stride, 4)": "row * (4 * (stride // 4))"}),
        Other("a promise of the pointer", {
            "tl.multiple_of(row * stride, 4)": "row * stride", "x_ptr + start": "tl.multiple_of(x_ptr + start, 16)",
        }),
        Other("two blocks", {
            "    start = tl.multiple_of(row * stride, 4)\n    x = tl.load(x_ptr + start + cols, mask=cols < n_cols)\n    tl.store(out_ptr + row * n_cols + cols, x, mask=cols < n_cols)":
            "    start = tl.multiple_of(row * stride, 4)\n    for first in tl.static_range(0, BLOCK_SIZE, 512):\n"
            "        each = first + tl.arange(0, 512)\n"
            "        tl.store(out_ptr + row * n_cols + each, tl.load(x_ptr + start + each, mask=each < n_cols), mask=each < n_cols)",
        }),
    ],
    "03.4": [Other("the class", "TritonGPURemoveLayoutConversions"), Other("with quotes", "'tritongpu-remove-layout-conversions'")],
    "03.5": [Other("a capital", "%P3"), Other("without the sign", "p3")],
    "03.6": [Other("an integer", 512), Other("a float", 512.0)],
}  # fmt: skip
