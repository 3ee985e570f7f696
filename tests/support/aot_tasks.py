"""For a child to run: Triton's own linker."""

import contextlib
import io
import runpy
import sys


def stock_link(headers, out):
    """What `triton.tools.link` says when it fails, or nothing."""
    sys.argv = ["link", *headers, "-o", out]
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            runpy.run_module("triton.tools.link", run_name="__main__")
        except Exception as error:
            return str(error)
    return ""
