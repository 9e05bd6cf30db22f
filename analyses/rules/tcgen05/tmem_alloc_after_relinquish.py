"""T002 tmem-alloc-after-relinquish."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import found_reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.tcgen05.tensor_memory import misused_permits
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Allocations after the right was relinquished, frees of other sizes than were allocated, mixed CTA groups."""
    for routine in facts.routines:
        yield from found_reports(facts, RULE, routine, misused_permits(routine))


RULE = Rule(
    id="T002",
    name="tmem-alloc-after-relinquish",
    severity=Severity.ERROR,
    summary="tensor memory that is allocated after relinquish_alloc_permit or in no valid size, freed with another, or not allocated",
    why=(
        "After relinquish_alloc_permit a CTA must not allocate again. An allocation has 32, 64, 128, 256 or 512 columns; its "
        "deallocation has the same size and .cta_group. Only allocated columns may be accessed. With .cta_group::2 a warp of each CTA of "
        "the pair allocates (9.1:9.7.16.7)."
    ),
    bad="""
        .version 9.0
        .target sm_100a
        .address_size 64
        .entry k()
        .reqntid 32
        {
        .reg .pred %p<4>;
        .reg .b32 %r<16>;
        .reg .b64 %rd<4>;
        .shared .align 4 .u32 taddr;
        .shared .align 8 .u64 bar;
        tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [taddr], 64;
        ld.shared.u32 %r1, [taddr];
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64;
        ret;
        }
    """,
    good="""
        .version 9.0
        .target sm_100a
        .address_size 64
        .entry k()
        .reqntid 32
        {
        .reg .pred %p<4>;
        .reg .b32 %r<16>;
        .reg .b64 %rd<4>;
        .shared .align 4 .u32 taddr;
        .shared .align 8 .u64 bar;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [taddr], 64;
        tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
        ld.shared.u32 %r1, [taddr];
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64;
        ret;
        }
    """,
    proof="It follows from the order of the instructions on a path, and their constants, or an execution shows it.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
