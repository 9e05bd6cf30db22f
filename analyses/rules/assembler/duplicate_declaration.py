"""E015 duplicate-declaration."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit import fixing
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Fix, Severity
from ptxkit.names import Kind, Symbol
from ptxkit.syntax import Declarator


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Names that one scope declares twice."""
    for first, second in facts.names.duplicates:
        yield facts.report(
            RULE,
            second.path,
            f"`{second.name}` is declared twice in one scope",
            related=[(first.path, f"the first declaration, a {first.kind}")],
            fix=_fix(facts, first, second),
        )


def _fix(facts: Facts, first: Symbol, second: Symbol) -> Fix | None:
    """Removes the second declaration, if it declares the same register identically."""
    if first.kind is not Kind.REGISTER or (first.name, first.type, first.vector, first.count) != (
        second.name,
        second.type,
        second.vector,
        second.count,
    ):
        return None
    path = second.path
    while path and not isinstance(facts.module.at(path), Declarator):
        path = path[:-1]
    return Fix("remove the second declaration", (fixing.remove(facts.index, path),)) if path else None


RULE = Rule(
    id="E015",
    name="duplicate-declaration",
    severity=Severity.ERROR,
    summary="a name that one scope declares twice",
    why="Registers, variables, labels, parameters and functions share one space of names in a scope (5.4.1).",
    bad="""
        .reg .u32 twice;
        .reg .f32 twice;
    """,
    good="""
        .reg .u32 once;
        { .reg .f32 once; }
    """,
    ptxas="refuses the bad example: Duplicate definition of variable 'twice'",
    check=check,
)
