"""The usual mistakes on the topic "softmax", and other right answers."""

from . import Mistake, Other

ROW = "x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=0.0"

MISTAKES = {
    "row-sums": [
        Mistake("no mask", {", mask=cols < n_cols, other=0.0": ""},
            "reads outside", "outside x_ptr", "reads outside x_ptr 3905 in case 1",
            means="They think that the block ends with the row; it is a power of two, and "
            "reaches into the next row."),
        Mistake("the width for the row stride", {"row * stride_xm": "row * n_cols"},
            "reads outside", "left part of a wider one",
            "reads outside x_ptr 33 in case 3",
            means="They take the width for the distance between rows, which differs in a slice "
            "of a wider matrix."),
        Mistake("every row the first", {"row * stride_xm + ": ""}, "wrong",
            "comes out if every program takes the first row", "slip 3",
            means="They forget that the pointer must go to the program's own row."),
        Mistake("masked lanes add one", {"other=0.0": "other=1.0"}, "wrong",
            "comes out if lanes without an element count as 1", "slip 1",
            means="They think that masked lanes are left out of the sum; they hold `other`, and "
            "are added like all."),
        Mistake("no other", {", other=0.0": ""}, "wrong", "At [0]", "wrong in case 1",
            means="They expect masked lanes to hold 0; without `other` they hold anything."),
        Mistake("a mean", {"tl.sum(x, axis=0)": "tl.sum(x, axis=0) / n_cols"}, "wrong",
            "comes out if the sum is divided by the number of columns", "slip 2",
            means="They answered the next question: a sum is not divided."),
        Mistake("all of the block", {
            "tl.store(out_ptr + row, tl.sum(x, axis=0))":
            "tl.store(out_ptr + row + cols, tl.sum(x, axis=0))",
        }, "writes outside", "outside out_ptr", "writes outside out_ptr 5 in case 1",
            means="They think that a reduction still has a value for each lane; it is one number "
            "for the row."),
    ],
    "row-maxima": [
        Mistake("masked lanes are 0", {'other=float("-inf")': "other=0.0"}, "wrong",
            "comes out if lanes without an element count as 0", "slip 1",
            means="They carry 0 over from the sum; for a maximum it wins in any row that is "
            "below zero."),
        Mistake("no other", {', other=float("-inf")': ""}, "wrong", "At [",
            "wrong in case 1",
            means="They expect masked lanes to stay out of the maximum; without `other` they "
            "hold anything."),
        Mistake("the width for the row stride", {"row * stride_xm": "row * n_cols"},
            "reads outside", "left part of a wider one",
            "reads outside x_ptr 33 in case 3",
            means="They take the width for the distance between rows, which differs in a slice "
            "of a wider matrix."),
        Mistake("no mask", {', mask=cols < n_cols, other=float("-inf")': ""},
            "reads outside", "outside x_ptr", "reads outside x_ptr 500 in case 1",
            means="They think that the block ends with the row; the maximum of the neighboring "
            "row gets in."),
        *(
            Mistake(f"{number}, which seems small enough", {'float("-inf")': number},
                "wrong", "near the minimum", "wrong in case 6",
                means="They choose a number that looks small enough; in a row below it, it wins.")
            for number in ("-100.0", "-1e4", "-65504.0", "-1e5", "-1e30")
        ),
        Mistake("the smallest finite number", {'float("-inf")': "-3.4028234e38"},
            "wrong", "expected -inf, got -3.402823e+38", "wrong in case 7",
            means="They take the smallest finite float32 for neutral; a row that holds nothing but "
            "-inf, as a mask makes it, is below."),
        Mistake("the largest absolute value", {"tl.max(x, axis=0)": "tl.max(tl.abs(x), axis=0)"},
            "wrong", "At [0]", "wrong in case 1",
            means="They take the largest for the one farthest from zero; -3 is smaller than 1."),
    ],
    "log-softmax": [
        Mistake("the logarithm of softmax", {
            "    out = shifted - tl.log(tl.sum(tl.exp(shifted), axis=0))":
            "    power = tl.exp(shifted)\n"
            "    out = tl.log(power / tl.sum(power, axis=0))",
        }, "wrong", "comes out if the logarithm is that of a finished softmax", "slip 2",
            means="They follow the name step by step; a power that rounds to 0 has the logarithm "
            "-inf, so subtract before exp."),
        Mistake("no maximum", {"shifted = x - tl.max(x, axis=0)": "shifted = x"},
            "wrong", "far apart", "wrong in case 2",
            means="They think that subtracting the maximum is only for softmax; exp of large "
            "numbers is inf here as well."),
        Mistake("the maximum taken off in the sum alone", {
            "out = shifted - tl.log": "out = x - tl.log",
        }, "wrong", "comes out if the maximum is not taken off again", "slip 4",
            means="They subtract the maximum for the sum's sake and forget that it is part of "
            "the result."),
        Mistake("the sum's logarithm twice", {"shifted - tl.log": "shifted - 2 * tl.log"},
            "wrong", "comes out if the logarithm of the sum is taken off twice", "slip 3",
            means="They subtract it once too often: the shift by the maximum is already part of "
            "it."),
        Mistake("no mask on the store", {"out, mask=cols < n_cols": "out"},
            "writes outside", "outside out_ptr",
            "writes outside out_ptr 500 in case 1",
            means="They think that lanes masked at the load are not stored."),
        Mistake("the output's rows by the input's stride", {
            "out_ptr + row * n_cols": "out_ptr + row * stride_xm",
        }, "writes outside", "outside out_ptr", "writes outside out_ptr 99 in case 3",
            means="They use one stride for both matrices; the output is contiguous."),
        *(
            Mistake(f"{number} in the load", {'float("-inf")': number}, "wrong", "near the minimum",
                "wrong in case 6",
                means="They take a number for minus infinity; in a row below it, the padding "
                "becomes the maximum.")
            for number in ("-1e4", "-1e5")
        ),
        Mistake("scaled before the maximum is taken off", {
            "    shifted = x - tl.max(x, axis=0)\n"
            "    out = shifted - tl.log(tl.sum(tl.exp(shifted), axis=0))":
            "    x = x * 1.4426950408889634\n"
            "    shifted = x - tl.max(x, axis=0)\n"
            "    out = (shifted - tl.log2(tl.sum(tl.exp2(shifted), axis=0))) * 0.6931471805599453",
        }, "wrong", "comes out if a number near -3.4e38 is multiplied", "slip 5",
            means="They go over to powers of two at once; take the maximum off first, then the "
            "product stays small."),
        Mistake("base two", {"tl.log(": "tl.log2("}, "wrong",
            "comes out if the logarithm is the one to base 2", "slip 1",
            means="They think that the base cancels, as in exp2 over a sum of exp2; the powers "
            "are of e, so is the logarithm."),
    ],
    "merge-two-halves": [
        Mistake("added unscaled", {
            "sum1 * tl.exp(m1 - safe) + sum2 * tl.exp(m2 - safe)": "sum1 + sum2",
        }, "wrong", "comes out if the sums are added as they are, each in units", "slip 1",
            means="They add sums that were scaled by different maxima; both must be brought to "
            "the common one first."),
        Mistake("NaN for two empty halves", {'tl.where(m == float("-inf"), 0.0, m)': "m"},
            "wrong", "comes out if -inf is taken from -inf, which is NaN", "slip 3",
            means="They trust -inf - -inf to be 0; it is NaN, so two empty halves need a safe "
            "base."),
        *(
            Mistake(f"a floor of {floor}", {
                'tl.where(m == float("-inf"), 0.0, m)': f"tl.maximum(m, {floor})",
            }, "wrong", "near the minimum", "wrong in case 5",
                means="They avoid -inf by a floor; with maxima below it both factors are 0.")
            for floor in ("-1e6", "-1e30")
        ),
        Mistake("one half scaled", {"sum2 * tl.exp(m2 - safe)": "sum2"}, "wrong",
            "comes out if one of the two sums is not scaled", "slip 2",
            means="They scale the half they think is smaller; which half that is differs from "
            "row to row."),
        Mistake("scaled the wrong way", {
            "tl.exp(m1 - safe)": "tl.exp(safe - m1)", "tl.exp(m2 - safe)": "tl.exp(safe - m2)",
        }, "wrong", "comes out if the factors are exp(new - old), and must be exp(old - new)",
            "slip 4",
            means="They turn the difference round: the factor brings a smaller maximum's sum "
            "down, and is never above 1."),
        Mistake("a reduction of two", {"tl.maximum(m1, m2)": "tl.max(m1, m2)"},
            "does not compile", "for two blocks, lane by lane, take tl.maximum",
            "did you forget to add argument must be, reduction of two",
            means="They take tl.max for the larger of two; it reduces one block, and its second "
            "argument is the axis."),
        Mistake("the smaller maximum", {"tl.maximum(m1, m2)": "tl.minimum(m1, m2)"},
            "wrong", "At [0, ", "wrong in case 1",
            means="They take the smaller one, and the powers can overflow; the common maximum is "
            "the larger."),
        Mistake("one row of results", {"    tl.store(out_ptr + n + rows, total, mask=mask)\n": ""},
            "wrong", "never written", "wrong in case 1",
            means="They store one of the two results; a merge gives a maximum and a sum."),
    ],
    "online-bytes": [
        Mistake("two sweeps", 536.9, "wrong", "reads the row twice", "slip 1",
            means="They count the online version as one reading; it reads the row once for "
            "maximum and sum, and once more to divide."),
        Mistake("four sweeps", 1073.7, "wrong", "sweep of its own", "slip 2",
            means="They count the version before: the online one takes maximum and sum in the "
            "same sweep."),
        Mistake("bytes", 805306368, "wrong", "power of ten", "power of ten",
            means="They give bytes; the question is for megabytes."),
        Mistake("one sweep", 268.4, "wrong", "one reading", "slip 3",
            means="They count one reading; the row is read again for the result, which is "
            "written as well."),
    ],
    "narrow-rows": [
        Mistake("bytes", "a", "wrong", "the same", "a",
            means="They think that a narrow row moves more bytes; for each element it is as many "
            "as in a wide one."),
        Mistake("spills", "c", "wrong", "nothing spills", "c",
            means="They think that small blocks are short of registers; large ones are."),
        Mistake("exp", "d", "wrong", "as long", "d",
            means="They think that the arithmetic grows slower with narrow rows; an exp costs "
            "the same in either."),
    ],
    "tuned-in-place": [
        Mistake("an empty list", {'["x_ptr"]': "[]"}, "wrong",
            "on the tensors as the run before left them", "wrong in case 1",
            means="They think that the option's presence does it; it must name the argument that "
            "is overwritten."),
        Mistake("as it is", {'    restore_value=["x_ptr"],\n': "    reset_to_zero=[],\n"},
            "wrong", "At [0, 0]", "wrong in case 1",
            means="They think that trying configurations leaves the input alone; each trial runs "
            "the kernel on the same memory."),
        Mistake("cleared", {'restore_value=["x_ptr"]': 'reset_to_zero=["x_ptr"]'},
            "wrong", "At [0, 0]", "wrong in case 1",
            means="They mix up the two options: reset_to_zero clears an output that is added to, "
            "and here it clears the input."),
        Mistake("a key in its place", {
            '    key=["n_cols"],\n    # about 1 line from here\n    restore_value=["x_ptr"],\n':
            '    key=["n_cols", "BLOCK_N"],\n'
            "    # about 1 line from here\n",
        }, "wrong", "At [0, 0]", "wrong in case 1",
            means="They think that a key protects the arguments; it only says when to tune again."),
        Mistake("first on a copy", {
            "    # about 1 line from here\n"
            '    restore_value=["x_ptr"],\n'
            "    # to here\n":
            "",
            "    x = x.clone()\n":
            "    block = triton.next_power_of_2(x.shape[1])\n"
            "    in_place_kernel[(x.shape[0],)](x.clone(), x.shape[1], BLOCK_N=block)\n"
            "    x = x.clone()\n",
        }, "wrong", "stored to a tensor that is not returned", "other tensors",
            means="They let the trials loose on a copy; then every call computes twice, and the "
            "decorator is as wrong as before."),
        Mistake("one configuration left", {
            "    configs=[triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)],":
            "    configs=[triton.Config({}, num_warps=4)],",
            '    restore_value=["x_ptr"],\n': "",
        }, "wrong", "does not try 2 configurations", "no trials",
            means="They avoid the trials by leaving one candidate; then nothing is tuned."),
        Mistake("no tuner left", {
            "@triton.autotune(\n"
            "    configs=[triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)],\n"
            '    key=["n_cols"],\n'
            "    # about 1 line from here\n"
            '    restore_value=["x_ptr"],\n'
            "    # to here\n"
            ")\n":
            "",
        }, "wrong", "does not try 2 configurations", "no trials",
            means="They take the tuner out, and the problem with it."),
        Mistake("PyTorch does it", {
            "    x = x.clone()": "    return torch.softmax(x, dim=1)\n    x = x.clone()",
        }, "wrong", "computes with PyTorch", "PyTorch computes _softmax",
            means="They return PyTorch's softmax, and the kernel is never asked."),
    ],
    "column-sums": [
        Mistake("load, add, store", {
            "    tl.atomic_add(out_ptr + cols, tl.sum(x, axis=0), mask=cols < n_cols)":
            "    before = tl.load(out_ptr + cols, mask=cols < n_cols)\n"
            "    tl.store(out_ptr + cols, before + tl.sum(x, axis=0), mask=cols < n_cols)",
        }, "race", "wrote different values", "race stores in case 1",
            means="They think that += on memory is one step; two programs read the same old "
            "value, and one sum is lost."),
        Mistake("not zeroed", {"torch.zeros(": "torch.empty("}, "wrong", "At [0]",
            "wrong in case 1",
            means="They expect empty memory to hold zeros; what is added to must be zeroed first."),
        Mistake("masked lanes add one", {", other=0.0": ", other=1.0"}, "wrong", "At [0]",
            "wrong in case 1",
            means="They think that masked lanes are left out of the sum; they hold `other`, and "
            "are added like all."),
        Mistake("no other", {", other=0.0": ""}, "wrong", "At [0]", "wrong in case 1",
            means="They expect masked lanes to hold 0; without `other` they hold anything."),
        Mistake("no mask on the atomic", {"axis=0), mask=cols < n_cols": "axis=0)"},
            "writes outside", "outside out_ptr", "writes outside out_ptr 50 in case 1",
            means="They think that an atomic is safe by itself; it writes in every lane that has "
            "no mask."),
        Mistake("the wrong axis", {
            "tl.sum(x, axis=0)": "tl.sum(x, axis=1)",
            "BLOCK_M=32, BLOCK_N=64": "BLOCK_M=64, BLOCK_N=64",
            "x.shape[0], 32)": "x.shape[0], 64)",
        }, "wrong", "At [0]", "wrong in case 1",
            means="They sum along the rows; axis 0 of a tile goes down the columns."),
        Mistake("a store", {"tl.atomic_add(": "tl.store("}, "race", "wrote different values",
            "race stores in case 1",
            means="They think that one program owns a column; each tile of rows brings its own "
            "part of it."),
        Mistake("strides forgotten", {"    x = x.contiguous()\n": ""},
            "reads outside", "left part of a wider one",
            "reads outside x_ptr 30 in case 6",
            means="They think that rows always lie a width apart; a slice or a transpose may "
            "come as well."),
        Mistake("tiles of four rows", {
            "BLOCK_M=32, BLOCK_N=64": "BLOCK_M=4, BLOCK_N=64",
            "x.shape[0], 32)": "x.shape[0], 4)",
        }, "wrong", "bytes where", "bytes",
            means="They think that small tiles only cost time; each tile's sums pass through "
            "memory, and there are eight times as many."),
        Mistake("a launch for each row", {
            "    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 64))\n"
            "    column_sum_kernel[grid](x, out, *x.shape, BLOCK_M=32, BLOCK_N=64)\n":
            "    for row in x:\n"
            "        grid = (1, triton.cdiv(x.shape[1], 64))\n"
            "        column_sum_kernel[grid](row, out, 1, x.shape[1], BLOCK_M=1, BLOCK_N=64)\n",
        }, "wrong", "in 257 launches where 1 block of 1,024 elements would do: look at the grid, "
            "which is 1,", "wrong 257 programs in case 5",
            means="They take a loop over rows for Python's to run; each row is a launch then, and "
            "waits for the one before."),
        Mistake("one block of columns", {
            "triton.cdiv(x.shape[1], 64))": "1)",
            "BLOCK_N=64": "BLOCK_N=256",
        }, "wrong", "At [256]", "wrong in case 8",
            means="They make the block wide enough for what they tried; a matrix may be wider "
            "than any block."),
        Mistake("rows by the height", {"rows[:, None] * n_cols": "rows[:, None] * n_rows"},
            "reads outside", "read outside x_ptr",
            "reads outside x_ptr 10000 in case 1",
            means="They multiply the row by the number of rows; rows lie as far apart as a row "
            "is long."),
    ],
    "softmax-backwards": [
        Mistake("the row sum forgotten", {"(d_out - tl.sum(out * d_out, axis=0))": "d_out"},
            "wrong", "comes out if nothing is subtracted from d_out", "slip 1",
            means="They differentiate element by element, as for exp; every output depends on "
            "the whole row."),
        Mistake("the sum of d_out", {"tl.sum(out * d_out, axis=0)": "tl.sum(d_out, axis=0)"},
            "wrong", "comes out if the sum is that of d_out alone", "slip 2",
            means="They sum the gradient alone; each part of it is weighted by its output."),
        Mistake("plus", {"d_out - tl.sum": "d_out + tl.sum"}, "wrong",
            "comes out if the sum is added, and not subtracted", "slip 3",
            means="They have the terms right and a sign wrong: growing one element takes from "
            "all others."),
        Mistake("no mask", {"mask = cols < n_cols": "mask = cols < BLOCK_N"},
            "reads outside", "outside out_ptr", "reads outside out_ptr 500 in case 1",
            means="They mask by the block, which masks nothing; the row ends at n_cols."),
        Mistake("no other", {", other=0.0": ""}, "wrong", "At [0, 0]", "wrong in case 1",
            means="They expect masked lanes to hold 0; without `other` they get into the row's "
            "sum."),
    ],
    "any-number-of-rows": [
        Mistake("rows in 32 bits", {".to(tl.int64)": ""}, "wrong", "has 32 bits", "32 bits",
            means="They leave the program's number as it comes, an int32; times a stride it passes "
            "2^31 in a large matrix."),
        Mistake("converted after the product", {
            ".to(tl.int64)": "",
            "rows[:, None] * stride_xm": "(rows[:, None] * stride_xm).to(tl.int64)",
        }, "wrong", "before you multiply", "32 bits",
            means="They convert the result; by then the upper bits are lost."),
        Mistake("rows in float32", {
            ".to(tl.int64)": ".to(tl.float32).to(tl.int64)",
        }, "wrong", "which holds whole numbers up to 2^24 only", "narrow rows",
            means="They take a float32 for large enough, since it goes up to 3.4e38; beyond 2^24 "
            "it leaves numbers out."),
        Mistake("rows compared in float32", {
            "mask = (rows[:, None] < n_rows)": "mask = (rows.to(tl.float32)[:, None] < n_rows)",
        }, "wrong", "which holds whole numbers up to 2^24 only", "narrow rows",
            means="They think that only an address needs all digits; a rounded row may be masked "
            "off."),
        Mistake("compiled anew for each number of rows", {
            '    do_not_specialize=["n_rows"]\n': "",
        }, "wrong", "told that 16 divides n_rows", "specialized rows",
            means="They see no use in the option; the first batch of another size waits for the "
            "compiler."),
        Mistake("nothing told to the compiler", {
            '["n_rows"]': '["n_rows", "n_cols", "stride_xm"]',
        }, "wrong", "not told that 16 divides n_cols", "narrow loads",
            means="They keep every size from the compiler; without n_cols and the stride it cannot "
            "make the loads wide."),
        Mistake("a constant number of rows", {
            '    do_not_specialize=["n_rows"]\n': "",
            "n_rows, n_cols": "n_rows: tl.constexpr, n_cols",
        }, "wrong", "is a constant", "constant rows",
            means="They make the number of rows a constant, which compiles a kernel for every "
            "single number."),
        Mistake("masked lanes are 0", {'other=float("-inf")': "other=0.0"}, "wrong",
            "comes out if lanes without an element count as 0", "slip 1",
            means="They carry 0 over from the sum; for a maximum it wins in any row that is "
            "below zero."),
        Mistake("no mask on the store", {", mask=rows < n_rows": ""},
            "writes outside", "outside out_ptr", "writes outside out_ptr 1 in case 2",
            means="They think that rows past the end are gone after the load; their lanes store as "
            "well."),
    ],
}  # fmt: skip

