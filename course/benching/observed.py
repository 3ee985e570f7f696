"""What only a GPU shows: a race, an order of programs, errors of tl.dot, a compiled softmax."""

import re
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from course import MODE
from course.errors import CourseError
from course.gpus.recorded import Recorded, this_machine
from course.table import numbers

from .api import require_gpu
from .result import observation

PROGRAMS = 1024
SHOWN = 16
SOFTMAX_ROWS, SOFTMAX_COLUMNS = 8192, 8192
PRODUCT = 1024
"""Rows, columns and depth of the matrix product whose error is observed."""


@dataclass(frozen=True, repr=False)
class Observed(Recorded):
    """One run on one machine; another run gives other numbers."""

    race_total: int
    """What PROGRAMS programs made of one total, each adding 1,024 to it without an atomic."""
    first_programs: tuple[int, ...]
    """The programs that drew the first SHOWN tickets of a shared counter."""
    softmax_by_compile: str
    """The Triton kernel that torch.compile writes for a softmax in bfloat16."""
    dot_errors: dict[str, float]
    """How tl.dot multiplies and adds up -> the error of a product of two PRODUCT x PRODUCT matrices
    of normal numbers: the root of the sum of its squares over that of the result's."""

    @property
    def race(self) -> str:
        return f"{self._where()} a total of {self.race_total:,} in place of {PROGRAMS * 1024:,}."

    @property
    def order(self) -> str:
        return f"{self._where()} the first programs were {list(self.first_programs)}."

    @property
    def dots(self) -> str:
        table = numbers([(f"    {how}", f"{error:.1e}") for how, error in self.dot_errors.items()])
        return f"{self._where()} error of a product of {PRODUCT:,} x {PRODUCT:,}\n{table}"

    def _where(self) -> str:
        when = "Recorded" if self.recorded else "Seen now"
        return f"{when} on {self.machine.gpu}, {self.machine.date}:"

    def __str__(self) -> str:
        return f"{self.race}\n{self.order}\n{self.dots}"


@triton.jit
def total_kernel(x_ptr, total_ptr):
    """total += sum(x), wrongly: every program owns 1,024 elements of x, and all own the total."""
    offsets = tl.program_id(axis=0) * 1024 + tl.arange(0, 1024)
    part = tl.sum(tl.load(x_ptr + offsets), axis=0)
    tl.store(total_ptr, tl.load(total_ptr) + part)


@triton.jit
def order_kernel(counter_ptr, order_ptr):
    """order[k] = the program that drew ticket k."""
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.store(order_ptr + ticket, tl.program_id(axis=0))


def observe() -> Observed:
    """Run both kernels on this GPU. Raises CourseError without one."""
    require_gpu()
    ones, total = torch.ones(PROGRAMS * 1024, device="cuda"), torch.zeros(1, device="cuda")
    total_kernel[(PROGRAMS,)](ones, total)
    counter = torch.zeros(1, dtype=torch.int32, device="cuda")
    order = torch.empty(PROGRAMS, dtype=torch.int32, device="cuda")
    order_kernel[(PROGRAMS,)](counter, order)
    return Observed(
        machine=this_machine(),
        race_total=int(total.item()),
        first_programs=tuple(order[:SHOWN].tolist()),
        softmax_by_compile=_softmax_by_compile(),
        dot_errors=_dot_errors(),
    )


@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr,
    N: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """c = a @ b for contiguous [N, N]: one BLOCK x BLOCK tile per program, summed in SUM."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], SUM)
    for start in range(0, N, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * N + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=SUM)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


DOTS = {
    "float32, input_precision='ieee'": (torch.float32, "ieee", tl.float32),
    "float32, input_precision='tf32x3'": (torch.float32, "tf32x3", tl.float32),
    "float32, by default (TF32)": (torch.float32, "tf32", tl.float32),
    "float16": (torch.float16, "tf32", tl.float32),
    "bfloat16": (torch.bfloat16, "tf32", tl.float32),
    "float16, added up in float16": (torch.float16, "tf32", tl.float16),
}
"""How a product is shown -> its inputs' dtype, PRECISION and SUM."""


def _dot_errors() -> dict[str, float]:
    random = torch.Generator(device="cuda").manual_seed(0)
    a, b = (torch.randn(PRODUCT, PRODUCT, device="cuda", generator=random) for _ in "ab")
    exact, errors = a.double() @ b.double(), {}
    for name, (dtype, *options) in DOTS.items():
        c = torch.empty(PRODUCT, PRODUCT, device="cuda")
        product_kernel[(PRODUCT // 64,) * 2](a.to(dtype), b.to(dtype), c, PRODUCT, 64, *options)
        errors[name] = float((c - exact).norm() / exact.norm())
    return errors


def _softmax_by_compile() -> str:
    from torch._inductor.utils import run_and_get_code

    x = torch.randn(SOFTMAX_ROWS, SOFTMAX_COLUMNS, dtype=torch.bfloat16, device="cuda")
    compiled = torch.compile(lambda x: torch.softmax(x, dim=-1), dynamic=False)
    _, codes = run_and_get_code(compiled, x)
    kernel = r"^@triton\.jit\n(.*?)^(?:\'\'\'|$(?=\n\S))"
    match = re.search(kernel, codes[0], re.MULTILINE | re.DOTALL)
    if match is None:
        raise CourseError("torch.compile wrote no Triton kernel for a softmax.")
    return match[0].rstrip("'\n ")


def observed() -> Observed:
    """This GPU's own in GPU mode; the recorded one in CPU mode."""
    if MODE.gpu:
        return observe()
    return observation(Observed, "programs")
