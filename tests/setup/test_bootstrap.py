"""The set-up script makes .venv once, and says in one sentence what to do where it cannot."""

import ast
import functools
import http.server
import json
import os
import shutil
import signal
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
    """A folder with locks to set up in place of the real one, and none of this machine's
    settings."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for constant, name in (
        ("ROOT", ""), ("VENV", ".venv"), ("BUILD", "build"), ("PROJECT", "pyproject.toml"),
        ("LOCK", "requirements.lock"), ("DEV_LOCK", "requirements-dev.lock"),
    ):  # fmt: skip
        monkeypatch.setattr(bootstrap, constant, str(folder / name))
    (folder / "pyproject.toml").write_text(
        "[tool.uv.pip]\nno-index = true\n"
    )  # what is for making the locks
    monkeypatch.chdir(folder)
    (folder / "requirements.lock").write_text("torch==2.15.0\nother==1.0\n")
    (folder / "requirements-dev.lock").write_text(
        "torch==2.15.0\nother==1.0\ntool==1.0\nuv==0.13.9\n"
    )
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
def real_programs(shared_venv, monkeypatch):
    """Real pip and real uv in an environment that is only read; no checks of this machine."""
    uv = shutil.which("uv", path=f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(bootstrap, "uv_program", lambda: uv)
    monkeypatch.setattr(bootstrap, "VENV", str(shared_venv))
    monkeypatch.setattr(bootstrap, "check_compiler", lambda: None)
    monkeypatch.setattr(bootstrap, "check_disk", lambda torch: None)


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

    def add(self, index: str, name: str, version: str, whole: bool = True) -> None:
        """Put a package into an index, with its metadata beside it as the real ones have it."""
        folder = self.folder / index / name
        folder.mkdir(parents=True, exist_ok=True)
        file = f"{name}-{version}-py3-none-any.whl"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / f"{file}.metadata").write_text(metadata)
        with zipfile.ZipFile(folder / file, "w") as archive:
            archive.writestr(f"{name}/__init__.py", f"index = {index!r}\n")
            archive.writestr(f"{name}-{version}.dist-info/METADATA", metadata)
            archive.writestr(
                f"{name}-{version}.dist-info/WHEEL",
                "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            archive.writestr(f"{name}-{version}.dist-info/RECORD", "")
        if not whole:
            (folder / file).write_bytes((folder / file).read_bytes()[:40])
        with (folder / "index.html").open("a") as page:
            page.write(
                f'<a href="{file.replace("+", "%2B")}" data-core-metadata="true">{file}</a>\n'
            )


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
def index(serve, monkeypatch, repository, shared_venv, real_programs):
    """The ordinary index, with all of the locks, and PyTorch's own, empty, on one server; .venv can
    be made from them."""
    index = serve()
    for name, version in (("torch", "2.15.0"), ("other", "1.0"), ("tool", "1.0"), ("uv", "0.13.9")):
        index.add("ordinary", name, version)
    (index.folder / "cpu").mkdir()
    monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/ordinary")
    monkeypatch.setattr(bootstrap, "CPU_INDEX", f"{index.url}/cpu")

    def make_venv(torch):
        shutil.rmtree(bootstrap.VENV, ignore_errors=True)
        shutil.copytree(shared_venv, bootstrap.VENV, symlinks=True)

    monkeypatch.setattr(bootstrap, "VENV", str(repository / ".venv"))
    monkeypatch.setattr(bootstrap, "make_venv", make_venv)
    monkeypatch.setattr(bootstrap, "install_course", lambda settings: None)
    return index


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


def site_packages() -> Path:
    return next(Path(bootstrap.VENV).glob("lib/python*/site-packages"))


def installed() -> dict[str, str]:
    """The packages of .venv with their versions, but for those that a new one has."""
    found = (
        folder.name.removesuffix(".dist-info").split("-")
        for folder in site_packages().glob("*.dist-info")
    )
    return {name: version for name, version in found if name in ("torch", "other", "tool")}


def test_an_old_python_3_can_read_the_script_and_it_imports_the_standard_library_alone():
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 6))
    imported = [
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    ]
    imported += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
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


@pytest.mark.parametrize("version", [bootstrap.OLDEST, (3, 12), bootstrap.NEWEST])
def test_a_fit_python_is_used(monkeypatch, version):
    monkeypatch.setattr(sys, "version_info", (*version, 1))
    assert bootstrap.choose_python() is None


# What a version manager leaves on PATH, and a script whose interpreter is missing.
@pytest.mark.parametrize("shim", ["#!/bin/sh\nexit 127\n", "#!/nowhere/at/all\n"])
@pytest.mark.parametrize(("version", "word"), [((3, 8, 1), "old"), ((3, 14, 0), "new")])
def test_an_unfit_python_hands_over_to_one_that_starts_or_says_what_to_install(
    monkeypatch, tmp_path, version, word, shim
):
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}{os.pathsep}{tmp_path / 'bin'}")
    for name in bootstrap.PYTHONS:
        program(tmp_path / "shims", name, shim)
    sentence = stops(bootstrap.choose_python)
    assert f"Python {version[0]}.{version[1]} is too {word}" in sentence
    assert "apt-get install python3.12-venv" in sentence
    good = str(program(tmp_path / "bin", "python3.12", "#!/bin/sh\nexit 0\n"))
    started = []
    monkeypatch.setattr(os, "execv", lambda *arguments: started.append(arguments) or sys.exit())
    with pytest.raises(SystemExit):
        bootstrap.main(["--dev"])
    assert started == [(good, [good, str(SCRIPT), "--dev"])]


@pytest.mark.parametrize(
    ("system", "words"),
    [
        ("darwin", "for macOS: open"),
        ("win32", "WSL2 and run make lab"),
        ("freebsd14", "for freebsd14"),
    ],
)
def test_a_system_without_wheels_is_pointed_to_the_dev_container(system, words):
    sentence = stops(bootstrap.check_system, system)
    assert words in sentence
    assert "dev container" in sentence
    assert ("WSL2" in sentence) == (system == "win32")


def test_an_unknown_machine_is_refused(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert "this is riscv64" in stops(bootstrap.check_system, "linux")


@pytest.mark.parametrize(
    ("torch", "free", "enough"), [("", 7.9, 0), ("", 8.1, 1), ("cpu", 3.9, 0), ("cpu", 4.1, 1)]
)
def test_a_disk_too_full_is_noticed_before_anything_is_downloaded(monkeypatch, torch, free, enough):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(2**40, 2**39, free * 1e9))
    monkeypatch.setattr(
        bootstrap,
        "check",
        lambda command: pytest.fail(f"not enough for {command}") if not enough else "",
    )
    if enough:
        bootstrap.make_venv(torch)
    else:
        sentence = stops(bootstrap.make_venv, torch)
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
def test_with_a_gpu_a_c_compiler_then_headers_are_asked_for(
    bare_machine, monkeypatch, tmp_path, device
):
    bare_machine(device)
    assert "apt-get install gcc" in stops(bootstrap.check_compiler)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/clang" if name == "clang" else None)
    assert f"{HERE}-dev" in stops(bootstrap.check_compiler)
    program(tmp_path / "include", "Python.h", "")
    bootstrap.check_compiler()


def test_where_no_venv_can_be_made_what_venv_said_is_told(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(bootstrap, "VENV", str(tmp_path / "file" / ".venv"))
    monkeypatch.setattr(bootstrap, "check_disk", lambda torch: None)
    assert "Not a directory" in stops(bootstrap.make_venv, "")


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
    real_programs, monkeypatch, serve, closed_port, installer, url, proxy, words
):
    ports = {"closed": closed_port, "empty": serve().server_port}
    monkeypatch.setenv("PIP_INDEX_URL", url.format(**ports))
    monkeypatch.setenv("https_proxy", proxy.format(**ports))
    sentence = stops(install_with, installer, monkeypatch)
    assert words in sentence
    if "lacks" in words:
        assert {
            "pip": "(No matching distribution found for uv==0.13.9)",
            "uv": "(Because other was not found",
        }[installer] in sentence


def install_with(installer: str, monkeypatch) -> None:
    """Take the step of the set-up in which this program downloads."""
    if installer == "pip":
        monkeypatch.setattr(
            bootstrap, "uv_program", lambda: os.path.join(bootstrap.BUILD, "uv", "bin", "uv")
        )
        bootstrap.install_uv()
    else:
        bootstrap.check(bootstrap.uv("other==1.0"), bootstrap.uv_settings())


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_proxy_with_its_own_certificate_asks_for_it_and_is_content_with_it(
    real_programs, monkeypatch, serve, tmp_path, installer
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
    assert "PIP_CERT=/path/to/its/certificate.pem" in stops(install_with, installer, monkeypatch)
    monkeypatch.setenv("PIP_CERT", str(both))
    assert "lacks a locked version" in stops(install_with, installer, monkeypatch)


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
    assert words in bootstrap.explain(printed)
    if "connection" in printed:  # pip 26 goes on after it
        assert words in bootstrap.explain(
            f"{printed} - skipping\nERROR: No matching distribution found for x"
        )


def test_pip_s_settings_reach_uv(real_programs, monkeypatch, tmp_path):
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://of.file/simple\nextra-index-url =\n    https://one/simple\n "
        "   https://two/simple\nfind-links = /one /two\nproxy = http://proxy:1\ntrusted-host ="
        " one\ncert = /its.pem\ntimeout = 9\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://of.variable/simple")
    settings = bootstrap.uv_settings()
    assert {name: settings[name] for name in bootstrap.UV_NAMES.values()} == {
        "UV_DEFAULT_INDEX": "https://of.variable/simple", "UV_INDEX": "https://one/simple https://two/simple",
        "UV_FIND_LINKS": "/one,/two", "UV_INSECURE_HOST": "one",
        "SSL_CERT_FILE": "/its.pem", "ALL_PROXY": "http://proxy:1",
    }  # fmt: skip


def test_a_learner_gets_no_test_tools_and_they_are_added_to_what_is_there(index):
    assert bootstrap.main([]) == 0
    assert installed() == {"torch": "2.15.0", "other": "1.0"}
    index.asked.clear()
    assert bootstrap.main(["--dev"]) == 0
    assert installed() == {"torch": "2.15.0", "other": "1.0", "tool": "1.0"}
    assert [path for path in index.asked if "torch" in path or "other" in path] == []


def test_the_cpu_build_comes_from_pytorchs_index_which_is_asked_for_torch_alone_and_once(
    index, monkeypatch, capsys
):
    index.add("cpu", "torch", "2.15.0+cpu")
    index.add("cpu", "other", "1.0")
    monkeypatch.setenv("TORCH", "cpu")
    assert bootstrap.main(["--dev"]) == 0
    assert installed() == {"torch": "2.15.0+cpu", "other": "1.0", "tool": "1.0"}
    wheel = "/cpu/torch/torch-2.15.0%2Bcpu-py3-none-any.whl"
    assert [path for path in index.asked if path.startswith("/cpu")] == ["/cpu/torch/", wheel]
    assert "ordinary build" not in capsys.readouterr().out
    monkeypatch.setenv("TORCH", "")
    assert bootstrap.main([]) == 0  # torch==2.15.0 is satisfied by 2.15.0+cpu
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
        monkeypatch.setattr(bootstrap, "ANSWER_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = {
            "silent": silent.getsockname()[1],
            "closed": closed_port,
            "without": index.server_port,
        }[cpu_index]
        monkeypatch.setattr(bootstrap, "CPU_INDEX", f"http://127.0.0.1:{port}/cpu")
        assert bootstrap.main([]) == 0
    assert installed() == {"torch": "2.15.0", "other": "1.0"}
    (said,) = (
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("PyTorch's own index")
    )
    assert words in said
    assert "ordinary build is installed" in said
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("it tried again"))
    assert bootstrap.main([]) == 0


def test_a_cpu_build_that_breaks_off_is_not_replaced_by_gigabytes(index, monkeypatch, capsys):
    index.add("cpu", "torch", "2.15.0+cpu", whole=False)
    monkeypatch.setenv("TORCH", "cpu")
    assert bootstrap.main([]) == 1
    assert "torch" not in installed()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Set-up: ")
    assert bootstrap.read_made() == {}


def test_an_interrupted_set_up_says_one_sentence_and_downloads_nothing_twice(
    index, monkeypatch, capfd
):
    monkeypatch.setenv("UV_CONCURRENT_DOWNLOADS", "1")
    index.holds = {2}
    child = os.fork()
    if not child:
        code = 1
        try:
            code = bootstrap.main([])
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
    assert bootstrap.main([]) == 0
    assert installed() == {"torch": "2.15.0", "other": "1.0"}
    first, second, *more = [path for path in index.asked if path.endswith(".whl")]
    assert first != second
    assert more == [second]


def test_a_package_that_was_half_installed_when_it_was_interrupted_is_installed_anew(index):
    assert bootstrap.main([]) == 0
    Path(bootstrap.made_file()).unlink()
    (site_packages() / "other" / "__init__.py").unlink()
    index.asked.clear()
    assert bootstrap.main([]) == 0
    assert (site_packages() / "other" / "__init__.py").is_file()
    assert [path for path in index.asked if path.endswith(".whl")] == []


@pytest.fixture
def made(monkeypatch):
    """A .venv that was made; gives the list of makings that follow."""
    program(Path(bootstrap.VENV) / "bin", "python", "")
    Path(bootstrap.made_file()).write_text(json.dumps(bootstrap.describe("", [bootstrap.LOCK])))
    monkeypatch.setattr(bootstrap, "check_compiler", lambda: None)
    makings = []
    monkeypatch.setattr(bootstrap, "make", lambda made, wanted: makings.append(wanted["torch"]))
    return makings


def test_a_second_call_does_nothing_and_starts_no_process(made, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert bootstrap.main([]) == 0
    assert made == []


@pytest.mark.parametrize(
    "changed",
    ["requirements.lock", "pyproject.toml", "TORCH", ".venv/course-made.json", ".venv/bin/python"],
)
def test_whatever_changed_the_next_call_makes_it_anew(made, monkeypatch, repository, changed):
    if changed == "TORCH":
        monkeypatch.setenv("TORCH", "cpu")
    elif changed.startswith(".venv"):
        (repository / changed).unlink()
    else:
        (repository / changed).write_text("other==2.0\n")
    assert bootstrap.main([]) == 0
    assert made == ["cpu" if changed == "TORCH" else ""]
