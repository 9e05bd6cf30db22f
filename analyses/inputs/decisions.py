"""Numbers with which a kernel decides otherwise: what its conditions make of them, seen before anything runs.

Which conditions hold depends on how the numbers of a launch stand to one another, as a radius and a width do. Some small numbers are drawn
for all of them; of these draws the few are taken that give most conditions an outcome that they have not had.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping

from ptxkit.analyses.execution.contents import Part
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.parameters import Leaf, Role, conditions, leaf_of, parameters
from ptxkit.analyses.inputs.shapes import Shape
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.terms import Term, walk

SMALL = (0, 1, 2, 3, 4, 5, 8, 16)
FEW = (5, 7, 2, 3, 1, 0, 16, 64)
"""Numbers that any may be: odd ones first, so that loops that are unrolled have a rest."""
LARGEST = 1 << 12
"""No constant above this is a number of anything."""
DRAWS, MOST = 400, 6
"""So many are looked at, so many are taken."""
_AXES = "xyz"


def decisions(routine: Routine, shape: Shape, free: frozenset[Part]) -> tuple[tuple[tuple[Part, int], ...], ...]:
    """Choices of the numbers that are `free`, the best one first; none where no condition depends on them alone."""
    parts = {
        (one.name, slot.offset, slot.size): (number, slot.offset, slot.size)
        for number, one in enumerate(parameters(routine))
        for slot in one.slots
        if slot.role in (Role.NUMBER, Role.COUNT) and (number, slot.offset, slot.size) in free
    }
    asked = [one for one in dict.fromkeys(conditions(routine)) if _depends(one, parts)]
    if not asked:
        return ()
    names = list(parts)
    outcomes = {drawn: _outcomes(asked, dict(zip(names, drawn, strict=True)), shape) for drawn in _draws(names, asked, shape)}
    found: list[tuple[tuple[Part, int], ...]] = []
    seen: set[tuple[int, bool]] = set()
    while len(found) < MOST:
        best = max(outcomes, key=lambda drawn: len(outcomes[drawn] - seen))
        if not outcomes[best] - seen:
            break
        seen |= outcomes[best]
        found.append(tuple(zip(parts.values(), best, strict=True)))
    return tuple(found)


def choices(routine: Routine, shape: Shape, free: frozenset[Part]) -> tuple[tuple[Part, tuple[int, ...]], ...]:
    """Of each of the numbers that are `free` some that it may be: what conditions compare it with, sides of the shape, small ones."""
    sides = [(block, block * grid) for block, grid in zip(shape.block, shape.grid, strict=True)]
    usual = [*FEW, *[number for pair in sides for one in pair for number in (one, one // 2, one + 1)]]
    asked = list(conditions(routine))
    found = []
    for number, one in enumerate(parameters(routine)):
        for slot in one.slots:
            part = number, slot.offset, slot.size
            if slot.role in (Role.NUMBER, Role.COUNT, Role.STRIDE) and part in free:
                leaf = one.name, slot.offset, slot.size
                near = _near([condition for condition in asked if any(leaf_of(term) == leaf for term in condition.leaves())])
                found.append((part, tuple(dict.fromkeys([*sorted(near), *usual]))))
    return tuple(found)


def _near(asked: list[Term]) -> set[int]:
    """The constants of conditions, and their neighbours."""
    constants = {term.constant for one in asked for term in walk(one) if term.constant is not None}
    return {number + step for number in constants for step in (-1, 0, 1) if number is not None and 0 <= number + step <= LARGEST}


def _depends(condition: Term, parts: Mapping[Leaf, Part]) -> bool:
    """Whether a condition depends on free numbers and on nothing else but which thread it is, and the shape."""
    leaves = condition.leaves()
    known = [leaf_of(leaf) in parts for leaf in leaves]
    return any(known) and all(mine or leaf.operator == "special" for mine, leaf in zip(known, leaves, strict=True))


def _draws(names: list[Leaf], asked: list[Term], shape: Shape) -> Iterator[tuple[int, ...]]:
    """Numbers for all, some of which conditions ask about, or which are small."""
    longest = max([grid * block for grid, block in zip(shape.grid, shape.block, strict=True)])
    values = sorted({*SMALL, *_near(asked), longest})
    if len(values) ** len(names) <= DRAWS:
        yield from itertools.product(values, repeat=len(names))
        return
    drawn = random.Random(len(names))
    yield from dict.fromkeys([tuple(drawn.choices(values, k=len(names))) for _ in range(DRAWS)])


def _outcomes(asked: list[Term], numbers: Mapping[Leaf, int], shape: Shape) -> set[tuple[int, bool]]:
    """What conditions are for some threads."""
    found = set()
    for threads in ((0, 0, 0), (1, 1, 1), tuple([side - 1 for side in shape.block])):

        def value(leaf: Term, threads: tuple[int, ...] = threads) -> int | None:
            mine = leaf_of(leaf)
            return numbers.get(mine) if mine is not None else special(str(leaf.data[0]), threads, shape)

        for n, one in enumerate(asked):
            outcome = number_of(one, value)
            if outcome is not None:
                found.add((n, bool(outcome)))
    return found


def special(name: str, thread: tuple[int, ...], shape: Shape, cta: tuple[int, ...] = (0, 0, 0)) -> int | None:
    """A special register of a thread, of the first CTA if nothing else is said; None for those that do not say who it is or what the shape
    is."""
    stem, _, axis = name.partition(".")
    columns = {
        "%tid": tuple([min(one, side - 1) for one, side in zip(thread, shape.block, strict=True)]),
        "%ctaid": cta,
        "%ntid": shape.block,
        "%nctaid": shape.grid,
    }
    return columns[stem][_AXES.index(axis)] if stem in columns and axis in _AXES and axis else None
