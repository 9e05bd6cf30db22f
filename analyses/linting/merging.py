"""Merges what rules infer with what executions show, into one finding for each cause."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ptxkit.analyses.framework.reporting import UNSURE_OF_BYTES
from ptxkit.analyses.framework.rule import Rule
from ptxkit.analyses.linting.running import UNINITIALISED, Shown, is_executable
from ptxkit.diagnostics import LONGEST_RELATED, Diagnostic, Related, Severity, Span, brief

COUNTED_GROUPS = frozenset(("wait-before-commit", "wait-group-too-weak", "cpasync-overlap-in-group", "bulk-store-not-committed"))
"""Rules about copies that a wait does not cover, given how it counts groups. One wrong count or missing commit explains all of them."""
VALUES = "R"
"""The family of rules about registers and names, of which each has a finding of its own."""
OUT_OF_BOUNDS = "out-of-bounds-access"
"""The rule about accesses that leave an array."""
EXITED = "exit-before-warp-collective"
"""The rule about threads that miss a warp-level operation because they have exited."""
OF_LOCKS, OF_GLOBALS = "unordered-critical-section", "race-global"
"""The rules about what a lock or flag does not order, and about races in global memory, such as those of a lock itself."""


def merged(rules: Iterable[Rule], argued: Iterable[Diagnostic], shown: Iterable[Shown]) -> list[Diagnostic]:
    """Merges the findings of rules and of executions. A finding of both is reported once, as shown, with the rule's message as a note.

    A certain finding of a rule that no execution showed is a warning; if an execution watched the access in question, it is informational.
    What executions showed only for some inputs counts only if a rule infers the same.
    """
    executable = {rule.id for rule in rules if is_executable(rule)}
    shown = tuple(shown)
    sure = [group for one in shown for group in by_cause(one.findings)]
    causes = [*sure, *[group for one in shown for group in by_cause(one.unsure)]]
    executed = frozenset().union(*[one.lines for one in shown])
    unjudged = frozenset().union(*[one.unjudged for one in shown])
    complete = frozenset().union(*[one.functions for one in shown if one.is_complete])
    matched: dict[int, list[Diagnostic]] = {}
    found: list[Diagnostic] = []
    unmatched: list[Diagnostic] = []
    for one in argued:
        if one.rule not in executable:
            found.append(one)
            continue
        match = next((n for n, other in enumerate(causes) if _is_same(one, other)), None)
        if match is not None:
            matched.setdefault(match, []).append(one)
        elif one.severity is Severity.ERROR:
            is_executed = one.function in complete or one.span.line in executed
            is_whole = one.function in complete and one.span.line in executed and one.name in RELEASES
            is_refuted = (is_whole or (is_executed and _is_of_an_access(one))) and one.span.line not in unjudged
            unmatched.append(attrs.evolve(one, severity=Severity.INFO if is_refuted else Severity.WARNING))
        elif one.severity is Severity.WARNING and _is_watched(one, executed, complete):
            unmatched.append(attrs.evolve(one, severity=Severity.INFO))
        else:
            unmatched.append(one)
    kept = [n for n in range(len(causes)) if n < len(sure) or n in matched]
    explained = [_explained(causes[n], matched.get(n, [])) for n in kept]
    own = [one for one in unmatched if one.rule[0] == VALUES]
    ordered = by_cause([one for one in unmatched if one.rule[0] != VALUES])
    return found + own + ordered + _without_consequences(explained, frozenset([i for i, n in enumerate(kept) if n in matched]))


ACCESSES = frozenset(("misaligned-access", "out-of-bounds-access", "smem-race", "implicit-warp-synchrony"))
"""Rules about a single access, which an execution observes completely: if it ran and nothing was wrong, that outweighs a rule's
suspicion. Not in the list are rules about generic addresses in the wrong state space, since the machine's windows start at multiples of
2^32 and such an address may happen to be valid there; about loads that assume read-only memory; about polling; and about missing
releases."""
RELEASES = frozenset(("wgmma-operand-slot-released",))
"""Rules about data that is written while it is still being read. A run to completion shows this if anything does write it."""
ADDRESSES = frozenset(("mbarrier-alignment", "mbarrier-remote-form", "tmem-alloc-after-relinquish"))
"""Rules about the address of an mbarrier, or whether tensor memory is allocated there."""


IN_FLIGHT = frozenset(("wgmma-accumulator-in-flight", "wgmma-wait-too-weak", "tmem-load-not-waited"))
"""Rules about registers that an operation may still use, of which an execution watches each access. A warning is about some path only."""


def _is_watched(one: Diagnostic, executed: frozenset[int], complete: frozenset[str]) -> bool:
    """Whether an execution has seen what a doubtful finding is about, and found nothing wrong."""
    if one.name in IN_FLIGHT:
        # the operation, its commit and its wait synchronize, so the execution has them; what uses the register may not
        return one.function in complete and {related.span.line for related in one.related} <= executed
    return _is_of_an_access(one) and one.span.line in executed


def _is_of_an_access(one: Diagnostic) -> bool:
    return one.name in ACCESSES


RACES = ("smem-race", "implicit-warp-synchrony")
"""Races in shared memory, the more severe first: between warps, and within one warp."""


def _explained(shown: Diagnostic, argued: list[Diagnostic]) -> Diagnostic:
    """A shown finding, merged with the findings of rules about its cause. The result has the rule and location of one of these, as a
    rule knows what is missing while an execution only sees two accesses. Of races, the more severe rule is kept. What a rule infers with
    certainty and an execution shows for some inputs is at least a warning."""
    argued = sorted(argued, key=lambda one: ORDER.index(one.severity))
    others = [one for one in argued if _is_worse(one, shown)] if shown.name in RACES else argued
    named = next((one for one in argued if one.rule == shown.rule), others[0] if others else None)
    severity = min([shown.severity, *[_unshown(one) for one in argued]], key=ORDER.index)
    known = [note for one in argued for note in one.notes if note not in UNSURE_OF_BYTES]
    notes = dict.fromkeys([*shown.notes, *[one.message for one in argued], *known])
    shown = attrs.evolve(shown, severity=severity, notes=tuple(notes))
    if named is None:
        return shown
    related = _distinct(named.span, [*named.related, Related(shown.span, "the execution shows it here", shown.origin), *shown.related])
    return attrs.evolve(shown, rule=named.rule, name=named.name, span=named.span, origin=named.origin, related=related, fix=named.fix)


ORDER = list(Severity)


def _unshown(one: Diagnostic) -> Severity:
    return max(one.severity, Severity.WARNING, key=ORDER.index)


def _distinct(known: Span, related: Iterable[Related]) -> tuple[Related, ...]:
    """The related locations without repetitions."""
    found: dict[Span, Related] = {}
    for one in related:
        found.setdefault(one.span, one)
    return tuple([one for one in found.values() if one.span != known])


def _without_consequences(found: list[Diagnostic], argued: frozenset[int]) -> list[Diagnostic]:
    """The findings of executions, without deadlocks that follow from an earlier error; these become related locations of that error."""
    causes = [one for one in found if one.severity is Severity.ERROR and not _is_deadlock(one) and one.rule[0] in WAITS]
    kept = []
    follows: dict[int, list[Related]] = {}
    for n, one in enumerate(found):
        cause = next((other for other in causes if other.function == one.function), None)
        if cause is None or n in argued or not _is_deadlock(one):
            kept.append(one)
        else:
            follows.setdefault(id(cause), []).append(Related(one.span, brief(one.message, LONGEST_RELATED), one.origin))
    return [attrs.evolve(one, related=_distinct(one.span, [*one.related, *follows.get(id(one), ())])) for one in kept]


WAITS = "BCM"
"""Families of rules about what threads wait for."""


def _is_deadlock(one: Diagnostic) -> bool:
    return "ends" in (one.witness or ())


def _is_worse(one: Diagnostic, other: Diagnostic) -> bool:
    return one.name in RACES and RACES.index(one.name) < RACES.index(other.name)


def by_cause(findings: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Merges findings with a common cause, such as one missing barrier or fence, into one with the other locations related.

    Findings of one rule have a common cause if they share a location, in the PTX or in the source program; so do all findings about one
    warp-level operation, about one count of groups, and about threads that have exited. Accesses to one variable of shared memory that
    nothing orders have, too, and those that leave one: all copies of an unrolled loop conflict if a barrier or a fence is missing there,
    and use the same index.
    """
    groups: list[tuple[set[tuple[str, int]], list[Diagnostic]]] = []
    for one in findings:
        locations = _locations(one)
        common = [group for group in groups if group[0] & locations]
        together: tuple[set[tuple[str, int]], list[Diagnostic]] = (set(locations), [])
        for group in common:
            together[0].update(group[0])
            together[1].extend(group[1])
            groups.remove(group)
        together[1].append(one)
        groups.append(together)
    found = [_as_one(members) for _, members in groups]
    return [one for one in found if not any(_explains(other, one) for other in found)]


