"""Concrete evaluation of the operators of symbolic values: integers modulo two to the power of their width (9.7.1, 9.7.7, 9.7.9).

Numbers are unsigned. Operators that depend on signedness come in two forms: `div.u`, `div.s`. The abstract domain takes its constants from
here, so each operator is defined once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def signed(value: int, width: int) -> int:
    """The two's complement value of the bits."""
    return value - (1 << width) if value >> (width - 1) & 1 else value


def compute(operator: str, width: int, numbers: Sequence[int], widths: Sequence[int]) -> int | None:
    """The result of an operator, `width` bits wide, for numbers of the given `widths`. None if the manual leaves it undefined.

    Raises KeyError for an unknown operator.
    """
    found = OPERATORS[operator](width, numbers, widths)
    return None if found is None else found & ((1 << width) - 1)


Operation = Callable[[int, Sequence[int], Sequence[int]], int | None]


def _divide(width: int, a: int, b: int) -> tuple[int, int] | None:
    """Quotient and remainder of signed numbers, rounded towards zero; None if undefined."""
    if not b or (b == -1 and a == -(1 << (width - 1))):
        return None
    quotient = abs(a) // abs(b)
    quotient = quotient if (a < 0) == (b < 0) else -quotient
    return quotient, a - quotient * b


def _part(index: int) -> Operation:
    def divide(width: int, n: Sequence[int], w: Sequence[int]) -> int | None:
        found = _divide(width, signed(n[0], width), signed(n[1], width))
        return None if found is None else found[index]

    return divide


def _permute(width: int, n: Sequence[int], w: Sequence[int]) -> int:
    """Four bytes of eight, each selected by a digit; a digit above 7 selects copies of the byte's sign (9.7.10.7)."""
    both = n[0] | n[1] << 32
    result = 0
    for nibble in range(4):
        digit = n[2] >> (4 * nibble) & 15
        byte = both >> (8 * (digit & 7)) & 255
        if digit & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << (8 * nibble)
    return result


def _look_up(width: int, n: Sequence[int], w: Sequence[int]) -> int:
    a, b, c, table = n
    result = 0
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


def _extract(width: int, value: int, position: int, length: int, is_signed: bool) -> int:
    position, length = position & 255, length & 255
    field = value >> position & ((1 << length) - 1)
    if not is_signed or not length:
        return field
    if value >> min(position + length - 1, width - 1) & 1:
        kept = max(0, min(length, width - position))
        field |= -1 << kept
    return field


def _insert(width: int, n: Sequence[int], w: Sequence[int]) -> int:
    a, b, position, length = n[0], n[1], n[2] & 255, n[3] & 255
    mask = ((1 << length) - 1) << position
    return (b & ~mask) | (a << position & mask)


def _funnel(width: int, n: Sequence[int], left: bool) -> int:
    upper, lower, amount = n[0], n[1], min(n[2], width)
    both = upper << width | lower
    return (both << amount) >> width if left else both >> amount


OPERATORS: dict[str, Operation] = {
    "add": lambda width, n, w: n[0] + n[1],
    "mul": lambda width, n, w: n[0] * n[1],
    "mulhi.u": lambda width, n, w: n[0] * n[1] >> width,
    "mulhi.s": lambda width, n, w: signed(n[0], width) * signed(n[1], width) >> width,
    "div.u": lambda width, n, w: n[0] // n[1] if n[1] else None,
    "div.s": _part(0),
    "rem.u": lambda width, n, w: n[0] % n[1] if n[1] else None,
    "rem.s": _part(1),
    "abs": lambda width, n, w: abs(signed(n[0], width)),
    "min.u": lambda width, n, w: min(n[0], n[1]),
    "min.s": lambda width, n, w: min(signed(n[0], width), signed(n[1], width)),
    "max.u": lambda width, n, w: max(n[0], n[1]),
    "max.s": lambda width, n, w: max(signed(n[0], width), signed(n[1], width)),
    "and": lambda width, n, w: n[0] & n[1],
    "or": lambda width, n, w: n[0] | n[1],
    "xor": lambda width, n, w: n[0] ^ n[1],
    "lop3": _look_up,
    "shl": lambda width, n, w: n[0] << min(n[1], width),
    "shr.u": lambda width, n, w: n[0] >> min(n[1], width),
    "shr.s": lambda width, n, w: signed(n[0], width) >> min(n[1], width),
    "funnel_left": lambda width, n, w: _funnel(width, n, True),
    "funnel_right": lambda width, n, w: _funnel(width, n, False),
    "bfe.u": lambda width, n, w: _extract(width, n[0], n[1], n[2], False),
    "bfe.s": lambda width, n, w: _extract(width, n[0], n[1], n[2], True),
    "bfi": _insert,
    "popc": lambda width, n, w: n[0].bit_count(),
    "clz": lambda width, n, w: w[0] - n[0].bit_length(),
    "brev": lambda width, n, w: int(f"{n[0]:0{width}b}"[::-1], 2),
    "prmt": _permute,
    "zext": lambda width, n, w: n[0],
    "sext": lambda width, n, w: signed(n[0], w[0]),
    "trunc": lambda width, n, w: n[0],
    "eq": lambda width, n, w: int(n[0] == n[1]),
    "lt.u": lambda width, n, w: int(n[0] < n[1]),
    "lt.s": lambda width, n, w: int(signed(n[0], w[0]) < signed(n[1], w[1])),
    "select": lambda width, n, w: n[1] if n[0] else n[2],
}
"""By name: the result, not yet truncated, from the width of the result, the operands and their widths."""
