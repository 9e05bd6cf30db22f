"""Errors in the use of mbarriers that are independent of the path: missing and inconsistent uses (9.7.14.15).

Based on `usage`, without a run. What is reported cannot be right, or at least not in a kernel that is otherwise like this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.protocols.mbarrier import dynamic_checks as mbarrier
from ptxkit.analyses.protocols.mbarrier.arrivals import counts_and_threads
from ptxkit.analyses.protocols.mbarrier.expected_bytes import boxes_that_differ, too_many_bytes, unannounced
from ptxkit.analyses.protocols.mbarrier.first_waits import (
    exchanges_without_first_wait,
    first_rounds,
    peeks_at_other_parity,
    standstill,
)
from ptxkit.analyses.protocols.mbarrier.inits import uninitialized, unpublished
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.ring_lengths import counts_that_differ, lengths_that_differ
from ptxkit.analyses.protocols.mbarrier.stage_exchange import stages_kept, stages_not_asked_for, waits_left_out
from ptxkit.analyses.protocols.mbarrier.usage import Usage, usage
from ptxkit.analyses.protocols.mbarrier.users import incomplete


def findings(routine: Routine) -> tuple[Finding, ...]:
    """The errors in the use of mbarriers that a run shows; if it shows none, inconsistencies in the text."""
    shown = mbarrier.findings(routine)
    return shown if any(isinstance(one.kind, MbarrierFault) for one in shown) else (*shown, *static_checks(routine))


@fact
def static_checks(routine: Routine) -> tuple[Finding, ...]:
    """Missing or inconsistent uses of the mbarriers of a kernel; empty for other functions."""
    if not routine.function.header.is_entry:
        return ()
    if not any(step.does in (Does.WAIT, Does.COPY) for own in steps(routine).values() for step in own):
        return ()
    for check in CHECKS:
        # consequences of the same mistake need not be reported as well
        found = tuple(check(routine, usage(routine)))
        if found:
            return found
    return ()


CHECKS: tuple[Callable[[Routine, Usage], Iterator[Finding]], ...] = (
    lengths_that_differ,
    uninitialized,
    counts_that_differ,
    incomplete,
    unpublished,
    standstill,
    peeks_at_other_parity,
    first_rounds,
    exchanges_without_first_wait,
    counts_and_threads,
    unannounced,
    too_many_bytes,
    boxes_that_differ,
    stages_kept,
    stages_not_asked_for,
    waits_left_out,
)
