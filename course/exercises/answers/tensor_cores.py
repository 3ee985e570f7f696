"""The usual mistakes on the topic "tensor cores", and other right answers."""

from . import Mistake, Other

MISTAKES = {
    "product-loop": [
        Mistake("the shape of a", {"tl.zeros([BLOCK_M, BLOCK_N]": "tl.zeros([BLOCK_M, BLOCK_K]"},
            "does not compile", "", "accumulator shape is incompatible",
            means="They give the accumulator the shape of a's tile; the product has a's rows and "
            "b's columns."),
        Mistake("operands in float32", {
            "tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)":
            "tl.dot(tl.load(a_ptrs).to(tl.float32), tl.load(b_ptrs).to(tl.float32), acc)",
        }, "wrong", "operands in float32, which tensor cores multiply at half the speed",
            "float32 operands",
            means="They convert first, to be exact; products of float16 are exact in float32 "
            "anyway, and added up there."),
        Mistake("operands in bfloat16", {
            "tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)":
            "tl.dot(tl.load(a_ptrs).to(tl.bfloat16), tl.load(b_ptrs).to(tl.bfloat16), acc)",
        }, "wrong", "takes bfloat16, in which Triton's interpreter computes wrongly",
            "wrong in case 1",
            means="They take the type that training takes; it has 8 bits of a float16's 11."),
        Mistake("no dot", {
            "acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)":
            "acc += tl.sum(tl.load(a_ptrs)[:, :, None].to(tl.float32) * "
            "tl.load(b_ptrs)[None, :, :], axis=1)",
        }, "wrong", "It multiplies without tl.dot", "no dot",
            means="They build the product of broadcasting and a sum, which is right and never "
            "reaches the tensor cores."),
        Mistake("steps of BLOCK_N", {"range(0, K, BLOCK_K)": "range(0, K, BLOCK_N)"},
            "reads outside", "does a loop go on too far?", "reads outside b_ptr 6144 in case 1",
            means="They step by the tile's width; the loop goes along K, so by BLOCK_K."),
        Mistake("64 for BLOCK_K", {"range(0, K, BLOCK_K)": "range(0, K, 64)"},
            "wrong", "At [0, 0]", "wrong in case 4",
            means="They write down the size that a case has; the launch says how deep a tile is."),
        Mistake("a step too many", {"range(0, K, BLOCK_K)": "range(0, K + 1, BLOCK_K)"},
            "reads outside", "begins at [128, 0], past the end: does a loop go on too far?",
            "reads outside b_ptr 6144 in case 1",
            means="They let the range run up to K and one more; its end is not in it, and so K "
            "alone is right."),
        Mistake("pointers go on by BLOCK_N", {
            "a_ptrs += BLOCK_K": "a_ptrs += BLOCK_N",
            "b_ptrs += BLOCK_K * N": "b_ptrs += BLOCK_N * N",
        }, "wrong", "At [0, 0]", "wrong in case 1",
            means="They move the pointers by the tile's width; both go along K, by BLOCK_K."),
        Mistake("@", {
            "acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)":
            "acc += tl.load(a_ptrs) @ tl.load(b_ptrs)",
        }, "does not compile", "tl.dot(a, b) multiplies blocks", "ast binary operator is not",
            means="They write NumPy's @; between blocks the product is tl.dot."),
        Mistake("acc = 0", {"tl.zeros([BLOCK_M, BLOCK_N], tl.float32)": "0"},
            "does not compile", "acc", "accumulator shape is incompatible",
            means="They begin with a number, as Python's sum does; a value carried through a "
            "loop keeps its type and shape."),
        Mistake("the pointers of a stay", {"        a_ptrs += BLOCK_K\n": ""}, "wrong",
            "comes out if the pointers of a stay where they are", "slip 1",
            means="They move one operand only; both go on to the next part of K."),
        Mistake("the pointers of b stay", {"        b_ptrs += BLOCK_K * N\n": ""},
            "wrong", "comes out if the pointers of b stay where they are", "slip 2",
            means="They move one operand only; both go on to the next part of K."),
        Mistake("all pointers stay", {
            "        a_ptrs += BLOCK_K\n": "",
            "        b_ptrs += BLOCK_K * N\n": "",
        }, "wrong", "comes out if no pointer moves", "slip 3",
            means="They expect the loop to move the pointers, as an index would; each step loads "
            "the same two tiles."),
        Mistake("b goes on within its rows", {"b_ptrs += BLOCK_K * N": "b_ptrs += BLOCK_K"},
            "wrong", "comes out if the pointers of b go on by BLOCK_K, along its rows", "slip 5",
            means="They move b like a; along K, b goes down, and a row of it is N elements long."),
        Mistake("added up in float16", {
            "tl.float32)": "tl.float16)",
            "tl.load(b_ptrs), acc)": "tl.load(b_ptrs), acc, out_dtype=tl.float16)",
        }, "wrong", "something is rounded to 16 bits on the way", "float16",
            means="They think that the accumulator has the operands' type; sums in float16 lose "
            "digits at every step."),
        Mistake("every product in place of the sum", {"tl.load(b_ptrs), acc)": "tl.load(b_ptrs))"},
            "wrong", "comes out if each step's product takes the place of the sum", "slip 4",
            means="They forget the third operand: tl.dot adds to it, and without it each step "
            "starts anew."),
        Mistake("one step", {"range(0, K, BLOCK_K)": "range(0, BLOCK_K, BLOCK_K)"},
            "wrong", "comes out if the loop ends after one step", "slip 6",
            means="They stop after the first part of K; it happens to be all of it in the "
            "smallest case."),
        Mistake("K steps", {"range(0, K, BLOCK_K)": "range(0, K)"}, "reads outside", "read outside",
            "reads outside b_ptr 6144 in case 1",
            means="They step by one element; each step takes a part of BLOCK_K."),
        Mistake("rounded at the end", {
            "tl.store(c_ptrs, acc)": "tl.store(c_ptrs, acc.to(tl.float16))",
        }, "wrong", "something is rounded to 16 bits on the way", "float16",
            means="They return the input's type out of habit; the result is asked for in float32."),
        Mistake("operands exchanged", {
            "tl.load(a_ptrs), tl.load(b_ptrs)": "tl.load(b_ptrs), tl.load(a_ptrs)",
        }, "does not compile", "as many as the rows of the second",
            "input and other must have equal reduction dimensions",
            means="They think that a product does not mind the order; the shapes do, and the "
            "values would too."),
    ],
    "product-of-any-size": [
        Mistake("a mask on a alone", {
            "mask=left[:, None] & (cols < N)[None, :], other=0.0":
            "mask=(cols < N)[None, :], other=0.0",
        }, "reads outside", "outside b_ptr", "reads outside b_ptr 2310 in case 1",
            means="They think that a zero in a makes b's padding harmless; b must not be read "
            "outside either."),
        Mistake("a mask on b alone", {
            "mask=(rows < M)[:, None] & left[None, :], other=0.0":
            "mask=(rows < M)[:, None], other=0.0",
        }, "reads outside", "outside a_ptr", "reads outside a_ptr 1400 in case 1",
            means="They think that a zero in b makes a's padding harmless; a must not be read "
            "outside either."),
        Mistake("masks along K alone", {"(rows < M)[:, None] & left": "left"},
            "reads outside", "outside a_ptr", "reads outside a_ptr 1400 in case 1",
            means="They guard the loop's axis and forget that the last tile of rows sticks out "
            "as well."),
        Mistake("K for what is left", {"ks < K - start": "ks < K"},
            "reads outside", "outside b_ptr", "reads outside b_ptr 2310 in case 1",
            means="They compare with the whole K; `ks` starts at 0 in every turn, so it is K - "
            "start that is left."),
        Mistake("no other for a", {"left[None, :], other=0.0": "left[None, :]"},
            "wrong", "At [0, 0]", "wrong in case 1",
            means="They expect masked lanes to hold 0; without `other` they hold anything, and 0 "
            "times NaN is NaN."),
        Mistake("ones", {
            "(cols < N)[None, :], other=0.0": "(cols < N)[None, :], other=1.0",
            "left[None, :], other=0.0": "left[None, :], other=1.0",
        }, "wrong", "At [0, 0]", "wrong in case 1",
            means="They fill the padding with 1, which is neutral for products; the products are "
            "summed, so it must be 0."),
        Mistake("no sum", {"tl.dot(a, b, acc)": "tl.dot(a, b)"}, "wrong",
            "comes out if each step's product takes the place of the sum", "slip 1",
            means="They forget the third operand, so only the last part of K is left."),
        Mistake("start forgotten, the other way", {"ks < K - start": "ks + start < N"},
            "wrong", "At [0, 0]", "wrong in case 1",
            means="They compare K's index with N: the two lengths have changed places."),
    ],
    "eight-by-eight": [
        Mistake("as it is", {"    i = tl.arange(0, 16)": "    i = tl.arange(0, 8)"},
            "does not compile", "K >= 16", "input shapes should have m n and k",
            means="They ask a tensor core for 8 x 8; its smallest step along K is 16."),
        Mistake("rows 16 apart", {"i[:, None] * 8": "i[:, None] * 16"},
            "reads outside", "outside a_ptr", "reads outside a_ptr 64 in case 1",
            means="They think that the matrices grow with the block; in memory their rows stay 8 "
            "apart."),
        Mistake("no masks on the loads", {
            "mask=inside, other=0.0": "mask=i[:, None] < 8, other=0.0",
        }, "reads outside", "outside a_ptr", "reads outside a_ptr 64 in case 1",
            means="They mask one axis; the other half of the columns belongs to the next row."),
        Mistake("no other", {", mask=inside, other=0.0": ", mask=inside"}, "wrong", "At [0, 0]",
            "wrong in case 1",
            means="They expect the padding to be 0; without `other` it is anything, and gets "
            "into the sums."),
        Mistake("no mask on the store", {"tl.dot(a, b), mask=inside": "tl.dot(a, b)"},
            "writes outside", "outside c_ptr", "writes outside c_ptr 64 in case 1",
            means="They think that the padding vanishes in the product; the block that is stored "
            "is still 16 x 16."),
        Mistake("no dot", {
            "tl.dot(a, b)":
            "tl.sum(a[:, :, None].to(tl.float32) * b[None, :, :].to(tl.float32), axis=1)",
        }, "wrong", "without tl.dot", "no dot",
            means="They avoid the limit by multiplying by hand; the values are right, and no "
            "tensor core was used."),
        Mistake("b turned", {"tl.dot(a, b)": "tl.dot(a, tl.trans(b))"}, "wrong", "At [0, 0]",
            "wrong in case 1",
            means="They turn b, which belongs to a product with rows of b; here it is an "
            "ordinary one."),
    ],
    "tiles-in-order": [
        Mistake("row after row", 44, "wrong", "row after row", "slip 1",
            means="They count programs row after row; in groups of 6 rows they go down first."),
        Mistake("two each", 264, "wrong", "share", "slip 2",
            means="They think that each program brings a row and a column of its own; neighbors "
            "share them."),
        Mistake("the tiles of c", 132, "wrong", "tiles of c", "slip 3",
            means="They count the tiles that are written; the question is which rows and columns "
            "are read."),
        Mistake("columns alone", 22, "wrong", "on top", "slip 6",
            means="They count b's columns and forget a's rows."),
        Mistake("all columns", 46, "wrong", "do not get so far", "slip 4",
            means="They let the group run to the end of its rows; 132 programs get as far as "
            "column 22."),
    ],
    "stages-that-fit": [
        Mistake("b forgotten", "8, 12, 28", "wrong", "alone", "slip 1",
            means="They put a's tile into shared memory alone; each stage holds both operands."),
        Mistake("a forgotten", "4, 6, 14", "wrong", "alone", "slip 2",
            means="They put b's tile into shared memory alone; each stage holds both operands."),
        Mistake("float32", "1, 2, 4", "wrong", "4 bytes", "slip 3",
            means="They count four bytes an element; the operands are float16."),
        Mistake("rounded up", "3, 5, 10", "wrong", "up", "slip 5",
            means="They round up; the last stage would not fit."),
        Mistake("a number", 9, "no answer", "text",
            means="They answer for one GPU; the question has three."),
    ],
    "layer-in-one-launch": [
        Mistake("w as it lies", {
            "cols[None, :] * K + ks[:, None]": "ks[:, None] * N + cols[None, :]",
        }, "wrong", "comes out if w is read as [K, N], and is [N, K]", "slip 6",
            means="They read w as [K, N]; it is stored as [N, K], and turned by the way it is "
            "addressed."),
        Mistake("the bias down the rows", {
            "bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0)":
            "bias = tl.load(bias_ptr + rows, mask=rows < N, other=0.0)",
            "bias[None, :]": "bias[:, None]",
        }, "wrong", "At [", "wrong in case 1",
            means="They lay the bias along the rows; it has one number for each column of the "
            "result."),
        Mistake("cut off before the bias", {
            "acc = tl.maximum(acc + bias[None, :], 0.0)":
            "acc = tl.maximum(acc, 0.0) + bias[None, :]",
        }, "wrong", "comes out if negative sums are cut off before the bias is", "slip 1",
            means="They apply ReLU to the product; the bias comes first."),
        Mistake("no bias", {" + bias[None, :]": ""},
            "wrong", "comes out if no bias is added", "slip 3",
            means="They load the bias and never use it."),
        Mistake("nothing cut off", {"tl.maximum(acc + bias[None, :], 0.0)": "acc + bias[None, :]"},
            "wrong", "comes out if nothing is cut off at 0", "slip 5",
            means="They stop at the linear layer and forget the ReLU."),
        Mistake("the bias at every step", {
            "        acc = tl.dot(x, w, acc)\n    bias":
            "        acc = tl.dot(x, w, acc)\n"
            "        acc += tl.load(bias_ptr + cols, mask=cols < N, "
            "other=0.0).to(tl.float32)[None, :]\n"
            "    bias",
            "acc + bias[None, :]": "acc",
        }, "wrong", "comes out if the bias is added in each step", "slip 2",
            means="They add the bias inside the loop, so it counts once for each part of K."),
        Mistake("cut off at every step", {
            "acc = tl.dot(x, w, acc)": "acc = tl.maximum(tl.dot(x, w, acc), 0.0)",
        }, "wrong", "At [", "wrong in case 1",
            means="They apply ReLU to unfinished sums; a later part may lift them above zero "
            "again."),
        Mistake("added in float16", {
            "acc = tl.maximum(acc + bias[None, :], 0.0)":
            "acc = tl.maximum(acc.to(tl.float16) + bias.to(tl.float16)[None, :], 0.0)",
        }, "wrong", "float16", "slip 4",
            means="They round before the bias; all of it is in float32 until the store."),
        Mistake("rounded twice", {
            "        acc = tl.dot(x, w, acc)\n    bias":
            "        acc = tl.dot(x, w, acc)\n"
            "    acc = acc.to(tl.float16).to(tl.float32)\n"
            "    bias",
        }, "wrong", "comes out if the sums are rounded to 16 bits before the bias is added",
            "slip 4",
            means="They round the product, as a layer of its own would, and the sum once more."),
        Mistake("the width for the row stride", {"rows[:, None] * stride_xm": "rows[:, None] * K"},
            "reads outside", "left part", "reads outside x_ptr 40 in case 3",
            means="They take K for the distance between x's rows, which differs in a slice of a "
            "wider matrix."),
        Mistake("no mask along K", {
            "(rows < M)[:, None] & (ks < K)[None, :]": "(rows < M)[:, None]",
        }, "reads outside", "outside x_ptr", "reads outside x_ptr 2310 in case 1",
            means="They mask the rows and forget that K need not be a multiple of the block."),
        Mistake("PyTorch does the rest", {"    return out": "    return torch.relu(out)"},
            "wrong", "computes with PyTorch", "PyTorch computes relu",
            means="They leave ReLU to PyTorch: a second launch, and the result through memory "
            "twice more."),
    ],
    "linear-by-descriptors": [
        Mistake("w not turned", {"w.T": "w"}, "does not compile", "rows of the second",
            "input and other must have equal reduction dimensions",
            means="They multiply the tiles as they lie; the second one has K along its columns."),
        Mistake("b's coordinates", {"[col, start]": "[start, col]"}, "wrong", "At [0, 0]",
            "wrong in case 1",
            means="They ask for the tile as in a product with b; the rows of w are the columns of "
            "the result."),
        Mistake("b's shape and coordinates", {
            "[col, start]": "[start, col]",
            "[32, 64]": "[64, 32]",
            "w.T": "w",
        }, "wrong", "At [0, 0]", "wrong in case 1",
            means="They describe w as if it were [K, N]; in memory its rows are K long."),
        Mistake("a fixed K", {"range(0, K, BLOCK_K)": "range(0, 256, BLOCK_K)"}, "wrong", "At [0, ",
            "wrong in case 3",
            means="They write down the K that they tried; past it, columns of x are left out."),
        Mistake("the shape of the turned tile", {"[32, 64]": "[64, 32]"},
            "does not compile", "as many as the rows of the second",
            "input and other must have equal reduction dimensions",
            means="They give the descriptor the shape of w.T; it wants the tile as it lies in "
            "memory."),
        Mistake("no sum", {"tl.dot(x, w.T, acc)": "tl.dot(x, w.T)"}, "wrong",
            "comes out if each step's product takes the place of the sum", "slip 1",
            means="They forget the third operand, so only the last part of K is left."),
        Mistake("the first rows of w", {"[col, start]": "[0, start]"}, "wrong",
            "comes out if every tile takes the first rows of w", "slip 2",
            means="They let w go on along K alone; each column of tiles has rows of w of its own."),
        Mistake("numbers of tiles for rows", {"[row, start]": "[row // BLOCK_M, start]"},
            "wrong", "At [16, 0]", "wrong in case 1",
            means="They give a descriptor the number of a tile; it takes the tile's first row and "
            "column."),
        Mistake("K steps", {"range(0, K, BLOCK_K)": "range(0, K)"},
            "wrong", "must be a multiple of 16 bytes",
            "raised AssertionError block offset start must be aligned in case 1",
            means="They step by one element; each step takes a part of BLOCK_K."),
        Mistake("w.T described", {
            "[col, start]": "[start, col]",
            "w, [32, 64]": "w.T, [64, 32]",
            "dot(x, w.T": "dot(x, w",
        }, "wrong", "has its 1 first, so describe w",
            "raised AssertionError strides must be aligned in case 1",
            means="They describe the transposed tensor; a descriptor wants the last stride to be "
            "1, so the tile is turned after the load."),
        Mistake("copies first", {"    x_desc =": "    w = w.T.contiguous().T\n    x_desc ="},
            "wrong", "", "raised AssertionError strides must be aligned in case 1",
            means="They copy the weights into the other order; the tile can be turned where it "
            "is."),
        Mistake("by pointers", {
            "w = w_desc.load([col, start])":
            "ws = col + tl.arange(0, BLOCK_N)\n"
            "        ks = start + tl.arange(0, BLOCK_K)\n"
            "        w = tl.load(w_desc + ws[:, None] * K + ks[None, :], mask=ks[None, :] < K, "
            "other=0.0)",
            "w_desc = TensorDescriptor.from_tensor(w, [32, 64])":
            "w_desc = torch.nn.functional.pad(w, (0, 0, 0, 32))",
        }, "wrong", "", "PyTorch computes constant_pad_nd",
            means="They fall back on the loads they know; here a descriptor does the addresses."),
    ],
    "persistent-product": [
        Mistake("one tile each", {
            "    for tile in range(tl.program_id(axis=0), n_tiles, tl.num_programs(axis=0)):\n":
            "    tile = tl.program_id(axis=0)\n"
            "    if tile < n_tiles:\n",
        }, "wrong", "never written", "wrong in case 1",
            means="They write the kernel for a grid of all tiles; here there are fewer programs."),
        Mistake("steps of 1", {", tl.num_programs(axis=0))": ")"},
            "wrong", "are written by more than one program", "shared elements",
            means="They start at the program's number and go on by 1: every tile is computed again "
            "and again."),
        Mistake("every tile by every program", {
            "range(tl.program_id(axis=0), n_tiles, tl.num_programs(axis=0))": "range(0, n_tiles)",
        }, "wrong", "are written by more than one program", "shared elements",
            means="They loop over all the tiles; the values are right, and no work is shared."),
        Mistake("three programs", {"tl.num_programs(axis=0))": "3)"},
            "wrong", "It does not ask how many programs run", "programs not asked for",
            means="They count the programs in a failed case and write the number down; a grid may "
            "have any size."),
        Mistake("132 programs", {"tl.num_programs(axis=0))": "132)"}, "wrong", "never written",
            "wrong in case 1",
            means="They write down the number of multiprocessors; the grid may have another size."),
        Mistake("rows of tiles for rows", {"tile // tiles_n * BLOCK_M": "tile // tiles_n"},
            "wrong", "never written", "wrong in case 1",
            means="They give a descriptor the number of a tile; it takes the tile's first row."),
        Mistake("numbers of tiles for rows and columns", {
            "tile // tiles_n * BLOCK_M, tile % tiles_n * BLOCK_N":
            "tile // tiles_n, tile % tiles_n",
        }, "wrong", "last offset counts elements, and must be a multiple of 16 bytes",
            "raised AssertionError block offset start must be aligned in case 1",
            means="They give a descriptor the numbers of a tile; it takes the tile's first row and "
            "column."),
        Mistake("rows and columns exchanged", {
            "tile // tiles_n * BLOCK_M, tile % tiles_n * BLOCK_N":
            "tile % tiles_n * BLOCK_M, tile // tiles_n * BLOCK_N",
        }, "wrong", "never written", "wrong in case 1",
            means="They take the remainder for the row; row after row means that it is the "
            "column."),
        Mistake("column after column", {
            "tile // tiles_n * BLOCK_M, tile % tiles_n * BLOCK_N":
            "tile % (n_tiles // tiles_n) * BLOCK_M, tile // (n_tiles // tiles_n) * BLOCK_N",
        }, "wrong", "a program goes back and forth over the result", "order",
            means="They count tiles down the columns; row after row, programs that run together "
            "share the rows of a in the L2 cache."),
        Mistake("the last tile left out", {"n_tiles, tl.num": "n_tiles - 1, tl.num"},
            "wrong", "never written", "wrong in case 1",
            means="They stop one early; the end of a range is not in it."),
        Mistake("the accumulator goes on", {
            "    for tile in":
            "    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)\n"
            "    for tile in",
            "acc = tile_product": "acc += tile_product",
        }, "wrong", "At [", "wrong in case 1",
            means="They keep one accumulator for all tiles; each tile starts from zero."),
        Mistake("always float16", {"acc.to(c_desc.dtype)": "acc.to(tl.float16)"},
            "wrong", "Every number that comes out is a float16", "float16",
            means="They take the operands' type for that of the result, which may be kept in "
            "float32."),
    ],
}  # fmt: skip

