"""Ways through a graph of which only some nodes matter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptxkit.analyses.cfg.paths import next_among

NODES = 8
GRAPHS = st.lists(st.lists(st.integers(0, NODES - 1), max_size=3), min_size=NODES, max_size=NODES)


def reached(graph: list[list[int]], kept: set[int], start: int) -> set[int]:
    """The kept nodes that are come to from a node without another of them on the way."""
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
def test_nodes_that_come_next_are_those_that_ways_through_the_others_lead_to(graph: list[list[int]], kept: set[int]) -> None:
    found = next_among(dict(enumerate(graph)), kept)

    assert {node: set(after) for node, after in found.items()} == {node: reached(graph, kept, node) for node in sorted(kept)}
