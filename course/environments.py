"""Make environments of uv.lock's packages: .venv, and those of the site's and a room's tools.

`course/bootstrap.py` runs it as a script, before anything is installed, so it uses the standard
library alone and imports nothing of the course.
"""

import ast
import contextlib
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
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"lab": ".venv", "site": "build/site-tools", "hub": "build/hub/venv"}
"""A set of packages -> its environment; the sets "dev" and "hub" can be added to .venv."""

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ANSWER_S = 20
ENDING_S = 5
NEEDED_GB = {"cpu": 4, "": 8}


class Stop(Exception):
    """The set-up cannot go on; the message is one sentence that says what to do."""


def main(arguments: list[str]) -> int:
    """Make an environment, or do nothing where it is made already; return the exit code.

    arguments: nothing for the learner's .venv. "--dev" adds the test tools to it and "--room" what
        serves a room, as in the image of a room's seats; "--site" makes that of the site's tools
        instead.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        environment = environment_for(arguments)
        if not environment.is_made():
            environment.make()
    except Stop as stop:
        return complain(str(stop))
    except OSError as error:
        return complain(f"{error}: make sure that you may write in {ROOT} and that it is not full.")
    except KeyboardInterrupt:
        complain("stopped; the same command goes on from here, and downloads nothing twice.")
        return 130
    return 0


def environment_for(arguments: list[str]) -> "Environment":
    """The environment that arguments of `main` ask for. Raises Stop."""
    if "--site" in arguments:
        return Environment(("site",))
    torch = os.environ.get("TORCH", "")
    if torch not in NEEDED_GB:
        raise Stop(f"TORCH is {torch!r}: set it to cpu for PyTorch's CPU build, or leave it unset.")
    added = {"--dev": "dev", "--room": "hub"}
    return Environment(("lab", *(added[each] for each in arguments if each in added)), torch)


def complain(sentence: str) -> int:
    """Say on stderr why the set-up ends; return the exit code."""
    sys.stderr.write(f"Set-up: {sentence}\n")
    return 1


def check_compiler() -> None:
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
            f" Ubuntu: apt-get install python{sysconfig.get_python_version()}-dev)."
        )


def check_disk(torch: str) -> None:
    """Raise Stop where the packages will not fit."""
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < NEEDED_GB[torch]:
        small = f"PyTorch's CPU build with TORCH=cpu, which needs {NEEDED_GB['cpu']}"
        raise Stop(
            f"The packages need {NEEDED_GB[torch]} GB in {ROOT} and {free:.1f} are free: make room"
            f"{'' if torch == 'cpu' else ', or take ' + small}."
        )


@dataclass(frozen=True)
class Environment:
    """A virtual environment with sets of the locked packages."""

    sets: tuple[str, ...]
    torch: str = ""
    """"cpu" for PyTorch's CPU build."""

    @property
    def folder(self) -> Path:
        """Where it is."""
        return ROOT / FOLDERS[self.sets[0]]

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.folder / "bin" / "python"

    @property
    def record(self) -> Path:
        """The file that says what it was made from."""
        return self.folder / "course-made.json"

    def is_made(self) -> bool:
        """Whether it is whole, and made from the lock as it is now."""
        return self._wanted().items() <= self._made().items()

    def _wanted(self) -> dict[str, str]:
        """What it should be made from: set -> a hash of the lock. The learner's is also made anew
        with another Python or torch."""
        files = [ROOT / name for name in ("uv.lock", "pyproject.toml")]
        lock = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        kind = {"python": sys.version, "torch": self.torch} if "lab" in self.sets else {}
        return kind | dict.fromkeys(self.sets, lock)

    def _made(self) -> dict[str, str]:
        """What it was made from; nothing where it is missing, or where making it was
        interrupted."""
        try:
            made: dict[str, str] = json.loads(self.record.read_text())
        except (OSError, ValueError):
            return {}
        return made if os.access(self.python, os.X_OK) else {}

    def make(self) -> None:
        """Bring it from what it was made from to what is wanted. Raises Stop.

        What it was made from is forgotten meanwhile: where this ends early, packages may lack files
        without a sign of it, so the next call starts with an empty environment. That costs seconds,
        as uv keeps what it has downloaded.
        """
        made, wanted = self._made(), self._wanted()
        if "lab" in self.sets:
            check_compiler()
            if not self.folder.exists():
                check_disk(self.torch)
        if any(made.get(name) != wanted.get(name) for name in ("python", "torch")):
            made = {}
        if made:
            self.record.unlink()
        else:
            self._make_empty()
        uv = Uv(self.python)
        uv.install_sets(self.sets, self.torch)
        if "lab" in self.sets:
            uv.install_course()
        self.record.write_text(json.dumps(made | wanted))

    def _make_empty(self) -> None:
        say(f"Making {self.folder.relative_to(ROOT)} with Python {platform.python_version()}")
        check([sys.executable, "-m", "venv", "--clear", self.folder])


