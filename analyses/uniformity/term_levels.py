"""The level of a term, from its leaves.

What depends only on the thread index is known thread by thread (see `template`); other leaves are symbols of a known level. A sum is a
symbol plus each thread's addend. If low bits that are zero in the symbol are dropped, only the rest of the addend matters: so `(128 *
%ctaid.x + %tid.x) >> 5` is warp-uniform.
"""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

from ptxkit.analyses.symbolic.terms import SUM, Term, walk
from ptxkit.analyses.symbolic.values import Values
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.template import RANK, Template
from ptxkit.analyses.uniformity.transfer import space_level, special_level


class LevelBound(NamedTuple):
    """The minimum of a level and the levels of some values of the function."""

    level: Level
    numbers: frozenset[int]


NONE = LevelBound(Level.THREAD, frozenset())
ALL = LevelBound(Level.GRID, frozenset())

_THE_SAME = frozenset(("parameter", "literal"))


Parts = tuple[tuple[Term, int], ...]
Product = tuple[object, ...]
"""A special register by name, or terms that are multiplied or, after the word `sum`, added, in any order."""

_ROW: Product = ("sum", "%tid.y", ("mul", "%tid.z", "%ntid.y"))
_RANKS: tuple[tuple[Product, ...], ...] = (
    (("mul", "%ntid.x", _ROW),),
    (("mul", "%ntid.x", "%tid.y"), ("mul", "%ntid.x", ("mul", "%tid.z", "%ntid.y"))),
    (("mul", "%ntid.x", "%tid.y"), ("mul", "%tid.z", ("mul", "%ntid.x", "%ntid.y"))),
)
"""What is added to `%tid.x` to give the linear thread index in the CTA."""


def _is_special(term: Term, name: str) -> bool:
    return term.operator == "special" and term.name == name


def _is_product(term: Term, product: object) -> bool:
    """Whether a term matches a pattern."""
    if isinstance(product, str):
        return _is_special(term, product)
    assert isinstance(product, tuple)
    operator, *operands = product
    if operator == "sum":
        if term.operator != SUM or term.offset or any(factor != 1 for _, factor in term.parts):
            return False
        args: tuple[Term, ...] = tuple([atom for atom, _ in term.parts])
    elif term.operator != operator:
        return False
    else:
        args = term.args
    return any(all(map(_is_product, args, order)) for order in permutations(operands, len(args))) if len(args) == len(operands) else False


class Agreements:
    """The levels of the terms of one function."""

    def __init__(self, known: Values, template: Template) -> None:
        self._known = known
        self._template = template
        self._found: dict[Term, LevelBound] = {}

    def of(self, term: Term) -> LevelBound:
        """The level of a term."""
        for at in walk(term, self._found, lambda one: () if one.operator == "join" else one.inner):
            self._found[at] = self._make(at)
        return self._found[term]

    def _make(self, at: Term) -> LevelBound:
        if at.is_leaf or at.operator == "join":
            return self._leaf(at)
        if self._template.is_known(at):
            return LevelBound(self._template.level_bound(at), frozenset())
        if at.operator == SUM:
            return self._sum(at, 0)
        if at.operator in ("and", "shr.u", "shr.s"):
            return self._without(at, 0)
        return self._least([self._found[arg] for arg in at.args])

    def _leaf(self, leaf: Term) -> LevelBound:
        kind = leaf.operator
        if leaf.ssa_value is not None:
            if kind == "value" and self._template.is_known(leaf):
                return LevelBound(self._template.level_bound(leaf), frozenset())
            return LevelBound(Level.GRID, frozenset((leaf.ssa_value,)))
        if kind in _THE_SAME:
            return ALL
        if kind == "special":
            if self._template.is_known(leaf):
                return LevelBound(self._template.level_bound(leaf), frozenset())
            return LevelBound(special_level(leaf.name), frozenset())
        if kind == "address":
            symbol = self._known.symbol(leaf)
            return NONE if symbol is None else LevelBound(space_level(symbol.space or ""), frozenset())
        if kind == "window":
            return LevelBound(space_level(leaf.name), frozenset())
        if leaf.rank is not None:
            level, numbers = self.of(leaf.rank)
            return LevelBound(min(level, Level.CTA), numbers)
        return NONE

    def _least(self, of: list[LevelBound]) -> LevelBound:
        if len(of) == 1:
            return of[0]
        return LevelBound(min([one.level for one in of], default=Level.GRID), frozenset().union(*[one.numbers for one in of]))

    def _without(self, at: Term, low: int) -> LevelBound:
        """The level of a term without its lowest bits."""
        while True:
            amount = at.args[1].constant if at.operator in ("and", "shr.u", "shr.s") else None
            if amount is None:
                break
            if at.operator == "and":
                low = max(low, (amount & -amount).bit_length() - 1)
            else:
                low += amount
            at = at.args[0]
        if at.operator in ("zext", "sext") and low < at.args[0].width and at.args[0].operator in (SUM, "and", "shr.u", "shr.s"):
            return self._without(at.args[0], low)
        if at.operator == SUM:
            return self._sum(at, low)
        if self._template.is_known(at) and 0 < low < at.width:
            terms = self._known.terms
            dropped = terms.apply("shr.u", at.width, (at, terms.constant(low, 32)))
            return LevelBound(self._template.level_bound(dropped), frozenset())
        return self._found[at] if at.operator not in ("and", "shr.u", "shr.s") else self._least([self.of(arg) for arg in at.args])

    def _ranked(self, parts: Parts) -> Parts:
        """The parts of a sum, with those that form the linear thread index combined into one, for CTAs of any shape."""
        factors = dict(parts)
        for atom, factor in parts:
            if not _is_special(atom, "%tid.x") or self._template.is_known(atom):
                continue
            for rows in _RANKS:
                found = [part for part, times in parts if times == factor and any(_is_product(part, product) for product in rows)]
                if len(found) == len(rows):
                    rank = self._known.terms.leaf("special", atom.width, (RANK,))
                    return (*[(part, factors[part]) for part in factors if part not in (atom, *found)], (rank, factor))
        return parts

    def _sum(self, at: Term, low: int) -> LevelBound:
        """The level of a sum without its lowest bits: each thread's addend counts only as far as it carries beyond them."""
        terms = self._known.terms
        own = terms.constant(at.offset, at.width)
        others = []
        for atom, factor in self._ranked(at.parts):
            if self._template.is_known(atom):
                own = terms.add(own, terms.scale(atom, factor))
            else:
                others.append(self.of(atom))
                free = atom.alignment * (factor & -factor)
                low = min(low, free.bit_length() - 1) if free else low
        if own.constant is not None:
            return self._least(others)
        if 0 < low < at.width:
            own = terms.apply("shr.u", at.width, (own, terms.constant(low, 32)))
        return self._least([LevelBound(self._template.level_bound(own), frozenset()), *others])
