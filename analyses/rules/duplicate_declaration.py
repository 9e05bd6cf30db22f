"""E015 duplicate-declaration."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Names that one scope declares twice."""
    for first, second in facts.names.duplicates:
        yield facts.report(
            RULE,
            second.path,
            f"`{second.name}` is declared twice in one scope",
            related=[(first.path, f"the first declaration, a {first.kind}")],
        )


RULE = Rule(
    id="E015",
    name="duplicate-declaration",
    severity=Severity.ERROR,
    summary="a name that one scope declares twice",
    why="Registers, variables, labels, parameters and functions share one space of names in a scope (5.4.1).",
    bad=".reg .u32 twice;\n.reg .f32 twice;",
    good=".reg .u32 once;\n{ .reg .f32 once; }",
    check=check,
)
