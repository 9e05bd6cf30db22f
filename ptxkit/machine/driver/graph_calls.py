"""The graph functions, and those for sharing between processes, which is unsupported: each process has its own machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptxkit.machine.driver import graphs
from ptxkit.machine.driver.copies import Copy3D, fill_rows, planes
from ptxkit.machine.driver.enumerations import numbers
from ptxkit.machine.driver.graphs import Alloc, Counted, Executable, Graph, Node, handle_of, release, used
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.launching import Kernel, kernel_node, prepared
from ptxkit.machine.driver.memory import allocate
from ptxkit.machine.driver.modules import Function
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.driver.streams import Event, recorded, stream_of

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


_AT = 16
"""The offset of the kind-specific part in CUgraphNodeParams, and of the copy in that of a memcpy."""


# --- nodes by their parameters


def _kernel(address: int, cluster: Any = None) -> Node:
    given = Kernel.from_address(address)
    grid: Any = tuple(given.grid)
    block: Any = tuple(given.block)
    return kernel_node(prepared(given.function or given.kernel, grid, block, given.shared, given.places, given.extra, cluster))


def _memcpy(address: int) -> Node:
    given = Copy3D.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(Copy3D)))
    return Node(graphs.MEMCPY, lambda: planes(given), given=given)


def _memset(address: int) -> Node:
    given = Memset()
    ctypes.memmove(ctypes.addressof(given), address, Memset.context.offset)
    if given.size not in (1, 2, 4) or not given.width or not given.height:
        raise Failure("INVALID_VALUE")

    def work() -> None:
        fill_rows(given.target, given.pitch or given.width * given.size, given.value, given.size, given.width, given.height)

    return Node(graphs.MEMSET, work, given=given)


def _host(address: int) -> Node:
    given = Host.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(Host)))
    if not given.function:
        raise Failure("INVALID_VALUE")
    return Node(graphs.HOST, lambda: ctypes.CFUNCTYPE(None, U64)(given.function)(given.data), given=given)


def _child(handle: int) -> Node:
    return Node(graphs.GRAPH, graphs=[STATE.of(handle, Graph).copy()])


def _record(event: int) -> Node:
    one = STATE.of(event, Event)
    return Node(graphs.EVENT_RECORD, lambda: recorded(one), given=U64(event))


def _wait(event: int) -> Node:
    STATE.of(event, Event)
    return Node(graphs.WAIT_EVENT, given=U64(event))


def _alloc(address: int) -> Node:
    given = Alloc.from_address(address)
    given.address = allocate(given.size, "device")
    kept = Alloc.from_buffer_copy(given)
    return Node(graphs.MEM_ALLOC, lambda: used(kept.size), given=kept)


def _free(address: int) -> Node:
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
    graphs.KERNEL: _kernel,
    graphs.MEMCPY: lambda at: _memcpy(at + 16),
    graphs.MEMSET: _memset,
    graphs.HOST: _host,
    graphs.GRAPH: lambda at: _child(U64.from_address(at).value),
    graphs.EMPTY: lambda at: Node(graphs.EMPTY),
    graphs.WAIT_EVENT: lambda at: _wait(U64.from_address(at).value),
    graphs.EVENT_RECORD: lambda at: _record(U64.from_address(at).value),
    graphs.MEM_ALLOC: _alloc,
    graphs.MEM_FREE: lambda at: _free(U64.from_address(at).value),
    graphs.CONDITIONAL: _conditional,
}


def _of_parameters(address: int) -> Node:
    """The node that a CUgraphNodeParams describes."""
    kind = U32.from_address(address).value
    make = _OF_KIND.get(kind)
    if make is None:
        raise Failure("NOT_SUPPORTED", f"a node of the kind {graphs.NAMES.get(kind, kind)}")
    return make(address + _AT)


def _nodes(address: int, count: int) -> list[Node]:
    if count and not address:
        raise Failure("INVALID_VALUE")
    return [STATE.of(handle, Node) for handle in (U64 * count).from_address(address)] if count else []


def _owner(node: Node) -> Graph:
    for handle in STATE.handles():
        found = STATE.find(handle)
        if isinstance(found, Graph) and node in found.nodes:
            return found
        if isinstance(found, Executable) and node in found.graph.nodes:
            return found.graph
    raise Failure("INVALID_VALUE", "a node of no graph")


# --- graphs and their nodes


@call("*q u")
def cuGraphCreate(flags: int) -> int:
    if flags:
        raise Failure("INVALID_VALUE")
    STATE.current()
    return handle_of(Graph())


@call("q")
def cuGraphDestroy(graph: int) -> None:
    STATE.of(graph, Graph).forget()


@call("*q q")
def cuGraphClone(graph: int) -> int:
    return handle_of(STATE.of(graph, Graph).copy())


def _added(graph: int, after: int, count: int, make: Callable[[], Node]) -> int:
    one = STATE.of(graph, Graph)
    return one.add(make(), _nodes(after, count)).handle


@call("*q q q q q", since=12020, base="cuGraphAddNode")
def cuGraphAddNode(graph: int, after: int, count: int, parameters: int) -> int:
    return _added(graph, after, count, lambda: _of_parameters(parameters))


@call("*q q q q q q", since=12030, base="cuGraphAddNode")
def cuGraphAddNode_v2(graph: int, after: int, data: int, count: int, parameters: int) -> int:
    return _added(graph, after, count, lambda: _of_parameters(parameters))


@call("*q q q q q", "cuGraphAddKernelNode_v2")
def cuGraphAddKernelNode(graph: int, after: int, count: int, parameters: int) -> int:
    return _added(graph, after, count, lambda: _kernel(parameters))


@call("*q q q q q q")
def cuGraphAddMemcpyNode(graph: int, after: int, count: int, copy: int, context: int) -> int:
    return _added(graph, after, count, lambda: _memcpy(copy))


@call("*q q q q q q")
def cuGraphAddMemsetNode(graph: int, after: int, count: int, parameters: int, context: int) -> int:
    return _added(graph, after, count, lambda: _memset(parameters))


@call("*q q q q q")
def cuGraphAddHostNode(graph: int, after: int, count: int, parameters: int) -> int:
    return _added(graph, after, count, lambda: _host(parameters))


@call("*q q q q q")
def cuGraphAddChildGraphNode(graph: int, after: int, count: int, child: int) -> int:
    return _added(graph, after, count, lambda: _child(child))


@call("*q q q q")
def cuGraphAddEmptyNode(graph: int, after: int, count: int) -> int:
    return _added(graph, after, count, lambda: Node(graphs.EMPTY))


@call("*q q q q q")
def cuGraphAddEventRecordNode(graph: int, after: int, count: int, event: int) -> int:
    return _added(graph, after, count, lambda: _record(event))


@call("*q q q q q")
def cuGraphAddEventWaitNode(graph: int, after: int, count: int, event: int) -> int:
    return _added(graph, after, count, lambda: _wait(event))


@call("*q q q q q")
def cuGraphAddMemAllocNode(graph: int, after: int, count: int, parameters: int) -> int:
    return _added(graph, after, count, lambda: _alloc(parameters))


@call("*q q q q q")
def cuGraphAddMemFreeNode(graph: int, after: int, count: int, address: int) -> int:
    return _added(graph, after, count, lambda: _free(address))


@call("q")
def cuGraphDestroyNode(node: int) -> None:
    one = STATE.of(node, Node)
    _owner(one).remove(one)


@call("q *u")
def cuGraphNodeGetType(node: int) -> int:
    return STATE.of(node, Node).kind


def _given(node: int, kind: int, place: int) -> None:
    """Copies the parameters of a node to an address."""
    one = STATE.of(node, Node)
    if one.kind != kind:
        raise Failure("INVALID_VALUE", f"a node of the kind {graphs.NAMES[one.kind]}")
    ctypes.memmove(place, ctypes.addressof(one.given), ctypes.sizeof(one.given) - (8 if kind == graphs.MEMSET else 0))


def _replaced(one: Node, made: Node) -> None:
    """Replaces the parameters of a node."""
    if one.kind != made.kind:
        raise Failure("INVALID_VALUE", f"a node of the kind {graphs.NAMES[one.kind]}")
    one.work, one.given, one.kept, one.graphs = made.work, made.given, made.kept, made.graphs


@call("q q", "cuGraphKernelNodeGetParams_v2")
def cuGraphKernelNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.KERNEL, place)


@call("q q", "cuGraphKernelNodeSetParams_v2")
def cuGraphKernelNodeSetParams(node: int, parameters: int) -> None:
    one = STATE.of(node, Node)
    _replaced(one, _kernel(parameters, one.cluster))


@call("q q")
def cuGraphMemcpyNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.MEMCPY, place)


@call("q q")
def cuGraphMemcpyNodeSetParams(node: int, copy: int) -> None:
    _replaced(STATE.of(node, Node), _memcpy(copy))


@call("q q")
def cuGraphMemsetNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.MEMSET, place)


@call("q q")
def cuGraphMemsetNodeSetParams(node: int, parameters: int) -> None:
    _replaced(STATE.of(node, Node), _memset(parameters))


@call("q q")
def cuGraphHostNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.HOST, place)


@call("q q")
def cuGraphHostNodeSetParams(node: int, parameters: int) -> None:
    _replaced(STATE.of(node, Node), _host(parameters))


@call("q *q")
def cuGraphChildGraphNodeGetGraph(node: int) -> int:
    one = STATE.of(node, Node)
    if one.kind != graphs.GRAPH:
        raise Failure("INVALID_VALUE")
    return handle_of(one.graphs[0])


@call("q q")
def cuGraphEventRecordNodeGetEvent(node: int, place: int) -> None:
    _given(node, graphs.EVENT_RECORD, place)


@call("q q")
def cuGraphEventRecordNodeSetEvent(node: int, event: int) -> None:
    _replaced(STATE.of(node, Node), _record(event))


@call("q q")
def cuGraphEventWaitNodeGetEvent(node: int, place: int) -> None:
    _given(node, graphs.WAIT_EVENT, place)


@call("q q")
def cuGraphEventWaitNodeSetEvent(node: int, event: int) -> None:
    _replaced(STATE.of(node, Node), _wait(event))


@call("q q")
def cuGraphMemAllocNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.MEM_ALLOC, place)


@call("q q")
def cuGraphMemFreeNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.MEM_FREE, place)


@call("q q")
def cuGraphNodeSetParams(node: int, parameters: int) -> None:
    _replaced(STATE.of(node, Node), _of_parameters(parameters))


@call("q q")
def cuGraphNodeGetParams(node: int, place: int) -> None:
    one = STATE.of(node, Node)
    ctypes.memset(place, 0, 256)
    U32.from_address(place).value = one.kind
    at = place + _AT + (16 if one.kind == graphs.MEMCPY else 0)
    if one.kind == graphs.GRAPH:
        U64.from_address(at).value = handle_of(one.graphs[0])
    elif one.given is not None:
        ctypes.memmove(at, ctypes.addressof(one.given), ctypes.sizeof(one.given))


@call("q q q")
def cuGraphKernelNodeSetAttribute(node: int, kind: int, value: int) -> None:
    one = STATE.of(node, Node)
    if kind & 0xFFFFFFFF == numbers("CUlaunchAttributeID")["CLUSTER_DIMENSION"]:
        x, y, z = (U32 * 3).from_address(value)
        _replaced(one, _kernel(ctypes.addressof(one.given), (x, y, z)))
        one.cluster = (x, y, z)


@call("q q q")
def cuGraphKernelNodeGetAttribute(node: int, kind: int, value: int) -> None:
    one = STATE.of(node, Node)
    ctypes.memset(value, 0, 64)
    if kind & 0xFFFFFFFF == numbers("CUlaunchAttributeID")["CLUSTER_DIMENSION"] and one.cluster:
        (U32 * 3).from_address(value)[:] = list(one.cluster)


@call("q q")
def cuGraphKernelNodeCopyAttributes(target: int, source: int) -> None:
    STATE.of(target, Node).cluster = STATE.of(source, Node).cluster


# --- who comes after whom


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
    _listed(_owner(one).before(one), place, room)


@call("q q q q", since=12030, base="cuGraphNodeGetDependentNodes")
def cuGraphNodeGetDependentNodes_v2(node: int, place: int, data: int, room: int) -> None:
    one = STATE.of(node, Node)
    _plain(data, room, len(_owner(one).before(one)))
    _listed(_owner(one).before(one), place, room)


def _linked(graph: int, sources: int, targets: int, count: int, is_added: bool) -> None:
    one = STATE.of(graph, Graph)
    pairs = list(zip(_nodes(sources, count), _nodes(targets, count), strict=True))
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


# --- what is launched


@call("*q q q", "cuGraphInstantiate")
def cuGraphInstantiateWithFlags(graph: int, flags: int) -> int:
    return STATE.handle(graphs.instantiated(STATE.of(graph, Graph), flags))


@call("*q q q")
def cuGraphInstantiateWithParams(graph: int, parameters: int) -> int:
    flags = U64.from_address(parameters).value
    U64.from_address(parameters + 16).value = 0
    U32.from_address(parameters + 24).value = 0
    return cuGraphInstantiateWithFlags(graph, flags)  # type: ignore[no-any-return]


@call("q *q")
def cuGraphExecGetFlags(executable: int) -> int:
    return STATE.of(executable, Executable).flags


@call("q")
def cuGraphExecDestroy(executable: int) -> None:
    STATE.drop(executable, Executable).graph.forget()


@call("q q", settles=True)
def cuGraphUpload(executable: int, stream: int) -> None:
    stream_of(stream)
    STATE.of(executable, Executable)


@call("q q", settles=True)
def cuGraphLaunch(executable: int, stream: int) -> None:
    one = STATE.of(executable, Executable)
    captured = stream_of(stream).captured
    if captured is not None:
        captured.add(Node(graphs.GRAPH, graphs=[one.graph.copy()]))
    else:
        one.graph.execute()


_SUCCESS, _TOPOLOGY, _TYPE = 0, 2, 3
"""CUgraphExecUpdateResult."""


def _update(executable: int, graph: int) -> tuple[int, int]:
    """Makes an executable graph launch another graph of the same shape: the result, and the first node that differs."""
    old, new = STATE.of(executable, Executable), STATE.of(graph, Graph)
    mine, theirs = old.graph.order, new.order
    if len(mine) != len(theirs):
        return _TOPOLOGY, 0
    at = {id(node): i for nodes in (mine, theirs) for i, node in enumerate(nodes)}
    for one, other in zip(mine, theirs, strict=True):
        if sorted(at[id(node)] for node in one.after) != sorted(at[id(node)] for node in other.after):
            return _TOPOLOGY, other.handle
        if one.kind != other.kind:
            return _TYPE, other.handle
    old.graph.forget()
    old.graph = graphs.instantiated(new, old.flags).graph
    return _SUCCESS, 0


@call("q q q q")
def cuGraphExecUpdate(executable: int, graph: int, wrong: int, result: int) -> None:
    what, node = _update(executable, graph)
    U64.from_address(wrong).value, U32.from_address(result).value = node, what
    if what:
        raise Failure("GRAPH_EXEC_UPDATE_FAILURE")


@call("q q q", since=12000, base="cuGraphExecUpdate")
def cuGraphExecUpdate_v2(executable: int, graph: int, result: int) -> None:
    what, node = _update(executable, graph)
    U32.from_address(result).value = what
    U64.from_address(result + 8).value, U64.from_address(result + 16).value = node, 0
    if what:
        raise Failure("GRAPH_EXEC_UPDATE_FAILURE")


def _copy_of(executable: int, node: int) -> Node:
    return _found(STATE.of(executable, Executable).graph, node)


def _found(copy: Graph, node: int) -> Node:
    """The copy of a node. Raises `Failure` if the graph is not a copy of the node's."""
    found = copy.copies.get(id(STATE.of(node, Node)))
    if found is None:
        raise Failure("INVALID_VALUE", "a node of another graph")
    return found


