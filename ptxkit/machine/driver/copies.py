"""Copies and fills, in one to three dimensions. Asynchronous ones complete before the call returns."""

from __future__ import annotations

import ctypes

from ptxkit.machine.driver.arrays import CudaArray
from ptxkit.machine.driver.graphs import MEMCPY, MEMSET
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.memory import check, read, write
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.driver.streams import on
from ptxkit.machine.memory.windows import CONST


def _copy(target: int, source: int, size: int) -> None:
    STATE.current()
    if not size:
        return
    if target >= CONST or source >= CONST:
        write(target, read(source, size))
    else:
        ctypes.memmove(target, source, size)


@call("q q q", settles=True)
def cuMemcpy(target: int, source: int, size: int) -> None:
    _copy(target, source, size)


@call("q q q q", settles=True)
def cuMemcpyAsync(target: int, source: int, size: int, stream: int) -> None:
    on(stream, MEMCPY, lambda: _copy(target, source, size))


@call("q q q", "cuMemcpyHtoD_v2", settles=True)
def cuMemcpyHtoD(target: int, source: int, size: int) -> None:
    check(target, size)
    _copy(target, source, size)


@call("q q q q", "cuMemcpyHtoDAsync_v2", settles=True)
def cuMemcpyHtoDAsync(target: int, source: int, size: int, stream: int) -> None:
    check(target, size)
    on(stream, MEMCPY, lambda: _copy(target, source, size))


@call("q q q", "cuMemcpyDtoH_v2", settles=True)
def cuMemcpyDtoH(target: int, source: int, size: int) -> None:
    check(source, size)
    _copy(target, source, size)


@call("q q q q", "cuMemcpyDtoHAsync_v2", settles=True)
def cuMemcpyDtoHAsync(target: int, source: int, size: int, stream: int) -> None:
    check(source, size)
    on(stream, MEMCPY, lambda: _copy(target, source, size))


@call("q q q", "cuMemcpyDtoD_v2", settles=True)
def cuMemcpyDtoD(target: int, source: int, size: int) -> None:
    check(source, size)
    check(target, size)
    _copy(target, source, size)


@call("q q q q", "cuMemcpyDtoDAsync_v2", settles=True)
def cuMemcpyDtoDAsync(target: int, source: int, size: int, stream: int) -> None:
    check(source, size)
    check(target, size)
    on(stream, MEMCPY, lambda: _copy(target, source, size))


@call("q q q q q", settles=True)
def cuMemcpyPeer(target: int, target_context: int, source: int, source_context: int, size: int) -> None:
    cuMemcpyDtoD(target, source, size)


@call("q q q q q q", settles=True)
def cuMemcpyPeerAsync(target: int, target_context: int, source: int, source_context: int, size: int, stream: int) -> None:
    cuMemcpyDtoDAsync(target, source, size, stream)


