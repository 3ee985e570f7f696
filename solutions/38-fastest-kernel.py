# %% [markdown]
# # 38 · The fastest kernel of the course
#
# This is the kernel that `flash_attention` runs on an H100 or H200. You know all of its parts.
#
# **By the end you can** explain every wait of a kernel that is level with the best, and say what still
# limits it.
#
# **You need** notebook {attention-in-gluon}.
#
# | section | about minutes |
# |---|---|
# | Read the fastest kernel | 50 |
# | The small kernel, and the call | 7 |
# | Against the best, again | 15 |
# | Beginning and end | 2 |
# | **Together, an estimate** | 74 |

# %%
from course import DEVICE, attention_power, draw, recorded, simulate
from kernels.attention.gluon.plan import Plan
from kernels.attention.gluon.settings import STEPS
from kernels.attention.inputs import prepare
import torch

# %% [markdown]
# ## Read the fastest kernel
#
# [kernels/attention/gluon/kernel.py](../kernels/attention/gluon/kernel.py) is all of this with the
# rest: any lengths, heads that share their keys, three head dimensions, a log-sum-exp. Read it in
# pieces. After each one stands a question; answer it before you unfold the answer.
#
# First, what you will meet in the files.
#
# - `@aggregate` bundles values under field names, and its methods get the bundle as `self`. So a
#   function takes one argument in place of twenty, and none of that is left at run time. Each field
#   must hold a value of its type, needed or not: where a kernel has no turns, `turns` holds another
#   ring's barriers. Hence `do_not_specialize=SIZES`: a length of 1 would become a constant.
# - There are four bundles. `program` is what the producer and the consumers of a program share:
#   descriptors, rings, the constants. `own` is what one consumer has in hand for its tile of
#   queries: its Q, its first query, both rings. `schedule` (or, shorter, `sizes`) has the lengths,
#   and says which tile comes when. A `Ring` is a ring with its barriers.
# - A size stands in one place. D, BLOCK_N, WIDTH and the queries of a consumer are read off the
#   blocks of the descriptors, ROWS and COLUMNS off the shape of a tile: a number that is handed
#   over a second time may be another one. BLOCK_M is the number of queries of all consumers, so each of
#   them has QUERIES = BLOCK_M // CONSUMERS.
# - `pred=False` in a call of `mbarrier` or `tma` makes it do nothing: no arrival, no bytes, no
#   copy. It stands there in place of an `if`: the one thread that starts the copy asks a question
#   more, and the loop gets no branch.
# - Descriptors have four axes here, one each for batch, head, position and dimension, since the
#   tensors may lie in any order. So a tile in shared memory is of [1, 1, BLOCK_N, D]. A product
#   takes matrices, and `wait_full` gives it one, by a `reshape` that moves nothing.
# - Where query heads share their keys and have few queries, one head alone would leave most rows
#   of a tile empty. So a tile may hold the same queries of several heads, one head's rows below
#   the other's (HEADS_PER_TILE). A row's query is then its number, modulo the queries of the
#   tile, and the division gives its head.
#
# Now [the ring](../kernels/attention/gluon/ring.py):
#
# ```python
# @gluon.jit
# def wait_empty(self, n):
#     # In round 0 this is the phase before the first, which counts as ended.
#     mbarrier.wait(self.empty.index(n % self.SLOTS), (n // self.SLOTS & 1) ^ 1)
# ```
#
# **1.** `n` counts all tiles that pass through the ring, also from one tile of queries to the next.
# Why must it not begin at 0 again?
#
# <details>
# <summary>Answer</summary>
#
# The barriers do not begin again. Their phases go on, so the parity must come from a count that
# goes on as well. A count that restarts is right after an even number of whole rounds alone.
#
# </details>
#
# ```python
# slot = n % self.SLOTS
# full = self.full.index(slot)
# mbarrier.expect(full, desc.nbytes_per_cta, pred=pred)
# tma.async_load(desc, coordinates, full, self.slots.index(slot), pred=pred)
# ```
#
# **2.** The announcement comes before the copy. Could the phase end between the two?
#
# <details>
# <summary>Answer</summary>
#
# No. The announcement is the one arrival that the barrier was initialized for, but the phase also
# lacks the announced bytes, until the copy has brought them.
#
# </details>

