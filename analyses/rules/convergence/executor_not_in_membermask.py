"""C004 executor-not-in-membermask."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.events.barriers import child_of
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.convergence.membermasks import masked, stranger
from ptxkit.analyses.protocols.convergence.participation import assumed_note, example_note
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.binding import Bound


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Threads that execute an instruction whose member mask excludes them."""
    for routine in facts.routines:
        for i in masked(routine):
            found = stranger(routine, i)
            bound = bindings(routine)[i]
            if found is None or not isinstance(bound, Bound) or bound.members is None:
                continue
            child = child_of(routine, i, bound.members)
            yield facts.report(
                RULE,
                (*routine.where(i), child),
                f"{found.thread} executes this, and its lane, {found.thread.linear % 32}, is not in the mask {found.mask:#x}",
                *filter(None, (example_note(found.example), assumed_note(found.assumption), "ptxas accepts this without a warning")),
                related=origins(routine, i, child),
            )


RULE = Rule(
    id="C004",
    name="executor-not-in-membermask",
    severity=Severity.ERROR,
    summary="a thread executes a .sync instruction with a member mask that excludes it",
    why="Behavior is undefined if the executing thread is not in the mask (9.7.10.6, 9.7.14.2, 9.7.14.9 to 9.7.14.14).",
    bad="""
        mov.u32 %r1, %laneid;
        vote.sync.any.pred %p1, 1, 0xffff;
    """,
    good="""
        mov.u32 %r1, %laneid;
        setp.lt.u32 %p2, %r1, 16;
        @%p2 vote.sync.any.pred %p1, 1, 0xffff;
    """,
    proof=(
        "Which lanes execute the instruction follows from the thread indices, and the mask is a constant or follows from them "
        "too; a lane is named that executes it and is not in the mask."
    ),
    sanitizer="synccheck reports invalid arguments of __syncwarp and the like if a run reaches it.",
    check=check,
)
