"""What paths presume: contradictions are seen, and numbers are found with which control goes that way."""

from __future__ import annotations

from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.simplify import new_terms
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.thread_block import ThreadBlock
from ptxkit.analyses.symex.path_condition import MOST_EVALUATED, Choices, _Search, atoms, comparison, conjuncts, unnegated

TEAM = ThreadBlock((32, 1, 1), False)


class TestChoices:
    def test_ranges_contradict(self) -> None:
        terms = new_terms()
        n = terms.leaf("parameter", 32, ("n",))
        below = terms.apply("lt.s", 1, (n, terms.constant(3, 32)))
        above = terms.apply("lt.s", 1, (terms.constant(4, 32), n))
        chosen = Choices(terms).choose(below, True)

        assert chosen is not None
        assert chosen.says(above) is False
        assert chosen.choose(above, True) is None

    def test_a_range_without_a_multiple_contradicts(self) -> None:
        terms = new_terms()
        whole = terms.scale(terms.leaf("parameter", 32, ("n",)), 128)
        large = terms.apply("lt.s", 1, (terms.constant(256, 32), whole))
        larger = terms.apply("lt.s", 1, (terms.constant(320, 32), whole))
        chosen = Choices(terms).choose(large, True)

        assert chosen is not None
        assert chosen.says(larger) is True
        assert chosen.choose(larger, False) is None

    def test_sums_are_compared_without_their_constants(self) -> None:
        terms = new_terms()
        n = terms.leaf("parameter", 32, ("n",))
        chosen = Choices(terms).choose(terms.apply("lt.s", 1, (terms.add(n, terms.constant(-2, 32)), terms.constant(1, 32))), True)

        assert chosen is not None
        assert chosen.says(terms.apply("lt.s", 1, (n, terms.constant(3, 32)))) is True

    def test_a_place_in_the_grid_is_less_than_how_many_there_are(self) -> None:
        terms = new_terms()
        place, count = (terms.leaf("special", 32, (name,)) for name in ("%ctaid.x", "%nctaid.x"))
        large = terms.apply("lt.u", 1, (terms.constant(9, 32), place))
        chosen = Choices(terms).choose(large, True)
        few = chosen.choose(terms.apply("lt.u", 1, (count, terms.constant(10, 32))), True) if chosen is not None else None
        many = chosen.choose(terms.apply("lt.u", 1, (count, terms.constant(20, 32))), True) if chosen is not None else None
        assert few is not None and many is not None

        assert few.model(TEAM, (0,)) is None
        found = many.model(TEAM, (0,))
        assert found is not None and 9 < found[place] < found[count] < 20

    def test_sizes_are_not_so_large_that_sums_overflow(self) -> None:
        terms = new_terms()
        n = terms.leaf("parameter", 32, ("n",))
        tiles = terms.apply("shr.s", 32, (terms.add(n, terms.constant(31, 32)), terms.constant(5, 32)))
        some = Choices(terms).choose(terms.apply("lt.s", 1, (terms.constant(0, 32), n)), True)
        none = some.choose(terms.apply("lt.s", 1, (tiles, terms.constant(0, 32))), True) if some is not None else None
        assert some is not None and none is not None

        assert some.model(TEAM, (0,)) is not None
        assert none.model(TEAM, (0,)) is None

    def test_model_takes_the_path(self) -> None:
        terms = new_terms()
        n = terms.leaf("parameter", 32, ("n",))
        tiles = terms.apply("shr.s", 32, (terms.add(n, terms.constant(31, 32)), terms.constant(5, 32)))
        exactly = terms.apply("eq", 1, (tiles, terms.constant(3, 32)))
        chosen = Choices(terms).choose(exactly, True)
        assert chosen is not None
        model = chosen.model(TEAM, (0,))

        assert model is not None
        assert number_of(exactly, lambda leaf: model.get(leaf)) == 1

    def test_no_model_for_what_cannot_be(self) -> None:
        terms = new_terms()
        n = terms.leaf("parameter", 32, ("n",))
        odd = terms.apply("eq", 1, (terms.apply("and", 32, (n, terms.constant(1, 32))), terms.constant(1, 32)))
        double = terms.apply("eq", 1, (terms.apply("rem.u", 32, (n, terms.constant(4, 32))), terms.constant(2, 32)))
        chosen = Choices(terms).choose(odd, True)
        both = chosen.choose(double, True) if chosen is not None else None

        assert both is None or both.model(TEAM, (0,)) is None

    def test_the_search_ends_where_terms_are_many(self) -> None:
        terms = new_terms()
        leaves = [terms.leaf("parameter", 32, (f"p{i}",)) for i in range(40)]
        mixed = leaves[0]
        for _ in range(40):
            for leaf in leaves:
                mixed = terms.apply("xor", 32, (terms.apply("mul", 32, (mixed, leaf)), terms.constant(7, 32)))
        odd = terms.apply("eq", 1, (terms.apply("and", 32, (mixed, terms.constant(8, 32))), terms.constant(8, 32)))
        chosen = Choices(terms).choose(odd, True)
        assert chosen is not None
        search = _Search(TEAM, [(odd, True, (0,))], {})

        assert search.run() is None
        assert search.evaluated < 2 * MOST_EVALUATED

    def test_what_must_hold_for_a_predicate_to_hold(self) -> None:
        terms = new_terms()
        n, bit = (terms.leaf("parameter", 32, (name,)) for name in ("n", "bit"))
        zero, size = terms.constant(0, 32), terms.constant(16, 32)
        few = terms.apply("lt.s", 1, (n, terms.constant(3, 32)))
        unset = terms.apply("eq", 1, (terms.apply("and", 32, (n, bit)), zero))
        chosen = terms.apply("select", 32, (terms.apply("or", 1, (few, unset)), zero, size))

        assert set(conjuncts(terms, terms.apply("eq", 1, (chosen, zero)), False)) == {(few, False), (unset, False)}
        assert list(conjuncts(terms, few, False)) == [(few, False)]

    def test_sums_that_grow_by_what_is_not_known_come_round(self) -> None:
        terms = new_terms()
        place, count = (terms.leaf("special", 32, (name,)) for name in ("%ctaid.x", "%nctaid.x"))
        n = terms.leaf("parameter", 32, ("n",))
        chosen = [Choices(terms)]
        for turn in range(4):
            at = terms.add(place, terms.scale(count, turn))
            after = chosen[-1].choose(terms.apply("lt.s", 1, (terms.sub(at, n), terms.constant(0, 32))), True)
            assert after is not None
            chosen.append(after)

        assert chosen[2].shape == chosen[3].shape == chosen[4].shape


