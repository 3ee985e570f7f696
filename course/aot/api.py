"""Kernels as C: export writes it, link joins variants, build compiles, load calls."""

import ctypes
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import triton

from course.errors import CourseError
from course.files import write_together
from course.gpus.limits import MOST_THREADS, Target
from course.lowering.compile_errors import run_compiler
from course.lowering.kernel_reference import kernel_and_reference, reference_of_text
from course.triton_internals.choices import picked_config
from course.triton_internals.jit_functions import inner_kernel
from course.type_names import Kernel, kind_of

from .c import dispatch
from .c import kernel as kernel_c
from .c_compiler import compile_library
from .cubin import check_parameters, read_cubin
from .driver import Driver, DriverLibrary
from .identifiers import check_name
from .loaded import Loaded, functions_of
from .manifest import Function, read_header
from .options import Options, Variant, nvidia_target
from .output_files import INDEX, check_out, hash_in_name, refuse_others_files
from .result import Exported, Linked
from .sealing import intact, sealed
from .signature import Constant, constants_of, parse_signature
from .variant_order import algorithms_of, check_alike
from .worker import UNSUPPORTED, CompiledVariant, compile_variants

Headers = Exported | str | Path
"""What `export` returned, or the path of a header that it wrote."""


def export(
    kernel: Kernel | str,
    variants: str | Variant | Sequence[str | Variant],
    grid: str,
    name: str,
    out: str | Path,
    num_warps: int = 4,
    num_stages: int = 3,
    target: str | None = None,
    force: bool = False,
    maxnreg: int | None = None,
    enable_fp_fusion: bool | None = None,
    config: int | triton.Config | None = None,
) -> Exported:
    """Compile a kernel and write C that loads and launches it. Needs no GPU.

    kernel: a function under @triton.jit, also one of a notebook's cell, or "file.py:name"; the file
        is executed.
    variants: a signature, as "*fp32:16, *fp32, i32, 1024", or a list of them. Each becomes a
        function; `link` joins them.
    grid: programs along x, y and z, as "cdiv(n, BLOCK), batch": numbers, the kernel's integers,
        + - * / % ( ) and cdiv.
    name: what the functions' names begin with. out: the files' path without hash and extension.
    target: as "sm_90" or "cuda:90:32"; by default this machine's GPU, or sm_90.
    force: write over files that are not ours.
    num_warps, num_stages, maxnreg, enable_fp_fusion: as a launch takes them. There is no num_ctas:
        the C launches no clusters.
    config: the configuration of a kernel under @triton.autotune that gives the first three, and the
        constants at the end that a signature leaves out: its number, or a triton.Config.

    Spills, and loads that more promises would make wider, are listed in the result's `warnings`.

    Raises CourseError for whatever cannot be exported, and has then written nothing.
    """
    check_name(name)
    path = check_out(out)
    if not isinstance(grid, str) or grid.encode(errors="ignore").decode() != grid:
        raise CourseError(
            f'The grid is {grid!r:.60}, and must be a text, as "cdiv(n, 1024), 1, 1".'
        )
    constants: dict[str, Constant] = {}
    listed, gpu = _listed(variants), nvidia_target(target)
    if config is None:
        reference = reference_of_text(kernel, "aot.export")
        usual = Options(num_warps, num_stages, maxnreg, enable_fp_fusion)
    else:
        kernel, reference = kernel_and_reference(kernel, "aot.export")
        picked = picked_config(kernel, config)
        names = inner_kernel(kernel).arg_names
        _refuse_beyond_c(picked, names)
        _refuse_given_twice(picked, names, (num_warps, num_stages, maxnreg) != (4, 3, None), listed)
        constants = constants_of(picked.kwargs)
        usual = Options(picked.num_warps, picked.num_stages, picked.maxnreg, enable_fp_fusion)
    parsed = [(parse_signature(variant.signature), usual.overridden(variant)) for variant in listed]
    kernel_name, text_hash, compiled = run_compiler(
        compile_variants, reference, parsed, grid, gpu.name, constants
    )
    contents: dict[Path, str] = {}
    functions: list[Function] = []
    headers: list[Path] = []
    warnings: list[str] = []
    for (signature, options), result in zip(parsed, compiled, strict=True):
        configured = [
            f"{argument.name}={argument.value}"
            for argument in result.arguments[len(signature.arguments) :]
            if argument.name in constants
        ]
        hash_and_hints = f"{signature.hash(options, configured)}_{signature.suffix}"
        cubin = read_cubin(result.code, result.symbol)
        check_parameters(result.arguments, cubin)
        _check_limits(kernel_name, result, gpu)
        function = Function(
            name=f"{name}_{hash_and_hints}", out_name=name, kernel=kernel_name,
            target=gpu.name, triton=triton.__version__, arguments=result.arguments,
            grid=" ".join(grid.split()), threads=result.threads, registers=cubin.registers,
            stack_bytes=cubin.stack_bytes, load_bytes=result.load_bytes,
            shared_bytes=result.shared_bytes, options=options, file=path.name,
            text_hash=text_hash,
        )  # fmt: skip
        header, source = (hash_in_name(path, hash_and_hints, suffix) for suffix in (".h", ".c"))
        if header in contents:
            text = f"{str(signature)!r:.200}"
            words = f"The signature {text} is given twice: leave one out."
            raise CourseError(words, kind="given twice")
        if not force:
            _refuse_another(header, function)
        contents[header] = kernel_c.header(function)
        contents[source] = kernel_c.source(function, cubin, header.name)
        functions.append(function)
        headers.append(header)
        warnings += _warnings(function, result)
    refuse_others_files(list(contents), force)
    write_together(contents)
    return Exported(name, tuple(functions), tuple(headers), tuple(warnings))


