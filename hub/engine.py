"""The container engine, podman or docker, that keeps the seats apart.

Each seat is a container of the course's image, alone in a network that leads nowhere; a rule of the
firewall lets it ask this host for the hub and for nothing else. The engine limits its memory, cores
and processes. Its folder is a file system of a size of its own.
"""

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.errors import CourseError

from . import ROOT
from .settings import LEADER, Settings

CONTENT = ("course", "kernels", "notebooks", "solutions", "docs/pages")
"""What a seat reads of the checkout, so that a mended lesson needs no new image."""
INSIDE = "/course/now"
"""Where a seat finds it."""
SEAT = "/etc/ipython"
"""Where a seat finds hub/seat: IPython looks there for its configuration."""
HOME = "/home/learner"
ENVIRONMENT = {"COURSE_HOME": HOME, "COURSE_GPU_QUEUE": "/queue", "PYTHONPATH": INSIDE}
ANSWER_S = 60
MOST_PROCESSES = 800
MOST_CONNECTIONS = 30
"""To the hub, from one seat: it could open more than the hub can hold."""
MOST_SAID = 100_000
"""Bytes of what a command in a seat prints that are read: its learner may print without end."""
PSEUDO_TERMINALS = 2**20
"""The system's limit of 4,096 is one for all seats; each pays for its own with its memory."""
PROFILE = Path("/usr/share/containers/seccomp.json")
"""The system calls that podman lets a container make."""
FORBIDDEN = {"unshare", "setns", "mount", "umount", "umount2", "keyctl", "add_key", "request_key"}
"""In a user namespace of its own, a process has every capability; a key outlives its seat."""
NEW_NAMESPACES = 0x7E020000
QUEUE_OPTIONS = "size=100%,nr_inodes=0,mode=1777,nosuid,nodev,noexec"
"""Without a limit of its own: what a seat puts there counts as its memory."""
PODMAN_NETWORK = ["--opt", "isolate=true", "--disable-dns"]


def program() -> str:
    """podman or docker; the other is tried where one does not answer. Raises CourseError."""
    said = "neither podman nor docker is on PATH"
    for name in ("podman", "docker"):
        if shutil.which(name):
            ended = subprocess.run([name, "info"], capture_output=True, text=True)
            if not ended.returncode:
                return name
            said = f"{name}: {_last(ended)}"
    raise CourseError(
        f"Seats are containers, and no engine for them answers ({said}): install one (Debian,"
        " Ubuntu: apt-get install podman iptables), or see hub/README.md."
    )


