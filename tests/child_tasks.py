"""Functions for a child to run, each of which ends it in its own way."""

import ctypes
import os
import signal
import subprocess
import sys
import time


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


def take_memory(size):
    taken = []
    for _ in range(0, size, 2**27):
        taken.append(bytearray(os.urandom(1)) * 2**27)
    return len(taken)


def print_without_end():
    while True:
        print("x" * 1000)


def kill_the_worker():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def give_what_json_cannot_say():
    return object()


def pid_of_worker():
    return os.getppid()


def double_on_the_gpu(number):
    import torch

    return int((torch.tensor(number, device="cuda") * 2).item())


def kind():
    import course

    return [course.MODE.name, course.MODE.interpreting, os.environ.get("TRITON_INTERPRET", "0")]
