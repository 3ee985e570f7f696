"""The usual mistakes on the topic "hopper", and other right answers."""

from . import Mistake, Other

FOUR = "gl.BlockedLayout([4], [32], [4], [0])"
LANES_AT_FOURS = (
    "gl.DistributedLinearLayout([[1], [2], [512]], [[4], [8], [16], [32], [64]], [[128], [256]], "
    "[], [1024])"
)
LANES_AT_EIGHTS = (
    "gl.DistributedLinearLayout([[1], [2], [4]], [[8], [16], [32], [64], [128]], [[256], [512]], "
    "[], [1024])"
)
PHASE = "phase = (i // SLOTS) & 1\n        # to here"
READ = "total += buffers.index(slot).load(layout).to(gl.float32)\n        fence_async_shared()\n"
GIVEN_BACK = "        mbarrier.arrive(empty.index(slot), count=1)\n"
WAITED = "        acc = warpgroup_mma_wait(0, deps=[acc])\n"
STARTED = "        acc = warpgroup_mma(a.index(i % 3), b.index(i % 3), acc, is_async=True)\n"
NEWEST_LEFT = "        acc = warpgroup_mma_wait(1, deps=[acc])\n"
CONSUMED = (
    "        mbarrier.wait(full.index(slot), phase)\n"
    "        total += buffers.index(slot).load(layout).to(gl.float32)\n"
)

SCORES = "        s = warpgroup_mma_wait(1, deps=[s])\n        give_back(empty, 2 * i)\n"
OUTPUT = "        acc = warpgroup_mma_wait(0, deps=[acc])\n        give_back(empty, 2 * i - 1)\n"
FETCHED = (
    "        fetch_tile(k_desc, 64 * i, ring, full, empty, 2 * i)\n",
    "        fetch_tile(v_desc, 64 * (i - 1), ring, full, empty, 2 * i - 1)\n",
)
RESCALED = "        # to here\n        acc = acc * alpha[:, None]\n"