# %% [markdown]
# `make_ring` is told how many consumers give each tile back (RELEASES), since a phase of `empty`
# ends after that many arrivals. Q's ring has a slot for each consumer, or two, so that the next Q
# comes early. A tile of it is one consumer's, so RELEASES is 1 there; K and V belong to all, so it
# is their number. In the small kernel, where nobody waits for an empty slot, it is 0: no barriers
# `empty` are made, and the field holds those of `full`. (The compiler would put tiles over unused
# barriers, which PTX forbids.)

# %% [markdown]
# The consumer's loop, which you have just written, with its turns:
#
# ```python
# program.wait_turn(CONSUMER, n)
# S = own.scores(n)
# O = own.output(n - 1, P, O)
# program.end_turn(CONSUMER)
# S = warpgroup_mma_wait(1, deps=[S])  # all but the last product have ended
# own.k_ring.release(n)
# P, m, l, alpha, grown = own.softmax(S, m, l, first_key, MASKED)  # while O is computed
# O = warpgroup_mma_wait(0, deps=[O])
# own.v_ring.release(n - 1)
# if grown:
#     O = own.rescale(O, alpha)
# return own.operand(P), O, m, l
# ```
#
# `scores` and `output` wait for their tile, start a product, and return. Of the two waits, the
# first is with 1: the newest product may go on, which is the output, and the scores are all that
# the softmax needs. The second is with 0: O is used next, and V's slot is given back. Where
# nothing overlaps, in the first two steps, `take` does the same with 0 both times, because there
# each product is needed as soon as it is started. The first scores of a tile of queries and its
# last output are waited for with 0 as well: no other product is under way that could go on.
#
# `operand` rounds P to the type of V, since a product takes two operands of one type, and leaves it
# in registers. (Only here, since O's product still reads the P before it.) `rescale` converts alpha
# before it multiplies: alpha has the layout of the scores' rows, O has a layout of D columns and
# not of BLOCK_N, and blocks of two layouts cannot be multiplied.
#
# (`grown` is the constant `True`, except at a head dimension of 256, which the last section is about.
# So the `if` is gone, and O is rescaled each time.)
#
# **3.** K and V have a ring each here, and yours shared one. What does that change for the counts?
#
# <details>
# <summary>Answer</summary>
#
# Tile n of the keys and tile n of the values have the same number, in two rings. Yours were tiles
# 2 * n and 2 * n + 1 of one.
#
# </details>

# %% [markdown]
# Around the start of the two products stands a turn, which your loop did not have. Each consumer
# has one mbarrier for it, and `end_turn` arrives at the next consumer's. This is `wait_turn`:
#
# ```python
# if self.IN_TURNS:
#     FIRST: gl.constexpr = CONSUMER == 0
#     mbarrier.wait(self.turns.index(CONSUMER), n & 1 ^ FIRST)
# ```
#
# These barriers are initialized for one arrival, since only the consumer before this one arrives.
# After the last consumer comes the first, hence `(CONSUMER + 1) % self.CONSUMERS`. IN_TURNS is a
# constant, so a kernel without turns has none of this.
#
# **4.** Why does the first consumer wait for the other parity? And what would happen if one
# consumer had a tile more than the other?
#
# <details>
# <summary>Answer</summary>
#
# The first one goes first. Its wait for tile n is for what the last consumer did with tile n - 1,
# one phase earlier. Before tile 0 that is the phase before the first, which counts as ended.
#
# If the second has a tile more, it waits for a turn that nobody ends: a deadlock. If the first has
# one more it still gets through that tile, and hangs at the next. Both belong to one tile of
# queries, so both take as many tiles of keys.
#
# </details>

# %% [markdown]
# `own.softmax` first applies the mask, where MASKED says that there is one. `keys` numbers the
# columns of the scores and `queries` their rows, each in the slice of the scores' layout that
# belongs to that axis, so that every thread can compare what it holds. A score that its query
# must not see becomes -inf, as in notebook {causal-mask}: its power is 0, so it counts neither in
# the maximum nor in a sum. Where MASKED is false none of it is compiled, and nobody asks for
# `first_key`, so 0 is passed.
#
# Then `softmax_step` takes the new maximum `m_new`, of the old one and the largest score of each
# row. (It begins at -inf, below every score.) This follows:
#
# ```python
# base = m_new
# if MASKED:  # where a row sees no key yet, -inf - -inf would be NaN
#     base = gl.where(m_new == -float("inf"), 0.0, m_new)
# P = gl.exp2(S * scale_log2 - (base * scale_log2)[:, None])  # a multiply-add, an exp2
# alpha = gl.exp2((m - base) * scale_log2)
# l = l * gl.convert_layout(alpha, gl.SliceLayout(1, l.type.layout))[:, None] + lane_sums(P)
# return P, m_new, l, alpha, grown
# ```
#
# **5.** Two lines are new. `online` had no `base`: when is it needed, and why not always? And `total`
# was a number per row, where `l` is a block of [ROWS, 8], the sums of columns 8 apart: what does that
# save? (That `m` is not scaled yet is a matter of taste.)
#
# <details>
# <summary>Answer</summary>
#
# `base`: a row that has seen no key yet has the maximum -inf, and -inf - -inf is NaN. Only a mask can
# cause that. Where nothing is masked, each row sees the first tile and its maximum is a number, so the
# comparison is left out when the kernel is compiled.
#
# `l`: a row of the scores lies in 4 threads, each of which holds 2 of every 8 columns. Columns 8 apart
# lie in the same thread, so these sums need no exchange between threads. The 4 threads add up what
# they have once, after the last tile. The maximum cannot wait that long: each tile needs it.
#
# </details>

