"""T005 tensor-product-not-committed."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import found_reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.tcgen05.ring_balance import out_of_step, outrun
from ptxkit.analyses.protocols.tcgen05.tensor_memory import never_committed
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Waits at an mbarrier for MMAs whose completion is never signalled to an mbarrier."""
    for routine in facts.routines:
        yield from found_reports(facts, RULE, routine, never_committed(routine))
        yield from found_reports(facts, RULE, routine, [*outrun(routine), *out_of_step(routine)])


RULE = Rule(
    id="T005",
    name="tensor-product-not-committed",
    severity=Severity.ERROR,
    summary="a wait at an mbarrier after an MMA that no tcgen05.commit hands to an mbarrier",
    why="An MMA signals its completion only through tcgen05.commit and an mbarrier (9.1:9.7.16.12); the wait may be a deadlock.",
    bad="""
        .version 9.0
        .target sm_100a
        .address_size 64
        .entry k()
        .reqntid 128
        {
        .reg .pred %p<4>;
        .reg .b32 %r<16>;
        .reg .b64 %rd<4>;
        .shared .align 4 .u32 taddr;
        .shared .align 8 .u64 bar;
        tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, 0;
        WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
        @!%p1 bra WAIT;
        ret;
        }
    """,
    good="""
        .version 9.0
        .target sm_100a
        .address_size 64
        .entry k()
        .reqntid 128
        {
        .reg .pred %p<4>;
        .reg .b32 %r<16>;
        .reg .b64 %rd<4>;
        .shared .align 4 .u32 taddr;
        .shared .align 8 .u64 bar;
        tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, 0;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
        WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
        @!%p1 bra WAIT;
        ret;
        }
    """,
    proof=(
        "No path has a commit between the MMA and the wait. Or a loop waits, on every path, more often in each iteration than it "
        "commits to the mbarrier (only information if the commits reach it through other threads); or the first stage that is "
        "committed is not the first that is waited for."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
