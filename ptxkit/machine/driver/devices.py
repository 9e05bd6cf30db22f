"""Devices: there is one, of the chosen target. Errors by name, the version, functions by name."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

from ptxkit.isa.targets import NEWEST
from ptxkit.machine import MEMORY_LIMIT
from ptxkit.machine.driver import errors
from ptxkit.machine.driver.enumerations import numbers
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.launching import shared_limit

VERSION = 1000 * (NEWEST[0] + 4) + 10 * NEWEST[1]
"""The version of the driver interface: that of the CUDA release with the newest known PTX, 13.5 for PTX 9.5."""

SHARED_OF_CTA = 48 << 10
"""Shared memory of a CTA without opting in to more."""

MULTIPROCESSORS = 132
THREADS_OF_MULTIPROCESSOR = {75: 1024, 86: 1536, 87: 1536, 89: 1536, 120: 1536, 121: 1536}
CTAS_OF_MULTIPROCESSOR = {75: 16, 86: 16, 87: 16, 89: 24}
REGISTERS = 1 << 16
UUID = b"ptxkit's machine"

_texts: dict[int, tuple[Any, Any]] = {}


@functools.cache
def _attributes(target: str, architecture: int) -> dict[int, int]:
    """The attributes of a device, by number; missing ones are 0."""
    threads = THREADS_OF_MULTIPROCESSOR.get(architecture, 2048)
    hopper = architecture >= 90
    most = shared_limit(target)
    linux = sys.platform == "linux"
    known = {
        "MAX_THREADS_PER_BLOCK": 1024,
        "MAX_BLOCK_DIM_X": 1024,
        "MAX_BLOCK_DIM_Y": 1024,
        "MAX_BLOCK_DIM_Z": 64,
        "MAX_GRID_DIM_X": 2**31 - 1,
        "MAX_GRID_DIM_Y": 65535,
        "MAX_GRID_DIM_Z": 65535,
        "MAX_SHARED_MEMORY_PER_BLOCK": SHARED_OF_CTA,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": most,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": most + 1024,
        "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024,
        "TOTAL_CONSTANT_MEMORY": 64 << 10,
        "WARP_SIZE": 32,
        "MAX_PITCH": 2**31 - 1,
        "MAX_REGISTERS_PER_BLOCK": REGISTERS,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": REGISTERS,
        "CLOCK_RATE": 1_000_000,
        "MEMORY_CLOCK_RATE": 1_000_000,
        "TEXTURE_ALIGNMENT": 512,
        "TEXTURE_PITCH_ALIGNMENT": 32,
        "SURFACE_ALIGNMENT": 512,
        "GPU_OVERLAP": 1,
        "MULTIPROCESSOR_COUNT": MULTIPROCESSORS,
        "CAN_MAP_HOST_MEMORY": 1,
        "CONCURRENT_KERNELS": 1,
        "ASYNC_ENGINE_COUNT": 3,
        "UNIFIED_ADDRESSING": 1,
        "GLOBAL_MEMORY_BUS_WIDTH": 5120,
        "L2_CACHE_SIZE": 50 << 20,
        "MAX_PERSISTING_L2_CACHE_SIZE": 32 << 20,
        "MAX_ACCESS_POLICY_WINDOW_SIZE": 128 << 20,
        "MAX_THREADS_PER_MULTIPROCESSOR": threads,
        "MAX_BLOCKS_PER_MULTIPROCESSOR": CTAS_OF_MULTIPROCESSOR.get(architecture, 32),
        "COMPUTE_CAPABILITY_MAJOR": architecture // 10,
        "COMPUTE_CAPABILITY_MINOR": architecture % 10,
        "STREAM_PRIORITIES_SUPPORTED": 1,
        "GLOBAL_L1_CACHE_SUPPORTED": 1,
        "LOCAL_L1_CACHE_SUPPORTED": 1,
        "MANAGED_MEMORY": 1,
        "PAGEABLE_MEMORY_ACCESS": 0,
        "CONCURRENT_MANAGED_ACCESS": 1,
        "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM": 1,
        "HOST_REGISTER_SUPPORTED": 1,
        "COOPERATIVE_LAUNCH": 1,
        "MEMORY_POOLS_SUPPORTED": 1,
        "HOST_MEMORY_POOLS_SUPPORTED": 1,
        "HOST_NUMA_MEMORY_POOLS_SUPPORTED": 1,
        "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED": int(linux),
        "HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED": int(linux),
        "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED": int(linux),
        "COMPUTE_PREEMPTION_SUPPORTED": 1,
        "CLUSTER_LAUNCH": int(hopper),
        "TENSOR_MAP_ACCESS_SUPPORTED": int(hopper),
        "UNIFIED_FUNCTION_POINTERS": 1,
        "MAXIMUM_TEXTURE1D_WIDTH": 131072,
        "MAXIMUM_TEXTURE2D_WIDTH": 131072,
        "MAXIMUM_TEXTURE2D_HEIGHT": 65536,
        "MAXIMUM_TEXTURE3D_WIDTH": 16384,
        "MAXIMUM_TEXTURE3D_HEIGHT": 16384,
        "MAXIMUM_TEXTURE3D_DEPTH": 16384,
        "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": 2,
        "NUMA_ID": -1,
        "HOST_NUMA_ID": -1,
    }
    ids = numbers("CUdevice_attribute")
    return {ids[name]: value for name, value in known.items()}


def attribute(name: str) -> int:
    """An attribute of the device, by its name without the prefix."""
    return _attributes(STATE.settings.target, STATE.architecture).get(numbers("CUdevice_attribute")[name], 0)


def _device(device: int) -> None:
    STATE.ready()
    if device != 0:
        raise Failure("INVALID_DEVICE")


@call("u")
def cuInit(flags: int) -> None:
    if flags:
        raise Failure("INVALID_VALUE")
    STATE.is_ready = True


@call("*i")
def cuDriverGetVersion() -> int:
    return VERSION


def _text(code: int, which: int) -> int:
    if code not in errors.NAMES:
        raise Failure("INVALID_VALUE")
    if code not in _texts:
        _texts[code] = ctypes.c_char_p(errors.NAMES[code].encode()), ctypes.c_char_p(errors.spoken(code).encode())
    return ctypes.cast(_texts[code][which], ctypes.c_void_p).value or 0


@call("i *q")
def cuGetErrorName(code: int) -> int:
    return _text(code, 0)


@call("i *q")
def cuGetErrorString(code: int) -> int:
    return _text(code, 1)


@call("*i i")
def cuDeviceGet(ordinal: int) -> int:
    _device(ordinal)
    return ordinal


@call("*i")
def cuDeviceGetCount() -> int:
    STATE.ready()
    return 1


def name() -> str:
    """The name of the device that the machine stands in for."""
    return f"ptxkit machine ({STATE.settings.target})"


@call("q i i")
def cuDeviceGetName(text: int, size: int, device: int) -> None:
    _device(device)
    data = name().encode()[: max(0, size - 1)] + b"\0"
    ctypes.memmove(text, data, min(size, len(data)))


@call("q i", "cuDeviceGetUuid_v2")
def cuDeviceGetUuid(uuid: int, device: int) -> None:
    _device(device)
    ctypes.memmove(uuid, UUID, 16)


@call("q q i")
def cuDeviceGetLuid(luid: int, mask: int, device: int) -> None:
    raise Failure("NOT_SUPPORTED")


@call("*q i", "cuDeviceTotalMem_v2")
def cuDeviceTotalMem(device: int) -> int:
    _device(device)
    return MEMORY_LIMIT


@call("*i i i")
def cuDeviceGetAttribute(kind: int, device: int) -> int:
    _device(device)
    if kind not in numbers("CUdevice_attribute").values():
        raise Failure("INVALID_VALUE")
    return _attributes(STATE.settings.target, STATE.architecture).get(kind, 0)


@call("*i *i i")
def cuDeviceComputeCapability(device: int) -> tuple[int, int]:
    _device(device)
    return divmod(STATE.architecture, 10)


@call("*i i i")
def cuDeviceCanAccessPeer(device: int, peer: int) -> int:
    _device(device)
    return 0


@call("*i i i i")
def cuDeviceGetP2PAttribute(kind: int, one: int, other: int) -> int:
    raise Failure("INVALID_DEVICE")


@call("q i i")
def cuDeviceGetPCIBusId(text: int, size: int, device: int) -> None:
    _device(device)
    data = b"0000:00:00.0\0"
    if size < len(data):
        raise Failure("INVALID_VALUE")
    ctypes.memmove(text, data, len(data))


@call("*i s")
def cuDeviceGetByPCIBusId(text: bytes) -> int:
    if text != b"0000:00:00.0":
        raise Failure("INVALID_DEVICE")
    return 0


@call("*i i i")
def cuDeviceGetExecAffinitySupport(kind: int, device: int) -> int:
    _device(device)
    return 0
