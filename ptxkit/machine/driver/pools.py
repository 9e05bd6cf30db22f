"""Memory pools, and stream-ordered allocation."""

from __future__ import annotations

import ctypes

import attrs

from ptxkit.frozen import define
from ptxkit.machine.driver.enumerations import numbers
from ptxkit.machine.driver.graphs import MEM_ALLOC, MEM_FREE, Alloc, Node, used
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.memory import allocate, free, held
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.driver.streams import stream_of

_WIDE = ("RELEASE_THRESHOLD", "RESERVED_MEM_CURRENT", "RESERVED_MEM_HIGH", "USED_MEM_CURRENT", "USED_MEM_HIGH")
_REUSE = ("REUSE_FOLLOW_EVENT_DEPENDENCIES", "REUSE_ALLOW_OPPORTUNISTIC", "REUSE_ALLOW_INTERNAL_DEPENDENCIES")
_KINDS = {1: "device", 2: "host", 3: "host", 4: "host"}
"""The kind of memory, by the type of a location."""


@define(eq=False)
class Pool:
    """A pool; `settings` are the attributes that were set, by name."""

    kind: str = "device"
    managed: bool = False
    location: tuple[int, int] = (1, 0)
    settings: dict[str, int] = attrs.Factory(lambda: dict.fromkeys(_REUSE, 1))
    high: int = 0
    access: dict[tuple[int, int], int] = attrs.Factory(dict)


def _default(kind: int = 1, managed: bool = False) -> int:
    key = f"{kind} {managed}"
    if key not in STATE.pools:
        STATE.pools[key] = STATE.handle(Pool("managed" if managed else _KINDS.get(kind, "device"), managed, (kind, 0)))
    return int(STATE.pools[key])


def _used(handle: int) -> int:
    return sum(one.size for one in list(held().values()) if one.pool == handle)


def _name(kind: int) -> str:
    found = next((name for name, number in numbers("CUmemPool_attribute").items() if number == kind), None)
    if found is None:
        raise Failure("INVALID_VALUE")
    return found


@call("*q i")
def cuDeviceGetDefaultMemPool(device: int) -> int:
    STATE.ready()
    return _default()


@call("*q i")
def cuDeviceGetMemPool(device: int) -> int:
    STATE.ready()
    return STATE.pools.get("current") or _default()


@call("i q")
def cuDeviceSetMemPool(device: int, pool: int) -> None:
    STATE.of(pool, Pool)
    STATE.pools["current"] = pool


@call("*q q i")
def cuMemGetDefaultMemPool(location: int, allocation: int) -> int:
    return _default(ctypes.c_int.from_address(location).value, allocation == 2)


@call("*q q i")
def cuMemGetMemPool(location: int, allocation: int) -> int:
    return _default(ctypes.c_int.from_address(location).value, allocation == 2)


@call("q i q")
def cuMemSetMemPool(location: int, allocation: int, pool: int) -> None:
    STATE.of(pool, Pool)


@call("*q q")
def cuMemPoolCreate(properties: int) -> int:
    allocation, _, location, device = (ctypes.c_int * 4).from_address(properties)
    managed = allocation == 2
    return STATE.handle(Pool("managed" if managed else _KINDS.get(location, "device"), managed, (location, device)))


@call("q")
def cuMemPoolDestroy(pool: int) -> None:
    STATE.drop(pool, Pool)


@call("q q")
def cuMemPoolTrimTo(pool: int, keep: int) -> None:
    STATE.of(pool, Pool)


@call("q i q")
def cuMemPoolGetAttribute(pool: int, kind: int, place: int) -> None:
    one, name = STATE.of(pool, Pool), _name(kind)
    used = _used(pool)
    values = {"RESERVED_MEM_CURRENT": used, "USED_MEM_CURRENT": used, "RESERVED_MEM_HIGH": one.high, "USED_MEM_HIGH": one.high}
    values |= {"ALLOCATION_TYPE": 2 if one.managed else 1, "LOCATION_TYPE": one.location[0], "LOCATION_ID": one.location[1]}
    value = values.get(name, one.settings.get(name, 0))
    (ctypes.c_uint64 if name in _WIDE else ctypes.c_int).from_address(place).value = value


@call("q i q")
def cuMemPoolSetAttribute(pool: int, kind: int, place: int) -> None:
    one, name = STATE.of(pool, Pool), _name(kind)
    value = (ctypes.c_uint64 if name in _WIDE else ctypes.c_int).from_address(place).value
    if name.endswith("HIGH"):
        if value:
            raise Failure("INVALID_VALUE")
        one.high = _used(pool)
    elif name.endswith("CURRENT"):
        raise Failure("INVALID_VALUE")
    else:
        one.settings[name] = value


@call("q q q")
def cuMemPoolSetAccess(pool: int, descriptions: int, count: int) -> None:
    one = STATE.of(pool, Pool)
    for i in range(count):
        kind, device, flags = (ctypes.c_int * 3).from_address(descriptions + 12 * i)
        if kind == 1 and device:
            raise Failure("INVALID_DEVICE")
        one.access[kind, device] = flags


@call("*i q q")
def cuMemPoolGetAccess(pool: int, location: int) -> int:
    one = STATE.of(pool, Pool)
    kind, device = (ctypes.c_int * 2).from_address(location)
    return one.access.get((kind, device), 3 if (kind, device) == (1, 0) else 0)


def _from(pool: int, size: int) -> int:
    one = STATE.of(pool, Pool)
    if not size:
        return 0
    address = allocate(size, one.kind, 1 if one.managed else 0, pool)
    one.high = max(one.high, _used(pool))
    return address


@call("*q q q", settles=True)
def cuMemAllocAsync(size: int, stream: int) -> int:
    return _captured(stream, _from(STATE.pools.get("current") or _default(), size), size)


@call("*q q q q", settles=True)
def cuMemAllocFromPoolAsync(size: int, pool: int, stream: int) -> int:
    return _captured(stream, _from(pool, size), size)


def _captured(stream: int, address: int, size: int) -> int:
    """The address; if the stream is captured, an allocation node for it is added to the graph."""
    captured = stream_of(stream).captured
    if captured is not None:
        captured.add(Node(MEM_ALLOC, lambda: used(size), given=Alloc(size=size, address=address)))
    return address


@call("q q")
def cuMemFreeAsync(address: int, stream: int) -> None:
    captured = stream_of(stream).captured
    if captured is None:
        free(address, "device", "managed", "host")
        return
    found = STATE.memory.get(address)
    if found is None:
        raise Failure("INVALID_VALUE")
    captured.add(Node(MEM_FREE, lambda: used(-found.size), given=ctypes.c_uint64(address)))
