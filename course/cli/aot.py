"""`course aot …`: kernels as C from a shell, with the flags of Triton's own tools
(triton.tools.compile and .link)."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Export kernels to C ahead of time, link variants, build libraries.", no_args_is_help=True
)

FILE = "A Python file with the kernel. It is executed as Python, all of it."
SIGNATURE = (
    'A type or a constant for each argument, as "*fp32:16, *fp32, i32:16, 1024": :16 promises a '
    "multiple of 16, :1 that it is 1. Given several times, each becomes a variant."
)
GRID = 'Programs along x, y and z, as "cdiv(n, 1024), heads": integers, + - * / % ( ) and cdiv.'
OUT = "Path of the files, to which a hash and .c, .h are added; the out-name."
NAME = "What the C functions are called; the kernel's name."
TARGET = "As sm_90 or cuda:90:32; this machine's GPU, or sm_90."
NO_FUSION = "Round a product before it is added, in place of once after both."

OutName = typer.Option("--out-name", "-on", "--output-name", help=NAME)
MaxRegisters = typer.Option("--maxnreg", help="At most so many registers per thread.")
Header = typer.Argument(help="A header that `course aot link` or `compile` wrote.")
Headers = typer.Argument(help="Headers that `course aot compile` wrote, of one name.")
Linked = typer.Option("--out", "-o", help="Path of the two files, without .c and .h.")
Library = typer.Option("--out", "-o", help="The library; beside the header, NAME.so.")
Folder = typer.Argument(help="Where to: a folder below the current one.")
Changed = typer.Option("--force", help="Write over programs in it that were changed.")
Force = Annotated[
    bool, typer.Option("--force", help="Write over files that this tool did not write.")
]


@app.command(name="compile")
def compile_kernel(
    file: Annotated[str, typer.Argument(help=FILE)],
    kernel: Annotated[str, typer.Option("--kernel-name", "-n", help="The kernel in it.")],
    signature: Annotated[list[str], typer.Option("--signature", "-s", help=SIGNATURE)],
    grid: Annotated[str, typer.Option("--grid", "-g", help=GRID)],
    out: Annotated[str | None, typer.Option("--out-path", "-o", help=OUT)] = None,
    name: Annotated[str | None, OutName] = None,
    num_warps: Annotated[int, typer.Option("--num-warps", "-w", help="Warps per program.")] = 1,
    num_stages: Annotated[int, typer.Option("--num-stages", "-ns", help="Pipeline depth.")] = 3,
    target: Annotated[str | None, typer.Option("--target", "-t", help=TARGET)] = None,
    force: Force = False,
    maxnreg: Annotated[int | None, MaxRegisters] = None,
    no_fp_fusion: Annotated[bool, typer.Option("--no-fp-fusion", help=NO_FUSION)] = False,
) -> None:
    """Compile a kernel to C that holds, loads and launches it. Executes FILE as Python. Needs no
    GPU."""
    from course import aot

    out_name = kernel if name is None else name
    exported = aot.export(
        f"{file}:{kernel}", signature, grid, out_name, out_name if out is None else out,
        num_warps=num_warps, num_stages=num_stages, target=target, force=force,
        maxnreg=maxnreg, enable_fp_fusion=False if no_fp_fusion else None,
    )  # fmt: skip
    print(exported)


@app.command()
def link(
    headers: Annotated[list[str], Headers], out: Annotated[str, Linked], force: Force = False
) -> None:
    """Join variants behind one function, which picks by algo_id and by what the arguments allow."""
    from course import aot

    print(aot.link(headers, out, force=force))


@app.command()
def build(
    header: Annotated[Path, Header],
    out: Annotated[str | None, Library] = None,
    force: Force = False,
) -> None:
    """Compile linked C, or that of one kernel, into a shared library. Needs a C compiler: cc, gcc
    or clang, or $CC."""
    from course import aot

    print(aot.build(header, out, force=force))


@app.command()
def sample(
    name: Annotated[str, typer.Argument(help="vector_add, softmax or attention.")],
    folder: Annotated[str, Folder],
    target: Annotated[
        str, typer.Option("--target", "-t", help="As sm_90 or cuda:90:32.")
    ] = "sm_90",
    force: Annotated[bool, Changed] = False,
) -> None:
    """Write a complete program in C, and one in C++, around a kernel of the course. Needs no
    GPU."""
    from course import aot

    print(aot.sample(name, folder, target=target, force=force))


@app.command()
def fake_driver() -> None:
    """Print the path of a library in the place of NVIDIA's driver, which records launches and
    computes nothing."""
    from course import aot

    print(aot.fake_driver.path())
