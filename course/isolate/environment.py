"""The environment variables of a child."""

import os

from course.places import PACKED, content

from .ended import ChildKind


def child_environment(kind: ChildKind | None) -> dict[str, str]:
    """The variables of this moment, for a child of a kind; with None it chooses its mode anew."""
    environ = dict(os.environ)
    environ.pop("COURSE_CHILD", None)
    if kind is not None:
        # Importing course in the child would otherwise choose the mode anew.
        environ["COURSE_CHILD"] = kind
        environ["TRITON_INTERPRET"] = "1" if kind == "interpret" else "0"
    if not PACKED.is_dir():  # an installed course is found without
        folders = [str(content()), environ.get("PYTHONPATH")]
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    return environ


def worker_environment(kind: ChildKind) -> dict[str, str]:
    """The variables of a worker of a kind, which its tasks do not change."""
    environ = child_environment(kind)
    if kind != "launch":
        # Several threads that compute for one tensor wait for one another, and take more CPU time
        # the busier the machine is.
        environ["OMP_NUM_THREADS"] = "1"
    return environ
