from . import Mistake, Other

MISTAKES = {
    "05.1": [
        Mistake(
            "the shape of a",
            {"tl.zeros([BLOCK_M, BLOCK_N]": "tl.zeros([BLOCK_M, BLOCK_K]"},
            "does not compile",
            "",
        ),
        Mistake(
            "steps of BLOCK_N",
            {"range(0, K, BLOCK_K)": "range(0, K, BLOCK_N)"},
            "reads outside",
            "read memory",
        ),
        Mistake(
            "pointers go on by BLOCK_N",
            {
                "a_ptrs += BLOCK_K": "a_ptrs += BLOCK_N",
                "b_ptrs += BLOCK_K * N": "b_ptrs += BLOCK_N * N",
            },
            "wrong",
            "At [0, 0]",
        ),
        Mistake(
            "@",
            {
                "acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)": "acc += tl.load(a_ptrs) @ tl.load(b_ptrs)"
            },
            "does not compile",
            "tl.dot(a, b) multiplies blocks",
        ),
        Mistake(
            "acc = 0", {"tl.zeros([BLOCK_M, BLOCK_N], tl.float32)": "0"}, "does not compile", "acc"
        ),
        Mistake("the pointers of a stay", {"        a_ptrs += BLOCK_K\n": ""}, "wrong", "64 x 128"),
        Mistake(
            "the pointers of b stay", {"        b_ptrs += BLOCK_K * N\n": ""}, "wrong", "64 x 128"
        ),
        Mistake(
            "b goes on within its rows",
            {"b_ptrs += BLOCK_K * N": "b_ptrs += BLOCK_K"},
            "wrong",
            "At [0, 0]",
        ),
        Mistake(
            "added up in float16",
            {
                "tl.float32)": "tl.float16)",
                "tl.load(b_ptrs), acc)": "tl.load(b_ptrs), acc, out_dtype=tl.float16)",
            },
            "wrong",
            "At [0, 0]",
        ),
        Mistake(
            "every product in place of the sum",
            {"tl.load(b_ptrs), acc)": "tl.load(b_ptrs))"},
            "wrong",
            "64 x 128",
        ),
        Mistake(
            "one step", {"range(0, K, BLOCK_K)": "range(0, BLOCK_K, BLOCK_K)"}, "wrong", "64 x 128"
        ),
        Mistake("K steps", {"range(0, K, BLOCK_K)": "range(0, K)"}, "reads outside", "read memory"),
        Mistake(
            "rounded at the end",
            {"tl.store(c_ptrs, acc)": "tl.store(c_ptrs, acc.to(tl.float16))"},
            "wrong",
            "At [",
        ),
        Mistake(
            "operands exchanged",
            {"tl.load(a_ptrs), tl.load(b_ptrs)": "tl.load(b_ptrs), tl.load(a_ptrs)"},
            "does not compile",
            "reduction dimensions",
        ),
    ],
    "05.2": [
        Mistake(
            "a mask on a alone",
            {
                "mask=left[:, None] & (cols < N)[None, :], other=0.0": "mask=(cols < N)[None, :], other=0.0"
            },
            "reads outside",
            "outside input 1",
        ),
        Mistake(
            "a mask on b alone",
            {
                "mask=(rows < M)[:, None] & left[None, :], other=0.0": "mask=(rows < M)[:, None], other=0.0"
            },
            "reads outside",
            "outside input 0",
        ),
        Mistake(
            "masks along K alone",
            {"(rows < M)[:, None] & left": "left"},
            "reads outside",
            "outside input 0",
        ),
        Mistake(
            "K for what is left", {"ks < K - start": "ks < K"}, "reads outside", "outside input"
        ),
        Mistake(
            "no other for a", {"left[None, :], other=0.0": "left[None, :]"}, "wrong", "At [0, 0]"
        ),
        Mistake(
            "ones",
            {
                "(cols < N)[None, :], other=0.0": "(cols < N)[None, :], other=1.0",
                "left[None, :], other=0.0": "left[None, :], other=1.0",
            },
            "wrong",
            "At [0, 0]",
        ),
        Mistake("no sum", {"tl.dot(a, b, acc)": "tl.dot(a, b)"}, "wrong", "20 x 70"),
        Mistake(
            "start forgotten, the other way",
            {"ks < K - start": "ks + start < N"},
            "wrong",
            "At [0, 0]",
        ),
    ],
    "05.3": [
        Mistake(
            "as it is",
            {"    i = tl.arange(0, 16)": "    i = tl.arange(0, 8)"},
            "does not compile",
            "K >= 16",
        ),
        Mistake(
            "rows 16 apart",
            {"i[:, None] * 8": "i[:, None] * 16"},
            "reads outside",
            "outside input 0",
        ),
        Mistake(
            "no masks on the loads",
            {"mask=inside, other=0.0": "mask=i[:, None] < 8, other=0.0"},
            "reads outside",
            "outside input",
        ),
        Mistake("no other", {", mask=inside, other=0.0": ", mask=inside"}, "wrong", "At [0, 0]"),
        Mistake(
            "no mask on the store",
            {"tl.dot(a, b), mask=inside": "tl.dot(a, b)"},
            "writes outside",
            "outside its output",
        ),
        Mistake(
            "no dot",
            {
                "tl.dot(a, b)": "tl.sum(a[:, :, None].to(tl.float32) * b[None, :, :].to(tl.float32), axis=1)"
            },
            "wrong",
            "without tl.dot",
        ),
        Mistake("b turned", {"tl.dot(a, b)": "tl.dot(a, tl.trans(b))"}, "wrong", "At [0, 0]"),
    ],
    "05.4": [
        Mistake("row after row", 44, "wrong", "row after row"),
        Mistake("two each", 264, "wrong", "share"),
        Mistake("the tiles of c", 132, "wrong", "tiles of c"),
        Mistake("columns alone", 22, "wrong", "on top"),
        Mistake("all columns", 46, "wrong", "do not get so far"),
    ],
    "05.5": [
        Mistake("b forgotten", "8, 12, 28", "wrong", "alone"),
        Mistake("a forgotten", "4, 6, 14", "wrong", "alone"),
        Mistake("float32", "1, 2, 4", "wrong", "4 bytes"),
        Mistake("rounded up", "3, 5, 10", "wrong", "up"),
        Mistake("a number", 9, "no answer", "text"),
    ],
    "05.6": [
        Mistake(
            "w as it lies",
            {"cols[None, :] * K + ks[:, None]": "ks[:, None] * N + cols[None, :]"},
            "wrong",
            "At [",
        ),
        Mistake(
            "the bias down the rows",
            {
                "bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0)": "bias = tl.load(bias_ptr + rows, mask=rows < N, other=0.0)",
                "bias[None, :]": "bias[:, None]",
            },
            "wrong",
            "At [",
        ),
        Mistake(
            "cut off before the bias",
            {
                "acc = tl.maximum(acc + bias[None, :], 0.0)": "acc = tl.maximum(acc, 0.0) + bias[None, :]"
            },
            "wrong",
            "At [",
        ),
        Mistake(
            "the bias at every step",
            {
                "        acc = tl.dot(x, w, acc)\n    bias": "        acc = tl.dot(x, w, acc)\n        acc += tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)[None, :]\n    bias",
                "acc + bias[None, :]": "acc",
            },
            "wrong",
            "At [",
        ),
        Mistake(
            "cut off at every step",
            {"acc = tl.dot(x, w, acc)": "acc = tl.maximum(tl.dot(x, w, acc), 0.0)"},
            "wrong",
            "At [",
        ),
        Mistake(
            "added in float16",
            {
                "acc = tl.maximum(acc + bias[None, :], 0.0)": "acc = tl.maximum(acc.to(tl.float16) + bias.to(tl.float16)[None, :], 0.0)"
            },
            "wrong",
            "float16",
        ),
        Mistake(
            "the width for the row stride",
            {"rows[:, None] * stride_xm": "rows[:, None] * K"},
            "reads outside",
            "left part",
        ),
        Mistake(
            "no mask along K",
            {"(rows < M)[:, None] & (ks < K)[None, :]": "(rows < M)[:, None]"},
            "reads outside",
            "outside input 0",
        ),
        Mistake(
            "PyTorch does the rest",
            {"    return out": "    return torch.relu(out)"},
            "wrong",
            "computes with PyTorch",
        ),
    ],
}

