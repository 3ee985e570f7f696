"""The set-up script makes .venv once, and says in one sentence what to do where it cannot."""

import ast
import functools
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import sys
import sysconfig
import threading
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

from course import bootstrap

SCRIPT = Path(bootstrap.__file__)
HERE = f"python{sys.version_info[0]}.{sys.version_info[1]}"
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def repository(tmp_path, monkeypatch):
    """A folder with a lock, to set up in place of the real one."""
    venv = tmp_path / ".venv"
    for name, path in (("ROOT", tmp_path), ("VENV", venv), ("STAMP", venv / "stamp"), ("LOCK", tmp_path / "requirements.lock")):
        monkeypatch.setattr(bootstrap, name, str(path))
    inputs = tuple(str(tmp_path / Path(path).name) for path in bootstrap.INPUTS)
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_text("some-package==1.0\n")
    monkeypatch.setattr(bootstrap, "INPUTS", inputs)
    monkeypatch.delenv("TORCH", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def shared_venv(tmp_path_factory):
    """A real virtual environment with pip."""
    folder = tmp_path_factory.mktemp("shared") / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"this Python makes no virtual environment: {made.stdout.strip()[:200]}")
    return folder


@pytest.fixture
def real_pip(shared_venv, monkeypatch):
    """bootstrap.pip on that environment, which takes nothing of this machine's settings for pip."""
    for name in list(os.environ):
        ours = name.upper().startswith("PIP_") or name.lower().endswith("_proxy")
        if ours or name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
            monkeypatch.delenv(name)
    for name, value in (("PIP_CONFIG_FILE", os.devnull), ("PIP_RETRIES", "0"), ("PIP_NO_CACHE_DIR", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(bootstrap, "VENV", str(shared_venv))
    monkeypatch.setattr(bootstrap, "check_compiler", lambda: None)
    monkeypatch.setattr(bootstrap, "check_disk", lambda torch: None)
    return functools.partial(bootstrap.pip, ["install", "some-package==1.0"])


@pytest.fixture
def serve(tmp_path):
    """Start a web server of an empty folder, which as a proxy wants a password; gives its port."""
    servers = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_CONNECT(self):
            self.send_error(407)

        def log_message(self, *_):
            pass

    def start(certificate: Path | None = None) -> int:
        (tmp_path / "empty").mkdir(exist_ok=True)
        handler = functools.partial(Handler, directory=str(tmp_path / "empty"))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.handle_error = lambda *_: None
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return server.server_port

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        yield taken.getsockname()[1]


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder / name


def stops(function, *arguments) -> str:
    """The sentence with which the set-up stops."""
    with pytest.raises(bootstrap.Stop) as stopped:
        function(*arguments)
    sentence = str(stopped.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def test_an_old_python_3_can_read_the_script_and_it_imports_the_standard_library_alone():
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 6))
    imported = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    imported += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imported
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names


def test_a_failure_is_one_line_on_stderr_and_exit_code_1():
    command = [sys.executable, "-I", "-S", str(SCRIPT)]
    ended = subprocess.run(command, env={**os.environ, "TORCH": "nonsense"}, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == ("Set-up: TORCH is 'nonsense': set it to cpu for PyTorch's CPU build, or leave it unset.\n")


@pytest.mark.parametrize(("version", "word"), [((3, 8, 1), "old"), ((3, 10, 0), "old"), ((3, 14, 0), "new")])
def test_an_unfit_python_without_another_says_what_to_install(monkeypatch, tmp_path, version, word):
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setenv("PATH", str(tmp_path))
    sentence = stops(bootstrap.choose_python)
    assert f"Python {version[0]}.{version[1]} is too {word}" in sentence
    assert "apt-get install python3.12-venv" in sentence


@pytest.mark.parametrize("version", [bootstrap.OLDEST, (3, 12), bootstrap.NEWEST])
def test_a_fit_python_is_used(monkeypatch, version):
    monkeypatch.setattr(sys, "version_info", (*version, 1))
    assert bootstrap.choose_python() is None


def test_an_old_python_hands_over_to_one_that_starts_and_gives_its_exit_code(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "version_info", (3, 8, 1))
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "python3.13", "#!/bin/sh\nexit 127\n")  # what a version manager leaves there
    good = program(tmp_path, "python3.12", '#!/bin/sh\n[ "$1" = -c ] && exit 0\nexit 7\n')
    assert bootstrap.choose_python() == str(good)
    assert bootstrap.main() == 7


def test_a_shim_that_starts_nothing_is_no_python(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "version_info", (3, 8, 1))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in bootstrap.PYTHONS:
        program(tmp_path, name, "#!/bin/sh\nexit 127\n")
    assert "no other was found" in stops(bootstrap.choose_python)


def test_a_shim_does_not_hide_a_python_of_the_same_name(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "version_info", (3, 8, 1))
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}{os.pathsep}{tmp_path / 'bin'}")
    program(tmp_path / "shims", "python3.12", "#!/bin/sh\nexit 127\n")
    good = program(tmp_path / "bin", "python3.12", "#!/bin/sh\nexit 0\n")
    assert bootstrap.choose_python() == str(good)


