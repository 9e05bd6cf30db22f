"""Rings of stages: the successive destinations of an asynchronous copy.

How the stage index wraps around (remainder, mask, select, reset pointer) does not matter, since the in-flight queue iterates the loop with
concrete values.
"""

from __future__ import annotations

from ptxkit.analyses.events.effects import Action, effects
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.memory.regions import Region, regions
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symex.async_queue import Coverage, explore
from ptxkit.analyses.symex.moments import Moment, Observer
from ptxkit.frozen import frozen


@frozen
class Ring:
    """The locations in shared memory that an asynchronous copy uses."""

    instruction: int
    queue: str
    variable: str
    offsets: tuple[int, ...]
    """Offsets of the stages in the variable, for the first thread, in the order of their first use."""
    is_known: bool
    """Whether every execution on the followed paths has a known offset."""

    @property
    def stages(self) -> int:
        return len(self.offsets)


@frozen
class Rings:
    """The rings of a function, by instruction."""

    rings: tuple[Ring, ...]
    coverage: Coverage


class _Stages(Observer):
    def __init__(self, routine: Routine, queues: frozenset[str]) -> None:
        self.regions = regions(routine)
        self.terms: dict[int, tuple[Term, ...]] = {}
        self.sizes: dict[int, int] = {}
        self.queues: dict[int, str] = {}
        started = {i: e.queue for i, own in effects(routine).items() for e in own if e.queue in queues and e.action is Action.OPEN}
        settle = settler(routine).term
        for access in accesses(routine):
            if access.space == ".shared" and access.address is not None and access.instruction in started and access.memory.is_async:
                self.terms[access.instruction] = (settle(access.address),)
                self.sizes[access.instruction] = max(1, access.least)
                self.queues[access.instruction] = started[access.instruction]
        self.stages: dict[int, dict[Region | None, None]] = {}

    def meet(self, moment: Moment, memory: object) -> None:
        i = moment.instruction
        if i not in self.terms:
            return
        own = self.stages.setdefault(i, {})
        region = self.regions.region(moment.terms[0], self.sizes[i], self.regions.thread_block.everyone)
        known = {None if one is None else (one.base, one.moving, one.offset) for one in own}
        if (None if region is None else (region.base, region.moving, region.offset)) not in known:
            own[region] = None


@fact
def rings(routine: Routine) -> Rings:
    """The destinations of a function's asynchronous copies that belong to groups, and their numbers of stages."""
    queues = frozenset(("cp.async", "bulk"))
    watch = _Stages(routine, queues)
    if not watch.terms:
        return Rings((), Coverage(True, 0, {}))
    coverage = explore(routine, queues, watch.terms, watch)
    found = []
    for i in sorted(watch.terms):
        stages = list(watch.stages.get(i, ()))
        first = stages[0] if stages else None
        known = first is not None and all(one is not None and (one.base, one.moving) == (first.base, first.moving) for one in stages)
        variable = first.base[0][0] if first is not None and isinstance(first.base[0], tuple) else ""
        offsets = tuple([one.offset for one in stages if one is not None]) if known else ()
        found.append(Ring(i, watch.queues[i], str(variable), offsets, known or i not in watch.stages))
    return Rings(tuple(found), coverage)
