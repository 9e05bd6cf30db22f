"""Copies of one piece of code, as unrolling makes them, of which one lacks an instruction that all others have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptxkit.analyses.framework.routine import Routine
from ptxkit.frozen import frozen

CONTEXT = 8
"""So many instructions before and after are the same, but for their operands."""
LEAST = 2
"""So many copies have it."""


@frozen
class Outlier:
    """A location where something is left out."""

    instruction: int
    """Before this one it should stand."""
    other: int
    """One that stands there in another copy."""


def unrolled_outliers(routine: Routine, instructions: Iterable[int]) -> Iterator[Outlier]:
    """The locations that alone lack one of some instructions, where what stands around is the same in several copies."""
    marks = set(instructions)
    words = [one.opcode.text for one in routine.instructions]
    around: dict[tuple[str, ...], list[int]] = {}
    for i in sorted(marks):
        if CONTEXT <= i < len(words) - CONTEXT:
            around.setdefault((*words[i - CONTEXT : i], *words[i + 1 : i + 1 + CONTEXT]), []).append(i)
    around = {key: own for key, own in around.items() if len(own) >= LEAST}
    starts = {key[:2] for key in around}
    bare: dict[tuple[str, ...], list[int]] = {}
    for i in range(CONTEXT, len(words) - CONTEXT):
        if (words[i - CONTEXT], words[i - CONTEXT + 1]) not in starts or i in marks or i - 1 in marks:
            continue
        key = tuple(words[i - CONTEXT : i + CONTEXT])
        if key in around:
            bare.setdefault(key, []).append(i)
    for key, own in bare.items():
        if len(own) == 1:
            yield Outlier(own[0], around[key][0])
