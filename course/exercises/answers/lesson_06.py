from . import Mistake, Other

HIDE = '    scores = tl.where(cols[None, :] < n_keys, scores, -float("inf"))\n'
SAFE = '        base = tl.where(new_m == -float("inf"), 0.0, new_m)\n'
DIVISOR = "    total = tl.where(total == 0.0, 1.0, total)\n"
LAST = "        last = rows[:, None] + n_keys - n_queries\n"

MISTAKES = {
    "06.1": [
        Mistake("padding gets e^0", {HIDE: ""}, "wrong", "At [0, 0]"),
        Mistake("no scale", {" * scale  # [BLOCK_M, BLOCK_N]": ""}, "wrong", "At [0, 0]"),
        Mistake("padding's score 0", {'-float("inf")': "0.0"}, "wrong", "At [0, 0]"),
        *(
            Mistake(f"{number} for -inf", {'-float("inf")': number}, "wrong", "near the minimum")
            for number in ("-100.0", "-1e4", "-1e9")
        ),
        Mistake(
            "powers masked, and not scores",
            {
                HIDE: "",
                "    out = tl.dot": "    power = tl.where(cols[None, :] < n_keys, power, 0.0)\n    out = tl.dot",
            },
            "wrong",
            "got nan",
        ),
        Mistake("never divided", {" / tl.sum(power, axis=1)[:, None]": ""}, "wrong", "At [0, 0]"),
        Mistake(
            "sums in float16",
            {"tl.sum(power,": "tl.sum(power.to(tl.float16),"},
            "wrong",
            "computes in float16",
        ),
        Mistake(
            "a dot's sums in float16",
            {"tl.float16), v)": "tl.float16), v, out_dtype=tl.float16)"},
            "wrong",
            "leave out out_dtype",
        ),
        Mistake(
            "folded along the queries",
            {"tl.sum(power, axis=1)[:, None]": "tl.sum(power, axis=1)[None, :]"},
            "does not compile",
            "incompatible dimensions",
        ),
        Mistake("no maximum", {" - tl.max(scores, axis=1)[:, None]": ""}, "wrong", "far apart"),
        Mistake(
            "the dot in float32", {"power.to(tl.float16)": "power"}, "does not compile", "tl.dot"
        ),
        Mistake(
            "keys not turned",
            {"tl.trans(k)": "k"},
            "does not compile",
            "equal reduction dimensions",
        ),
        Mistake(
            "every row the first",
            {"out_ptr + rows[:, None] * D": "out_ptr + 0 * rows[:, None]"},
            "race",
            "wrote different values",
        ),
    ],
    "06.2": [
        Mistake(
            "the accumulator not rescaled", {"acc * rescale[:, None] + ": "acc + "}, "wrong", "At ["
        ),
        Mistake("the total not rescaled", {"total * rescale + ": "total + "}, "wrong", "At ["),
        Mistake(
            "divided in every turn",
            {"        m = new_m\n": "        acc = acc / total[:, None]\n        m = new_m\n"},
            "wrong",
            "At [0, 0]",
        ),
        Mistake(
            "the wrong way round", {"tl.exp(m - new_m)": "tl.exp(new_m - m)"}, "wrong", "At [0, 0]"
        ),
        Mistake(
            "the maximum of the tile alone",
            {"tl.maximum(m, tl.max(scores, axis=1))": "tl.max(scores, axis=1)"},
            "wrong",
            "far apart",
        ),
        Mistake("the maximum not kept", {"        m = new_m\n": ""}, "wrong", "At [0, 0]"),
        Mistake(
            "kept too early",
            {
                "        rescale = tl.exp(m - new_m)\n": "        m = new_m\n        rescale = tl.exp(m - new_m)\n"
            },
            "wrong",
            "At [",
        ),
        *(
            Mistake(
                f"{number} for -inf in the scores",
                {'scores, -float("inf")': f"scores, {number}"},
                "wrong",
                "near the minimum",
            )
            for number in ("-100.0", "-1e4", "-1e9")
        ),
        Mistake(
            "a floor under the maximum",
            {
                "tl.maximum(m, tl.max(scores, axis=1))": "tl.maximum(tl.maximum(m, -1e4), tl.max(scores, axis=1))"
            },
            "wrong",
            "near the minimum",
        ),
        Mistake(
            "the old accumulator lost",
            {"acc * rescale[:, None] + tl.dot": "tl.dot"},
            "wrong",
            "At [0, 0]",
        ),
    ],
    "06.3": [
        Mistake(
            "in powers of two",
            {"m * 0.6931471805599453 + tl.log(total)": "m + tl.log2(total)"},
            "wrong",
            "At [0]",
        ),
        Mistake("the maximum in powers of two", {"m * 0.6931471805599453": "m"}, "wrong", "At [0]"),
        Mistake(
            "the total in powers of two", {"tl.log(total)": "tl.log2(total)"}, "wrong", "At [0]"
        ),
        Mistake(
            "divided by ln 2",
            {"m * 0.6931471805599453": "m / 0.6931471805599453"},
            "wrong",
            "At [0]",
        ),
        Mistake("the total alone", {"m * 0.6931471805599453 + ": ""}, "wrong", "At [0]"),
        Mistake(
            "powers of e in the loop", {"tl.sum(tl.exp2(": "tl.sum(tl.exp("}, "wrong", "At [0]"
        ),
        Mistake("the total not rescaled", {"total * tl.exp2(m - new_m)": "total"}, "wrong", "At ["),
        Mistake(
            "-1e4 for -inf in the scores",
            {'scores, -float("inf")': "scores, -1e4"},
            "wrong",
            "near the minimum",
        ),
        Mistake(
            "a floor under the maximum",
            {
                "tl.maximum(m, tl.max(scores, axis=1))": "tl.maximum(tl.maximum(m, -1e4), tl.max(scores, axis=1))"
            },
            "wrong",
            "near the minimum",
        ),
        Mistake(
            "no mask on the store",
            {"lse, mask=rows < n_queries": "lse"},
            "writes outside",
            "outside its output",
        ),
    ],
    "06.4": [
        Mistake("all", 2048, "wrong", "above the staircase are skipped"),
        Mistake("half", 1024, "wrong", "half of all"),
        Mistake("whole ones", 992, "wrong", "whole tiles alone"),
        Mistake("masked ones", 64, "wrong", "masked tiles alone"),
        Mistake("square tiles", 528, "wrong", "64 keys wide"),
    ],
    "06.5": [
        Mistake(
            "off by one", {"cols[None, :] <= rows": "cols[None, :] < rows"}, "wrong", "At [0, 0]"
        ),
        Mistake(
            "one too many",
            {"rows[:, None] + n_keys - n_queries": "rows[:, None] + n_keys - n_queries + 1"},
            "wrong",
            "At [0, 0]",
        ),
        Mistake(
            "top left",
            {
                "rows[:, None] + n_keys - n_queries": "rows[:, None]",
                "last_row + n_keys - n_queries + 1": "last_row + 1",
            },
            "wrong",
            "At [0, 0]",
        ),
        Mistake("NaN for a row without a key", {SAFE: ""}, "wrong", "got nan"),
        Mistake("0 over 0", {DIVISOR: ""}, "wrong", "got nan"),
        Mistake(
            "no tile skipped",
            {"    end = tl.minimum(last_row + n_keys - n_queries + 1, n_keys)\n": ""},
            "wrong",
            "bytes where",
        ),
        Mistake(
            "the end by the first query", {"first_row + BLOCK_M - 1": "first_row"}, "wrong", "At ["
        ),
        Mistake(
            "the last key left out", {"n_queries + 1, n_keys": "n_queries, n_keys"}, "wrong", "At ["
        ),
        Mistake(
            "transposed",
            {"cols[None, :] <= rows[:, None]": "rows[:, None] <= cols[None, :]"},
            "wrong",
            "At [0, 0]",
        ),
    ],
    "06.6": [
        Mistake(
            "the remainder",
            {"head // (n_heads // n_key_heads)": "head % n_key_heads"},
            "wrong",
            "At [1, 0, 0]",
        ),
        Mistake(
            "divided by the key heads",
            {"head // (n_heads // n_key_heads)": "head // n_key_heads"},
            "reads outside",
            "outside input 1",
        ),
        Mistake(
            "no grouping", {"head // (n_heads // n_key_heads)": "head"}, "reads outside", "input 1"
        ),
        Mistake(
            "the stride of q for k",
            {"key_head * stride_kh": "key_head * stride_qh"},
            "wrong",
            "At [3, 0, 0]",
        ),
        Mistake(
            "the stride of k for v",
            {"key_head * stride_vh": "key_head * stride_kh"},
            "wrong",
            "At [3, 0, 0]",
        ),
        Mistake(
            "the queries stay", {"    q_ptr += head * stride_qh\n": ""}, "wrong", "At [1, 0, 0]"
        ),
        Mistake(
            "the values stay", {"    v_ptr += key_head * stride_vh\n": ""}, "wrong", "At [3, 0, 0]"
        ),
        Mistake(
            "-1e4 for -inf in the scores",
            {'scale, -float("inf")': "scale, -1e4"},
            "wrong",
            "near the minimum",
        ),
        Mistake(
            "always the first key head",
            {"head // (n_heads // n_key_heads)": "0 * head"},
            "wrong",
            "At [3, 0, 0]",
        ),
    ],
    "06.7": [
        Mistake("one of the two", 64, "wrong", "one of the two"),
        Mistake("4 warps", 256, "wrong", "with 4 warps"),
        Mistake("by warps", 4096, "wrong", "32 threads"),
        Mistake("in 16 bits", 32, "wrong", "both are float32"),
    ],
    "06.8": [
        Mistake(
            "no tile skipped on the left",
            {"    first = tl.maximum(sees - window + 1, 0) // BLOCK_N * BLOCK_N\n": ""},
            "wrong",
            "bytes where",
        ),
        Mistake(
            "no tile skipped on the right",
            {"    end = tl.minimum(sees + BLOCK_M, n_keys)\n": ""},
            "wrong",
            "bytes where",
        ),
        Mistake(
            "begun by the last query",
            {"sees - window + 1": "sees + BLOCK_M - window"},
            "wrong",
            "At [",
        ),
        Mistake("a window one too wide", {"> last - window": ">= last - window"}, "wrong", "At ["),
        Mistake(
            "a window one too narrow", {"> last - window": "> last - window + 1"}, "wrong", "At ["
        ),
        Mistake("no left edge", {" & (cols[None, :] > last - window)": ""}, "wrong", "At ["),
        Mistake("no right edge", {"(cols[None, :] <= last) & ": ""}, "wrong", "At ["),
        Mistake(
            "from key -1 on",
            {"tl.maximum(sees - window + 1, 0)": "(sees - window + 1)"},
            "reads outside",
            "input 1",
        ),
        Mistake(
            "top left",
            {
                "first_row + n_keys - n_queries": "first_row",
                "rows[:, None] + n_keys - n_queries": "rows[:, None]",
            },
            "wrong",
            "At [",
        ),
    ],
}

