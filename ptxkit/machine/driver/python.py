"""A replacement for `cuda.bindings.driver` if cuda-bindings is not installed: same names, enumerations and results.

Each function returns a tuple that starts with the result code. Addresses may be numbers, or objects with the buffer protocol.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import importlib.machinery
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.driver import enumerations, errors
from ptxkit.machine.driver.interface import CALLS, Call, called
from ptxkit.machine.driver.launching import Attribute, Config


def package(name: str) -> types.ModuleType:
    """An empty package of that name."""
    made = types.ModuleType(name)
    made.__path__ = []
    made.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    return made


class Python(types.ModuleType):
    """The module; functions and enumerations are created on demand."""

    def __getattr__(self, name: str) -> Any:
        found = _attribute(name)
        setattr(self, name, found)
        return found


@functools.cache
def results() -> Any:
    """The enumeration CUresult."""
    return enum.IntEnum("CUresult", errors.CODES)


def _attribute(name: str) -> Any:
    if name in _WRITTEN:
        return _WRITTEN[name]
    if name == "CUresult":
        return results()
    if name in enumerations.NAMES:
        return enumerations.enumeration(name)
    if name in _HANDLES:
        return int
    if name == "CUlaunchConfig":
        return CUlaunchConfig
    if name == "CUlaunchAttribute":
        return CUlaunchAttribute
    if name in CALLS:
        return function(CALLS[name])
    raise AttributeError(f"module 'cuda.bindings.driver' has no attribute {name!r}; ptxkit.machine.driver stands in for it")


_HANDLES = frozenset(
    (
        "CUcontext", "CUdevice", "CUdeviceptr", "CUevent", "CUfunction", "CUkernel", "CUlibrary", "CUlinkState", "CUmemoryPool", "CUmodule",
        "CUstream",
    )
)  # fmt: skip


def function(one: Call) -> Callable[..., tuple[Any, ...]]:
    """A function of the driver, for Python callers."""
    inputs = [kind for kind in one.kinds if kind[0] != "*"]
    outputs = len(one.kinds) - len(inputs)

    def run(*given: Any) -> tuple[Any, ...]:
        if len(given) != len(inputs):
            raise TypeError(f"{one.name}() takes {len(inputs)} arguments, {len(given)} are given")
        code, found = called(one, tuple([_input(kind, value) for kind, value in zip(inputs, given, strict=True)]))
        return _result(code), *(found[:outputs] if not code else (None,) * outputs)

    run.__name__ = one.name
    return run


def _result(code: int) -> Any:
    return results()(code)


def _input(kind: str, value: Any) -> Any:
    if kind == "s":
        return bytes(value)
    if kind == "f":
        return float(value)
    return _address(value) if kind == "q" else int(value)


def _address(value: Any) -> int:
    """A number, a handle, or the address of an object's bytes."""
    if value is None:
        return 0
    if isinstance(value, ctypes.Structure | ctypes.Array):
        return ctypes.addressof(value)
    if isinstance(value, bytes):
        return ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value or 0
    if isinstance(value, np.ndarray):
        return int(value.ctypes.data)
    if hasattr(value, "__int__"):
        return int(value)
    view = memoryview(value)
    if view.readonly:
        return int(np.frombuffer(view, np.uint8).ctypes.data)
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


# --- what Python is given in another form than C


def _text_of(name: str) -> Callable[..., tuple[Any, ...]]:
    """A wrapper that returns a string instead of its address."""

    def run(*given: Any) -> tuple[Any, ...]:
        code, address = function(CALLS[name])(*given)
        return code, None if code else ctypes.string_at(address)

    return run


def _device_name(size: int, device: int) -> tuple[Any, Any]:
    text = ctypes.create_string_buffer(max(size, 1))
    (code,) = function(CALLS["cuDeviceGetName"])(text, size, device)
    return code, None if code else text.raw[:size]


def _with_options(name: str) -> Callable[..., tuple[Any, ...]]:
    """A compiling function: image, number of options, the options, their values (numbers, or buffers for the log)."""

    def run(image: Any, count: int, options: Any, values: Any) -> tuple[Any, ...]:
        kinds = (ctypes.c_uint32 * max(count, 1))(*[int(option) for option in options])
        given = (ctypes.c_uint64 * max(count, 1))(*[_address(value) for value in values])
        return function(CALLS[name])(image, count, kinds, given)

    return run


def _pointer_attribute(kind: Any, address: Any) -> tuple[Any, Any]:
    place = ctypes.c_uint64()
    (code,) = function(CALLS["cuPointerGetAttribute"])(ctypes.addressof(place), kind, address)
    return code, None if code else place.value


_WRITTEN: dict[str, Any] = {
    "cuGetErrorName": _text_of("cuGetErrorName"),
    "cuGetErrorString": _text_of("cuGetErrorString"),
    "cuKernelGetName": _text_of("cuKernelGetName"),
    "cuFuncGetName": _text_of("cuFuncGetName"),
    "cuDeviceGetName": _device_name,
    "cuModuleLoadDataEx": _with_options("cuModuleLoadDataEx"),
    "cuPointerGetAttribute": _pointer_attribute,
}


class _Dimensions:
    """Three numbers of a structure, by axis."""

    numbers: Any

    def __init__(self, numbers: Any) -> None:
        object.__setattr__(self, "numbers", numbers)

    def __setattr__(self, axis: str, value: int) -> None:
        self.numbers["xyz".index(axis)] = value


class _Value:
    """The value of a launch attribute."""

    numbers: Any
    clusterDim: Any

    def __init__(self, numbers: Any) -> None:
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "clusterDim", _Dimensions(numbers))

    def __setattr__(self, name: str, value: int) -> None:
        self.numbers[0] = value


class CUlaunchAttribute:
    """A launch attribute; `value.clusterDim.x` and so on, or another number of `value`, can be set."""

    made: Attribute
    value: Any

    def __init__(self) -> None:
        object.__setattr__(self, "made", Attribute())
        object.__setattr__(self, "value", _Value(self.made.value))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.made, name, int(value))


class CUlaunchConfig:
    """The configuration of a launch, for cuLaunchKernelEx."""

    made: Config

    _FIELDS = {f"{what}Dim{axis}": (what, i) for what in ("grid", "block") for i, axis in enumerate("XYZ")}

    def __init__(self) -> None:
        object.__setattr__(self, "made", Config())

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._FIELDS:
            what, i = self._FIELDS[name]
            getattr(self.made, what)[i] = value
        elif name == "attrs":
            held = (Attribute * max(len(value), 1))(*[one.made for one in value])
            object.__setattr__(self, "held", held)
            self.made.attributes = ctypes.addressof(held)
        else:
            setattr(self.made, {"sharedMemBytes": "shared", "hStream": "stream", "numAttrs": "count"}[name], int(value))

    def __int__(self) -> int:
        return ctypes.addressof(self.made)


MODULE = Python("cuda.bindings.driver")