def test_a_file_that_cannot_be_started_is_no_python(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "version_info", (3, 8, 1))
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "python3.12", "#!/nowhere/at/all\n")
    assert "no other was found" in stops(bootstrap.choose_python)


@pytest.mark.parametrize(
    ("system", "words"), [("darwin", "for macOS: open"), ("win32", "WSL2 and run make lab"), ("freebsd14", "for freebsd14")]
)
def test_a_system_without_wheels_is_pointed_to_the_dev_container(system, words):
    sentence = stops(bootstrap.check_system, system)
    assert words in sentence
    assert "dev container" in sentence
    assert ("WSL2" in sentence) == (system == "win32")


def test_an_unknown_machine_is_refused(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert "this is riscv64" in stops(bootstrap.check_system, "linux")


@pytest.mark.parametrize(("torch", "free", "enough"), [("", 9.9, 0), ("", 10.1, 1), ("cpu", 3.9, 0), ("cpu", 4.1, 1)])
def test_a_disk_too_full_is_noticed_before_anything_is_downloaded(monkeypatch, torch, free, enough):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(2**40, 2**39, free * 1e9))
    if enough:
        bootstrap.check_disk(torch)
    else:
        sentence = stops(bootstrap.check_disk, torch)
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
    bootstrap.check_compiler()


@pytest.mark.parametrize("device", ["/dev/nvidiactl", "/dev/dxg"])
def test_with_a_gpu_a_c_compiler_then_headers_are_asked_for(bare_machine, monkeypatch, tmp_path, device):
    bare_machine(device)
    assert "apt-get install gcc" in stops(bootstrap.check_compiler)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/clang" if name == "clang" else None)
    assert f"{HERE}-dev" in stops(bootstrap.check_compiler)
    program(tmp_path / "include", "Python.h", "")
    bootstrap.check_compiler()


@pytest.mark.parametrize(
    "printed", ["because ensurepip is not available.  On Debian", "/usr/bin/python3: No module named venv"]
)
def test_a_python_without_venv_names_the_package(printed):
    assert f"{HERE}-venv" in bootstrap.explain_venv(printed)


def test_where_no_venv_can_be_made_what_venv_said_is_told(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(bootstrap, "VENV", str(tmp_path / "file" / ".venv"))
    monkeypatch.setattr(bootstrap, "STAMP", str(tmp_path / "file" / ".venv" / "stamp"))
    assert "Not a directory" in stops(bootstrap.make, "")


def test_a_venv_that_was_broken_off_before_it_had_pip_is_made_again(real_pip, monkeypatch, tmp_path):
    monkeypatch.setattr(bootstrap, "VENV", str(tmp_path / ".venv"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bootstrap.VENV], check=True)
    monkeypatch.setattr(bootstrap, "pip", lambda arguments: None)
    bootstrap.make("")
    assert subprocess.call([bootstrap.venv_python(), "-m", "pip", "--version"]) == 0


@pytest.mark.parametrize(
    ("index", "proxy", "words"),
    [
        ("https://localhost:{closed}/simple", "", "index cannot be reached: check the network"),
        ("http://localhost:{empty}/simple", "", "lacks a locked version"),
        ("https://index.invalid/simple", "http://127.0.0.1:{closed}", "proxy does not answer"),
        ("https://index.invalid/simple", "http://127.0.0.1:{empty}", "name:password@host:port"),
    ],
)
def test_what_keeps_a_real_pip_from_its_packages_is_told_apart(real_pip, monkeypatch, serve, closed_port, index, proxy, words):
    ports = {"closed": closed_port, "empty": serve()}
    monkeypatch.setenv("PIP_INDEX_URL", index.format(**ports))
    monkeypatch.setenv("https_proxy", proxy.format(**ports))
    assert words in stops(real_pip)


def test_an_index_that_never_answers_cannot_be_reached(real_pip, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "0.3")
        assert "cannot be reached: check the network" in stops(real_pip)


def test_a_proxy_with_its_own_certificate_asks_for_it_and_is_content_with_it(real_pip, monkeypatch, serve, tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("needs the openssl command to make a certificate")
    both = tmp_path / "both.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, "-keyout", "-"]
    both.write_bytes(subprocess.run(make, check=True, capture_output=True).stdout)
    monkeypatch.setenv("PIP_INDEX_URL", f"https://localhost:{serve(both)}/simple")
    assert "PIP_CERT=/path/to/its/certificate.pem" in stops(real_pip)
    monkeypatch.setenv("PIP_CERT", str(both))
    assert "lacks a locked version" in stops(real_pip)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "The disk is full"),
        ("ERROR: something new", "pip failed; its last lines above say why"),
    ],
)
def test_what_pip_logged_becomes_what_to_do(log, words):
    assert words in bootstrap.explain(log)


