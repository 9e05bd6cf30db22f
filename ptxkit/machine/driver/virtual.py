"""Virtual memory management: reserved addresses, created memory, and mappings between them.

Created memory is a file in memory, so that it can be mapped to several addresses, and shared with other processes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from typing import Any

import attrs

from ptxkit.frozen import define
from ptxkit.machine import MEMORY_LIMIT
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.memory import Held, held
from ptxkit.machine.driver.state import STATE

GRANULARITY = 2 << 20
_FD = 1
"""CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR."""
_DEVICE, _HOST, _HOST_NUMA, _HOST_NUMA_CURRENT = range(1, 5)
_FIXED, _NORESERVE = 0x10, 0x4000
"""Flags of mmap on Linux."""


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("kind", ctypes.c_int), ("id", ctypes.c_int))


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("data", ctypes.c_uint64), ("flags", ctypes.c_uint64),
    )  # fmt: skip


class _Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", Location), ("flags", ctypes.c_int))


@define(eq=False)
class Created:
    """Memory without an address. `references` counts its handles and mappings."""

    file: int
    size: int
    properties: Any
    references: int = 1

    def release(self) -> None:
        self.references -= 1
        if not self.references:
            os.close(self.file)


@define(eq=False)
class Mapped:
    """A mapping, and the device's access rights: 1 read, 3 read and write."""

    start: int
    size: int
    memory: Created
    handle: int
    access: int = 0


@define(eq=False)
class Reserved:
    """A reserved address range."""

    start: int
    size: int
    mapped: dict[int, Mapped] = attrs.Factory(dict)
    shown: list[int] = attrs.Factory(list)
    """The starts of the ranges that kernels may access."""


def supported() -> bool:
    """Whether virtual memory can be managed on this system."""
    return sys.platform == "linux"


def _properties(address: int) -> Properties:
    if not supported():
        raise Failure("NOT_SUPPORTED", "virtual memory is only there on Linux")
    found = Properties.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(Properties)))
    if found.type not in (1, 2) or found.location.kind not in (_DEVICE, _HOST, _HOST_NUMA, _HOST_NUMA_CURRENT):
        raise Failure("INVALID_VALUE")
    if found.location.kind == _DEVICE and found.location.id:
        raise Failure("INVALID_DEVICE")
    if found.handles & ~_FD:
        raise Failure("NOT_SUPPORTED", "memory is given to other processes as file descriptors")
    return found


def _multiple(*numbers: int) -> None:
    if not all(number % GRANULARITY == 0 for number in numbers):
        raise Failure("INVALID_VALUE", f"sizes and addresses are multiples of {GRANULARITY}")


def _map(address: int, size: int, protection: int, flags: int, file: int, offset: int) -> None:
    """Replaces the mapping at an address of this process. Raises `Failure`."""
    process = ctypes.CDLL(None, use_errno=True)
    process.mmap.restype = ctypes.c_void_p
    process.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    if process.mmap(address, size, protection, flags | _FIXED, file, offset) != address:
        raise Failure("OUT_OF_MEMORY", os.strerror(ctypes.get_errno()))


def _reservation(address: int, size: int) -> Reserved:
    for one in list(STATE.reserved.values()):
        if one.start <= address and address + size <= one.start + one.size:
            return one  # type: ignore[no-any-return]
    raise Failure("INVALID_VALUE", f"{size} bytes at {address:#x} are not reserved")


def _pieces(one: Reserved, address: int, size: int) -> list[Mapped]:
    """The mappings that make up a range. Raises `Failure` if it has gaps, or covers part of a mapping."""
    found = sorted((piece for piece in one.mapped.values() if address <= piece.start < address + size), key=lambda piece: piece.start)
    end = address
    for piece in found:
        if piece.start != end:
            break
        end += piece.size
    if end != address + size:
        raise Failure("INVALID_VALUE", f"{size} bytes at {address:#x} are not mapped, or a part of a mapping")
    return found


def _runs(one: Reserved) -> Iterator[tuple[int, int, bool]]:
    """The accessible mapped ranges, merged: start, size, and whether it is host memory."""
    start = size = 0
    on_host = False
    for piece in sorted(one.mapped.values(), key=lambda piece: piece.start):
        if not piece.access:
            continue
        if size and start + size == piece.start:
            size += piece.size
            continue
        if size:
            yield start, size, on_host
        start, size, on_host = piece.start, piece.size, piece.memory.properties.location.kind != _DEVICE
    if size:
        yield start, size, on_host


def _show(one: Reserved) -> None:
    """Makes the permitted ranges accessible to kernels."""
    memory = STATE.machine.memory
    for start in one.shown:
        memory.free(start)
        del held()[start]
    one.shown = []
    for start, size, on_host in _runs(one):
        memory.register(start, size)
        held()[start] = Held(size, "host mapped" if on_host else "mapped")
        one.shown.append(start)