OTHERS = {
    "05.1": [
        Other("added outside the dot", {"acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)": "acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))"}),
        Other(
            "offsets anew at each step",
            {
                "    for _ in range(0, K, BLOCK_K):\n        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)\n        a_ptrs += BLOCK_K\n        b_ptrs += BLOCK_K * N\n": "    for start in range(0, K, BLOCK_K):\n        acc = tl.dot(tl.load(a_ptrs + start), tl.load(b_ptrs + start * N), acc)\n",
            },
        ),
        Other("the reader's names", {"acc": "total"}),
    ],
    "05.2": [
        Other("the end counted down", {"ks < K - start": "start + ks < K"}),
        Other(
            "rows and columns wrapped round",
            {
                "mask=(rows < M)[:, None] & left[None, :]": "mask=(rows < M)[:, None] & (ks[None, :] < K - start)",
            },
        ),
    ],
    "05.3": [
        Other("M and N of 8", {"    i = tl.arange(0, 16)\n": "    i = tl.arange(0, 16)\n    eight = tl.arange(0, 8)\n",
            "    inside = (i[:, None] < 8) & (i[None, :] < 8)\n": "",
            "    offsets = i[:, None] * 8 + i[None, :]\n": "",
            "tl.load(a_ptr + offsets, mask=inside, other=0.0)": "tl.load(a_ptr + eight[:, None] * 8 + i[None, :], mask=i[None, :] < 8, other=0.0)",
            "tl.load(b_ptr + offsets, mask=inside, other=0.0)": "tl.load(b_ptr + i[:, None] * 8 + eight[None, :], mask=i[:, None] < 8, other=0.0)",
            "tl.store(c_ptr + offsets, tl.dot(a, b), mask=inside)": "tl.store(c_ptr + eight[:, None] * 8 + eight[None, :], tl.dot(a, b))"}),
        Other(
            "the masks one after the other",
            {
                "    inside = (i[:, None] < 8) & (i[None, :] < 8)": "    low = i < 8\n    inside = low[:, None] & low[None, :]",
            },
        ),
    ],
    "05.4": [Other("as a float", 28.0), Other("as an integer", 28)],
    "05.5": [Other("without commas", "2 4 9"), Other("in words", "2, 4 and 9."), Other("semicolons", "2;4;9")],
    "05.6": [
        Other("w turned after the load", {"w_ptr + cols[None, :] * K + ks[:, None], mask=w_mask, other=0.0)": "w_ptr + cols[:, None] * K + ks[None, :], mask=(cols < N)[:, None] & (ks < K)[None, :], other=0.0)", "tl.dot(x, w, acc)": "tl.dot(x, tl.trans(w), acc)"}),
        Other("the bias first", {"acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)": "acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)\n    acc += tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)[None, :]", "acc + bias[None, :]": "acc"}),
    ],
}  # fmt: skip
