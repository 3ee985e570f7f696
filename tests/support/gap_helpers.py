"""A helper in a module that has a function of the language under its own name, and does not have
the language."""

import triton
from triton.language import exp as exponential


@triton.jit
def exp_of(x):
    return exponential(x)
