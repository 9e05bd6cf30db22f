"""Errors of a new module that the old one did not have."""

from __future__ import annotations

from collections import Counter

from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.rule import select
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.syntax import Module


def errors(module: Module) -> tuple[Diagnostic, ...]:
    """What an assembler would reject."""
    rules = [rule for rule in select(["E", "V"]) if rule.severity is Severity.ERROR]
    return tuple([found for found in lint(module, rules) if found.severity is Severity.ERROR])


def new_errors(old: Module, new: Module) -> tuple[Diagnostic, ...]:
    """The errors of the new module, except for as many of each rule, function and message as the old one has."""
    after = errors(new)
    if not after:
        return ()
    before = Counter([_key(found) for found in errors(old)])
    fresh = []
    for found in after:
        if before[_key(found)]:
            before[_key(found)] -= 1
        else:
            fresh.append(found)
    return tuple(fresh)


def _key(found: Diagnostic) -> tuple[str, str | None, str]:
    return found.rule, found.function, found.message
