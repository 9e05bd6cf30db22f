"""F007 wmma-operand-not-warp-uniform."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.protocols.fragments.fragments import matrix_accesses
from ptxkit.analyses.protocols.fragments.warp_values import differing
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Addresses and strides of matrices that provably differ between threads of a warp."""
    for routine in facts.routines:
        for access in matrix_accesses(routine):
            for term, child, what in ((access.address, access.child, "address"), (access.stride, access.stride_child, "stride")):
                found = differing(routine, term) if term is not None else None
                if term is None or found is None:
                    continue
                notes = ["this assumes that a CTA is at least 32 threads wide in x"] if found.assumed else []
                yield facts.report(
                    RULE,
                    (*routine.where(access.instruction), child),
                    f"the {what} must be the same for the whole warp; that of thread {found.other} is"
                    f" {signed(found.difference, term.width)} more than that of thread {found.one}",
                    f"the {what} is {term}",
                    *notes,
                    related=origins(routine, access.instruction, child),
                    severity=Severity.WARNING if found.assumed else Severity.ERROR,
                )


RULE = Rule(
    id="F007",
    name="wmma-operand-not-warp-uniform",
    severity=Severity.ERROR,
    summary="a matrix whose address or stride differs between the threads of a warp",
    why=("A warp loads or stores a matrix together: all of its threads must pass the same address and stride (9.7.15.3.3, 9.7.15.3.4)."),
    bad="""
        mov.u32 %r1, %laneid;
        mul.wide.u32 %rd1, %r1, 32;
        wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd1], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};
    """,
    good="""
        mov.u32 %r1, %laneid;
        shr.u32 %r2, %r1, 5;
        mul.wide.u32 %rd1, %r2, 32;
        wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd1], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};
    """,
    proof="Two threads of a warp are named, with the values that they pass.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
