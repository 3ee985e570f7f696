"""Calls of what Triton's interpreter asks of libtriton, on drawn inputs; run in both worlds."""

import numpy as np
import torch
from triton._C.libtriton import getenv, getenv_bool, interpreter, ir, native_specialize_impl

TYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")


def calls():
    """name -> what comes out."""
    rng, found = np.random.default_rng(11), {}
    for home in (ir, interpreter):
        for name in dir(home):
            if members := getattr(getattr(home, name), "__members__", None):
                values = {
                    each: int(getattr(value, "value", value)) for each, value in members.items()
                }
                found[f"{home.__name__.rpartition('.')[2]}.{name}"] = values
    for kind in TYPES:
        for shape in ((1,), (64,), (8, 16)):
            found[f"{kind} {shape}"] = memory(rng, np.dtype(kind), shape)
    numbers = (
        rng.integers(0, 2**32, (3, 20_000), dtype=np.uint64).astype(np.uint32).view(np.float32)
    )
    near = rng.standard_normal((3, 20_000)).astype(np.float32)
    near[2, ::3] = (-near[0] * near[1])[::3]
    with np.errstate(all="ignore"):
        for name, (x, y, z) in (("bits", numbers), ("near", near)):
            fused = interpreter.fma_fp32(x, y, z)
            found[f"fma {name}"] = np.where(
                np.isnan(fused), 0x7FC00000, fused.view(np.uint32)
            ).tolist()
    for value in (None, True, False, 1, 2, 16, -1, 2**31, 2**63, 0, 1.5):
        for specialize in (True, False):
            asked = native_specialize_impl(Backend, value, False, specialize, True)
            found[f"type of {value} {specialize}"] = [*map(str, asked)]
            whole = torch.zeros(32, dtype=torch.float16)
            for of, tensor in (("whole", whole), ("part", whole[1:])):
                asked = native_specialize_impl(Backend, tensor, False, specialize, True)
                found[f"type of the {of} {value} {specialize}"] = [*map(str, asked)]
    found["environment"] = [
        getenv("NOT_THERE"),
        getenv("NOT_THERE", "x"),
        getenv_bool("NOT_THERE", True),
    ]
    return found


class Backend:
    """What a value is specialized for."""

    @staticmethod
    def get_int_specialization(value, **_):
        return "D" if value % 16 == 0 else ""

    @staticmethod
    def get_tensor_specialization(value, **_):
        return "D" if value.data_ptr() % 16 == 0 else ""


def memory(rng, kind, shape):
    """Loads, stores and atomics of a type, at drawn places."""
    held = (rng.standard_normal(50) * 50).astype(kind)
    index, mask = rng.integers(0, 50, shape), rng.random(shape) < 0.7
    other = (rng.standard_normal(shape) * 9).astype(kind)
    ptrs = (held.ctypes.data + index * held.itemsize).astype(np.uint64)
    found = [interpreter.load(ptrs, mask, other, kind).tolist()]
    interpreter.store(ptrs, other, mask)
    found.append(held.tolist())
    for name, op in interpreter.RMW_OP.__members__.items():
        try:
            old = interpreter.atomic_rmw(op, ptrs, other, mask, interpreter.MEM_SEMANTIC.RELAXED)
            found += [name, np.where(mask, old, 0).tolist(), held.tolist()]
        except ValueError:
            found.append(f"{name} refused")
    if kind.kind in "iu":
        expected = rng.choice(held, shape)
        old = interpreter.atomic_cas(ptrs, expected, other, interpreter.MEM_SEMANTIC.RELAXED)
        found += [old.tolist(), held.tolist()]
    return found
