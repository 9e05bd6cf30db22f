"""All findings of a module: those of rules, and those of executions of its kernels."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ptxkit.analyses.framework import linting
from ptxkit.analyses.framework.rule import Facts, Rule, folders_for, outside
from ptxkit.analyses.linting.kept import Kept, NotKept, Store, found_again, kept
from ptxkit.analyses.linting.merging import merged
from ptxkit.analyses.linting.parts import Part, PartFacts, keys_of, part_at, parts_of
from ptxkit.analyses.linting.running import MODULE_SECONDS, Shown, shown
from ptxkit.diagnostics import Diagnostic
from ptxkit.memo import collect_new
from ptxkit.syntax import Module

GROUP = 2_000
"""Parts of a module with at least this many instructions are judged and executed together: to load a module takes time that grows with its
number of functions."""


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
    store: Store | None = None,
    only: Collection[str] | None = None,
    processes: int | None = 1,
) -> tuple[Diagnostic, ...]:
    """Like `framework.linting.lint`, but also executes the kernels. An error that an execution can show is reported as an error only if one
    does.

    Without `run` nothing is executed, and what an execution might show is a warning. `also` are results of earlier executions of some
    kernels; the others are executed, within `budget` seconds altogether if given. `store` caches findings by function: functions with an
    entry are not analysed again, and new entries are added. `only` names the functions to analyse; functions that call one another go
    together. Up to `processes` processes, copies of this one, analyse and execute kernels; None: one a core.
    """

    def find(facts: Facts, rules: tuple[Rule, ...]) -> list[Diagnostic]:
        return _found(facts, rules, run, tuple(also), budget, store if budget is None and not also else None, only, processes)

    facts = facts if facts is not None else Facts(module, target, version, executes=run)
    return linting.lint(module, rules, target, version, ignores=ignores, facts=facts, find=find)


def _found(
    facts: Facts,
    rules: tuple[Rule, ...],
    run: bool,
    also: tuple[Shown, ...],
    budget: float | None,
    store: Store | None,
    only: Collection[str] | None,
    processes: int | None,
) -> list[Diagnostic]:
    """The findings of all parts of a module, or of the parts with the functions in `only`, and of the module as a whole."""
    parts = parts_of(facts)
    if only is not None:
        parts = tuple([part for part in parts if not set(only).isdisjoint(_names(facts, part))])
    if all(rule.family in OF_TEXT for rule in rules):
        store = None
    keys = keys_of(facts, parts, rules, run) if store is not None else ()
    again = _again(facts, parts, keys, store)
    fresh = [part for part in parts if part not in again]
    of_module: list[Diagnostic] = []
    argued: dict[Part | None, list[Diagnostic]] = {}
    seen = list(also)
    groups = _groups(fresh) or [[]]
    judge = _Judge(facts, rules, groups, run, frozenset([one.kernel for one in also]), MODULE_SECONDS if budget is None else budget)
    # a budget is one for all kernels
    for one in _judged(judge, 1 if budget is not None else processes):
        of_module += one.of_module
        seen += one.shown
        for finding in one.of_functions:
            argued.setdefault(part_at(parts, facts.index, finding.span.start), []).append(finding)
    if None in argued:
        # these belong to no single part, so nothing can be cached
        store = None
    of_kernel = {one.kernel: one for one in seen}
    found: list[Diagnostic] = []
    new: dict[str, Kept] = {}
    for part in fresh:
        own = [of_kernel[name] for name in _names(facts, part) if name in of_kernel]
        result = merged(rules, argued.pop(part, ()), own)
        found += result
        if store is not None and not any(one.is_cut for one in own):
            try:
                new[keys[parts.index(part)]] = kept(part, result, facts.index)
            except NotKept:
                continue
    if store is not None and new:
        store.save(new)
    for elsewhere in argued.values():
        of_module += [one for one in elsewhere if one not in of_module]
    return [*merged(rules, of_module, ()), *found, *[one for own in again.values() for one in own]]


class _Group(NamedTuple):
    """What rules and executions find in some parts of a module. What rules find in the module as a whole comes with the first ones."""

    of_module: list[Diagnostic]
    of_functions: list[Diagnostic]
    shown: list[Shown]


class _Judge:
    """Judges and executes groups of parts, one after the other. What is known of one is released before the next."""

    def __init__(
        self, facts: Facts, rules: tuple[Rule, ...], groups: list[list[Part]], run: bool, but: frozenset[str], seconds: float
    ) -> None:
        """With `run`, kernels are executed, except those in `but`, for up to so many seconds of a process."""
        self.facts = facts
        self.groups = groups
        self.run = run
        self.but = but
        self._rules = rules
        self._asking: Sequence[Rule] = rules
        """The rules without those that ask for no function."""
        self._left = seconds
        self._has_judged = False

    def __call__(self, number: int) -> _Group:
        if self._has_judged:
            collect_new(age=1)
        self._has_judged = True
        group = self.groups[number]
        judged = PartFacts(self.facts, group, executes=self.run)
        silent = outside(folders_for("").union(*[part.concerns for part in group]))
        found = _Group([], [], [])
        of_text = set()
        for rule in [rule for rule in self._asking if rule.id not in silent]:
            before, after = _argued(rule, judged)
            found.of_module.extend(before if number == 0 else ())
            found.of_functions.extend(after)
            if not judged.is_asked:
                of_text.add(rule.id)
        if of_text:
            self._asking = [rule for rule in self._asking if rule.id not in of_text]
        if self.run:
            begun = time.thread_time()
            found.shown.extend(shown(judged, self._rules, self.but, self._left))
            self._left -= time.thread_time() - begun
        judged.forget()
        return found


def _judged(judge: _Judge, processes: int | None) -> Iterator[_Group]:
    """The findings of each group, in order, by up to so many processes; None: one a core."""
    if processes == 1 or len(judge.groups) == 1:
        yield from map(judge, range(len(judge.groups)))
        return
    from ptxkit import workers

    # the whole module is resolved once, and not by each process
    assert judge.facts.names is not None
    yield from workers.spread(judge, len(judge.groups), workers.cores() if processes is None else processes)


def _groups(parts: Sequence[Part]) -> list[list[Part]]:
    """The parts in groups of at least `GROUP` instructions, in order."""
    found: list[list[Part]] = []
    size = GROUP
    for part in parts:
        if size >= GROUP:
            found.append([])
            size = 0
        found[-1].append(part)
        size += part.instructions
    return found


def _argued(rule: Rule, judged: PartFacts) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The findings of a rule before it asks for functions, which are about the module, and those after."""
    judged.is_asked = False
    of_module: list[Diagnostic] = []
    of_functions: list[Diagnostic] = []
    for one in rule.check(judged):
        (of_functions if judged.is_asked else of_module).append(one)
    return of_module, of_functions


def _names(facts: Facts, part: Part) -> list[str]:
    """The functions of a part, each once."""
    return list(dict.fromkeys([facts.module.children[i].name for i in part.children]))  # type: ignore[attr-defined]


OF_TEXT = "EV"
"""Families of rules about the text of the whole module. Applying them is cheaper than looking up cached findings."""


def _again(facts: Facts, parts: Sequence[Part], keys: Sequence[str], store: Store | None) -> dict[Part, tuple[Diagnostic, ...]]:
    """The parts with a valid cache entry, and their findings."""
    if store is None:
        return {}
    known = store.load(keys)
    wanted = [(part, known[key]) for part, key in zip(parts, keys, strict=True) if key in known]
    found = {part: found_again(part, one, facts.index, facts.module.path) for part, one in wanted}
    return {part: own for part, own in found.items() if own is not None}