class TestComparison:
    """`x` is 32 bits wide; a comparison is of a sum without its constant with a number."""

    terms = new_terms()
    x = terms.leaf("parameter", 32, ("x",))
    y = terms.leaf("parameter", 32, ("y",))

    def of(self, operator: str, left: Term, right: Term) -> tuple[Term, str, bool, int] | None:
        return comparison(self.terms, self.terms.apply(operator, 1, (left, right)))

    def test_with_a_number(self) -> None:
        assert self.of("lt.s", self.x, self.terms.constant(5, 32)) == (self.x, "lt.s", True, 5)

    def test_a_number_with_it(self) -> None:
        # 5 < x, so -x < -5
        assert self.of("lt.s", self.terms.constant(5, 32), self.x) == (self.x, "lt.s", False, -5)

    def test_of_two(self) -> None:
        # x + 3 < y, so x - y < -3
        left = self.terms.add(self.x, self.terms.constant(3, 32))

        assert self.of("lt.s", left, self.y) == (self.terms.sub(self.x, self.y), "lt.s", True, -3)

    def test_no_comparison(self) -> None:
        assert comparison(self.terms, self.terms.leaf("value", 1, (1,))) is None


def test_a_negation_is_taken_off() -> None:
    terms = new_terms()
    flag = terms.leaf("value", 1, (1,))

    assert unnegated(flag) == (flag, True)
    assert unnegated(terms.invert(flag)) == (flag, False)


def test_atoms_are_leaves_and_joins() -> None:
    terms = new_terms()
    x, y = (terms.leaf("parameter", 32, (name,)) for name in "xy")
    join = terms.join((7,), (x, y))
    term = terms.apply("max.u", 32, (terms.add(terms.scale(join, 4), terms.constant(9, 32)), x))

    assert {atom for atom in atoms(term) if atom.operator == "join"} == {join}
    assert {atom for atom in atoms(term) if atom.operator != "join"} <= {x, y}
    assert x in atoms(term)
