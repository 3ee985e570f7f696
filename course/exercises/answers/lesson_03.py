"""The usual mistakes in lesson 03, and other right answers."""

from . import Mistake, Other

MISTAKES = {
    "03.1": [
        Mistake("TTIR for TTGIR", "ptx, ttgir, sass, ttir, llir", "wrong", "only TTGIR has layouts",
            means="They mix up the two dialects: TTGIR is the one whose types end in a layout, "
            "behind a #."),
        Mistake("PTX for SASS", "sass, ttir, ptx, ttgir, llir", "wrong", "registers begin with %",
            means="They mix up the last two stages: PTX still has numbered registers with %, "
            "SASS the machine's R and P."),
        Mistake("LLVM IR for PTX", "llir, ttir, sass, ttgir, ptx",
            "wrong", "getelementptr is LLVM's",
            means="They mix up LLVM IR and PTX: getelementptr is an instruction of LLVM's, "
            "ld.global one of PTX's."),
        Mistake("one too few", "ptx, ttir, sass, ttgir", "wrong", "It has 4 names, and must have 5",
            means="They name four stages for five lines."),
    ],
    "03.2": [
        Mistake("sizePerThread", 4, "wrong", "That is sizePerThread",
            means="They take sizePerThread for all that a thread holds; it is one piece, and the "
            "layout repeats to fill the block."),
        Mistake("4 warps", 16, "wrong", "That is with 4 warps",
            means="They count with the usual 4 warps; here there are 2, so each thread holds "
            "twice as much."),
        Mistake("a guess", 33, "wrong", "too large",
            means="They guess; the block's elements over the program's threads give it exactly."),
    ],
    "03.3": [
        Mistake("no promise", {"tl.multiple_of(row * stride, 4)": "row * stride"},
            "wrong", "8 of 8 loads in the PTX are narrow",
            means="They expect the compiler to see that the stride is a multiple of 4; all it "
            "knows is that it is no multiple of 16."),
        Mistake("a promise of the parameter", {
            "    start = tl.multiple_of(row * stride, 4)":
            "    stride = tl.multiple_of(stride, 4)\n    start = row * stride",
        }, "wrong", "A promise of the parameter stride is lost",
            means="They promise it of the argument itself, where nothing is computed that could "
            "carry the promise."),
        Mistake("a promise that is thrown away", {
            "    start = tl.multiple_of(row * stride, 4)":
            "    tl.multiple_of(row * stride, 4)\n    start = row * stride",
        }, "wrong", "What tl.multiple_of returns is thrown away",
            means="They call it as a statement, like tl.assume; the promise belongs to the value "
            "that it returns."),
        Mistake("a promise of something else", {"row * stride, 4": "row * stride, 2"},
            "wrong", "loads in the PTX are narrow",
            means="They promise 2, which allows loads of 8 bytes; a wide load takes 4 elements "
            "of float32."),
        Mistake("a promise of too much", {"row * stride, 4": "row * stride, 1024"},
            "false promise", "that 1,004 is a multiple of 1,024",
            means="They take the promise for a wish, and the larger the better; it is a "
            "statement, and false here."),
        Mistake("a promise of 16", {"row * stride, 4": "row * stride, 16"},
            "false promise", "1,004 is a multiple of 16",
            means="They promise the number they know from signatures; 1,004 is a multiple of 4 "
            "and not of 16."),
        Mistake("a promise of the row", {
            "tl.multiple_of(row * stride, 4)": "tl.multiple_of(row, 4) * stride",
        }, "false promise", "Program 1 promises by tl.multiple_of that 1 is a multiple of 4",
            means="They promise something of the row's number; it is its product with the stride "
            "that is a multiple of 4."),
        Mistake("a promise by tl.assume", {
            "    start =": "    tl.assume(row * stride % 16 == 0)\n    start =",
        }, "false promise", "Program 1 promises by tl.assume what is false",
            means="They think that an assumption makes it so; it is false for the second row "
            "already."),
        Mistake("a promise of neighbours", {
            "    cols = tl.arange(0, BLOCK_SIZE)":
            "    cols = tl.max_contiguous(tl.arange(0, BLOCK_SIZE) // 2 * 2, 4)",
        }, "false promise",
            "Program 0 promises by tl.max_contiguous that lane 1 holds the neighbour "
            "of what lane 0 holds",
            means="They promise that lanes are neighbours while half of them repeat: a false "
            "promise, whatever it gains."),
        Mistake("one stride alone", {"row * stride, 4": "row * 1004, 4"},
            "wrong", "2 x 1,020 float32",
            means="They write the stride they saw into the kernel; it is an argument, and "
            "differs from call to call."),
        Mistake("no mask", {"start + cols, mask=cols < n_cols": "start + cols"},
            "reads outside", "outside x_ptr",
            means="They drop the mask to get wide loads; a mask costs no width if it changes "
            "only every 4 elements."),
        Mistake("rows as far apart in the output", {
            "out_ptr + row * n_cols": "out_ptr + row * stride",
        }, "writes outside", "outside out_ptr",
            means="They use one stride for both matrices; the output's rows are n_cols apart."),
    ],
    "03.4": [
        Mistake("the conversion", "convert-triton-to-tritongpu", "wrong", "one element a thread",
            means="They name the pass that first gives blocks a layout; the conversions come "
            "later, and go later still."),
        Mistake("the one that makes them", "tritongpu-coalesce", "wrong", "puts the conversions in",
            means="They name the pass that puts the conversions in; the question is which one "
            "takes them out."),
        Mistake("a guess", "canonicalize", "wrong", "It is not",
            means="They know canonicalize as the pass that tidies up; layouts have a pass of "
            "their own."),
    ],
    "03.5": [
        Mistake("the loaded register", "%r5", "wrong", "receives what is loaded",
            means="They take the register of the value for the mask; the mask stands before the "
            "instruction, behind an @."),
        Mistake("the length", "%r17", "wrong", "compared with",
            means="They name what the offset is compared with; the mask is the result of that "
            "comparison."),
        Mistake("zero", "zero", "wrong", "loads nothing",
            means="They think that the masked lanes' zero is the mask; it is what the register "
            "held before."),
    ],
    "03.6": [
        Mistake("NVIDIA's warp", 256, "wrong", "warps of 32",
            means="They carry over NVIDIA's warp of 32 threads; on an MI300X it has 64."),
        Mistake("one warp", 64, "wrong", "one warp",
            means="They count one warp; the program has eight."),
        Mistake("a text", "512", "no answer", "must be a number",
            means="They put the number in quotes."),
    ],
}  # fmt: skip