def _refuse_beyond_c(config: triton.Config, names: Sequence[str]) -> None:
    """Raise CourseError for a configuration that does more than its C would, or is of another
    kernel than the one with these arguments."""
    if unknown := sorted(config.kwargs.keys() - set(names)):
        raise CourseError(
            f"This configuration gives {unknown[0]}, and the kernel's arguments are "
            f"{', '.join(names)}."
        )
    if config.pre_hook is not None:
        raise CourseError(
            "This configuration calls a function before each launch (pre_hook), which its C would "
            "not do: give the options and constants by themselves, and do in C what it does."
        )
    if getattr(config, "ir_override", None):  # Triton 3.6 and later
        raise CourseError(
            "This configuration replaces the kernel's IR by a file's (ir_override), which is not "
            "exported: give the options and constants by themselves."
        )
    if config.num_ctas > 1:
        raise CourseError(f"This configuration cannot be exported: {UNSUPPORTED['num_ctas']}.")


def _refuse_given_twice(
    config: triton.Config, names: Sequence[str], has_options: bool, variants: list[Variant]
) -> None:
    """Raise CourseError for options or constants that a configuration gives as well.

    has_options: whether the export has options of its own, other than their defaults.
    """
    own = {(each.num_warps, each.num_stages, each.maxnreg) for each in variants}
    if has_options or own != {(None, None, None)}:
        raise CourseError(
            "A configuration gives num_warps, num_stages and maxnreg: leave out these, or it."
        )
    for variant in variants:
        given = names[: len(parse_signature(variant.signature).arguments)]
        if twice := [name for name in given if name in config.kwargs]:
            raise CourseError(
                f"The signature {variant.signature!r:.200} gives {twice[0]}, as the configuration "
                "does: leave it out at the signature's end, or leave out the configuration."
            )


def _warnings(function: Function, compiled: CompiledVariant) -> Iterator[str]:
    """Sentences about what makes a function slower than it need be."""
    if compiled.spills:
        yield (
            f"{function.name} spills: a thread keeps {function.stack_bytes:,} bytes in memory that "
            "find no register, so give it more warps (num_warps) or smaller blocks."
        )
    if compiled.narrow:
        yield f"{function.name} {compiled.narrow}"


