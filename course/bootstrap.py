"""Make .venv with the locked versions: the first half of `make lab` and `make test`.

It is run as a script by whatever Python is there, before anything is installed, so it uses the standard library
alone, imports nothing of the course, and is written so that an old Python 3 can read it far enough to say so.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, "course-lock.sha256")
LOCK = os.path.join(ROOT, "requirements.lock")
INPUTS = (LOCK, os.path.join(ROOT, "pyproject.toml"))

PYTHONS = ("python3.13", "python3.12", "python3.11")
OLDEST, NEWEST = (3, 11), (3, 13)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NEEDED_GB = {"cpu": 4, "": 10}


class Stop(Exception):
    """The set-up cannot go on; the message is one sentence that says what to do."""


def main():
    """Make .venv, or do nothing where it is there and made from this lock; return the exit code."""
    try:
        check_system(sys.platform)
        python = choose_python()
        if python is not None:
            return subprocess.call([python, os.path.abspath(__file__)])
        torch = os.environ.get("TORCH", "")
        if torch not in NEEDED_GB:
            raise Stop("TORCH is %r: set it to cpu for PyTorch's CPU build, or leave it unset." % torch)
        if is_made():
            return 0
        check_compiler()
        check_disk(torch)
        make(torch)
    except Stop as stop:
        sys.stderr.write("Set-up: %s\n" % stop)
        return 1
    except OSError as error:
        sys.stderr.write("Set-up: %s: make sure that you may write in %s and that it is not full.\n" % (error, ROOT))
        return 1
    return 0


def check_system(system):
    """Raise Stop where Triton has no wheels."""
    if not system.startswith("linux"):
        name = {"darwin": "macOS", "win32": "Windows"}.get(system, system)
        raise Stop(
            "Triton has no wheels for %s: open this folder as a dev container (VS Code: Dev Containers: Reopen in "
            "Container)%s." % (name, ", or clone it inside WSL2 and run make lab there" if system == "win32" else "")
        )
    if platform.machine() not in ("x86_64", "aarch64"):
        raise Stop("Triton has wheels for x86-64 and arm64 alone, and this is %s: use such a machine." % platform.machine())


def choose_python():
    """None where this Python serves, else the path of one on PATH that does. Raises Stop where there is none."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return None
    for name in PYTHONS:
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            path = shutil.which(name, path=folder)
            if path and is_fit(path):
                return path
    raise Stop(
        "Python %d.%d is too %s and no other was found: install Python 3.12 (Debian, Ubuntu: apt-get install "
        "python3.12-venv), or name one with make lab PYTHON=/path/to/python3.12."
        % (sys.version_info[0], sys.version_info[1], "old" if sys.version_info[:2] < OLDEST else "new")
    )