OTHERS = {
    "product-loop": [
        Other("added outside the dot", {
            "acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)":
            "acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))",
        }),
        Other("offsets anew at each step", {
            "    for _ in range(0, K, BLOCK_K):\n"
            "        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)\n"
            "        a_ptrs += BLOCK_K\n"
            "        b_ptrs += BLOCK_K * N\n":
            "    for start in range(0, K, BLOCK_K):\n"
            "        acc = tl.dot(tl.load(a_ptrs + start), tl.load(b_ptrs + start * N), acc)\n",
        }),
        Other("the reader's names", {"acc": "total"}),
    ],
    "product-of-any-size": [
        Other("the end counted down", {"ks < K - start": "start + ks < K"}),
        Other("rows and columns wrapped round", {
            "mask=(rows < M)[:, None] & left[None, :]":
            "mask=(rows < M)[:, None] & (ks[None, :] < K - start)",
        }),
    ],
    "eight-by-eight": [
        Other("M and N of 8", {
            "    i = tl.arange(0, 16)\n":
            "    i = tl.arange(0, 16)\n"
            "    eight = tl.arange(0, 8)\n",
            "    inside = (i[:, None] < 8) & (i[None, :] < 8)\n": "",
            "    offsets = i[:, None] * 8 + i[None, :]\n": "",
            "tl.load(a_ptr + offsets, mask=inside, other=0.0)":
            "tl.load(a_ptr + eight[:, None] * 8 + i[None, :], mask=i[None, :] < 8, other=0.0)",
            "tl.load(b_ptr + offsets, mask=inside, other=0.0)":
            "tl.load(b_ptr + i[:, None] * 8 + eight[None, :], mask=i[:, None] < 8, other=0.0)",
            "tl.store(c_ptr + offsets, tl.dot(a, b), mask=inside)":
            "tl.store(c_ptr + eight[:, None] * 8 + eight[None, :], tl.dot(a, b))",
        }),
        Other("the masks one after the other", {
            "    inside = (i[:, None] < 8) & (i[None, :] < 8)":
            "    low = i < 8\n"
            "    inside = low[:, None] & low[None, :]",
        }),
    ],
    "tiles-in-order": [Other("as a float", 28.0), Other("as an integer", 28)],
    "stages-that-fit": [
        Other("without commas", "2 4 9"),
        Other("in words", "2, 4 and 9."),
        Other("semicolons", "2;4;9"),
    ],
    "layer-in-one-launch": [
        Other("w turned after the load", {
            "w_ptr + cols[None, :] * K + ks[:, None], mask=w_mask, other=0.0)":
            "w_ptr + cols[:, None] * K + ks[None, :], mask=(cols < N)[:, None] & (ks < K)[None, "
            ":], other=0.0)",
            "tl.dot(x, w, acc)": "tl.dot(x, tl.trans(w), acc)",
        }),
        Other("the bias first", {
            "acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)":
            "acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)\n"
            "    acc += tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)[None, :]",
            "acc + bias[None, :]": "acc",
        }),
    ],
    "linear-by-descriptors": [
        Other("tl.trans", {"w.T": "tl.trans(w)"}),
        Other("in one line", {
            "        x = x_desc.load([row, start])\n": "",
            "        w = w_desc.load([col, start])\n": "",
            "tl.dot(x, w.T, acc)":
            "tl.dot(x_desc.load([row, start]), w_desc.load([col, start]).T, acc)",
        }),
        Other("added outside the dot", {"acc = tl.dot(x, w.T, acc)": "acc += tl.dot(x, w.T)"}),
        Other("smaller steps along K", {"[16, 64]": "[16, 32]", "[32, 64]": "[32, 32]",
                                        '"BLOCK_K": 64': '"BLOCK_K": 32'}),
    ],
    "persistent-product": [
        Other("one loop of the two", {
            "in range(tl.program_id": "in tl.range(tl.program_id",
            "tl.num_programs(axis=0))": "tl.num_programs(axis=0), flatten=True)",
        }),
        Other("in runs of neighbors", {
            "    for tile in range(tl.program_id(axis=0), n_tiles, tl.num_programs(axis=0)):\n":
            "    share = tl.cdiv(n_tiles, tl.num_programs(axis=0))\n"
            "    first = tl.program_id(axis=0) * share\n"
            "    for tile in range(first, min(first + share, n_tiles)):\n",
        }),
        Other("converted by the descriptor", {"acc.to(c_desc.dtype)": "acc"}),
        Other("without the helper", {
            "        acc = tile_product(a_desc, b_desc, row, col, K, BLOCK_M, BLOCK_N, BLOCK_K)\n":
            "        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)\n"
            "        for k in range(0, K, BLOCK_K):\n"
            "            acc += tl.dot(a_desc.load([row, k]), b_desc.load([k, col]))\n",
        }),
        Other("while", {
            "    for tile in range(tl.program_id(axis=0), n_tiles, tl.num_programs(axis=0)):\n":
            "    tile = tl.program_id(axis=0)\n"
            "    while tile < n_tiles:\n",
            "        c_desc.store([row, col], acc.to(c_desc.dtype))\n":
            "        c_desc.store([row, col], acc.to(c_desc.dtype))\n"
            "        tile += tl.num_programs(axis=0)\n",
        }),
    ],
}  # fmt: skip
