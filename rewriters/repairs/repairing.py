"""Repairs of a module: offers for what is found in it, and a module in which nothing is left that could be repaired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from ptxkit.analyses.framework.rule import Rule
from ptxkit.diagnostics import Diagnostic, Fix, Severity
from ptxkit.frozen import frozen
from ptxkit.revalidation.chain import VALIDATORS
from ptxkit.rewriters.repairs.account import described
from ptxkit.rewriters.repairs.looking import Looking, Seen, usual_rules
from ptxkit.rewriters.repairs.solving import Solution, Unsolved, solve
from ptxkit.syntax import Module

FAMILIES = "CBAMWTPSG"
"""The rules of which a finding may have a local cure, by the first letter of their ids."""


@frozen
class Repair:
    """A proved repair of a finding. `fix` has its edits, in the text in which the finding was found."""

    finding: Diagnostic
    fix: Fix
    tries: int
    """How many candidates were tried."""


@frozen
class Left:
    """A finding that could not be repaired, and why."""

    finding: Diagnostic
    why: str


@frozen
class Repaired:
    """What came of repairing a text."""

    text: str
    repairs: tuple[Repair, ...]
    """In the order in which they were made; each is of the text that those before it left."""
    left: tuple[Left, ...]
    """What is found in the text now: errors and warnings."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left."""
        return not self.left


def offers(
    module: Module,
    rules: Iterable[Rule] | None = None,
    *,
    target: str | None = None,
    version: tuple[int, int] | None = None,
    ignores: bool = True,
    compilers: Sequence[str] = VALIDATORS,
) -> tuple[Diagnostic, ...]:
    """The findings of a module as `lint` has them; the errors and warnings that a proved repair cures have it as their fix.

    `compilers` are asked about each repair, if they are there.
    """
    looking = Looking(module.path, tuple(rules) if rules is not None else usual_rules(), target, version, ignores)
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
    """Repairs one finding after the other, until nothing is left that can be repaired."""
    looking = Looking(module.path, tuple(rules) if rules is not None else usual_rules(), target, version, ignores)
    seen = looking.at(module.text)
    repairs: list[Repair] = []
    unsolved: dict[tuple[str, str], str] = {}
    while (found := next(_solved(looking, seen, compilers, unsolved), None)) is not None:
        one, solved = found
        repairs.append(Repair(one, described(seen, one, solved), solved.tries))
        seen = solved.after
    bad = [one for one in seen.found if one.severity is not Severity.INFO]
    left = [Left(one, unsolved.get(_identity(seen, one), "it is not of a kind that has a local cure")) for one in bad]
    return Repaired(seen.text, tuple(repairs), tuple(left))


def _solved(
    looking: Looking, seen: Seen, compilers: Sequence[str], unsolved: dict[tuple[str, str], str]
) -> Iterator[tuple[Diagnostic, Solution]]:
    """The findings of a text that can be repaired; of the others, why not is put into `unsolved`."""
    for one in sorted(seen.found, key=lambda one: list(Severity).index(one.severity)):
        if not is_repairable(one) or _identity(seen, one) in unsolved:
            continue
        solved = solve(looking, seen, one, compilers)
        if isinstance(solved, Unsolved):
            unsolved[_identity(seen, one)] = solved.why
        else:
            yield one, solved


def is_repairable(one: Diagnostic) -> bool:
    """Whether a repair is looked for."""
    return one.severity is not Severity.INFO and one.rule[0] in FAMILIES and one.function is not None


def _identity(seen: Seen, one: Diagnostic) -> tuple[str, str]:
    """What a finding is known by though repairs move it."""
    return one.rule, seen.facts.index.line_text(one.span.line)
