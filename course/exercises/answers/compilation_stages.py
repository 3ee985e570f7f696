"""The usual mistakes on the topic "compilation stages", and other right answers."""

from . import Mistake, Other

MISTAKES = {
    "which-stage": [
        Mistake("TTIR for TTGIR", "ptx, ttgir, sass, ttir, llir", "wrong", "only TTGIR has layouts",
            "slip 1",
            means="They mix up the two dialects: TTGIR is the one whose types end in a layout, "
            "behind a #."),
        Mistake("PTX for SASS", "sass, ttir, ptx, ttgir, llir", "wrong", "registers begin with %",
            "slip 2",
            means="They mix up the last two stages: PTX still has numbered registers with %, "
            "SASS the machine's R and P."),
        Mistake("LLVM IR for PTX", "llir, ttir, sass, ttgir, ptx",
            "wrong", "getelementptr is LLVM's", "slip 3",
            means="They mix up LLVM IR and PTX: getelementptr is an instruction of LLVM's, "
            "ld.global one of PTX's."),
        Mistake("one too few", "ptx, ttir, sass, ttgir", "wrong", "It has 4 names, and must have 5",
            "4 names",
            means="They name four stages for five lines."),
    ],
    "elements-per-thread": [
        Mistake("sizePerThread", 4, "wrong", "That is sizePerThread", "slip 1",
            means="They take sizePerThread for all that a thread holds; it is one piece, and the "
            "layout repeats to fill the block."),
        Mistake("4 warps", 16, "wrong", "That is with 4 warps", "slip 2",
            means="They count with the usual 4 warps; here there are 2, so each thread holds "
            "twice as much."),
        Mistake("a guess", 33, "wrong", "too large", "too large",
            means="They guess; the block's elements over the program's threads give it exactly."),
    ],
    "wide-loads": [
        Mistake("no promise", {"tl.multiple_of(row * stride, 4)": "row * stride"},
            "wrong", "8 of 8 loads in the PTX are narrow", "narrow loads",
            means="They expect the compiler to see that the stride is a multiple of 4; all it "
            "knows is that it is no multiple of 16."),
        Mistake("a promise of the parameter", {
            "    start = tl.multiple_of(row * stride, 4)":
            "    stride = tl.multiple_of(stride, 4)\n    start = row * stride",
        }, "wrong", "A promise of the parameter stride is lost",
            "narrow loads, promise of a parameter",
            means="They promise it of the argument itself, where nothing is computed that could "
            "carry the promise."),
        Mistake("a promise that is thrown away", {
            "    start = tl.multiple_of(row * stride, 4)":
            "    tl.multiple_of(row * stride, 4)\n    start = row * stride",
        }, "wrong", "What tl.multiple_of returns is thrown away", "narrow loads, promise not kept",
            means="They call it as a statement, like tl.assume; the promise belongs to the value "
            "that it returns."),
        Mistake("a promise of something else", {"row * stride, 4": "row * stride, 2"},
            "wrong", "loads in the PTX are narrow", "narrow loads",
            means="They promise 2, which allows loads of 8 bytes; a wide load takes 4 elements "
            "of float32."),
        Mistake("a promise of too much", {"row * stride, 4": "row * stride, 1024"},
            "false promise", "that 1,004 is a multiple of 1,024",
            "false promise in case 1",
            means="They take the promise for a wish, and the larger the better; it is a "
            "statement, and false here."),
        Mistake("a promise of 16", {"row * stride, 4": "row * stride, 16"},
            "false promise", "1,004 is a multiple of 16", "false promise in case 1",
            means="They promise the number they know from signatures; 1,004 is a multiple of 4 "
            "and not of 16."),
        Mistake("a promise of the row", {
            "tl.multiple_of(row * stride, 4)": "tl.multiple_of(row, 4) * stride",
        }, "false promise", "Program 1 promises by tl.multiple_of that 1 is a multiple of 4",
            "false promise in case 1",
            means="They promise something of the row's number; it is its product with the stride "
            "that is a multiple of 4."),
        Mistake("a promise by tl.assume", {
            "    start =": "    tl.assume(row * stride % 16 == 0)\n    start =",
        }, "false promise", "Program 1 promises by tl.assume what is false",
            "false promise in case 1",
            means="They think that an assumption makes it so; it is false for the second row "
            "already."),
        Mistake("a promise of neighbors", {
            "    cols = tl.arange(0, BLOCK_SIZE)":
            "    cols = tl.max_contiguous(tl.arange(0, BLOCK_SIZE) // 2 * 2, 4)",
        }, "false promise",
            "Program 0 promises by tl.max_contiguous that lane 1 holds the neighbor "
            "of what lane 0 holds", "false promise in case 1",
            means="They promise that lanes are neighbors while half of them repeat: a false "
            "promise, whatever it gains."),
        Mistake("one stride alone", {"row * stride, 4": "row * 1004, 4"},
            "wrong", "2 x 1,020 float32", "wrong in case 2",
            means="They write the stride they saw into the kernel; it is an argument, and "
            "differs from call to call."),
        Mistake("no mask", {"start + cols, mask=cols < n_cols": "start + cols"},
            "reads outside", "outside x_ptr", "reads outside x_ptr 5020 in case 1",
            means="They drop the mask to get wide loads; a mask costs no width if it changes "
            "only every 4 elements."),
        Mistake("rows as far apart in the output", {
            "out_ptr + row * n_cols": "out_ptr + row * stride",
        }, "writes outside", "outside out_ptr",
            "writes outside out_ptr 5000 in case 1",
            means="They use one stride for both matrices; the output's rows are n_cols apart."),
    ],
    "slow-rows-and-factors": [
        Mistake("narrow loads", {'cause = "c"': 'cause = "b"'}, "wrong", "as a consequence",
            "cause b",
            means="They stop at the first thing that looks bad; here the lanes lie apart, and "
            "that makes the loads narrow."),
        Mistake("too few programs", {'cause = "c"': 'cause = "a"'}, "wrong", "enough for any GPU",
            "cause a",
            means="They guess at the grid; 256 programs are more than an H200 has "
            "multiprocessors."),
        Mistake("as it was", {
            "row = number // n_cols": "row = number % n_rows\n    col = number // n_rows",
            "x_ptr + number": "x_ptr + row * n_cols + col",
            "out_ptr + number": "out_ptr + row * n_cols + col",
        }, "wrong", "8.0 times the sectors", "sectors store",
            means="They name the cause and leave the kernel as it was: its elements are still "
            "numbered down the columns."),
        Mistake("the load alone", {
            "    x = tl.load(x_ptr + number, mask=mask)\n"
            "    tl.store(out_ptr + number, x * scale, mask=mask)":
            "    x = tl.load(x_ptr + number, mask=mask)\n"
            "    turned = number % n_rows * n_cols + number // n_rows\n"
            "    tl.store(out_ptr + turned, x * scale, mask=mask)",
        }, "wrong", "", "wrong in case 1",
            means="They put the load in order and leave the store: now the values end up in the "
            "wrong places."),
        Mistake("a scale for each column", {"row = number // n_cols": "row = number % n_cols"},
            "reads outside", "", "reads outside scale_ptr 7 in case 1",
            means="They take the remainder, which is the column; the row is the quotient."),
    ],
    "slow-pages": [
        Mistake("lanes that lie apart", {'cause = "b"': 'cause = "c"'}, "wrong", "load neighbors",
            "cause c",
            means="They think of the pages, which lie apart; the lanes of one program do not."),
        Mistake("too few programs", {'cause = "b"': 'cause = "a"'}, "wrong", "for each page",
            "cause a",
            means="They guess at the grid, without counting its programs."),
        Mistake("as it was", {
            "tl.multiple_of(tl.load(starts_ptr + page), 16)": "tl.load(starts_ptr + page)",
        }, "wrong", "loads in the PTX are narrow", "narrow loads",
            means="They name the cause and leave the kernel as it was."),
        Mistake("a promise of the page", {
            "start = tl.multiple_of(tl.load(starts_ptr + page), 16)":
            "page = tl.multiple_of(page, 16)\n    start = tl.load(starts_ptr + page)",
        }, "false promise", "that 1 is a multiple of 16", "false promise in case 1",
            means="They promise something of the page's number; it is the place where the page "
            "begins that is a multiple of 16."),
        Mistake("a promise of 1,024", {"starts_ptr + page), 16)": "starts_ptr + page), 1024)"},
            "false promise", "is a multiple of 1,024", "false promise in case 4",
            means="They promise the size that pages have at one place; a page may have 512."),
    ],
    "slow-shares-of-a-sum": [
        Mistake("too few programs", {'cause = "d"': 'cause = "a"'}, "wrong", "4,096 rows",
            "cause a",
            means="They see that few programs fit a multiprocessor and blame the grid."),
        Mistake("narrow loads", {'cause = "d"': 'cause = "b"'}, "wrong", "loads are wide",
            "cause b",
            means="They did not count: all loads of this kernel are wide."),
        Mistake("4 warps", {"num_warps=16": "num_warps=4"}, "wrong", "find no register and spill",
            "spills",
            means="They name the cause and leave the kernel as it was."),
        Mistake("the sum of the first piece", {
            "    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)\n":
            "    first = tl.arange(0, 1024)\n"
            "    part = tl.load(x_ptr + row * n_cols + first, mask=first < n_cols, other=0.0)\n"
            "    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)\n",
            "tl.sum(x, axis=0)": "tl.sum(part, axis=0)",
        }, "wrong", "At [0, ", "wrong in case 1",
            means="They cut the row to save registers, and lose the rest of the sum."),
    ],
    "slow-long-rows": [
        Mistake("spills", {'cause = "a"': 'cause = "d"'}, "wrong", "no spilled bytes", "cause d",
            means="They carry the cause of the last exercise over; here every block is small."),
        Mistake("wasted sectors", {'cause = "a"': 'cause = "c"'}, "wrong", "load neighbors",
            "cause c",
            means="They suspect the order of the accesses; each row is read from left to right."),
        Mistake("one program per row", {
            "(x.shape[0], triton.cdiv(x.shape[1], 1024))": "(x.shape[0],)",
            "    cols = tl.program_id(axis=1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)\n"
            "    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)\n"
            "    tl.store(out_ptr + row * n_cols + cols, tl.minimum(x, limit), mask=cols < n_cols)":
            "    for start in range(0, n_cols, BLOCK_SIZE):\n"
            "        cols = start + tl.arange(0, BLOCK_SIZE)\n"
            "        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)\n"
            "        tl.store(out_ptr + row * n_cols + cols, tl.minimum(x, limit), "
            "mask=cols < n_cols)",
        }, "wrong", "it started 4 programs", "few programs",
            means="They name the cause and leave the kernel as it was."),
        Mistake("more programs, and the loop kept", {
            "    cols = tl.program_id(axis=1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)\n"
            "    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)\n"
            "    tl.store(out_ptr + row * n_cols + cols, tl.minimum(x, limit), mask=cols < n_cols)":
            "    for start in range(0, n_cols, BLOCK_SIZE):\n"
            "        cols = start + tl.arange(0, BLOCK_SIZE)\n"
            "        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)\n"
            "        tl.store(out_ptr + row * n_cols + cols, tl.minimum(x, limit), "
            "mask=cols < n_cols)",
        }, "wrong", "each element is done 196 times", "wrong axis 1 in case 1",
            means="They give the grid its second axis, and every program still goes through the "
            "whole row."),
        Mistake("a limit for each column", {"limit_ptr + row": "limit_ptr + tl.program_id(axis=1)"},
            "reads outside", "", "reads outside limit_ptr 4 in case 1",
            means="They mix up the axes of the grid: a row has one limit."),
    ],
}  # fmt: skip

