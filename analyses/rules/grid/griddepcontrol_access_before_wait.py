"""G002 griddepcontrol-access-before-wait."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.grid.dependencies import findings
from ptxkit.analyses.protocols.grid.kinds import GridFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses that should come after griddepcontrol.wait."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="G002",
    name="griddepcontrol-access-before-wait",
    severity=Severity.WARNING,
    kind=GridFault.GRIDDEPCONTROL_ACCESS_BEFORE_WAIT,
    summary="global memory is touched before the wait for the grids that may still write it",
    why="What earlier grids have written is visible only behind griddepcontrol.wait (9.7.14.13).",
    bad=(
        ".version 8.5\n"
        ".target sm_90\n"
        ".address_size 64\n"
        ".visible .entry k(.param .u64 p)\n"
        "{\n"
        ".reg .pred %p<4>;\n"
        ".reg .b32 %r<8>;\n"
        ".reg .b64 %rd<8>;\n"
        "ld.param.u64 %rd1, [p];\n"
        "cvta.to.global.u64 %rd1, %rd1;\n"
        "ld.global.u32 %r1, [%rd1];\n"
        "griddepcontrol.wait;\n"
        "st.global.u32 [%rd1], %r1;\n"
        "ret;\n"
        "}\n"
    ),
    good=(
        ".version 8.5\n"
        ".target sm_90\n"
        ".address_size 64\n"
        ".visible .entry k(.param .u64 p)\n"
        "{\n"
        ".reg .pred %p<4>;\n"
        ".reg .b32 %r<8>;\n"
        ".reg .b64 %rd<8>;\n"
        "ld.param.u64 %rd1, [p];\n"
        "cvta.to.global.u64 %rd1, %rd1;\n"
        "griddepcontrol.wait;\n"
        "ld.global.u32 %r1, [%rd1];\n"
        "st.global.u32 [%rd1], %r1;\n"
        "ret;\n"
        "}\n"
    ),
    proof="Control flow alone: the access comes before the wait on every way. How the kernel is launched is not known, so it is a warning.",
    sanitizer="no tool of it looks for this.",
    check=check,
)
