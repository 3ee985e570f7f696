"""A small program: two kernels, one of them tuned, from several lines."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"SIZE": 256}), triton.Config({"SIZE": 128})], key=["n"])
@triton.jit
def scale_kernel(x_ptr, out_ptr, n, factor, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * factor, mask=i < n)


@triton.jit
def take_kernel(x_ptr, places_ptr, out_ptr, width, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, WIDTH)
    place = tl.load(places_ptr + row)
    x = tl.load(x_ptr + place * width + i, mask=i < width)
    tl.store(out_ptr + row * width + i, x, mask=i < width)


def scale(x, factor):
    out = torch.empty_like(x)
    n = x.numel()
    scale_kernel[lambda chosen: (triton.cdiv(x.numel(), chosen["SIZE"]),)](x, out, n, factor)
    return out


def take(x, places):
    out = torch.empty(len(places), x.shape[1])
    take_kernel[(len(places),)](x, places, out, x.shape[1], WIDTH=64)
    return out


def step(x, places, factor=2.0):
    return take(scale(x, factor), places)


POOL = ThreadPoolExecutor(1)


def main(how):
    x, places = torch.arange(512.0).view(8, 64), torch.tensor([5, 2, 7])
    for k in range(3):
        y = step(x, places, 2.0 + k)
    print(f"sum {y.sum().item()}", flush=True)
    if how == "error":
        raise ValueError("on purpose")
    if how == "exit":
        sys.exit(3)
    if how == "at once":
        os._exit(4)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "others":
        if (child := os.fork()) == 0:
            scale(x, 1.0)
            os._exit(0)
        os.waitpid(child, 0)
        subprocess.run(["true"])
        threading.Thread(target=lambda: take(x, places)).start()
        POOL.submit(take, x, places)  # its thread stays until Python ends


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