class _Side(ctypes.Structure):
    _fields_ = (
        ("x", ctypes.c_uint64),
        ("y", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("host", ctypes.c_uint64),
        ("device", ctypes.c_uint64),
        ("array", ctypes.c_uint64),
        ("pitch", ctypes.c_uint64),
    )


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = (("source", _Side), ("target", _Side), ("width", ctypes.c_uint64), ("height", ctypes.c_uint64))


class _Side3(ctypes.Structure):
    _fields_ = (
        ("x", ctypes.c_uint64),
        ("y", ctypes.c_uint64),
        ("z", ctypes.c_uint64),
        ("level", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("host", ctypes.c_uint64),
        ("device", ctypes.c_uint64),
        ("array", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64),
        ("pitch", ctypes.c_uint64),
        ("height", ctypes.c_uint64),
    )


class Copy3D(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = (
        ("source", _Side3),
        ("target", _Side3),
        ("width", ctypes.c_uint64),
        ("height", ctypes.c_uint64),
        ("depth", ctypes.c_uint64),
    )


_HOST, _ARRAY = 1, 3


def _place(side: _Side | _Side3, width: int, rows: int) -> tuple[int, int, int]:
    """The start of one side of a copy, the bytes from row to row, and the rows from plane to plane. `width` is the number of bytes
    copied in a row, `rows` the number of rows."""
    if side.kind != _ARRAY:
        height = getattr(side, "height", 0)
        return int(side.host if side.kind == _HOST else side.device), side.pitch or width, height or rows
    array = STATE.of(side.array, CudaArray)
    if side.x + width > array.pitch or side.y + rows > array.height:
        raise Failure("INVALID_VALUE", "the copy reaches beyond the array")
    return array.address, array.pitch, array.height


def _rows(copy: Copy2D) -> None:
    places = []
    for side in (copy.target, copy.source):
        start, pitch, _ = _place(side, copy.width, copy.height)
        places.append((start + side.y * pitch + side.x, pitch))
    (to, to_pitch), (from_, pitch) = places
    for row in range(copy.height):
        _copy(to + row * to_pitch, from_ + row * pitch, copy.width)


@call("q", "cuMemcpy2D_v2", settles=True)
def cuMemcpy2D(copy: int) -> None:
    _rows(Copy2D.from_address(copy))


@call("q", "cuMemcpy2DUnaligned_v2", settles=True)
def cuMemcpy2DUnaligned(copy: int) -> None:
    _rows(Copy2D.from_address(copy))


@call("q q", "cuMemcpy2DAsync_v2", settles=True)
def cuMemcpy2DAsync(copy: int, stream: int) -> None:
    given = Copy2D.from_buffer_copy(ctypes.string_at(copy, ctypes.sizeof(Copy2D)))
    on(stream, MEMCPY, lambda: _rows(given))


def planes(copy: Copy3D) -> None:
    """Copies a box."""
    places = []
    for side in (copy.target, copy.source):
        start, pitch, height = _place(side, copy.width, copy.height)
        places.append((start + side.z * pitch * height + side.y * pitch + side.x, pitch, height))
    (to, to_pitch, to_height), (from_, pitch, height) = places
    for plane in range(copy.depth):
        for row in range(copy.height):
            _copy(to + (plane * to_height + row) * to_pitch, from_ + (plane * height + row) * pitch, copy.width)


@call("q", "cuMemcpy3D_v2", settles=True)
def cuMemcpy3D(copy: int) -> None:
    planes(Copy3D.from_address(copy))


@call("q q", "cuMemcpy3DAsync_v2", settles=True)
def cuMemcpy3DAsync(copy: int, stream: int) -> None:
    given = Copy3D.from_buffer_copy(ctypes.string_at(copy, ctypes.sizeof(Copy3D)))
    on(stream, MEMCPY, lambda: planes(given))


def _in_array(array: int, offset: int, size: int) -> int:
    one = STATE.of(array, CudaArray)
    if offset + size > one.texels.nbytes:
        raise Failure("INVALID_VALUE", "the copy reaches beyond the array")
    return one.address + offset


@call("q q q q", "cuMemcpyHtoA_v2", settles=True)
def cuMemcpyHtoA(array: int, offset: int, source: int, size: int) -> None:
    _copy(_in_array(array, offset, size), source, size)


@call("q q q q", "cuMemcpyAtoH_v2", settles=True)
def cuMemcpyAtoH(target: int, array: int, offset: int, size: int) -> None:
    _copy(target, _in_array(array, offset, size), size)


@call("q q q q q", "cuMemcpyHtoAAsync_v2", settles=True)
def cuMemcpyHtoAAsync(array: int, offset: int, source: int, size: int, stream: int) -> None:
    on(stream, MEMCPY, lambda: _copy(_in_array(array, offset, size), source, size))


@call("q q q q q", "cuMemcpyAtoHAsync_v2", settles=True)
def cuMemcpyAtoHAsync(target: int, array: int, offset: int, size: int, stream: int) -> None:
    on(stream, MEMCPY, lambda: _copy(target, _in_array(array, offset, size), size))


@call("q q q q", "cuMemcpyDtoA_v2", settles=True)
def cuMemcpyDtoA(array: int, offset: int, source: int, size: int) -> None:
    check(source, size)
    _copy(_in_array(array, offset, size), source, size)


@call("q q q q", "cuMemcpyAtoD_v2", settles=True)
def cuMemcpyAtoD(target: int, array: int, offset: int, size: int) -> None:
    check(target, size)
    _copy(target, _in_array(array, offset, size), size)


@call("q q q q q", "cuMemcpyAtoA_v2", settles=True)
def cuMemcpyAtoA(array: int, offset: int, source: int, source_offset: int, size: int) -> None:
    _copy(_in_array(array, offset, size), _in_array(source, source_offset, size), size)


def _batch(targets: int, sources: int, sizes: int, count: int, stream: int) -> None:
    if not count:
        raise Failure("INVALID_VALUE")
    columns = [list((ctypes.c_uint64 * count).from_address(place)) for place in (targets, sources, sizes)]
    for target, source, size in zip(*columns, strict=True):
        cuMemcpyAsync(target, source, size, stream)


@call("q q q q q q q q q", since=12080, base="cuMemcpyBatchAsync", settles=True)
def cuMemcpyBatchAsync(
    targets: int, sources: int, sizes: int, count: int, attributes: int, firsts: int, kinds: int, failed: int, stream: int
) -> None:
    _batch(targets, sources, sizes, count, stream)


@call("q q q q q q q q", since=13000, base="cuMemcpyBatchAsync", settles=True)
def cuMemcpyBatchAsync_v2(
    targets: int, sources: int, sizes: int, count: int, attributes: int, firsts: int, kinds: int, stream: int
) -> None:
    _batch(targets, sources, sizes, count, stream)


def _fill(address: int, value: int, size: int, count: int) -> None:
    STATE.current()
    check(address, size * count)
    if address % size:
        raise Failure("INVALID_VALUE")
    write(address, (value % (1 << 8 * size)).to_bytes(size, "little") * count)


def fill_rows(address: int, pitch: int, value: int, size: int, width: int, height: int) -> None:
    """Fills the rows of a rectangle with elements of a given size."""
    for row in range(height):
        _fill(address + row * pitch, value, size, width)


@call("q u q", "cuMemsetD8_v2", settles=True)
def cuMemsetD8(address: int, value: int, count: int) -> None:
    _fill(address, value, 1, count)


@call("q u q", "cuMemsetD16_v2", settles=True)
def cuMemsetD16(address: int, value: int, count: int) -> None:
    _fill(address, value, 2, count)


@call("q u q", "cuMemsetD32_v2", settles=True)
def cuMemsetD32(address: int, value: int, count: int) -> None:
    _fill(address, value, 4, count)


@call("q u q q", settles=True)
def cuMemsetD8Async(address: int, value: int, count: int, stream: int) -> None:
    on(stream, MEMSET, lambda: _fill(address, value, 1, count))


@call("q u q q", settles=True)
def cuMemsetD16Async(address: int, value: int, count: int, stream: int) -> None:
    on(stream, MEMSET, lambda: _fill(address, value, 2, count))


@call("q u q q", settles=True)
def cuMemsetD32Async(address: int, value: int, count: int, stream: int) -> None:
    on(stream, MEMSET, lambda: _fill(address, value, 4, count))


@call("q q u q q", "cuMemsetD2D8_v2", settles=True)
def cuMemsetD2D8(address: int, pitch: int, value: int, width: int, height: int) -> None:
    fill_rows(address, pitch, value, 1, width, height)


@call("q q u q q", "cuMemsetD2D32_v2", settles=True)
def cuMemsetD2D32(address: int, pitch: int, value: int, width: int, height: int) -> None:
    fill_rows(address, pitch, value, 4, width, height)


@call("q q u q q q", settles=True)
def cuMemsetD2D8Async(address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
    on(stream, MEMSET, lambda: fill_rows(address, pitch, value, 1, width, height))


@call("q q u q q q", settles=True)
def cuMemsetD2D32Async(address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
    on(stream, MEMSET, lambda: fill_rows(address, pitch, value, 4, width, height))
