"""Domains that `evaluate` works in besides that of numbers: many numbers at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.numbers.intervals import Interval, just
from ptxkit.analyses.symbolic.evaluate import NONE, Domain, evaluate, is_atom, operands
from ptxkit.analyses.symbolic.terms import SUM, Term
from ptxkit.analyses.symbolic.vectors import Numbers, combined, of_one


def lanes(leaf: Callable[[Term], Numbers | None], count: int) -> Domain[Numbers]:
    """A number for each of `count` threads, where `leaf` gives those of each leaf and join.

    A term has a number for all threads or is unknown. Where all of them select the same side, the other need not be known.
    """

    def value(at: Term, found: Mapping[Term, Numbers | None]) -> Numbers | None:
        return leaf(at) if is_atom(at) else of_lanes(at, found, count)

    return Domain(value, needs_of_lanes)


def of_lanes(at: Term, found: Mapping[Term, Numbers | None], count: int) -> Numbers | None:
    """What a sum or an operator gives for each of `count` threads, where `found` has what `needs_of_lanes` asked for."""
    if at.operator != "select":
        return combined(at, found, count)
    condition = found[at.args[0]]
    if condition is None:
        return None
    side = _side(condition)
    return combined(at, found, count) if side is None else found[at.args[side]]


def needs_of_lanes(at: Term, found: Mapping[Term, Numbers | None]) -> Sequence[Term]:
    """Whose numbers a term needs: of what is selected the condition, and then the sides that some thread chooses."""
    if at.operator != "select":
        return operands(at, found)
    if at.args[0] not in found:
        return at.args[:1]
    condition = found[at.args[0]]
    if condition is None:
        return NONE
    side = _side(condition)
    return at.args[1:] if side is None else (at.args[side],)


def _side(condition: Numbers) -> int | None:
    """Which argument of a selection all threads choose; None if they do not choose the same."""
    if 0 not in condition:
        return 1
    return None if 1 in condition else 2


Image = tuple[int | None, ...]


def _images(count: int) -> Domain[Image]:
    """A number for each of `count` choices of what is known beforehand; None where it depends on more, or is not determined."""
    unknown: Image = (None,) * count

    def value(at: Term, found: Mapping[Term, Image | None]) -> Image:
        if is_atom(at):
            return unknown
        if not at.inner:
            return (at.offset,) * count
        columns = [found[inner] or unknown for inner in at.inner]
        return tuple([_of_some(at, one) for one in zip(*columns, strict=True)])

    return Domain(value)


def _of_some(at: Term, one: tuple[int | None, ...]) -> int | None:
    if at.operator == "select":
        return None if one[0] is None else one[1 if one[0] else 2]
    return None if None in one else of_one(at, one)  # type: ignore[arg-type]


def image(term: Term, variable: Term, choices: Sequence[int]) -> Image:
    """The image of a set: what a term is for each number that something in it may be."""
    return evaluate(term, _images(len(choices)), {variable: tuple(choices)}) or ()


def intervals(given: Callable[[Term], Interval | None]) -> Domain[Interval]:
    """The unsigned numbers that a term may be, where `given` says it of leaves and of what more is known of than of its parts.

    Sums and products follow from their parts, unless they may wrap around; other terms have the bounds that they know themselves.
    """

    def needs(at: Term, found: Mapping[Term, Interval | None]) -> Sequence[Term]:
        if at.operator not in ("mul", SUM) or given(at) is not None:
            return NONE
        return (*at.inner, *[divided[1] for atom, _ in at.parts if (divided := _divided(atom)) is not None])

    def value(at: Term, found: Mapping[Term, Interval | None]) -> Interval:
        own = given(at)
        if own is not None:
            return own
        known = Interval(*at.bounds)
        if at.operator not in ("mul", SUM):
            return known
        made = _product(at, found) if at.operator == "mul" else total(at, found)
        return made if made.fits(at.width) else known

    return Domain(value, needs)


def _product(at: Term, found: Mapping[Term, Interval | None]) -> Interval:
    one, other = (found[arg] or Interval(*arg.bounds) for arg in at.args)
    return Interval(one.low * other.low, one.high * other.high)


def total(at: Term, found: Mapping[Term, Interval | None]) -> Interval:
    """What the signed parts of a sum add up to, which may be more than its width holds."""
    offset, linear = at.linear
    whole = just(signed(offset, at.width))
    factors = {atom: signed(factor, at.width) for atom, factor in linear}
    for atom, factor in list(factors.items()):
        divided = _divided(atom)
        if divided is not None and factors.get(divided[0]) == -factor:
            # a number without all the times that another goes into it
            del factors[atom], factors[divided[0]]
            most = (found[divided[1]] or Interval(*divided[1].bounds)).high - 1
            whole = whole.plus(Interval(*sorted((0, -factor * most))))
    for atom, factor in factors.items():
        whole = whole.plus((found[atom] or Interval(*atom.bounds)).times(factor))
    return whole


def _divided(atom: Term) -> tuple[Term, Term] | None:
    """Of how often a number goes into another, times that number: the other, and the number."""
    if atom.operator == "mul":
        for divided, number in (atom.args, atom.args[::-1]):
            if divided.operator == "div.u" and divided.args[1] is number:
                return divided.args[0], number
    return None
