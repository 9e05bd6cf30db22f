"""Functions of the driver for executable graphs: to instantiate, launch and change them."""

from __future__ import annotations

from pathlib import Path

from ptxkit.machine.driver import graphs
from ptxkit.machine.driver.graph_calls import replace_contents
from ptxkit.machine.driver.graph_nodes import U32, U64, child_of, host_at, kernel_at, memcpy_at, memset_at, node_at, record_of, wait_of
from ptxkit.machine.driver.graphs import Executable, Graph, Node
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.modules import Function
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.driver.streams import stream_of


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
    replace_contents(one, kernel_at(parameters, one.cluster))


@call("q q q q")
def cuGraphExecMemcpyNodeSetParams(executable: int, node: int, copy: int, context: int) -> None:
    replace_contents(_copy_of(executable, node), memcpy_at(copy))


@call("q q q q")
def cuGraphExecMemsetNodeSetParams(executable: int, node: int, parameters: int, context: int) -> None:
    replace_contents(_copy_of(executable, node), memset_at(parameters))


@call("q q q")
def cuGraphExecHostNodeSetParams(executable: int, node: int, parameters: int) -> None:
    replace_contents(_copy_of(executable, node), host_at(parameters))


@call("q q q")
def cuGraphExecChildGraphNodeSetParams(executable: int, node: int, child: int) -> None:
    replace_contents(_copy_of(executable, node), child_of(child))


@call("q q q")
def cuGraphExecEventRecordNodeSetEvent(executable: int, node: int, event: int) -> None:
    replace_contents(_copy_of(executable, node), record_of(event))


@call("q q q")
def cuGraphExecEventWaitNodeSetEvent(executable: int, node: int, event: int) -> None:
    replace_contents(_copy_of(executable, node), wait_of(event))


@call("q q q")
def cuGraphExecNodeSetParams(executable: int, node: int, parameters: int) -> None:
    replace_contents(_copy_of(executable, node), node_at(parameters))


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
