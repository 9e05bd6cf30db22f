"""The number of arrivals at an mbarrier in one phase, compared with its initial count (9.7.14.15.13)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.paths import comes_without
from ptxkit.analyses.events.steps import Does
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP, WARP_MASK, cluster_size
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.usage import Usage, Use, rings, usage
from ptxkit.analyses.uniformity.uniformity import uniformity

MOST_CTAS = 16
"""Assumed maximum cluster size if the kernel does not specify it."""


def counts_and_threads(routine: Routine, known: Usage) -> Iterator[Finding]:
    """mbarriers that expect more arrivals than are possible in one phase, if each instruction arrives at most once in it."""
    if not known.is_closed:
        return
    for ring in rings(routine):
        inits = [use for use in ring.of(Does.INIT) if use.step.amount is not None and use.step.amount.constant is not None]
        waits = [use for use in ring.of(Does.WAIT) if use.step.is_spinning]
        sites = [use for use in (*ring.uses, *ring.others) if use.does is Does.ARRIVE]
        if not inits or not waits or not ring.of(Does.ARRIVE):
            continue
        for init in inits:
            own = [site for site in sites if site not in ring.uses or not site.is_known or site.offsets & init.offsets]
            counts = [_arrivals(routine, site) for site in own]
            assert init.step.amount is not None
            count = init.step.amount.constant
            if None in counts or count is None or not own or count <= (most := sum(one for one in counts if one is not None)):
                continue
            message = f"the mbarrier expects {count} arrivals in each phase, but gets at most {most}: waiting threads deadlock"
            steps_ = [(site.instruction, f"at most {n} threads arrive here") for site, n in zip(own, counts, strict=True)][:4]
            yield Finding(
                init.instruction,
                message,
                (*steps_, (waits[0].instruction, "waited for here")),
                False,
                kind=MbarrierFault.MBARRIER_ARRIVE_COUNT,
            )
            break


def _arrivals(routine: Routine, use: Use) -> int | None:
    """The maximum number of arrivals of an instruction at an mbarrier in one phase; None if unbounded."""
    if _comes_again(routine, use.instruction):
        return None
    most = arrivals_besides(routine, use, 0)
    if most is not None and (use.step.is_multicast or use.is_remote):
        most *= cluster_size(routine) or MOST_CTAS
    return most


def arrivals_besides(routine: Routine, use: Use, without: int) -> int | None:
    """The maximum number of arrivals of threads not in `without`, if all execute an instruction once; None if unknown."""
    step = use.step
    times = step.times
    if step.amount is not None:
        if step.amount.constant is None:
            return None
        times *= step.amount.constant
    threads = threads_at(routine, use)
    if threads is None or step.drops:
        return None
    if not uniformity(routine).reach.instruction(use.instruction).one:
        return (threads & ~without).bit_count() * times
    warps = range(0, threads.bit_length(), WARP)
    return sum(bool(threads >> first & ~(without >> first) & WARP_MASK) for first in warps) * times


def threads_at(routine: Routine, use: Use) -> int | None:
    """The threads of a CTA that may execute a use, as a bit set; None if unknown."""
    if use.threads is not None:
        return use.threads
    reach = uniformity(routine).reach
    return reach.instruction(use.instruction).ever if reach.template.has_indices else None


def _comes_again(routine: Routine, i: int) -> bool:
    """Whether a thread may execute an instruction again without waiting at any mbarrier in between."""
    flow, forest = control_flow(routine), loops(routine)
    index = forest.innermost[flow.block_of[i]]
    if index is None:
        return False
    if index in _loops_with_skipped_waits(routine):
        return False
    return comes_without(routine, {use.instruction for use in usage(routine).of(Does.WAIT)}, i + 1)(i)


@fact
def _loops_with_skipped_waits(routine: Routine) -> frozenset[int]:
    """The loops with a wait that is skipped if the phase was already tested."""
    block_of, waits = control_flow(routine).block_of, usage(routine).of(Does.WAIT)
    found = set()
    for loop in loops(routine).loops:
        within = [use for use in waits if block_of[use.instruction] in loop]
        asked = {(use.base, use.offsets) for use in within if not use.step.is_spinning}
        if any(use.step.is_spinning and (use.base, use.offsets) in asked for use in within):
            found.add(loop.index)
    return frozenset(found)
