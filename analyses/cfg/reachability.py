"""Reachability in any graph.

A graph is a function from a node to its successors, be they blocks, values, terms or functions of a module. To keep a search from
passing a node, give it no successors.

>>> graph = {"entry": ["head"], "head": ["body", "exit"], "body": ["head"], "exit": []}
>>> list(nearest_first(["head"], graph.__getitem__))
['head', 'body', 'exit']
>>> shortest_path("head", "head", graph.__getitem__)
['head', 'body', 'head']
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

State = TypeVar("State")
Node = TypeVar("Node", bound=Hashable)
Relation = Callable[[Node], Iterable[Node]]
"""From a node to its successors."""


def closure(starts: Iterable[Node], after: Relation[Node]) -> set[Node]:
    """All nodes reachable from some nodes, themselves included: the reflexive and transitive closure."""
    found = set(starts)
    work = list(found)
    for node in work:
        for following in after(node):
            if following not in found:
                found.add(following)
                work.append(following)
    return found


def nearest_first(starts: Iterable[Node], after: Relation[Node]) -> Iterator[Node]:
    """The same, each node once, in breadth-first order. Successors are computed when the next node is requested."""
    work = list(dict.fromkeys(starts))
    found = set(work)
    for node in work:
        yield node
        for following in after(node):
            if following not in found:
                found.add(following)
                work.append(following)


def unfold(start: State, after: Callable[[State], Iterable[State]]) -> Iterator[State]:
    """All states that follow from a state, as a tree: depth first, last successors first.

    States are not deduplicated, so the caller must bound the iteration. Successors are computed when the next state is requested.
    """
    work = [start]
    while work:
        state = work.pop()
        yield state
        work += after(state)


def post_order(start: Node, needs: Relation[Node]) -> Iterator[Node]:
    """A node and everything that it depends on, each once, dependencies first except in cycles: the post-order of a depth-first walk.

    Dependencies are computed when a node is entered.
    """
    found = {start}
    path = [(start, iter(needs(start)))]
    while path:
        node, rest = path[-1]
        for needed in rest:
            if needed not in found:
                found.add(needed)
                path.append((needed, iter(needs(needed))))
                break
        else:
            path.pop()
            yield node


def shortest_path(start: Node, goal: Node, after: Relation[Node]) -> list[Node]:
    """A shortest path between two nodes, both included, with at least one step; empty if there is none."""
    came: dict[Node, Node] = {}

    def onward(node: Node) -> Iterator[Node]:
        for following in after(node):
            came.setdefault(following, node)
            yield following

    for _ in nearest_first([start], onward):
        if goal in came:
            break
    if goal not in came:
        return []
    path = [goal, came[goal]]
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]
