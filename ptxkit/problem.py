"""What an assembler would refuse, before it is a finding: the kind says which rule reports it."""

from __future__ import annotations

from ptxkit.frozen import frozen
from ptxkit.syntax import Path


@frozen
class Problem:
    """Something wrong at a node. `kind` is a rule's name; `related` are other nodes with what they have to do with it."""

    kind: str
    path: Path
    message: str
    notes: tuple[str, ...] = ()
    related: tuple[tuple[Path, str], ...] = ()
    doubtful: bool = False
    """Whether it may be right in a PTX version that is newer than the table: then it is a warning."""
