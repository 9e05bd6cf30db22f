"""G001 griddepcontrol-missing-wait."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.grid.dependencies import findings
from ptxkit.analyses.protocols.grid.kinds import GridFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Kernels that launch dependents and read data that a preceding grid may write."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="G001",
    name="griddepcontrol-missing-wait",
    severity=Severity.WARNING,
    kind=GridFault.GRIDDEPCONTROL_MISSING_WAIT,
    summary="a kernel lets dependent grids start early, and never waits for the grids that it depends on itself",
    why=(
        "If an earlier grid uses griddepcontrol.launch_dependents, this one must use griddepcontrol.wait before it accesses what "
        "that grid writes (9.7.14.13)."
    ),
    bad="""
        .visible .entry k(.param .u64 p)
        {
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd1, %rd1;
        ld.global.u32 %r1, [%rd1];
        griddepcontrol.launch_dependents;
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
        griddepcontrol.launch_dependents;
        st.global.u32 [%rd1], %r1;
        ret;
        }
    """,
    proof=(
        "Control flow alone: the kernel launches dependents and reads memory that is not constant, without a wait. How it is "
        "launched is not known, so it is a warning."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
