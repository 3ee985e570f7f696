"""Commands as a reader types them, and a C++ program that is built and run on the fake driver."""

import os
import subprocess
import sys
from pathlib import Path

from course.aot import fake_driver
from course.aot.c_compiler import include_folder

from .processes import python_path


def shell(script, folder, fails=False):
    """What a shell's commands print in a folder, with this Python and its packages.

    fails: whether they must fail; then it is what they say on stderr.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "PYTHONPATH": python_path()}
    environ.pop("TRITON_INTERPRET", None)  # CPU mode's, which a shell of a reader's does not have
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environ, capture_output=True, text=True
    )
    assert bool(done.returncode) is fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def launch_from_cpp(folder):
    """The one launch of main.cpp there, built with the C under aot/ and run on the fake driver."""
    library = fake_driver.path()
    include = f"-isystem {include_folder()}"
    libraries = f"-l:libcuda.so.1 -L{library.parent}"
    shell(
        f"""
        gcc -O2 -c {include} aot/*.c aot/fp16/*.c
        g++ -Wall -Werror {include} -Iaot main.cpp *.o -o main {libraries}
        LD_LIBRARY_PATH={library.parent} {fake_driver.LOG}=calls ./main
        """,
        folder,
    )
    calls = fake_driver.calls_in(folder / "calls")
    (launch,) = [call for call in calls if call.name == "cuLaunchKernel"]
    return launch
