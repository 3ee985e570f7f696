"""NVIDIA's assembler writes half a file to a full disk without a word: nobody takes that half."""

import pytest

from course import aot, lower
from course.elf import is_whole
from course.errors import CourseError
from course.lowering.api import LowerError
from course.lowering.sass import disassembled
from tests.support import aot_kernels, lower_kernels
from tests.support.disk import room_for
from tests.support.lower_kernels import ADD

NO_ROOM = (
    r"The compiler could not write its files in .*: No space left on device; "
    r"make room on the disk and try again\."
)


@pytest.fixture
def assembler(add, tmp_path):
    """One that ends well and leaves 4,096 bytes of what it is to write."""
    script = tmp_path / "ptxas-half"
    lines = (
        "#!/bin/sh",
        f'"{add.assembler.command[0]}" "$@" || exit',
        "for last; do :; done",
        '[ ! -f "$last" ] || truncate -s 4096 "$last"',
    )
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o700)
    return str(script)


@pytest.fixture
def half(assembler, monkeypatch):
    """Triton uses it."""
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        monkeypatch.setenv(name, assembler)


def test_lower_says_that_there_is_no_room(half):
    with pytest.raises(LowerError, match=NO_ROOM):
        lower(lower_kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="sm_90")


def test_so_does_lower_of_an_edited_stage(add, half):
    with pytest.raises(LowerError, match=NO_ROOM):
        add.replace(ttgir=add.ttgir)


def test_an_export_writes_nothing(half, tmp_path):
    signature, out = "*fp32, *fp32, *fp32, i32, 64", tmp_path / "out" / "add"
    with pytest.raises(CourseError, match=NO_ROOM):
        aot.export(aot_kernels.add_kernel, signature, "cdiv(n, 64)", "add", out)
    assert not (tmp_path / "out").exists()


def test_sass_is_not_read_from_half_a_file(add, assembler):
    no_room = r"^The temporary folder .+ could not be used \(No space left on device\): make room"
    with pytest.raises(CourseError, match=no_room):
        disassembled(add.cubin, add.ptx, [assembler, *add.assembler.command[1:]], add.target)


def test_a_file_cut_off_anywhere_is_not_whole(add):
    assert is_whole(add.cubin)
    assert [size for size in range(0, len(add.cubin), 97) if is_whole(add.cubin[:size])] == []
    assert not is_whole(b"text")


def test_stages_are_dumped_all_or_none(add, tmp_path):
    add.sass  # noqa: B018  which needs room of its own
    no_room = r"could not be written .+: nothing was changed; make room on the disk"
    with room_for(5000), pytest.raises(CourseError, match=no_room):
        add.dump(tmp_path / "stages")
    assert not (tmp_path / "stages").exists()
