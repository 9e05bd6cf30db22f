"""W001 wgmma-fence-missing."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.wgmma.register_fences import unfenced
from ptxkit.analyses.rules._reports import unfenced_reports
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The first wgmma of a batch, if some path reaches it without a fence since its registers were written."""
    for routine in facts.routines:
        yield from unfenced_reports(facts, RULE, routine, [found for found in unfenced(routine) if found.is_first])


RULE = Rule(
    id="W001",
    name="wgmma-fence-missing",
    severity=Severity.ERROR,
    summary="a batch of wgmma that starts without a wgmma.fence",
    why=(
        "A wgmma.fence must come before the first wgmma, and between other accesses of its registers and the wgmma; otherwise "
        "behavior is undefined (9.7.16.7.1)."
    ),
    bad="""
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
    """,
    good="""
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
    """,
    ptxas="takes the bad example, and notes: (C7519) warpgroup.arrive is injected in around line 13 by "
    "compiler to allow use of registers in GMMA in function 'k'",
    proof="Data flow: a path from the write of the register to the wgmma has no fence.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
