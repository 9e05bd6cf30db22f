"""Terms for many threads at a time, and as intervals: selections and sums."""

from __future__ import annotations

from ptxkit.analyses.numbers.intervals import Interval, just
from ptxkit.analyses.symbolic.domains import needs_of_lanes, of_lanes, total
from ptxkit.analyses.symbolic.simplify import new_terms

terms = new_terms()
X = terms.leaf("value", 32, (1,))
Y = terms.leaf("value", 32, (2,))
FLAG = terms.leaf("value", 1, (3,))
CHOSEN = terms.apply("select", 32, (FLAG, X, Y))


class TestLanes:
    def test_a_selection_needs_its_condition_first(self) -> None:
        assert list(needs_of_lanes(CHOSEN, {})) == [FLAG]

    def test_then_what_some_thread_chooses(self) -> None:
        assert list(needs_of_lanes(CHOSEN, {FLAG: (1, 1)})) == [X]
        assert list(needs_of_lanes(CHOSEN, {FLAG: (0, 0)})) == [Y]
        assert list(needs_of_lanes(CHOSEN, {FLAG: (1, 0)})) == [X, Y]
        assert list(needs_of_lanes(CHOSEN, {FLAG: None})) == []

    def test_a_sum_needs_its_parts(self) -> None:
        assert set(needs_of_lanes(terms.add(terms.scale(X, 4), Y), {})) == {X, Y}

    def test_each_thread_gets_what_it_chooses(self) -> None:
        assert of_lanes(CHOSEN, {FLAG: (1, 0, 1), X: (1, 2, 3), Y: (10, 20, 30)}, 3) == (1, 20, 3)

    def test_what_nobody_chooses_need_not_be_known(self) -> None:
        assert of_lanes(CHOSEN, {FLAG: (0, 0), Y: (10, 20)}, 2) == (10, 20)
        assert of_lanes(CHOSEN, {FLAG: None}, 2) is None

    def test_a_sum_wraps_around(self) -> None:
        # 4x + y - 1 of 32 bits
        sum_ = terms.add(terms.add(terms.scale(X, 4), Y), terms.constant(-1, 32))

        assert of_lanes(sum_, {X: (0, 1 << 30), Y: (0, 7)}, 2) == ((1 << 32) - 1, 6)
        assert of_lanes(sum_, {X: (0, 1), Y: None}, 2) is None


class TestTotal:
    def test_signed_parts(self) -> None:
        # 8x - y + 3, with x from 0 to 5 and y from 1 to 2
        sum_ = terms.add(terms.sub(terms.scale(X, 8), Y), terms.constant(3, 32))

        assert total(sum_, {X: Interval(0, 5), Y: Interval(1, 2)}) == Interval(1, 42)

    def test_it_may_be_more_than_the_width_holds(self) -> None:
        sum_ = terms.add(X, Y)

        assert total(sum_, {X: just((1 << 32) - 1), Y: just(1)}) == just(1 << 32)

    def test_a_remainder_is_less_than_its_divisor(self) -> None:
        # x - x / y * y, with y at most 8
        quotient = terms.apply("mul", 32, (terms.apply("div.u", 32, (X, Y)), Y))
        rest = terms.sub(X, quotient)

        assert total(rest, {X: Interval(0, 1000), Y: Interval(1, 8), quotient: Interval(0, 1000)}) == Interval(0, 7)