OTHERS = {
    "06.1": [
        Other(
            "shares before the second dot",
            {
                "    out = tl.dot(power.to(tl.float16), v) / tl.sum(power, axis=1)[:, None]": "    shares = power / tl.sum(power, axis=1)[:, None]\n    out = tl.dot(shares.to(tl.float16), v)"
            },
        ),
        Other("a number below all scores", {'-float("inf")': "-1e30"}),
        Other(
            "in powers of two",
            {" * scale  #": " * scale * 1.4426950408889634  #", "tl.exp(": "tl.exp2("},
        ),
    ],
    "06.2": [
        Other(
            "the accumulator in the dot",
            {
                "acc * rescale[:, None] + tl.dot(power.to(tl.float16), v)": "tl.dot(power.to(tl.float16), v, acc * rescale[:, None])"
            },
        ),
        Other(
            "divided by the way, and multiplied back",
            {
                "        total = total * rescale + tl.sum(power, axis=1)\n        acc = acc * rescale[:, None] + tl.dot(power.to(tl.float16), v)\n": "        old = total * rescale\n        total = old + tl.sum(power, axis=1)\n        acc = (acc * old[:, None] + tl.dot(power.to(tl.float16), v)) / total[:, None]\n",
                "    out = acc / total[:, None]": "    out = acc",
            },
        ),
        Other(
            "in powers of two",
            {
                "tl.exp(scores - new_m[:, None])": "tl.exp2((scores - new_m[:, None]) * 1.4426950408889634)"
            },
        ),
    ],
    "06.3": [
        Other(
            "both in powers of two",
            {"m * 0.6931471805599453 + tl.log(total)": "(m + tl.log2(total)) * 0.6931471805599453"},
        ),
        Other("divided by log2(e)", {"m * 0.6931471805599453": "m / 1.4426950408889634"}),
    ],
    "06.4": [Other("as a float", 1056.0), Other("all but those above", 2048 - 992)],
    "06.5": [
        Other(
            "a masked sum",
            {
                SAFE: "        base = tl.maximum(new_m, -1e30)\n",
                DIVISOR: "    total = tl.maximum(total, 1e-30)\n",
            },
        ),
        Other(
            "the last row there is",
            {
                "first_row + BLOCK_M - 1": "tl.minimum(first_row + BLOCK_M, n_queries) - 1",
                "tl.minimum(last_row + n_keys - n_queries + 1, n_keys)": "tl.maximum(last_row + n_keys - n_queries + 1, 0)",
            },
        ),
        Other(
            "the difference of the lengths first",
            {"<= rows[:, None] + n_keys - n_queries": "- (n_keys - n_queries) <= rows[:, None]"},
        ),
    ],
    "06.6": [
        Other(
            "multiplied first",
            {"head // (n_heads // n_key_heads)": "head * n_key_heads // n_heads"},
        ),
        Other(
            "in 64 bits",
            {
                "    key_head = head // (n_heads // n_key_heads)\n": "    head = head.to(tl.int64)\n    key_head = head // (n_heads // n_key_heads)\n"
            },
        ),
    ],
    "06.7": [Other("a whole number", 128), Other("as computed", 2 * 128 * 128 / 256)],
    "06.8": [
        Other(
            "from the very key on",
            {
                "tl.maximum(sees - window + 1, 0) // BLOCK_N * BLOCK_N": "tl.maximum(sees - window + 1, 0)"
            },
        ),
        Other(
            "by the distance",
            {
                "(cols[None, :] <= last) & (cols[None, :] > last - window)": "(last - cols[None, :] >= 0) & (last - cols[None, :] < window)"
            },
        ),
    ],
}
