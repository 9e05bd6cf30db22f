"""The uses of a kernel's mbarriers in one launch: arrivals, waits, and the bytes and parity of each phase.

The launch is synthesized (`running`): if the kernel does not specify its thread block, with the likeliest one; loops iterate a few times.
"""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.protocols.mbarrier.running import run
from ptxkit.analyses.protocols.mbarrier.uses import Use
from ptxkit.frozen import frozen

MOST_PHASES = 4


@frozen
class Phase:
    """A completed phase."""

    arrivals: int
    """Number of threads that arrived."""
    expected: int
    copied: int
    """In bytes: a phase completes when the expected bytes have arrived."""
    parity: int


@frozen
class Phases:
    """An mbarrier and its phases."""

    name: str
    init: int
    """The instruction that initializes it."""
    count: int
    arrives: tuple[tuple[int, int], ...]
    """By instruction, the number of threads that arrive there."""
    waits: tuple[tuple[int, int], ...]
    phases: tuple[Phase, ...]
    """The first phases."""
    completed: int
    """Number of phases that completed in the run."""


@fact
def mbarrier_phases(routine: Routine) -> tuple[Phases, ...]:
    """The mbarriers of the first CTA; empty if no launch works."""
    ran = run(routine)
    return () if ran is None else tuple([_usage(one) for one in ran.uses if one.cta == 0])


def _usage(use: Use) -> Phases:
    phases = [Phase(one.arrivals, one.expected, one.expected, one.parity) for one in use.phases[: min(MOST_PHASES, use.completed)]]
    arrives, waits = [tuple(sorted((i, len(threads)) for i, threads in table.items())) for table in (use.arrives, use.waits)]
    return Phases(use.name, use.init, use.count, arrives, waits, tuple(phases), use.completed)
