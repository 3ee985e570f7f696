"""The usual mistakes in lesson 09, and other right answers."""

from . import Mistake, Other

FOUR = "gl.BlockedLayout([4], [32], [4], [0])"
PHASE = "phase = (i // SLOTS) & 1\n        # to here"
READ = "total += buffers.index(slot).load(layout).to(gl.float32)\n        fence_async_shared()\n"
GIVEN_BACK = "        mbarrier.arrive(empty.index(slot), count=1)\n"
WAITED = "        acc = warpgroup_mma_wait(0, deps=[acc])\n"
CONSUMED = (
    "        mbarrier.wait(full.index(slot), phase)\n"
    "        total += buffers.index(slot).load(layout).to(gl.float32)\n"
)

MISTAKES = {
    "09.1": [
        Mistake("one element per thread", {FOUR: "gl.BlockedLayout([1], [32], [4], [0])"},
            "wrong", "no load of the compiled kernel moves 16 bytes",
            means="They take the run of a warp for what a thread loads; a thread loads its own "
            "neighbors, and here it has none."),
        Mistake("two elements per thread", {FOUR: "gl.BlockedLayout([2], [32], [4], [0])"},
            "wrong", "no load of the compiled kernel moves 16 bytes",
            means="They count two bytes per element; a float32 has four."),
        Mistake("warps of another number", {FOUR: "gl.BlockedLayout([4], [32], [8], [0])"},
            "does not compile", "",
            means="They change the number of warps with the layout; it is the launch that says "
            "how many warps there are."),
    ],
    "09.2": [
        Mistake("the parity of the tile", {PHASE: "phase = i & 1\n        # to here"},
            "hazard", "An early read",
            means="They let the phase change with each tile; a barrier belongs to a buffer, and "
            "ends a phase once per round."),
        Mistake("the round itself", {PHASE: "phase = i // SLOTS\n        # to here"},
            "hazard", "a phase is 0 or 1, so take & 1",
            means="They number the phases on and on; the hardware keeps one bit of the number."),
        Mistake("the other parity", {PHASE: "phase = ((i // SLOTS) & 1) ^ 1\n        # to here"},
            "hazard", "An early read",
            means="They take the producer's phase; whoever waits for data waits for the phase that "
            "the data end."),
        Mistake("the buffer's number", {PHASE: "phase = slot & 1\n        # to here"},
            "hazard", "An early read",
            means="They mix up the buffer and the round."),
    ],
    "09.3": [
        Mistake("no arrival", {READ + GIVEN_BACK: READ},
            "deadlock", "A missing arrive, a wait for the wrong phase",
            means="They do not give the buffer back: the producer waits forever in the second "
            "round."),
        Mistake("no wait", {CONSUMED: CONSUMED.split("\n", 1)[1]},
            "hazard", "An early read",
            means="They think that the copy is done when it has been asked for."),
        Mistake("the producer's phase",
            {"        mbarrier.wait(full.index(slot), phase)":
                "        mbarrier.wait(full.index(slot), phase ^ 1)"},
            "hazard", "An early read",
            means="They copy the producer's line; the consumer waits for the phase under way, and "
            "the producer for the one before."),
        Mistake("no fence", {READ: READ.replace("        fence_async_shared()\n", "")},
            "hazard", "A missing fence",
            means="They take the arrival for an order of everything; between threads and the copy "
            "engine a fence makes it."),
        Mistake("given back before it is read",
            {READ + GIVEN_BACK: "fence_async_shared()\n" + GIVEN_BACK + "        "
                + READ.replace("        fence_async_shared()\n", "")},
            "hazard", "An early read",
            means="They give the buffer back first; the producer may overwrite it at once."),
        Mistake("always the first buffer's barrier",
            {READ + GIVEN_BACK: READ + GIVEN_BACK.replace("slot", "0")},
            "deadlock", "A missing arrive, a wait for the wrong phase",
            means="They arrive at the barrier of one buffer for all of them."),
    ],
    "09.4": [
        Mistake("no wait", {WAITED: ""},
            "does not compile", "Loop carried variable acc changed type",
            means="They think that a product is done when it was started. Gluon gives a product "
            "under way a type of its own, so here the compiler notices."),
        Mistake("one product left running", {WAITED: WAITED.replace("wait(0", "wait(1")},
            "hazard", "An early refill",
            means="They leave this round's product under way, and fill its buffers again."),
        Mistake("the value thrown away", {WAITED: WAITED.replace("acc = ", "")},
            "does not compile", "Loop carried variable acc changed type",
            means="They wait and keep the old name; the value is what the wait returns."),
        Mistake("nothing added up",
            {"acc, is_async=True)": "acc, use_acc=False, is_async=True)"},
            "wrong", "",
            means="They start from zero in each round; the accumulator is what the product is "
            "added to."),
    ],
    "09.5": [
        Mistake("one arrival is enough",
            {"mbarrier.init(empty.index(each), count=2)":
                "mbarrier.init(empty.index(each), count=1)"},
            "deadlock", "A missing arrive, a wait for the wrong phase",
            means="They count barriers and not consumers: the first one to be done gives the "
            "buffer back for both."),
        Mistake("no arrival", {WAITED + GIVEN_BACK: WAITED},
            "deadlock", "A missing arrive, a wait for the wrong phase",
            means="They forget to give the buffer back."),
        Mistake("an arrival before the product has ended",
            {WAITED + GIVEN_BACK: GIVEN_BACK + WAITED},
            "hazard", "An early refill",
            means="They give the buffer back when the product is started; the tensor cores still "
            "read it."),
        Mistake("the same half twice",
            {"(multiply, (out_ptr, a, b, full, empty, tiles, 1))":
                "(multiply, (out_ptr, a, b, full, empty, tiles, 0))"},
            "wrong", "",
            means="They start the first consumer twice; half of the result is never written."),
    ],
}  # fmt: skip