def _listed(variants: str | Variant | Sequence[str | Variant]) -> list[Variant]:
    if isinstance(variants, (str, Variant)):
        variants = [variants]
    are_texts = isinstance(variants, (list, tuple)) and all(
        isinstance(getattr(variant, "signature", variant), str) for variant in variants
    )
    if not are_texts:
        raise CourseError(
            f"The variants are {variants!r:.60}: give a signature, as a text, or a list of them."
        )
    if not variants:
        raise CourseError("There is nothing to export: give at least one signature.")
    return [Variant(variant) if isinstance(variant, str) else variant for variant in variants]


def _check_limits(kernel: str, compiled: CompiledVariant, target: Target) -> None:
    if compiled.threads > MOST_THREADS:
        raise CourseError(
            f"{kernel} has {compiled.threads:,} threads, with those of its partitions, and a "
            f"program may have {MOST_THREADS:,}: take fewer warps."
        )
    needed, most = compiled.shared_bytes, target.shared_bytes
    if needed > most:
        raise CourseError(
            f"{kernel} needs {needed:,} bytes of shared memory, and a program on {target.name} may "
            f"have {most:,}: take smaller blocks or fewer stages."
        )


def _refuse_another(header: Path, function: Function) -> None:
    """Raise CourseError if the header is another export's: its name lacks kernel and target, and
    what stands behind a dot in the output's."""
    try:
        there = read_header(header).functions[0] if header.is_file() else function
    except CourseError:
        return  # it is no header of ours: refuse_others_files
    content, ours = (
        f"{each.kernel} as {each.out_name} for {each.target}" for each in (there, function)
    )
    if there.file != function.file:
        content += f" from the output {there.file}"
    if content != ours:
        raise CourseError(
            f"{header} exists, and holds {content}: name another output, or write over it by force."
        )


def link(exported: Headers | Iterable[Headers], out: str | Path, force: bool = False) -> Linked:
    """Write NAME.h and NAME.c at `out` with a function that picks among variants.

    exported: what `export` returned, or headers that it wrote; several of one name.
    The function takes an algo_id: variants with the same constants and options are one algorithm,
    numbered in the order given. Of one algorithm's variants it takes the one that relies on the
    most hints that hold.

    Raises CourseError if the variants do not take the same arguments.
    """
    path = check_out(out)
    variants = [(header, _function_in(header)) for header in _headers(exported)]
    if not variants:
        raise CourseError("There is nothing to link: give at least one header.")
    check_alike(variants)
    algorithms = algorithms_of([function for _, function in variants])
    header, source = (path.with_name(f"{path.name}{suffix}") for suffix in (".h", ".c"))
    if header.resolve() in [each.resolve() for each, _ in variants]:
        raise CourseError(f"{header} is a header to link: name another output.")
    sources = tuple(each.with_suffix(".c") for each, _ in variants)
    if missing := [each for each in sources if not each.is_file()]:
        raise CourseError(f"{missing[0]} is not there, beside its header: export it again.")
    here = path.parent.resolve()  # and not as it is written: folders may be links
    relative = [os.path.relpath(each.resolve(), here) for each in sources]
    texts = dispatch.files(algorithms, relative, header.name)
    contents = dict(zip((header, source), texts, strict=True))
    refuse_others_files(list(contents), force)
    write_together(contents)
    return Linked(variants[0][1].out_name, algorithms, header, sources)


def _headers(exported: Headers | Iterable[Headers]) -> Iterator[Path]:
    if isinstance(exported, Exported):
        yield from exported.headers
    elif isinstance(exported, (str, Path)):
        yield Path(exported)
    elif isinstance(exported, Iterable):
        for each in exported:
            yield from _headers(each)
    else:
        raise CourseError(f"link takes what export returned, or headers; this is {exported!r:.60}.")


