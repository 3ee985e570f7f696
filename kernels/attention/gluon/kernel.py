"""Attention for compute capability 9.0, in Gluon: a warp that copies, beside warps that compute.

It computes what kernels/attention/__init__.py says. What `tl` decides by itself is written down
here: which warps do what, when a copy starts, and who waits for it. The producer is one warp, which
only starts copies by the tensor memory accelerator (TMA). Each consumer is a warp group, 4 warps
that own 64 rows of a tile of queries. They meet at mbarriers in shared memory:

    producer:
        for each tile of queries:
            for each consumer:
                wait until a slot for its Q is empty;  start to copy its rows there
            for each tile j of keys, the last keys first, and V one tile behind K:
                wait until a slot of K's ring is empty;  start to copy K[j] there
                wait until a slot of V's ring is empty;  start to copy V[j - 1] there

    each consumer:
        for each tile of queries:
            m, l, O = -inf, 0, 0
            wait for Q and for the first K
            S = Q @ K.T
            P, m, l, _ = softmax_step(S, m, l)
            for each further tile j of keys:
                wait for its turn
                wait for K[j];      start S = Q @ K[j].T
                wait for V[j - 1];  start O = O + P @ V[j - 1]
                it is the next consumer's turn
                wait for S;  K's slot is empty
                P_next, m, l, alpha = softmax_step(S, m, l)
                wait for O;  V's slot is empty
                O, P = O * alpha, P_next
            O = O + P @ V of the last tile
            out, lse = O / l, m + log(l)

For each query and key, a multiprocessor's tensor cores take 4 * head_dim / 4096 of a cycle, and its
units for exp2 take 1 / 16. So exp2 takes as long as the products for a head dimension of 64, and
half as long for 128, and neither may wait for the other. Within a consumer, the scores of tile j
are started before the output of tile j - 1, which the tensor cores then compute under the softmax
step. And of two consumers one multiplies while the other computes exp2: they take turns in starting
their products, as FlashAttention-3's do (https://arxiv.org/abs/2407.08608, "pingpong scheduling").

For a head dimension of 256 the limit is power, and each instruction that is left out is time. There
O is not multiplied by alpha as long as m is near enough to the maximum (LAZY_RESCALE).

S, P, m, l, O and alpha are those of kernels/attention/__init__.py, but m is the maximum of S before
it is scaled. TMA and the tensor cores reach shared memory by a way of their own, the async proxy:
what ordinary stores wrote there is visible to them after fence_async_shared() alone.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma_wait,
)
from triton.language.core import _aggregate as aggregate

from kernels.attention.gluon.consumer import Consumer, lane_sums, row_sums
from kernels.attention.gluon.ring import Ring, make_ring
from kernels.attention.gluon.schedule import SIZES, Schedule
from kernels.device import LN2


@aggregate
class Program:
    """What the producer and the consumers of a program share."""

    q_desc: tma.tensor_descriptor
    k_desc: tma.tensor_descriptor
    v_desc: tma.tensor_descriptor
    out_desc: tma.tensor_descriptor
    lse_ptr: gl.tensor
    q_ring: Ring  # a slot for each consumer, or two
    k_ring: Ring
    v_ring: Ring
    out_tiles: gl.shared_memory_descriptor  # one for each consumer, maybe of half an output
    turns: gl.shared_memory_descriptor  # a mbarrier for each consumer, where they take turns
    schedule: Schedule
    scale_log2: gl.tensor
    HEADS_PER_KEY_HEAD: gl.constexpr
    CONSUMERS: gl.constexpr
    OVERLAP: gl.constexpr
    IN_TURNS: gl.constexpr
    LAZY_RESCALE: gl.constexpr
    MASKED: gl.constexpr  # whether any tile of keys needs a mask

    @gluon.jit
    def wait_turn(self, CONSUMER: gl.constexpr, n):
        """Wait until the consumer before this one has started its products with tile n of the keys;
        the first one waits for the last one's with tile n - 1."""
        if self.IN_TURNS:
            FIRST: gl.constexpr = CONSUMER == 0
            mbarrier.wait(self.turns.index(CONSUMER), n & 1 ^ FIRST)

    @gluon.jit
    def end_turn(self, CONSUMER: gl.constexpr):
        if self.IN_TURNS:
            mbarrier.arrive(self.turns.index((CONSUMER + 1) % self.CONSUMERS), count=1)


