"""A stand-in for `cuda.bindings.driver`: its GPU is the machine. The environment says in STAND_IN what goes wrong.

Every function gives a tuple, as those of cuda-python do, of which the first is the error code.
"""

from __future__ import annotations

import ctypes
import enum
import os
import time
from types import SimpleNamespace
from typing import Any

import ptxkit
from ptxkit.machine import Fault, Machine

MACHINE = Machine("sm_90a", host_memory=True)
LIVE: dict[int, int] = {}
HOST: dict[int, int] = {}


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_TIMEOUT = 702
    CUDA_ERROR_MISALIGNED_ADDRESS = 716
    CUDA_ERROR_LAUNCH_FAILED = 719


OK = CUresult.CUDA_SUCCESS
spoilt = OK
clock = 0.0


def mode(word: str) -> bool:
    return word in os.environ.get("STAND_IN", "").split(",")


class Enumeration:
    """Whatever is asked for, a number by that name."""

    def __getattr__(self, name: str) -> str:
        return name


CUdevice_attribute = CUjit_option = CUfunction_attribute = CUlaunchAttributeID = Enumeration()
CUmodule = CUlibrary = lambda handle: HANDLES[handle]
HANDLES: dict[int, Any] = {}


def CUlaunchConfig() -> Any:
    return SimpleNamespace()


def CUlaunchAttribute() -> Any:
    return SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))


def cuInit(flags: int) -> Any:
    return (CUresult.CUDA_ERROR_NO_DEVICE if mode("no device") else OK,)


def cuDriverGetVersion() -> Any:
    return OK, 13000


def cuDeviceGetCount() -> Any:
    return OK, 0 if mode("no gpu") else 1


def cuDeviceGet(number: int) -> Any:
    return OK, number


def cuDeviceGetName(size: int, device: int) -> Any:
    return OK, b"machine\0\0\0"


def cuDeviceGetAttribute(kind: str, device: int) -> Any:
    return OK, 9 if kind.endswith("MAJOR") else 0


def cuCtxGetCurrent() -> Any:
    return OK, 0


def cuDevicePrimaryCtxRetain(device: int) -> Any:
    return OK, 1


def cuCtxSetCurrent(context: int) -> Any:
    return (OK,)


def cuCtxGetDevice() -> Any:
    return OK, 0


def cuCtxSynchronize() -> Any:
    return (spoilt,)


def cuModuleLoadDataEx(source: bytes, count: int, options: list[str], values: list[Any]) -> Any:
    text = source.rstrip(b"\0").decode()
    module = ptxkit.parse(text)
    if module.diagnostics or mode("refuse " + ("instrumented" if "ptxkit+" in text else "original")):
        log = values[options.index("CU_JIT_ERROR_LOG_BUFFER")]
        log[:21] = b"ptxas fatal : no good"
        return CUresult.CUDA_ERROR_INVALID_PTX, None
    if mode("crash " + ("instrumented" if "ptxkit+" in text else "original")):
        os.abort()
    loaded = MACHINE.load(module)
    loaded.probed = "ptxkit+" in text  # type: ignore[attr-defined]
    HANDLES[id(loaded)] = loaded
    return OK, loaded


def cuModuleUnload(module: Any) -> Any:
    return (OK,)


def cuModuleGetFunction(module: Any, name: bytes) -> Any:
    known = name.decode() in module.kernels
    return (OK, (module, name.decode())) if known else (CUresult.CUDA_ERROR_NOT_FOUND, None)


def cuModuleGetGlobal(module: Any, name: bytes) -> Any:
    try:
        return OK, module.address(name.decode()), 0
    except KeyError:
        return CUresult.CUDA_ERROR_NOT_FOUND, None, 0


cuLibraryGetGlobal = cuModuleGetGlobal


def cuFuncGetAttribute(kind: str, function: Any) -> Any:
    return OK, 20 if function[0].probed else 16


def cuFuncSetAttribute(function: Any, kind: str, value: int) -> Any:
    return (OK,)


def cuMemAlloc(size: int) -> Any:
    if mode("no memory"):
        return CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
    address = MACHINE.new_global(size, "", 256)
    LIVE[address] = size
    return OK, address


def cuMemFree(address: int) -> Any:
    del LIVE[address]
    MACHINE.free_global(address)
    return (OK,)


def cuMemHostAlloc(size: int, flags: int) -> Any:
    address = MACHINE.new_global(size, "", 256)
    HOST[address] = size
    return OK, address


def cuMemHostGetDevicePointer(here: int, flags: int) -> Any:
    return OK, here


def cuMemFreeHost(here: int) -> Any:
    del HOST[here]
    MACHINE.free_global(here)
    return (OK,)


def cuMemcpyHtoD(address: int, data: bytes, size: int) -> Any:
    MACHINE.write(address, data[:size])
    return (spoilt,)


def cuMemcpyDtoH(data: bytearray, address: int, size: int) -> Any:
    data[:size] = MACHINE.read(address, size)
    return (spoilt,)


def cuMemcpyDtoD(target: int, source: int, size: int) -> Any:
    MACHINE.write(target, MACHINE.read(source, size))
    return (spoilt,)


def cuMemsetD8(address: int, value: int, size: int) -> Any:
    MACHINE.write(address, bytes([value]) * size)
    return (spoilt,)


def result_of(fault: Fault) -> CUresult:
    """What a driver would say."""
    if fault.kind == "address":
        return CUresult.CUDA_ERROR_MISALIGNED_ADDRESS if "misaligned" in fault.reason else CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    return CUresult.CUDA_ERROR_LAUNCH_TIMEOUT if fault.kind in ("budget", "deadlock") else CUresult.CUDA_ERROR_LAUNCH_FAILED


def cuLaunchKernelEx(config: Any, function: Any, pointers: int, extra: int) -> Any:
    global spoilt, clock
    module, name = function
    which = "instrumented" if module.probed else "original"
    if mode(f"hang {which}"):
        time.sleep(1000)
    sizes = [size for _, _, size, _ in module.program(name, False, False).layout()]
    places = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
    data = [ctypes.string_at(places[i], size) for i, size in enumerate(sizes)]
    grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
    block = (config.blockDimX, config.blockDimY, config.blockDimZ)
    try:
        MACHINE.launch(module, name, *data, grid=grid, block=block)
    except Fault as fault:
        spoilt = result_of(fault)
    clock += 2.0 if module.probed else 1.0
    if mode("noise") or (mode("wrong") and module.probed):
        address = int.from_bytes(data[min(1, len(data) - 1)], "little")
        (first,) = MACHINE.read(address, 1)
        MACHINE.write(address, bytes([first + 1 + int(clock) % 100 & 255]))
    return (OK,)


def cuEventCreate(flags: int) -> Any:
    return OK, [0.0]


def cuEventRecord(event: list[float], stream: int) -> Any:
    event[0] = clock
    return (OK,)


def cuEventSynchronize(event: list[float]) -> Any:
    return (spoilt,)


def cuEventElapsedTime(first: list[float], last: list[float]) -> Any:
    return OK, last[0] - first[0]
