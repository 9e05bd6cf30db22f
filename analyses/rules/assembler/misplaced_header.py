"""E016 misplaced-header."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.syntax import AddressSize, Node, Path, Target, Version


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Missing, repeated or misordered `.version`, `.target` and `.address_size`."""
    seen: dict[type[Node], Path] = {}
    for i, child in enumerate(facts.module.children):
        kind = type(child)
        if kind not in (Version, Target, AddressSize):
            continue
        word = child.keyword  # type: ignore[attr-defined]
        if kind in seen:
            yield facts.report(RULE, (i,), f"a second `{word}`", related=[(seen[kind], "the first")])
        elif kind is Target and Version not in seen:
            yield facts.report(RULE, (i,), "`.target` before `.version`", "a module starts with `.version`, then `.target`")
        seen.setdefault(kind, (i,))
    for kind in (Version, Target):
        if kind not in seen and facts.module.children:
            yield facts.report(RULE, facts.index.between(0, 0), f"no `{kind.keyword}`", "a module starts with `.version`, then `.target`")


RULE = Rule(
    id="E016",
    name="misplaced-header",
    severity=Severity.ERROR,
    summary="`.version` or `.target` missing, repeated or out of order",
    why="They say how to read the rest of the module, so they come first, and only once (11.1).",
    bad="""
        .version 8.0
        .version 8.1
        .target sm_80
        .address_size 64
        .entry k() { ret; }
    """,
    good="""
        .version 8.0
        .target sm_80
        .address_size 64
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: Missing .target directive at start of file 'example.ptx'",
    check=check,
)