# %% [markdown]
# `lane_sums` gives the block the shape [ROWS, COLUMNS // 8, 8], in which column c is number c % 8
# of the last axis, and sums along the axis in the middle. Before the first tile it does the same
# with zeros, so that `l` starts with the layout that it will keep. `alpha` has one number per row,
# in the layout of the scores' rows, so it is converted to that of `l`'s. And `row_sums` adds up the
# 8, and converts the result to the layout of `m`, beside which it stands in the log-sum-exp.
#
# `base * scale_log2` is multiplied once per row. What is left for each element is one multiply-add
# and the power. `alpha` subtracts `base` as P does, since both must be relative to the same number;
# for a row that has seen nothing it is 0, and multiplies zeros.

# %% [markdown]
# The producer, for one tile of queries:
#
# ```python
# for i in range(1, n):
#     k_ring.wait_empty(count + i)
#     first_key = (n - 1 - i) * BLOCK_N
#     k_ring.copy(program.k_desc, [batch, key_head, first_key, 0], count + i)
#     v_ring.wait_empty(count + i - 1)
#     v_ring.copy(program.v_desc, [batch, key_head, first_key + BLOCK_N, 0], count + i - 1)
# ```
#
# **6.** Why is K[i] fetched before V[i - 1], and why does the last tile of keys come first?
#
# <details>
# <summary>Answer</summary>
#
# The consumer needs them in that order: it starts the scores of tile i before the output of tile i
# - 1. And the last tiles of keys are those that a mask cuts, at the diagonal and at the end of the
# keys. With these first, the rest is one plain loop.
#
# </details>

# %% [markdown]
# Before this loop Q and the first keys are fetched. With turns the keys come first, since both
# consumers need them. Without turns they come between the two Q, so that the first consumer begins
# before the second.
#
# `n` is the number of tiles of keys that this tile of queries sees. V is one tile behind, so its
# last tile, that of the first keys, comes after the loop. Under a causal mask with more queries
# than keys, `n` may be 0. Then no K and no V may be fetched, since nobody would give them back:
# hence `if n > 0`, here and in the consumer, which writes zeros. Each consumer has a Q of its
# own, number `q_count + consumer` in Q's ring, and starts at `q_count = CONSUMER` itself. After a
# tile of queries the counts go on by what has passed through the rings, CONSUMERS and `n`.
# `key_head` is the head of keys that belongs to this head of queries.

# %% [markdown]
# The order of the tiles. `blocks` is the number of tiles of queries per head. `columns` is the
# number of heads in all batches, or of groups of HEADS_PER_TILE heads, which share a tile. So there
# are `blocks` times `columns` tiles in all, and a program must find out which has its number:
#
# ```python
# first = number // (self.heads_in_l2 * blocks) * self.heads_in_l2
# within = number % (self.heads_in_l2 * blocks)
# together = gl.minimum(self.heads_in_l2, columns - first)  # fewer at the end
# block = within // together
# if self.IS_CAUSAL and self.LONGEST_FIRST:
#     block = blocks - 1 - block
# ```
#
# The columns come in sets of `heads_in_l2`, and `number` goes through all tiles of one set before
# the next. `first` is the first column of its set, `within` the tile's place in it. The last set
# may be smaller, so `together` is what it really has: otherwise tiles would be named that are not
# there. Within a set the column changes fastest, so a division by `together` gives the block and
# the remainder the column. Causal tiles are counted from the end, the longest first (notebook
# {attention-in-gluon}). Notebook {finished-on-hopper}'s turned rounds gained nothing. The column,
# times HEADS_PER_TILE, is a head counted over all batches; descriptors and pointers ask for batch
# and head, so it is divided by `nheads`.
#
# **7.** `heads_in_l2` heads take turns tile by tile. Why not all of them, and why not one?
#
# <details>
# <summary>Answer</summary>
#
# Programs that run at the same time should read the same K and V, out of the L2 cache. So only as
# many heads take turns as have keys and values that fit there. With one head at a time, its short
# tiles would come before the next head's long ones, and the long ones should come first.
#
# </details>

