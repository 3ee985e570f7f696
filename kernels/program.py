"""What a file of kernels/ does when it is run, as `python -m kernels.softmax`.

Each version of its ladder is compared with PyTorch in float64, on a small input that no block
divides. On a GPU each is then timed on a large one, beside PyTorch and a copy of as many bytes.
Without a GPU Triton's interpreter runs the kernels, which tells right from wrong and nothing of
speed. (`course verify` tries far more inputs, and `course bench` more sizes and peers.)
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
from triton.testing import do_bench

from kernels.device import finite

Function = Callable[..., Any]
ROUNDINGS = 8
"""How many roundings of the largest element a result may be off by."""


def main(
    about: str | None, versions: Sequence[Function], reference: Function,
    inputs: Callable[..., tuple[torch.Tensor, ...]], small: Sequence[int], large: Sequence[int],
    peer: str = "copy",
) -> None:
    """Verify and time the versions that the command line names, and exit: with 1 if one is wrong.

    about: what --help says. reference: the same in PyTorch. inputs: makes the tensors of a call,
    of sizes such as small and large. peer: what a share is of, "copy" or "torch".
    """
    chosen = _chosen(about, {version.__name__: version for version in versions})
    compiled, has_gpu = isinstance(finite, triton.JITFunction), torch.cuda.is_available()
    if compiled and not has_gpu:
        # Triton has been imported without its interpreter: begin again, with it.
        environment = os.environ | {"TRITON_INTERPRET": "1"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    torch.manual_seed(0)
    peers: dict[str, float] = {}
    if compiled:
        with torch.device("cuda"):
            few, many = inputs(*small), inputs(*large)
        peers = _peers_ms(reference, many)
        print(f"{torch.cuda.get_device_name()}: each version is run at {_by(small)}, and timed at")
        print(f"{_by(large)}, beside PyTorch and a copy of as many bytes.")
    else:
        few, many = inputs(*small), ()
        why = "TRITON_INTERPRET is set" if has_gpu else "No GPU here"
        print(f"{why}: Triton's interpreter runs each version at {_by(small)}. A GPU would time")
        print(f"them too, at {_by(large)}, beside PyTorch and a copy of as many bytes.")
    print("The reference is PyTorch in float64, and an error a share of its largest element.\n")
    _print_row("version", "result", "ms" if peers else "", f"of {peer}" if peers else "")
    wrong = False
    for name, version in chosen.items():
        result = _result(version, few, reference)
        right = result.startswith("right")
        ms = do_bench(partial(version, *many), return_mode="median") if right and peers else None
        _print_row(name, result, *_shown(ms, peers.get(peer)))
        wrong |= not right
    for name, ms in peers.items():
        _print_row(name, "", *_shown(ms, peers[peer]))
    sys.exit(1 if wrong else 0)


def _chosen(about: str | None, versions: dict[str, Function]) -> dict[str, Function]:
    """The versions that the command line names, by name; all of them where it names none."""
    file = Path(sys.argv[0])
    parser = argparse.ArgumentParser(
        prog=f"python -m kernels.{file.parent.name if file.stem == '__main__' else file.stem}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("version", nargs="*", help=f"one of {', '.join(versions)}; all by default")
    names = parser.parse_args().version or list(versions)
    for name in names:
        if name not in versions:
            parser.error(f"there is no version {name!r}: there is {', '.join(versions)}")
    return {name: versions[name] for name in names}


def _result(version: Function, inputs: tuple[torch.Tensor, ...], reference: Function) -> str:
    """A word for how a version's result compares with the reference in float64."""
    wide = (tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs)
    expected = reference(*wide)
    try:
        out = version(*inputs)
    except Exception as error:  # a GPU may lack room for one version and run the others
        return f"fails: {type(error).__name__}: {error}".splitlines()[0]
    off = float((out.double() - expected).abs().max() / expected.abs().max())
    right = off <= ROUNDINGS * torch.finfo(inputs[0].dtype).eps  # never where off is NaN
    return f"{'right' if right else 'WRONG'}, off by {off:.0e}"


def _peers_ms(reference: Function, inputs: tuple[torch.Tensor, ...]) -> dict[str, float]:
    """Milliseconds of PyTorch's own, and of a copy that reads and writes as many bytes."""
    moved = sum(tensor.nbytes for tensor in (*inputs, reference(*inputs)))
    # Random bits: a GPU moves zeros faster.
    source = torch.randint(0, 2**31 - 1, (moved // 8,), dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    calls = {"torch": partial(reference, *inputs), "copy": partial(target.copy_, source)}
    return {name: do_bench(call, return_mode="median") for name, call in calls.items()}


def _shown(ms: float | None, peer_ms: float | None) -> tuple[str, str]:
    """A time, and what share of the peer's speed that is."""
    return (f"{ms:.3f}", f"{peer_ms / ms:.0%}") if ms and peer_ms else ("", "")


def _print_row(name: str, result: str, ms: str, share: str) -> None:
    print(f"{name:20}{result:22}{ms:>9}{share:>12}".rstrip(), flush=True)


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(f"{size:,}" for size in sizes)