MISTAKES = {
    "layout-for-wide-loads": [
        Mistake("one element per thread", {FOUR: "gl.BlockedLayout([1], [32], [4], [0])"},
            "wrong", "no load of the compiled kernel moves 16 bytes", "narrow loads",
            means="They take the run of a warp for what a thread loads; a thread loads its own "
            "neighbors, and here it has none."),
        Mistake("two elements per thread", {FOUR: "gl.BlockedLayout([2], [32], [4], [0])"},
            "wrong", "no load of the compiled kernel moves 16 bytes", "narrow loads",
            means="They count two bytes per element; a float32 has four."),
        Mistake("eight elements per thread", {FOUR: "gl.BlockedLayout([8], [32], [4], [0])"},
            "wrong", "the next one's bytes begin 32 bytes further on", "lanes apart",
            means="They think that more neighbors per thread are better still; a load moves 16 "
            "bytes, and the lanes of one load must lie side by side."),
        Mistake("eight elements per thread, bit by bit", {FOUR: LANES_AT_EIGHTS},
            "wrong", "the next one's bytes begin 32 bytes further on", "lanes apart",
            means="They let a thread take all its elements side by side; its second load then "
            "begins where the next lane's first one should."),
        Mistake("warps of another number", {FOUR: "gl.BlockedLayout([4], [32], [8], [0])"},
            "does not compile", "its warps must multiply to those that run it",
            "result has an invalid layout threadsperwarp warpspercta order",
            means="They change the number of warps with the layout; it is the launch that says "
            "how many warps there are."),
        Mistake("no constant", {"layout: gl.constexpr = " + FOUR: "layout = " + FOUR},
            "does not compile", "A BlockedLayout must be a constant",
            "cannot convert of type to tensor",
            means="They leave out gl.constexpr; a layout decides what is compiled, so the compiler "
            "has to know it."),
    ],
    "phase-of-a-round": [
        Mistake("the parity of the tile", {PHASE: "phase = i & 1\n        # to here"},
            "hazard", "A read that comes too early", "early read",
            means="They let the phase change with each tile; a barrier belongs to a buffer, and "
            "ends a phase once per round."),
        Mistake("the round itself", {PHASE: "phase = i // SLOTS\n        # to here"},
            "hazard", "a phase is 0 or 1, so take & 1", "no such phase",
            means="They number the phases on and on; the hardware keeps one bit of the number."),
        Mistake("the other parity", {PHASE: "phase = ((i // SLOTS) & 1) ^ 1\n        # to here"},
            "hazard", "A read that comes too early", "early read",
            means="They take the producer's phase; whoever waits for data waits for the phase that "
            "the data end."),
        Mistake("the buffer's number", {PHASE: "phase = slot & 1\n        # to here"},
            "hazard", "A read that comes too early", "early read",
            means="They mix up the buffer and the round."),
    ],
    "consumer-of-a-ring": [
        Mistake("no arrival", {READ + GIVEN_BACK: READ},
            "deadlock", "A missing mbarrier.arrive, a wait for the wrong phase", "arrivals",
            means="They do not give the buffer back: the producer waits forever in the second "
            "round."),
        Mistake("two arrivals", {GIVEN_BACK: 2 * GIVEN_BACK},
            "deadlock", "or one arrival too many", "arrivals",
            means="They give the buffer back twice: each arrival ends a phase, and the second one "
            "the phase in which the producer waits."),
        Mistake("no wait", {CONSUMED: CONSUMED.split("\n", 1)[1]},
            "hazard", "A read that comes too early", "early read",
            means="They think that the copy is done when it has been asked for."),
        Mistake("the producer's phase",
            {"        mbarrier.wait(full.index(slot), phase)":
                "        mbarrier.wait(full.index(slot), phase ^ 1)"},
            "hazard", "A read that comes too early", "early read",
            means="They copy the producer's line; the consumer waits for the phase under way, and "
            "the producer for the one before."),
        Mistake("no fence", {READ: READ.replace("        fence_async_shared()\n", "")},
            "hazard", "A missing fence", "no fence",
            means="They take the arrival for an order of everything; between threads and the copy "
            "engine a fence makes it."),
        Mistake("given back before it is read",
            {READ + GIVEN_BACK: "fence_async_shared()\n" + GIVEN_BACK + "        "
                + READ.replace("        fence_async_shared()\n", "")},
            "hazard", "A read that comes too early", "early read",
            means="They give the buffer back first; the producer may overwrite it at once."),
        Mistake("always the first buffer's barrier",
            {READ + GIVEN_BACK: READ + GIVEN_BACK.replace("slot", "0")},
            "deadlock", "A missing mbarrier.arrive, a wait for the wrong phase", "arrivals",
            means="They arrive at the barrier of one buffer for all of them."),
    ],
    "product-and-waits": [
        Mistake("no wait", {WAITED: ""},
            "does not compile", "acc is a product under way, which is no value yet",
            "loop carried variable acc changed type was but",
            means="They think that a product is done when it was started. Gluon gives a product "
            "under way a type of its own, so here the compiler notices."),
        Mistake("one product left running", {WAITED: WAITED.replace("wait(0", "wait(1")},
            "hazard", "A refill that comes too early", "early refill",
            means="They leave this round's product under way, and fill its buffers again."),
        Mistake("the value thrown away", {WAITED: WAITED.replace("acc = ", "")},
            "does not compile", "take what warpgroup_mma_wait(…, deps=[acc]) returns",
            "loop carried variable acc changed type was but",
            means="They wait and keep the old name; the value is what the wait returns."),
        Mistake("a product that is waited for at once",
            {"acc, is_async=True)\n" + WAITED: "acc, is_async=False)\n"},
            "wrong", "start it with is_async=True", "synchronous product",
            means="They leave out the wait and start the product as one that waits by itself: "
            "nothing can go on beside it."),
        Mistake("nothing added up",
            {"acc, is_async=True)": "acc, use_acc=False, is_async=True)"},
            "wrong", "", "wrong in case 1",
            means="They start from zero in each round; the accumulator is what the product is "
            "added to."),
    ],
    "product-under-way": [
        Mistake("each product waited for", {"warpgroup_mma_wait(1, deps=[acc])":
            "warpgroup_mma_wait(0, deps=[acc])"},
            "wrong", "leave the newest one under way", "no product under way",
            means="They wait for the product that they have just started, as in the exercise "
            "before."),
        Mistake("two left running", {"warpgroup_mma_wait(1, deps=[acc])":
            "warpgroup_mma_wait(2, deps=[acc])"},
            "hazard", "A refill that comes too early", "early refill",
            means="They leave one more product running than there are buffers for."),
        Mistake("no wait in the loop", {"        acc = warpgroup_mma_wait(1, deps=[acc])\n": ""},
            "does not compile", "acc is a product under way, which is no value yet",
            "loop carried variable acc changed type was but",
            means="They think that the order of the products is enough; the copies know nothing "
            "of it."),
        Mistake("the wait before the product", {
            STARTED + NEWEST_LEFT: NEWEST_LEFT + STARTED,
        }, "does not compile", "warpgroup_mma_wait(…, deps=[acc]) returns, after the product",
            "loop carried variable acc changed type was but",
            means="They wait for the product of the iteration before first, which sounds right; "
            "what the loop carries on must be a value."),
        Mistake("no wait behind the loop", {"    # to here\n    rows": "    # to here\n    rows",
            "    acc = warpgroup_mma_wait(0, deps=[acc])\n": ""},
            "hazard", "A missing wait for a product", "no product wait",
            means="They forget that one product is still under way when the loop ends."),
    ],
    "two-consumers": [
        Mistake("one arrival is enough",
            {"mbarrier.init(empty.index(each), count=2)":
                "mbarrier.init(empty.index(each), count=1)"},
            "deadlock", "A missing mbarrier.arrive, a wait for the wrong phase", "arrivals",
            means="They count barriers and not consumers: the first one to be done gives the "
            "buffer back for both."),
        Mistake("no arrival", {WAITED + GIVEN_BACK: WAITED},
            "deadlock", "A missing mbarrier.arrive, a wait for the wrong phase", "arrivals",
            means="They forget to give the buffer back."),
        Mistake("an arrival before the product has ended",
            {WAITED + GIVEN_BACK: GIVEN_BACK + WAITED},
            "hazard", "A refill that comes too early", "early refill",
            means="They give the buffer back when the product is started; the tensor cores still "
            "read it."),
        Mistake("the same half twice",
            {"(multiply, (out_ptr, a, b, full, empty, tiles, 1))":
                "(multiply, (out_ptr, a, b, full, empty, tiles, 0))"},
            "wrong", "", "wrong in case 1",
            means="They start the first consumer twice; half of the result is never written."),
    ],
    "scores-ahead": [
        Mistake("both products waited for", {SCORES: SCORES.replace("wait(1", "wait(0")},
            "wrong", "the softmax waits until both products have ended", "one wait",
            means="They wait for everything, as in the exercise before: right values, and the "
            "tensor cores rest during the softmax."),
        Mistake("the output waited for after it is rescaled",
            {OUTPUT + RESCALED: RESCALED.replace("        # to here\n", "") + OUTPUT},
            "does not compile", "This product is still running", "object has no attribute",
            means="They use a product before its wait has returned it."),
        Mistake("V given back with K",
            {SCORES: SCORES + "        give_back(empty, 2 * i - 1)\n",
             OUTPUT: OUTPUT.replace("        give_back(empty, 2 * i - 1)\n", "")},
            "hazard", "A refill that comes too early", "early refill",
            means="They give both buffers back after the first wait; the output still reads V."),
        Mistake("K given back before its wait",
            {SCORES: "        give_back(empty, 2 * i)\n"
             + SCORES.replace("        give_back(empty, 2 * i)\n", "")},
            "hazard", "A refill that comes too early", "early refill",
            means="They give K back where its product is started; it still reads K then."),
        Mistake("K given back early where the producer comes late",
            {"".join(FETCHED): "".join(reversed(FETCHED)),
             SCORES: "        give_back(empty, 2 * i)\n"
             + SCORES.replace("        give_back(empty, 2 * i)\n", "")},
            "hazard", "A refill that comes too early", "early refill",
            means="They count on the producer's order. It has V's buffer to wait for first, so "
            "that "
            "K is safe by accident."),
        Mistake("K given back with V",
            {SCORES: SCORES.replace("        give_back(empty, 2 * i)\n", ""),
             OUTPUT: OUTPUT + "        give_back(empty, 2 * i)\n"},
            "wrong", "the producer waits for K's buffer during the softmax", "K kept",
            means="They give both buffers back at the end of the iteration; K has been free since "
            "the first wait."),
        Mistake("K given back after the softmax",
            {SCORES: SCORES.replace("        give_back(empty, 2 * i)\n", ""),
             OUTPUT: "        give_back(empty, 2 * i)\n" + OUTPUT},
            "wrong", "the producer waits for K's buffer during the softmax", "K kept",
            means="They put the softmax first; meanwhile the next K could be on its way."),
        Mistake("K never given back",
            {SCORES: SCORES.replace("        give_back(empty, 2 * i)\n", "")},
            "deadlock", "A missing mbarrier.arrive, a wait for the wrong phase", "arrivals",
            means="They give back what ended last, and forget what ended first."),
        Mistake("V given back twice",
            {OUTPUT: OUTPUT + "        give_back(empty, 2 * i - 1)\n"},
            "deadlock", "or one arrival too many", "arrivals",
            means="They think that a buffer cannot be given back too often; each arrival counts."),
        Mistake("the values of this iteration", {OUTPUT: OUTPUT.replace("2 * i - 1", "2 * i + 1")},
            "deadlock", "load_head waits for", "arrivals",
            means="They take the output for that of this tile; it is that of the one before."),
    ],
    "order-of-tiles": [
        Mistake("the shortest first", {"(blocks - 1 - number) * BLOCK_M": "number * BLOCK_M"},
            "wrong", "comes out if the shortest tiles come first", "slip 1",
            means="They take the tiles as they are numbered; then the longest run alone at the "
            "end."),
        Mistake("lengths taken as equal",
            {"sees = first_row + n_keys - n_queries": "sees = first_row"},
            "wrong", "128 x 1 float32 and 300 x 1 float32", "wrong in case 2",
            means="They forget that the last query sees the last key, whatever the lengths are."),
        Mistake("a whole tile too many", {"(sees + 1) // BLOCK_N": "gl.cdiv(sees + 1, BLOCK_N)"},
            "wrong", "At [0, 2]", "wrong in case 1",
            means="They round up; a tile that the first query sees in part needs the mask."),
        Mistake("the last key forgotten", {"(sees + 1) // BLOCK_N": "sees // BLOCK_N"},
            "wrong", "128 x 1 float32 and 159 x 1 float32", "wrong in case 5",
            means="They take the number of the last key for the number of keys, which is one more: "
            "a tile that ends with it counts as cut."),
        Mistake("as the first query sees", {"gl.cdiv(sees + BLOCK_M, BLOCK_N)":
            "gl.cdiv(sees + 1, BLOCK_N)"},
            "wrong", "At [0, 1]", "wrong in case 1",
            means="They take the tiles of the first query for those of all; the last one sees "
            "most."),
        Mistake("up to the first query's next", {"gl.cdiv(sees + BLOCK_M, BLOCK_N)":
            "gl.cdiv(sees + BLOCK_M - 1, BLOCK_N)"},
            "wrong", "256 x 1 float32 and 257 x 1 float32", "wrong in case 6",
            means="They take the number of the last key for the number of keys; a tile that begins "
            "with that key is lost."),
        Mistake("below zero", {"tiles = gl.maximum(gl.cdiv(sees + BLOCK_M, BLOCK_N), 0)":
            "tiles = gl.cdiv(sees + BLOCK_M, BLOCK_N)"},
            "wrong", "256 x 1 float32 and 100 x 1 float32", "wrong in case 3",
            means="They forget queries that see no key at all."),
    ],
}  # fmt: skip