# %% [markdown]
# How many tiles of keys there are, which you wrote as {order-of-tiles}:
#
# ```python
# n = gl.cdiv(self.seqlen_k, self.BLOCK_N)
# whole = self.seqlen_k // self.BLOCK_N
# if self.IS_CAUSAL:  # query i sees the keys up to i + seqlen_k - seqlen_q
#     last_key = first_query + self.seqlen_k - self.seqlen_q
#     n = gl.maximum(gl.minimum(n, gl.cdiv(last_key + self.BLOCK_M, self.BLOCK_N)), 0)
#     whole = gl.maximum(gl.minimum(whole, (last_key + 1) // self.BLOCK_N), 0)
# return n, n - whole
# ```
#
# **8.** This one takes the minimum with the tiles that there are. Yours did without. What is
# different?
#
# <details>
# <summary>Answer</summary>
#
# Here the last tile of queries may be cut off by the number of queries. Its `first_query` + BLOCK_M
# then lies past the end, and the keys that such a row would see are past the end too.
#
# </details>

# %% [markdown]
# The maximum with 0 is for queries that see no key: without it, both numbers would be negative
# for them. It returns how many tiles there are, and how many of them a mask cuts: all but the whole
# ones. Without a causal mask that is at most one, the last, where BLOCK_N does not divide the
# keys. The whole tiles lie in front, so counted from the last keys on, `masked` tiles come first.

# %% [markdown]
# The first scores are computed by themselves. Then the consumer takes its tiles in this order:
#
# ```python
# P, m, l, _, _ = own.softmax(S, m, l, (n - 1) * BLOCK_N, MASKED)
# P = own.operand(P)
# if schedule.IS_CAUSAL:  # otherwise only the first tile can need a mask
#     for i in range(1, masked):
#         P, O, m, l = take_overlapped(
#             program, CONSUMER, own, count + i, (n - 1 - i) * BLOCK_N, P, O, m, l, True
#         )
# for i in range(gl.maximum(masked, 1), n):
#     P, O, m, l = take_overlapped(
#         program, CONSUMER, own, count + i, 0, P, O, m, l, False
#     )
# ```
#
# **9.** There are two loops, which v5 could not have. Why can this kernel?
#
# <details>
# <summary>Answer</summary>
#
# In `tl` the compiler divides one loop among the warps. Here the producer is a function of its own
# with a loop of its own, and the consumers may have as many loops as they like, as long as both
# count the same tiles in the same order.
#
# </details>

# %% [markdown]
# Two loops, so that the comparisons of a mask are only in the first. Tile 0 is done before both,
# masked or not, so the second begins at 1 even where `masked` is 0: `maximum(masked, 1)`. Where a
# kernel has no mask at all, MASKED is false and the first softmax has none either.
#
# After the loops one product is left, the output of the last tile. It takes no turn, as no scores
# start with it. Then V's last slot is given back, and Q's, also where there were no keys: the
# producer fetches the next Q while the rest is done. `l` becomes one number per row. A row without
# keys has 0 there, and is divided by 1, as in notebook {causal-mask}. The log-sum-exp is `m *
# scale_log2 * LN2 + log(total)`: `m` is not scaled yet. Times `scale_log2` it counts in powers of
# two, and times LN2 in natural logarithms. It is stored by ordinary pointers, so what TMA does by
# itself must be written down: a mask for rows past the last query, and an offset of 64 bits, since
# heads times queries may be more than 32 bits count.

