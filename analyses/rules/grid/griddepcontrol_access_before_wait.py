"""G002 griddepcontrol-access-before-wait."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.grid.dependencies import findings
from ptxkit.analyses.protocols.grid.kinds import GridFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses that should follow griddepcontrol.wait."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="G002",
    name="griddepcontrol-access-before-wait",
    severity=Severity.WARNING,
    kind=GridFault.GRIDDEPCONTROL_ACCESS_BEFORE_WAIT,
    summary="global memory is accessed before the wait for the grids that may still write it",
    why="What earlier grids have written is visible only after griddepcontrol.wait (9.7.14.13).",
    bad="""
        .visible .entry k(.param .u64 p)
        {
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd1, %rd1;
        ld.global.u32 %r1, [%rd1];
        griddepcontrol.wait;
        st.global.u32 [%rd1], %r1;
        ret;
        }
    """,
    good="""
        .visible .entry k(.param .u64 p)
        {
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd1, %rd1;
        griddepcontrol.wait;
        ld.global.u32 %r1, [%rd1];
        st.global.u32 [%rd1], %r1;
        ret;
        }
    """,
    proof="Control flow alone: the access comes before the wait on every path. How the kernel is launched is not known, "
    "so it is a warning.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
