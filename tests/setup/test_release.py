"""What a release says is the section of its version, and there is none for one in development."""

import pytest

from tools.release_notes import notes

CHANGES = (
    "# Changes\n\n## Unreleased\n\n- new\n\n## 1.0.1 (a day)\n\n- second\n\n## 1.0.10\n\n- x\n"
)


@pytest.fixture
def released(tmp_path):
    def released(version):
        (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
        (tmp_path / "CHANGELOG.md").write_text(CHANGES)
        return notes(tmp_path)

    return released


def test_the_notes_are_the_section_of_the_version(released):
    assert released("1.0.1") == "- second"
    assert released("1.0.10") == "- x"


@pytest.mark.parametrize(
    ("version", "says"),
    [("1.0.2.dev0", "1.0.2.dev0 is in development"), ("2.0", "has no section 2.0")],
)
def test_what_is_not_to_be_released_is_a_sentence(released, version, says):
    with pytest.raises(ValueError, match=says):
        released(version)
