"""Terms in words and in parts."""

from __future__ import annotations

from ptxkit.analyses.symbolic.environment import rebuilt
from ptxkit.analyses.symbolic.simplify import new_terms
from ptxkit.analyses.symbolic.terms import spoken, walk

terms = new_terms()
X = terms.leaf("special", 32, ("%tid.x",))
Y = terms.leaf("special", 32, ("%ctaid.x",))


class TestSpoken:
    def test_sums(self) -> None:
        assert spoken(terms.constant(-3, 32)) == "-3"
        assert spoken(terms.add(X, terms.constant(5, 32))) == "%tid.x + 5"
        assert spoken(terms.add(terms.scale(X, 4), terms.constant(-3, 32))) == "4*%tid.x - 3"
        assert spoken(terms.sub(X, Y)) == "%tid.x - %ctaid.x"

    def test_operators(self) -> None:
        assert spoken(terms.apply("xor", 32, (X, Y))) == "xor(%tid.x, %ctaid.x)"

    def test_what_is_nested_deeper_is_left_out(self) -> None:
        term = terms.apply("div.u", 32, (terms.apply("max.u", 32, (X, Y)), Y))

        assert spoken(term, 1) == "div.u(…, %ctaid.x)"
        assert spoken(term, 0) == "…"

    def test_parameters(self) -> None:
        assert spoken(terms.leaf("parameter", 32, ("n", 0, 0))) == "n"
        assert spoken(terms.leaf("parameter", 32, ("n", 0, 8))) == "n+8"


class TestWalk:
    def test_each_once_and_after_what_it_is_made_of(self) -> None:
        least = terms.apply("min.u", 32, (X, Y))
        term = terms.apply("xor", 32, (least, terms.add(X, terms.constant(1, 32))))
        order = walk(term)

        assert len(order) == len(set(order)) == 5
        assert all(order.index(inner) < order.index(at) for at in order for inner in at.inner)
        assert order[-1] is term

    def test_without_what_is_known(self) -> None:
        least = terms.apply("min.u", 32, (X, Y))
        term = terms.apply("xor", 32, (least, Y))

        # X stands in what is known alone
        assert set(walk(term, {least})) == {Y, term}
        assert walk(X, {X}) == []

    def test_a_chain_of_ten_thousand(self) -> None:
        term = X
        for number in range(10_000):
            term = terms.apply("xor", 32, (terms.apply("shr.u", 32, (term, terms.constant(1, 32))), terms.leaf("value", 32, (number,))))

        assert walk(term)[-1] is term


def test_inside() -> None:
    assert X.inner == ()
    assert set(terms.add(terms.scale(X, 4), Y).inner) == {X, Y}
    assert set(terms.apply("max.u", 32, (X, Y)).inner) == {X, Y}


def test_negated() -> None:
    less = terms.apply("lt.u", 1, (X, Y))

    assert terms.invert(less).negated is less
    assert less.negated is None


class TestRebuilt:
    def test_a_sum(self) -> None:
        before = terms.add(terms.add(terms.scale(X, 4), Y), terms.constant(7, 32))
        # x = 10, y as it is: 4 * 10 + y + 7
        found = rebuilt(terms, before, {X: terms.constant(10, 32), Y: Y})

        assert found is terms.add(Y, terms.constant(47, 32))

    def test_an_operator(self) -> None:
        before = terms.apply("max.u", 32, (X, Y))

        assert rebuilt(terms, before, {X: terms.constant(3, 32), Y: terms.constant(9, 32)}).constant == 9
        assert rebuilt(terms, before, {X: X, Y: Y}) is before
