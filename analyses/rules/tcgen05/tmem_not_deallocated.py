"""T001 tmem-not-deallocated."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.specimen import is_specimen
from ptxkit.analyses.framework.reporting import found_reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.tcgen05.tensor_memory import never_freed
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Tensor memory that a warp still holds at the end of the kernel."""
    for routine in facts.routines:
        if is_specimen(routine):
            continue
        yield from found_reports(facts, RULE, routine, never_freed(routine))


RULE = Rule(
    id="T001",
    name="tmem-not-deallocated",
    severity=Severity.ERROR,
    summary="tensor memory that is allocated and not deallocated before the kernel ends",
    why="All tensor memory that a kernel allocates must be deallocated before it ends (9.1:9.7.16.7).",
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
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [taddr], 64;
        ld.shared.u32 %r1, [taddr];
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
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [taddr], 64;
        ld.shared.u32 %r1, [taddr];
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64;
        ret;
        }
    """,
    proof="A path from the allocation to the end has no deallocation.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
