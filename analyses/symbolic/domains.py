"""Domains for `evaluate` other than plain numbers: many numbers at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.numbers.intervals import Interval, just
from ptxkit.analyses.symbolic.evaluate import NONE, Domain, evaluate, is_atom, operands
from ptxkit.analyses.symbolic.terms import SUM, Term
from ptxkit.analyses.symbolic.vectors import Numbers, combined, of_one


def lanes(leaf: Callable[[Term], Numbers | None], count: int) -> Domain[Numbers]:
    """The domain of one number for each of `count` threads; `leaf` gives the numbers of leaves and joins.

    A term has a number for every thread, or is unknown. If all threads select the same side, the other may be unknown.
    """

    def value(at: Term, found: Mapping[Term, Numbers | None]) -> Numbers | None:
        return leaf(at) if is_atom(at) else of_lanes(at, found, count)

    return Domain(value, needs_of_lanes)


def of_lanes(at: Term, found: Mapping[Term, Numbers | None], count: int) -> Numbers | None:
    """The numbers of a sum or an operator for `count` threads; `found` holds what `needs_of_lanes` requested."""
    if at.operator != "select":
        return combined(at, found, count)
    condition = found[at.args[0]]
    if condition is None:
        return None
    side = _side(condition)
    return combined(at, found, count) if side is None else found[at.args[side]]


def needs_of_lanes(at: Term, found: Mapping[Term, Numbers | None]) -> Sequence[Term]:
    """The operands whose numbers a term needs: for a selection, the condition first, then the sides that some thread selects."""
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
    """The argument of a selection that all threads select; None if they differ."""
    if 0 not in condition:
        return 1
    return None if 1 in condition else 2


Image = tuple[int | None, ...]


def _images(count: int) -> Domain[Image]:
    """The domain of one number for each of `count` assignments of a variable; None where it depends on other unknowns."""
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
    """The image of a set under a term: its number for each value of a variable."""
    return evaluate(term, _images(len(choices)), {variable: tuple(choices)}) or ()


def intervals(given: Callable[[Term], Interval | None]) -> Domain[Interval]:
    """The domain of unsigned intervals; `given` supplies those of leaves and of terms with tighter bounds than their parts imply.

    Sums and products follow from their parts, unless they may wrap around; other terms use their own bounds.
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
    """The range of a sum over its signed parts, which may exceed its width."""
    offset, linear = at.linear
    whole = just(signed(offset, at.width))
    factors = {atom: signed(factor, at.width) for atom, factor in linear}
    for atom, factor in list(factors.items()):
        divided = _divided(atom)
        if divided is not None and factors.get(divided[0]) == -factor:
            # x - x / n * n is a remainder
            del factors[atom], factors[divided[0]]
            most = (found[divided[1]] or Interval(*divided[1].bounds)).high - 1
            whole = whole.plus(Interval(*sorted((0, -factor * most))))
    for atom, factor in factors.items():
        whole = whole.plus((found[atom] or Interval(*atom.bounds)).times(factor))
    return whole


def _divided(atom: Term) -> tuple[Term, Term] | None:
    """Matches `x / n * n`: returns x and n."""
    if atom.operator == "mul":
        for divided, number in (atom.args, atom.args[::-1]):
            if divided.operator == "div.u" and divided.args[1] is number:
                return divided.args[0], number
    return None
