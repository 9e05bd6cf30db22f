"""The uses of the mbarriers of a kernel in one run: who arrives, who waits, the bytes of each phase, its parity.

The run is that of `dynamic_checks`: of a kernel that does not say its number of threads, with the likeliest; loops iterate a dozen times.
"""

from __future__ import annotations

import attrs

from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import cluster_size
from ptxkit.analyses.simulation.machine import Machine, Mbarrier
from ptxkit.analyses.simulation.traces import RANK, layout, traces
from ptxkit.analyses.symbolic.thread_block import likely_thread_block

MOST_PHASES = 4
MOST_CTAS = 4


@attrs.frozen
class Phase:
    """A phase that has completed."""

    arrivals: int
    """Warps, or parts of them, that arrived."""
    expected: int
    copied: int
    """Bytes; of copies by tensor maps they are not known."""
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
    """The mbarriers of the first CTA of a cluster; none where nothing can be followed."""
    thread_block = likely_thread_block(routine)
    ranks = cluster_size(routine) or 1
    if thread_block is None or ranks > MOST_CTAS or not any(step.does is Does.INIT for own in steps(routine).values() for step in own):
        return ()
    machine = Machine(traces(routine, ranks, thread_block), races=False)
    machine.run()
    names = {address: str(key[0]) for key, address in layout(routine).items()}
    return tuple([_usage(machine, one, names) for one in machine.by_number.values() if one.address >> RANK == 0])


def _usage(machine: Machine, found: Mbarrier, names: dict[int, str]) -> Phases:
    base = max((address for address in names if address <= found.address), default=None)
    offset = found.address - (base or 0)
    name = f"{names[base]}{f'+{offset}' if offset else ''}" if base is not None else str(offset)
    arrives: dict[int, set[tuple[int, int]]] = {}
    for phase in (*found.history, found.arrivals):
        for index, instruction in phase:
            agent = machine.agents[index]
            arrives.setdefault(instruction, set()).update([(agent.trace.rank, thread) for thread in agent.threads])
    waits: dict[int, set[tuple[int, int]]] = {}
    for index, _, at in found.waited:
        agent = machine.agents[index]
        waits.setdefault(agent.trace.events[at].step.instruction, set()).update([(agent.trace.rank, thread) for thread in agent.threads])
    phases = [
        Phase(len(arrivals), *bytes_, number & 1)
        for number, (arrivals, bytes_) in enumerate(zip(found.history[:MOST_PHASES], found.bytes, strict=False))
    ]
    own = [tuple(sorted((i, len(threads)) for i, threads in table.items())) for table in (arrives, waits)]
    return Phases(name, found.init, found.count, own[0], own[1], tuple(phases), found.phase)
