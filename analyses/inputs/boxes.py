"""Boxes of tensor maps: such that a copy brings the bytes that its mbarrier is told to expect (9.7.9.25.5, 9.7.14.15.9)."""

from __future__ import annotations

from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import accesses

ROW = 64
"""Elements of two bytes in a row: what most swizzles take."""
ELEMENT = 2


def box_of(routine: Routine, name: str, rank: int) -> tuple[int, ...]:
    """The box of a map that is a parameter, of elements of two bytes, the dimension that varies fastest last."""
    return split(_bytes(routine).get(name, ROW * ELEMENT * 8) // ELEMENT, rank)


def split(elements: int, rank: int) -> tuple[int, ...]:
    """A box of so many elements: rows of 64, or fewer where that is no whole number of rows; no side is longer than 256."""
    row = next((row for row in (ROW, 32, 16, 8) if elements % row == 0), min(elements, 256)) if rank > 1 else min(elements, 256)
    sides, rest = [row], max(1, elements // row)
    for _ in range(rank - 1):
        side = next(side for side in range(min(256, rest), 0, -1) if rest % side == 0)
        sides.insert(0, side)
        rest //= side
    return tuple(sides)


@fact
def _bytes(routine: Routine) -> dict[str, int]:
    """By parameter, how many bytes a copy with it brings: those expected, divided by the copies that share them."""
    copies: dict[str, int] = {}
    for access in accesses(routine):
        if access.memory.proxy == "tensormap" and access.address is not None:
            for leaf in access.address.leaves():
                if leaf.operator == "address":
                    copies.setdefault(str(leaf.data[0]), access.instruction)
    expecting = [step.amount for own in steps(routine).values() for step in own if step.does is Does.EXPECT]
    expected = [amount.constant for amount in expecting if amount is not None]
    known = [amount for amount in expected if amount]
    if not copies or not known:
        return {}
    return dict.fromkeys(copies, max(known) // len(copies))
