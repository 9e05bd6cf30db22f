"""All findings of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from ptxkit import suppressions
from ptxkit.analyses.framework.rule import Facts, Rule, names_rule, select
from ptxkit.debug_info import parameter_names
from ptxkit.demangling import in_prose
from ptxkit.diagnostics import Diagnostic, Edit, Fix, brief
from ptxkit.fixing import line_of
from ptxkit.memo import collector_paused
from ptxkit.origins import with_origins
from ptxkit.suppressions import Mark
from ptxkit.syntax import Function, Module


def lint(
    module: Module,
    rules: Iterable[Rule] | None = None,
    target: str | None = None,
    version: tuple[int, int] | None = None,
    *,
    ignores: bool = True,
    facts: Facts | None = None,
    find: Callable[[Facts, tuple[Rule, ...]], list[Diagnostic]] | None = None,
) -> tuple[Diagnostic, ...]:
    """The findings of the given rules (those on by default if None) in file order, without those that a comment suppresses.

    `target` and `version` override those in the file. With `ignores=False`, suppression comments are ignored. `facts` are facts of the
    module for this target and version that were computed earlier. `find` replaces the default, which is to apply all rules. An exception in
    a rule is a bug of ptxkit and propagates.
    """
    facts = facts if facts is not None else Facts(module, target, version)
    rules = select(text=facts.index.text) if rules is None else tuple(rules)
    with collector_paused():
        found = find(facts, rules) if find is not None else [diagnostic for rule in rules for diagnostic in rule.check(facts)]
        facts.forget()
    marks = facts.marks if ignores else ()
    if marks:
        found, used = suppressions.apply(found, marks, lambda word, diagnostic: names_rule(word, diagnostic.rule, diagnostic.name))
        unused = next((rule for rule in rules if rule.name == "unused-ignore"), None)
        if unused is not None:
            found += _unused(facts, unused, rules, marks, used)
    if found:
        found = _readable(module, with_origins(module, facts.index, found))
    return tuple(sorted(found, key=lambda diagnostic: (diagnostic.span.start, diagnostic.span.end, diagnostic.rule)))


def _readable(module: Module, found: list[Diagnostic]) -> list[Diagnostic]:
    """The findings with source-level names in their messages: demangled functions, and parameters by name or number."""
    functions = frozenset([child.name for child in module.children if isinstance(child, Function)])

    def prose(text: str, within: str | None) -> str:
        return in_prose(text, functions, parameter_names(module) if "_param_" in text else None, within)

    readable = []
    for one in found:
        texts = [one.message, *one.notes, *[related.message for related in one.related]]
        said = [prose(text, one.function) for text in texts]
        said[0] = brief(said[0])
        if said != texts:
            notes, steps = said[1 : 1 + len(one.notes)], said[1 + len(one.notes) :]
            related = [attrs.evolve(old, message=new) for old, new in zip(one.related, steps, strict=True)]
            one = attrs.evolve(one, message=said[0], notes=tuple(notes), related=tuple(related))
        if one.witness is not None and "inputs" in one.witness:
            one = attrs.evolve(one, witness={**one.witness, "inputs": prose(one.witness["inputs"], one.function)})
        readable.append(one)
    return readable


def _unused(facts: Facts, unused: Rule, rules: tuple[Rule, ...], marks: tuple[Mark, ...], used: set[Mark]) -> Iterator[Diagnostic]:
    """Reports suppression comments that suppress nothing although one of their rules was applied."""
    for mark in marks:
        applied = [word for word in mark.rules if any(names_rule(word, rule.id, rule.name) for rule in rules)]
        if mark not in used and applied:
            fix = Fix("remove the comment", (_without(facts, mark),)) if len(applied) == len(mark.rules) else None
            yield facts.report(unused, mark.span, f"nothing is found here by {', '.join(applied)}", fix=fix)


def _without(facts: Facts, mark: Mark) -> Edit:
    """Removes a comment with the white space before it, or its whole line if nothing else is on it."""
    text, start, end = facts.index.text, mark.span.start, mark.span.end
    line = line_of(text, start, end)
    if line is not None:
        return Edit(*line, "")
    while start and text[start - 1] in " \t":
        start -= 1
    return Edit(start, end, "")
