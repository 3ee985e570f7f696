# %% [markdown]
# # 40 · Training with your attention
#
# Two of the three gradients are written. Here comes the third, then the choice that decides how
# fast all three can be, and at the end a model learns through kernels of this kind.
#
# **By the end you can** write the gradient of the queries, count what it costs that many programs
# add to one place, sum a gradient over a group of heads, and train a model through kernels of this
# kind.
#
# **You need** notebook {attention-gradient}.
#
# | section | about minutes |
# |---|---|
# | A program that owns queries | 20 |
# | All together | 4 |
# | Who adds where | 10 |
# | Heads that share keys | 15 |
# | A model learns | 10 |
# | Beginning and end | 7 |
# | **Together, an estimate** | 66 |

# %%
from course import DEVICE, check, cost, draw, hint, launches, recorded, training
from kernels.attention import flash_attention_forward
from kernels.attention.gradient import flash_attention_backward_v1, flash_attention_backward_v2
import torch
import triton
import triton.language as tl

# %% [markdown]
# ## A program that owns queries
#
# dQ adds up over keys. In the loop of `dk_kernel`, which you wrote in notebook {attention-gradient}, each
# program has a part of the dQ of *every* query: `dS @ k` for its own keys. It could add that part to memory by `tl.atomic_add`. You
# know the price from notebook {its-gradient}: another order each time, other bits each time. The other
# way is a second kernel, which owns queries, and computes S, P, dP and dS once more. Take the second
# kernel first: it looks like the forward pass. The section after it counts what either costs.

# %% [markdown]
# ### Exercise {gradient-of-queries} · The gradient of the queries (core)
#
# Program i owns the queries from `i * BLOCK_M` on. Complete the loop over the keys and the store. Think
# of a query whose scores all lie near -100, so that its `lse` does too: what is then in `power` for a
# key that is not there? In PyTorch, with P as before:
# `scale * (P * (d_out @ v.T - delta[:, None])) @ k`.


# %%
# exercise gradient-of-queries
@triton.jit
def dq_kernel(
    q_ptr, k_ptr, v_ptr, lse_ptr, delta_ptr, d_out_ptr, dq_ptr, n_queries, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    dims = tl.arange(0, D)
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    there = rows < n_queries
    q_offsets = rows[:, None] * D + dims[None, :]  # [BLOCK_M, D]
    q = tl.load(q_ptr + q_offsets, mask=there[:, None], other=0.0)
    d_out = tl.load(d_out_ptr + q_offsets, mask=there[:, None], other=0.0)
    lse = tl.load(lse_ptr + rows, mask=there, other=0.0)  # [BLOCK_M]
    delta = tl.load(delta_ptr + rows, mask=there, other=0.0)  # [BLOCK_M]
    dq = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, n_keys, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k_offsets = keys[:, None] * D + dims[None, :]  # [BLOCK_N, D]
        k = tl.load(k_ptr + k_offsets, mask=keys[:, None] < n_keys, other=0.0)
        v = tl.load(v_ptr + k_offsets, mask=keys[:, None] < n_keys, other=0.0)
        power = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])  # [BLOCK_M, BLOCK_N]
        # about 3 lines from here
        power = tl.where(keys[None, :] < n_keys, power, 0.0)
        d_scores = power * (tl.dot(d_out, tl.trans(v)) - delta[:, None])
        dq = tl.dot(d_scores.to(tl.float16), k, dq)
        # to here
    # about 1 line from here
    tl.store(dq_ptr + q_offsets, dq * scale, mask=there[:, None])
    # to here


# %%
check("gradient-of-queries", dq_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# Its score is 0, so its power is `exp(0 + 100)`, which is infinite in float32. Times a row of `k` that
# is 0 that makes NaN: the key needs a power of 0.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Here nothing is turned: `d_scores` is [BLOCK_M, BLOCK_N] and `k` is [BLOCK_N, D].
#
# </details>

# %% [markdown]
# ## All together
#
# The forward pass gives the output and lse, a line of PyTorch gives delta, and three kernels give the
# rest. The cell uses the finished gradient, `flash_attention_backward_v1`, which has them in two. With
# yours it is:
#
# ```
# sizes = {"D": 32, "BLOCK_M": 32, "BLOCK_N": 32}
# numbers = (lse, (d_out * out).sum(dim=1, dtype=torch.float32))
# by_keys, by_queries = (triton.cdiv(len(k), 32),), (triton.cdiv(len(q), 32),)
# dv_kernel[by_keys](q, k, lse, d_out, dv, len(q), len(k), scale, **sizes)
# dk_kernel[by_keys](q, k, v, *numbers, d_out, dk, len(q), len(k), scale, **sizes)
# dq_kernel[by_queries](q, k, v, *numbers, d_out, dq, len(q), len(k), scale, **sizes)
# ```
#
# What should the result be compared with? float16 rounds P, dS, the output and the results, so they
# cannot agree with float64 to the last digit. The question is whether they are any worse than what
# everybody else gets in float16. So the cell prints two errors, each from float64: ours, and that of
# PyTorch's lines in float16.


# %%
def attention(q, k, v):
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1) @ v


