"""What an analysis finds wrong: a fact without the id of a rule, which reports it."""

from __future__ import annotations

from collections.abc import Sequence

from ptxkit.frozen import frozen


@frozen
class Finding:
    """Something that goes wrong at an instruction, and what shows it."""

    instruction: int
    message: str
    steps: Sequence[tuple[int, str]] = ()
    """The instructions that lead to it, with what each does."""
    is_certain: bool = True
    """Whether it is undefined behaviour, and not only doubtful."""
    notes: tuple[str, ...] = ()
    others: tuple[int, ...] = ()
    """Further instructions where the same begins."""
    kind: str = ""
    """A member of an enumeration of the protocol, where it finds several kinds; the rule of that kind reports it."""
    child: int | None = None
    """Which child of the instruction it is about; None for the whole."""
    is_note: bool = False
    """Whether it may well be right: it is only unlike all else that the function does, or needs numbers of which only who launches the
    kernel knows whether they ever go together."""
