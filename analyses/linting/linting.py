"""All findings of a module: those of the rules, and those of executions of its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptxkit.analyses.framework import linting
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.linting.merging import merged
from ptxkit.analyses.linting.running import Shown, shown
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
    also: Sequence[Shown] = (),
    budget: float | None = None,
) -> tuple[Diagnostic, ...]:
    """As `framework.linting.lint`, with the kernels executed. An error of a kind that an execution can show is one that was shown.

    Without `run` nothing is executed: what might have been shown is a warning. `also` is what executions of some kernels have shown
    already; the others are executed, for `budget` seconds altogether, if that is given.
    """

    def revise(facts: Facts, rules: tuple[Rule, ...], found: list[Diagnostic]) -> list[Diagnostic]:
        return merged(rules, found, (*also, *(shown(facts, rules, frozenset([one.kernel for one in also]), budget) if run else ())))

    return linting.lint(module, rules, target, version, ignores=ignores, facts=facts, revise=revise)