# %% [markdown]
# At the end of a tile of queries the consumer sends its output off:
#
# ```python
# parts = (O.to(out_tile.dtype),)
# if WIDTH < D:
#     parts = parts[0].reshape([ROWS, 2, WIDTH]).permute((0, 2, 1)).split()
# for part in gl.static_range(D // WIDTH):
#     tma.store_wait(0)  # what the buffer held before has left it
#     out_tile.reshape([ROWS, WIDTH]).store(parts[part])
#     fence_async_shared()  # TMA sees what the warps have stored
#     tma.async_store(program.out_desc, [batch, head, first_query, part * WIDTH], out_tile)
# ```
#
# **10.** Where the buffer holds a whole output, `parts` has one part. Its store by TMA is started
# here, and waited for one tile later. What would go wrong without that wait, and what does it gain
# to wait so late?
#
# <details>
# <summary>Answer</summary>
#
# The next output would be written over one that is still being copied out. Waiting late, the copy
# runs under a whole tile of work.
#
# </details>

# %% [markdown]
# The halves are the left and the right columns. `split` cuts along a last axis of 2, so `reshape`
# and `permute` put that axis there. What is stored is rounded first, since the buffer has the
# type of the output. TMA leaves out the rows past the last query.
#
# The buffer is one more piece of shared memory, with a tile for each consumer, which are not done
# at the same time:
#
# ```python
# if PERSISTENT:
#     out_tiles = gl.allocate_shared_memory(
#         out_desc.dtype, [CONSUMERS] + out_desc.block_shape, out_desc.layout
#     )
# ```
#
# (Without PERSISTENT no other Q comes, so the output leaves through Q's buffer: by then the last scores
# are computed, and nobody reads Q again.)
#
# **11.** At D = 256 an output leaves in two halves. Count the shared memory that a program of two
# consumers needs with tiles of 64 keys and two slots in each ring. Of 232,448 bytes, how much is
# left for the output? And what do halves cost?
#
# <details>
# <summary>Answer</summary>
#
# Q takes 2 * 64 rows of 512 bytes, 65,536 bytes, and the rings of K and V 4 * 64 * 512 = 131,072.
# That leaves 35,840 bytes (the barriers take a few of them). Two whole outputs would be as large as
# Q, and two halves are 32,768. The second half must wait until the first has left the buffer, and
# this consumer has no product under way meanwhile. But Q's slot has been given back by then, so the
# next Q is copied meanwhile.
#
# </details>

# %% [markdown]
# And the partitions:
#
# ```python
# gl.warp_specialize(
#     [(consume, (program, 0)), (consume, (program, 1)), (produce, (program,))],
#     [4, 1], [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
# )
# ```
#
# **12.** Two consumers have 240 registers per thread and their producer 24. With three, the
# settings say 160 and 32. Why not 240 again?
#
# <details>
# <summary>Answer</summary>
#
# A multiprocessor has 65,536 registers, and three groups of 128 threads with 240 would take 92,160.
# Four groups, one of which holds the producer, start with 128 per thread. What the producer gives
# up raises the three others to 160: 3 * 160 + 32 = 4 * 128.
#
# </details>

# %% [markdown]
# The list has to be written out in the source, so there is one for each number of consumers, and
# an `if` on the constant CONSUMERS picks it when the kernel is compiled. Each consumer is the
# same function with another number. With one consumer there is only the producer's number of
# registers to say, since the first partition takes what is left.

# %% [markdown]
# The steps of notebook {attention-in-gluon} are [settings](../kernels/attention/gluon/settings.py)
# of this one kernel, but for the last, which is the small one. `simulate` follows each of them,
# causal, with 200 queries and keys, a length that no tile divides.

# %% tags=["nbval-check-output"]
q, k, v = torch.randn(3, 1, 1, 200, 64, device=DEVICE).half()
reference = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
for name, settings in STEPS.items():
    launch = prepare(None, q, k, v, True, None, "bhmd")
    plan = Plan(launch, settings)
    arguments = plan.arguments(q, k, v, launch.out, launch.lse)
    simulate(plan.kernel, plan.grid[:1], *arguments, orders=["in order"])
    print(f"{name:24} {torch.allclose(launch.out, reference, atol=4e-3)}")

# %% [markdown]
# **On other GPUs.** `flash_attention` takes this kernel on compute capability 9.0 with Triton 3.9
# or newer, and notebook {finished-on-hopper}'s versions everywhere else. You need not know which:
# the values agree within the rounding of float16.

