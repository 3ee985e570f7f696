"""The usual mistakes with an operation of one's own, and other right answers."""

from . import Mistake, Other

MISTAKES = {
    "rms-norm-forward": [
        Mistake("eps beside the root", {
            "1 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)":
            "1 / (tl.sqrt(tl.sum(x * x, axis=0) / n_cols) + eps)",
        }, "wrong", "comes out if eps is added to the root, and not under it", "slip 1",
            means="They add eps where the division is; the specification adds it to the mean, "
            "under the root."),
        Mistake("no mean", {" / n_cols": ""}, "wrong",
            "comes out if the sum of squares is not divided by the number of columns", "slip 2",
            means="They take the root of the sum; a wider row would then come out smaller."),
        Mistake("the mean over the block", {" / n_cols": " / BLOCK_N"}, "wrong",
            "comes out if the sum of squares is divided by the lanes of the block", "slip 3",
            means="They count the masked lanes as elements; the mean is over n_cols."),
        Mistake("LayerNorm", {
            "    rstd = 1":
            "    x = tl.where(mask, x - tl.sum(x, axis=0) / n_cols, 0.0)\n    rstd = 1",
        }, "wrong", "comes out if the mean is taken off first, as LayerNorm does", "slip 4",
            means="They write the norm that they know; RMSNorm takes no mean off."),
        Mistake("no weight", {"x * rstd * weight": "x * rstd"}, "wrong",
            "comes out if the weight is left out", "slip 5",
            means="They normalize and forget that a learned weight follows."),
        Mistake("the mean square kept", {
            "tl.store(rstd_ptr + row, rstd)":
            "tl.store(rstd_ptr + row, tl.sum(x * x, axis=0) / n_cols)",
        }, "wrong", "comes out if the mean of the squares is stored in place of rstd", "slip 6",
            means="They store what they reduced; the gradient expects the reciprocal of the root."),
        Mistake("no other", {"mask=mask, other=0.0)": "mask=mask)"}, "wrong", "At [0",
            "wrong in case 1",
            means="They expect masked lanes to hold 0; without `other` they get into the sum of "
            "squares."),
        Mistake("the width for the row stride", {"row * stride_xm": "row * n_cols"},
            "reads outside", "left part of a wider one",
            "reads outside x_ptr 33 in case 3",
            means="They take the width for the distance between rows, which differs in a slice of "
            "a wider matrix."),
        Mistake("in float16", {
            "mask=mask, other=0.0).to(tl.float32)": "mask=mask, other=0.0)",
        }, "wrong", "float16", "wrong in case 2",
            means="They let 16 bits add up; a sum of squares soon has no digits left there, or "
            "overflows."),
    ],
    "gradient-of-x": [
        Mistake("only the own product", {"rstd * (g - x_hat * mean)": "rstd * g"}, "wrong",
            "comes out if nothing is taken off g", "slip 1",
            means="They differentiate element by element, as if rstd were a constant; it holds "
            "every element of the row."),
        Mistake("a sum for a mean", {" / n_cols": ""}, "wrong",
            "comes out if the row's sum is not divided by the number of columns", "slip 2",
            means="They lose the N that the mean's derivative brings along."),
        Mistake("the weight forgotten", {"other=0.0) * weight": "other=0.0)"}, "wrong",
            "comes out if the weight is left out", "slip 3",
            means="They start from d_out; what arrives at x_hat is d_out times the weight."),
        Mistake("plus", {"g - x_hat": "g + x_hat"}, "wrong",
            "comes out if the mean is added, and not subtracted", "slip 4",
            means="They have the terms right and a sign wrong: a larger x makes rstd smaller."),
        Mistake("rstd without eps", {
            "    rstd = tl.load(rstd_ptr + row)\n":
            "    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)\n"
            "    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols)\n",
        }, "wrong", "comes out if rstd is computed anew, without eps", "slip 5",
            means="They compute rstd once more and forget eps; the forward pass has kept it."),
        Mistake("no other", {", mask=mask, other=0.0)": ", mask=mask)"}, "wrong", "At [0",
            "wrong in case 1",
            means="They expect masked lanes to hold 0; without `other` they get into the "
            "row's sum."),
        Mistake("no mask", {"mask = cols < n_cols": "mask = cols < BLOCK_N"},
            "reads outside", "outside", "reads outside weight_ptr 100 in case 1",
            means="They mask by the block, which masks nothing; the row ends at n_cols."),
    ],
    "gradient-of-weight": [
        Mistake("atomics", {
            "tl.store(partials_ptr + part * n_cols + cols, tl.sum(total, axis=0), "
            "mask=cols < n_cols)":
            "tl.atomic_add(partials_ptr + cols, tl.sum(total, axis=0), mask=cols < n_cols)",
            "partials = torch.empty(": "partials = torch.zeros(",
        }, "wrong", "It adds with an atomic", "atomics",
            means="They reach for tl.atomic_add; its order, and so the last bits, change from run "
            "to run."),
        Mistake("one place for all", {"partials_ptr + part * n_cols + cols, tl.sum":
            "partials_ptr + cols, tl.sum"}, "race", "wrote different values",
            "race stores in case 1",
            means="They let all programs store to one row; each needs a place of its own."),
        Mistake("every block", {"n_rows, n_parts * BLOCK_M": "n_rows, BLOCK_M"}, "wrong", "At [0]",
            "wrong in case 1",
            means="They let each program go on through all rows after its own; most rows count "
            "more than once."),
        Mistake("no rstd", {"other=0.0) * rstd[:, None]": "other=0.0)"}, "wrong",
            "comes out if rstd is left out", "slip 1",
            means="They multiply by x; the weight's factor in the forward pass is x_hat."),
        Mistake("no x", {"x_hat = tl.load(x_ptr + offsets, mask=mask, other=0.0) * rstd[:, None]":
            "x_hat = rstd[:, None]"}, "wrong", "comes out if x is left out", "slip 2",
            means="They forget x; the weight's factor in the forward pass is x_hat."),
        Mistake("the last part missing", {"range(n_parts)": "range(n_parts - 1)"}, "wrong",
            "At [0]", "wrong in case 1",
            means="They stop one early, as with an index that ends at n - 1."),
        Mistake("one block of columns", {
            "columns = min(64, triton.cdiv(n_rows, 16)), triton.cdiv(n_cols, 64)":
            "columns = min(64, triton.cdiv(n_rows, 16)), 1",
            "BLOCK_N=64": "BLOCK_N=256",
        }, "wrong", "At [256]", "wrong in case 7",
            means="They make the block wide enough for what they tried; a matrix may be wider "
            "than any block."),
        Mistake("PyTorch adds up", {
            "    add_partials_kernel[(columns,)](partials, out, n_parts, n_cols, BLOCK_N=64)":
            "    out = partials.sum(dim=0)",
        }, "wrong", "computes with PyTorch", "PyTorch computes sum",
            means="They give the second sum to PyTorch; the exercise asks for the kernel."),
    ],
    "register-operator": [
        Mistake("no gradient", {
            "    operator.register_autograd(gradient, setup_context=setup_context)\n": "",
        }, "wrong", "has no gradient", "no gradient",
            means="They define the functions and never register them."),
        Mistake("rstd with a gradient", {
            "        ctx.mark_non_differentiable(output[1])\n": "",
        }, "wrong", "mark_non_differentiable", "rstd differentiable",
            means="They do not think of the second output; PyTorch takes it for differentiable."),
        Mistake("no gradient for eps", {"(*backward(d_out.contiguous(), *ctx.saved_tensors), None)":
            "backward(d_out.contiguous(), *ctx.saved_tensors)"}, "wrong",
            "incorrect number of gradients",
            "raised RuntimeError the backward formula for returned an incorrect number",
            means="They return gradients for tensors only; every input needs one, or None."),
        Mistake("gradients in another order", {
            "return (*backward(d_out.contiguous(), *ctx.saved_tensors), None)":
            "return (None, *backward(d_out.contiguous(), *ctx.saved_tensors))",
        }, "wrong", "different than None at position 3",
            "raised RuntimeError function returned a gradient different than none at",
            means="They begin with eps; gradients are returned in the order of the inputs."),
        Mistake("d_rstd for d_out", {"backward(d_out.": "backward(d_rstd."}, "wrong",
            "It raised", "raised ValueError",
            means="They take the gradient of the other output; there is one for each, in order."),
        Mistake("the gradient as it comes", {"d_out.contiguous()": "d_out"}, "wrong",
            "hand it d_out.contiguous()", "d_out not contiguous",
            means="They think that a gradient lies in memory like the result; that of a sum is one "
            "number, expanded."),
        Mistake("x as the caller gave it", {"inputs[0].contiguous()": "inputs[0]"}, "wrong",
            "hand it x.contiguous()", "x not contiguous",
            means="They copy what autograd hands over, and forget what they saved themselves."),
        Mistake("the weight as the caller gave it", {"inputs[1].contiguous()": "inputs[1]"},
            "wrong", "hand it weight.contiguous()", "weight not contiguous",
            means="They think of x alone; a weight may be a slice of a longer vector."),
        Mistake("nothing left for a second time", {
            "ctx.save_for_backward(inputs[0].contiguous(), inputs[1].contiguous(), output[1])":
            "ctx.kept = [inputs[0].contiguous(), inputs[1].contiguous(), output[1]]",
            "        return (*backward(d_out.contiguous(), *ctx.saved_tensors), None)\n":
            "        both = backward(d_out.contiguous(), *ctx.kept)\n"
            "        ctx.kept.clear()\n"
            "        return (*both, None)\n",
        }, "wrong", "It raised", "raised TypeError",
            means="They free what was saved after its first use; who keeps the graph asks again."),
        Mistake("a function returned", {"    return operator": "    return forward"}, "wrong",
            "the operator itself", "no operator",
            means="They return the launcher, which PyTorch knows nothing of."),
    ],
    "fused-cross-entropy": [
        Mistake("the target's logit forgotten", {"m + tl.log(total) - x_target":
            "m + tl.log(total)"}, "wrong",
            "comes out if the logit of the target is not taken off", "slip 1",
            means="They stop at the logarithm of the sum, which is the same for every target."),
        Mistake("the other sign", {"m + tl.log(total) - x_target": "x_target - m - tl.log(total)"},
            "wrong", "comes out if the sign is the other one", "slip 2",
            means="They give the logarithm of the probability; the loss is its negative."),
        Mistake("the maximum forgotten", {"m + tl.log(total)": "tl.log(total)"}, "wrong",
            "comes out if the maximum is not added again", "slip 3",
            means="They forget that the total is that of exp(x - m)."),
        Mistake("no rescaling", {"total * tl.exp(m - new_m)": "total"}, "wrong",
            "comes out if the sum so far is not rescaled", "slip 4",
            means="They add sums that are in units of different maxima."),
        Mistake("no maximum", {
            "new_m = tl.maximum(m, tl.max(x, axis=0))": "new_m = 0.0",
            "total = total * tl.exp(m - new_m) +": "total = total +",
            "m, total = -float(\"inf\"), 0.0": "m, total = 0.0, 0.0",
        }, "wrong", "far apart", "wrong in case 3",
            means="They leave the maximum out; exp of a large logit is infinite."),
        Mistake("zeros for what is not there", {"other=-float(\"inf\")": "other=0.0"}, "wrong",
            "comes out if lanes past the end count as zeros", "slip 5",
            means="They take the neutral number of a sum; here it is added after exp, as 1."),
        *(
            Mistake(f"{number} for -inf past the end", {'other=-float("inf")': f"other={number}"},
                "wrong", "near the minimum", "wrong in case 6",
                means="They take a number for minus infinity; where all logits lie below it, the "
                "lanes past the end win.")
            for number in ("-1e4", "-1e6")
        ),
        Mistake("a floor under the maximum", {"m, total = -float(\"inf\")": "m, total = -1e6"},
            "wrong", "near the minimum", "wrong in case 6",
            means="They begin at a number; with logits below it all powers are 0, and so is their "
            "sum."),
        Mistake("no other", {', other=-float("inf"))': ")"}, "wrong", "At [0]",
            "wrong in case 1",
            means="They expect masked lanes to stay out; without `other` they hold anything."),
        Mistake("a second sweep", {
            "    x_target = tl.load(x_ptr + row * stride_xm + tl.load(target_ptr + row))":
            "    x_target = 0.0\n"
            "    for start in range(0, n_cols, BLOCK_N):\n"
            "        cols = start + tl.arange(0, BLOCK_N)\n"
            "        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=0.0)\n"
            "        hit = cols == tl.load(target_ptr + row)\n"
            "        x_target += tl.sum(tl.where(hit, x, 0.0), axis=0)",
        }, "wrong", "bytes where", "bytes",
            means="They look for the target's column by reading the row again; its place is "
            "known."),
    ],
}  # fmt: skip

