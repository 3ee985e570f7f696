"""Results that were measured on a GPU: on which machine, now or earlier, and as JSON."""

import datetime
import json
import re
import subprocess
from dataclasses import asdict, dataclass, replace
from typing import Self

import msgspec

from course import pins

EARLIER = "measured on an earlier form of this kernel"
"""Said by everything that shows a record whose kernel has changed since."""


@dataclass(frozen=True)
class Machine:
    """Where and when a result was measured."""

    gpu: str
    driver: str
    torch: str
    """The PyTorch that ran."""
    triton: str
    date: str
    pinned_torch: str = ""
    """The PyTorch that the course pinned at the time; it may be newer than the machine's."""

    def __str__(self) -> str:
        torch = self.torch
        if self.pinned_torch not in ("", torch.partition("+")[0]):
            torch += f" (the course pins {self.pinned_torch})"
        return f"{self.gpu}, driver {self.driver}, torch {torch}, triton {self.triton}, {self.date}"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What one run on one machine gave. JSON keeps all of it."""

    machine: Machine
    recorded: bool = False
    """Whether it was read from a file, and not measured just now. JSON does not keep it."""

    @property
    def outdated(self) -> bool:
        """Whether it is known that a kernel's code has changed since this was recorded."""
        return False

    @property
    def source(self) -> str:
        """When, where and on which code it was measured, as a sentence."""
        text = self.origin(self.machine)
        return f"{text[0].upper()}{text[1:]}."

    def origin(self, where: object) -> str:
        """The same as a clause. where: the machine, or what of it is to be said."""
        how = "recorded" if self.recorded else "measured now"
        return f"{how} on {where}" + (f"; {EARLIER}" if self.outdated else "")

    def __repr__(self) -> str:  # dataclasses with repr=False are shown as they print
        return str(self)

    def to_json(self) -> str:
        """JSON with a line for each object of a list that holds no further objects."""
        content = asdict(self)
        del content["recorded"]
        text = json.dumps(content, indent=2) + "\n"
        return re.sub(r"(?<=[\[,]\n)( *)({[^{}]*})", _on_a_line, text)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The result that `to_json` wrote. Raises msgspec.DecodeError for any other text."""
        return replace(msgspec.json.decode(text, type=cls), recorded=True)


def _on_a_line(item: re.Match[str]) -> str:
    return item[1] + json.dumps(json.loads(item[2]))


def this_machine() -> Machine:
    """The GPU of this process and its versions."""
    import torch
    import triton

    return Machine(
        gpu=torch.cuda.get_device_name(),
        driver=driver_version(),
        torch=torch.__version__,
        triton=triton.__version__,
        date=datetime.date.today().isoformat(),
        pinned_torch=pins.TORCH,
    )


def driver_version() -> str:
    """The NVIDIA driver's version, or "unknown"."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.splitlines()[0].strip()
