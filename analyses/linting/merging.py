"""What rules argue and what executions show, put together: one finding for one cause."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ptxkit.analyses.framework.rule import Rule
from ptxkit.analyses.linting.running import Shown, is_executable
from ptxkit.diagnostics import Diagnostic, Related, Severity


def merged(rules: Iterable[Rule], argued: Iterable[Diagnostic], shown: Iterable[Shown]) -> list[Diagnostic]:
    """The findings of rules and of executions. One that is argued and shown stands once, as shown, with what was argued as a note.

    What is argued and not shown is a warning at most; an info where the kernel ran to completion.
    """
    executable = {rule.id for rule in rules if is_executable(rule)}
    shown = tuple(shown)
    causes = [group for one in shown for group in by_cause(one.findings)]
    complete = frozenset().union(*[one.functions for one in shown if one.is_complete])
    matched: dict[int, list[Diagnostic]] = {}
    found = []
    for one in argued:
        if one.rule not in executable:
            found.append(one)
            continue
        match = next((n for n, other in enumerate(causes) if _is_same(one, other)), None)
        if match is not None:
            matched.setdefault(match, []).append(one)
        elif one.severity is Severity.ERROR:
            found.append(attrs.evolve(one, severity=Severity.INFO if one.function in complete else Severity.WARNING))
        else:
            found.append(one)
    found += [_explained(one, matched.get(n, [])) for n, one in enumerate(causes)]
    return found


RACES = ("smem-race", "implicit-warp-synchrony")
"""Races of shared memory, the worse one first: of threads of different warps, and of one warp."""


def _explained(shown: Diagnostic, argued: list[Diagnostic]) -> Diagnostic:
    """A shown finding with what rules say of its cause: as that of one of these rules, as they know more of what is missing than who sees
    two accesses. Of races, the worse one stands."""
    named = next((one for one in argued if one.rule == shown.rule), None)
    others = [one for one in argued if _is_worse(one, shown)] if shown.name in RACES else argued
    if named is None and others:
        named = others[0]
        shown = attrs.evolve(shown, rule=named.rule, name=named.name)
    notes = dict.fromkeys([*shown.notes, *[one.message for one in argued], *[note for one in argued for note in one.notes]])
    return attrs.evolve(shown, notes=tuple(notes), fix=named.fix if named is not None else shown.fix)


def _is_worse(one: Diagnostic, other: Diagnostic) -> bool:
    return one.name in RACES and RACES.index(one.name) < RACES.index(other.name)


def by_cause(findings: Iterable[Diagnostic]) -> list[Diagnostic]:
    """One finding for all that one missing barrier or fence explains, with the other locations related.

    Findings of one rule have a cause in common if they have a location in common, in the PTX or in the program that was compiled.
    """
    groups: list[tuple[set[tuple[str, int]], list[Diagnostic]]] = []
    for one in findings:
        locations = {(one.rule, span.line) for span in (one.span, *[related.span for related in one.related])}
        common = [group for group in groups if group[0] & locations]
        together: tuple[set[tuple[str, int]], list[Diagnostic]] = (set(locations), [])
        for group in common:
            together[0].update(group[0])
            together[1].extend(group[1])
            groups.remove(group)
        together[1].append(one)
        groups.append(together)
    found = [_as_one(members) for _, members in groups]
    reported = [locations for locations, members in groups if members[0].name not in RACES]
    # a race that is also known by what is missing is reported once
    return [
        one for one, (locations, _) in zip(found, groups, strict=True) if one.name not in RACES or not _is_reported(locations, reported)
    ]


def _is_reported(locations: set[tuple[str, int]], others: list[set[tuple[str, int]]]) -> bool:
    lines = {line for _, line in locations}
    return any(lines <= {line for _, line in other} for other in others)


def _as_one(members: list[Diagnostic]) -> Diagnostic:
    order = list(Severity)
    first, *others = sorted(members, key=lambda one: (order.index(one.severity), one.span.start))
    if not others:
        return first
    known = {first.span, *[related.span for related in first.related]}
    related = list(first.related)
    for other in others:
        for span in (other.span, *[one.span for one in other.related]):
            if span not in known:
                known.add(span)
                related.append(Related(span, other.message))
    return attrs.evolve(first, related=tuple(related))


def _is_same(argued: Diagnostic, shown: Diagnostic) -> bool:
    """Whether an argued finding and a shown one are about one cause: of one family, and with a line in common."""
    if argued.rule[0] != shown.rule[0] or argued.function != shown.function:
        return False
    lines = {argued.span.line, *[related.span.line for related in argued.related]}
    others = {shown.span.line, *[related.span.line for related in shown.related]}
    return argued.span.line in others or shown.span.line in lines