@gluon.jit
def copy_first_keys(program, batch, key_head, n, count):
    BLOCK_N: gl.constexpr = program.schedule.BLOCK_N
    if n > 0:
        program.k_ring.wait_empty(count)
        program.k_ring.copy(program.k_desc, [batch, key_head, (n - 1) * BLOCK_N, 0], count)


@gluon.jit
def produce(program):
    """The producer warp: start every copy, in the order in which the consumers need them."""
    schedule, k_ring, v_ring = program.schedule, program.k_ring, program.v_ring
    BLOCK_N: gl.constexpr = schedule.BLOCK_N
    QUERIES: gl.constexpr = schedule.BLOCK_M // program.CONSUMERS
    count = 0  # tiles of keys so far
    q_count = 0
    for number in range(gl.program_id(0), schedule.tiles(), gl.num_programs(0)):
        batch, head, first_query = schedule.tile(number)
        n, _ = schedule.keys(first_query)
        key_head = head // program.HEADS_PER_KEY_HEAD
        # With turns both consumers need these keys, and a slot for them is empty before one for Q.
        # Without turns the first consumer begins before the second. On an H200 with Triton 3.9.0
        # the other order costs up to 2 % with turns, and without them 2 to 4 % from 8,192 keys on.
        if program.IN_TURNS:
            copy_first_keys(program, batch, key_head, n, count)
        for consumer in gl.static_range(program.CONSUMERS):
            program.q_ring.wait_empty(q_count + consumer)
            query = first_query + consumer * QUERIES
            program.q_ring.copy(program.q_desc, [batch, head, query, 0], q_count + consumer)
            if consumer == 0 and not program.IN_TURNS:
                copy_first_keys(program, batch, key_head, n, count)
        # Scores are computed one tile ahead of outputs, so K[i] is needed before V[i - 1].
        for i in range(1, n):
            k_ring.wait_empty(count + i)
            first_key = (n - 1 - i) * BLOCK_N
            k_ring.copy(program.k_desc, [batch, key_head, first_key, 0], count + i)
            v_ring.wait_empty(count + i - 1)
            v_ring.copy(program.v_desc, [batch, key_head, first_key + BLOCK_N, 0], count + i - 1)
        if n > 0:
            v_ring.wait_empty(count + n - 1)
            v_ring.copy(program.v_desc, [batch, key_head, 0, 0], count + n - 1)
        q_count += program.CONSUMERS
        count += n


@gluon.jit
def take_overlapped(
    program, CONSUMER: gl.constexpr, own, n, first_key, P, O, m, l, MASKED: gl.constexpr
):
    """The scores of tile n and the output of tile n - 1, whose P is given.

    Until O has come, its product reads that P out of registers. If the new P is converted earlier,
    both are held at once: up to 39 % slower on an H200, under a causal mask at 128 dimensions.
    """
    program.wait_turn(CONSUMER, n)
    S = own.scores(n)
    O = own.output(n - 1, P, O)
    program.end_turn(CONSUMER)
    S = warpgroup_mma_wait(1, deps=[S])  # all but the last product have ended
    own.k_ring.release(n)
    P, m, l, alpha, grown = own.softmax(S, m, l, first_key, MASKED)  # while O is computed
    O = warpgroup_mma_wait(0, deps=[O])
    own.v_ring.release(n - 1)
    if grown:
        O = own.rescale(O, alpha)
    return own.operand(P), O, m, l