# %% [markdown]
# ## The small kernel, and the call
#
# [The other kernel](../kernels/attention/gluon/small.py) is made of the same parts. A program is
# one warp group, and its tile is the one of its number, `schedule.tile(gl.program_id(0))`. The loop
# is yours with one change: who has read a tile is who fills its slot. At the start it asks for Q,
# for the first KEY_SLOTS tiles of K and the first SLOTS of V. (`slot` is a constant in a loop that
# is written out, so `if slot < KEY_SLOTS` costs nothing. All are asked for at once: to ask for all of
# K first was no faster.) After the wait for the scores of tile
# `i`, K's slot is free, and `copy_keys` asks for the tile that goes there next, which is as many
# further on as this ring has slots; after the wait for an output it does so for V. Near the end
# there is no such tile, and `pred` is false.
#
# K may have fewer slots than V, which leaves shared memory for another program: K[j] has been
# read long before K[j + 1] is needed, but V[j] is needed as soon as V[j - 1] has been read.
# Nothing is rescaled lazily, so of `own.softmax`'s results `grown` is not asked for. (For the
# first tile `alpha` is not either, since O is still zero.) And the output leaves through Q's
# buffer: one program has one tile, so no other Q comes.

# %% [markdown]
# ### The call around them
#
# On a short sequence a kernel takes less time than the CPU needs to check its arguments. So
# [plan.py](../kernels/attention/gluon/plan.py) works out once, as a `Plan`, all that follows from
# shapes, strides and options, and keeps it. A further call with the same ones looks the plan up,
# allocates its outputs, and launches.
#
# *Who is served?* `available` asks what the GPU and the language must be: compute capability 9.0,
# since `wgmma` runs there alone, Triton 3.9, the first whose Gluon has all the names used here, and
# no interpreter, which does not run Gluon. `servable` asks the tensors: a head dimension that has
# settings, at least one query, rows that a descriptor takes (`describable`, from notebook
# {finished-on-hopper}), and so few tiles that their number still fits into 32 bits when the loop
# adds the number of programs to it once more. What is not served has the plan `None`, and
# `flash_attention` then takes `tl`. `flash_attention_hopper` is for those who want these kernels or
# none, so it says what they need. (Without a query there is nothing to launch, and the empty result
# is right.)
#
# *What is in a plan?* The parts of `launch` and of a shape get names, so that the formulas below
# them can be read. Then come the settings: the table's, unless the caller brought some, which
# `check` looks at. `together` heads share a tile, which leaves fewer `columns`, and a tile has that
# many times fewer queries. A persistent launch has a program for each multiprocessor, but no more
# than tiles; any other has one for each tile. No consumers beside a producer means the small
# kernel. The blocks are what a consumer reads and writes (ROWS rows in all), and a tile of keys; an
# output that leaves in halves has half the width, unless it leaves through Q's buffer, which holds
# a whole one. K has as many slots as V where the settings name no number of its own. `values` holds
# by name whatever either kernel may want, most of it under the names of the settings, and the
# kernel's own `arg_names` then choose and order them: one table serves both. Their first five
# arguments are left out, since these are the tensors, which change with each call; the rest is kept
# as one tuple, to be put after them. `scale` takes log2(e) along, because the kernels compute
# powers of two.
#
# *What does a further call cost?* A descriptor is an object with a shape, strides, a block and a
# layout, all of which are checked when it is made. `_fields` makes one for the plan, with the
# layout in shared memory that Gluon proposes for such a block, which is one that tensor cores read,
# and keeps all but the tensor. `_descriptor` then makes the next without its `__init__`, so that
# nothing is checked again. `_lse` is one element, expanded, which takes no memory: PyTorch makes an
# empty tensor like another one in half of the time that it needs to make one from a shape. Outputs
# are contiguous, whatever the strides of `q`, since the plan's descriptor of the output says so.
# The first launch goes the usual way, in which the JIT compiles or finds the kernel, with 4 warps:
# that is the warp group of the first consumer, and the other partitions bring their own; what it
# returns is kept, and a further launch starts that without asking. To make another GPU the current
# one takes time too, so it is done only where the tensors lie on another.
#
# *When may a plan be used again?* When nothing of what it was made from has changed, so all of
# that is in the key: shapes, strides, types, devices, options, and whether all addresses are
# multiples of 16, which only the tensors at hand can say. (`not causal` makes two
# values of whatever the caller passes for it.)
# A view whose sign is not in memory is copied by `prepare` in every call, and a plan would read the
# original, so it gets none. A dictionary that only grew would fill memory in a program that never
# has the same shape twice: after 4,096 plans it begins anew. `plan_of` looks first and asks
# questions later: the lookup is inside a `try`, and where it fails for want of a key, the plan is
# made. Where the key itself cannot be made, because something is not a tensor, or the layout or the
# scale makes no sense, these kernels are not taken, and the function that comes next has the
# sentence that says so.
#
# *Which settings?* [settings.py](../kernels/attention/gluon/settings.py) has tables of what was
# fastest when it was measured. `hopper_settings` takes the first row that reaches to these keys,
# and another table where one warp group has all queries: then nothing is left for a second
# consumer. `heads_per_tile` doubles the heads of a tile while they share their keys evenly and all
# their queries fit into ROWS, up to 8: TMA's swizzle repeats after 8 rows, so each head must have
# that many. Where the settings do not ask for it, heads come one after the other. Otherwise
# `heads_side_by_side` divides what stays in the L2 cache by the bytes of a head's K and V (two of
# them, 2 bytes each), and takes at least one head and no more than there are. ROWS is 64 because a
# warp group multiplies no fewer rows, so a tile has 64 for each consumer, and the small kernel's
# has 64 as well. `registers` are the pairs of question 12. `out_in_q` says where the output leaves
# through Q's buffer: where a program has one tile.
#
# `check` refuses what the kernels do not have, with a sentence, because the kernel would not say
# one. With more slots for K than for V, the small kernel never asks for some tile, and waits for
# it forever. Turns need two consumers, and products that overlap. Where the output leaves through Q's
# buffer, a program has one tile of queries: no second Q comes, and a slot for it would only take
# shared memory. And four consumers are in no list of
# partitions. `_steps` begins with one consumer and changes one setting at a time, each step on
# top of those before: so the difference of two recorded numbers is what one change is worth. The
# small kernel, which is another one, stands after them.
#
# **On other GPUs.** None of them is `available`, so there is no plan and no such call. To work
# out once what a launch needs pays wherever a kernel takes microseconds.

