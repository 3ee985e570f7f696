"""Kernels of others, published at pinned versions: through lower, replay, cost and export."""

import importlib
import inspect
import re
import struct
import sys

import numpy as np
import pytest
import torch

import course
from course import aot, cost, lower, replay
from course.aot import fake_driver
from course.lowering.arguments import DTYPES
from course.triton_internals.jit_functions import inner_kernel, plain_function
from tests.kernels.published.fetch import NotFetchedError, unpack, wheel
from tests.kernels.published.launches import LAUNCHES, PACKAGES, Launch

# One process can use the fake driver or the real one, and in GPU mode tests/gpu/test_aot.py uses
# the real one.
pytestmark = [
    pytest.mark.skipif(
        course.MODE.gpu,
        reason="needs CPU mode: kernels of others are interpreted, and called on the fake driver",
    ),
    pytest.mark.filterwarnings(
        "ignore:Triton is not supported on current platform"
    ),  # fla, where there is no GPU
]

TENSOR = re.compile(r"(\w+)\[(\d+)\](?:<(\d+))?")


@pytest.fixture(scope="session")
def wheels():
    """By package its wheel, or why it is not there. After the first failure no other is tried."""
    by_name, reason = {}, ""
    for package in PACKAGES:
        try:
            by_name[package.name] = reason or wheel(package)
        except NotFetchedError as error:
            by_name[package.name] = reason = str(error)
    return by_name


@pytest.fixture(scope="session")
def unpacked(wheels, tmp_path_factory):
    """A folder on sys.path with the kernels' modules."""
    folder = tmp_path_factory.mktemp("published")
    for package in PACKAGES:
        if not isinstance(wheels[package.name], str):
            unpack(package, wheels[package.name], folder)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(params=LAUNCHES, ids=lambda launch: f"{launch.package}-{launch.kernel}")
def launch(request, wheels):
    if isinstance(wheels[request.param.package], str):
        pytest.skip(f"needs the network: {wheels[request.param.package]}")
    return request.param


@pytest.fixture
def kernel(launch, unpacked):
    module = importlib.import_module(launch.module)
    assert module.__file__.startswith(str(unpacked))
    return getattr(module, launch.kernel)


def argument(text, seed, offset):
    """What a launch is given for one argument; a tensor begins so many elements into its memory."""
    if not isinstance(text, str):
        return text
    dtype, length, below = TENSOR.fullmatch(text).groups()
    size, chance = int(length) + offset, torch.Generator().manual_seed(seed)
    if below or not DTYPES[dtype].is_floating_point:
        return torch.randint(0, int(below or 100), (size,), generator=chance).to(DTYPES[dtype])[
            offset:
        ]
    return torch.randn(size, generator=chance).to(DTYPES[dtype])[offset:]


def arguments(launch, offset=0):
    return [argument(each, number, offset) for number, each in enumerate(launch.args)]


def test_it_is_lowered_to_every_stage(launch, kernel):
    for target in launch.targets:
        lowered = lower(
            kernel, *arguments(launch), **launch.constants, **launch.options, target=target
        )
        last = "amdgcn" if target.startswith("gfx") else "ptx"
        assert list(lowered.texts) == ["ttir", "ttgir", "llir", last]
        assert all(launch.kernel in text for text in lowered.texts.values())
        assert lowered.binary.startswith(b"\x7fELF")
        stores = [line for line in lowered.lines.source if "tl.store(" in line.text]
        assert any("ttgir" in lowered.lines.of(line.number, line.file) for line in stores)


def test_replay_shows_what_the_interpreter_stores(launch, kernel):
    """Program 0: replay shows all elements of blocks up to 32 x 32 and tensors up to 4,096."""
    shown = replay(kernel, launch.grid, *arguments(launch), **launch.constants, **launch.options)
    compute = launch.computed
    right = compute(tensors_of(arguments(launch))) if compute else interpreted(launch, kernel)
    stores = {}
    for step in shown.steps:
        for touch in step.touches:
            if touch.kind == "store":
                stores.setdefault(touch.tensor, []).append(stored(touch))
    assert stores
    for tensor, touches in stores.items():
        places, values = (np.concatenate(parts) for parts in zip(*touches, strict=True))
        expected = np.sort(right[tensor].double().numpy().ravel()[places])
        assert np.allclose(np.sort(values), expected, rtol=1e-5, atol=1e-6)


