"""Reachability in any graph, against networkx."""

from __future__ import annotations

from itertools import islice, pairwise

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from ptxkit.analyses.cfg.reachability import closure, nearest_first, post_order, shortest_path, unfold

NODES = 8
GRAPHS = st.lists(st.lists(st.integers(0, NODES - 1), max_size=3), min_size=NODES, max_size=NODES)
IRREDUCIBLE = {"entry": ["a", "b"], "a": ["b"], "b": ["a", "exit"], "exit": [], "unreachable": ["exit"]}
"""A loop of two blocks that is entered at both."""


def directed(graph: list[list[int]]) -> nx.DiGraph[int]:
    found = nx.DiGraph([(node, to) for node, after in enumerate(graph) for to in after])
    found.add_nodes_from(range(NODES))
    return found


class TestClosure:
    def test_an_irreducible_loop(self) -> None:
        assert closure(["a"], IRREDUCIBLE.__getitem__) == {"a", "b", "exit"}

    def test_what_is_left_out_of_the_relation_is_not_passed(self) -> None:
        assert closure(["entry"], lambda node: IRREDUCIBLE[node] if node != "b" else ()) == {"entry", "a", "b"}

    def test_nothing_leads_to_nothing(self) -> None:
        assert closure([], IRREDUCIBLE.__getitem__) == set()

    @given(GRAPHS, st.integers(0, NODES - 1))
    def test_any_graph(self, graph: list[list[int]], start: int) -> None:
        assert closure([start], graph.__getitem__) == {start} | nx.descendants(directed(graph), start)


class TestNearestFirst:
    def test_starts_come_once_and_first(self) -> None:
        assert list(nearest_first(["b", "a", "b"], IRREDUCIBLE.__getitem__)) == ["b", "a", "exit"]

    def test_what_comes_after_a_node_is_asked_when_the_next_one_is(self) -> None:
        asked: list[str] = []

        def after(node: str) -> list[str]:
            asked.append(node)
            return IRREDUCIBLE[node]

        assert list(islice(nearest_first(["entry"], after), 2)) == ["entry", "a"]
        assert asked == ["entry"]

    @given(GRAPHS, st.integers(0, NODES - 1))
    def test_the_distance_never_falls(self, graph: list[list[int]], start: int) -> None:
        distance = nx.single_source_shortest_path_length(directed(graph), start)
        found = list(nearest_first([start], graph.__getitem__))

        assert [distance[node] for node in found] == sorted(distance.values())


class TestUnfold:
    def test_depth_first_the_last_before_the_others(self) -> None:
        tree = {"root": ["left", "right"], "left": [], "right": ["leaf"], "leaf": []}

        assert list(unfold("root", tree.__getitem__)) == ["root", "right", "leaf", "left"]

    def test_a_circle_goes_on(self) -> None:
        assert list(islice(unfold("a", {"a": ["b"], "b": ["a"]}.__getitem__), 5)) == ["a", "b", "a", "b", "a"]


class TestPostOrder:
    def test_what_is_needed_comes_before(self) -> None:
        assert list(post_order("sum", {"sum": ["x", "product"], "product": ["x", "y"], "x": [], "y": []}.__getitem__)) == [
            "x",
            "y",
            "product",
            "sum",
        ]

    def test_an_irreducible_loop_is_broken_where_it_was_entered(self) -> None:
        assert list(post_order("entry", IRREDUCIBLE.__getitem__)) == ["exit", "b", "a", "entry"]

    @given(GRAPHS)
    def test_without_circles_every_edge_leads_back(self, graph: list[list[int]]) -> None:
        acyclic = [[to for to in after if to > node] for node, after in enumerate(graph)]
        position = {node: i for i, node in enumerate(post_order(0, acyclic.__getitem__))}

        assert position.keys() == closure([0], acyclic.__getitem__)
        assert all(position[to] < position[node] for node in position for to in acyclic[node])


class TestShortestPath:
    def test_from_a_node_to_itself_takes_a_step(self) -> None:
        assert shortest_path("a", "a", IRREDUCIBLE.__getitem__) == ["a", "b", "a"]

    def test_there_is_none(self) -> None:
        assert shortest_path("exit", "entry", IRREDUCIBLE.__getitem__) == []

    @given(GRAPHS, st.integers(0, NODES - 1), st.integers(0, NODES - 1))
    def test_any_graph(self, graph: list[list[int]], start: int, goal: int) -> None:
        found = shortest_path(start, goal, graph.__getitem__)
        lengths = [nx.shortest_path_length(directed(graph), to, goal) for to in graph[start] if nx.has_path(directed(graph), to, goal)]

        assert len(found) == (min(lengths) + 2 if lengths else 0)
        assert all(to in graph[node] for node, to in pairwise(found))
