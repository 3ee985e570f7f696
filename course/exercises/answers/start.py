"""The usual mistakes on the topic "start", and other right answers."""

from . import Mistake, Other

MISTAKES = {
    "first-kernel": [
        Mistake("every program takes the first of y", {"y_ptr + i": "y_ptr"},
            "wrong", "comes out if every program takes the first element of y", "slip 2",
            means="They take the pointer for the vector: it is the address of the first element, "
            "and i must be added to it."),
        Mistake("y minus x", {"x - y": "y - x"}, "wrong", "comes out if y comes first: y - x",
            "slip 1",
            means="They lost the order of the operands, which an addition would have forgiven."),
        Mistake("the pointers are subtracted", {
            "    x = tl.load(x_ptr + i)\n    y = tl.load(y_ptr + i)\n": "",
            "x - y": "x_ptr - y_ptr",
        }, "does not compile", "a pointer is an address, and tl.load reads what lies there",
            "invalid operands of type and",
            means="They take a pointer for the value that lies there; only a load gives the "
            "value."),
        Mistake("an index in brackets", {"tl.load(x_ptr + i)": "x_ptr[i]"},
            "does not compile", "a pointer is not indexed",
            "did you forget to add argument must be",
            means="They index a pointer as a tensor or as C does; in Triton one adds the offset "
            "and loads."),
        Mistake("bytes for elements", {"x_ptr + i": "x_ptr + 4 * i"},
            "reads outside", "at [8]", "reads outside x_ptr 8 in case 1",
            means="They count addresses in bytes, four to a float32; Triton counts elements."),
        Mistake("the store forgotten", {"    tl.store(out_ptr + i, x - y)": "    out = x - y"},
            "wrong", "was never written", "wrong in case 1",
            means="They expect the value of a variable to be the result, as in a function; a "
            "kernel returns nothing and must store."),
        Mistake("the result is returned", {"tl.store(out_ptr + i, x - y)": "return x - y"},
            "does not compile", "a kernel returns no value",
            "failed to legalize operation that was explicitly marked",
            means="They return the result, as a function does; a kernel has nobody to return it "
            "to, and stores it."),
        Mistake("the first element only", {"out_ptr + i": "out_ptr"},
            "race", "different values to out_ptr[0]", "race stores in case 1",
            means="They forget the offset at the store, so all programs write to the first "
            "element."),
    ],
    "last-program": [
        Mistake("a program stops by itself", "a", "wrong", "No program is stopped for you", "a",
            means="They picture a program as tied to a tensor with an end; it has a pointer, and "
            "only the mask knows the end."),
        Mistake("offsets are compared with the length", "c", "wrong", "a pointer does not know it",
            "c",
            means="They expect the bounds check of a PyTorch index; a pointer carries no length "
            "to check against."),
        Mistake("fewer lanes in the last program", "d", "wrong", "as many lanes as its block", "d",
            means="They think that the last program is cut to fit; every program has all the "
            "lanes of its block."),
        Mistake("another letter", "e", "no answer", "'a', 'b', 'c', 'd'",
            means="They gave a letter that is not in the list: nothing is misunderstood yet."),
    ],
    "if-becomes-mask": [
        Mistake("the if", {
            "    mask = offsets < n\n": "    if offsets < n:\n",
            "    x = tl.load(x_ptr + offsets, mask=mask)\n":
            "        x = tl.load(x_ptr + offsets)\n",
            "    tl.store(out_ptr + offsets, 2 * x, mask=mask)":
            "        tl.store(out_ptr + offsets, 2 * x)",
        }, "does not compile", "if offsets < n:\n    a block is neither true nor false",
            "boolean value of tensor with more than one",
            means="They write for one element, as in CUDA; here `offsets < n` is eight answers "
            "at once, and an if takes one."),
        Mistake("no mask on the load", {"x_ptr + offsets, mask=mask": "x_ptr + offsets"},
            "reads outside", "outside x_ptr", "reads outside x_ptr 2 in case 1",
            means="They think that reading too far is harmless as long as nothing wrong is "
            "stored."),
        Mistake("no mask on the store", {"2 * x, mask=mask": "2 * x"},
            "writes outside", "outside out_ptr", "writes outside out_ptr 2 in case 1",
            means="They think that lanes masked at the load stay masked; each load and store "
            "needs its own mask."),
        Mistake("one too many", {"offsets < n": "offsets <= n"}, "reads outside", "at [2]",
            "reads outside x_ptr 2 in case 1",
            means="They count n as the last valid offset; the offsets go from 0 to n - 1."),
        Mistake("one too few", {"offsets < n": "offsets < n - 1"}, "wrong", "was never written",
            "wrong in case 1",
            means="They take one off for counting from 0, which `<` has done already."),
        Mistake("a loop in place of the block", {
            "    offsets = tl.arange(0, 8)\n": "",
            "    mask = offsets < n\n": "    for i in range(n):\n",
            "    x = tl.load(x_ptr + offsets, mask=mask)\n": "        x = tl.load(x_ptr + i)\n",
            "    tl.store(out_ptr + offsets, 2 * x, mask=mask)":
            "        tl.store(out_ptr + i, 2 * x)",
        }, "wrong", "goes through the elements one by one", "one by one",
            means="They write the loop that Python would have; it is right and uses one lane of a "
            "GPU that has thousands."),
        Mistake("offsets that wrap around", {
            "tl.arange(0, 8)": "tl.arange(0, 8) % n",
            ", mask=mask": "",
        }, "wrong", "has no mask", "no mask",
            means="They let the lanes that are left over repeat the work of others, which avoids "
            "the mask and not the memory."),
        Mistake("not doubled", {"2 * x": "x"}, "wrong", "comes out if x is copied, and not doubled",
            "slip 1",
            means="The mask took all their attention, and the arithmetic was left as a copy."),
    ],
    "mend-the-maximum": [
        Mistake("no other", {', other=float("-inf")': ""}, "wrong",
            "Masked lanes that are loaded w", "wrong in case 1",
            means="They take masked lanes for lanes that are not there; they are, and hold "
            "something."),
        Mistake("0 for the lanes past the end", {'float("-inf")': "0.0"}, "wrong",
            "comes out if the lanes past the end count as 0", "slip 1",
            means="They remember `other=0.0` from sums; for a maximum, 0 beats every negative "
            "number."),
        Mistake("a large negative number", {'float("-inf")': "-1e30"}, "wrong", "expected",
            "wrong in case 3",
            means="They take a number that looks small enough; a float32 may be smaller."),
        Mistake("nearly the smallest float32", {'float("-inf")': "-3.4e38"}, "wrong",
            "expected -inf, got -3.4e+38", "wrong in case 5",
            means="They take the smallest finite float32, or nearly; -inf is an element too, and "
            "smaller."),
        Mistake("no mask", {', mask=offsets < n, other=float("-inf")': ""}, "reads outside",
            "outside x_ptr", "reads outside x_ptr 300 in case 1",
            means="They take the mask away with the bug; now it reads past the "
            "end."),
    ],
    "mend-the-total": [
        Mistake("read, add, write", {
            "tl.atomic_add(total_ptr, part)": "tl.store(total_ptr, tl.load(total_ptr) + part)",
        }, "race", "total_ptr", "race stores in case 1",
            means="They keep the two lines, since the interpreter says that "
            "the total is right; it runs one program after another."),
        Mistake("each program stores its part", {
            "tl.atomic_add(total_ptr, part)": "tl.store(total_ptr, part)",
        }, "race", "total_ptr", "race stores in case 1",
            means="They store where they should add, so that one part stays "
            "and the others are lost."),
        Mistake("what was there before, stored again", {
            "tl.atomic_add(total_ptr, part)":
            "tl.store(total_ptr, tl.atomic_add(total_ptr, part))",
        }, "wrong", "tl.atomic_add has stored already", "wrong in case 1, stored twice",
            means="They take atomic_add for an addition whose result is still to be stored."),
        Mistake("each lane adds the part", {
            "tl.atomic_add(total_ptr, part)":
            "tl.atomic_add(total_ptr + tl.zeros_like(offsets), part)",
        }, "wrong", "expected", "wrong in case 1",
            means="They add the whole part once for each lane of the block."),
    ],
    "mend-the-end": [
        Mistake("the mask of before", {"offsets + 1 < n": "offsets < n"}, "reads outside",
            "outside x_ptr", "reads outside x_ptr 300 in case 1",
            means="They see that each difference is right, and not what lies "
            "behind the last one."),
        Mistake("one too few", {"offsets + 1 < n": "offsets + 2 < n"}, "wrong",
            "was never written", "wrong in case 1", means="They take one off twice."),
        Mistake("two short, in the launcher's way", {"offsets + 1 < n": "offsets + 1 < n - 1"},
            "wrong", "was never written", "wrong in case 1",
            means="They shorten the length as the launcher does, and keep the 1 too."),
    ],
}  # fmt: skip

