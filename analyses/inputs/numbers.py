"""Numbers of one structure, which the host keeps consistent and synthesized ones need not be."""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.parameters import belong_together
from ptxkit.analyses.inputs.shapes import declares_block
from ptxkit.analyses.launch.launch import launch

OF_HOST = frozenset((".global", ".param"))
"""State spaces that the host lays out, by numbers that it passes along."""


def are_inconsistent(routine: Routine) -> bool:
    """Whether the numbers of a launch may contradict each other. Nothing that it shows about memory that the host lays out counts."""
    return launch(routine).threads is None and belong_together(routine)


def excuse_all(routine: Routine, block: tuple[int, int, int]) -> bool:
    """Whether nothing counts that a launch with this block shows: its numbers may contradict each other, and no other block could tell
    what they cause."""
    return are_inconsistent(routine) and declares_block(routine, block)


__all__ = ["OF_HOST", "are_inconsistent", "excuse_all"]
