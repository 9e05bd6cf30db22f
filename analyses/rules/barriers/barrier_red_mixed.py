"""B005 barrier-red-mixed."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.barriers.named_barriers import mixtures, named_barriers
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Reductions at a barrier where other threads only arrive or wait."""
    for routine in facts.routines:
        for group in named_barriers(routine):
            for reducing, plain in mixtures(group):
                what = "waits" if plain.use.waits else "arrives"
                count = reducing.count or group.total
                yield facts.report(
                    RULE,
                    routine.where(reducing.use.instruction),
                    f"some threads reduce at barrier {group.id}, others reach it without reducing: their results are undefined",
                    f"{reducing.threads} of the {count} threads reduce, so the others are needed to complete the barrier",
                    related=[(routine.where(plain.use.instruction), f"a thread that does not reduce {what} here")],
                )


"""From a kernel in which `%p1` holds for the upper half of the threads."""

RULE = Rule(
    id="B005",
    name="barrier-red-mixed",
    severity=Severity.ERROR,
    summary="at one barrier, some threads execute bar.red and others bar.sync or bar.arrive",
    why=("A reduction must not be mixed with other uses of the barrier while it is active: execution is then unpredictable (9.7.14.1)."),
    bad="""
        .visible .entry k()
        .reqntid 128
        {
        mov.u32 %r1, %tid.x;
        setp.ge.u32 %p1, %r1, 64;
        @%p1 bra other;
        bar.arrive 1, 128;
        ret;
        other:
        bar.red.popc.u32 %r2, 1, 128, %p1;
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
        ret;
        other:
        bar.sync 1, 128;
        ret;
        }
    """,
    proof="Which threads reach each barrier of that number follows from the thread indices, and no other barrier separates the two uses.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
