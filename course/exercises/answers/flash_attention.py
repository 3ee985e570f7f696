"""The usual mistakes on the topic "flash attention", and other right answers."""

from . import Mistake, Other

HIDE = '    scores = tl.where(cols[None, :] < n_keys, scores, -float("inf"))\n'
SAFE = '        base = tl.where(new_m == -float("inf"), 0.0, new_m)\n'
DIVISOR = "    total = tl.where(total == 0.0, 1.0, total)\n"
LAST = "        last = rows[:, None] + n_keys - n_queries\n"
FLOAT16_DOT = Mistake("a dot's sums in float16", {
    "tl.float16), v)": "tl.float16), v, out_dtype=tl.float16)",
}, "wrong", "leave out out_dtype", "float16 sums",
    means="They think that a float16 result needs a float16 dot; it adds up in float32 and rounds "
    "at the store.")  # fmt: skip

MISTAKES = {
    "one-tile": [
        Mistake("padding gets e^0", {HIDE: ""}, "wrong",
            "comes out if keys that are not there count with a score of 0", "slip 1",
            means="They think that a zero key does no harm; its score is 0, and e^0 is 1 in the "
            "sum."),
        Mistake("no scale", {" * scale  # [BLOCK_M, BLOCK_N]": ""}, "wrong",
            "comes out if the scores are not scaled", "slip 2",
            means="They think that the scale cancels in the division; it is inside the exponent."),
        Mistake("padding's score 0", {'-float("inf")': "0.0"}, "wrong",
            "comes out if keys that are not there count with a score of 0", "slip 1",
            means="They neutralise the padding with 0, as in a sum; in the exponent only -inf "
            "gives 0."),
        *(
            Mistake(f"{number} for -inf", {'-float("inf")': number}, "wrong",
                "comes out if a finite number stands in for the -inf", "slip 4",
                means="They take a number for minus infinity; with real scores below it, the "
                "padding wins.")
            for number in ("-100.0", "-1e4", "-1e9")
        ),
        Mistake("powers masked, and not scores", {
            HIDE: "",
            "    out = tl.dot":
            "    power = tl.where(cols[None, :] < n_keys, power, 0.0)\n"
            "    out = tl.dot",
        }, "wrong", "got nan", "wrong in case 4",
            means="They mask after exp; by then the padding has taken part in the maximum, and "
            "all real powers may be 0."),
        Mistake("never divided", {" / tl.sum(power, axis=1)[:, None]": ""}, "wrong",
            "comes out if nothing is divided by the sum of the powers", "slip 3",
            means="They stop at the weighted sum; softmax divides by the sum of the powers."),
        Mistake("sums in float16", {"tl.sum(power,": "tl.sum(power.to(tl.float16),"},
            "wrong", "computes in float16", "16 bits",
            means="They take the permission for the powers to cover their sum; a sum in float16 "
            "loses digits."),
        FLOAT16_DOT,
        Mistake("operands in float32", {
            "tl.dot(q, tl.trans(k))": "tl.dot(q.to(tl.float32), tl.trans(k.to(tl.float32)))",
        }, "wrong", "operands in float32", "float32 operands",
            means="They think that only float32 operands give float32 sums; the dot adds up in "
            "float32 in any case, and float16 is twice as fast."),
        Mistake("folded along the queries", {
            "tl.sum(power, axis=1)[:, None]": "tl.sum(power, axis=1)[None, :]",
        }, "does not compile", "write [:, None] for [None, :]",
            "cannot incompatible dimensions at index and",
            means="They spread the row sums along the columns; there is one for each query, so "
            "it stands up."),
        Mistake("no maximum", {" - tl.max(scores, axis=1)[:, None]": ""}, "wrong", "far apart",
            "wrong in case 2",
            means="They think that the maximum is a detail; without it exp overflows at large "
            "scores."),
        Mistake("the dot in float32", {"power.to(tl.float16)": "power"},
            "does not compile", "tl.dot", "both operands must be same got and",
            means="They leave the powers in float32; both operands of a dot have one type, and v "
            "is float16."),
        Mistake("keys not turned", {"tl.trans(k)": "k"},
            "does not compile", "multiplies [M, K] by [K, N]",
            "input and other must have equal reduction dimensions",
            means="They multiply q by k as it lies; scores need each query with each key, so k "
            "is turned."),
        Mistake("every row the first", {
            "out_ptr + rows[:, None] * D": "out_ptr + 0 * rows[:, None]",
        }, "race", "wrote different values", "race lanes in case 1",
            means="They forget the row in the output's address, so all queries write to one "
            "place."),
    ],
    "attention-loop": [
        Mistake("the accumulator not rescaled", {"acc * rescale[:, None] + ": "acc + "},
            "wrong", "comes out if acc keeps its old unit: it is not multiplied", "slip 1",
            means="They rescale the sum and forget that the accumulator was built with the same "
            "old maximum."),
        Mistake("the total not rescaled", {"total * rescale + ": "total + "}, "wrong",
            "comes out if total keeps its old unit: it is not multiplied", "slip 2",
            means="They rescale the accumulator and forget that the total was built with the "
            "same old maximum."),
        Mistake("divided in every turn", {
            "        m = new_m\n":
            "        acc = acc / total[:, None]\n"
            "        m = new_m\n",
        }, "wrong", "comes out if acc is divided by total in every turn", "slip 5",
            means="They normalize as they go; the total is only known at the end, and the "
            "division belongs there."),
        Mistake("the wrong way round", {"tl.exp(m - new_m)": "tl.exp(new_m - m)"},
            "wrong", "At [0, 0]", "wrong in case 1",
            means="They turn the difference round: the factor brings old sums down to the new "
            "maximum, never up."),
        Mistake("the maximum of the tile alone", {
            "tl.maximum(m, tl.max(scores, axis=1))": "tl.max(scores, axis=1)",
        }, "wrong", "far apart", "wrong in case 2",
            means="They let each tile have its own maximum; the sums of all tiles need a common "
            "one."),
        Mistake("the maximum not kept", {"        m = new_m\n": ""}, "wrong",
            "comes out if m stays -inf", "slip 6",
            means="They compute the new maximum and forget it; the next turn rescales from -inf "
            "once more."),
        Mistake("kept too early", {
            "        rescale = tl.exp(m - new_m)\n":
            "        m = new_m\n"
            "        rescale = tl.exp(m - new_m)\n",
        }, "wrong", "comes out if rescale is 1 all the time: m is overwritten", "slip 3",
            means="They overwrite the old maximum before it is used: the rescaling factor is "
            "then always 1."),
        *(
            Mistake(f"{number} for -inf in the scores", {
                'scores, -float("inf")': f"scores, {number}",
            }, "wrong", "near the minimum", "wrong in case 5",
                means="They take a number for minus infinity; with real scores below it, the "
                "padding wins.")
            for number in ("-100.0", "-1e4", "-1e9")
        ),
        Mistake("a floor under the maximum", {
            "tl.maximum(m, tl.max(scores, axis=1))":
            "tl.maximum(tl.maximum(m, -1e4), tl.max(scores, axis=1))",
        }, "wrong", "near the minimum", "wrong in case 5",
            means="They avoid -inf with a floor; with scores below it all powers are 0, and so "
            "is their sum."),
        Mistake("the old accumulator lost", {"acc * rescale[:, None] + tl.dot": "tl.dot"},
            "wrong", "comes out if acc holds the last tile alone", "slip 4",
            means="They store the newest tile's product; the earlier tiles are part of the "
            "result."),
        FLOAT16_DOT,
        *(
            Mistake(f"{name} rounded", {of: f"({of}).to(tl.float16).to(tl.float32)"}, "wrong",
                "rounds to 16 bits and computes on", "16 bits",
                means="They round whatever the product of tiles may round; m, total and acc go on "
                "through many tiles in float32.")
            for name, of in (
                ("the accumulator", "acc * rescale[:, None] + tl.dot(power.to(tl.float16), v)"),
                ("the total", "total * rescale + tl.sum(power, axis=1)"),
                ("the factor", "tl.exp(m - new_m)"),
            )
        ),
    ],
    "log-sum-exp": [
        Mistake("in powers of two", {
            "m * 0.6931471805599453 + tl.log(total)": "m + tl.log2(total)",
        }, "wrong", "comes out if the result is in powers of two: times ln 2 is", "slip 1",
            means="They stay in powers of two to the end; the answer is asked for in natural "
            "logarithms."),
        Mistake("the maximum in powers of two", {"m * 0.6931471805599453": "m"}, "wrong",
            "comes out if m is in powers of two, and the rest is not", "slip 2",
            means="They convert the total and forget that the maximum is in powers of two as "
            "well."),
        Mistake("the total in powers of two", {"tl.log(total)": "tl.log2(total)"},
            "wrong", "comes out if the logarithm of total is in powers of two", "slip 3",
            means="They take the logarithm to base two; the answer is in natural ones."),
        Mistake("divided by ln 2", {"m * 0.6931471805599453": "m / 0.6931471805599453"},
            "wrong", "comes out if m is divided by ln 2, and not multiplied", "slip 4",
            means="They convert the wrong way: from powers of two to those of e one multiplies "
            "by ln 2."),
        Mistake("the total alone", {"m * 0.6931471805599453 + ": ""}, "wrong",
            "comes out if m is left out", "slip 5",
            means="They forget that the total was scaled by the maximum, which must be added "
            "back."),
        Mistake("powers of e in the loop", {"tl.sum(tl.exp2(": "tl.sum(tl.exp("}, "wrong", "At [0]",
            "wrong in case 1",
            means="They mix bases: scores scaled by log2(e) go into exp2."),
        Mistake("the total not rescaled", {"total * tl.exp2(m - new_m)": "total"}, "wrong",
            "comes out if total keeps its old unit", "slip 6",
            means="They forget that the total was built with the old maximum."),
        Mistake("-1e4 for -inf in the scores", {'scores, -float("inf")': "scores, -1e4"},
            "wrong", "near the minimum", "wrong in case 4",
            means="They know -1e4 from float16 code; these scores are float32, and may lie below "
            "it."),
        Mistake("a floor under the maximum", {
            "tl.maximum(m, tl.max(scores, axis=1))":
            "tl.maximum(tl.maximum(m, -1e4), tl.max(scores, axis=1))",
        }, "wrong", "near the minimum", "wrong in case 4",
            means="They avoid -inf with a floor; with scores below it all powers are 0, and the "
            "logarithm is -inf."),
        Mistake("back to powers of e", {
            "tl.exp2(scores - new_m[:, None])":
            "tl.exp((scores - new_m[:, None]) * 0.6931471805599453)",
        }, "wrong", "take tl.exp2", "exp",
            means="They know tl.exp alone, and multiply each score back; exp2 needs no product."),
        Mistake("no mask on the store", {"lse, mask=rows < n_queries": "lse"},
            "writes outside", "outside lse_ptr", "writes outside lse_ptr 37 in case 1",
            means="They think that queries which were masked at the load are not stored."),
    ],
    "tiles-left": [
        Mistake("all", 2048, "wrong", "above the staircase are skipped", "slip 1",
            means="They count every tile; those above the staircase see no key, and are skipped."),
        Mistake("half", 1024, "wrong", "half of all", "slip 2",
            means="They halve the tiles; those on the staircase are computed whole, and masked."),
        Mistake("whole ones", 992, "wrong", "whole tiles alone", "slip 3",
            means="They leave out the tiles on the staircase; these are masked, and still "
            "computed."),
        Mistake("masked ones", 64, "wrong", "masked tiles alone", "slip 4",
            means="They count the masked tiles alone; the whole ones below them are computed too."),
        Mistake("square tiles", 528, "wrong", "64 keys wide", "slip 6",
            means="They take tiles for square; they are 128 queries high and 64 keys wide."),
    ],
    "causal-attention": [
        Mistake("off by one", {"cols[None, :] <= rows": "cols[None, :] < rows"},
            "wrong", "comes out if each query sees one key too few: the last one", "slip 1",
            means="They keep each query from its own position; causal includes it."),
        Mistake("one too many", {
            "rows[:, None] + n_keys - n_queries": "rows[:, None] + n_keys - n_queries + 1",
        }, "wrong", "At [0, 0]", "wrong in case 1",
            means="They let a query see the next key, which is the one it must not know."),
        Mistake("top left", {
            "rows[:, None] + n_keys - n_queries": "rows[:, None]",
            "last_row + n_keys - n_queries + 1": "last_row + 1",
        }, "wrong", "comes out if the mask begins at the top left: query i sees", "slip 2",
            means="They align the mask at the first query and key; with different lengths it "
            "ends at the last of both."),
        Mistake("NaN for a row without a key", {SAFE: ""}, "wrong", "got nan",
            "wrong in case 3",
            means="They forget queries that see no key: their maximum is -inf, and -inf - -inf "
            "is NaN."),
        Mistake("0 where a maximum is below it", {
            SAFE: "        base = tl.maximum(new_m, 0.0)\n",
        }, "wrong", "At [32, 0]", "wrong in case 7",
            means="They guard against -inf by a maximum with 0; low scores then have powers that "
            "round to 0."),
        Mistake("0 over 0", {DIVISOR: ""}, "wrong",
            "comes out if 0 is divided by 0, which is NaN, for queries that see no key", "slip 3",
            means="They forget queries that see no key: their total is 0, and 0 / 0 is NaN."),
        Mistake("no tile skipped", {
            "    end = tl.minimum(last_row + n_keys - n_queries + 1, n_keys)\n": "",
        }, "wrong", "bytes where", "bytes",
            means="They mask and still read: the bytes of a tile that nobody sees are what "
            "causal attention saves."),
        Mistake("the end by the first query", {"first_row + BLOCK_M - 1": "first_row"},
            "wrong", "At [", "wrong in case 1",
            means="They end where the program's first query ends; its last one sees furthest."),
        *(
            Mistake(f"the end by {of} for BLOCK_M", {"first_row + BLOCK_M": f"first_row + {of}"},
                "wrong", "At [", "wrong in case 1",
                means="They think of a square tile, or of one size; a program has BLOCK_M queries.")
            for of in ("BLOCK_N", "D", "32")
        ),
        Mistake("the last key left out", {"n_queries + 1, n_keys": "n_queries, n_keys"},
            "wrong", "At [", "wrong in case 4",
            means="They take the last key's number for the loop's end; an end is one past it."),
        Mistake("transposed", {"cols[None, :] <= rows[:, None]": "rows[:, None] <= cols[None, :]"},
            "wrong", "At [0, 0]", "wrong in case 1",
            means="They turn the comparison round, and mask the past in place of the future."),
        FLOAT16_DOT,
    ],
    "grouped-heads": [
        Mistake("the remainder", {"head // (n_heads // n_key_heads)": "head % n_key_heads"},
            "wrong", "comes out if head h takes key head h % n_key_heads", "slip 1",
            means="They deal key heads out in turn; a key head serves neighboring query heads, "
            "so it is a division."),
        Mistake("divided by the key heads", {
            "head // (n_heads // n_key_heads)": "head // n_key_heads",
        }, "reads outside", "outside k_ptr", "reads outside k_ptr 2944 in case 1",
            means="They divide by the number of key heads; it is by how many query heads share "
            "one."),
        Mistake("no grouping", {"head // (n_heads // n_key_heads)": "head"},
            "reads outside", "outside k_ptr", "reads outside k_ptr 2944 in case 1",
            means="They take one key head a query head; there are fewer of them."),
        Mistake("the stride of q for k", {"key_head * stride_kh": "key_head * stride_qh"},
            "wrong", "At [3, 0, 0]", "wrong in case 1",
            means="They use one stride for all; k's heads may lie at another distance."),
        Mistake("the stride of k for v", {"key_head * stride_vh": "key_head * stride_kh"},
            "wrong", "comes out if v is read with the stride of k", "slip 7",
            means="They assume that k and v lie alike; each tensor has strides of its own."),
        Mistake("keys as if heads lay side by side", {
            "key_head * stride_kh": "key_head * n_keys * D",
        }, "wrong", "comes out if k is read from h * n_keys * D on", "slip 6",
            means="They know where a contiguous tensor's heads begin; k has a stride of its own."),
        Mistake("queries as if heads lay side by side", {
            "head * stride_qh": "head * n_queries * D",
        }, "wrong", "comes out if the queries of head h are read from h * n_queries * D on",
            "slip 5",
            means="They know where a contiguous tensor's heads begin; q has a stride of its own."),
        Mistake("the queries stay", {"    q_ptr += head * stride_qh\n": ""},
            "wrong", "comes out if every head takes the queries of the first", "slip 4",
            means="They move keys and values and forget that each program has its own queries."),
        Mistake("the values stay", {"    v_ptr += key_head * stride_vh\n": ""},
            "wrong", "comes out if k moves on from head to head, and v does not", "slip 3",
            means="They move the keys and forget the values, which belong to the same head."),
        Mistake("-1e4 for -inf in the scores", {'scale, -float("inf")': "scale, -1e4"},
            "wrong", "near the minimum", "wrong in case 4",
            means="They know -1e4 from float16 code; these scores are float32, and may lie below "
            "it."),
        Mistake("always the first key head", {"head // (n_heads // n_key_heads)": "0 * head"},
            "wrong", "comes out if every head takes the first key head", "slip 2",
            means="They know multi-query attention, with one key head for all; here there are "
            "several."),
        FLOAT16_DOT,
    ],
    "attention-registers": [
        Mistake("one of the two", 64, "wrong", "one of the two", "slip 1",
            means="They count one tile; accumulator and scores are alive at the same time."),
        Mistake("4 warps", 256, "wrong", "with 4 warps", "slip 2",
            means="They count with the usual 4 warps; 8 share the tile here."),
        Mistake("by warps", 4096, "wrong", "32 threads", "slip 4",
            means="They divide by warps; registers belong to threads, 32 in a warp."),
        Mistake("in 16 bits", 32, "wrong", "both are float32", "slip 5",
            means="They count two numbers to a register; both tiles are float32."),
        Mistake("the tile above", 192, "wrong", "tile of 128 x 64 with 4 warps", "slip 6",
            means="They take over the sum of the text, which is for another tile."),
    ],
    "sliding-window": [
        Mistake("no tile skipped on the left", {
            "    first = tl.maximum(sees - window + 1, 0) // BLOCK_N * BLOCK_N\n": "",
        }, "wrong", "bytes where", "bytes",
            means="They mask the left edge and still read its tiles; a window saves bytes on "
            "both sides."),
        Mistake("no tile skipped on the right", {
            "    end = tl.minimum(sees + BLOCK_M, n_keys)\n": "",
        }, "wrong", "bytes where", "bytes",
            means="They mask the right edge and still read its tiles; a window saves bytes on "
            "both sides."),
        Mistake("begun by the last query", {"sees - window + 1": "sees + BLOCK_M - window"},
            "wrong", "At [", "wrong in case 1",
            means="They begin where the program's last query begins; its first one looks further "
            "back."),
        *(
            Mistake(f"the end by {of} for BLOCK_M", {"sees + BLOCK_M": f"sees + {of}"},
                "wrong", "At [", "wrong in case 1",
                means="They think of a square tile, or of one size; a program has BLOCK_M queries.")
            for of in ("BLOCK_N", "32")
        ),
        Mistake("tiles as high as wide", {"// BLOCK_N * BLOCK_N": "// BLOCK_M * BLOCK_M"}, "wrong",
            "bytes where", "bytes",
            means="They round to a tile of queries; the loop goes in tiles of keys."),
        Mistake("a window one too wide", {"> last - window": ">= last - window"}, "wrong",
            "comes out if the window is one key too wide", "slip 1",
            means="They count both ends; the window holds `window` keys, with the query's own."),
        Mistake("a window one too narrow", {"> last - window": "> last - window + 1"},
            "wrong", "comes out if the window is one key too narrow", "slip 2",
            means="They leave out both ends; the window holds `window` keys, with the query's "
            "own."),
        Mistake("no left edge", {" & (cols[None, :] > last - window)": ""}, "wrong",
            "comes out if the mask has no left edge", "slip 4",
            means="They write a causal mask; a window forgets old keys too."),
        Mistake("no right edge", {"(cols[None, :] <= last) & ": ""}, "wrong",
            "comes out if the mask has no right edge", "slip 5",
            means="They limit the past and forget that the future is hidden as well."),
        Mistake("from key -1 on", {"tl.maximum(sees - window + 1, 0)": "(sees - window + 1)"},
            "reads outside", "outside k_ptr", "reads outside k_ptr -512 in case 2",
            means="They forget that the window of the first queries begins before the first key."),
        Mistake("top left", {
            "first_row + n_keys - n_queries": "first_row",
            "rows[:, None] + n_keys - n_queries": "rows[:, None]",
        }, "wrong", "comes out if the window is counted from the top left", "slip 3",
            means="They align the mask at the first query and key; with different lengths it "
            "ends at the last of both."),
        FLOAT16_DOT,
    ],
    "scale-in-the-exponent": [
        Mistake("powers of e with scale2", {"tl.exp2(scores * scale2": "tl.exp(scores * scale2",
            "tl.exp2(m - new_m)": "tl.exp(m - new_m)"}, "wrong",
            "comes out if scale2 is taken for powers of e", "slip 2",
            means="They fold log2(e) into the scale and keep tl.exp, which multiplies by it once "
            "more."),
        Mistake("no scale", {"axis=1) * scale2": "axis=1)", "scores * scale2": "scores"}, "wrong",
            "comes out if the scores are not scaled", "slip 1",
            means="They change exp to exp2 and lose the scale on the way."),
        Mistake("the maximum not scaled", {"axis=1) * scale2": "axis=1)"}, "wrong",
            "comes out if the maximum is not scaled", "slip 6",
            means="They subtract a maximum in units of the dot from scores in powers of two."),
        Mistake("rescaled in powers of e", {"tl.exp2(m - new_m)": "tl.exp(m - new_m)"}, "wrong",
            "comes out if rescale is a power of e", "slip 4",
            means="They mix bases: m counts in powers of two, so the factor does as well."),
        Mistake("nothing rescaled", {"tl.exp2(m - new_m)": "tl.exp2(new_m - new_m)"}, "wrong",
            "comes out if acc keeps its old unit: rescale is 1 all the time", "slip 3",
            means="They take the new maximum on both sides, so the factor is always 1."),
        Mistake("rescaled twice over", {
            "tl.exp2(m - new_m)": "tl.exp2((m - new_m) * scale2)",
        }, "wrong", "comes out if rescale is multiplied by scale2 a second time", "slip 5",
            means="They scale the difference of two maxima that are scaled already."),
        Mistake("scaled before the maximum", {
            "        new_m = tl.maximum(m, tl.max(scores, axis=1) * scale2)\n"
            "        power = tl.exp2(scores * scale2 - new_m[:, None])\n":
            "        scores = scores * scale2\n"
            "        new_m = tl.maximum(m, tl.max(scores, axis=1))\n"
            "        power = tl.exp2(scores - new_m[:, None])\n",
        }, "wrong", "maximum of scores that were scaled", "scaled maximum",
            means="They scale the tile first, as without powers of two; then no multiply-add can "
            "take the product in."),
        Mistake("as before", {
            "        new_m = tl.maximum(m, tl.max(scores, axis=1) * scale2)\n"
            "        power = tl.exp2(scores * scale2 - new_m[:, None])\n"
            "        rescale = tl.exp2(m - new_m)\n":
            "        new_m = tl.maximum(m, tl.max(scores, axis=1) * scale)\n"
            "        power = tl.exp(scores * scale - new_m[:, None])\n"
            "        rescale = tl.exp(m - new_m)\n",
        }, "wrong", "take tl.exp2", "exp",
            means="They give the right result in powers of e, at six instructions per score."),
        Mistake("log2(e) for each score", {
            "        power = tl.exp2(scores * scale2 - new_m[:, None])\n":
            "        power = tl.exp2(scores * scale * 1.4426950408889634 - new_m[:, None])\n",
        }, "wrong", "more than once", "products",
            means="They multiply each score by both factors, which belong into one number before "
            "the loop."),
        Mistake("a rounded factor", {
            "tl.exp2(m - new_m)": "tl.exp2(m - new_m).to(tl.float16).to(tl.float32)",
        }, "wrong", "rounds to 16 bits and computes on", "16 bits",
            means="They round the factor; it multiplies the sums in each iteration, and errors add "
            "up."),
    ],
    "bias-by-distance": [
        Mistake("before the scale", {
            "scores * (scale * log2e) - distance * (slope * log2e)":
            "(scores - distance * slope) * (scale * log2e)",
        }, "wrong", "comes out if the bias is added before the scale", "slip 1",
            means="They add to what the dot gives and scale both; the bias comes after the scale."),
        Mistake("in powers of e", {"distance * (slope * log2e)": "distance * slope"}, "wrong",
            "comes out if the bias is not brought into powers of two", "slip 2",
            means="They bring the scores into powers of two and forget the bias."),
        Mistake("added", {"log2e) - distance": "log2e) + distance"}, "wrong",
            "comes out if near keys lose", "slip 3",
            means="They add the distance; far keys must lose."),
        Mistake("from the top left", {" + n_keys - n_queries - cols": " - cols"}, "wrong",
            "comes out if the distance is counted from key i", "slip 4",
            means="They count from the first query and key; with different lengths the last query "
            "stands at the last key."),
        Mistake("a distance with a sign", {
            "tl.abs(rows[:, None] + n_keys - n_queries - cols[None, :])":
            "rows[:, None] + n_keys - n_queries - cols[None, :]",
        }, "wrong", "comes out if the distance has a sign", "slip 5",
            means="They think of a causal mask, under which no key comes after the query."),
        Mistake("no bias", {" - distance * (slope * log2e)": ""}, "wrong",
            "comes out if no bias is subtracted", "slip 6",
            means="They scale and forget the bias."),
        Mistake("a distance in a byte", {"- distance * (": "- distance.to(tl.int8) * ("}, "wrong",
            "At [0, ", "wrong in case 4",
            means="They save bits; an int8 ends at 127, and keys farther away come out near."),
        Mistake("a distance in float16", {"- distance * (": "- distance.to(tl.float16) * ("},
            "wrong", "2,100 x 32 float16", "wrong in case 5",
            means="They give the distance the dtype of q; from 2,048 on a float16 leaves out every "
            "second whole number."),
        Mistake("rounded scores", {
            "tl.dot(q, tl.trans(k))": "tl.dot(q, tl.trans(k)).to(tl.float16).to(tl.float32)",
        }, "wrong", "rounds to 16 bits and computes on", "16 bits",
            means="They give the scores the dtype of q; what goes into an exponent needs its "
            "digits."),
    ],
    "texts-of-any-length": [
        Mistake("the first text", {"first = tl.load(starts_ptr + text)\n": "first = text * 0\n",
            "tl.load(starts_ptr + text + 1) - first":
            "tl.load(starts_ptr + text + 1) - tl.load(starts_ptr + text)",
        }, "wrong", "never written", "wrong in case 1",
            means="They start every text at token 0."),
        Mistake("the end for the length", {
            "tl.load(starts_ptr + text + 1) - first": "tl.load(starts_ptr + text + 1)",
        }, "reads outside", "", "reads outside q_ptr 5760 in case 1",
            means="They take the place where a text ends for its length."),
        Mistake("no head", {" * stride + head * D": " * stride"}, "wrong", "never written",
            "wrong in case 1",
            means="They find the text, and let all heads be the first one."),
        *(
            Mistake(f"a token's place {name}", {"first.to(tl.int64) * stride": product}, "wrong",
                "A product with a number that it loads has 32 bits", "32 bits",
                means="They trust int32; many texts of many heads have more than 2^31 numbers.")
            for name, product in (
                ("in 32 bits", "first * stride"),
                ("converted too late", "(first * stride).to(tl.int64)"),
            )
        ),
        Mistake("BLOCK_N for D", {"head * D": "head * BLOCK_N"}, "race", "",
            "race stores in case 1",
            means="They think of square tiles; a head has D numbers, whatever the tile."),
        Mistake("tokens of one head", {"first.to(tl.int64) * stride": "first.to(tl.int64) * D"},
            "race", "", "race stores in case 1",
            means="They count D numbers to a token; all its heads lie side by side."),
        FLOAT16_DOT,
    ],
    "split-the-keys": [
        Mistake("the first key head for all", {
            "(key_head * n_keys + cols)[:, None]": "cols[:, None]",
        }, "wrong", "comes out if every group takes the first key head", "slip 6",
            means="They find the part, and not the key head that its keys belong to."),
        Mistake("the maximum alone", {"m + tl.log(total)": "m"}, "wrong",
            "comes out if a part counts by its maximum", "slip 3",
            means="They store the maximum for the log-sum-exp; the number of keys near it counts "
            "as well."),
        Mistake("the total alone", {"m + tl.log(total)": "tl.log(total)"}, "wrong",
            "comes out if a part counts by its total", "slip 4",
            means="They forget that the total was made smaller by the part's own maximum."),
        Mistake("a mean", {
            "    weight = tl.exp(lse - tl.max(lse, axis=0))\n":
            "    weight = tl.where(numbers < n_parts, 1.0, 0.0)\n",
        }, "wrong", "comes out if all parts count alike", "slip 1",
            means="They take the mean of the parts; a part with larger scores counts more."),
        Mistake("weighed by the logarithm", {
            "    weight = tl.exp(lse - tl.max(lse, axis=0))\n":
            "    weight = tl.where(numbers < n_parts, lse, 0.0)\n",
        }, "wrong", "comes out if parts are weighed by their log-sum-exp", "slip 2",
            means="They weigh by the logarithm of what counts."),
        Mistake("never divided", {" / tl.sum(weight, axis=0)": ""}, "wrong",
            "comes out if the weighted parts are added up, and not divided", "slip 5",
            means="They add up weighted parts; the weights do not sum to 1 yet."),
        Mistake("no maximum in the merge", {"tl.exp(lse - tl.max(lse, axis=0))": "tl.exp(lse)"},
            "wrong", "far apart", "wrong in case 5",
            means="They think that a log-sum-exp is small; exp of it overflows as exp of a score "
            "does."),
        Mistake("rounded weights", {
            "tl.exp(lse - tl.max(lse, axis=0))":
            "tl.exp(lse - tl.max(lse, axis=0)).to(tl.float16).to(tl.float32)",
        }, "wrong", "rounds to 16 bits and computes on", "16 bits",
            means="They round to the result's type before the sum; it is done once, at the store."),
    ],
    "any-strides": [
        Mistake("the remainder is the key head", {
            "head // HEADS_PER_KEY_HEAD": "head % (nheads // HEADS_PER_KEY_HEAD)",
        }, "wrong", "comes out if head h takes key head h % key heads", "slip 1",
            means="They think that heads take key heads in turn; those in a row share one."),
        Mistake("no batch for the keys", {
            "k_ptr + batch * stride_kb + key_head": "k_ptr + key_head",
            "v_ptr + batch * stride_vb + key_head": "v_ptr + key_head",
        }, "wrong", "comes out if every batch takes the first one's keys", "slip 2",
            means="They move q on from batch to batch and forget k and v."),
        Mistake("always the first queries", {
            "q_ptr + batch * stride_qb + head * stride_qh + first_row": "q_ptr + first_row",
        }, "wrong", "comes out if every batch and head takes the first one's queries", "slip 3",
            means="They find the tile within a head, and not the head."),
        Mistake("k's strides for v", {
            "v_ptr + batch * stride_vb + key_head * stride_vh":
            "v_ptr + batch * stride_kb + key_head * stride_kh",
        }, "wrong", "comes out if v has the strides of k", "slip 4",
            means="They copy k's line; each tensor has strides of its own."),
        Mistake("k as if contiguous", {
            "k_ptr + batch * stride_kb + key_head * stride_kh":
            "k_ptr + (batch * (nheads // HEADS_PER_KEY_HEAD) + key_head) * seqlen_k * head_dim",
        }, "wrong", "comes out if k has no strides of its own", "slip 5",
            means="They count heads as in a contiguous tensor; a caller's k may be a part of one."),
        Mistake("lse without gaps", {"* stride_lse + first_row": "* seqlen_q + first_row"},
            "wrong", "At [", "wrong in case 1",
            means="They take the length for the distance of two rows of lse, which may have more "
            "room."),
        Mistake("always the first tile", {
            " + head * stride_qh + first_row.to(tl.int64) * stride_qm": " + head * stride_qh",
        }, "wrong", "At [", "wrong in case 1",
            means="They find the head, and not the tile within it."),
        *(
            Mistake(f"{what} in 32 bits", replace, "wrong", f"A product with {stride} has 32 bits",
                "32 bits",
                means="They trust int32; a batch of long sequences has more than 2^31 elements.")
            for what, replace, stride in (
                ("the tile's first row",
                 {"first_row.to(tl.int64) * stride_qm": "first_row * stride_qm"}, "stride_q[2]"),
                ("the rows",
                 {"rows[:, None].to(tl.int64) * stride_qm": "rows[:, None] * stride_qm"},
                 "stride_q[2]"),
                ("the pair", {"pair.to(tl.int64) *": "pair *"}, "stride_lse"),
                ("batch and head", {
                    "    key_head =":
                    "    batch, head = batch.to(tl.int32), head.to(tl.int32)\n    key_head =",
                }, "stride_q[0]"),
            )
        ),
    ],
    "even-flags": [
        Mistake("rows always compared", {"EVEN_M | (rows": "(rows"}, "wrong",
            "still compares rows or dimensions", "mask left",
            means="They leave a comparison beside the flag; with the flag nothing may be left."),
        Mistake("the second loop stays", {
            "borders(first_row, lengths, EVEN_N,": "borders(first_row, lengths, False,",
        }, "wrong", "its second loop is still there", "second loop",
            means="They think that a loop without an iteration costs nothing; it is compiled, and "
            "takes registers."),
        Mistake("the flag turned around", {
            "EVEN_M | (rows < seqlen_q - first_row)":
            "(not EVEN_M) | (rows < seqlen_q - first_row)",
        }, "reads outside", "outside q_ptr", "reads outside q_ptr 1800 in case 1",
            means="They read the flag as 'has a mask'; it says that none is needed."),
        Mistake("and for or", {"EVEN_HEADDIM | (dims": "EVEN_HEADDIM & (dims"}, "wrong", "At [",
            "wrong in case 1",
            means="They join the flag by &, which leaves no lane where the flag is false."),
        *(
            Mistake(name, {there: wrong}, "reads outside", "lengths = (",
                f"reads outside q_ptr {where}",
                means="They take one flag for all; each axis has tiles and a flag of its own.")
            for name, there, wrong, where in (
                ("the keys' flag for the rows", "EVEN_M |", "EVEN_N |", "900 in case 4"),
                ("the rows' flag for head_dim", "EVEN_HEADDIM |", "EVEN_M |", "2560 in case 3"),
                ("the keys' flag for head_dim", "EVEN_HEADDIM |", "EVEN_N |", "900 in case 4"),
            )
        ),
        Mistake("the rows' flag for the keys", {"lengths, EVEN_N,": "lengths, EVEN_M,"}, "wrong",
            "comes out if the keys behind the last whole tile are left out", "slip 1",
            means="They take one flag for all; `borders` asks whether the keys fill their tiles."),
        Mistake("the blocks turned around", {
            "EVEN_N, IS_CAUSAL, BLOCK_M, BLOCK_N)": "EVEN_N, IS_CAUSAL, BLOCK_N, BLOCK_M)",
        }, "wrong", "At [", "wrong in case 1",
            means="They know square tiles, for which the order of the two does not matter."),
    ],
    "one-matrix": [
        Mistake("no column", {"[q_row + first_row, q_col])  # [": "[q_row + first_row, 0])  # ["},
            "wrong", "comes out if every head takes the queries of the first", "slip 1",
            means="They think that a head begins at the left; heads of one query stand side by "
            "side."),
        Mistake("the head's first tile", {
            "q_tiles.load([q_row + first_row,": "q_tiles.load([q_row,",
        }, "wrong", "comes out if every tile takes its head's first queries", "slip 4",
            means="They find the head in the matrix and forget the tile within it."),
        Mistake("the same keys", {
            "k_tiles.load([k_row + start,": "k_tiles.load([k_row,",
            "v_tiles.load([v_row + start,": "v_tiles.load([v_row,",
        }, "wrong", "comes out if every tile of keys is the first one", "slip 5",
            means="They load before the loop moves on; `start` leads to the tile."),
        Mistake("stored at the first row", {
            "out_tiles.store([out_row + first_row,": "out_tiles.store([out_row,",
        }, "race", "", "race stores in case 1",
            means="All tiles of a head are stored in the same place."),
        *(
            Mistake(f"no column for {name}", {f"_row + start, {name}_col]": "_row + start, 0]"},
                "wrong", f"comes out if every head takes the first one's {what}", f"slip {slip}",
                means="They think that a key's head begins at the left; heads may stand side by "
                "side in k and v too.")
            for name, what, slip in (("k", "keys", 2), ("v", "values", 3))
        ),
        Mistake("v where k is", {"[v_row + start, v_col]": "[k_row + start, k_col]"}, "wrong",
            "At [", "wrong in case 1",
            means="They copy k's line; each tensor is a matrix of its own."),
        Mistake("stored where q is", {
            "[out_row + first_row, out_col]": "[q_row + first_row, q_col]",
        }, "wrong", "At [", "wrong in case 1",
            means="They think that the output lies as q does; it is found by strides of its own."),
    ],
    "divided-loop": [
        Mistake("not asked for", {", warp_specialize=True": ""}, "wrong",
            "gave it one group of warps", "not divided",
            means="They write a persistent loop and leave all warps together."),
        Mistake("one tile each", {"n_tiles, n_programs, warp": "n_programs, n_programs, warp"},
            "wrong", "At [", "wrong in case 1",
            means="They stop after one tile, as if there were a program for each."),
        Mistake("all from tile 0", {
            "tl.range(tl.program_id(axis=0), n_tiles, n_programs, warp":
            "tl.range(0, n_tiles, n_programs, warp",
        }, "wrong", "At [", "wrong in case 1",
            means="They let every program begin at the first tile."),
        Mistake("not turned", {"turned(nth, n_programs, n_tiles) if IS_CAUSAL else nth": "nth"},
            "wrong", "so that a program has a long one in each round", "not turned",
            means="They take tiles in their order; under a causal mask program 0 then has the "
            "longest of each round."),
        Mistake("turned for as many programs as tiles", {
            "turned(nth, n_programs, n_tiles) if": "turned(nth, n_tiles, n_programs) if",
        }, "wrong", "so that a program has a long one in each round", "not turned",
            means="They exchange the two numbers that turned takes; then there is one round, which "
            "is not turned."),
        Mistake("turned twice", {
            "turned(nth, n_programs, n_tiles) if":
            "turned(turned(nth, n_programs, n_tiles), n_programs, n_tiles) if",
        }, "wrong", "so that a program has a long one in each round", "not turned",
            means="They turn what is turned already, which gives the order of the numbers."),
        Mistake("the blocks turned around", {
            "BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, SPECIALIZE":
            "BLOCK_N, BLOCK_M, HEADS_PER_KEY_HEAD, SPECIALIZE",
        }, "does not compile", "the mask is [64, 128] and the value is [128, 64]",
            "cannot incompatible dimensions at index and",
            means="They know square tiles, for which the order of the two does not matter."),
    ],
}  # fmt: skip

