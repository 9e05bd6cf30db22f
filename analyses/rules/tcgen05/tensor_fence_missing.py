"""T006 tensor-fence-missing."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import found_reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.tcgen05.tensor_memory import seldom_fenced, unfenced
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Uses of tensor memory after a wait without the fence that follows the kernel's other waits."""
    for routine in facts.routines:
        yield from found_reports(facts, RULE, routine, unfenced(routine))
        usual = seldom_fenced(routine)
        if usual is not None:
            yield from found_reports(facts, RULE, routine, [usual], Severity.INFO)


RULE = Rule(
    id="T006",
    name="tensor-fence-missing",
    severity=Severity.WARNING,
    summary="tensor memory is used after a wait without the tcgen05.fence that follows the other waits",
    why="What other threads started is ordered only by a tcgen05.fence::after_thread_sync after the wait (9.1:9.7.16.11).",
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
        tcgen05.fence::before_thread_sync;
        bar.sync 0;
        tcgen05.fence::after_thread_sync;
        tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, 0;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
        WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
        @!%p1 bra WAIT;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r1];
        tcgen05.wait::ld.sync.aligned;
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
        tcgen05.fence::before_thread_sync;
        bar.sync 0;
        tcgen05.fence::after_thread_sync;
        tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, 0;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
        WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
        @!%p1 bra WAIT;
        tcgen05.fence::after_thread_sync;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r1];
        tcgen05.wait::ld.sync.aligned;
        ret;
        }
    """,
    proof="This path has no fence although the kernel has it on others; if only some of the others have it, it is only information.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
