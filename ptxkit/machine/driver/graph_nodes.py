"""Nodes of graphs, from the structures in which the driver receives their parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ptxkit.machine.driver import graphs
from ptxkit.machine.driver.copies import Copy3D, fill_rows, planes
from ptxkit.machine.driver.graphs import Alloc, Executable, Graph, Node, handle_of, used
from ptxkit.machine.driver.interface import Failure
from ptxkit.machine.driver.launching import Kernel, kernel_node, prepared
from ptxkit.machine.driver.memory import allocate
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.driver.streams import Event, recorded

U32, U64 = ctypes.c_uint32, ctypes.c_uint64


class Memset(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS_v2; version 1 ends before the context."""

    _fields_ = (("target", U64), ("pitch", U64), ("value", U32), ("size", U32), ("width", U64), ("height", U64), ("context", U64))


class Host(ctypes.Structure):
    """CUDA_HOST_NODE_PARAMS."""

    _fields_ = (("function", U64), ("data", U64))


class Conditional(ctypes.Structure):
    """CUDA_CONDITIONAL_NODE_PARAMS."""

    _fields_ = (("handle", U64), ("type", U32), ("size", U32), ("graphs", U64), ("context", U64))


KIND_OFFSET = 16
"""The offset of the kind-specific part in CUgraphNodeParams, and of the copy in that of a memcpy."""


def kernel_at(address: int, cluster: Any = None) -> Node:
    """The node of a kernel, from its parameters at an address."""
    given = Kernel.from_address(address)
    grid: Any = tuple(given.grid)
    block: Any = tuple(given.block)
    return kernel_node(prepared(given.function or given.kernel, grid, block, given.shared, given.places, given.extra, cluster))


def memcpy_at(address: int) -> Node:
    """The node of a copy, from its parameters at an address."""
    given = Copy3D.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(Copy3D)))
    return Node(graphs.MEMCPY, lambda: planes(given), given=given)


def memset_at(address: int) -> Node:
    """The node of a memset, from its parameters at an address. Raises Failure."""
    given = Memset()
    ctypes.memmove(ctypes.addressof(given), address, Memset.context.offset)
    if given.size not in (1, 2, 4) or not given.width or not given.height:
        raise Failure("INVALID_VALUE")

    def work() -> None:
        fill_rows(given.target, given.pitch or given.width * given.size, given.value, given.size, given.width, given.height)

    return Node(graphs.MEMSET, work, given=given)


def host_at(address: int) -> Node:
    """The node of a host function, from its parameters at an address. Raises Failure."""
    given = Host.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(Host)))
    if not given.function:
        raise Failure("INVALID_VALUE")
    return Node(graphs.HOST, lambda: ctypes.CFUNCTYPE(None, U64)(given.function)(given.data), given=given)


def child_of(handle: int) -> Node:
    """The node of a child graph, which is copied."""
    return Node(graphs.GRAPH, graphs=[STATE.of(handle, Graph).copy()])


def record_of(event: int) -> Node:
    """The node that records an event."""
    one = STATE.of(event, Event)
    return Node(graphs.EVENT_RECORD, lambda: recorded(one), given=U64(event))


def wait_of(event: int) -> Node:
    """The node that waits for an event. Raises Failure if there is none."""
    STATE.of(event, Event)
    return Node(graphs.WAIT_EVENT, given=U64(event))


def alloc_at(address: int) -> Node:
    """The node of an allocation, from its parameters at an address, which receive the address of the memory."""
    given = Alloc.from_address(address)
    given.address = allocate(given.size, "device")
    kept = Alloc.from_buffer_copy(given)
    return Node(graphs.MEM_ALLOC, lambda: used(kept.size), given=kept)


def free_at(address: int) -> Node:
    """The node that frees an allocation. Raises Failure if there is none at the address."""
    found = STATE.memory.get(address)
    if found is None:
        raise Failure("INVALID_VALUE")
    return Node(graphs.MEM_FREE, lambda: used(-found.size), given=U64(address))


def _conditional(address: int) -> Node:
    given = Conditional.from_address(address)
    most = {graphs.IF: 2, graphs.WHILE: 1}.get(given.type, 1 << 20)
    if given.type not in (graphs.IF, graphs.WHILE, graphs.SWITCH) or not 1 <= given.size <= most:
        raise Failure("INVALID_VALUE")
    bodies = [Graph() for _ in range(given.size)]
    places = (U64 * given.size)(*[handle_of(body) for body in bodies])
    given.graphs = ctypes.addressof(places)
    kept = Conditional.from_buffer_copy(given)
    return Node(graphs.CONDITIONAL, given=kept, kept=places, graphs=bodies, condition=given.handle, which=given.type)


_OF_KIND: dict[int, Callable[[int], Node]] = {
    graphs.KERNEL: kernel_at,
    graphs.MEMCPY: lambda at: memcpy_at(at + 16),
    graphs.MEMSET: memset_at,
    graphs.HOST: host_at,
    graphs.GRAPH: lambda at: child_of(U64.from_address(at).value),
    graphs.EMPTY: lambda at: Node(graphs.EMPTY),
    graphs.WAIT_EVENT: lambda at: wait_of(U64.from_address(at).value),
    graphs.EVENT_RECORD: lambda at: record_of(U64.from_address(at).value),
    graphs.MEM_ALLOC: alloc_at,
    graphs.MEM_FREE: lambda at: free_at(U64.from_address(at).value),
    graphs.CONDITIONAL: _conditional,
}


def node_at(address: int) -> Node:
    """The node that a CUgraphNodeParams describes."""
    kind = U32.from_address(address).value
    make = _OF_KIND.get(kind)
    if make is None:
        raise Failure("NOT_SUPPORTED", f"a node of the kind {graphs.NAMES.get(kind, kind)}")
    return make(address + KIND_OFFSET)


def nodes_at(address: int, count: int) -> list[Node]:
    """The nodes whose handles are at an address. Raises Failure."""
    if count and not address:
        raise Failure("INVALID_VALUE")
    return [STATE.of(handle, Node) for handle in (U64 * count).from_address(address)] if count else []


def owner_of(node: Node) -> Graph:
    """The graph that a node belongs to. Raises Failure."""
    for handle in STATE.handles():
        found = STATE.find(handle)
        if isinstance(found, Graph) and node in found.nodes:
            return found
        if isinstance(found, Executable) and node in found.graph.nodes:
            return found.graph
    raise Failure("INVALID_VALUE", "a node of no graph")
