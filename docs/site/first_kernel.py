"""The kernel of the front page, and its replay, which stands beside it as it was recorded.

`python -m docs.site.first_kernel`, in the course's environment, records the replay anew.
"""

from pathlib import Path

LAUNCHED = """@triton.jit
def double_kernel(x_ptr, out_ptr):
    i = tl.program_id(axis=0)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, 2 * x)

x = torch.arange(8.0)
out = torch.empty_like(x)
double_kernel[(8,)](x, out)
print(out.tolist())
"""
"""What the front page shows; it needs torch, triton and tl."""
SAVED = Path(__file__).with_suffix(".html")


def recorded(source: Path) -> str:
    """The replay of the kernel, as notebooks keep it. source: a file for the kernel's code, which
    Triton reads again."""
    import course  # before Triton

    # isort: split
    import torch
    import triton
    import triton.language as tl

    names = {"torch": torch, "triton": triton, "tl": tl}
    source.write_text(LAUNCHED, encoding="utf-8")
    exec(compile(LAUNCHED, str(source), "exec"), names)
    x = names["x"]
    replay = course.replay(names["double_kernel"], (8,), x, torch.empty_like(x), program=3)
    return str(replay._repr_mimebundle_()["text/html"]) + "\n"


if __name__ == "__main__":
    import os
    import tempfile

    os.environ.update(COURSE_STATIC="1", COURSE_MODE="cpu")
    with tempfile.TemporaryDirectory() as folder:
        SAVED.write_text(recorded(Path(folder) / "first_kernel.py"), encoding="utf-8")
