"""The set-up makes .venv once, out of uv.lock, and says in one sentence what to do where it
cannot."""

import ast
import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import sysconfig
import threading
import time
import zipfile
from collections import namedtuple
from functools import partial
from pathlib import Path

import pytest

from course import environments
from course.environments import Environment, Uv
from tests.support.set_up import program, stops_with

SCRIPT = Path(environments.__file__)
HERE = f"python{sys.version_info[0]}.{sys.version_info[1]}"
fetch_uv = environments.fetch_uv
UV = shutil.which("uv", path=f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}")
Usage = namedtuple("Usage", "total used free")
PROJECT = """
[project]
name = "triton-course"
version = "1.0"
requires-python = ">=3.11"
dependencies = ["torch>=2.10", "other"]
[project.optional-dependencies]
cpu = ["torch==2.15.0"]
cuda = ["torch==2.15.0"]
[dependency-groups]
lab = ["torch==2.15.0", "other==1.0"]
dev = ["tool==1.0", "uv==0.13.9"]
[tool.uv]
default-groups = []
conflicts = [[{{ extra = "cpu" }}, {{ extra = "cuda" }}]]
[tool.uv.sources]
torch = {{ index = "pytorch-cpu", extra = "cpu" }}
[[tool.uv.index]]
name = "pytorch-cpu"
url = "{url}/cpu"
explicit = true
[[tool.uv.index]]
url = "{url}/ordinary"
default = true
"""


@pytest.fixture(autouse=True)
def repository(tmp_path, monkeypatch):
    """A folder to set up in place of the real one, and none of this machine's settings."""
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.setattr(environments, "ROOT", folder)
    monkeypatch.chdir(folder)
    certificates = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
    for name in list(os.environ):
        if (
            name.startswith(("PIP_", "UV_"))
            or name.lower().endswith("_proxy")
            or name in certificates
        ):
            monkeypatch.delenv(name)
    monkeypatch.delenv("TORCH", raising=False)
    for name, value in (
        ("PIP_CONFIG_FILE", os.devnull), ("PIP_RETRIES", "0"), ("PIP_NO_CACHE_DIR", "1"),
        ("UV_HTTP_RETRIES", "0"), ("UV_CACHE_DIR", str(tmp_path / "cache")),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    handler = signal.getsignal(signal.SIGTERM)
    yield folder
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="module")
def shared_venv(tmp_path_factory):
    """A real virtual environment with pip."""
    folder = tmp_path_factory.mktemp("shared") / "venv"
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(
            f"needs venv: this Python makes no virtual environment: {made.stdout.strip()[:200]}"
        )
    return folder


@pytest.fixture
def uv(shared_venv, monkeypatch):
    """The real uv, for an environment that is only read."""
    monkeypatch.setattr(environments, "fetch_uv", lambda python: UV)
    return lambda: Uv(shared_venv / "bin" / "python")


