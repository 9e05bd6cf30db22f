"""Evaluation of terms from the values of their leaves: one evaluator for all domains.

A domain computes the value of a term from those of its operands: a number, one number per thread, an interval, the image of a set.
`evaluate` walks a term once, from the leaves up; `domains` defines the domains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from ptxkit.analyses.numbers.arithmetic import OPERATORS, compute
from ptxkit.analyses.symbolic.terms import SUM, Term
from ptxkit.frozen import frozen

V = TypeVar("V")
NONE: tuple[Term, ...] = ()


def operands(at: Term, found: Mapping[Term, V | None]) -> Sequence[Term]:
    """All operands of a term; none for a join, since which one it takes is unknown."""
    return at.inner if at.operator != "join" else NONE


@frozen(eq=False)
class Domain(Generic[V]):
    """A domain of values. None stands for an unknown value."""

    value: Callable[[Term, Mapping[Term, V | None]], V | None]
    """The value of a term, given the values that it needs."""
    needs: Callable[[Term, Mapping[Term, V | None]], Sequence[Term]] = operands
    """The operands whose values a term needs. Called again once they are found, when it may request more; never called for a leaf."""


def evaluate(term: Term, domain: Domain[V], found: dict[Term, V | None] | None = None) -> V | None:
    """The value of a term in a domain; None if unknown.

    `found` caches values, and may be seeded with some; reuse it only with the same leaves.
    """
    known = {} if found is None else found
    needs, value = domain.needs, domain.value
    stack = [term]
    while stack:
        at = stack[-1]
        if at not in known:
            if at.inner:
                missing = [inner for inner in needs(at, known) if inner not in known]
                if missing:
                    stack += missing
                    continue
            known[at] = value(at, known)
        stack.pop()
    return known[term]


def is_atom(term: Term) -> bool:
    """Whether a term's value does not follow from its operands: leaves and joins."""
    return term.operator != SUM and term.operator not in OPERATORS


def numbers(leaf: Callable[[Term], int | None]) -> Domain[int]:
    """The domain of numbers; `leaf` gives the numbers of leaves and joins. For a selection, only the selected side needs one."""

    def value(at: Term, found: Mapping[Term, int | None]) -> int | None:
        operator = at.operator
        if operator == SUM:
            total = at.offset
            for atom, factor in at.parts:
                number = found[atom]
                if number is None:
                    return None
                total += number * factor
            return total & ((1 << at.width) - 1)
        if operator not in OPERATORS:
            return leaf(at)
        if operator == "select":
            condition = found[at.args[0]]
            return None if condition is None else found[at.args[1] if condition else at.args[2]]
        arguments = [found[arg] for arg in at.args]
        if None in arguments:
            return None
        return compute(operator, at.width, arguments, [arg.width for arg in at.args])  # type: ignore[arg-type]

    return Domain(value, _chosen)


def _chosen(at: Term, found: Mapping[Term, int | None]) -> Sequence[Term]:
    if at.operator != "select":
        return operands(at, found)
    condition, yes, no = at.args
    if condition not in found:
        return (condition,)
    holds = found[condition]
    return NONE if holds is None else (yes if holds else no,)


CLOSED = numbers(lambda leaf: None)
"""The number of a term that depends on no leaf except those seeded."""


def number_of(term: Term, leaf: Callable[[Term], int | None] | None = None, found: dict[Term, int | None] | None = None) -> int | None:
    """The number of a term; None if it depends on a leaf without one, or is not determined."""
    return evaluate(term, CLOSED if leaf is None else numbers(leaf), found)
