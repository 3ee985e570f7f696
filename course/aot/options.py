"""What the compiler is told besides a signature: warps, stages, registers, a target."""

import re
from dataclasses import asdict, dataclass

from course.errors import CourseError
from course.gpus.limits import Target, target_of

LEAST_REGISTERS, MOST_REGISTERS = 24, 255
"""The limits per thread that NVIDIA's assembler takes."""


@dataclass(frozen=True)
class Variant:
    """One signature of a kernel, with the options its code depends on; None takes the export's."""

    signature: str
    num_warps: int | None = None
    num_stages: int | None = None
    maxnreg: int | None = None
    enable_fp_fusion: bool | None = None


@dataclass(frozen=True)
class Options:
    """What the compiler is told besides the signature. Prints in words."""

    num_warps: int
    num_stages: int
    maxnreg: int | None = None
    """The most registers per thread; None leaves that to the compiler."""
    enable_fp_fusion: bool | None = None
    """Whether a product and a sum may become one instruction, rounded once; None leaves it to
    Triton."""

    def overridden(self, variant: Variant) -> "Options":
        """With the options that a variant names. Raises CourseError if one cannot be."""
        own = {name: value for name, value in asdict(variant).items() if value is not None}
        del own["signature"]
        return Options(**{**asdict(self), **own}).checked()

    def checked(self) -> "Options":
        """These options. Raises CourseError if the compiler cannot be told one of them."""
        warps, stages, most = self.num_warps, self.num_stages, self.maxnreg
        if type(warps) is not int or warps not in (1, 2, 4, 8, 16, 32):
            raise CourseError(f"num_warps is {warps}: it must be 1, 2, 4, 8, 16 or 32.")
        if type(stages) is not int or not 0 <= stages <= 100:
            raise CourseError(f"num_stages is {stages}: it must be a whole number, usually 1 to 5.")
        if most is not None and not (
            type(most) is int and LEAST_REGISTERS <= most <= MOST_REGISTERS
        ):
            raise CourseError(
                f"maxnreg is {most!r:.60}: it must be a whole number of registers per thread, "
                f"{LEAST_REGISTERS} to {MOST_REGISTERS}."
            )
        if not isinstance(self.enable_fp_fusion, bool | None):
            fusion = f"{self.enable_fp_fusion!r:.60}"
            raise CourseError(f"enable_fp_fusion is {fusion}: it must be True or False.")
        return self

    @property
    def told(self) -> dict[str, int | bool]:
        """Name -> value, for the options that are not left to Triton."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def words(self) -> str:
        """As "warps4xstages3", the words of Triton's own tool, then the options it lacks."""
        first = f"warps{self.num_warps}xstages{self.num_stages}"
        return first + "".join(f"x{name}{value}" for name, value in list(self.told.items())[2:])

    def __str__(self) -> str:
        words = [counted(self.num_warps, "warp"), counted(self.num_stages, "stage")]
        if self.maxnreg is not None:
            words.append(f"at most {counted(self.maxnreg, 'register')} per thread")
        if self.enable_fp_fusion is not None:
            words.append(f"{'with' if self.enable_fp_fusion else 'without'} FP fusion")
        return ", ".join(words)


def nvidia_target(text: str | None) -> Target:
    """The target of a name, as "sm_90", or "cuda:90:32" as Triton's own tool has it; by default
    this machine's GPU, or sm_90.

    Raises CourseError for what is no target of NVIDIA's.
    """
    if text is not None and not isinstance(text, str):
        raise CourseError(f'The target is {text!r:.60}, and must be a text, as "sm_90".')
    if match := re.fullmatch(r"cuda:(\d+)(?::(\d+))?", text or ""):
        if match[2] not in (None, "32"):
            raise CourseError(
                f"{text} has warps of {match[2]} threads, and NVIDIA's have 32: "
                f"write cuda:{match[1]}:32."
            )
        text = f"sm_{match[1]}"
    if (text or "").startswith(("hip", "gfx")) or not (target := target_of(text)).nvidia:
        raise CourseError(
            f"{text} is an AMD target, and export writes C for NVIDIA's driver: take sm_90, say."
        )
    return target


def counted(number: int, what: str) -> str:
    """A number of things, as "1 part" or "2 parts"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
