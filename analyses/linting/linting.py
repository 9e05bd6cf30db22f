"""All findings of a module: those of the rules, and those of executions of its kernels."""

from __future__ import annotations

from collections.abc import Iterable

from ptxkit.analyses.framework import linting
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.linting.merging import merged
from ptxkit.analyses.linting.running import shown
from ptxkit.diagnostics import Diagnostic
from ptxkit.syntax import Module


def lint(
    module: Module,
    rules: Iterable[Rule] | None = None,
    target: str | None = None,
    version: tuple[int, int] | None = None,
    *,
    ignores: bool = True,
    facts: Facts | None = None,
    run: bool = True,
) -> tuple[Diagnostic, ...]:
    """As `framework.linting.lint`, with the kernels executed. An error of a kind that an execution can show is one that was shown.

    Without `run` nothing is executed: what might have been shown is a warning.
    """

    def revise(facts: Facts, rules: tuple[Rule, ...], found: list[Diagnostic]) -> list[Diagnostic]:
        return merged(rules, found, shown(facts, rules) if run else ())

    return linting.lint(module, rules, target, version, ignores=ignores, facts=facts, revise=revise)
