"""W005 wgmma-uncommitted-at-wait."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.wgmma.register_fences import accessed_in_flight, wgmma
from ptxkit.analyses.rules._reports import in_flight_reports
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses to registers of a wgmma after a wait, although it was not committed to any group."""
    for routine in facts.routines:
        found = [access for access in accessed_in_flight(routine) if access.has_waited and access.is_open]
        why = "it was not committed, and a wait is for committed groups only"
        yield from in_flight_reports(facts, RULE, routine, wgmma(routine), found, why, "ptxas accepts this without a warning")


RULE = Rule(
    id="W005",
    name="wgmma-uncommitted-at-wait",
    severity=Severity.ERROR,
    summary="a wait for wgmma groups does not cover a wgmma that is in no group",
    why=("A wait is for groups: before wgmma.commit_group a wgmma is in none, and its registers must not be accessed (9.7.16.7.2-3)."),
    bad="""
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;
        wgmma.wait_group.sync.aligned 0;
        add.f32 %f5, %f0, %f1;
    """,
    good="""
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
        add.f32 %f5, %f0, %f1;
    """,
    proof="Data flow over registers in flight: at the wait, the wgmma is in no group.",
    sanitizer="no tool reports it; racecheck and synccheck did not report the 2 seeded mistakes of this kind on an H200.",
    check=check,
)
