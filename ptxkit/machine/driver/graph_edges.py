"""Functions of the driver for the order of the nodes in a graph."""

from __future__ import annotations

import ctypes

from ptxkit.machine.driver.graph_nodes import U64, nodes_at, owner_of
from ptxkit.machine.driver.graphs import Graph, Node
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.state import STATE


def _listed(found: list[Node], place: int, room: int) -> None:
    """Writes as many handles as there is room for, and their number."""
    count = U64.from_address(room)
    if place:
        few = found[: count.value]
        (U64 * len(few)).from_address(place)[:] = [node.handle for node in few]
    count.value = len(found)


@call("q q q")
def cuGraphGetNodes(graph: int, place: int, room: int) -> None:
    _listed(STATE.of(graph, Graph).nodes, place, room)


@call("q q q")
def cuGraphGetRootNodes(graph: int, place: int, room: int) -> None:
    _listed([node for node in STATE.of(graph, Graph).nodes if not node.after], place, room)


def _edges(graph: int, sources: int, targets: int, room: int) -> None:
    found = [(one, node) for node in STATE.of(graph, Graph).nodes for one in node.after]
    held = U64.from_address(room).value
    for i, place in enumerate((sources, targets)):
        U64.from_address(room).value = held
        _listed([pair[i] for pair in found], place, room)


@call("q q q q")
def cuGraphGetEdges(graph: int, sources: int, targets: int, room: int) -> None:
    _edges(graph, sources, targets, room)


def _plain(data: int, room: int, found: int) -> None:
    """The data of ordinary edges."""
    if data:
        ctypes.memset(data, 0, 8 * min(found, U64.from_address(room).value))


@call("q q q q q", since=12030, base="cuGraphGetEdges")
def cuGraphGetEdges_v2(graph: int, sources: int, targets: int, data: int, room: int) -> None:
    _plain(data, room, sum(len(node.after) for node in STATE.of(graph, Graph).nodes))
    _edges(graph, sources, targets, room)


@call("q q q")
def cuGraphNodeGetDependencies(node: int, place: int, room: int) -> None:
    _listed(STATE.of(node, Node).after, place, room)


@call("q q q q", since=12030, base="cuGraphNodeGetDependencies")
def cuGraphNodeGetDependencies_v2(node: int, place: int, data: int, room: int) -> None:
    _plain(data, room, len(STATE.of(node, Node).after))
    _listed(STATE.of(node, Node).after, place, room)


@call("q q q")
def cuGraphNodeGetDependentNodes(node: int, place: int, room: int) -> None:
    one = STATE.of(node, Node)
    _listed(owner_of(one).before(one), place, room)


@call("q q q q", since=12030, base="cuGraphNodeGetDependentNodes")
def cuGraphNodeGetDependentNodes_v2(node: int, place: int, data: int, room: int) -> None:
    one = STATE.of(node, Node)
    _plain(data, room, len(owner_of(one).before(one)))
    _listed(owner_of(one).before(one), place, room)


def _linked(graph: int, sources: int, targets: int, count: int, is_added: bool) -> None:
    one = STATE.of(graph, Graph)
    pairs = list(zip(nodes_at(sources, count), nodes_at(targets, count), strict=True))
    for source, target in pairs:
        if source not in one.nodes or target not in one.nodes or source is target or (source in target.after) == is_added:
            raise Failure("INVALID_VALUE")
    for source, target in pairs:
        target.after = [*target.after, source] if is_added else [other for other in target.after if other is not source]
    if is_added:
        try:
            one.order  # noqa: B018 - is there a circle?
        except Failure:
            for source, target in pairs:
                target.after.remove(source)
            raise


@call("q q q q")
def cuGraphAddDependencies(graph: int, sources: int, targets: int, count: int) -> None:
    _linked(graph, sources, targets, count, True)


@call("q q q q q", since=12030, base="cuGraphAddDependencies")
def cuGraphAddDependencies_v2(graph: int, sources: int, targets: int, data: int, count: int) -> None:
    _linked(graph, sources, targets, count, True)


@call("q q q q")
def cuGraphRemoveDependencies(graph: int, sources: int, targets: int, count: int) -> None:
    _linked(graph, sources, targets, count, False)


@call("q q q q q", since=12030, base="cuGraphRemoveDependencies")
def cuGraphRemoveDependencies_v2(graph: int, sources: int, targets: int, data: int, count: int) -> None:
    _linked(graph, sources, targets, count, False)
