"""A text with its findings: the launches that showed them, and the facts of its functions, which repairs reuse."""

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
    """Facts that are kept after linting."""

    def forget(self) -> None:
        """Keeps everything."""


@frozen(eq=False)
class Seen:
    """The findings of a text. `facts` are those of its module."""

    text: str
    facts: KeptFacts
    found: tuple[Diagnostic, ...]
    examples: dict[str, tuple[Example, ...]]
    """The example launches, by kernel."""
    complete: frozenset[str] = frozenset()
    """The kernels with a launch that ran to completion."""
    ran: Mapping[Example, Ran] = attrs.field(factory=dict)
    """The runs under the default schedule."""


@frozen
class Looking:
    """How texts are analyzed: the rules, the target and version that override those of the file, and whether comments suppress findings."""

    path: str | None = None
    rules: tuple[Rule, ...] = ()
    target: str | None = None
    version: tuple[int, int] | None = None
    ignores: bool = True

    def at(self, text: str) -> Seen:
        """All findings of a text, by the rules and by execution."""
        return self.of(self.facts(text))

    def of(self, facts: KeptFacts, known: Mapping[Example, Ran] | None = None) -> Seen:
        """All findings of the module of some facts; `known` are runs already available."""
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
    """The rules enabled by default, and those for what an assembler rejects."""
    chosen = select()
    names = {rule.id for rule in chosen}
    return (*chosen, *[rule for rule in select(["E", "V"]) if rule.id not in names])
