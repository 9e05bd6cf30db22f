"""W003 wgmma-accumulator-in-flight."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.wgmma.register_fences import accessed_in_flight, wgmma
from ptxkit.analyses.rules._reports import in_flight_reports
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Registers of a wgmma that are accessed with no wait for it on the path."""
    for routine in facts.routines:
        found = [access for access in accessed_in_flight(routine) if not access.has_waited]
        why = "nothing has waited for it"
        yield from in_flight_reports(
            facts,
            RULE,
            routine,
            wgmma(routine),
            found,
            why,
            "ptxas inserts a wait, or serializes the operations (C7514, C7517)",
        )


RULE = Rule(
    id="W003",
    name="wgmma-accumulator-in-flight",
    severity=Severity.ERROR,
    summary="a register of a wgmma is read or written before a wait for the wgmma",
    why="The accumulator, and A if it is in registers, belong to the operation until its group has been waited for (9.7.16.7.3).",
    bad="""
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        add.f32 %f5, %f0, %f1;
    """,
    good="""
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
        add.f32 %f5, %f0, %f1;
    """,
    ptxas="takes the bad example, and notes: (C7517) warpgroup.wait is injected in around line 16 by compiler "
    "to allow use of registers defined by GMMA in function 'k'",
    proof="Data flow over registers in flight: a path from the wgmma to the access has no wait.",
    sanitizer="no tool reports it; racecheck and synccheck did not report the one seeded mistake of this kind on an H200.",
    check=check,
)
