"""Device resources, and green contexts, which own part of them. Kernels run as in any other context."""

from __future__ import annotations

import ctypes
from typing import Any

import attrs

from ptxkit.frozen import define
from ptxkit.machine.driver.devices import MULTIPROCESSORS
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.state import STATE, Context
from ptxkit.machine.driver.streams import Event, Stream, recorded, stream_of

_SM, _QUEUE_CONFIG, _QUEUE = 1, 1000, 10000
_BACKFILL = 1
_QUEUES = 8
"""Number of streams whose work may run concurrently."""


class Resource(ctypes.Structure):
    """CUdevResource; `parts` of multiprocessors are their number, the minimum partition, the partition granularity, and flags."""

    _fields_ = (("kind", ctypes.c_int), ("hidden", ctypes.c_uint8 * 92), ("parts", ctypes.c_uint32 * 10), ("next", ctypes.c_uint64))


class _Group(ctypes.Structure):
    """CU_DEV_SM_RESOURCE_GROUP_PARAMS."""

    _fields_ = (
        ("count", ctypes.c_uint32), ("together", ctypes.c_uint32), ("preferred", ctypes.c_uint32), ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32 * 12),
    )  # fmt: skip


@define(eq=False)
class Description:
    """Resources for a green context."""

    resources: list[Any]


@define(eq=False)
class Green:
    """A green context. `context` is its handle as a context, once requested."""

    resources: list[Any]
    context: int = 0
    number: int = attrs.Factory(lambda: STATE.number())


def _step() -> int:
    """The minimum partition of multiprocessors, and its granularity."""
    return 8 if STATE.architecture >= 90 else 2


def _multiprocessors(count: int) -> Resource:
    found = Resource(_SM)
    found.parts[:4] = count, _step(), _step(), 0
    return found


def _whole(kind: int) -> Resource:
    if kind == _SM:
        return _multiprocessors(MULTIPROCESSORS)
    if kind == _QUEUE_CONFIG:
        found = Resource(kind)
        found.parts[:3] = 0, _QUEUES, 0
        return found
    if kind == _QUEUE:
        return Resource(kind)
    raise Failure("INVALID_RESOURCE_TYPE")


def _give(place: int, resource: Resource) -> None:
    ctypes.memmove(place, ctypes.addressof(resource), ctypes.sizeof(Resource))


def _part(green: Green | None, kind: int) -> Resource:
    """The resource of a kind that a green context owns: all of it, unless it was given a part."""
    mine = green.resources if green is not None else []
    return next((one for one in mine if one.kind == kind), None) or _whole(kind)


def _green_of(context: int) -> Green | None:
    return next((one for one in map(STATE.find, STATE.handles()) if isinstance(one, Green) and one.context == context), None)


@call("i q i")
def cuDeviceGetDevResource(device: int, place: int, kind: int) -> None:
    STATE.ready()
    if device:
        raise Failure("INVALID_DEVICE")
    _give(place, _whole(kind))


@call("q q i")
def cuCtxGetDevResource(context: int, place: int, kind: int) -> None:
    STATE.of(context, Context)
    _give(place, _part(_green_of(context), kind))


@call("q q i")
def cuGreenCtxGetDevResource(green: int, place: int, kind: int) -> None:
    _give(place, _part(STATE.of(green, Green), kind))


def _input(place: int) -> int:
    """The number of multiprocessors to split."""
    one = Resource.from_address(place)
    if one.kind != _SM:
        raise Failure("INVALID_RESOURCE_TYPE")
    return int(one.parts[0])


def _give_groups(results: int, counts: list[int], remaining: int, left: int) -> None:
    if results:
        for i, count in enumerate(counts):
            _give(results + i * ctypes.sizeof(Resource), _multiprocessors(count))
    if remaining:
        _give(remaining, _multiprocessors(left) if left else Resource())