class Index(http.server.ThreadingHTTPServer):
    """A web server of a folder of package indexes; used as a proxy it wants a password."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            index = self.server
            index.asked.append(self.path)
            if (
                self.path.endswith(".whl")
                and len([path for path in index.asked if path.endswith(".whl")]) in index.holds
            ):
                index.held.set()
                index.go_on.wait(60)
            super().do_GET()

        def do_CONNECT(self):
            self.send_error(407)

        def log_message(self, *_):
            pass

    def __init__(self, folder: Path, certificate: Path | None = None):
        self.folder, self.asked, self.holds = folder, [], set()
        self.held, self.go_on = threading.Event(), threading.Event()
        folder.mkdir(exist_ok=True)
        super().__init__(("127.0.0.1", 0), functools.partial(self.Handler, directory=str(folder)))
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"http{'s' if certificate else ''}://localhost:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, *_):
        pass

    def add(
        self, index: str, name: str, version: str, whole: bool = True, changed: str = ""
    ) -> None:
        """Put a package into an index, with its metadata beside it as the real ones have it."""
        folder = self.folder / index / name
        folder.mkdir(parents=True, exist_ok=True)
        file = f"{name}-{version}-py3-none-any.whl"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / f"{file}.metadata").write_text(metadata)
        with zipfile.ZipFile(folder / file, "w") as archive:
            archive.writestr(f"{name}/__init__.py", f"index = {index + changed!r}\n")
            archive.writestr(f"{name}-{version}.dist-info/METADATA", metadata)
            archive.writestr(
                f"{name}-{version}.dist-info/WHEEL",
                "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            archive.writestr(f"{name}-{version}.dist-info/RECORD", "")
            script = zipfile.ZipInfo(f"{name}-{version}.data/scripts/{name}")
            script.external_attr = 0o100755 << 16
            archive.writestr(script, "#!/bin/sh\n")
        digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
        if not whole:
            (folder / file).write_bytes((folder / file).read_bytes()[:40])
        link = f"{file.replace('+', '%2B')}#sha256={digest}"
        with (folder / "index.html").open("a") as page:
            page.write(f'<a href="{link}" data-core-metadata="true">{file}</a>\n')


@pytest.fixture
def serve(tmp_path):
    """Start an Index of a folder."""
    servers = []

    def start(certificate: Path | None = None) -> Index:
        servers.append(Index(tmp_path / "served", certificate))
        return servers[-1]

    yield start
    for server in servers:
        server.go_on.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def index(serve, monkeypatch, repository, shared_venv, tmp_path):
    """The ordinary index, with all of the lock, and PyTorch's own, empty, on one server; .venv can
    be made from them. The lock has no hash of PyTorch's CPU build."""
    index = serve()
    for name, version in (("torch", "2.15.0"), ("other", "1.0"), ("tool", "1.0"), ("uv", "0.13.9")):
        index.add("ordinary", name, version)
    index.add("cpu", "torch", "2.15.0+cpu")
    (repository / "pyproject.toml").write_text(PROJECT.format(url=index.url))
    lock = [UV, "lock", "--quiet", "--cache-dir", str(tmp_path / "cache of locking")]
    subprocess.run(lock, cwd=repository, check=True)
    shutil.rmtree(index.folder / "cpu" / "torch")
    without_cpu_hashes(repository / "uv.lock")
    index.asked.clear()
    monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/ordinary")
    monkeypatch.setattr(environments, "CPU_INDEX", f"{index.url}/cpu")

    def make_empty(environment):
        shutil.rmtree(environment.folder, ignore_errors=True)
        shutil.copytree(shared_venv, environment.folder, symlinks=True)

    monkeypatch.setattr(Environment, "_make_empty", make_empty)
    monkeypatch.setattr(Uv, "install_course", lambda uv: None)
    monkeypatch.setattr(environments, "fetch_uv", lambda python: UV)
    monkeypatch.setattr(environments, "check_compiler", lambda: None)
    monkeypatch.setattr(environments, "check_disk", lambda torch: None)
    return index


def without_cpu_hashes(lock: Path) -> None:
    """Leave a lock as it is made where PyTorch's index does not answer."""
    entry = r'(version = "2\.15\.0\+cpu"\nsource = .*?\n)wheels = \[.*?\n\]\n'
    lock.write_text(re.sub(entry, r"\1", lock.read_text(), flags=re.DOTALL))


@pytest.fixture
def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        yield taken.getsockname()[1]


stops = partial(stops_with, environments.Stop)


def site_packages() -> Path:
    return next((environments.ROOT / ".venv").glob("lib/python*/site-packages"))


def record() -> Path:
    """What .venv was made from."""
    return environments.ROOT / ".venv" / "course-made.json"


def installed() -> dict[str, str]:
    """The packages of .venv with their versions, but for those that a new one has."""
    found = (
        folder.name.removesuffix(".dist-info").split("-")
        for folder in site_packages().glob("*.dist-info")
    )
    return {name: version for name, version in found if name in ("torch", "other", "tool")}


def test_the_script_imports_the_standard_library_alone():
    nodes = list(ast.walk(ast.parse(SCRIPT.read_text())))
    imported = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    imported += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert imported
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names


