"""The CUDA driver's interface, with the machine as the only device.

    from ptxkit.machine import driver

    driver.install("sm_90a")           # libcuda.so.1 of this process
    import cuda.core                   # and all that use the driver

After `install`, programs of this process that load `libcuda.so.1` get functions that are written here: so `cuda.bindings.driver`,
cuda.core, numba-cuda, or tinygrad work as they are. Without cuda-bindings, or where no library can be made, `cuda.bindings.driver`
is a module of the same names, enumerations and results (`python.py`).

What was found, and what went wrong, is in `STATE`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ptxkit.machine.driver import (
    arrays,
    contexts,
    copies,
    devices,
    graph_calls,
    graph_edges,
    graph_executables,
    hints,
    launching,
    library,
    memory,
    modules,
    nvrtc,
    pools,
    python,
    resources,
    runtime,
    streams,
    tensor_maps,
    virtual,
)
from ptxkit.machine.driver.interface import BY_BASE, CALLS, LOG, Failure, absent, as_c, call
from ptxkit.machine.driver.python import Python
from ptxkit.machine.driver.state import DEFAULT_TARGET, STATE, Settings

_PARTS = (
    arrays, contexts, copies, devices, graph_calls, graph_edges, graph_executables, hints, launching, memory, modules, pools, resources,
    streams, tensor_maps, virtual,
)  # fmt: skip
"""Importing them declares their functions."""

SONAME = "libcuda.so.1"

_functions: dict[str, Any] = {}
"""The C callbacks, by name; kept for the life of the process."""

_installed: list[Any] = []


def install(
    target: str = DEFAULT_TARGET,
    checks: str | Sequence[str] = (),
    schedule: str | int | None = None,
    seconds: float | None = None,
) -> None:
    """Makes the machine the GPU of this process. `checks`, `schedule` and `seconds` (the time budget) apply to each launch.

    Raises OSError if a driver has already been loaded.
    """
    STATE.settings = Settings(target, (checks,) if isinstance(checks, str) else tuple(checks), schedule, seconds)
    if _installed:
        STATE.clear()
        return
    if library.supported() and has_bindings():
        _installed.append(library.load(SONAME, CALLS, address))
        _installed.append(nvrtc.install())
        runtime.install()
        return
    module = Python("cuda.bindings.driver")
    _installed.append(module)
    packages = [python.package(name) for name in ("cuda", "cuda.bindings")]
    for package in packages:
        sys.modules.setdefault(package.__name__, package)
    sys.modules["cuda.bindings.driver"] = module
    sys.modules["cuda.bindings"].driver = module  # type: ignore[attr-defined]


def has_bindings() -> bool:
    """Whether cuda-bindings is installed."""
    try:
        return importlib.util.find_spec("cuda.bindings.driver") is not None
    except (ImportError, ValueError):
        return False


def address(name: str) -> int:
    """The address of a function for C callers; for an unsupported one, a stub that returns CUDA_ERROR_NOT_SUPPORTED."""
    found = _functions.get(name)
    if found is None:
        found = _functions[name] = as_c(CALLS[name]) if name in CALLS else absent(name, _note)
    return ctypes.cast(found, ctypes.c_void_p).value or 0


def _note(name: str) -> None:
    STATE.absent[name] = STATE.absent.get(name, 0) + 1
    LOG.append(f"{name}: not here")


def _named(name: str, version: int) -> str:
    """The version of a function that a program for a CUDA version expects."""
    if name in CALLS and name not in BY_BASE:
        return name
    forms = BY_BASE.get(name, ())
    return next((one.name for one in forms if one.since <= version), name)


@call("s *q i q", base="cuGetProcAddress")
def cuGetProcAddress(name: bytes, version: int, flags: int) -> int:
    return _found(name, version)


@call("s *q i q *i", since=12000, base="cuGetProcAddress")
def cuGetProcAddress_v2(name: bytes, version: int, flags: int) -> tuple[int, int]:
    return _found(name, version), 0


def _found(name: bytes, version: int) -> int:
    word = name.decode(errors="replace")
    if not word.startswith("cu"):
        raise Failure("NOT_FOUND")
    name_in_c = _named(word, version)
    loaded = next((one for one in _installed if isinstance(one, ctypes.CDLL)), None)
    if loaded is None or name_in_c not in CALLS:
        return address(name_in_c)
    # that of the library, which does nothing once the interpreter has exited
    return ctypes.cast(loaded[name_in_c], ctypes.c_void_p).value or 0


@call("*q q")
def cuGetExportTable(identifier: int) -> int:
    raise Failure("NOT_SUPPORTED")


__all__ = ["LOG", "SONAME", "STATE", "address", "has_bindings", "install"]


def __getattr__(name: str) -> Callable[..., Any]:
    """The functions and enumerations, as in cuda.bindings.driver."""
    return getattr(python.MODULE, name)  # type: ignore[no-any-return]
