"""The usual mistakes on the topic "when it is slow", and other right answers."""

from . import Mistake, Other

FOR_LOOP = """\
    for start in range(0, K, BLOCK):
        acc = add_step(acc, a_ptr, b_ptr, rows, cols, start + ks, N, K)
"""
WHILE_LOOP = """\
    start = 0
    while start < K:
        acc = add_step(acc, a_ptr, b_ptr, rows, cols, start + ks, N, K)
        start += BLOCK
"""

MISTAKES = {
    "slow-gate": [
        Mistake("narrow loads", {'cause = "c"': 'cause = "b"'}, "wrong", "as a consequence",
            "cause b",
            means="They see narrow loads in the PTX and stop there; the lanes lie apart, and "
            "that makes the loads narrow."),
        Mistake("still a program apart", {
            "tl.program_id(axis=0) * BLOCK_SIZE + lanes":
            "lanes * tl.num_programs(axis=0) + tl.program_id(axis=0)",
        }, "wrong", "the cause is still there", "still sectors",
            means="They keep CUDA's picture, in which neighboring threads take turns; a program "
            "is not a thread."),
        Mistake("no mask", {", mask=mask": ""}, "reads outside", "outside x_ptr",
            "reads outside x_ptr 1001 in case 1",
            means="They count on full blocks; the last block of a vector of 1,001 is not full."),
        Mistake("no sigmoid", {"x * tl.sigmoid(x) * y": "x * y"},
            "wrong", "comes out if it is x * y without the sigmoid", "slip 1",
            means="They fix the offsets and lose a factor of the formula."),
        Mistake("the gate of the other vector", {"tl.sigmoid(x)": "tl.sigmoid(y)"},
            "wrong", "comes out if the sigmoid is that of y", "slip 2",
            means="They take the gate for what gates, and apply the sigmoid to y."),
        Mistake("exp of the gate", {
            "x * tl.sigmoid(x) * y": "x * tl.exp(x) / (1 + tl.exp(x)) * y",
        }, "wrong", "far apart", "wrong in case 5",
            means="They write the sigmoid as exp(x) / (1 + exp(x)); from 89 on both are infinite."),
        Mistake("128 for the block size", {
            "tl.program_id(axis=0) * BLOCK_SIZE": "tl.program_id(axis=0) * 128",
        }, "wrong", "At [", "wrong in case 1",
            means="They write down the size that a case has; the launch says how large a block "
            "is."),
    ],
    "slow-product": [
        Mistake("spills", {'cause = "f"': 'cause = "d"'}, "wrong", "gains nothing by itself",
            "cause d",
            means="They take the finding with the more familiar name; the list is sorted by "
            "gain, and it is the second one."),
        Mistake("still in float32", {
            "tl.load(a_ptrs), tl.load(b_ptrs), acc":
            "tl.load(a_ptrs).to(tl.float32), tl.load(b_ptrs).to(tl.float32), acc, "
            'input_precision="ieee"',
        }, "wrong", "the cause is still there", "still tensor cores",
            means="They believe that products of float16 must be computed in float32 to be "
            "precise; each product is exact, and the sum is in float32 already."),
        Mistake("a sum in float16", {
            "acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)":
            "part = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))\n"
            "        acc = (acc + part).to(tl.float16).to(tl.float32)",
        }, "wrong", "At [", "float16",
            means="They put everything into 16 bits, the accumulator too, and lose digits in "
            "every iteration."),
        Mistake("the last product alone", {"tl.load(b_ptrs), acc)": "tl.load(b_ptrs))"},
            "wrong", "At [0, 0]", "wrong in case 2",
            means="They leave out the third operand, and each iteration forgets the sum so far."),
    ],
    "well-tuned-and-slow": [
        Mistake("tuned again and again", "a", "wrong", "the key is the same", "a",
            means="They think that it tunes at each call; it does so once for each value of the "
            "key."),
        Mistake("a file of another machine", "c", "wrong", "keeps its choices in memory", "c",
            means="They know that compiled kernels are kept on disk, and take choices for the "
            "same."),
        Mistake("specialized for 8", "d", "wrong", "8 is neither", "d",
            means="They remember that the JIT compiles for special numbers, and 8 is none of "
            "them."),
    ],
    "rows-that-are-not-there": [
        Mistake("no mask for the row", {"(cols < n_cols) & (row >= 0)": "cols < n_cols"},
            "reads outside", "outside table_ptr",
            "reads outside table_ptr -3300 in case 1",
            means="They mask the columns alone; row -100 begins far before the table."),
        Mistake("nothing for the lanes left out", {", other=0.0": ""}, "wrong", "At [0, ",
            "wrong in case 1",
            means="They count on masked lanes being zero; without `other` they are undefined."),
        Mistake("the first row instead", {
            "    mask = (cols": "    row = tl.maximum(row, 0)\n    mask = (cols",
        }, "wrong", "comes out if -100 stands for row 0", "slip 1",
            means="They bring the index into the table, where it names a row that nobody asked "
            "for."),
        Mistake("the first row times nothing", {
            "    mask = (cols < n_cols) & (row >= 0)\n":
            "    mask, there = cols < n_cols, row >= 0\n    row = tl.maximum(row, 0)\n",
            "mask=mask, other=0.0)\n": "mask=mask, other=0.0) * there\n",
        }, "wrong", "NaN and inf", "wrong in case 5",
            means="They load a row and multiply it by 0; NaN and infinity times 0 are NaN."),
        Mistake("nothing stored", {"copied, mask=cols < n_cols)": "copied, mask=mask)"},
            "wrong", "never written", "wrong in case 1",
            means="They mask the store as well, and the rows without a token keep what was in "
            "memory."),
        Mistake("from the end", {
            "    mask = (cols": "    row = tl.where(row < 0, row + 50, row)\n    mask = (cols",
            "(cols < n_cols) & (row >= 0)": "(cols < n_cols)",
        }, "reads outside", "outside table_ptr",
            "reads outside table_ptr -1650 in case 1",
            means="They read -100 as Python does, counting from the end."),
    ],
    "range-that-never-shrinks": [
        Mistake("never past the middle", {"middle + 1, low": "middle, low"},
            "stopped", "a loop without end",
            means="They halve the range in their heads; with two candidates left the middle is "
            "the lower one, and `low = middle` leaves both."),
        Mistake("past the middle on both sides", {"high, middle)": "high, middle - 1)"},
            "wrong", "At [", "wrong in case 1",
            means="They treat both ends alike; `high` is the first that is out, and the middle "
            "may be it."),
        Mistake("less, not at most", {
            "        low = tl.where(": "        is_counted &= tl.load(edges_ptr + middle) < x\n"
            "        low = tl.where(",
        }, "wrong", "comes out if an edge that equals x is not counted", "slip 1",
            means="They count the edges below x, and an edge that equals x counts too."),
        Mistake("nothing of the upper half", {"high, middle)": "low, middle)"},
            "wrong", "At [", "wrong in case 1",
            means="They set both ends in each iteration, and one of them should stay."),
    ],
    "compiler-or-you": [
        Mistake("rounding", "a", "wrong", "add up in another order", "a",
            means="They expect the same bits of any order of a sum."),
        Mistake("a race that a setting shows", "b", "wrong", "A race is the kernel's", "b",
            means="They blame what they changed last; the race was there before."),
        Mistake("TF32", "c", "wrong", "unless you say otherwise", "c",
            means="They forget what a tl.dot of float32 is on tensor cores."),
        Mistake("now and then", "e", "wrong", "until shown otherwise", "e",
            means="They take what they cannot repeat for a mistake of the machine."),
    ],
    "uneven-rows": [
        Mistake("wasted sectors", {'cause = "b"': 'cause = "c"'}, "wrong", "load neighbors",
            "cause c",
            means="They know that narrow loads often come from lanes that lie apart; here the "
            "lanes are neighbors, and only the mask is in the way."),
        Mistake("the mask as it was", {
            "mask=cols < stride": "mask=cols < length",
        }, "wrong", "the cause is still there", "still narrow",
            means="They add the choice of values and leave the mask of the load as it was."),
        Mistake("the padding summed too", {
            "    x = tl.where(cols < length, x, 0.0)\n": "",
        }, "wrong", "comes out if the padding counts as well", "slip 1",
            means="They load whole rows and forget that what lies behind a row's end is in the "
            "sum now."),
        Mistake("a promise about the length", {
            "    cols = tl.arange(0, BLOCK_SIZE)\n":
            "    cols = tl.arange(0, BLOCK_SIZE)\n    length = tl.multiple_of(length, 16)\n",
            "mask=cols < stride": "mask=cols < length",
            "    x = tl.where(cols < length, x, 0.0)\n": "",
        }, "false promise", "is a multiple of 16", "false promise in case 1",
            means="They promise what they wish; the lengths are whatever the sentences are."),
        Mistake("no mask at all", {", mask=cols < stride, other=0.0": ""},
            "reads outside", "outside x_ptr", "reads outside x_ptr 240 in case 1",
            means="They see that the rows are padded and forget that a block is a power of two, "
            "which may be longer than the row and its padding."),
        Mistake("divided by the stride", {"/ length": "/ stride"},
            "wrong", "comes out if it is divided by the stride", "slip 2",
            means="They take the length of the memory for the length of the row."),
    ],
    "long-cosines": [
        Mistake("sectors", {'cause = "d"': 'cause = "c"'}, "wrong", "The lanes of a warp load "
        "neighbors",
            "cause c",
            means="They take every slow load for a scattered one; these lanes load neighbors."),
        Mistake("the sum of y's squares left out", {"        yy += y * y\n": ""},
            "wrong", "comes out if", "slip 1",
            means="They write the sum for one row and forget the other one."),
        Mistake("the last tile alone", {"xy += x * y": "xy = x * y"},
            "wrong", "At [", "wrong in case 1",
            means="They compute with the tile that is there; what is behind it is forgotten."),
        Mistake("rows of their own, whole", {
            "    for start in range(0, n_cols, BLOCK_SIZE):\n"
            "        cols = start + tl.arange(0, BLOCK_SIZE)\n":
            "    xx = tl.zeros([32 * BLOCK_SIZE], tl.float32)\n    xy, yy = xx, xx\n"
            "    for start in range(0, n_cols, 32 * BLOCK_SIZE):\n"
            "        cols = start + tl.arange(0, 32 * BLOCK_SIZE)\n",
        }, "wrong", "the cause is still there", "still spills",
            means="They write the loop, and take a whole row in each of its iterations."),
    ],
    "walk-along-k": [
        Mistake("few programs", {'cause = "e"': 'cause = "a"'}, "wrong", "more than 132", "cause a",
            means="They think of large grids only; 256 programs keep 132 multiprocessors busy."),
        Mistake("still a while loop", {FOR_LOOP: WHILE_LOOP}, "wrong",
            "the cause is still there", "still pipelining",
            means="They write the same loop again; what matters is that the number of iterations "
            "is known before it."),
        Mistake("a for loop without a pipeline", {
            "in range(0, K, BLOCK)": "in tl.range(0, K, BLOCK, num_stages=1)",
        }, "wrong", "the cause is still there", "still pipelining",
            means="They write a for loop and ask for a pipeline of one stage, which is none."),
        Mistake("along N", {"range(0, K, BLOCK)": "range(0, N, BLOCK)"},
            "reads outside", "begins at [0, 64], past the end: does a loop go on too far?",
            "reads outside a_ptr 4096 in case 1",
            means="They take the size of the result for the depth of the product."),
        Mistake("the first tiles again and again", {"start + ks,": "0 * start + ks,"},
            "wrong", "At [0, 0]", "wrong in case 2",
            means="They rewrite the loop and forget that the addresses must move with it."),
    ],
    "long-sum": [
        Mistake("the pipeline", {'cause = "a"': 'cause = "e"'}, "wrong", "in one program",
            "cause e",
            means="They fix what is inside the program, while 131 multiprocessors stand idle."),
        Mistake("a few large blocks", {"4096": "16384"}, "wrong", "it started 19 programs",
            "few programs",
            means="They cut the vectors into a few blocks; a GPU wants one for each "
            "multiprocessor at least."),
        Mistake("a store", {"tl.atomic_add(out_ptr": "tl.store(out_ptr"},
            "race", "different values", "race stores in case 1",
            means="They let every program store its part, and the last one stays."),
        Mistake("an output that was not zero", {"torch.zeros(1": "torch.empty(1"},
            "wrong", "At [0]", "wrong in case 1",
            means="They forget that adding needs something to add to: torch.empty holds "
            "whatever was there."),
        Mistake("a grid for these vectors", {"triton.cdiv(len(x), 4096)": "132"},
            "wrong", "540,772 float32", "wrong in case 3",
            means="They start a program for each multiprocessor, and give each one block; the "
            "rest of a longer vector is left out."),
        Mistake("a grid for a million", {"triton.cdiv(len(x), 4096)": "256"},
            "wrong", "1,048,676 float32", "wrong in case 3",
            means="They make the grid large enough for the vectors of the lesson, which end where "
            "it does."),
        Mistake("PyTorch sums", {"    return out": "    return (x * y).sum().reshape(1)"},
            "wrong", "computes with PyTorch", "PyTorch computes mul, sum",
            means="They let PyTorch do the work that the kernel is for."),
    ],
    "crowded-counters": [
        Mistake("too few programs", {'cause = "g"': 'cause = "a"'}, "wrong", "more than 132",
            "cause a",
            means="They blame the grid before they look at what the programs do to one another."),
        Mistake("relaxed, and as often", {
            "    counts = tl.histogram(x, BINS, mask=mask)\n": "",
            "tl.atomic_add(counts_ptr + tl.arange(0, BINS), counts, sem":
            "tl.atomic_add(counts_ptr + x, 1, mask=mask, sem",
        }, "wrong", "makes 1,024 updates", "many updates",
            means="They follow the first advice alone: each update is cheaper, and there are as "
            "many."),
        Mistake("what the mask leaves out counted", {", mask=mask)\n    tl.atomic": ")\n    "
        "tl.atomic"},
            "wrong", "At [0]", "wrong in case 1",
            means="They forget the mask of the histogram; the lanes that were not loaded hold 0."),
        Mistake("stored", {
            'tl.atomic_add(counts_ptr + tl.arange(0, BINS), counts, sem="relaxed")':
            "tl.store(counts_ptr + tl.arange(0, BINS), counts)"},
            "race", "different values", "race stores in case 1",
            means="They add up in the program and forget that there are other programs."),
        Mistake("16 for the number of counters", {
            "tl.histogram(x, BINS, mask": "tl.histogram(x, 16, mask", "tl.arange(0, BINS), counts":
            "tl.arange(0, 16), counts",
        }, "wrong", "At [16]", "wrong in case 4",
            means="They write down the number that the lesson has; the launch says how many "
            "counters there are."),
    ],
    "digits-nobody-asked-for": [
        Mistake("spills", {'cause = "h"': 'cause = "d"'}, "wrong", "no spilled bytes", "cause d",
            means="They think of the registers that float64 takes; it would fit."),
        Mistake("a mean in float64", {"tl.sum(x, axis=0) / n_cols\n    # to":
            "tl.sum(x.to(tl.float64), axis=0) / n_cols\n    # to"},
            "wrong", "the cause is still there", "still float64",
            means="They keep the digits where they were thought to matter, and one number of "
            "float64 "
            "makes the whole block float64 again."),
        Mistake("nothing subtracted", {"mean = tl.sum(x, axis=0) / n_cols": "mean = 0.0"},
            "wrong", "comes out if nothing is subtracted", "slip 1",
            means="They take out too much; the mean belongs to the formula."),
        Mistake("a mean over the lanes", {"tl.sum(x, axis=0) / n_cols\n    # to":
            "tl.sum(x, axis=0) / BLOCK_SIZE\n    # to"},
            "wrong", "At [", "wrong in case 1",
            means="They divide by the lanes of the block, of which some have no element."),
        Mistake("squared before the mean is subtracted", {
            "tl.sum(apart * apart, axis=0) / n_cols":
            "tl.sum(x * x, axis=0) / n_cols - mean * mean"},
            "wrong", "around 1,000", "wrong in case 4",
            means="They know the formula from paper; where the mean is large, both terms are, and "
            "their digits cancel."),
    ],
    "documents-in-pieces": [
        Mistake("narrow loads", {'cause = "i"': 'cause = "b"'}, "wrong", "gains nothing by itself",
            "cause b",
            means="They take a finding that is true and gains nothing."),
        Mistake("stored", {
            'tl.atomic_add(out_ptr + document, tl.sum(total, axis=0), sem="relaxed")':
            "tl.store(out_ptr + document, tl.sum(total, axis=0))"},
            "race", "different values", "race stores in case 1",
            means="They forget that several programs have a part of one sum now."),
        Mistake("past the end of a document", {"end = tl.minimum(end, begin + PIECE)":
            "end = begin + PIECE"},
            "reads outside", "outside x_ptr", "reads outside x_ptr 1000 in case 1",
            means="They cut whole pieces; the last one of a document is shorter."),
        Mistake("the whole document in each piece", {
            "    begin += tl.program_id(axis=1) * PIECE\n    end = tl.minimum(end, begin + "
            "PIECE)\n":
            "    piece = tl.program_id(axis=1)\n"},
            "wrong", "At [", "wrong in case 1",
            means="They start more programs and let each do all of the work."),
        Mistake("one program for all pieces", {
            "    begin += tl.program_id(axis=1) * PIECE\n    end = tl.minimum(end, begin + "
            "PIECE)\n":
            "    begin = tl.where(tl.program_id(axis=1) == 0, begin, end)\n"},
            "wrong", "the cause is still there", "still uneven programs",
            means="They keep the sum right by letting the first piece be the document."),
        Mistake("64 for the length of a piece", {"PIECE\n    end": "64\n    end",
            "begin + PIECE)": "begin + 64)"},
            "wrong", "At [", "wrong in case 2",
            means="They write down the length that a case has; the launch says how long a piece "
            "is."),
    ],
    "twice-as-fast": [
        Mistake("the kernel's own gain", 50, "wrong", "what the kernel gains", "slip 1",
            means="They report what the kernel gains; whoever waits for the step sees its share "
            "of the whole."),
        Mistake("all of the kernel", 9.85, "wrong", "no time at all", "slip 2",
            means="They take twice as fast for gone."),
        Mistake("of the forward pass", 9.5, "wrong", "the question is about the step", "slip 3",
            means="They divide by the branch of the tree that they look at, and not by its root."),
        Mistake("a fraction", 0.0491, "wrong", "power of ten", "power of ten",
            means="They give a fraction where percent are asked for."),
    ],
    "how-many-errors": [
        Mistake("those that are there", 4, "wrong", "have an element", "slip 1",
            means="They count the lanes of the last program that are right."),
        Mistake("as before", 24, "wrong", "with 1,000 elements", "slip 2",
            means="They take the number from the report; it depends on the length."),
        Mistake("a whole program", 128, "wrong", "a whole program", "slip 3",
            means="They count the last program, which has a few elements still."),
        Mistake("all lanes", 1024, "wrong", "all lanes", "slip 4",
            means="They count lanes, and most of these read what is there."),
    ],
}  # fmt: skip

