"""What an analysis finds wrong, without the id of the rule that reports it."""

from __future__ import annotations

from collections.abc import Sequence

from ptxkit.frozen import frozen


@frozen
class Finding:
    """An error at an instruction, and the evidence for it."""

    instruction: int
    message: str
    steps: Sequence[tuple[int, str]] = ()
    """The instructions that lead to it, and what each of them does."""
    is_certain: bool = True
    """Whether the behavior is undefined for certain, rather than doubtful."""
    notes: tuple[str, ...] = ()
    others: tuple[int, ...] = ()
    """Other instructions with the same problem."""
    kind: str = ""
    """A member of an enumeration of the protocol, if it distinguishes several kinds. The rule of that kind reports it."""
    child: int | None = None
    """Index of the child of the instruction that it is about; None for the whole instruction."""
    is_note: bool = False
    """Whether the code may well be right: it only deviates from the rest of the function, or needs numbers that only the caller knows to
    be possible."""
