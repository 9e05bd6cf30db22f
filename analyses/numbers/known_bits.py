"""Known bits and ranges of machine integers, and the transfer functions of operators.

`Known` states what holds for a number on every run: bits that are zero, bits that are one, and an interval on the circle of all numbers of
its width, so that the interval from -4 to 3 is as precise as the one from 8 to 15. The two parts refine each other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Known(NamedTuple):
    """Bits known to be zero and to be one; the number is one of `low`, `low + 1`, … `low + span`, modulo two to the power of the width."""

    zeros: int
    ones: int
    low: int
    span: int


@functools.cache
def top(width: int) -> Known:
    """Nothing is known."""
    return Known(0, 0, 0, (1 << width) - 1)


def constant(value: int, width: int) -> Known:
    """Exactly this number, which must be in the unsigned range."""
    return Known(~value & ((1 << width) - 1), value, value, 0)


def between(least: int, most: int, width: int) -> Known:
    """From `least` to `most`, which may be negative."""
    mask = (1 << width) - 1
    return tighten(0, 0, least & mask, most - least, width) if most - least < mask else top(width)


def bits(zeros: int, ones: int, width: int) -> Known:
    """What follows from bits alone."""
    return tighten(zeros, ones, 0, (1 << width) - 1, width)


def tighten(zeros: int, ones: int, low: int, span: int, width: int) -> Known:
    """The bits and the interval combined."""
    mask = (1 << width) - 1
    if span >= mask:
        low, span = ones, (mask & ~zeros) - ones
    high = low + span
    if high > mask:
        # The interval wraps around zero: the bits may give a shorter one.
        if (mask & ~zeros) - ones < span:
            low, span = ones, (mask & ~zeros) - ones
        else:
            return Known(zeros, ones, low, span)
    else:
        least, most = max(low, ones), min(high, mask & ~zeros)
        if least > most:
            # Contradiction: the code is unreachable, and any statement holds.
            return Known(zeros, ones, low, span)
        low, span = least, most - least
    high = low + span
    same = mask & ~((1 << (low ^ high).bit_length()) - 1)
    return Known(zeros | (same & ~low), ones | (same & low), low, span)


def join(values: Iterable[Known], width: int) -> Known:
    """What holds for all of them."""
    first, *rest = values
    for other in rest:
        first = _join(first, other, width)
    return first


def _join(a: Known, b: Known, width: int) -> Known:
    if a == b:
        return a
    size = 1 << width
    from_a = max(a.span, (b.low - a.low) % size + b.span)
    from_b = max(b.span, (a.low - b.low) % size + a.span)
    low, span = (a.low, from_a) if from_a <= from_b else (b.low, from_b)
    return tighten(a.zeros & b.zeros, a.ones & b.ones, low, span, width)


def unsigned_bounds(known: Known, width: int) -> tuple[int, int]:
    """The unsigned minimum and maximum."""
    high = known.low + known.span
    return (known.low, high) if high < 1 << width else (0, (1 << width) - 1)


def signed_bounds(known: Known, width: int) -> tuple[int, int]:
    """The signed minimum and maximum."""
    half = 1 << (width - 1)
    least = known.low - 2 * half if known.low >= half else known.low
    return (least, least + known.span) if least + known.span < half else (-half, half - 1)


def _trailing_zeros(known: Known, width: int) -> int:
    """The number of lowest bits known to be zero."""
    other = ~known.zeros & ((1 << width) - 1)
    return (other & -other).bit_length() - 1 if other else width


def low_known(known: Known, width: int) -> int:
    """The number of lowest bits that are known."""
    other = ~(known.zeros | known.ones) & ((1 << width) - 1)
    return (other & -other).bit_length() - 1 if other else width


def _add_bits(a: tuple[int, int], b: tuple[int, int], mask: int) -> tuple[int, int]:
    """The bits of a sum, zeros and ones, from those of the summands. A bit is known if both bits and the carry into it are."""
    least = (a[1] + b[1]) & mask
    most = ((~a[0] & mask) + (~b[0] & mask)) & mask
    carry_is_zero = ~(most ^ a[0] ^ b[0])
    carry_is_one = least ^ a[1] ^ b[1]
    sure = (a[0] | a[1]) & (b[0] | b[1]) & (carry_is_zero | carry_is_one) & mask
    return ~most & sure, least & sure


def _times_bits(known: Known, factor: int, width: int) -> tuple[int, int]:
    """The bits of a multiple, zeros and ones."""
    mask = (1 << width) - 1
    shift = (factor & -factor).bit_length() - 1
    if factor == 1 << shift:
        return (known.zeros << shift | ((1 << shift) - 1)) & mask, known.ones << shift & mask
    sure = min(width, low_known(known, width) + shift)
    low = (1 << sure) - 1
    value = known.ones * factor & low
    free = min(width, _trailing_zeros(known, width) + shift)
    return (low & ~value) | (((1 << free) - 1) & mask), value


def total(offset: int, parts: Sequence[tuple[Known, int]], width: int) -> Known:
    """What is known about `offset` plus multiples of numbers of the same width; the factors are unsigned."""
    mask = (1 << width) - 1
    low, span = offset, 0
    sure = (~offset & mask, offset)
    half = 1 << (width - 1)
    for known, factor in parts:
        if factor > half:
            factor -= mask + 1
            low += factor * (known.low + known.span)
            span -= factor * known.span
        else:
            low += factor * known.low
            span += factor * known.span
        sure = _add_bits(sure, _times_bits(known, factor & mask, width), mask)
    if span >= mask:
        return tighten(*sure, 0, mask, width)
    return tighten(*sure, low & mask, span, width)


Transfer = Callable[[int, Sequence[Known], Sequence[int]], Known]


def _unsigned(least: Callable[[int, int, int, int], int], most: Callable[[int, int, int, int], int]) -> Transfer:
    """The transfer function of an operator that is monotonic in the unsigned bounds."""

    def transfer(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
        a, b = unsigned_bounds(k[0], w[0]), unsigned_bounds(k[1], w[1])
        return between(least(*a, *b), most(*a, *b), width)

    return transfer


def _mul(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    a, b = k
    mask = (1 << width) - 1
    sure = (1 << min(low_known(a, width), low_known(b, width))) - 1
    value = a.ones * b.ones & sure
    free = (1 << min(width, _trailing_zeros(a, width) + _trailing_zeros(b, width))) - 1
    (a_least, a_most), (b_least, b_most) = unsigned_bounds(a, width), unsigned_bounds(b, width)
    low, span = (a_least * b_least, a_most * b_most - a_least * b_least) if a_most * b_most <= mask else (0, mask)
    return tighten((sure & ~value | free) & mask, value, low, span, width)


def _mulhi(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    (a_least, a_most), (b_least, b_most) = unsigned_bounds(k[0], width), unsigned_bounds(k[1], width)
    return between(a_least * b_least >> width, a_most * b_most >> width, width)


def _if_positive(transfer: Transfer) -> Transfer:
    """The transfer function for nonnegative signed numbers; nothing is known for others."""

    def positive(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
        if any(unsigned_bounds(known, one)[1] >> (one - 1) for known, one in zip(k, w, strict=True)):
            return top(width)
        return transfer(width, k, w)

    return positive


def _div(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    (a_least, a_most), (b_least, b_most) = unsigned_bounds(k[0], width), unsigned_bounds(k[1], width)
    return between(a_least // b_most, a_most // b_least, width) if b_least else top(width)


def _rem(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    (_, most), (b_least, b_most) = unsigned_bounds(k[0], width), unsigned_bounds(k[1], width)
    return between(0, min(most, b_most - 1), width) if b_least else top(width)


def _signed(width: int, k: Sequence[Known], w: Sequence[int], choose: Callable[[int, int], int]) -> Known:
    (a_least, a_most), (b_least, b_most) = signed_bounds(k[0], width), signed_bounds(k[1], width)
    return between(choose(a_least, b_least), choose(a_most, b_most), width)


def _abs(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    least, most = signed_bounds(k[0], width)
    if least >= 0:
        return k[0]
    return between(0 if most >= 0 else -most, max(-least, most), width)


def _and(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    a, b = k
    most = min(unsigned_bounds(a, width)[1], unsigned_bounds(b, width)[1])
    return tighten(a.zeros | b.zeros, a.ones & b.ones, 0, most, width)


def _or(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    a, b = k
    least = max(unsigned_bounds(a, width)[0], unsigned_bounds(b, width)[0])
    return tighten(a.zeros & b.zeros, a.ones | b.ones, least, (1 << width) - 1 - least, width)


def _xor(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    a, b = k
    return bits(a.zeros & b.zeros | a.ones & b.ones, a.zeros & b.ones | a.ones & b.zeros, width)


def _lop3(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    if k[3].span:
        return top(width)
    mask = (1 << width) - 1
    table = k[3].low
    zeros = ones = mask
    for row in range(8):
        # where this row may apply, the result may be the table's entry for it
        may = mask
        for known, bit in zip(k, (4, 2, 1), strict=False):
            may &= ~(known.zeros if row & bit else known.ones)
        if table >> row & 1:
            zeros &= ~may
        else:
            ones &= ~may
    return bits(zeros, ones & ~zeros, width)


def _shl(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    least, most = unsigned_bounds(k[1], w[1])
    if least == most:
        amount = min(least, width)
        return total(0, [(k[0], 1 << amount)], width) if amount < width else constant(0, width)
    free = min(width, _trailing_zeros(k[0], width) + least)
    return bits((1 << free) - 1, 0, width)


def _shr_u(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    least, most = unsigned_bounds(k[1], w[1])
    a_least, a_most = unsigned_bounds(k[0], width)
    low, high = a_least >> min(most, width), a_most >> min(least, width)
    if least != most:
        return between(low, high, width)
    mask = (1 << width) - 1
    amount = min(least, width)
    return tighten(k[0].zeros >> amount | (mask & ~(mask >> amount)), k[0].ones >> amount, low, high - low, width)


def _shr_s(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    least, most = unsigned_bounds(k[1], w[1])
    a_least, a_most = signed_bounds(k[0], width)
    low = a_least >> (min(least, width) if a_least < 0 else min(most, width))
    high = a_most >> (min(most, width) if a_most < 0 else min(least, width))
    found = between(low, high, width)
    if least != most:
        return found
    amount = min(least, width - 1)
    mask = (1 << width) - 1
    sign = mask & ~(mask >> amount)
    zeros = k[0].zeros >> amount | (sign if k[0].zeros >> (width - 1) & 1 else 0)
    ones = k[0].ones >> amount | (sign if k[0].ones >> (width - 1) & 1 else 0)
    return tighten(found.zeros | zeros, found.ones | ones, found.low, found.span, width)


def _zext(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    least, most = unsigned_bounds(k[0], w[0])
    upper = ((1 << width) - 1) & ~((1 << w[0]) - 1)
    return Known(k[0].zeros | upper, k[0].ones, least, most - least)


def _sext(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    least, most = signed_bounds(k[0], w[0])
    upper = ((1 << width) - 1) & ~((1 << w[0]) - 1)
    zeros = k[0].zeros | (upper if k[0].zeros >> (w[0] - 1) & 1 else 0)
    ones = k[0].ones | (upper if k[0].ones >> (w[0] - 1) & 1 else 0)
    return tighten(zeros, ones, least & ((1 << width) - 1), most - least, width)


def _trunc(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    mask = (1 << width) - 1
    return tighten(k[0].zeros & mask, k[0].ones & mask, k[0].low & mask, min(k[0].span, mask), width)


def _popc(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    return between(k[0].ones.bit_count(), w[0] - k[0].zeros.bit_count(), width)


def _clz(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    least, most = unsigned_bounds(k[0], w[0])
    return between(w[0] - most.bit_length(), w[0] - least.bit_length(), width)


def _truth(width: int, k: Sequence[Known], w: Sequence[int]) -> Known:
    return top(1)


_TRANSFER: dict[str, Transfer] = {
    "add": lambda width, k, w: total(0, [(k[0], 1), (k[1], 1)], width),
    "mul": _mul,
    "mulhi.u": _mulhi,
    "mulhi.s": _if_positive(_mulhi),
    "div.u": _div,
    "div.s": _if_positive(_div),
    "rem.u": _rem,
    "rem.s": _if_positive(_rem),
    "abs": _abs,
    "min.u": _unsigned(lambda a, b, c, d: min(a, c), lambda a, b, c, d: min(b, d)),
    "max.u": _unsigned(lambda a, b, c, d: max(a, c), lambda a, b, c, d: max(b, d)),
    "min.s": lambda width, k, w: _signed(width, k, w, min),
    "max.s": lambda width, k, w: _signed(width, k, w, max),
    "and": _and,
    "or": _or,
    "xor": _xor,
    "lop3": _lop3,
    "shl": _shl,
    "shr.u": _shr_u,
    "shr.s": _shr_s,
    "popc": _popc,
    "clz": _clz,
    "zext": _zext,
    "sext": _sext,
    "trunc": _trunc,
    "eq": _truth,
    "lt.u": _truth,
    "lt.s": _truth,
    "select": lambda width, k, w: join(k[1:], width),
}


def result(operator: str, width: int, known: Sequence[Known], widths: Sequence[int]) -> Known:
    """What is known about an operator's result, from what is known about its operands; `top` for an operator not listed."""
    transfer = _TRANSFER.get(operator)
    return transfer(width, known, widths) if transfer is not None else top(width)