def by_autograd(dtype, d_out, *inputs):
    inputs = [x.to(dtype).detach().requires_grad_() for x in inputs]
    return torch.autograd.grad(attention(*inputs), inputs, d_out.to(dtype))


# %%
torch.manual_seed(0)
d_out, q, k, v = torch.randn(4, 1, 2, 100, 32, dtype=torch.float16, device=DEVICE)
out, lse = flash_attention_forward(q, k, v, return_lse=True)
ours = flash_attention_backward_v1(d_out, q, k, v, out, lse)
theirs, exact = (by_autograd(dtype, d_out, q, k, v) for dtype in (torch.float16, torch.float64))
for name, *results, right in zip(("dQ", "dK", "dV"), ours, theirs, exact, strict=True):
    errors = [(each - right).abs().max().item() for each in results]
    print(f"{name}: off by at most {errors[0]:.1e}, PyTorch in float16 by {errors[1]:.1e}")

# %% [markdown]
# That is the measure by which attention libraries judge their gradients: at most about twice the error
# of PyTorch's own lines in the same dtype.

# %% [markdown]
# ## Who adds where
#
# A kernel that owns keys has dS in its hands. Why should another kernel compute all of it again, only
# to multiply it by k? Here are two designs side by side. In `v1` the second kernel owns queries, as
# yours does. In `v2` there is none: the programs that own keys add their parts of dQ to memory by
# `tl.atomic_add`, in float32, and a small kernel scales and rounds the sums at the end.
#
# **Predict:** how many products does each take, and how many bytes does `v2` add, compared with dQ?
#
# <details>
# <summary>Answer</summary>
#
# `v1` has S, dV, dP and dK in one kernel, and S, dP and dQ in the other: 7. `v2` has 5. But each
# program of `v2` adds a whole dQ in float32, one row per query: with N keys in tiles of BLOCK_N that
# is N / BLOCK_N times the size of dQ in float32, read, added to and written.
#
# </details>

# %% [markdown]
# `launches` records what a function launches, and `cost` counts it.


# %%
def count(backward):
    with launches() as seen:
        backward(d_out, q, k, v, out, lse)
    for launch in seen:
        c = cost(*launch, target="H200")
        added = sum(each.bytes for each in c.accesses if each.kind == "update")
        print(f"{c.kernel:16} {sum(c.dot.values()):12,} of dots {added:11,} bytes added")


# %%
d_out, q, k, v = torch.randn(4, 1, 2, 256, 64, dtype=torch.float16, device=DEVICE)
out, lse = flash_attention_forward(q, k, v, return_lse=True)
for backward in (flash_attention_backward_v1, flash_attention_backward_v2):
    count(backward)

# %% [markdown]
# Five products and not seven, and for that each program adds to all of dQ: with 256 keys in tiles of
# 32, as CPU mode takes them, that makes 8 times the 131,072 bytes that dQ has in float32. Longer texts
# do not change the ratio, since operations and added bytes both grow with M * N. Larger tiles of keys
# do: fewer programs add.
#
# On an H200 atomic additions run in the L2 cache. So the question is the one of every roofline: what
# takes longer, two products on tensor cores, or those bytes through the L2 cache? Two products are 4 *
# M * N * D operations, the additions 4 * M * N * D / BLOCK_N bytes. With 128 keys to a tile, the
# additions keep up with 989 TFLOP/s only at 7.7 TB/s. (That cache reads at 9.7. How fast it adds is
# another question.) In `tl` the course stays with two kernels, since there nothing else goes on while a
# program adds. In Gluon it adds: the copy engine takes a whole tile of dQ out of shared memory and adds
# it on its own, while the program multiplies the next.
#
# That was an argument. Here are the times, recorded on an H200: the backward pass alone, with a causal
# mask, a head dimension of 128 and float16, beside cuDNN's.

# %%
versions = ["flash_attention_backward", "flash_attention_backward_v1", "flash_attention_backward_v2"]
speeds = recorded("flash_attention_backward_128_causal")
draw.speeds(speeds, series=versions, relative_to="torch, cuDNN")

# %% [markdown]
# `v1` and `v2` are as good as equal: from 2,048 words on, both come to about seven tenths of cuDNN. So
# in `tl` the two products that `v2` saves and the additions that it makes weigh the same. The kernels
# in Gluon, which add while they multiply, are 1.04 to 1.09 times as fast as cuDNN.
#
# So are the additions free there? The GPU can tell: compile the same kernel without the one instruction
# that adds, and time it. Its dQ is wrong, but it loads and multiplies as before. Five products are 10 *
# M * N * D operations. With 64 and 128 dimensions a tile has 128 keys, so there are 10 / 4 * 128 = 320
# operations for each byte that is added. With 256 dimensions dK and dV of 64 keys fill half of the
# registers, and there are 160.
#
# **Predict:** at which head dimension do the additions cost more?