OTHERS = {
    "which-stage": [
        Other("no commas", "ptx ttir sass ttgir llir"),
        Other("capitals", "PTX, TTIR, SASS, TTGIR, LLIR"),
        Other("the table's names", "PTX, TTIR, cubin, TTGIR, LLVM IR"),
        Other("a list", ["ptx", "ttir", "sass", "ttgir", "llir"]),
    ],
    "elements-per-thread": [Other("an integer", 32), Other("a float", 32.0)],
    "wide-loads": [
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
    "slow-rows-and-factors": [
        Other("by row and column", {"x_ptr + number": "x_ptr + row * n_cols + number % n_cols"}),
        Other("the scale as a block of its own", {"x * scale": "scale * x"}),
    ],
    "slow-pages": [
        Other("a promise of the pointer", {
            "tl.multiple_of(tl.load(starts_ptr + page), 16)": "tl.load(starts_ptr + page)",
            "pool_ptr + start": "tl.multiple_of(pool_ptr + start, 16)",
        }),
        Other("a promise in a line of its own", {
            "start = tl.multiple_of(tl.load(starts_ptr + page), 16)":
            "start = tl.load(starts_ptr + page)\n    tl.multiple_of(start, 16)",
        }),
        Other("arithmetic that shows it", {
            "tl.multiple_of(tl.load(starts_ptr + page), 16)":
            "tl.load(starts_ptr + page) // PAGE_SIZE * PAGE_SIZE",
        }),
    ],
    "slow-shares-of-a-sum": [
        Other("8 warps", {"num_warps=16": "num_warps=8"}),
        Other("the row in pieces", {
            "    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)\n"
            "    tl.store(out_ptr + row * n_cols + cols, x / tl.sum(x, axis=0), "
            "mask=cols < n_cols)":
            "    total = tl.zeros([BLOCK_SIZE], dtype=tl.float32)\n"
            "    for start in range(0, n_cols, BLOCK_SIZE):\n"
            "        mask = start + cols < n_cols\n"
            "        total += tl.load(x_ptr + row * n_cols + start + cols, mask=mask, other=0.0)\n"
            "    whole = tl.sum(total, axis=0)\n"
            "    for start in range(0, n_cols, BLOCK_SIZE):\n"
            "        mask = start + cols < n_cols\n"
            "        x = tl.load(x_ptr + row * n_cols + start + cols, mask=mask)\n"
            "        tl.store(out_ptr + row * n_cols + start + cols, x / whole, mask=mask)",
            "BLOCK_SIZE=block_size, num_warps=16": "BLOCK_SIZE=4096",
        }),
    ],
    "slow-long-rows": [
        Other("a larger block", {"1024": "4096"}),
        Other("axes the other way round", {
            "(x.shape[0], triton.cdiv(x.shape[1], 1024))":
            "(triton.cdiv(x.shape[1], 1024), x.shape[0])",
            "row = tl.program_id(axis=0)": "row = tl.program_id(axis=1)",
            "cols = tl.program_id(axis=1)": "cols = tl.program_id(axis=0)",
        }),
    ],
}  # fmt: skip