@call("q q q", "cuGraphExecKernelNodeSetParams_v2")
def cuGraphExecKernelNodeSetParams(executable: int, node: int, parameters: int) -> None:
    one = _copy_of(executable, node)
    _replaced(one, _kernel(parameters, one.cluster))


@call("q q q q")
def cuGraphExecMemcpyNodeSetParams(executable: int, node: int, copy: int, context: int) -> None:
    _replaced(_copy_of(executable, node), _memcpy(copy))


@call("q q q q")
def cuGraphExecMemsetNodeSetParams(executable: int, node: int, parameters: int, context: int) -> None:
    _replaced(_copy_of(executable, node), _memset(parameters))


@call("q q q")
def cuGraphExecHostNodeSetParams(executable: int, node: int, parameters: int) -> None:
    _replaced(_copy_of(executable, node), _host(parameters))


@call("q q q")
def cuGraphExecChildGraphNodeSetParams(executable: int, node: int, child: int) -> None:
    _replaced(_copy_of(executable, node), _child(child))


@call("q q q")
def cuGraphExecEventRecordNodeSetEvent(executable: int, node: int, event: int) -> None:
    _replaced(_copy_of(executable, node), _record(event))


@call("q q q")
def cuGraphExecEventWaitNodeSetEvent(executable: int, node: int, event: int) -> None:
    _replaced(_copy_of(executable, node), _wait(event))


