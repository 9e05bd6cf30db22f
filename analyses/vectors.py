"""What a term is for many threads at once, from what the terms in it are for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from operator import add

from ptxkit.analyses.arithmetic import OPERATORS, compute, signed
from ptxkit.analyses.terms import SUM, Term, inside

Numbers = tuple[int, ...]


def combined(at: Term, found: Mapping[Term, Numbers | None], count: int) -> Numbers | None:
    """What a sum or an operator gives for each of `count` threads; None if something in it is not known, or it is left open for one."""
    if at.operator != SUM and at.operator not in OPERATORS:
        return None
    if at.operator == SUM and not at.parts:
        return (at.offset,) * count
    parts: list[Numbers] = []
    for inner in inside(at):
        numbers = found[inner]
        if numbers is None:
            return None
        parts.append(numbers)
    if at.operator == SUM:
        if len(parts) == 1:
            offset, times, mask = at.offset, signed(at.parts[0][1], at.width), (1 << at.width) - 1
            return tuple([(times * number + offset) & mask for number in parts[0]])
        total: Iterable[int] = repeat(at.offset, count)
        for numbers, (_, factor) in zip(parts, at.parts, strict=True):
            times = signed(factor, at.width)
            total = map(add, total, numbers if times == 1 else [times * number for number in numbers])
        mask = (1 << at.width) - 1
        return tuple([value & mask for value in total])
    arguments = list(zip(*parts, strict=True))
    widths = [arg.width for arg in at.args]
    # few of the threads differ in what matters
    results: dict[tuple[int, ...], int] = {}
    for one in set(arguments):
        result = compute(at.operator, at.width, one, widths)
        if result is None:
            return None
        results[one] = result
    return tuple(map(results.__getitem__, arguments))
