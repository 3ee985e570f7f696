"""Sessions of notebooks and their workers, as forks of two processes that have PyTorch and Triton
imported: what each would import takes two seconds of CPU time once, and not in each of them.

One has Triton's interpreter on and the other has it off, as Triton asks when it is imported. The
course itself is imported anew in each fork. Both end when the process that started them does.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

IMPORTED = (
    "ipykernel.ipkernel", "ipykernel.kernelapp", "ipywidgets", "anywidget", "matplotlib.pyplot",
    "matplotlib_inline.backend_inline", "torch", "triton",
)  # fmt: skip
FORK_SERVER = "course.isolate.fork_server"
MOST_BYTES = 2**20
"""What a request may take: it is one message."""


class Forked:
    """A process as subprocess.Popen has it, for one that is not a child of this process. Its exit
    code is not known, so it counts as 0."""

    stdin = stdout = stderr = returncode = None

    def __init__(self, pid):
        self.pid, self._ended = pid, os.pidfd_open(pid)

    def poll(self):
        if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
            os.close(self._ended)
            self.returncode = 0
        return self.returncode

    def wait(self, timeout=None):
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a fork", timeout)
            time.sleep(0.02)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def forked(folder, command, env, cwd=None, descriptors=()):
    """Run `command`, as `python -m module arguments`, in a fork of the process in this folder.

    descriptors: (what the module's first argument is the number of, its stderr), or nothing.
    """
    interpreting = "off" if env.get("COURSE_CHILD") == "compile" else "on"
    module, *arguments = command[command.index("-m") + 1 :]
    request = json.dumps([module, arguments, dict(env), cwd or os.getcwd()]).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as to_server:
        to_server.connect(f"{folder}/{interpreting}")
        socket.send_fds(to_server, [request], descriptors)
        return Forked(int(to_server.recv(64)))


class WarmProcesses:
    """The two processes, each started when it is first needed."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="warm-")
        self._servers = []

    def launch_kernel(self, command, *, env, cwd=None, **_):
        """As jupyter_client.launcher.launch_kernel."""
        if not self._servers:
            self._servers = [self._start(each) for each in ("on", "off")]
        return forked(self._folder.name, command, env, cwd)

    def _start(self, interpreting):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(f"{self._folder.name}/{interpreting}")
        listener.listen()
        with listener:
            return subprocess.Popen(
                [sys.executable, "-P", __file__, str(listener.fileno()), self._folder.name],
                env=os.environ | {
                    "TRITON_INTERPRET": "1" if interpreting == "on" else "0",
                    "OMP_NUM_THREADS": "1",  # as a worker has it
                },
                stdin=subprocess.PIPE,  # which ends with this process
                pass_fds=[listener.fileno()],
            )  # fmt: skip


def serve(listener, folder):
    """Fork for each request; when stdin ends, so do all the forks."""
    forks = []
    while 0 not in select.select([listener, 0], [], [])[0]:
        asked, _ = listener.accept()
        request, descriptors, *_ = socket.recv_fds(asked, MOST_BYTES, 2)
        if (pid := os.fork()) == 0:
            listener.close()
            asked.close()
            return run(folder, *json.loads(request), descriptors)
        os.setpgid(pid, pid)  # Jupyter ends the whole group that it then asks for
        forks.append(pid)
        asked.send(str(pid).encode())
        asked.close()
        for descriptor in descriptors:
            os.close(descriptor)
    for pid in forks:  # none was waited for, so each number is still that fork's
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os._exit(0)


def run(folder, module, arguments, env, cwd, descriptors):
    """In a fork: run a module as a command of its own would."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    if descriptors:
        os.dup2(descriptors[1], 2)
        arguments = [str(descriptors[0]), *arguments[1:]]
    subprocess.Popen = popen_of(folder)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def popen_of(folder):
    """subprocess.Popen, but for workers of the course, which are forks as well."""

    class Popen(subprocess.Popen):
        def __new__(cls, command, *args, **options):
            if FORK_SERVER not in command or options["env"].get("COURSE_CHILD") == "launch":
                return super().__new__(cls)
            descriptors = [*options["pass_fds"], options["stderr"].fileno()]
            return forked(folder, command, options["env"], descriptors=descriptors)

    return Popen


if __name__ == "__main__":
    for each in IMPORTED:
        importlib.import_module(each)
    gc.freeze()  # no fork's collector looks through what was imported
    listening = socket.socket(fileno=int(sys.argv[1]))
    serve(listening, sys.argv[2])
