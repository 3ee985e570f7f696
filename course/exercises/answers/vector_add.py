"""The usual mistakes on the topic "vector add", and other right answers."""

import numpy as np

from . import Mistake, Other

MISTAKES = {
    "fill-a-vector": [
        Mistake("the last program is believed to stop", {", mask=offsets < n_elements": ""},
            "writes outside", "at [300]", "writes outside out_ptr 300 in case 1",
            means="They think that launching cdiv programs is enough; the last one still has a "
            "whole block of lanes."),
        Mistake("an if for a mask", {
            "    tl.store(out_ptr + offsets, value, mask=offsets < n_elements)":
            "    if offsets < n_elements:\n"
            "        tl.store(out_ptr + offsets, value)",
        }, "does not compile", "if offsets < n_elements:",
            "boolean value of tensor with more than one",
            means="They think of one element a program; a block of offsets gives a block of "
            "answers, which only a mask can hold."),
        Mistake("every program fills the first block", {"pid * BLOCK_SIZE + ": ""},
            "wrong", "At [128]", "wrong in case 1",
            means="They forget that all programs run the same lines: only the program's number "
            "tells them apart."),
        Mistake("a step of one element", {"pid * BLOCK_SIZE": "pid"}, "wrong", "was never written",
            "wrong in case 1",
            means="They take the program's number for its first element; the number counts "
            "blocks, not elements."),
        Mistake("one too many", {"offsets < n_elements": "offsets <= n_elements"},
            "writes outside", "at [300]", "writes outside out_ptr 300 in case 1",
            means="They count n_elements as the last valid offset; it is the first one outside."),
        Mistake("a load of the number", {"offsets, value,": "offsets, tl.load(value),"},
            "does not compile", "tl.load takes a pointer, and this is a value of type",
            "unsupported ptr type in",
            means="They load every argument; a number is passed as it is, and no pointer leads "
            "to it."),
        Mistake("one block size alone", {
            "pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)": "pid * 128 + tl.arange(0, 128)",
        }, "wrong", "never written", "wrong in case 5",
            means="They take 128 for a fact, where BLOCK_SIZE is whatever the launch says."),
        Mistake("every program fills everything", {
            "    tl.store(out_ptr + offsets, value, mask=offsets < n_elements)":
            "    for start in range(0, n_elements, BLOCK_SIZE):\n"
            "        each = start + tl.arange(0, BLOCK_SIZE)\n"
            "        tl.store(out_ptr + each, value, mask=each < n_elements)",
        }, "wrong", "bytes where", "bytes",
            means="They see the right values and no harm; every program writes the whole vector, "
            "so the work grows as its square."),
        Mistake("offsets that wrap around", {
            "pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)":
            "(pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)) % n_elements",
            ", mask=offsets < n_elements": "",
        }, "wrong", "84 elements are written by more than one program", "shared elements",
            means="They let the last program begin again at 0 in place of a mask: it writes what "
            "program 0 owns."),
        Mistake("one element after the other", {
            "    tl.store(out_ptr + offsets, value, mask=offsets < n_elements)":
            "    for i in range(BLOCK_SIZE):\n"
            "        tl.store(out_ptr + pid * BLOCK_SIZE + i, value,\n"
            "                 mask=pid * BLOCK_SIZE + i < n_elements)",
        }, "wrong", "goes through the elements one by one", "one by one",
            means="They write a program as a loop; its block is the loop, and all lanes run it at "
            "once."),
        Mistake("a length of the lesson's in the mask", {
            "offsets < n_elements)": "(offsets < n_elements) & (offsets < 1024))",
        }, "wrong", "At [1024]", "wrong in case 5",
            means="They put a length that they have seen into the mask; a vector may be longer."),
        Mistake("the value in float16", {
            "offsets, value,": "offsets, tl.full([BLOCK_SIZE], value, tl.float16),",
        }, "wrong", "something is rounded to 16 bits on the way", "float16",
            means="They give the block any type; float16 rounds the value before it reaches a "
            "float32 vector."),
        Mistake("the value as a pointer", {
            "out_ptr + offsets, value": "out_ptr + offsets, tl.load(value)",
        }, "does not compile", "", "unsupported ptr type in",
            means="They think that every argument arrives as a pointer; a number is passed as "
            "itself."),
    ],
    "scale-and-shift": [
        Mistake("a is a Python global", {
            "a * x + b": "A * x + b",
            "@triton.jit": "A = 2.0\n\n\n@triton.jit",
        }, "does not compile", "Cannot access global variable A",
            "cannot access global variable a from within jit",
            means="They expect a kernel to read Python's globals as a function does; it is "
            "compiled once, and takes arguments."),
        Mistake("a grid that rounds down", {"triton.cdiv(x.numel(), 1024)": "x.numel() // 1024"},
            "wrong", "At [1024]", "wrong in case 1",
            means="They divide and forget the rest: the elements after the last whole block have "
            "no program."),
        Mistake("a mask on the load only", {"a * x + b, mask=mask": "a * x + b"},
            "writes outside", "outside out_ptr",
            "writes outside out_ptr 1025 in case 1",
            means="They think that a masked load takes the lane out of the program; the store "
            "still writes in every lane."),
        Mistake("a mask on the store only", {"x_ptr + offsets, mask=mask": "x_ptr + offsets"},
            "reads outside", "outside x_ptr", "reads outside x_ptr 1025 in case 1",
            means="They think that only writes can do harm; a read past the end is outside too, "
            "and may end the process."),
        Mistake("strides forgotten", {"    x = x.contiguous()\n": ""},
            "reads outside", "x_ptr has gaps, its elements are 2 apart",
            "reads outside x_ptr 1 in case 7",
            means="They think that a tensor's elements always lie side by side; a slice with a "
            "step is a view of a longer one."),
        Mistake("a and b swapped", {"x, out, a, b": "x, out, b, a"},
            "wrong", "comes out if a and b change places", "slip 1",
            means="They trust the names; positional arguments go by their place alone."),
        Mistake("b added first", {"a * x + b": "a * (x + b)"},
            "wrong", "comes out if b is added before a multiplies", "slip 2",
            means="They read the formula from left to right by hand and bracket the wrong pair."),
        Mistake("PyTorch does it", {"    return out": "    return a * x + b"},
            "wrong", "It computes with PyTorch (mul, add)", "PyTorch computes mul, add",
            means="They check the result and not who computed it: the kernel's output is never "
            "returned."),
        Mistake("a program for each element", {"(triton.cdiv(x.numel(), 1024),)": "(x.numel(),)"},
            "wrong", "It starts 1,025 programs where 2 blocks of 1,024 elements would do",
            "wrong 1025 programs in case 1",
            means="They think of a program as a CUDA thread; a program owns a whole block, and "
            "the grid counts blocks."),
        Mistake("a program for each element, of one lane", {"1024": "1"},
            "wrong", "It starts 1,025 programs where 2 blocks", "wrong 1025 programs in case 1",
            means="They use Triton as if it were one thread an element; a program of one lane "
            "leaves the rest of its warp idle."),
        Mistake("a launch for each element", {
            "    affine_kernel[grid](x, out, a, b, x.numel(), BLOCK_SIZE=1024)":
            "    for i in range(x.numel()):\n"
            "        affine_kernel[(1,)](x[i:], out[i:], a, b, 1, BLOCK_SIZE=1)",
        }, "wrong", "It starts 257 programs in 257 launches where 2 blocks",
            "wrong 257 programs in case 1",
            means="They take a launch for a function call; each costs microseconds, more than "
            "thousands of elements."),
        Mistake("offsets that wrap around", {
            "    mask = offsets < n_elements":
            "    offsets %= n_elements\n    mask = offsets >= 0",
        }, "wrong", "1,023 elements are written by more than one program", "shared elements",
            means="They let the last program begin again at 0 in place of a mask: it writes what "
            "program 0 owns."),
        Mistake("far too many programs, caught", {
            "    affine_kernel[grid](x, out, a, b, x.numel(), BLOCK_SIZE=1024)":
            "    try:\n"
            "        affine_kernel[(10**6,)](x, out, a, b, x.numel(), BLOCK_SIZE=1024)\n"
            "    except Exception:\n"
            "        pass",
        }, "wrong", "It starts 1,000,000 programs", "wrong 1000000 programs in case 1",
            means="They hide an error instead of asking why the grid was refused."),
        Mistake("programs without an element", {
            "(triton.cdiv(x.numel(), 1024),)": "(triton.cdiv(x.numel(), 16),)",
        }, "wrong", "of 313 programs 5 had", "idle programs",
            means="They change the block size in one place; grid and kernel must agree on it, or "
            "most programs find nothing to do."),
        Mistake("a grid of 32 programs", {"(triton.cdiv(x.numel(), 1024),)": "(32,)"},
            "wrong", "At [32768]", "wrong in case 3",
            means="They sized the grid for the vectors they tried; it must follow from the "
            "length."),
        Mistake("a grid of 256 programs", {"(triton.cdiv(x.numel(), 1024),)": "(256,)"},
            "wrong", "At [262144]", "wrong in case 3",
            means="They think that a generous grid is enough for any length; some vector is "
            "always longer."),
        Mistake("one program of 8,192", {"(triton.cdiv(x.numel(), 1024),)": "(1,)", "1024": "8192"},
            "wrong", "At [8192]", "wrong in case 3",
            means="They think that a large block does away with the grid; it covers its own size "
            "and no more."),
        Mistake("a promise of the pointers", {
            "tl.load(x_ptr + offsets": "tl.load(tl.multiple_of(x_ptr + offsets, 16)",
        }, "false promise",
            "Program 0 promises by tl.multiple_of that an address is a multiple of 16 bytes, "
            "and it lies 4 past one", "false promise in case 8",
            means="They think that tl.multiple_of aligns an address; it only tells the compiler, "
            "and must be true."),
        Mistake("more threads than there are", {"BLOCK_SIZE=1024": "BLOCK_SIZE=1024, num_warps=64"},
            "does not compile", "2,048 threads", "too large",
            means="They think that more warps are always faster; a program may have 1,024 "
            "threads at most."),
        Mistake("a misspelt option", {"BLOCK_SIZE=1024": "BLOCK_SIZE=1024, num_wraps=8"},
            "does not compile", "num_wraps", "KeyError",
            means="They expect an unknown option to be ignored: it is taken for an argument of "
            "the kernel."),
        Mistake("numpy does it first", {
            "    # about 2 lines":
            "    x = torch.from_numpy(a * x.numpy() + b)\n"
            "    a, b = 1.0, 0.0\n"
            "    # about 2 lines",
        }, "wrong", "numpy", "PyTorch computes numpy",
            means="They compute on the CPU and let the kernel copy: the values are right, and "
            "nothing was learnt."),
        Mistake("numpy does it", {
            "    return out": "    return torch.from_numpy(a * x.numpy() + b)",
        }, "wrong", "numpy", "PyTorch computes numpy",
            means="They compute the result beside the kernel; what the kernel stored is thrown "
            "away."),
        Mistake("a refusal by the compiler that is caught", {
            "a * x + b": "[a * x + b for _ in range(1)][0]",
            "    affine_kernel[grid]": "    try:\n        affine_kernel[grid]",
            "BLOCK_SIZE=1024)":
            "BLOCK_SIZE=1024)\n"
            "    except Exception:\n"
            "        pass",
        }, "does not compile", "comprehension", "only tuple comprehensions are supported",
            means="They take Triton for all of Python; comprehensions are not in it, and "
            "catching the error changes nothing."),
        Mistake("arguments in the wrong order", {"(x, out, a, b, ": "(out, x, a, b, "},
            "wrong", "It changed its input x, which the kernel calls out_ptr",
            "wrong input 0 in case 1",
            means="They trust the names; positional arguments go by their place alone."),
        Mistake("a grid that is a number", {
            "(triton.cdiv(x.numel(), 1024),)": "triton.cdiv(x.numel(), 1024)",
        }, "wrong", "the grid is a number, and must be a tuple",
            "raised TypeError object of type has no in case 1",
            means="They think that one axis needs no tuple; a grid is a tuple, of one number if "
            "need be."),
    ],
    "reversed-vector": [
        Mistake("based at n", {"n_elements - 1 - offsets": "n_elements - offsets"},
            "reads outside", "at [300]", "reads outside x_ptr 300 in case 1",
            means="They reverse to n - i; the last element is n - 1."),
        Mistake("bytes for elements", {"- 1 - offsets": "- 1 - 4 * offsets"},
            "reads outside", "at [-", "reads outside x_ptr -1 in case 1",
            means="They count in bytes, as C programmers do with char pointers; Triton's offsets "
            "count elements."),
        Mistake("no mask on the load", {"- offsets, mask=mask": "- offsets"},
            "reads outside", "at [-1]", "reads outside x_ptr -1 in case 1",
            means="They mask the store and forget that lanes past the end read at negative "
            "offsets here."),
        Mistake("forwards", {"x_ptr + n_elements - 1 - offsets": "x_ptr + offsets"},
            "wrong", "comes out if nothing is reversed", "slip 1",
            means="They wrote a copy: the input's index is the one that must run backwards."),
        Mistake("each block reversed where it is", {
            "n_elements - 1 - offsets":
            "tl.program_id(axis=0) * BLOCK_SIZE + BLOCK_SIZE - 1 - tl.arange(0, BLOCK_SIZE)",
        }, "reads outside", "Program 2 read outside x_ptr",
            "reads outside x_ptr 383 in case 1",
            means="They reverse inside each block; the blocks change places too."),
    ],
    "every-other-backwards": [
        Mistake("one result too few", {"(x.numel() + 1) // 2": "x.numel() // 2"},
            "wrong", "The result has shape (512,)", "wrong shape in case 1",
            means="They halve the length; of an odd number of elements the middle one is taken "
            "as well."),
        Mistake("based at n", {"n_elements - 1 - 2": "n_elements - 2"},
            "reads outside", "at [1025]", "reads outside x_ptr 1025 in case 1",
            means="They count the last element as n; it is n - 1."),
        Mistake("from the front", {"x_ptr + n_elements - 1 - 2": "x_ptr + 2"},
            "wrong", "comes out if it begins at the front", "slip 2",
            means="They do one of the two things that are asked, every second element, and "
            "forget to go backwards."),
        Mistake("every element", {"2 * offsets": "offsets"}, "wrong",
            "comes out if no element is left out: it takes them", "slip 1",
            means="They forget that a step of two in the input is a factor of two on the offsets."),
        Mistake("reversed by PyTorch", {
            "    out = None": "    x = x.flip(0)\n    out = None",
            "n_elements - 1 - 2": "2",
        }, "wrong", "PyTorch (flip)", "PyTorch computes flip",
            means="They think that a view is free: PyTorch's flip copies, since strides cannot "
            "be negative there."),
        Mistake("copied by PyTorch", {"    out = None": "    x = x[::1].clone()\n    out = None"},
            "wrong", "It copies with PyTorch", "PyTorch copies",
            means="They think that a kernel needs its input prepared; it can read any element it "
            "can address."),
        Mistake("no kernel", {"    return out": "    return torch.flip(x, (0,))[::2].contiguous()"},
            "wrong", "PyTorch (flip)", "PyTorch computes flip",
            means="They solved it in PyTorch; the exercise is about who moves the elements."),
        Mistake("a grid of 5 programs", {"(triton.cdiv(n_out, 512),)": "(5,)"},
            "wrong", "At [2560]", "wrong in case 3",
            means="They made the grid for one length; it must follow from the number of results."),
        Mistake("a grid of 256 programs", {"(triton.cdiv(n_out, 512),)": "(256,)"},
            "wrong", "At [131072]", "wrong in case 3",
            means="They think that a generous grid is enough; a longer vector is left out at the "
            "end."),
        Mistake("the input's mask", {"offsets < n_out": "offsets < n_elements"},
            "reads outside", "outside x_ptr", "reads outside x_ptr -2 in case 1",
            means="They mask by the input's length; the lanes are results, of which there are "
            "half as many."),
    ],
    "count-bytes": [
        Mistake("one way", 2 * 2**26 / 1e6, "wrong", "read, and the result is written", "slip 1",
            means="They count what is read and forget what is written: both cross the same "
            "memory."),
        Mistake("float32", 2 * 4 * 2**26 / 1e6, "wrong", "A bfloat16 has 2 bytes", "slip 3",
            means="They take every element for four bytes; a bfloat16 has two."),
        Mistake("three vectors", 402.65, "wrong", "only x is read", "slip 2",
            means="They count a and b as vectors, as in an addition; they are two numbers."),
        Mistake("MiB", 256, "wrong", "10^6", "slip 4",
            means="They divide by 2^20; a megabyte is 10^6 bytes, as in the GPU's data sheet."),
        Mistake("gigabytes", 0.268, "wrong", "power of ten", "power of ten",
            means="Their count is right and the unit is not: a thousand MB are a GB."),
        Mistake("another unit", "268 KB", "wrong", "power of ten", "power of ten",
            means="They have the digits and take a thousand bytes for a million."),
    ],
    "least-time": [
        Mistake("three vectors", 47.37, "wrong", "One vector is missing", "slip 1",
            means="They count the operands; the result is a fourth vector to be moved."),
        Mistake("seconds", 6.3e-5, "wrong", "power of ten", "power of ten",
            means="Their sum is right and stays in seconds; a microsecond is a millionth of one."),
        Mistake("two kernels", 94.7, "wrong", "two kernels", "slip 3",
            means="They think of PyTorch's two additions; one kernel keeps the first sum in "
            "registers."),
        Mistake("a guess", 50.0, "wrong", "too small", "too small",
            means="They guess a speed; bytes over bandwidth gives the least time."),
        Mistake("a negative time", -63.2, "wrong", "above zero", "not positive",
            means="Something was subtracted the wrong way round: no time is below zero."),
    ],
    "what-takes-time": [
        Mistake("the cache", "a", "wrong", "faster to reach", "a",
            means="They hold the cache to be something one must fill; what fits in it is faster "
            "to reach."),
        Mistake("few programs", "b", "wrong", "4,096 elements", "b",
            means="They blame the grid; then 4,096 elements, in four programs, would take far "
            "less time."),
        Mistake("compiled again", "d", "wrong", "first call only", "d",
            means="They think that each call compiles; the compiled kernel is kept after the "
            "first one."),
    ],
    "very-long-vector": [
        Mistake("32 bits", "i32", "wrong", "2,147,483,647", "slip 1",
            means="They expect every Python int to be an i32; one that does not fit becomes an "
            "i64."),
        Mistake("a long name", "int64", "wrong", "shorter", "slip 3",
            means="They write PyTorch's name of the type; Triton's is shorter."),
        Mistake("a pointer", "*i64", "wrong", "The star is for a pointer", "slip 5",
            means="They take an argument for a pointer; the star says that it is one, and a "
            "length is a number."),
        Mistake("a number", 64, "no answer", "must be a text",
            means="They answer with the number of bits; the question is for the type's name."),
    ],
    "which-fall": [
        Mistake("many registers are bad", "a", "wrong", "Registers are there to be used", "a",
            means="They count registers as a cost; a register that nobody needs costs nothing."),
        Mistake("any spill is the cause", "c", "wrong", "which is one register", "c",
            means="They take any spill for the cause, without asking how much is spilled."),
        Mistake("full occupancy is full speed", "d", "wrong", "how many warps fit", "d",
            means="They take occupancy for a grade; it only says how many warps fit."),
    ],
    "gate-in-one-pass": [
        Mistake("computed in PyTorch beside the kernel", {
            " if out is None else out": "",
        }, "wrong", "It computes with PyTorch (sigmoid, mul)", "PyTorch computes sigmoid, mul",
            means="They wrote the kernel and return PyTorch's result: what the kernel stored is "
            "never looked at."),
        Mistake("the sigmoid from PyTorch", {
            "    out = torch.empty_like(gate)": "    gate = gate * torch.sigmoid(gate)\n"
            "    out = torch.empty_like(gate)",
            "gate * tl.sigmoid(gate) * up": "gate * up",
        }, "wrong", "It computes with PyTorch (sigmoid, mul)", "PyTorch computes sigmoid, mul",
            means="They fuse the last product alone; the first two operations still go through "
            "memory."),
        Mistake("two launches", {
            "    # to here\n    return":
            "    swiglu_kernel[grid](gate, up, out, out.numel(), BLOCK_SIZE=1024)\n"
            "    # to here\n    return",
        }, "wrong", "it took 2 launches where 1 will do", "launches",
            means="They launch a second time, perhaps to warm up; every launch goes through "
            "memory again."),
        Mistake("sigmoid without the gate", {
            "gate * tl.sigmoid(gate) * up": "tl.sigmoid(gate) * up",
        }, "wrong", "comes out if the sigmoid is not multiplied by the gate", "slip 1",
            means="They wrote a sigmoid gate; SwiGLU multiplies by the gate's own value as well."),
        Mistake("gate and up swapped", {"gate, up, out, out": "up, gate, out, out"},
            "wrong", "comes out if gate and up change places", "slip 2",
            means="They trust the names; positional arguments go by their place alone."),
        Mistake("no conversion", {".to(tl.float32)": ""},
            "does not compile", "fp16", "expected dtype but got",
            means="They think that functions take any type; exp and sigmoid take float32 and "
            "float64 alone."),
        Mistake("rounded before the product", {
            "gate * tl.sigmoid(gate) * up":
            "(gate * tl.sigmoid(gate)).to(out_ptr.dtype.element_ty) * up",
        }, "wrong", "901 float16", "wrong in case 6",
            means="They convert back early, as three kernels would; each conversion to float16 "
            "rounds."),
        Mistake("strides forgotten", {
            "    gate, up = gate.contiguous(), up.contiguous()\n": "",
        }, "reads outside", "every second element",
            "reads outside gate_ptr 1 in case 5",
            means="They think that a tensor's elements always lie side by side; a slice with a "
            "step is a view of a longer one."),
        Mistake("only the gate contiguous", {
            "gate, up = gate.contiguous(), up.contiguous()": "gate = gate.contiguous()",
        }, "reads outside", "every second element",
            "reads outside up_ptr 1 in case 8",
            means="They mend the vector that failed first; the other one may be a view as well."),
        Mistake("exp of the gate", {
            "gate * tl.sigmoid(gate) * up": "gate * tl.exp(gate) / (1 + tl.exp(gate)) * up",
        }, "wrong", "far apart", "wrong in case 9",
            means="They write the sigmoid as exp(x) / (1 + exp(x)); from 89 on both are infinite."),
        Mistake("no mask on the store", {"* up, mask=mask": "* up"},
            "writes outside", "", "writes outside out_ptr 1025 in case 1",
            means="They think that lanes masked at the load stay masked; each store needs its "
            "own mask."),
        Mistake("the gate loaded twice", {
            "    up = tl.load":
            "    gate = tl.load(gate_ptr + offsets, mask=mask).to(tl.float32)\n    up = tl.load",
        }, "wrong", "bytes where", "bytes",
            means="They load again what they have: a value that was loaded stays in registers."),
    ],
}  # fmt: skip

