"""What errors of the compiler and of the interpreter mean, and what to write instead."""

import re
import tomllib
from functools import cache
from pathlib import Path
from string import Formatter

from .kernel_place import Place, chain_of


def meaning(error: BaseException) -> str:
    """What an error means, in a clause without a full stop; empty where its own words say it.

    Goes by meanings.toml: the first whose pattern is found, and whose every brace can be filled.
    """
    last, place = chain_of(error)[-1], Place.of(error)
    words = f"{type(last).__name__}: {getattr(last, 'message', None) or last}"
    words = re.sub(r"'?constexpr\[(\w+)\]'?", r"\1", words)
    for each in _meanings():
        if each.get("at", "kernel") not in ("both", "kernel" if place.in_kernel else "launch"):
            continue
        match = re.search(each["words"], words, re.DOTALL)
        if match and (text := _filled(each["says"], place, match)):
            return text
    return ""


@cache
def _meanings() -> list[dict[str, str]]:
    meanings: list[dict[str, str]] = tomllib.loads(
        Path(__file__).with_name("meanings.toml").read_text()
    )["meaning"]
    return meanings


def _filled(says: str, place: Place, match: "re.Match[str]") -> str:
    """A clause with its braces filled; empty where one of them cannot be."""
    names = {name for _, name, *_ in Formatter().parse(says) if name}
    groups = {f"w{number}": text for number, text in enumerate(match.groups(), start=1)}
    texts = {name: groups.get(name) or getattr(place, name) for name in names}
    return says.format(**texts) if all(texts.values()) else ""
