"""Runs the programs of `sanitized.py` on a GPU under Triton's sanitizers; keeps what they say."""

from pathlib import Path

from course.benching.api import require_gpu
from course.benching.profiles import Reports
from course.gpus.recorded import this_machine

from .gpu_reports import Case, report

SCRIPT = Path(__file__).with_name("sanitized.py")


def _mode(name: str) -> dict[str, str]:
    return {"TRITON_INSTRUMENTATION_MODE": name}


CASES = {
    "early": Case("early", script=SCRIPT),
    "early, consan": Case("early", _mode("consan"), script=SCRIPT),
    "shared": Case("shared", script=SCRIPT),
    "shared, gsan": Case("shared", module=("-m", "triton.tools.gsan"), script=SCRIPT),
    "turned": Case("turned", script=SCRIPT),
    "turned, iisan": Case("turned", _mode("iisan"), script=SCRIPT),
    "added": Case("added", script=SCRIPT),
    "added, fpsan": Case("added", _mode("fpsan"), script=SCRIPT),
}


def measure() -> Reports:
    """Run every program, without its sanitizer and with it. Raises CourseError in CPU mode."""
    require_gpu()
    return Reports(machine=this_machine(), reports={name: report(x) for name, x in CASES.items()})
