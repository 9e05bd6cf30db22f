"""What is found about a protocol, as diagnostics of the rule that tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import Finding
from ptxkit.diagnostics import Diagnostic, Fix, Severity


def reports(
    facts: Facts,
    rule: Rule,
    findings: Callable[[Routine], Iterable[Finding]],
    fix: Callable[[Facts, Routine, int], Fix | None] | None = None,
) -> Iterator[Diagnostic]:
    """The diagnostics of a rule, of all functions. What is not certain is a warning at most. `fix` cures the instruction it is told of."""
    for routine in facts.routines:
        for finding in findings(routine):
            if finding.rule != rule.id:
                continue
            where = routine.where(finding.instruction)
            yield facts.report(
                rule,
                where if finding.child is None else (*where, finding.child),
                finding.message,
                *finding.notes,
                related=[(routine.where(i), what) for i, what in finding.steps],
                severity=_severity(rule, finding),
                fix=fix(facts, routine, finding.instruction) if fix is not None else None,
            )


def _severity(rule: Rule, finding: Finding) -> Severity:
    if finding.is_note:
        return Severity.INFO
    return rule.severity if finding.is_certain or rule.severity is not Severity.ERROR else Severity.WARNING