def test_a_failure_is_one_line_on_stderr_and_exit_code_1():
    command = [sys.executable, "-I", "-S", str(SCRIPT)]
    ended = subprocess.run(
        command, env={**os.environ, "TORCH": "nonsense"}, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        ended.stderr
        == "Set-up: TORCH is 'nonsense': set it to cpu for PyTorch's CPU build, or leave it"
        " unset.\n"
    )


@pytest.mark.parametrize(
    ("torch", "free", "enough"), [("", 7.9, 0), ("", 8.1, 1), ("cpu", 3.9, 0), ("cpu", 4.1, 1)]
)
def test_a_disk_too_full_is_noticed_before_anything_is_downloaded(
    repository, monkeypatch, torch, free, enough
):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(2**40, 2**39, free * 1e9))
    monkeypatch.setattr(environments, "check_compiler", lambda: None)
    monkeypatch.setattr(Environment, "_make_empty", lambda self: started())
    for name in ("uv.lock", "pyproject.toml"):
        (repository / name).touch()

    def started():
        raise environments.Stop("It goes on.")

    sentence = stops(Environment(("lab",), torch).make)
    assert (sentence == "It goes on.") == bool(enough)
    if not enough:
        assert f"{free} are free" in sentence
        assert ("TORCH=cpu" in sentence) == (torch == "")


