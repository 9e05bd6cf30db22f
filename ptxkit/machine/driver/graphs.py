"""Graphs: nodes, their dependencies, and their execution."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from ptxkit.frozen import define
from ptxkit.machine.driver.interface import Failure
from ptxkit.machine.driver.state import STATE

KERNEL, MEMCPY, MEMSET, HOST, GRAPH, EMPTY, WAIT_EVENT, EVENT_RECORD = range(8)
MEM_ALLOC, MEM_FREE, BATCH_MEM_OP, CONDITIONAL = range(10, 14)
"""CUgraphNodeType."""
NAMES = {
    KERNEL: "kernel", MEMCPY: "memcpy", MEMSET: "memset", HOST: "host", GRAPH: "graph", EMPTY: "empty", WAIT_EVENT: "event wait",
    EVENT_RECORD: "event record", MEM_ALLOC: "alloc", MEM_FREE: "free", BATCH_MEM_OP: "memory operations", CONDITIONAL: "conditional",
}  # fmt: skip
IF, WHILE, SWITCH = range(3)
"""CUgraphConditionalNodeType."""


def nothing() -> None:
    """The work of an empty node."""


@define(eq=False)
class Node:
    """A node. `after` are its dependencies; `given` is what getters return, as the structure of its kind; `kept` is what that points to."""

    kind: int
    work: Callable[[], None] = nothing
    after: list[Node] = attrs.Factory(list)
    given: Any = None
    kept: Any = None
    graphs: list[Graph] = attrs.Factory(list)
    """The child graph, or the bodies of a conditional node."""
    condition: int = 0
    which: int = IF
    handle: int = 0
    is_enabled: bool = True
    cluster: tuple[int, int, int] | None = None


@define(eq=False)
class Graph:
    """A graph. `conditions` are the handles of conditions with their value at each launch; None keeps the previous value."""

    nodes: list[Node] = attrs.Factory(list)
    conditions: dict[int, int | None] = attrs.Factory(dict)
    objects: list[tuple[int, int]] = attrs.Factory(list)
    """User objects, with the number of references to each."""
    handle: int = 0
    copies: dict[int, Node] = attrs.Factory(dict)
    """For a copy: its nodes by the `id` of the original nodes, which `originals` keeps alive."""
    originals: tuple[Node, ...] = ()
    around: Graph | None = None
    """The graph of the conditional node whose body this is."""

    def knows(self, condition: int) -> bool:
        """Whether a condition belongs to this graph, or to one around it."""
        return condition in self.conditions or (self.around is not None and self.around.knows(condition))

    def add(self, node: Node, after: list[Node]) -> Node:
        """Adds a node to the graph; returns it. Raises `Failure` for invalid dependencies."""
        if len({id(one) for one in after}) < len(after) or any(one not in self.nodes for one in after):
            raise Failure("INVALID_VALUE", "a node comes after another one of the same graph, once")
        if node.kind == CONDITIONAL and not self.knows(node.condition):
            raise Failure("INVALID_VALUE", "a condition of another graph")
        for inner in node.graphs:
            inner.around = self
        node.after = list(after)
        node.handle = STATE.handle(node)
        self.nodes.append(node)
        return node

    def remove(self, node: Node) -> None:
        """Removes a node from the graph, with its edges."""
        self.nodes.remove(node)
        for other in self.nodes:
            other.after = [one for one in other.after if one is not node]
        STATE.drop(node.handle, Node)

    def before(self, node: Node) -> list[Node]:
        """The nodes that depend on a node."""
        return [one for one in self.nodes if node in one.after]

    @property
    def order(self) -> list[Node]:
        """The nodes in topological order. Raises `Failure` for a cycle."""
        done: dict[int, Node] = {}
        left = list(self.nodes)
        while left:
            ready = [node for node in left if all(id(one) in done for one in node.after)]
            if not ready:
                raise Failure("INVALID_VALUE", "nodes of the graph come after one another in a circle")
            done |= {id(node): node for node in ready}
            left = [node for node in left if id(node) not in done]
        return list(done.values())

    def execute(self) -> None:
        """Runs all nodes."""
        for handle, value in self.conditions.items():
            if value is not None:
                STATE.machine.conditions[handle] = value
        for node in self.order:
            if node.is_enabled:
                run(node)

    def copy(self) -> Graph:
        """A copy of the graph, with references to the same user objects."""
        found = Graph(conditions=dict(self.conditions), around=self, originals=tuple(self.nodes))
        for node in self.order:
            made = attrs.evolve(node, graphs=[inner.copy() for inner in node.graphs])
            found.copies[id(node)] = found.add(made, [found.copies[id(one)] for one in node.after])
        for number, count in self.objects:
            STATE.of(number, Counted).references += count
        found.objects = list(self.objects)
        return found

    def forget(self) -> None:
        """Releases the handles of its nodes and graphs."""
        for node in self.nodes:
            STATE.drop(node.handle, Node)
            for inner in node.graphs:
                inner.forget()
        if self.handle:
            STATE.drop(self.handle, Graph)
            self.handle = 0
        for number, count in self.objects:
            release(number, count)
        self.objects = []


def handle_of(graph: Graph) -> int:
    """The handle of a graph."""
    if not graph.handle:
        graph.handle = STATE.handle(graph)
    return graph.handle


@define(eq=False)
class Executable:
    """A graph that can be launched: a copy."""

    graph: Graph
    flags: int = 0


def instantiated(graph: Graph, flags: int) -> Executable:
    """An executable copy of a graph in its current state."""
    return Executable(graph.copy(), flags)


def run(node: Node) -> None:
    """Runs a node."""
    if node.kind == GRAPH:
        node.graphs[0].execute()
    elif node.kind == CONDITIONAL:
        conditions = STATE.machine.conditions
        value = conditions.get(node.condition, 0)
        if node.which == WHILE:
            while conditions.get(node.condition, 0):
                node.graphs[0].execute()
        else:
            at = value if node.which == SWITCH else 0 if value else 1
            if at < len(node.graphs):
                node.graphs[at].execute()
    else:
        node.work()


# --- what is captured of streams


@define(eq=False)
class Capture:
    """A capture: streams add their work to its graph instead of executing it. `stream` is the one in which it began."""

    graph: Graph
    mode: int
    stream: Any
    streams: list[Any] = attrs.Factory(list)
    is_void: bool = False
    """Whether something was requested that cannot be captured."""
    number: int = attrs.Factory(lambda: STATE.number())


@define(eq=False)
class Captured:
    """The capture state of a stream: the nodes on which the next one depends."""

    capture: Capture
    last: list[Node] = attrs.Factory(list)
    kept: Any = None
    """Their handles, for queries, and the data of their outgoing edges."""
    plain: Any = None

    def add(self, node: Node) -> Node:
        if self.capture.is_void:
            raise Failure("STREAM_CAPTURE_INVALIDATED")
        made = self.capture.graph.add(node, self.last)
        self.last = [made]
        return made

    def addresses(self) -> int:
        """The address of the handles of the last nodes."""
        self.kept = (ctypes.c_uint64 * max(1, len(self.last)))(*[node.handle for node in self.last])
        return ctypes.addressof(self.kept)

    def edges(self) -> int:
        """The address of the data of the edges from the last nodes: zeros, as they are ordinary."""
        self.plain = (ctypes.c_uint64 * max(1, len(self.last)))()
        return ctypes.addressof(self.plain)


def earlier(nodes: list[Node]) -> Iterator[Node]:
    """These nodes and all their dependencies."""
    seen: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += node.after


# --- objects of the user that live as long as graphs


@define(eq=False)
class Counted:
    """A user object: the function that destroys it when its last reference is released."""

    pointer: int
    destroy: int
    references: int


def release(number: int, count: int) -> None:
    """Releases references. Raises `Failure` if there are not as many."""
    one = STATE.of(number, Counted)
    if count > one.references:
        raise Failure("INVALID_VALUE")
    one.references -= count
    if not one.references:
        STATE.drop(number, Counted)
        ctypes.CFUNCTYPE(None, ctypes.c_uint64)(one.destroy)(one.pointer)


# --- memory of graphs


class Alloc(ctypes.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS."""

    _fields_ = (
        ("pool", ctypes.c_uint8 * 88),
        ("access", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
    )


def used(size: int) -> None:
    """Accounts for memory of graphs that is allocated or freed."""
    memory = STATE.graph_memory
    memory[0] = max(0, memory[0] + size)
    memory[2] = max(memory[2], memory[0])
    memory[1], memory[3] = max(memory[1], memory[0]), max(memory[3], memory[2])