@gluon.jit
def start_output(program, CONSUMER: gl.constexpr, O, batch, head, first_query):
    """Start to copy O out by TMA, which leaves out what is past the end. Where there is no room for
    a whole output beside Q, its halves leave one after the other through the same buffer."""
    ROWS: gl.constexpr = O.shape[0]
    D: gl.constexpr = O.shape[1]
    WIDTH: gl.constexpr = program.out_desc.block_shape[3]
    out_tile = program.out_tiles.index(CONSUMER)
    parts = (O.to(out_tile.dtype),)
    if WIDTH < D:
        parts = parts[0].reshape([ROWS, 2, WIDTH]).permute((0, 2, 1)).split()
    for part in gl.static_range(D // WIDTH):
        tma.store_wait(0)  # what the buffer held before has left it
        out_tile.reshape([ROWS, WIDTH]).store(parts[part])
        fence_async_shared()  # TMA sees what the warps have stored
        tma.async_store(program.out_desc, [batch, head, first_query, part * WIDTH], out_tile)


@gluon.jit
def consume(program, CONSUMER: gl.constexpr):
    """A consumer, 4 warps: the rows of each tile that are its own, from Q to the output."""
    schedule = program.schedule
    D: gl.constexpr = program.q_desc.block_shape[3]
    QUERIES: gl.constexpr = schedule.BLOCK_M // program.CONSUMERS
    ROWS: gl.constexpr = schedule.HEADS_PER_TILE * QUERIES
    BLOCK_N: gl.constexpr = schedule.BLOCK_N
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    ROW_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    MASKED: gl.constexpr = program.MASKED
    count = 0
    q_count = CONSUMER
    for number in range(gl.program_id(0), schedule.tiles(), gl.num_programs(0)):
        batch, head, first_query = schedule.tile(number)
        n, masked = schedule.keys(first_query)
        first_query += CONSUMER * QUERIES
        m = gl.full([ROWS], -float("inf"), gl.float32, ROW_LAYOUT)
        l = lane_sums(gl.zeros([ROWS, BLOCK_N], gl.float32, S_LAYOUT))
        O = gl.zeros([ROWS, D], gl.float32, O_LAYOUT)
        q = program.q_ring.wait_full(q_count, [ROWS, D])
        own = Consumer(
            q, program.k_ring, program.v_ring, schedule, first_query, program.scale_log2, ROWS, D,
            program.LAZY_RESCALE,
        )

        # The tiles of keys from the last one to the first: a mask on the first `masked` of them.
        if not program.OVERLAP:
            if MASKED:
                for i in range(masked):
                    O, m, l = own.take(count + i, (n - 1 - i) * BLOCK_N, O, m, l, True)
            for i in range(masked, n):
                O, m, l = own.take(count + i, 0, O, m, l, False)
        elif n > 0:
            program.wait_turn(CONSUMER, count)
            S = own.scores(count)
            program.end_turn(CONSUMER)
            S = warpgroup_mma_wait(0, deps=[S])
            program.k_ring.release(count)
            P, m, l, _, _ = own.softmax(S, m, l, (n - 1) * BLOCK_N, MASKED)
            P = own.operand(P)
            if schedule.IS_CAUSAL:  # otherwise only the first tile can need a mask
                for i in range(1, masked):
                    P, O, m, l = take_overlapped(
                        program, CONSUMER, own, count + i, (n - 1 - i) * BLOCK_N, P, O, m, l, True
                    )
            for i in range(gl.maximum(masked, 1), n):
                P, O, m, l = take_overlapped(
                    program, CONSUMER, own, count + i, 0, P, O, m, l, False
                )
            O = warpgroup_mma_wait(0, deps=[own.output(count + n - 1, P, O)])
            program.v_ring.release(count + n - 1)
        # The next Q is copied under what follows. Released before the last output, as it could be,
        # it gains 4 % without a mask at 128 dimensions from 8,192 keys on, and 1 to 2 % at 256, and
        # loses 1 to 4 % under a causal mask at 128 (an H200, Triton 3.9.0).
        program.q_ring.release(q_count)

        l = row_sums(l, ROW_LAYOUT)
        total = gl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
        start_output(program, CONSUMER, own.rescale(O, 1.0 / total), batch, head, first_query)
        rows = gl.arange(0, ROWS, ROW_LAYOUT)
        query = first_query + rows % QUERIES
        pair = batch * schedule.nheads + head + rows // QUERIES
        lse = m * program.scale_log2 * LN2 + gl.log(total)
        lse_ptrs = program.lse_ptr + pair.to(gl.int64) * schedule.seqlen_q + query
        gl.store(lse_ptrs, lse, mask=query < schedule.seqlen_q)
        q_count += program.CONSUMERS
        count += n
    tma.store_wait(0)  # shared memory is another program's once this one has ended


@gluon.jit(do_not_specialize=SIZES)
def attention_kernel(
    q_desc, k_desc, v_desc, out_desc, lse_ptr,
    seqlen_q, seqlen_k, nheads, pairs, heads_in_l2, scale_log2,
    IS_CAUSAL: gl.constexpr, EVEN_N: gl.constexpr, HEADS_PER_KEY_HEAD: gl.constexpr,
    CONSUMERS: gl.constexpr, PERSISTENT: gl.constexpr,
    QUERY_SLOTS: gl.constexpr, SLOTS: gl.constexpr, KEY_SLOTS: gl.constexpr,
    OVERLAP: gl.constexpr, IN_TURNS: gl.constexpr, LAZY_RESCALE: gl.constexpr,
    LONGEST_FIRST: gl.constexpr,
    CONSUMER_REGISTERS: gl.constexpr, PRODUCER_REGISTERS: gl.constexpr,
):
    """Program p of P takes tiles p, p + P, p + 2P … of the schedule, with as many programs as
    multiprocessors where it is persistent. Otherwise there are as many programs as tiles.

    q_desc, k_desc, v_desc, out_desc: tensor descriptors of [batch, heads, length, D]. A block is
        what one consumer reads and writes, [1, heads, queries, D], or a tile of keys,
        [1, 1, BLOCK_N, D]. That of out may have half of D where PERSISTENT.
    lse_ptr: float32 [batch, nheads, seqlen_q], the natural logarithm of the sum of exp(scores).
    pairs: heads of all batches. heads_in_l2: see Schedule.
    scale_log2: scale * log2(e), so that exp(scale * t) = exp2(scale_log2 * t).
    EVEN_N: whether BLOCK_N divides seqlen_k, so that no mask is needed but the causal one.
    PERSISTENT: without it, no Q comes after a program's first, and the output leaves through Q's
        buffer.
    QUERY_SLOTS: with 2, the next Q is copied while this one is used; with 1, once it is done.
    SLOTS, KEY_SLOTS: tiles in the ring of V and in that of K.
    OVERLAP: the scores of the next tile are computed before this tile's output.
    IN_TURNS: with OVERLAP, a consumer starts its products after those of the one before it.
    LAZY_RESCALE: O is multiplied by alpha only where a maximum has grown far: see softmax_step.
    CONSUMER_REGISTERS, PRODUCER_REGISTERS: registers per thread. The consumers take those that the
        producer gives up.
    """
    HEADS_PER_TILE: gl.constexpr = q_desc.block_shape[1]
    BLOCK_M: gl.constexpr = CONSUMERS * q_desc.block_shape[2]
    schedule = Schedule(
        seqlen_q, seqlen_k, nheads, pairs, heads_in_l2,
        BLOCK_M, k_desc.block_shape[2], HEADS_PER_TILE, IS_CAUSAL, LONGEST_FIRST,
    )
    q_ring = make_ring(q_desc, QUERY_SLOTS * CONSUMERS, 1)
    k_ring = make_ring(k_desc, KEY_SLOTS, CONSUMERS)
    v_ring = make_ring(v_desc, SLOTS, CONSUMERS)
    out_tiles = q_ring.slots
    if PERSISTENT:
        out_tiles = gl.allocate_shared_memory(
            out_desc.dtype, [CONSUMERS] + out_desc.block_shape, out_desc.layout
        )
    turns = q_ring.full
    if IN_TURNS:
        turns = mbarrier.allocate_mbarrier(batch=CONSUMERS)
        for consumer in gl.static_range(CONSUMERS):
            mbarrier.init(turns.index(consumer), count=1)
    fence_async_shared()  # TMA sees the mbarriers as they were initialized
    program = Program(
        q_desc, k_desc, v_desc, out_desc, lse_ptr, q_ring, k_ring, v_ring, out_tiles, turns,
        schedule, scale_log2,
        HEADS_PER_KEY_HEAD, CONSUMERS, OVERLAP, IN_TURNS, LAZY_RESCALE, IS_CAUSAL or not EVEN_N,
    )

    # The first partition runs on the 4 warps of the launch, the others on warps of their own.
    if CONSUMERS == 1:
        gl.warp_specialize(
            [(consume, (program, 0)), (produce, (program,))], [1], [PRODUCER_REGISTERS]
        )
    elif CONSUMERS == 2:
        gl.warp_specialize(
            [(consume, (program, 0)), (consume, (program, 1)), (produce, (program,))],
            [4, 1], [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )
    else:
        gl.warp_specialize(
            [(consume, (program, 0)), (consume, (program, 1)), (consume, (program, 2)),
             (produce, (program,))],
            [4, 4, 1], [CONSUMER_REGISTERS, CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )
