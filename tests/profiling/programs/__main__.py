"""Fetch the packages into build/programs/ and profile each program, or those that are named."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.processes import ROOT

FOLDER = ROOT / "build" / "programs"
PACKAGES = (
    "adasplash==0.2.2",
    "conch-triton-kernels==1.3",
    "crossentropy-triton==0.1.2",
    "cut-cross-entropy==25.1.1",
    "einops==0.8.1",
    "fla-core==0.6.0",
    "flash-kmeans==0.3.1",
    "liger-kernel==0.8.5",
    "lightning-attn==0.0.5",
    "mlstm-kernels==2.0.6",
    "sageattention==1.0.6",
)


def main(names: list[str]) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary=:all:"]
    for package in PACKAGES:
        folder = FOLDER / package
        if not folder.is_dir():
            subprocess.run([*pip, "--target", str(folder), package], check=True)
    here = Path(__file__).parent
    found = sorted(path for path in here.glob("*.py") if not path.stem.startswith("__"))
    path = os.pathsep.join([str(ROOT), *(str(FOLDER / package) for package in PACKAGES)])
    for program in [each for each in found if not names or each.stem in names]:
        print(f"\n{program.stem}", flush=True)
        command = [sys.executable, "-m", "course", "profile", str(program)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False)


if __name__ == "__main__":
    main(sys.argv[1:])
