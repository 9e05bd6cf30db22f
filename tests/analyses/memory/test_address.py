"""Which addresses may overlap."""

from __future__ import annotations

import pytest
from sample import HEAD

import ptxkit
from ptxkit.analyses.memory.address import Address, Root, may_overlap
from ptxkit.analyses.numbers.intervals import Interval, just
from ptxkit.analyses.symbolic.simplify import new_terms
from ptxkit.names import Symbol, resolve


def symbol(name: str) -> Symbol:
    found = NAMES.root.lookup(name)
    assert found is not None
    return found


NAMES = resolve(ptxkit.parse(f"{HEAD}.shared .b64 full[4]; .shared .b64 empty[4];"))
FULL, EMPTY = symbol("full"), symbol("empty")
UNKNOWN = new_terms().leaf("value", 32, (1,))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((FULL, just(0)), (FULL, just(7)), True),
        ((FULL, just(0)), (FULL, just(8)), False),
        # a ring of three and the stage after it
        ((FULL, Interval(0, 16)), (FULL, just(24)), False),
        ((FULL, Interval(0, 16)), (FULL, Interval(16, 40)), True),
        ((FULL, just(0)), (EMPTY, just(0)), False),
        # it may be the address of either
        ((FULL, just(0)), (UNKNOWN, just(0)), True),
        ((UNKNOWN, just(0)), (UNKNOWN, just(8)), False),
    ],
)
def test_eight_bytes_from_each(one: tuple[Root, Interval], other: tuple[Root, Interval], expected: bool) -> None:
    assert may_overlap(Address(*one), Address(*other), 8) is expected
    assert may_overlap(Address(*other), Address(*one), 8) is expected
