"""T004 tmem-dealloc-before-readers."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import found_reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.tcgen05.tensor_memory import freed_too_early
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Tensor memory that some warps free while others may still load from it."""
    for routine in facts.routines:
        yield from found_reports(facts, RULE, routine, freed_too_early(routine))


RULE = Rule(
    id="T004",
    name="tmem-dealloc-before-readers",
    severity=Severity.WARNING,
    summary="tensor memory that some warps deallocate with no barrier after the loads of others",
    why=(
        "Deallocated columns may be given to another CTA at once: a barrier must guarantee that all warps have finished with them "
        "(9.1:9.7.16.7)."
    ),
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
        ld.shared.u32 %r1, [taddr];
        mov.u32 %r2, %tid.x;
        setp.gt.u32 %p1, %r2, 31;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r1];
        tcgen05.wait::ld.sync.aligned;
        @%p1 bra END;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64;
        END:
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
        ld.shared.u32 %r1, [taddr];
        mov.u32 %r2, %tid.x;
        setp.gt.u32 %p1, %r2, 31;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r1];
        tcgen05.wait::ld.sync.aligned;
        bar.sync 0;
        @%p1 bra END;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64;
        END:
        ret;
        }
    """,
    proof="Which warps load and which deallocate follows from the thread indices, and no barrier separates them.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