def run(*command: str, limit_s: float = ANSWER_S) -> str:
    """What a command of the system prints. Raises CourseError with its last words."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CourseError(f"`{' '.join(command[:3])}` could not be run ({error}).") from error
    if ended.returncode:
        raise CourseError(f"`{' '.join(command[:3])}` failed: {_last(ended)}.")
    return ended.stdout


def _last(ended: "subprocess.CompletedProcess[str]") -> str:
    return (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]


@contextlib.contextmanager
def listening(settings: Settings) -> Iterator[str]:
    """The address at which the hub speaks to the engine, as long as the block lasts."""
    engine = program()
    if engine == "docker" or os.environ.get("DOCKER_HOST"):
        yield os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        return
    address = f"unix://{settings.hub_folder}/engine.sock"
    service = subprocess.Popen(
        [engine, "system", "service", "--time", "0", address],
        # Where it is started, its monitors leave a file for each seat whose memory ended.
        cwd=settings.hub_folder, start_new_session=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        end = time.monotonic() + ANSWER_S
        while not (settings.hub_folder / "engine.sock").is_socket():
            if service.poll() is not None or time.monotonic() > end:
                raise CourseError(f"`{engine} system service` does not listen at {address}.")
            time.sleep(0.1)
        yield address
    finally:
        service.terminate()
        service.wait(ANSWER_S)


def prepare(settings: Settings) -> None:
    """Make what the seats need: disks, the queue's folder, networks, the firewall's rules. What is
    there already stays. Raises CourseError."""
    engine = program()
    if not run(engine, "images", "-q", settings.image).strip():
        raise CourseError(
            f"There is no image {settings.image}: `{engine} build -t {settings.image} {ROOT}` makes"
            " it, in some minutes."
        )
    if shutil.which("iptables") is None:
        raise CourseError("There is no iptables on PATH (Debian, Ubuntu: apt-get install iptables)")
    if not os.path.ismount(settings.queue_folder):
        run("mount", "-t", "tmpfs", "-o", QUEUE_OPTIONS, "queue", str(settings.queue_folder))
    run("sysctl", "-q", f"kernel.pty.max={PSEUDO_TERMINALS}")
    settings.profile_file.write_text(json.dumps(profile()))
    for name in (LEADER, *settings.names):  # of a room that was killed: the spawner removes none
        with contextlib.suppress(CourseError):
            run(engine, "rm", "-f", settings.container(name))
    networks = run(engine, "network", "ls", "--format", "{{.Name}}").split()
    for name in (LEADER, *settings.names):
        make_home(settings, name)
        network = settings.container(name)
        if network not in networks:
            addresses = [
                "--subnet",
                str(settings.network(name)),
                "--gateway",
                settings.gateway(name),
            ]
            alone = ["--internal", *(PODMAN_NETWORK if engine == "podman" else [])]
            run(engine, "network", "create", *alone, *addresses, network)
    _protect(settings)


def make_home(settings: Settings, name: str) -> None:
    """A seat's folder, on a disk of its own where the room's settings say so."""
    home, disk = settings.home(name), settings.folder / "disks" / f"{name}.ext4"
    home.mkdir(parents=True, exist_ok=True)
    if settings.disk_bytes and not os.path.ismount(home):
        if not disk.exists():
            disk.parent.mkdir(mode=0o700, exist_ok=True)
            beside = disk.with_suffix(".new")
            with beside.open("wb") as file:
                file.truncate(settings.disk_bytes)
            run("mkfs.ext4", "-q", "-F", "-m", "0", str(beside))
            beside.rename(disk)
        run("mount", "-o", "loop,nosuid,nodev", str(disk), str(home))
    os.chown(home, settings.user(name), settings.user(name))
    home.chmod(0o700)


def _protect(settings: Settings) -> None:
    """Let a seat ask this host for the hub and answer the proxy, and nothing else; let nobody else
    ask for the hub but this host."""
    chain, seats, port = _chain(settings), f"-s {settings.subnet}", f"--dport {settings.port + 1}"
    many = f"-m connlimit --connlimit-above {MOST_CONNECTIONS} --connlimit-mask 32"
    rules = [
        f"-A {chain} -i lo -j RETURN",
        f"-A {chain} {seats} -p tcp {port} --syn {many} -j REJECT --reject-with tcp-reset",
        f"-A {chain} {seats} -p tcp {port} -j ACCEPT",
        f"-A {chain} {seats} -p tcp ! --syn -j ACCEPT",
        f"-A {chain} {seats} -j DROP",
        f"-A {chain} -p tcp {port} -j DROP",
    ]
    text = "\n".join(["*filter", f":{chain} - [0:0]", *rules, "COMMIT", ""])
    restore = ["iptables-restore", "--noflush"]
    ended = subprocess.run(restore, input=text, capture_output=True, text=True, timeout=ANSWER_S)
    if ended.returncode:
        raise CourseError(f"The firewall could not be set: {_last(ended)}.")
    with contextlib.suppress(CourseError):
        run("iptables", "-D", "INPUT", "-j", chain)
    run("iptables", "-I", "INPUT", "1", "-j", chain)


def remove(settings: Settings) -> None:
    """Take away what `prepare` made but the disks; as much of it as is there."""
    engine, chain = program(), _chain(settings)
    networks = [settings.container(name) for name in (LEADER, *settings.names)]
    steps = [
        [engine, "rm", "-f", *networks],
        *([engine, "network", "rm", network] for network in networks),
        ["iptables", "-D", "INPUT", "-j", chain],
        ["iptables", "-F", chain],
        ["iptables", "-X", chain],
        *(["umount", str(settings.home(name))] for name in (LEADER, *settings.names)),
        ["umount", str(settings.queue_folder)],
    ]
    for step in steps:
        with contextlib.suppress(CourseError):
            run(*step)


def _chain(settings: Settings) -> str:
    return f"TRITON-{settings.port}"


def profile() -> dict[str, Any]:
    """podman's own list of system calls, without those that a seat has no use for. Empty where
    there is no such list. Raises CourseError where it is damaged."""
    try:
        listed: dict[str, Any] = json.loads(PROFILE.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CourseError(f"{PROFILE} cannot be read ({error}).") from error
    for rule in listed["syscalls"]:
        rule["names"] = [
            each for each in rule["names"] if each not in FORBIDDEN | {"clone", "clone3"}
        ]
    listed["syscalls"] = [rule for rule in listed["syscalls"] if rule["names"]]
    flags = {"index": 0, "value": NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    listed["syscalls"] += [
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [flags]},
        # Its flags lie in memory, where no list sees them: glibc takes clone in its place.
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errno": "ENOSYS", "errnoRet": 38},
    ]
    return listed


def _security(settings: Settings) -> list[str]:
    """docker's own list of system calls holds no namespaces; podman's does."""
    there = settings.profile_file.exists() and settings.profile_file.read_text() != "{}"
    ours = there and program() == "podman"
    return ["no-new-privileges", *([f"seccomp={settings.profile_file}"] if ours else [])]


def spawner_settings(settings: Settings) -> dict[str, Any]:
    """What DockerSpawner is told of every seat."""
    volumes = {
        f"{settings.folder}/seats/{{raw_username}}": HOME,
        str(settings.queue_folder): "/queue",
    }
    host = {
        "cap_drop": ["ALL"],
        "security_opt": _security(settings),
        "read_only": True,
        "pids_limit": MOST_PROCESSES,
        "memswap_limit": settings.memory_bytes,
        "shm_size": "256m",
        "tmpfs": {"/tmp": "rw,exec,nosuid,nodev,size=512m,mode=1777"},
        "sysctls": {"net.ipv6.conf.all.disable_ipv6": "1"},
        "log_config": {"Type": "json-file", "Config": {"max-size": "10m"}},
    }
    if Path("/dev/nvidiactl").exists():
        everything = {"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]]}
        host["device_requests"] = [everything]
    return {
        "image": settings.image,
        "pull_policy": "never",
        "remove": True,
        "name_template": f"{settings.room}-{{raw_username}}",
        "network_name": settings.room,  # each seat's own is set when it starts
        "use_internal_ip": True,
        "volumes": volumes,
        "read_only_volumes": {
            str(ROOT / "hub" / "seat"): SEAT,
            **{str(ROOT / each): f"{INSIDE}/{each}" for each in CONTENT},
        },
        "mem_limit": settings.memory_bytes,
        "cpu_limit": settings.cores,
        "extra_host_config": host,
        "extra_create_kwargs": lambda spawner: {
            "user": "{0}:{0}".format(settings.user(spawner.user.name))
        },
        "cmd": ["python", "-P", f"{SEAT}/entrypoint.py", "jupyterhub-singleuser"],
        "notebook_dir": HOME,
    }


@dataclass(frozen=True)
class Running:
    """A seat's container, as this host sees it."""

    id: str
    killed: int
    """How often the kernel has ended something in it for want of memory."""
    peak_bytes: int
    """The most memory that it has taken; 0 where the kernel does not tell."""


