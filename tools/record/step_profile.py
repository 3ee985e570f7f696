"""Proton's tree of a training step: attention, matrix products and softmax by kernels/.

The step trains the last layer of a small language model: the tokens' logits are a product with a
matrix of weights, and the gradient of the loss is the softmax of the logits minus 1 at each
token's target. It is written twice: with `one_hot`, as the formula stands, and with the 1
subtracted where it belongs.
"""

import json
import re
import site
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from course.benching.api import require_gpu
from course.benching.profiles import Node, StepProfile
from course.errors import CourseError
from course.gpus.recorded import this_machine
from course.isolate.commands import run_command
from kernels.attention import flash_attention
from kernels.matmul import matmul
from kernels.softmax import softmax

TOKENS, WIDTH, HEADS, VOCABULARY = 4096, 1024, 16, 32_000
RATE = 1e-3
"""The factor of the gradient that is subtracted from the weights."""
STEPS = 10
"""Steps that are profiled; the times are theirs on average."""
LONGEST_NAME = 48
CUPTI = "libcupti.so"
"""The library through which Proton sees the GPU. Triton's own bundle may lack it; PyTorch's
packages have it under a name that ends in a version."""
MOST_S = 300

Gradient = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _by_one_hot(shares: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return shares - torch.nn.functional.one_hot(targets, VOCABULARY).to(shares.dtype)


def _in_place(shares: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    shares[torch.arange(TOKENS, device=shares.device), targets] -= 1
    return shares


VERSIONS: dict[str, Gradient] = {"one_hot": _by_one_hot, "in place": _in_place}


class Model:
    """Attention over TOKENS tokens of one text, and a last layer to VOCABULARY logits."""

    def __init__(self) -> None:
        generator = torch.Generator("cuda").manual_seed(0)

        def random(*shape: int) -> torch.Tensor:
            numbers = torch.randn(*shape, device="cuda", generator=generator)
            scaled: torch.Tensor = numbers / WIDTH**0.5
            return scaled.bfloat16()

        self.x = random(TOKENS, WIDTH)
        self.projections = [random(WIDTH, WIDTH) for _ in "qkv"]
        self.weights = random(WIDTH, VOCABULARY)
        self.targets = torch.randint(VOCABULARY, (TOKENS,), device="cuda", generator=generator)

    def step(self, gradient: Gradient) -> None:
        """One step of training, with Proton's scopes around its parts."""
        from triton.profiler import scope

        with scope("step"):
            with scope("forward"):
                with scope("projections"):
                    q, k, v = (self._heads(matmul(self.x, each)) for each in self.projections)
                with scope("attention"):
                    mixed = flash_attention(q, k, v, causal=True)
                with scope("logits"):
                    hidden = mixed[0].transpose(0, 1).reshape(TOKENS, WIDTH)
                    logits = matmul(hidden, self.weights)
            with scope("backward"):
                with scope("softmax"):
                    shares = softmax(logits)
                with scope("minus the targets"):
                    slope = gradient(shares, self.targets)
                with scope("gradient of the weights"):
                    d_weights = matmul(hidden.T, slope)
            with scope("update"):
                self.weights.add_(d_weights, alpha=-RATE / TOKENS)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        """[TOKENS, WIDTH] as [1, HEADS, TOKENS, WIDTH / HEADS]: a view."""
        return x.view(1, TOKENS, HEADS, WIDTH // HEADS).transpose(1, 2)


def measure() -> StepProfile:
    """Profile both versions in a process of its own.

    Raises CourseError without a GPU, without CUPTI, or where Proton has seen no kernel.
    """
    require_gpu()
    with tempfile.TemporaryDirectory(prefix="course-proton-") as folder:
        (Path(folder) / CUPTI).symlink_to(cupti())
        where = f"TRITON_CUPTI_LIB_PATH={folder}"
        ended = run_command(["env", where, sys.executable, "-m", __name__, folder], MOST_S)
        if ended.how != "finished":
            raise CourseError(f"{ended.sentence('The profiled process')}. {ended.stderr[-500:]}")
        texts = {name: Path(folder, f"{name}.hatchet").read_text() for name in VERSIONS}
    steps = {name: step_of(json.loads(text)) for name, text in texts.items()}
    return StepProfile(machine=this_machine(), steps=steps)


def cupti() -> Path:
    """CUPTI of PyTorch's own CUDA, else of a toolkit."""
    folders = [*map(Path, site.getsitepackages()), Path(torch.__file__).parents[1]]
    patterns = (f"nvidia/*/lib/{CUPTI}*", f"triton/backends/nvidia/lib/cupti/{CUPTI}*")
    found = [path for each in folders for pattern in patterns for path in each.glob(pattern)]
    found += Path("/usr/local").glob(f"cuda*/extras/CUPTI/lib64/{CUPTI}*")
    if not found:
        raise CourseError(f"There is no {CUPTI} here: PyTorch's CUDA packages bring it.")
    return found[0].resolve()


def step_of(tree: list[dict[str, Any]]) -> Node:
    """The step of what Proton has written, for one of STEPS steps.

    Raises CourseError where there is none, or where it holds no kernel.
    """
    for child in tree[0]["children"]:
        if child["frame"]["name"] == "step" and (step := _node(child)).us:
            return step
    raise CourseError("Proton has seen no kernel of the step.")


def _node(tree: dict[str, Any]) -> Node:
    name, below = tree["frame"]["name"], map(_node, tree.get("children", ()))
    children = tuple(child for child in below if child.launches)
    if children:
        us, launches = sum(each.us for each in children), sum(each.launches for each in children)
        return Node(name, us, launches, children)
    metrics = tree.get("metrics", {})
    us, launches = metrics.get("time (ns)", 0) / 1e3 / STEPS, metrics.get("count", 0) / STEPS
    return Node(short(name), us, launches)


def short(name: str) -> str:
    """A kernel's name without its types, its namespaces and its parameters, mangled or not."""
    plain = name.removeprefix("void ")
    # A mangled name begins with names, each behind its length; the last of them is the function's.
    rest = name.removeprefix("_ZN") if name.startswith("_ZN") else ""
    while match := re.match(r"(\d+)(?=\D)", rest):
        end = match.end() + int(match[1])
        plain, rest = rest[match.end() : end], rest[end:]
    while (without := re.sub(r"<[^<>]*>|\([^()]*\)", "", plain)) != plain:
        plain = without
    return plain.split("::")[-1].strip()[:LONGEST_NAME]


def _profile(folder: Path) -> None:
    """Write what Proton sees of each version, after a step that compiles."""
    import triton.profiler as proton

    for name, gradient in VERSIONS.items():
        model = Model()
        model.step(gradient)
        torch.cuda.synchronize()
        session = proton.start(str(folder / name), hook=None)
        for _ in range(STEPS):
            model.step(gradient)
        torch.cuda.synchronize()
        proton.finalize(session)


if __name__ == "__main__":
    _profile(Path(sys.argv[1]))
