"""C005 membermask-names-absent-lanes."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.convergence.membermasks import masked, missing
from ptxkit.analyses.protocols.convergence.participation import assumed_note, example_note
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Member masks with lanes that wait for others elsewhere."""
    for routine in facts.routines:
        for i in masked(routine):
            found = missing(routine, i)
            if found is None:
                continue
            divergence = found.divergence
            lane = divergence.other.linear % 32
            what = "has exited" if found.elsewhere < 0 else "waits elsewhere" if not divergence.again else "has left the loop"
            related = [] if divergence.branch == i else [(routine.where(divergence.branch), f"they diverge here: {divergence.why}")]
            if found.elsewhere >= 0:
                related.append((routine.where(found.elsewhere), f"{divergence.other} waits here"))
            yield facts.report(
                RULE,
                routine.where(i),
                f"{divergence.one} waits here for lane {lane}, which the mask {found.mask:#x} names, but {divergence.other} {what}",
                *filter(
                    None, (example_note(divergence.example), assumed_note(divergence.assumption), "ptxas accepts this without a warning")
                ),
                related=related,
            )


RULE = Rule(
    id="C005",
    name="membermask-names-absent-lanes",
    severity=Severity.ERROR,
    summary="a member mask names lanes that never arrive",
    why=("The instruction waits for all threads of its mask; those that wait elsewhere never arrive (9.7.14.2, 9.7.14.9, 9.7.14.14)."),
    bad="""
        mov.u32 %r1, %laneid;
        setp.ge.u32 %p1, %r1, 16;
        @%p1 bra over;
        redux.sync.add.s32 %r2, %r1, -1;
        over:
        bar.warp.sync -1;
    """,
    good="""
        mov.u32 %r1, %laneid;
        setp.ge.u32 %p1, %r1, 16;
        @%p1 bra over;
        redux.sync.add.s32 %r2, %r1, 0xffff;
        over:
        bar.warp.sync -1;
    """,
    proof=(
        "Which lanes arrive follows from the thread indices; a lane is named that is in the mask and waits at another instruction instead."
    ),
    sanitizer="the program hangs under it as it does without it.",
    check=check,
)
