"""What a protocol's analysis finds wrong."""

from __future__ import annotations

from ptxkit.frozen import frozen

MOST_LINES = 20
"""So many lines are named of what is told of but once."""


@frozen
class Found:
    """Something wrong at an instruction, and what shows it."""

    instruction: int
    message: str
    witness: list[tuple[int, str]]
    """Other instructions with what they have to do with it."""
    is_certain: bool = True
    notes: tuple[str, ...] = ()
    others: tuple[int, ...] = ()
    """More places where the same begins."""
