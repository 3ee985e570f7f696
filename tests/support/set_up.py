"""What the tests of set-up share: programs that stand for others, and the sentence of a stop."""

from pathlib import Path

import pytest


def program(folder: Path, name: str, text: str) -> Path:
    """Write an executable file, and the folders on the way to it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder / name


def stops_with(stop: type[BaseException], function, *arguments) -> str:
    """The one sentence with which a part of the set-up stops."""
    with pytest.raises(stop) as stopped:
        function(*arguments)
    sentence = str(stopped.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence
