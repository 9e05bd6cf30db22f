"""B006 named-barrier-overrun."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.barriers.named_barriers import named_barriers
from ptxkit.analyses.protocols.barriers.overrun import overruns
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Arrivals at a barrier at which no thread waits, and warps that reach a barrier again before it can complete."""
    for routine in facts.routines:
        yield from _again(facts, routine)
        yield from _alone(facts, routine)


def _again(facts: Facts, routine: Routine) -> Iterator[Diagnostic]:
    reported: set[int] = set()
    for overrun in overruns(routine):
        if overrun.second in reported:
            continue
        reported.add(overrun.second)
        first = "in the iteration before" if overrun.first == overrun.second else "here"
        yield facts.report(
            RULE,
            routine.where(overrun.second),
            "the warp reaches this barrier again without having waited since it arrived there",
            *(["it arrived in the previous iteration"] if overrun.first == overrun.second else []),
            related=[(routine.where(overrun.first), f"it arrives {first}")] if overrun.first != overrun.second else (),
        )


def _alone(facts: Facts, routine: Routine) -> Iterator[Diagnostic]:
    """Arrivals of some warps at a barrier that no other warps reach."""
    groups = named_barriers(routine)
    for group in groups:
        if any(site.use.waits for site in group.sites) or group.threads == group.total:
            continue
        for site in group.sites:
            if site.count is None or group.threads >= site.count:
                continue
            waiting = [other for others in groups for other in others.sites if other.use.waits and not other.warps & site.warps]
            yield facts.report(
                RULE,
                routine.where(site.use.instruction),
                f"threads arrive at barrier {group.id}, but no thread ever waits there",
                f"its thread count is {site.count}, but {group.threads} reach it",
                related=[(routine.where(other.use.instruction), f"other threads wait at barrier {other.id} here") for other in waiting[:2]],
            )


"""From a kernel in which `%p1` holds for the upper half of the threads."""

RULE = Rule(
    id="B006",
    name="named-barrier-overrun",
    severity=Severity.ERROR,
    summary="a warp arrives at a barrier twice before it completes, or where no thread waits",
    why=("A warp that has arrived must not reach the barrier again before it is reset; it only knows that after waiting (9.7.14.1)."),
    bad="""
        .visible .entry k()
        .reqntid 128
        {
        mov.u32 %r1, %tid.x;
        setp.ge.u32 %p1, %r1, 64;
        @%p1 bra other;
        bar.arrive 1, 128;
        bar.arrive 1, 128;
        ret;
        other:
        bar.sync 1, 128;
        ret;
        }
    """,
    good="""
        .visible .entry k()
        .reqntid 128
        {
        mov.u32 %r1, %tid.x;
        setp.ge.u32 %p1, %r1, 64;
        @%p1 bra other;
        bar.arrive 1, 128;
        bar.sync 2, 128;
        bar.arrive 1, 128;
        ret;
        other:
        bar.sync 1, 128;
        bar.arrive 2, 128;
        bar.sync 1, 128;
        ret;
        }
    """,
    proof=(
        "Which warps arrive and which wait follows from the thread indices; a named warp arrives again before the barrier can "
        "have completed."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
