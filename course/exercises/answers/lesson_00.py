"""The usual mistakes in lesson 00, and other right answers."""

from . import Mistake, Other

MISTAKES = {
    "00.1": [
        Mistake("a program stops by itself", "a", "wrong", "No program is stopped for you",
            means="They picture a program as tied to a tensor with an end; it has a pointer, and "
            "only the mask knows the end."),
        Mistake("offsets are compared with the length", "c", "wrong", "a pointer does not know it",
            means="They expect the bounds check of a PyTorch index; a pointer carries no length "
            "to check against."),
        Mistake("fewer lanes in the last program", "d", "wrong", "as many lanes as its block",
            means="They think that the last program is cut to fit; every program has all the "
            "lanes of its block."),
        Mistake("another letter", "e", "no answer", "'a', 'b', 'c', 'd'",
            means="They gave a letter that is not in the list: nothing is misunderstood yet."),
    ],
    "00.2": [
        Mistake("the if", {
            "    mask = offsets < n\n": "    if offsets < n:\n",
            "    x = tl.load(x_ptr + offsets, mask=mask)\n":
            "        x = tl.load(x_ptr + offsets)\n",
            "    tl.store(out_ptr + offsets, 2 * x, mask=mask)":
            "        tl.store(out_ptr + offsets, 2 * x)",
        }, "does not compile", "if offsets < n:\n    Boolean value of Tensor",
            means="They write for one element, as in CUDA; here `offsets < n` is eight answers "
            "at once, and an if takes one."),
        Mistake("no mask on the load", {"x_ptr + offsets, mask=mask": "x_ptr + offsets"},
            "reads outside", "outside input 0",
            means="They think that reading too far is harmless as long as nothing wrong is "
            "stored."),
        Mistake("no mask on the store", {"2 * x, mask=mask": "2 * x"},
            "writes outside", "outside its output",
            means="They think that lanes masked at the load stay masked; each load and store "
            "needs its own mask."),
        Mistake("one too many", {"offsets < n": "offsets <= n"}, "reads outside", "at [2]",
            means="They count n as the last valid offset; the offsets go from 0 to n - 1."),
        Mistake("one too few", {"offsets < n": "offsets < n - 1"}, "wrong", "was never written",
            means="They take one off for counting from 0, which `<` has done already."),
        Mistake("not doubled", {"2 * x": "x"}, "wrong", "Wrong: 2 of 2",
            means="The mask took all their attention, and the arithmetic was left as a copy."),
    ],
}  # fmt: skip

OTHERS = {
    "00.1": [Other("a capital", "B"), Other("in parentheses", "(b)")],
    "00.2": [
        Other("the comparison turned round", {"offsets < n": "n > offsets"}),
        Other("an addition", {
            "2 * x": "x + x",
            "x_ptr + offsets, mask=mask": "x_ptr + offsets, mask=mask, other=0.0",
        }),
        Other("a sum of masks", {"offsets < n": "(offsets < n) & (offsets >= 0)"}),
    ],
}  # fmt: skip
