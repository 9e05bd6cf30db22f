"""The graph functions, and those for sharing between processes, which is unsupported: each process has its own machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ptxkit.machine.driver import graphs
from ptxkit.machine.driver.enumerations import numbers
from ptxkit.machine.driver.graph_nodes import (
    KIND_OFFSET,
    U32,
    U64,
    alloc_at,
    child_of,
    free_at,
    host_at,
    kernel_at,
    memcpy_at,
    memset_at,
    node_at,
    nodes_at,
    owner_of,
    record_of,
    wait_of,
)
from ptxkit.machine.driver.graphs import Counted, Graph, Node, handle_of, release
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.state import STATE


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
    return one.add(make(), nodes_at(after, count)).handle


@call("*q q q q q", since=12020, base="cuGraphAddNode")
def cuGraphAddNode(graph: int, after: int, count: int, parameters: int) -> int:
    return _added(graph, after, count, lambda: node_at(parameters))


@call("*q q q q q q", since=12030, base="cuGraphAddNode")
def cuGraphAddNode_v2(graph: int, after: int, data: int, count: int, parameters: int) -> int:
    return _added(graph, after, count, lambda: node_at(parameters))


@call("*q q q q q", "cuGraphAddKernelNode_v2")
def cuGraphAddKernelNode(graph: int, after: int, count: int, parameters: int) -> int:
    return _added(graph, after, count, lambda: kernel_at(parameters))


@call("*q q q q q q")
def cuGraphAddMemcpyNode(graph: int, after: int, count: int, copy: int, context: int) -> int:
    return _added(graph, after, count, lambda: memcpy_at(copy))


@call("*q q q q q q")
def cuGraphAddMemsetNode(graph: int, after: int, count: int, parameters: int, context: int) -> int:
    return _added(graph, after, count, lambda: memset_at(parameters))


@call("*q q q q q")
def cuGraphAddHostNode(graph: int, after: int, count: int, parameters: int) -> int:
    return _added(graph, after, count, lambda: host_at(parameters))


@call("*q q q q q")
def cuGraphAddChildGraphNode(graph: int, after: int, count: int, child: int) -> int:
    return _added(graph, after, count, lambda: child_of(child))


@call("*q q q q")
def cuGraphAddEmptyNode(graph: int, after: int, count: int) -> int:
    return _added(graph, after, count, lambda: Node(graphs.EMPTY))


@call("*q q q q q")
def cuGraphAddEventRecordNode(graph: int, after: int, count: int, event: int) -> int:
    return _added(graph, after, count, lambda: record_of(event))


@call("*q q q q q")
def cuGraphAddEventWaitNode(graph: int, after: int, count: int, event: int) -> int:
    return _added(graph, after, count, lambda: wait_of(event))


@call("*q q q q q")
def cuGraphAddMemAllocNode(graph: int, after: int, count: int, parameters: int) -> int:
    return _added(graph, after, count, lambda: alloc_at(parameters))


@call("*q q q q q")
def cuGraphAddMemFreeNode(graph: int, after: int, count: int, address: int) -> int:
    return _added(graph, after, count, lambda: free_at(address))


@call("q")
def cuGraphDestroyNode(node: int) -> None:
    one = STATE.of(node, Node)
    owner_of(one).remove(one)


@call("q *u")
def cuGraphNodeGetType(node: int) -> int:
    return STATE.of(node, Node).kind


def _given(node: int, kind: int, place: int) -> None:
    """Copies the parameters of a node to an address."""
    one = STATE.of(node, Node)
    if one.kind != kind:
        raise Failure("INVALID_VALUE", f"a node of the kind {graphs.NAMES[one.kind]}")
    ctypes.memmove(place, ctypes.addressof(one.given), ctypes.sizeof(one.given) - (8 if kind == graphs.MEMSET else 0))


def replace_contents(one: Node, made: Node) -> None:
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
    replace_contents(one, kernel_at(parameters, one.cluster))


@call("q q")
def cuGraphMemcpyNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.MEMCPY, place)


@call("q q")
def cuGraphMemcpyNodeSetParams(node: int, copy: int) -> None:
    replace_contents(STATE.of(node, Node), memcpy_at(copy))


@call("q q")
def cuGraphMemsetNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.MEMSET, place)


@call("q q")
def cuGraphMemsetNodeSetParams(node: int, parameters: int) -> None:
    replace_contents(STATE.of(node, Node), memset_at(parameters))


@call("q q")
def cuGraphHostNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.HOST, place)


@call("q q")
def cuGraphHostNodeSetParams(node: int, parameters: int) -> None:
    replace_contents(STATE.of(node, Node), host_at(parameters))


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
    replace_contents(STATE.of(node, Node), record_of(event))


@call("q q")
def cuGraphEventWaitNodeGetEvent(node: int, place: int) -> None:
    _given(node, graphs.WAIT_EVENT, place)


@call("q q")
def cuGraphEventWaitNodeSetEvent(node: int, event: int) -> None:
    replace_contents(STATE.of(node, Node), wait_of(event))


@call("q q")
def cuGraphMemAllocNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.MEM_ALLOC, place)


@call("q q")
def cuGraphMemFreeNodeGetParams(node: int, place: int) -> None:
    _given(node, graphs.MEM_FREE, place)


@call("q q")
def cuGraphNodeSetParams(node: int, parameters: int) -> None:
    replace_contents(STATE.of(node, Node), node_at(parameters))


@call("q q")
def cuGraphNodeGetParams(node: int, place: int) -> None:
    one = STATE.of(node, Node)
    ctypes.memset(place, 0, 256)
    U32.from_address(place).value = one.kind
    at = place + KIND_OFFSET + (16 if one.kind == graphs.MEMCPY else 0)
    if one.kind == graphs.GRAPH:
        U64.from_address(at).value = handle_of(one.graphs[0])
    elif one.given is not None:
        ctypes.memmove(at, ctypes.addressof(one.given), ctypes.sizeof(one.given))


@call("q q q")
def cuGraphKernelNodeSetAttribute(node: int, kind: int, value: int) -> None:
    one = STATE.of(node, Node)
    if kind & 0xFFFFFFFF == numbers("CUlaunchAttributeID")["CLUSTER_DIMENSION"]:
        x, y, z = (U32 * 3).from_address(value)
        replace_contents(one, kernel_at(ctypes.addressof(one.given), (x, y, z)))
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