# %%
for head_dim in (64, 128, 256):
    speeds = recorded(f"flash_attention_backward_{head_dim}")
    for length in (1024, 16384):
        adding = speeds.at("flash_attention_backward", length).speed
        gain = speeds.at("without adding dQ", length).speed / adding
        print(f"{head_dim:3} dimensions, {length:6,} words: without additions {gain:.2f} times as fast")

# %%
wide = recorded("flash_attention_backward_256")
draw.speeds(wide, series=["flash_attention_backward", "without adding dQ", "torch, cuDNN"])

# %% [markdown]
# With 128 dimensions the additions cost 4 %, with 64 it is 5 to 8: nearly all of them happen while
# something else is multiplied. With 256 the kernel waits for them. At 16,384 words it reaches 416
# TFLOP/s; at 160 operations per byte it adds 2.6 TB/s meanwhile, far less than that cache reads.
# Without them it would reach 570.
#
# Adding has another price, the order. `flash_attention(…, deterministic=True)` asks for the same bits
# each time, and takes the two kernels everywhere. On a GPU of this kind that means `v1` in place of
# Gluon: you pay with about a third of the speed.

# %% [markdown]
# ## Heads that share keys
#
# In notebook {heads-and-tiles} several heads of queries shared a head of keys. What does that change on
# the way back? Each query still has one gradient. But a key stands in the scores of *all* heads of its
# group, so its gradient is the sum over them.
#
# **Predict:** who can add up that sum without atomics?
#
# <details>
# <summary>Answer</summary>
#
# Whoever owns the key: one program per tile of keys and *key* head, which goes through the queries of
# all heads of the group, one head after another. The price is that there are fewer programs.
#
# </details>

# %% [markdown]
# ### Exercise {gradient-of-a-group} · The gradient of a group (core)
#
# `dv_kernel` for `n_heads` heads of queries that share `n_key_heads` heads of keys, neighbors together,
# as in exercise {grouped-heads}. All tensors are contiguous, with the head in front. Axis 1 of the grid
# is the key head. Say which head of queries comes next, and add its part.


# %%
# exercise gradient-of-a-group
@triton.jit
def group_dv_kernel(
    q_ptr, k_ptr, lse_ptr, d_out_ptr, dv_ptr, n_heads, n_key_heads, n_queries, n_keys, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    key_head, group = tl.program_id(axis=1).to(tl.int64), n_heads // n_key_heads
    keys, dims = tl.program_id(axis=0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, D)
    k_offsets = (key_head * n_keys + keys)[:, None] * D + dims[None, :]  # [BLOCK_N, D]
    k = tl.load(k_ptr + k_offsets, mask=keys[:, None] < n_keys, other=0.0)
    dv = tl.zeros([BLOCK_N, D], tl.float32)
    for shared in range(group):
        head = None
        # about 1 line from here
        head = key_head * group + shared
        # to here
        for start in range(0, n_queries, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M)
            at, there = head * n_queries + rows, rows < n_queries
            q_offsets = at[:, None] * D + dims[None, :]  # [BLOCK_M, D]
            q = tl.load(q_ptr + q_offsets, mask=there[:, None], other=0.0)
            d_out = tl.load(d_out_ptr + q_offsets, mask=there[:, None], other=0.0)
            lse = tl.load(lse_ptr + at, mask=there, other=0.0)  # [BLOCK_M]
            power = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
            # about 1 line from here
            dv = tl.dot(tl.trans(power.to(tl.float16)), d_out, dv)
            # to here
    tl.store(dv_ptr + k_offsets, dv, mask=keys[:, None] < n_keys)


# %%
check("gradient-of-a-group", group_dv_kernel)

# %% [markdown]
# <details>
# <summary>Hint 1</summary>
#
# With 6 heads and 2 key heads, key head 1 is shared by heads 3, 4 and 5.
#
# </details>
#
# <details>
# <summary>Hint 2</summary>
#
# Where does `dv` become zero, and how often?
#
# </details>

# %% [markdown]
# ## A model learns
#
# Now everything is there for a model to learn through. The smallest way to tell PyTorch of a gradient
# is `torch.autograd.Function`, with a forward and a backward method. (An operator, as in notebook
# {its-gradient}, is what `torch.compile` wants; `kernels.attention.flash_attention` is one. Your own
# kernels would need two things more here: a loop over batches and heads, and the causal mask.)


# %%
class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        out, lse = flash_attention_forward(q, k, v, causal=True, return_lse=True)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, d_out):
        return flash_attention_backward_v1(d_out, *ctx.saved_tensors, causal=True)


