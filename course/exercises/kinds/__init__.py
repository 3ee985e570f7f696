"""The kinds of exercise. An exercise is data: what a right answer does, and what wrong ones share.

| kind | an answer is | judged by |
|---|---|---|
| `KernelExercise`, `LauncherExercise` | code that is launched | `judges/code.py` |
| `GluonExercise` | code that `simulate` follows | `judges/code.py`, `judges/simulated.py` |
| `DiagnosisExercise` | a letter and code | `judges/diagnosis.py` |
| `RegistrationExercise` | code that registers an operator | `judges/registration.py` |
| `ExportExercise` (in `export.py`) | what `aot.export` is told | itself |
| `NumberExercise`, `ChoiceExercise`, `TextExercise`, `NamesExercise` | a value | itself |

Its statement, stub and hints are in the lesson (`course.lessons.statements` reads them there).
"""

from .diagnosis import DiagnosisExercise, cause
from .kernels import (
    CodeExercise,
    GluonExercise,
    KernelExercise,
    LauncherExercise,
    RegistrationExercise,
    TensorFunction,
)
from .values import ChoiceExercise, NamesExercise, NumberExercise, Question, TextExercise

__all__ = [
    "ChoiceExercise", "CodeExercise", "DiagnosisExercise", "GluonExercise", "KernelExercise",
    "LauncherExercise", "NamesExercise", "NumberExercise", "Question", "RegistrationExercise",
    "TensorFunction", "TextExercise", "cause",
]  # fmt: skip