@call("q q q")
def cuGraphExecNodeSetParams(executable: int, node: int, parameters: int) -> None:
    _replaced(_copy_of(executable, node), _of_parameters(parameters))


@call("q q u")
def cuGraphNodeSetEnabled(executable: int, node: int, enabled: int) -> None:
    _copy_of(executable, node).is_enabled = bool(enabled)


@call("q q *u")
def cuGraphNodeGetEnabled(executable: int, node: int) -> int:
    return int(_copy_of(executable, node).is_enabled)


@call("*q q q")
def cuGraphNodeFindInClone(node: int, clone: int) -> int:
    return _found(STATE.of(clone, Graph), node).handle


@call("*q q q u u")
def cuGraphConditionalHandleCreate(graph: int, context: int, value: int, flags: int) -> int:
    handle = STATE.number()
    STATE.of(graph, Graph).conditions[handle] = value if flags & 1 else None
    STATE.machine.conditions[handle] = value
    return handle


@call("q s u")
def cuGraphDebugDotPrint(graph: int, path: bytes, flags: int) -> None:
    one = STATE.of(graph, Graph)
    at = {id(node): i for i, node in enumerate(one.nodes)}
    lines = [f'  n{i} [label="{graphs.NAMES[node.kind]}{_named(node)}"];' for i, node in enumerate(one.nodes)]
    lines += [f"  n{at[id(before)]} -> n{i};" for i, node in enumerate(one.nodes) for before in node.after]
    try:
        Path(path.decode()).write_text("\n".join(["digraph graph_1 {", *lines, "}", ""]), encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise Failure("OPERATING_SYSTEM", str(error)) from None


def _named(node: Node) -> str:
    return f" {STATE.of(node.given.function or node.given.kernel, Function).name}" if node.kind == graphs.KERNEL else ""


# --- memory of graphs, and objects that live as long as they do


@call("i u q")
def cuDeviceGetGraphMemAttribute(device: int, kind: int, place: int) -> None:
    if not 0 <= kind < 4:
        raise Failure("INVALID_VALUE")
    U64.from_address(place).value = STATE.graph_memory[kind]


@call("i u q")
def cuDeviceSetGraphMemAttribute(device: int, kind: int, place: int) -> None:
    if kind not in (1, 3) or U64.from_address(place).value:
        raise Failure("INVALID_VALUE")
    STATE.graph_memory[kind] = STATE.graph_memory[kind - 1]


@call("i")
def cuDeviceGraphMemTrim(device: int) -> None:
    STATE.graph_memory[2] = STATE.graph_memory[0]


@call("*q q q u u")
def cuUserObjectCreate(pointer: int, destroy: int, count: int, flags: int) -> int:
    if not count or not destroy:
        raise Failure("INVALID_VALUE")
    return STATE.handle(Counted(pointer, destroy, count))


@call("q u")
def cuUserObjectRetain(number: int, count: int) -> None:
    STATE.of(number, Counted).references += count


@call("q u")
def cuUserObjectRelease(number: int, count: int) -> None:
    release(number, count)


@call("q q u u")
def cuGraphRetainUserObject(graph: int, number: int, count: int, flags: int) -> None:
    one = STATE.of(number, Counted)
    STATE.of(graph, Graph).objects.append((number, count))
    if not flags & 1:
        one.references += count


@call("q q u")
def cuGraphReleaseUserObject(graph: int, number: int, count: int) -> None:
    one = STATE.of(graph, Graph)
    held = sum(references for other, references in one.objects if other == number)
    if count > held:
        raise Failure("INVALID_VALUE")
    one.objects = [pair for pair in one.objects if pair[0] != number] + ([(number, held - count)] if held > count else [])
    release(number, count)


# --- between processes

_ALONE = "each process has a machine of its own: memory and events are not shared between them"


def _alone(*given: Any) -> Any:
    raise Failure("NOT_SUPPORTED", _ALONE)


def _none_between_processes() -> None:
    kinds = {
        "cuIpcGetMemHandle": "q q", "cuIpcCloseMemHandle": "q", "cuIpcGetEventHandle": "q q", "cuMemPoolExportPointer": "q q",
        "cuMemPoolImportPointer": "*q q q", "cuMemPoolExportToShareableHandle": "q q i q", "cuMemPoolImportFromShareableHandle": "*q q i q",
    }  # fmt: skip
    for name, kind in kinds.items():

        def run(*given: Any) -> Any:
            return _alone(*given)

        run.__name__ = name
        call(kind)(run)


_none_between_processes()