def is_fit(python):
    """Whether this file starts and is a Python that serves: a version manager puts names on PATH that start nothing."""
    code = "import sys; sys.exit(not %r <= sys.version_info[:2] <= %r)" % (OLDEST, NEWEST)
    try:
        return subprocess.call([python, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def check_compiler():
    """Raise Stop where a GPU is there and what Triton needs to launch on it is not."""
    if not (os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")):
        return  # without a GPU Triton compiles no C
    compilers = [name for name in (os.environ.get("CC"), "gcc", "clang", "cc") if name]
    if not any(shutil.which(name) for name in compilers):
        raise Stop(
            "Triton needs a C compiler to launch kernels on this GPU: install one (Debian, Ubuntu: apt-get install gcc)."
        )
    if not os.path.isfile(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        raise Stop(
            "Triton needs Python's headers to launch kernels on this GPU: install them (Debian, Ubuntu: apt-get install "
            "python%d.%d-dev)." % sys.version_info[:2]
        )


def check_disk(torch):
    """Raise Stop where the packages will not fit."""
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < NEEDED_GB[torch]:
        cpu = "" if torch == "cpu" else ", or take PyTorch's CPU build with TORCH=cpu, which needs %d" % NEEDED_GB["cpu"]
        raise Stop("The packages need %d GB in %s and %.1f are free: make room%s." % (NEEDED_GB[torch], ROOT, free, cpu))


def wanted_stamp():
    """What the stamp says when .venv was made from these files by this Python."""
    digest = hashlib.sha256(("%s %s" % (sys.version, os.environ.get("TORCH", ""))).encode())
    for path in INPUTS:
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def is_made():
    """Whether .venv is there, works, and was made from this lock."""
    try:
        with open(STAMP) as file:
            return file.read() == wanted_stamp() and os.access(venv_python(), os.X_OK)
    except OSError:
        return False


def venv_python():
    return os.path.join(VENV, "bin", "python")


def make(torch):
    """Make .venv and install the lock into it; the stamp comes last, so a broken-off set-up is begun again."""
    if os.path.exists(STAMP):
        os.remove(STAMP)
    # torch==2.13.0 is satisfied by 2.13.0+cpu and the other way round: pip would keep the wrong build.
    build = os.path.join(VENV, "course-torch")
    if not os.access(venv_python(), os.X_OK) or not same_python() or read(build) != torch:
        print("Making .venv with Python %s" % platform.python_version(), flush=True)
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if made.returncode:
            raise Stop(explain_venv(made.stdout.decode(errors="replace")))
        with open(build, "w") as file:
            file.write(torch)
    print("Installing the locked packages (a few minutes the first time)", flush=True)
    options = ["--extra-index-url", CPU_INDEX] if torch == "cpu" else []
    pip(["install", *options, "-r", LOCK])
    pip(["install", "-q", "--no-deps", "--no-build-isolation", "--editable", ROOT])
    with open(STAMP, "w") as file:
        file.write(wanted_stamp())


def read(path):
    """The text of a file; None where there is none."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def same_python():
    """Whether .venv was made by this version of Python, to the end: pip comes last."""
    code = "import sys, pip; print(sys.version)"
    answer = subprocess.run([venv_python(), "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return answer.stdout.decode().strip() == sys.version


def explain_venv(output):
    """One sentence for what `python -m venv` printed when it failed."""
    if "ensurepip is not available" in output or "No module named venv" in output:
        return (
            "This Python has no venv module: install it (Debian, Ubuntu: apt-get install python%d.%d-venv)."
            % sys.version_info[:2]
        )
    if "No space left on device" in output:
        return explain(output)
    last = (output.strip().splitlines() or ["no reason given"])[-1]
    return "No virtual environment can be made in %s: python -m venv ended with %r." % (VENV, last)


def pip(arguments):
    """Run pip in .venv, its progress on the terminal; raise Stop with one sentence where it fails."""
    log = os.path.join(VENV, "pip.log")
    if os.path.exists(log):
        os.remove(log)
    command = [venv_python(), "-m", "pip", "--log", log, "--disable-pip-version-check", *arguments]
    if subprocess.call(command):
        try:
            with open(log, errors="replace") as file:
                raise Stop(explain(file.read()))
        except OSError:
            raise Stop(explain("")) from None


# What the log of a failed pip holds -> what to do. The first that is found counts.
FAILURES = (
    (
        "No space left on device",
        "The disk is full: make room in {root} and in {temporary} (pip cache purge often helps), then run this again.",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "A proxy here signs with its own certificate: run this again with PIP_CERT=/path/to/its/certificate.pem set.",
    ),
    ("407 Proxy", "The proxy wants a name and password: set https_proxy=http://name:password@host:port, then run this again."),
    (("ProxyError", "proxy connection error"), "The proxy does not answer: check https_proxy, then run this again."),
    (
        # pip 26 words it anew
        (
            "NewConnectionError",
            "NameResolutionError",
            "ConnectTimeoutError",
            "Temporary failure in name resolution",
            "connection error:",
            "didn't respond within",
            "Read timed out",
            "Connection reset by peer",
            "IncompleteRead",
        ),
        "The package index cannot be reached: check the network, or set https_proxy or PIP_INDEX_URL, then run this again.",
    ),
    (
        ("No matching distribution found", "Could not find a version"),
        "The package index lacks a locked version (see {log}): an index of your own must mirror all of requirements.lock.",
    ),
)


def explain(log_text):
    """One sentence for what pip logged when it failed."""
    for needles, sentence in FAILURES:
        for needle in (needles,) if isinstance(needles, str) else needles:
            if needle in log_text:
                return sentence.format(root=ROOT, temporary=tempfile.gettempdir(), log=os.path.join(VENV, "pip.log"))
    return "pip failed; its last lines above say why, and %s says more." % os.path.join(VENV, "pip.log")


if __name__ == "__main__":
    sys.exit(main())
