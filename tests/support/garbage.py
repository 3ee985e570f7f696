"""pytest: Python's collector leaves alone what collecting tests has made, some million objects that
stay until the end. To go through them again and again takes a tenth of what a process computes.
"""

import gc

COLLECTED_AFTER = 20_000
"""New objects after which it looks at them; Python's own number is 700."""


def pytest_configure() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else libraries complain at the end of what was never freed
