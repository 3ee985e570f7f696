"""The usual mistakes on the topic "attention's gradient", and other right answers."""

from . import Mistake, Other

SUM = "dk = tl.dot(tl.trans(d_scores.to(tl.float16)), q, dk)"
MASK = "        power = tl.where(keys[None, :] < n_keys, power, 0.0)\n"
D_POWER = "tl.dot(d_out, tl.trans(v))"
DP_ROUNDED = [
    Mistake(name, {D_POWER: rounded}, "wrong", says, kind,
        means="They round at once; dP and delta may be nearly equal, and then rounding "
        "takes all that is left.")
    for name, rounded, says, kind in (
        ("dP added up in float16", f"{D_POWER[:-1]}, out_dtype=tl.float16)",
         "leave out out_dtype", "float16 sums"),
        ("dP rounded", f"{D_POWER}.to(tl.float16).to(tl.float32)",
         "rounds to 16 bits and computes on", "16 bits"),
    )
]  # fmt: skip
DV_ROUNDED = Mistake("sums rounded", {"d_out, dv)": "d_out, dv).to(tl.float16).to(tl.float32)"},
    "wrong", "rounds to 16 bits and computes on", "16 bits",
    means="They round the sum in each iteration, since the result is float16; that is done once, "
    "at the store.")  # fmt: skip

MISTAKES = {
    "gradient-of-values": [
        Mistake("no scale", {" * scale  # [BLOCK_M, BLOCK_N]": ""}, "wrong",
            "expected", "wrong in case 1",
            means="They think that the log-sum-exp holds the scale; it was computed from scaled "
            "scores, so these must be scaled too."),
        Mistake("powers of two", {"tl.exp(scores": "tl.exp2(scores"}, "wrong",
            "comes out if the powers are of 2", "slip 1",
            means="They know exp2 from the fast kernels; there the log-sum-exp counts in powers of "
            "two as well."),
        Mistake("divided again", {
            "power = tl.exp(scores - lse[:, None])\n":
            "power = tl.exp(scores - lse[:, None])\n"
            "        power /= tl.sum(power, axis=1)[:, None]\n",
        }, "wrong", "comes out if each tile of P is divided by its own sums", "slip 2",
            means="They divide as softmax does; exp(S - lse) is divided already, and by the whole "
            "row."),
        Mistake("the last tile alone", {"d_out, dv)": "d_out)"}, "wrong",
            "comes out if dv holds the last tile of queries alone", "slip 3",
            means="They forget that a dot adds up only if it is given what it adds to."),
        Mistake("not turned", {"tl.trans(power.to(tl.float16))": "power.to(tl.float16)"}, "wrong",
            "expected", "wrong in case 1",
            means="They multiply P itself: its rows belong to queries, and dV's to keys. With "
            "square tiles the shapes fit all the same."),
        Mistake("operands in float32", {
            "tl.trans(power.to(tl.float16)), d_out":
            "tl.trans(power), d_out.to(tl.float32)",
        }, "wrong", "operands in float32", "float32 operands",
            means="They want to save P's digits; a product in float32 takes tensor cores at half "
            "the speed, and its sums are float32 in any case."),
        DV_ROUNDED,
    ],
    "gradient-of-keys": [
        Mistake("delta forgotten", {" - delta[:, None])": ")"}, "wrong",
            "comes out if delta is forgotten", "slip 1",
            means="They take the gradient of a share for that of its score; if one share grows, "
            "the others shrink."),
        Mistake("delta added", {"d_power - delta": "d_power + delta"}, "wrong",
            "comes out if delta is added", "slip 2",
            means="They have the sign of the softmax's gradient wrong."),
        Mistake("delta outside", {
            "power * (d_power - delta[:, None])": "power * d_power - delta[:, None]",
        }, "wrong", "comes out if delta is subtracted from the product", "slip 3",
            means="They leave out the parentheses: delta is weighed by P as well."),
        Mistake("the keys for the values", {"tl.trans(v)": "tl.trans(k)"}, "wrong",
            "comes out if dP is the product of d_out with the keys", "slip 4",
            means="They multiply by the keys, as for the scores; P was multiplied by the values."),
        Mistake("no scale at the end", {"dk * scale": "dk"}, "wrong",
            "comes out if the scale is missing at the end", "slip 5",
            means="They think that the scale in P is enough; q was multiplied by it on the way to "
            "the scores."),
        Mistake("the scale twice", {
            "d_scores = power * (": "d_scores = scale * power * (",
        }, "wrong", "comes out if the gradient is multiplied by the scale twice", "slip 6",
            means="They scale where S is, and once more at the end."),
        Mistake("the last tile alone", {SUM: SUM.replace(", q, dk)", ", q)")}, "wrong",
            "expected", "wrong in case 1",
            means="They forget that a dot adds up only if it is given what it adds to."),
        Mistake("not turned", {"tl.trans(d_scores.to(tl.float16))": "d_scores.to(tl.float16)"},
            "wrong", "expected", "wrong in case 1",
            means="They multiply dS itself: its rows belong to queries, and dK's to keys. With "
            "square tiles the shapes fit all the same."),
        *DP_ROUNDED,
        Mistake("P rounded", {"power * (": "power.to(tl.float16).to(tl.float32) * ("}, "wrong",
            "rounds to 16 bits and computes on", "16 bits",
            means="They take the rounded P of dV; in dS it is no operand of a product of tiles."),
    ],
    "gradient-of-queries": [
        Mistake("padding not masked", {MASK: ""}, "wrong", "got nan", "wrong in case 6",
            means="They think that a key of zeros adds nothing; its power may be infinite, and "
            "infinity times 0 is NaN."),
        Mistake("delta forgotten", {" - delta[:, None])": ")"}, "wrong",
            "comes out if delta is forgotten", "slip 1",
            means="They take the gradient of a share for that of its score; if one share grows, "
            "the others shrink."),
        Mistake("delta added", {" - delta[:, None])": " + delta[:, None])"}, "wrong",
            "comes out if delta is added", "slip 2",
            means="They have the sign of the softmax's gradient wrong."),
        Mistake("delta outside", {
            "power * (tl.dot(d_out, tl.trans(v)) - delta[:, None])":
            "power * tl.dot(d_out, tl.trans(v)) - delta[:, None]",
        }, "wrong", "comes out if delta is subtracted from the product", "slip 3",
            means="They leave out the parentheses: delta is weighed by P as well."),
        Mistake("the keys for the values", {"tl.trans(v)": "tl.trans(k)"}, "wrong",
            "comes out if dP is the product of d_out with the keys", "slip 4",
            means="They multiply by the keys, as for the scores; P was multiplied by the values."),
        Mistake("no scale at the end", {"dq * scale": "dq"}, "wrong",
            "comes out if the scale is missing at the end", "slip 5",
            means="They think that the scale in P is enough; k was multiplied by it on the way to "
            "the scores."),
        Mistake("the scale twice", {"d_scores = power * (": "d_scores = scale * power * ("},
            "wrong", "comes out if the gradient is multiplied by the scale twice", "slip 6",
            means="They scale where S is, and once more at the end."),
        Mistake("the queries for the keys", {"tl.float16), k, dq)": "tl.float16), q, dq)"},
            "wrong", "expected", "wrong in case 1",
            means="They multiply by the queries, as for dK. With square tiles the shapes fit all "
            "the same."),
        *DP_ROUNDED,
    ],
    "gradient-of-a-group": [
        Mistake("zero for each head", {
            "    for shared in range(group):\n":
            "    for shared in range(group):\n"
            "        dv = tl.zeros([BLOCK_N, D], tl.float32)\n",
        }, "wrong", "comes out if only the last head of each group counts", "slip 1",
            means="They begin anew with each head, as a kernel for one head does; the sum goes "
            "over the group."),
        Mistake("always the first head", {"key_head * group + shared": "key_head * group"},
            "wrong", "comes out if every head adds what the first of its group does", "slip 2",
            means="They go round the group and read the same head each time."),
        Mistake("heads dealt out in turn", {
            "key_head * group + shared": "shared * n_key_heads + key_head",
        }, "wrong", "expected", "wrong in case 1",
            means="They take every n-th head; a key head serves neighbors."),
        Mistake("one head only", {"range(group)": "range(1)"}, "wrong", "expected",
            "wrong in case 1",
            means="They forget that a key stands in the scores of all heads of its group."),
        DV_ROUNDED,
    ],
}  # fmt: skip