def _explains(other: Diagnostic, one: Diagnostic) -> bool:
    """Whether a finding need not be reported: a race that another rule also reports, a lock that orders nothing since its word is part of
    a race itself, or a read of bytes that have not been written yet, since nothing orders it after the write. A weaker finding explains
    nothing."""
    if ORDER.index(one.severity) < ORDER.index(other.severity):
        return False
    if one.name in RACES:
        return other.name not in RACES and _lines(one) <= _lines(other)
    if one.name == OF_LOCKS:
        return other.name == OF_GLOBALS and not _lines(one).isdisjoint(_lines(other))
    return (
        one.name == UNINITIALISED
        and bool(_conflict(other))
        and other.function == one.function
        and not _lines(one).isdisjoint(_lines(other))
    )


def _lines(one: Diagnostic) -> set[int]:
    return {span.line for span in (one.span, *[related.span for related in one.related])}


def _conflict(one: Diagnostic) -> str:
    """The variable of shared memory that a finding is about, if it is about two accesses to it that nothing orders."""
    witness = one.witness or {}
    kinds = [access["kind"] for access in witness.get("accesses", ())]
    is_one = len(kinds) == 2 and {"read", "write", "update"}.issuperset(kinds) and str(witness.get("space")).startswith("shared")
    return str(witness.get("variable", "")) if is_one else ""


