"""Choices of scalars that change the outcomes of a kernel's conditions, found without executing it.

Which conditions hold depends on relations between scalars, such as a radius and a width. Small values are drawn for all scalars at random;
of these draws, a few are selected greedily so that together they produce as many outcomes as possible.
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
"""Candidates for any scalar: odd ones first, so that unrolled loops have a remainder."""
LARGEST = 1 << 12
"""Larger constants are not taken as candidates."""
DRAWS, MOST = 400, 6
"""Number of draws, and maximum number of choices selected from them."""
_AXES = "xyz"


def decisions(routine: Routine, shape: Shape, free: frozenset[Part]) -> tuple[tuple[tuple[Part, int], ...], ...]:
    """Choices of the `free` scalars, the best first; empty if no condition depends only on them."""
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
    """For each `free` scalar, values to try: constants that it is compared with, sides of the shape, and small numbers."""
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
    """The constants in the conditions, and their neighbors."""
    constants = {term.constant for one in asked for term in walk(one) if term.constant is not None}
    return {number + step for number in constants for step in (-1, 0, 1) if number is not None and 0 <= number + step <= LARGEST}


def _depends(condition: Term, parts: Mapping[Leaf, Part]) -> bool:
    """Whether a condition depends on free scalars, and otherwise only on the thread index and the shape."""
    leaves = condition.leaves()
    known = [leaf_of(leaf) in parts for leaf in leaves]
    return any(known) and all(mine or leaf.operator == "special" for mine, leaf in zip(known, leaves, strict=True))


def _draws(names: list[Leaf], asked: list[Term], shape: Shape) -> Iterator[tuple[int, ...]]:
    """Values for all scalars, drawn from small numbers and from the constants that conditions compare with."""
    longest = max([grid * block for grid, block in zip(shape.grid, shape.block, strict=True)])
    values = sorted({*SMALL, *_near(asked), longest})
    if len(values) ** len(names) <= DRAWS:
        yield from itertools.product(values, repeat=len(names))
        return
    drawn = random.Random(len(names))
    yield from dict.fromkeys([tuple(drawn.choices(values, k=len(names))) for _ in range(DRAWS)])


def _outcomes(asked: list[Term], numbers: Mapping[Leaf, int], shape: Shape) -> set[tuple[int, bool]]:
    """The outcomes of the conditions for a few threads."""
    found = set()
    for threads in ((0, 0, 0), (1, 1, 1), tuple([side - 1 for side in shape.block])):

        def value(leaf: Term, threads: tuple[int, ...] = threads) -> int | None:
            mine = leaf_of(leaf)
            return numbers.get(mine) if mine is not None else special(leaf.name, threads, shape)

        for n, one in enumerate(asked):
            outcome = number_of(one, value)
            if outcome is not None:
                found.add((n, bool(outcome)))
    return found


def special(name: str, thread: tuple[int, ...], shape: Shape, cta: tuple[int, ...] = (0, 0, 0)) -> int | None:
    """Value of a special register in a thread, of the first CTA by default; None for registers other than indices and sizes."""
    stem, _, axis = name.partition(".")
    columns = {
        "%tid": tuple([min(one, side - 1) for one, side in zip(thread, shape.block, strict=True)]),
        "%ctaid": cta,
        "%ntid": shape.block,
        "%nctaid": shape.grid,
    }
    return columns[stem][_AXES.index(axis)] if stem in columns and axis in _AXES and axis else None
