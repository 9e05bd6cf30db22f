"""The uses of the mbarriers of a kernel in one launch: who arrives, who waits, the bytes of each phase, its parity.

The launch is one that was made up (`running`): of a kernel that does not say its number of threads, with the likeliest; loops iterate a few
times.
"""

from __future__ import annotations

import attrs

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.protocols.mbarrier.running import run
from ptxkit.analyses.protocols.mbarrier.uses import Use

MOST_PHASES = 4


@attrs.frozen
class Phase:
    """A phase that has completed."""

    arrivals: int
    """Threads that arrived."""
    expected: int
    copied: int
    """Bytes: a phase completes when as many have come as are expected."""
    parity: int


@attrs.frozen
class Phases:
    """An mbarrier and its phases."""

    name: str
    init: int
    """The instruction that initializes it."""
    count: int
    arrives: tuple[tuple[int, int], ...]
    """By instruction, how many threads arrive there."""
    waits: tuple[tuple[int, int], ...]
    phases: tuple[Phase, ...]
    """The first ones."""
    completed: int
    """How many phases completed in the run."""


@fact
def mbarrier_phases(routine: Routine) -> tuple[Phases, ...]:
    """The mbarriers of the first CTA; none where no launch works."""
    ran = run(routine)
    return () if ran is None else tuple([_usage(one) for one in ran.uses if one.cta == 0])


def _usage(use: Use) -> Phases:
    phases = [Phase(one.arrivals, one.expected, one.expected, one.parity) for one in use.phases[: min(MOST_PHASES, use.completed)]]
    arrives, waits = [tuple(sorted((i, len(threads)) for i, threads in table.items())) for table in (use.arrives, use.waits)]
    return Phases(use.name, use.init, use.count, arrives, waits, tuple(phases), use.completed)