# %% [markdown]
# The model is a transformer of one block: words and places become vectors, one causal attention of two
# heads mixes them, and a linear layer guesses the next word.


# %%
class Transformer(torch.nn.Module):
    def __init__(self, attend, words=16, length=32, width=32):
        super().__init__()
        self.attend = attend
        self.word, self.place = torch.nn.Embedding(words, width), torch.nn.Embedding(length, width)
        self.qkv, self.mix = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.guess = torch.nn.Linear(width, words)


# %% [markdown]
# On its way a text is [batch, length, width]. Its last axis becomes q, k and v of two heads of 16, with
# the heads in front.


# %%
def forward(self, text):
    x = self.word(text) + self.place.weight
    q, k, v = self.qkv(x).half().unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
    mixed = self.attend(q, k, v).transpose(1, 2).flatten(2).float()
    return self.guess(x + self.mix(mixed))


Transformer.forward = forward

# %% [markdown]
# What should it learn? Each text is 16 random words, said twice. The first half cannot be guessed. In
# the second half the next word is the one 15 places before the current one, and only attention can fetch it.
# Guessing blindly gives a loss of log(16) = 2.77; a fresh model is sure of wrong words, and does worse.


# %%
def step(model, optimizer):
    text = torch.randint(16, (8, 16)).repeat(1, 2).to(DEVICE)
    guesses = model(text)[:, 15:-1]  # of the words in the second half
    loss = torch.nn.functional.cross_entropy(guesses.flatten(0, 1), text[:, 16:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %%
def train(attend, steps=40):
    torch.manual_seed(0)
    model = Transformer(attend).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return [step(model, optimizer) for _ in range(steps)]


# %% [markdown]
# Both models begin with the same weights and see the same texts. One has your kind of attention, the
# other PyTorch's.


# %%
def by_torch(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


ours, theirs = train(Attend.apply), train(by_torch)
for i in (0, 9, 19, 29, 39):
    print(f"step {i + 1:2}: loss {ours[i]:.2f} with our kernels, {theirs[i]:.2f} with PyTorch's")

# %% [markdown]
# The two losses go down together, within a hundredth. (They need not be equal: the two round in
# different places, and training makes small differences larger. Neither is the better one.)
#
# Do the losses agree for longer texts too, and how long does a step take? The next model was trained on
# an H200: two blocks with 8 heads of 64 dimensions, and 32 texts of 2,048 words at a time, each of which
# repeats its own 32 random words. It was trained three times, with the course's finished kernels, with PyTorch's,
# and with the formula's lines, which keep the probabilities of all pairs of words.

# %%
learned = training()
draw.losses(learned, steps=150)

# %%
learned

# %% [markdown]
# The three lines lie on top of one another. In the first 80 steps the loss comes down to about 3.0:
# the model learns roughly which words a text has. (A blind guess among 32 words gives log(32) = 3.47.)
# Then it finds out that it has to look 31 places back, and does so at the same steps in all three runs.
# What the kernels change is the price. With the formula all tensors take 24 GiB, 21 of them for what
# belongs to all pairs of words. With kernels that compute the probabilities again they take 3 GiB, and
# a step less than a fifth of the time.
#
# With our kernels a step is 4% shorter than with PyTorch's (it chose cuDNN's), and takes 0.1 GiB more:
# dQ is added up in float32. Why 32 texts at a time? With 8 the GPU needs about 4 ms for a step, and the
# CPU needs longer to launch all that is in it. A call of our gradient alone keeps the CPU busy for
# 200 us, one of cuDNN's for 151 (`recorded("flash_attention_backward_64_causal_bfloat16").launch_us`).
# So a time for 8 texts would be the CPU's, and say little of the kernels.

# %% [markdown]
# ## What you can do now
#
# You have written attention's gradient, and a model has learned through a kernel of the same kind. Two
# questions to ask yourself:
#
# <details>
# <summary>Why does <code>v1</code> not compute dQ in the program that owns the keys?</summary>
#
# It has one part of each sum, and so do all other programs. They would have to add to the same places
# in memory: fewer products, more bytes, and other bits each time.
#
# </details>
#
# <details>
# <summary>What does grouping heads change in the gradient?</summary>
#
# dK and dV add up over the heads of a group. dQ stays what it was.
#
# </details>

# %% [markdown]
# [kernels/attention/gradient](../kernels/attention/gradient/__init__.py) has the finished kernels, from
# the two that you know to those in Gluon for compute capability 9.0.

# %% [markdown]
# `.venv/bin/course progress` in a terminal shows which exercises you have solved, and
# [solutions/40-train-with-attention.py](../solutions/40-train-with-attention.py) has all answers.