OTHERS = {
    "fill-a-vector": [
        Other("the number of the program in the last place", {
            "pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)":
            "tl.arange(0, BLOCK_SIZE) + BLOCK_SIZE * pid",
        }),
        Other("a block of the value", {
            "offsets, value,": "offsets, tl.full((BLOCK_SIZE,), 0.0, tl.float32) + value,",
        }),
        Other("the last element written by several lanes", {
            "    tl.store(out_ptr + offsets, value, mask=offsets < n_elements)":
            "    tl.store(out_ptr + tl.minimum(offsets, n_elements - 1), value)",
        }),
    ],
    "scale-and-shift": [
        Other("another block size", {"1024": "64"}),
        Other("a small block size", {"1024": "16"}),
        Other("a grid that is a list", {
            "(triton.cdiv(x.numel(), 1024),)": "[triton.cdiv(x.numel(), 1024)]",
        }),
        Other("one block of whatever size", {"1024": "triton.next_power_of_2(x.numel())"}),
        Other("as many programs always, in a loop", {
            "    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)\n": "",
            "    mask = offsets < n_elements\n"
            "    x = tl.load(x_ptr + offsets, mask=mask)\n"
            "    tl.store(out_ptr + offsets, a * x + b, mask=mask)":
            "    for start in range(tl.program_id(axis=0) * BLOCK_SIZE, n_elements, "
            "tl.num_programs(axis=0) * BLOCK_SIZE):\n"
            "        offsets = start + tl.arange(0, BLOCK_SIZE)\n"
            "        mask = offsets < n_elements\n"
            "        tl.store(out_ptr + offsets, a * tl.load(x_ptr + offsets, mask=mask) + b, "
            "mask=mask)",
            "(triton.cdiv(x.numel(), 1024),)": "(132,)",
        }),
        Other("promises that hold", {
            "tl.load(x_ptr + offsets":
            "tl.load(x_ptr + tl.max_contiguous(tl.multiple_of(offsets, 1024), 1024)",
            "    mask = offsets": "    tl.assume(n_elements > 0)\n    mask = offsets",
        }),
        Other("a block size with a default", {
            "x, a, b):": "x, a, b, block=512):",
            "1024": "block",
        }),
        Other("a global device and sizes", {
            "@triton.jit":
            "device = torch.device(DEVICE)\n"
            'SIZES = {"block": 256}\n'
            "\n"
            "\n"
            "@triton.jit",
            "torch.empty_like(x)": "torch.empty(x.shape, device=device)",
            "1024": 'SIZES["block"]',
        }),
        Other("without gradients", {"def affine(x": "@torch.no_grad()\ndef affine(x"}),
        Other("the block as two dimensions", {
            "    mask = offsets < n_elements":
            "    offsets = tl.reshape(offsets, (4, BLOCK_SIZE // 4))\n"
            "    mask = offsets < n_elements",
        }),
        Other("a grid that follows the block size", {
            "(triton.cdiv(x.numel(), 1024),)":
            'lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]),)',
        }),
        Other("strides, and no copy", {
            "    x = x.contiguous()\n    out = torch.empty_like(x)":
            "    out = torch.empty(x.shape, device=x.device)",
            "x, out, a, b, x.numel(), ": "x, out, a, b, x.numel(), x.stride(0), ",
            "n_elements, BLOCK_SIZE": "n_elements, stride, BLOCK_SIZE",
            "x_ptr + offsets": "x_ptr + offsets * stride",
        }),
        Other("a helper, and a constant", {
            "@triton.jit":
            "SCALE = tl.constexpr(1.0)\n"
            "\n"
            "\n"
            "@triton.jit\n"
            "def line(x, a, b):\n"
            "    return SCALE * (b + x * a)\n"
            "\n"
            "\n"
            "@triton.jit",
            "a * x + b": "line(x, a, b)",
        }),
    ],
    "reversed-vector": [
        Other("a number of warps", {
            "@triton.jit":
            "@triton.autotune([triton.Config({}, num_warps=w) for w in (2, 4)], "
            'key=["n_elements"])\n'
            "@triton.jit",
        }),
        Other("a loop over the lanes' far end", {
            "n_elements - 1 - offsets": "(n_elements - (offsets + 1))",
        }),
        Other("stored backwards", {
            "x_ptr + n_elements - 1 - offsets": "x_ptr + offsets",
            "out_ptr + offsets": "out_ptr + (n_elements - 1 - offsets)",
        }),
    ],
    "every-other-backwards": [
        Other("another block size", {"512": "128"}),
        Other("half of the elements switched off", {
            "    mask = offsets < n_out":
            "    back = n_elements - 1 - 2 * offsets\n"
            "    mask = back >= 0",
            "x_ptr + n_elements - 1 - 2 * offsets": "x_ptr + back",
        }),
    ],
    "count-bytes": [
        Other("rounded", 268),
        Other("exact", 268.435456),
        Other("of numpy", np.float64(268.4)),
    ],
    "least-time": [Other("rounded", 63), Other("exact", 63.161)],
    "what-takes-time": [Other("a capital", "C"), Other("in parentheses", " (c) ")],
    "very-long-vector": [
        Other("the whole line", "n_elements: i64"),
        Other("all that it shows", "i64, divisible by 16"),
        Other("a capital", "I64"),
    ],
    "which-fall": [Other("a capital", "B"), Other("in parentheses", "(b)")],
    "gate-in-one-pass": [
        Other("the sigmoid written out", {
            "gate * tl.sigmoid(gate) * up": "gate / (1 + tl.exp(-gate)) * up",
        }),
        Other("a helper", {
            "@triton.jit":
            "@triton.jit\n"
            "def silu(x):\n"
            "    x = x.to(tl.float32)\n"
            "    return x * tl.sigmoid(x)\n"
            "\n"
            "\n"
            "@triton.jit",
            ".to(tl.float32)\n    up": "\n    up",
            "gate * tl.sigmoid(gate) * up": "silu(gate) * up",
        }),
        Other("strides, and no copy", {
            "    gate, up = gate.contiguous(), up.contiguous()\n": "",
            "torch.empty_like(gate)": "torch.empty(len(gate), dtype=gate.dtype, device=DEVICE)",
            "out.numel(), BLOCK_SIZE": "out.numel(), gate.stride(0), up.stride(0), BLOCK_SIZE",
            "n_elements, BLOCK_SIZE": "n_elements, gate_stride, up_stride, BLOCK_SIZE",
            "gate_ptr + offsets": "gate_ptr + offsets * gate_stride",
            "up_ptr + offsets": "up_ptr + offsets * up_stride",
        }),
        Other("a smaller block and a grid that follows it", {
            "(triton.cdiv(out.numel(), 1024),)":
            'lambda meta: (triton.cdiv(out.numel(), meta["BLOCK_SIZE"]),)',
            "BLOCK_SIZE=1024": "BLOCK_SIZE=256",
        }),
    ],
}  # fmt: skip
