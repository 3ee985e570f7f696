"""Make .venv with the locked versions: the first half of `make lab` and, with --dev, of `make
test`.

It is run as a script by whatever Python is there, before anything is installed, so it uses the
standard library alone, imports nothing of the course, and is written so that an old Python 3 can
read it far enough to say so.
"""

import ast
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
BUILD = os.path.join(ROOT, "build")
PROJECT = os.path.join(ROOT, "pyproject.toml")
LOCK = os.path.join(ROOT, "requirements.lock")
DEV_LOCK = os.path.join(ROOT, "requirements-dev.lock")

PYTHONS = ("python3.13", "python3.12", "python3.11")
OLDEST, NEWEST = (3, 11), (3, 13)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ANSWER_S = 20
NEEDED_GB = {"cpu": 4, "": 8}
NOWHERE = subprocess.DEVNULL


class Stop(Exception):
    """The set-up cannot go on; the message is one sentence that says what to do."""


def main(arguments):
    """Make .venv, or do nothing where it is made already; return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        check_system(sys.platform)
        python = choose_python()
        if python is not None:
            os.execv(python, [python, os.path.abspath(__file__), *arguments])
        torch = os.environ.get("TORCH", "")
        if torch not in NEEDED_GB:
            raise Stop(
                f"TORCH is {torch!r}: set it to cpu for PyTorch's CPU build, or leave it unset."
            )
        wanted = describe(torch, [LOCK, DEV_LOCK] if "--dev" in arguments else [LOCK])
        made = read_made()
        if not wanted.items() <= made.items():
            check_compiler()
            make(made, wanted)
    except Stop as stop:
        return complain(stop)
    except OSError as error:
        return complain(f"{error}: make sure that you may write in {ROOT} and that it is not full.")
    except KeyboardInterrupt:
        complain("stopped; the same command goes on from here, and downloads nothing twice.")
        return 130
    return 0


def complain(sentence):
    """Say on stderr why the set-up ends; return the exit code."""
    sys.stderr.write(f"Set-up: {sentence}\n")
    return 1


def check_system(system):
    """Raise Stop where Triton has no wheels."""
    if not system.startswith("linux"):
        name = {"darwin": "macOS", "win32": "Windows"}.get(system, system)
        wsl = ", or clone it inside WSL2 and run make lab there" if system == "win32" else ""
        raise Stop(
            f"Triton has no wheels for {name}: open this folder as a dev container (VS Code: Dev"
            f" Containers: Reopen in Container){wsl}."
        )
    machine = platform.machine()
    if machine not in ("x86_64", "aarch64"):
        raise Stop(
            f"Triton has wheels for x86-64 and arm64 only, and this is {machine}: use such a"
            " machine."
        )


def choose_python():
    """None where this Python serves, else the path of one on PATH that does. Raises Stop where
    there is none."""
    major, minor = sys.version_info[:2]
    if OLDEST <= (major, minor) <= NEWEST:
        return None
    for name in PYTHONS:
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            path = shutil.which(name, path=folder)
            if path and is_fit(path):
                return path
    age = "old" if (major, minor) < OLDEST else "new"
    raise Stop(
        f"Python {major}.{minor} is too {age} and no other was found: install Python 3.12 (Debian,"
        " Ubuntu: apt-get install python3.12-venv), or name one with"
        " make lab PYTHON=/path/to/python3.12."
    )


def is_fit(python):
    """Whether this file starts and is a Python that serves: a version manager puts names on PATH
    that start nothing."""
    code = f"import sys; sys.exit(not {OLDEST} <= sys.version_info[:2] <= {NEWEST})"
    try:
        return not subprocess.call([python, "-c", code], stdout=NOWHERE, stderr=NOWHERE)
    except OSError:
        return False


def check_compiler():
    """Raise Stop where a GPU is there and what Triton needs to launch on it is not."""
    if not (os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")):
        return  # without a GPU Triton compiles no C
    compilers = [name for name in (os.environ.get("CC"), "gcc", "clang", "cc") if name]
    if not any(shutil.which(name) for name in compilers):
        raise Stop(
            "Triton needs a C compiler to launch kernels on this GPU: install one (Debian, Ubuntu:"
            " apt-get install gcc)."
        )
    if not os.path.isfile(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        raise Stop(
            "Triton needs Python's headers to launch kernels on this GPU: install them (Debian,"
            " Ubuntu: apt-get install python%d.%d-dev)." % sys.version_info[:2]
        )


def check_disk(torch):
    """Raise Stop where the packages will not fit."""
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < NEEDED_GB[torch]:
        small = f"PyTorch's CPU build with TORCH=cpu, which needs {NEEDED_GB['cpu']}"
        raise Stop(
            f"The packages need {NEEDED_GB[torch]} GB in {ROOT} and {free:.1f} are free: make room"
            f"{'' if torch == 'cpu' else ', or take ' + small}."
        )


def describe(torch, locks):
    """What .venv is made from: of each lock and of pyproject.toml a hash, and which Python and
    which torch."""
    wanted = {"python": sys.version, "torch": torch}
    for path in [PROJECT, *locks]:
        with open(path, "rb") as file:
            wanted[os.path.basename(path)] = hashlib.sha256(file.read()).hexdigest()
    return wanted


def read_made():
    """What .venv was made from; nothing where it is missing, or where making it was interrupted."""
    try:
        with open(made_file()) as file:
            return json.load(file) if os.access(venv_python(), os.X_OK) else {}
    except (OSError, ValueError):
        return {}


def made_file():
    return os.path.join(VENV, "course-made.json")


def venv_python():
    return os.path.join(VENV, "bin", "python")


def make(made, wanted):
    """Bring .venv from what it was made from to what is wanted.

    What it was made from is forgotten meanwhile: where this ends early, packages may lack files
    without a sign of it, so the next call starts with an empty .venv. That costs seconds, as uv
    keeps what it has downloaded.
    """
    torch = wanted["torch"]
    if any(made.get(name) != wanted[name] for name in ("python", "torch")):
        made = {}
    if made:
        os.remove(made_file())
    else:
        make_venv(torch)
    install_uv()
    settings = uv_settings()
    for lock in (LOCK, DEV_LOCK):
        name = os.path.basename(lock)
        if name in wanted and wanted[name] != made.get(name):
            if lock == LOCK and torch == "cpu":
                install_cpu_torch(settings)
            say(f"Downloading and installing {name}")
            check(uv("-r", lock), settings)
    install_course(settings)
    with open(made_file(), "w") as file:
        json.dump(dict(made, **wanted), file)


def make_venv(torch):
    """Make an empty .venv."""
    if not os.path.exists(VENV):
        check_disk(torch)
    say(f"Making .venv with Python {platform.python_version()}")
    check([sys.executable, "-m", "venv", "--clear", VENV])


def install_uv():
    """Have pip fetch uv, which installs the rest: in parallel, and out of its cache where it has
    downloaded it before."""
    if not os.path.exists(uv_program()):
        version = pinned("uv")
        say(f"Downloading uv {version}, which installs the rest")
        pip = [venv_python(), "-m", "pip", "install", "-vv", "--disable-pip-version-check"]
        folder = os.path.dirname(os.path.dirname(uv_program()))
        check([*pip, "--no-deps", "--upgrade", "--target", folder, f"uv=={version}"])


def uv_program():
    return os.path.join(BUILD, "uv-" + pinned("uv"), "bin", "uv")


def pinned(package):
    """The version of a package in the lock."""
    with open(DEV_LOCK) as file:
        return re.search(rf"^{package}==(\S+)", file.read(), re.MULTILINE)[1]


def install_cpu_torch(settings):
    """Install PyTorch's CPU build from PyTorch's own index; where that gives none, say so and leave
    torch to the lock."""
    wanted = f"torch=={pinned('torch')}+cpu"
    say(f"Asking {CPU_INDEX} for {wanted}")
    command = uv("--no-deps", "--default-index", CPU_INDEX, wanted)
    code, output = run(command, dict(settings, UV_HTTP_RETRIES="0"), ANSWER_S)
    if code and "Resolved" in output:
        raise Stop(explain(output))
    if code:
        reason = f"did not answer within {ANSWER_S} s" if code < 0 else "cannot be reached"
        if "No solution found" in output:
            reason = f"has no {wanted} for this machine and Python"
        say(
            f"PyTorch's own index {reason}, so PyTorch's ordinary build is installed, which runs"
            " without a GPU too and is gigabytes larger (`make clean setup TORCH=cpu` asks again)."
        )
        check_disk("")


def install_course(settings):
    check(uv("--quiet", "--no-deps", "--no-build-isolation", "--editable", ROOT), settings)


def uv(*arguments):
    """The command for `uv pip install` on .venv."""
    # --no-config: [tool.uv.pip] in pyproject.toml is for making the locks.
    return [uv_program(), "pip", "install", "--no-config", "--python", venv_python(), *arguments]


# What pip can be configured with -> what uv reads for it.
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}


def uv_settings():
    """The environment for uv: with what pip is configured with, by a file or by PIP_… variables.

    Bytecode is compiled now, for all later imports, with no limit of time, which a busy machine
    would exceed.
    """
    settings = {
        "UV_COMPILE_BYTECODE": "1",
        "UV_COMPILE_BYTECODE_TIMEOUT": "0",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    listed = check([venv_python(), "-m", "pip", "config", "list"])
    for name, value in re.findall(r"^\S*\.([\w-]+)=(.+)$", listed, re.MULTILINE):
        if name in UV_NAMES:
            separator = "," if name == "find-links" else " "
            settings.setdefault(UV_NAMES[name], separator.join(ast.literal_eval(value).split()))
    return settings


def check(command, settings=()):
    """Run a command and return what it printed; raise Stop with one sentence where it fails."""
    code, output = run(command, settings)
    if code:
        raise Stop(explain(output))
    return output


PROGRESS = ("Downloading", " Downloaded", "Prepared", "Installed", "Bytecode", "warning")


def run(command, settings=(), answer_s=threading.TIMEOUT_MAX):
    """Run a command, with its progress on the terminal; return its exit code and all that it
    printed.

    With answer_s, uv is killed where it does not know after that long what the index has.
    """
    pipe, environ = subprocess.PIPE, dict(os.environ, **dict(settings))
    process = subprocess.Popen(command, env=environ, stdout=pipe, stderr=subprocess.STDOUT)
    limit = threading.Timer(answer_s, process.kill)
    limit.start()
    output = ""
    try:
        for line in process.stdout:
            line = line.decode(errors="replace")
            output += line
            if line.startswith("Resolved"):
                limit.cancel()
            if line.startswith(PROGRESS):
                say(line.rstrip().replace("Prepared", "Downloaded and unpacked"))
        return process.wait(), output
    except BaseException:
        process.kill()
        raise
    finally:
        limit.cancel()


# What venv, pip (until 25, then since 26) or uv printed when it failed, and below it what to do:
# the first that matches counts.
FAILURES = """
ensurepip is not available|No module named venv
    This Python has no venv module: install it (Debian, Ubuntu: apt-get install
    python{version}-venv).
