"""Graphs that are captured from streams: what a stream would have done is kept, and done when the graph is launched.

Captured work is in one row, in the order of the calls, which is one of the orders that its dependencies allow. Nodes cannot be added
or changed one at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.driver.streams import Event, Stream, stream_of


@attrs.define(eq=False)
class Graph:
    """What was captured, in order."""

    work: list[Callable[[], None]] = attrs.Factory(list)
    number: int = attrs.Factory(lambda: STATE.number())


@attrs.define(eq=False)
class Executable:
    """A graph that can be launched."""

    graph: Graph
    flags: int = 0


def _capturing(stream: int) -> Graph | None:
    return stream_of(stream).capture  # type: ignore[return-value]


@call("q i", "cuStreamBeginCapture_v2")
def cuStreamBeginCapture(stream: int, mode: int) -> None:
    one = STATE.of(stream, Stream)
    if one.capture is not None:
        raise Failure("ILLEGAL_STATE")
    one.capture = Graph()
    one.begins = True


@call("q *q")
def cuStreamEndCapture(stream: int) -> int:
    one = STATE.of(stream, Stream)
    graph = one.capture
    if graph is None:
        raise Failure("ILLEGAL_STATE")
    if not one.begins:
        raise Failure("STREAM_CAPTURE_UNMATCHED")
    one.capture, one.begins = None, False
    for other in STATE.every(Stream):
        if other.capture is graph:
            other.capture = None
    return STATE.handle(graph)


@call("*q u")
def cuGraphCreate(flags: int) -> int:
    return STATE.handle(Graph())


@call("q")
def cuGraphDestroy(graph: int) -> None:
    STATE.drop(graph, Graph)


@call("*q q q")
def cuGraphInstantiateWithFlags(graph: int, flags: int) -> int:
    return STATE.handle(Executable(STATE.of(graph, Graph), flags))


@call("*q q q")
def cuGraphInstantiateWithParams(graph: int, parameters: int) -> int:
    return STATE.handle(Executable(STATE.of(graph, Graph)))


@call("q")
def cuGraphExecDestroy(graph: int) -> None:
    STATE.drop(graph, Executable)


@call("q *q")
def cuGraphExecGetFlags(graph: int) -> int:
    return STATE.of(graph, Executable).flags


@call("q q")
def cuGraphUpload(graph: int, stream: int) -> None:
    STATE.of(graph, Executable)


@call("q q", settles=True)
def cuGraphLaunch(graph: int, stream: int) -> None:
    one = STATE.of(graph, Executable)
    into = _capturing(stream)
    if into is not None:
        into.work += one.graph.work
        return
    for work in list(one.graph.work):
        work()


@call("q q q *q")
def cuGraphGetNodes(graph: int, nodes: int) -> int:
    return len(STATE.of(graph, Graph).work)
