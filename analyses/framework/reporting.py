"""Converts findings to diagnostics of the rule that reports them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Fix, Severity

UNSURE_OF_BYTES = ("nothing shows whether these are the same bytes", "they may be different parts of it")
"""Notes on conflicts between accesses whose addresses are unknown. An execution knows the addresses."""
MOST_LINES = 20
"""Maximum number of lines that are listed in one message."""


def reports(
    facts: Facts,
    rule: Rule,
    findings: Callable[[Routine], Iterable[Finding]],
    fix: Callable[[Facts, Routine, int], Fix | None] | None = None,
) -> Iterator[Diagnostic]:
    """The diagnostics of a rule: all findings of its kind in all functions. `fix` gives the fix for the reported instruction."""
    for routine in facts.routines:
        found = [finding for finding in findings(routine) if finding.kind == rule.kind]
        yield from found_reports(facts, rule, routine, found, fix=fix)


def found_reports(
    facts: Facts,
    rule: Rule,
    routine: Routine,
    findings: Iterable[Finding],
    severity: Severity | None = None,
    fix: Callable[[Facts, Routine, int], Fix | None] | None = None,
) -> Iterator[Diagnostic]:
    """A diagnostic for each finding in a function. `severity` defaults to that of the rule; a finding that is not certain is at most a
    warning."""
    for finding in findings:
        where = routine.where(finding.instruction)
        yield facts.report(
            rule,
            where if finding.child is None else (*where, finding.child),
            finding.message,
            *finding.notes,
            *([f"the same holds {lines(facts, routine, finding.others)}"] if finding.others else []),
            related=[(routine.where(i), what) for i, what in finding.steps],
            severity=severity or _severity(rule, finding),
            fix=fix(facts, routine, finding.instruction) if fix is not None else None,
        )


def lines(facts: Facts, routine: Routine, instructions: Iterable[int]) -> str:
    """The lines of instructions, as text: the first ones, and the number of others."""
    found = sorted({facts.index.span((*routine.where(i), 0)).line for i in instructions})
    named = ", ".join(map(str, found[:MOST_LINES]))
    more = f" and {len(found) - MOST_LINES} more" if len(found) > MOST_LINES else ""
    return f"in line {named}" if len(found) == 1 else f"in lines {named}{more}"


def _severity(rule: Rule, finding: Finding) -> Severity:
    if finding.is_note:
        return Severity.INFO
    return rule.severity if finding.is_certain or rule.severity is not Severity.ERROR else Severity.WARNING
