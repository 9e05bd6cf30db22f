"""Graphs: captured from streams and made node by node, copied, launched, changed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from ptxkit.machine.driver import CALLS, LOG, STATE, Settings  # noqa: E402
from ptxkit.machine.driver.graph_nodes import Host, Memset  # noqa: E402
from ptxkit.machine.driver.interface import called  # noqa: E402
from ptxkit.machine.driver.launching import Kernel  # noqa: E402

TEXT = b""".version 8.5
.target sm_90
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);
.visible .entry add(.param .u64 at, .param .u32 n)
{
.reg .b64 %rd<3>; .reg .b32 %r<4>;
ld.param.u64 %rd1, [at]; ld.param.u32 %r1, [n];
ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r2, %r1; st.global.u32 [%rd1], %r3;
ret;
}
.visible .entry until(.param .u64 at, .param .u32 n, .param .u64 h)
{
.reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %p;
ld.param.u64 %rd1, [at]; ld.param.u32 %r1, [n]; ld.param.u64 %rd2, [h];
ld.global.u32 %r2, [%rd1]; setp.lt.u32 %p, %r2, %r1; selp.u32 %r3, 1, 0, %p;
{
.param .b64 a; .param .b32 b;
st.param.b64 [a], %rd2; st.param.b32 [b], %r3;
call cudaGraphSetConditional, (a, b);
}
ret;
}
\0"""


def ok(name: str, *given: Any) -> Any:
    """What a function gives that went well; its addresses are numbers."""
    code, found = called(CALLS[name], given)
    assert not code, (name, code, LOG[-1:])
    return found[0] if len(found) == 1 else found


def error(name: str, *given: Any) -> str:
    """The error of a function."""
    from ptxkit.machine.driver.errors import CODES

    code, _ = called(CALLS[name], given)
    return next(word for word, number in CODES.items() if number == code).removeprefix("CUDA_ERROR_")


class Program:
    """Kernels, a stream, and two numbers in memory."""

    def __init__(self) -> None:
        self.text = ctypes.create_string_buffer(TEXT)
        module = ok("cuModuleLoadData", ctypes.addressof(self.text))
        self.add, self.until = [ok("cuModuleGetFunction", module, name) for name in (b"add", b"until")]
        self.kept: list[Any] = []
        self.stream = ok("cuStreamCreate", 1)
        self.at = ok("cuMemAlloc", 8)
        ok("cuMemsetD32", self.at, 0, 2)

    @property
    def numbers(self) -> list[int]:
        return np.frombuffer(ctypes.string_at(self.at, 8), np.uint32).tolist()  # type: ignore[no-any-return]

    def launch(self, function: int, *values: Any, stream: int = 0) -> None:
        kept, places = packed(values)
        ok("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream or self.stream, ctypes.addressof(places), 0)
        ctypes.memset(kept, 0xFF, 64)  # parameters are those of the moment of the call

    def begin(self, stream: int = 0) -> None:
        ok("cuStreamBeginCapture", stream or self.stream, 2)

    def end(self) -> int:
        return ok("cuStreamEndCapture", self.stream)  # type: ignore[no-any-return]

    def run(self, graph: int) -> None:
        ok("cuGraphLaunch", ok("cuGraphInstantiateWithFlags", graph, 0), self.stream)
        ok("cuStreamSynchronize", self.stream)

    def kernel(self, function: int, *values: Any) -> int:
        """Where the parameters of a kernel node are."""
        values = packed(values)
        one = (ctypes.c_uint32 * 3)(1, 1, 1)
        self.kept.append((values, Kernel(function, one, one, 0, ctypes.addressof(values[1]))))
        return ctypes.addressof(self.kept[-1][1])


def packed(values: tuple[Any, ...]) -> tuple[Any, Any]:
    kept = ctypes.create_string_buffer(64)
    for i, value in enumerate(values):
        ctypes.c_uint64.from_buffer(kept, 8 * i).value = value
    return kept, (ctypes.c_uint64 * 8)(*[ctypes.addressof(kept) + 8 * i for i in range(8)])


def listed(name: str, *handles: int) -> list[int]:
    """The handles that a function lists."""
    room, found = ctypes.c_uint64(16), (ctypes.c_uint64 * 16)()
    ok(name, *handles, ctypes.addressof(found), ctypes.addressof(room))
    return list(found[: room.value])


@pytest.fixture
def program() -> Iterator[Program]:
    STATE.settings = Settings()
    STATE.clear()
    ok("cuInit", 0)
    ok("cuCtxSetCurrent", ok("cuDevicePrimaryCtxRetain", 0))
    yield Program()
    STATE.clear()


def test_a_stream_is_captured_and_its_graph_launched(program: Program) -> None:
    program.begin()
    program.launch(program.add, program.at, 5)
    ok("cuMemcpyDtoDAsync", program.at + 4, program.at, 4, program.stream)
    assert ok("cuStreamIsCapturing", program.stream) == 1
    graph = program.end()
    assert (ok("cuStreamIsCapturing", program.stream), program.numbers) == (0, [0, 0])
    kinds = [ok("cuGraphNodeGetType", node) for node in listed("cuGraphGetNodes", graph)]
    assert kinds == [0, 1]
    program.run(graph)
    program.run(graph)
    assert program.numbers == [10, 10]


def test_what_is_forked_must_be_joined(program: Program) -> None:
    other, event, back = ok("cuStreamCreate", 1), ok("cuEventCreate", 0), ok("cuEventCreate", 0)
    program.begin()
    program.launch(program.add, program.at, 1)
    ok("cuEventRecord", event, program.stream)
    ok("cuStreamWaitEvent", other, event, 0)
    program.launch(program.add, program.at + 4, 7, stream=other)
    assert error("cuEventSynchronize", event) == "CAPTURED_EVENT"
    assert error("cuStreamEndCapture", program.stream) == "STREAM_CAPTURE_INVALIDATED"

    program.begin()
    ok("cuEventRecord", event, program.stream)
    ok("cuStreamWaitEvent", other, event, 0)
    program.launch(program.add, program.at + 4, 7, stream=other)
    assert error("cuStreamEndCapture", program.stream) == "STREAM_CAPTURE_UNJOINED"

    program.begin()
    program.launch(program.add, program.at, 1)
    ok("cuEventRecord", event, program.stream)
    ok("cuStreamWaitEvent", other, event, 0)
    program.launch(program.add, program.at + 4, 7, stream=other)
    program.launch(program.add, program.at, 1)
    assert error("cuStreamEndCapture", other) == "STREAM_CAPTURE_UNMATCHED"
    # that spoiled it; once more, and joined
    error("cuStreamEndCapture", program.stream)
    program.begin()
    program.launch(program.add, program.at, 1)
    ok("cuEventRecord", event, program.stream)
    ok("cuStreamWaitEvent", other, event, 0)
    program.launch(program.add, program.at + 4, 7, stream=other)
    ok("cuEventRecord", back, other)
    ok("cuStreamWaitEvent", program.stream, back, 0)
    program.launch(program.add, program.at, 1)
    graph = program.end()
    first, side, last = listed("cuGraphGetNodes", graph)
    assert (listed("cuGraphNodeGetDependencies", side), sorted(listed("cuGraphNodeGetDependencies", last))) == (
        [first],
        sorted([first, side]),
    )
    program.run(graph)
    assert program.numbers == [2, 7]


def test_the_host_cannot_wait_for_what_is_captured(program: Program) -> None:
    program.begin()
    assert error("cuStreamSynchronize", program.stream) == "STREAM_CAPTURE_UNSUPPORTED"
    assert error("cuStreamEndCapture", program.stream) == "STREAM_CAPTURE_INVALIDATED"
    assert error("cuStreamEndCapture", program.stream) == "ILLEGAL_STATE"
    assert error("cuStreamBeginCapture", 0, 2) == "STREAM_CAPTURE_UNSUPPORTED"


def test_nodes_edges_and_parameters(program: Program) -> None:
    graph = ok("cuGraphCreate", 0)
    given = program.kernel(program.add, program.at, 3)
    first = ok("cuGraphAddKernelNode", graph, 0, 0, given)
    fill = Memset(program.at, 0, 100, 4, 2, 1)
    second = ok("cuGraphAddMemsetNode", graph, 0, 0, ctypes.addressof(fill), 0)
    assert listed("cuGraphGetRootNodes", graph) == [first, second]
    one, other = ctypes.c_uint64(second), ctypes.c_uint64(first)
    pair = (ctypes.addressof(one), ctypes.addressof(other))
    ok("cuGraphAddDependencies", graph, *pair, 1)
    assert error("cuGraphAddDependencies", graph, *pair, 1) == "INVALID_VALUE"
    assert error("cuGraphAddDependencies", graph, *reversed(pair), 1) == "INVALID_VALUE"  # a circle
    assert listed("cuGraphNodeGetDependentNodes", second) == [first]
    executable = ok("cuGraphInstantiateWithFlags", graph, 0)
    program.run(graph)
    assert program.numbers == [103, 100]

    # of what can be launched only, then of the graph
    ok("cuGraphExecKernelNodeSetParams", executable, first, program.kernel(program.add, program.at, 4))
    ok("cuGraphLaunch", executable, program.stream)
    assert program.numbers == [104, 100]
    ok("cuGraphNodeSetEnabled", executable, second, 0)
    ok("cuGraphLaunch", executable, program.stream)
    assert program.numbers == [108, 100]
    read = Kernel()
    ok("cuGraphKernelNodeGetParams", first, ctypes.addressof(read))
    value = ctypes.c_uint64.from_address(read.places + 8).value
    assert ctypes.c_uint32.from_address(value).value == 3
    ok("cuGraphDestroyNode", second)
    assert listed("cuGraphGetNodes", graph) == [first]
    assert error("cuGraphNodeGetType", second) == "INVALID_HANDLE"
    ok("cuGraphDestroy", graph)
    assert error("cuGraphDestroy", graph) == "INVALID_HANDLE"
    ok("cuGraphLaunch", executable, program.stream)  # it is a copy


def test_an_update_asks_for_the_same_shape(program: Program) -> None:
    made = []
    for count in (1, 1, 2):
        program.begin()
        for _ in range(count):
            program.launch(program.add, program.at, 10 ** len(made))
        made.append(program.end())
    executable = ok("cuGraphInstantiateWithFlags", made[0], 0)
    result = (ctypes.c_uint64 * 3)()
    ok("cuGraphExecUpdate_v2", executable, made[1], ctypes.addressof(result))
    ok("cuGraphLaunch", executable, program.stream)
    assert program.numbers[0] == 10
    assert error("cuGraphExecUpdate_v2", executable, made[2], ctypes.addressof(result)) == "GRAPH_EXEC_UPDATE_FAILURE"
    assert result[0] & 0xFFFFFFFF == 2


def conditional(graph: int, handle: int, kind: int, count: int) -> tuple[int, list[int]]:
    """A conditional node, and its graphs."""
    given = (ctypes.c_uint64 * 32)(13)
    given[2], given[3] = handle, kind | count << 32
    node = ok("cuGraphAddNode", graph, 0, 0, ctypes.addressof(given))
    return node, list((ctypes.c_uint64 * count).from_address(given[4]))


@pytest.mark.parametrize(("value", "expected"), [(0, [0, 5]), (1, [5, 0])])
def test_if_and_else(program: Program, value: int, expected: list[int]) -> None:
    graph = ok("cuGraphCreate", 0)
    handle = ok("cuGraphConditionalHandleCreate", graph, 0, value, 1)
    _, bodies = conditional(graph, handle, 0, 2)
    for i, body in enumerate(bodies):
        ok("cuGraphAddKernelNode", body, 0, 0, program.kernel(program.add, program.at + 4 * i, 5))
    program.run(graph)
    assert program.numbers == expected
    elsewhere = ok("cuGraphCreate", 0)
    given = (ctypes.c_uint64 * 32)(13)
    given[2], given[3] = handle, 1 << 32
    assert error("cuGraphAddNode", elsewhere, 0, 0, ctypes.addressof(given)) == "INVALID_VALUE"


def test_a_kernel_ends_a_loop(program: Program) -> None:
    graph = ok("cuGraphCreate", 0)
    handle = ok("cuGraphConditionalHandleCreate", graph, 0, 1, 1)
    _, (body,) = conditional(graph, handle, 1, 1)
    add = ctypes.c_uint64(ok("cuGraphAddKernelNode", body, 0, 0, program.kernel(program.add, program.at, 2)))
    until = program.kernel(program.until, program.at, 9, handle)
    ok("cuGraphAddKernelNode", body, ctypes.addressof(add), 1, until)
    program.run(graph)
    assert program.numbers[0] == 10
    program.run(graph)  # the default value starts it again
    assert program.numbers[0] == 12


def test_children_host_functions_events_and_a_picture(program: Program, tmp_path: Path) -> None:
    seen: list[int] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(seen.append)
    child, graph = ok("cuGraphCreate", 0), ok("cuGraphCreate", 0)
    host = Host(ctypes.cast(function, ctypes.c_void_p).value, 42)
    ok("cuGraphAddHostNode", child, 0, 0, ctypes.addressof(host))
    node = ok("cuGraphAddChildGraphNode", graph, 0, 0, child)
    assert len(listed("cuGraphGetNodes", ok("cuGraphChildGraphNodeGetGraph", node))) == 1
    event = ok("cuEventCreate", 0)
    ok("cuGraphAddEventRecordNode", graph, 0, 0, event)
    ok("cuGraphAddEmptyNode", graph, 0, 0)
    clone = ok("cuGraphClone", graph)
    assert ok("cuGraphNodeFindInClone", node, clone) in listed("cuGraphGetNodes", clone)
    program.run(clone)
    assert seen == [42]
    ok("cuEventSynchronize", event)
    ok("cuGraphDebugDotPrint", graph, str(tmp_path / "g.dot").encode(), 0)
    assert "event record" in (tmp_path / "g.dot").read_text()


def test_memory_of_graphs_and_objects(program: Program) -> None:
    program.begin()
    address = ok("cuMemAllocAsync", 1024, program.stream)
    ok("cuMemsetD8Async", address, 7, 1024, program.stream)
    ok("cuMemFreeAsync", address, program.stream)
    graph = program.end()
    kinds = [ok("cuGraphNodeGetType", node) for node in listed("cuGraphGetNodes", graph)]
    assert kinds == [10, 2, 11]
    gone: list[int] = []
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(gone.append)
    made = ok("cuUserObjectCreate", 5, ctypes.cast(destroy, ctypes.c_void_p).value, 1, 1)
    ok("cuGraphRetainUserObject", graph, made, 1, 1)
    executable = ok("cuGraphInstantiateWithFlags", graph, 0)
    ok("cuGraphLaunch", executable, program.stream)
    high = ctypes.c_uint64()
    ok("cuDeviceGetGraphMemAttribute", 0, 1, ctypes.addressof(high))
    assert high.value == 1024
    clone = ok("cuGraphClone", graph)
    ok("cuGraphDestroy", graph)
    assert gone == []
    ok("cuGraphExecDestroy", executable)
    assert gone == []
    ok("cuGraphDestroy", clone)
    assert gone == [5]


def test_nothing_is_shared_between_processes(program: Program) -> None:
    room = ctypes.create_string_buffer(64)
    assert error("cuIpcGetMemHandle", ctypes.addressof(room), program.at) == "NOT_SUPPORTED"
    assert "a machine of its own" in LOG[-1]
