"""`course workshop codes --print`: a page of slips to cut, one per seat."""

from html import escape
from pathlib import Path

from course.files import write_whole

from . import engine, tools
from .codes import codes
from .settings import LEADER, Settings

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 1cm; }
main { display: grid; grid-template-columns: 1fr 1fr; }
section { border: 1px dashed #888; padding: .6cm; break-inside: avoid; display: flex; gap: .6cm; }
b { font: 1.3em ui-monospace, monospace; } p { margin: .1em 0; } svg { width: 3cm; flex: none; }
"""


def write(settings: Settings, file: Path) -> None:
    """Write the page, which only its owner can read. Raises CourseError."""
    url = settings.public_url
    drawn = picture(url)
    slips = [
        f"<section>{drawn}<div><p>Open <b>{escape(url)}</b></p><p>Seat <b>{name}</b></p>"
        f"<p>Code <b>{code}</b></p><p>Log in with both. The seat is yours all day.</p>"
        "</div></section>"
        for name, code in codes(settings).items()
        if name != LEADER
    ]
    page = f"<style>{STYLE}</style><title>Seats</title><main>{''.join(slips)}</main>"
    write_whole(file, f'<!doctype html>\n<html lang="en"><meta charset="utf-8">{page}</html>\n')
    file.chmod(0o600)


def picture(text: str) -> str:
    """A QR code, as SVG. Raises CourseError."""
    code = "import segno, sys; print(segno.make(sys.argv[1], error='m').svg_inline(scale=4))"
    if not tools.ready():
        tools.make()
    return engine.run(str(tools.PYTHON), "-c", code, text)
