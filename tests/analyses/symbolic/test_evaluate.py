"""One evaluator, several domains: what a term is for many threads, or for a set of numbers, is what it is for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxkit.analyses.numbers.arithmetic import OPERATORS
from ptxkit.analyses.numbers.intervals import Interval
from ptxkit.analyses.symbolic.domains import image, intervals, lanes
from ptxkit.analyses.symbolic.evaluate import Domain, evaluate, is_atom, number_of, numbers, operands
from ptxkit.analyses.symbolic.simplify import new_terms
from ptxkit.analyses.symbolic.terms import Term, Terms

WIDTH = 8
TWO = ("add", "mul", "div.u", "div.s", "rem.u", "and", "or", "xor", "shl", "shr.u", "shr.s", "min.u", "max.s")
COMPARISONS = ("eq", "lt.u", "lt.s")


def leaf(terms: Terms, name: str, width: int = WIDTH) -> Term:
    return terms.leaf("special", width, (name,))


def ring(terms: Terms, stage: Term, stages: int) -> Term:
    """`stage + 1 == stages ? 0 : stage + 1`: a counter that wraps around."""
    after = terms.add(stage, terms.constant(1, stage.width))
    is_end = terms.apply("eq", 1, (after, terms.constant(stages, stage.width)))
    return terms.apply("select", stage.width, (is_end, terms.constant(0, stage.width), after))


@st.composite
def made(draw: st.DrawFn, terms: Terms, leaves: Sequence[Term]) -> Term:
    """A term of some depth over these leaves."""
    grown = [*leaves, terms.constant(draw(st.integers(0, 255)), WIDTH)]
    for _ in range(draw(st.integers(1, 6))):
        one, other = draw(st.sampled_from(grown)), draw(st.sampled_from(grown))
        if draw(st.booleans()):
            grown.append(terms.apply(draw(st.sampled_from(TWO)), WIDTH, (one, other)))
        else:
            condition = terms.apply(draw(st.sampled_from(COMPARISONS)), 1, (one, other))
            grown.append(terms.apply("select", WIDTH, (condition, draw(st.sampled_from(grown)), draw(st.sampled_from(grown)))))
    return grown[-1]


@given(st.data(), st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=1, max_size=5))
def test_the_lanes_are_the_numbers_of_each(data: st.DataObject, held: list[tuple[int, int]]) -> None:
    terms = new_terms()
    x, y = leaf(terms, "x"), leaf(terms, "y")
    term = data.draw(made(terms, (x, y)))
    columns = {x: tuple([a for a, _ in held]), y: tuple([b for _, b in held])}

    one_by_one = [number_of(term, {x: a, y: b}.get) for a, b in held]
    found = evaluate(term, lanes(columns.get, len(held)))

    # the lanes are known together or not at all
    assert found == tuple(one_by_one) if found is not None else None in one_by_one or _divides(term)


def _divides(term: Term) -> bool:
    """Whether something in it has no number for some operands: where lanes differ, both sides of a selection are needed."""
    return term.operator.startswith(("div", "rem")) or any(_divides(inner) for inner in term.inner)


@given(st.data(), st.lists(st.integers(0, 255), min_size=1, max_size=8, unique=True))
def test_the_image_of_a_set_has_the_number_of_each(data: st.DataObject, choices: list[int]) -> None:
    terms = new_terms()
    x, unknown = leaf(terms, "x"), leaf(terms, "unknown")
    term = data.draw(made(terms, (x, unknown)))

    assert list(image(term, x, choices)) == [number_of(term, None, {x: choice}) for choice in choices]


def test_a_ring_of_three_goes_through_its_stages() -> None:
    terms = new_terms()
    stage = leaf(terms, "stage")
    after = ring(terms, stage, 3)

    assert image(after, stage, (0, 1, 2)) == (1, 2, 0)
    assert [number_of(after, None, {stage: number}) for number in range(3)] == [1, 2, 0]


def test_only_the_chosen_side_needs_a_number() -> None:
    terms = new_terms()
    unknown, flag = leaf(terms, "unknown"), leaf(terms, "flag", 1)
    chosen = terms.apply("select", WIDTH, (flag, unknown, terms.constant(7, WIDTH)))

    assert number_of(chosen, {flag: 0}.get) == 7
    assert number_of(chosen, {flag: 1}.get) is None
    assert number_of(chosen) is None
    assert evaluate(chosen, lanes({flag: (0, 0)}.get, 2)) == (7, 7)
    assert evaluate(chosen, lanes({flag: (0, 1)}.get, 2)) is None
    assert image(chosen, flag, (0, 1)) == (7, None)


def test_nobody_knows_which_of_its_terms_a_join_is() -> None:
    terms = new_terms()
    x = leaf(terms, "x")
    join = terms.join(("at", 1), (x, terms.constant(1, WIDTH)))
    asked: list[Term] = []

    def of_leaf(at: Term) -> int | None:
        asked.append(at)
        return 5 if at is join else None

    assert is_atom(join)
    assert number_of(terms.add(join, terms.constant(1, WIDTH)), of_leaf) == 6
    assert asked == [join]


def test_what_is_not_determined_is_not_known() -> None:
    terms = new_terms()
    x, y = leaf(terms, "x"), leaf(terms, "y")
    quotient = terms.apply("div.u", WIDTH, (x, y))

    assert number_of(quotient, {x: 6, y: 3}.get) == 2
    assert number_of(quotient, {x: 6, y: 0}.get) is None
    assert evaluate(quotient, lanes({x: (6, 6), y: (3, 0)}.get, 2)) is None
    assert image(terms.apply("div.u", WIDTH, (terms.constant(6, WIDTH), y)), y, (3, 0)) == (2, None)


def test_what_is_found_is_remembered() -> None:
    terms = new_terms()
    x = leaf(terms, "x")
    asked: list[Term] = []

    def of_leaf(at: Term) -> int:
        asked.append(at)
        return 3

    found: dict[Term, int | None] = {}
    twice = terms.apply("and", WIDTH, (terms.scale(x, 3), terms.apply("xor", WIDTH, (x, terms.constant(1, WIDTH)))))
    assert number_of(twice, of_leaf, found) == number_of(twice, of_leaf, found) == 9 & (3 ^ 1)
    assert asked == [x]
    assert found[x] == 3


def test_a_term_as_deep_as_a_program_is_long() -> None:
    terms = new_terms()
    x = deep = leaf(terms, "x")
    for _ in range(5000):
        deep = terms.apply("mul", WIDTH, (terms.apply("xor", WIDTH, (deep, x)), terms.add(x, terms.constant(1, WIDTH))))

    assert number_of(deep, {x: 2}.get) == evaluate(deep, lanes({x: (2, 2)}.get, 2))[0]  # type: ignore[index]
    assert image(deep, x, (2,)) == (number_of(deep, {x: 2}.get),)


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_every_operator_needs_what_it_is_applied_to(operator: str) -> None:
    args = tuple([Term("special", 1, (), (str(index),), 0, (), (), index, False, None) for index in range(4)])
    at = Term(operator, 8, args, (), 0, (), args, 9, False, None)

    assert operands(at, {}) == args
    assert not is_atom(at)


def test_another_domain() -> None:
    """The height of a term: a domain is two functions."""
    terms = new_terms()
    x = leaf(terms, "x")
    term = terms.apply("xor", WIDTH, (terms.apply("mul", WIDTH, (x, x)), x))
    value: Callable[..., int] = lambda at, found: 1 + max([found[inner] for inner in at.inner], default=0)  # noqa: E731

    assert evaluate(term, Domain[int](value)) == 3
    assert numbers({x: 2}.get).needs(term, {}) == term.inner


@given(st.data(), st.integers(0, 255), st.integers(0, 255), st.integers(0, 40), st.integers(0, 40))
def test_the_interval_holds_the_number(data: st.DataObject, a: int, b: int, below: int, above: int) -> None:
    terms = new_terms()
    x, y = leaf(terms, "x"), leaf(terms, "y")
    term = data.draw(made(terms, (x, y)))
    given_ = {x: Interval(max(0, a - below), min(255, a + above)), y: Interval(b, b)}

    number, found = number_of(term, {x: a, y: b}.get), evaluate(term, intervals(given_.get))

    assert found is not None
    assert number is None or found.has(number)


def test_intervals_of_sums_and_products() -> None:
    terms = new_terms()
    x, y = leaf(terms, "x", 32), leaf(terms, "y", 32)
    given_ = {x: Interval(0, 3), y: Interval(2, 5)}.get

    assert evaluate(terms.add(terms.scale(x, 16), terms.constant(4, 32)), intervals(given_)) == (4, 52)
    assert evaluate(terms.apply("mul", 32, (x, y)), intervals(given_)) == (0, 15)
    # below zero it wraps around: only the bounds are left
    assert evaluate(terms.sub(x, y), intervals(given_)) == (0, (1 << 32) - 1)
    # what is left of a number without the times that another goes into it
    rest = terms.sub(x, terms.apply("mul", 32, (terms.apply("div.u", 32, (x, y)), y)))
    assert evaluate(rest, intervals(given_)) == (0, 4)
