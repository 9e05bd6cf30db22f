"""The work of `lint` and `check` on one file, in this process or another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ptxkit.configuration import OFF, severity_of
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.analyses.framework.rule import Rule
    from ptxkit.analyses.linting.kept import Store


OF_TEXT = ("E", "V")
"""The rule families about the text of a module as a whole, which need no analysis of functions."""


@frozen
class Job:
    """What to look for. Consists of plain data, so that it can be sent to another process and used as a cache key."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, str] = attrs.field(factory=dict)
    target: str | None = None
    version: tuple[int, int] | None = None
    only_errors: bool = False
    """Whether to omit rules whose findings are not errors."""
    ignores: bool = True
    """Whether comments in the file may suppress findings."""
    run: bool = True
    """Whether to execute kernels."""
    repairs: bool = False
    """Whether to search for repairs of findings."""
    functions: tuple[str, ...] | None = None
    """The functions to examine; None for all."""


@frozen
class Examined:
    """The findings of a file."""

    name: str
    diagnostics: tuple[Diagnostic, ...] = ()
    lines: list[str] = attrs.field(factory=list)
    """The lines of the file, if there are findings."""
    unreadable: str = ""
    """Why it could not be read, if so."""


def rules_of(job: Job, text: str | None = None) -> tuple[Rule, ...]:
    """The rules that a job applies; with a `text`, those that may find something in it. Raises ValueError for a word that names no rule."""
    from ptxkit.analyses.framework.rule import names_rule, select

    for word in job.severity:
        select([word])
    off = [word for word, value in job.severity.items() if value == OFF]
    chosen = select(job.select, job.ignore, text)
    if not job.select and job.severity:
        # a severity for a rule by its own name turns it on
        on = [word for word, value in job.severity.items() if value != OFF and len(word) > 1 and word.upper() != "ALL"]
        wanted = {rule.id for rule in chosen} | {rule.id for rule in select(on, job.ignore, text)} if on else {rule.id for rule in chosen}
        chosen = tuple([rule for rule in select(["ALL"], text=text) if rule.id in wanted])
    chosen = tuple([rule for rule in chosen if not any(names_rule(word, rule.id, rule.name) for word in off)]) if off else chosen
    return tuple([rule for rule in chosen if rule.severity is Severity.ERROR]) if job.only_errors else chosen


def examine_text(name: str, text: str, job: Job, store: Store | None = None, processes: int | None = 1) -> Examined:
    """Applies the rules to a text, except to functions in the store. An exception is a bug of ptxkit."""
    from ptxkit.analyses.framework import linting
    from ptxkit.syntax import parse

    rules = rules_of(job, text)
    if job.repairs:
        from ptxkit.rewriters.repairs import offers

        found = offers(parse(text, name), rules, target=job.target, version=job.version, ignores=job.ignores)
    elif {one.family for one in rules} <= {*OF_TEXT}:
        # only other families have executions
        found = linting.lint(parse(text, name), rules, job.target, job.version, ignores=job.ignores)
    else:
        from ptxkit.analyses.linting.linting import lint

        module = parse(text, name)
        found = lint(
            module,
            rules,
            job.target,
            job.version,
            ignores=job.ignores,
            run=job.run,
            store=store,
            only=job.functions,
            processes=processes,
        )
    if job.functions is not None:
        found = tuple([diagnostic for diagnostic in found if diagnostic.function in job.functions])
    if job.severity:
        found = tuple([with_severity(diagnostic, job.severity) for diagnostic in found])
    return Examined(name, found, lines_of(text) if found else [])


def lines_of(text: str) -> list[str]:
    """The lines of a text without line ends."""
    return text.replace("\r\n", "\n").split("\n")


def with_severity(diagnostic: Diagnostic, settings: Mapping[str, str]) -> Diagnostic:
    """The finding with the severity configured for its rule."""
    wanted = severity_of(settings, diagnostic.rule, diagnostic.name)
    return diagnostic if wanted in (None, OFF) else attrs.evolve(diagnostic, severity=Severity(wanted))
