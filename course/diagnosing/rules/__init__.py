"""The rules: one file for each family of causes. A rule takes evidence and yields findings."""

from collections.abc import Callable, Iterator

from ..evidence import Evidence
from ..result import Finding
from . import sectors

Rule = Callable[[Evidence], Iterator[Finding]]

RANKED: tuple[Rule, ...] = (sectors.wasted,)
"""Causes with exact counts, which findings are ranked by what mending them is estimated to gain."""

Fact = Callable[[Evidence], Iterator[str]]

FACTS: tuple[Fact, ...] = ()
"""What is worth knowing of a launch and claims no gain: sentences."""