def _function_in(header: Path) -> Function:
    manifest = read_header(header)
    if manifest.linked:
        raise CourseError(f"{header} is linked already: give the headers of its variants.")
    return manifest.functions[0]


def build(
    code: Linked | Exported | str | Path, out: str | Path | None = None, force: bool = False
) -> Path:
    """Compile what `link` or `export` wrote into a shared library for `load`; returns its path.

    code: what they returned, or the path of a header of theirs. out: the library; by default
        NAME.so beside the header. force: write over a file that is not ours.
    The driver's functions stay undefined in the library: whoever loads it has loaded libcuda.so.1
    before.

    Raises CourseError if there is no C compiler, or if it refuses.
    """
    headers, sources = _parts(code)
    name = code.name if isinstance(code, Exported) else headers[0].name.removesuffix(".h")
    library = headers[0].with_name(f"{name}.so") if out is None else check_out(out)
    if library.resolve() in [path.resolve() for path in (*headers, *sources)]:
        raise CourseError(f"{library} is one of the files to build from: name another output.")
    refuse_others_files([library], force)
    manifests = [asdict(read_header(header)) for header in headers]
    if missing := [source for source in sources if not source.is_file()]:
        raise CourseError(f"{missing[0]} is not there: export it again, and link again.")
    numbers = ",".join(str(byte) for byte in json.dumps(manifests).encode())
    with tempfile.TemporaryDirectory(prefix="course-aot-") as folder:
        index, built = Path(folder) / "index.c", Path(folder) / "library.so"
        index.write_text(f"extern const char {INDEX}[];\nconst char {INDEX}[] = {{{numbers},0}};\n")
        compile_library([*sources, index], built)
        write_together({library: sealed(built.read_bytes())})
    return library


def _parts(code: Linked | Exported | str | Path) -> tuple[list[Path], list[Path]]:
    """Headers and sources."""
    if isinstance(code, (Linked, Exported)):
        return list(code.headers), list(code.sources)
    if not isinstance(code, (str, os.PathLike)):
        raise CourseError(
            "build takes what aot.export or aot.link returned, or the path of a header of theirs; "
            f"this is {kind_of(code)}."
        )
    header = Path(code)
    variants = [header.parent / source for source in read_header(header).sources]
    return [header], [header.with_suffix(".c"), *variants]


def load(library: str | Path, driver: DriverLibrary | None = None) -> Loaded:
    """The functions of a library that `build` made, to be called with tensors.

    driver: `aot.fake_driver`, which launches nothing and records what it is told, with tensors on
        the CPU; by default NVIDIA's own. One process can use one of the two.
    Raises CourseError if it is no such library, or if there is no driver.
    """
    if not isinstance(library, (str, os.PathLike)):
        raise CourseError(
            f"load takes the path that aot.build returned; this is {kind_of(library)}."
        )
    path = Path(library)
    if not path.is_file():
        raise CourseError(f"There is no library {path}: make it with aot.build.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CourseError(f"{path} could not be read: {error.strerror}.") from error
    not_ours = f"{path} is no library that aot.build made"
    if not intact(content):
        raise CourseError(f"{not_ours}, or it was cut off or changed since: build it again.")
    own_driver = Driver(driver)
    # Loaded as a copy under another name: the loader would give back what was at this path before.
    with tempfile.TemporaryDirectory(prefix="course-aot-") as folder:
        copy = Path(folder) / path.name
        try:
            copy.write_bytes(content)
            loaded = ctypes.CDLL(str(copy))
            functions = {each.name: each for each in functions_of(loaded, own_driver)}
        except (OSError, ValueError) as error:
            said = str(error).replace(str(copy), str(path))
            raise CourseError(f"{not_ours}: {said}.") from error
    return Loaded(path, functions, loaded, own_driver)
