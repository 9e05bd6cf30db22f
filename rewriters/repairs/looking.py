"""A text and what is found in it: the launches that showed it, and the facts of its functions, which repairs ask again."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ptxkit.analyses.framework.rule import Facts, Rule, select
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.linting.linting import lint
from ptxkit.analyses.linting.running import shown
from ptxkit.diagnostics import Diagnostic
from ptxkit.frozen import frozen
from ptxkit.syntax import parse

if TYPE_CHECKING:
    from ptxkit.analyses.dynamic.once import Ran


class KeptFacts(Facts):
    """Facts that are asked again after linting."""

    def forget(self) -> None:
        """Nothing is let go of."""


@frozen(eq=False)
class Seen:
    """What is found in a text. `facts` are those of its module."""

    text: str
    facts: KeptFacts
    found: tuple[Diagnostic, ...]
    examples: dict[str, tuple[Example, ...]]
    """By kernel, the launches that were made up for it."""
    complete: frozenset[str] = frozenset()
    """The kernels of which a launch ran to completion."""
    ran: Mapping[Example, Ran] = attrs.field(factory=dict)
    """The runs of the usual order."""


@frozen
class Looking:
    """How texts are looked at: the rules, the target and version instead of those of the file, and whether comments accept findings."""

    path: str | None = None
    rules: tuple[Rule, ...] = ()
    target: str | None = None
    version: tuple[int, int] | None = None
    ignores: bool = True

    def at(self, text: str) -> Seen:
        """Everything that is found in a text, by the rules and by executions."""
        return self.of(self.facts(text))

    def of(self, facts: KeptFacts, known: Mapping[Example, Ran] | None = None) -> Seen:
        """Everything that is found in the module of some facts; `known` are executions that there were."""
        ran = dict(known or {})
        runs = shown(facts, self.rules, known=ran)
        found = lint(facts.module, self.rules, self.target, self.version, ignores=self.ignores, facts=facts, run=False, also=runs)
        examples = {one.kernel: one.examples for one in runs}
        return Seen(facts.index.text, facts, found, examples, frozenset([one.kernel for one in runs if one.is_complete]), ran)

    def facts(self, text: str) -> KeptFacts:
        """The facts of a text."""
        return KeptFacts(parse(text, self.path), self.target, self.version)


@functools.cache
def usual_rules() -> tuple[Rule, ...]:
    """The rules that are on by default, and those about what an assembler refuses."""
    chosen = select()
    names = {rule.id for rule in chosen}
    return (*chosen, *[rule for rule in select(["E", "V"]) if rule.id not in names])
