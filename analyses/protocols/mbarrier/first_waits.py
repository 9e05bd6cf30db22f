"""Parities of first waits at mbarriers: waits for a phase that no thread can complete, and inconsistent parities (9.7.14.15.16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.paths import comes_without
from ptxkit.analyses.events.steps import Does
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.protocols.mbarrier.arrivals import threads_at
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.usage import (
    Ring,
    Usage,
    Use,
    first_phases,
    parities_by_path,
    rings,
    rings_by_thread,
    usage_by_thread,
    visits,
    wraps_first,
)
from ptxkit.analyses.uniformity.uniformity import uniformity


def standstill(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Waits for a first phase that only threads could complete that themselves wait for a first phase."""
    if not known.is_closed:
        return
    own = rings_by_thread(routine)
    paths = {use: parities_by_path(routine, use) for ring in own for use in ring.of(Does.WAIT)}
    first = {ring: [use for use in ring.of(Does.WAIT) if any(parity == 0 for parity, _ in paths[use])] for ring in own}
    starts: set[Ring] = {ring for ring in own if any(use.does is Does.ARRIVE for use in ring.others)}
    closed: set[Use] = set()
    while True:
        closed = {use for ring in own if ring not in starts for use in first[ring]}
        comes = _past_others(routine, closed)
        while passed := {use for use in closed if any(parity != 0 and all(comes(use, end) for end in ends) for parity, ends in paths[use])}:
            closed -= passed
            comes = _past_others(routine, closed)
        more = {ring for ring in own if ring not in starts and any(comes(use, use.instruction) for use in ring.of(Does.ARRIVE))}
        if not more:
            break
        starts |= more
    blocking = {ring: [use for use in ring.of(Does.WAIT) if use in closed and use.step.is_spinning] for ring in own}
    stuck = [ring for ring in own if ring not in starts and blocking[ring] and ring.of(Does.ARRIVE)]
    for ring in stuck:
        wait = blocking[ring][0]
        if len(stuck) == 1:
            other = ring.of(Does.ARRIVE)[0]
            what = "all arrivals come after such a wait"
        else:
            other = next(blocking[one][0] for one in stuck if one is not ring)
            what = "those that should arrive wait here"
        message = "threads wait for a first phase here, and the thread that could complete it waits for a first phase, too: deadlock"
        yield Finding(
            wait.instruction,
            message,
            ((other.instruction, what), (ring.of(Does.INIT)[0].instruction, "initialized here")),
            False,
            kind=MbarrierFault.MBARRIER_PARITY,
        )
        return


def _past_others(routine: Routine, closed: set[Use]) -> Callable[[Use, int], bool]:
    """Returns a function: whether threads can reach an instruction without passing some waits that never succeed."""
    flow, reach = control_flow(routine), uniformity(routine).reach
    waits: dict[int, list[Use]] = {}
    for use in usage_by_thread(routine).of(Does.WAIT):
        if routine.instructions[use.instruction].guard is None:
            waits.setdefault(use.instruction, []).append(use)
    by_threads: dict[int | None, Callable[[int], bool]] = {}

    def comes(use: Use, i: int) -> bool:
        threads = threads_at(routine, use)
        if threads not in by_threads:
            # a wait at another mbarrier only blocks the threads that execute it
            mine = [[use for use in own if threads is None or use.threads is None or use.threads & threads] for own in waits.values()]
            cuts = {own[0].instruction for own in mine if own and closed.issuperset(own)}
            if threads is not None:
                cuts |= {flow.blocks[block].start for block in flow.reachable if not reach.block(block).ever & threads}
            by_threads[threads] = comes_without(routine, cuts)
        return by_threads[threads](i)

    return comes


def peeks_at_other_parity(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Tests before a loop for a parity that differs from the wait inside the loop, which is skipped if the test succeeds."""
    for ring in rings(routine):
        own = ring.of(Does.WAIT)
        for peek in own:
            if peek.step.is_spinning:
                continue
            ahead = comes_without(routine, {use.instruction for use in own if use is not peek}, peek.instruction + 1)
            for wait in own:
                if not wait.step.is_spinning or not ahead(wait.instruction) or not _is_before_loop(routine, peek, wait):
                    continue
                tried, waited = first_phases(routine, peek), first_phases(routine, wait)
                if tried and waited and not tried & waited and {one[0] for one in tried} == {one[0] for one in waited}:
                    message = "this tests another parity than the wait that is skipped if the test succeeds"
                    yield Finding(
                        peek.instruction,
                        message,
                        ((wait.instruction, "skipped if the test succeeds"),),
                        False,
                        kind=MbarrierFault.MBARRIER_PARITY,
                    )
                    return


def _is_before_loop(routine: Routine, peek: Use, wait: Use) -> bool:
    flow, forest = control_flow(routine), loops(routine)
    index = forest.innermost[flow.block_of[wait.instruction]]
    while index is not None:
        loop = forest.loops[index]
        if flow.block_of[peek.instruction] not in loop and not wait.step.is_spinning:
            return True
        index = loop.parent
    return peek.instruction < wait.instruction


def first_rounds(routine: Routine, known: Usage) -> Iterator[Finding]:
    """mbarriers that count bytes of copies, with no wait for the first phase."""
    for ring in rings(routine):
        own, copies = visits(routine, ring), ring.of(Does.COPY)
        if not copies or not own or any(one.parity != 1 for one in own) or any(use.does is Does.WAIT for use in ring.others):
            continue
        if any(wraps_first(routine, one.use) for one in own):
            continue
        message = "all waits for the bytes of this mbarrier pass immediately the first time: no thread waits for its first phase"
        yield Finding(own[0].use.instruction, message, ((copies[0].instruction, "copied here"),), False, kind=MbarrierFault.MBARRIER_PARITY)


def exchanges_without_first_wait(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Two sides that wait for each other's arrivals, and both pass their first wait immediately."""
    if not known.is_closed:
        return
    own = [ring for ring in rings(routine) if ring.moves and _passes_first(routine, ring)]
    for one, other in combinations(own, 2):
        if len(one.offsets) == len(other.offsets) and _comes_after(routine, one, other) and _comes_after(routine, other, one):
            message = "this wait passes immediately the first time, and so does that of the threads whose arrival it waits for"
            steps = (
                (other.of(Does.WAIT)[0].instruction, "this one, too, passes immediately"),
                (one.of(Does.ARRIVE)[0].instruction, "arrived at here"),
            )
            yield Finding(one.of(Does.WAIT)[0].instruction, message, steps, False, kind=MbarrierFault.MBARRIER_PARITY)
            return


def _passes_first(routine: Routine, ring: Ring) -> bool:
    """Whether all waits at some mbarriers are known to pass immediately the first time."""
    own = visits(routine, ring)
    return bool(own) and not ring.others and all(one.parity == 1 and not wraps_first(routine, one.use) for one in own)


def _comes_after(routine: Routine, arrived: Ring, waited: Ring) -> bool:
    """Whether all arrivals at some mbarriers come after a wait at others."""
    comes = comes_without(routine, {use.instruction for use in waited.of(Does.WAIT)})
    arrivals = arrived.of(Does.ARRIVE)
    return bool(arrivals) and not any(comes(use.instruction) for use in arrivals)
