"""How a seat's sessions begin."""

from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.InteractiveShellApp.exec_files = [str(Path(__file__).with_name("memory_notice.py"))]
