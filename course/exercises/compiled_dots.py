"""What exercises ask of the matrix products in a compiled kernel."""

import re


def dots_in_16_bits(stages: dict[str, str]) -> str:
    """What is wrong with a kernel's products of float16 blocks; empty if nothing is."""
    # Not the TTIR's word for whether there is one: there the compiler has made a dot of a sum of
    # products, not for tensor cores.
    if "tt.dot" not in stages["source"]:
        return "It multiplies without tl.dot, and so without tensor cores."
    if re.search(r"tt\.dot .*: tensor<\w+xf32\b[^>]*> \*", stages["ttir"]):
        return (
            "It gives tl.dot operands in float32, which tensor cores multiply at half the speed: "
            "leave them in float16, the product is added up in float32 all the same."
        )
    return ""
