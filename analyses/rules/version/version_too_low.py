"""V001 version-too-low."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Edit, Fix, Severity
from ptxkit.isa.targets import version_text
from ptxkit.requirement import module_needs
from ptxkit.syntax import Version


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    reports = list(facts.problem_reports(RULE))
    fix = _fix(facts) if reports else None
    return iter([attrs.evolve(report, fix=fix) for report in reports])


def _fix(facts: Facts) -> Fix | None:
    """Raises the version to what the module requires on its target, if the file's own version was checked."""
    target = next((word for word in facts.module.targets if word.startswith("sm_")), None)
    if facts.version is not None or facts.target is not None or target is None:
        return None
    try:
        least = module_needs(facts.module).version_for(target)
    except KeyError:
        return None
    statement = next(((i, child) for i, child in enumerate(facts.module.children) if isinstance(child, Version)), None)
    if least is None or statement is None:
        return None
    text = version_text(least)
    span = facts.index.span((statement[0], 0))
    return Fix(f"make it `.version {text}`", (Edit(span.start, span.end, text),))


RULE = Rule(
    id="V001",
    name="version-too-low",
    severity=Severity.ERROR,
    summary="an instruction that needs a later `.version`",
    why="Each form was introduced with a version of PTX, and the file must declare at least that one (11.1.1).",
    bad="""
        .version 6.0
        .target sm_70
        .address_size 64
        .entry k() { .reg .pred p; .reg .b32 r; activemask.b32 r; ret; }
    """,
    good="""
        .version 6.2
        .target sm_70
        .address_size 64
        .entry k() { .reg .pred p; .reg .b32 r; activemask.b32 r; ret; }
    """,
    ptxas="refuses the bad example: Feature 'activemask' requires PTX ISA .version 6.2 or later",
    proof="The version is in the instruction table.",
    sanitizer="it never gets to run: no assembler accepts it.",
    check=check,
)
