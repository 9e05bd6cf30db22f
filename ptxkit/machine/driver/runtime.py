"""The few functions of `cuda.bindings.runtime` that cuda.core calls. The runtime library requests undocumented tables from the driver,
so it does not work here; these functions are replaced when the module is imported."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from ptxkit.machine.driver.devices import VERSION
from ptxkit.machine.driver.interface import CALLS, called

NAME = "cuda.bindings.runtime"

_AS_DRIVER = {"cudaDeviceSynchronize": "cuCtxSynchronize", "cudaGetDeviceCount": "cuDeviceGetCount", "cudaGetDevice": "cuCtxGetDevice"}
"""Functions equivalent to one of the driver; their error numbers are the same."""


def _replace(module: ModuleType) -> None:
    results: Any = module.cudaError_t

    def of_driver(name: str) -> Callable[..., tuple[Any, ...]]:
        def run(*given: Any) -> tuple[Any, ...]:
            code, found = called(CALLS[name], given)
            return results(code), *[one for one in found if one is not None]

        return run

    for name, own in _AS_DRIVER.items():
        setattr(module, name, of_driver(own))
    success = results(0)

    def bus_id(size: int, device: int) -> tuple[Any, Any]:
        text = ctypes.create_string_buffer(max(size, 1))
        code, _ = called(CALLS["cuDeviceGetPCIBusId"], (ctypes.addressof(text), size, device))
        return results(code), None if code else text.value

    module.cudaDeviceGetPCIBusId = bus_id  # type: ignore[attr-defined]
    module.cudaDeviceGetAttribute = lambda kind, device: of_driver("cuDeviceGetAttribute")(int(kind), device)  # type: ignore[attr-defined]
    module.cudaSetDevice = lambda device: (success,)  # type: ignore[attr-defined]
    module.cudaDriverGetVersion = lambda: (success, VERSION)  # type: ignore[attr-defined]


class _Finder:
    """Finds the module in the usual manner, and patches it after execution."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            _replace(module)

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Patches the module, now or on import."""
    if NAME in sys.modules:
        _replace(sys.modules[NAME])
    else:
        sys.meta_path.insert(0, _Finder())
