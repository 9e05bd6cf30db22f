"""Memory: device, host (pinned), managed, registered. All of it is memory of this process, at its own address."""

from __future__ import annotations

import ctypes

import attrs

from ptxkit.frozen import define
from ptxkit.machine import MEMORY_LIMIT
from ptxkit.machine.driver.enumerations import numbers
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.memory.windows import CONST

_PITCH = 512
_ALIGN = 512


@define
class Hints:
    """The hints of a program about managed memory. Locations are a type (0: none) and a number."""

    read_mostly: bool = False
    preferred: tuple[int, int] = (0, 0)
    prefetched: tuple[int, int] = (0, 0)
    accessed_by: set[tuple[int, int]] = attrs.Factory(set)


@define(eq=False)
class Held:
    """An allocation. `kind` is device, host, managed, registered, or mapped to reserved addresses (of device or host)."""

    size: int
    kind: str
    flags: int = 0
    pool: int = 0
    number: int = attrs.Factory(lambda: STATE.number())
    hints: Hints = attrs.Factory(Hints)


def held() -> dict[int, Held]:
    """All allocations, by address."""
    return STATE.memory


def holding(address: int) -> tuple[int, Held] | None:
    """The allocation that contains an address, with its start; None if there is none."""
    found = STATE.machine.memory.allocations.containing(address)
    if found is None or found.start not in held():
        return None
    return found.start, held()[found.start]


def allocate(size: int, kind: str, flags: int = 0, pool: int = 0) -> int:
    """Allocates memory; returns its address. Raises `Failure` if there is not enough."""
    if not size:
        raise Failure("INVALID_VALUE", "no bytes asked for")
    address = STATE.machine.new_global(size, "", _ALIGN)
    held()[address] = Held(size, kind, flags, pool)
    return address


def free(address: int, *kinds: str) -> None:
    """Frees memory. Raises `Failure` if it is of another kind, or if the address is not its start."""
    if not address and "device" in kinds:
        return
    found = held().get(address)
    if found is None or found.kind not in kinds:
        raise Failure("INVALID_VALUE", f"{address:#x} is not an allocation")
    del held()[address]
    if found.kind == "registered":
        STATE.machine.memory.free(address)
    else:
        STATE.machine.free_global(address)


@call("*q *q", "cuMemGetInfo_v2")
def cuMemGetInfo() -> tuple[int, int]:
    STATE.current()
    return MEMORY_LIMIT - sum(one.size for one in list(held().values())), MEMORY_LIMIT


@call("*q q", "cuMemAlloc_v2", settles=True)
def cuMemAlloc(size: int) -> int:
    STATE.current()
    return allocate(size, "device")


