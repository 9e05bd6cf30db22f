"""P001 generic-write-async-read."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.proxy.crossings import crossings
from ptxkit.analyses.protocols.proxy.unfenced_handoffs import unfenced_handoffs
from ptxkit.analyses.rules._reports import crossing_reports, unfenced_handoff_reports
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Async-proxy copies of data written through the generic proxy, with no proxy fence between."""
    for routine in facts.routines:
        found = [one for one in crossings(routine) if not one.read.is_tensor and one.fence < 0]
        yield from crossing_reports(facts, RULE, routine, found, "an asynchronous copy reads")
        said = {one.write.instruction for one in found if not one.is_guess}
        more = [one for one in unfenced_handoffs(routine) if not one.crossing.read.is_tensor and one.crossing.write.instruction not in said]
        yield from unfenced_handoff_reports(facts, RULE, routine, more, "an asynchronous copy reads")


RULE = Rule(
    id="P001",
    name="generic-write-async-read",
    severity=Severity.ERROR,
    summary="shared memory that is written and then read by a bulk copy with no proxy fence between",
    why=(
        "A barrier does not order accesses of different proxies: a writer needs fence.proxy.async between its write and the "
        "barrier (8.6, 9.7.10.24.2)."
    ),
    bad="""
        .shared .align 16 .b8 tile[1024];
        .shared .align 8 .b64 bar;
        mov.u32 %r1, %tid.x;
        shl.b32 %r2, %r1, 2;
        mov.u32 %r3, tile;
        add.u32 %r2, %r2, %r3;
        setp.ne.u32 %p1, %r1, 0;
        st.shared.u32 [%r2], %r1;
        bar.sync 0;
        @%p1 bra END;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 1024;
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
        st.shared.u32 [%r2], %r1;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        @%p1 bra END;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 1024;
        END:
    """,
    proof=(
        "Data flow on all paths from the write to the copy: they access the same variable, and on one path the writer executes no "
        "proxy fence. Between specialized warps: the writer arrives at the mbarrier that the copying thread waits for, with no "
        "proxy fence before the arrival."
    ),
    sanitizer="no tool reports it; racecheck and synccheck did not report the 2 seeded mistakes of this kind on an H200.",
    check=check,
)
