"""All that is private in Triton and used here all the same, in one place.

private_names.toml lists every such name. Tried with Triton 3.6.0, 3.7.1, 3.8.0 and 3.9.0.

In CPU mode `@triton.autotune` takes its first configuration: there is no GPU to measure on. No
driver is set for it, since other packages ask Triton's driver what GPU is there.
"""

from course import MODE

from .driver import do_not_measure

if MODE.interpreting and not MODE.gpu:
    do_not_measure()
