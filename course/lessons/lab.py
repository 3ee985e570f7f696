"""Open the lessons in JupyterLab, on this machine alone and behind its token."""

import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

from course import MODE
from course.errors import CourseError
from course.places import home

from . import learner_copies
from .folders import WORK
from .unpack import unpack_if_installed

FIRST = "00-your-first-kernel.ipynb"


def start(options: list[str]) -> None:
    """Copy the lessons to work/, in the reader's folder, and become JupyterLab at one of them.

    options: may begin with the number of a lesson, as 04; without it, the first is opened. The rest
        is passed to `jupyter lab`.
    Raises CourseError where no lesson has that number.
    """
    if not sys.platform.startswith("linux"):
        raise CourseError(
            "Triton runs on Linux: open the course as a dev container, or inside WSL2."
        )
    opened = FIRST
    if options and options[0].isdigit():
        opened, options = learner_copies.lesson_named(options[0]).name, options[1:]
    kept = unpack_if_installed()
    for line in [*kept, *report(learner_copies.copy_lessons())]:
        print(line)
    print(f"Your folder is {home()}.")
    print(MODE, flush=True)
    asked = {option.partition("=")[0] for option in options}
    own = [
        option for option in arguments(home(), opened) if option.partition("=")[0] not in asked
    ]  # JupyterLab takes one value of each
    command = [sys.executable, "-m", "jupyterlab", *own, *options]
    os.execve(sys.executable, command, session_environment(os.environ))


def session_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for the lab: each session chooses its own mode, and says its own reason."""
    kept = MODE.by_triton
    return {name: value for name, value in environ.items() if name != "TRITON_INTERPRET" or kept}


def arguments(root: Path, opened: str = FIRST) -> list[str]:
    """JupyterLab's address, folder and first page; nothing is asked of the network.

    opened: the name of the notebook that it opens at, in work/.
    """
    settings = Path(__file__).parent / "lab_settings"  # no news, no updates; widgets are saved
    return [
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{WORK.name}/{opened}",
        f"--LabApp.app_settings_dir={settings}",
        "--LabApp.extension_manager=readonly",
        *_transport(),
        *(["--allow-root"] if os.geteuid() == 0 else []),  # containers run as root
    ]


def _transport() -> list[str]:
    """Sessions are reached over sockets in the reader's own folder, which no other user can open.

    Where its path is too long for them, they use TCP, each message signed with a key that the
    folder keeps.
    """
    from jupyter_core.paths import jupyter_runtime_dir

    fits = fits_sockets(Path(jupyter_runtime_dir()))
    return ["--KernelManager.transport=ipc"] if fits else []


def fits_sockets(folder: Path) -> bool:
    """Whether a session's sockets can lie in a folder: the system takes paths of 107 bytes."""
    return len(os.fsencode(folder / f"kernel-{uuid.uuid4()}-ipc-5")) <= 107


def report(copied: learner_copies.Copied) -> list[str]:
    """What was copied, a line for each kind."""
    lines = []
    if copied.new:
        lines.append(f"New in work/: {', '.join(copied.new)}.")
    if copied.renewed:
        names = ", ".join(copied.renewed)
        lines.append(f"Renewed in work/, since you had not changed them: {names}.")
    for name in copied.behind:
        newer = f"{name} has a newer version; yours is untouched"
        lines.append(f"{newer}. `course reset {name[:2]}` gives the new one and keeps yours.")
    if copied.earlier:
        names = ", ".join(copied.earlier)
        aside = f"in work/{learner_copies.EARLIER}/ you find what you wrote: {names}"
        lines.append(f"The course has been cut into shorter notebooks, and {aside}.")
    return lines