@call("*q *q q q u", "cuMemAllocPitch_v2", settles=True)
def cuMemAllocPitch(width: int, height: int, element: int) -> tuple[int, int]:
    STATE.current()
    pitch = -(-width // _PITCH) * _PITCH
    return allocate(pitch * height, "device"), pitch


@call("q", "cuMemFree_v2")
def cuMemFree(address: int) -> None:
    free(address, "device", "managed")


@call("*q *q q", "cuMemGetAddressRange_v2")
def cuMemGetAddressRange(address: int) -> tuple[int, int]:
    found = holding(address)
    if found is None:
        raise Failure("NOT_FOUND")
    return found[0], found[1].size


@call("*q q u", settles=True)
def cuMemHostAlloc(size: int, flags: int) -> int:
    STATE.current()
    return allocate(size, "host", flags)


@call("*q q", "cuMemAllocHost_v2", settles=True)
def cuMemAllocHost(size: int) -> int:
    STATE.current()
    return allocate(size, "host")


@call("q")
def cuMemFreeHost(address: int) -> None:
    free(address, "host")


@call("*q q u", "cuMemHostGetDevicePointer_v2")
def cuMemHostGetDevicePointer(address: int, flags: int) -> int:
    found = holding(address)
    if found is None or found[1].kind not in ("host", "registered"):
        raise Failure("INVALID_VALUE")
    return address


@call("*u q")
def cuMemHostGetFlags(address: int) -> int:
    found = holding(address)
    if found is None or found[1].kind not in ("host", "registered"):
        raise Failure("INVALID_VALUE")
    return found[1].flags | 2


@call("*q q u", settles=True)
def cuMemAllocManaged(size: int, flags: int) -> int:
    STATE.current()
    if flags not in (1, 2, 4):
        raise Failure("INVALID_VALUE")
    return allocate(size, "managed", flags)


@call("q q u", "cuMemHostRegister_v2")
def cuMemHostRegister(address: int, size: int, flags: int) -> None:
    STATE.current()
    if not address or not size:
        raise Failure("INVALID_VALUE")
    try:
        STATE.machine.memory.register(address, size)
    except ValueError:
        raise Failure("HOST_MEMORY_ALREADY_REGISTERED") from None
    held()[address] = Held(size, "registered", flags)


@call("q")
def cuMemHostUnregister(address: int) -> None:
    if address not in held() or held()[address].kind != "registered":
        raise Failure("HOST_MEMORY_NOT_REGISTERED")
    free(address, "registered")


# --- what is known of an address


_BYTES = {
    "CONTEXT": 8,
    "DEVICE_POINTER": 8,
    "HOST_POINTER": 8,
    "BUFFER_ID": 8,
    "RANGE_START_ADDR": 8,
    "RANGE_SIZE": 8,
    "ALLOWED_HANDLE_TYPES": 8,
    "MEMPOOL_HANDLE": 8,
}
"""Bytes of each attribute; 4 for the others."""


def _attribute(kind: int, address: int) -> tuple[int, int]:
    """An attribute of an address, and its bytes. Raises `Failure` for an unknown address."""
    name = next((name for name, number in numbers("CUpointer_attribute").items() if number == kind), None)
    if name is None:
        raise Failure("INVALID_VALUE")
    found = holding(address)
    if found is None:
        raise Failure("INVALID_VALUE", f"{address:#x} is in no allocation")
    start, one = found
    on_host = one.kind in ("host", "registered", "host mapped")
    values = {
        "CONTEXT": STATE.contexts[-1] if STATE.contexts else 0,
        "MEMORY_TYPE": 1 if on_host else 2,
        "DEVICE_POINTER": address,
        "HOST_POINTER": address if on_host or one.kind == "managed" else 0,
        "BUFFER_ID": one.number,
        "IS_MANAGED": int(one.kind == "managed"),
        "DEVICE_ORDINAL": 0,
        "RANGE_START_ADDR": start,
        "RANGE_SIZE": one.size,
        "MAPPED": 1,
        "ACCESS_FLAGS": 3,
        "MEMPOOL_HANDLE": one.pool,
    }
    if name == "HOST_POINTER" and not values[name]:
        raise Failure("INVALID_VALUE")
    return values.get(name, 0), _BYTES.get(name, 4)


@call("q i q")
def cuPointerGetAttribute(data: int, kind: int, address: int) -> None:
    value, size = _attribute(kind, address)
    ctypes.memmove(data, value.to_bytes(size, "little", signed=value < 0), size)


@call("u q q q")
def cuPointerGetAttributes(count: int, kinds: int, places: int, address: int) -> None:
    for i in range(count):
        kind = ctypes.c_int.from_address(kinds + 4 * i).value
        place = ctypes.c_uint64.from_address(places + 8 * i).value
        try:
            value, size = _attribute(kind, address)
        except Failure:
            name = next((name for name, number in numbers("CUpointer_attribute").items() if number == kind), "")
            value, size = (-2 if name == "DEVICE_ORDINAL" else 0), _BYTES.get(name, 4)
        ctypes.memmove(place, value.to_bytes(size, "little", signed=value < 0), size)


@call("q i q")
def cuPointerSetAttribute(value: int, kind: int, address: int) -> None:
    if holding(address) is None:
        raise Failure("INVALID_VALUE")


# --- what copies need


def check(address: int, size: int) -> None:
    """Raises `Failure` unless these are allocated bytes of the device."""
    if size and address < CONST and not STATE.machine.memory.allocations.hold(address, address + size):
        raise Failure(
            "INVALID_VALUE", f"{size} bytes at {address:#x} are not allocated: {STATE.machine.memory.allocations.nearest(address)}"
        )


def read(address: int, size: int) -> bytes:
    """Bytes of device or host memory."""
    return STATE.machine.read(address, size) if address >= CONST else ctypes.string_at(address, size)


def write(address: int, data: bytes) -> None:
    """Writes bytes to device or host memory."""
    if address >= CONST:
        STATE.machine.write(address, data)
    else:
        ctypes.memmove(address, data, len(data))
