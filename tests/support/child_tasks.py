"""Functions for a child to run, each of which ends it in its own way."""

import ctypes
import importlib
import os
import signal
import stat
import subprocess
import sys
import time

import msgspec


def give_back(value):
    return value


def say(text):
    print(text)
    print(text, file=sys.stderr)


def environment(name):
    return os.environ.get(name)


def segfault():
    ctypes.string_at(0)


def abort():
    os.abort()


def killed_from_outside():
    subprocess.run(["kill", "-9", str(os.getpid())], check=True)
    time.sleep(60)


def leave(code):
    sys.exit(code)


def leave_at_once(code):
    os._exit(code)


def fail():
    raise RuntimeError("on purpose")


def hang():
    while True:
        pass


def hang_with_a_child(path):
    child = subprocess.Popen(["sleep", "600"])
    with open(path, "w") as file:
        file.write(f"{child.pid} {os.getpid()} {os.getppid()}")
    hang()


def hang_in_another_session(path):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open(path, "w") as file:
        file.write(str(child.pid))
    hang()


def compute_in_a_child():
    subprocess.run([sys.executable, "-c", "while True: pass"], check=True)


def sleep(seconds):
    time.sleep(seconds)
    return "slept"


def sleep_again_and_again():
    while True:
        time.sleep(0.1)


def take_memory_in_a_fork(size):
    pid = os.fork()
    if pid == 0:
        hold_memory(size)
    os.waitpid(pid, 0)


def take_memory_and_fork(size, forks):
    """What is taken is shared by all: it is not taken again."""
    taken = bytearray(b"x") * size
    pids = [os.fork() for _ in range(forks)]
    if 0 in pids:
        time.sleep(60)
    time.sleep(0.5)  # the worker looks
    return len(taken)


def take_memory(size):
    return len(_chunks(size))


def hold_memory(size):
    """Until it is stopped: the worker may look late on a busy machine."""
    chunks = _chunks(size)
    time.sleep(60)
    return len(chunks)


def _chunks(size):
    return [bytearray(os.urandom(1)) * 2**27 for _ in range(0, size, 2**27)]


def print_without_end():
    while True:
        print("x" * 1000)


def kill_the_worker():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def stop_the_worker():
    os.kill(os.getppid(), signal.SIGSTOP)
    return "went on"


def write_where_it_can(text, kind):
    """To every open socket, or every open pipe, but stdout and stderr; gives how many took it."""
    taken = 0
    for fd in range(3, 100):
        try:
            if kind(os.fstat(fd).st_mode):
                taken += bool(os.write(fd, text.encode()))
        except OSError:
            continue
    return taken


def forge_an_answer():
    return write_where_it_can('{"how": "finished", "code": 0}\n', stat.S_ISSOCK)


def forge_a_value():
    return write_where_it_can('"forged"', stat.S_ISFIFO)


def break_what_packs():
    msgspec.msgpack.encode = lambda *_: b"no msgpack"


def return_from_a_fork_too():
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    return "the fork's" if pid == 0 else "the task's"


def give_many(size):
    return "x" * size


def threads():
    import torch

    return torch.get_num_threads()


def give_what_cannot_be_packed():
    return object()


def pid_of_worker():
    return os.getppid()


def double_on_the_gpu(number):
    import torch

    return int((torch.tensor(number, device="cuda") * 2).item())


def kind():
    import course

    return [course.MODE.name, course.MODE.interpreting, os.environ.get("TRITON_INTERPRET", "0")]


def modules():
    """The names of the modules that are imported."""
    return sorted(sys.modules)


def verifies_without_dynamo():
    """Verify before and after torch._dynamo is loaded; whether the first loaded it, and whether the
    second keeps torch.compile away from what the mode does."""
    import torch

    from course.verifying.api import verify
    from course.verifying.guarded_memory import GuardedAllocations
    from course.verifying.inputs import vectors

    right = [verify(torch.add, torch.add, vectors(2)[:1]).right]
    loaded = "torch._dynamo" in sys.modules
    import torch._dynamo

    right.append(verify(torch.add, torch.add, vectors(2)[:1]).right)
    dispatch = GuardedAllocations.__torch_dispatch__.__wrapped__
    return [*right, loaded, hasattr(dispatch.__dynamo_disable, "_torchdynamo_disable")]


def compiles_without_hashing():
    """Compile a kernel in a cache of its own; how often Triton's own files were hashed."""
    from triton.runtime import cache

    from course.lowering.arguments import Request
    from course.lowering.kernel_reference import reference_of
    from course.lowering.worker import compile_kernel
    from tests.diagnosing.kernels_sectors import copy_row_kernel

    hashes = []
    cache.triton_key = lambda: hashes.append(1) or ""
    described = "*fp32", "*fp32", "i32", 1024
    compile_kernel.here(Request.of(reference_of(copy_row_kernel, "test"), described, {}), "sm_90")
    return len(hashes)


def value_in(module):
    return importlib.import_module(module).VALUE


def was_imported(module):
    """Whether the module was there before this task; now it is."""
    there = module in sys.modules
    importlib.import_module(module)
    return there
