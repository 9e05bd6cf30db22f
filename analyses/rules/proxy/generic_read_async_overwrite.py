"""P004 generic-read-async-overwrite, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.proxy.crossings import overwritten
from ptxkit.analyses.protocols.proxy.unfenced_handoffs import released
from ptxkit.analyses.rules._reports import crossing_reports, unfenced_handoff_reports
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Async-proxy copies that overwrite data read through the generic proxy, with no proxy fence between."""
    for routine in facts.routines:
        yield from crossing_reports(facts, RULE, routine, overwritten(routine), "an asynchronous copy overwrites")
        yield from unfenced_handoff_reports(facts, RULE, routine, released(routine), "an asynchronous copy overwrites")


RULE = Rule(
    id="P004",
    name="generic-read-async-overwrite",
    severity=Severity.INFO,
    summary="shared memory that is read and then overwritten by a bulk copy with no proxy fence between",
    why=(
        "By the letter of the manual, what was read through the generic proxy may be overwritten through the async proxy only "
        "after a fence (8.6)."
    ),
    bad="""
        .shared .align 16 .b8 tile[1024];
        .shared .align 8 .b64 bar;
        mov.u32 %r1, %tid.x;
        shl.b32 %r2, %r1, 2;
        mov.u32 %r3, tile;
        add.u32 %r2, %r2, %r3;
        setp.ne.u32 %p1, %r1, 0;
        ld.shared.u32 %r5, [%r2];
        bar.sync 0;
        @%p1 bra END;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1], 1024, [bar];
        END:
    """,
    good="""
        .shared .align 16 .b8 tile[1024];
        .shared .align 8 .b64 bar;
        mov.u32 %r1, %tid.x;
        shl.b32 %r2, %r1, 2;
        mov.u32 %r3, tile;
        add.u32 %r2, %r2, %r3;
        setp.ne.u32 %p1, %r1, 0;
        ld.shared.u32 %r5, [%r2];
        fence.proxy.async.shared::cta;
        bar.sync 0;
        @%p1 bra END;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1], 1024, [bar];
        END:
    """,
    proof="Data flow from the read to the copy. It is only information, since most programs omit the fence.",
    sanitizer=(
        "none of its tools follows bulk copies; racecheck and synccheck reported none of the mistakes with them that were seeded "
        "on an H200."
    ),
    check=check,
    default=False,
)
