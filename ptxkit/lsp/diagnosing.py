"""The findings of an open file, with the settings of its project."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import attrs

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.linting.kept import Memory
from ptxkit.analyses.linting.linting import lint
from ptxkit.cli._job import Job, rules_of
from ptxkit.configuration import OFF, BadConfiguration, Configuration, find, severity_of
from ptxkit.diagnostics import Diagnostic, Fix, Severity
from ptxkit.lsp.document import Document

QUICK = ("E", "V")
"""The families that need no program analysis: what an assembler rejects."""


_known = Memory()
"""The findings in the functions of documents."""


def path_of(uri: str) -> str | None:
    """The path of a file URI; None for other URIs, such as of a text that was never saved."""
    parts = urlsplit(uri)
    return url2pathname(unquote(parts.path)) if parts.scheme == "file" else None


def settings_of(path: str | None) -> tuple[Configuration, str]:
    """The configuration of a file, and the error in it, if any."""
    try:
        return find(Path(path).resolve().parent if path else Path.cwd()), ""
    except BadConfiguration as error:
        return Configuration(), str(error)


def findings(document: Document, quick: bool = False, go_on: Callable[[], None] = lambda: None) -> tuple[Diagnostic, ...]:
    """The findings in a document; with `quick`, only those of fast rules. Each rule first calls `go_on`, which may raise to abort."""
    go_on()
    rules = tuple([_asking(rule, go_on) for rule in _rules(document.settings) if rule.family in QUICK or not quick])
    found = lint(document.module, rules, facts=document.facts, run=False, store=_known if not quick else None)
    return tuple([_settled(diagnostic, document.settings) for diagnostic in found])


def _asking(rule: Rule, go_on: Callable[[], None]) -> Rule:
    def check(facts: Facts) -> Iterator[Diagnostic]:
        go_on()
        return rule.check(facts)

    return attrs.evolve(rule, check=check)


def is_repairable(found: Diagnostic) -> bool:
    """Whether a repair of a finding is sought."""
    from ptxkit.rewriters.repairs import is_repairable as holds

    return holds(found)


def repaired(document: Document, found: Diagnostic) -> Fix | str:
    """A proved repair of a finding, or the reason why there is none."""
    from ptxkit.rewriters.repairs import offer
    from ptxkit.syntax import parse

    return offer(parse(document.text, document.path), found, _rules(document.settings))


def _rules(settings: Configuration) -> tuple[Rule, ...]:
    """The rules that a project selects; the default ones if it names an unknown rule."""
    try:
        return rules_of(Job(settings.select, settings.ignore, settings.severity))
    except ValueError:
        return rules_of(Job())


def _settled(diagnostic: Diagnostic, settings: Configuration) -> Diagnostic:
    wanted = severity_of(settings.severity, diagnostic.rule, diagnostic.name) if settings.severity else None
    return diagnostic if wanted in (None, OFF) else attrs.evolve(diagnostic, severity=Severity(wanted))