class Uv:
    """The program uv, for one environment. pip fetches it; it installs the rest: in parallel, and
    out of its cache where it has downloaded something before."""

    def __init__(self, python: Path) -> None:
        self.program, self.settings = fetch_uv(python), uv_settings(python)
        self.install = [self.program, "pip", "install", "--no-deps"]

    def install_sets(self, sets: tuple[str, ...], torch: str) -> None:
        """Install sets of the lock, with hashes checked. Raises Stop."""
        packages = self._export(sets, torch)
        if torch == "cpu":
            (cpu_torch,) = re.findall(r"^torch==(?:.*\\\n)*.*\n", packages, re.MULTILINE)
            if self._finds_cpu_torch(cpu_torch.split()[0]):
                # Its hash is checked too, once it is in the lock.
                self._install(cpu_torch, "--default-index", CPU_INDEX)
                packages = packages.replace(cpu_torch, "")
            else:
                check_disk("")
                packages = self._export(sets, "")
        say(f"Downloading and installing the packages of uv.lock ({', '.join(sets)})")
        self._install(packages, "--require-hashes")

    def install_course(self) -> None:
        """Install this checkout, so that a change to it needs no installation."""
        check([*self.install, "-q", "--no-build-isolation", "--editable", ROOT], self.settings)

    def _export(self, sets: tuple[str, ...], torch: str) -> str:
        """The packages of the lock as pip and uv read them: versions and hashes, and no address, so
        that they may come from an index of the reader's own."""
        options = ["--frozen", "--no-emit-project", "--no-header", "--no-annotate"]
        groups = "--group" if "lab" in sets else "--only-group"
        options += [option for each in sets for option in (groups, each)]
        options += ["--extra", torch] if torch else []
        return check([self.program, "export", "-q", "--project", ROOT, *options], self.settings)

    def _finds_cpu_torch(self, wanted: str) -> bool:
        """Whether PyTorch's own index has its CPU build; where it has not, that is said."""
        say(f"Asking {CPU_INDEX} for {wanted}")
        try:
            answer = self._ask(wanted, "--default-index", CPU_INDEX)
            if not answer.returncode:
                return True
            reason = "cannot be reached"
            if "No solution found" in answer.stderr:
                reason = f"has no {wanted} for this machine and Python"
        except subprocess.TimeoutExpired:
            reason = f"did not answer within {ANSWER_S} s"
        say(
            f"PyTorch's own index {reason}, so PyTorch's ordinary build is installed, which runs"
            " without a GPU too and is gigabytes larger (`make clean setup TORCH=cpu` asks again)."
        )
        return False

    def _ask(self, wanted: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Ask the cache, then an index for a package, and install nothing. Raises TimeoutExpired
        where the index does not answer."""
        command = [*self.install, "--dry-run", *options, wanted]
        if not run([*command, "--offline"], self.settings)[0]:
            return subprocess.CompletedProcess(command, 0)
        environ = os.environ | self.settings | {"UV_HTTP_RETRIES": "0"}
        pipe = subprocess.PIPE
        return subprocess.run(command, env=environ, timeout=ANSWER_S, stderr=pipe, text=True)

    def _install(self, packages: str, *options: str) -> None:
        """Install packages; where all of them are in the cache, no network is needed."""
        with tempfile.NamedTemporaryFile("w", prefix="course-", suffix=".txt") as file:
            file.write(packages)
            file.flush()
            command = [*self.install, *options, "-r", file.name]
            if not run([*command, "--offline"], self.settings)[0]:
                return
            try:
                self._ask(packages.split()[0])
            except subprocess.TimeoutExpired:
                raise Stop(
                    f"The package index did not answer within {ANSWER_S} s: check the network, or"
                    " set https_proxy or PIP_INDEX_URL, then run this again."
                ) from None
            check(command, self.settings)


def fetch_uv(python: Path) -> str:
    """Have an environment's pip fetch the uv of the lock into build/, once; return its path."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    locked = next(package for package in packages if package["name"] == "uv")
    wanted = f"uv=={locked['version']}"
    folder = ROOT / "build" / wanted.replace("==", "-")
    if not (folder / "bin" / "uv").exists():
        say(f"Downloading {wanted}, which installs the rest")
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:
            hashes = (f"--hash={wheel['hash']}" for wheel in locked["wheels"])
            (Path(new) / "uv.txt").write_text(" ".join([wanted, *hashes]))
            pip = ["-m", "pip", "install", "-vv", "--no-input", "--no-deps", "--require-hashes"]
            pip += ["--only-binary=:all:", "-r", f"{new}/uv.txt", "--target", f"{new}/uv"]
            check([python, *pip], pip_settings())
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(f"{new}/uv", folder)  # at once, so that there is no half of it
    return str(folder / "bin" / "uv")


def pip_settings() -> dict[str, str]:
    """The environment for pip: with the index that uv is told of, if pip is told of none, and as
    little patience."""
    settings = {"PIP_DEFAULT_TIMEOUT": str(ANSWER_S // 2), "PIP_RETRIES": "1"}
    if index := os.environ.get("UV_DEFAULT_INDEX", os.environ.get("UV_INDEX_URL")):
        settings["PIP_INDEX_URL"] = index
    return {name: value for name, value in settings.items() if name not in os.environ}


UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}
"""What pip can be configured with -> what uv reads for it."""


def uv_settings(python: Path) -> dict[str, str]:
    """The environment for uv: with what pip is configured with, by a file or by PIP_… variables.

    Bytecode is compiled now, for all later imports, with no limit of time, which a busy machine
    would exceed.
    """
    settings = {
        "UV_PYTHON": str(python),
        "UV_COMPILE_BYTECODE": "1",
        "UV_COMPILE_BYTECODE_TIMEOUT": "0",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    listed = check([python, "-m", "pip", "config", "list"])
    for name, value in re.findall(r"^\S*\.([\w-]+)=(.+)$", listed, re.MULTILINE):
        if name in UV_NAMES:
            separator = "," if name == "find-links" else " "
            settings.setdefault(UV_NAMES[name], separator.join(ast.literal_eval(value).split()))
    return settings


def check(command: Sequence[str | Path], settings: dict[str, str] | None = None) -> str:
    """Run a command and return what it printed; raise Stop with one sentence where it fails."""
    code, output = run(command, settings)
    if code:
        raise Stop(explain(output))
    return output


PROGRESS = ("Downloading", " Downloaded", "Prepared", "Installed", "Bytecode", "warning")


def run(command: Sequence[str | Path], settings: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a command, with its progress on the terminal; return its exit code and all that it
    printed."""
    process = subprocess.Popen(
        command,
        env=os.environ | (settings or {}),
        stdin=subprocess.DEVNULL,  # nobody would see a question
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    output = ""
    try:
        for line in process.stdout or ():
            output += line
            if line.startswith(PROGRESS):
                say(line.rstrip().replace("Prepared", "Downloaded and unpacked"))
        return process.wait(), output
    except BaseException:
        end(process)
        raise


def end(process: subprocess.Popen[str]) -> None:
    """End a program and all that it has started, after a moment to remove its temporary files."""
    try:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


FAILURES = """
ensurepip is not available|No module named venv
    This Python has no venv module: install it (Debian, Ubuntu: apt-get install
    python{version}-venv).
[Hh]ash mismatch|DO NOT MATCH THE HASHES
    A downloaded file is not the one that uv.lock names, and was not installed ({last}): run this
    again, and if it fails again, ask those who run the package index.
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
    uv.lock.
"""
"""What venv, pip (until 25, then since 26) or uv printed when it failed, and below it what to do:
the first that matches counts."""
OTHERWISE = "The set-up failed, and the last that it printed was: {last}."


def explain(output: str) -> str:
    """One sentence for what a program printed when it failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["nothing"]
    errors = [line for line in lines if line.startswith("ERROR")]  # pip prints more after it
    last = re.sub(r"^(ERROR|error): | \(from -r .*", "", (errors or lines)[-1])
    # uv's reason may go over several lines; of hashes both have named the package before.
    because = re.search(r"Because .*|mismatch for \S+|\S+==\S+ from \S+", " ".join(lines))
    failures = re.findall(r"((?:^\S.*\n)+)((?:^ .*\n)+)", FAILURES, re.MULTILINE)
    known = (words for pattern, words in failures if re.search(pattern.replace("\n", ""), output))
    return " ".join(next(known, OTHERWISE).split()).format(
        root=ROOT,
        temporary=tempfile.gettempdir(),
        uv=next(iter(ROOT.glob("build/uv-*/bin/uv")), "uv"),
        version=sysconfig.get_python_version(),
        last=(because[0] if because else last).rstrip("."),
    )


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
