"""All that is private in Triton and used here all the same, in one place. Tried with Triton 3.6.0, 3.7.1, 3.8.0 and 3.9.0.

In CPU mode a driver stands in that only names a target: `@triton.autotune` asks one for its configurations' times, and takes
the first one's.
"""

import triton
from triton.backends.compiler import GPUTarget

from course import MODE

from .driver import FixedDriver

if MODE.interpreting and not MODE.gpu and triton.runtime.driver._active is None:
    triton.runtime.driver.set_active(FixedDriver(GPUTarget("cuda", 90, 32), runs_trials=False))
