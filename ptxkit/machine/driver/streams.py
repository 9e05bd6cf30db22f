"""Streams and events. What is started has ended when the call returns, so a stream has nothing to wait for."""

from __future__ import annotations

import ctypes
import time

import attrs

from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.state import STATE

LEGACY, PER_THREAD = 1, 2
"""Handles that stand for the default streams."""

_TIMING_OFF = 2


@attrs.define(eq=False)
class Stream:
    """A stream; `value` of its attributes by number."""

    context: int = 0
    flags: int = 0
    priority: int = 0
    number: int = 0


@attrs.define(eq=False)
class Event:
    """A moment, once it was recorded."""

    flags: int = 0
    seconds: float | None = None


_default = Stream()


def stream_of(handle: int) -> Stream:
    """A stream; the default one for its handles. Raises `Failure` if it is none."""
    return _default if handle in (0, LEGACY, PER_THREAD) else STATE.of(handle, Stream)


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
    stream_of(stream)


@call("q", settles=True)
def cuStreamQuery(stream: int) -> None:
    stream_of(stream)


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


@call("q *q *q", since=12050, base="cuStreamGetCtx")
def cuStreamGetCtx_v2(stream: int) -> tuple[int, int]:
    return stream_of(stream).context or STATE.contexts[-1], 0


@call("q *i")
def cuStreamGetDevice(stream: int) -> int:
    stream_of(stream)
    return 0


@call("q q u", settles=True)
def cuStreamWaitEvent(stream: int, event: int, flags: int) -> None:
    stream_of(stream)
    STATE.of(event, Event)


@call("q q q u", settles=True)
def cuStreamAddCallback(stream: int, callback: int, data: int, flags: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint64)(callback)(stream, 0, data)


@call("q q q", settles=True)
def cuLaunchHostFunc(stream: int, function: int, data: int) -> None:
    stream_of(stream)
    ctypes.CFUNCTYPE(None, ctypes.c_uint64)(function)(data)


@call("q q q u", settles=True)
def cuStreamAttachMemAsync(stream: int, address: int, size: int, flags: int) -> None:
    stream_of(stream)


@call("q *i")
def cuStreamIsCapturing(stream: int) -> int:
    stream_of(stream)
    return 0


@call("q *i *q")
def cuStreamGetCaptureInfo(stream: int) -> tuple[int, int]:
    return 0, 0


@call("q *i *q *q *q *q", since=11030, base="cuStreamGetCaptureInfo")
def cuStreamGetCaptureInfo_v2(stream: int) -> tuple[int, int, int, int, int]:
    return 0, 0, 0, 0, 0


@call("q *i *q *q *q *q *q", since=12030, base="cuStreamGetCaptureInfo")
def cuStreamGetCaptureInfo_v3(stream: int) -> tuple[int, int, int, int, int, int]:
    return 0, 0, 0, 0, 0, 0


@call("q")
def cuThreadExchangeStreamCaptureMode(mode: int) -> None:
    return None


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
    stream_of(stream)
    STATE.of(event, Event).seconds = time.perf_counter()


@call("q q u")
def cuEventRecordWithFlags(event: int, stream: int, flags: int) -> None:
    cuEventRecord(event, stream)


@call("q", settles=True)
def cuEventQuery(event: int) -> None:
    STATE.of(event, Event)


@call("q", settles=True)
def cuEventSynchronize(event: int) -> None:
    STATE.of(event, Event)


@call("*f q q", "cuEventElapsedTime_v2")
def cuEventElapsedTime(first: int, last: int) -> float:
    one, other = STATE.of(first, Event), STATE.of(last, Event)
    if one.seconds is None or other.seconds is None or (one.flags | other.flags) & _TIMING_OFF:
        raise Failure("INVALID_HANDLE")
    return (other.seconds - one.seconds) * 1000
