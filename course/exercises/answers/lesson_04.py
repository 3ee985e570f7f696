from . import Mistake, Other

ROW = "x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=0.0"

MISTAKES = {
    "04.1": [
        Mistake(
            "no mask", {", mask=cols < n_cols, other=0.0": ""}, "reads outside", "outside input 0"
        ),
        Mistake(
            "the width for the row stride",
            {"row * stride_xm": "row * n_cols"},
            "reads outside",
            "left part of a wider one",
        ),
        Mistake("every row the first", {"row * stride_xm + ": ""}, "wrong", "At [1]"),
        Mistake("masked lanes add one", {"other=0.0": "other=1.0"}, "wrong", "At [0]"),
        Mistake("no other", {", other=0.0": ""}, "wrong", "At [0]"),
        Mistake("a mean", {"tl.sum(x, axis=0)": "tl.sum(x, axis=0) / n_cols"}, "wrong", "At [0]"),
        Mistake(
            "all of the block",
            {
                "tl.store(out_ptr + row, tl.sum(x, axis=0))": "tl.store(out_ptr + row + cols, tl.sum(x, axis=0))"
            },
            "writes outside",
            "outside its output",
        ),
    ],
    "04.2": [
        Mistake("masked lanes are 0", {'other=float("-inf")': "other=0.0"}, "wrong", "At ["),
        Mistake("no other", {', other=float("-inf")': ""}, "wrong", "At ["),
        Mistake(
            "the width for the row stride",
            {"row * stride_xm": "row * n_cols"},
            "reads outside",
            "left part of a wider one",
        ),
        Mistake(
            "no mask",
            {', mask=cols < n_cols, other=float("-inf")': ""},
            "reads outside",
            "outside input 0",
        ),
        *(
            Mistake(
                f"{number}, which seems small enough",
                {'float("-inf")': number},
                "wrong",
                "near the minimum",
            )
            for number in ("-100.0", "-1e4", "-65504.0", "-1e5", "-1e30")
        ),
        Mistake(
            "the largest absolute value",
            {"tl.max(x, axis=0)": "tl.max(tl.abs(x), axis=0)"},
            "wrong",
            "At [0]",
        ),
    ],
    "04.3": [
        Mistake(
            "the logarithm of softmax",
            {
                "    out = shifted - tl.log(tl.sum(tl.exp(shifted), axis=0))": "    power = tl.exp(shifted)\n    out = tl.log(power / tl.sum(power, axis=0))"
            },
            "wrong",
            "far apart",
        ),
        Mistake(
            "no maximum", {"shifted = x - tl.max(x, axis=0)": "shifted = x"}, "wrong", "far apart"
        ),
        Mistake(
            "the sum's logarithm twice",
            {"shifted - tl.log": "shifted - 2 * tl.log"},
            "wrong",
            "At [0, 0]",
        ),
        Mistake(
            "no mask on the store",
            {"out, mask=cols < n_cols": "out"},
            "writes outside",
            "outside its output",
        ),
        Mistake(
            "the output's rows by the input's stride",
            {"out_ptr + row * n_cols": "out_ptr + row * stride_xm"},
            "writes outside",
            "output",
        ),
        *(
            Mistake(f"{number} in the load", {'float("-inf")': number}, "wrong", "near the minimum")
            for number in ("-1e4", "-1e5")
        ),
        Mistake("base two", {"tl.log(": "tl.log2("}, "wrong", "At [0, 0]"),
    ],
    "04.4": [
        Mistake(
            "added unscaled",
            {"sum1 * tl.exp(m1 - safe) + sum2 * tl.exp(m2 - safe)": "sum1 + sum2"},
            "wrong",
            "At [1, ",
        ),
        Mistake(
            "NaN for two empty halves",
            {'tl.where(m == float("-inf"), 0.0, m)': "m"},
            "wrong",
            "some empty",
        ),
        Mistake("one half scaled", {"sum2 * tl.exp(m2 - safe)": "sum2"}, "wrong", "At [1, "),
        Mistake(
            "scaled the wrong way", {"tl.exp(m1 - safe)": "tl.exp(safe - m1)"}, "wrong", "At [1, "
        ),
        Mistake(
            "the smaller maximum", {"tl.maximum(m1, m2)": "tl.minimum(m1, m2)"}, "wrong", "At [0, "
        ),
        Mistake(
            "one row of results",
            {"    tl.store(out_ptr + n + rows, total, mask=mask)\n": ""},
            "wrong",
            "never written",
        ),
    ],
    "04.5": [
        Mistake("two sweeps", 536.9, "wrong", "reads the row twice"),
        Mistake("four sweeps", 1073.7, "wrong", "sweep of its own"),
        Mistake("bytes", 805306368, "wrong", "power of ten"),
        Mistake("one sweep", 268.4, "wrong", "one reading"),
    ],
    "04.6": [
        Mistake("bytes", "a", "wrong", "the same"),
        Mistake("spills", "c", "wrong", "nothing spills"),
        Mistake("exp", "d", "wrong", "as long"),
    ],
    "04.7": [
        Mistake("an empty list", {'["x_ptr"]': "[]"}, "wrong", "At [0, 0]"),
        Mistake(
            "as it is",
            {'    restore_value=["x_ptr"],\n': "    reset_to_zero=[],\n"},
            "wrong",
            "At [0, 0]",
        ),
        Mistake(
            "cleared", {'restore_value=["x_ptr"]': 'reset_to_zero=["x_ptr"]'}, "wrong", "At [0, 0]"
        ),
        Mistake(
            "a key in its place",
            {
                '    key=["n_cols"],\n    # about 1 line from here\n    restore_value=["x_ptr"],\n': '    key=["n_cols", "BLOCK_N"],\n    # about 1 line from here\n'
            },
            "wrong",
            "At [0, 0]",
        ),
        Mistake(
            "one configuration left",
            {
                "    configs=[triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)],": "    configs=[triton.Config({}, num_warps=4)],",
                '    restore_value=["x_ptr"],\n': "",
            },
            "wrong",
            "does not try 2 configurations",
        ),
        Mistake(
            "no tuner left",
            {
                '@triton.autotune(\n    configs=[triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)],\n    key=["n_cols"],\n    # about 1 line from here\n    restore_value=["x_ptr"],\n    # to here\n)\n': ""
            },
            "wrong",
            "does not try 2 configurations",
        ),
        Mistake(
            "PyTorch does it",
            {"    x = x.clone()": "    return torch.softmax(x, dim=1)\n    x = x.clone()"},
            "wrong",
            "computes with PyTorch",
        ),
    ],
    "04.8": [
        Mistake(
            "load, add, store",
            {
                "    tl.atomic_add(out_ptr + cols, tl.sum(x, axis=0), mask=cols < n_cols)": "    before = tl.load(out_ptr + cols, mask=cols < n_cols)\n"
                "    tl.store(out_ptr + cols, before + tl.sum(x, axis=0), mask=cols < n_cols)"
            },
            "race",
            "wrote different values",
        ),
        Mistake("not zeroed", {"torch.zeros(": "torch.empty("}, "wrong", "At [0]"),
        Mistake("masked lanes add one", {", other=0.0": ", other=1.0"}, "wrong", "At [0]"),
        Mistake("no other", {", other=0.0": ""}, "wrong", "At [0]"),
        Mistake(
            "no mask on the atomic",
            {"axis=0), mask=cols < n_cols": "axis=0)"},
            "writes outside",
            "its output",
        ),
        Mistake(
            "the wrong axis",
            {
                "tl.sum(x, axis=0)": "tl.sum(x, axis=1)",
                "BLOCK_M=32, BLOCK_N=64": "BLOCK_M=64, BLOCK_N=64",
                "x.shape[0], 32)": "x.shape[0], 64)",
            },
            "wrong",
            "At [0]",
        ),
        Mistake("a store", {"tl.atomic_add(": "tl.store("}, "race", "wrote different values"),
        Mistake(
            "strides forgotten",
            {"    x = x.contiguous()\n": ""},
            "reads outside",
            "left part of a wider one",
        ),
        Mistake(
            "tiles of four rows",
            {
                "BLOCK_M=32, BLOCK_N=64": "BLOCK_M=4, BLOCK_N=64",
                "x.shape[0], 32)": "x.shape[0], 4)",
            },
            "wrong",
            "bytes where",
        ),
        Mistake(
            "rows by the height",
            {"rows[:, None] * n_cols": "rows[:, None] * n_rows"},
            "reads outside",
            "none of the kernel's arguments",
        ),
    ],
    "04.9": [
        Mistake(
            "the row sum forgotten",
            {"(d_out - tl.sum(out * d_out, axis=0))": "d_out"},
            "wrong",
            "At [0, 0]",
        ),
        Mistake(
            "the sum of d_out",
            {"tl.sum(out * d_out, axis=0)": "tl.sum(d_out, axis=0)"},
            "wrong",
            "At [0, 0]",
        ),
        Mistake("plus", {"d_out - tl.sum": "d_out + tl.sum"}, "wrong", "At [0, 0]"),
        Mistake(
            "no mask",
            {"mask = cols < n_cols": "mask = cols < BLOCK_N"},
            "reads outside",
            "outside input 0",
        ),
        Mistake("no other", {", other=0.0": ""}, "wrong", "At [0, 0]"),
    ],
}