OTHERS = {
    "one-tile": [
        Other("shares before the second dot", {
            "    out = tl.dot(power.to(tl.float16), v) / tl.sum(power, axis=1)[:, None]":
            "    shares = power / tl.sum(power, axis=1)[:, None]\n"
            "    out = tl.dot(shares.to(tl.float16), v)",
        }),
        Other("a number below all scores", {'-float("inf")': "-1e30"}),
        Other("in powers of two", {
            " * scale  #": " * scale * 1.4426950408889634  #",
            "tl.exp(": "tl.exp2(",
        }),
    ],
    "attention-loop": [
        Other("the accumulator in the dot", {
            "acc * rescale[:, None] + tl.dot(power.to(tl.float16), v)":
            "tl.dot(power.to(tl.float16), v, acc * rescale[:, None])",
        }),
        Other("divided by the way, and multiplied back", {
            "        total = total * rescale + tl.sum(power, axis=1)\n"
            "        acc = acc * rescale[:, None] + tl.dot(power.to(tl.float16), v)\n":
            "        old = total * rescale\n"
            "        total = old + tl.sum(power, axis=1)\n"
            "        acc = (acc * old[:, None] + tl.dot(power.to(tl.float16), v)) / total[:, "
            "None]\n",
            "    out = acc / total[:, None]": "    out = acc",
        }),
        Other("in powers of two", {
            "tl.exp(scores - new_m[:, None])":
            "tl.exp2((scores - new_m[:, None]) * 1.4426950408889634)",
        }),
    ],
    "log-sum-exp": [
        Other("both in powers of two", {
            "m * 0.6931471805599453 + tl.log(total)": "(m + tl.log2(total)) * 0.6931471805599453",
        }),
        Other("divided by log2(e)", {"m * 0.6931471805599453": "m / 1.4426950408889634"}),
    ],
    "tiles-left": [Other("as a float", 1056.0), Other("all but those above", 2048 - 992)],
    "causal-attention": [
        Other("a masked sum", {
            SAFE: "        base = tl.maximum(new_m, -1e30)\n",
            DIVISOR: "    total = tl.maximum(total, 1e-30)\n",
        }),
        Other("the last row there is", {
            "first_row + BLOCK_M - 1": "tl.minimum(first_row + BLOCK_M, n_queries) - 1",
            "tl.minimum(last_row + n_keys - n_queries + 1, n_keys)":
            "tl.maximum(last_row + n_keys - n_queries + 1, 0)",
        }),
        Other("the difference of the lengths first", {
            "<= rows[:, None] + n_keys - n_queries": "- (n_keys - n_queries) <= rows[:, None]",
        }),
    ],
    "grouped-heads": [
        Other("multiplied first", {
            "head // (n_heads // n_key_heads)": "head * n_key_heads // n_heads",
        }),
        Other("in 64 bits", {
            "    key_head = head // (n_heads // n_key_heads)\n":
            "    head = head.to(tl.int64)\n"
            "    key_head = head // (n_heads // n_key_heads)\n",
        }),
    ],
    "attention-registers": [
        Other("a whole number", 128), Other("as computed", 2 * 128 * 128 / 256),
    ],
    "sliding-window": [
        Other("from the very key on", {
            "tl.maximum(sees - window + 1, 0) // BLOCK_N * BLOCK_N":
            "tl.maximum(sees - window + 1, 0)",
        }),
        Other("by the distance", {
            "(cols[None, :] <= last) & (cols[None, :] > last - window)":
            "(last - cols[None, :] >= 0) & (last - cols[None, :] < window)",
        }),
    ],
    "scale-in-the-exponent": [
        Other("two factors in one", {"scores * scale2 - new_m": "scale2 * scores - new_m"}),
        Other("the maximum in units of the dot", {
            "        new_m = tl.maximum(m, tl.max(scores, axis=1) * scale2)\n"
            "        power = tl.exp2(scores * scale2 - new_m[:, None])\n"
            "        rescale = tl.exp2(m - new_m)\n":
            "        new_m = tl.maximum(m, tl.max(scores, axis=1))\n"
            "        power = tl.exp2(scores * scale2 - (new_m * scale2)[:, None])\n"
            "        rescale = tl.exp2((m - new_m) * scale2)\n",
        }),
        Other("the difference scaled", {
            "        new_m = tl.maximum(m, tl.max(scores, axis=1) * scale2)\n"
            "        power = tl.exp2(scores * scale2 - new_m[:, None])\n"
            "        rescale = tl.exp2(m - new_m)\n":
            "        new_m = tl.maximum(m, tl.max(scores, axis=1))\n"
            "        power = tl.exp2((scores - new_m[:, None]) * scale2)\n"
            "        rescale = tl.exp2((m - new_m) * scale2)\n",
        }),
    ],
    "bias-by-distance": [
        Other("by a maximum", {
            "tl.abs(rows[:, None] + n_keys - n_queries - cols[None, :])":
            "rows[:, None] + n_keys - n_queries - cols[None, :]",
            "        scores = scores * (scale":
            "        distance = tl.maximum(distance, -distance)\n"
            "        scores = scores * (scale",
        }),
        Other("places in float32", {
            "        distance = tl.abs(rows[:, None] + n_keys - n_queries - cols[None, :])\n":
            "        place = (rows + n_keys - n_queries).to(tl.float32)\n"
            "        distance = tl.abs(place[:, None] - cols[None, :].to(tl.float32))\n",
        }),
        Other("both brought into powers of two at the end", {
            "scores * (scale * log2e) - distance * (slope * log2e)":
            "(scores * scale - distance * slope) * log2e",
        }),
    ],
    "texts-of-any-length": [
        Other("the end loaded first", {
            "    first = tl.load(starts_ptr + text)\n"
            "    length = tl.load(starts_ptr + text + 1) - first\n":
            "    end_of_text = tl.load(starts_ptr + text + 1)\n"
            "    first = tl.load(starts_ptr + text)\n    length = end_of_text - first\n",
        }),
        Other("the head first", {
            "first.to(tl.int64) * stride + head * D":
            "(first.to(tl.int64) * n_heads + head) * D",
        }),
    ],
    "split-the-keys": [
        Other("in powers of two", {
            "m + tl.log(total)": "m * 1.4426950408889634 + tl.log2(total)",
            "tl.exp(lse - tl.max": "tl.exp2(lse - tl.max",
        }),
        Other("shares first", {
            "    out = tl.sum(weight[:, None] * parts, axis=0) / tl.sum(weight, axis=0)\n":
            "    weight = weight / tl.sum(weight, axis=0)\n"
            "    out = tl.sum(weight[:, None] * parts, axis=0)\n",
        }),
    ],
    "any-strides": [
        Other("the axes of the grid", {
            "batch, head = (pair // nheads).to(tl.int64), (pair % nheads).to(tl.int64)":
            "batch, head = tl.program_id(axis=2).to(tl.int64), tl.program_id(axis=1).to(tl.int64)",
        }),
        Other("the row with its place", {
            " + first_row.to(tl.int64) * stride_qm": "",
            "rows[:, None].to(tl.int64) * stride_qm":
            "(first_row + rows)[:, None].to(tl.int64) * stride_qm",
        }),
    ],
    "even-flags": [
        Other("by a condition", {
            "    row_mask = EVEN_M | (rows < seqlen_q - first_row)\n":
            "    row_mask = rows < seqlen_q - first_row\n"
            "    if EVEN_M:\n"
            "        row_mask = tl.full([BLOCK_M], True, tl.int1)\n",
        }),
        Other("in the other order", {
            "EVEN_HEADDIM | (dims < head_dim)": "(dims < head_dim) | EVEN_HEADDIM",
        }),
    ],
    "one-matrix": [
        Other("the place in the matrix first", {
            "    q = q_tiles.load([q_row + first_row, q_col])":
            "    q_row += first_row\n    q = q_tiles.load([q_row, q_col])",
        }),
        Other("turned where it is used", {
            "k_tiles.load([k_row + start, k_col]).T": "k_tiles.load([k_row + start, k_col])",
            "tl.dot(q, k)": "tl.dot(q, tl.trans(k))",
        }),
    ],
    "divided-loop": [
        Other("the tile in two lines", {
            "        tile = turned(nth, n_programs, n_tiles) if IS_CAUSAL else nth\n":
            "        tile = nth\n        if IS_CAUSAL:\n"
            "            tile = turned(nth, n_programs, n_tiles)\n",
        }),
        Other("asked for at the inner loop", {
            ", warp_specialize=True": "",
            "HEADS_PER_KEY_HEAD, SPECIALIZE=False,\n        )  # fmt: skip\n    # to here":
            "HEADS_PER_KEY_HEAD, SPECIALIZE=True,\n        )  # fmt: skip\n    # to here",
        }),
        Other("its own number first", {
            "    for nth in tl.range(tl.program_id(axis=0), n_tiles, n_programs, warp":
            "    own = tl.program_id(axis=0)\n"
            "    for nth in tl.range(own, n_tiles, n_programs, warp",
        }),
    ],
}  # fmt: skip
