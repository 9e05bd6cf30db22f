"""Uniformity: which threads agree on a value, go the same way at a branch, and come to a point together.

    known = uniformity(routine)
    known.level(number)         how far threads agree on a value of `ssa(routine)`
    known.branch(block)         on the way that they take at the end of a block
    known.guard(i)              on the guard of an instruction, whatever it is
    known.point(i)              on executing instruction i, each time
    known.threads(i)            which threads of a CTA execute it, the first time
    known.blame(block)          why they part at the end of a block

All answers are of three kinds: proved for a `Level`, refuted with two threads (`Verdict.refuted`), or neither.
"""

from __future__ import annotations

from ptxkit.analyses.cfg import control_flow
from ptxkit.analyses.levels import Divergence, Level, Step, ThreadSet, Verdict
from ptxkit.analyses.routine import Routine, fact
from ptxkit.analyses.values import values

__all__ = ["Divergence", "Level", "Step", "ThreadSet", "Uniformity", "Verdict", "uniformity", "uniformity_of_module"]


class Uniformity:
    """What is known of a function. Numbers of values are those of `ssa(routine)`, instructions and blocks those of `control_flow`."""

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self._flow = control_flow(routine)
        self._values = values(routine)

    @property
    def assumption(self) -> str:
        """What is taken for granted of the shape of a CTA, for people; empty: nothing."""
        return ""

    def level(self, number: int) -> Level:
        """How far threads agree on a value, where it is made: those of a group that make it in the same iteration of all loops around."""
        return Level.GRID if self._values.of(number).constant is not None else Level.THREAD

    def used(self, number: int, block: int) -> Level:
        """The same where a block reads it: threads that left a loop in different iterations may hold different values of it."""
        return self.level(number)

    def branch(self, block: int) -> Verdict:
        """Whether threads that come to the end of a block go on the same way; `.GRID` where only one way leads on."""
        return Verdict(Level.GRID if len(self._flow.blocks[block].edges) < 2 else Level.THREAD)

    def guard(self, i: int) -> Verdict:
        """Whether the guard of an instruction (of a `brx.idx`: also its index) is the same; `.GRID` if there is none."""
        return Verdict(Level.GRID if self.routine.instructions[i].guard is None else Level.THREAD)

    def point(self, i: int, exits_count: bool = False) -> Verdict:
        """Whether all threads of a group execute instruction `i` if any does, its guard included.

        Threads that have ended count only with `exits_count`. Where a verdict is refuted, `refuted.branch` is where the two threads part.
        A loop that each thread goes round as often as it has to, and leaves at the same end, does not matter to what comes behind it.
        """
        return Verdict(Level.THREAD)

    def block(self, block: int, exits_count: bool = False) -> Verdict:
        """The same for a block."""
        return Verdict(Level.THREAD)

    def threads(self, i: int) -> ThreadSet | None:
        """Exactly the threads of a CTA that execute instruction `i` (its guard included), each the first time that it might, or None."""
        return None

    def blame(self, block: int) -> tuple[Step, ...]:
        """The links from a source of divergence to the branch at the end of a block, the source first; empty if all threads agree."""
        return ()


@fact
def uniformity(routine: Routine) -> Uniformity:
    """The uniformity of a function. Of one that is called, what all callers in its module say; anything is possible if others may call it."""
    return Uniformity(routine)


def uniformity_of_module(of: tuple[Routine, ...]) -> tuple[Uniformity, ...]:
    """The uniformity of all functions of a module, in their order."""
    return tuple(map(uniformity, of))