# %% [markdown]
# ## Against the best, again
#
# How fast is it, and what does each step add? The picture shows the share of cuDNN's speed in the
# same run on an H200, at D = 128 without a mask. `flash_attention_tl` is notebook
# {finished-on-hopper}'s best, and the others are the steps of notebook {attention-in-gluon}, each
# with those before it.

# %%
steps = ["flash_attention_tl", "one consumer", "two consumers", "scores a tile ahead"]
steps += ["consumers take turns", "persistent", "the next Q early"]
draw.speeds(recorded("flash_attention_hopper_128"), steps, relative_to="torch, cuDNN")

# %% [markdown]
# One consumer, which waits for everything by itself, is slower than `tl`. A second one makes it
# about a third faster. With turns the kernel passes `tl` from 1,024 keys on, and from 2,048 on it is
# between 0.96 and 1.02 of cuDNN. The persistent program passes cuDNN at every length, and gains
# most on short sequences: there the start and the end of a tile of queries are a large part of the
# time.
#
# Now D = 64 with a causal mask, where order and size of the tiles matter. The small programs are
# the other form of the kernel.

# %%
steps = ["flash_attention_tl", "one consumer", "two consumers", "consumers take turns", "persistent"]
steps += ["heads share the L2 cache", "small programs"]
draw.speeds(recorded("flash_attention_hopper_64_causal"), steps, relative_to="torch, cuDNN")

# %% [markdown]
# All the steps together do not reach cuDNN here. The small programs pass it at every length but
# one, with no partition and no turns. So these techniques are no ladder that you always climb to
# the top: at another size another one pays.
#
# ### When the card has no more power
#
# At D = 256 the kernel met a limit that no timeline shows. Here are cuDNN and the kernel with all
# steps so far (its output in halves), without a mask and with 8,192 keys. The first three rows are
# of one launch by itself, as Nsight Compute counts it. The others are of launches that follow each
# other for some seconds, in turn. The last column comes in a moment.

# %%
attention_power()

# %% [markdown]
# Compare the first two columns. Our kernel takes 4% fewer cycles, and its tensor cores are at work
# for more of them. In a row, though, it is only 1% faster. Where has the rest gone? Look at the
# clock. An H200 may draw 700 W, and both are close to that. A card at its limit lowers its clock
# until it keeps to it. So each cycle of ours takes longer, and the time of a launch is no longer
# its cycles but its energy: 1.24 J and 1.23 J, divided by the same 690 W or so. (Cycles divided by
# that clock give less than the time: they were counted in a launch by itself, and the clock was
# read in another run, while launches followed each other.)
#
# That asks a new question of the kernel. Not: where does it wait? But: what does it do that need
# not be done? It executes 28% more instructions than cuDNN's.
#
# **Predict:** the loop over tiles of 64 keys has 430 instructions or so. How many of them does a
# thread spend on `O * alpha`?
#
# <details>
# <summary>Answer</summary>
#
# A consumer's O has 64 * 256 elements in 128 threads: 128 for each, and as many multiplications. At
# D = 128 there would be half as many, for tiles twice as long.
#
# </details>

