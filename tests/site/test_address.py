"""The address is one setting, and the README, the buttons and the build follow it."""

import pytest

from docs.site import ROOT, address
from docs.site.address import BLOCK, Address, of_repository

PROJECT = '[project]\nname = "x"\n\n[project.urls]\n# a note\n'
README = "git clone <this repository>\n<!-- address -->\nold\n<!-- /address -->\nmore\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.delenv("SITE_REPOSITORY", raising=False)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "README.md").write_text(README)
    return tmp_path


def test_the_command_writes_it_into_both_files_and_again(root):
    for name in ("first", "second"):
        assert address.main([f"https://github.com/Someone/{name}"], root) == 0
        assert address.address(root) == Address(
            f"https://github.com/Someone/{name}", f"https://someone.github.io/{name}"
        )
        readme = (root / "README.md").read_text()
        assert f"(https://someone.github.io/{name})" in readme and "old" not in readme
        assert (
            readme.endswith("more\n") and "git clone https://github.com/Someone/first\n" in readme
        )
    assert "# a note" in (root / "pyproject.toml").read_text()


@pytest.mark.parametrize("words", [[], ["github.com/a/b"], ["https://github.com/a"]])
def test_what_is_no_address_is_refused_with_the_command_and_nothing_is_written(root, capsys, words):
    assert address.main(words, root) == 2
    assert "make address REPOSITORY=https://github.com/OWNER/NAME" in capsys.readouterr().err
    assert (root / "README.md").read_text() == README


def test_without_one_there_are_no_places_and_the_build_names_what_is_missing(root):
    assert not address.address(root)
    assert "Colab" in address.UNKNOWN and "make address" in address.UNKNOWN


def test_an_empty_variable_takes_it_away_and_another_one_replaces_it(root, monkeypatch):
    address.main(["https://github.com/a/b"], root)
    monkeypatch.setenv("SITE_REPOSITORY", "")
    assert not address.address(root)
    monkeypatch.setenv("SITE_REPOSITORY", "https://github.com/c/d.git")
    assert address.address(root).repository == "https://github.com/c/d"


def test_a_user_s_own_pages_have_no_folder():
    assert of_repository("https://github.com/Ab/ab.github.io").site == "https://ab.github.io"


def test_the_readme_says_what_the_setting_says(monkeypatch):
    monkeypatch.delenv("SITE_REPOSITORY", raising=False)
    (block,) = BLOCK.findall((ROOT / "README.md").read_text())
    assert block == address.address().readme()
