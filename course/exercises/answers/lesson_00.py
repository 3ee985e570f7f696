from . import Mistake, Other

MISTAKES = {
    "00.1": [
        Mistake("a program stops by itself", "a", "wrong", "No program is stopped for you"),
        Mistake("offsets are compared with the length", "c", "wrong", "a pointer does not know it"),
        Mistake("fewer lanes in the last program", "d", "wrong", "as many lanes as its block"),
        Mistake("another letter", "e", "no answer", "'a', 'b', 'c', 'd'"),
    ],
    "00.2": [
        Mistake(
            "the if",
            {
                "    mask = offsets < n\n": "    if offsets < n:\n",
                "    x = tl.load(x_ptr + offsets, mask=mask)\n": "        x = tl.load(x_ptr + offsets)\n",
                "    tl.store(out_ptr + offsets, 2 * x, mask=mask)": "        tl.store(out_ptr + offsets, 2 * x)",
            },
            "does not compile",
            "if offsets < n:\n    Boolean value of Tensor",
        ),
        Mistake(
            "no mask on the load",
            {"x_ptr + offsets, mask=mask": "x_ptr + offsets"},
            "reads outside",
            "outside input 0",
        ),
        Mistake(
            "no mask on the store",
            {"2 * x, mask=mask": "2 * x"},
            "writes outside",
            "outside its output",
        ),
        Mistake("one too many", {"offsets < n": "offsets <= n"}, "reads outside", "at [2]"),
        Mistake("one too few", {"offsets < n": "offsets < n - 1"}, "wrong", "was never written"),
        Mistake("not doubled", {"2 * x": "x"}, "wrong", "Wrong: 2 of 2"),
    ],
}

OTHERS = {
    "00.1": [Other("a capital", "B"), Other("in parentheses", "(b)")],
    "00.2": [
        Other("the comparison turned round", {"offsets < n": "n > offsets"}),
        Other(
            "an addition",
            {
                "2 * x": "x + x",
                "x_ptr + offsets, mask=mask": "x_ptr + offsets, mask=mask, other=0.0",
            },
        ),
        Other("a sum of masks", {"offsets < n": "(offsets < n) & (offsets >= 0)"}),
    ],
}
