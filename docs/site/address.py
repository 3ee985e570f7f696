"""Where the repository and the site are: one setting, `[project.urls]` of pyproject.toml.

`make address REPOSITORY=https://github.com/OWNER/NAME` writes it there, and what follows from it
into the README.
"""

import os
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from . import ROOT

BLOCK = re.compile(r"(?<=<!-- address -->\n).*?(?=<!-- /address -->)", re.DOTALL)
"""What the README says that depends on the address."""
GITHUB = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+")
BRANCH = "colab"
"""The branch with the notebooks that set themselves up: Colab and Kaggle open files of a repository
alone."""
UNKNOWN = (
    "The repository's address is not set, so the pages have no buttons for Colab, Kaggle and"
    " Codespaces, no link to edit them, no cards and no sitemap, and their notebooks look for the"
    " course's wheel beside themselves: `make address REPOSITORY=https://github.com/OWNER/NAME`."
)


@dataclass(frozen=True)
class Address:
    """The addresses of the repository and of the site, without a slash at the end; empty where
    nobody has said them."""

    repository: str = ""
    site: str = ""

    def __bool__(self) -> bool:
        return bool(self.repository)

    @property
    def _name(self) -> str:
        """OWNER/NAME."""
        return "/".join(self.repository.split("/")[-2:])

    def edit(self, file: str) -> str:
        """The page on which a file of the repository is edited."""
        return f"{self.repository}/edit/main/{file}"

    def places(self, stem: str = "00-your-first-kernel") -> dict[str, str]:
        """Where a lesson opens with one click: the name of the place -> the link."""
        notebook = f"{self._name}/blob/{BRANCH}/{stem}.ipynb"
        return {
            "Colab": f"https://colab.research.google.com/github/{notebook}",
            "Kaggle": f"https://kaggle.com/kernels/welcome?src=https://github.com/{notebook}",
            "Codespaces": f"https://codespaces.new/{self._name}?quickstart=1",
        }

    def readme(self) -> str:
        """What the README says of the address."""
        if not self:
            return "`make site` builds this course as a web site, to read and to look around in.\n"
        places = " · ".join(f"[{name}]({link})" for name, link in self.places().items())
        ci = f"{self.repository}/actions/workflows/ci.yml"
        return (
            f"**[Read it, and run the first kernels in your browser]({self.site})** · open"
            f" notebook 00 in {places} · [![CI]({ci}/badge.svg)]({ci})\n"
        )


def address(root: Path = ROOT) -> Address:
    """The address that SITE_REPOSITORY names (empty: none), or else the setting in the project."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    urls = project.get("urls", {})
    repository = os.environ.get("SITE_REPOSITORY", urls.get("Repository", ""))
    return of_repository(repository, urls.get("Homepage", ""))


def of_repository(repository: str, site: str = "") -> Address:
    """The address of a repository, whose site is on GitHub Pages unless another one is named."""
    repository = repository.rstrip("/").removesuffix(".git")
    if not repository:
        return Address()
    owner, name = repository.split("/")[-2:]
    pages = f"https://{owner.lower()}.github.io"
    own = pages if name.lower() == f"{owner.lower()}.github.io" else f"{pages}/{name}"
    return Address(repository, (site or own).rstrip("/"))


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write an address into pyproject.toml and the README; return the exit code."""
    if len(arguments) != 1 or not GITHUB.fullmatch(arguments[0]):
        print("Say where: make address REPOSITORY=https://github.com/OWNER/NAME", file=sys.stderr)
        return 2
    found = of_repository(arguments[0])
    project, readme = root / "pyproject.toml", root / "README.md"
    urls = f'Repository = "{found.repository}"\nHomepage = "{found.site}"\n'
    text = re.sub(r"^(Repository|Homepage) = .*\n", "", project.read_text(), flags=re.MULTILINE)
    project.write_text(re.sub(r"(?<=^\[project\.urls\]\n)", urls, text, flags=re.MULTILINE))
    text = readme.read_text().replace("<this repository>", found.repository)
    readme.write_text(BLOCK.sub(lambda _: found.readme(), text))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
