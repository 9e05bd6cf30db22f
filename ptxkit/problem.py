"""A problem that an assembler would reject, before it becomes a finding: the kind determines the rule that reports it."""

from __future__ import annotations

from ptxkit.frozen import frozen
from ptxkit.syntax import Node, Path


@frozen
class Problem:
    """A problem at a node. `kind` is a rule's name; `related` are other nodes, each with its role."""

    kind: str
    path: Path
    message: str
    notes: tuple[str, ...] = ()
    related: tuple[tuple[Path, str], ...] = ()
    doubtful: bool = False
    """Whether it may be valid in a PTX version newer than the table: then it is a warning."""


def short_text(node: Node) -> str:
    """The text of a node on one line, of at most 40 characters."""
    text = " ".join(node.text.split())
    return text if len(text) <= 40 else text[:39] + "…"