@pytest.mark.parametrize(
    ("logged", "words"),
    [
        ("connection error: [Errno 111] Connection refused", "cannot be reached"),
        ("connection error: Failed to resolve IP address for 'index.invalid'", "cannot be reached"),
        ("index.invalid didn't respond within 15.0 seconds", "cannot be reached"),
        ("proxy connection error: ('Unable to connect to proxy', NewConnectionError())", "The proxy does not answer"),
    ],
)
def test_the_words_of_pip_26_are_understood_too(logged, words):
    log = (
        f"Could not fetch URL https://index.invalid/simple/x/: {logged} - skipping\nERROR: No matching distribution found for x"
    )
    assert words in bootstrap.explain(log)


def wheel(folder: Path, name: str, version: str) -> None:
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for file, text in (
            ("METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
            ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            ("RECORD", ""),
        ):
            archive.writestr(f"{name}-{version}.dist-info/{file}", text)


def test_another_torch_build_of_the_same_version_replaces_the_first(real_pip, monkeypatch, serve, tmp_path):
    wheel(tmp_path / "empty" / "cpu" / "torch", "torch", "2.13.0+cpu")
    wheel(tmp_path / "empty" / "gpu" / "torch", "torch", "2.13.0")
    index = f"http://127.0.0.1:{serve()}"
    monkeypatch.setenv("PIP_INDEX_URL", f"{index}/gpu")
    monkeypatch.setattr(bootstrap, "CPU_INDEX", f"{index}/cpu")
    monkeypatch.setattr(bootstrap, "VENV", str(tmp_path / ".venv"))
    install = bootstrap.pip
    monkeypatch.setattr(bootstrap, "pip", lambda arguments: None if "--editable" in arguments else install(arguments))
    Path(bootstrap.LOCK).write_text("torch==2.13.0\n")
    for torch, version in (("cpu", "2.13.0+cpu"), ("", "2.13.0")):
        monkeypatch.setenv("TORCH", torch)
        assert bootstrap.main() == 0
        (found,) = Path(bootstrap.VENV).glob("lib/python*/site-packages/torch-*.dist-info")
        assert found.name == f"torch-{version}.dist-info"


@pytest.fixture
def made(monkeypatch):
    """A .venv made from the lock; gives the list of makings that follow."""
    program(Path(bootstrap.VENV) / "bin", "python", "")
    Path(bootstrap.STAMP).write_text(bootstrap.wanted_stamp())
    monkeypatch.setattr(bootstrap, "check_compiler", lambda: None)
    monkeypatch.setattr(bootstrap, "check_disk", lambda torch: None)
    makings = []
    monkeypatch.setattr(bootstrap, "make", makings.append)
    return makings


def test_a_second_call_does_nothing_and_starts_no_process(made, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert bootstrap.main() == 0
    assert made == []


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml", "TORCH", "STAMP", "python"])
def test_whatever_changed_the_next_call_makes_it_anew(made, monkeypatch, repository, changed):
    if changed == "TORCH":
        monkeypatch.setenv("TORCH", "cpu")
    elif (repository / changed).is_file():
        (repository / changed).write_text("some-package==2.0\n")
    else:
        Path(bootstrap.STAMP if changed == "STAMP" else bootstrap.venv_python()).unlink()
    assert bootstrap.main() == 0
    assert made == ["cpu" if changed == "TORCH" else ""]


def test_a_making_that_fails_leaves_no_stamp_and_says_one_line(real_pip, monkeypatch, tmp_path, closed_port, capsys):
    monkeypatch.setenv("PIP_INDEX_URL", f"https://localhost:{closed_port}/simple")
    Path(bootstrap.STAMP).parent.mkdir()
    Path(bootstrap.STAMP).write_text("of an older lock")
    assert bootstrap.main() == 1
    assert not Path(bootstrap.STAMP).exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Set-up: The package index cannot be reached")