No space left on device
    The disk is full: make room in {root} and in {temporary} (`{uv} cache clean` often helps), then
    run this again.
Read-only file system
    {root} cannot be written to: copy the checkout to a folder of yours, and run this there.
CERTIFICATE_VERIFY_FAILED|invalid peer certificate
    A proxy here signs with its own certificate: run this again with
    PIP_CERT=/path/to/its/certificate.pem set.
407 Proxy|proxy authorization required
    The proxy wants a name and password: set https_proxy=http://name:password@host:port, then run
    this again.
ProxyError|proxy connection error|tunnel error
    The proxy does not answer: check https_proxy, then run this again.
NewConnectionError|NameResolutionError|ConnectTimeoutError|Read timed out|Connection reset
|IncompleteRead|connection error:|didn't respond within|Failed to fetch|Failed to download
    The package index cannot be reached: check the network, or set https_proxy or PIP_INDEX_URL,
    then run this again.
No matching distribution found|No solution found
    The package index lacks a locked version ({last}): an index of your own must mirror all of
    requirements.lock.
"""
OTHERWISE = "The set-up failed, and the last that it printed was: {last}."


def explain(output):
    """One sentence for what a program printed when it failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["nothing"]
    errors = [line for line in lines if line.startswith("ERROR")]  # pip prints more after it
    last = re.sub("^(ERROR|error): ", "", (errors or lines)[-1])
    because = re.search("Because .*", " ".join(lines))  # uv's reason may go over several lines
    failures = re.findall(r"((?:^\S.*\n)+)((?:^ .*\n)+)", FAILURES, re.MULTILINE)
    known = (words for pattern, words in failures if re.search(pattern.replace("\n", ""), output))
    return " ".join(next(known, OTHERWISE).split()).format(
        root=ROOT,
        temporary=tempfile.gettempdir(),
        uv=uv_program(),
        version="%d.%d" % sys.version_info[:2],
        last=(because[0] if because else last).rstrip("."),
    )


def say(text):
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