OTHERS = {
    "layout-for-wide-loads": [
        Other("by its own definition", {
            "layout: gl.constexpr = " + FOUR:
            "held: gl.constexpr = [16 // 4]\n"
            "    layout: gl.constexpr = gl.BlockedLayout(held, [32], [4], [0])"}),
        Other("named parts", {FOUR: "gl.BlockedLayout(size_per_thread=[4], threads_per_warp=[32], "
            "warps_per_cta=[4], order=[0])"}),
        Other("a row of a tile",
            {FOUR: "gl.SliceLayout(0, gl.BlockedLayout([1, 4], [1, 32], [1, 4], [1, 0]))"}),
        Other("a column of a tile",
            {FOUR: "gl.SliceLayout(1, gl.BlockedLayout([4, 1], [32, 1], [4, 1], [0, 1]))"}),
        Other("a row of a tile that a thread holds four times",
            {FOUR: "gl.SliceLayout(0, gl.BlockedLayout([4, 4], [1, 32], [1, 4], [1, 0]))"}),
        Other("bit by bit", {FOUR: LANES_AT_FOURS}),
    ],
    "phase-of-a-round": [
        Other("a remainder", {PHASE: "phase = i // SLOTS % 2\n        # to here"}),
        Other("of twice the ring", {PHASE: "phase = i % (2 * SLOTS) // SLOTS\n        # to here"}),
    ],
    "consumer-of-a-ring": [
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
    "product-and-waits": [
        Other("a first product that adds to nothing",
            {"acc, is_async=True)": "acc, use_acc=i > 0, is_async=True)"}),
        Other("the product under a name of its own",
            {"acc = warpgroup_mma(a": "product = warpgroup_mma(a",
             "acc = warpgroup_mma_wait(0, deps=[acc])":
                "acc = warpgroup_mma_wait(0, deps=[product])"}),
    ],
    "product-under-way": [
        Other("the product under a name of its own",
            {"acc = warpgroup_mma(a": "newest = warpgroup_mma(a",
             "acc = warpgroup_mma_wait(1, deps=[acc])":
                "acc = warpgroup_mma_wait(1, deps=[newest])"}),
        Other("a first product that adds to nothing",
            {"acc, is_async=True)": "acc, use_acc=i > 0, is_async=True)"}),
    ],
    "two-consumers": [
        Other("the halves exchanged",
            {"empty, tiles, 0)),": "empty, tiles, 2)),",
             "empty, tiles, 1)),": "empty, tiles, 0)),",
             "empty, tiles, 2)),": "empty, tiles, 1)),"}),
        Other("one product after the other",
            {"acc, is_async=True)\n" + WAITED: "acc)\n"}),
    ],
    "scores-ahead": [
        Other("the output waited for later in the line",
            {OUTPUT + RESCALED:
                "        waited = warpgroup_mma_wait(0, deps=[acc])\n"
                "        give_back(empty, 2 * i - 1)\n"
                "        acc = waited * alpha[:, None]\n"}),
        Other("given back by hand",
            {SCORES: SCORES.replace("give_back(empty, 2 * i)",
                "mbarrier.arrive(empty.index(2 * i % 4), count=1)")}),
        Other("V given back at the end",
            {OUTPUT + RESCALED:
                "        acc = warpgroup_mma_wait(0, deps=[acc])\n"
                "        acc = acc * alpha[:, None]\n"
                "        give_back(empty, 2 * i - 1)\n"}),
        Other("tiles by another count",
            {SCORES: SCORES.replace("2 * i", "i + i"), OUTPUT: OUTPUT.replace("2 * i", "i + i")}),
    ],
    "order-of-tiles": [
        Other("from the number of keys",
            {"sees = first_row + n_keys - n_queries": "sees = n_keys - n_queries + first_row"}),
        Other("the place first",
            {"first_row = (blocks - 1 - number) * BLOCK_M":
                "block = blocks - 1 - number\n    first_row = block * BLOCK_M"}),
    ],
}  # fmt: skip
