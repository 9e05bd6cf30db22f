"""P002 generic-write-tensorcore-read."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.proxy.crossings import crossings
from ptxkit.analyses.protocols.proxy.unfenced_handoffs import unfenced_handoffs
from ptxkit.analyses.rules._reports import crossing_reports, unfenced_handoff_reports
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """MMAs on shared-memory matrices written through the generic proxy, with no proxy fence between."""
    for routine in facts.routines:
        found = [one for one in crossings(routine) if one.read.is_tensor and one.fence < 0]
        yield from crossing_reports(facts, RULE, routine, found, "tensor cores read")
        said = {one.write.instruction for one in found if not one.is_guess}
        more = [one for one in unfenced_handoffs(routine) if one.crossing.read.is_tensor and one.crossing.write.instruction not in said]
        yield from unfenced_handoff_reports(facts, RULE, routine, more, "tensor cores read")


RULE = Rule(
    id="P002",
    name="generic-write-tensorcore-read",
    severity=Severity.ERROR,
    summary="a matrix in shared memory that is written and then read by tensor cores with no proxy fence between",
    why=(
        "Tensor cores read through the async proxy: a writer needs fence.proxy.async between its write and the barrier (9.7.16.7.1, 8.6)."
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
        mov.u32 %r4, tile;
        and.b32 %r4, %r4, 262128;
        shr.u32 %r4, %r4, 4;
        cvt.u64.u32 %rd1, %r4;
        or.b64 %rd1, %rd1, 4611686293305360384;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
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
        mov.u32 %r4, tile;
        and.b32 %r4, %r4, 262128;
        shr.u32 %r4, %r4, 4;
        cvt.u64.u32 %rd1, %r4;
        or.b64 %rd1, %rd1, 4611686293305360384;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
    """,
    proof=(
        "Data flow on all paths from the write to the MMA whose descriptor is computed from the variable: on one path the writer "
        "executes no proxy fence. Between specialized warps: the writer arrives at the mbarrier that the thread that starts the "
        "MMA waits for, with no proxy fence before the arrival. Copies by cp.async count only if one thread starts the MMA after "
        "a barrier of the CTA; where whole warps start it, or the copies signal an mbarrier themselves, most programs omit the "
        "fence."
    ),
    sanitizer=(
        "none of its tools follows bulk copies; racecheck and synccheck reported none of the mistakes with them that were seeded "
        "on an H200."
    ),
    check=check,
)
