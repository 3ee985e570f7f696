"""What exercises ask of matrix products: of their values, and of the compiled kernel."""

import re

import torch

from .result import Judged, wrong


def product_in_float32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of float16 in float32; of float64, in which it is the reference, in float64."""
    wide = torch.promote_types(a.dtype, torch.float32)
    return a.to(wide) @ b.to(wide)


def dots_in_16_bits(stages: dict[str, str]) -> Judged | None:
    """What is wrong with a kernel's products of float16 blocks; None if nothing is."""
    # Not the TTIR's word for whether there is one: there the compiler has made a dot of a sum of
    # products, not for tensor cores.
    if "tt.dot" not in stages["source"]:
        text = "It multiplies without tl.dot, and so without tensor cores."
        return wrong("no dot", text)
    if re.search(r"tt\.dot .*: tensor<\w+xf32\b[^>]*> \*", stages["ttir"]):
        return wrong(
            "float32 operands",
            "It gives tl.dot operands in float32, which tensor cores multiply at half the speed: "
            "leave them in float16, the product is added up in float32 all the same.",
        )
    return None