@call("*q q i")
def cuMemGetAllocationGranularity(properties: int, option: int) -> int:
    _properties(properties)
    return GRANULARITY


@call("*q q q q q")
def cuMemAddressReserve(size: int, alignment: int, address: int, flags: int) -> int:
    STATE.current()
    if not size or flags or alignment & (alignment - 1):
        raise Failure("INVALID_VALUE")
    _multiple(size)
    start = STATE.machine.reserve(size, max(alignment, GRANULARITY))
    STATE.reserved[start] = Reserved(start, size)
    return start


@call("q q")
def cuMemAddressFree(address: int, size: int) -> None:
    found = STATE.reserved.get(address)
    if found is None or found.size != size or found.mapped:
        raise Failure("INVALID_VALUE", "what was reserved is freed as a whole, with nothing mapped to it")
    del STATE.reserved[address]
    STATE.machine.unreserve(address, size)


@call("*q q q q")
def cuMemCreate(size: int, properties: int, flags: int) -> int:
    STATE.current()
    wanted = _properties(properties)
    if not size or flags:
        raise Failure("INVALID_VALUE")
    _multiple(size)
    if size > MEMORY_LIMIT - sum(one.size for one in list(held().values())):
        raise Failure("OUT_OF_MEMORY")
    file = os.memfd_create("ptxkit")
    os.ftruncate(file, size)
    return STATE.handle(Created(file, size, wanted))


def _released(handle: int, one: Created) -> None:
    one.release()
    if not one.references:
        STATE.drop(handle, Created)


@call("q")
def cuMemRelease(handle: int) -> None:
    _released(handle, STATE.of(handle, Created))


@call("q q q q q")
def cuMemMap(address: int, size: int, offset: int, handle: int, flags: int) -> None:
    created, one = STATE.of(handle, Created), _reservation(address, size)
    _multiple(address, size, offset)
    if not size or flags or offset + size > created.size:
        raise Failure("INVALID_VALUE")
    if any(piece.start < address + size and address < piece.start + piece.size for piece in one.mapped.values()):
        raise Failure("INVALID_VALUE", f"something is mapped to {address:#x} already")
    _map(address, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, created.file, offset)
    created.references += 1
    one.mapped[address] = Mapped(address, size, created, handle)


@call("q q", settles=True)
def cuMemUnmap(address: int, size: int) -> None:
    one = _reservation(address, size)
    pieces = _pieces(one, address, size)
    for piece in pieces:
        del one.mapped[piece.start]
    _show(one)
    _map(address, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE, -1, 0)
    for piece in pieces:
        _released(piece.handle, piece.memory)


@call("q q q q")
def cuMemSetAccess(address: int, size: int, descriptions: int, count: int) -> None:
    one = _reservation(address, size)
    pieces = _pieces(one, address, size)
    for wanted in (_Access * count).from_address(descriptions):
        if wanted.location.kind == _DEVICE and wanted.location.id:
            raise Failure("INVALID_DEVICE")
        if wanted.flags not in (0, 1, 3):
            raise Failure("INVALID_VALUE")
        if wanted.location.kind == _DEVICE:
            for piece in pieces:
                piece.access = wanted.flags
    _show(one)


@call("*q q q")
def cuMemGetAccess(location: int, address: int) -> int:
    where = Location.from_address(location)
    (piece,) = _pieces_at(address)
    return piece.access if (where.kind, where.id) == (_DEVICE, 0) else 0


def _pieces_at(address: int) -> list[Mapped]:
    found = [piece for piece in _reservation(address, 1).mapped.values() if piece.start <= address < piece.start + piece.size]
    if not found:
        raise Failure("INVALID_VALUE", f"nothing is mapped to {address:#x}")
    return found


@call("*q q")
def cuMemRetainAllocationHandle(address: int) -> int:
    (piece,) = _pieces_at(address)
    piece.memory.references += 1
    return piece.handle


@call("q q")
def cuMemGetAllocationPropertiesFromHandle(place: int, handle: int) -> None:
    ctypes.memmove(place, ctypes.addressof(STATE.of(handle, Created).properties), ctypes.sizeof(Properties))


# --- between processes


@call("q q i q")
def cuMemExportToShareableHandle(place: int, handle: int, kind: int, flags: int) -> None:
    one = STATE.of(handle, Created)
    if kind != _FD or not one.properties.handles & _FD or flags:
        raise Failure("INVALID_VALUE")
    ctypes.c_int.from_address(place).value = os.dup(one.file)


@call("*q q i")
def cuMemImportFromShareableHandle(file: int, kind: int) -> int:
    STATE.current()
    if kind != _FD:
        raise Failure("NOT_SUPPORTED", "memory is given to other processes as file descriptors")
    try:
        own = os.dup(file)
        size = os.fstat(own).st_size
    except OSError as error:
        raise Failure("INVALID_VALUE", str(error)) from None
    return STATE.handle(Created(own, size, Properties(1, _FD, Location(_DEVICE, 0))))
