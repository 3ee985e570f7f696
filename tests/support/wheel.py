"""The course installed from its wheel, in an environment of its own that finds this one's other
packages and not this checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = (
    "course", "kernels", "notebooks", "solutions", "docs", "README.md", "TEACHING.md",
    "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "setup.py", "MANIFEST.in",
)  # fmt: skip


def build_wheel(folder: Path) -> Path:
    """The wheel, built from a copy of the files that go into it, so that the checkout gets no
    build/lib and an earlier one's leftovers are not packed."""
    checkout = folder / "checkout"
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache", ".ipynb_checkpoints")
    for name in SOURCES:
        source, copy = ROOT / name, checkout / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=ignored)
        else:
            shutil.copyfile(source, copy)
    return _wheel_of(checkout, folder)


def build_wheel_of_sdist(checkout: Path, folder: Path) -> Path:
    """The wheel that is built from a checkout's source distribution."""
    made = backend(f"build_sdist({str(folder)!r})", checkout)
    assert made.returncode == 0, made.stderr[-2000:]
    (sdist,) = folder.glob("*.tar.gz")
    return _wheel_of(sdist, folder)


def backend(call: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Call setuptools in a folder, as pip does."""
    command = [sys.executable, "-c", f"from setuptools import build_meta; build_meta.{call}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def _wheel_of(source: Path, folder: Path) -> Path:
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir"]
    command = [sys.executable, "-m", "pip", "wheel", "-q", *options, "-w", str(folder), str(source)]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    (wheel,) = folder.glob("*.whl")
    return wheel


@dataclass
class Installed:
    """The installed course, and a home folder for whoever uses it."""

    python: Path
    home: Path

    @property
    def folder(self) -> Path:
        """Where `course lab` puts the lessons."""
        return self.home / "triton-course"

    def environment(self, **variables: str) -> dict[str, str]:
        """The variables of a new user's shell, who has set nothing."""
        ours = ("COURSE_", "JUPYTER", "IPYTHON", "XDG_", "PYTHON", "TRITON_", "TORCH")
        environ = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        # The lab's pages and its kernel are packages' data, which lie in the other environment.
        data = Path(sysconfig.get_path("data")) / "share" / "jupyter"
        environ |= {"HOME": str(self.home), "COURSE_MODE": "cpu"}
        environ |= {"JUPYTER_PATH": str(data), "JUPYTERLAB_DIR": str(data / "lab")}
        return environ | variables

    def run(self, *arguments: str, folder: Path | None = None, **variables: str) -> str:
        """What Python prints with these arguments; fails with what it says on stderr."""
        done = subprocess.run(
            [str(self.python), *arguments],
            cwd=folder or self.home,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def install(wheel: Path, folder: Path) -> Installed:
    """Install a wheel by pip, with no index, into a new environment."""
    environment, home = folder / "environment", folder / "home"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    home.mkdir()
    python = environment / "bin" / "python"
    options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", *options]
    # With PYTHONPATH, pip would find this checkout, and have nothing to install.
    environ = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*command, str(wheel)], env=environ, check=True)
    (site,) = (environment / "lib").glob("python*/site-packages")
    # One path a line: .pth files that lie there, as an editable course's, are not read.
    (site / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return Installed(python, home)