# %% [markdown]
# Most of them multiply by 1: once a row has seen a few hundred keys, its maximum hardly ever grows.
# To multiply only where it has grown would already help, but of 64 rows there is often one. So the
# kernel goes further, and lets the maximum that it subtracts lie below the true one:
#
# ```python
# near = m_new * scale_log2 <= m * scale_log2 + MOST_GROWTH
# grown = gl.min(near.to(gl.int32), axis=0) == 0  # one answer for all rows
# m_new = gl.where(grown, m_new, m)
# ```
#
# Why one answer for all rows, and not one for each? The multiplication is saved only where all
# threads of the consumer jump over it, and an `if` takes one number. Rows with answers of their
# own would need `gl.where`, which computes both sides. So a single row that has outgrown its `m`
# is enough: `near` is 0 there, and so is the minimum. Then all rows take their new maximum, and
# otherwise all keep the old one. That is what `grown` says when it is returned: whether O has to
# be multiplied.
#
# **13.** `MOST_GROWTH` is 8. Why is the result right when `m` is less than the maximum? And why may
# it not be less by any amount?
#
# <details>
# <summary>Answer</summary>
#
# P, l and O are all relative to the same m. Whatever it is, it cancels in O / l, and m + log(l) is
# the same. But P grows with what is missing: `2**8` = 256 at most here. Its float16 ends at 65,504,
# and there it would be infinite.
#
# </details>

# %% [markdown]
# That is the last column: 23% fewer instructions, and tensor cores that are at work 95% of the
# time. The clock is lower still, since more work in a cycle takes more power. But a launch takes
# 1.16 J, and so 6% less time than before. (For scores that keep growing the multiplication comes
# back, and the question before it costs its 20 instructions.) At D = 64 and 128 there is less to
# save, 32 or 64 multiplications to a tile of 128 keys, and the settings do without it.
#
# ### What comes of it
#
# `flash_attention` takes the settings that were the fastest for a head dimension, a mask and a
# length. The cell has them in float16 and bfloat16, from 512 to 16,384 keys.

# %%
shares = {}
for name in (f"{d}{mask}{dtype}" for d in (64, 128, 256) for mask in ("", "_causal")
             for dtype in ("", "_bfloat16")):  # fmt: skip
    run = recorded(f"flash_attention_hopper_{name}")
    for n in (512, 1024, 2048, 4096, 8192, 16384):
        shares[name, n] = run.at("torch, cuDNN", n).ms / run.at("flash_attention", n).ms

# %%
for d in ("64", "128", "256"):
    of_this = [share for (name, _), share in shares.items() if name.split("_")[0] == d]
    print(f"D = {d:>3}: {min(of_this):.2f} to {max(of_this):.2f} of cuDNN's speed")
print("\nslower than cuDNN:")
for (name, n), share in shares.items():
    if share < 1:
        print(f"{name:20} {n:6,} keys {share:.3f}")

# %% [markdown]
# It is faster than cuDNN at 66 of 72 points, and from 2,048 keys on at all of them. The others are
# short sequences under a mask. With 512 keys and D = 256, a tile of queries has only 2 to 8 tiles
# of keys. Its start and its end, where no product is under way, are a good part of its time.
#
# What cannot be said in Gluon? Tiles whose sides are no powers of two, and the named barriers of
# the hardware, with which FlashAttention-3's consumers take their turns; two mbarriers do it here.
# What has it cost? A kernel for one architecture, in seven files, and all the ways to be wrong that
# you have met in this part. `tl` is the right choice until a measured gap is worth that.
#
# **On other GPUs.** What is recorded is an H200's. On an H100 the kernel is right as well, and
# takes the settings that were tuned here: `bench` tells you how fast they are there. On any other
# GPU there is nothing to measure: the kernel is not taken.

# %% [markdown]
# ## What you can do now
#
# You have read an attention kernel whose every wait you can explain. Take a kernel of your own whose
# `tl` version you know well, write it in Gluon with the layouts that the compiler chose, and change
# one decision at a time. From a specification to a measured operator, [an operation of your
# own](../docs/pages/your-own-operation.md) has the way.

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/38-fastest-kernel.py](../solutions/38-fastest-kernel.py) has all answers.
#
# **Next:** [39, the gradient of attention](39-attention-gradient.ipynb).