OTHERS = {
    "slow-gate": [
        Other("a capital", {'cause = "c"': 'cause = "C"'}),
        Other("the start first", {
            "    offsets = tl.program_id(axis=0) * BLOCK_SIZE + lanes":
            "    start = tl.program_id(axis=0) * BLOCK_SIZE\n    offsets = lanes + start",
        }),
        Other("the sigmoid by hand", {"x * tl.sigmoid(x) * y": "x / (1 + tl.exp(-x)) * y"}),
    ],
    "slow-product": [
        Other("added by hand", {"tl.load(b_ptrs), acc)": "tl.load(b_ptrs)) + acc"}),
        Other("loaded first", {
            "        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)\n":
            "        a = tl.load(a_ptrs)\n        b = tl.load(b_ptrs)\n"
            "        acc += tl.dot(a, b)\n",
        }),
    ],
    "well-tuned-and-slow": [Other("a capital", "B"), Other("with a dot", "b.")],
    "rows-that-are-not-there": [
        Other("compared with -100", {"row >= 0": "row != -100"}),
        Other("the table's first row, and then zeros", {
            "    copied = tl.load(table_ptr + row * n_cols":
            "    inside = row >= 0\n    row = tl.maximum(row, 0)\n"
            "    copied = tl.load(table_ptr + row * n_cols",
            "    mask = (cols < n_cols) & (row >= 0)\n": "",
            "mask=mask": "mask=(cols < n_cols) & inside",
        }),
    ],
    "range-that-never-shrinks": [
        Other("by an if", {
            "        low = tl.where(is_counted, middle + 1, low)\n"
            "        high = tl.where(is_counted, high, middle)\n":
            "        if is_counted:\n            low = middle + 1\n"
            "        else:\n            high = middle\n",
        }),
        Other("the middle from below", {"(low + high) // 2": "low + (high - low) // 2"}),
    ],
    "compiler-or-you": [Other("a capital", "D"), Other("with a dot", "d.")],
    "uneven-rows": [
        Other("a mask by whole groups of 16", {
            "mask=cols < stride": "mask=cols // 16 < tl.cdiv(length, 16)",
        }),
        Other("times zero or one", {
            "    x = tl.where(cols < length, x, 0.0)\n": "    x = x * (cols < length)\n",
        }),
    ],
    "long-cosines": [
        Other("as the reference has it", {
            "xy, axis=0) / tl.sqrt(tl.sum(xx, axis=0) * tl.sum(yy, axis=0))":
            "xy, axis=0) / tl.sqrt(tl.sum(xx, axis=0)) / tl.sqrt(tl.sum(yy, axis=0))",
        }),
        Other("numbers, and no blocks", {
            "xx += x * x": "xx += tl.sum(x * x, axis=0) / BLOCK_SIZE",
            "xy += x * y": "xy += tl.sum(x * y, axis=0) / BLOCK_SIZE",
            "yy += y * y": "yy += tl.sum(y * y, axis=0) / BLOCK_SIZE",
        }),
    ],
    "walk-along-k": [
        Other("a pipeline of its own", {
            "in range(0, K, BLOCK)": "in tl.range(0, K, BLOCK, num_stages=4)",
        }),
        Other("numbered iterations", {
            "in range(0, K, BLOCK)": "in range(0, tl.cdiv(K, BLOCK))",
            "start + ks,": "start * BLOCK + ks,",
        }),
    ],
    "long-sum": [
        Other("larger blocks", {"4096": "8192"}),
        Other("blocks of 1,024", {"4096": "1024"}),
        Other("blocks that grow, and as many of them", {
            "triton.cdiv(len(x), 4096)": "256",
            "BLOCK_SIZE=4096":
            "BLOCK_SIZE=max(128, triton.next_power_of_2(triton.cdiv(len(x), 256)))",
        }),
        Other("a fixed grid, and a loop", {
            "    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)\n"
            "    mask = offsets < n_elements\n"
            "    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)\n"
            "    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)\n":
            "    total = tl.zeros([BLOCK_SIZE], tl.float32)\n"
            "    first, step = tl.program_id(axis=0), tl.num_programs(axis=0)\n"
            "    for block in range(first, tl.cdiv(n_elements, BLOCK_SIZE), step):\n"
            "        offsets = block * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)\n"
            "        mask = offsets < n_elements\n"
            "        x = tl.load(x_ptr + offsets, mask=mask, other=0.0)\n"
            "        total += x * tl.load(y_ptr + offsets, mask=mask, other=0.0)\n",
            "tl.sum(x * y, axis=0)": "tl.sum(total, axis=0)",
            "triton.cdiv(len(x), 4096)": "132",
        }),
    ],
    "crowded-counters": [
        Other("with fences", {', sem="relaxed")': ")"}),
        Other("compared level by level", {
            "    counts = tl.histogram(x, BINS, mask=mask)\n":
            "    levels = tl.arange(0, BINS)\n"
            "    found = (x[:, None] == levels[None, :]) & mask[:, None]\n"
            "    counts = tl.sum(found.to(tl.int32), axis=0)\n",
        }),
    ],
    "digits-nobody-asked-for": [
        Other("said twice", {"other=0.0)\n    mean": "other=0.0).to(tl.float32)\n    mean"}),
        Other("multiplied by the reciprocal", {"mean = tl.sum(x, axis=0) / n_cols":
            "mean = tl.sum(x, axis=0) * (1.0 / n_cols)"}),
    ],
    "documents-in-pieces": [
        Other("under names of their own", {
            "    begin += tl.program_id(axis=1) * PIECE\n":
            "    piece = tl.program_id(axis=1)\n    begin = begin + piece * PIECE\n"}),
        Other("with fences", {', sem="relaxed")': ")"}),
    ],
    "twice-as-fast": [Other("rounded", 4.9), Other("more digits", 4.91)],
    "how-many-errors": [Other("a float", 124.0), Other("from a remainder", 128 - 900 % 128)],
}  # fmt: skip