OTHERS = {
    "09.1": [
        Other("eight elements per thread", {FOUR: "gl.BlockedLayout([8], [32], [4], [0])"}),
        Other("named parts", {FOUR: "gl.BlockedLayout(size_per_thread=[4], threads_per_warp=[32], "
            "warps_per_cta=[4], order=[0])"}),
    ],
    "09.2": [
        Other("a remainder", {PHASE: "phase = i // SLOTS % 2\n        # to here"}),
        Other("of twice the ring", {PHASE: "phase = i % (2 * SLOTS) // SLOTS\n        # to here"}),
    ],
    "09.3": [
        Other("read into a name",
            {"total += buffers.index(slot).load(layout).to(gl.float32)":
                "tile = buffers.index(slot).load(layout)",
             "        mbarrier.arrive(empty.index(slot), count=1)":
                "        mbarrier.arrive(empty.index(slot), count=1)\n"
                "        total += tile.to(gl.float32)"}),
        Other("with the buffer's own name",
            {"total += buffers.index(slot).load(layout)":
                "buffer = buffers.index(slot)\n        total += buffer.load(layout)"}),
    ],
    "09.4": [
        Other("a product that is waited for at once",
            {"acc, is_async=True)\n" + WAITED: "acc, is_async=False)\n"}),
        Other("the product under a name of its own",
            {"acc = warpgroup_mma(a": "product = warpgroup_mma(a",
             "acc = warpgroup_mma_wait(0, deps=[acc])":
                "acc = warpgroup_mma_wait(0, deps=[product])"}),
    ],
    "09.5": [
        Other("the halves exchanged",
            {"empty, tiles, 0)),": "empty, tiles, 2)),",
             "empty, tiles, 1)),": "empty, tiles, 0)),",
             "empty, tiles, 2)),": "empty, tiles, 1)),"}),
        Other("one product after the other",
            {"acc, is_async=True)\n" + WAITED: "acc)\n"}),
    ],
}  # fmt: skip