def _left(one: Diagnostic) -> str:
    """The variable of shared memory that an access leaves, if a finding is about that."""
    witness = one.witness or {}
    return str(witness.get("variable", "")) if one.name == OUT_OF_BOUNDS and witness.get("space") == "shared" else ""


def _locations(one: Diagnostic) -> set[tuple[str, int]]:
    """Keys that findings with a common cause share: lines, for a rule or a set of rules."""
    if one.name in COUNTED_GROUPS:
        rule, common = "groups", {(f"groups of {one.function}", 0)}
    elif one.name == EXITED or "exited" in (one.witness or ()):
        rule, common = one.rule[0], {(f"exits of {one.function}", 0)}
    elif variable := _conflict(one) or _left(one):
        rule, common = one.rule, {(f"{one.rule} of {variable} in {one.function}", 0)}
    else:
        rule, common = one.rule[0] if one.rule[0] == "C" else one.rule, set()
    return common | {(rule, span.line) for span in (one.span, *[related.span for related in one.related])}


def _as_one(members: list[Diagnostic]) -> Diagnostic:
    first, *others = sorted(members, key=lambda one: (ORDER.index(one.severity), one.span.start))
    if not others:
        return first
    known = {first.span, *[related.span for related in first.related]}
    related = list(first.related)
    for other in others:
        for one in (Related(other.span, brief(other.message, LONGEST_RELATED), other.origin), *other.related):
            if one.span not in known:
                known.add(one.span)
                related.append(one)
    return attrs.evolve(first, related=tuple(related))


def _is_same(argued: Diagnostic, shown: Diagnostic) -> bool:
    """Whether an inferred finding and a shown one have the same cause: the same family, and a common line.

    An error in an address does not confirm findings of other rules there.
    """
    if argued.rule[0] != shown.rule[0] or argued.function != shown.function:
        return False
    if shown.name in ADDRESSES and argued.rule != shown.rule:
        return False
    lines = {argued.span.line, *[related.span.line for related in argued.related]}
    others = {shown.span.line, *[related.span.line for related in shown.related]}
    if shown.name in COUNTED_GROUPS and lines & others:
        return True
    return argued.span.line in others or shown.span.line in lines
