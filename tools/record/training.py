"""A small transformer that learns: with the course's attention, PyTorch's, and the formula's lines.

Each text is PERIOD random words, said again and again. The first ones cannot be guessed. Each word
after them is the one that stood PERIOD places before, and only attention can fetch it. All models
begin with the same weights and see the same texts.
"""

import gc
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

from course.benching.api import require_gpu
from course.benching.outdated import TIMED
from course.benching.source_hash import code_hash
from course.benching.training import Run, Training
from course.gpus.recorded import this_machine
from course.gpus.turn import gpu_turn
from course.progress_bar import track
from kernels.attention import flash_attention

BLOCKS, HEADS, HEAD_DIM, WORDS = 2, 8, 64, 32
BATCH, LENGTH, PERIOD = 32, 2048, 32
"""So many texts that a step takes the GPU longer than its launches take the CPU."""
STEPS, UNTIMED = 400, 20
"""Steps of training, and how many of them are not timed, since kernels are compiled meanwhile."""
RATE = 1e-3
DEVICE, DTYPE = "cuda", torch.bfloat16

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def _ours(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = flash_attention(q, k, v, causal=True)
    assert isinstance(out, torch.Tensor)  # without its log-sum-exp
    return out


def _torchs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def _formula(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.mT * q.shape[-1] ** -0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    out: torch.Tensor = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
    return out


WAYS: dict[str, Attention] = {"ours": _ours, "torch": _torchs, "formula": _formula}


class Block(nn.Module):
    """Attention, and two linear layers behind it."""

    def __init__(self, attend: Attention) -> None:
        super().__init__()
        width = HEADS * HEAD_DIM
        self.attend = attend
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.before(x)).unflatten(-1, (3, HEADS, HEAD_DIM))
        mixed = self.attend(*parts.permute(2, 0, 3, 1, 4))  # [batch, heads, length, head_dim]
        x = x + self.mix(mixed.transpose(1, 2).flatten(2))
        out: torch.Tensor = x + self.down(gelu(self.up(self.between(x))))
        return out


class Transformer(nn.Module):
    """Texts [batch, length] -> a guess of each next word, [batch, length, WORDS]."""

    def __init__(self, attend: Attention) -> None:
        super().__init__()
        width = HEADS * HEAD_DIM
        self.word, self.place = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(attend) for _ in range(BLOCKS)))
        self.guess = nn.Linear(width, WORDS)

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        guesses: torch.Tensor = self.guess(self.blocks(self.word(texts) + self.place.weight))
        return guesses


def measure() -> Training:
    """Train with each way of computing attention. Raises CourseError without a GPU."""
    require_gpu()
    with gpu_turn("training"):
        runs = {name: train(attend) for name, attend in WAYS.items()}
    return Training(
        machine=this_machine(),
        source_hash=code_hash(TIMED["training"]),
        blocks=BLOCKS, heads=HEADS, head_dim=HEAD_DIM, batch=BATCH, length=LENGTH, words=WORDS,
        runs=runs,
    )  # fmt: skip


def train(attend: Attention) -> Run:
    """Train a model for STEPS steps: in bfloat16, with weights and sums in float32."""
    gc.collect()
    torch.manual_seed(0)
    model = Transformer(attend).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    texts = torch.Generator(DEVICE).manual_seed(0)
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    losses, seconds = [], []
    for _ in track(range(STEPS), "Training"):
        begun = time.perf_counter()
        losses.append(_step(model, optimizer, texts))  # which waits for the GPU
        seconds.append(time.perf_counter() - begun)
    peak = torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0
    return Run(tuple(losses), 1e3 * statistics.median(seconds[UNTIMED:]), peak)


def _step(
    model: Transformer, optimizer: torch.optim.Optimizer, generator: torch.Generator
) -> float:
    words = torch.randint(WORDS, (BATCH, PERIOD), device=DEVICE, generator=generator)
    text = words.repeat(1, LENGTH // PERIOD)
    with torch.autocast(DEVICE, DTYPE):
        guesses = model(text)[:, PERIOD - 1 : -1]  # of the words that can be guessed
    loss = cross_entropy(guesses.flatten(0, 1).float(), text[:, PERIOD:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
