"""X001 unused-ignore: comments to ptxkit that do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework import rule as rules
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Errors in suppression comments themselves; unused ones are found after the other rules have been applied."""
    for mark in facts.marks:
        if mark.trouble:
            yield facts.report(RULE, mark.span, mark.trouble)
        for word in mark.rules:
            if not any(rules.names_rule(word, rule.id, rule.name) for rule in rules.all_rules()):
                yield facts.report(RULE, mark.span, f"no rule is called `{word}`")


RULE = Rule(
    id="X001",
    name="unused-ignore",
    severity=Severity.WARNING,
    summary="an ignore comment that accepts no finding",
    why=(
        "A comment (4.2) `// ptxkit: ignore[RULES] reason` says that somebody has looked at a finding and accepts it. If the "
        "finding is gone, or no rule has that name, the comment does nothing, or will hide the next finding: remove it."
    ),
    bad="""
        // ptxkit: ignore[C999] there is no such rule
        mov.b32 %r1, %r2;
    """,
    good="""
        // ptxkit: ignore[R001] set by the code before
        mov.b32 %r1, %r2;
    """,
    proof="The comment is compared with what the rules have found.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
