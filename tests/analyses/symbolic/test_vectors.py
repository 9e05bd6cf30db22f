"""What terms are for many threads is what they are for each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptxkit.analyses.numbers.arithmetic import OPERATORS, compute
from ptxkit.analyses.symbolic.simplify import new_terms
from ptxkit.analyses.symbolic.terms import SUM, Term
from ptxkit.analyses.symbolic.vectors import combined, of_one

ARGUMENTS = {
    **dict.fromkeys(("abs", "popc", "clz", "brev", "zext", "sext", "trunc"), 1),
    **dict.fromkeys(("prmt", "funnel_left", "funnel_right", "bfe.u", "bfe.s", "select"), 3),
    **dict.fromkeys(("lop3", "bfi"), 4),
}
"""Of the operators that do not have two."""


def term(operator: str, width: int, args: tuple[Term, ...] = (), offset: int = 0, parts: tuple[tuple[Term, int], ...] = ()) -> Term:
    inner = args or tuple([atom for atom, _ in parts])
    return Term(operator, width, args, (), offset, parts, inner, 0, False, None)


@given(st.data())
def test_each_thread_gets_what_the_operator_gives(data: st.DataObject) -> None:
    operator = data.draw(st.sampled_from(sorted(OPERATORS)))
    width = 32 if operator == "prmt" else data.draw(st.sampled_from((8, 16, 32, 64)))
    result = {"eq": 1, "lt.u": 1, "lt.s": 1, "zext": 64, "sext": 64, "trunc": 8}.get(operator, width)
    widths = [1 if operator == "select" and place == 0 else width for place in range(ARGUMENTS.get(operator, 2))]
    args = tuple([term("value", width) for width in widths])
    numbers = [
        tuple(data.draw(st.lists(st.integers(0, (1 << width) - 1) | st.integers(0, min(3, (1 << width) - 1)), min_size=3, max_size=3)))
        for width in widths
    ]
    one_by_one = [compute(operator, result, list(one), widths) for one in zip(*numbers, strict=True)]
    found = combined(term(operator, result, args), dict(zip(args, numbers, strict=True)), 3)
    assert found == (None if None in one_by_one else tuple(one_by_one))  # type: ignore[comparison-overlap]


@given(st.lists(st.tuples(st.integers(1, 255), st.lists(st.integers(0, 255), min_size=3, max_size=3)), max_size=4), st.integers(0, 255))
def test_sums(parts: list[tuple[int, list[int]]], offset: int) -> None:
    atoms = [term("value", 8) for _ in parts]
    total = term(SUM, 8, (), offset, tuple([(atom, factor) for atom, (factor, _) in zip(atoms, parts, strict=True)]))
    found = combined(total, {atom: tuple(numbers) for atom, (_, numbers) in zip(atoms, parts, strict=True)}, 3)
    assert found == tuple([sum([offset, *[factor * numbers[thread] for factor, numbers in parts]]) % 256 for thread in range(3)])


def test_of_one_thread() -> None:
    terms = new_terms()
    x, y = (terms.leaf("value", 8, (number,)) for number in (1, 2))

    # 3x + y - 2 of 8 bits, with the numbers in the order of the parts
    sum_ = terms.sub(terms.add(terms.scale(x, 3), y), terms.constant(2, 8))
    assert of_one(sum_, [{x: 100, y: 9}[atom] for atom, _ in sum_.parts]) == (307 & 255)
    assert of_one(terms.apply("div.u", 8, (x, y)), (100, 9)) == 11
    assert of_one(terms.apply("div.u", 8, (x, y)), (100, 0)) is None