OTHERS = {
    "row-sums": [
        Other("in a loop of one turn", {"tl.sum(x, axis=0)": "tl.sum(x)"}),
        Other("masked by where", {
            ROW: "x_ptr + row * stride_xm + tl.where(cols < n_cols, cols, 0)",
            "tl.sum(x, axis=0)": "tl.sum(tl.where(cols < n_cols, x, 0.0))",
        }),
    ],
    "row-maxima": [
        Other("by the minimum", {"tl.max(x, axis=0)": "-tl.min(-x, axis=0)"}),
        Other("-inf put in after the load", {
            'other=float("-inf"))': "other=0.0)\n"
            '    x = tl.where(cols < n_cols, x, float("-inf"))',
        }),
    ],
    "log-softmax": [
        Other("the maximum added back", {
            "    shifted = x - tl.max(x, axis=0)\n"
            "    out = shifted - tl.log(tl.sum(tl.exp(shifted), axis=0))":
            "    largest = tl.max(x, axis=0)\n"
            "    out = x - (largest + tl.log(tl.sum(tl.exp(x - largest), axis=0)))",
        }),
        Other("in powers of two", {
            "tl.log(tl.sum(tl.exp(shifted), axis=0))":
            "tl.log2(tl.sum(tl.exp2(shifted * 1.4426950408889634), axis=0)) * 0.6931471805599453",
        }),
    ],
    "merge-two-halves": [
        Other("the factors by where", {
            '    safe = tl.where(m == float("-inf"), 0.0, m)\n'
            "    total = sum1 * tl.exp(m1 - safe) + sum2 * tl.exp(m2 - safe)":
            '    f1 = tl.where(m1 == float("-inf"), 0.0, tl.exp(m1 - m))\n'
            '    f2 = tl.where(m2 == float("-inf"), 0.0, tl.exp(m2 - m))\n'
            "    total = sum1 * f1 + sum2 * f2",
        }),
        Other("the larger one not scaled", {
            '    safe = tl.where(m == float("-inf"), 0.0, m)\n': "",
            "sum1 * tl.exp(m1 - safe) + sum2 * tl.exp(m2 - safe)":
            "sum1 * tl.exp(tl.where(m1 == m, 0.0, m1 - m)) + sum2 * tl.exp(tl.where(m2 == m, "
            "0.0, m2 - m))",
        }),
        Other("the other way round", {
            "sum1 * tl.exp(m1 - safe) + sum2 * tl.exp(m2 - safe)":
            "tl.exp(m2 - safe) * sum2 + tl.exp(m1 - safe) * sum1",
        }),
    ],
    "online-bytes": [Other("a whole number", 805), Other("as computed", 3 * 4 * 2**26 / 1e6)],
    "narrow-rows": [Other("in capitals", "B"), Other("in brackets", "(b)")],
    "tuned-in-place": [
        Other("both names by position", {
            '    restore_value=["x_ptr"],': '    restore_value=("x_ptr",), reset_to_zero=None,',
        }),
        Other("candidates by a loop", {
            "triton.Config({}, num_warps=4)]": "triton.Config({}, num_warps=w) for w in (2, 4)]",
            "[triton.Config({}, num_warps=1), ": "[",
        }),
        Other("an empty tensor filled", {
            "    x = x.clone()\n":
            "    out = torch.empty_like(x)\n    out.copy_(x)\n    x = out\n",
        }),
        Other("another key too", {'key=["n_cols"]': 'key=["n_cols", "BLOCK_N"]'}),
        Other("put back by hooks", {
            "@triton.autotune(":
            "KEPT = {}\n"
            "\n"
            "\n"
            "def keep(kwargs, reset_only=False):\n"
            "    if not reset_only:\n"
            '        KEPT["x"] = kwargs["x_ptr"].clone()\n'
            "\n"
            "\n"
            "def put_back(kwargs, exception):\n"
            '    kwargs["x_ptr"].copy_(KEPT["x"])\n'
            "\n"
            "\n"
            "@triton.autotune(",
            '    restore_value=["x_ptr"],': "    pre_hook=keep, post_hook=put_back,",
        }),
    ],
    "column-sums": [
        Other("a program for all rows", {
            "    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)":
            "    total = tl.zeros([BLOCK_N], dtype=tl.float32)",
            "    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)\n"
            "    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, "
            "other=0.0)\n"
            "    tl.atomic_add(out_ptr + cols, tl.sum(x, axis=0), mask=cols < n_cols)":
            "    for start in range(0, n_rows, BLOCK_M):\n"
            "        rows = start + tl.arange(0, BLOCK_M)\n"
            "        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)\n"
            "        total += tl.sum(tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], "
            "mask=mask, other=0.0), axis=0)\n"
            "    tl.store(out_ptr + cols, total, mask=cols < n_cols)",
            "grid = (triton.cdiv(x.shape[0], 32), ": "grid = (1, ",
        }),
        Other("parts, added up by a second kernel", {
            "    tl.atomic_add(out_ptr + cols, tl.sum(x, axis=0), mask=cols < n_cols)":
            "    tl.store(out_ptr + tl.program_id(axis=0) * n_cols + cols, tl.sum(x, axis=0), "
            "mask=cols < n_cols)",
            "def column_sum(x):":
            "@triton.jit\n"
            "def add_parts_kernel(parts_ptr, out_ptr, n_parts, n_cols, BLOCK_N: tl.constexpr):\n"
            "    cols = tl.program_id(axis=0) * BLOCK_N + tl.arange(0, BLOCK_N)\n"
            "    total = tl.zeros([BLOCK_N], tl.float32)\n"
            "    for part in range(n_parts):\n"
            "        total += tl.load(parts_ptr + part * n_cols + cols, mask=cols < n_cols, "
            "other=0.0)\n"
            "    tl.store(out_ptr + cols, total, mask=cols < n_cols)\n"
            "\n"
            "\n"
            "def column_sum(x):",
            "    out = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device)":
            "    out = torch.empty(x.shape[1], dtype=x.dtype, device=x.device)",
            "x.shape[0], 32)": "x.shape[0], 16)",
            "    column_sum_kernel[grid](x, out, *x.shape, BLOCK_M=32, BLOCK_N=64)":
            "    parts = torch.empty(grid[0], x.shape[1], dtype=x.dtype, device=x.device)\n"
            "    column_sum_kernel[grid](x, parts, *x.shape, BLOCK_M=16, BLOCK_N=64)\n"
            "    add_parts_kernel[(grid[1],)](parts, out, len(parts), x.shape[1], BLOCK_N=64)",
        }),
        Other("bigger tiles", {
            "BLOCK_M=32, BLOCK_N=64": "BLOCK_M=128, BLOCK_N=64",
            "x.shape[0], 32)": "x.shape[0], 128)",
        }),
    ],
    "softmax-backwards": [
        Other("the product once", {
            "dx = out * (d_out - tl.sum(out * d_out, axis=0))":
            "weighted = out * d_out\n"
            "    dx = weighted - out * tl.sum(weighted, axis=0)",
        }),
        Other("summed by dots' own", {"tl.sum(out * d_out, axis=0)": "tl.sum(d_out * out)"}),
    ],
    "any-number-of-rows": [
        Other("the stride converted", {
            ".to(tl.int64) * BLOCK_M": " * BLOCK_M",
            "rows[:, None] * stride_xm": "rows[:, None] * stride_xm.to(tl.int64)",
        }),
        Other("the pointer moved to the tile", {
            "    mask = (rows":
            "    x_ptr += tl.program_id(axis=0).to(tl.int64) * BLOCK_M * stride_xm\n"
            "    mask = (rows",
            "rows[:, None] * stride_xm": "tl.arange(0, BLOCK_M)[:, None] * stride_xm",
        }),
        Other("the parameter by its place", {'["n_rows"]': "[2]"}),
        Other("the rows that are left, in 16 bits", {
            "    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)\n":
            "    first = tl.program_id(axis=0).to(tl.int64) * BLOCK_M\n"
            "    own = tl.arange(0, BLOCK_M)\n"
            "    left = tl.minimum(n_rows - first, BLOCK_M).to(tl.int16)\n",
            "rows[:, None] < n_rows": "own[:, None] < left",
            "rows[:, None] * stride_xm": "(first + own)[:, None] * stride_xm",
            "out_ptr + rows": "out_ptr + first + own",
            "mask=rows < n_rows": "mask=own < left",
        }),
        Other("a mask as a factor", {
            "    tl.store(out_ptr + rows, tl.max(x, axis=1), mask=rows < n_rows)":
            "    inside = (rows < n_rows).to(tl.float32)\n"
            "    tl.store(out_ptr + rows, tl.max(x, axis=1) * inside, mask=rows < n_rows)",
        }),
        Other("tl.cast", {
            "tl.program_id(axis=0).to(tl.int64)": "tl.cast(tl.program_id(axis=0), tl.int64)",
        }),
    ],
}  # fmt: skip
