"""What ptxas says of the bad example of each rule, as `benchmarks/reactions.py` has measured it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from ptxkit.frozen import frozen

FILE = Path(__file__).parent.parent / "rules" / "ptxas.tsv"
WORDS = {
    "refuses": "refuses the bad example: {}",
    "warns": "takes the bad example, and warns: {}",
    "notes": "takes the bad example, and notes: {}",
    "silent": "takes the bad example without a word",
}


@frozen
class Reaction:
    """What an assembler does about a module."""

    verdict: str
    """A key of `WORDS`."""
    message: str

    def __str__(self) -> str:
        return WORDS[self.verdict].format(self.message)


@functools.cache
def reactions() -> Mapping[str, Reaction]:
    """By the id of the rule."""
    return {rule: Reaction(verdict, message) for rule, verdict, message in _rows()[1:]}


@functools.cache
def release() -> str:
    """The ptxas that was asked."""
    return _rows()[0][1]


def _rows() -> list[list[str]]:
    return [line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines()]


def written(version: str, found: Mapping[str, Reaction]) -> str:
    """The content of the file."""
    lines = [f"{rule}\t{reaction.verdict}\t{reaction.message}" for rule, reaction in sorted(found.items())]
    return "\n".join([f"ptxas\t{version}\t", *lines, ""])