OTHERS = {
    "04.1": [
        Other("in a loop of one turn", {"tl.sum(x, axis=0)": "tl.sum(x)"}),
        Other(
            "masked by where",
            {
                ROW: "x_ptr + row * stride_xm + tl.where(cols < n_cols, cols, 0)",
                "tl.sum(x, axis=0)": "tl.sum(tl.where(cols < n_cols, x, 0.0))",
            },
        ),
    ],
    "04.2": [
        Other("by the minimum", {"tl.max(x, axis=0)": "-tl.min(-x, axis=0)"}),
        Other("a very small number", {'float("-inf")': "-3.4e38"}),
    ],
    "04.3": [
        Other(
            "the maximum added back",
            {
                "    shifted = x - tl.max(x, axis=0)\n    out = shifted - tl.log(tl.sum(tl.exp(shifted), axis=0))": "    largest = tl.max(x, axis=0)\n    out = x - (largest + tl.log(tl.sum(tl.exp(x - largest), axis=0)))"
            },
        ),
        Other(
            "in powers of two",
            {
                "tl.log(tl.sum(tl.exp(shifted), axis=0))": "tl.log2(tl.sum(tl.exp2(shifted * 1.4426950408889634), axis=0)) * 0.6931471805599453"
            },
        ),
    ],
    "04.4": [
        Other(
            "the factors by where",
            {
                '    safe = tl.where(m == float("-inf"), 0.0, m)\n    total = sum1 * tl.exp(m1 - safe) + sum2 * tl.exp(m2 - safe)': '    f1 = tl.where(m1 == float("-inf"), 0.0, tl.exp(m1 - m))\n    f2 = tl.where(m2 == float("-inf"), 0.0, tl.exp(m2 - m))\n    total = sum1 * f1 + sum2 * f2'
            },
        ),
        Other(
            "the larger one not scaled",
            {
                '    safe = tl.where(m == float("-inf"), 0.0, m)\n': "",
                "sum1 * tl.exp(m1 - safe) + sum2 * tl.exp(m2 - safe)": "sum1 * tl.exp(tl.where(m1 == m, 0.0, m1 - m)) + sum2 * tl.exp(tl.where(m2 == m, 0.0, m2 - m))",
            },
        ),
        Other(
            "the other way round",
            {
                "sum1 * tl.exp(m1 - safe) + sum2 * tl.exp(m2 - safe)": "tl.exp(m2 - safe) * sum2 + tl.exp(m1 - safe) * sum1"
            },
        ),
    ],
    "04.5": [Other("a whole number", 805), Other("as computed", 3 * 4 * 2**26 / 1e6)],
    "04.6": [Other("in capitals", "B"), Other("in brackets", "(b)")],
    "04.7": [
        Other(
            "both names by position",
            {'    restore_value=["x_ptr"],': '    restore_value=("x_ptr",), reset_to_zero=None,'},
        ),
        Other("another key too", {'key=["n_cols"]': 'key=["n_cols", "BLOCK_N"]'}),
        Other(
            "put back by hooks",
            {
                "@triton.autotune(": """KEPT = {}


def keep(kwargs, reset_only=False):
    if not reset_only:
        KEPT["x"] = kwargs["x_ptr"].clone()


def put_back(kwargs, exception):
    kwargs["x_ptr"].copy_(KEPT["x"])


@triton.autotune(""",
                '    restore_value=["x_ptr"],': "    pre_hook=keep, post_hook=put_back,",
            },
        ),
    ],
    "04.8": [
        Other(
            "a program for all rows",
            {
                "    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)": "    total = tl.zeros([BLOCK_N], dtype=tl.float32)",
                "    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)\n    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0)\n    tl.atomic_add(out_ptr + cols, tl.sum(x, axis=0), mask=cols < n_cols)": "    for start in range(0, n_rows, BLOCK_M):\n        rows = start + tl.arange(0, BLOCK_M)\n        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)\n        total += tl.sum(tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0), axis=0)\n    tl.store(out_ptr + cols, total, mask=cols < n_cols)",
                "grid = (triton.cdiv(x.shape[0], 32), ": "grid = (1, ",
            },
        ),
        Other(
            "parts, added up by a second kernel",
            {
                "    tl.atomic_add(out_ptr + cols, tl.sum(x, axis=0), mask=cols < n_cols)": "    tl.store(out_ptr + tl.program_id(axis=0) * n_cols + cols, tl.sum(x, axis=0), mask=cols < n_cols)",
                "def column_sum(x):": """@triton.jit
def add_parts_kernel(parts_ptr, out_ptr, n_parts, n_cols, BLOCK_N: tl.constexpr):
    cols = tl.program_id(axis=0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros([BLOCK_N], tl.float32)
    for part in range(n_parts):
        total += tl.load(parts_ptr + part * n_cols + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + cols, total, mask=cols < n_cols)


def column_sum(x):""",
                "    out = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device)": "    out = torch.empty(x.shape[1], dtype=x.dtype, device=x.device)",
                "x.shape[0], 32)": "x.shape[0], 16)",
                "    column_sum_kernel[grid](x, out, *x.shape, BLOCK_M=32, BLOCK_N=64)": "    parts = torch.empty(grid[0], x.shape[1], dtype=x.dtype, device=x.device)\n    column_sum_kernel[grid](x, parts, *x.shape, BLOCK_M=16, BLOCK_N=64)\n    add_parts_kernel[(grid[1],)](parts, out, len(parts), x.shape[1], BLOCK_N=64)",
            },
        ),
        Other(
            "bigger tiles",
            {
                "BLOCK_M=32, BLOCK_N=64": "BLOCK_M=128, BLOCK_N=64",
                "x.shape[0], 32)": "x.shape[0], 128)",
            },
        ),
    ],
    "04.9": [
        Other(
            "the product once",
            {
                "dx = out * (d_out - tl.sum(out * d_out, axis=0))": "weighted = out * d_out\n    dx = weighted - out * tl.sum(weighted, axis=0)"
            },
        ),
        Other("summed by dots' own", {"tl.sum(out * d_out, axis=0)": "tl.sum(d_out * out)"}),
    ],
}
