"""V004 launch-bound-conflict."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="V004",
    name="launch-bound-conflict",
    severity=Severity.WARNING,
    summary="launch bounds that contradict each other or the target",
    why=(
        "An assembler ignores bounds that it cannot meet, and a kernel that asks for more than a multiprocessor has cannot be "
        "launched (11.4)."
    ),
    bad=".entry k() .minnctapersm 2 { ret; }",
    good=".entry k() .maxntid 256 .minnctapersm 2 { ret; }",
    ptxas="takes the bad example, and warns: .minnctapersm is ignored when neither .maxntid nor .reqntid is specified.",
    proof="The directives are compared with each other and with the limits of the target.",
    sanitizer="no tool looks for this: the driver reports a kernel that cannot be launched.",
    check=check,
)
