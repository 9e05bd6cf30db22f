"""C006 shfl-from-inactive-lane."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.inputs.rows import depends_on_rows
from ptxkit.analyses.protocols.convergence.membermasks import Unheard, masked, unheard
from ptxkit.analyses.protocols.convergence.participation import assumed_note, example_note
from ptxkit.analyses.symbolic.values import values
from ptxkit.diagnostics import Diagnostic, Severity

PADDED = "the branch compares with the length of a row, which the host may keep to a multiple of a warp"


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Threads that use a value from a lane that has exited, took another path or is not in the mask; one finding per branch."""
    for routine in facts.routines:
        groups: dict[int, list[Unheard]] = {}
        for i in masked(routine):
            found = unheard(routine, i)
            if found is not None:
                groups.setdefault(found.branch if found.branch >= 0 else -1 - i, []).append(found)
        for first, *others in groups.values():
            guard = values(routine).guard(first.branch) if first.branch >= 0 else None
            may_be_padded = guard is not None and depends_on_rows(routine, guard)
            notes = (
                example_note(first.example),
                assumed_note(first.assumption),
                "the value is undefined, and it is used",
                f"the same holds for {len(others)} more after that branch" if others else "",
                PADDED if may_be_padded else "",
            )
            yield facts.report(
                RULE,
                routine.where(first.instruction),
                f"{first.thread} takes a value from lane {first.lane}, which {first.why}",
                *filter(None, notes),
                related=[(routine.where(first.branch), "that lane exits or branches away here")] if first.branch >= 0 else (),
                severity=Severity.INFO if may_be_padded else None,
            )


RULE = Rule(
    id="C006",
    name="shfl-from-inactive-lane",
    severity=Severity.WARNING,
    summary="a shfl reads a value from an inactive lane",
    why="The value that a thread gets from an inactive thread, or from one outside the mask, is undefined (9.7.10.6).",
    bad="""
        mov.u32 %r1, %laneid;
        setp.ge.u32 %p1, %r1, 8;
        @%p1 ret;
        shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1;
        st.global.u32 [%rd1], %r2;
    """,
    good="""
        mov.u32 %r1, %laneid;
        shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1;
        st.global.u32 [%rd1], %r2;
    """,
    proof="The source lane follows from constants; a lane is named whose source lane is inactive, and whose result is used.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
