"""The usual mistakes on the topic "two dimensions", and other right answers."""

from . import Mistake, Other

SUM_THEN_GELU = {
    "    bias_gelu_kernel[grid](x, bias, out, *x.shape, BLOCK_M=32, BLOCK_N=32)": """\
    total = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    add_kernel[grid](x, bias, total, *x.shape, BLOCK_M=32, BLOCK_N=32)
    bias_gelu_kernel[grid](total, torch.zeros_like(bias), out, *x.shape, BLOCK_M=32, BLOCK_N=32)""",
    "def bias_gelu(x, bias):": """\
@triton.jit
def add_kernel(
    x_ptr, bias_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    offsets = rows[:, None] * n_cols + cols[None, :]
    bias = tl.load(bias_ptr + cols, mask=cols < n_cols).to(tl.float32)
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x + bias[None, :], mask=mask)


def bias_gelu(x, bias):""",
}

MISTAKES = {
    "every-pair": [
        Mistake("both blocks stood up", {
            "cols[None, :]": "cols[:, None]",
            "y[None, :]": "y[:, None]",
        }, "does not compile", "write [None, :] for [:, None]",
            "cannot incompatible dimensions at index and",
            means="They turn both blocks into columns; rows stand up and columns lie down, and "
            "broadcasting makes the tile."),
        Mistake("and without parentheses", {
            "(rows[:, None] < m) & (cols[None, :] < n)": "rows[:, None] < m & cols[None, :] < n",
        }, "writes outside", "put each comparison in parentheses",
            "writes outside out_ptr 1414 in case 1, chained",
            means="They expect & to bind like `and`; it binds before <, so both comparisons need "
            "parentheses."),
        Mistake("a mask of the rows alone", {
            "(rows[:, None] < m) & (cols[None, :] < n)": "rows[:, None] < m",
        }, "writes outside", "outside out_ptr",
            "writes outside out_ptr 1400 in case 1",
            means="They guard one axis; the last block of columns sticks out too, into the next "
            "row."),
        Mistake("rows and columns that wrap around", {
            "tl.arange(0, BLOCK_M)\n": "tl.arange(0, BLOCK_M)\n    rows %= m\n",
            "tl.arange(0, BLOCK_N)\n": "tl.arange(0, BLOCK_N)\n    cols %= n\n",
        }, "wrong", "elements are written by more than one program", "shared elements",
            means="They let the last programs begin again at 0, so that the mask has nothing to "
            "keep out: they write what others own."),
        Mistake("rows m apart", {"rows[:, None] * n": "rows[:, None] * m"},
            "race", "different values", "race lanes in case 1",
            means="They multiply the row by the number of rows; rows lie as far apart as a row "
            "is long."),
        Mistake("no mask for y", {"y_ptr + cols, mask=cols < n": "y_ptr + cols"},
            "reads outside", "outside y_ptr", "reads outside y_ptr 70 in case 1",
            means="They think that the mask of the store protects the loads; each one has its "
            "own."),
        Mistake("x for both", {"+ y[None, :]": "+ tl.load(x_ptr + cols, mask=cols < m)[None, :]"},
            "wrong", "At [0, 0]", "wrong in case 1",
            means="They load one vector twice: a matrix of sums needs one operand along each "
            "axis."),
    ],
    "any-view": [
        Mistake("the width for the row stride", {"* stride_xm": "* n_cols"},
            "reads outside", "left part of a wider one",
            "reads outside x_ptr 65 in case 3",
            means="They take a row's width for the distance between rows; in a slice of a wider "
            "matrix that is larger."),
        Mistake("strides in bytes", {
            "* stride_xm": "* stride_xm * 4",
            "* stride_xn": "* stride_xn * 4",
        }, "reads outside", "count elements, and not bytes", "reads outside x_ptr 2800 in case 1",
            means="They scale strides by the element's size, as NumPy has them; PyTorch's and "
            "Triton's count elements."),
        Mistake("loaded twice", {
            "    tl.store":
            "    x = tl.load(x_ptr + rows[:, None] * stride_xm + cols[None, :] * stride_xn, "
            "mask=mask)\n"
            "    tl.store",
        }, "wrong", "bytes where", "bytes",
            means="They think that a repeated load is free; it is a second trip through memory "
            "unless the compiler can prove otherwise."),
        Mistake("stored by the input's strides", {
            "torch.empty(x.shape, dtype=x.dtype, device=x.device)": "torch.empty_like(x)",
            "rows[:, None] * n_cols + cols[None, :], x / 2":
            "rows[:, None] * stride_xm + cols[None, :] * stride_xn, x / 2",
        }, "writes outside", "", "writes outside out_ptr 2170 in case 3",
            means="They think that empty_like gives a contiguous tensor; it keeps the order of "
            "the input's strides, and not its gaps."),
        Mistake("swapped strides", {"*x.stride()": "x.stride(1), x.stride(0)"},
            "reads outside", "outside x_ptr", "reads outside x_ptr 2800 in case 1",
            means="They mix up the order: stride(0) leads from row to row."),
        Mistake("copied first", {
            "    out = torch.empty(x.shape":
            "    x = x.contiguous()\n"
            "    out = torch.empty(x.shape",
        }, "wrong", "copies with PyTorch", "PyTorch copies",
            means="They think that a kernel needs contiguous input; with two strides it reads "
            "any view where it lies."),
        Mistake("the input's strides for the output", {
            "rows[:, None] * n_cols + cols[None, :], x / 2":
            "rows[:, None] * stride_xm + cols[None, :] * stride_xn, x / 2",
        }, "writes outside", "outside out_ptr",
            "writes outside out_ptr 2170 in case 3",
            means="They use one set of strides for both tensors; the output is a new tensor with "
            "its own."),
        Mistake("a grid that rounds down", {"triton.cdiv(x.shape[0], 32)": "x.shape[0] // 32"},
            "wrong", "never written", "wrong in case 1",
            means="They forget that the last tiles are only partly filled, and still need a "
            "program."),
        Mistake("a grid of fixed size", {
            "(triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))": "(4, 4)",
        }, "wrong", "129 x 129", "wrong in case 3",
            means="They made the grid for one matrix; it must grow with the shape."),
        Mistake("a program for each element", {
            "(triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))": "tuple(x.shape)",
        }, "wrong", "It starts 2,800 programs where 3 blocks", "wrong 2800 programs in case 1",
            means="They think of a program as a thread; a program owns a tile."),
    ],
    "stack-of-transposes": [
        Mistake("a launch for each matrix", {
            "    transpose_stack_kernel[grid](x, out, n_rows, n_cols, BLOCK=32)":
            "    for b in range(batch):\n"
            "        transpose_stack_kernel[(*grid[:2], 1)](x[b], out[b], n_rows, n_cols, "
            "BLOCK=32)",
        }, "wrong", "3 launches where 1", "launches",
            means="They loop over the batch in Python; the grid's third axis does it in one "
            "launch."),
        Mistake("a view of a copy", {
            "batch, n_cols, n_rows, dtype": "batch, n_rows, n_cols, dtype",
            "cols[None, :] * n_rows + rows[:, None]": "rows[:, None] * n_cols + cols[None, :]",
            "    return out": "    return out.transpose(1, 2)",
        }, "wrong", "must be contiguous", "wrong strides in case 1",
            means="They return a transposed view: the shape is right, and the elements still lie "
            "in the old order."),
        Mistake("one matrix only", {"32), batch)": "32), 1)"}, "wrong", "At [1, 0, 0]",
            "wrong in case 1",
            means="They forget that the grid's third axis counts the matrices."),
        Mistake("rows where columns belong", {
            "cols[None, :] * n_rows + rows[:, None]": "rows[:, None] * n_cols + cols[None, :]",
        }, "wrong", "comes out if load and store use the same formula", "slip 1",
            means="They store with the formula of the load; transposing means that the two "
            "change places in one of them."),
        Mistake("the width for the height", {"cols[None, :] * n_rows": "cols[None, :] * n_cols"},
            "writes outside", "outside out_ptr",
            "writes outside out_ptr 4200 in case 1",
            means="They keep the input's row length for the output, whose rows are as long as "
            "the input is high."),
        Mistake("matrices a row apart", {
            "tl.program_id(axis=2) * n_rows * n_cols": "tl.program_id(axis=2) * n_cols",
        }, "race", "different values", "race stores in case 1",
            means="They step by a row; the next matrix begins after a whole one, rows times "
            "columns."),
        Mistake("a mask the wrong way round", {
            "(rows[:, None] < n_rows) & (cols[None, :] < n_cols)":
            "(rows[:, None] < n_cols) & (cols[None, :] < n_rows)",
        }, "reads outside", "outside x_ptr", "reads outside x_ptr 4200 in case 1",
            means="They exchange the limits along with the axes; the mask is about the input's "
            "rows and columns, as loaded."),
        Mistake("PyTorch does it", {"    return out": "    return x.transpose(1, 2).contiguous()"},
            "wrong", "copies with PyTorch", "PyTorch copies",
            means="They let .contiguous() move the elements, which is the very work that the "
            "kernel is for."),
    ],
    "count-sectors": [
        Mistake("a sector a thread", 32, "wrong", "two threads", "slip 1",
            means="They think that each thread fetches a sector of its own; two that are 16 "
            "bytes apart share one."),
        Mistake("neighbors", 2, "wrong", "8 apart", "slip 4",
            means="They count as if the elements lay side by side; they are 8 apart."),
        Mistake("bytes", 512, "wrong", "bytes", "slip 5",
            means="They stop at the bytes that the warp spans; the question is how many sectors "
            "of 32 that is."),
        Mistake("float32", 4, "wrong", "float16", "slip 3",
            means="They count neighboring float32 elements; here they are float16, and 8 apart."),
    ],
    "descriptor-limits": [
        Mistake("transposed", "a", "wrong", "(1, 64)", "a",
            means="They think that any strides will do, since a descriptor takes them; the last "
            "one must be 1."),
        Mistake("shifted by one", "b", "wrong", "4 bytes", "b",
            means="They think of the shape alone; the address must be a multiple of 16 bytes, "
            "and this one is 4 past."),
        Mistake("every second column", "d", "wrong", "(64, 2)", "d",
            means="They think that a stride of 2 can be described; the elements of a row must be "
            "neighbors."),
    ],
    "bias-and-gelu": [
        Mistake("the sum in 16 bits", {
            "    bias = tl.load(bias_ptr + cols, mask=cols < n_cols).to(tl.float32)":
            "    bias = tl.load(bias_ptr + cols, mask=cols < n_cols)",
            "t = tl.load(x_ptr + offsets, mask=mask).to(tl.float32) + bias[None, :]":
            "t = (tl.load(x_ptr + offsets, mask=mask) + bias[None, :]).to(tl.float32)",
        }, "wrong", "comes out if x + bias is rounded to 16 bits before the GELU", "slip 1",
            means="They convert after the addition; the sum has been rounded to 16 bits by then."),
        Mistake("the sum in bfloat16 for bfloat16 alone", {
            "+ bias[None, :]":
            "+ bias[None, :]\n"
            "    if x_ptr.dtype.element_ty == tl.bfloat16:\n"
            "        t = 2 * (t.to(tl.bfloat16) * 0.5).to(tl.float32)",
        }, "wrong", "It computes in bfloat16 (arith.mulf)", "16 bits",
            means="They think that a bfloat16 kernel should compute in bfloat16; only memory "
            "needs to be in 16 bits."),
        Mistake("the sum rounded to bfloat16", {
            "+ bias[None, :]":
            "+ bias[None, :]\n"
            "    if x_ptr.dtype.element_ty == tl.bfloat16:\n"
            "        t = t.to(tl.bfloat16).to(tl.float32)",
        }, "wrong", "It rounds to 16 bits and computes on", "16 bits",
            means="They round in between to match the input's type; rounding once, at the store, "
            "is closer."),
        Mistake("all in 16 bits", {".to(tl.float32)": ""},
            "does not compile", "tl.erf takes float32", "expected dtype but got",
            means="They think that all functions take 16 bits; erf is there for float32, which "
            "is the better choice anyway."),
        Mistake("the root of an integer", {"t * 0.7071067811865476": "t / tl.sqrt(2)"},
            "does not compile", "tl.sqrt takes floating-point numbers, and was given integers",
            "op operand must be floating point like but",
            means="They write the formula as it stands; in a kernel 2 is an integer, and tl.sqrt "
            "does not convert it."),
        Mistake("two kernels", SUM_THEN_GELU, "wrong", "bytes where", "bytes",
            means="They build it from two launches, as PyTorch would: the sum goes to memory and "
            "comes back."),
        Mistake("a bias for each row", {
            "bias_ptr + cols, mask=cols < n_cols": "bias_ptr + rows, mask=rows < n_cols",
            "bias[None, :]": "bias[:, None]",
        }, "wrong", "comes out if the bias has one number per row", "slip 5",
            means="They lay the bias along the rows; it has one number for each column."),
        Mistake("the bias unmasked", {"bias_ptr + cols, mask=cols < n_cols": "bias_ptr + cols"},
            "reads outside", "outside bias_ptr", "reads outside bias_ptr 70 in case 1",
            means="They mask the matrix and forget that the bias ends with the last column too."),
        Mistake("GELU by tanh", {
            "tl.erf(t * 0.7071067811865476)":
            "(2 * tl.sigmoid(1.5957691216 * (t + 0.044715 * t * t * t)) - 1)",
        }, "wrong", "comes out if GELU is approximated by tanh", "slip 2",
            means="They know GELU by the formula with tanh, which is an approximation; the "
            "exercise asks for erf."),
        Mistake("no bias", {" + bias[None, :]": ""},
            "wrong", "comes out if no bias is added", "slip 4",
            means="They load the bias and never use it."),
        Mistake("the other GELU", {
            "t / 2 * (1 + tl.erf(t * 0.7071067811865476))": "t * tl.sigmoid(1.702 * t)",
        }, "wrong", "comes out if GELU is approximated by a sigmoid", "slip 3",
            means="They know GELU by its sigmoid approximation; the exercise asks for the exact "
            "one, with erf."),
    ],
    "find-the-race": [
        Mistake("two stores to one element", {'cause = "b"': 'cause = "a"'},
            "wrong", "each stores to its own tile", "cause a",
            means="They know races as two stores to one place; a load of what another program "
            "stores is one too."),
        Mistake("the first row", {'cause = "b"': 'cause = "d"'}, "wrong", "`other` is 0", "cause d",
            means="They suspect the border, where the code looks unusual; it is masked, and "
            "right."),
        Mistake("still in place", {
            "out = torch.empty_like(x)": "out = x.clone()",
            "smooth_kernel[grid](x, out,": "smooth_kernel[grid](out, out,",
        }, "race", "nothing orders the two", "race load in case 1",
            means="They copy the input once, and then load from and store to the same tensor as "
            "before."),
        Mistake("a barrier", {
            "out = torch.empty_like(x)": "out = x.clone()",
            "smooth_kernel[grid](x, out,": "smooth_kernel[grid](out, out,",
            "    tl.store(out_ptr": "    tl.debug_barrier()\n    tl.store(out_ptr",
        }, "race", "nothing orders the two", "race load in case 1",
            means="They think that a barrier waits for all programs; it only waits for the warps "
            "of one."),
        Mistake("a row above row 0", {"mask=mask & (rows[:, None] > 0)": "mask=mask"},
            "reads outside", "outside", "reads outside x_ptr -70 in case 1",
            means="They forget that row 0 has no row above it: its address lies before the "
            "matrix."),
        Mistake("nothing for masked lanes", {", other=0.0": ""}, "wrong", "At [0, ",
            "wrong in case 1",
            means="They count on masked lanes being zero; without `other` they are undefined."),
    ],
    "transpose-by-descriptors": [
        Mistake("the tile not turned", {"tile.T": "tile"}, "wrong",
            "comes out if a tile is stored without .T", "slip 1",
            means="They exchange the coordinates of the tile and forget that its elements must "
            "change places too."),
        Mistake("the place not turned", {"[col, row], tile.T": "[row, col], tile.T"},
            "wrong", "never written", "wrong in case 1",
            means="They turn the tile and store it where it came from; its place is mirrored as "
            "well."),
        Mistake("numbers of tiles for rows", {
            "x_desc.load([row, col])": "x_desc.load([row // BLOCK, col // BLOCK])",
        }, "wrong", "must be a multiple of 16 bytes",
            "raised AssertionError block offset start must be aligned in case 1",
            means="They give a descriptor the number of a tile; it takes the tile's first row "
            "and column."),
        Mistake("tensors for descriptors", {
            "turn_kernel[grid](x_desc, out_desc,": "turn_kernel[grid](x, out,",
        }, "does not compile", "this is no tensor descriptor", "object has no attribute",
            means="They think that the kernel makes the descriptor of a tensor; the launcher "
            "does, and passes it in the tensor's place."),
        Mistake("by pointers", {
            "turn_kernel[grid](x_desc, out_desc, BLOCK=32)":
            "plain_kernel[grid](x, out, *x.shape, BLOCK=32)",
            "def turn(x):": """\
@triton.jit
def plain_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask)
    tl.store(out_ptr + cols[None, :] * n_rows + rows[:, None], x, mask=mask)


def turn(x):""",
        }, "wrong", "a tile goes by pointers", "by pointers",
            means="They fall back on the transpose they know; here the point is to let a "
            "descriptor do the addresses."),
    ],
}  # fmt: skip

