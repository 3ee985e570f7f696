"""What the leader has set, and where everything of a workshop lies: one folder."""

import ipaddress
import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from course.errors import CourseError
from course.files import write_whole
from course.isolate.available import free_memory_bytes

VARIABLE = "WORKSHOP_FOLDER"
"""Tells the hub and its services which folder is theirs."""
FIRST_USER = 60600
"""User ids from here on are the seats' own, inside their containers (Dockerfile)."""
MOST_SEATS = 400
NETWORK = ipaddress.IPv4Network("10.176.0.0/12")
"""Every room has a part of these addresses by its port, and every seat eight of that part."""
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Every address of this host -> the one that it has for itself."""
LEADER = "leader"


LEAST_SEAT_BYTES = 3 * 2**30
"""What a learner takes whose lessons stay open, as hub/README.md shows; every document says it."""
MOST_SEAT_BYTES = 4 * 2**30


def seat_bytes(seats: int) -> int:
    """The memory limit of a seat where the leader names none: an equal part of nine tenths of what
    is free, between what a day takes and a little more."""
    return max(LEAST_SEAT_BYTES, min(MOST_SEAT_BYTES, free_memory_bytes() * 9 // 10 // seats))


@dataclass(frozen=True)
class Settings:
    """A workshop as it was started."""

    folder: Path
    seats: int
    address: str = "0.0.0.0"
    port: int = 8000
    """The proxy's; the three after it are the hub's, the proxy's own and the board's."""
    memory_bytes: int = LEAST_SEAT_BYTES
    """A seat's limit: for its server, its sessions, and their checks."""
    cores: float = 1.0
    """A seat's limit."""
    disk_bytes: int = 2**31
    """The size of a seat's disk; 0 where all seats share the host's."""
    idle_s: int = 3600
    """After so long without a sign of life a seat's server is ended; its work stays."""
    lessons: str = ""
    """The numbers of the plan's lessons, which the board shows first; empty for all."""
    image: str = "triton-course"
    python: str = ""
    """The Python of the course's own environment, for seats of one account."""
    apart: bool = True
    """Whether each seat is a container of its own."""
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
        """The folder that only the hub reads: database and secrets."""
        return self.folder / "hub"

    @property
    def queue_folder(self) -> Path:
        return self.folder / "queue"

    @property
    def exercises_file(self) -> Path:
        """The file from which the board knows the exercises."""
        return self.hub_folder / "exercises.json"

    @property
    def profile_file(self) -> Path:
        """The system calls that a seat may make."""
        return self.hub_folder / "seccomp.json"

    @property
    def names(self) -> list[str]:
        return [f"seat-{number:02}" for number in range(1, self.seats + 1)]

    @property
    def url(self) -> str:
        """The address that the proxy listens at."""
        return self._url(self.address)

    @property
    def public_url(self) -> str:
        """The address that learners type: by this host's name if all are listened at."""
        return self._url(socket.getfqdn() if self.address in EVERYWHERE else self.address)

    @property
    def own_url(self) -> str:
        """Where this host itself finds the room."""
        return self._url(EVERYWHERE.get(self.address, self.address))

    def _url(self, address: str) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{address}:{self.port}"

    def home(self, name: str) -> Path:
        """A seat's own folder."""
        return self.folder / "seats" / name

    def user(self, name: str) -> int:
        """The user id of a seat, or of the leader; this process's own where seats share one."""
        return FIRST_USER + _number(name) if self.apart else os.getuid()

    def owner(self, path: Path) -> str:
        """The seat that a file belongs to; empty for a file of nobody's, or of one account."""
        try:
            number = path.lstat().st_uid - FIRST_USER
        except OSError:
            return ""
        return f"seat-{number:02}" if self.apart and 0 < number <= self.seats else ""

    def container(self, name: str) -> str:
        """The name of a seat's container, and of the network that it alone is in."""
        return f"{self.room}-{name}"

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        """The addresses of the room's seats, by its port."""
        part = self.port // 4 % 2 ** (20 - NETWORK.prefixlen)
        return ipaddress.IPv4Network(f"{NETWORK.network_address + part * 2**12}/20")

    def network(self, name: str) -> ipaddress.IPv4Network:
        """The addresses of a seat's network; the first of its hosts is this one."""
        start = self.subnet.network_address + 8 * _number(name)
        return ipaddress.IPv4Network(f"{start}/29")

    def gateway(self, name: str) -> str:
        """This host's address in a seat's network."""
        return str(self.network(name).network_address + 1)

    def write(self) -> None:
        fields = {**asdict(self), "folder": str(self.folder)}
        write_whole(self.folder / "settings.json", json.dumps(fields, indent=1))


def _number(name: str) -> int:
    return 0 if name == LEADER else int(name.removeprefix("seat-"))


def read(folder: Path) -> Settings:
    """The workshop of a folder. Raises CourseError where there is none."""
    try:
        fields = json.loads((folder / "settings.json").read_text())
        return Settings(**{**fields, "folder": Path(fields["folder"])})
    except PermissionError as error:
        raise not_yours(folder) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CourseError(
            f"There is no workshop in {folder}: `course workshop start` makes one, and --folder"
            " says where it is."
        ) from error


def seat_name(typed: str) -> str:
    """The name that somebody means who logs in: a seat's number is enough."""
    name = typed.strip().lower()
    # Not isdigit, which holds of "²" too; and Python refuses to read a number of 5,000 digits.
    return f"seat-{int(name):02}" if name.isdecimal() and len(name) < 6 else name


def not_yours(path: Path) -> CourseError:
    """The error for somebody who did not start the workshop."""
    return CourseError(
        f"{path} belongs to another user: run this as who started the workshop, with sudo if that"
        " was root."
    )
