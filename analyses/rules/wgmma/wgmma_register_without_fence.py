"""W002 wgmma-register-without-fence."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.wgmma.register_fences import unfenced
from ptxkit.analyses.rules._reports import unfenced_reports
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Registers that are written between the fence and the wgmma that uses them."""
    for routine in facts.routines:
        yield from unfenced_reports(facts, RULE, routine, [found for found in unfenced(routine) if not found.is_first])


RULE = Rule(
    id="W002",
    name="wgmma-register-without-fence",
    severity=Severity.ERROR,
    summary="a register that is written between wgmma.fence and the wgmma that uses it",
    why="A fence orders what comes before it; a later access of the registers needs another one (9.7.16.7.1).",
    bad="""
        wgmma.fence.sync.aligned;
        mul.f32 %f0, %f0, %f5;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
    """,
    good="""
        mul.f32 %f0, %f0, %f5;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
    """,
    proof="Data flow: the register is written after the last fence before the wgmma; accumulators of the same shape are allowed.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