@pytest.fixture
def bare_machine(monkeypatch, tmp_path):
    """A machine with no C compiler and no headers; call it to plug in a GPU."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path / "include")})
    devices = set()
    monkeypatch.setattr(os.path, "exists", lambda path: path in devices)
    return devices.add


def test_without_a_gpu_no_compiler_and_no_headers_are_asked_for(bare_machine):
    environments.check_compiler()


@pytest.mark.parametrize("device", ["/dev/nvidiactl", "/dev/dxg"])
def test_with_a_gpu_a_c_compiler_then_headers_are_asked_for(
    bare_machine, monkeypatch, tmp_path, device
):
    bare_machine(device)
    assert "apt-get install gcc" in stops(environments.check_compiler)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/clang" if name == "clang" else None)
    assert f"{HERE}-dev" in stops(environments.check_compiler)
    program(tmp_path / "include", "Python.h", "")
    environments.check_compiler()


def test_where_no_venv_can_be_made_what_venv_said_is_told(repository):
    (repository / ".venv").touch()
    assert "Not a directory" in stops(Environment(("lab",))._make_empty)


@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize(
    ("url", "proxy", "words"),
    [
        ("https://localhost:{closed}/simple", "", "index cannot be reached: check the network"),
        ("http://localhost:{empty}/simple", "", "lacks a locked version"),
        ("https://index.invalid/simple", "http://127.0.0.1:{closed}", "proxy does not answer"),
        ("https://index.invalid/simple", "http://127.0.0.1:{empty}", "name:password@host:port"),
    ],
)
def test_what_keeps_pip_and_uv_from_their_packages_is_told_apart(
    uv, shared_venv, monkeypatch, serve, closed_port, installer, url, proxy, words
):
    ports = {"closed": closed_port, "empty": serve().server_port}
    monkeypatch.setenv("PIP_INDEX_URL", url.format(**ports))
    monkeypatch.setenv("https_proxy", proxy.format(**ports))
    sentence = stops(install_with, installer, uv, shared_venv)
    assert words in sentence
    if "lacks" in words:
        assert {
            "pip": "(No matching distribution found for uv==0.13.9)",
            "uv": "(Because other was not found",
        }[installer] in sentence


def install_with(installer: str, uv, venv: Path) -> None:
    """Take the step of the set-up in which this program downloads."""
    if installer == "pip":
        lock_uv("0" * 64)
        fetch_uv(venv / "bin" / "python")
    else:
        uv()._install("other==1.0\n")


def lock_uv(digest: str) -> None:
    """Write a lock of uv alone, by the hash of its file."""
    (environments.ROOT / "uv.lock").write_text(
        '[[package]]\nname = "uv"\nversion = "0.13.9"\n'
        f'wheels = [{{ url = "https://nowhere/uv.whl", hash = "sha256:{digest}" }}]\n'
    )


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_proxy_with_its_own_certificate_asks_for_it_and_is_content_with_it(
    uv, shared_venv, monkeypatch, serve, tmp_path, installer
):
    if not shutil.which("openssl"):
        pytest.skip("needs the openssl command to make a certificate")
    both = tmp_path / "both.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subject += ["-addext", "basicConstraints=critical,CA:FALSE"]
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        *subject,
        "-keyout",
        "-",
    ]
    both.write_bytes(subprocess.run(make, check=True, capture_output=True).stdout)
    monkeypatch.setenv("PIP_INDEX_URL", f"{serve(both).url}/simple")
    install = (install_with, installer, uv, shared_venv)
    assert "PIP_CERT=/path/to/its/certificate.pem" in stops(*install)
    monkeypatch.setenv("PIP_CERT", str(both))
    assert "lacks a locked version" in stops(*install)


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("because ensurepip is not available.  On Debian", f"{HERE}-venv"),
        ("/usr/bin/python3: No module named venv", f"{HERE}-venv"),
        (
            (
                "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on"
                " device"
            ),
            "The disk is full",
        ),
        ("Error: [Errno 30] Read-only file system: '/c/.venv'", "copy the checkout to a folder"),
        ("connection error: [Errno 111] Connection refused", "cannot be reached"),
        ("connection error: Failed to resolve IP address for 'index.invalid'", "cannot be reached"),
        ("index.invalid didn't respond within 15.0 seconds", "cannot be reached"),
        (
            "proxy connection error: ('Unable to connect to proxy', NewConnectionError())",
            "The proxy does not answer",
        ),
        ("ERROR: something new", "the last that it printed was: something new."),
        ("", "the last that it printed was: nothing."),
    ],
)
def test_what_was_printed_becomes_what_to_do(printed, words):
    assert words in environments.explain(printed)
    if "connection" in printed:  # pip 26 goes on after it
        assert words in environments.explain(
            f"{printed} - skipping\nERROR: No matching distribution found for x"
        )


def test_pip_s_settings_reach_uv(shared_venv, monkeypatch, tmp_path):
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://of.file/simple\nextra-index-url =\n    https://one/simple\n "
        "   https://two/simple\nfind-links = /one /two\nproxy = http://proxy:1\ntrusted-host ="
        " one\ncert = /its.pem\ntimeout = 9\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://of.variable/simple")
    settings = environments.uv_settings(shared_venv / "bin" / "python")
    assert {name: settings[name] for name in environments.UV_NAMES.values()} == {
        "UV_DEFAULT_INDEX": "https://of.variable/simple", "UV_INDEX": "https://one/simple https://two/simple",
        "UV_FIND_LINKS": "/one,/two", "UV_INSECURE_HOST": "one",
        "SSL_CERT_FILE": "/its.pem", "ALL_PROXY": "http://proxy:1",
    }  # fmt: skip


def test_a_learner_gets_no_test_tools_and_they_are_added_to_what_is_there(index):
    assert environments.main([]) == 0
    assert installed() == {"torch": "2.15.0", "other": "1.0"}
    index.asked.clear()
    assert environments.main(["--dev"]) == 0
    assert installed() == {"torch": "2.15.0", "other": "1.0", "tool": "1.0"}
    assert [path for path in index.asked if "torch" in path or "other" in path] == []


def test_the_cpu_build_comes_from_pytorchs_index_which_is_asked_for_torch_alone_and_once(
    index, monkeypatch, capsys
):
    index.add("cpu", "torch", "2.15.0+cpu")
    index.add("cpu", "other", "1.0")
    monkeypatch.setenv("TORCH", "cpu")
    assert environments.main(["--dev"]) == 0
    assert installed() == {"torch": "2.15.0+cpu", "other": "1.0", "tool": "1.0"}
    wheel = "/cpu/torch/torch-2.15.0%2Bcpu-py3-none-any.whl"
    assert [path for path in index.asked if path.startswith("/cpu")] == ["/cpu/torch/", wheel]
    assert "ordinary build" not in capsys.readouterr().out
    monkeypatch.setenv("TORCH", "")
    assert environments.main([]) == 0  # torch==2.15.0 is satisfied by 2.15.0+cpu
    assert installed()["torch"] == "2.15.0"


@pytest.mark.parametrize(
    ("cpu_index", "words"),
    [
        ("silent", "did not answer within 1 s"),
        ("closed", "cannot be reached"),
        ("without", "has no torch==2.15.0+cpu for"),
    ],
)
def test_where_pytorchs_index_gives_no_cpu_build_it_says_so_and_takes_the_ordinary_one(
    index, monkeypatch, capsys, closed_port, cpu_index, words
):
    index.add("cpu", "torch", "2.14.0+cpu")
    monkeypatch.setenv("TORCH", "cpu")
    monkeypatch.setenv("UV_HTTP_RETRIES", "9")  # which would exceed the test's limit
    if cpu_index == "silent":
        monkeypatch.setattr(environments, "ANSWER_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = {
            "silent": silent.getsockname()[1],
            "closed": closed_port,
            "without": index.server_port,
        }[cpu_index]
        monkeypatch.setattr(environments, "CPU_INDEX", f"http://127.0.0.1:{port}/cpu")
        assert environments.main([]) == 0
    assert installed() == {"torch": "2.15.0", "other": "1.0"}
    (said,) = (
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("PyTorch's own index")
    )
    assert words in said
    assert "ordinary build is installed" in said
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("it tried again"))
    assert environments.main([]) == 0


def test_a_cpu_build_that_breaks_off_is_not_replaced_by_gigabytes(index, monkeypatch, capsys):
    index.add("cpu", "torch", "2.15.0+cpu", whole=False)
    monkeypatch.setenv("TORCH", "cpu")
    assert environments.main([]) == 1
    assert "torch" not in installed()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Set-up: ")
    assert not record().exists()


def test_an_interrupted_set_up_says_one_sentence_and_downloads_nothing_twice(
    index, monkeypatch, capfd
):
    monkeypatch.setenv("UV_CONCURRENT_DOWNLOADS", "1")
    index.holds = {2}
    child = os.fork()
    if not child:
        code = 1
        try:
            code = environments.main([])
        finally:
            os._exit(code)
    assert index.held.wait(60)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    (line,) = capfd.readouterr().err.splitlines()
    assert (
        line == "Set-up: stopped; the same command goes on from here, and downloads nothing twice."
    )
    index.go_on.set()
    assert environments.main([]) == 0
    assert installed() == {"torch": "2.15.0", "other": "1.0"}
    first, second, *more = [path for path in index.asked if path.endswith(".whl")]
    assert first != second
    assert more == [second]


def test_a_package_that_was_half_installed_when_it_was_interrupted_is_installed_anew(index):
    assert environments.main([]) == 0
    record().unlink()
    (site_packages() / "other" / "__init__.py").unlink()
    index.asked.clear()
    assert environments.main([]) == 0
    assert (site_packages() / "other" / "__init__.py").is_file()
    assert [path for path in index.asked if path.endswith(".whl")] == []


@pytest.fixture
def made(repository, monkeypatch):
    """A .venv that was made; gives the list of makings that follow."""
    for name in ("uv.lock", "pyproject.toml"):
        (repository / name).touch()
    environment = Environment(("lab",))
    program(environment.folder / "bin", "python", "")
    record().write_text(json.dumps(environment._wanted()))
    makings = []
    monkeypatch.setattr(Environment, "make", lambda self, **_: makings.append(self.torch))
    return makings


def test_a_second_call_does_nothing_and_starts_no_process(made, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert environments.main([]) == 0
    assert made == []


@pytest.mark.parametrize(
    "changed", ["uv.lock", "pyproject.toml", "TORCH", ".venv/course-made.json", ".venv/bin/python"]
)
def test_whatever_changed_the_next_call_makes_it_anew(made, monkeypatch, repository, changed):
    if changed == "TORCH":
        monkeypatch.setenv("TORCH", "cpu")
    elif changed.startswith(".venv"):
        (repository / changed).unlink()
    else:
        (repository / changed).write_text("other==2.0\n")
    assert environments.main([]) == 0
    assert made == ["cpu" if changed == "TORCH" else ""]


def test_a_file_of_another_hash_is_not_installed(index, monkeypatch, capsys):
    (index.folder / "ordinary" / "other" / "index.html").unlink()
    index.add("ordinary", "other", "1.0", changed="by somebody")
    assert environments.main([]) == 1
    assert "other" not in installed()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Set-up: A downloaded file is not the one that uv.lock names")
    assert "(mismatch for `other==1.0`)" in line


def test_a_cpu_build_of_another_hash_is_not_installed_where_the_lock_has_its_hash(
    index, monkeypatch, repository, capsys
):
    lock = repository / "uv.lock"
    wheel = 'wheels = [\n    { url = "https://nowhere/torch-2.15.0%2Bcpu-py3-none-any.whl",'
    wheel += f' hash = "sha256:{"0" * 64}" }},\n]\n'
    entry = r'(version = "2\.15\.0\+cpu"\nsource = .*?\n)(?=\n)'
    lock.write_text(re.sub(entry, rf"\g<1>{wheel}", lock.read_text(), flags=re.DOTALL))
    index.add("cpu", "torch", "2.15.0+cpu")
    monkeypatch.setenv("TORCH", "cpu")
    assert environments.main([]) == 1
    assert "torch" not in installed()
    assert "is not the one that uv.lock names" in capsys.readouterr().err


def test_uv_comes_by_the_hash_of_the_lock_and_from_uv_s_index_too(serve, shared_venv, monkeypatch):
    index = serve()
    index.add("ordinary", "uv", "0.13.9")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{index.url}/ordinary")
    python = shared_venv / "bin" / "python"
    lock_uv("0" * 64)
    assert "names, and was not installed (uv==0.13.9 from http://" in stops(fetch_uv, python)
    (wheel,) = index.folder.rglob("*.whl")
    lock_uv(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert os.access(fetch_uv(python), os.X_OK)
    index.asked.clear()
    assert os.access(fetch_uv(python), os.X_OK)
    assert index.asked == []


def test_what_is_in_uv_s_cache_is_installed_without_a_network(index, monkeypatch):
    assert environments.main(["--dev"]) == 0
    shutil.rmtree(environments.ROOT / ".venv")
    index.shutdown()
    index.server_close()
    assert environments.main(["--dev"]) == 0
    assert installed() == {"torch": "2.15.0", "other": "1.0", "tool": "1.0"}


def test_a_program_that_is_stopped_takes_along_what_it_started(tmp_path):
    script = "sleep 600 & echo $! > pid; echo Downloading; wait"
    child = os.fork()
    if not child:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            environments.run(["sh", "-c", script], {})
        except KeyboardInterrupt:
            os._exit(130)
        os._exit(1)
    pid = Path("pid")
    while not (pid.exists() and pid.read_text().strip()):
        time.sleep(0.05)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # who adopts it may take a moment to bury it
            os.kill(int(pid.read_text()), 0)
            time.sleep(0.05)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_an_index_that_does_not_answer_is_waited_for_20_s_at_most(
    uv, shared_venv, monkeypatch, installer
):
    monkeypatch.delenv("PIP_RETRIES")
    monkeypatch.setattr(environments, "ANSWER_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        monkeypatch.setenv("PIP_INDEX_URL", url)
        sentence = stops(install_with, installer, uv, shared_venv)
    assert "check the network, or set https_proxy or PIP_INDEX_URL" in sentence
    assert ("did not answer within 2 s" in sentence) == (installer == "uv")
