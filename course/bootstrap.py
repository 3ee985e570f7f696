"""Find a Python that can set the course up, and hand over to `course/environments.py` with it.

This is the first step of `make lab` and `make test`. Whatever Python is there runs it, and a Python
that is too old shall say so in a sentence: so it is written in what Python 2.7 and 3 share, uses
the standard library alone, and imports nothing of the course.
"""

import os
import platform
import subprocess
import sys

PYTHONS = ("python3.13", "python3.12", "python3.11")
OLDEST, NEWEST = (3, 11), (3, 13)
ENVIRONMENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "environments.py")


class Stop(Exception):
    """The set-up cannot go on; the message is one sentence that says what to do."""


def main(arguments):
    """Hand over; return the exit code where that cannot be done."""
    try:
        if "--site" not in arguments:
            check_system(sys.platform)
        python = choose_python()
    except Stop as stop:
        sys.stderr.write("Set-up: %s\n" % stop)
        return 1
    except KeyboardInterrupt:
        return 130
    os.execv(python, [python, ENVIRONMENTS] + list(arguments))  # noqa: RUF005


def check_system(system):
    """Raise Stop where Triton has no wheels."""
    if not system.startswith("linux"):
        name = {"darwin": "macOS", "win32": "Windows"}.get(system, system)
        wsl = ", or clone it inside WSL2 and run make lab there" if system == "win32" else ""
        raise Stop(
            "Triton has no wheels for %s: open this folder as a dev container (VS Code: Dev"
            " Containers: Reopen in Container)%s." % (name, wsl)
        )
    machine = platform.machine()
    if machine not in ("x86_64", "aarch64"):
        raise Stop(
            "Triton has wheels for x86-64 and arm64 only, and this is %s: use such a machine."
            % machine
        )


def choose_python():
    """The path of a Python that serves: of this one, or else of one on PATH. Raises Stop where
    there is none."""
    version = sys.version_info[:2]
    if OLDEST <= version <= NEWEST:
        return sys.executable
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for path in [os.path.join(folder, name) for name in PYTHONS for folder in folders]:
        if is_fit(path):
            return path
    raise Stop(
        "Python %d.%d is too %s and no other was found: install Python 3.12 (Debian, Ubuntu:"
        " apt-get install python3.12-venv), or name one with make lab PYTHON=/path/to/python3.12."
        % (version[0], version[1], "old" if version < OLDEST else "new")
    )


def is_fit(python):
    """Whether this file starts and is a Python that serves: a version manager puts names on PATH
    that start nothing."""
    code = "import sys; sys.exit(not %s <= sys.version_info[:2] <= %s)" % (OLDEST, NEWEST)
    with open(os.devnull, "w") as nowhere:
        try:
            return not subprocess.call([python, "-c", code], stdout=nowhere, stderr=nowhere)
        except OSError:
            return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