@call("q q q q u u")
def cuDevSmResourceSplitByCount(results: int, groups: int, source: int, remaining: int, flags: int, least: int) -> None:
    number, total, step = ctypes.c_uint32.from_address(groups), _input(source), _step()
    each = max(step, -(-least // step) * step)
    if each > total:
        raise Failure("INVALID_RESOURCE_CONFIGURATION")
    number.value = min(number.value, total // each) if results else total // each
    _give_groups(results, [each] * number.value, remaining, total - each * number.value)


@call("q u q q u q")
def cuDevSmResourceSplit(results: int, groups: int, source: int, remaining: int, flags: int, parameters: int) -> None:
    left, step = _input(source), _step()
    if not groups or flags:
        raise Failure("INVALID_VALUE")
    wanted = (_Group * groups).from_address(parameters)
    counts = []
    for i, one in enumerate(wanted):
        together = one.together or step
        multiple = 2 if one.flags & _BACKFILL else together
        count = one.count or left // (groups - i) // multiple * multiple
        if together % 2 or count % multiple or not 0 < count <= left:
            raise Failure("INVALID_RESOURCE_CONFIGURATION", f"{count} multiprocessors of {left}, {together} together")
        counts.append(count)
        left -= count
    for one, count in zip(wanted, counts, strict=True):
        one.count = count
    _give_groups(results, counts, remaining, left)


@call("*q q u")
def cuDevResourceGenerateDesc(resources: int, count: int) -> int:
    if not count:
        raise Failure("INVALID_VALUE")
    size = ctypes.sizeof(Resource)
    found = [Resource.from_buffer_copy(ctypes.string_at(resources + i * size, size)) for i in range(count)]
    if any(one.kind not in (_SM, _QUEUE_CONFIG, _QUEUE) for one in found):
        raise Failure("INVALID_RESOURCE_TYPE")
    return STATE.handle(Description(found))


@call("*q q i u")
def cuGreenCtxCreate(description: int, device: int, flags: int) -> int:
    if device:
        raise Failure("INVALID_DEVICE")
    if flags != 1:
        raise Failure("INVALID_VALUE", "a green context has a default stream of its own")
    return STATE.handle(Green(STATE.of(description, Description).resources))


@call("q")
def cuGreenCtxDestroy(green: int) -> None:
    context = STATE.drop(green, Green).context
    if context:
        STATE.drop(context, Context)


@call("*q q")
def cuCtxFromGreenCtx(green: int) -> int:
    one = STATE.of(green, Green)
    one.context = one.context or STATE.handle(Context())
    return one.context


@call("q *q")
def cuGreenCtxGetId(green: int) -> int:
    return STATE.of(green, Green).number


@call("*q q u i")
def cuGreenCtxStreamCreate(green: int, flags: int, priority: int) -> int:
    if not flags & 1:
        raise Failure("INVALID_VALUE", "streams of green contexts do not wait for the default stream")
    return STATE.handle(Stream(cuCtxFromGreenCtx(green), flags, min(0, max(-5, priority))))


@call("q *q")
def cuStreamGetGreenCtx(stream: int) -> int:
    green = _green_of(stream_of(stream).context)
    return next((handle for handle in STATE.handles() if green is not None and STATE.find(handle) is green), 0)


@call("q *q *q", since=12050, base="cuStreamGetCtx")
def cuStreamGetCtx_v2(stream: int) -> tuple[int, int]:
    """The context of a stream, or its green context."""
    green = cuStreamGetGreenCtx(stream)
    return (0, green) if green else (stream_of(stream).context or STATE.contexts[-1], 0)


@call("q q")
def cuGreenCtxRecordEvent(green: int, event: int) -> None:
    STATE.of(green, Green)
    recorded(STATE.of(event, Event))


@call("q q")
def cuGreenCtxWaitEvent(green: int, event: int) -> None:
    STATE.of(green, Green)
    STATE.of(event, Event)
