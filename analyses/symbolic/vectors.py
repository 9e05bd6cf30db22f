"""Values of a term for many threads at once, from those of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import add, and_, eq, lt, or_, rshift, xor

from ptxkit.analyses.numbers.arithmetic import OPERATORS, compute, signed
from ptxkit.analyses.symbolic.terms import SUM, Term

Numbers = tuple[int, ...]

_BIT = (0, 1).__getitem__


def _compare_signed(width: int, a: Numbers, b: Numbers) -> Iterable[int]:
    half = 1 << (width - 1)
    return [1 if x ^ half < y ^ half else 0 for x, y in zip(a, b, strict=True)]


def _shift_signed(width: int, a: Numbers, b: Numbers) -> Iterable[int]:
    half, mask = 1 << (width - 1), (1 << width) - 1
    return [(x ^ half) - half >> y & mask for x, y in zip(a, b, strict=True)]


def _multiply(width: int, a: Numbers, b: Numbers) -> Iterable[int]:
    mask = (1 << width) - 1
    return [x * y & mask for x, y in zip(a, b, strict=True)]


_OF_TWO: dict[str, Callable[[int, Numbers, Numbers], Iterable[int]]] = {
    "and": lambda width, a, b: map(and_, a, b),
    "or": lambda width, a, b: map(or_, a, b),
    "xor": lambda width, a, b: map(xor, a, b),
    "shr.u": lambda width, a, b: map(rshift, a, b),
    "shr.s": _shift_signed,
    "mul": _multiply,
    "eq": lambda width, a, b: map(_BIT, map(eq, a, b)),
    "lt.u": lambda width, a, b: map(_BIT, map(lt, a, b)),
    "lt.s": _compare_signed,
}
"""The most common operators on numbers of one width, without a call for each thread."""


def combined(at: Term, found: Mapping[Term, Numbers | None], count: int) -> Numbers | None:
    """The numbers of a sum or an operator for `count` threads; None if an operand is unknown, or the result is undefined for a thread."""
    operator = at.operator
    if operator == SUM:
        if not at.parts:
            return (at.offset,) * count
    elif operator not in OPERATORS:
        return None
    parts: list[Numbers] = []
    same = True
    for inner in at.inner:
        numbers = found[inner]
        if numbers is None:
            return None
        parts.append(numbers)
        same = same and numbers[0] == numbers[-1] and numbers.count(numbers[0]) == count
    if same:
        number = of_one(at, [numbers[0] for numbers in parts])
        return None if number is None else (number,) * count
    if operator == SUM:
        return _sum(at, parts, count)
    of_two = _OF_TWO.get(operator)
    if of_two is not None:
        return tuple(of_two(at.args[0].width, *parts))
    arguments = list(zip(*parts, strict=True))
    # few threads differ in the operands
    results: dict[tuple[int, ...], int] = {}
    for one in set(arguments):
        result = of_one(at, one)
        if result is None:
            return None
        results[one] = result
    return tuple(map(results.__getitem__, arguments))


def of_one(at: Term, numbers: Sequence[int]) -> int | None:
    """The result for one thread."""
    if at.operator == SUM:
        return sum([factor * number for number, (_, factor) in zip(numbers, at.parts, strict=True)], at.offset) & ((1 << at.width) - 1)
    return compute(at.operator, at.width, numbers, [arg.width for arg in at.args])


def _sum(at: Term, parts: list[Numbers], count: int) -> Numbers:
    mask = (1 << at.width) - 1
    if len(parts) == 1:
        offset, times = at.offset, signed(at.parts[0][1], at.width)
        return tuple([times * number + offset & mask for number in parts[0]])
    total: Iterable[int] = repeat(at.offset, count)
    for numbers, (_, factor) in zip(parts, at.parts, strict=True):
        times = signed(factor, at.width)
        total = map(add, total, numbers if times == 1 else [times * number for number in numbers])
    return tuple([value & mask for value in total])
