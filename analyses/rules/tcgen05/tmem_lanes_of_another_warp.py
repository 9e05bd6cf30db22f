"""T007 tmem-lanes-of-another-warp."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Nothing: tensor memory addresses come from shared memory. Execution reports this rule."""
    return iter(())


_KERNEL = """
        .version 9.0
        .target sm_100a
        .address_size 64
        .visible .entry k(.param .u64 p) .reqntid 128
        {
        .reg .pred %p<2>;
        .reg .b32 %r<8>;
        .reg .b64 %rd<4>;
        .shared .align 4 .u32 taddr;
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd2, %rd1;
        mov.u32 %r1, %tid.x;
        shr.u32 %r2, %r1, 5;
        setp.ne.u32 %p1, %r2, 0;
        mov.u32 %r3, taddr;
        @%p1 bra ALLOCATED;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;
        ALLOCATED:
        bar.sync 0;
        ld.shared.u32 %r4, [taddr];
        FIRST_LANE
        shl.b32 %r5, %r5, 21;
        add.u32 %r5, %r4, %r5;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r1};
        tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r5];
        tcgen05.wait::ld.sync.aligned;
        mul.wide.u32 %rd3, %r1, 4;
        add.s64 %rd3, %rd2, %rd3;
        st.global.u32 [%rd3], %r6;
        bar.sync 0;
        @%p1 bra END;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
        END:
        ret;
        }
    """

RULE = Rule(
    id="T007",
    name="tmem-lanes-of-another-warp",
    severity=Severity.ERROR,
    summary="a warp accesses lanes of tensor memory that belong to another warp of its warpgroup, or a shift starts within those of one",
    why="Warp n of a warpgroup can access lanes 32 * n to 32 * n + 31 of tensor memory, and no others (9.1:9.7.16.8.1). An address in "
    "lanes 0 to 31 is not a finding: widely used programs give it in all warps, so hardware seems to take it for the lanes of the warp; "
    "`verify` is undecided there. "
    "Likewise the second CTA of a pair may count its lanes from 128. tcgen05.shift starts at a multiple of 32 (9.1:9.7.16.9.3).",
    is_shown=True,
    bad=_KERNEL.replace("FIRST_LANE", "sub.u32 %r5, 3, %r2;"),
    good=_KERNEL.replace("FIRST_LANE", "mov.u32 %r5, %r2;"),
    proof="The kernel is executed in an example launch: a warp uses an address whose lanes belong to another warp.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
