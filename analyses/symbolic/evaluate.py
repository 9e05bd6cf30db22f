"""What a term is, from what its leaves are: one evaluator for all domains.

A domain says what a term is from what the terms in it are: a number, a number for each thread, an interval, the image of a set. `evaluate`
goes through a term once, from the leaves up, and asks the domain; `domains` has the domains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from ptxkit.analyses.numbers.arithmetic import OPERATORS, compute
from ptxkit.analyses.symbolic.terms import SUM, Term

V = TypeVar("V")
NONE: tuple[Term, ...] = ()


def operands(at: Term, found: Mapping[Term, V | None]) -> Sequence[Term]:
    """All that a term is made of; nothing of a join, as nobody knows which of its terms it is."""
    return at.inner if at.operator != "join" else NONE


@attrs.frozen(eq=False)
class Domain(Generic[V]):
    """What terms are evaluated to. None stands for what is not known."""

    value: Callable[[Term, Mapping[Term, V | None]], V | None]
    """What a term is, where the mapping has what it needs."""
    needs: Callable[[Term, Mapping[Term, V | None]], Sequence[Term]] = operands
    """Whose values a term needs, of the terms in it. It is asked again when those are found, and may then need more; never of a leaf."""


def evaluate(term: Term, domain: Domain[V], found: dict[Term, V | None] | None = None) -> V | None:
    """What a term is in a domain; None if that is not known.

    `found` remembers what terms are, and may say beforehand what some are; pass the same one only with the same leaves.
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
    """Whether what a term is does not follow from what it is made of: leaves, and joins."""
    return term.operator != SUM and term.operator not in OPERATORS


def numbers(leaf: Callable[[Term], int | None]) -> Domain[int]:
    """The domain of numbers, where `leaf` gives that of each leaf and join. Of what is selected, only the chosen side needs one."""

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
"""Numbers of what depends on no leaf, but for those that are known beforehand."""


def number_of(term: Term, leaf: Callable[[Term], int | None] | None = None, found: dict[Term, int | None] | None = None) -> int | None:
    """The number that a term is; None if it depends on a leaf that has none, or is not determined."""
    return evaluate(term, CLOSED if leaf is None else numbers(leaf), found)
