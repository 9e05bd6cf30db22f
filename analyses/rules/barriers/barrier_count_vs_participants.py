"""B003 barrier-count-vs-participants."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.barriers.named_barriers import Miscount, Site, disagreements, miscounts, named_barriers
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.syntax import Path

MOST_SHOWN = 4


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Barriers whose thread count differs from the number of threads that reach them."""
    for routine in facts.routines:
        reported = set()
        for group in named_barriers(routine):
            for wrong in miscounts(group):
                reported.add(group.id)
                yield facts.report(
                    RULE,
                    routine.where(wrong.site.use.instruction),
                    wrong.why,
                    f"{_warps(wrong.site)} reach it here",
                    related=_others(routine, wrong),
                )
        for use, usual in disagreements(routine):
            if use.number not in reported:
                yield facts.report(
                    RULE,
                    routine.where(use.instruction),
                    f"barrier {use.number} is for {use.threads} threads here, and for {usual.threads} elsewhere",
                    "no barrier of the whole CTA separates the two",
                    related=[(routine.where(usual.instruction), f"for {usual.threads} threads")],
                    severity=Severity.WARNING,
                )


def _others(routine: Routine, wrong: Miscount) -> list[tuple[Path, str]]:
    return [
        (routine.where(other.use.instruction), f"{_warps(other)} reach it here, for {other.count or 'all'} threads")
        for other in wrong.others[:MOST_SHOWN]
    ]


def _warps(site: Site) -> str:
    numbers = [str(warp) for warp in range(site.warps.bit_length()) if site.warps >> warp & 1]
    if len(numbers) > 2 and site.warps >> int(numbers[0]) == (1 << len(numbers)) - 1:
        return f"warps {numbers[0]} to {numbers[-1]}"
    return f"warp {numbers[0]}" if len(numbers) == 1 else f"warps {', '.join(numbers)}" if numbers else "no warps"


"""From a kernel in which `%p1` holds for the upper half of the threads."""

RULE = Rule(
    id="B003",
    name="barrier-count-vs-participants",
    severity=Severity.ERROR,
    summary="a barrier's thread count is not the number of threads that reach it",
    why=(
        "A barrier completes when as many threads have reached it as its instructions say, all with the same number. If the "
        "number is too large, threads hang; if it is too small, they go on too early (9.7.14.1)."
    ),
    bad="""
        .visible .entry k()
        .reqntid 128
        {
        mov.u32 %r1, %tid.x;
        setp.ge.u32 %p1, %r1, 64;
        @%p1 bra over;
        bar.sync 1, 96;
        over:
        ret;
        }
    """,
    good="""
        .visible .entry k()
        .reqntid 128
        {
        mov.u32 %r1, %tid.x;
        setp.ge.u32 %p1, %r1, 64;
        @%p1 bra over;
        bar.sync 1, 64;
        over:
        ret;
        }
    """,
    proof=(
        "Which threads reach each barrier of that number follows exactly from the thread indices, and all counts are constants: "
        "the sum differs from the count. Where that is not known, uses of one barrier with different thread counts, with no "
        "barrier of the whole CTA between them, are a warning."
    ),
    sanitizer=(
        "the program hangs under it as it does without it; a count that is too small shows as a hazard in racecheck, if there are "
        "data to race for."
    ),
    check=check,
)
