"""W007 wgmma-operand-slot-released."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import found_reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.wgmma.early_release import released_too_early
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Stages that are released, and matrices that are written, while a wgmma may still read them."""
    for routine in facts.routines:
        yield from found_reports(facts, RULE, routine, released_too_early(routine))


RULE = Rule(
    id="W007",
    name="wgmma-operand-slot-released",
    severity=Severity.ERROR,
    summary="shared memory that is released or written while a wgmma may still read it",
    why=(
        "A wgmma reads its matrices until its group has been waited for; a stage of a ring may be refilled only then (9.7.16.7.3, "
        "9.7.10.24.1)."
    ),
    bad="""
        .shared .align 128 .b8 tile[1024];
        mov.u32 %r4, tile;
        and.b32 %r5, %r4, 262128;
        shr.u32 %r5, %r5, 4;
        cvt.u64.u32 %rd1, %r5;
        or.b64 %rd1, %rd1, 4611686293305360384;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        st.shared.u32 [tile], %r6;
        wgmma.wait_group.sync.aligned 0;
    """,
    good="""
        .shared .align 128 .b8 tile[1024];
        mov.u32 %r4, tile;
        and.b32 %r5, %r4, 262128;
        shr.u32 %r5, %r5, 4;
        cvt.u64.u32 %rd1, %r5;
        or.b64 %rd1, %rd1, 4611686293305360384;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
        st.shared.u32 [tile], %r6;
    """,
    proof=(
        "One thread is executed symbolically along a path, with its groups in flight, and inputs that lead along this path are "
        "found: the stage that is released, or written, is the one that the wgmma reads."
    ),
    sanitizer="no tool reports it; racecheck and synccheck did not report the one seeded mistake of this kind on an H200.",
    check=check,
)
