"""Declarations of driver functions: their names, parameters and results.

    @call("*q q", "cuMemAlloc_v2")
    def cuMemAlloc(size): ...

A letter for each parameter of the C function: `i` int, `u` unsigned int, `q` 64 bits (`size_t`, an address, a handle), `f` float, `s` a
zero-terminated string. A `*` before the letter marks an output, which is written unless the address is null. The Python function receives
the inputs and returns the outputs, in order. It raises `Failure` for every result other than CUDA_SUCCESS.
"""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable
from typing import Any

from ptxkit.frozen import frozen
from ptxkit.machine.driver.errors import CODES
from ptxkit.machine.fault import Fault

KINDS: dict[str, Any] = {"i": ctypes.c_int, "u": ctypes.c_uint32, "q": ctypes.c_uint64, "f": ctypes.c_float, "s": ctypes.c_char_p}


class Failure(Exception):
    """A result other than CUDA_SUCCESS, by its name without the prefix `CUDA_ERROR_`. The reason, if any, is logged."""

    def __init__(self, name: str, reason: str = "") -> None:
        super().__init__(name, reason)
        self.code = CODES[f"CUDA_ERROR_{name}"]
        self.reason = reason


@frozen
class Call:
    """A function of the driver. `names` are its names in C, `since` the CUDA version that introduced this form; if `settles`, it reports
    the outcome of earlier launches."""

    name: str
    kinds: tuple[str, ...]
    run: Callable[..., Any]
    names: tuple[str, ...]
    since: int = 0
    settles: bool = False


CALLS: dict[str, Call] = {}
"""By each of their names in C."""

BY_BASE: dict[str, list[Call]] = {}
"""By the name without a version, newest first."""

LOG: list[str] = []
"""Reasons of failed calls, most recent last."""

SPOILT: list[int] = []
"""The error of an earlier launch, after which all calls fail."""


def call(
    kinds: str, *names: str, since: int = 0, base: str = "", settles: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares a function of the driver. `names` are further names in C; `base` the name without version, by default that of the
    function."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        made = Call(name, tuple(kinds.split()), function, (name, *names), since, settles)
        for one in made.names:
            CALLS[one] = made
        of_base = BY_BASE.setdefault(base or name, [])
        of_base.append(made)
        of_base.sort(key=lambda one: -one.since)
        return function

    return declare


def called(one: Call, given: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
    """The result code of a function, and its outputs."""
    if one.settles and SPOILT:
        return SPOILT[0], ()
    try:
        found = one.run(*given)
    except Failure as failure:
        if failure.reason:
            LOG.append(f"{one.name}: {failure.reason}")
        return failure.code, ()
    except Fault as fault:
        LOG.append(f"{one.name}: {fault.reason}")
        return CODES["CUDA_ERROR_OUT_OF_MEMORY" if fault.kind == "memory" else "CUDA_ERROR_INVALID_VALUE"], ()
    except MemoryError:
        return CODES["CUDA_ERROR_OUT_OF_MEMORY"], ()
    except Exception:  # no exception may pass through C
        LOG.append(f"{one.name}: {traceback.format_exc()}")
        return CODES["CUDA_ERROR_UNKNOWN"], ()
    return 0, found if isinstance(found, tuple) else (found,)


def as_c(one: Call) -> Any:
    """The function as a C callback."""
    kinds = one.kinds
    inputs = [i for i, kind in enumerate(kinds) if kind[0] != "*"]
    outputs = [(i, KINDS[kind[1]]) for i, kind in enumerate(kinds) if kind[0] == "*"]

    def entry(*given: Any) -> int:
        code, found = called(one, tuple([given[i] for i in inputs]))
        if not code:
            for (i, kind), value in zip(outputs, found, strict=False):
                if given[i]:
                    kind.from_address(given[i]).value = value
        return code

    types = [ctypes.c_uint64 if kind[0] == "*" else KINDS[kind] for kind in kinds]
    return ctypes.CFUNCTYPE(ctypes.c_int, *types)(entry)


def absent(name: str, note: Callable[[str], None]) -> Any:
    """The C callback for an unsupported function: it records the name and returns CUDA_ERROR_NOT_SUPPORTED."""

    def entry() -> int:
        note(name)
        return CODES["CUDA_ERROR_NOT_SUPPORTED"]

    return ctypes.CFUNCTYPE(ctypes.c_int)(entry)
