"""Paths between instructions, and through a graph of which only some nodes matter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sample import kernel

from ptxkit.analyses.cfg.paths import between, comes_to, comes_without, met, next_among, onward, states

NODES = 8
GRAPHS = st.lists(st.lists(st.integers(0, NODES - 1), max_size=3), min_size=NODES, max_size=NODES)


def reached(graph: list[list[int]], kept: set[int], start: int) -> set[int]:
    """The kept nodes that are come to from a node without another of them between."""
    found: set[int] = set()
    seen: set[int] = set()
    work = list(graph[start])
    while work:
        node = work.pop()
        if node in kept:
            found.add(node)
        elif node not in seen:
            seen.add(node)
            work += graph[node]
    return found


@given(GRAPHS, st.sets(st.integers(0, NODES - 1)))
def test_nodes_that_come_next_are_those_that_paths_through_the_others_lead_to(graph: list[list[int]], kept: set[int]) -> None:
    found = next_among(dict(enumerate(graph)), kept)

    assert {node: set(after) for node, after in found.items()} == {node: reached(graph, kept, node) for node in sorted(kept)}


IRREDUCIBLE = kernel("@%p1 bra b; a: mov.u32 %r1, 1; b: mov.u32 %r2, 2; @%p2 bra a; ret;")
"""Instructions 1 and 2 are the blocks of a loop that is entered at both."""
EXIT = kernel("a: mov.u32 %r1, 1; @%p1 bra out; mov.u32 %r2, 2; @%p2 bra a; mov.u32 %r3, 3; out: ret;")
"""A loop that is left in the middle and at its end; what stands after it, 4, is passed over by those who leave early."""
UNREACHABLE = kernel("mov.u32 %r1, 1; bra a; mov.u32 %r2, 2; a: ret;")


def test_control_comes_to_itself_only_in_a_loop() -> None:
    assert comes_to(IRREDUCIBLE, 1, 1)
    assert comes_to(IRREDUCIBLE, 2, 1)
    assert not comes_to(IRREDUCIBLE, 0, 0)
    assert not comes_to(IRREDUCIBLE, 4, 1)
    assert not comes_to(UNREACHABLE, 0, 2)
    assert comes_to(UNREACHABLE, 2, 3)


class TestMet:
    def test_paths_end_with_the_first_that_is_an_end(self) -> None:
        assert list(met(EXIT, 0, [2, 4, 5], [2])) == [2, 5]

    def test_backward(self) -> None:
        assert list(met(EXIT, 5, [0, 2, 4], [0, 4], forwards=False)) == [0, 4]

    def test_the_start_is_met_again_in_a_loop(self) -> None:
        assert sorted(met(IRREDUCIBLE, 1, [1, 2], [])) == [1, 2]
        assert list(met(UNREACHABLE, 0, [0, 2, 3], [])) == [3]


def test_between_are_those_on_a_path_that_passes_neither_end_again() -> None:
    assert between(EXIT, 0, 5, [2, 4]) == {2, 4}
    assert between(EXIT, 2, 5, [0, 4]) == {0, 4}
    assert between(EXIT, 4, 5, [0, 2]) == set()
    assert between(IRREDUCIBLE, 1, 4, [0, 2]) == {2}


def test_onward_goes_not_back() -> None:
    assert onward(IRREDUCIBLE, 2) == 0b1100
    assert onward(UNREACHABLE, 0) == 0b101


def test_what_control_comes_to_without_some_instructions() -> None:
    comes = comes_without(EXIT, {2})

    assert [i for i in range(6) if comes(i)] == [0, 1, 2, 5]
    assert [i for i in range(5) if comes_without(IRREDUCIBLE, {2}, 2)(i)] == [2]
    assert [i for i in range(5) if comes_without(IRREDUCIBLE, set(), 1)(i)] == [1, 2, 3, 4]
    assert not comes_without(UNREACHABLE, set())(2)


class TestStates:
    def step(self, i: int, state: frozenset[int]) -> frozenset[int]:
        return frozenset() if i == 2 else state | {i}

    def test_an_irreducible_loop(self) -> None:
        assert dict(states(IRREDUCIBLE, [1, 2, 4], self.step)) == {1: frozenset(), 2: frozenset({1}), 4: frozenset()}

    def test_those_who_leave_early_bring_what_they_have(self) -> None:
        assert dict(states(EXIT, [0, 2, 4, 5], self.step)) == {
            0: frozenset(),
            2: frozenset({0}),
            4: frozenset(),
            5: frozenset({0, 4}),
        }

    def test_an_unreachable_block_has_no_state(self) -> None:
        assert dict(states(UNREACHABLE, [0, 2, 3], self.step)) == {0: frozenset(), 3: frozenset({0})}
