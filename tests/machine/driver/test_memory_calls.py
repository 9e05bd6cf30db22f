"""Virtual memory, hints, CUDA arrays with their texture and surface objects, green contexts."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ptxkit.machine.driver import CALLS, LOG, STATE, Settings
from ptxkit.machine.driver import arrays as textures
from ptxkit.machine.driver.errors import CODES
from ptxkit.machine.driver.interface import called
from ptxkit.machine.driver.resources import Resource
from ptxkit.machine.driver.virtual import GRANULARITY, Location, Properties

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
READS_TEXTURE = f"""{HEAD}
.visible .entry k(.param .u64 out, .param .u64 image, .param .u64 plane)
{{
    .reg .b32 %r<5>; .reg .b64 %rd<6>; .reg .f32 %f<6>;
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [image]; ld.param.u64 %rd3, [plane];
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; cvt.rn.f32.u32 %f1, %r1; mov.f32 %f2, 0f3F800000;
    tex.2d.v4.f32.f32 {{%f3, %f4, %f5, %f1}}, [%rd2, {{%f1, %f2}}];
    mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd1, %rd4; st.global.f32 [%rd5], %f3;
    mov.b32 %r3, %f3; mov.u32 %r4, 0; sust.b.2d.b32.trap [%rd3, {{%r2, %r4}}], {{%r3}};
    ret;
}}
"""


@pytest.fixture(autouse=True)
def context() -> Iterator[int]:
    STATE.settings = Settings()
    STATE.clear()
    ok("cuInit", 0)
    found = ok("cuDevicePrimaryCtxRetain", 0)
    ok("cuCtxSetCurrent", found)
    yield found
    STATE.clear()


def ok(name: str, *given: Any) -> Any:
    """What a function gives that went well; its addresses are numbers."""
    code, found = called(CALLS[name], given)
    assert not code, (name, code, LOG[-1:])
    return found[0] if len(found) == 1 else found


def error(name: str, *given: Any) -> str:
    code, _ = called(CALLS[name], given)
    return next(word for word, number in CODES.items() if number == code).removeprefix("CUDA_ERROR_")


_KEPT: list[Any] = []


def at(thing: Any) -> int:
    """The address of a structure or array, which is kept."""
    _KEPT.append(thing)
    return ctypes.addressof(thing)


@pytest.mark.skipif(sys.platform != "linux", reason="virtual memory is only there on Linux")
def test_memory_is_mapped_to_addresses_and_from_them() -> None:
    wanted = Properties(1, 1, Location(1, 0))
    size = ok("cuMemGetAllocationGranularity", at(wanted), 0)
    assert size == GRANULARITY
    start = ok("cuMemAddressReserve", 3 * size, 0, 0, 0)
    assert start % size == 0
    one, other = (ok("cuMemCreate", size, at(wanted), 0) for _ in range(2))
    for address, memory in ((start, one), (start + size, other), (start + 2 * size, one)):
        ok("cuMemMap", address, size, 0, memory, 0)
    assert error("cuMemMap", start, size, 0, one, 0) == "INVALID_VALUE"
    assert error("cuMemsetD8", start, 1, 4) == "INVALID_VALUE"
    access = (ctypes.c_int * 3)(1, 0, 3)
    ok("cuMemSetAccess", start, 3 * size, at(access), 1)
    assert ok("cuMemGetAccess", at(Location(1, 0)), start + 5) == 3
    ok("cuMemsetD32", start + size - 8, 0x01020304, 4)  # over the border between two mappings
    found = ctypes.create_string_buffer(16)
    ok("cuMemcpyDtoH", at(found), start + 3 * size - 8, 8)  # the same memory again
    assert found.raw[:8] == bytes([4, 3, 2, 1] * 2)
    assert ok("cuMemRetainAllocationHandle", start + size) == other
    for memory in (one, other, other):
        ok("cuMemRelease", memory)
    assert error("cuMemAddressFree", start, 3 * size) == "INVALID_VALUE"
    assert error("cuMemUnmap", start, size // 2) == "INVALID_VALUE"
    ok("cuMemUnmap", start, 3 * size)
    assert error("cuMemRelease", one) == "INVALID_HANDLE"
    assert error("cuMemsetD8", start, 1, 4) == "INVALID_VALUE"
    ok("cuMemAddressFree", start, 3 * size)
    assert ok("cuMemAddressReserve", 3 * size, 0, 0, 0) == start


@pytest.mark.skipif(sys.platform != "linux", reason="virtual memory is only there on Linux")
def test_memory_is_shared_as_a_file() -> None:
    wanted = Properties(1, 1, Location(1, 0))
    memory = ok("cuMemCreate", GRANULARITY, at(wanted), 0)
    file = ctypes.c_int()
    ok("cuMemExportToShareableHandle", at(file), memory, 1, 0)
    assert os.fstat(file.value).st_size == GRANULARITY
    again = ok("cuMemImportFromShareableHandle", file.value, 1)
    os.close(file.value)
    start = ok("cuMemAddressReserve", 2 * GRANULARITY, 0, 0, 0)
    for address, one in ((start, memory), (start + GRANULARITY, again)):
        ok("cuMemMap", address, GRANULARITY, 0, one, 0)
    ok("cuMemSetAccess", start, 2 * GRANULARITY, at((ctypes.c_int * 3)(1, 0, 3)), 1)
    ok("cuMemsetD8", start + 7, 9, 1)
    assert ctypes.string_at(start + GRANULARITY + 7, 1) == b"\x09"
    given = Properties()
    ok("cuMemGetAllocationPropertiesFromHandle", at(given), memory)
    assert (given.handles, given.location.kind) == (1, 1)


def test_hints_are_remembered() -> None:
    address = ok("cuMemAllocManaged", 4096, 1)
    host = 2 | (0 << 32)

    def asked(kind: int, count: int = 1) -> list[int]:
        room = (ctypes.c_int * count)()
        ok("cuMemRangeGetAttribute", at(room), 4 * count, kind, address, 4096)
        return list(room)

    assert (asked(1), asked(2), asked(3, 2), asked(4)) == ([0], [-2], [-2, -2], [-2])
    ok("cuMemAdvise", address, 4096, 1, 0)
    ok("cuMemAdvise_v2", address, 4096, 3, host)
    ok("cuMemAdvise", address, 4096, 5, 0)
    ok("cuMemPrefetchAsync", address, 4096, 0, 0)
    assert (asked(1), asked(2), asked(3, 2), asked(4), asked(5)) == ([1], [-1], [0, -2], [0], [2])
    for advice in (2, 4, 6):
        ok("cuMemAdvise", address, 4096, advice, 0)
    assert (asked(1), asked(2), asked(3)) == ([0], [-2], [-2])
    places, firsts = (ctypes.c_uint64 * 1)(host), (ctypes.c_uint64 * 1)(0)
    addresses, sizes = (ctypes.c_uint64 * 1)(address), (ctypes.c_uint64 * 1)(4096)
    ok("cuMemPrefetchBatchAsync", at(addresses), at(sizes), 1, at(places), at(firsts), 1, 0, 0)
    assert asked(4) == [-1]
    ok("cuMemDiscardBatchAsync", at(addresses), at(sizes), 1, 0, 0)
    addresses[0] = ok("cuMemAlloc", 64)
    assert error("cuMemDiscardBatchAsync", at(addresses), at(sizes), 1, 0, 0) == "INVALID_VALUE"


def test_many_copies_in_one_call() -> None:
    source = np.arange(8, dtype=np.uint8)
    target = ok("cuMemAlloc", 64)
    targets, sources = (ctypes.c_uint64 * 2)(target + 4, target), (ctypes.c_uint64 * 2)(source.ctypes.data, source.ctypes.data + 4)
    ok("cuMemcpyBatchAsync_v2", at(targets), at(sources), at((ctypes.c_uint64 * 2)(4, 4)), 2, 0, 0, 0, 0)
    assert ctypes.string_at(target, 8) == bytes([4, 5, 6, 7, 0, 1, 2, 3])


def _array(width: int, height: int, flags: int = 0, format_: int = 0x20) -> int:
    return ok("cuArray3DCreate", at(textures.Description(width, height, 0, format_, 1, flags)))  # type: ignore[no-any-return]


def _resource(kind: int, *parts: int) -> Any:
    return textures.Resource(kind, (ctypes.c_uint64 * 16)(*parts))


def test_a_kernel_samples_an_array_and_stores_to_a_surface() -> None:
    texels = np.arange(12, dtype=np.float32).reshape(3, 4)
    array, plane = _array(4, 3), _array(4, 1, textures.LOADS_AND_STORES)
    for row in range(3):
        ok("cuMemcpyHtoA", array, 16 * row, texels[row].ctypes.data, 16)
    how = textures.Sampling((ctypes.c_int * 3)(1, 1, 1))
    image = ok("cuTexObjectCreate", at(_resource(0, array)), at(how), 0)
    surface = ok("cuSurfObjectCreate", at(_resource(0, plane)))
    assert error("cuSurfObjectCreate", at(_resource(0, array))) == "INVALID_VALUE"
    module = ok("cuModuleLoadData", ctypes.cast(ctypes.c_char_p(READS_TEXTURE.encode()), ctypes.c_void_p).value)
    function = ok("cuModuleGetFunction", module, b"k")
    out = ok("cuMemAlloc", 64)
    held = [ctypes.c_uint64(value) for value in (out, image, surface)]
    places = (ctypes.c_uint64 * 3)(*[at(one) for one in held])
    ok("cuLaunchKernel", function, 1, 1, 1, 4, 1, 1, 0, 0, at(places), 0)
    ok("cuCtxSynchronize")
    assert np.frombuffer(ctypes.string_at(out, 16), np.float32).tolist() == [4, 5, 6, 7]
    stored = np.zeros(4, np.float32)
    ok("cuMemcpyAtoH", stored.ctypes.data, plane, 0, 16)
    assert stored.tolist() == [4, 5, 6, 7]
    given = textures.Resource()
    ok("cuTexObjectGetResourceDesc", at(given), image)
    assert given.parts[0] == array
    ok("cuTexObjectDestroy", image)
    assert error("cuTexObjectDestroy", image) == "INVALID_VALUE"
    other = ok("cuTexObjectCreate", at(_resource(0, array)), at(how), 0)
    assert other != surface
    ok("cuArrayDestroy", array)


def test_memory_and_levels_are_textures_too() -> None:
    how = textures.Sampling()
    buffer = ok("cuMemAlloc", 1024)
    bits = 0x20 | 1 << 32
    ok("cuTexObjectCreate", at(_resource(2, buffer, bits, 1024)), at(how), 0)
    ok("cuTexObjectCreate", at(_resource(3, buffer, bits, 16, 8, 128)), at(how), 0)
    assert error("cuTexObjectCreate", at(_resource(3, buffer, bits, 16, 9, 128)), at(how), 0) == "INVALID_VALUE"
    whole = ok("cuMipmappedArrayCreate", at(textures.Description(8, 4, 0, 1, 4, 0)), 9)
    level = ok("cuMipmappedArrayGetLevel", whole, 2)
    given = textures.Description()
    ok("cuArray3DGetDescriptor", at(given), level)
    assert (given.width, given.height, given.format, given.channels) == (2, 1, 1, 4)
    assert error("cuMipmappedArrayGetLevel", whole, 4) == "INVALID_VALUE"
    assert error("cuArrayDestroy", level) == "INVALID_HANDLE"
    ok("cuTexObjectCreate", at(_resource(1, whole)), at(how), 0)
    ok("cuMipmappedArrayDestroy", whole)
    assert error("cuArray3DGetDescriptor", at(given), level) == "INVALID_HANDLE"


def test_a_box_is_copied_to_an_array_and_back() -> None:
    from ptxkit.machine.driver.copies import Copy2D

    array = _array(4, 3)
    texels = np.arange(12, dtype=np.float32).reshape(3, 4)
    copy = Copy2D()
    copy.source.kind, copy.source.host, copy.source.pitch = 1, texels.ctypes.data, 16
    copy.target.kind, copy.target.array = 3, array
    copy.width, copy.height = 16, 3
    ok("cuMemcpy2D", at(copy))
    back = np.zeros((2, 2), np.float32)
    copy = Copy2D()
    copy.source.kind, copy.source.array, copy.source.x, copy.source.y = 3, array, 4, 1
    copy.target.kind, copy.target.host, copy.target.pitch = 1, back.ctypes.data, 8
    copy.width, copy.height = 8, 2
    ok("cuMemcpy2D", at(copy))
    assert back.tolist() == [[5, 6], [9, 10]]
    copy.source.y = 2
    assert error("cuMemcpy2D", at(copy)) == "INVALID_VALUE"


def test_multiprocessors_are_split_between_green_contexts(context: int) -> None:
    assert ctypes.sizeof(Resource) == 144
    whole, rest, parts = Resource(), Resource(), (Resource * 2)()
    ok("cuDeviceGetDevResource", 0, at(whole), 1)
    groups = ctypes.c_uint32(2)
    ok("cuDevSmResourceSplitByCount", at(parts), at(groups), at(whole), at(rest), 0, 10)
    assert (groups.value, parts[0].parts[0], parts[1].parts[0], rest.parts[0]) == (2, 16, 16, 132 - 32)
    wanted = (ctypes.c_uint32 * 32)(24)
    ok("cuDevSmResourceSplit", at(parts), 2, at(whole), at(rest), 0, at(wanted))
    assert (parts[0].parts[0], parts[1].parts[0], rest.parts[0]) == (24, 104, 4)
    wanted[0] = 20
    assert error("cuDevSmResourceSplit", 0, 1, at(whole), at(rest), 0, at(wanted)) == "INVALID_RESOURCE_CONFIGURATION"
    green = ok("cuGreenCtxCreate", ok("cuDevResourceGenerateDesc", at(parts), 1), 0, 1)
    as_context = ok("cuCtxFromGreenCtx", green)
    assert as_context not in (0, context)
    mine = Resource()
    ok("cuCtxGetDevResource", as_context, at(mine), 1)
    assert mine.parts[0] == 24
    stream = ok("cuGreenCtxStreamCreate", green, 1, 0)
    assert ok("cuStreamGetCtx_v2", stream) == (0, green)
    ok("cuStreamDestroy", stream)
    ok("cuGreenCtxDestroy", green)
    assert error("cuGreenCtxGetId", green) == "INVALID_HANDLE"
