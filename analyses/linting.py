"""All findings of a module."""

from __future__ import annotations

from collections.abc import Iterable

from ptxkit.analyses.rule import Facts, Rule, select
from ptxkit.diagnostics import Diagnostic
from ptxkit.memo import collector_paused
from ptxkit.syntax.nodes import Module


def lint(
    module: Module, rules: Iterable[Rule] | None = None, target: str | None = None, version: tuple[int, int] | None = None
) -> tuple[Diagnostic, ...]:
    """The findings of these rules (those on by default if None) in the order of the file.

    `target` and `version` override those that the file names. A rule that fails on a module is a bug of ptxkit and raises.
    """
    facts = Facts(module, target, version)
    with collector_paused():
        found = [diagnostic for rule in (select() if rules is None else rules) for diagnostic in rule.check(facts)]
    return tuple(sorted(found, key=lambda diagnostic: (diagnostic.span.start, diagnostic.span.end, diagnostic.rule)))