OTHERS = {
    "rms-norm-forward": [
        Other("rsqrt", {"1 / tl.sqrt(": "tl.rsqrt("}),
        Other("the weight afterwards", {
            "    weight = tl.load(weight_ptr + cols, mask=mask).to(tl.float32)\n": "",
            "x * rstd * weight, mask": "x * rstd * tl.load(weight_ptr + cols, mask=mask), mask",
        }),
    ],
    "gradient-of-x": [
        Other("multiplied out", {"rstd * (g - x_hat * mean)": "rstd * g - rstd * x_hat * mean"}),
        Other("the sum of x", {
            "mean = tl.sum(g * x_hat, axis=0) / n_cols":
            "mean = rstd * tl.sum(g * (x_hat / rstd), axis=0) / n_cols",
        }),
    ],
    "gradient-of-weight": [
        Other("larger blocks", {"BLOCK_M=16": "BLOCK_M=32"}),
        Other("the partial sums as a tile", {
            "    for part in range(n_parts):\n"
            "        total += tl.load(partials_ptr + part * n_cols + cols, mask=cols < n_cols, "
            "other=0.0)":
            "    parts = tl.arange(0, 64)[:, None]\n"
            "    within = (parts < n_parts) & (cols < n_cols)[None, :]\n"
            "    places = partials_ptr + parts * n_cols + cols[None, :]\n"
            "    total += tl.sum(tl.load(places, mask=within, other=0.0), axis=0)",
        }),
    ],
    "register-operator": [
        Other("the inputs by name", {
            "ctx.save_for_backward(inputs[0].contiguous(), inputs[1].contiguous(), output[1])":
            "x, weight, eps = inputs\n"
            "        ctx.save_for_backward(x.contiguous(), weight.contiguous(), output[1])",
        }),
        Other("copied in the gradient", {
            "inputs[0].contiguous(), inputs[1].contiguous(), output[1]":
            "inputs[0], inputs[1], output[1]",
            "d_out.contiguous(), *ctx.saved_tensors":
            "*(each.contiguous() for each in (d_out, *ctx.saved_tensors))",
        }),
        Other("custom_op, a closed box", {"torch.library.triton_op(": "torch.library.custom_op("}),
    ],
    "fused-cross-entropy": [
        Other("the shifted target", {"m + tl.log(total) - x_target":
            "tl.log(total) - (x_target - m)"}),
        Other("in powers of two", {
            "tl.exp(m - new_m)": "tl.exp2((m - new_m) * 1.4426950408889634)",
            "tl.exp(x - new_m)": "tl.exp2((x - new_m) * 1.4426950408889634)",
        }),
    ],
}  # fmt: skip