def interpreted(launch, kernel):
    """The launch's tensors after Triton's own interpreter has run program 0 and no other."""
    args = arguments(launch)
    inner_kernel(kernel)[(1,)](*args, **launch.constants)
    return tensors_of(args)


def tensors_of(args):
    return [arg for arg in args if isinstance(arg, torch.Tensor)]


def stored(touch):
    """The elements that a store has touched, and the values it has stored."""
    places = np.flatnonzero(np.unpackbits(touch.cells.numbers, bitorder="little"))
    value = touch.value
    if value.text is not None:
        return places, np.array([float(value.text)])
    assert value.patch == (1, 1)
    values = value.data.numbers.astype(np.float64)
    return places, values[value.mask.numbers != 0] if value.mask else values


def test_cost_counts_the_bytes_that_a_hand_counts(launch, kernel):
    counts = cost(
        kernel, launch.grid, *arguments(launch), **launch.constants, **launch.options, target="H100"
    )
    assert counts.exact and counts.resources is not None and counts.resources.registers > 0
    if launch.bytes is not None:
        assert (counts.bytes_loaded, counts.bytes_stored) == launch.bytes


def test_its_c_is_built_and_called(launch, kernel, tmp_path):
    """One variant with all the hints that aligned tensors get, and one with none."""
    names = list(inspect.signature(plain_function(kernel)).parameters)
    by_name = dict(zip(names, launch.args, strict=False)) | launch.constants
    parts = [part(by_name[name], name in launch.constants) for name in names if name in by_name]
    signatures = [", ".join(parts), ", ".join(each.partition(":")[0] for each in parts)]
    grid = ", ".join(map(str, launch.grid))

    exported = aot.export(
        kernel, signatures, grid, "published", tmp_path / "k", target="sm_90", **launch.options
    )
    function = aot.load(
        aot.build(aot.link(exported, tmp_path / "linked")), driver=fake_driver
    ).published
    for offset in (0, 1):
        values = [each for each in arguments(launch, offset) if each is not None]
        with fake_driver.recorded() as calls:
            function(*values)
        call = calls[-1]
        assert call.details["kernel"] == launch.kernel and call.grid == (*launch.grid, 1, 1)[:3]
        # With the hint :1 an argument that is 1 is compiled in.
        expected = [
            packed(each) for each in values if offset or isinstance(each, torch.Tensor) or each != 1
        ]
        assert list(call.arguments[: len(expected)]) == expected
        assert set(call.arguments[len(expected) :]) <= {bytes(8)}  # Triton's scratch memory


def part(value, constant):
    """A part of a signature, with every hint that holds."""
    if constant or value is None:
        return repr(value)
    if isinstance(value, str):
        return f"*{TENSOR.fullmatch(value)[1]}:16"
    if isinstance(value, float):
        return "fp32"
    return f"i32{':1' if value == 1 else ':16' if value % 16 == 0 else ''}"


def packed(value):
    """The bytes of an argument, as the kernel reads them."""
    if isinstance(value, torch.Tensor):
        return struct.pack("<Q", value.data_ptr())
    return struct.pack("<f" if isinstance(value, float) else "<i", value)


def test_what_cannot_be_fetched_is_named(tmp_path, monkeypatch):
    for name in ("EXTRA_INDEX_URL", "FIND_LINKS", "NO_INDEX"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(
        NotFetchedError, match=r"^liger-kernel==0\.8\.5 was not fetched: ERROR: .*liger-kernel"
    ):
        wheel(PACKAGES[0], tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_launches_are_of_eight_packages_and_more():
    assert len({each.package for each in LAUNCHES}) >= 8
    assert {each.package for each in LAUNCHES} == {each.name for each in PACKAGES}
    assert all(isinstance(each, Launch) for each in LAUNCHES)
