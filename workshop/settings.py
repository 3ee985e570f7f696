"""What the leader has set, and where everything of a workshop lies: one folder."""

import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from course.errors import CourseError
from course.files import write_whole

VARIABLE = "WORKSHOP_FOLDER"
"""Tells the hub and its services which folder is theirs."""
FIRST_USER = 60600
"""User ids from here on are the seats' own. Systems leave 60578 to 61183 to nobody."""
MOST_SEATS = 400
LEADER = "leader"
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Of a code: none that is read as another."""


@dataclass(frozen=True)
class Settings:
    """A workshop as it was started."""

    folder: Path
    seats: int
    address: str = "0.0.0.0"
    port: int = 8000
    """The proxy's; the two after it are the hub's and the proxy's own, on this host alone."""
    memory_bytes: int = 3 * 2**30
    """For each seat: its server, its sessions, and their checks."""
    cores: float = 1.0
    """For each seat, where the host can hold it."""
    idle_s: int = 3600
    """After so long without a sign of life a seat's server is ended; its work stays."""
    python: str = ""
    """The Python of the course's own environment."""
    apart: bool = True
    """Whether each seat is a user of its own."""
    certificate: str = ""
    key: str = ""

    @property
    def room(self) -> str:
        """The room's name among others on this host."""
        return f"triton-course-{self.port}"

    @property
    def codes_file(self) -> Path:
        return self.folder / "codes.json"

    @property
    def hub_folder(self) -> Path:
        """What is the hub's alone: database, secrets, log."""
        return self.folder / "hub"

    @property
    def queue_folder(self) -> Path:
        return self.folder / "queue"

    @property
    def exercises_file(self) -> Path:
        """What the board knows of the exercises."""
        return self.hub_folder / "exercises.json"

    @property
    def jupyter_folder(self) -> Path:
        return self.folder / "jupyter"

    @property
    def names(self) -> list[str]:
        return [f"seat-{number:02}" for number in range(1, self.seats + 1)]

    @property
    def url(self) -> str:
        """What the proxy listens at."""
        return self._url(self.address)

    @property
    def public_url(self) -> str:
        """What learners type: where all addresses are listened at, this host's name."""
        everywhere = self.address in ("0.0.0.0", "::")
        return self._url(socket.getfqdn() if everywhere else self.address)

    def _url(self, address: str) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{address}:{self.port}"

    def home(self, name: str) -> Path:
        """A seat's own folder."""
        return self.folder / "seats" / name

    def user(self, name: str) -> int:
        """The user id of a seat, or of the leader; this process's own where seats share one."""
        if not self.apart:
            return os.getuid()
        return FIRST_USER + (0 if name == LEADER else int(name.removeprefix("seat-")))

    def write(self) -> None:
        fields = {**asdict(self), "folder": str(self.folder)}
        write_whole(self.folder / "settings.json", json.dumps(fields, indent=1))


def read(folder: Path) -> Settings:
    """The workshop of a folder. Raises CourseError where there is none."""
    try:
        fields = json.loads((folder / "settings.json").read_text())
        return Settings(**{**fields, "folder": Path(fields["folder"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CourseError(
            f"There is no workshop in {folder}: `course workshop start` makes one, and --folder"
            " says where it is."
        ) from error


def codes(settings: Settings) -> dict[str, str]:
    """The code of the leader and of each seat. Codes that are there stay, so a workshop can be
    started again, with more seats too."""
    try:
        known = json.loads(settings.codes_file.read_text())
    except (OSError, ValueError):
        known = {}
    wanted = [LEADER, *settings.names]
    if any(name not in known for name in wanted):
        known = {name: known.get(name) or _code() for name in [*known, *wanted]}
        write_private(settings.codes_file, json.dumps(known, indent=1))
    return {name: known[name] for name in wanted}


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else can read, at no moment."""
    beside = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    beside.replace(path)


def _code() -> str:
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(3))