def try_seat(settings: Settings, name: str, code: str) -> str:
    """What a seat's Python prints of some code, in a container like those that DockerSpawner
    starts; or why there is none."""
    user = settings.user(name)
    mounts = [f"{settings.home(name)}:{HOME}", f"{settings.queue_folder}:/queue"]
    mounts += [f"{ROOT / each}:{INSIDE}/{each}:ro" for each in CONTENT]
    command = [
        program(), "run", "--rm", "--network", settings.container(name), "--cap-drop", "ALL",
        "--read-only", "--user", f"{user}:{user}",
        "--pids-limit", f"{MOST_PROCESSES}", "--memory", f"{settings.memory_bytes}",
        "--tmpfs", "/tmp:rw,exec,size=512m,mode=1777", "-e", f"PYTHONPATH={INSIDE}",
        "-e", f"COURSE_HOME={HOME}", "-e", f"HOME={HOME}", "-w", HOME,
    ]  # fmt: skip
    command += [option for mount in mounts for option in ("-v", mount)]
    command += [option for each in _security(settings) for option in ("--security-opt", each)]
    try:
        return run(*command, settings.image, "python", "-P", "-c", code, limit_s=5 * ANSWER_S)
    except CourseError as error:
        return str(error)


def running(settings: Settings) -> dict[str, Running]:
    """The seats whose container runs."""
    engine, found = program(), {}
    names = [settings.container(name) for name in (LEADER, *settings.names)]
    there = run(engine, "ps", "--format", "{{.Names}}").split()
    if asked := sorted(set(names) & set(there)):
        form = "{{.Name}} {{.Id}} {{.State.Pid}}"
        for line in run(engine, "inspect", "-f", form, *asked).splitlines():
            name, identifier, pid = line.split()
            seat = name.lstrip("/").removeprefix(f"{settings.room}-")
            found[seat] = Running(identifier, *_memory(pid))
    return found


def _memory(pid: str) -> tuple[int, int]:
    """How often something was ended in a process's control group, and the group's peak."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds == "memory":
                group, events, peak = f"memory{path}", "memory.oom_control", "max_usage_in_bytes"
            elif not kinds:
                group, events, peak = path.lstrip("/"), "memory.events", "peak"
            else:
                continue
            folder = Path("/sys/fs/cgroup") / group
            if (folder / events).exists():
                told = dict(line.split() for line in (folder / events).read_text().splitlines())
                most = folder / f"memory.{peak}"
                return int(told.get("oom_kill", 0)), int(most.read_text()) if most.exists() else 0
    return 0, 0


def inside(settings: Settings, name: str, *command: str, limit_s: float = ANSWER_S) -> str:
    """What a command prints in a seat's container; empty where that does not run."""
    return first_said([program(), "exec", settings.container(name), *command], limit_s)


def first_said(command: list[str], limit_s: float) -> str:
    """The first MOST_SAID bytes that a command prints; empty where it prints none in time."""
    try:
        started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return ""
    late = threading.Timer(limit_s, started.kill)
    late.start()
    with started:
        assert started.stdout is not None
        said = started.stdout.read(MOST_SAID)
        if len(said) == MOST_SAID:
            started.kill()
    late.cancel()
    return said.decode(errors="replace")
