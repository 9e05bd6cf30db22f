"""The machine behind the driver's interface, where the environment says in STAND_IN what goes wrong, and a clock that tells what ran.

A kernel takes a second by this clock, an instrumented one two; the instrumented one has 20 registers, others 16.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

from ptxkit.machine.driver import STATE, images
from ptxkit.machine.driver.memory import held
from ptxkit.machine.driver.modules import Function, Loaded
from ptxkit.machine.driver.python import MODULE

CUresult = MODULE.CUresult
clock = 0.0
moments: dict[int, float] = {}


def __getattr__(name: str) -> Any:
    return getattr(MODULE, name)


def left() -> list[int]:
    """The addresses that nobody has given back."""
    return list(held())


def mode(word: str) -> bool:
    return word in os.environ.get("STAND_IN", "").split(",")


def which(loaded: Loaded) -> str:
    return "instrumented" if "ptxkit+" in loaded.codes[0].module.text else "original"


def cuInit(flags: int) -> Any:
    return (CUresult.CUDA_ERROR_NO_DEVICE,) if mode("no device") else MODULE.cuInit(flags)


def cuDeviceGetCount() -> Any:
    return CUresult.CUDA_SUCCESS, 0 if mode("no gpu") else 1


def cuModuleLoadDataEx(source: bytes, count: int, options: list[Any], values: list[Any]) -> Any:
    (text,) = images.of(source)
    kind = "instrumented" if "ptxkit+" in text else "original"
    if mode(f"refuse {kind}"):
        log = values[options.index(MODULE.CUjit_option.CU_JIT_ERROR_LOG_BUFFER)]
        log[:21] = b"ptxas fatal : no good"
        return CUresult.CUDA_ERROR_INVALID_PTX, None
    if mode(f"crash {kind}"):
        os.abort()
    return MODULE.cuModuleLoadDataEx(source, count, options, values)


def cuFuncGetAttribute(kind: int, function: int) -> Any:
    return CUresult.CUDA_SUCCESS, 20 if which(STATE.of(function, Function).of) == "instrumented" else 16


def cuMemAlloc(size: int) -> Any:
    return (CUresult.CUDA_ERROR_OUT_OF_MEMORY, None) if mode("no memory") else MODULE.cuMemAlloc(size)


def cuLaunchKernelEx(config: Any, function: int, pointers: int, extra: int) -> Any:
    global clock
    one = STATE.of(function, Function)
    is_probed = which(one.of) == "instrumented"
    if mode(f"hang {which(one.of)}"):
        time.sleep(1000)
    found = MODULE.cuLaunchKernelEx(config, function, pointers, extra)
    clock += 2.0 if is_probed else 1.0
    if mode("noise") or (mode("wrong") and is_probed):
        places = ctypes.cast(pointers, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))
        byte = ctypes.c_uint8.from_address(places[min(1, len(one.parameters) - 1)][0])
        byte.value = byte.value + 1 + int(clock) % 100 & 255
    return found


def cuEventRecord(event: int, stream: int) -> Any:
    moments[event] = clock
    return MODULE.cuEventRecord(event, stream)


def cuEventElapsedTime(first: int, last: int) -> Any:
    return CUresult.CUDA_SUCCESS, moments[last] - moments[first]
