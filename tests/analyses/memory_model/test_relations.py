"""Relations against networkx, and their laws."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from ptxkit.analyses.memory_model.execution import cliques
from ptxkit.analyses.memory_model.relations import Relation, members

N = 7
PAIRS = st.sets(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), max_size=20)


@given(PAIRS)
def test_transitive_closure_and_cycles(pairs: set[tuple[int, int]]) -> None:
    graph = nx.DiGraph(sorted(pairs))
    relation = Relation.of(N, pairs)
    expected = {(a, b) for a in graph for _, b in nx.edge_bfs(graph, a)}

    assert set(relation.plus()) == expected
    assert relation.is_acyclic() == nx.is_directed_acyclic_graph(graph)
    cycle = relation.cycle()
    assert bool(cycle) != relation.is_acyclic()
    assert all((a, b) in relation for a, b in zip(cycle, (*cycle[1:], *cycle[:1]), strict=True))


@given(PAIRS, PAIRS)
def test_composition_and_inverse(left: set[tuple[int, int]], right: set[tuple[int, int]]) -> None:
    a, b = Relation.of(N, left), Relation.of(N, right)

    assert set(a >> b) == {(i, k) for i, j in left for m, k in right if j == m}
    assert ~(a >> b) == ~b >> ~a
    assert set(a | b) == left | right and set(a & b) == left & right and set(a - b) == left - right


@given(PAIRS)
def test_a_path_is_a_shortest_chain(pairs: set[tuple[int, int]]) -> None:
    graph = nx.DiGraph(sorted(pairs))
    graph.add_nodes_from(range(N))
    path = Relation.of(N, pairs).path(0, 1)

    assert bool(path) == nx.has_path(graph, 0, 1)
    if path:
        assert len(path) - 1 == nx.shortest_path_length(graph, 0, 1)


@given(PAIRS)
def test_maximal_cliques(pairs: set[tuple[int, int]]) -> None:
    graph = nx.Graph([(a, b) for a, b in pairs if a != b])
    rows = [0] * N
    for a, b in graph.edges:
        rows[a] |= 1 << b
        rows[b] |= 1 << a

    assert {frozenset(members(one)) for one in cliques(rows)} == {frozenset(one) for one in nx.find_cliques(graph)}