OTHERS = {
    "every-pair": [
        Other("one load of two dimensions each", {
            "    x = tl.load(x_ptr + rows, mask=rows < m)":
            "    x = tl.load(x_ptr + rows[:, None], mask=rows[:, None] < m)",
            "    y = tl.load(y_ptr + cols, mask=cols < n)":
            "    y = tl.load(y_ptr + cols[None, :], mask=cols[None, :] < n)",
            "x[:, None] + y[None, :]": "x + y",
        }),
        Other("row by row, with a condition on a number in the mask", {
            "    x = tl.load(x_ptr + rows, mask=rows < m)  # [BLOCK_M]\n": "",
            "    mask = (rows[:, None] < m) & (cols[None, :] < n)\n"
            "    tl.store(out_ptr + rows[:, None] * n + cols[None, :], x[:, None] + y[None, :], "
            "mask=mask)":
            "    for i in range(BLOCK_M):\n"
            "        row = tl.program_id(axis=0) * BLOCK_M + i\n"
            "        x = tl.load(x_ptr + row, mask=row < m)\n"
            "        tl.store(out_ptr + row * n + cols, x + y, mask=(row < m) & (cols < n))",
        }),
        Other("expand_dims", {
            "rows[:, None] * n": "tl.expand_dims(rows, 1) * n",
            "x[:, None] + y": "tl.expand_dims(x, 1) + y",
        }),
    ],
    "any-view": [
        Other("another tile", {
            "BLOCK_M=32, BLOCK_N=32": "BLOCK_M=8, BLOCK_N=64",
            "x.shape[0], 32": "x.shape[0], 8",
            "x.shape[1], 32": "x.shape[1], 64",
        }),
        Other("times a half", {"x / 2": "0.5 * x"}),
        Other("a row a program", {
            "(triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))":
            "(x.shape[0], triton.cdiv(x.shape[1], 128))",
            "BLOCK_M=32, BLOCK_N=32": "BLOCK_M=1, BLOCK_N=128",
        }),
    ],
    "stack-of-transposes": [
        Other("another tile", {"32": "16"}),
        Other("the output's tile turned", {
            "    tl.store(out_ptr + start + cols[None, :] * n_rows + rows[:, None], x, mask=mask)":
            "    tl.store(out_ptr + start + cols[:, None] * n_rows + rows[None, :], "
            "tl.trans(x), mask=tl.trans(mask))",
        }),
    ],
    "count-sectors": [Other("an integer", 16), Other("a float", 16.0)],
    "descriptor-limits": [Other("a capital", "C"), Other("with spaces", " c ")],
    "bias-and-gelu": [
        Other("another order of operations", {
            "t / 2 * (1 + tl.erf(t * 0.7071067811865476))":
            "0.5 * (t + t * tl.erf(t / 1.4142135623730951))",
        }),
        Other("one dimension, and the column by a remainder", {
            "rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)":
            "flat = (tl.program_id(axis=0) * tl.num_programs(axis=1) + tl.program_id(axis=1)) * "
            "(BLOCK_M * BLOCK_N) + tl.arange(0, BLOCK_M * BLOCK_N)",
            "cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)":
            "cols = flat % n_cols",
            "offsets = rows[:, None] * n_cols + cols[None, :]": "offsets = flat",
            "mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)":
            "mask = flat < n_rows * n_cols",
            "mask=cols < n_cols": "mask=mask",
            "bias[None, :]": "bias",
        }),
        Other("converted at the store by hand", {
            "offsets, gelu, mask": "offsets, gelu.to(out_ptr.dtype.element_ty), mask",
        }),
    ],
    "find-the-race": [
        Other("one row per program", {
            "(triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 32))":
            "(x.shape[0], triton.cdiv(x.shape[1], 128))",
            "BLOCK_M=16, BLOCK_N=32": "BLOCK_M=1, BLOCK_N=128",
        }),
        Other("halves added", {"(x + above) / 2": "0.5 * x + 0.5 * above"}),
        Other("a copy to read from", {
            "    smooth_kernel[grid](x, out,":
            "    before = x.clone()\n    smooth_kernel[grid](before, out,",
        }),
    ],
    "transpose-by-descriptors": [
        Other("tl.trans", {"tile.T": "tl.trans(tile)"}),
        Other("tiles of 16 x 16", {"32": "16"}),
    ],
}  # fmt: skip
