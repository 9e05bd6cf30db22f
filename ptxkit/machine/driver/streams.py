"""Streams and events. Work completes before the call returns, so a stream never has pending work."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

from ptxkit.frozen import define
from ptxkit.machine.driver.graphs import EVENT_RECORD, HOST, WAIT_EVENT, Capture, Captured, Graph, Node, earlier, handle_of, nothing
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.state import STATE

_NONE, _ACTIVE, _VOID = range(3)
"""CUstreamCaptureStatus."""
EXTERNAL = 1
"""Flag of an event: recording and waiting are separate nodes."""
LEGACY, PER_THREAD = 1, 2
"""Handles of the default streams."""

_TIMING_OFF = 2


@define(eq=False)
class Stream:
    """A stream; `value` holds its attributes by number."""

    context: int = 0
    flags: int = 0
    priority: int = 0
    number: int = 0
    captured: Captured | None = None


@define(eq=False)
class Event:
    """A recorded point in time; `captured`: in a captured stream, and after which nodes."""

    flags: int = 0
    seconds: float | None = None
    captured: tuple[Capture, list[Node]] | None = None


_default, _per_thread = Stream(), Stream()


def stream_of(handle: int) -> Stream:
    """A stream; the default one for its handles. Raises `Failure` for an invalid handle."""
    if handle == PER_THREAD:
        return _per_thread
    return _default if handle in (0, LEGACY) else STATE.of(handle, Stream)


def on(handle: int, kind: int, work: Callable[[], None]) -> None:
    """Executes work in a stream, or adds it as a node of that kind to the graph that the stream is captured to."""
    captured = stream_of(handle).captured
    if captured is None:
        work()
    else:
        captured.add(Node(kind, work))


def recorded(event: Event) -> None:
    """Records an event."""
    event.seconds, event.captured = time.perf_counter(), None


def _waited(handle: int) -> None:
    """The host waits for a stream, or queries it, which invalidates a capture."""
    captured = stream_of(handle).captured
    if captured is not None:
        captured.capture.is_void = True
        raise Failure("STREAM_CAPTURE_UNSUPPORTED")


def _new(flags: int, priority: int) -> int:
    STATE.current()
    return STATE.handle(Stream(STATE.contexts[-1], flags, min(0, max(-5, priority))))


@call("*q u", settles=True)
def cuStreamCreate(flags: int) -> int:
    return _new(flags, 0)


@call("*q u i", settles=True)
def cuStreamCreateWithPriority(flags: int, priority: int) -> int:
    return _new(flags, priority)


@call("q", "cuStreamDestroy_v2")
def cuStreamDestroy(stream: int) -> None:
    STATE.drop(stream, Stream)


@call("q", settles=True)
def cuStreamSynchronize(stream: int) -> None:
    _waited(stream)


@call("q", settles=True)
def cuStreamQuery(stream: int) -> None:
    _waited(stream)


@call("q *i")
def cuStreamGetPriority(stream: int) -> int:
    return stream_of(stream).priority


@call("q *u")
def cuStreamGetFlags(stream: int) -> int:
    return stream_of(stream).flags


@call("q *q")
def cuStreamGetId(stream: int) -> int:
    one = stream_of(stream)
    one.number = one.number or STATE.number()
    return one.number


@call("q *q")
def cuStreamGetCtx(stream: int) -> int:
    return stream_of(stream).context or STATE.contexts[-1]


@call("q *i")
def cuStreamGetDevice(stream: int) -> int:
    stream_of(stream)
    return 0


@call("q q u", settles=True)
def cuStreamWaitEvent(stream: int, event: int, flags: int) -> None:
    one, found = stream_of(stream), STATE.of(event, Event)
    if flags & EXTERNAL:
        on(stream, WAIT_EVENT, nothing)
        return
    if found.captured is None:
        if one.captured is not None:
            one.captured.capture.is_void = True
            raise Failure("STREAM_CAPTURE_ISOLATION", "an event from outside of the capture")
        return
    capture, nodes = found.captured
    if one.captured is None:
        one.captured = Captured(capture, list(nodes))
        capture.streams.append(one)
    elif one.captured.capture is capture:
        one.captured.last += [node for node in nodes if node not in one.captured.last]
    else:
        raise Failure("STREAM_CAPTURE_MERGE")


@call("q q q u", settles=True)
def cuStreamAddCallback(stream: int, callback: int, data: int, flags: int) -> None:
    _waited(stream)
    ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint64)(callback)(stream, 0, data)


@call("q q q", settles=True)
def cuLaunchHostFunc(stream: int, function: int, data: int) -> None:
    on(stream, HOST, lambda: ctypes.CFUNCTYPE(None, ctypes.c_uint64)(function)(data))


@call("q q q u", settles=True)
def cuStreamAttachMemAsync(stream: int, address: int, size: int, flags: int) -> None:
    stream_of(stream)


@call("q *i")
def cuStreamIsCapturing(stream: int) -> int:
    return _status(stream_of(stream))


@call("q *i *q")
def cuStreamGetCaptureInfo(stream: int) -> tuple[int, int]:
    return _info(stream)[:2]


@call("q *i *q *q *q *q", since=11030, base="cuStreamGetCaptureInfo")
def cuStreamGetCaptureInfo_v2(stream: int) -> tuple[int, int, int, int, int]:
    return _info(stream)


@call("q *i *q *q *q *q *q", since=12030, base="cuStreamGetCaptureInfo")
def cuStreamGetCaptureInfo_v3(stream: int) -> tuple[int, int, int, int, int, int]:
    status, number, graph, nodes, count = _info(stream)
    captured = stream_of(stream).captured
    return status, number, graph, nodes, captured.edges() if captured is not None else 0, count


def _status(stream: Stream) -> int:
    return _NONE if stream.captured is None else _VOID if stream.captured.capture.is_void else _ACTIVE


def _info(handle: int) -> tuple[int, int, int, int, int]:
    """For a captured stream: the status, the number of the capture, its graph, the last nodes and their number."""
    one = stream_of(handle)
    if one.captured is None:
        return _NONE, 0, 0, 0, 0
    captured = one.captured
    return _status(one), captured.capture.number, handle_of(captured.capture.graph), captured.addresses(), len(captured.last)


def _begun(handle: int, graph: Graph, nodes: list[Node], mode: int) -> None:
    STATE.current()
    one = stream_of(handle)
    if one is _default:
        raise Failure("STREAM_CAPTURE_UNSUPPORTED", "the legacy stream")
    if one.captured is not None or mode > 2:
        raise Failure("ILLEGAL_STATE" if one.captured is not None else "INVALID_VALUE")
    capture = Capture(graph, mode, one)
    capture.streams.append(one)
    one.captured = Captured(capture, nodes)


@call("q u", "cuStreamBeginCapture_v2")
def cuStreamBeginCapture(stream: int, mode: int) -> None:
    _begun(stream, Graph(), [], mode)


@call("q q q q q u")
def cuStreamBeginCaptureToGraph(stream: int, graph: int, after: int, data: int, count: int, mode: int) -> None:
    nodes = [STATE.of(node, Node) for node in (ctypes.c_uint64 * count).from_address(after)] if count else []
    _begun(stream, STATE.of(graph, Graph), nodes, mode)


@call("q *q")
def cuStreamEndCapture(stream: int) -> int:
    one = stream_of(stream)
    if one.captured is None:
        raise Failure("ILLEGAL_STATE")
    capture, last = one.captured.capture, one.captured.last
    if capture.stream is not one:
        capture.is_void = True
        raise Failure("STREAM_CAPTURE_UNMATCHED")
    joined = {id(node) for node in earlier(last)}
    open_ends = [other for other in capture.streams if other.captured is not None and any(id(n) not in joined for n in other.captured.last)]
    for other in capture.streams:
        other.captured = None
    if capture.is_void:
        raise Failure("STREAM_CAPTURE_INVALIDATED")
    if open_ends:
        raise Failure("STREAM_CAPTURE_UNJOINED", f"{len(open_ends)} streams of the capture")
    return handle_of(capture.graph)


def _after(stream: int, nodes: int, count: int, flags: int) -> None:
    captured = stream_of(stream).captured
    if captured is None:
        raise Failure("ILLEGAL_STATE")
    found = [STATE.of(node, Node) for node in (ctypes.c_uint64 * count).from_address(nodes)] if count else []
    captured.last = found if flags & 1 else [*captured.last, *[node for node in found if node not in captured.last]]


@call("q q q u", since=11030, base="cuStreamUpdateCaptureDependencies")
def cuStreamUpdateCaptureDependencies(stream: int, nodes: int, count: int, flags: int) -> None:
    _after(stream, nodes, count, flags)


@call("q q q q u", since=12030, base="cuStreamUpdateCaptureDependencies")
def cuStreamUpdateCaptureDependencies_v2(stream: int, nodes: int, data: int, count: int, flags: int) -> None:
    _after(stream, nodes, count, flags)


_modes = threading.local()


@call("q")
def cuThreadExchangeStreamCaptureMode(place: int) -> None:
    """Sets what a thread may do during a capture: everything is allowed here."""
    mode = ctypes.c_uint32.from_address(place)
    before, _modes.mode = getattr(_modes, "mode", 0), mode.value
    mode.value = before


@call("q q u u", "cuStreamWriteValue32_v2", settles=True)
def cuStreamWriteValue32(stream: int, address: int, value: int, flags: int) -> None:
    STATE.machine.write(address, value.to_bytes(4, "little"))


@call("q q q u", "cuStreamWriteValue64_v2", settles=True)
def cuStreamWriteValue64(stream: int, address: int, value: int, flags: int) -> None:
    STATE.machine.write(address, value.to_bytes(8, "little"))


@call("*q u", settles=True)
def cuEventCreate(flags: int) -> int:
    STATE.current()
    return STATE.handle(Event(flags))


@call("q", "cuEventDestroy_v2")
def cuEventDestroy(event: int) -> None:
    STATE.drop(event, Event)


@call("q q")
def cuEventRecord(event: int, stream: int) -> None:
    captured, one = stream_of(stream).captured, STATE.of(event, Event)
    if captured is None:
        recorded(one)
    else:
        one.captured = (captured.capture, list(captured.last))


@call("q q u")
def cuEventRecordWithFlags(event: int, stream: int, flags: int) -> None:
    captured, one = stream_of(stream).captured, STATE.of(event, Event)
    if captured is not None and flags & EXTERNAL:
        captured.add(Node(EVENT_RECORD, lambda: recorded(one), given=ctypes.c_uint64(event)))
    else:
        cuEventRecord(event, stream)


def _asked(event: int) -> None:
    one = STATE.of(event, Event)
    if one.captured is not None:
        one.captured[0].is_void = True
        raise Failure("CAPTURED_EVENT")


@call("q", settles=True)
def cuEventQuery(event: int) -> None:
    _asked(event)


@call("q", settles=True)
def cuEventSynchronize(event: int) -> None:
    _asked(event)


@call("*f q q", "cuEventElapsedTime_v2")
def cuEventElapsedTime(first: int, last: int) -> float:
    one, other = STATE.of(first, Event), STATE.of(last, Event)
    if one.seconds is None or other.seconds is None or (one.flags | other.flags) & _TIMING_OFF:
        raise Failure("INVALID_HANDLE")
    return (other.seconds - one.seconds) * 1000
