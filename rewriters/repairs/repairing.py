"""Repairs a module: offers for its findings, or a module with everything repaired that can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from ptxkit.analyses.framework.rule import Rule
from ptxkit.diagnostics import Diagnostic, Fix, Severity
from ptxkit.frozen import frozen
from ptxkit.memo import collector_paused
from ptxkit.revalidation.chain import VALIDATORS
from ptxkit.rewriters.repairs.account import described
from ptxkit.rewriters.repairs.looking import Looking, Seen, usual_rules
from ptxkit.rewriters.repairs.solving import Solution, Unsolved, solve
from ptxkit.syntax import Module

FAMILIES = "CBAMWTPSG"
"""The rule families whose findings may have a local cure, by the first letter of their ids."""


@frozen
class Repair:
    """A proved repair of a finding. `fix` holds its edits, relative to the text of the finding."""

    finding: Diagnostic
    fix: Fix
    text: str
    """The text of the finding."""
    tries: int
    """The number of candidates tried."""


@frozen
class Left:
    """A finding that could not be repaired, and why."""

    finding: Diagnostic
    why: str


@frozen
class Repaired:
    """The result of repairing a text."""

    text: str
    repairs: tuple[Repair, ...]
    """In the order in which they were made; each applies to the text left by the previous ones."""
    left: tuple[Left, ...]
    """The remaining errors and warnings."""
    found: tuple[Diagnostic, ...] = ()
    """All remaining findings."""

    @property
    def is_clean(self) -> bool:
        """Whether no error or warning remains."""
        return not self.left

    def as_json(self) -> dict[str, Any]:
        """The repairs in the JSON format of `ptxkit repair`, version 1."""
        return {
            "version": 1,
            "is_clean": self.is_clean,
            "repairs": [{**attrs.evolve(one.finding, fix=one.fix).as_json(), "tries": one.tries} for one in self.repairs],
            "left": [{**one.finding.as_json(), "why_left": one.why} for one in self.left],
        }


def offers(
    module: Module,
    rules: Iterable[Rule] | None = None,
    *,
    target: str | None = None,
    version: tuple[int, int] | None = None,
    ignores: bool = True,
    compilers: Sequence[str] = VALIDATORS,
) -> tuple[Diagnostic, ...]:
    """The findings of a module as from `lint`; errors and warnings with a proved repair have it as their fix.

    `compilers` check each repair, if available.
    """
    looking = Looking(module.path, tuple(rules) if rules is not None else usual_rules(), target, version, ignores)
    with collector_paused():
        return _offers(looking, module, compilers)


def _offers(looking: Looking, module: Module, compilers: Sequence[str]) -> tuple[Diagnostic, ...]:
    seen = looking.at(module.text)
    found = []
    for one in seen.found:
        solved = solve(looking, seen, one, compilers) if is_repairable(one) else None
        found.append(attrs.evolve(one, fix=described(seen, one, solved)) if isinstance(solved, Solution) else one)
    return tuple(found)


def repair(
    module: Module,
    rules: Iterable[Rule] | None = None,
    *,
    target: str | None = None,
    version: tuple[int, int] | None = None,
    ignores: bool = True,
    compilers: Sequence[str] = VALIDATORS,
) -> Repaired:
    """Repairs one finding after another, until no more can be repaired."""
    looking = Looking(module.path, tuple(rules) if rules is not None else usual_rules(), target, version, ignores)
    with collector_paused():
        return _repaired(looking, module, compilers)


def _repaired(looking: Looking, module: Module, compilers: Sequence[str]) -> Repaired:
    seen = looking.at(module.text)
    repairs: list[Repair] = []
    unsolved: dict[tuple[str, str], str] = {}
    while (found := next(_solved(looking, seen, compilers, unsolved), None)) is not None:
        one, solved = found
        repairs.append(Repair(one, described(seen, one, solved), seen.text, solved.tries))
        seen = solved.after
    bad = [one for one in seen.found if one.severity is not Severity.INFO]
    left = [Left(one, unsolved.get(_identity(seen, one), "no known edit fixes this kind of finding")) for one in bad]
    return Repaired(seen.text, tuple(repairs), tuple(left), seen.found)


def _solved(
    looking: Looking, seen: Seen, compilers: Sequence[str], unsolved: dict[tuple[str, str], str]
) -> Iterator[tuple[Diagnostic, Solution]]:
    """The findings of a text that can be repaired; for the others, the reason is entered into `unsolved`."""
    for one in sorted(seen.found, key=lambda one: list(Severity).index(one.severity)):
        if not is_repairable(one) or _identity(seen, one) in unsolved:
            continue
        solved = solve(looking, seen, one, compilers)
        if isinstance(solved, Unsolved):
            unsolved[_identity(seen, one)] = solved.why
        else:
            yield one, solved


def offer(module: Module, finding: Diagnostic, rules: Iterable[Rule] | None = None, *, compilers: Sequence[str] = VALIDATORS) -> Fix | str:
    """The repair of a finding made without execution, as in an editor, or the reason why there is none: the executed findings are
    searched for one of the same function that shares a line with it."""
    looking = Looking(module.path, tuple(rules) if rules is not None else usual_rules())
    seen = looking.at(module.text)
    lines = _lines(finding)
    same = [one for one in seen.found if one.function == finding.function and is_repairable(one) and _lines(one) & lines]
    for one in sorted(same, key=lambda one: (one.rule != finding.rule, list(Severity).index(one.severity))):
        solved = solve(looking, seen, one, compilers)
        if isinstance(solved, Solution):
            return described(seen, one, solved)
        return solved.why
    return "no execution shows it, and no known edit fixes this kind of finding"


def _lines(one: Diagnostic) -> set[int]:
    return {one.span.line, *[related.span.line for related in one.related]}


def is_repairable(one: Diagnostic) -> bool:
    """Whether a repair is sought."""
    return one.severity is not Severity.INFO and one.rule[0] in FAMILIES and one.function is not None


def _identity(seen: Seen, one: Diagnostic) -> tuple[str, str]:
    """The identity of a finding, unaffected by repairs that move it."""
    return one.rule, seen.facts.index.line_text(one.span.line)