OTHERS = {
    "03.1": [
        Other("no commas", "ptx ttir sass ttgir llir"),
        Other("capitals", "PTX, TTIR, SASS, TTGIR, LLIR"),
        Other("the table's names", "PTX, TTIR, cubin, TTGIR, LLVM IR"),
        Other("a list", ["ptx", "ttir", "sass", "ttgir", "llir"]),
    ],
    "03.2": [Other("an integer", 32), Other("a float", 32.0)],
    "03.3": [
        Other("arithmetic that shows it", {
            "tl.multiple_of(row * stride, 4)": "row * (stride // 4) * 4",
        }),
        Other("a promise of the stride's multiple", {
            "tl.multiple_of(row * stride, 4)": "row * (4 * (stride // 4))",
        }),
        Other("a promise of the pointer", {
            "tl.multiple_of(row * stride, 4)": "row * stride",
            "x_ptr + start": "tl.multiple_of(x_ptr + start, 16)",
        }),
        Other("two blocks", {
            "    start = tl.multiple_of(row * stride, 4)\n"
            "    x = tl.load(x_ptr + start + cols, mask=cols < n_cols)\n"
            "    tl.store(out_ptr + row * n_cols + cols, x, mask=cols < n_cols)":
            "    start = tl.multiple_of(row * stride, 4)\n"
            "    for first in tl.static_range(0, BLOCK_SIZE, 512):\n"
            "        each = first + tl.arange(0, 512)\n"
            "        tl.store(out_ptr + row * n_cols + each, tl.load(x_ptr + start + each, "
            "mask=each < n_cols), mask=each < n_cols)",
        }),
    ],
    "03.4": [
        Other("the class", "TritonGPURemoveLayoutConversions"),
        Other("with quotes", "'tritongpu-remove-layout-conversions'"),
    ],
    "03.5": [Other("a capital", "%P3"), Other("without the sign", "p3")],
    "03.6": [Other("an integer", 512), Other("a float", 512.0)],
}  # fmt: skip
