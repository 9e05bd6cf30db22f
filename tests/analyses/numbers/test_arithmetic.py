"""Numbers in two's complement."""

from __future__ import annotations

import pytest

from ptxkit.analyses.numbers.arithmetic import compute, signed


@pytest.mark.parametrize(
    ("value", "width", "expected"),
    [(0, 8, 0), (127, 8, 127), (128, 8, -128), (255, 8, -1), (255, 16, 255), (1, 1, -1), (1 << 31, 32, -(1 << 31))],
)
def test_the_highest_bit_is_the_sign(value: int, width: int, expected: int) -> None:
    assert signed(value, width) == expected


@pytest.mark.parametrize(
    ("operator", "numbers", "expected"),
    [
        ("add", (250, 10), 4),
        ("mulhi.u", (255, 255), 254),  # 255 * 255 = 0xfe01
        ("mulhi.s", (255, 255), 0),  # -1 * -1 = 1
        ("div.s", (249, 2), 253),  # -7 / 2 = -3, towards zero
        ("rem.s", (249, 2), 255),  # -7 = -3 * 2 - 1
        ("div.u", (7, 0), None),
        ("div.s", (128, 255), None),  # 128 is no signed number of 8 bits
        ("shl", (1, 9), 0),  # the amount is clamped, not taken modulo the width
        ("shr.s", (128, 9), 255),
    ],
)
def test_of_eight_bits(operator: str, numbers: tuple[int, int], expected: int | None) -> None:
    assert compute(operator, 8, numbers, (8, 8)) == expected