OTHERS = {
    "gradient-of-values": [
        Other("scores of keys and queries", {
            "scores = tl.dot(q, tl.trans(k)) * scale  # [BLOCK_M, BLOCK_N]":
            "scores = tl.dot(k, tl.trans(q)) * scale",
            "power = tl.exp(scores - lse[:, None])": "power = tl.exp(scores - lse[None, :])",
            "tl.trans(power.to(tl.float16))": "power.to(tl.float16)",
        }),
        Other("in powers of two", {
            "power = tl.exp(scores - lse[:, None])":
            "power = tl.exp2((scores - lse[:, None]) * 1.4426950408889634)",
        }),
    ],
    "gradient-of-keys": [
        Other("added behind the product", {
            SUM: "dk += tl.dot(tl.trans(d_scores.to(tl.float16)), q)",
        }),
        Other("multiplied out", {
            "power * (d_power - delta[:, None])": "power * d_power - power * delta[:, None]",
        }),
    ],
    "gradient-of-queries": [
        Other("scores masked", {
            MASK: "        power = tl.where((keys < n_keys)[None, :], power, 0.0)\n",
            "dq = tl.dot(d_scores.to(tl.float16), k, dq)":
            "dq += tl.dot(d_scores.to(tl.float16), k)",
        }),
        Other("masked behind", {
            MASK: "",
            "- delta[:, None])\n":
            "- delta[:, None])\n"
            "        d_scores = tl.where(keys[None, :] < n_keys, d_scores, 0.0)\n",
        }),
    ],
    "gradient-of-a-group": [
        Other("added behind the product", {
            "dv = tl.dot(tl.trans(power.to(tl.float16)), d_out, dv)":
            "dv += tl.dot(tl.trans(power.to(tl.float16)), d_out)",
        }),
        Other("counted from the last head", {
            "key_head * group + shared": "(key_head + 1) * group - 1 - shared",
        }),
    ],
}  # fmt: skip