OTHERS = {
    "first-kernel": [
        Other("in one line", {
            "    x = tl.load(x_ptr + i)\n    y = tl.load(y_ptr + i)\n": "",
            "x - y": "tl.load(x_ptr + i) - tl.load(y_ptr + i)",
        }),
        Other("pointers moved on first", {
            "    x = tl.load(x_ptr + i)": "    x_ptr += i\n    x = tl.load(x_ptr)",
        }),
        Other("a block of one lane", {"axis=0)": "axis=0) + tl.arange(0, 1)"}),
    ],
    "last-program": [Other("a capital", "B"), Other("in parentheses", "(b)")],
    "if-becomes-mask": [
        Other("the comparison turned round", {"offsets < n": "n > offsets"}),
        Other("an addition", {
            "2 * x": "x + x",
            "x_ptr + offsets, mask=mask": "x_ptr + offsets, mask=mask, other=0.0",
        }),
        Other("a sum of masks", {"offsets < n": "(offsets < n) & (offsets >= 0)"}),
    ],
    "mend-the-maximum": [
        Other("put there afterwards", {
            'x = tl.load(x_ptr + offsets, mask=offsets < n, other=float("-inf"))':
            'x = tl.load(x_ptr + offsets, mask=offsets < n)\n'
            '    x = tl.where(offsets < n, x, float("-inf"))',
        }),
        Other("the block's first element", {
            "    x = tl.load(x_ptr + offsets, mask=offsets < n, other=float(\"-inf\"))":
            "    first = tl.load(x_ptr + pid * BLOCK_SIZE)\n"
            "    x = tl.load(x_ptr + offsets, mask=offsets < n, other=first)",
        }),
        Other("the last element again", {
            'x_ptr + offsets, mask=offsets < n, other=float("-inf")':
            "x_ptr + tl.minimum(offsets, n - 1)",
        }),
    ],
    "mend-the-total": [
        Other("a relaxed atomic", {"part)\n": 'part, sem="relaxed")\n'}),
        Other("each lane adds its own", {
            "part = tl.sum(tl.where(x > limit, 1.0, 0.0), axis=0)":
            "part = tl.where(x > limit, 1.0, 0.0)",
            "total_ptr, part": "total_ptr + tl.zeros_like(offsets), part",
        }),
    ],
    "mend-the-end": [
        Other("one off the length", {"offsets + 1 < n": "offsets < n - 1"}),
        Other("at most the last but one", {"offsets + 1 < n": "offsets <= n - 2"}),
    ],
}  # fmt: skip
