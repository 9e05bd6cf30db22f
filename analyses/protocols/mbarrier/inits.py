"""Missing or unordered initialization of mbarriers (9.7.14.15.9)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import comes_without, onward
from ptxkit.analyses.events.mbarriers import may_be_same
from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.launch.launch import MOST_THREADS, WARP, launch
from ptxkit.analyses.protocols.mbarrier.arrivals import threads_at
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.usage import Location, Usage, Use
from ptxkit.names import Symbol

_MEETINGS = frozenset((Does.BARRIER_SYNC, Does.CLUSTER_WAIT))


def uninitialized(routine: Routine, known: Usage) -> Iterator[Finding]:
    """mbarriers in variables of the kernel that have arrivals and waits but no initialization, in a kernel that may initialize others."""
    inits = known.of(Does.INIT)
    if not known.is_closed or any(init.where is None for init in inits):
        return
    signalled: set[Location] = set()
    waited = {location for use in known.of(Does.WAIT) for location in use.locations}
    for use in known.uses:
        if use.does in (Does.INIT, Does.INVAL, Does.WAIT) or use.where is None or not isinstance(use.where.root, Symbol):
            continue
        for location in use.locations:
            if (
                location in known.mbarriers
                or location in signalled
                or location not in waited
                or any(_may_be(init, use, location) for init in inits)
            ):
                continue
            signalled.add(location)
            near = min([init.instruction for init in inits], key=lambda i: abs(i - use.instruction), default=-1)
            if use.is_fixed:
                message = "the mbarrier is never initialized"
            else:
                after, count = location.offset - min(use.offsets), len(use.offsets)
                message = f"{count} consecutive mbarriers are used here, but the one {after} bytes after the first is never initialized"
            yield Finding(
                use.instruction,
                message,
                ((near, "another is initialized here"),),
                use.is_fixed,
                kind=MbarrierFault.MBARRIER_USE_BEFORE_INIT,
            )


def _may_be(init: Use, use: Use, location: Location) -> bool:
    """Whether an initialization may be of the given mbarrier."""
    if init.base == use.base and init.is_known:
        return location.offset in init.offsets
    if use.where is None or init.where is None:
        return True
    if init.where.root is use.where.root and use.is_fixed:
        return may_be_same(init.where, use.where)
    return may_be_same(init.where, use.where)


def unpublished(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Uses that a thread may reach without a barrier after the initialization."""
    inits = known.of(Does.INIT)
    flow = control_flow(routine)
    meetings = {i for i, own in steps(routine).items() if any(step.does in _MEETINGS for step in own)}
    joins = {i for i, own in steps(routine).items() if any(step.does is Does.JOIN for step in own)}
    most = launch(routine).most[0]
    is_warp = most <= WARP or most >= MOST_THREADS
    starts = {init.instruction for init in inits}
    before, before_in_warp = comes_without(routine, starts | meetings), comes_without(routine, starts | meetings | joins)
    for use in known.uses:
        if use.does is Does.INIT or not before(use.instruction):
            continue
        init = next((init for init in inits if init.base == use.base and init.offsets & use.offsets), None)
        # the thread that initializes an mbarrier may use it
        if init is None or not (mine := threads_at(routine, use)) or not (its := threads_at(routine, init)) or not mine & ~its:
            continue
        # bar.warp.sync suffices within a warp
        if (is_warp or _is_of_one_warp(mine | its)) and not before_in_warp(use.instruction):
            continue
        # any barrier that these threads may pass in between counts, whatever its conditions
        ahead = onward(routine, init.instruction)
        if any(ahead >> flow.block_of[i] & 1 and onward(routine, i) >> flow.block_of[use.instruction] & 1 for i in meetings):
            continue
        message = "threads use the mbarrier here without waiting until another thread has initialized it"
        yield Finding(
            use.instruction, message, ((init.instruction, "initialized here"),), False, kind=MbarrierFault.MBARRIER_INIT_NOT_PUBLISHED
        )
        return


def _is_of_one_warp(threads: int) -> bool:
    """Whether a set of threads, as bits, lies in one warp."""
    return (threads & -threads).bit_length() - 1 >> 5 == threads.bit_length() - 1 >> 5
