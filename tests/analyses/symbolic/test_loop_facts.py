"""Facts of terms over a loop-carried value whose own facts are not known yet."""

from __future__ import annotations

from ptxkit.analyses.numbers.known_bits import Known, bits, constant, join, top
from ptxkit.analyses.symbolic.loop_facts import MOST_CHANGES, MOST_TERMS, is_small, known_in, outcomes, rough_leaves, widened
from ptxkit.analyses.symbolic.simplify import new_terms
from ptxkit.analyses.symbolic.terms import Term

terms = new_terms()
COUNTER = terms.leaf("rough", 32, (1,), None, True)
FLAG = terms.leaf("special", 1, ("%flag",))
NEXT = terms.add(COUNTER, terms.constant(1, 32))
WRAPPED = terms.apply("select", 32, (terms.apply("eq", 1, (NEXT, terms.constant(4, 32))), terms.constant(0, 32), NEXT))


def test_outcomes() -> None:
    assert [outcomes(WRAPPED, {COUNTER: at}) for at in (0, 2, 3)] == [[1], [3], [0]]
    # both sides where the condition is unknown
    assert sorted(outcomes(terms.apply("select", 32, (FLAG, NEXT, COUNTER)), {COUNTER: 7}) or []) == [7, 8]
    assert outcomes(terms.add(NEXT, terms.leaf("special", 32, ("%tid.x",))), {COUNTER: 0}) is None


def test_a_large_term_is_not_small() -> None:
    term: Term = COUNTER
    for number in range(MOST_TERMS):
        term = terms.apply("xor", 32, (term, terms.leaf("value", 32, (number,))))

    assert is_small(WRAPPED) and not is_small(term)


def test_rough_leaves() -> None:
    assert rough_leaves(WRAPPED) == [COUNTER]
    assert rough_leaves(terms.leaf("special", 32, ("%tid.x",))) == []


def test_known_in() -> None:
    bottom: dict[Term, Known | None] = {COUNTER: None}

    assert known_in(NEXT, bottom, {}) is None
    assert known_in(NEXT, {COUNTER: constant(3, 32)}, {}) == constant(4, 32)
    # a side at bottom does not count
    assert known_in(terms.apply("select", 32, (FLAG, COUNTER, terms.constant(8, 32))), bottom, {}) == constant(8, 32)


def test_widening_drops_the_range_then_all_but_the_lowest_bits_then_everything() -> None:
    number = join([constant(8, 32), constant(24, 32)], 32)

    assert widened(number, 32, 1) == number
    assert widened(number, 32, 2) == bits(7, 8, 32)
    assert widened(number, 32, MOST_CHANGES + 1) == top(32)
